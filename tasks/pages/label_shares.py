"""How often the groups of an attribute get each of more than two labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from evenhand.fairlib.catalogue import spoken
from evenhand.fairlib.evaluation.group_selection import NAMED, is_missing
from evenhand.tasks.pages import formats
from evenhand.tasks.pages.page_model import Json


class GroupLabels(NamedTuple):
    """One group: how many rows of each label were observed, and how many predicted."""

    group: str
    n: int
    observed: dict[str, int]
    predicted: dict[str, int]


def labels_of_groups(cells: Sequence[Json]) -> list[GroupLabels]:
    """The labels of each group of one attribute, in the order of the counts; none of counts by an
    older version, which did not count predictions.
    """
    if not all("predicted" in cell for cell in cells):
        return []
    groups: dict[str, GroupLabels] = {}
    for cell in cells:
        name = cell["group"]
        earlier = groups.get(name, GroupLabels(name, 0, {}, {}))
        observed = {**earlier.observed, cell["label"]: cell["n"]}
        predicted = {**earlier.predicted, cell["label"]: cell["predicted"]}
        groups[name] = GroupLabels(name, earlier.n + cell["n"], observed, predicted)
    return list(groups.values())


def shares_sentence(name: str, cells: Sequence[Json]) -> str:
    """Say which label's predicted shares differ most between groups of an attribute, and what was
    observed; empty where no two groups have rows enough.
    """
    groups = []
    for group in labels_of_groups(cells):
        if group.n >= NAMED and not is_missing(group.group):
            groups.append(group)
    if len(groups) < 2:
        return ""
    widest = ""
    difference = -1.0
    for label in groups[0].predicted:
        shares = [group.predicted[label] / group.n for group in groups]
        if max(shares) - min(shares) > difference:
            difference = max(shares) - min(shares)
            widest = label
    ordered = sorted(groups, key=lambda group: group.predicted[widest] / group.n)
    least = ordered[0]
    most = ordered[-1]
    return (
        f"By {spoken(name)}: “{spoken(widest)}” is predicted for "
        f"{formats.percent(most.predicted[widest] / most.n)} of “{most.group}” and "
        f"{formats.percent(least.predicted[widest] / least.n)} of “{least.group}” (observed: "
        f"{formats.percent(most.observed[widest] / most.n)} and "
        f"{formats.percent(least.observed[widest] / least.n)})."
    )
