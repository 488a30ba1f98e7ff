"""The section of the training: curves that are long, have gaps, or differ in size."""

from __future__ import annotations

from typing import Any

import pytest
from page_blocks import charts, page, rows, table, tables
from page_examples import run_documents

from evenhand.tasks.pages import formats


@pytest.fixture
def documents() -> dict[str, Any]:
    return run_documents()


# training


def test_a_long_training_is_thinned_and_keeps_its_ends(documents: dict[str, Any]) -> None:
    section = page("run", documents)["training"]
    (chart,) = charts(section)
    history = documents["history"]
    assert [row for row in chart.data["rows"] if row["step"] == 1] == [
        {"step": 1, "series": "adversarial loss", "value": history["adversarial_loss"][0]},
        {"step": 1, "series": "loss", "value": history["loss"][0]},
    ]
    found = table(section, "60 of 180 recorded steps")
    assert len(found.rows) == 60
    assert [found.rows[0][0], found.rows[-1][0]] == ["1", "180"]
    assert rows(found)["180"] == [
        formats.number(history[name][-1]) for name in ("adversarial_loss", "loss")
    ]
    assert "loss goes from 0.690 to 0.403" in chart.description


def test_a_training_curve_with_gaps_and_with_one_point(documents: dict[str, Any]) -> None:
    documents["history"] = {"loss": [0.5, None, float("inf")], "adversary_loss": [None, None, None]}
    section = page("run", documents)["training"]
    assert list(rows(tables(section)[0]).values()) == [
        ["0.500"],
        ["not available"],
        ["not available"],
    ]
    assert [row["value"] for row in charts(section)[0].data["rows"]] == [0.5, None, None]
    documents["history"] = {"loss": [2.0]}
    assert rows(tables(page("run", documents)["training"])[0]) == {"1": ["2.000"]}


def test_curves_of_other_sizes_have_charts_of_their_own(documents: dict[str, Any]) -> None:
    documents["history"] = {"adversarial_loss": [100.0, 0.0], "loss": [0.5, 0.4]}
    found = charts(page("run", documents)["training"])
    assert [chart.title for chart in found] == ["adversarial loss by step", "loss by step"]
