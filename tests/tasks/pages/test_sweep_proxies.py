"""A sweep of proxies: trade-offs held out and in training, the groups of each proxy, what they reveal."""

from __future__ import annotations

from typing import Any

import pytest
from page_blocks import charts, page, rows, said, table, tables
from sweep_documents import GROUPS, proxy_documents, sweep_documents

from evenhand.tasks.pages.model import Chart, Section

BY_METHOD = ("method=proxy,relaxed-proxy", "method.alpha=0.1,0.2")
HELD_OUT, TRAINING = (
    "Imbalance against Disclosivity",
    "Imbalance on the training rows against Disclosivity on the training rows",
)


def section(documents: dict[str, Any], name: str) -> Section:
    return page("sweep", documents)[name]


def shares(documents: dict[str, Any], about: str = "job") -> dict[str, list[str]]:
    return rows(table(section(documents, "groups"), f"Shares by {about} among"))


def columns(documents: dict[str, Any], about: str = "job") -> list[str]:
    return list(table(section(documents, "groups"), f"Shares by {about} among").columns)


def maps(documents: dict[str, Any]) -> list[Chart]:
    return charts(section(documents, "reveals"))


def test_a_sweep_of_classifiers_has_no_such_sections() -> None:
    assert not {"groups", "reveals"} & set(page("sweep", sweep_documents()))
    assert list(page("sweep", proxy_documents()))[:3] == ["tradeoffs", "groups", "reveals"]


def test_both_trade_offs_are_drawn_on_equal_axes_held_out_and_in_training() -> None:
    documents = proxy_documents()
    sweep = documents["tradeoff"]
    assert sweep["fronts"] == {"disclosivity": [0, 1, 2], "disclosivity.train": [0, 1, 2]}
    found = section(documents, "tradeoffs")
    held, train = charts(found)
    assert [held.title, train.title] == [HELD_OUT, TRAINING]
    assert held.data["reach"] == train.data["reach"]
    for axis, place in (("x", 0), ("y", 1)):
        assert sorted(held.data["reach"][place]) == sorted(
            mark[axis] for chart in (held, train) for mark in chart.data["rows"]
        )
    assert "The first is what to expect of new rows." in said(found)


def test_the_metric_to_compare_with_has_no_better_direction() -> None:
    documents = proxy_documents()
    assert documents["tradeoff"]["metrics"]["imbalance_before"] is None
    heads = [head for found in tables(section(documents, "numbers")) for head in found.columns]
    assert "Imbalance before filtering (to compare with)" in heads


def test_one_line_joins_the_values_of_each_method() -> None:
    found = section(proxy_documents(*BY_METHOD), "tradeoffs")
    for chart in charts(found):
        assert [mark["series"] for mark in chart.data["rows"]] == ["proxy"] * 2 + ["relaxed-proxy"] * 2
        assert [mark["label"] for mark in chart.data["rows"]] == ["0.1", "0.2"] * 2
    assert "A line joins the values of one method" in said(found)
    assert "dashed line joins" not in said(found)


@pytest.mark.parametrize("over", ["method=proxy,relaxed-proxy", "method.alpha=0.1,0.2"])
def test_without_several_values_of_a_method_the_line_is_the_front(over: str) -> None:
    found = section(proxy_documents(over), "tradeoffs")
    assert "dashed line joins the Pareto front" in said(found)
    assert {mark["series"] for chart in charts(found) for mark in chart.data["rows"]} == {""}


def test_of_many_values_six_are_shown() -> None:
    documents = proxy_documents("method.alpha=0,0.01,0.02,0.03,0.04,0.05,0.06,0.07", seeds=1)
    assert columns(documents)[3:] == ["0", "0.01", "0.03", "0.04", "0.06", "0.07"]
    assert "of which 6 are shown" in said(section(documents, "groups"))


def test_the_table_of_groups_has_means_over_the_seeds_by_hand() -> None:
    documents = proxy_documents()
    assert columns(documents)[1:] == ["All rows", "Target", "0", "0.1", "0.2"]
    # 0.2 + alpha, and the mean of 0 and 0.01 for the seeds
    assert shares(documents)["student"] == ["20.0%", "50.0%", "20.5%", "30.5%", "40.5%"]
    (chart,) = charts(section(documents, "groups"))
    found = {(row["column"], row["group"]): row for row in chart.data["rows"]}
    assert found["0.1", "student"]["after"] == pytest.approx(0.305)
    assert (found["0.1", "student"]["before"], found["0.1", "student"]["target"]) == (0.2, 0.5)
    assert "the shares are means over the seeds" in said(section(documents, "groups"))


def test_a_share_that_one_seed_hides_stays_hidden() -> None:
    documents = proxy_documents()
    documents["balances"][0]["balance"]["shares_after"][1] = None
    found = shares(documents)
    assert [found[group][2] for group in GROUPS] == ["69.5%", "not available", "not available"]
    assert [found[group][3] for group in GROUPS] == ["59.5%", "30.5%", "not available"]


def test_values_with_other_rows_targets_or_groups_have_their_own_lines() -> None:
    documents = proxy_documents(seeds=1)
    other = documents["balances"][1]["balance"]
    other["target"], other["shares_before"] = [0.4, 0.4, 0.2], [0.6, 0.3, None]
    assert columns(documents)[1:] == ["0", "0.1", "0.2"]
    assert shares(documents)["student"][1] == "30.0% | All rows: 30.0% | Target: 40.0%"
    other["attributes"] = {"job": ["admin", "student", "clerk"]}
    assert list(shares(documents)) == [*GROUPS, "clerk"]
    assert shares(documents)["clerk"][0] == "no such group"
    other["attributes"] = {"sex": ["a", "b", "c"]}
    assert columns(documents)[1:] == ["All rows", "Target", "0", "0.2"]
    assert columns(documents, "sex")[1:] == ["All rows", "Target", "0.1"]


def test_maps_are_of_three_values_that_reveal_something_in_equal_colours() -> None:
    documents = proxy_documents("method.alpha=0,0.1,0.2,0.3,0.4")
    found = maps(documents)
    assert [chart.title.rpartition(" at ")[2] for chart in found] == [
        f"method.alpha {alpha}" for alpha in (0.1, 0.3, 0.4)
    ]
    assert all("seed 0: 2 proxy groups." in chart.caption for chart in found)
    assert "The largest difference is 40.0 percentage points, of “" in found[2].caption
    assert [chart.data["strongest"] for chart in found] == [pytest.approx(0.4)] * 3
    assert "one with a single proxy group reveals nothing" in said(section(documents, "reveals"))


def test_differences_by_hand_largest_proxy_group_first() -> None:
    documents = proxy_documents("method.alpha=0.1", seeds=1)
    (chart,) = maps(documents)
    cells = {(cell["row"], cell["column"]): cell["value"] for cell in chart.data["rows"]}
    assert cells["admin", "1"] == pytest.approx(0.1)
    assert cells["admin", "2"] == pytest.approx(-0.1)
    assert cells["student", "1"] == pytest.approx(-0.1)
    assert cells["unknown", "1"] is None
    documents["balances"][0]["balance"]["compositions"][1] = None
    (chart,) = maps(documents)
    assert {cell["value"] for cell in chart.data["rows"] if cell["column"] == "1"} == {None}


def test_the_first_seed_that_finished_is_drawn() -> None:
    documents = proxy_documents("method.alpha=0.1,0.2", seeds=3)
    documents["balances"] = [p for p in documents["balances"] if (p["value"], p["seed"]) != (0, 0)]
    assert [chart.caption.partition(":")[0].rpartition(", ")[2] for chart in maps(documents)] == [
        "seed 1",
        "seed 0",
    ]


def test_of_many_proxy_groups_the_largest_are_drawn() -> None:
    documents = proxy_documents("method.alpha=0.1", seeds=1)
    many = documents["balances"][0]["balance"]
    many["masses"], many["compositions"] = [1 / 40] * 40, [[0.6, 0.3, None]] * 40
    (chart,) = maps(documents)
    assert "40 proxy groups, of which the largest 24 are drawn." in chart.caption
    assert len({cell["column"] for cell in chart.data["rows"]}) == 24


def test_proxies_that_all_have_one_group_have_no_maps() -> None:
    assert "reveals" not in page("sweep", proxy_documents("method.alpha=0", seeds=1))


def test_without_held_out_evidence_the_training_rows_are_drawn() -> None:
    documents = proxy_documents("method.alpha=0,0.1", seeds=1, lacking=("imbalance", "kept"))
    assert documents["tradeoff"]["fronts"] == {"disclosivity": [], "disclosivity.train": [0, 1]}
    assert [chart.title for chart in charts(section(documents, "tradeoffs"))] == [TRAINING]
