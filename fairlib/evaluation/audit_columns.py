"""Columns of an audit: tables and arrays of any library as plain columns of the same rows.

Rows are matched by position. Columns of pandas carry an index, and two whose indexes hold the same
labels in another order are refused: matched by position they would mix people up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from evenhand.fairlib.arrays import Bool, Int
from evenhand.fairlib.evaluation.bootstrap import atoms_of, distinct_rows
from evenhand.fairlib.evaluation.group_selection import JOINT, MISSING
from evenhand.fairlib.evaluation.outcomes import PAIR_SEPARATOR
from evenhand.fairlib.row_order import OTHER_ORDER, is_reordered

OTHER_LABELS = (
    "{name}: its index has other labels than that of {first}; pass {name}.to_numpy() if the rows "
    "are in the same order"
)


@dataclass(frozen=True, eq=False)
class Grouping:
    """Rows divided into K groups by one column or by several."""

    columns: tuple[str, ...]
    code: Int  # shape (n,): group of every row
    # values of the groups, one a column, in the order of `code`; `MISSING` for a missing value
    values: tuple[tuple[Any, ...], ...]
    missing: Bool  # shape (K,): whether a value of the group is missing
    # names of values by column, where values are codes
    value_names: Mapping[str, Mapping[Any, str]]

    @property
    def name(self) -> str:
        """Name of the attribute: the column, or several with ``&`` between them."""
        return PAIR_SEPARATOR.join(self.columns)

    @property
    def size(self) -> int:
        """Number of groups, K."""
        return len(self.values)

    @property
    def texts(self) -> list[str]:
        """Names of the groups for readers, such as ``"female & black"``."""
        texts = []
        for values in self.values:
            parts = []
            for column, value in zip(self.columns, values, strict=True):
                parts.append(self.text_of(column, value))
            texts.append(JOINT.join(parts))
        return texts

    def text_of(self, column: str, value: Any) -> str:
        """Name of a value of a column, as given, or the value as text.

        Parameters
        ----------
        column : str
            One of the columns.
        value : object
            One of its values.

        Returns
        -------
        str
        """
        names = self.value_names.get(column, {})
        if value in names:
            return str(names[value])
        if str(value) in names:
            return str(names[str(value)])
        return str(value)


class RowChecker:
    """Checks that all columns have as many rows as the first, and indexes in one order."""

    def __init__(self) -> None:
        self._first_name = ""
        self._rows: int | None = None
        self._index: pd.Index | None = None
        self._index_name = ""

    @property
    def rows(self) -> int:
        """Number of rows of the columns checked so far."""
        return self._rows or 0

    def check(self, name: str, values: Any, rows: int) -> None:
        """Check one more argument.

        Parameters
        ----------
        name : str
            Name of the argument.
        values : object
            The argument as it was passed.
        rows : int
            Its number of rows.

        Raises
        ------
        ValueError
            For another number of rows, or an index in another order or of other labels.
        """
        if self._rows is None:
            self._first_name = name
            self._rows = rows
        elif rows != self._rows:
            raise ValueError(
                f"{name}: got {rows} rows, expected {self._rows} as in {self._first_name}"
            )
        if not isinstance(values, pd.Series | pd.DataFrame):
            return
        if self._index is None:
            self._index = values.index
            self._index_name = name
        elif not values.index.equals(self._index):
            self._check_index(name, values.index)

    def _check_index(self, name: str, index: pd.Index) -> None:
        """Refuse an index that differs, unless one of both merely counts the rows."""
        assert self._index is not None
        labels = {"name": name, "first": self._index_name}
        if is_reordered(index, self._index):
            raise ValueError(OTHER_ORDER.format(**labels))
        if not (_counts_rows(index) or _counts_rows(self._index)):
            raise ValueError(OTHER_LABELS.format(**labels))
        if _counts_rows(self._index):
            self._index = index
            self._index_name = name


def _counts_rows(index: pd.Index) -> bool:
    """Whether an index is the default one, 0 to n - 1, which says nothing of the rows."""
    return bool(index.equals(pd.RangeIndex(len(index))))


def as_pandas(values: Any) -> Any:
    """Give tables and columns of polars, Arrow and others as pandas objects; others as they are.

    Parameters
    ----------
    values : object
        A table, a column, an array, a mapping or None.

    Returns
    -------
    object
    """
    if isinstance(values, pd.Series | pd.DataFrame | pd.Index):
        return values
    if hasattr(values, "to_pandas"):
        return values.to_pandas()
    return values


def holds_probabilities(predictions: Any) -> bool:
    """Whether predictions are what ``predict_proba`` gives: rows of numbers that sum to 1.

    Parameters
    ----------
    predictions : object
        Predictions as the caller passed them.

    Returns
    -------
    bool

    Examples
    --------
    >>> holds_probabilities(np.array([[0.25, 0.75], [1.0, 0.0]]))
    True
    >>> holds_probabilities([0, 1])
    False
    """
    if not isinstance(predictions, np.ndarray) or predictions.ndim != 2:
        return False
    if predictions.shape[1] < 2 or predictions.dtype.kind != "f":
        return False
    is_share = (predictions >= 0).all() and (predictions <= 1).all()
    return bool(is_share and np.allclose(predictions.sum(axis=1), 1.0, atol=1e-4))


def read_column(name: str, values: Any, checker: RowChecker) -> pd.Series:
    """Read one column.

    Parameters
    ----------
    name : str
        Name of the argument.
    values : array-like, shape (n,) or (n, 1)
        Its values.
    checker : RowChecker
        Checks the rows.

    Returns
    -------
    Series, shape (n,)
        With the index 0 to n - 1.

    Raises
    ------
    ValueError
        For several columns, or rows that do not match.
    """
    values = as_pandas(values)
    title = getattr(values, "name", None)
    if isinstance(values, pd.DataFrame):
        if values.shape[1] != 1:
            raise ValueError(f"{name}: got {values.shape[1]} columns, expected one")
        title = values.columns[0]
        column = values.iloc[:, 0]
    elif isinstance(values, pd.Series):
        column = values
    else:
        column = pd.Series(_one_dimension(name, values))
    checker.check(name, values, len(column))
    column = column.reset_index(drop=True)
    column.name = title
    return column


def _one_dimension(name: str, values: Any) -> Any:
    """Values of one column; of a list of scalars without a conversion of their types."""
    if values is None:
        raise ValueError(f"{name}: got None, expected one value per row")
    if isinstance(values, list | tuple):
        if values and all(isinstance(value, np.ndarray | pd.Series) for value in values):
            raise ValueError(
                f"{name}: got a list of {len(values)} columns; pass them by name, such as "
                "{'old': ..., 'new': ...}"
            )
        listed = np.empty(len(values), dtype=object)
        listed[:] = values
        return pd.Series(listed).infer_objects()
    array: Any = np.asarray(values)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        shape = f"{array.ndim} dimensions"
        if array.ndim == 2:
            shape = f"{array.shape[1]} columns"
        raise ValueError(f"{name}: got {shape}, expected one value per row")
    return array


def read_columns(
    argument: str, values: Any, checker: RowChecker, unnamed: str
) -> dict[str, pd.Series]:
    """Read one column or several by name.

    Parameters
    ----------
    argument : str
        Name of the argument.
    values : Series, DataFrame, mapping or array-like, shape (n,) or (n, k)
        The columns.
    checker : RowChecker
        Checks the rows.
    unnamed : str
        Start of the names of columns without one, such as ``sensitive_feature_``.

    Returns
    -------
    dict
        Columns by name.

    Raises
    ------
    ValueError
        Without a column, for a repeated name, or rows that do not match.
    """
    values = as_pandas(values)
    items = _named_columns(values, unnamed)
    columns: dict[str, pd.Series] = {}
    if isinstance(values, pd.DataFrame):
        checker.check(argument, values, len(values))
    for name, column in items:
        if name in columns:
            raise ValueError(f"{argument}: got two columns named {name!r}; rename one")
        title = argument if len(items) == 1 else f"{argument}[{name!r}]"
        columns[name] = read_column(title, column, checker)
    if not columns:
        raise ValueError(f"{argument}: got no column, expected at least one")
    return columns


def _named_columns(values: Any, unnamed: str) -> list[tuple[str, Any]]:
    """Names and values of the columns of an argument."""
    if isinstance(values, pd.DataFrame):
        positions = range(values.shape[1])
        return [(str(values.columns[j]), values.iloc[:, j]) for j in positions]
    if isinstance(values, Mapping):
        return [(str(name), column) for name, column in values.items()]
    name = getattr(values, "name", None)
    if not isinstance(values, list | tuple):
        array = np.asarray(values)
        if array.ndim == 2:
            return [(f"{unnamed}{j}", array[:, j]) for j in range(array.shape[1])]
    return [(f"{unnamed}0" if name is None else str(name), values)]


def group_by(
    columns: Mapping[str, pd.Series],
    value_names: Mapping[str, Mapping[Any, str]],
) -> Grouping:
    """Divide rows into the groups of one column, or of several together.

    Parameters
    ----------
    columns : mapping
        Columns by name, each of shape (n,).
    value_names : mapping
        Names of values by column.

    Returns
    -------
    Grouping
        Groups that occur, in sorted order; those of missing values are last.
    """
    codes = []
    levels = []
    for column in columns.values():
        code, values = _factorized(column)
        codes.append((code, len(values)))
        levels.append(values)
    # the first row of every group that occurs, in the order of the values
    first, _ = distinct_rows(codes)
    groups = []
    for row in first.tolist():
        parts = []
        for (code, _), values in zip(codes, levels, strict=True):
            parts.append(values[code[row]])
        groups.append(tuple(parts))
    missing = np.array([MISSING in map(str, values) for values in groups], dtype=bool)
    code = atoms_of(codes, first)
    return Grouping(tuple(columns), code, tuple(groups), missing, value_names)


def _factorized(column: pd.Series) -> tuple[Int, list[Any]]:
    """Number of every row's value, and the values in sorted order; a missing one is last."""
    code, values = pd.factorize(column, use_na_sentinel=True)
    listed = [value.item() if isinstance(value, np.generic) else value for value in values]
    order = sorted(range(len(listed)), key=lambda place: _sort_key(listed[place]))
    rank = np.empty(len(order) + 1, dtype=np.int64)
    for position, place in enumerate(order):
        rank[place] = position
    ordered = [listed[place] for place in order]
    rank[-1] = len(ordered)
    if (code < 0).any():
        # the word "missing" is a missing value too, as everywhere in this library
        if MISSING in ordered:
            rank[-1] = ordered.index(MISSING)
        else:
            ordered.append(MISSING)
    return rank[code], ordered


def _sort_key(value: Any) -> tuple[bool, bool, Any]:
    """Numbers by size, then words, then what is missing."""
    is_number = isinstance(value, int | float)
    return (value == MISSING, not is_number, value if is_number else str(value))


def groupings_of(
    columns: Mapping[str, pd.Series],
    value_names: Mapping[str, Mapping[Any, str]],
    *,
    intersections: bool,
) -> list[Grouping]:
    """Divide rows by each attribute, by every pair of them, and by all together.

    Parameters
    ----------
    columns : mapping
        Sensitive attributes by name.
    value_names : mapping
        Names of values by column.
    intersections : bool
        Whether to add pairs.

    Returns
    -------
    list of Grouping
        The last is of all attributes together.
    """
    chosen: list[Sequence[str]] = [(name,) for name in columns]
    if intersections:
        chosen += list(combinations(columns, 2))
    whole = tuple(columns)
    if whole in chosen:
        chosen.remove(whole)
    chosen.append(whole)
    groupings = []
    for names in chosen:
        groupings.append(group_by({name: columns[name] for name in names}, value_names))
    return groupings


def read_numbers(name: str, column: pd.Series) -> NDArray[np.float64]:
    """Give a column as finite numbers.

    Parameters
    ----------
    name : str
        Name of the argument.
    column : Series
        The column.

    Returns
    -------
    ndarray of float64

    Raises
    ------
    ValueError
        If a value is no finite number.
    """
    numbers = pd.to_numeric(column, errors="coerce").to_numpy(np.float64, na_value=np.nan)
    wrong = int(np.sum(~np.isfinite(numbers)))
    if wrong:
        raise ValueError(
            f"{name}: {wrong:,} of {len(numbers):,} values are missing or no finite number"
        )
    return numbers
