"""Train/test split."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["split_rows"]


def split_rows(
    y: ArrayLike, *, test: float, stratify: bool, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """
    Positions of training and test rows, each sorted.

    Parameters
    ----------
    y : array-like, shape (n,)
        Labels.
    test : float
        Share of test rows, in (0, 1).
    stratify : bool
        Whether both parts keep the label's shares.
    seed : int

    Returns
    -------
    train, test : ndarray of int64

    Raises
    ------
    ValueError
        A share outside (0, 1), or too few rows for it.
    """
    from sklearn.model_selection import train_test_split

    labels = np.asarray(y)
    if not 0 < test < 1:
        raise ValueError(f"the test share must lie between 0 and 1, got {test!r}.")
    train, held_out = train_test_split(
        np.arange(len(labels)), test_size=test, random_state=seed, stratify=labels if stratify else None
    )
    return np.sort(train), np.sort(held_out)
