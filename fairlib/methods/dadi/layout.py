"""How the columns of a matrix are grouped, and which of them take only two values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.fairlib.methods.dadi._inference import Columns, Rows

__all__ = ["Layout"]

Float32 = NDArray[np.float32]


@dataclass(frozen=True)
class Layout:
    """
    What the set encoder must know of the matrix.

    A column of two values in training (a constant one included) knows no third: another value is read as the
    nearer of the two. So its memory vectors are a table of two.

    Parameters
    ----------
    groups : mapping of str to list of int
        Columns of each group, in the order of the actions.
    columns : Columns
    constant : tuple of str
        Groups whose columns are all constant: there is nothing to ask.
    """

    groups: Mapping[str, Sequence[int]]
    columns: Columns
    constant: tuple[str, ...]

    @classmethod
    def fit(cls, X: Float32, groups: Mapping[str, Sequence[int]]) -> Layout:
        """Find the two-valued columns of the training rows, shape (n, d)."""
        low, high = X.min(axis=0), X.max(axis=0)
        two = np.equal(X, np.where(low < X, high, low)).all(axis=0)
        fixed = low == high
        constant = tuple(name for name, columns in groups.items() if fixed[list(columns)].all())
        return cls.restore(
            groups, {"two": np.flatnonzero(two), "low": low[two], "high": high[two], "constant": constant}
        )

    @classmethod
    def restore(cls, groups: Mapping[str, Sequence[int]], kept: Mapping[str, Any]) -> Layout:
        """Layout of what :meth:`kept` gave."""
        d = sum(len(columns) for columns in groups.values())
        group = np.empty(d, np.int64)
        for g, listed in enumerate(groups.values()):
            group[list(listed)] = g
        two = np.asarray(kept["two"], dtype=np.int64)
        own = np.setdiff1d(np.arange(d), two)
        columns = Columns(
            two,
            group[two],
            np.asarray(kept["low"], dtype=np.float32),
            np.asarray(kept["high"], dtype=np.float32),
            own,
            group[own],
        )
        return cls(dict(groups), columns, tuple(kept["constant"]))

    def kept(self) -> dict[str, Any]:
        """What a saved model needs, as plain JSON types."""
        columns = self.columns
        return {
            "two": columns.table.tolist(),
            "low": columns.low.astype(float).tolist(),
            "high": columns.high.astype(float).tolist(),
            "constant": list(self.constant),
        }

    def rows(self, X: Float32) -> Rows:
        """People as the encoder reads them, from a matrix of shape (n, d)."""
        columns = self.columns
        values = X[:, columns.table]
        upper = np.abs(values - columns.high) < np.abs(values - columns.low)
        # always the same layout: the kernels are compiled for each one anew
        return Rows(np.ascontiguousarray(upper, np.uint8), np.ascontiguousarray(X[:, columns.own]))
