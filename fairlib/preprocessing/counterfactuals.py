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
    """Copies of encoded rows, one for every combination of the listed values.

    The encoder works column by column, so overwriting a column's part of the matrix gives the
    encoding of the changed table row. The table itself is not needed. In each copy every changed
    column is constant (Vargo et al. 2021, appendix C.2).

    Parameters
    ----------
    encoder : TableEncoder
        The fitted encoder of the rows.
    X : array of shape (n, d)
        Encoded rows.
    changes : mapping of str to sequence or "all"
        Table columns, and their values in the table's unit, or ``"all"``: the categories seen in
        training.

    Returns
    -------
    list of ndarray of float32, shape (n, d)

    Raises
    ------
    ValueError
        If X has another width, the encoder lacks a column, ``"all"`` is asked of a column without
        categories, or a column cannot have a value.

    References
    ----------
    A. Vargo, F. Zhang, M. Yurochkin, Y. Sun, "Individually Fair Gradient Boosting", ICLR 2021.
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

    Parameters
    ----------
    rows : ndarray of shape (n, d)
        The rows of which they are copies.
    counterfactuals : sequence of array-like, shape (n, d), or None

    Returns
    -------
    list of ndarray, shape (n, d)

    Raises
    ------
    ValueError
        If there is no copy, one has another shape or is not finite, or all copies equal the rows.
    """
    if counterfactuals is None:
        counterfactuals = ()
    copies = [np.asarray(copy) for copy in counterfactuals]
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
    """Compare counterfactuals with the values of the training rows.

    Parameters
    ----------
    encoder : TableEncoder
        The fitted encoder.
    counterfactuals : mapping
        By name, the changes of :func:`encoded_copies`.

    Raises
    ------
    ValueError
        If a category is one that no training row had, or all copies are the same.
    """
    for name, changes in counterfactuals.items():
        copies = 1
        for column, values in changes.items():
            categories = encoder.categories_.get(column, ())
            if values == "all":
                copies *= len(categories)
                continue
            copies *= len(set(values))
            if categories:
                _refuse_unknown(name, column, values, categories)
        if changes and copies < 2:
            columns = ", ".join(map(repr, changes))
            raise ValueError(
                f"the counterfactual {name!r} changes nothing: {columns} has one value in the "
                "training rows; change another column."
            )


def _refuse_unknown(
    name: str, column: str, values: Sequence[Any], categories: Sequence[str]
) -> None:
    """ValueError if one of the values is no category of the training rows."""
    for value in values:
        if category_name(value) not in categories:
            raise ValueError(
                f"the counterfactual {name!r} gives {column!r} the value {value!r}, which no "
                "training row has: list values of the table."
            )


def all_copies(
    encoder: TableEncoder, X: NDArray[Any], counterfactuals: Counterfactuals
) -> list[Float32]:
    """Copies of encoded rows under all checked counterfactuals, see :func:`encoded_copies`.

    Parameters
    ----------
    encoder : TableEncoder
        The fitted encoder of the rows.
    X : array of shape (n, d)
        Encoded rows.
    counterfactuals : mapping
        By name, the changes of :func:`encoded_copies`.

    Returns
    -------
    list of ndarray of float32, shape (n, d)

    Raises
    ------
    ValueError
        As of :func:`check_counterfactuals` and :func:`encoded_copies`.
    """
    check_counterfactuals(encoder, counterfactuals)
    copies = []
    for changes in counterfactuals.values():
        copies += encoded_copies(encoder, X, changes)
    return copies
