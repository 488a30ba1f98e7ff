"""Charts of several proxies: results side by side, and heat maps with common colours."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.page_generators.proxy_charts import group_shares, heat_map
from evenhand.fairlib.plots.theme import NARROW

HOSTILE = '<script>alert("1")</script>&'
WIDTHS = pytest.mark.parametrize("width", [680, NARROW - 150])
SHARES = [
    {"group": "F", "before": 0.2, "after": 0.4, "target": 0.5},
    {"group": HOSTILE, "before": None, "after": None, "target": 0.1},
]


def values(chart: Any) -> list[dict[str, Any]]:
    """Rows of all data of a chart."""
    spec = chart.to_dict()
    found: list[dict[str, Any]] = []
    waiting = [spec]
    while waiting:
        part = waiting.pop(0)
        if isinstance(part, dict):
            found += part.get("values", []) if set(part) == {"values"} else []
            waiting += list(part.values())
        elif isinstance(part, list):
            waiting += part
    return found


def cells(numbers: dict[str, list[float | None]], **others: Any) -> list[dict[str, Any]]:
    return [
        {"row": name, "column": str(i), "value": value, **others}
        for name, line in numbers.items()
        for i, value in enumerate(line)
    ]


@WIDTHS
def test_several_results_stand_side_by_side_on_one_scale(width: int) -> None:
    rows = [{**row, "column": column} for column in ("0.1", "0.2") for row in SHARES]
    spec = group_shares(rows, width=width).to_dict()
    assert spec["facet"]["column"]["sort"] == ["0.1", "0.2"]
    assert 2 * spec["spec"]["width"] <= width
    bars = values(group_shares(rows, width=width))
    assert [bar["text"] for bar in bars if bar["column"] == "0.2"] == ["", "", "too few", "too few"]
    # the names of the groups are written once
    assert not any(bar["name"] for bar in bars if bar["column"] == "0.2")


def test_panels_share_colours_and_can_share_a_scale() -> None:
    rows = cells({"g": [0.1]}, panel="one") + cells({HOSTILE: [-0.4, 0.4]}, panel=HOSTILE)
    spec = heat_map(rows, x_title="x").to_dict()
    assert [panel["title"] for panel in spec["vconcat"]] == ["one", HOSTILE]
    assert [cell["dark"] for cell in values(heat_map(rows, x_title="x"))] == pytest.approx(
        [0.15, 0.6, 0.6]
    )
    alone = values(heat_map(cells({"g": [0.1, 0.9]}), x_title="x", strongest=0.4))
    assert [cell["dark"] for cell in alone] == pytest.approx([0.15, 0.6])
