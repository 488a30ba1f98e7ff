"""Plots of a proxy: the groups' shares before and after, and what each proxy group tells about them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evenhand.tasks.reporting import axes, draw, formats

__all__ = ["GroupShares", "differences", "fit_columns", "heat_map", "share_bars", "share_grid"]

# The darkest cell's opacity; text on it must stay legible in both colour schemes.
DARKEST = 0.6
# Room between the columns of a grid of bars.
COLUMN_GAP = 12.0


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
        See :func:`evenhand.tasks.reporting.draw.frame`.
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
    legend, top = axes.legend(_bar_kinds(), width)
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


def fit_columns(labels: Sequence[str]) -> bool:
    """Whether all heads of :func:`share_grid` fit, also on a narrow page."""
    room = axes.NARROW / len(labels) - COLUMN_GAP
    return all(draw.text_width(label, 12) <= room for label in labels)


def share_grid(
    columns: Sequence[str],
    rows: Sequence[str],
    cells: Sequence[Sequence[GroupShares | None]],
    *,
    uid: str,
    title: str,
    description: str,
    compact: bool = False,
) -> str:
    """
    Draw the bars of :func:`share_bars` for several proxies, a column each, all on one scale.

    Parameters
    ----------
    columns : sequence of str, length v
        Short names of the proxies.
    rows : sequence of str, length K
        Names of the groups.
    cells : sequence of (sequence of GroupShares or None), shape (K, v)
        None where a proxy knows no such group.
    uid, title, description : str
        See :func:`evenhand.tasks.reporting.draw.frame`.
    compact : bool
        Names of groups above the bars, for a narrow page.

    Returns
    -------
    str
        An SVG image.
    """
    width, x0, high, above = (axes.NARROW, 0.0, 48.0, 16.0) if compact else (axes.WIDE, 150.0, 32.0, 0.0)
    known = [v for line in cells for c in line if c for v in (c.before, c.after, c.target) if v is not None]
    marks = draw.ticks(0.0, max(known, default=1.0), 4)
    wide = (width - x0) / len(columns)
    scales = [
        axes.scale(0.0, marks[-1], x0 + j * wide, x0 + (j + 1) * wide - COLUMN_GAP)
        for j in range(len(columns))
    ]
    legend, top = axes.legend(_bar_kinds(), width)
    first = top + 20
    bottom = first + len(rows) * high
    # no line runs through the names where these stand above the bars
    spans = [(first + i * high + above, first + (i + 1) * high) for i in range(len(rows))]
    body = [legend]
    for name, x in zip(columns, scales, strict=True):
        body.append(draw.label(x(0.0), top + 12, draw.shorten(name, wide - COLUMN_GAP, 12), "s b"))
        body.append(draw.strokes([(x(m), a, x(m), b) for m in marks for a, b in spans], "grid"))
        body.append(draw.strokes([(x(0.0), a, x(0.0), b) for a, b in spans], "axis"))
        end = f"{100 * marks[-1]:g}%"
        body.append(draw.label(x(0.0), bottom + 15, "0", "s m"))
        body.append(draw.label(x(marks[-1]), bottom + 15, end, "s m", "end"))
    for i, (name, line) in enumerate(zip(rows, cells, strict=True)):
        y = first + i * high
        at, room = (y + 13, width) if compact else (y + 20, x0 - 12)
        body.append(
            draw.label(0, at, draw.shorten(name, room, 12 if compact else 13), "s" if compact else "")
        )
        for cell, x in zip(line, scales, strict=True):
            body.append(_bars(cell, x, y + above + 4))
    return draw.frame(uid, width, bottom + 20, title, description, "".join(body), axes.form(compact))


def _bar_kinds() -> list[tuple[str, str]]:
    return [
        (draw.rect(0, -6, 18, 11, "pale"), "all rows"),
        (draw.rect(0, -6, 18, 11, "bar"), "rows that are kept"),
        (draw.line(9, -8, 9, 8, "limit"), "wanted"),
    ]


def _bars(cell: GroupShares | None, x: Callable[[float], float], y: float) -> str:
    """Two bars of one group and proxy, each a dash where it has too few rows, and the wanted share."""
    if cell is None:
        return ""
    parts = []
    for value, at, kind in ((cell.before, y, "pale"), (cell.after, y + 12, "bar")):
        if value is None:
            parts.append(draw.label(x(0.0) + 4, at + 9, "\u2013", "xs m"))
        else:
            parts.append(draw.rect(x(0.0), at, max(x(value) - x(0.0), 1.0), 10, kind))
    at = x(cell.target)
    return "".join([*parts, draw.line(at, y - 2, at, y + 24, "limit")])


def differences(balance: Mapping[str, Any]) -> list[list[float | None]]:
    """
    Subtract from the groups' shares in each proxy group those among all rows, held out.

    Parameters
    ----------
    balance : mapping
        Content of ``balance.json``.

    Returns
    -------
    list of (list of float or None), shape (K, l)
        Proxy groups from the largest, by training rows; None where there are too few rows.
    """
    order = sorted(range(len(balance["masses"])), key=lambda j: -balance["masses"][j])
    found = []
    for k, rate in enumerate(balance["base_rates"]):
        shares = [None if (c := balance["compositions"][j]) is None else c[k] for j in order]
        found.append([None if share is None or rate is None else share - rate for share in shares])
    return found


def heat_map(
    columns: Sequence[str],
    rows: Sequence[str],
    deviations: Sequence[Sequence[float | None]],
    *,
    uid: str,
    title: str,
    description: str,
    compact: bool = False,
    strongest: float | None = None,
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
        See :func:`evenhand.tasks.reporting.draw.frame`.
    compact : bool
        For a narrow page.
    strongest : float or None
        Difference that has the darkest colour, for pictures that are compared; None for the largest here.

    Returns
    -------
    str
        An SVG image.
    """
    width, x0 = (axes.NARROW, 92.0) if compact else (axes.WIDE, 170.0)
    wide, high, top = min((width - x0) / len(columns), 64.0), 26.0, 24.0
    largest = max((abs(v) for line in deviations for v in line if v is not None), default=0.0)
    most = strongest or largest or 1.0
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
