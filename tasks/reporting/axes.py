"""What the plots of a report share: their widths, scales, axes and legends, and room between labels.

Each plot comes in a wide form and a narrow one (``compact``) for phones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from evenhand.tasks.reporting import draw

__all__ = ["NARROW", "WIDE", "axis", "form", "legend", "scale", "spread"]

WIDE, NARROW = 720.0, 340.0


def form(compact: bool) -> str:
    """Class of a plot's image."""
    return "narrow" if compact else "wide"


def scale(low: float, high: float, x0: float, x1: float) -> Callable[[float], float]:
    """Map [low, high] to [x0, x1]; what lies outside goes to the nearer end."""
    span = high - low or 1.0
    return lambda value: x0 + (min(max(value, low), high) - low) / span * (x1 - x0)


def axis(
    marks: Sequence[float], x: Callable[[float], float], y: float, width: float, text: Callable[[float], str]
) -> str:
    """Write the marks under their places; the first and last labels stay inside the picture."""
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


def legend(items: Sequence[tuple[str, str]], width: float) -> tuple[str, float]:
    """
    Draw a legend and tell its height; a line that is full wraps.

    Each item is a mark, drawn around x=9 and y=0, and its text.
    """
    parts, x, y = [], 0.0, 12.0
    for mark, text in items:
        need = 24 + draw.text_width(text, 12) + 18
        if x and x + need - 18 > width:
            x, y = 0.0, y + 21
        place = f"translate({draw.num(x)} {draw.num(y)})"
        parts.append(f'<g transform="{place}">{mark}{draw.label(24, 4, text, "s")}</g>')
        x += need
    return "".join(parts), (y + 20 if items else 0.0)


def spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Push labels at the ends of lines apart, in order, then back up from the lower edge."""
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
