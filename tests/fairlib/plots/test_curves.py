"""Charts of curves: gaps, bins with intervals, and the chosen threshold."""

from __future__ import annotations

from typing import Any

import pytest

from evenhand.fairlib.plots.curves import decision_curve, reliability, training_curves
from tests.charts import values

HOSTILE = '<script>alert("1")</script>&\'"'
WIDTHS = pytest.mark.parametrize("width", [680, 330])


def layer_of(spec: dict[str, Any], kind: str) -> dict[str, Any]:
    """First layer with this mark."""
    return next(layer for layer in spec["layer"] if layer["mark"]["type"] == kind)


# training


def test_curves_leave_gaps_and_differ_in_colour_and_dash() -> None:
    rows = [
        {"step": 1, "series": "loss", "value": 0.5},
        {"step": 2, "series": "loss", "value": None},
        {"step": 1, "series": HOSTILE, "value": 0.7},
    ]
    spec = training_curves(rows).to_dict()
    assert [row["value"] for row in values(spec)] == [0.5, None, 0.7]
    for channel in ("color", "strokeDash"):
        first, second = spec["encoding"][channel]["scale"]["range"]
        assert first != second
    assert training_curves(rows[:1]).to_dict()["encoding"]["y"]["title"] == "loss"


# probabilities and decisions


@WIDTHS
def test_reliability_has_a_point_and_an_interval_per_bin(
    width: int,
) -> None:
    """The line of equality is drawn, too."""
    rows = [
        {"series": "F", "mean": 0.2, "share": 0.3, "low": 0.25, "high": 0.35},
        {"series": HOSTILE, "mean": 0.6, "share": 0.5, "low": 0.4, "high": 0.6},
    ]
    spec = reliability(rows, width=width).to_dict()
    assert [layer["mark"]["type"] for layer in spec["layer"]] == ["line", "rule", "line", "point"]
    equal, interval, joined, points = spec["layer"]
    assert [(end["mean"], end["share"]) for end in equal["data"]["values"]] == [
        (0.0, 0.0),
        (1.0, 1.0),
    ]
    for layer in (interval, joined, points):
        assert layer["data"]["values"] == rows
        assert layer["encoding"]["x"]["field"] == "mean"
        assert layer["encoding"]["x"]["scale"]["domain"] == [0, 1]
        assert layer["encoding"]["y"]["scale"]["domain"] == [0, 1]
        assert layer["encoding"]["color"]["scale"]["domain"] == ["F", HOSTILE]
    assert (interval["encoding"]["y"]["field"], interval["encoding"]["y2"]["field"]) == (
        "low",
        "high",
    )
    assert points["encoding"]["y"]["field"] == joined["encoding"]["y"]["field"] == "share"
    assert len(set(points["encoding"]["shape"]["scale"]["range"])) == 2
    assert points["encoding"]["color"]["legend"] is not None
    single = layer_of(reliability(rows[:1]).to_dict(), "point")
    assert single["encoding"]["color"]["legend"] is None


@WIDTHS
@pytest.mark.parametrize("marked", [None, 0.0, 0.3])
def test_shares_by_threshold_mark_the_chosen_one(width: int, marked: float | None) -> None:
    names = ["accuracy", "balanced accuracy", "predicted positive"]
    rows = [
        {"threshold": t, "series": name, "value": t / 2 + 0.1 * i}
        for i, name in enumerate(names)
        for t in (0.0, 0.3, 1.0)
    ]
    spec = decision_curve(rows, marked=marked, width=width).to_dict()
    lines, *rules = spec["layer"]
    assert len(rules) == (marked is not None)
    assert (lines.get("data") or spec["data"])["values"] == rows
    assert [lines["encoding"][axis]["field"] for axis in ("x", "y")] == ["threshold", "value"]
    assert lines["encoding"]["y"]["scale"]["domain"] == [0, 1]
    for channel in ("color", "strokeDash"):
        scale = lines["encoding"][channel]["scale"]
        assert scale["domain"] == names
        assert len({str(value) for value in scale["range"]}) == 3
    for rule in rules:
        assert rule["mark"]["type"] == "rule"
        assert rule["encoding"]["x"]["field"] == "threshold"
        assert rule["data"]["values"] == [{"threshold": marked}]


# trade-offs


def mark(label: str, x: float, y: float, kind: str = "other", **others: Any) -> dict[str, Any]:
    ends = dict.fromkeys(("x_low", "x_high", "y_low", "y_high"))
    return {"label": label, "x": x, "y": y, "kind": kind, "series": "", **ends, **others}
