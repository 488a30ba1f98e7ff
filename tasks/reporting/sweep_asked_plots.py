"""Plots of a sweep of agents that ask: numbers against the trade-off, and how often each feature is asked."""

from __future__ import annotations

import math
from collections.abc import Sequence

from evenhand.tasks.reporting import axes, draw
from evenhand.tasks.reporting.sweep_axes import LABEL_SIZE, WIDTH, Estimate, covering_ticks, tick_labels

__all__ = ["Curve", "curve_plot", "share_map"]

# A name and its points, by rising abscissa.
Curve = tuple[str, Sequence[tuple[float, Estimate]]]

HEIGHT = 250.0
LINE_KINDS = 6
DARKEST = 0.6


def curve_plot(
    curves: Sequence[Curve],
    *,
    uid: str,
    title: str,
    description: str,
    axis: str,
    level: float | None = None,
) -> str:
    """
    Draw curves through means with their intervals, at places to scale.

    Parameters
    ----------
    curves : sequence of Curve
        At least one point in all; several are told apart by colour and dashes.
    uid, title, description : str
        See :func:`evenhand.tasks.reporting.draw.frame`.
    axis : str
        Name of the abscissa.
    level : float or None
        A height to compare with, drawn as a dashed line.

    Returns
    -------
    str
        An SVG image.
    """
    points = [point for _, found in curves for point in found]
    upward = covering_ticks([estimate for _, estimate in points], () if level is None else (level,), 5)
    across = draw.ticks(min(x for x, _ in points), max(x for x, _ in points), 6)
    texts = [draw.tick_label(tick, upward) for tick in upward]
    several = curves if len(curves) > 1 else []
    legend, top = axes.legend([_key(i, name) for i, (name, _) in enumerate(several)], WIDTH)
    x0, x1 = max(draw.text_width(text, LABEL_SIZE) for text in texts) + 10, WIDTH - 14
    y0, y1 = top + HEIGHT - 42, top + 8
    x = axes.scale(across[0], across[-1], x0, x1)
    y = axes.scale(upward[0], upward[-1], y0, y1)
    body = [legend, draw.strokes([(x0, y(tick), x1, y(tick)) for tick in upward], "grid")]
    body += [draw.label(x0 - 6, y(t) + 4, text, "s m", "end") for t, text in zip(upward, texts, strict=True)]
    body += tick_labels([(x(tick), draw.tick_label(tick, across)) for tick in across], y0 + 17)
    named = draw.shorten(axis, x1 - x0, LABEL_SIZE)
    body.append(draw.label((x0 + x1) / 2, top + HEIGHT - 5, named, "s m", "middle"))
    if level is not None:
        body.append(draw.line(x0, y(level), x1, y(level), "reference"))
    for place, (_, found) in enumerate(curves):
        kind = place % LINE_KINDS
        spans = [
            (x(at), y(one.low), x(at), y(one.high))
            for at, one in found
            if one.low is not None and one.high is not None
        ]
        body.append(draw.strokes(spans, "whisker thin"))
        path = "L".join(f"{draw.num(x(at))} {draw.num(y(one.value))}" for at, one in found)
        if len(found) > 1:
            body.append(f'<path d="M{path}" class="curve c{kind}"/>')
        body += [draw.dot(x(at), y(one.value), f"end c{kind}", 3.5) for at, one in found]
    return draw.frame(uid, WIDTH, top + HEIGHT, title, description, "".join(body))


def _key(place: int, name: str) -> tuple[str, str]:
    kind = place % LINE_KINDS
    mark = draw.line(0, 0, 18, 0, f"curve c{kind}") + draw.dot(9, 0, f"end c{kind}", 3.5)
    return mark, draw.shorten(name, WIDTH - 24, LABEL_SIZE)


def share_map(
    columns: Sequence[str],
    rows: Sequence[str],
    shares: Sequence[Sequence[float | None]],
    *,
    axis: str,
    uid: str,
    title: str,
    description: str,
    compact: bool = False,
) -> str:
    """
    Draw shares as cells, the darker the larger, with the percentage where it fits.

    Parameters
    ----------
    columns : sequence of str, length v
        Names that fit, or numbers.
    rows : sequence of str, length K
    shares : sequence of (sequence of float or None), shape (K, v)
        None has a dash.
    axis : str
        What the columns are.
    uid, title, description : str
        See :func:`evenhand.tasks.reporting.draw.frame`.
    compact : bool
        For a narrow page.

    Returns
    -------
    str
        An SVG image.
    """
    width, x0 = (axes.NARROW, 100.0) if compact else (axes.WIDE, 170.0)
    wide, high, top = min((width - x0) / len(columns), 64.0), 24.0, 24.0
    longest = max(draw.text_width(name, LABEL_SIZE) for name in columns) + 4
    every = max(1, math.ceil(longest / wide))
    body = [
        draw.label(x0 + (j + 0.5) * wide, 14, name, "s m", "middle")
        for j, name in enumerate(columns)
        if j % every == 0
    ]
    for i, (name, line) in enumerate(zip(rows, shares, strict=True)):
        y = top + i * high
        body.append(draw.label(x0 - 8, y + 16, draw.shorten(name, x0 - 8, LABEL_SIZE), "s", "end"))
        body += [_cell(x0 + j * wide, y, wide, high, share) for j, share in enumerate(line)]
    bottom = top + len(rows) * high
    end = x0 + wide * len(columns)
    body.append(draw.line(x0, bottom, end, bottom, "axis"))
    named = draw.shorten(axis, width, LABEL_SIZE)
    half = draw.text_width(named, LABEL_SIZE) / 2
    middle = min(max((x0 + end) / 2, half), width - half)
    body.append(draw.label(middle, bottom + 18, named, "s m", "middle"))
    return draw.frame(uid, width, bottom + 26, title, description, "".join(body), axes.form(compact))


def _cell(x: float, y: float, wide: float, high: float, share: float | None) -> str:
    if share is None:
        return draw.label(x + wide / 2, y + 16, "–", "xs m", "middle") if wide > 10 else ""
    shape = (
        f'<rect x="{draw.num(x + 1)}" y="{draw.num(y + 1)}" width="{draw.num(wide - 2)}" '
        f'height="{draw.num(high - 2)}" class="heat down" fill-opacity="{DARKEST * share:.3f}"/>'
    )
    text = f"{100 * share:.0f}"
    if draw.text_width(text, 11.5) > wide - 3:
        return shape
    return shape + draw.label(x + wide / 2, y + 16, text, "xs", "middle")
