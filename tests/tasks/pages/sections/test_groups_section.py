"""The section of groups: rates, scores, and groups of few rows."""

from __future__ import annotations

from typing import Any

import pytest
from page_blocks import charts, headings, page, rows, said, table, tables
from page_examples import COUNTS, run_documents

RATES = ("Base rate", "Selection rate", "True positive rate (TPR)", "True negative rate (TNR)")


@pytest.fixture
def documents() -> dict[str, Any]:
    return run_documents()


# groups


def test_rates_of_every_group_stand_in_chart_and_table(documents: dict[str, Any]) -> None:
    section = page("run", documents)["rates"]
    assert headings(section) == ["By sex", "By race", "By age"]
    for name, counts in COUNTS.items():
        found = rows(table(section, f"Rates by {name}"))
        for group, n0, p0, n1, p1 in counts:
            assert found[group][0] == f"{n0 + n1:,}"
            assert f"{n1:,} of {n0 + n1:,}" in found[group][1]
            assert f"{p0 + p1:,} of {n0 + n1:,}" in found[group][2]
            assert n1 < 25 or f"{p1:,} of {n1:,}" in found[group][3]
            assert f"{n0 - p0:,} of {n0:,}" in found[group][4]
    chart = charts(section)[0]
    assert [(row["rate"], row["group"]) for row in chart.data["rows"]] == [
        (rate, group) for rate in RATES for group in ("Female", "Male")
    ]
    assert "Selection rate: groups 23.0 percentage points apart" in chart.description


def test_a_rate_over_too_few_rows_is_not_shown_but_its_group_is(documents: dict[str, Any]) -> None:
    section = page("run", documents)["rates"]
    assert "a rate over fewer than 25 rows is not shown" in said(section)
    few = rows(table(section, "Rates by age"))["<25"]
    assert few[0] == "1,371"
    assert few[1].startswith("1.5% | 21 of 1,371")
    assert few[2].startswith("0.7% | 10 of 1,371")
    assert few[3] == "too few rows | 21"
    assert few[4].startswith("99.7% | 1,346 of 1,350")
    drawn = {(row["rate"], row["group"]): row["value"] for row in charts(section)[2].data["rows"]}
    assert drawn["True positive rate (TPR)", "<25"] is None


def test_of_many_groups_the_largest_are_drawn(
    documents: dict[str, Any],
) -> None:
    """All are in the table."""
    cells = [
        {"group": f"g{i}", "label": 1, "n": 100 + i, "predicted_positive": 50} for i in range(11)
    ]
    documents["metrics"]["counts"] = {"town": cells, "town&sex": cells, "sex": cells[:1]}
    section = page("run", documents)["rates"]
    first, second = charts(section)
    assert {row["group"] for row in first.data["rows"]} == {f"g{i}" for i in range(3, 11)}
    assert first.caption == "The largest groups; 3 more are in the table."
    assert len(tables(section)[0].rows) == 11
    # one group has nothing to be compared with
    assert "Selection rate: nothing to compare" in second.description


# scores


def test_scores_of_every_shown_group_stand_in_chart_and_table(documents: dict[str, Any]) -> None:
    section = page("run", documents)["scores"]
    for name, histogram in documents["histograms"].items():
        found = table(section, f"Scores by {name}")
        shown = [group for group, counts in histogram["groups"].items() if counts]
        assert found.folded
        assert found.columns == ["Score", *shown, "All shown groups"]
        for group in shown:
            counts = histogram["groups"][group]
            column = [row[found.columns.index(group)] for row in found.rows]
            assert [cell.below[0] for cell in column] == [f"{n:,}" for n in counts]
            assert [cell.text for cell in column] == [
                f"{100 * n / sum(counts):.1f}%" for n in counts
            ]
    female, male, *_ = charts(section)
    assert sum(female.data["shares"]) == pytest.approx(1.0)
    assert female.data["top"] == male.data["top"] >= max(female.data["shares"])
    assert female.caption == "Female: 2,924 rows"
    assert "The fullest range is " in female.description


def test_groups_with_hidden_scores_are_named(documents: dict[str, Any]) -> None:
    section = page("run", documents)["scores"]
    assert "Not shown because there are too few rows: <25." in said(section)
    assert "<25" not in table(section, "Scores by age").columns
    documents["histograms"] = {"age": {"edges": [0, 1], "groups": {"a": None, "b": [0]}}}
    section = page("run", documents)["scores"]
    assert "too few rows: a, b." in said(section)
    assert not charts(section)


def test_a_big_run_keeps_every_group(documents: dict[str, Any]) -> None:
    attributes = [f"attribute_{i}" for i in range(6)]
    crossed = [f"{a}&{b}" for i, a in enumerate(attributes) for b in attributes[i + 1 :]]
    documents["metrics"]["counts"] = {
        name: [
            {"group": f"{name} group {g}", "label": label, "n": 900 + g, "predicted_positive": 300}
            for g in range(15)
            for label in (0, 1)
        ]
        for name in attributes + crossed
    }
    section = page("run", documents)["rates"]
    heads = {row[0] for found in tables(section) for row in found.rows}
    assert heads == {f"{name} group {g}" for name in attributes + crossed for g in range(15)}
    assert len(charts(section)) == 6
