"""A plot of horizontal bars from zero, one a name, with whiskers and what each amounts to in writing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from evenhand.tasks.reporting import axes, draw

__all__ = ["Bar", "bar_plot"]

# Heights of a row with the name beside its bar, and with the name above it, in pixels.
BESIDE, ABOVE = 26.0, 38.0
BAR, LONGEST_NAME = 12.0, 250.0
SIZE = 12.0


@dataclass(frozen=True)
class Bar:
    """
    A named length from 0 on; None has no bar.

    `note` is written at the end of the row, `kind` are the classes of the bar, and a bar that stands out is
    named in bold.
    """

    name: str
    value: float | None
    note: str
    low: float | None = None
    high: float | None = None
    kind: str = "bar"
    bold: bool = False


def bar_plot(
    bars: Sequence[Bar],
    marks: Sequence[float],
    *,
    uid: str,
    title: str,
    description: str,
    reference: float | None = None,
    width: float | None = None,
    compact: bool = False,
) -> str:
    """
    Draw bars below each other, in their order.

    Parameters
    ----------
    bars : sequence of Bar
        At least one.
    marks : sequence of float
        Of the axis, the first of them 0; what lies beyond the last is cut there.
    uid, title, description : str
        See :func:`evenhand.tasks.reporting.draw.frame`.
    reference : float or None
        A length to compare with, drawn as a dashed line.
    width : float or None
        For one form that serves wide and narrow pages; None gives the one that `compact` says.
    compact : bool
        Names above their bars instead of beside them.

    Returns
    -------
    str
        An SVG image.
    """
    wide = width or (axes.NARROW if compact else axes.WIDE)
    notes = max(draw.text_width(bar.note, SIZE) for bar in bars)
    names = 0.0 if compact else min(max(map(_width, bars)), LONGEST_NAME)
    # an overlong note takes no more than half of what the names leave
    notes = min(notes, (wide - names) / 2)
    x0, x1 = (1.0, wide - 1) if compact else (names + 10, wide - notes - 12)
    row, x = (ABOVE if compact else BESIDE), axes.scale(marks[0], marks[-1], x0, x1)
    # lines across leave out the names above bars
    spans = [((i + 1) * row - BAR - 8 if compact else i * row, (i + 1) * row) for i in range(len(bars))]
    body = [draw.strokes([(x(mark), y0, x(mark), y1) for mark in marks for y0, y1 in spans], "grid")]
    for bar, (_, y) in zip(bars, spans, strict=True):
        body.append(_texts_above(bar, y, wide) if compact else _texts_beside(bar, y, names, wide, notes))
        body.append(_length(bar, y - (5 if compact else (BESIDE - BAR) / 2), x))
    if reference is not None:
        across = [(x(reference), y0, x(reference), y1) for y0, y1 in spans]
        body.append(draw.strokes(across, "reference"))
    bottom = row * len(bars)
    body.append(draw.line(x0, bottom, x1, bottom, "axis"))
    body.append(_axis(marks, x, bottom + 17, wide))
    form = "" if width is not None else axes.form(compact)
    return draw.frame(uid, wide, bottom + 24, title, description, "".join(body), form)


def _width(bar: Bar) -> float:
    # half a pixel more a letter for bold
    return draw.text_width(bar.name, SIZE) + (0.5 * len(bar.name) if bar.bold else 0.0)


def _name(bar: Bar, room: float) -> tuple[str, str]:
    """A name that fits, and its classes."""
    less = 0.5 * len(bar.name) if bar.bold else 0.0
    return draw.shorten(bar.name, room - less, SIZE), "s b" if bar.bold else "s"


def _texts_beside(bar: Bar, y: float, names: float, wide: float, notes: float) -> str:
    base = y - BESIDE / 2 + 4
    note = draw.shorten(bar.note, notes, SIZE)
    return draw.label(names, base, *_name(bar, names), "end") + draw.label(wide, base, note, "s m", "end")


def _texts_above(bar: Bar, y: float, wide: float) -> str:
    base = y - BAR - 11
    note = draw.shorten(bar.note, wide / 2, SIZE)
    room = wide - draw.text_width(note, SIZE) - 8
    return draw.label(0, base, *_name(bar, room)) + draw.label(wide, base, note, "s m", "end")


def _length(bar: Bar, y: float, x: Callable[[float], float]) -> str:
    """The bar whose lower edge is at y, and its whisker."""
    if bar.value is None:
        return ""
    # a bar too short to see still leaves a mark
    length = max(x(bar.value) - x(0.0), 1.0 if bar.value > 0 else 0.0)
    drawn = draw.rect(x(0.0), y - BAR, length, BAR, f"{bar.kind} length")
    if bar.low is None or bar.high is None:
        return drawn
    return drawn + draw.whisker(x(bar.low), x(bar.high), y - BAR / 2, "limit", 3)


def _axis(marks: Sequence[float], x: Callable[[float], float], y: float, wide: float) -> str:
    """Ticks; every second one where they would touch."""
    need = max(draw.text_width(draw.tick_label(mark, marks), SIZE) for mark in marks) + 8
    every = 1 if (x(marks[-1]) - x(marks[0])) / max(len(marks) - 1, 1) >= need else 2
    return axes.axis(marks[::every], x, y, wide, lambda mark: draw.tick_label(mark, marks))
