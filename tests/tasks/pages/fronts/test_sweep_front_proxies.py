"""A sweep of proxies: trade-offs held out and in training."""

from __future__ import annotations

from typing import Any

import pytest
from page_blocks import charts, page, said, tables
from sweep_documents import proxy_documents

from evenhand.tasks.pages.page_model import Section

BY_METHOD = ("method=proxy,relaxed-proxy", "method.alpha=0.1,0.2")
HELD_OUT, TRAINING = (
    "Imbalance against Disclosivity",
    "Imbalance on the training rows against Disclosivity on the training rows",
)


def section(documents: dict[str, Any], name: str) -> Section:
    return page("sweep", documents)[name]


def test_both_trade_offs_are_drawn_on_equal_axes() -> None:
    """One is held out, the other in training."""
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
        assert [mark["series"] for mark in chart.data["rows"]] == ["proxy"] * 2 + [
            "relaxed-proxy"
        ] * 2
        assert [mark["label"] for mark in chart.data["rows"]] == ["0.1", "0.2"] * 2
    assert "A line joins the values of one method" in said(found)
    assert "dashed line joins" not in said(found)


@pytest.mark.parametrize("over", ["method=proxy,relaxed-proxy", "method.alpha=0.1,0.2"])
def test_with_one_value_per_method_the_line_is_the_front(over: str) -> None:
    found = section(proxy_documents(over), "tradeoffs")
    assert "dashed line joins the Pareto front" in said(found)
    assert {mark["series"] for chart in charts(found) for mark in chart.data["rows"]} == {""}


def test_without_held_out_evidence_the_training_rows_are_drawn() -> None:
    documents = proxy_documents("method.alpha=0,0.1", seeds=1, lacking=("imbalance", "kept"))
    assert documents["tradeoff"]["fronts"] == {"disclosivity": [], "disclosivity.train": [0, 1]}
    assert [chart.title for chart in charts(section(documents, "tradeoffs"))] == [TRAINING]
