"""Groups of the training rows, held-out rows, and groups that are read from the model inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.fairlib.arrays import Float, Float32, Int
from evenhand.fairlib.distances.base import sensitive_columns
from evenhand.fairlib.execution import derive_seed, generator

# A column that states the group needs a leaf per group, or per listed value where values were merged. The
# bound prevents that a tree memorises training rows.
SPARE_LEAVES = 16
LEAF = -1


@dataclass(frozen=True)
class Groups:
    """Groups of n training rows."""

    attributes: tuple[str, ...]  # the sensitive features that form them
    codes: Int  # shape (n,): number of each row's group
    names: tuple[str, ...]  # name of each group, by its number

    @property
    def subject(self) -> str:
        """The attributes in words."""
        return " & ".join(self.attributes)


def read_groups(
    sensitive_features: Any, attributes: Sequence[str] | None, n: int, *, least: int = 2
) -> Groups:
    """Groups of the attributes' intersections, at least `least`.

    `sensitive_features` are as in :func:`evenhand.fairlib.distances.base.sensitive_columns`, of n rows;
    `attributes` None takes all. ValueError if there are none, an attribute is unknown or has another number
    of rows, or there are too few groups.
    """
    columns_by_name = sensitive_columns(sensitive_features)
    if not columns_by_name:
        raise ValueError("sensitive_features are needed to fit: give each row's group.")
    known = list(columns_by_name)
    chosen = known if attributes is None else list(attributes)
    if not chosen:
        raise ValueError("attributes is empty: name a sensitive feature, or leave it None for all.")
    for name in chosen:
        if name not in known:
            raise ValueError(
                f"the attribute {name!r} is not in sensitive_features, which has {', '.join(known)}."
            )
    columns = [columns_by_name[name] for name in chosen]
    for name, column in zip(chosen, columns, strict=True):
        if column.shape != (n,):
            raise ValueError(
                f"sensitive feature {name!r} must have one value per row of X, got shape {column.shape} "
                f"for {n} rows."
            )
    table = np.stack([column.astype(str) for column in columns], axis=1)
    distinct, codes = np.unique(table, axis=0, return_inverse=True)
    groups = Groups(
        tuple(chosen), codes.reshape(n).astype(np.int64), tuple(" & ".join(row) for row in distinct.tolist())
    )
    if len(groups.names) < least:
        raise ValueError(
            f"{groups.subject} has one group only ({groups.names[0]!r}): there is nothing to compare."
        )
    return groups


def check_labels(groups: Groups, labels: Int, rows: Int | slice, part: str) -> None:
    """ValueError unless every group has both labels, 0 and 1, among some rows; `part` names these rows."""
    counts = np.zeros((len(groups.names), 2), np.int64)
    np.add.at(counts, (groups.codes[rows], labels[rows]), 1)
    for group, label in np.argwhere(counts == 0):
        raise ValueError(
            f"the group {groups.names[group]!r} of {groups.subject} has none of the {part} rows with the "
            f"{('first', 'second')[label]} label: its error rates are not known."
        )


def set_aside(labels: Int, share: float, seed: int | None, groups: Int | None = None) -> tuple[Int, Int]:
    """Split rows in two, with `share` of every label (and group) in the second part: positions, each sorted.

    `labels` and `groups` have the shape (n,), and `share` is strictly between 0 and 1. Of two rows or more of
    a kind, each part gets at least one; a single one stays in the first part. ValueError if the second part
    lacks a label.
    """
    kinds = labels if groups is None else groups * 2 + labels
    random = generator(seed, "validation")
    chosen = []
    for kind in np.unique(kinds):
        rows = random.permutation(np.flatnonzero(kinds == kind))
        count = min(max(1, round(share * len(rows))), len(rows) - 1)
        chosen.append(rows[:count])
    second = np.sort(np.concatenate(chosen))
    if len(np.unique(labels[second])) < 2:
        raise ValueError(
            f"{len(labels)} rows are too few to set some aside: each label needs two rows of a group."
        )
    return np.setdiff1d(np.arange(len(labels)), second), second


def hold_out(codes: Int, share: float, seed: int | None) -> tuple[Int, Int]:
    """Positions to train on and to validate on, each sorted; every class, shape (n,), in the same shares.
    ValueError: not every class is on both sides.
    """
    from sklearn.model_selection import train_test_split

    rows = np.arange(len(codes))
    kept, held = train_test_split(
        rows, test_size=share, stratify=codes, random_state=derive_seed(seed, "validation")
    )
    if min(np.unique(codes[part]).size for part in (kept, held)) < np.unique(codes).size:
        raise ValueError("a class is missing")
    return np.sort(kept), np.sort(held)


@dataclass(frozen=True)
class GroupReader:
    """A decision tree over the columns of sensitive attributes, as plain arrays of its K nodes."""

    # (c,): columns of X that state the attributes, sorted
    columns: Int
    # (K,): column of X that each node compares, -1 at a leaf; a row goes left where its value is at most the
    # threshold
    column: Int
    threshold: Float
    left: Int
    right: Int
    # (K,): number of the group at a leaf
    group: Int

    @classmethod
    def fit(
        cls,
        X: Float32,
        groups: Int,
        attributes: Sequence[str],
        feature_groups: Mapping[str, Sequence[int]] | None,
        method: str,
    ) -> GroupReader:
        """Learn to read the groups, shape (n,), exactly from rows, shape (n, d).

        The columns of the attributes that form the groups are those of `feature_groups`; None names the
        columns x0, x1, and so on. `method` is for messages. ValueError if an attribute is not among the
        inputs, or its columns do not determine every row's group.
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

    def read(self, X: Float32) -> Int:
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
