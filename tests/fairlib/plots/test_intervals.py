"""Charts of estimates, groups, trainings and trade-offs: data and encodings, for usual and odd
input.
"""

from __future__ import annotations

from typing import Any

import pytest
import vl_convert

from evenhand.fairlib.plots import group_charts as groups
from evenhand.fairlib.plots import intervals, tradeoffs
from evenhand.fairlib.plots.curves import decision_curve, reliability, training_curves
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
def test_differences_lie_about_0_and_those_that_cannot_be_told_are_marked(
    better: str, words: str
) -> None:
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
            "finding": "no difference can be told",
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


# groups


def rate(group: str, value: float | None, panel: str = "Selection rate") -> dict[str, Any]:
    ends = {"low": value and value - 0.1, "high": value and value + 0.1}
    return {"rate": panel, "group": group, "value": value, **ends}


@WIDTHS
def test_each_rate_has_a_panel_and_the_span_between_known_groups_is_shaded(width: int) -> None:
    rows = [rate("F", 0.2), rate(HOSTILE, 0.5), rate("few", None), rate("F", 0.7, "TPR")]
    spec = groups.group_rates(rows, width=width).to_dict()
    assert [panel["title"] for panel in spec["vconcat"]] == ["Selection rate", "TPR"]
    first, second = spec["vconcat"]
    assert layer_of(first, "rect")["data"]["values"] == [{"low": 0.2, "high": 0.5}]
    assert "rect" not in [layer["mark"]["type"] for layer in second["layer"]], (
        "one group has no span"
    )
    assert layer_of(first, "point")["encoding"]["y"]["sort"] == ["F", HOSTILE, "few"]
    assert layer_of(first, "text")["mark"]["text"] == "too few rows"
    assert first["width"] < width


def test_scores_of_a_group_are_bars_under_the_outline_of_all() -> None:
    spec = groups.score_distribution([0.0, 0.5, 1.0], [0.25, 0.75], [0.5, 0.5], 0.75).to_dict()
    bars, outline = spec["layer"]
    assert [(row["left"], row["right"], row["share"]) for row in bars["data"]["values"]] == [
        (0.0, 0.5, 0.25),
        (0.5, 1.0, 0.75),
    ]
    assert outline["data"]["values"][-1]["left"] == 1.0, "the last step reaches the end"
    assert bars["encoding"]["y"]["scale"]["domain"] == [0, 0.75]


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
def test_reliability_has_a_point_and_an_interval_for_each_bin_beside_the_line_of_equality(
    width: int,
) -> None:
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
def test_shares_by_threshold_are_lines_with_the_chosen_one_marked(
    width: int, marked: float | None
) -> None:
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


def test_the_front_is_joined_in_the_order_of_x_and_limits_are_lines() -> None:
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


def test_hostile_names_stay_text_in_the_picture() -> None:
    row = {"label": HOSTILE, "value": 0.5, "low": 0.4, "high": 0.6, "limit": 0.3}
    chart = intervals.metric_intervals([row], interval=HOSTILE, names={"value": "this"}, width=330)
    svg = vl_convert.vegalite_to_svg(chart.to_dict())
    assert "<script>" not in svg
