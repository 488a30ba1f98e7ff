"""Numbers that several sections of a sweep's page show."""

from __future__ import annotations

import math
from collections.abc import Sequence

from evenhand.fairlib.catalogue import describe, direction, title
from evenhand.tasks.pages import formats
from evenhand.tasks.pages.model import Json


def is_of_proxies(sweep: Json) -> bool:
    """Whether all that was swept are proxies."""
    return bool(sweep["performance"] == "imbalance")


def plain_metrics(names: Sequence[str]) -> list[str]:
    """Metrics that charts show: those of intersections stand in tables only."""
    return [name for name in names if "&" not in name]


def better_text(name: str) -> str:
    """Which way a metric is better, for a heading."""
    way = direction(name)
    return f"{way} is better" if way else "to compare with"


def of_axis(name: str) -> str:
    """Title of an axis: the metric and which way it is better."""
    return f"{title(name)} ({better_text(name)})"


def heads(keys: Sequence[str], names: Sequence[str], about: str = "") -> list[str]:
    """Columns of a table of metrics; what the caption says they are about is not repeated."""
    return [
        ", ".join(keys),
        *(
            f"{describe(name)[0].title if about and '.' in name else title(name)} ({better_text(name)})"
            for name in names
        ),
    ]


def estimate(value: Json, name: str) -> dict[str, float | None] | None:
    """A mean with its interval, cut where the metric cannot be; None where no run has the number."""
    found = value["metrics"].get(name)
    if found is None or found["mean"] is None:
        return None
    if found["low"] is None or found["high"] is None:
        return {"value": found["mean"], "low": None, "high": None}
    bottom, top = describe(name)[0].domain
    low = max(found["low"], -math.inf if bottom is None else bottom)
    high = min(found["high"], math.inf if top is None else top)
    return {"value": found["mean"], "low": low, "high": high}


def mean(values: Sequence[float | None]) -> float | None:
    """Mean of the known numbers; None where none is known."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def evenly(items: Sequence[int], most: int) -> list[int]:
    """At most so many items at even distances, the first and the last among them."""
    if len(items) <= most:
        return list(items)
    return [items[round(i * (len(items) - 1) / (most - 1))] for i in range(most)]


def settings_text(settings: Json, without: Sequence[str] = ()) -> str:
    """Settings of a value as ``name=value`` pairs, some keys left out."""
    kept = {key.rpartition(".")[2]: value for key, value in settings.items() if key not in without}
    return ", ".join(f"{key}={text}" for key, text in formats.flatten(kept))
