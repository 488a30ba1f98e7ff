"""The section of metrics: table, charts, and the glossary."""

from __future__ import annotations

from typing import Any

import pytest
from page_blocks import by_metric, charts, headings, page, said, table
from page_examples import ok, run_documents

from evenhand.tasks.pages import formats
from evenhand.tasks.pages.page_model import Terms

METRICS = run_documents()["metrics"]["metrics"]


@pytest.fixture
def documents() -> dict[str, Any]:
    return run_documents()


# metrics


def test_every_metric_is_in_the_table_with_interval_and_paper(
    documents: dict[str, Any],
) -> None:
    found = by_metric(
        table(
            page("run", documents)["metrics"],
            "All metrics with their 95% intervals, compared with Vargo et al. 2021",
        )
    )
    for name, metric in METRICS.items():
        if metric["value"] is not None:
            ends = formats.interval(metric["low"], metric["high"])
            assert found[name][0] == f"{formats.number(metric['value'])} | {ends}"
    assert found["balanced_accuracy"][1:] == ["0.815 ± 0.005", "+0.0004"]
    assert found["auc"][1:] == ["not in the paper"]
    assert found["gap_rms.race"] == ["not measured", "0.072", "cannot be computed"]
    # a metric without evidence is never a number
    reason = "not enough evidence | age: 1 cell of 6 has fewer than 25 rows"
    assert found["equal_opportunity_difference.age"] == [
        reason,
        "0.300 ± 0.100",
        "cannot be computed",
    ]


def test_without_a_paper_there_is_no_column_for_it(documents: dict[str, Any]) -> None:
    documents["run"]["paper"] = None
    section = page("run", documents)["metrics"]
    assert table(section, "All metrics").columns == ["Metric", "Model"]
    assert "Diamonds" not in said(section)
    assert by_metric(table(section, "All metrics"))["auc"] == ["0.902 | 0.895 to 0.909"]


def test_charts_hold_one_direction_and_no_intersections(
    documents: dict[str, Any],
) -> None:
    documents["metrics"]["metrics"] |= {
        "gap_max.sex&race": ok(0.2, 0.1),
        "smallest_growth": ok(2.0, 0.1),
    }
    documents["metrics"]["counts"]["sex&race"] = documents["metrics"]["counts"]["sex"]
    section = page("run", documents)["metrics"]
    first, growth, lower = charts(section)
    assert headings(section)[:3] == [
        "Higher is better",
        "Growth in times: higher is better",
        "Lower is better",
    ]
    assert [row["label"] for row in growth.data["rows"]] == ["Growth of the rarest group"]
    assert not any("sex and race" in row["label"] for row in lower.data["rows"])
    assert "1 metric of intersections of attributes is in the table only." in said(section)
    row = next(row for row in first.data["rows"] if row["label"] == "Balanced accuracy")
    assert (row["value"], row["paper"], row["paper_sd"], row["limit"]) == (
        0.8154,
        0.815,
        0.005,
        0.8,
    )
    assert (first.data["ceiling"], lower.data["floor"]) == (1.0, 0.0)
    assert "Counterfactual consistency over spouse 0.944" in first.description
    assert "Equal opportunity difference by age not enough evidence" in lower.description


def test_a_run_without_metrics_has_no_such_section(documents: dict[str, Any]) -> None:
    documents["metrics"]["metrics"] = {}
    assert "metrics" not in page("run", documents)


def test_the_glossary_explains_a_kind_once(
    documents: dict[str, Any],
) -> None:
    """One entry serves all its attributes."""
    names = [
        "auc",
        "gap_max.sex",
        "gap_max.race",
        "gap_max.sex&race",
        "consistency.a",
        "consistency.b",
        "own",
    ]
    documents["metrics"]["metrics"] = {name: ok(0.5, 0.1) for name in names}
    (terms,) = [
        block for block in page("run", documents)["metrics"].blocks if isinstance(block, Terms)
    ]
    assert [entry[:2] for entry in terms.entries] == [
        ("Area under the ROC curve", "higher is better"),
        ("Largest gap in error rates", "lower is better"),
        ("Counterfactual consistency", "higher is better"),
    ]
    explained = [entry[2] for entry in terms.entries]
    assert "by sex, race or sex and race in" in explained[1]
    assert "copy “a or b” of their row" in explained[2]
    assert all("Formula: `" in text and "{" not in text for text in explained)
