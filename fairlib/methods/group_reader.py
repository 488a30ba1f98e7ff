"""Reads a person's group from the model inputs that state it, so that prediction needs nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.fairlib.methods.base import Float32

__all__ = ["GroupReader"]

# A column that states the group needs a leaf per group, or per listed value where values were merged. The
# bound prevents that a tree memorises training rows.
SPARE_LEAVES = 16
LEAF = -1


@dataclass(frozen=True)
class GroupReader:
    """A decision tree over the columns of sensitive attributes, as plain arrays of its K nodes."""

    # (c,): columns of X that state the attributes, sorted
    columns: NDArray[np.int64]
    # (K,): column of X that each node compares, -1 at a leaf; a row goes left where its value is at most the
    # threshold
    column: NDArray[np.int64]
    threshold: NDArray[np.float64]
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    # (K,): number of the group at a leaf
    group: NDArray[np.int64]

    @classmethod
    def fit(
        cls,
        X: Float32,
        groups: NDArray[np.int64],
        attributes: Sequence[str],
        feature_groups: Mapping[str, Sequence[int]] | None,
        method: str,
    ) -> GroupReader:
        """
        Learn to read the groups, shape (n,), exactly from rows, shape (n, d).

        Parameters
        ----------
        attributes : sequence of str
            The attributes that form the groups.
        feature_groups : mapping of str to sequence of int, or None
            Columns of X by attribute; None names the columns x0, x1, and so on.
        method : str
            Name of the method, for error messages.

        Raises
        ------
        ValueError
            An attribute is not among the inputs, or its columns do not determine every row's group.
        """
        from sklearn.tree import DecisionTreeClassifier

        names = {f"x{j}": [j] for j in range(X.shape[1])} if feature_groups is None else feature_groups
        subject = " & ".join(attributes)
        unreadable = ValueError(
            f"{method} reads each person's group from the model inputs, and {subject} is not among them (or "
            "not exactly): use exponentiated-gradient, adversarial-debiasing or reweigh-logistic, or make it "
            "an input."
        )
        if any(name not in names for name in attributes):
            raise unreadable
        columns = np.array(sorted({int(j) for name in attributes for j in names[name]}), np.int64)
        if not columns.size:
            raise unreadable
        if columns[0] < 0 or columns[-1] >= X.shape[1]:
            raise ValueError(
                f"feature_groups gives {subject} the columns {columns.tolist()}, and X has {X.shape[1]}."
            )
        leaves = SPARE_LEAVES + 4 * len(np.unique(groups))
        # the order in which equal columns are tried is random
        tree = DecisionTreeClassifier(max_leaf_nodes=leaves, random_state=0).fit(X[:, columns], groups).tree_
        inner = tree.children_left != LEAF
        reader = cls(
            columns,
            np.where(inner, columns[np.where(inner, tree.feature, 0)], LEAF),
            np.where(inner, tree.threshold, 0.0),
            np.where(inner, tree.children_left, 0).astype(np.int64),
            np.where(inner, tree.children_right, 0).astype(np.int64),
            np.unique(groups)[tree.value[:, 0].argmax(axis=1)],
        )
        if not np.array_equal(reader.read(X), groups):
            raise unreadable
        return reader

    def read(self, X: Float32) -> NDArray[np.int64]:
        """Group of each row of X, shape (n, d)."""
        node = np.zeros(len(X), np.int64)
        rows = np.arange(len(X))
        while rows.size:
            rows = rows[self.column[node[rows]] != LEAF]
            at = node[rows]
            left = X[rows, self.column[at]] <= self.threshold[at]
            node[rows] = np.where(left, self.left[at], self.right[at])
        return self.group[node]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Arrays for a saved model: no value of any person, since thresholds lie between values."""
        return {f"reader.{name}": getattr(self, name) for name in self.__dataclass_fields__}

    @classmethod
    def restore(cls, arrays: Mapping[str, NDArray[Any]]) -> GroupReader:
        """Reader of the arrays that :meth:`arrays` gave."""
        return cls(**{name: arrays[f"reader.{name}"] for name in cls.__dataclass_fields__})
