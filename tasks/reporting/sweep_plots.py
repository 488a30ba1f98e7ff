"""The plots of a sweep's report: one metric against another, and a metric against the swept key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from evenhand.tasks.reporting import axes, draw
from evenhand.tasks.reporting.sweep_axes import (
    LABEL_SIZE,
    MOST_WIDENING,
    WIDTH,
    Estimate,
    covering_ticks,
    tick_labels,
)

__all__ = ["Estimate", "Mark", "profile_plot", "tradeoff_plot"]

HEIGHT = 290.0
PROFILE_HEIGHT = 210.0
# Kinds of lines that the page's style tells apart.
LINE_KINDS = 6

Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class Mark:
    """One grid value in :func:`tradeoff_plot`; where marks are of several series, a line joins each."""

    label: str
    x: Estimate
    y: Estimate
    on_front: bool = False
    best: bool = False
    series: str = ""


def tradeoff_plot(
    marks: Sequence[Mark],
    *,
    uid: str,
    title: str,
    description: str,
    x_axis: str,
    y_axis: str,
    limits: tuple[Sequence[float], Sequence[float]] = ((), ()),
    reach: tuple[Sequence[Estimate], Sequence[Estimate]] = ((), ()),
    widening: float = MOST_WIDENING,
    square: Mark | None = None,
) -> str:
    """Draw grid values as dots with intervals both ways, and the Pareto front as a line through its dots.

    Marks of several series have a line a series instead, in their order.

    Parameters
    ----------
    marks : sequence of Mark
        At least one.
    uid, title, description : str
        See :func:`evenhand.tasks.reporting.draw.frame`.
    x_axis, y_axis : str
        Names of the axes.
    limits : pair of sequences of float
        Limits set on x and y, drawn as dashed lines.
    reach : pair of sequences of Estimate
        What else the axes must reach, such as the marks of a picture beside this one.
    widening : float
        Intervals may widen the picture by this many times the spread of the dots.
    square : Mark or None
        What the marks are compared with, drawn as a square.

    Returns
    -------
    str
        An SVG image. A label that finds no room is left out.
    """
    drawn = [*marks, *([square] if square else [])]
    across = covering_ticks([*(mark.x for mark in drawn), *reach[0]], limits[0], 5, widening)
    upward = covering_ticks([*(mark.y for mark in drawn), *reach[1]], limits[1], 5, widening)
    series = _series(marks)
    legend, top = axes.legend([_legend_item(place, name) for place, name in enumerate(series)], WIDTH)
    texts = [draw.tick_label(tick, upward) for tick in upward]
    x0, x1 = max(draw.text_width(text, LABEL_SIZE) for text in texts) + 10, WIDTH - 14
    y0, y1 = top + HEIGHT - 44, top + 26
    x, y = axes.scale(across[0], across[-1], x0, x1), axes.scale(upward[0], upward[-1], y0, y1)
    body = [legend, draw.label(0, top + 12, draw.shorten(y_axis, WIDTH, LABEL_SIZE), "s m")]
    body.append(draw.strokes([(x0, y(tick), x1, y(tick)) for tick in upward], "grid"))
    body.append(draw.strokes([(x(tick), y0, x(tick), y1) for tick in across], "grid"))
    body += [draw.label(x0 - 6, y(t) + 4, text, "s m", "end") for t, text in zip(upward, texts, strict=True)]
    body += tick_labels([(x(tick), draw.tick_label(tick, across)) for tick in across], y0 + 17)
    body.append(
        draw.label((x0 + x1) / 2, top + HEIGHT - 6, draw.shorten(x_axis, x1 - x0, 12), "s m", "middle")
    )
    body += [draw.line(x(limit), y0, x(limit), y1, "reference") for limit in limits[0]]
    body += [draw.line(x0, y(limit), x1, y(limit), "reference") for limit in limits[1]]
    for mark in marks:
        body += _cross(mark, x, y, "whisker thin" if not series and (mark.on_front or mark.best) else "axis")
    for number, name in enumerate(series):
        body += _line([(x(m.x.value), y(m.y.value)) for m in marks if m.series == name], number)
    if not series:
        body += _line(sorted((x(mark.x.value), y(mark.y.value)) for mark in marks if mark.on_front), 1)
    order = sorted(marks, key=lambda mark: (mark.best, mark.on_front))
    for mark in order:
        place = series.index(mark.series) if series else None
        body.append(_dot(mark, x(mark.x.value), y(mark.y.value), place))
    if square:
        order.append(square)
        body.append(draw.rect(x(square.x.value) - 5, y(square.y.value) - 5, 10, 10, "square"))
    places = [(mark.label, x(mark.x.value), y(mark.y.value), mark.best) for mark in reversed(order)]
    body += _labels(places, (x0, y1, x1, y0))
    return draw.frame(uid, WIDTH, top + HEIGHT, title, description, "".join(body))


def profile_plot(
    names: Sequence[str],
    estimates: Sequence[Estimate | None],
    *,
    uid: str,
    title: str,
    description: str,
    axis: str,
    best: int | None = None,
    limits: Sequence[float] = (),
) -> str:
    """Draw a metric at each value of one key, the values evenly spaced in their order.

    Parameters
    ----------
    names : sequence of str
        The values, as text.
    estimates : sequence of Estimate or None
        One a value, None without evidence; at least one is known.
    uid, title, description : str
        See :func:`evenhand.tasks.reporting.draw.frame`.
    axis : str
        Name of the key.
    best : int or None
        Which value to mark as chosen.
    limits : sequence of float
        Limits set on the metric, drawn as dashed lines.

    Returns
    -------
    str
        An SVG image.
    """
    known = [(i, estimate) for i, estimate in enumerate(estimates) if estimate is not None]
    upward = covering_ticks([estimate for _, estimate in known], limits, 5)
    texts = [draw.tick_label(tick, upward) for tick in upward]
    x0, x1 = max(draw.text_width(text, LABEL_SIZE) for text in texts) + 10, WIDTH - 14
    y0, y1 = PROFILE_HEIGHT - 42, 8.0
    y = axes.scale(upward[0], upward[-1], y0, y1)
    step = (x1 - x0) / len(names)
    places = [x0 + step * (i + 0.5) for i in range(len(names))]
    body = [draw.strokes([(x0, y(tick), x1, y(tick)) for tick in upward], "grid")]
    body += [draw.label(x0 - 6, y(t) + 4, text, "s m", "end") for t, text in zip(upward, texts, strict=True)]
    body += tick_labels(list(zip(places, names, strict=True)), y0 + 17)
    middle = (x0 + x1) / 2
    body.append(draw.label(middle, PROFILE_HEIGHT - 5, draw.shorten(axis, x1 - x0, 12), "s m", "middle"))
    body += [draw.line(x0, y(limit), x1, y(limit), "reference") for limit in limits]
    path = "L".join(f"{draw.num(places[i])} {draw.num(y(estimate.value))}" for i, estimate in known)
    body.append(f'<path d="M{path}" class="curve c0"/>')
    for i, estimate in known:
        if estimate.low is not None and estimate.high is not None:
            body.append(draw.line(places[i], y(estimate.low), places[i], y(estimate.high), "whisker"))
        at = (places[i], y(estimate.value))
        body.append(draw.diamond(*at, half=7) if i == best else draw.dot(*at))
    return draw.frame(uid, WIDTH, PROFILE_HEIGHT, title, description, "".join(body))


def _cross(mark: Mark, x: Callable[[float], float], y: Callable[[float], float], classes: str) -> list[str]:
    parts, at = [], (x(mark.x.value), y(mark.y.value))
    if mark.x.low is not None and mark.x.high is not None:
        parts.append(draw.line(x(mark.x.low), at[1], x(mark.x.high), at[1], classes))
    if mark.y.low is not None and mark.y.high is not None:
        parts.append(draw.line(at[0], y(mark.y.low), at[0], y(mark.y.high), classes))
    return parts


def _series(marks: Sequence[Mark]) -> list[str]:
    """Names of the series, if there are several."""
    names = list(dict.fromkeys(mark.series for mark in marks))
    return names if len(names) > 1 else []


def _legend_item(place: int, name: str) -> tuple[str, str]:
    kind = place % LINE_KINDS
    mark = draw.line(0, 0, 18, 0, f"curve c{kind}") + draw.dot(9, 0, f"end c{kind}", 4)
    return mark, draw.shorten(name, WIDTH - 24, LABEL_SIZE)


def _line(points: Sequence[tuple[float, float]], place: int) -> list[str]:
    """A line through points, if there are two."""
    if len(points) < 2:
        return []
    path = "L".join(f"{draw.num(a)} {draw.num(b)}" for a, b in points)
    return [f'<path d="M{path}" class="curve c{place % LINE_KINDS}"/>']


def _dot(mark: Mark, x: float, y: float, place: int | None) -> str:
    """A diamond for the best, else a dot in its line's colour; one off the front is smaller."""
    if mark.best:
        return draw.diamond(x, y, half=7)
    if place is not None:
        return draw.dot(x, y, f"end c{place % LINE_KINDS}", 5 if mark.on_front else 3.5)
    return draw.dot(x, y) if mark.on_front else draw.dot(x, y, "end c4", 4)


def _labels(places: Sequence[tuple[str, float, float, bool]], frame: Box) -> list[str]:
    """Labels beside their dots, the first ones first; each takes the first place that is free."""
    taken: list[Box] = [(x - 6, y - 6, x + 6, y + 6) for _, x, y, _ in places]
    labels = []
    for text, x, y, bold in places:
        shown = draw.shorten(text, 130, LABEL_SIZE)
        # half a pixel more a letter for bold
        width = draw.text_width(shown, LABEL_SIZE) + (0.5 * len(shown) if bold else 0)
        for left, base in (
            (x + 8, y - 6),
            (x - 8 - width, y - 6),
            (x + 8, y + 15),
            (x - 8 - width, y + 15),
            (x - width / 2, y - 11),
            (x - width / 2, y + 19),
        ):
            box = (left, base - 10, left + width, base + 3)
            inside = frame[0] <= box[0] and box[2] <= frame[2] and frame[1] <= box[1] and box[3] <= frame[3]
            if inside and not any(_overlap(box, other) for other in taken):
                taken.append(box)
                labels.append(draw.label(left, base, shown, "s b" if bold else "s"))
                break
    return labels


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
