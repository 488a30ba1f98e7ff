"""Plots of a filter run: rows by proxy group, and expected shares of the sensitive groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from evenhand.tasks.reporting import axes, draw, formats
from evenhand.tasks.reporting.filter_numbers import ExpectedShare, ProxyGroup

__all__ = ["expected_plot", "proxy_group_bars", "share_interval"]


def proxy_group_bars(
    rows: Sequence[ProxyGroup], *, uid: str, title: str, description: str, compact: bool = False
) -> str:
    """
    Draw a bar a proxy group, filled as far as its rows are kept, and a mark at its share in training.

    Parameters
    ----------
    rows : sequence of ProxyGroup
    uid, title, description : str
        See :func:`evenhand.tasks.reporting.draw.frame`.
    compact : bool
        For a narrow page.

    Returns
    -------
    str
        An SVG image.
    """
    width = axes.NARROW if compact else axes.WIDE
    x0, x1, height = (30.0, width - 52, 28.0) if compact else (120.0, width - 60, 28.0)
    known = [row.training for row in rows if row.training is not None]
    marks = draw.ticks(0.0, max([row.share for row in rows] + known), 4 if compact else 6)
    x = axes.scale(0.0, marks[-1], x0, x1)
    items = [
        (draw.rect(0, -6, 18, 11, "pale"), "rows of this batch"),
        (draw.rect(0, -6, 18, 11, "bar"), "of these, expected to be kept"),
    ]
    if known:
        items.append((draw.line(9, -8, 9, 8, "limit"), "share of the training rows"))
    legend, top = axes.legend(items, width)
    bottom = top + len(rows) * height
    body = [legend, draw.strokes([(x(mark), top, x(mark), bottom) for mark in marks], "grid")]
    for i, row in enumerate(rows):
        y = top + i * height + 7
        body.append(draw.label(0, y + 11.5, row.name if compact else f"Proxy group {row.name}"))
        body.append(draw.rect(x0, y, x(row.share) - x0, 14, "pale"))
        body.append(draw.rect(x0, y, x(row.kept_share) - x0, 14, "bar"))
        if row.training is not None:
            body.append(draw.line(x(row.training), y - 4, x(row.training), y + 18, "limit"))
        body.append(draw.label(width, y + 11.5, formats.percent(row.share), "s", "end"))
    body.append(draw.line(x0, top, x0, bottom, "axis"))
    body.append(axes.axis(marks, x, bottom + 16, width, _percent))
    return draw.frame(uid, width, bottom + 22, title, description, "".join(body), axes.form(compact))


def expected_plot(
    rows: Sequence[ExpectedShare],
    *,
    uid: str,
    title: str,
    description: str,
    interval_name: str,
    compact: bool = False,
) -> str:
    """
    Draw every group's expected share with its interval, beside its share in training and the wanted one.

    Parameters
    ----------
    rows : sequence of ExpectedShare
    uid, title, description : str
        See :func:`evenhand.tasks.reporting.draw.frame`.
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
    x0, x1, height = (8.0, width - 8, 64.0) if compact else (190.0, width - 130, 44.0)
    known = [v for row in rows for v in (row.high, row.expected, row.training, row.wanted) if v is not None]
    marks = draw.ticks(0.0, max(known), 4 if compact else 6)
    x = axes.scale(0.0, marks[-1], x0, x1)
    items = [
        (draw.whisker(0, 18, 0) + draw.dot(9, 0), f"expected of the kept rows, {interval_name}"),
        (draw.diamond(9, 0), "training rows"),
        (draw.line(9, -8, 9, 8, "limit"), "wanted"),
    ]
    legend, top = axes.legend(items, width)
    bottom = top + len(rows) * height
    middles = [top + i * height + (42 if compact else height / 2) for i in range(len(rows))]
    body = [legend, draw.strokes([(x(v), m - 15, x(v), m + 15) for m in middles for v in marks], "grid")]
    body.append(draw.strokes([(x0, middle, x1, middle) for middle in middles], "track"))
    for row, middle in zip(rows, middles, strict=True):
        text = middle - 24 if compact else middle + 4.5
        room = width - 170 if compact else x0 - 14
        body.append(draw.label(0, text, draw.shorten(row.group, room, 13)))
        body.append(draw.line(x(row.wanted), middle - 14, x(row.wanted), middle + 14, "limit"))
        if row.training is not None:
            body.append(draw.diamond(x(row.training), middle + 7))
        body += _estimate(row, x, middle - 6)
        body += _numbers(row, text, width, compact)
    body.append(axes.axis(marks, x, bottom + 14, width, _percent))
    return draw.frame(uid, width, bottom + 20, title, description, "".join(body), axes.form(compact))


def share_interval(low: float | None, high: float | None) -> str:
    """Write both ends as percentages."""
    if low is None or high is None:
        return formats.interval(None, None)
    return f"{formats.percent(low)} to {formats.percent(high)}"


def _percent(mark: float) -> str:
    return f"{100 * mark:g}%"


def _estimate(row: ExpectedShare, x: Callable[[float], float], y: float) -> list[str]:
    if row.expected is None:
        return []
    dot = draw.dot(x(row.expected), y)
    if row.low is None or row.high is None:
        return [dot]
    return [draw.whisker(x(row.low), x(row.high), y), dot]


def _numbers(row: ExpectedShare, y: float, width: float, compact: bool) -> list[str]:
    """The share and its interval: in one line on a narrow page, else one below the other."""
    if row.expected is None:
        return [draw.label(width, y, "too few rows", "s m i", "end")]
    shown, ends = formats.percent(row.expected), share_interval(row.low, row.high)
    if compact:
        at = width - draw.text_width(ends, 12) - 8
        return [draw.label(at, y, shown, "b", "end"), draw.label(width, y, ends, "s m", "end")]
    return [
        draw.label(width, y - 8, shown, "b", "end"),
        draw.label(width, y + 8, ends, "s m", "end"),
    ]
