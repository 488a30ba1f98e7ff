"""Encoding of a table: one-hot, standardised, ranked or mapped into [0, 1], fitted on training rows
only.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from evenhand.fairlib.arrays import Float, Float32
from evenhand.fairlib.execution import Progress
from evenhand.fairlib.preprocessing.sentences import (
    MIN_SENTENCES,
    TFIDF,
    WEIGHTS,
    TfidfEncoder,
    TransformerEncoder,
    from_text,
    load_encoder,
    to_text,
)

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

FORMAT = 1
MISSING = "(missing)"
DATE_KINDS = ("date", "calendar")
NUMERIC_KINDS = ("standard", "unit", *DATE_KINDS)
# Kinds of columns that are encoded as numbers; of ``ordinal`` the positions.
RANKED_KINDS = (*NUMERIC_KINDS, "ordinal")
_TRUE = ("true", "yes", "1", "1.0", "y", "t", "on")
_FALSE = ("false", "no", "0", "0.0", "n", "f", "off")
TRUTH = dict.fromkeys(_TRUE, True) | dict.fromkeys(_FALSE, False)
"""Spellings of booleans in raw tables, in lower case."""
# mean and standard deviation of 1 to 12, and of 0 to 6: they do not depend on the training rows
MONTH = (6.5, float(np.sqrt(143 / 12)))
WEEKDAY = (3.0, 2.0)
# Of fewer rows every value is named on its own, which then is faster.
FEW_ROWS = 20


@dataclass(frozen=True)
class ColumnSpec:
    """Encoding of one column of a table.

    Parameters
    ----------
    name : str
        Name of the column.
    kind : str
        ``standard``: (x - mean) / standard deviation; ``date``: the same of the days since
        1970-01-01; ``unit``: (x - minimum) / (maximum - minimum); ``onehot``: one 0/1 column per
        category seen in training; ``binary``: one 0/1 column; ``ordinal``: the same as ``standard``
        of the position in `order`; ``calendar``: of a date the age in days, the month and the
        weekday, each standardised; ``text``: the vector of a sentence.
    positive : str or None, default None
        For ``binary``: the value that becomes 1.
    minimum, maximum : float or None, default None
        For ``unit``: the values that become 0 and 1.
    order : tuple of str, default ()
        For ``ordinal``: the names of all categories, in their order.
    missing : tuple of str, int or float, default ()
        Values that stand for a missing one.
    encoder : str, default "tfidf"
        For ``text``: tfidf, minilm or the folder of a sentence-transformers model.
    size : int, default 100
        For the encoder tfidf: most numbers of a vector.
    other : str, default ""
        For ``onehot``: the category that every one becomes which no training row had; it always has
        a column of the matrix.
    """

    name: str
    kind: Literal["standard", "unit", "onehot", "binary", "date", "ordinal", "calendar", "text"]
    positive: str | None = None
    minimum: float | None = None
    maximum: float | None = None
    order: tuple[str, ...] = ()
    missing: tuple[str | int | float, ...] = ()
    encoder: str = TFIDF
    size: int = 100
    other: str = ""


@dataclass(frozen=True)
class FittedColumn:
    """Fitted encoding of one column: numbers and category names, never a row.

    Parameters
    ----------
    name, kind : str
        As of :class:`ColumnSpec`.
    mean, scale : float, default 0 and 1
        A number x becomes (x - mean) / scale, of the kind ``unit`` (x - minimum) / scale.
    categories : tuple of str, default ()
        Of a categorical column, in the order of its matrix columns.
    indicates_missing : bool, default False
        Whether a 0/1 column says where a number was missing.
    minimum : float, default 0
        Of the kind ``unit``: the number that becomes 0.
    missing : tuple of str, int or float, default ()
        Values that stand for a missing one.
    text : dict or None, default None
        For ``text``: ``encoder`` (see :mod:`.sentences`), the ``mean`` vector as base64 text, and
        the ``size``.
    other : str, default ""
        Of the kind ``onehot``: the one of `categories` that every other category becomes.
    """

    name: str
    kind: str
    mean: float = 0.0
    scale: float = 1.0
    categories: tuple[str, ...] = ()
    indicates_missing: bool = False
    minimum: float = 0.0
    missing: tuple[str | int | float, ...] = ()
    text: dict[str, Any] | None = None
    other: str = ""

    @property
    def centre(self) -> float:
        """The number that becomes 0."""
        if self.kind == "unit":
            return self.minimum
        return self.mean

    @property
    def columns(self) -> list[str]:
        """Names of its matrix columns."""
        if self.kind == "onehot":
            return [f"{self.name}={category}" for category in self.categories]
        if self.kind == "binary":
            return [f"{self.name}={self.categories[1]}"]
        if self.text is None:
            names = [self.name]
        else:
            names = [f"{self.name}[{i}]" for i in range(self.text["size"])]
        if self.kind == "calendar":
            names += [f"{self.name}=month", f"{self.name}=weekday"]
        if self.indicates_missing:
            names.append(f"{self.name}={MISSING}")
        return names

    def _kind_of(self, matrix_column: str) -> str:
        """Kind of one of its matrix columns: standard, unit, onehot or binary."""
        if self.kind != "binary" and matrix_column == f"{self.name}={MISSING}":
            return "onehot"  # an indicator of missing values
        if self.kind in ("unit", "onehot", "binary"):
            return self.kind
        return "standard"


class UnseenCategories(ValueError):
    """Rows have categories that no training row had.

    Parameters
    ----------
    rows : dict of str to int
        Number of such rows by column. No value is named, because it is a person's.
    """

    def __init__(self, rows: dict[str, int]) -> None:
        self.rows = rows
        phrases = []
        for name, count in rows.items():
            phrases.append(f"column {name!r} has {count} rows with a category unseen in training")
        super().__init__(
            f"{'; '.join(phrases)}; "
            "set unseenCategories: ignore in the contract to encode those as zeros."
        )

    def __reduce__(self) -> tuple[type[UnseenCategories], tuple[dict[str, int]]]:
        """Let another process raise it here."""
        return UnseenCategories, (self.rows,)


class TableEncoder:
    r"""Encode a table as a float32 matrix.

    Numeric columns become :math:`(x - \mu) / \sigma` with the training rows' mean and (population)
    standard deviation; a constant column becomes 0. Columns of kind ``unit`` become :math:`(x - a)
    / (b - a)` with given bounds a and b, which do not depend on the split and on no extreme person;
    a value beyond the bounds leaves [0, 1]. A missing number becomes the training rows' mean and,
    where training rows had missing ones, sets a 0/1 column of its own; a missing category is the
    category ``(missing)``. Of a date of kind ``calendar`` the age is minus its standardised days,
    so that the date on which ages are measured cancels; month (1 to 12) and weekday (Monday is 0)
    are standardised as if all were equally frequent. The position in an order counts from 0. A
    sentence becomes its vector, less the mean of the training rows, over the root mean square of
    all numbers there: one scale keeps the angles between vectors. An empty or missing sentence
    becomes the mean, as a number does.

    Parameters
    ----------
    columns : sequence of ColumnSpec
        In the order of the matrix.
    unseen : {"error", "ignore"}
        Effect of a category unseen in training at ``transform``: an error, or zeros in the whole
        group.

    Attributes
    ----------
    fitted_ : tuple
        Fitted encoding of each column, in the order of the matrix.
    feature_names_ : list of str, length d
    groups_ : dict of str to list of int
        Matrix columns of each table column.
    kinds_ : dict of str to str
        For each matrix column: ``"standard"``, ``"unit"``, ``"onehot"`` or ``"binary"``.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"age": [20, 30, 40], "city": ["Rome", "Oslo", "Rome"]})
    >>> encoder = TableEncoder([ColumnSpec("age", "standard"), ColumnSpec("city", "onehot")])
    >>> encoder.fit(frame).transform(frame).astype(float).round(2).tolist()
    [[-1.22, 0.0, 1.0], [0.0, 1.0, 0.0], [1.22, 0.0, 1.0]]
    >>> encoder.feature_names_
    ['age', 'city=Oslo', 'city=Rome']
    """

    def __init__(
        self, columns: Sequence[ColumnSpec], unseen: Literal["error", "ignore"] = "error"
    ) -> None:
        self.columns = tuple(columns)
        self.unseen = unseen
        # set by steps: a folder for the vectors of sentences, and the callback of their encoding
        self.cache: Path | None = None
        self.callback: Progress | None = None
        # set by load: a folder with the weights of the encoder of sentences
        self.weights: Path | None = None
        self._sentence_encoders: dict[str, TfidfEncoder | TransformerEncoder] = {}
        # set by steps: whose row each training row is, and how many people must have a word
        self.people: NDArray[Any] | None = None
        self.min_texts = MIN_SENTENCES

    def fit(self, frame: pd.DataFrame | Callable[[str], pd.DataFrame]) -> TableEncoder:
        """Learn means, deviations and categories from training rows; further columns are ignored.

        Parameters
        ----------
        frame : DataFrame, shape (n, columns), or callable
            A table, or a function that gives the table of one column, so that a single one of them
            is in memory; of a column of kind ``onehot`` or ``binary`` the distinct values are
            enough.

        Returns
        -------
        TableEncoder
            The encoder itself.

        Raises
        ------
        ValueError
            If a column is missing or given twice, a number is infinite, a text is no number or
            date, a unit column lacks finite bounds in rising order, a binary column has other than
            its two
            values, or two matrix columns have one name.
        """
        if callable(frame):
            return self.with_fitted(
                self.fit_column(spec, frame(spec.name)) for spec in self.columns
            )
        if len(frame) == 0:
            raise ValueError("the encoder needs at least one training row, got 0.")
        return self.with_fitted(self.fit_column(spec, frame) for spec in self.columns)

    def with_fitted(self, columns: Iterable[FittedColumn]) -> TableEncoder:
        """Take the encodings of all columns, in their order, as :meth:`fit` does.

        Parameters
        ----------
        columns : iterable of FittedColumn
            As many as the encoder has columns.

        Returns
        -------
        TableEncoder
            The encoder itself.

        Raises
        ------
        ValueError
            If two matrix columns have one name.
        """
        self.fitted_ = tuple(columns)
        self.feature_names_: list[str] = []
        self.groups_: dict[str, list[int]] = {}
        self.kinds_: dict[str, str] = {}
        for item in self.fitted_:
            start = len(self.feature_names_)
            self.feature_names_ += item.columns
            self.groups_[item.name] = list(range(start, len(self.feature_names_)))
            for name in item.columns:
                if name in self.kinds_:
                    raise ValueError(
                        f"two matrix columns would be named {name!r}: rename a table column."
                    )
                self.kinds_[name] = item._kind_of(name)
        return self

    def fit_column(self, spec: ColumnSpec, frame: pd.DataFrame) -> FittedColumn:
        """Fit the encoding of one column.

        Parameters
        ----------
        spec : ColumnSpec
            The encoding.
        frame : DataFrame, n rows
            Training rows with at least this column.

        Returns
        -------
        FittedColumn

        Raises
        ------
        ValueError
            As :meth:`fit`.
        """
        series = _column(frame, spec.name, spec.missing)
        if spec.kind == "text":
            return self._fit_text(spec, series)
        if spec.kind in RANKED_KINDS:
            return self._fit_numbers(spec, series)
        # among mixed objects True equals 1, though their names differ
        distinct = series if series.dtype == object else series.drop_duplicates()
        names = set(_texts(distinct))
        if spec.kind == "binary":
            return _binary(spec, sorted(names))
        if spec.other:
            names.add(spec.other)
        return FittedColumn(
            spec.name,
            "onehot",
            categories=tuple(sorted(names)),
            missing=spec.missing,
            other=spec.other,
        )

    def _fit_numbers(self, spec: ColumnSpec, series: pd.Series) -> FittedColumn:
        """Fit a column of numbers, dates or positions in an order."""
        numbers = self._numbers(series, spec.kind, spec.order)
        present = numbers[~np.isnan(numbers)]
        if present.size == 0:
            raise ValueError(
                f"column {spec.name!r} has no value in the training rows: leave it out."
            )
        missing = present.size < numbers.size
        if spec.kind == "unit":
            return _unit(spec, present, missing)
        mean, scale = _mean_and_deviation(spec.name, present)
        if spec.kind == "calendar":
            scale = -scale  # an earlier date is a greater age
        return FittedColumn(
            spec.name, spec.kind, mean, scale, spec.order, missing, missing=spec.missing
        )

    def _fit_text(self, spec: ColumnSpec, series: pd.Series) -> FittedColumn:
        present = _sentences(series)
        sentences = present.dropna().tolist()
        if not sentences:
            raise ValueError(
                f"column {spec.name!r} has no sentence in the training rows: leave it out."
            )
        if spec.encoder == TFIDF:
            people = None
            if self.people is not None:
                people = self.people[present.notna().to_numpy()]
            encoder: TfidfEncoder | TransformerEncoder = TfidfEncoder.fit(
                sentences, spec.size, min_texts=self.min_texts, people=people
            )
        else:
            encoder = TransformerEncoder(spec.encoder, cache=self.cache)
        vectors = encoder.encode(sentences, self.callback)
        mean = vectors.mean(axis=0, dtype=np.float64)
        scale = float(np.sqrt(np.square(vectors - mean).mean())) or 1.0
        self._sentence_encoders[spec.name] = encoder
        return FittedColumn(
            spec.name,
            "text",
            scale=scale,
            indicates_missing=len(sentences) < len(present),
            missing=spec.missing,
            text={"encoder": encoder.to_dict(), "mean": to_text(mean), "size": encoder.size},
        )

    def encode_sentences(self, name: str, sentences: Sequence[str]) -> Float32:
        """Vectors of sentences of a column, as in the matrix.

        Parameters
        ----------
        name : str
            Name of a column of sentences.
        sentences : sequence of str, length n
            None of them missing.

        Returns
        -------
        ndarray of float32, shape (n, size)

        Raises
        ------
        ValueError
            If it is no column of sentences, or the encoder is not that of the training.
        """
        text, scale = self._fitted_text(name)
        if name not in self._sentence_encoders:
            self._sentence_encoders[name] = load_encoder(text["encoder"], self.cache, self.weights)
        vectors = self._sentence_encoders[name].encode(sentences, self.callback)
        return (vectors - from_text(text["mean"])) / np.float32(scale)

    def _fitted_text(self, name: str) -> tuple[dict[str, Any], float]:
        """Encoder, mean and size of a column of sentences, and its scale."""
        for item in self.fitted_:
            if item.name == name and item.text is not None:
                return item.text, item.scale
        raise ValueError(f"the column {name!r} holds no sentences.")

    def longest(self, name: str) -> int | None:
        """Number of tokens that the encoder of a column reads, at least one a word.

        Parameters
        ----------
        name : str
            Name of a column of sentences.

        Returns
        -------
        int or None
            None if it reads all.
        """
        return getattr(self._sentence_encoders[name], "longest", None)

    def _transform_text(self, item: FittedColumn, series: pd.Series) -> Float32:
        texts = _sentences(series)
        absent = texts.isna().to_numpy()
        matrix = np.zeros((len(texts), len(item.columns)), dtype=np.float32)
        if not absent.all():
            size = matrix.shape[1] - item.indicates_missing
            matrix[~absent, :size] = self.encode_sentences(item.name, texts[~absent].tolist())
        if item.indicates_missing:
            matrix[:, -1] = absent
        return matrix

    def _numbers(self, series: pd.Series, kind: str, order: tuple[str, ...]) -> Float:
        """Numbers, or positions in the order: of an unknown value an error, or missing if
        ignored.
        """
        if kind != "ordinal":
            return _numbers(series, kind)
        codes = _codes(series, (*order, MISSING))
        self._refuse_unseen(str(series.name), int((codes < 0).sum()))
        return np.where((codes < 0) | (codes == len(order)), np.nan, codes)

    def _refuse_unseen(self, name: str, rows: int) -> None:
        if self.unseen == "error" and rows:
            raise UnseenCategories({name: rows})

    @property
    def categories_(self) -> dict[str, tuple[str, ...]]:
        """Categories seen in training, for every categorical column; of an ordered one all, in
        order.
        """
        return {item.name: item.categories for item in self.fitted_ if item.categories}

    def accepted(self, name: str) -> tuple[str, ...]:
        """Category names that :meth:`transform` never refuses; an ordered column may also be
        missing.

        Parameters
        ----------
        name : str
            Name of a categorical or ordered column.

        Returns
        -------
        tuple of str
        """
        categories = self.categories_[name]
        if any(item.name == name and item.kind == "ordinal" for item in self.fitted_):
            return (*categories, MISSING)
        return categories

    def transform(self, frame: pd.DataFrame, order: Literal["C", "F"] = "C") -> Float32:
        """Encode rows as a matrix; columns that ``fit`` did not have are ignored.

        Parameters
        ----------
        frame : DataFrame, n rows
        order : {"C", "F"}, default "C"
            Order of the matrix in memory: "F" keeps each of its columns together.

        Returns
        -------
        ndarray of float32, shape (n, d)

        Raises
        ------
        ValueError
            If a column is missing, or has a category unseen in training with ``unseen="error"``.
        """
        matrix = np.empty((len(frame), len(self.feature_names_)), dtype=np.float32, order=order)
        unseen_rows: dict[str, int] = {}
        for item in self.fitted_:
            if unseen_rows and item.kind == "text":
                continue  # it takes long, and nothing is returned
            try:
                matrix[:, self.groups_[item.name]] = self._transform_column(item, frame)
            except UnseenCategories as error:
                unseen_rows |= error.rows
        if unseen_rows:
            raise UnseenCategories(unseen_rows)
        return matrix

    def _transform_column(self, item: FittedColumn, frame: pd.DataFrame) -> NDArray[Any]:
        series = _column(frame, item.name, item.missing)
        if item.kind == "text":
            return self._transform_text(item, series)
        if item.kind in RANKED_KINDS:
            numbers = self._numbers(series, item.kind, item.categories)
            absent = np.isnan(numbers)
            scaled = (np.where(absent, item.mean, numbers) - item.centre) / item.scale
            parts: list[NDArray[Any]] = [scaled]
            if item.kind == "calendar":
                parts += [np.where(absent, 0.0, part) for part in calendar_parts(numbers)]
            if item.indicates_missing:
                parts.append(absent)
            return np.stack(parts, axis=1)
        codes = _codes(series, item.categories, item.other)
        self._refuse_unseen(item.name, int((codes < 0).sum()))
        if item.kind == "binary":
            return (codes == 1)[:, None]
        return codes[:, None] == np.arange(len(item.categories))[None, :]

    def save(self, path: str | Path) -> None:
        """Write the fitted encoder as JSON.

        Parameters
        ----------
        path : str or pathlib.Path
            File to write.
        """
        content = {
            "format": FORMAT,
            "unseen": self.unseen,
            "specs": [_stored(spec) for spec in self.columns],
            "fitted": [_stored(item) for item in self.fitted_],
        }
        Path(path).write_text(json.dumps(content, indent=1, sort_keys=True))

    @classmethod
    def load(cls, path: str | Path) -> TableEncoder:
        """Read an encoder written by :meth:`save`; it encodes as the saved one did.

        Parameters
        ----------
        path : str or pathlib.Path
            File that :meth:`save` wrote; a folder of sentence weights next to it is used.

        Returns
        -------
        TableEncoder

        Raises
        ------
        ValueError
            If the file has another format.
        """
        content = json.loads(Path(path).read_text())
        if content.get("format") != FORMAT:
            raise ValueError(f"{path} holds no encoder of format {FORMAT}.")
        encoder = cls([ColumnSpec(**_tuples(spec)) for spec in content["specs"]], content["unseen"])
        encoder.with_fitted(FittedColumn(**_tuples(item)) for item in content["fitted"])
        weights = Path(path).parent / WEIGHTS
        encoder.weights = weights if weights.is_dir() else None
        return encoder


def _unit(spec: ColumnSpec, present: Float, missing: bool) -> FittedColumn:
    """Bounds from the column's spec; the training rows give only the mean, for missing numbers."""
    low = spec.minimum
    high = spec.maximum
    if low is None or high is None or not 0.0 < float(high) - float(low) < np.inf:
        raise ValueError(
            f"column {spec.name!r} is encoded as unit: it needs finite bounds, the minimum below "
            "the maximum."
        )
    low = float(low)
    high = float(high)
    scale = high - low
    # The sum of numbers may overflow; the sum of shares of their range does not.
    mean = low + scale * float(np.mean((present - low) / scale))
    return FittedColumn(spec.name, "unit", mean, scale, (), missing, low, spec.missing)


def _stored(item: ColumnSpec | FittedColumn) -> dict[str, Any]:
    """The fields of an encoding as JSON stores them: without `other` where it has none."""
    fields = asdict(item)
    if not item.other:
        del fields["other"]
    return fields


def _tuples(item: dict[str, Any]) -> dict[str, Any]:
    """The fields of a dataclass as JSON stores them, with tuples in place of lists."""
    fields = dict(item)
    for key, value in item.items():
        if isinstance(value, list):
            fields[key] = tuple(value)
    return fields


def _mean_and_deviation(name: str, numbers: Float) -> tuple[float, float]:
    """Mean and population standard deviation of a column; of a constant one its value, and 1."""
    with np.errstate(over="ignore", invalid="ignore"):
        deviation = float(numbers.std())
    if not np.isfinite(deviation):
        raise ValueError(f"column {name!r} has numbers too large to standardise: rescale it.")
    # The deviation of a constant column is rounding noise, which is no scale.
    if deviation <= 1e-12 * float(np.abs(numbers).max()):
        return float(numbers[0]), 1.0
    return float(numbers.mean()), deviation


def _binary(spec: ColumnSpec, categories: Sequence[str]) -> FittedColumn:
    """Encoding of a column of two categories, of which one is positive."""
    negatives = [value for value in categories if value != spec.positive]
    if spec.positive is None or len(negatives) > 1 or MISSING in categories:
        note = ""
        if MISSING in categories:
            note = ", missing ones included"
        raise ValueError(
            f"column {spec.name!r} is encoded as binary but has {len(categories)} values{note}: "
            "use the encoding onehot."
        )
    negative = negatives[0] if negatives else "other"
    return FittedColumn(
        spec.name, "binary", categories=(negative, spec.positive), missing=spec.missing
    )


def calendar_parts(days: Float) -> list[Float]:
    """Standardised month and weekday of dates.

    Parameters
    ----------
    days : ndarray of float64, shape (n,)
        Days since 1970-01-01, NaN where missing.

    Returns
    -------
    list of two ndarray of float64, shape (n,)
        Month and weekday, NaN where `days` is.
    """
    absent = np.isnan(days)
    whole = np.where(absent, 0.0, np.floor(days)).astype(np.int64)
    months = whole.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64) % 12 + 1.0
    # 1970-01-01 was a Thursday
    weekdays = (whole + 3) % 7.0
    scaled_months = (months - MONTH[0]) / MONTH[1]
    scaled_weekdays = (weekdays - WEEKDAY[0]) / WEEKDAY[1]
    return [np.where(absent, np.nan, scaled_months), np.where(absent, np.nan, scaled_weekdays)]


def _column(
    frame: pd.DataFrame, name: str, missing: tuple[str | int | float, ...] = ()
) -> pd.Series:
    """Column of a table that must have it exactly once; spellings of missing values become
    missing.
    """
    try:
        place = frame.columns.get_loc(name)
    except KeyError:
        raise ValueError(f"column {name!r} is missing from the table.") from None
    if not isinstance(place, int):
        raise ValueError(f"column {name!r} is given twice in the table.")
    series: pd.Series = frame[name]
    if not missing:
        return series
    spellings = series
    if series.dtype.kind not in "biufM":
        spellings = series.astype(str).str.strip()
    return series.mask(spellings.isin([*missing, *map(str, missing)]))


def _sentences(series: pd.Series) -> pd.Series:
    """Sentences as text, None for empty ones. ValueError: numbers."""
    if series.dtype.kind in "biufcmM":
        raise ValueError(f"column {series.name!r} holds numbers where sentences are expected.")
    text = series.astype(object)
    text = text.where(text.isna(), text.astype(str))
    return text.mask(text.isna() | (text.astype(str).str.strip() == ""), None)


def _numbers(series: pd.Series, kind: str) -> Float:
    """Values as float64 with NaN where missing; dates as days since 1970-01-01."""
    import pandas as pd

    # The messages of pandas quote the value, which may be sensitive, so they are replaced.
    if kind in DATE_KINDS:
        try:
            seconds = pd.to_datetime(series).to_numpy(dtype="datetime64[s]")
        except (ValueError, TypeError):
            raise ValueError(f"column {series.name!r} has values that are no date.") from None
        return np.where(np.isnat(seconds), np.nan, seconds.astype(np.int64) / 86400.0)
    try:
        numbers = pd.to_numeric(series).to_numpy(dtype=np.float64, na_value=np.nan)
    except (ValueError, TypeError):
        raise ValueError(f"column {series.name!r} has values that are no number.") from None
    if np.isinf(numbers).any():
        raise ValueError(f"column {series.name!r} has infinite values.")
    return numbers


def _codes(series: pd.Series, categories: tuple[str, ...], other: str = "") -> NDArray[np.int64]:
    """Position of every value's name among `categories`, for another name that of `other`, or -1
    without it; each value is named once.
    """
    import pandas as pd

    index = {category: position for position, category in enumerate(categories)}
    unlisted = -1
    if other:
        unlisted = index[other]
    index.setdefault(MISSING, -1)
    distinct: Any = ()
    if len(series) > FEW_ROWS:
        places, distinct = pd.factorize(series)
    # among mixed objects True equals 1, though their names differ
    is_mixed = series.dtype == object and any(type(value) is not str for value in distinct)
    if len(distinct) == 0 or is_mixed:
        return np.array([index.get(name, unlisted) for name in _texts(series)], dtype=np.int64)
    codes = [index.get(category_name(value), unlisted) for value in distinct]
    codes.append(index[MISSING])  # of the place -1
    return np.array(codes)[places]


def _texts(series: pd.Series) -> list[str]:
    """Category names: booleans in lower case as YAML writes them, missing ones as ``(missing)``."""
    names = []
    for value, is_missing in zip(series, series.isna().to_numpy(), strict=True):
        if is_missing:
            names.append(MISSING)
        else:
            names.append(category_name(value))
    return names


def category_counts(values: pa.ChunkedArray) -> tuple[dict[str, int], int]:
    """Count the rows of each category.

    Parameters
    ----------
    values : pyarrow.ChunkedArray, length n
        Values of a categorical column, not as a dictionary.

    Returns
    -------
    dict of str to int
        Rows by :func:`category_name`.
    int
        Rows with a missing value or NaN.
    """
    import pyarrow.compute as pc

    counts: Counter[str] = Counter()
    missing = 0
    for item in pc.value_counts(values.combine_chunks()):
        value = item["values"].as_py()
        count = item["counts"].as_py()
        if value is None or value != value:
            missing += count
        else:
            counts[category_name(value)] += count
    return dict(counts), missing


def category_name(value: Any) -> str:
    """Name of a category, the same for every column type: 3 and 3.0 are one category.

    Parameters
    ----------
    value : bool, int, float or str
        A value of a categorical column, not missing.

    Returns
    -------
    str
    """
    if isinstance(value, bool | np.bool_):
        return str(bool(value)).lower()
    if not isinstance(value, float | np.floating):
        return str(value)
    number = float(value)
    if number.is_integer():
        return str(int(value))
    return repr(number)
