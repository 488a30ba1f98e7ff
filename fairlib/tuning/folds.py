"""Folds of the training rows, each with its part of every cell of label and groups."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike

from evenhand.fairlib.arrays import Int
from evenhand.fairlib.execution import generator


def joint_cells(y: ArrayLike, groups: Iterable[ArrayLike] = ()) -> Int:
    """Number of the cell of label and all groups of every row, shape (n,)."""
    code = np.unique(np.asarray(y), return_inverse=True)[1].astype(np.int64)
    for column in groups:
        values = np.unique(np.asarray(column).astype(str), return_inverse=True)[1]
        code = np.unique(code * (values.max() + 1) + values, return_inverse=True)[1]
    return code


def fold_of_rows(cells: Int, folds: int, seed: int) -> Int:
    """Fold of every row, shape (n,), stratified by cell.

    The rows are put in the order of their cells, within a cell at random, and dealt to the folds in turn. So
    two folds differ by at most one row in the count of each cell, however rare it is, and in their size.
    """
    order = np.lexsort((generator(seed, "folds").random(len(cells)), cells))
    fold = np.empty(len(cells), dtype=np.int64)
    fold[order] = np.arange(len(cells)) % folds
    return fold
