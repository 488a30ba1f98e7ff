"""Groups in the report of a sweep of proxies: their shares before and after, and what proxy groups tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from evenhand.tasks.reporting import formats, words
from evenhand.tasks.reporting.balance import MOST_LEAVES
from evenhand.tasks.reporting.balance_plots import GroupShares, differences, fit_columns, heat_map, share_grid

__all__ = ["evenly", "share_panels", "tell_panels"]

Json = Mapping[str, Any]
MOST_SHARES, MOST_MAPS = 6, 3
# What may be the same for all values, and so a column of its own.
FACTS = {"before": "All rows", "target": "Wanted"}


def evenly(items: Sequence[int], most: int) -> list[int]:
    """Choose at most so many items at even distances, both ends among them."""
    if len(items) <= most:
        return list(items)
    return [items[round(i * (len(items) - 1) / (most - 1))] for i in range(most)]


def share_panels(document: Json, balances: Sequence[Json]) -> list[dict[str, Any]]:
    """
    Write the groups' shares before and after filtering, one panel an attribute.

    Parameters
    ----------
    document : mapping
        Content of ``tradeoff.json``.
    balances : sequence of mapping
        Points of ``balances.json``.

    Returns
    -------
    list of dict
        `about`, `plots` (wide and narrow), and the table's `heads` and `rows`; at most six values, each with
        the mean over its seeds.
    """
    chosen = evenly(_values(balances), MOST_SHARES)
    found = {
        value: _shares([point["balance"] for point in balances if point["value"] == value])
        for value in chosen
    }
    attributes = dict.fromkeys(attribute for shares in found.values() for attribute in shares)
    return [
        _share_panel(
            attribute,
            {
                document["values"][value]["label"]: shares[attribute]
                for value, shares in found.items()
                if attribute in shares
            },
            number,
        )
        for number, attribute in enumerate(attributes)
    ]


def _values(balances: Sequence[Json]) -> list[int]:
    return sorted({point["value"] for point in balances})


def _shares(balances: Sequence[Json]) -> dict[str, dict[str, GroupShares]]:
    """Mean shares over the seeds, by attribute and group; one that any seed hides stays hidden."""
    seeds: dict[tuple[str, str], list[tuple[float | None, float | None, float]]] = {}
    for balance in balances:
        names = [
            (attribute, group) for attribute, groups in balance["attributes"].items() for group in groups
        ]
        rows = zip(balance["shares_before"], balance["shares_after"], balance["target"], strict=True)
        for name, row in zip(names, rows, strict=True):
            seeds.setdefault(name, []).append(row)
    shares: dict[str, dict[str, GroupShares]] = {}
    for (attribute, group), rows_of_group in seeds.items():
        before, after, target = (_mean(column) for column in zip(*rows_of_group, strict=True))
        assert target is not None
        shares.setdefault(attribute, {})[group] = GroupShares(group, before, after, target)
    return shares


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if len(known) == len(values) else None


def _share_panel(
    attribute: str, values: Mapping[str, Mapping[str, GroupShares]], number: int
) -> dict[str, Any]:
    about = words.attribute(attribute)
    groups = list(dict.fromkeys(group for shares in values.values() for group in shares))
    cells = [[shares.get(group) for shares in values.values()] for group in groups]
    numbered = not fit_columns(list(values))
    columns = [str(i) for i in range(1, len(values) + 1)] if numbered else list(values)
    drawn: dict[str, Any] = {
        "columns": columns,
        "rows": groups,
        "cells": cells,
        "title": f"Shares by {about} before and after, value by value",
        "description": f"{len(groups)} groups by {len(values)} values. The table below has every number.",
    }
    common = [fact for fact in FACTS if _is_common(cells, fact)]
    return {
        "about": about,
        "plots": [
            Markup(share_grid(**drawn, uid=f"shares-{number}-w")),
            Markup(share_grid(**drawn, uid=f"shares-{number}-n", compact=True)),
        ],
        "heads": [
            *(FACTS[fact] for fact in common),
            *(
                f"{column}: {label}" if numbered else label
                for column, label in zip(columns, values, strict=True)
            ),
        ],
        "rows": [
            {
                "group": group,
                "common": [formats.percent(getattr(next(filter(None, line)), fact)) for fact in common],
                "cells": [_cell(cell, common) for cell in line],
            }
            for group, line in zip(groups, cells, strict=True)
        ],
    }


def _is_common(cells: Sequence[Sequence[GroupShares | None]], fact: str) -> bool:
    """Whether a fact is one and the same for all values, as it is shown."""
    shown = [{formats.percent(getattr(cell, fact)) for cell in line if cell} for line in cells]
    return all(len(texts) == 1 for texts in shown)


def _cell(cell: GroupShares | None, common: Sequence[str]) -> tuple[str, str]:
    """The share of the kept rows, and what has no column of its own."""
    if cell is None:
        return "no such group", ""
    own = [f"{FACTS[fact]}: {formats.percent(getattr(cell, fact))}" for fact in FACTS if fact not in common]
    return formats.percent(cell.after), ", ".join(own)


def tell_panels(document: Json, balances: Sequence[Json]) -> list[dict[str, Any]]:
    """
    Draw what the proxy groups of at most three values tell, each of its first seed, in the same colours.

    A value with a single proxy group tells nothing, and is left out.

    Parameters
    ----------
    document, balances
        As for :func:`share_panels`.

    Returns
    -------
    list of dict
        `name`, `said` and `plots` (wide and narrow) of each value.
    """
    first: dict[int, Json] = {}
    for point in sorted(balances, key=lambda point: int(point["seed"])):
        first.setdefault(point["value"], point)
    several = [value for value in _values(balances) if len(first[value]["balance"]["masses"]) > 1]
    chosen = [first[value] for value in evenly(several, MOST_MAPS)]
    apart = [differences(point["balance"]) for point in chosen]
    strongest = max((abs(v) for table in apart for line in table for v in line if v is not None), default=0.0)
    return [
        _tell_panel(document["values"][point["value"]]["name"], point, table, number, strongest)
        for number, (point, table) in enumerate(zip(chosen, apart, strict=True))
    ]


def _tell_panel(
    name: str, point: Json, apart: Sequence[Sequence[float | None]], number: int, strongest: float
) -> dict[str, Any]:
    balance = point["balance"]
    count = len(balance["masses"])
    shown = min(count, MOST_LEAVES)
    one_attribute = len(balance["attributes"]) == 1
    groups = next(iter(balance["attributes"].values())) if one_attribute else balance["groups"]
    known = [
        (abs(value), group)
        for group, line in zip(groups, apart, strict=True)
        for value in line
        if value is not None
    ]
    said = f"Seed {point['seed']}: {formats.plural(count, 'proxy group')}"
    said += f", of which the largest {shown} are drawn." if shown < count else "."
    if known:
        most, group = max(known)
        said += f" The largest difference is {formats.points(most)}, of \u201c{group}\u201d."
    drawn: dict[str, Any] = {
        "columns": [str(place) for place in range(1, shown + 1)],
        "rows": groups,
        "deviations": [line[:shown] for line in apart],
        "strongest": strongest,
        "title": f"Differences of group shares within each proxy group at {name}",
        "description": said,
    }
    return {
        "name": name,
        "said": said,
        "plots": [
            Markup(heat_map(**drawn, uid=f"tells-{number}-w")),
            Markup(heat_map(**drawn, uid=f"tells-{number}-n", compact=True)),
        ],
    }
