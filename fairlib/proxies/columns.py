"""Arrow columns as plain arrays."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

__all__ = ["Rows", "null_mask", "one_array"]

Rows: TypeAlias = pa.RecordBatch | pa.Table


def one_array(rows: Rows, name: str) -> pa.Array:
    """
    One column, in one piece.

    Raises
    ------
    ValueError
        The column is missing, or there twice.
    """
    found = rows.schema.get_all_field_indices(name)
    if len(found) != 1:
        raise ValueError(f"column {name!r} is {'given twice in' if found else 'missing from'} the rows.")
    column = rows.column(found[0])
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def null_mask(values: pa.Array) -> NDArray[np.bool_] | None:
    """Where values are missing; None where none is."""
    if values.null_count == 0 and not pa.types.is_dictionary(values.type):
        return None
    mask = np.asarray(values.is_null().to_numpy(zero_copy_only=False), dtype=bool)
    return mask if mask.any() else None
