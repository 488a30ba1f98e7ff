"""Tables as the input of estimators: their columns as numbers, by the encoder of jobs.

Arrays are taken as they are. A table of pandas, polars, Arrow or another library that Narwhals
reads is brought into the order of the training table. Its columns of numbers and booleans are taken
as they are too; a table with text, categories, dates, or missing values where a method takes none,
is encoded by a :class:`evenhand.fairlib.preprocessing.encoder.TableEncoder` that ``fit`` makes.
"""

from __future__ import annotations

import importlib
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from evenhand.fairlib.row_order import check_row_order

if TYPE_CHECKING:
    import pandas as pd

    from evenhand.fairlib.preprocessing.encoder import TableEncoder

ENCODER_FILE = "encoder.json"
# Text with more distinct values is hardly a category, and would become as many columns.
MOST_CATEGORIES = 1000
Kind = Literal["number", "boolean", "date", "category", "ordered"]
PLAIN: tuple[Kind, ...] = ("number", "boolean")
# Encoding of a column, by its kind: truth values are numbers between 0 and 1.
ENCODINGS: dict[Kind, str] = {
    "number": "standard",
    "boolean": "unit",
    "date": "calendar",
    "category": "onehot",
    "ordered": "ordinal",
}
# Kinds of values in columns of Python objects, as pandas infers them.
OBJECTS: dict[str, Kind] = {
    "boolean": "boolean",
    "date": "date",
    "datetime": "date",
    "datetime64": "date",
    "decimal": "number",
    "empty": "number",
    "floating": "number",
    "integer": "number",
    "mixed": "category",
    "mixed-integer": "category",
    "mixed-integer-float": "number",
    "string": "category",
}


@dataclass(frozen=True, eq=False)
class InputTable:
    """A table whose columns have one of five kinds.

    Attributes
    ----------
    frame : DataFrame, n rows
        No column is sparse, and none of numbers or booleans holds Python objects.
    kinds : tuple of str
        Kind of every column.
    """

    frame: pd.DataFrame
    kinds: tuple[Kind, ...]

    @property
    def names(self) -> list[str]:
        """Names of the columns, as text."""
        return [str(name) for name in self.frame.columns]

    @property
    def is_plain(self) -> bool:
        """Whether all columns hold numbers or booleans."""
        return all(kind in PLAIN for kind in self.kinds)

    @property
    def has_missing(self) -> bool:
        """Whether a value is missing."""
        return bool(self.frame.isna().to_numpy().any())

    def in_order(self, names: Sequence[str] | None) -> InputTable:
        """The same table with its columns in another order.

        Parameters
        ----------
        names : sequence of str, or None
            The order; a table of other columns, and None, leave it as it is.

        Returns
        -------
        InputTable
        """
        columns = list(self.frame.columns)
        if names is None or columns == list(names) or set(columns) != set(names):
            return self
        places = [columns.index(name) for name in names]
        return InputTable(self.frame.iloc[:, places], tuple(self.kinds[j] for j in places))

    def named(self) -> pd.DataFrame:
        """The table with names that are text, as an encoder needs them."""
        frame = self.frame.copy(deep=False)
        frame.columns = self.names
        return frame

    def days(self) -> pd.DataFrame:
        """The table with dates as days since 1970-01-01; missing ones are NaN."""
        if "date" not in self.kinds:
            return self.frame
        frame = self.frame.copy(deep=False)
        for j, kind in enumerate(self.kinds):
            if kind == "date":
                frame.isetitem(j, _days(frame.iloc[:, j]))
        return frame


@dataclass(frozen=True, eq=False)
class NamedRows:
    """Rows of a matrix together with the table columns that its columns are of.

    Attributes
    ----------
    rows : ndarray, shape (n, d)
    columns : mapping of str to list of int
        Matrix columns of every table column.
    encoder : TableEncoder or None
        What made the matrix; None: the table's own numbers.
    """

    rows: NDArray[Any]
    columns: Mapping[str, list[int]]
    encoder: TableEncoder | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the matrix."""
        return self.rows.shape

    def __len__(self) -> int:
        return len(self.rows)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.rows, dtype=dtype, copy=copy)


def read_table(X: Any) -> InputTable | None:
    """Read a table of any library.

    Parameters
    ----------
    X : object
        A table, or anything else.

    Returns
    -------
    InputTable or None
        None if X is no table.

    Raises
    ------
    ValueError
        For a lazy table, or a column of a type that holds no numbers, categories or dates.
    """
    if isinstance(X, np.ndarray | list | tuple | NamedRows):
        return None
    frame = _as_pandas(X)
    if frame is None:
        return None
    plain = frame.copy(deep=False)
    kinds = []
    is_changed = False
    for j in range(frame.shape[1]):
        column = frame.iloc[:, j]
        values, kind = _plain_column(column)
        if values is not column:
            plain.isetitem(j, values.array)
            is_changed = True
        kinds.append(kind)
    return InputTable(plain if is_changed else frame, tuple(kinds))


def _as_pandas(X: Any) -> pd.DataFrame | None:
    import pandas as pd

    if isinstance(X, pd.DataFrame):
        return X
    import narwhals as nw

    table = nw.from_native(X, pass_through=True)
    if isinstance(table, nw.LazyFrame):
        raise ValueError("X is a lazy table: collect it first, as in X.collect().")
    if not isinstance(table, nw.DataFrame):
        return None
    frame: pd.DataFrame = table.to_pandas()
    return frame


def _plain_column(column: pd.Series) -> tuple[pd.Series, Kind]:
    """A column without sparse, nullable and object numbers, and its kind."""
    import pandas as pd
    from pandas.api import types

    if isinstance(column.dtype, pd.SparseDtype):
        accessor: Any = column.sparse
        column = accessor.to_dense()
    dtype = column.dtype
    if isinstance(dtype, pd.ArrowDtype):
        column = column.astype(object)
        dtype = column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return column, "ordered" if dtype.ordered else "category"
    if isinstance(dtype, pd.StringDtype):
        return column, "category"
    if types.is_datetime64_any_dtype(dtype):
        return column, "date"
    if types.is_bool_dtype(dtype) or types.is_numeric_dtype(dtype):
        kind: Kind = "boolean" if types.is_bool_dtype(dtype) else "number"
        # numbers of numpy stay as they are
        if not isinstance(dtype, np.dtype):
            column = _as_floats(column)
        return column, kind
    kind = _kind_of_objects(column)
    if kind in PLAIN:
        column = _as_floats(column)
    return column, kind


def _kind_of_objects(column: pd.Series) -> Kind:
    """Kind of a column of Python objects."""
    from pandas.api import types

    dtype = column.dtype
    inferred = types.infer_dtype(column, skipna=True)
    is_object = types.is_object_dtype(dtype)
    if not is_object or inferred not in OBJECTS:
        type_name = inferred if is_object else str(dtype)
        raise ValueError(
            f"column {str(column.name)!r} of X has the type {type_name}, which is no number, "
            "category or date: convert it, or leave it out."
        )
    if inferred == "mixed":
        _check_single_values(column)
    return OBJECTS[inferred]


def _check_single_values(column: pd.Series) -> None:
    """ValueError for lists and the like in the place of values."""
    for value in column:
        if not isinstance(value, Hashable):
            raise ValueError(
                f"column {str(column.name)!r} of X holds values of the type "
                f"{type(value).__name__}, which is no number, category or date: give each part a "
                "column of its own, or leave it out."
            )


def _as_floats(column: pd.Series) -> pd.Series:
    """A column of nullable or object numbers as float64, NaN where missing."""
    import pandas as pd

    present = column.notna().to_numpy()
    numbers = np.full(len(column), np.nan)
    numbers[present] = [float(value) for value in column[present]]
    return pd.Series(numbers, index=column.index, name=column.name)


def _days(column: pd.Series) -> NDArray[np.float64]:
    """Days since 1970-01-01, NaN where missing."""
    import pandas as pd

    seconds = pd.to_datetime(column).to_numpy(dtype="datetime64[s]")
    return np.where(np.isnat(seconds), np.nan, seconds.astype(np.int64) / 86400.0)


def dense(X: Any) -> Any:
    """Give a sparse matrix as an array; anything else as it is.

    Parameters
    ----------
    X : object

    Returns
    -------
    object
    """
    return X.toarray() if hasattr(X, "toarray") else X


def fit_encoder(table: InputTable) -> TableEncoder:
    """Fit the encoder of jobs to a table.

    Numbers are standardised, text and categories become one column a value, ordered categories
    their standardised position, booleans 0 and 1, and dates their age, month and weekday.

    Parameters
    ----------
    table : InputTable
        Training rows.

    Returns
    -------
    TableEncoder
        It encodes a value that it has not seen as no category.

    Raises
    ------
    ValueError
        For a column of more than ``MOST_CATEGORIES`` categories, or one without any value.
    """
    # by name: steps encode their tables before they call an estimator, and their keys follow
    # import statements
    encoding = importlib.import_module("evenhand.fairlib.preprocessing.encoder")
    frame = table.named()
    specs = []
    for name, kind in zip(table.names, table.kinds, strict=True):
        column = frame[name]
        if kind == "category":
            _check_categories(column)
        options: dict[str, Any] = {}
        if kind == "ordered":
            order = column.cat.categories
            options["order"] = tuple(encoding.category_name(value) for value in order)
        elif kind == "boolean":
            options["minimum"] = 0.0
            options["maximum"] = 1.0
        specs.append(encoding.ColumnSpec(name, ENCODINGS[kind], **options))
    encoder: TableEncoder = encoding.TableEncoder(specs, unseen="ignore").fit(frame)
    return encoder


def _check_categories(column: pd.Series) -> None:
    distinct = column.nunique()
    if distinct > MOST_CATEGORIES:
        raise ValueError(
            f"column {column.name!r} of X has {distinct:,} distinct values, more than the "
            f"{MOST_CATEGORIES:,} that become columns: leave it out, or group its values."
        )


def encode(encoder: TableEncoder, table: InputTable) -> NDArray[np.float32]:
    """Encode a table as the training table was.

    Parameters
    ----------
    encoder : TableEncoder
        From :func:`fit_encoder`.
    table : InputTable
        Rows with the columns of the training table.

    Returns
    -------
    ndarray of float32, shape (n, d)
    """
    return encoder.transform(table.named())


def read_encoder(folder: Path) -> TableEncoder | None:
    """Read the encoder of a saved estimator.

    Parameters
    ----------
    folder : Path
        Folder of the estimator.

    Returns
    -------
    TableEncoder or None
        None if it has none.
    """
    place = folder / ENCODER_FILE
    if not place.is_file():
        return None
    encoding = importlib.import_module("evenhand.fairlib.preprocessing.encoder")
    encoder: TableEncoder = encoding.TableEncoder.load(place)
    return encoder


def positions_of(
    items: Sequence[int | str], columns: Mapping[str, Sequence[int]], title: str
) -> list[int]:
    """Matrix columns of table columns.

    Parameters
    ----------
    items : sequence of int or str
        Names of table columns, and positions of matrix columns.
    columns : mapping of str to sequence of int
        Matrix columns of every table column; empty if there was no table.
    title : str
        What they are, for messages.

    Returns
    -------
    list of int

    Raises
    ------
    ValueError
        For a name that no column has.
    """
    positions: list[int] = []
    for item in items:
        if not isinstance(item, str):
            positions.append(item)
            continue
        if not columns:
            raise ValueError(
                f"{title} names the column {item!r}, but X has no names: give a table (a "
                "pipeline's steps give one after set_output(transform='pandas')), or "
                f"{'values' if title == 'sensitive_features' else 'positions'}."
            )
        if item not in columns:
            near = get_close_matches(item, columns, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise ValueError(
                f"{title} names {item!r}, which is no column of X; it has "
                f"{', '.join(columns)}.{hint}"
            )
        positions += columns[item]
    return positions


def with_columns_of(X: Any, sensitive_features: Any) -> Any:
    """Replace names of columns of X by their values.

    Parameters
    ----------
    X : object
        A table, or an array without names.
    sensitive_features : object
        Name of a column, a list of names, or values as ``fit`` takes them. A list of as many
        strings as X has rows is one of values.

    Returns
    -------
    object
        A mapping of names to values; what is no name as it is.

    Raises
    ------
    ValueError
        For a name that no column has, or values in another order than the rows of X.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"sex": ["f", "m", "f"], "age": [30, 40, 50]})
    >>> with_columns_of(table, "sex")["sex"].tolist()
    ['f', 'm', 'f']
    """
    check_row_order(X=X, sensitive_features=sensitive_features)
    names = sensitive_features
    if isinstance(names, str):
        names = [names]
    is_listed = isinstance(names, list | tuple) and len(names) > 0
    if not is_listed or not all(isinstance(name, str) for name in names):
        return sensitive_features
    is_one_name = isinstance(sensitive_features, str)
    table = read_table(X)
    if not is_one_name and (table is None or len(names) == len(table.frame)):
        return sensitive_features
    columns = {}
    if table is not None:
        columns = {name: [j] for j, name in enumerate(table.names)}
    values = {}
    for name in names:
        (place,) = positions_of([name], columns, "sensitive_features")
        assert table is not None
        values[name] = np.asarray(table.frame.iloc[:, place])
    return values


class TakesTables:
    """Base of the estimators whose ``fit`` and ``predict`` take tables.

    Attributes
    ----------
    encoder_ : TableEncoder or None
        What makes numbers of a table; None where X was an array, or a table of plain numbers.
    """

    encoder_: TableEncoder | None = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.sparse = True
        return tags

    def _needs_encoder(self, table: InputTable) -> bool:
        """Whether the columns of a training table must be encoded."""
        return not table.is_plain or table.has_missing

    def _numbers_of(self, X: Any, *, reset: bool, template: Any = None) -> Any:
        """Rows as numbers: a matrix of an encoded table, else what scikit-learn's check takes.

        A training table, with `reset`, decides whether there is an encoder. A fitted metric as the
        `template` has decided already.
        """
        if reset:
            self.encoder_ = None
        table = read_table(X)
        if table is None:
            rows = dense(X)
            self._check_encoded(rows)
            return rows
        if not reset:
            table = table.in_order(getattr(self, "feature_names_in_", None))
        else:
            table = table.in_order(self._names_of(template, table))
            self.encoder_ = getattr(template, "encoder_", None)
            if self.encoder_ is None and self._needs_encoder(table):
                self.encoder_ = fit_encoder(table)
        if self.encoder_ is None:
            if not reset and table.names != list(getattr(self, "feature_names_in_", table.names)):
                check_names(self, table.named(), reset=False)
            return self._plain_numbers(table, reset=reset)
        check_names(self, table.named(), reset=reset)
        return encode(self.encoder_, table)

    def _check_encoded(self, rows: Any) -> None:
        """Refuse an array, unless it has the columns of the encoded table."""
        if self.encoder_ is None:
            return
        width = len(self.encoder_.feature_names_)
        shape = np.shape(rows)
        if len(shape) != 2 or shape[1] != width:
            names = ", ".join(self.encoder_.groups_)
            raise ValueError(
                f"X must be a table with the columns {names}, which {type(self).__name__} was "
                f"fitted on, or their encoding of {width} columns; got the shape {shape}."
            )

    def _names_of(self, template: Any, table: InputTable) -> Sequence[str] | None:
        """Columns of the table that a metric was fitted on; ValueError for a table of others."""
        names = getattr(template, "feature_names_in_", None)
        if names is not None and set(names) != set(table.names):
            raise ValueError(
                f"the metric was fitted on the columns {', '.join(names)}, but X has "
                f"{', '.join(table.names)}."
            )
        return names

    def _plain_numbers(self, table: InputTable, *, reset: bool) -> Any:
        """A table of plain numbers."""
        return table.frame

    def _columns_by_name(self) -> dict[str, list[int]]:
        """Matrix columns of every table column; none if X was an array."""
        if self.encoder_ is not None:
            return self.encoder_.groups_
        names = getattr(self, "feature_names_in_", ())
        return {str(name): [j] for j, name in enumerate(names)}

    def _named(self, rows: NDArray[Any]) -> Any:
        """Rows with the names of their columns, if X was a table."""
        columns = self._columns_by_name()
        if not columns:
            return rows
        return NamedRows(rows, columns, self.encoder_)

    def _write_encoder(self, folder: Path) -> None:
        if self.encoder_ is not None:
            self.encoder_.save(folder / ENCODER_FILE)


def check_names(estimator: Any, frame: pd.DataFrame, *, reset: bool) -> None:
    """Compare the names of a table's columns with those at ``fit``, as scikit-learn does.

    Parameters
    ----------
    estimator : object
        It gets the names if `reset`.
    frame : DataFrame
        The table.
    reset : bool
        Whether this is the table of ``fit``.

    Raises
    ------
    ValueError
        For other columns than those at ``fit``.
    """
    from sklearn.utils.validation import validate_data

    validate_data(estimator, frame, reset=reset, skip_check_array=True)
