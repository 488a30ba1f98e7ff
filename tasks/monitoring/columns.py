"""Columns as drift sees them: numbers, or counts of categories under the encoder's names."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from evenhand.data_contracts.arrow import decode
from evenhand.data_contracts.groups import group_labels
from evenhand.data_contracts.model import Column
from evenhand.fairlib.preprocessing.encoder import category_name

__all__ = ["category_counts", "group_codes", "is_numeric", "numbers_of"]


def is_numeric(column: Column) -> bool:
    """Whether the model takes it as a number; a date counts in days."""
    return column.logical_type == "date" or column.encoding in ("standard", "unit")


def numbers_of(values: pa.ChunkedArray, column: Column) -> NDArray[np.float64]:
    """Values as float64, dates as days since 1970-01-01, missing ones as NaN; shape (n,)."""
    values = decode(values)
    if column.logical_type == "date":
        values = values.cast(pa.date32(), safe=False).cast(pa.int32())
    return np.asarray(values.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)


def category_counts(values: pa.ChunkedArray) -> tuple[dict[str, int], int]:
    """Rows by category name, and rows without one (NaN counts as none)."""
    counts: Counter[str] = Counter()
    missing = 0
    for item in pc.value_counts(decode(values).combine_chunks()):
        value, count = item["values"].as_py(), item["counts"].as_py()
        if value is None or value != value:
            missing += count
        else:
            counts[category_name(value)] += count
    return dict(counts), missing


def group_codes(values: pa.ChunkedArray, column: Column) -> tuple[list[str], NDArray[np.int64]]:
    """Names of a sensitive column's groups, sorted, and which of them each row is in; shape (n,)."""
    names, codes = np.unique(group_labels(values, column), return_inverse=True)
    return names.tolist(), codes.astype(np.int64)
