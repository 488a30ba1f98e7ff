"""Plots of drift: a column's shares in training and in the new rows, side by side."""

from __future__ import annotations

from collections.abc import Sequence

from evenhand.tasks.reporting import axes, draw, formats

__all__ = ["shares_plot"]

ROW_WIDE, ROW_NARROW, BAR = 34.0, 46.0, 11.0


def shares_plot(
    rows: Sequence[tuple[str, float, float]],
    *,
    uid: str,
    title: str,
    description: str,
    compact: bool = False,
) -> str:
    """
    Draw two bars a name: the share then, and the share now.

    Parameters
    ----------
    rows : sequence of (str, float, float)
        Name, share then, share now; at least one.
    uid, title, description : str
        See :func:`evenhand.tasks.reporting.draw.frame`.
    compact : bool
        Names above their bars, for a narrow page.

    Returns
    -------
    str
        An SVG image.
    """
    width = axes.NARROW if compact else axes.WIDE
    height = ROW_NARROW if compact else ROW_WIDE
    x0, x1 = (0.0, width - 8) if compact else (210.0, width - 140)
    marks = draw.ticks(0.0, max(max(then, now) for _, then, now in rows), 4 if compact else 6)
    x = axes.scale(0.0, marks[-1], x0, x1)
    items = [
        (draw.rect(0, -6, 18, 11, "pale"), "training rows"),
        (draw.rect(0, -6, 18, 11, "bar"), "new rows"),
    ]
    legend, top = axes.legend(items, width)
    bottom = top + len(rows) * height
    starts = [top + i * height + (20 if compact else 5) for i in range(len(rows))]
    grid = [(x(mark), y - 2, x(mark), y + 2 * BAR + 4) for y in starts for mark in marks]
    body = [legend, draw.strokes(grid, "grid")]
    for (name, then, now), y in zip(rows, starts, strict=True):
        numbers = f"{formats.percent(then)} \u2192 {formats.percent(now)}"
        text = y - 6 if compact else y + BAR + 4
        room = width - draw.text_width(numbers, 12) - 14 if compact else x0 - 14
        body.append(draw.label(0, text, draw.shorten(name, room, 13)))
        body.append(draw.label(width, text, numbers, "s m", "end"))
        body.append(draw.rect(x0, y, x(then) - x0, BAR, "pale"))
        body.append(draw.rect(x0, y + BAR + 1, x(now) - x0, BAR, "bar"))
    body.append(draw.line(x0, top, x0, bottom, "axis"))
    body.append(axes.axis(marks, x, bottom + 16, width, lambda mark: f"{100 * mark:g}%"))
    return draw.frame(uid, width, bottom + 22, title, description, "".join(body), axes.form(compact))
