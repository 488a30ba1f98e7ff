"""Counts of rows per group, label and prediction: all that a group metric needs to know."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenhand.fairlib.evaluation.outcomes import encode_groups


@dataclass(frozen=True, eq=False)
class GroupCounts:
    """Counts of one sensitive attribute.

    Parameters
    ----------
    groups : tuple of str, length K
        Sorted group labels.
    counts : int array, shape (K, 2, 2)
        Rows per group, true label and predicted label.
    """

    groups: tuple[str, ...]
    counts: NDArray[np.int64]

    @property
    def cells(self) -> NDArray[np.int64]:
        """Rows per group and true label, shape (K, 2)."""
        return np.asarray(self.counts.sum(axis=-1))

    @property
    def rows(self) -> NDArray[np.int64]:
        """Rows per group, shape (K,)."""
        return np.asarray(self.counts.sum(axis=(-2, -1)))

    def table(self, min_cell: int) -> list[dict[str, str | int | float | bool | None]]:
        """List the cells as plain rows, two per group, none left out.

        Parameters
        ----------
        min_cell : int
            Cells with fewer rows are marked ``enough: False``.

        Returns
        -------
        list of dict
            ``group``, ``label`` (0 or 1), ``n``, ``predicted_positive``, ``rate`` = predicted_positive / n
            (None in an empty cell) and ``enough``.
        """
        listing: list[dict[str, str | int | float | bool | None]] = []
        for k, group in enumerate(self.groups):
            for label in (0, 1):
                n, positive = int(self.counts[k, label].sum()), int(self.counts[k, label, 1])
                listing.append(
                    {
                        "group": group,
                        "label": label,
                        "n": n,
                        "predicted_positive": positive,
                        "rate": positive / n if n else None,
                        "enough": n >= min_cell,
                    }
                )
        return listing


def count_cells(
    codes: NDArray[np.int64], n_groups: int, y_true: NDArray[np.int64], y_pred: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Count rows per group, label and prediction in one pass.

    Parameters
    ----------
    codes : int array, shape (n,)
        Group number of every row.
    n_groups : int
        Number K of groups.
    y_true, y_pred : int array, shape (n,)
        Labels and predictions in {0, 1}.

    Returns
    -------
    int array, shape (K, 2, 2)
        Rows per group, true label and predicted label.
    """
    cell = (codes * 2 + y_true) * 2 + y_pred
    return np.bincount(cell, minlength=n_groups * 4).reshape(n_groups, 2, 2).astype(np.int64)


def group_counts(
    column: NDArray[np.object_],
    y_true: NDArray[np.int64],
    y_pred: NDArray[np.int64],
    groups: Iterable[str] = (),
) -> GroupCounts:
    """Count the rows of one sensitive attribute.

    Parameters
    ----------
    column : object array of str, shape (n,)
        Group label of every row.
    y_true, y_pred : int array, shape (n,)
        Labels and predictions in {0, 1}.
    groups : iterable of str
        Groups to list even if no row has them.

    Returns
    -------
    GroupCounts
        Groups in sorted order and their counts.
    """
    names, codes = encode_groups(column, groups)
    return GroupCounts(names, count_cells(codes, len(names), y_true, y_pred))
