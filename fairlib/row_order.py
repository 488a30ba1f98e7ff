"""One check for all functions that take several tables or columns of the same rows.

Rows are matched by position. Tables and columns of pandas carry an index, and two whose indexes
hold the same labels in another order are refused: matched by position they would mix people up.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

OTHER_ORDER = (
    "{name}: its index has the labels of {first}'s index in another order; bring the rows into one "
    "order, such as {name}.loc[{first}.index], or pass {name}.to_numpy() if they already are"
)


def check_row_order(**by_row: Any) -> None:
    """Refuse tables and columns of pandas that have one index in different orders.

    The first argument with an index is the one that the others are compared with.

    Parameters
    ----------
    **by_row : object
        By name of the argument a table, a column, a mapping of columns, a list of tables, or
        anything without an index, which is not checked.

    Raises
    ------
    ValueError
        For an index in another order.

    Examples
    --------
    >>> import pandas as pd
    >>> X = pd.DataFrame({"age": [30, 40]}, index=["ann", "bob"])
    >>> check_row_order(X=X, y=pd.Series([1, 0], index=["bob", "ann"]))
    Traceback (most recent call last):
    ValueError: y: its index has the labels of X's index in another order; bring the rows into one \
order, such as y.loc[X.index], or pass y.to_numpy() if they already are
    """
    first_name = ""
    first_index = None
    for argument, values in by_row.items():
        for name, column in _parts(argument, values).items():
            index = index_of(column)
            if index is None:
                continue
            if first_index is None:
                first_name = name
                first_index = index
            elif is_reordered(index, first_index):
                raise ValueError(OTHER_ORDER.format(name=name, first=first_name))


def is_reordered(index: Any, other: Any) -> bool:
    """Say whether an index has the labels of another one in another order.

    Parameters
    ----------
    index, other : pandas.Index

    Returns
    -------
    bool
    """
    if len(index) != len(other) or index.equals(other):
        return False
    return len(index.difference(other)) == 0 and len(other.difference(index)) == 0


def index_of(values: Any) -> Any:
    """Give the index of a table or column of pandas; None of anything else.

    Parameters
    ----------
    values : object

    Returns
    -------
    pandas.Index or None
    """
    if hasattr(values, "index") and hasattr(values, "iloc"):
        return values.index
    return None


def _parts(argument: str, values: Any) -> dict[str, Any]:
    """Columns of a mapping, or tables of a list, by the words that name them."""
    if isinstance(values, Mapping):
        return {f"{argument}[{name!r}]": column for name, column in values.items()}
    if isinstance(values, list | tuple) and any(index_of(part) is not None for part in values):
        return {f"{argument}[{number}]": part for number, part in enumerate(values)}
    return {argument: values}
