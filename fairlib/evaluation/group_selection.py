"""Which groups of an attribute a metric compares: those with enough rows. The others are named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenhand.fairlib.arrays import Bool, Int
from evenhand.fairlib.catalogue import is_intersection
from evenhand.fairlib.evaluation.metrics import GROUP_METRICS, Needs

NAMED = 20
"""Fewest people of a group that a sentence names as an extreme, where two groups have so many."""

MOST_NAMED = 5
"""Groups that a note of a search names, of those that a metric leaves out."""
MISSING = "missing"
"""Group of the rows without a value of the attribute. It is shown, and is no group of a comparison.
"""

JOINT = " & "
"""Between the two parts of an intersection's group."""

GROUP_NEEDS: dict[str, Needs] = {name: metric.needs for name, metric in GROUP_METRICS.items()} | {
    "calibration_gap": "rows"
}
"""Metrics that compare groups, and the cells of a group that each needs."""

KINDS: dict[Needs, str] = {
    "rows": "group",
    "positives": "group and favourable label",
    "cells": "group and label",
}


def group_texts(values: ArrayLike) -> NDArray[Any]:
    """Give groups as text; a missing value (None, NaN, NaT) is the group ``missing``.

    A group that a table names ``None`` or ``nan`` in words stays a group.

    Parameters
    ----------
    values : array-like, shape (n,)
        Groups.

    Returns
    -------
    ndarray of str, shape (n,)

    Examples
    --------
    >>> group_texts(["None", None, "f"]).tolist()
    ['None', 'missing', 'f']
    """
    column = np.asarray(values)
    if column.dtype.kind in "USbiu":
        return column.astype(str)
    # imported lazily: text cannot be missing
    from pandas import isna

    texts = column.astype(str).astype(object)
    texts[isna(column)] = MISSING
    return texts.astype(str)


@dataclass(frozen=True)
class GroupSelection:
    """The groups of one attribute that a metric compares, and those that it leaves out."""

    names: tuple[str, ...]  # all K groups
    measured: Bool  # shape (K,): whether a group is compared
    missing: Bool  # shape (K,): whether a group is of missing values
    rows: Int  # shape (K,): rows (or people) of each group
    needed: Int  # shape (K, C): rows (or people) of each cell of a group that the metric needs

    @property
    def positions(self) -> Int:
        """Positions of the compared groups."""
        return np.flatnonzero(self.measured)

    def left_out(self) -> list[dict[str, Any]]:
        """List the groups that are left out.

        Returns
        -------
        list of dict
            Per group ``group``, ``n`` (its rows, or people where they are numbered), ``fewest``
            (those in the smallest cell that the metric needs) and ``reason``: ``"missing"`` or
            ``"too_few"``.
        """
        groups = []
        for place in np.flatnonzero(~self.measured).tolist():
            groups.append(
                {
                    "group": self.names[place],
                    "n": int(self.rows[place]),
                    "fewest": int(self.needed[place].min()),
                    "reason": "missing" if self.missing[place] else "too_few",
                }
            )
        return groups

    def to_json(self) -> dict[str, Any]:
        """Give the names of the measured groups, and those left out, as plain JSON types."""
        measured = [self.names[place] for place in self.positions.tolist()]
        return {"measured": measured, "left_out": self.left_out()}


def select_groups(
    names: Sequence[str], rows: Int, by_label: Int, needs: Needs, min_cell: int
) -> GroupSelection:
    """Select the groups with at least `min_cell` rows in every cell that a metric needs.

    Parameters
    ----------
    names : sequence of str
        The K groups.
    rows : int array, shape (K,)
        Rows (or people) of each group.
    by_label : int array, shape (K, L)
        Rows (or people) of each group and true label.
    needs : {"rows", "positives", "cells"}
        Cells that the metric needs: the group's rows, those of the last label, those of each label.
    min_cell : int
        Smallest number in a cell.

    Returns
    -------
    GroupSelection
    """
    needed = needed_rows(rows, by_label, needs)
    missing = np.array([is_missing(name) for name in names], dtype=bool)
    enough = (needed >= min_cell).all(axis=1)
    return GroupSelection(tuple(names), enough & ~missing, missing, rows, needed)


def needed_rows(rows: Int, by_label: Int, needs: Needs) -> Int:
    """Return the rows of those cells of each group that a metric needs.

    Parameters
    ----------
    rows : int array, shape (..., K)
        Rows (or people) of each group.
    by_label : int array, shape (..., K, L)
        Rows (or people) of each group and true label.
    needs : {"rows", "positives", "cells"}
        Cells that the metric needs: the group's rows, those of the last label, those of each label.

    Returns
    -------
    int array, shape (..., K, C)
    """
    if needs == "rows":
        return rows[..., np.newaxis]
    if needs == "positives":
        return by_label[..., -1:]
    return by_label


def is_missing(group: str) -> bool:
    """Say whether a group is of missing values.

    Parameters
    ----------
    group : str
        Name of the group; of an intersection one missing part is enough.

    Returns
    -------
    bool
    """
    return MISSING in group.split(JOINT)


def shortage_of(
    attribute: str, groups: GroupSelection, needs: Needs, min_cell: int, unit: str
) -> str:
    """Say why fewer than two groups can be compared, and name those left out; empty if two can be.

    Parameters
    ----------
    attribute : str
        Name of the attribute.
    groups : GroupSelection
        The groups.
    needs : {"rows", "positives", "cells"}
        Cells that the metric needs.
    min_cell : int
        Smallest number in a cell.
    unit : str
        What is counted: ``"rows"`` or ``"people"``.

    Returns
    -------
    str
    """
    if len(groups.positions) >= 2:
        return ""
    left_out = left_out_text(groups.left_out(), unit)
    note = f"; left out: {left_out}" if left_out else ""
    present = groups.needed[~groups.missing]
    if len(present) < 2:
        return f"{attribute}: only {len(present)} group, nothing to compare it with{note}"
    short = int(np.sum(present < min_cell))
    return (
        f"{attribute}: {short} of {present.size} cells ({KINDS[needs]}) have fewer than {min_cell} "
        f"{unit}, the smallest has {int(present.min())}{note}"
    )


def left_out_text(
    groups: Sequence[Mapping[str, Any]], unit: str = "rows", *, most: int | None = None
) -> str:
    """Name groups that are left out, with their counts: ``"diverse (4 rows), missing (9 rows)"``.

    Parameters
    ----------
    groups : sequence of mappings
        As :meth:`GroupSelection.left_out` gives them.
    unit : str
        What is counted, in the plural.
    most : int or None, default None
        Of more groups only so many are named, and the others counted; default: all are named.

    Returns
    -------
    str
    """
    texts = []
    for group in groups[:most]:
        size = f"{group['n']:,} {unit}"
        if group["n"] == 1:
            size = "1 person" if unit == "people" else "1 row"
        if group["reason"] == "too_few" and group["fewest"] < group["n"]:
            size += f", {group['fewest']:,} of one label"
        texts.append(f"{group['group']} ({size})")
    named = ", ".join(texts)
    if len(groups) > len(texts):
        return f"{named} and {len(groups) - len(texts):,} more"
    return named


def left_out_notes(evaluation: Mapping[str, Any]) -> list[str]:
    """Say per attribute which groups the metrics that compare groups leave out, and how large these
    are.

    Parameters
    ----------
    evaluation : mapping
        JSON of an evaluation.

    Returns
    -------
    list of str
        A sentence an attribute, without intersections; empty where all groups are compared.
    """
    unit = evaluation.get("settings", {}).get("unit", "rows")
    attributes = evaluation.get("counts", {})
    of_attribute: dict[str, list[list[Mapping[str, Any]]]] = {}
    for name, groups in evaluation.get("groups", {}).items():
        attribute = name.partition(".")[2]
        if attribute in attributes and not is_intersection(attribute, attributes):
            of_attribute.setdefault(attribute, []).append(groups["left_out"])
    notes = []
    for attribute, lists in of_attribute.items():
        always, sometimes = _left_out_of(lists)
        parts = []
        if always:
            parts.append(f"no comparison of groups includes {left_out_text(always, unit)}")
        if sometimes:
            parts.append(f"comparisons of error rates leave out {left_out_text(sometimes, unit)}")
        if parts:
            notes.append(f"by {attribute}, {'; '.join(parts)}")
    return notes


def _left_out_of(
    lists: Sequence[Sequence[Mapping[str, Any]]],
) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    """Groups that all metrics of an attribute leave out, and those that some do."""
    times: dict[str, int] = {}
    smallest: dict[str, Mapping[str, Any]] = {}
    for groups in lists:
        for group in groups:
            name = group["group"]
            times[name] = times.get(name, 0) + 1
            if name not in smallest or group["fewest"] < smallest[name]["fewest"]:
                smallest[name] = group
    always: list[Mapping[str, Any]] = []
    sometimes: list[Mapping[str, Any]] = []
    for name, group in smallest.items():
        if times[name] == len(lists):
            # a small group is named by its size alone: no cell of it matters
            always.append({**group, "fewest": group["n"]})
        else:
            sometimes.append(group)
    return always, sometimes
