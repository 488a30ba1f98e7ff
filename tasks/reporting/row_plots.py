"""Plots with a row for each metric, group or step, as SVG text: pure functions from numbers to a string.

Colours, strokes and fonts come from the page's style by class name. Marks differ in shape and place, never
in colour alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from evenhand.tasks.reporting import axes, draw, formats

__all__ = [
    "Bar",
    "IntervalRow",
    "RateRow",
    "interval_plot",
    "interval_range",
    "limit_mark",
    "rate_plot",
    "timeline",
]


@dataclass(frozen=True)
class IntervalRow:
    """One row of :func:`interval_plot`; ``value`` None shows ``note`` in place of a mark."""

    label: str
    about: str
    value: float | None
    low: float | None = None
    high: float | None = None
    note: str = "not enough evidence"
    paper: tuple[float, float | None] | None = None
    baseline: tuple[float, float | None, float | None] | None = None
    limits: tuple[tuple[Literal["min", "max"], float], ...] = ()


@dataclass(frozen=True)
class RateRow:
    """One group's rate with its interval; ``value`` None shows ``note``."""

    group: str
    value: float | None
    low: float | None = None
    high: float | None = None
    note: str = "too few rows"


@dataclass(frozen=True)
class Bar:
    """One step of :func:`timeline`."""

    label: str
    seconds: float
    cached: bool


def limit_mark(x: float, y: float, half: float, kind: str) -> str:
    """Draw a gate's limit: an upright line whose flag points to the side that passes."""
    way = 6 if kind == "min" else -6
    flag = f"M{draw.num(x)} {draw.num(y - half)}l{way} 3.5l{-way} 3.5Z"
    return draw.line(x, y - half, x, y + half, "limit") + f'<path d="{flag}" class="limit-flag"/>'


def interval_range(rows: Sequence[IntervalRow]) -> tuple[float, float]:
    """Find the smallest and largest number that the rows draw; (0, 1) when they draw none."""
    drawn: list[float] = []
    for row in rows:
        drawn += [v for v in (row.value, row.low, row.high) if v is not None and row.value is not None]
        drawn += [limit for _, limit in row.limits]
        if row.paper is not None:
            mean, sd = row.paper
            drawn += [mean - (sd or 0.0), mean + (sd or 0.0)]
        if row.baseline is not None:
            drawn += [v for v in row.baseline if v is not None]
    return (min(drawn), max(drawn)) if drawn else (0.0, 1.0)


def interval_plot(
    rows: Sequence[IntervalRow],
    *,
    uid: str,
    title: str,
    description: str,
    floor: float | None = None,
    ceiling: float | None = None,
    interval_name: str = "95% interval",
    compact: bool = False,
) -> str:
    """Draw dots with whiskers, one metric a row, beside a paper's row or a baseline, and the gates' limits.

    Parameters
    ----------
    rows : sequence of IntervalRow
    uid, title, description : str
        See :func:`evenhand.tasks.reporting.draw.frame`.
    floor, ceiling : float or None
        An end that the axis must have; without it the axis is fitted to the numbers.
    interval_name : str
        What the legend calls the whiskers.
    compact : bool
        Labels above the marks, for a narrow page.

    Returns
    -------
    str
        An SVG image.
    """
    width = axes.NARROW if compact else axes.WIDE
    x0, x1, height = (8.0, width - 8, 76.0) if compact else (250.0, 574.0, 46.0)
    low, high = interval_range(rows)
    low = low if floor is None else min(floor, low)
    high = high if ceiling is None else max(ceiling, high)
    marks = draw.ticks(low, high, 5 if compact else 6)
    x = axes.scale(marks[0], marks[-1], x0, x1)
    items = [(draw.whisker(0, 18, 0) + draw.dot(9, 0), f"this model, {interval_name}")]
    if any(row.paper is not None for row in rows):
        items.append((draw.rect(0, -5, 18, 10, "band") + draw.diamond(9, 0), "the paper, mean and one sd"))
    if any(row.baseline is not None for row in rows):
        mark = draw.whisker(0, 18, 0, "whisker baseline", 3) + draw.diamond(9, 0)
        items.append((mark, "the baseline"))
    if any(row.limits for row in rows):
        items.append((limit_mark(9, 0, 8, "min"), "a gate’s limit, flag to the side that passes"))
    legend, top = axes.legend(items, width)
    body: list[str] = [legend]
    middles = [top + i * height + (56 if compact else height / 2) for i in range(len(rows))]
    body.append(draw.strokes([(x(v), m - 15, x(v), m + 15) for m in middles for v in marks], "grid"))
    body.append(draw.strokes([(x0, m, x1, m) for m in middles], "track"))
    for i, row in enumerate(rows):
        y = top + i * height
        middle = middles[i]
        text = y + (16 if compact else height / 2 - (3 if row.about else -4))
        shown = formats.number(row.value) if row.value is not None else row.note
        # The value is placed first: the label gets the room that is left.
        room = (width if compact else x0 - 16) - (draw.text_width(shown, 13) + 10 if compact else 0)
        body.append(draw.label(0, text, draw.shorten(row.label, room, 13)))
        if row.about:
            room = width - 110 if compact else x0 - 16
            body.append(draw.label(0, text + 16, draw.shorten(row.about, room, 12), "s m"))
        own = middle - 6 if row.paper is not None or row.baseline is not None else middle
        if row.paper is not None:
            mean, sd = row.paper
            if sd:
                body.append(draw.rect(x(mean - sd), middle + 2, x(mean + sd) - x(mean - sd), 10, "band", 2))
            body.append(draw.diamond(x(mean), middle + 7))
        if row.baseline is not None:
            at, low_end, high_end = row.baseline
            if low_end is not None and high_end is not None:
                body.append(draw.whisker(x(low_end), x(high_end), middle + 7, "whisker baseline", 3))
            body.append(draw.diamond(x(at), middle + 7))
        for kind, limit in row.limits:
            body.append(limit_mark(x(limit), middle, 16, kind))
        if row.value is None:
            body.append(draw.label(width, text, draw.shorten(row.note, 130, 12), "s m i", "end"))
            continue
        if row.low is not None and row.high is not None:
            body.append(draw.whisker(x(row.low), x(row.high), own))
        body.append(draw.dot(x(row.value), own))
        upper = text if compact or row.about else text - 7
        body.append(draw.label(width, upper, shown, "b", "end"))
        body.append(draw.label(width, upper + 16, formats.interval(row.low, row.high), "s m", "end"))
    bottom = top + len(rows) * height + 8
    body.append(axes.axis(marks, x, bottom + 4, width, lambda v: draw.tick_label(v, marks)))
    return draw.frame(uid, width, bottom + 12, title, description, "".join(body), axes.form(compact))


def rate_plot(
    blocks: Sequence[tuple[str, str, Sequence[RateRow]]],
    *,
    uid: str,
    title: str,
    description: str,
    compact: bool = False,
) -> str:
    """Draw the rates of every group on one axis from 0 to 100%, with the span between groups shaded.

    Parameters
    ----------
    blocks : sequence of (str, str, sequence of RateRow)
        A rate's name, its gap in words, and a row per group.
    uid, title, description : str
        See :func:`evenhand.tasks.reporting.draw.frame`.
    compact : bool
        Labels above the marks, for a narrow page.

    Returns
    -------
    str
        An SVG image.
    """
    width = axes.NARROW if compact else axes.WIDE
    x0, x1, height = (8.0, width - 8, 40.0) if compact else (240.0, 604.0, 26.0)
    marks = [0.0, 0.25, 0.5, 0.75, 1.0]
    x = axes.scale(0.0, 1.0, x0, x1)
    body, y = [], 0.0
    for name, gap, rows in blocks:
        head = y + 16
        body.append(draw.label(0, head, name, "b"))
        if compact:
            body.append(draw.label(0, head + 17, gap, "s m"))
        else:
            body.append(draw.label(width, head, gap, "s m", "end"))
        y = head + (24 if compact else 10)
        end = y + len(rows) * height
        known = [row.value for row in rows if row.value is not None]
        if len(known) > 1:
            left, right = x(min(known)), x(max(known))
            if compact:  # labels stand above the tracks, so the span stays on the tracks
                tops = [y + i * height + 22 for i in range(len(rows))]
                body += [draw.rect(left, top, right - left, 14, "span") for top in tops]
            else:
                body.append(draw.rect(left, y, right - left, end - y, "span"))
        if not compact:
            body.append(draw.strokes([(x(mark), y, x(mark), end) for mark in marks], "grid"))
        middles = [y + i * height + (29 if compact else height / 2) for i in range(len(rows))]
        body.append(draw.strokes([(x0, middle, x1, middle) for middle in middles], "track"))
        for i, row in enumerate(rows):
            top = y + i * height
            middle = middles[i]
            text = top + (15 if compact else height / 2 + 4.5)
            shown = formats.percent(row.value) if row.value is not None else row.note
            room = (width - draw.text_width(shown, 13) - 12) if compact else x0 - 20
            body.append(draw.label(0, text, draw.shorten(row.group, room, 13), "m"))
            if row.value is None:
                body.append(draw.label(width, text, row.note, "s m i", "end"))
                continue
            if row.low is not None and row.high is not None:
                body.append(draw.whisker(x(row.low), x(row.high), middle, "whisker thin", 3))
            body.append(draw.dot(x(row.value), middle, radius=4.5))
            body.append(draw.label(width, text, shown, "", "end"))
        y = end + 22
    body.append(axes.axis(marks, x, y - 2, width, lambda v: f"{100 * v:.0f}%"))
    return draw.frame(uid, width, y + 6, title, description, "".join(body), axes.form(compact))


def timeline(bars: Sequence[Bar], *, uid: str, title: str, description: str, compact: bool = False) -> str:
    """Draw steps laid end to end along time; those taken from the cache are hatched and say so.

    Parameters
    ----------
    bars : sequence of Bar
    uid, title, description : str
        See :func:`evenhand.tasks.reporting.draw.frame`.
    compact : bool
        Labels above the bars, for a narrow page.

    Returns
    -------
    str
        An SVG image.
    """
    width = axes.NARROW if compact else axes.WIDE
    x0, x1, height = (0.0, width, 42.0) if compact else (160.0, 570.0, 28.0)
    total = sum(bar.seconds for bar in bars)
    x = axes.scale(0.0, total or 1.0, x0, x1)
    pattern = (
        f'<defs><pattern id="{uid}-h" width="6" height="6" patternUnits="userSpaceOnUse" '
        'patternTransform="rotate(45)"><rect width="6" height="6" class="hatch-ground"/>'
        '<line x1="0" y1="0" x2="0" y2="6" class="hatch"/></pattern></defs>'
    )
    middles = [i * height + (30 if compact else height / 2) for i in range(len(bars))]
    body, start = [pattern, draw.strokes([(x0, middle, x1, middle) for middle in middles], "track")], 0.0
    for i, bar in enumerate(bars):
        top = i * height
        middle = middles[i]
        text = top + (15 if compact else height / 2 + 4.5)
        # A step too short to see still leaves a mark.
        wide = max(x(start + bar.seconds) - x(start), 3.0)
        left = min(x(start), x1 - wide)
        if bar.cached:
            body.append(
                f'<rect x="{draw.num(left)}" y="{draw.num(middle - 6)}" width="{draw.num(wide)}" height="12" '
                f'fill="url(#{uid}-h)" class="reused"/>'
            )
        else:
            body.append(draw.rect(left, middle - 6, wide, 12, "bar", 1.5))
        shown = formats.seconds(bar.seconds) + (" · reused" if bar.cached else "")
        room = (width - draw.text_width(shown, 13) - 12) if compact else x0 - 14
        body.append(draw.label(0, text, draw.shorten(bar.label, room, 13)))
        body.append(draw.label(width, text, shown, "m" if bar.cached else "", "end"))
        start += bar.seconds
    tall = len(bars) * height + 4
    return draw.frame(uid, width, tall, title, description, "".join(body), axes.form(compact))
