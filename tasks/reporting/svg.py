"""The plots of a report as SVG text: pure functions from numbers to a string, with no plotting library.

Colours, strokes and fonts come from the page's style by class name. Marks differ in shape and place, never
in colour alone. Each plot comes in a wide form and a narrow one (``compact``) for phones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from tasks.reporting import draw, formats

WIDE, NARROW = 720.0, 340.0


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


def _form(compact: bool) -> str:
    return "narrow" if compact else "wide"


def _scale(low: float, high: float, x0: float, x1: float) -> Callable[[float], float]:
    span = high - low or 1.0
    return lambda value: x0 + (min(max(value, low), high) - low) / span * (x1 - x0)


def _axis(
    marks: Sequence[float], x: Callable[[float], float], y: float, width: float, text: Callable[[float], str]
) -> str:
    # The first and last labels stay inside the picture.
    parts = []
    for mark in marks:
        at, anchor = x(mark), "middle"
        half = draw.text_width(text(mark), 12) / 2
        if at < half:
            at, anchor = 0.0, "start"
        elif at + half > width:
            at, anchor = width, "end"
        parts.append(draw.label(at, y, text(mark), "s m", anchor))
    return "".join(parts)


def _legend(items: Sequence[tuple[str, str]], width: float) -> tuple[str, float]:
    # Each item is (mark drawn around x=9, y=0; text); a line that is full wraps.
    parts, x, y = [], 0.0, 12.0
    for mark, text in items:
        need = 24 + draw.text_width(text, 12) + 18
        if x and x + need - 18 > width:
            x, y = 0.0, y + 21
        place = f"translate({draw.num(x)} {draw.num(y)})"
        parts.append(f'<g transform="{place}">{mark}{draw.label(24, 4, text, "s")}</g>')
        x += need
    return "".join(parts), (y + 20 if items else 0.0)


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
    """Draw dots with whiskers, one metric a row, beside a paper's mean and spread and the gates' limits.

    Parameters
    ----------
    rows : sequence of IntervalRow
    uid, title, description : str
        See :func:`tasks.reporting.draw.frame`.
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
    width = NARROW if compact else WIDE
    x0, x1, height = (8.0, width - 8, 76.0) if compact else (250.0, 574.0, 46.0)
    low, high = interval_range(rows)
    low = low if floor is None else min(floor, low)
    high = high if ceiling is None else max(ceiling, high)
    marks = draw.ticks(low, high, 5 if compact else 6)
    x = _scale(marks[0], marks[-1], x0, x1)
    items = [(draw.whisker(0, 18, 0) + draw.dot(9, 0), f"this model, {interval_name}")]
    if any(row.paper is not None for row in rows):
        items.append((draw.rect(0, -5, 18, 10, "band") + draw.diamond(9, 0), "the paper, mean and one sd"))
    if any(row.limits for row in rows):
        items.append((limit_mark(9, 0, 8, "min"), "a gate’s limit, flag to the side that passes"))
    legend, top = _legend(items, width)
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
        own = middle - 6 if row.paper is not None else middle
        if row.paper is not None:
            mean, sd = row.paper
            if sd:
                body.append(draw.rect(x(mean - sd), middle + 2, x(mean + sd) - x(mean - sd), 10, "band", 2))
            body.append(draw.diamond(x(mean), middle + 7))
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
    body.append(_axis(marks, x, bottom + 4, width, lambda v: draw.tick_label(v, marks)))
    return draw.frame(uid, width, bottom + 12, title, description, "".join(body), _form(compact))


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
        See :func:`tasks.reporting.draw.frame`.
    compact : bool
        Labels above the marks, for a narrow page.

    Returns
    -------
    str
        An SVG image.
    """
    width = NARROW if compact else WIDE
    x0, x1, height = (8.0, width - 8, 40.0) if compact else (240.0, 604.0, 26.0)
    marks = [0.0, 0.25, 0.5, 0.75, 1.0]
    x = _scale(0.0, 1.0, x0, x1)
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
    body.append(_axis(marks, x, y - 2, width, lambda v: f"{100 * v:.0f}%"))
    return draw.frame(uid, width, y + 6, title, description, "".join(body), _form(compact))


def distribution(
    edges: Sequence[float],
    shares: Sequence[float],
    reference: Sequence[float],
    top: float,
    *,
    uid: str,
    title: str,
    description: str,
) -> str:
    """Draw one group's scores as a stepped outline, before the outline of all shown groups together.

    Parameters
    ----------
    edges : sequence of float, length bins + 1
        Rising bin edges.
    shares, reference : sequence of float, length bins
        The part of the group (of all shown groups) that falls in each bin; each sums to one.
    top : float
        Upper end of the vertical axis, the same for all groups that are compared.
    uid, title, description : str
        See :func:`tasks.reporting.draw.frame`.

    Returns
    -------
    str
        An SVG image.
    """
    width, height, x0, x1, y0, y1 = 230.0, 128.0, 38.0, 222.0, 104.0, 10.0
    x = _scale(edges[0], edges[-1], x0, x1)
    marks = draw.ticks(0.0, top, 4)
    y = _scale(0.0, marks[-1], y0, y1)

    def outline(values: Sequence[float]) -> str:
        steps = [f"M{draw.num(x(edges[0]))} {draw.num(y0)}"]
        for right, value in zip(edges[1:], values, strict=True):
            steps.append(f"V{draw.num(y(value))}H{draw.num(x(right))}")
        return "".join(steps) + f"V{draw.num(y0)}"

    body = [draw.strokes([(x0, y(mark), x1, y(mark)) for mark in marks], "grid")]
    for mark in marks:
        text = draw.tick_label(100 * mark, [100 * m for m in marks]) + "%"
        body.append(draw.label(x0 - 5, y(mark) + 4, text, "xs m", "end"))
    body.append(f'<path d="{outline(shares)}" class="outline"/>')
    body.append(f'<path d="{outline(reference)}" class="reference"/>')
    body.append(draw.line(x0, y0, x1, y0, "axis"))
    ends = (edges[0], (edges[0] + edges[-1]) / 2, edges[-1])
    for mark, anchor in zip(ends, ("start", "middle", "end"), strict=True):
        body.append(draw.label(x(mark), y0 + 16, f"{mark:.3g}".replace("-", "\u2212"), "xs m", anchor))
    return draw.frame(uid, width, height, title, description, "".join(body), "small")


def histogram(
    edges: Sequence[float],
    counts: Sequence[int],
    *,
    uid: str,
    title: str,
    description: str,
    axis: str,
    unit: str = "people",
    compact: bool = False,
) -> str:
    """Draw counts as upright bars, with the count on a bar where it fits.

    Parameters
    ----------
    edges : sequence of float, length bins + 1
        Rising.
    counts : sequence of int, length bins
    uid, title, description : str
        See :func:`tasks.reporting.draw.frame`.
    axis, unit : str
        What the edges are, and what is counted.
    compact : bool
        For a narrow page.

    Returns
    -------
    str
        An SVG image.
    """
    width, height = (NARROW, 230.0) if compact else (WIDE, 260.0)
    # Parts of a person are not counted.
    marks = [mark for mark in draw.ticks(0.0, max(*counts, 1), 5) if mark == int(mark)]
    texts = [draw.tick_label(mark, marks) for mark in marks]
    across = draw.ticks(edges[0], edges[-1], 5 if compact else 8)
    # The last label is centred under its mark and may stand out on the right.
    last = draw.text_width(draw.tick_label(across[-1], across), 12) / 2
    x0, x1 = max(draw.text_width(text, 12) for text in texts) + 10, width - last
    y0, y1 = height - 42, 32.0
    x, y = _scale(across[0], across[-1], x0, x1), _scale(0.0, marks[-1], y0, y1)
    body = [draw.label(0, 12, unit, "s m")]
    body.append(draw.strokes([(x0, y(mark), x1, y(mark)) for mark in marks], "grid"))
    for mark, text in zip(marks, texts, strict=True):
        body.append(draw.label(x0 - 7, y(mark) + 4, text, "s m", "end"))
    for left, right, n in zip(edges, edges[1:], counts, strict=False):
        if n == 0:
            continue
        wide = x(right) - x(left)
        # A bar too low to see still leaves a mark.
        top = min(y(n), y0 - 1.5)
        body.append(draw.rect(x(left) + 1, top, wide - 2, y0 - top, "bar"))
        if draw.text_width(formats.count(n), 12) < wide:
            body.append(draw.label(x(left) + wide / 2, top - 5, formats.count(n), "s", "middle"))
    body.append(draw.line(x0, y0, x1, y0, "axis"))
    for mark in across:
        body.append(draw.label(x(mark), y0 + 18, draw.tick_label(mark, across), "s m", "middle"))
    middle = (x0 + x1) / 2
    named = draw.shorten(axis, 2 * min(middle, width - middle), 12)
    body.append(draw.label(middle, height - 4, named, "s m", "middle"))
    return draw.frame(uid, width, height, title, description, "".join(body), _form(compact))


def _spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    # Labels at the ends of lines: pushed apart in order, then back up from the lower edge.
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    placed = list(wanted)
    floor = low
    for i in order:
        placed[i] = max(placed[i], floor)
        floor = placed[i] + gap
    roof = high
    for i in reversed(order):
        placed[i] = min(placed[i], roof)
        roof = placed[i] - gap
    return placed


def line_plot(
    steps: Sequence[int],
    series: Sequence[tuple[str, Sequence[float | None]]],
    *,
    uid: str,
    title: str,
    description: str,
    axis: str = "step",
    compact: bool = False,
) -> str:
    """Draw curves over steps, each named at its end and told apart by its dashes.

    Parameters
    ----------
    steps : sequence of int
    series : sequence of (str, sequence of float or None)
        At most six are told apart; None leaves a gap.
    uid, title, description : str
        See :func:`tasks.reporting.draw.frame`.
    axis : str
        Name of the horizontal axis.
    compact : bool
        For a narrow page.

    Returns
    -------
    str
        An SVG image.
    """
    width, height = (NARROW, 230.0) if compact else (WIDE, 270.0)
    values = [v for _, points in series for v in points if v is not None]
    marks = draw.ticks(min(values, default=0.0), max(values, default=1.0), 5)
    texts = [draw.tick_label(mark, marks) for mark in marks]
    x0 = max(draw.text_width(text, 12) for text in texts) + 10
    room = min(max(draw.text_width(name, 12) for name, _ in series) + 18, width * 0.36)
    x1, y0, y1 = width - room, height - 42, 12.0
    x = _scale(min(steps), max(steps), x0, x1)
    y = _scale(marks[0], marks[-1], y0, y1)
    body = []
    body.append(draw.strokes([(x0, y(mark), x1, y(mark)) for mark in marks], "grid"))
    for mark, text in zip(marks, texts, strict=True):
        body.append(draw.label(x0 - 7, y(mark) + 4, text, "s m", "end"))
    first, final = min(steps), max(steps)
    across = [t for t in draw.ticks(first, final, 5 if compact else 7) if first <= t <= final]
    for mark in across:
        body.append(draw.label(x(mark), y0 + 18, draw.tick_label(mark, across), "s m", "middle"))
    body.append(draw.label((x0 + x1) / 2, height - 6, axis, "s m", "middle"))
    ends = []
    for i, (name, points) in enumerate(series):
        path, pen, last = [], "M", None
        for step, value in zip(steps, points, strict=True):
            if value is None:
                pen = "M"
                continue
            path.append(f"{pen}{draw.num(x(step))} {draw.num(y(value))}")
            pen, last = "L", (x(step), y(value))
        if last is not None:
            body.append(f'<path d="{"".join(path)}" class="curve c{i % 6}"/>')
            body.append(draw.dot(*last, f"end c{i % 6}", 3))
            ends.append((name, last))
    placed = _spread([point[1] for _, point in ends], 16.0, y1, y0)
    for (name, point), at in zip(ends, placed, strict=True):
        if abs(at - point[1]) > 3:
            body.append(draw.line(point[0] + 4, point[1], x1 + 10, at, "track"))
        body.append(draw.label(x1 + 12, at + 4, draw.shorten(name, room - 14, 12), "s"))
    return draw.frame(uid, width, height, title, description, "".join(body), _form(compact))


def timeline(bars: Sequence[Bar], *, uid: str, title: str, description: str, compact: bool = False) -> str:
    """Draw steps laid end to end along time; those taken from the cache are hatched and say so.

    Parameters
    ----------
    bars : sequence of Bar
    uid, title, description : str
        See :func:`tasks.reporting.draw.frame`.
    compact : bool
        Labels above the bars, for a narrow page.

    Returns
    -------
    str
        An SVG image.
    """
    width = NARROW if compact else WIDE
    x0, x1, height = (0.0, width, 42.0) if compact else (160.0, 570.0, 28.0)
    total = sum(bar.seconds for bar in bars)
    x = _scale(0.0, total or 1.0, x0, x1)
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
    return draw.frame(uid, width, tall, title, description, "".join(body), _form(compact))
