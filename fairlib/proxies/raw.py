"""Acceptance probabilities of raw rows in Arrow columns, without the encoder's matrix."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from evenhand.fairlib.arrays import Float, Int
from evenhand.fairlib.preprocessing.encoder import (
    DATE_KINDS,
    MISSING,
    RANKED_KINDS,
    FittedColumn,
    TableEncoder,
    calendar_parts,
    category_name,
)
from evenhand.fairlib.proxies.graph import SplittingGraph, expected_acceptance

Rows: TypeAlias = pa.RecordBatch | pa.Table


class Acceptance(NamedTuple):
    """Acceptance probability of every row, shape (n,), and the sums of the rows' shares, shape
    (groups,).
    """

    probabilities: Float
    masses: Float


class RawAcceptance:
    r"""Acceptance probability :math:`\min(\sum_j s_j(x) \rho_j, 1)` of raw rows.

    Here :math:`s_j` are the shares of :meth:`SplittingGraph.shares` on the encoded rows, and the
    sum runs over the groups in their order. The results equal those of the encoded rows to the last
    bit: a halfspace's score is summed in the order of the matrix's columns, and the omitted terms
    of a one-hot block are zero.

    Parameters
    ----------
    encoder : TableEncoder
        Fitted.
    graph : SplittingGraph
        Over the encoder's matrix.
    acceptance : array-like, shape (groups,)
        :math:`\rho`, in [0, 1].

    Attributes
    ----------
    features : list of str
        Columns that rows must have.
    categorical : list of str
        Those of them that hold categories.

    Raises
    ------
    ValueError
        If the parts do not fit together, or a coefficient is not finite.
    """

    def __init__(self, encoder: TableEncoder, graph: SplittingGraph, acceptance: ArrayLike) -> None:
        self.encoder = encoder
        self.graph = graph
        self.acceptance = np.ascontiguousarray(acceptance, dtype=np.float64)
        width = len(encoder.feature_names_)
        if graph.coefficients.shape[1] != width:
            raise ValueError(
                f"the graph splits on {graph.coefficients.shape[1]} columns, the encoder makes "
                f"{width}: they are not of one proxy."
            )
        if self.acceptance.shape != (graph.groups,):
            raise ValueError(
                f"{self.acceptance.size} acceptance probabilities for {graph.groups} proxy groups."
            )
        if not ((self.acceptance >= 0) & (self.acceptance <= 1)).all():
            raise ValueError("acceptance probabilities must be between 0 and 1.")
        if not np.isfinite(graph.coefficients).all():
            raise ValueError(
                "the graph's coefficients must be finite: one of them is NaN or infinite."
            )
        # one line of weights per matrix column, and a line of zeros for values that add nothing
        self._nothing = width
        self._plan, moments = self._plan_columns()
        self._means, self._scales = np.array(moments, dtype=np.float64).reshape(-1, 2).T.copy()
        self.features = [item.name for item in encoder.fitted_]
        self.categorical = list(self._categories)

    def _plan_columns(self) -> tuple[Int, list[tuple[float, float]]]:
        """Plan how the kernel `carry` reads each table column; also the mean and scale of each
        number.
        """
        # ranked columns with their first line in the numbers
        self._numeric: list[tuple[int, FittedColumn]] = []
        # by column: its line in the codes, and for categories their lines in the weights
        self._categories: dict[str, tuple[int, dict[str, int]]] = {}
        # by column of categories: the one that unlisted ones become, or an empty text
        self._others: dict[str, str] = {}
        self._indicators: dict[str, tuple[int, int]] = {}
        plan: list[tuple[int, int, int, int]] = []
        moments: list[tuple[float, float]] = []
        for item in self.encoder.fitted_:
            first = self.encoder.groups_[item.name][0]
            code = len(self._categories) + len(self._indicators)
            if item.kind not in RANKED_KINDS:
                binary = [self._nothing, first]
                one_hot = range(first, first + len(item.categories))
                lines = binary if item.kind == "binary" else one_hot
                self._categories[item.name] = (code, dict(zip(item.categories, lines, strict=True)))
                self._others[item.name] = item.other
                plan.append((0, code, first, -1))
                continue
            # a missing number of kind "unit" is not 0 in the matrix: its indicator is a column of
            # its own
            own_column = item.indicates_missing and item.kind == "unit"
            line = len(moments)
            self._numeric.append((line, item))
            moments.append((item.centre, item.scale))
            if item.kind == "calendar":
                moments += [(0.0, 1.0)] * 2  # month and weekday are standardised already
            parts = len(moments) - line
            indicator = first + parts if item.indicates_missing and not own_column else -1
            plan.append((1, line, first, indicator))
            plan += [(1, line + part, first + part, -1) for part in range(1, parts)]
            if own_column:
                self._indicators[item.name] = (code, first + 1)
                plan.append((0, code, first + 1, -1))
        return np.array(plan, dtype=np.int64).reshape(-1, 4), moments

    def evaluate(self, rows: Rows) -> Acceptance:
        """Compute the acceptance of rows; a row's probability does not depend on the other rows.

        Rows have the encoder's columns: numbers, ``date32`` for dates, and any type with few values
        for categories, preferably dictionary encoded. Further columns are ignored.

        Parameters
        ----------
        rows : pyarrow.Table or RecordBatch, n rows

        Returns
        -------
        Acceptance

        Raises
        ------
        ValueError
            As of :meth:`TableEncoder.transform`.
        """
        numbers = np.empty((len(self._means), rows.num_rows))
        codes = np.empty(
            (len(self._categories) + len(self._indicators), rows.num_rows), dtype=np.int32
        )
        for k, item in self._numeric:
            values = one_array(rows, item.name)
            if item.kind == "ordinal":
                numbers[k] = self._ranks(values, item)
                continue
            numbers[k] = _numbers(values, item.name, item.kind)
            if item.kind == "calendar":
                numbers[k + 1 : k + 3] = calendar_parts(numbers[k])
            if item.kind == "unit":
                missing = np.isnan(numbers[k])
                numbers[k, missing] = item.mean
                if item.name in self._indicators:
                    code, line = self._indicators[item.name]
                    codes[code] = np.where(missing, line, self._nothing)
        for name, (code, lines) in self._categories.items():
            values = one_array(rows, name)
            codes[code] = self._codes(values, name, lines, self._nothing, self._others[name])
        shares = self.graph.carried(numbers, codes, self._means, self._scales, self._plan)
        return Acceptance(expected_acceptance(shares, self.acceptance), shares.sum(axis=0))

    def _ranks(self, values: pa.Array, item: FittedColumn) -> Float:
        """Position of every row's value in its column's order; NaN where it is missing."""
        unknown = len(item.categories)
        ranks = {name: rank for rank, name in enumerate(item.categories)} | {MISSING: unknown}
        codes = self._codes(values, item.name, ranks, unknown)
        return np.where(codes == unknown, np.nan, codes)

    def _codes(
        self, values: pa.Array, name: str, lines: dict[str, int], nothing: int, other: str = ""
    ) -> NDArray[np.int32]:
        """Line of every row's value; for a category that no training row had that of `other`, or
        `nothing`.
        """
        if not pa.types.is_dictionary(values.type):
            values = values.dictionary_encode()
        # the last entry is for rows without a value
        names = [_name(value) for value in values.dictionary.to_pylist()] + [MISSING]
        lines = {MISSING: -1, **lines}
        unlisted = -1
        if other:
            unlisted = lines[other]
        table = np.array([lines.get(category, unlisted) for category in names], dtype=np.int32)
        codes = table[values.indices.cast(pa.int64()).fill_null(len(table) - 1).to_numpy()]
        if (table < 0).any():
            unseen = codes < 0
            if unseen.any() and self.encoder.unseen == "error":
                raise ValueError(
                    f"column {name!r} has {int(unseen.sum())} rows with a category unseen in "
                    "training; set unseenCategories: ignore in the contract to encode those as "
                    "zeros."
                )
            codes[unseen] = nothing
        return codes


def one_array(rows: Rows, name: str) -> pa.Array:
    """One column as a single array.

    Parameters
    ----------
    rows : pyarrow.Table or RecordBatch, n rows
    name : str

    Returns
    -------
    pyarrow.Array, length n

    Raises
    ------
    ValueError
        If the column is missing, or there are two of this name.
    """
    places = rows.schema.get_all_field_indices(name)
    if not places:
        raise ValueError(f"column {name!r} is missing from the rows.")
    if len(places) > 1:
        raise ValueError(f"column {name!r} is given twice in the rows.")
    column = rows.column(places[0])
    if isinstance(column, pa.ChunkedArray):
        return column.combine_chunks()
    return column


def _name(value: object) -> str:
    """Name of a dictionary's value; a NaN is missing, as in the encoder."""
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return MISSING
    return category_name(value)


def _numbers(values: pa.Array, name: str, kind: str) -> Float:
    """Values as float64: days since 1970-01-01 for dates, NaN where missing."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if pa.types.is_null(values.type):
        return np.full(len(values), np.nan)
    if kind in DATE_KINDS:
        if not pa.types.is_date32(values.type):
            raise ValueError(f"column {name!r} is of type {values.type}: cast it to date32.")
        values = values.cast(pa.int32())
    elif not (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)):
        raise ValueError(f"column {name!r} is of type {values.type}: cast it to a number.")
    numbers = np.asarray(values.to_numpy(zero_copy_only=False), dtype=np.float64)
    if pa.types.is_floating(values.type) and np.isinf(numbers).any():
        raise ValueError(f"column {name!r} has infinite values.")
    return numbers
