"""Groups of the training rows, and folds with their part of every cell of label and groups."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenhand.fairlib.arrays import Int
from evenhand.fairlib.distances.metric_base import sensitive_columns
from evenhand.fairlib.execution import generator
from evenhand.fairlib.splits import persons

# An attribute of more different numbers, such as an age, is no set of groups.
MOST_NUMBERS = 30


@dataclass(frozen=True)
class Groups:
    """Groups of n training rows.

    Attributes
    ----------
    attributes : tuple of str
        The sensitive features that form them.
    codes : ndarray of int, shape (n,)
        Number of each row's group.
    names : tuple of str
        Name of each group, by its number.
    """

    attributes: tuple[str, ...]
    codes: Int
    names: tuple[str, ...]

    @property
    def subject(self) -> str:
        """The attributes in words."""
        return " & ".join(self.attributes)


def read_groups(
    sensitive_features: Any, attributes: Sequence[str] | None, n: int, *, least: int = 2
) -> Groups:
    """Groups of the attributes' intersections.

    Parameters
    ----------
    sensitive_features : mapping of str to array-like, DataFrame, Series or array, of n rows
        As in :func:`evenhand.fairlib.distances.metric_base.sensitive_columns`.
    attributes : sequence of str or None
        Which of them form the groups; None: all.
    n : int
        Number of training rows.
    least : int, default 2
        Least number of groups.

    Returns
    -------
    Groups

    Raises
    ------
    ValueError
        If there are no attributes, one is unknown or has another number of rows, or there are too
        few groups.
    """
    columns_by_name = sensitive_columns(sensitive_features)
    if not columns_by_name:
        raise ValueError(
            "sensitive_features are needed to fit: pass each row's group, as in "
            "fit(X, y, sensitive_features={'sex': sex})."
        )
    names = list(columns_by_name)
    chosen = names if attributes is None else list(attributes)
    if not chosen:
        raise ValueError("attributes is empty: name a sensitive feature, or leave it None for all.")
    for name in chosen:
        if name not in names:
            raise ValueError(
                f"the attribute {name!r} is not in sensitive_features, which has "
                f"{', '.join(names)}."
            )
        size = columns_by_name[name].shape
        if size != (n,):
            raise ValueError(
                f"sensitive feature {name!r} must have one value per row of X, got shape {size} "
                f"for {n} rows."
            )
        _check_few(name, columns_by_name[name])
    table = np.stack([columns_by_name[name].astype(str) for name in chosen], axis=1)
    distinct, codes = np.unique(table, axis=0, return_inverse=True)
    groups = Groups(
        tuple(chosen),
        codes.reshape(n).astype(np.int64),
        tuple(" & ".join(row) for row in distinct.tolist()),
    )
    if len(groups.names) < least:
        raise ValueError(
            f"{groups.subject} has one group only ({groups.names[0]!r}): there is nothing to "
            "compare."
        )
    return groups


def _check_few(name: str, values: NDArray[Any]) -> None:
    """ValueError for a number, such as an age, of which each value would be a group."""
    if values.dtype.kind not in "iuf":
        return
    count = len(np.unique(values))
    if count > MOST_NUMBERS:
        raise ValueError(
            f"sensitive feature {name!r} has {count} different numbers, and each would be a group: "
            f"cut it into ranges, such as pd.cut({name}, 4).astype(str), or pass "
            f"{name}.astype(str) if every number is a group."
        )


def check_labels(groups: Groups, labels: Int) -> None:
    """Check that every group has both labels.

    Parameters
    ----------
    groups : Groups
        Of n rows.
    labels : ndarray of int, shape (n,)
        0 or 1.

    Raises
    ------
    ValueError
        If a group has one label only.
    """
    counts = np.zeros((len(groups.names), 2), np.int64)
    np.add.at(counts, (groups.codes, labels), 1)
    for _, label in np.argwhere(counts == 0):
        # the group has few people, so that it is not named
        ordinal = ("first", "second")[label]
        raise ValueError(
            f"a group of {groups.subject} has none of the training rows with the {ordinal} label: "
            "its error rates are not known."
        )


def joint_cells(y: ArrayLike, groups: Iterable[ArrayLike] = ()) -> Int:
    """Number of the cell of label and all groups of every row.

    Parameters
    ----------
    y : array-like, shape (n,)
        Labels.
    groups : iterable of array-like, shape (n,) each
        Values of each attribute.

    Returns
    -------
    ndarray of int, shape (n,)
    """
    code = np.unique(np.asarray(y), return_inverse=True)[1].astype(np.int64)
    for column in groups:
        values = np.unique(np.asarray(column).astype(str), return_inverse=True)[1]
        code = np.unique(code * (values.max() + 1) + values, return_inverse=True)[1]
    return code


def fold_of_rows(cells: Int, folds: int, seed: int, people: Int | None = None) -> Int:
    """Fold of every row, stratified by cell.

    The rows are put in the order of their cells, within a cell at random, and dealt to the folds in
    turn. So two folds differ by at most one row in the count of each cell, however rare it is, and
    in their size.

    Parameters
    ----------
    cells : ndarray of int, shape (n,)
        Cell of every row.
    folds : int
        Number of folds.
    seed : int
    people : ndarray of int, shape (n,), or None
        Person of every row, as in :func:`evenhand.fairlib.splits.set_aside`: all rows of a person
        are in one fold.

    Returns
    -------
    ndarray of int, shape (n,)
    """
    if people is not None:
        first, person_of_row = persons(people)
        return fold_of_rows(cells[first], folds, seed)[person_of_row]
    order = np.lexsort((generator(seed, "folds").random(len(cells)), cells))
    fold = np.empty(len(cells), dtype=np.int64)
    fold[order] = np.arange(len(cells)) % folds
    return fold
