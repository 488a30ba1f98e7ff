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

    Dashed lines stand at the limits.

    Parameters
    ----------
    rows : sequence of mapping, or DataFrame
        With ``label``, ``x``, ``x_low``, ``x_high``, ``y``, ``y_low``, ``y_high`` (ends may be
        None), ``kind`` ("other", "front" or "best") and ``series``: a line joins the values of each
        series in their order, or the front where there are no series ("").
    x_title, y_title : str
    x_limits, y_limits : sequence of float, default ()
        Places of dashed lines.
    reach : pair of sequences of float, default empty
        Numbers that the axes must cover, for charts that share their axes.
    widening : float, default 3
        An interval widens an axis by at most so many times the spread of the values; beyond, it is
        cut.
    width : int, default 330
        In pixels.

    Returns
    -------
    altair.LayerChart
    """
    entries = records(rows)
    height = 260
    ends = {
        "x": covering(entries, "x", [*x_limits, *reach[0]], widening),
        "y": covering(entries, "y", [*y_limits, *reach[1]], widening),
    }
    ticks = alt.Axis(tickCount=5)
    x_scale = alt.Scale(domain=ends["x"], nice=False)
    y_scale = alt.Scale(domain=ends["y"], nice=False)
    x = alt.X("x:Q", title=x_title, scale=x_scale, axis=ticks)
    y = alt.Y("y:Q", title=y_title, scale=y_scale, axis=ticks)
    layers: list[Any] = []
    for axis, limits in ((x, x_limits), (y, y_limits)):
        layers += line_at(axis, *limits, name="ink", dash=(3, 3))
    thin = alt.Chart(data(entries)).mark_rule(color=colour("muted"), opacity=0.6, clip=True)
    across, upright = (thin.transform_filter(f"datum.{axis}_low != null") for axis in "xy")
    layers += [
        across.encode(x=alt.X("x_low:Q", scale=x_scale), x2="x_high:Q", y=y),
        upright.encode(x=x, y=alt.Y("y_low:Q", scale=y_scale), y2="y_high:Q"),
    ]
    names = distinct((record for record in entries if record["series"]), "series")
    layers += [_line(entries, names, x, y), _marks(entries, names, x, y)]
    text = alt.Chart(data(_labelled(entries, ends, width, height))).encode(x, y, text="label:N")
    sides: dict[Any, int] = {"left": 8, "right": -8}
    for align, dx in sides.items():
        labels = text.transform_filter(f"datum.align == '{align}'")
        layers.append(labels.mark_text(align=align, dx=dx, dy=-8, color=colour("ink"), fontSize=12))
    return finish(alt.layer(*layers), width, height)


def covering(
    records: Sequence[dict[str, Any]], axis: str, limits: Sequence[float], widening: float
) -> list[float]:
    """Ends of an axis that cover the values, the limits, and intervals that are not many times as
    wide.

    Parameters
    ----------
    records : sequence of dict
        The records.
    axis : {"x", "y"}
    limits : sequence of float
        Numbers that the axis must cover.
    widening : float
        As of :func:`tradeoff`.

    Returns
    -------
    list of two floats
    """
    values = [record[axis] for record in records] + list(limits)
    low = min(values)
    high = max(values)
    room = math.inf
    if high - low > ROUNDING:
        room = widening * (high - low)
    lows = [record[f"{axis}_low"] for record in records if record.get(f"{axis}_low") is not None]
    highs = [record[f"{axis}_high"] for record in records if record.get(f"{axis}_high") is not None]
    low = max(min([low, *lows]), low - room)
    high = min(max([high, *highs]), high + room)
    margin = 0.05
    if high - low > ROUNDING:
        margin = 0.04 * (high - low)
    return [low - margin if low else low, high + margin]


def _line(entries: Sequence[dict[str, Any]], names: Sequence[str], x: alt.X, y: alt.Y) -> alt.Chart:
    if names:
        numbered = [{**record, "place": i} for i, record in enumerate(entries)]
        lines = alt.Chart(data(numbered)).mark_line(strokeWidth=1.5, clip=True)
        return lines.encode(x, y, series(names, least=1)["color"], order="place:Q")
    front = [record for record in entries if record["kind"] in ("front", "best")]
    line = alt.Chart(data(sorted(front, key=lambda record: record["x"])))
    return line.mark_line(color=colour("c0"), strokeWidth=1.5, strokeDash=[5, 3]).encode(x, y)


def _marks(
    entries: Sequence[dict[str, Any]], names: Sequence[str], x: alt.X, y: alt.Y
) -> alt.Chart:
    kinds = [kind for kind in KINDS if any(record["kind"] == kind for record in entries)]
    titled = []
    for record in entries:
        title, _, _, size = KINDS[record["kind"]]
        titled.append({**record, "called": title, "size": size})
    marks = alt.Chart(data(titled)).mark_point(filled=True, opacity=1)
    if names:
        encodings = series(names, least=1)
    else:
        domain = [KINDS[kind][0] for kind in kinds]
        tints = alt.Scale(domain=domain, range=[KINDS[kind][1] for kind in kinds])
        shapes = alt.Scale(domain=domain, range=[KINDS[kind][2] for kind in kinds])
        encodings = {
            "color": alt.Color("called:N", scale=tints),
            "shape": alt.Shape("called:N", scale=shapes),
        }
    return marks.encode(x, y, alt.Size("size:Q", scale=None), **encodings)


def _labelled(
    entries: Sequence[dict[str, Any]], ends: dict[str, list[float]], width: int, height: int
) -> list[dict[str, Any]]:
    """Marks whose labels find room, the most important first."""
    order = {"best": 0, "front": 1, "other": 2}
    # start, end and height of the labels that are placed, in pixels
    placed: list[tuple[float, float, float]] = []
    labelled = []
    inner = width - 70.0
    for record in sorted(entries, key=lambda record: order[record["kind"]]):
        across = inner * (record["x"] - ends["x"][0]) / (ends["x"][1] - ends["x"][0])
        up = height * (record["y"] - ends["y"][0]) / (ends["y"][1] - ends["y"][0])
        length = CHARACTER * len(record["label"])
        if across + length + 8 <= inner:
            align = "left"
            start = across
            end = across + length + 8
        else:
            align = "right"
            start = across - length - 8
            end = across
        is_free = all(
            end < other_start or other_end < start or abs(up - other_up) > LABEL_HEIGHT
            for other_start, other_end, other_up in placed
        )
        if is_free and start >= 0:
            placed.append((start, end, up))
            labelled.append({**record, "align": align})
    return labelled
