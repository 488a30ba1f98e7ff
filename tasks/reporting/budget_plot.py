"""The plot of a certificate of invariance: how far outputs move against the budget, on logarithmic axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from evenhand.tasks.reporting import axes, draw

__all__ = ["Point", "budget_plot", "log_marks"]

LABEL_SIZE = 12.0
# An interval that reaches towards 0 is cut this far below the smallest value.
LEAST_SHARE = 0.1
# A number this near a mark is at it.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Point:
    """What one budget buys, with its interval."""

    budget: float
    value: float
    low: float | None = None
    high: float | None = None


def log_marks(low: float, high: float, most: int) -> list[float]:
    """
    Round numbers that cover [low, high] on a logarithmic axis.

    Parameters
    ----------
    low, high : float
        Above 0, low at most high.
    most : int
        At least 2.

    Returns
    -------
    list of float
        At least two and at most `most`, rising: 1, 2 and 5 times powers of ten where they suffice, else
        powers of ten, every one or every few.
    """
    first = math.floor(math.log10(low) + ROUNDING)
    last = math.ceil(math.log10(high) - ROUNDING)
    fine = [float(f"{digit}e{power}") for power in range(first - 1, last + 2) for digit in (1, 2, 5)]
    start = max(i for i, mark in enumerate(fine) if mark <= low * (1 + ROUNDING))
    end = min(i for i, mark in enumerate(fine) if mark >= high * (1 - ROUNDING))
    found = fine[start : max(end, start + 1) + 1]
    if len(found) <= most:
        return found
    every = math.ceil((last - first) / (most - 1))
    return [float(f"1e{first + every * k}") for k in range(math.ceil((last - first) / every) + 1)]


def budget_plot(
    points: Sequence[Point],
    *,
    own: float,
    uid: str,
    title: str,
    description: str,
    interval_name: str,
    compact: bool = False,
) -> str:
    """
    Draw what budgets buy as a line with its band, the job's own budget marked.

    Parameters
    ----------
    points : sequence of Point
        At least one, by rising budget; budgets and values above 0.
    own : float
        The job's budget; it is marked where it is one of the points.
    uid, title, description : str
        See :func:`evenhand.tasks.reporting.draw.frame`.
    interval_name : str
        Name of the intervals.
    compact : bool
        For a narrow page.

    Returns
    -------
    str
        An SVG image.
    """
    width, height = (axes.NARROW, 270.0) if compact else (axes.WIDE, 300.0)
    values = [point.value for point in points]
    floor = LEAST_SHARE * min(values)
    band = [
        (point.budget, max(point.low, floor), point.high)
        for point in points
        if point.low is not None and point.high is not None
    ]
    across = log_marks(points[0].budget, points[-1].budget, 5 if compact else 8)
    upward = log_marks(
        min([*values, *(low for _, low, _ in band)]), max([*values, *(high for *_, high in band)]), 7
    )
    texts = [_text(mark) for mark in upward]
    x0 = max(draw.text_width(text, LABEL_SIZE) for text in texts) + 10
    x1 = width - draw.text_width(_text(across[-1]), LABEL_SIZE) / 2 - 2
    y0, y1 = height - 44, 52.0
    x, y = _log_scale(across, x0, x1), _log_scale(upward, y0, y1)
    body = [draw.label(0, 12, "outputs move by (mean squared change of the logits)", "s m")]
    body += _key(bool(band), interval_name, any(point.budget == own for point in points))
    body.append(draw.strokes([(x0, y(mark), x1, y(mark)) for mark in upward], "grid"))
    body.append(draw.strokes([(x(mark), y0, x(mark), y1) for mark in across], "grid"))
    body += [draw.label(x0 - 7, y(m) + 4, text, "s m", "end") for m, text in zip(upward, texts, strict=True)]
    body += _across_labels([(x(mark), _text(mark)) for mark in across], y0 + 18)
    middle = (x0 + x1) / 2
    body.append(draw.label(middle, height - 6, "budget (average squared fair distance)", "s m", "middle"))
    if len(band) > 1:
        edge = [(x(at), y(high)) for at, _, high in band] + [(x(at), y(low)) for at, low, _ in reversed(band)]
        body.append(f'<path d="M{_path(edge)}Z" class="span"/>')
    body.append(draw.line(x0, y0, x1, y0, "axis"))
    places = [(x(point.budget), y(point.value)) for point in points]
    body.append(f'<path d="M{_path(places)}" class="curve c0"/>')
    for point, place in zip(points, places, strict=True):
        if point.budget == own:
            body.append(draw.line(place[0], y0, place[0], y1, "reference"))
            body.append(draw.diamond(*place, half=7))
        else:
            body.append(draw.dot(*place, radius=3.5))
    return draw.frame(uid, width, height, title, description, "".join(body), "narrow" if compact else "wide")


def _log_scale(marks: Sequence[float], start: float, end: float) -> Callable[[float], float]:
    low, high = math.log(marks[0]), math.log(marks[-1])
    return lambda value: start + (math.log(value) - low) / (high - low) * (end - start)


def _path(places: Sequence[tuple[float, float]]) -> str:
    return "L".join(f"{draw.num(a)} {draw.num(b)}" for a, b in places)


def _text(mark: float) -> str:
    """A mark as few characters say it: 0.001, 50, 1e−6."""
    text = f"{mark:g}"
    digits, e, power = text.partition("e")
    return f"{digits}e{int(power)}".replace("-", "\u2212") if e else text


def _across_labels(places: Sequence[tuple[float, str]], y: float) -> list[str]:
    """Labels centred under their marks; one that would touch the one before is left out."""
    labels, free = [], 0.0
    for x, text in places:
        half = draw.text_width(text, LABEL_SIZE) / 2
        if x - half >= free:
            labels.append(draw.label(x, y, text, "s m", "middle"))
            free = x + half + 4
    return labels


def _key(band: bool, interval_name: str, own: bool) -> list[str]:
    """What the band and the diamond are."""
    body, at = [], 0.0
    if band:
        body += [draw.rect(0, 23, 18, 12, "span"), draw.label(24, 33, interval_name, "s")]
        at = 24 + draw.text_width(interval_name, LABEL_SIZE) + 22
    if own:
        body += [draw.diamond(at + 7, 29, half=7), draw.label(at + 20, 33, "this job’s budget", "s")]
    return body
