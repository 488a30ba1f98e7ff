"""Blocks of rows for XGBoost's matrices, which bins them without having all in memory."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import xgboost as xgb

from evenhand.fairlib.arrays import Float, Float32, Int
from evenhand.fairlib.mapped import gathered, mapped_file, release

# Numbers of a block, of which XGBoost makes about 28 bytes each for a moment, and of a page of its
# files.
BLOCK_CELLS = 1 << 21
PAGE_CELLS = 1 << 22


class RowIterator(xgb.DataIter):
    """Blocks of chosen rows, or of all.

    Parameters
    ----------
    rows : ndarray of float32, shape (n, d)
    codes : ndarray of int, shape (n,)
        Labels.
    weights : ndarray of float, shape (n,), or None
        None: all count the same.
    chosen : ndarray of int, shape (m,), or None
        Sorted positions of the rows; None: all.
    types : sequence of str, length d, or None
        XGBoost's types of the columns; None: all are numbers.
    paged : bool, default False
        Whether XGBoost writes the binned blocks to files next to the rows' own, and removes them
        with its matrix. The rows are then those of a mapped file.
    """

    def __init__(
        self,
        rows: Float32,
        codes: Int,
        weights: Float | None,
        chosen: Int | None,
        types: Sequence[str] | None,
        paged: bool = False,
    ) -> None:
        self.rows = rows
        self.codes = codes
        self.weights = weights
        self.types = types
        cells = PAGE_CELLS if paged else BLOCK_CELLS
        self.chosen = chosen
        self.size = max(1, cells // rows.shape[1])
        self.total = len(codes) if chosen is None else len(chosen)
        self.start = 0
        prefix = None
        if paged:
            mapped = mapped_file(rows)
            assert mapped is not None
            prefix = str(mapped.folder / f"bins-{uuid.uuid4().hex}")
        super().__init__(cache_prefix=prefix)

    def reset(self) -> None:
        """Begin again."""
        self.start = 0

    def next(self, input_data: Callable[..., Any]) -> bool:
        """Give the next block.

        Parameters
        ----------
        input_data : callable
            XGBoost's, which takes ``data``, ``label``, ``weight`` and ``feature_types`` of the
            block.

        Returns
        -------
        bool
            False after the last block.
        """
        if self.start >= self.total:
            return False
        place: Any = slice(self.start, min(self.start + self.size, self.total))
        self.start = place.stop
        if self.chosen is None:
            block = np.array(self.rows[place])
            release(self.rows)
        else:
            place = self.chosen[place]
            block = gathered(self.rows, place)
        weights = None if self.weights is None else self.weights[place]
        input_data(data=block, label=self.codes[place], weight=weights, feature_types=self.types)
        return True
