"""Leaks and stand-ins of a typed table, as a document without values of rows."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from evenhand.data_contracts.arrow import decode, group_labels
from evenhand.data_contracts.model import Column, Contract
from evenhand.fairlib.preprocessing.leaks import LEAK_AUC, STAND_IN_AUC, find_leaks, sampled_rows, stand_ins

FORMAT = 1
DIGITS = 4


def leak_report(table: pa.Table, contract: Contract) -> dict[str, Any]:
    """Find leaks and stand-ins among the model inputs of a typed table.

    `table` has the contract's columns, as after :func:`evenhand.data_contracts.arrow.coerce`. At most 20,000
    rows of it are read, always the same ones.

    The result has ``rows`` and ``sampled`` rows; the ``threshold`` of an AUC; ``columns``, suspected ones
    with ``name``, ``kind`` (see :class:`evenhand.fairlib.preprocessing.leaks.Suspect`), ``auc`` and
    ``attribute``; ``joint_auc`` of a tree on the others, None if there are no others or too few rows;
    ``stand_ins``, by attribute a list with ``name``, ``group`` and ``auc``, and their ``stand_in_threshold``.
    """
    rows = sampled_rows(table.num_rows)
    taken = table.take(pa.array(rows))
    inputs = {c.name: _column(taken[c.name], c) for c in contract.features if c.role == "feature"}
    positive = np.asarray(pc.equal(decode(taken[contract.label.name]), contract.label.positive), dtype=bool)
    sensitive = {column.name: _column(taken[column.name], column) for column in contract.sensitive}
    suspects, joint = find_leaks(inputs, positive, sensitive)
    groups = {column.name: group_labels(taken[column.name], column) for column in contract.sensitive}
    told = stand_ins({**inputs, **sensitive}, groups)
    return {
        "format": FORMAT,
        "rows": table.num_rows,
        "sampled": len(rows),
        "label": contract.label.name,
        "threshold": LEAK_AUC,
        "columns": [_rounded(asdict(suspect)) for suspect in suspects],
        "joint_auc": None if joint is None else round(joint, DIGITS),
        "stand_in_threshold": STAND_IN_AUC,
        "stand_ins": {name: [_rounded(asdict(item)) for item in found] for name, found in told.items()},
    }


def _rounded(item: dict[str, Any]) -> dict[str, Any]:
    return item | {"auc": None if item["auc"] is None else round(item["auc"], DIGITS)}


def _column(values: pa.ChunkedArray, column: Column) -> NDArray[Any]:
    """Numbers and days as float64, or the codes of categories as int64; shape (n,)."""
    values = decode(values)
    ordered = column.encoding == "ordinal" and column.allowed is not None
    if column.logical_type == "date":
        values = values.cast(pa.date32(), safe=False).cast(pa.int32())
    elif column.encoding in ("onehot", "binary", "ordinal") or not column.is_numeric:
        categories = pa.array(column.allowed) if ordered else pc.unique(values).drop_null()
        codes = pc.index_in(values, value_set=categories.cast(values.type)).fill_null(-1)
        return np.asarray(codes.to_numpy(), dtype=np.int64)
    numbers = np.asarray(values.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)
    return np.where(np.isfinite(numbers), numbers, np.nan)
