"""A forest plot of differences from a baseline, as SVG text: a row a metric, the better side marked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from evenhand.tasks.reporting import axes, draw, formats
from evenhand.tasks.reporting.row_plots import limit_mark

__all__ = ["DifferenceRow", "difference_plot", "signed", "signed_interval"]


@dataclass(frozen=True)
class DifferenceRow:
    """
    One row of :func:`difference_plot`; ``value`` None shows ``note`` in place of a mark.

    ``limit`` is the smallest or largest difference that a gate allows.
    """

    label: str
    about: str
    value: float | None
    low: float | None = None
    high: float | None = None
    told: bool = False
    note: str = "not enough evidence"
    limit: tuple[Literal["min", "max"], float] | None = None


def signed(value: float | None) -> str:
    """Write a difference with its sign; none for 0."""
    text = formats.number(value)
    return f"+{text}" if value is not None and value > 0 else text


def signed_interval(low: float | None, high: float | None) -> str:
    """Write both ends with their signs."""
    return "no interval" if low is None or high is None else f"{signed(low)} to {signed(high)}"


def difference_plot(
    rows: Sequence[DifferenceRow],
    *,
    uid: str,
    title: str,
    description: str,
    better: Literal["higher", "lower"] | None,
    interval_name: str = "95% interval",
    compact: bool = False,
) -> str:
    """Draw differences with whiskers about a line at 0; the side where the model is better is shaded.

    Parameters
    ----------
    rows : sequence of DifferenceRow
        Of metrics that are better in the same direction.
    uid, title, description : str
        See :func:`evenhand.tasks.reporting.draw.frame`.
    better : {"higher", "lower"} or None
        Which way the metrics are better; None marks no side.
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
    drawn = [v for row in rows if row.value is not None for v in (row.value, row.low, row.high)]
    drawn += [row.limit[1] for row in rows if row.limit is not None]
    known = [0.0, *(v for v in drawn if v is not None)]
    marks = draw.ticks(min(known), max(known), 5)
    # both sides of 0 have room, so that the better one can be seen
    step = marks[1] - marks[0]
    marks = [*([-step] if marks[0] >= 0 else []), *marks, *([step] if marks[-1] <= 0 else [])]
    x, head = axes.scale(marks[0], marks[-1], x0, x1), 30.0 if compact else 22.0
    items = [(draw.whisker(0, 18, 0) + draw.dot(9, 0), f"model less baseline, {interval_name}")]
    if any(row.value is not None and not row.told for row in rows):
        items.append((draw.whisker(0, 18, 0) + draw.dot(9, 0, "dot open"), "no difference can be told"))
    if any(row.limit is not None for row in rows):
        items.append((limit_mark(9, 0, 8, "min"), "a gate’s limit, flag to the side that passes"))
    legend, top = axes.legend(items, width)
    zero, end = x(0.0), top + head + len(rows) * height
    middles = [top + head + i * height + (56 if compact else height / 2) for i in range(len(rows))]
    body = [legend]
    if better is not None:
        left, right = (zero, x1) if better == "higher" else (x0, zero)
        # labels stand above the tracks on a narrow page, so the shade stays on the tracks
        bands = [(m - 9, 18.0) for m in middles] if compact else [(top + 4, end - top - 4)]
        body += [draw.rect(left, y, right - left, tall, "span") for y, tall in bands]
        body += _sides(zero, x0, x1, top + 18, better, compact)
    if not compact:
        body.append(draw.strokes([(x(v), top + 24, x(v), end) for v in marks if v], "grid"))
    body.append(draw.strokes([(x0, m, x1, m) for m in middles], "track"))
    zeros = [(zero, m - 14, zero, m + 14) for m in middles] if compact else [(zero, top + 4, zero, end)]
    body.append(draw.strokes(zeros, "limit zero"))
    for i, row in enumerate(rows):
        y, middle = top + head + i * height, middles[i]
        text = y + (16 if compact else height / 2 - (3 if row.about else -4))
        shown = row.note if row.value is None else signed(row.value)
        room = (width if compact else x0 - 16) - (draw.text_width(shown, 13) + 10 if compact else 0)
        body.append(draw.label(0, text, draw.shorten(row.label, room, 13)))
        if row.about:
            room = width - 150 if compact else x0 - 16
            body.append(draw.label(0, text + 16, draw.shorten(row.about, room, 12), "s m"))
        if row.limit is not None:
            body.append(limit_mark(x(row.limit[1]), middle, 14, row.limit[0]))
        if row.value is None:
            body.append(draw.label(width, text, draw.shorten(row.note, 130, 12), "s m i", "end"))
            continue
        if row.low is not None and row.high is not None:
            body.append(draw.whisker(x(row.low), x(row.high), middle))
        body.append(draw.dot(x(row.value), middle, "dot" if row.told else "dot open"))
        upper = text if compact or row.about else text - 7
        body.append(draw.label(width, upper, shown, "b", "end"))
        body.append(draw.label(width, upper + 16, signed_interval(row.low, row.high), "s m", "end"))
    body.append(axes.axis(marks, x, end + 16, width, lambda v: draw.tick_label(v, marks)))
    return draw.frame(uid, width, end + 24, title, description, "".join(body), axes.form(compact))


def _sides(zero: float, x0: float, x1: float, y: float, better: str, compact: bool) -> list[str]:
    """Name the two sides of 0, beside the line; a side without room keeps its arrow, or nothing."""
    parts = []
    left, right = ("worse", "better") if better == "higher" else ("better", "worse")
    for names, room, at, anchor in (
        ((f"\u2190 model {left}", f"\u2190 {left}"), zero - x0, zero - 7, "end"),
        ((f"model {right} \u2192", f"{right} \u2192"), x1 - zero, zero + 7, "start"),
    ):
        # the labels may reach beyond the axis on the wide form, where there is room
        fits = [n for n in names if draw.text_width(n, 12) + 7 <= room + (0 if compact else 40)]
        if fits:
            parts.append(draw.label(at, y, fits[0], "s b", anchor))
    return parts
