"""Plots of a proxy: the groups' shares before and after, and what each proxy group tells about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tasks.reporting import axes, draw, formats

__all__ = ["GroupShares", "heat_map", "share_bars"]

# The darkest cell's opacity; text on it must stay legible in both colour schemes.
DARKEST = 0.6


@dataclass(frozen=True)
class GroupShares:
    """One group's shares before and after, None where too few rows, and the wanted one."""

    group: str
    before: float | None
    after: float | None
    target: float


def share_bars(
    rows: Sequence[GroupShares], *, uid: str, title: str, description: str, compact: bool = False
) -> str:
    """
    Draw two bars a group, before and after, and a mark at the wanted share.

    Parameters
    ----------
    rows : sequence of GroupShares
    uid, title, description : str
        See :func:`tasks.reporting.draw.frame`.
    compact : bool
        Labels above the bars, for a narrow page.

    Returns
    -------
    str
        An SVG image.
    """
    width = axes.NARROW if compact else axes.WIDE
    x0, x1, height = (0.0, width - 62, 54.0) if compact else (190.0, width - 70, 36.0)
    known = [v for row in rows for v in (row.before, row.after, row.target) if v is not None]
    marks = draw.ticks(0.0, max(known), 4 if compact else 6)
    x = axes.scale(0.0, marks[-1], x0, x1)
    items = [
        (draw.rect(0, -6, 18, 11, "pale"), "all rows"),
        (draw.rect(0, -6, 18, 11, "bar"), "rows that are kept"),
        (draw.line(9, -8, 9, 8, "limit"), "wanted"),
    ]
    legend, top = axes.legend(items, width)
    bottom = top + len(rows) * height
    body = [legend, draw.strokes([(x(mark), top, x(mark), bottom) for mark in marks], "grid")]
    for i, row in enumerate(rows):
        first = top + i * height + (20 if compact else 4)
        if compact:
            body.append(draw.label(0, first - 5, draw.shorten(row.group, width, 13)))
        else:
            body.append(draw.label(0, first + 18, draw.shorten(row.group, x0 - 14, 13)))
        for value, y, kind in ((row.before, first, "pale"), (row.after, first + 14, "bar")):
            if value is not None:
                body.append(draw.rect(x0, y, max(x(value) - x0, 1.0), 12, kind))
            shown = formats.percent(value) if value is not None else "too few"
            body.append(draw.label(width, y + 10.5, shown, "xs" if value is not None else "xs m i", "end"))
        body.append(draw.line(x(row.target), first - 3, x(row.target), first + 29, "limit"))
    body.append(draw.line(x0, top, x0, bottom, "axis"))
    body.append(axes.axis(marks, x, bottom + 16, width, lambda mark: f"{100 * mark:g}%"))
    return draw.frame(uid, width, bottom + 22, title, description, "".join(body), axes.form(compact))


def heat_map(
    columns: Sequence[str],
    rows: Sequence[str],
    deviations: Sequence[Sequence[float | None]],
    *,
    uid: str,
    title: str,
    description: str,
    compact: bool = False,
) -> str:
    """
    Draw how far each group's share in each proxy group lies from its share among all rows.

    Parameters
    ----------
    columns : sequence of str, length l
        Names of the proxy groups.
    rows : sequence of str, length K
        Names of the groups.
    deviations : sequence of (sequence of float or None), shape (K, l)
        Differences of shares; None where there are too few rows.
    uid, title, description : str
        See :func:`tasks.reporting.draw.frame`.
    compact : bool
        For a narrow page.

    Returns
    -------
    str
        An SVG image.
    """
    width, x0 = (axes.NARROW, 92.0) if compact else (axes.WIDE, 170.0)
    wide, high, top = min((width - x0) / len(columns), 64.0), 26.0, 24.0
    most = max((abs(v) for line in deviations for v in line if v is not None), default=0.0) or 1.0
    body = []
    every = max(1, round(22.0 / wide + 0.49))
    for j, name in enumerate(columns):
        if j % every == 0:
            body.append(draw.label(x0 + (j + 0.5) * wide, 14, name, "s m", "middle"))
    for i, (name, line) in enumerate(zip(rows, deviations, strict=True)):
        y = top + i * high
        body.append(draw.label(x0 - 8, y + 17, draw.shorten(name, x0 - 8, 12), "s", "end"))
        for j, value in enumerate(line):
            body.append(_cell(x0 + j * wide, y, wide, high, value, most))
    bottom = top + len(rows) * high
    body.append(draw.line(x0, bottom, x0 + wide * len(columns), bottom, "axis"))
    middle = x0 + wide * len(columns) / 2
    body.append(draw.label(middle, bottom + 18, "proxy groups, largest first", "s m", "middle"))
    return draw.frame(uid, width, bottom + 26, title, description, "".join(body), axes.form(compact))


def _cell(x: float, y: float, wide: float, high: float, value: float | None, most: float) -> str:
    if value is None:
        return draw.label(x + wide / 2, y + 17, "–", "xs m", "middle") if wide > 10 else ""
    kind = "up" if value > 0 else "down"
    strength = DARKEST * abs(value) / most
    shape = (
        f'<rect x="{draw.num(x + 1)}" y="{draw.num(y + 1)}" width="{draw.num(wide - 2)}" '
        f'height="{draw.num(high - 2)}" class="heat {kind}" fill-opacity="{strength:.3f}"/>'
    )
    points = round(100 * value)
    text = f"{points:+d}".replace("-", "\u2212") if points else "0"
    if draw.text_width(text, 11.5) > wide - 2:
        return shape
    return shape + draw.label(x + wide / 2, y + 17, text, "xs", "middle")
