"""Training rows as XGBoost's matrices."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from evenhand.fairlib.arrays import Float, Float32, Int
from evenhand.fairlib.execution import generator
from evenhand.fairlib.mapped import give_back, is_paged, mapped_file

if TYPE_CHECKING:
    import xgboost as xgb

# So many rows are drawn to find the bins of more than twice as many mapped rows.
BIN_ROWS = 131_072
MAX_BIN = 256


@dataclass(frozen=True, eq=False)
class TreeRows:
    """Training rows in memory or in a mapped file, with their labels and weights.

    Attributes
    ----------
    data : ndarray of float32, shape (n, d)
    codes : ndarray of int, shape (n,)
        Positions of the labels in ``classes_``.
    weights : ndarray of float, shape (n,), or None
    types : list of str or None
        XGBoost's types of the columns; None: all numbers.
    seed : int or None
        Draws the rows that bins are found from.
    """

    data: Float32
    codes: Int
    weights: Float | None
    types: list[str] | None
    seed: int | None

    @property
    def options(self) -> dict[str, Any]:
        """What XGBoost needs to know about categorical columns."""
        if self.types is None:
            return {}
        return {"feature_types": self.types, "enable_categorical": True}

    def of(self, rows: Int | slice) -> TreeRows:
        """Take some of the rows.

        Parameters
        ----------
        rows : ndarray of int or slice
            Their positions.

        Returns
        -------
        TreeRows
        """
        weights = None if self.weights is None else self.weights[rows]
        return replace(self, data=self.data[rows], codes=self.codes[rows], weights=weights)

    def matrix(
        self, threads: int, chosen: Int | None = None, bins: xgb.DMatrix | None = None
    ) -> xgb.DMatrix:
        """Make XGBoost's matrix of the rows.

        Of mapped rows each of several processes that train together has its share.

        Parameters
        ----------
        threads : int
        chosen : ndarray of int or None
            Positions of some rows; None: all.
        bins : xgboost.DMatrix or None
            Matrix whose bins the rows have, to predict them; None: bins of their own.

        Returns
        -------
        xgboost.DMatrix
        """
        import xgboost as xgb

        if mapped_file(self.data) is not None:
            return self._of_blocks(threads, chosen, bins)
        people = self if chosen is None else self.of(chosen)
        if bins is not None:
            return xgb.DMatrix(people.data, nthread=threads, **self.options)
        return xgb.QuantileDMatrix(
            people.data,
            label=people.codes,
            weight=people.weights,
            nthread=threads,
            **self.options,
        )

    def _of_blocks(self, threads: int, chosen: Int | None, bins: xgb.DMatrix | None) -> xgb.DMatrix:
        """As :meth:`matrix`, of mapped rows, block by block."""
        import xgboost as xgb

        from evenhand.fairlib.methods.row_iterator import RowIterator
        from evenhand.fairlib.methods.shares import share

        paged = is_paged(self.data)
        options = {
            "nthread": threads,
            "max_bin": MAX_BIN,
            "enable_categorical": self.types is not None,
        }
        total = len(self.codes) if chosen is None else len(chosen)
        part = share(total)
        sampled = bins is None and total > 2 * BIN_ROWS
        if sampled or (bins is None and part != slice(0, total)):
            sample = self._sample(chosen, total) if sampled else chosen
            drawn = RowIterator(self.data, self.codes, self.weights, sample, self.types)
            # in a thread of its own, which XGBoost does not connect: all processes have the same
            # bins
            with ThreadPoolExecutor(1) as thread:
                bins = thread.submit(xgb.QuantileDMatrix, drawn, **options).result()
        if chosen is None:
            people = self.of(part)
        else:
            people = self
            chosen = chosen[part]
        rows = RowIterator(people.data, people.codes, people.weights, chosen, self.types, paged)
        kind = xgb.ExtMemQuantileDMatrix if paged else xgb.QuantileDMatrix
        matrix = kind(rows, ref=bins, **options)
        give_back()  # what the quantiles took: 400 MB with ten million rows
        return matrix

    def _sample(self, chosen: Int | None, total: int) -> Int:
        """Positions of the rows that bins are found from.

        Quantiles of all rows would take as long as putting them into bins.
        """
        draw = generator(self.seed, "bins")
        sample = np.sort(draw.choice(total, BIN_ROWS, replace=False))
        if chosen is None:
            return sample
        return chosen[sample]
