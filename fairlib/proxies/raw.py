"""Acceptance probabilities straight from raw columns, without the one-hot matrix."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from evenhand.fairlib.preprocessing.encoder import MISSING, NUMERIC_KINDS, TableEncoder, category_name
from evenhand.fairlib.proxies._kernels import accept
from evenhand.fairlib.proxies.columns import Rows, null_mask, one_array
from evenhand.fairlib.proxies.graph import SplittingGraph

__all__ = ["Acceptance", "RawAcceptance"]

Float = NDArray[np.float64]
# Halfspaces are padded to full vector registers.
LANES = 8


class Acceptance(NamedTuple):
    """Acceptance probability of every row, shape (n,), and the sums of the rows' shares, shape (groups,)."""

    probabilities: Float
    masses: Float


class RawAcceptance:
    r"""
    Acceptance probability :math:`\min(\sum_j s_j(x) \rho_j, 1)` of raw rows.

    Here :math:`s_j` are the shares of :meth:`SplittingGraph.shares` on the encoded rows and the sum runs over
    the groups in their order. Both are the same to the last bit as by way of the encoder: a halfspace's score
    is summed in the order of the matrix's columns, and of a one-hot block only the one term that is not zero
    is added, which changes nothing.

    Parameters
    ----------
    encoder : TableEncoder
        Fitted.
    graph : SplittingGraph
        Over the encoder's matrix.
    acceptance : array-like, shape (groups,)
        :math:`\rho`, in [0, 1].

    Raises
    ------
    ValueError
        Parts that do not fit together, or a coefficient that is not finite.
    """

    def __init__(self, encoder: TableEncoder, graph: SplittingGraph, acceptance: ArrayLike) -> None:
        self.encoder = encoder
        self.acceptance = np.ascontiguousarray(acceptance, dtype=np.float64)
        width = len(encoder.feature_names_)
        if graph.coefficients.ndim != 2 or graph.coefficients.shape[1] != width:
            raise ValueError(
                f"the graph splits on {graph.coefficients.shape[-1]} columns, the encoder makes {width}: "
                "they are not of one proxy."
            )
        if self.acceptance.shape != (graph.groups,):
            raise ValueError(
                f"{self.acceptance.size} acceptance probabilities for {graph.groups} proxy groups."
            )
        if not ((self.acceptance >= 0) & (self.acceptance <= 1)).all():
            raise ValueError("acceptance probabilities must be between 0 and 1.")
        if not np.isfinite(graph.coefficients).all():
            raise ValueError("the graph's coefficients must be finite: one of them is NaN or infinite.")
        self.graph = graph
        self._tabulate(graph, width)

    def _tabulate(self, graph: SplittingGraph, width: int) -> None:
        count = len(graph.intercepts)
        padded = -(-max(count, 1) // LANES) * LANES
        # one line per matrix column, and one of zeros for what adds nothing
        self._weights = np.zeros((width + 1, padded))
        self._weights[:width, :count] = graph.coefficients.T
        self._intercepts = _padded(graph.intercepts, padded)
        self._mixture = _padded(graph.mixture, padded)
        self._numeric = [item for item in self.encoder.fitted_ if item.kind in NUMERIC_KINDS]
        self._categorical = [item for item in self.encoder.fitted_ if item.kind in ("onehot", "binary")]
        # a missing number of these is not 0 in the matrix, so value and indicator are columns apart here
        self._filled = [item for item in self._numeric if item.kind == "unit"]
        self._marked = [item for item in self._filled if item.indicates_missing]
        self._means = np.array([item.centre for item in self._numeric], dtype=np.float64)
        self._scales = np.array([item.scale for item in self._numeric], dtype=np.float64)
        plan, self._lines = [], []
        for item in self.encoder.fitted_:
            first = self.encoder.groups_[item.name][0]
            if item in self._numeric:
                apart = item in self._marked
                indicator = first + 1 if item.indicates_missing and not apart else -1
                plan.append((1, self._numeric.index(item), first, indicator))
                if apart:
                    plan.append((0, len(self._categorical) + self._marked.index(item), first + 1, -1))
                continue
            plan.append((0, self._categorical.index(item), first, -1))
            lines = [width, first] if item.kind == "binary" else range(first, first + len(item.categories))
            self._lines.append(dict(zip(item.categories, lines, strict=True)))
        self._plan = np.array(plan, dtype=np.int64).reshape(-1, 4)

    @property
    def features(self) -> list[str]:
        """Columns that rows must have."""
        return [item.name for item in self.encoder.fitted_]

    @property
    def categorical(self) -> list[str]:
        """Those of them that hold categories."""
        return [item.name for item in self._categorical]

    def evaluate(self, rows: Rows) -> Acceptance:
        """
        Acceptance of rows.

        Parameters
        ----------
        rows : RecordBatch or Table, n rows
            With the encoder's columns: numbers, ``date32`` for dates, and any type with few values for
            categories, best dictionary encoded; further columns are not looked at.

        Returns
        -------
        Acceptance
            A row's probability does not depend on the others.

        Raises
        ------
        ValueError
            What :meth:`TableEncoder.transform` refuses: a missing column, values that are no number, an
            infinite one, and with ``unseen="error"`` a category unseen in training.
        """
        numbers = np.empty((len(self._numeric), rows.num_rows))
        codes = np.empty((len(self._categorical) + len(self._marked), rows.num_rows), dtype=np.int32)
        for k, item in enumerate(self._numeric):
            numbers[k] = _numbers(one_array(rows, item.name), item.name, item.kind)
            if item in self._filled:
                missing = np.isnan(numbers[k])
                numbers[k, missing] = item.mean
                if item in self._marked:
                    line, nothing = self.encoder.groups_[item.name][1], len(self._weights) - 1
                    codes[len(self._categorical) + self._marked.index(item)] = np.where(
                        missing, line, nothing
                    )
        for k, item in enumerate(self._categorical):
            codes[k] = self._codes(one_array(rows, item.name), item.name, self._lines[k])
        graph = self.graph
        probabilities, masses = np.empty(rows.num_rows), np.zeros(len(self.acceptance))
        accept(
            numbers,
            self._means,
            self._scales,
            codes,
            self._plan,
            self._weights,
            self._intercepts,
            self._mixture,
            graph.starts,
            graph.one,
            graph.zero,
            self.acceptance,
            probabilities,
            masses,
        )
        return Acceptance(probabilities, masses)

    def _codes(self, values: pa.Array, name: str, lines: dict[str, int]) -> NDArray[np.int32]:
        """Line of the weights for every row."""
        if not pa.types.is_dictionary(values.type):
            values = values.dictionary_encode()
        nothing = len(self._weights) - 1
        # the last entry is for rows without a value
        names = [_name(value) for value in values.dictionary.to_pylist()] + [MISSING]
        table = np.array([lines.get(known, -1) for known in names], dtype=np.int32)
        indices = values.indices
        if indices.null_count:
            indices = indices.fill_null(0)
        # an empty dictionary has rows without a value only
        codes = table[indices.to_numpy(zero_copy_only=False).astype(np.intp, copy=False)]
        if values.indices.null_count:
            codes[null_mask(values.indices)] = table[-1]
        if (table < 0).any():
            unseen = codes < 0
            if unseen.any() and self.encoder.unseen == "error":
                raise ValueError(
                    f"column {name!r} has {int(unseen.sum())} rows with a category unseen in training; "
                    "set unseenCategories: ignore in the contract to encode those as zeros."
                )
            codes[unseen] = nothing
        return codes


def _padded(values: Float, length: int) -> Float:
    out = np.zeros(length)
    out[: len(values)] = values
    return out


def _name(value: object) -> str:
    """Name of a dictionary's value; a NaN is a missing one, as for the encoder."""
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return MISSING
    return category_name(value)


def _numbers(values: pa.Array, name: str, kind: str) -> Float:
    """Values as float64, days since 1970-01-01 for dates, NaN where missing."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if pa.types.is_null(values.type):
        return np.full(len(values), np.nan)
    if kind == "date":
        if not pa.types.is_date32(values.type):
            raise ValueError(f"column {name!r} is of type {values.type}: cast it to date32.")
        values = values.cast(pa.int32())
    elif not (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)):
        raise ValueError(f"column {name!r} is of type {values.type}: cast it to a number.")
    numbers = np.asarray(values.to_numpy(zero_copy_only=False), dtype=np.float64)
    if pa.types.is_floating(values.type) and np.isinf(numbers).any():
        raise ValueError(f"column {name!r} has infinite values.")
    return numbers
