"""Groups of a sensitive column: their names, and the group of every row."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from evenhand.data_contracts.arrow import decode, null_mask
from evenhand.data_contracts.model import Column

MISSING_GROUP = "missing"


def bin_names(column: Column) -> tuple[str, ...]:
    """Return the names of the groups between a column's cut points.

    Parameters
    ----------
    column : Column
        A numeric sensitive column with bins.

    Returns
    -------
    tuple of str
        One name more than cut points: ``("<25", "25-59", ">=60")`` for whole numbers cut
        at 25 and 60, ``("<0.5", "0.5 to <1.5", ">=1.5")`` for others.

    Raises
    ------
    ValueError
        If the column has no bins.
    """
    if column.bins is None:
        raise ValueError(f"column '{column.name}' has no bins, so no named groups: add bins to the contract")
    if column.logical_type == "integer":
        cuts = [int(cut) for cut in column.bins]
        middle = [f"{a}-{b - 1}" if a < b - 1 else str(a) for a, b in pairwise(cuts)]
        return (f"<{cuts[0]}", *middle, f">={cuts[-1]}")
    texts = [_text(cut) for cut in column.bins]
    return (f"<{texts[0]}", *(f"{a} to <{b}" for a, b in pairwise(texts)), f">={texts[-1]}")


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
    else:
        text = _text if column.logical_type == "number" else str
        labels[~missing] = [text(value) for value in present.to_pylist()]
    return labels.astype(str)


def _text(value: float) -> str:
    """Return a number without a trailing ``.0`` and with all its digits."""
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(float(value))
