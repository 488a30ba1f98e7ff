"""Who is in a batch: shares of the sensitive groups and of the positive label, where the batch tells them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from evenhand.data_contracts.arrow import decode
from evenhand.data_contracts.model import Column, Contract
from evenhand.fairlib.evaluation.drift import LEAST_ROWS, largest_change
from evenhand.fairlib.evaluation.evaluate import MetricValue
from evenhand.tasks.monitoring.columns import group_codes
from evenhand.tasks.monitoring.compare import OTHER, Settings, ShareThenNow, then_and_now

__all__ = ["Groups", "Labels", "compare_groups", "compare_label", "labels_of"]


@dataclass(frozen=True)
class Labels:
    """Of every row whether its label is one of the two, and whether it is the positive one; shape (n,)."""

    known: NDArray[np.bool_]
    positive: NDArray[np.bool_]


@dataclass(frozen=True)
class Groups:
    """
    What became of a sensitive attribute's groups.

    `rows` has for every group its shares, and its label's rates, then and now; None is what too few people
    have, or what the batch does not tell.
    """

    shares: MetricValue
    rates: MetricValue
    rows: Sequence[Mapping[str, Any]] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "share_change": asdict(self.shares),
            "label_rate_change": asdict(self.rates),
            "rows": [dict(row) for row in self.rows],
        }


def labels_of(table: pa.Table, contract: Contract, inputs: Mapping[str, Any]) -> Labels | None:
    """Labels of the batch; None if it has no such column."""
    label = contract.label
    if label.name not in table.column_names:
        return None
    values = decode(table[label.name])
    known = label.allowed or inputs.get("label_values")
    there = pc.is_valid(values)
    if known is not None:
        there = pc.and_(there, pc.is_in(values, value_set=pa.array(list(known), type=values.type)))
    positive = pc.equal(values, pa.scalar(label.positive, type=values.type)).fill_null(False)
    return Labels(np.asarray(there.to_numpy(), dtype=bool), np.asarray(positive.to_numpy(), dtype=bool))


def compare_label(labels: Labels | None, reference: Mapping[str, Any], settings: Settings) -> ShareThenNow:
    """Share of positive labels then and now."""
    positive, m = reference["label"]["positive"], reference["rows"]
    if labels is None:
        return ShareThenNow(positive / m, None, MetricValue.insufficient("the batch has no label"))
    n = int(labels.known.sum())
    count = int((labels.positive & labels.known).sum())
    return then_and_now(count, n, positive, m, settings.level)


def compare_groups(
    table: pa.Table,
    column: Column,
    told: Mapping[str, Any],
    labels: Labels | None,
    settings: Settings,
) -> Groups:
    """
    Compare the groups of one attribute.

    A group of fewer than `min_cell` people in the batch counts as one less than that, the most it can be, so
    that nothing tells how many they are. Groups that were few in training, and new ones, are together
    ``other``.
    """
    names = [*told["names"], OTHER]
    then = [*told["counts"], told["other"]]
    positives = [*told["positives"], told["other_positives"]]
    if column.name not in table.column_names:
        reason = MetricValue.insufficient("the batch does not tell this attribute")
        return Groups(reason, reason, _rows(names, then, positives, None, None, settings))
    found, codes = group_codes(table[column.name], column)
    place = {name: i for i, name in enumerate(told["names"])}
    mine = np.array([place.get(name, len(place)) for name in found], dtype=np.int64)[codes]
    counts = np.bincount(mine, minlength=len(names))
    few = (counts > 0) & (counts < settings.min_cell)
    counts[few] = settings.min_cell - 1
    rates = None
    if labels is not None:
        of = mine[labels.known]
        rates = [
            np.bincount(of, minlength=len(names)),
            np.bincount(of, weights=labels.positive[labels.known], minlength=len(names)),
        ]
    return Groups(
        _share_change(counts, then, settings),
        _rate_change(rates, then, positives, settings),
        _rows(names, then, positives, (counts, few), rates, settings),
    )


def _share_change(counts: NDArray[np.int64], then: Sequence[int], settings: Settings) -> MetricValue:
    n, m = int(counts.sum()), sum(then)
    if min(n, m) < LEAST_ROWS:
        return MetricValue.insufficient(f"the groups have fewer than {LEAST_ROWS} rows")
    shown = [i for i in range(len(counts)) if counts[i] or then[i]]
    return largest_change(
        [(int(counts[i]), n) for i in shown], [(then[i], m) for i in shown], level=settings.level
    )[1]


def _rate_change(
    rates: Sequence[NDArray[Any]] | None, then: Sequence[int], positives: Sequence[int], settings: Settings
) -> MetricValue:
    """Largest change over the groups that training knew by name, if every one of them has rows enough."""
    if rates is None:
        return MetricValue.insufficient("the batch has no label")
    rows, hits = rates
    groups = range(len(then) - 1)
    if any(rows[i] < settings.min_cell or then[i] < settings.min_cell for i in groups):
        return MetricValue.insufficient(f"a group has fewer than {settings.min_cell} labelled rows")
    now = [(int(hits[i]), int(rows[i])) for i in groups]
    return largest_change(now, [(positives[i], then[i]) for i in groups], level=settings.level)[1]


def _rows(
    names: Sequence[str],
    then: Sequence[int],
    positives: Sequence[int],
    told: tuple[NDArray[np.int64], NDArray[np.bool_]] | None,
    rates: Sequence[NDArray[Any]] | None,
    settings: Settings,
) -> list[dict[str, Any]]:
    # shares among the groups that are told: else the rest would give the small ones away
    n = None if told is None else max(int(told[0][~told[1]].sum()), 1)
    rows = []
    for i, name in enumerate(names):
        here, few = (0, False) if told is None else (int(told[0][i]), bool(told[1][i]))
        if name == OTHER and i == len(names) - 1 and not then[i] and not here:
            continue
        rated = rates is not None and rates[0][i] >= settings.min_cell
        rows.append(
            {
                "group": name,
                "then": then[i] / max(sum(then), 1),
                "now": None if n is None or few else here / n,
                "few": few,
                "label_then": positives[i] / then[i] if then[i] else None,
                "label_now": float(rates[1][i] / rates[0][i]) if rates is not None and rated else None,
            }
        )
    return rows
