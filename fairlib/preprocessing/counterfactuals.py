"""Counterfactual copies of encoded rows: the same people with another value of a column."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenhand.fairlib.arrays import Float32
from evenhand.fairlib.preprocessing.encoder import TableEncoder, category_name

Counterfactuals = Mapping[str, Mapping[str, Sequence[Any] | str]]
"""By the counterfactual's name: by table column the values that it gets, or ``"all"``."""


def encoded_copies(
    encoder: TableEncoder, X: NDArray[Any], changes: Mapping[str, Sequence[Any] | str]
) -> list[Float32]:
    """Copies of encoded rows, shape (n, d) each, one for every combination of the listed values.

    The encoder works column by column, so overwriting a column's part of the matrix gives the
    encoding of the changed table row. The table itself is not needed. In each copy every changed
    column is constant (Vargo et al. 2021, appendix C.2). `changes` map table columns to values in
    the table's unit, or to ``"all"``: the categories seen in training.

    ValueError if X has another width, the encoder lacks a column, ``"all"`` is asked of a column
    without categories, or a column cannot have a value.
    """
    rows = np.asarray(X, dtype=np.float32)
    if rows.ndim != 2 or rows.shape[1] != len(encoder.feature_names_):
        raise ValueError(
            f"X must be rows of the encoder's {len(encoder.feature_names_)} columns, got shape "
            f"{rows.shape}."
        )
    choices = [_encodings(encoder, column, listed) for column, listed in changes.items()]
    positions = [encoder.groups_[column] for column in changes]
    copies = []
    for combination in itertools.product(*choices):
        copy = rows.copy()
        for columns, encoding in zip(positions, combination, strict=True):
            copy[:, columns] = encoding
        copies.append(copy)
    return copies


def _encodings(
    encoder: TableEncoder, column: str, listed: Sequence[Any] | str
) -> list[NDArray[Any]]:
    """Encoding of each listed value."""
    import pandas as pd

    fitted = next((item for item in encoder.fitted_ if item.name == column), None)
    if fitted is None:
        raise ValueError(f"changes names the column {column!r}, which the encoder lacks.")
    if listed == "all" and not fitted.categories:
        raise ValueError(f"the column {column!r} holds numbers: list values, not all.")
    values = fitted.categories if listed == "all" else listed
    return [
        encoder._transform_column(fitted, pd.DataFrame({column: [value]}))[0] for value in values
    ]


def check_copies(
    rows: NDArray[Any], counterfactuals: Sequence[ArrayLike] | None
) -> list[NDArray[Any]]:
    """Counterfactual copies as arrays, in their own precision.
    ValueError: no copy, one of another shape than X or not finite, copies that all equal the rows.
    """
    copies = [] if counterfactuals is None else [np.asarray(copy) for copy in counterfactuals]
    if not copies:
        raise ValueError(
            "counterfactuals are missing or hold no copy of the rows: give at least one changed "
            "copy of X."
        )
    for copy in copies:
        if copy.shape != rows.shape:
            raise ValueError(
                f"counterfactuals must be copies of X, of shape {rows.shape}, got shape "
                f"{copy.shape}."
            )
        if not np.isfinite(copy).all():
            raise ValueError("counterfactuals must be finite: a copy holds NaN or infinity.")
    if all(np.array_equal(copy, rows) for copy in copies):
        raise ValueError("the counterfactual changes nothing: every copy equals its row.")
    return copies


def check_counterfactuals(encoder: TableEncoder, counterfactuals: Counterfactuals) -> None:
    """Hold counterfactuals against the training rows' values.
    ValueError: a category that no training row had, or copies that are all the same.
    """
    for name, changes in counterfactuals.items():
        copies = 1
        for column, listed in changes.items():
            known = encoder.categories_.get(column, ())
            copies *= len(known) if listed == "all" else len(set(listed))
            unknown = [
                value
                for value in listed
                if known and listed != "all" and category_name(value) not in known
            ]
            if unknown:
                raise ValueError(
                    f"the counterfactual {name!r} gives {column!r} the value {unknown[0]!r}, which "
                    "no "
                    "training row has: list values of the table."
                )
        if changes and copies < 2:
            raise ValueError(
                f"the counterfactual {name!r} changes nothing: {', '.join(map(repr, changes))} has "
                "one value "
                "in the training rows; change another column."
            )


def all_copies(
    encoder: TableEncoder, X: NDArray[Any], counterfactuals: Counterfactuals
) -> list[Float32]:
    """Copies of encoded rows under all checked counterfactuals, see :func:`encoded_copies`."""
    check_counterfactuals(encoder, counterfactuals)
    return [
        copy for changes in counterfactuals.values() for copy in encoded_copies(encoder, X, changes)
    ]
