"""Charts of rates and scores of groups."""

from __future__ import annotations

from typing import Any

import pytest

from evenhand.fairlib.plots import group_charts as groups

HOSTILE = '<script>alert("1")</script>&\'"'
WIDTHS = pytest.mark.parametrize("width", [680, 330])


def layer_of(spec: dict[str, Any], kind: str) -> dict[str, Any]:
    """First layer with this mark."""
    return next(layer for layer in spec["layer"] if layer["mark"]["type"] == kind)


# groups


def rate(group: str, value: float | None, panel: str = "Selection rate") -> dict[str, Any]:
    ends = {"low": value and value - 0.1, "high": value and value + 0.1}
    return {"rate": panel, "group": group, "value": value, **ends}


@WIDTHS
def test_each_rate_has_a_panel_with_a_shaded_span(width: int) -> None:
    """The span lies between the known groups."""
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


# trade-offs


def mark(label: str, x: float, y: float, kind: str = "other", **others: Any) -> dict[str, Any]:
    ends = dict.fromkeys(("x_low", "x_high", "y_low", "y_high"))
    return {"label": label, "x": x, "y": y, "kind": kind, "series": "", **ends, **others}
