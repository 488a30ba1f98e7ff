"""Groups of the training rows, and rows that are set aside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenhand.fairlib.execution import generator

__all__ = ["Groups", "check_labels", "read_groups", "set_aside", "two_groups"]


@dataclass(frozen=True)
class Groups:
    """
    Groups of n training rows.

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
    codes: NDArray[np.int64]
    names: tuple[str, ...]

    @property
    def subject(self) -> str:
        """The attributes in words."""
        return " & ".join(self.attributes)


def read_groups(
    sensitive_features: Mapping[str, ArrayLike] | None, attribute: str | None, n: int, *, crossed: bool = True
) -> Groups:
    """
    Groups of one attribute, or the intersections of all.

    Parameters
    ----------
    sensitive_features : mapping of str to array-like, shape (n,)
    attribute : str or None
        None: all attributes crossed, or the only one.
    n : int
        Rows of X.
    crossed : bool
        Whether several attributes may be crossed.

    Raises
    ------
    ValueError
        There are no sensitive features, the attribute is unknown, has another number of rows or one group
        only, or none is named where there are several and they may not be crossed.
    """
    if sensitive_features is None or len(sensitive_features) == 0:
        raise ValueError("sensitive_features are needed to fit: give each row's group.")
    known = [str(name) for name in sensitive_features]
    if attribute is not None and attribute not in known:
        raise ValueError(f"attribute is {attribute!r}, which sensitive_features lacks; it has {known}.")
    if attribute is None and len(known) > 1 and not crossed:
        raise ValueError(f"attribute is not given, and there are several: name one of {', '.join(known)}.")
    chosen = known if attribute is None else [attribute]
    columns = [np.asarray(sensitive_features[name]) for name in chosen]
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
    if len(groups.names) < 2:
        raise ValueError(
            f"{groups.subject} has one group only ({groups.names[0]!r}): there is nothing to compare."
        )
    return groups


def two_groups(groups: Groups, labels: NDArray[np.int64], privileged: str | None) -> Groups:
    """
    Group 1 has the rows of the privileged group, group 0 those of all others.

    Parameters
    ----------
    groups : Groups
    labels : ndarray of int, shape (n,)
        0 and 1.
    privileged : str or None
        Name of the privileged group. None: of two groups, that with the larger share of label 1.

    Raises
    ------
    ValueError
        No such group, or none named and more than two.
    """
    if privileged is not None:
        if privileged not in groups.names:
            raise ValueError(
                f"privileged is {privileged!r}, which is no group of {groups.subject}; there are "
                f"{', '.join(groups.names)}."
            )
        side, other = groups.names.index(privileged), "all others"
    elif len(groups.names) > 2:
        raise ValueError(
            f"{groups.subject} has {len(groups.names)} groups, and this method compares two: name the "
            f"privileged one ({', '.join(groups.names)}); all others form the second group."
        )
    else:
        side = int(np.argmax([labels[groups.codes == code].mean() for code in range(2)]))
        other = groups.names[1 - side]
    codes = (groups.codes == side).astype(np.int64)
    return Groups(groups.attributes, codes, (other, groups.names[side]))


def check_labels(
    groups: Groups, labels: NDArray[np.int64], rows: NDArray[np.int64] | slice, part: str
) -> None:
    """ValueError unless every group has both labels, 0 and 1, among some rows; `part` names these rows."""
    counts = np.zeros((len(groups.names), 2), np.int64)
    np.add.at(counts, (groups.codes[rows], labels[rows]), 1)
    for group, label in np.argwhere(counts == 0):
        raise ValueError(
            f"the group {groups.names[group]!r} of {groups.subject} has none of the {part} rows with the "
            f"{('first', 'second')[label]} label: its error rates are not known."
        )


def set_aside(
    labels: NDArray[np.int64],
    share: float,
    seed: int | None,
    groups: NDArray[np.int64] | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """
    Split rows in two, with `share` of every label (and group) in the second part.

    Of two rows or more of a kind, each part gets at least one; a single one stays in the first part.

    Parameters
    ----------
    labels : ndarray of int, shape (n,)
    share : float
        Strictly between 0 and 1.
    seed : int or None
        None is 0.
    groups : ndarray of int, shape (n,), or None

    Returns
    -------
    (ndarray of int, ndarray of int)
        Positions to train on and to choose on, each sorted.

    Raises
    ------
    ValueError
        The second part lacks a label.
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
