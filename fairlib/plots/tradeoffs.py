"""Trade-offs of a sweep: two metrics against each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import altair as alt

from evenhand.fairlib.plots.theme import (
    CHARACTER,
    Rows,
    colour,
    data,
    distinct,
    finish,
    line_at,
    records,
    series,
)

KINDS = {
    "other": ("not on the front", colour("muted"), "circle", 40),
    "front": ("on the Pareto front", colour("c0"), "circle", 110),
    "best": ("best under the limits", colour("c1"), "diamond", 160),
}
# Pixels that the label of a mark needs for itself.
LABEL_HEIGHT = 15.0
# Smaller spreads are due to rounding.
ROUNDING = 1e-9


def tradeoff(
    rows: Rows,
    *,
    x_title: str,
    y_title: str,
    x_limits: Sequence[float] = (),
    y_limits: Sequence[float] = (),
    reach: Sequence[Sequence[float]] = ((), ()),
    widening: float = 3.0,
    width: int = 330,
) -> alt.LayerChart:
    """Values of a setting by two metrics, with intervals in both directions and the Pareto front.

    Rows have ``label``, ``x``, ``x_low``, ``x_high``, ``y``, ``y_low``, ``y_high`` (ends may be
    None), ``kind`` ("other", "front" or "best") and ``series``: a line joins the values of each
    series in their order, or the front where there are no series ("").

    Dashed lines stand at the limits. `reach` are numbers that the axes must cover, for charts that
    share their axes. An interval widens an axis by at most `widening` times the spread of the
    values; beyond, it is cut.
    """
    found = records(rows)
    height = 260
    ends = {
        "x": covering(found, "x", [*x_limits, *reach[0]], widening),
        "y": covering(found, "y", [*y_limits, *reach[1]], widening),
    }
    ticks = alt.Axis(tickCount=5)
    x_scale = alt.Scale(domain=ends["x"], nice=False)
    y_scale = alt.Scale(domain=ends["y"], nice=False)
    x = alt.X("x:Q", title=x_title, scale=x_scale, axis=ticks)
    y = alt.Y("y:Q", title=y_title, scale=y_scale, axis=ticks)
    layers: list[Any] = []
    for axis, limits in ((x, x_limits), (y, y_limits)):
        layers += line_at(axis, *limits, name="ink", dash=(3, 3))
    thin = alt.Chart(data(found)).mark_rule(color=colour("muted"), opacity=0.6, clip=True)
    across, upright = (thin.transform_filter(f"datum.{axis}_low != null") for axis in "xy")
    layers += [
        across.encode(x=alt.X("x_low:Q", scale=x_scale), x2="x_high:Q", y=y),
        upright.encode(x=x, y=alt.Y("y_low:Q", scale=y_scale), y2="y_high:Q"),
    ]
    names = distinct((record for record in found if record["series"]), "series")
    layers += [_line(found, names, x, y), _marks(found, names, x, y)]
    text = alt.Chart(data(_labelled(found, ends, width, height))).encode(x, y, text="label:N")
    sides: dict[Any, int] = {"left": 8, "right": -8}
    for align, dx in sides.items():
        own = text.transform_filter(f"datum.align == '{align}'")
        layers.append(own.mark_text(align=align, dx=dx, dy=-8, color=colour("ink"), fontSize=12))
    return finish(alt.layer(*layers), width, height)


def covering(
    found: Sequence[dict[str, Any]], axis: str, limits: Sequence[float], widening: float
) -> list[float]:
    """Ends of an axis that cover the values, the limits, and intervals that are not many times as
    wide.
    """
    values = [record[axis] for record in found] + list(limits)
    low = min(values)
    high = max(values)
    room = widening * (high - low) if high - low > ROUNDING else math.inf
    lows = [record[f"{axis}_low"] for record in found if record.get(f"{axis}_low") is not None]
    highs = [record[f"{axis}_high"] for record in found if record.get(f"{axis}_high") is not None]
    low = max(min([low, *lows]), low - room)
    high = min(max([high, *highs]), high + room)
    margin = 0.04 * (high - low) if high - low > ROUNDING else 0.05
    return [low - margin if low else low, high + margin]


def _line(found: Sequence[dict[str, Any]], names: Sequence[str], x: alt.X, y: alt.Y) -> alt.Chart:
    if names:
        numbered = [{**record, "place": i} for i, record in enumerate(found)]
        lines = alt.Chart(data(numbered)).mark_line(strokeWidth=1.5, clip=True)
        return lines.encode(x, y, series(names, least=1)["color"], order="place:Q")
    front = [record for record in found if record["kind"] in ("front", "best")]
    line = alt.Chart(data(sorted(front, key=lambda record: record["x"])))
    return line.mark_line(color=colour("c0"), strokeWidth=1.5, strokeDash=[5, 3]).encode(x, y)


def _marks(found: Sequence[dict[str, Any]], names: Sequence[str], x: alt.X, y: alt.Y) -> alt.Chart:
    kinds = [KINDS[record["kind"]] for record in found]
    called = [
        {**record, "called": kind[0], "size": kind[3]}
        for record, kind in zip(found, kinds, strict=True)
    ]
    marks = alt.Chart(data(called)).mark_point(filled=True, opacity=1)
    domain, tints, shapes, _ = zip(*(kind for kind in KINDS.values() if kind in kinds), strict=True)
    told = {
        "color": alt.Color("called:N", scale=alt.Scale(domain=domain, range=tints)),
        "shape": alt.Shape("called:N", scale=alt.Scale(domain=domain, range=shapes)),
    }
    return marks.encode(
        x, y, alt.Size("size:Q", scale=None), **(series(names, least=1) if names else told)
    )


def _labelled(
    found: Sequence[dict[str, Any]], ends: dict[str, list[float]], width: int, height: int
) -> list[dict[str, Any]]:
    """Marks whose labels find room, the most important first."""
    order = {"best": 0, "front": 1, "other": 2}
    taken: list[tuple[float, float, float]] = []
    kept = []
    inner = width - 70.0
    for record in sorted(found, key=lambda record: order[record["kind"]]):
        across = inner * (record["x"] - ends["x"][0]) / (ends["x"][1] - ends["x"][0])
        up = height * (record["y"] - ends["y"][0]) / (ends["y"][1] - ends["y"][0])
        long = CHARACTER * len(record["label"])
        align = "left" if across + long + 8 <= inner else "right"
        start, end = (across, across + long + 8) if align == "left" else (across - long - 8, across)
        free = all(end < a or b < start or abs(up - at) > LABEL_HEIGHT for a, b, at in taken)
        if free and start >= 0:
            taken.append((start, end, up))
            kept.append({**record, "align": align})
    return kept
