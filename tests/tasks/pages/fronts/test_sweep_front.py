"""The page of a sweep: its headline, trade-offs, all numbers, the runs."""

from __future__ import annotations

from typing import Any

import pytest
from page_blocks import charts, page, rows, said, table, tables
from sweep_documents import LACKING, asked_documents, documents_of, sweep_documents, trained

from evenhand.flows.sweep import make_grid, tradeoffs
from evenhand.tasks.pages import formats
from evenhand.tasks.pages.build import build, cells
from evenhand.tasks.pages.fronts.sweep_front import estimate, headline, interval_name
from evenhand.tasks.pages.page_model import Section


def parts(documents: dict[str, Any]) -> dict[str, Section]:
    return page("sweep", documents)


def titles(sections: dict[str, Section]) -> str:
    """Titles of all charts."""
    return "; ".join(chart.title for section in sections.values() for chart in charts(section))


def test_sections_come_in_the_order_of_reading() -> None:
    assert list(parts(sweep_documents())) == ["tradeoffs", "numbers", "runs", "made"]
    assert list(parts(sweep_documents("method=gbdt,reweigh")))[0] == "methods"


# the front


def test_the_two_ends_are_named() -> None:
    sweep = sweep_documents()["tradeoff"]
    means = {value["label"]: value["metrics"] for value in sweep["values"]}
    sentences = headline(sweep)
    assert sentences[0] == "9 runs of adult-gbdt: 3 values of method.eta, 3 seeds each."
    best = formats.number(means["0.4"]["balanced_accuracy"]["mean"])
    assert sentences[1].startswith(f"Balanced accuracy is best at method.eta 0.4 ({best})")
    fair = formats.number(means["0.1"]["consistency.spouse"]["mean"])
    assert f"that is best at method.eta 0.1 ({fair})" in sentences[1]
    assert "may be chance" not in sentences[1], "no interval overlaps another"
    assert len(sentences) == 2


def test_overlapping_intervals_and_a_missing_trade_off_are_named() -> None:
    sweep = sweep_documents()["tradeoff"]
    for value in sweep["values"]:
        value["metrics"]["balanced_accuracy"] |= {"low": 0.0, "high": 1.0}
    assert "overlap in balanced accuracy: that difference may be chance" in headline(sweep)[1]
    for value in sweep["values"]:
        value["metrics"]["consistency.spouse"] |= {
            "mean": value["metrics"]["balanced_accuracy"]["mean"]
        }
    assert "0.4 has both the best balanced accuracy" in headline(sweep)[1]
    assert "there is no trade-off between the two" in headline(sweep)[1]


def test_failed_runs_are_in_the_badge_and_the_sentences() -> None:
    failed = build("sweep", sweep_documents(error="disk full")).front
    assert failed.badge == ("refused", "\u2715", "1 of 9 runs failed")
    assert failed.headline[0] == (
        "9 runs of adult-gbdt: 3 values of method.eta, 3 seeds each. 1 run failed."
    )
    assert build("sweep", sweep_documents()).front.badge == (
        "passed",
        "\u2713",
        "All runs finished",
    )


def test_the_intervals_are_named_for_what_they_are() -> None:
    one, three = (sweep_documents(seeds=seeds)["tradeoff"] for seeds in (1, 3))
    assert interval_name(one) == "95% interval of the one run (bootstrap over its test rows)"
    assert interval_name(three) == "95% interval of the mean over 3 seeds (Student’s t)"


# the trade-offs


def test_each_fairness_metric_has_a_chart_with_its_means() -> None:
    documents = sweep_documents()
    section = parts(documents)["tradeoffs"]
    assert [chart.title for chart in charts(section)] == [
        "Balanced accuracy against Counterfactual consistency over spouse",
        "Balanced accuracy against Largest gap in error rates by sex",
        "Balanced accuracy against Theil index of benefits",
    ]
    first = charts(section)[0]
    for mark, value in zip(first.data["rows"], documents["tradeoff"]["values"], strict=True):
        for axis, name in (("x", "consistency.spouse"), ("y", "balanced_accuracy")):
            summary = value["metrics"][name]
            assert [mark[axis], mark[f"{axis}_low"], mark[f"{axis}_high"]] == [
                summary["mean"],
                summary["low"],
                summary["high"],
            ]
    assert [mark["kind"] for mark in first.data["rows"]] == ["front"] * 3
    assert rows(table(section, "Values on the Pareto front"))[
        "Counterfactual consistency over spouse"
    ] == ["0.4, 0.1 and 0.2"]


def test_a_value_without_one_of_the_two_metrics_has_no_mark() -> None:
    documents = sweep_documents()
    documents["tradeoff"]["values"][0]["metrics"]["gap_max.sex"] |= {
        "mean": None,
        "low": None,
        "high": None,
    }
    _, second, _ = charts(parts(documents)["tradeoffs"])
    assert [mark["label"] for mark in second.data["rows"]] == ["0.1", "0.2"]


def test_the_features_asked_stand_in_the_numbers() -> None:
    sections = parts(asked_documents())
    (found,) = tables(sections["numbers"])
    assert rows(found) == {
        "0.9": ["3.600 | 3.350 to 3.850"],
        "0.1": ["0.400 | 0.150 to 0.650"],
        "0.5": ["2.000 | 1.750 to 2.250"],
    }


# the numbers


def test_every_number_is_in_a_table_by_value_and_metric() -> None:
    sweep = sweep_documents()["tradeoff"]
    sections = parts(sweep_documents())
    means = {
        (label, found.caption, column): text
        for found in tables(sections["numbers"])
        for label, texts in rows(found).items()
        for column, text in zip(found.columns[1:], texts, strict=True)
    }
    assert len(means) == len(sweep["values"]) * len(sweep["metrics"])
    for value in sweep["values"]:
        for summary in value["metrics"].values():
            ends = formats.interval(summary["low"], summary["high"])
            text = f"{summary['mean']:.3f} ± {summary['sd']:.3f} | {ends}"
            assert text in [
                found for (label, *_), found in means.items() if label == value["label"]
            ]


def test_what_no_run_could_measure_is_named_and_not_drawn() -> None:
    sections = parts(sweep_documents())
    text = said(sections["numbers"])
    assert (
        "Left out, because no run had enough evidence: Root-mean-square gap in error rates by sex"
        in text
    )
    assert "The metrics of intersections of attributes are in the tables only." in text
    drawn = titles(sections)
    assert "Balanced accuracy against Largest gap in error rates by sex" in drawn
    assert "Root-mean-square gap in error rates" not in drawn
    assert "sex and race" not in drawn
    assert any("sex and race" in found.caption for found in tables(sections["numbers"]))


def test_charts_leave_out_values_that_were_not_measured() -> None:
    grid = make_grid("adult-gbdt", ["method.eta=0.4,0.1"], seeds=1)
    results = [trained(point.resolved.arguments["eta"], point.seed) for point in grid.points]
    assert "Largest gap in error rates by sex" in titles(
        parts(documents_of(tradeoffs(grid, results)))
    )
    for result in results:
        result.metrics["gap_max.sex"] = dict(LACKING)
    sections = parts(documents_of(tradeoffs(grid, results)))
    assert "Theil index of benefits" in titles(sections)
    assert "Largest gap in error rates by sex" not in titles(sections)
    assert "Largest gap in error rates by sex" in said(sections["numbers"])


def test_the_runs_have_their_verdicts_times_and_reasons() -> None:
    section = parts(sweep_documents(error="disk full"))["runs"]
    assert rows(table(section, "How many runs")) == {
        "0.4": ["3", "1", "0"],
        "0.1": ["3", "0", "3"],
        "0.2": ["3", "0", "3"],
    }
    every = table(section, "All 9 runs")
    assert every.folded
    found = [[" | ".join((c.text, *c.below)) for c in cells(list(row))] for row in every.rows]
    assert found[0] == ["0.4", "0", "Refused", "1.5 s", "1 of 1"]
    assert found[1] == ["0.4 | disk full", "1", "Failed", "0.00 s", "0 of 0"]
    assert found[3] == ["0.1", "0", "Passed", "1.5 s", "1 of 1"]


def test_how_to_get_the_page_of_one_run_is_said() -> None:
    assert "`evenhand run` with a run’s job, values and seed" in said(
        parts(sweep_documents())["runs"]
    )


def test_intervals_end_where_the_metrics_do() -> None:
    wide = {"mean": 0.5, "low": -0.5, "high": 1.5}
    names = ("accuracy", "imbalance", "kept", "theil_index")
    value = {"metrics": {name: dict(wide) for name in names}}
    ends = {name: estimate(value, name) for name in names}
    assert all(found is not None and found["low"] == 0.0 for found in ends.values())
    assert {name for name, found in ends.items() if found and found["high"] == 1.0} == {
        "accuracy",
        "kept",
    }
    value["metrics"]["accuracy"] = {"mean": None, "low": None, "high": None}
    assert estimate(value, "accuracy") is None
    assert estimate(value, "auc") is None
    assert set(LACKING) == {"value", "low", "high"}


@pytest.mark.parametrize(
    ("items", "most", "expected"),
    [
        (range(4), 6, [0, 1, 2, 3]),
        (range(11), 6, [0, 2, 4, 6, 8, 10]),
        ([3, 5, 6, 9], 3, [3, 6, 9]),
    ],
)
def test_of_many_both_ends_are_among_the_chosen(items: Any, most: int, expected: list[int]) -> None:
    assert formats.evenly(items, most) == expected
