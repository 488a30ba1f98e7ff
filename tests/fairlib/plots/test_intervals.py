"""Charts of intervals: data and encodings, for usual and odd input."""

from __future__ import annotations

from typing import Any

import pytest
import vl_convert

from evenhand.fairlib.plots import intervals
from tests.charts import values

HOSTILE = '<script>alert("1")</script>&\'"'
WIDTHS = pytest.mark.parametrize("width", [680, 330])
UNKNOWN = {"value": None, "low": None, "high": None}


def layer_of(spec: dict[str, Any], kind: str) -> dict[str, Any]:
    """First layer with this mark."""
    return next(layer for layer in spec["layer"] if layer["mark"]["type"] == kind)


# estimates


@WIDTHS
def test_metrics_stand_beside_paper_baseline_and_limit(width: int) -> None:
    rows = [
        {
            "label": "a",
            "value": 0.5,
            "low": 0.4,
            "high": 0.6,
            "paper": 0.55,
            "paper_sd": 0.05,
            "limit": 0.7,
        },
        {"label": HOSTILE, "baseline": 0.3, "baseline_low": 0.2, "baseline_high": 0.4, **UNKNOWN},
    ]
    spec = intervals.metric_intervals(rows, width=width, names={"value": "mean"}).to_dict()
    first, second = values(spec)
    assert (first["paper_low"], first["paper_high"]) == pytest.approx((0.5, 0.6))
    assert second["paper_low"] is None
    scale = layer_of(spec, "rule")["encoding"]["x"]["scale"]
    assert scale["domain"] == [0.2, 0.7], "every number is inside"
    legend = layer_of(spec, "point")["encoding"]["color"]["scale"]["domain"]
    assert legend == ["mean", "baseline", "paper", "limit of a gate"]
    order = layer_of(spec, "rule")["encoding"]["y"]["sort"]
    assert order == ["a", HOSTILE]
    assert any(layer["mark"]["type"] == "text" for layer in spec["layer"]) == (width == 330)


def test_ends_of_an_axis_are_reached_and_never_cut_a_number() -> None:
    row = {"label": "a", "value": 0.5, "low": -0.1, "high": 0.6}
    spec = intervals.metric_intervals([row], floor=0.0, ceiling=1.0).to_dict()
    assert layer_of(spec, "rule")["encoding"]["x"]["scale"]["domain"] == [-0.1, 1.0]
    spec = intervals.metric_intervals([{"label": "a", **UNKNOWN}]).to_dict()
    assert "domain" not in layer_of(spec, "rule")["encoding"]["x"]["scale"]


@pytest.mark.parametrize(
    ("better", "words"), [("higher", "model better →"), ("lower", "← model better"), (None, "")]
)
def test_differences_lie_about_0_and_uncertain_ones_are_marked(better: str, words: str) -> None:
    rows = [
        {
            "label": "a",
            "value": -0.2,
            "low": -0.3,
            "high": -0.1,
            "finding": "difference",
            "limit": 0.05,
        },
        {
            "label": "b",
            "value": 0.1,
            "low": -0.1,
            "high": 0.2,
            "finding": "no significant difference",
        },
    ]
    spec = intervals.differences(rows, better=better).to_dict()
    line, whiskers = (layer for layer in spec["layer"] if layer["mark"]["type"] == "rule")
    assert line["data"]["values"] == [{"zero": 0.0}]
    assert whiskers["encoding"]["x"]["scale"]["domain"] == [-0.3, 0.2]
    assert whiskers["encoding"]["x"]["axis"]["title"].endswith(words)
    marks = [(row["value"], row.get("unclear")) for row in values(spec) if "label" in row]
    assert marks[:2] == [(-0.2, None), (None, 0.1)]
    points = [layer for layer in spec["layer"] if layer["mark"]["type"] == "point"]
    assert [point["encoding"]["x"]["field"] for point in points] == ["value", "unclear", "limit"]


# trade-offs


def mark(label: str, x: float, y: float, kind: str = "other", **others: Any) -> dict[str, Any]:
    ends = dict.fromkeys(("x_low", "x_high", "y_low", "y_high"))
    return {"label": label, "x": x, "y": y, "kind": kind, "series": "", **ends, **others}


def test_hostile_names_stay_text_in_the_picture() -> None:
    row = {"label": HOSTILE, "value": 0.5, "low": 0.4, "high": 0.6, "limit": 0.3}
    chart = intervals.metric_intervals([row], interval=HOSTILE, names={"value": "this"}, width=330)
    svg = vl_convert.vegalite_to_svg(chart.to_dict())
    assert "<script>" not in svg
