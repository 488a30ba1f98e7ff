"""Rows that are set aside, and what is chosen on them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenhand.fairlib.methods.base import Float64
from evenhand.fairlib.randomness import generator

__all__ = ["CANDIDATES", "balanced_accuracy", "best_threshold", "set_aside"]

# of thresholds and repair levels
CANDIDATES = tuple(step / 10 for step in range(11))


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
        `share` is not strictly between 0 and 1, or the second part lacks a label.
    """
    if not 0 < share < 1:
        raise ValueError(f"validation_share must lie between 0 and 1, both excluded, got {share!r}.")
    kinds = labels if groups is None else groups * 2 + labels
    random = generator(0 if seed is None else int(seed), "validation")
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


def balanced_accuracy(labels: NDArray[np.int64], predicted: ArrayLike) -> float:
    """
    Mean share of right predictions over the two labels.

    Parameters
    ----------
    labels, predicted : array-like of int or bool, shape (n,)
        Both labels are there.
    """
    right = np.asarray(predicted).astype(np.int64) == labels
    return float((right[labels == 0].mean() + right[labels == 1].mean()) / 2)


def best_threshold(
    labels: NDArray[np.int64], probability: Float64, candidates: Iterable[float] = CANDIDATES
) -> float:
    """
    Threshold of the best balanced accuracy of ``probability >= threshold``.

    Of equally good ones that nearest to 1/2, then the lower.

    Parameters
    ----------
    labels : ndarray of int, shape (n,)
    probability : ndarray of float64, shape (n,)
    candidates : iterable of float
    """

    def rank(candidate: float) -> tuple[float, float, float]:
        return (
            -balanced_accuracy(labels, probability >= candidate),
            abs(candidate - 0.5),
            candidate,
        )

    return min(candidates, key=rank)
