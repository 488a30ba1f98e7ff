"""Which group of a sensitive column each row belongs to, for group metrics and tables."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from evenhand.data_contracts.arrow import decode, null_mask
from evenhand.data_contracts.model import Column

MISSING_GROUP = "missing"


def bin_names(column: Column) -> tuple[str, ...]:
    """Name the groups that a column's cut points make.

    Parameters
    ----------
    column : Column
        A numeric sensitive column with bins.

    Returns
    -------
    tuple of str
        One name more than there are cut points: ``("<25", "25-59", ">=60")`` for whole numbers cut
        at 25 and 60, ``("<0.5", "0.5 to <1.5", ">=1.5")`` for others.

    Raises
    ------
    ValueError
        Where the column has no bins.
    """
    if column.bins is None:
        raise ValueError(f"column '{column.name}' has no bins, so no named groups: add bins to the contract")
    cuts = column.bins
    if column.logical_type == "integer":
        whole = [int(cut) for cut in cuts]
        middle = [
            str(low) if low == high - 1 else f"{low}-{high - 1}"
            for low, high in zip(whole, whole[1:], strict=False)
        ]
        return (f"<{whole[0]}", *middle, f">={whole[-1]}")
    middle = [f"{_text(low)} to <{_text(high)}" for low, high in zip(cuts, cuts[1:], strict=False)]
    return (f"<{_text(cuts[0])}", *middle, f">={_text(cuts[-1])}")


def group_labels(values: pa.ChunkedArray | pa.Array, column: Column) -> NDArray[np.str_]:
    """Return the group of every row.

    Parameters
    ----------
    values : pyarrow.ChunkedArray or Array, shape (n,)
        The sensitive column, after :func:`evenhand.data_contracts.arrow.coerce`.
    column : Column
        Its description.

    Returns
    -------
    ndarray of str, shape (n,)
        Bin names for a column with bins, else the values as text; missing ones form the group
        ``missing``.
    """
    if isinstance(values, pa.Array):
        values = pa.chunked_array([values])
    values = decode(values)
    missing = null_mask(values)
    labels = np.full(len(values), MISSING_GROUP, dtype=object)
    present = values.drop_null()
    if column.bins is not None:
        names = np.array(bin_names(column), dtype=object)
        labels[~missing] = names[np.searchsorted(column.bins, present.to_numpy(), side="right")]
    elif column.logical_type == "boolean":
        labels[~missing] = np.where(present.to_numpy().astype(bool), "true", "false")
    elif column.logical_type == "number":
        labels[~missing] = [_text(value) for value in present.to_pylist()]
    else:
        labels[~missing] = [str(value) for value in present.to_pylist()]
    return labels.astype(str)


def _text(value: float) -> str:
    """Write a number as people do: no trailing ``.0``, no lost digits."""
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(float(value))
