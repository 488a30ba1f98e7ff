"""Disparate impact remover: features are moved until both groups have them alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenhand.fairlib.methods.base import Callback, Float32, Float64
from evenhand.fairlib.methods.comparators._checks import check_share
from evenhand.fairlib.methods.comparators._libraries import optional_import
from evenhand.fairlib.methods.comparators._stored import Arrays, LinearMethod
from evenhand.fairlib.methods.comparators.groups import read_groups, two_groups
from evenhand.fairlib.methods.comparators.linear import Linear, fit_logistic
from evenhand.fairlib.methods.comparators.validation import CANDIDATES, balanced_accuracy, set_aside
from evenhand.fairlib.methods.group_reader import GroupReader

__all__ = ["RepairMap", "RepairedLogisticClassifier"]

METHOD = "disparate-impact-remover"
KNOTS = 101
# With fewer rows the library may take both groups for one: it bins the group's number by its spread.
FEWEST_ROWS = 64

# distinct values of each column, of the other group and of the privileged one
Distinct = Sequence[tuple[Float32, Float32]]


@dataclass(frozen=True)
class RepairMap:
    """
    What each value of d columns becomes, by group: linear between knots, constant beyond the outer ones.

    Attributes
    ----------
    counts : ndarray of int, shape (d, 2)
        Knots of each column and group.
    values, repaired : ndarray of float32, shape (sum of counts,)
        The knots: original values, rising within a column and group, and what the library makes of them.
    """

    counts: NDArray[np.int64]
    values: Float32
    repaired: Float32

    @classmethod
    def fit(cls, distinct: Distinct, level: float) -> RepairMap:
        """
        Let the library repair the distinct values, and keep at most 101 of each column and group.

        With more distinct values the knots are quantiles of these.

        Parameters
        ----------
        distinct : sequence of (ndarray of float32, ndarray of float32)
            Rising values of each column, in the other and in the privileged group.
        level : float
            0 leaves everything as it is, 1 repairs in full.

        Raises
        ------
        ImportError
            The optional extra is not installed.
        """
        repaired = _repair(distinct, level)
        knots = [
            np.round(np.linspace(0, len(side) - 1, min(len(side), KNOTS))).astype(np.int64)
            for pair in distinct
            for side in pair
        ]
        sides = [side for pair in distinct for side in pair]
        moved = [side for pair in repaired for side in pair]
        return cls(
            np.array([len(each) for each in knots], np.int64).reshape(-1, 2),
            np.concatenate([side[at] for side, at in zip(sides, knots, strict=True)]),
            np.concatenate([side[at] for side, at in zip(moved, knots, strict=True)]),
        )

    def apply(self, X: Float32, groups: NDArray[np.int64]) -> Float64:
        """
        Repaired rows.

        Parameters
        ----------
        X : ndarray of float32, shape (n, d)
        groups : ndarray of int, shape (n,)
            0 and 1.

        Returns
        -------
        ndarray of float64, shape (n, d)
        """
        found = np.empty(X.shape, np.float64)
        ends = self.counts.cumsum().reshape(-1, 2)
        members = [np.flatnonzero(groups == group) for group in (0, 1)]
        for j in range(X.shape[1]):
            for group, rows in enumerate(members):
                knots = slice(ends[j, group] - self.counts[j, group], ends[j, group])
                found[rows, j] = np.interp(X[rows, j], self.values[knots], self.repaired[knots])
        return found


class RepairedLogisticClassifier(LinearMethod):
    """
    Logistic regression on features repaired by aif360's DisparateImpactRemover (Feldman et al. 2015).

    The library moves the quantiles of each feature towards the median of both groups' quantiles, within one
    table. Here it does so with the training rows; what each value becomes in each group is kept as a map, so
    that a prediction depends on no other row. The columns that state the group leave the model.

    Parameters
    ----------
    repair_level : float or None
        From 0, no repair, to 1. None: the one of 0, 0.1, ..., 1 with the best balanced accuracy on rows set
        aside, of equally good ones the highest; if given, all rows train.
    attribute : str or None
        The sensitive feature to compare by. None: the only one.
    privileged : str or None
        Name of the privileged group; all others are the other. None: of two groups, that with the larger
        share of the second label.
    validation_share : float
        Share of the rows set aside to choose the level.
    C : float
        Inverse of the penalty's strength.
    max_iter : int
        Of the solver.
    random_state : int or None

    Attributes
    ----------
    linear_ : Linear
    n_iter_ : int
        Steps of its solver.
    map_ : RepairMap
    repair_level_ : float
    """

    map_: RepairMap
    repair_level_: float
    _reader: GroupReader

    def __init__(
        self,
        *,
        repair_level: float | None = None,
        attribute: str | None = None,
        privileged: str | None = None,
        validation_share: float = 0.25,
        C: float = 1.0,
        max_iter: int = 1000,
        random_state: int | None = None,
    ) -> None:
        self.repair_level = repair_level
        self.attribute = attribute
        self.privileged = privileged
        self.validation_share = validation_share
        self.C = C
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        sensitive_features: Mapping[str, ArrayLike] | None = None,
        feature_groups: Mapping[str, Sequence[int]] | None = None,
        callback: Callback | None = None,
    ) -> Self:
        """
        Repair, train, and choose the level.

        Parameters
        ----------
        X : array-like, shape (n, d)
        y : array-like, shape (n,)
            Two distinct values.
        sensitive_features : mapping of str to array-like, shape (n,)
            Group of every row, per attribute. To predict, it is read from X.
        feature_groups : mapping of str to sequence of int, or None
            Columns of X by attribute. None names every column by itself: x0, x1, and so on.
        callback : callable or None
            Called after every level that is tried, with (level's number, levels, {}).

        Raises
        ------
        ValueError
            No sensitive features, an unknown attribute or group, more than two groups and none named, columns
            that do not tell the group or are all that X has, or a parameter out of its range.
        ImportError
            The optional extra is not installed.
        """
        data, codes = self._check_training(X, y)
        groups = read_groups(sensitive_features, self.attribute, len(codes), crossed=False)
        privileged = two_groups(groups, codes, self.privileged)
        self._reader = GroupReader.fit(data, privileged, groups.attributes, feature_groups, METHOD)
        if len(self._reader.columns) == data.shape[1]:
            raise ValueError(
                f"X has {data.shape[1]} feature(s), and all state {groups.subject}: there is nothing to "
                "repair."
            )
        if self.repair_level is None:
            train, held = set_aside(codes, self.validation_share, self.random_state, privileged)
            levels: Sequence[float] = CANDIDATES
        else:
            train = held = np.arange(len(codes))
            levels = (check_share("repair_level", self.repair_level),)
        features = self._features(data[train])
        distinct = [
            (np.unique(column[privileged[train] == 0]), np.unique(column[privileged[train] == 1]))
            for column in features.T
        ]
        best = -np.inf
        for number, level in enumerate(levels, start=1):
            repair = RepairMap.fit(distinct, level)
            rows = repair.apply(features, privileged[train])
            linear = fit_logistic(rows, codes[train], C=self.C, max_iter=self.max_iter)
            kept = repair.apply(self._features(data[held]), privileged[held])
            score = balanced_accuracy(codes[held], linear.logits(kept) > 0)
            if score >= best:
                best, self.linear_, self.map_, self.repair_level_ = score, linear, repair, level
            if callback is not None:
                callback(number, len(levels), {})
        return self

    def _features(self, X: Float32) -> Float32:
        """Columns other than those that state the group."""
        return np.delete(X, self._reader.columns, axis=1)

    def _positive_probability(self, X: Float32) -> Float64:
        return self.linear_.probability(self.map_.apply(self._features(X), self._reader.read(X)))

    def _arrays(self) -> Arrays:
        return {
            **self.linear_.arrays(),
            **self._reader.arrays(),
            "counts": self.map_.counts,
            "values": self.map_.values,
            "repaired": self.map_.repaired,
            "repair_level": np.array([self.repair_level_]),
        }

    def _restore(self, arrays: Arrays) -> None:
        self.linear_ = Linear.restore(arrays)
        self._reader = GroupReader.restore(arrays)
        self.map_ = RepairMap(arrays["counts"], arrays["values"], arrays["repaired"])
        self.repair_level_ = float(arrays["repair_level"][0])


def _repair(distinct: Distinct, level: float) -> list[tuple[Float32, Float32]]:
    """
    Repaired values, in the order of the given ones.

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
    with optional_import(METHOD):
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
