"""Charts of trade-offs: the front, series, wide intervals, and labels that do not overlap."""

from __future__ import annotations

from typing import Any

import pytest

from evenhand.fairlib.plots import tradeoffs


def layer_of(spec: dict[str, Any], kind: str) -> dict[str, Any]:
    """First layer with this mark."""
    return next(layer for layer in spec["layer"] if layer["mark"]["type"] == kind)


# trade-offs


def mark(label: str, x: float, y: float, kind: str = "other", **others: Any) -> dict[str, Any]:
    ends = dict.fromkeys(("x_low", "x_high", "y_low", "y_high"))
    return {"label": label, "x": x, "y": y, "kind": kind, "series": "", **ends, **others}


def test_the_front_is_joined_in_order_of_x() -> None:
    """Limits are lines."""
    rows = [mark("b", 0.2, 0.7, "front"), mark("a", 0.1, 0.6, "best"), mark("c", 0.3, 0.5)]
    spec = tradeoffs.tradeoff(rows, x_title="x", y_title="y", x_limits=[0.4]).to_dict()
    line = layer_of(spec, "line")
    assert [row["label"] for row in line["data"]["values"]] == ["a", "b"]
    assert spec["layer"][0]["data"]["values"] == [{"x": 0.4}]
    points = layer_of(spec, "point")
    assert points["encoding"]["color"]["scale"]["domain"] == [
        "not on the front",
        "on the Pareto front",
        "best under the limits",
    ]
    low, high = points["encoding"]["x"]["scale"]["domain"]
    assert low < 0.1 < 0.4 < high


def test_with_series_a_line_joins_each_in_the_given_order() -> None:
    rows = [mark("2", 0.3, 0.7, series="proxy"), mark("1", 0.1, 0.6, series="proxy")]
    spec = tradeoffs.tradeoff(rows, x_title="x", y_title="y").to_dict()
    line = layer_of(spec, "line")
    assert line["encoding"]["order"]["field"] == "place"
    assert [row["label"] for row in line["data"]["values"]] == ["2", "1"]


def test_an_interval_many_times_as_wide_as_the_values_is_cut() -> None:
    wide = mark("a", 0.5, 0.5, x_low=0.0, x_high=1.0)
    low, high = tradeoffs.covering([wide, mark("b", 0.51, 0.6)], "x", [], 3.0)
    assert 0.45 < low < high < 0.56
    assert tradeoffs.covering([wide], "x", [], 3.0) == [0.0, pytest.approx(1.04)]
    equal = tradeoffs.covering([mark("a", 0.5, 0.5)], "x", [], 3.0)
    assert equal[0] < 0.5 < equal[1]
    # numbers that differ by rounding alone are as good as equal
    rounded = tradeoffs.covering([mark("a", 0.5, 0.5), mark("b", 0.5 + 1e-13, 0.5)], "x", [], 3.0)
    assert rounded == pytest.approx(equal)
    assert equal[1] - equal[0] > 0.05


def test_labels_do_not_overlap_and_the_best_has_its_label_first() -> None:
    rows = [mark(f"value {i}", 0.5, 0.5) for i in range(3)] + [mark("best", 0.5, 0.5, "best")]
    spec = tradeoffs.tradeoff(rows, x_title="x", y_title="y").to_dict()
    texts = [layer for layer in spec["layer"] if layer["mark"]["type"] == "text"]
    assert [row["label"] for row in texts[0]["data"]["values"]] == ["best"]
