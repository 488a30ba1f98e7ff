"""Which group of an attribute gets the favourable outcome most often, and which least often."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from evenhand.fairlib.catalogue import is_intersection
from evenhand.fairlib.evaluation.group_selection import NAMED, is_missing
from evenhand.fairlib.evaluation.outcomes import GroupRates, group_rates

# A smaller difference of two selection rates favours nobody.
LEAST_DIFFERENCE = 0.0005


class NamedRates(NamedTuple):
    """Rates of an attribute's groups: all that can be compared, and those that sentences name."""

    groups: list[GroupRates]
    named: list[GroupRates]


def named_rates(name: str, metrics: Mapping[str, Any]) -> NamedRates:
    """Rates of the groups of an attribute, by the JSON of an evaluation."""
    settings = metrics["settings"]
    rates = group_rates(
        metrics["counts"][name],
        settings.get("min_cell", 5),
        favourable=int(settings.get("favourable", 1)),
    )
    groups = []
    for rate in rates:
        if rate.selected.value is not None and not is_missing(rate.group):
            groups.append(rate)
    large = [rate for rate in groups if rate.n >= NAMED]
    return NamedRates(groups, large if len(large) >= 2 else groups)


def favoured_groups(metrics: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """By attribute the groups that get the favourable outcome ``most`` and ``least`` often.

    Empty for labels of more than two values, which have no favourable one; an attribute without
    two groups that differ has no entry.
    """
    if "classes" in metrics["settings"]:
        return {}
    favoured = {}
    counts = metrics["counts"]
    for name in counts:
        if is_intersection(name, counts):
            continue
        shares = [
            (rate.selected.value or 0.0, rate.group) for rate in named_rates(name, metrics).named
        ]
        if len(shares) < 2:
            continue
        low, least = min(shares)
        high, most = max(shares)
        if high - low >= LEAST_DIFFERENCE:
            favoured[name] = {"most": most, "least": least}
    return favoured
