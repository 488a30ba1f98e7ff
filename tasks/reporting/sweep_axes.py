"""What the plots of a sweep's report share: means with intervals, and axes that cover them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from evenhand.tasks.reporting import draw

__all__ = ["LABEL_SIZE", "MOST_WIDENING", "WIDTH", "Estimate", "covering_ticks", "tick_labels"]

WIDTH = 350.0
LABEL_SIZE = 12.0
# An interval may widen the picture by this many times the spread of the dots, then it is cut at the edge.
MOST_WIDENING = 3.0


@dataclass(frozen=True)
class Estimate:
    """A mean with its interval, which may be missing."""

    value: float
    low: float | None = None
    high: float | None = None


def covering_ticks(
    estimates: Sequence[Estimate], limits: Sequence[float], most: int, widening: float = MOST_WIDENING
) -> list[float]:
    """Ticks that cover the dots, the limit and the intervals, unless these are many times as wide."""
    values = [estimate.value for estimate in estimates] + list(limits)
    low, high = min(values), max(values)
    room = widening * (high - low) or math.inf
    lows = [estimate.low for estimate in estimates if estimate.low is not None]
    highs = [estimate.high for estimate in estimates if estimate.high is not None]
    return draw.ticks(
        max(min([low, *lows]), low - room),
        min(max([high, *highs]), high + room),
        most,
    )


def tick_labels(places: Sequence[tuple[float, str]], y: float) -> list[str]:
    """Labels centred under their ticks; one that would touch the one before is left out."""
    labels, free = [], 0.0
    for x, text in places:
        shown = draw.shorten(text, 90, LABEL_SIZE)
        half = draw.text_width(shown, LABEL_SIZE) / 2
        centre = min(max(x, half), WIDTH - half)
        if centre - half >= free:
            labels.append(draw.label(centre, y, shown, "s m", "middle"))
            free = centre + half + 4
    return labels
