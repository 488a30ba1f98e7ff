"""Charts of single methods: what is drawn are the given numbers, also for one, no, and hostile
names.
"""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
import vl_convert

from evenhand.fairlib.plots.curves import budget_curve
from evenhand.fairlib.plots.group_charts import group_shares, heat_map, histogram
from evenhand.fairlib.plots.intervals import asked_features, ranked_bars

HOSTILE = '<script>alert("1")</script>&\'"'
WIDTHS = pytest.mark.parametrize("width", [680, 330])


def values(chart: Any) -> list[dict[str, Any]]:
    """All rows of a chart's data, once each."""
    found: list[dict[str, Any]] = []

    def walk(item: Any) -> None:
        if isinstance(item, dict):
            if isinstance(item.get("values"), list) and all(
                isinstance(row, dict) for row in item["values"]
            ):
                found.extend(row for row in item["values"] if row not in found)
            for part in item.values():
                walk(part)
        elif isinstance(item, list):
            for part in item:
                walk(part)

    walk(chart.to_dict())
    return found


def layers(chart: Any) -> list[dict[str, Any]]:
    """Layers of a layered chart, or of a panel."""
    spec = chart.to_dict() if not isinstance(chart, dict) else chart
    found: list[dict[str, Any]] = spec.get("layer") or spec["spec"]["layer"]
    return found


# ----------------------------------------------------------------------------------------------
# histogram


@WIDTHS
def test_a_histogram_has_a_bar_per_bin_and_texts_that_fit(width: int) -> None:
    bars = values(histogram([0.0, 0.5, 1.0, 1.5], [10, 0, 40], x_title="distance", width=width))
    assert [(bar["left"], bar["right"], bar["height"], bar["text"]) for bar in bars] == [
        (0.0, 0.5, 10, "10"),
        (0.5, 1.0, 0, ""),
        (1.0, 1.5, 40, "40"),
    ]
    many = values(histogram([float(i) for i in range(41)], [123456] * 40, x_title="x", width=width))
    assert {bar["text"] for bar in many} == {""}


def test_shares_of_a_histogram_sum_to_1_and_nobody_is_no_error() -> None:
    bars = values(histogram([-0.5, 0.5, 1.5], [1, 3], x_title="asked", shares=True))
    assert [(bar["height"], bar["middle"], bar["text"]) for bar in bars] == [
        (0.25, 0.0, "25.0%"),
        (0.75, 1.0, "75.0%"),
    ]
    assert [
        bar["height"] for bar in values(histogram([-0.5, 0.5], [0], x_title="asked", shares=True))
    ] == [0.0]


# --------------------------------------------------------------------------------------------
# ranked bars


@WIDTHS
def test_ranked_bars_keep_their_order_and_have_a_reference(width: int) -> None:
    rows = [
        {"label": "sex", "value": 0.0, "text": "0, by design"},
        {"label": HOSTILE, "value": 0.3, "low": 0.2, "high": 0.4},
        {"label": "none", "value": None},
    ]
    chart = ranked_bars(rows, x_title="probability", reference=0.5, width=width)
    found = values(chart)
    assert {"value": 0.5} in found
    bars = {row["label"]: row for row in found if "label" in row}
    assert (bars[HOSTILE]["low"], bars[HOSTILE]["high"], bars[HOSTILE]["end"]) == (0.2, 0.4, 0.4)
    assert (bars["sex"]["low"], bars["sex"]["text"]) == (None, "0, by design")
    y = layers(chart)[0]["encoding"]["y"]
    assert y["sort"] == ["sex", HOSTILE, "none"]
    # names stand above the bars of a narrow chart
    assert (y["axis"] is None) == (width == 330)
    assert {"value": 0.5} not in values(ranked_bars(rows, x_title="probability"))


# ------------------------------------------------------------------------------------------- budget
# curve


def test_a_budget_curve_has_logarithmic_axes() -> None:
    """Its band stays above 0."""
    rows = [
        {"budget": 0.001, "value": 0.02, "low": 0.0, "high": 0.03},
        {"budget": 0.01, "value": 0.05, "low": None, "high": None},
    ]
    chart = budget_curve(
        pd.DataFrame(rows).astype(object).where(lambda t: t.notna(), None),
        x_title="b",
        y_title="v",
        marked=0.01,
    )
    band, rule, line, _, diamond = layers(chart)
    for axis in ("x", "y"):
        assert line["encoding"][axis]["scale"]["type"] == "log"
    (cut,) = band["data"]["values"]
    assert cut["low"] == pytest.approx(0.002)
    assert [row["budget"] for row in diamond["data"]["values"]] == [0.01]
    assert rule["data"]["values"] == [{"budget": 0.01}]
    unmarked = layers(budget_curve(rows, x_title="b", y_title="v"))
    assert [layer["mark"]["type"] for layer in unmarked] == ["area", "line", "point", "point"]


# ----------------------------------------------------------------------------------------- asked
# features


def question(name: str, share: float | None, **others: Any) -> dict[str, Any]:
    return {"name": name, "share": share, "classifier_auc": 0.6, "adversary_auc": None, **others}


@WIDTHS
def test_aucs_are_above_the_shares(width: int) -> None:
    rows = [
        question("a", 1.0, low=0.9, high=1.0),
        question(HOSTILE, 0.5, low=None, high=None, adversary_auc=0.3),
        question("all features", None, adversary_auc=0.9),
    ]
    upper, lower = asked_features(rows, predicted="sex", width=width).to_dict()["vconcat"]
    chance, points = upper["layer"]
    assert chance["data"]["values"] == [{"auc": 0.5}]
    assert [(point["name"], point["kind"], point["auc"]) for point in points["data"]["values"]] == [
        ("a", "predicts the outcome", 0.6),
        (HOSTILE, "predicts the outcome", 0.6),
        (HOSTILE, "predicts sex", 0.3),
        ("all features", "predicts the outcome", 0.6),
        ("all features", "predicts sex", 0.9),
    ]
    assert points["encoding"]["y"]["scale"]["domain"] == [0.3, 0.9]
    bars = lower["layer"][0]
    assert [(bar["name"], bar["share"]) for bar in lower["data"]["values"]] == [
        ("a", 1.0),
        (HOSTILE, 0.5),
    ]
    assert bars["encoding"]["x"]["scale"]["domain"] == ["a", HOSTILE, "all features"]


@WIDTHS
@pytest.mark.parametrize("count", [1, 26])
def test_without_an_auc_there_is_one_panel(count: int, width: int) -> None:
    """The columns fit the width."""
    rows = [
        question(f"a feature with a long name {i}", 0.4, classifier_auc=None) for i in range(count)
    ]
    (panel,) = asked_features(rows, predicted="sex", width=width).to_dict()["vconcat"]
    assert panel["width"] <= width - 60
    angle = panel["layer"][0]["encoding"]["x"]["axis"]["labelAngle"]
    assert angle == (-90 if width == 330 else -45)


# ------------------------------------------------------------------------------------------- group
# shares

SHARES = [
    {"group": "F", "before": 0.2, "after": 0.4, "target": 0.5},
    {"group": HOSTILE, "before": None, "after": None, "target": 0.1},
]


@WIDTHS
def test_each_group_has_two_bars_and_a_mark_at_the_target(width: int) -> None:
    """The bars are the group's shares."""
    chart = group_shares(SHARES, width=width)
    bars = values(chart)
    assert [(bar["group"], bar["kind"], bar["share"], bar["text"]) for bar in bars] == [
        ("F", "all rows", 0.2, "20.0%"),
        ("F", "kept rows", 0.4, "40.0%"),
        (HOSTILE, "all rows", None, "too few rows"),
        (HOSTILE, "kept rows", None, "too few rows"),
    ]
    assert [bar["target"] for bar in bars] == [0.5, 0.5, 0.1, 0.1]
    drawn = layers(chart)
    assert drawn[0]["encoding"]["y"]["sort"] == ["F", HOSTILE]
    # all shares and targets are within the axis
    assert drawn[0]["encoding"]["x"]["scale"]["domain"] == [0, pytest.approx(0.6)]
    assert [bar["name"] for bar in bars] == (["F", "", HOSTILE, ""] if width == 330 else [""] * 4)


# ------------------------------------------------------------------------------------------------
# heat map


def cells(numbers: dict[str, list[float | None]]) -> list[dict[str, Any]]:
    return [
        {"row": name, "column": str(i), "value": value}
        for name, line in numbers.items()
        for i, value in enumerate(line)
    ]


def test_cells_are_the_darker_the_larger_on_either_side_of_0() -> None:
    chart = heat_map(
        cells({"g": [0.1, -0.2, None], "h": [0.0, 0.05, -0.004]}), x_title="proxy groups"
    )
    found = values(chart)
    assert [cell["side"] for cell in found] == [
        "above",
        "below",
        "above",
        "above",
        "above",
        "below",
    ]
    assert [cell["dark"] for cell in found] == pytest.approx([0.3, 0.6, 0.0, 0.0, 0.15, 0.012])
    assert [cell["text"] for cell in found] == ["+10", "\u221220", "\u2013", "0", "+5", "0"]


@WIDTHS
def test_a_map_of_many_columns_fits_and_leaves_texts_out(width: int) -> None:
    panel = heat_map(cells({"g": [0.1] * 30}), x_title="x", width=width).to_dict()
    assert panel["width"] <= width
    assert len(panel["layer"]) == (1 if width == 330 else 2)


def test_nothing_known_is_a_map_of_dashes() -> None:
    found = values(heat_map(cells({"g": [None, None]}), x_title="x"))
    assert [(cell["text"], cell["dark"]) for cell in found] == [("\u2013", 0.0)] * 2


@pytest.mark.parametrize(
    "chart",
    [
        lambda: ranked_bars([], x_title="x"),
        lambda: budget_curve([], x_title="x", y_title="y"),
        lambda: asked_features([], predicted="sex"),
        lambda: group_shares([]),
        lambda: heat_map([], x_title="x"),
    ],
)
def test_no_rows_are_an_empty_chart(chart: Any) -> None:
    assert [row for row in values(chart()) if "auc" not in row] == []


def test_hostile_names_stay_text_in_the_picture() -> None:
    svg = vl_convert.vegalite_to_svg(group_shares(SHARES, before=HOSTILE, width=330).to_dict())
    assert "<script>" not in svg
    assert "&lt;script&gt;" in svg
