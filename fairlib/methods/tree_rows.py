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
    """Rows of shape (n, d), in memory or in a mapped file, with labels and weights of shape
    (n,).
    """

    data: Float32
    codes: Int
    weights: Float | None
    types: list[str] | None  # XGBoost's types of the columns; None: all numbers
    seed: int | None  # draws the rows that bins are found from

    @property
    def options(self) -> dict[str, Any]:
        """What XGBoost needs to know about categorical columns."""
        return (
            {} if self.types is None else {"feature_types": self.types, "enable_categorical": True}
        )

    def of(self, rows: Int | slice) -> TreeRows:
        """Some of the rows."""
        weights = None if self.weights is None else self.weights[rows]
        return replace(self, data=self.data[rows], codes=self.codes[rows], weights=weights)

    def matrix(
        self, threads: int, chosen: Int | None = None, bins: xgb.DMatrix | None = None
    ) -> xgb.DMatrix:
        """All rows or the chosen ones; with the `bins` of another matrix, to predict them.

        Of mapped rows each of several processes that train together has its share.
        """
        import xgboost as xgb

        if mapped_file(self.data) is not None:
            return self._of_blocks(threads, chosen, bins)
        own = self if chosen is None else self.of(chosen)
        if bins is not None:
            return xgb.DMatrix(own.data, nthread=threads, **self.options)
        given = {"label": own.codes, "weight": own.weights, "nthread": threads}
        return xgb.QuantileDMatrix(own.data, **given, **self.options)

    def _of_blocks(self, threads: int, chosen: Int | None, bins: xgb.DMatrix | None) -> xgb.DMatrix:
        import xgboost as xgb

        from evenhand.fairlib.methods.row_iterator import RowIterator
        from evenhand.fairlib.methods.shares import share

        paged = is_paged(self.data)
        options = {
            "nthread": threads,
            "max_bin": MAX_BIN,
            "enable_categorical": self.types is not None,
        }
        given = self.data, self.codes, self.weights
        total = len(self.codes) if chosen is None else len(chosen)
        sample = chosen
        if bins is None and total > 2 * BIN_ROWS:
            # quantiles of all rows would take as long as putting them into bins
            draw = generator(self.seed, "bins").choice
            sample = np.sort(draw(total, BIN_ROWS, replace=False))
            sample = sample if chosen is None else chosen[sample]
        part = share(total)
        if bins is None and (sample is not chosen or part != slice(0, total)):
            # in a thread of its own, which XGBoost does not connect: all processes have the same
            # bins
            with ThreadPoolExecutor(1) as thread:
                drawn = RowIterator(*given, sample, self.types)
                bins = thread.submit(xgb.QuantileDMatrix, drawn, **options).result()
        if chosen is None:
            given = (
                self.data[part],
                self.codes[part],
                None if self.weights is None else self.weights[part],
            )
        else:
            chosen = chosen[part]
        read = RowIterator(*given, chosen, self.types, paged)
        kind = xgb.ExtMemQuantileDMatrix if paged else xgb.QuantileDMatrix
        found = kind(read, ref=bins, **options)
        give_back()  # what the quantiles took: 400 MB with ten million rows
        return found
