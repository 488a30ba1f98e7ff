"""Drift of the sensitive groups' shares and of the base rate, if the batch has those columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from evenhand.data_contracts.arrow import decode
from evenhand.data_contracts.model import Column, Contract
from evenhand.fairlib.evaluation.drift import LEAST_ROWS, Change, largest_change, share_change
from evenhand.fairlib.evaluation.evaluate import MetricValue
from evenhand.tasks.monitoring.columns import OTHER, Settings
from evenhand.tasks.profile import group_codes

NO_LABEL = MetricValue.insufficient("the batch has no label")


@dataclass(frozen=True)
class Labels:
    """Per row, whether its label is one of the two, and whether it is the positive one; shape (n,)."""

    known: NDArray[np.bool_]
    positive: NDArray[np.bool_]


@dataclass(frozen=True)
class GroupDrift:
    """Drift of a sensitive attribute's groups, with the keys of ``drift.json``.

    `rows` has for every group its shares and base rates, then and now. None stands for a share of too few
    people, or for a column that the batch does not have.
    """

    share_change: MetricValue
    label_rate_change: MetricValue
    rows: list[dict[str, Any]]


def labels_of(table: pa.Table, contract: Contract, inputs: Mapping[str, Any]) -> Labels | None:
    """Labels of the batch; None if it has no such column."""
    label = contract.label
    if label.name not in table.column_names:
        return None
    values = decode(table[label.name])
    allowed = label.allowed or inputs.get("label_values")
    known = pc.is_valid(values)
    if allowed is not None:
        known = pc.and_(known, pc.is_in(values, value_set=pa.array(list(allowed), type=values.type)))
    positive = pc.equal(values, pa.scalar(label.positive, type=values.type)).fill_null(False)
    return Labels(np.asarray(known.to_numpy(), dtype=bool), np.asarray(positive.to_numpy(), dtype=bool))


def compare_label(labels: Labels | None, reference: Mapping[str, Any], settings: Settings) -> Change:
    """Change of the share of positive labels."""
    positive, m = reference["label"]["positive"], reference["rows"]
    if labels is None:
        return Change(positive / m, None, NO_LABEL)
    count, n = int((labels.positive & labels.known).sum()), int(labels.known.sum())
    return share_change(count, n, positive, m, level=settings.level, least=LEAST_ROWS)


def compare_groups(
    table: pa.Table, column: Column, reference: Mapping[str, Any], labels: Labels | None, settings: Settings
) -> GroupDrift:
    """Compare the groups of one attribute.

    A group of fewer than `min_cell` people in the batch counts as one less than that, the largest such
    number, so that its size stays hidden. Groups that were small in training, and new ones, are together
    ``other``.
    """
    least, level = settings.min_cell, settings.level
    names = [*reference["names"], OTHER]
    then, positives = [*reference["counts"], reference["other"]], [*reference["positives"]]
    positives.append(reference["other_positives"])
    counts = rows = hits = np.zeros(len(names), dtype=np.int64)
    shares = rates = MetricValue.insufficient("the batch does not tell this attribute")
    known = column.name in table.column_names
    if known:
        found, codes = group_codes(table[column.name], column)
        place = {name: i for i, name in enumerate(reference["names"])}
        group = np.array([place.get(name, len(place)) for name in found], dtype=np.int64)[codes]
        counts = np.bincount(group, minlength=len(names))
    few = (counts > 0) & (counts < least)
    counts = np.where(few, least - 1, counts)
    n, m = int(counts.sum()), sum(then)
    if known:
        shares = MetricValue.insufficient(f"the groups have fewer than {LEAST_ROWS} rows")
        if min(n, m) >= LEAST_ROWS:
            there = [i for i in range(len(names)) if counts[i] or then[i]]
            shares = largest_change(
                [(int(counts[i]), n) for i in there], [(then[i], m) for i in there], level=level
            )
        rates = NO_LABEL
    if known and labels is not None:
        labelled = group[labels.known]
        rows = np.bincount(labelled, minlength=len(names))
        hits = np.bincount(labelled, weights=labels.positive[labels.known], minlength=len(names))
        # The groups that the reference names, if each of them has enough rows.
        named = range(len(names) - 1)
        rates = MetricValue.insufficient(f"a group has fewer than {least} labelled rows")
        if all(min(rows[i], then[i]) >= least for i in named):
            rates = largest_change(
                [(int(hits[i]), int(rows[i])) for i in named],
                [(positives[i], then[i]) for i in named],
                level=level,
            )
    # Shares are of the rows of shown groups: shares of all rows would reveal the small groups' sizes.
    shown = max(int(counts[~few].sum()), 1)
    return GroupDrift(
        shares,
        rates,
        [
            {
                "group": name,
                "then": then[i] / max(m, 1),
                "now": int(counts[i]) / shown if known and not few[i] else None,
                "few": bool(few[i]),
                "label_then": positives[i] / then[i] if then[i] else None,
                "label_now": float(hits[i] / rows[i]) if rows[i] >= max(least, 1) else None,
            }
            for i, name in enumerate(names)
            if i < len(names) - 1 or then[i] or counts[i]
        ],
    )
