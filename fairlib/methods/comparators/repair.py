"""Disparate impact remover: features are moved until both groups have the same distribution of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from evenhand.fairlib.arrays import Float, Float32, Int
from evenhand.fairlib.methods.base import Callback
from evenhand.fairlib.methods.comparators.base import Arrays, Codes, optional_import
from evenhand.fairlib.methods.comparators.logistic import CANDIDATES, TwoGroupsLogistic
from evenhand.fairlib.methods.groups import Groups, set_aside
from evenhand.fairlib.tuning.space import Real, Space

KNOTS = 101
# With fewer rows the library may take both groups for one: it bins the group's number by its spread.
FEWEST_ROWS = 64

# distinct values of each column, of the other group and of the privileged one
Distinct = Sequence[tuple[Float32, Float32]]


@dataclass(frozen=True)
class RepairMap:
    """What each value of d columns becomes, by group: linear between knots, constant beyond them."""

    counts: Int  # shape (d, 2): knots of each column and group
    # shape (sum of counts,): the knots, which are original values, rising within a column and group, and what
    # the library makes of them
    values: Float32
    repaired: Float32

    @classmethod
    def fit(cls, distinct: Distinct, level: float) -> RepairMap:
        """Let the library repair the distinct values, and keep at most 101 of each column and group.

        With more distinct values the knots are quantiles of these. `distinct` are rising values; `level` 0
        leaves everything as it is, 1 repairs in full. ImportError if the optional extra is not installed.
        """
        # in this order: the columns, and of each the other group, then the privileged one
        values = [side for pair in distinct for side in pair]
        repaired = [side for pair in _repair(distinct, level) for side in pair]
        knots = [
            np.round(np.linspace(0, len(side) - 1, min(len(side), KNOTS))).astype(np.int64) for side in values
        ]
        return cls(
            np.array([len(at) for at in knots], np.int64).reshape(-1, 2),
            np.concatenate([side[at] for side, at in zip(values, knots, strict=True)]),
            np.concatenate([side[at] for side, at in zip(repaired, knots, strict=True)]),
        )

    def apply(self, X: Float32, groups: Int) -> Float:
        """Repaired rows, shape (n, d), of rows of that shape in the groups 0 and 1, shape (n,)."""
        found = np.empty(X.shape, np.float64)
        ends = self.counts.cumsum().reshape(-1, 2)
        members = [np.flatnonzero(groups == group) for group in (0, 1)]
        for j in range(X.shape[1]):
            for group, rows in enumerate(members):
                knots = slice(ends[j, group] - self.counts[j, group], ends[j, group])
                found[rows, j] = np.interp(X[rows, j], self.values[knots], self.repaired[knots])
        return found


@dataclass(kw_only=True, eq=False, repr=False)
class RepairedLogisticClassifier(TwoGroupsLogistic):
    """Logistic regression on features repaired by aif360's DisparateImpactRemover (Feldman et al. 2015).

    The library moves the quantiles of each feature towards the median of both groups' quantiles, within one
    table. Here it does so with the training rows, and the map from each group's values to repaired ones is
    kept: a prediction depends on no other row. The columns that state the group leave the model. With a given
    level all rows train.

    Parameters
    ----------
    repair_level : float or None
        From 0, no repair, to 1. None: the one of 0, 0.1, ..., 1 with the best balanced accuracy on the rows
        set aside, of equally good ones the highest.

    Attributes
    ----------
    map_ : RepairMap
    repair_level_ : float
    """

    method = "disparate-impact-remover"

    space: ClassVar[Space] = {"repair_level": Real(0.0, 1.0, default=1.0)}

    repair_level: float | None = None

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_interval("[0, 1]", "repair_level", optional=True)

    def _learn(
        self, data: Float32, codes: Codes, groups: Groups, weights: Float | None, callback: Callback
    ) -> None:
        from sklearn.metrics import balanced_accuracy_score

        privileged = groups.codes
        if len(self._reader.columns) == data.shape[1]:
            raise ValueError(
                f"X has {data.shape[1]} feature(s), and all state {groups.subject}: there is nothing to "
                "repair."
            )
        train = held = np.arange(len(codes))
        levels = CANDIDATES if self.repair_level is None else (float(self.repair_level),)
        if self.repair_level is None:
            train, held = set_aside(codes, self.validation_share, self.random_state, privileged)
        given, judged = (None, None) if weights is None else (weights[train], weights[held])
        features = self._features(data)
        distinct = [
            (np.unique(column[privileged[train] == 0]), np.unique(column[privileged[train] == 1]))
            for column in features[train].T
        ]
        best = -np.inf
        for number, level in enumerate(levels, start=1):
            repair = RepairMap.fit(distinct, level)
            linear = self._fit_linear(repair.apply(features[train], privileged[train]), codes[train], given)
            repaired = repair.apply(features[held], privileged[held])
            score = balanced_accuracy_score(codes[held], linear.logits(repaired) > 0, sample_weight=judged)
            if score >= best:
                best, self.linear_, self.map_, self.repair_level_ = score, linear, repair, level
            callback(number, len(levels), {})

    def _features(self, X: Float32) -> Float32:
        """Columns other than those that state the group."""
        return np.delete(X, self._reader.columns, axis=1)

    def _positive_probability(self, X: Float32) -> Float:
        return self.linear_.probability(self.map_.apply(self._features(X), self._reader.read(X)))

    def _arrays(self) -> Arrays:
        return {**super()._arrays(), **asdict(self.map_), "repair_level": np.array([self.repair_level_])}

    def _restore(self, arrays: Arrays) -> None:
        super()._restore(arrays)
        self.map_ = RepairMap(arrays["counts"], arrays["values"], arrays["repaired"])
        self.repair_level_ = float(arrays["repair_level"][0])


def _repair(distinct: Distinct, level: float) -> list[tuple[Float32, Float32]]:
    """Repaired values, in the order of the given ones.

    The library's quantiles are those of distinct values, so it needs each of them only once, whatever the
    number of rows. Columns of many values do not share a table with those of few: shorter columns are filled
    up with their last value.
    """
    found: dict[int, tuple[Float32, Float32]] = {}
    for many in (False, True):
        columns = [j for j, pair in enumerate(distinct) if (max(map(len, pair)) > KNOTS) is many]
        if columns:
            tables = _repair_table([distinct[j] for j in columns], level)
            found |= dict(zip(columns, tables, strict=True))
    return [found[j] for j in range(len(distinct))]


def _repair_table(distinct: Distinct, level: float) -> list[tuple[Float32, Float32]]:
    with optional_import(RepairedLogisticClassifier.method):
        import pandas as pd
        from aif360.algorithms.preprocessing import DisparateImpactRemover
        from aif360.datasets import BinaryLabelDataset

        # which imports its own part late
        remover = DisparateImpactRemover(repair_level=level, sensitive_attribute="group")
    lengths = [max(FEWEST_ROWS, *(len(pair[group]) for pair in distinct)) for group in (0, 1)]
    columns: dict[str, NDArray[Any]] = {"group": np.repeat([0.0, 1.0], lengths)}
    for j, pair in enumerate(distinct):
        filled = [
            np.pad(side, (0, length - len(side)), "edge") for side, length in zip(pair, lengths, strict=True)
        ]
        columns[f"x{j}"] = np.concatenate(filled).astype(np.float64)
    # no label takes part in the repair, but the table must have one
    columns["label"] = np.arange(sum(lengths)) % 2.0
    table = BinaryLabelDataset(
        df=pd.DataFrame(columns), label_names=["label"], protected_attribute_names=["group"]
    )
    repaired = remover.fit_transform(table).features.astype(np.float32)
    start = lengths[0]
    return [
        (repaired[: len(pair[0]), j], repaired[start : start + len(pair[1]), j])
        for j, pair in enumerate(distinct, start=table.feature_names.index("x0"))
    ]
