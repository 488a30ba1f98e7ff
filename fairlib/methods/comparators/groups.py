"""Which group each training row is in, and which of two groups is the privileged one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenhand.fairlib.methods.base import Float64

__all__ = ["Groups", "check_labels", "read_groups", "two_groups"]


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
    sensitive_features: Mapping[str, ArrayLike] | None, attribute: str | None, n: int, *, crossed: bool
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
    columns = [_column(sensitive_features, name, n) for name in chosen]
    distinct, codes = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
    groups = Groups(
        tuple(chosen), codes.reshape(n).astype(np.int64), tuple(" & ".join(row) for row in distinct.tolist())
    )
    if len(groups.names) < 2:
        raise ValueError(
            f"{groups.subject} has one group only ({groups.names[0]!r}): there is nothing to compare."
        )
    return groups


def _column(sensitive_features: Mapping[str, ArrayLike], name: str, n: int) -> NDArray[np.str_]:
    values = np.asarray(sensitive_features[name])
    if values.shape != (n,):
        raise ValueError(
            f"sensitive feature {name!r} must have one value per row of X, got shape {values.shape} "
            f"for {n} rows."
        )
    return values.astype(str)


def two_groups(groups: Groups, labels: NDArray[np.int64], privileged: str | None) -> NDArray[np.int64]:
    """
    1 for rows of the privileged group, 0 for those of all others.

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
        return (groups.codes == groups.names.index(privileged)).astype(np.int64)
    if len(groups.names) > 2:
        raise ValueError(
            f"{groups.subject} has {len(groups.names)} groups, and this method compares two: name the "
            f"privileged one ({', '.join(groups.names)}); all others are the other."
        )
    shares: Float64 = np.array([labels[groups.codes == code].mean() for code in range(2)])
    return (groups.codes == shares.argmax()).astype(np.int64)


def check_labels(
    codes: NDArray[np.int64], labels: NDArray[np.int64], names: Sequence[str], subject: str, rows: str
) -> None:
    """
    Every group has rows of both labels.

    Parameters
    ----------
    codes, labels : ndarray of int, shape (n,)
    names : sequence of str
        Groups, by number.
    subject, rows : str
        What the groups are of, and which rows these are.

    Raises
    ------
    ValueError
        Some group has none of one label.
    """
    counts = np.zeros((len(names), 2), np.int64)
    np.add.at(counts, (codes, labels), 1)
    for group, label in np.argwhere(counts == 0):
        raise ValueError(
            f"the group {names[group]!r} of {subject} has none of the {rows} rows with the "
            f"{('first', 'second')[label]} label: its error rates are not known."
        )
