"""Encoding of a table: one-hot, standardised, ranked or mapped into [0, 1], fitted on training rows
only.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from evenhand.fairlib.arrays import Float, Float32
from evenhand.fairlib.execution import Progress
from evenhand.fairlib.preprocessing.sentences import (
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

FORMAT = 1
MISSING = "(missing)"
DATE_KINDS = ("date", "calendar")
NUMERIC_KINDS = ("standard", "unit", *DATE_KINDS)
# Kinds of columns that are encoded as numbers; of ``ordinal`` the positions.
RANKED_KINDS = (*NUMERIC_KINDS, "ordinal")
TRUTH = dict.fromkeys(("true", "yes", "1", "1.0", "y", "t", "on"), True) | dict.fromkeys(
    ("false", "no", "0", "0.0", "n", "f", "off"), False
)
"""Spellings of booleans in raw tables, in lower case."""
# mean and standard deviation of 1 to 12, and of 0 to 6: they do not depend on the training rows
MONTH = (6.5, float(np.sqrt(143 / 12)))
WEEKDAY = (3.0, 2.0)
# Of fewer rows every value is named on its own, which then is faster.
FEW_ROWS = 20


@dataclass(frozen=True)
class ColumnSpec:
    """Encoding of one column of a table."""

    name: str
    # ``standard``: (x - mean) / standard deviation; ``date``: the same of the days since
    # 1970-01-01; ``unit``: (x - minimum) / (maximum - minimum); ``onehot``: one 0/1 column per
    # category seen in training; ``binary``: one 0/1 column; ``ordinal``: the same as ``standard``
    # of the position in `order`; ``calendar``: of a date the age in days, the month and the
    # weekday, each standardised; ``text``: the vector of a sentence
    kind: Literal["standard", "unit", "onehot", "binary", "date", "ordinal", "calendar", "text"]
    positive: str | None = None  # for ``binary``: the value that becomes 1
    # for ``unit``: the values that become 0 and 1
    minimum: float | None = None
    maximum: float | None = None
    order: tuple[str, ...] = ()  # for ``ordinal``: the names of all categories, in their order
    missing: tuple[str | int | float, ...] = ()  # values that stand for a missing one
    encoder: str = (
        TFIDF  # for ``text``: tfidf, minilm or the folder of a sentence-transformers model
    )
    size: int = 100  # for the encoder tfidf: most numbers of a vector


@dataclass(frozen=True)
class FittedColumn:
    """Fitted encoding of one column: numbers and category names, never a row."""

    name: str
    kind: str
    mean: float = 0.0
    scale: float = 1.0
    categories: tuple[str, ...] = ()
    indicates_missing: bool = False
    minimum: float = 0.0
    missing: tuple[str | int | float, ...] = ()
    # for ``text``: ``encoder`` (see :mod:`.sentences`), the ``mean`` vector as base64 text, and the
    # ``size``
    text: dict[str, Any] | None = None

    @property
    def centre(self) -> float:
        """The number that becomes 0."""
        return self.minimum if self.kind == "unit" else self.mean

    @property
    def columns(self) -> list[str]:
        """Names of its matrix columns."""
        if self.kind == "onehot":
            return [f"{self.name}={category}" for category in self.categories]
        if self.kind == "binary":
            return [f"{self.name}={self.categories[1]}"]
        names = (
            [self.name]
            if self.text is None
            else [f"{self.name}[{i}]" for i in range(self.text["size"])]
        )
        if self.kind == "calendar":
            names += [f"{self.name}={part}" for part in ("month", "weekday")]
        return [*names, f"{self.name}={MISSING}"] if self.indicates_missing else names


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

    def fit(self, frame: pd.DataFrame | Callable[[str], pd.DataFrame]) -> TableEncoder:
        """Learn means, deviations and categories from training rows; further columns are ignored.

        `frame` is a table, or a function that gives the table of one column, so that a single one
        of them is in memory; of a column of kind ``onehot`` or ``binary`` the distinct values are
        enough. ValueError: a column is missing or given twice, a number is infinite, a text is no
        number or date, a unit column lacks finite bounds in rising order, a binary column has other
        than its two values, or two matrix columns have one name.
        """
        tables = (frame(spec.name) if callable(frame) else frame for spec in self.columns)
        if not callable(frame) and len(frame) == 0:
            raise ValueError("the encoder needs at least one training row, got 0.")
        return self.with_fitted(map(self.fit_column, self.columns, tables))

    def with_fitted(self, columns: Iterable[FittedColumn]) -> TableEncoder:
        """Take the encodings of all columns, in their order, as :meth:`fit` does."""
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
                indicator = item.kind != "binary" and name == f"{item.name}={MISSING}"
                shown = item.kind if item.kind in ("unit", "onehot", "binary") else "standard"
                self.kinds_[name] = "onehot" if indicator else shown
        return self

    def fit_column(self, spec: ColumnSpec, frame: pd.DataFrame) -> FittedColumn:
        """Fit the encoding of one column, see :meth:`fit`."""
        series = _column(frame, spec.name, spec.missing)
        if spec.kind == "text":
            return self._fit_text(spec, series)
        if spec.kind in RANKED_KINDS:
            numbers = self._numbers(series, spec.kind, spec.order)
            present = numbers[~np.isnan(numbers)]
            if present.size == 0:
                raise ValueError(
                    f"column {spec.name!r} has no value in the training rows: leave it out."
                )
            missing = present.size < numbers.size
            if spec.kind == "unit":
                return _unit(spec, present, missing)
            with np.errstate(over="ignore", invalid="ignore"):
                deviation = float(present.std())
            if not np.isfinite(deviation):
                raise ValueError(
                    f"column {spec.name!r} has numbers too large to standardise: rescale it."
                )
            # The deviation of a constant column is rounding noise, which is no scale.
            constant = deviation <= 1e-12 * float(np.abs(present).max())
            mean, scale = (
                (float(present[0]), 1.0) if constant else (float(present.mean()), deviation)
            )
            if spec.kind == "calendar":
                scale = -scale  # an earlier date is a greater age
            return FittedColumn(
                spec.name, spec.kind, mean, scale, spec.order, missing, missing=spec.missing
            )
        # among mixed objects True equals 1, though their names differ
        distinct = series if series.dtype == object else series.drop_duplicates()
        seen = sorted(set(_texts(distinct)))
        if spec.kind == "onehot":
            return FittedColumn(spec.name, "onehot", categories=tuple(seen), missing=spec.missing)
        others = [value for value in seen if value != spec.positive]
        if spec.positive is None or len(others) > 1 or MISSING in seen:
            raise ValueError(
                f"column {spec.name!r} is encoded as binary but has {len(seen)} values"
                f"{', missing ones included' if MISSING in seen else ''}: use the encoding onehot."
            )
        categories = (others[0] if others else "other", spec.positive)
        return FittedColumn(spec.name, "binary", categories=categories, missing=spec.missing)

    def _fit_text(self, spec: ColumnSpec, series: pd.Series) -> FittedColumn:
        present = _sentences(series)
        sentences = present.dropna().tolist()
        if not sentences:
            raise ValueError(
                f"column {spec.name!r} has no sentence in the training rows: leave it out."
            )
        if spec.encoder == TFIDF:
            encoder: TfidfEncoder | TransformerEncoder = TfidfEncoder.fit(sentences, spec.size)
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
        """Vectors of sentences of the column `name`, none missing, as in the matrix; shape (n,
        size). ValueError: no column of sentences, or another encoder than that of the training.
        """
        item = next(
            (item for item in self.fitted_ if item.name == name and item.text is not None), None
        )
        if item is None or item.text is None:
            raise ValueError(f"the column {name!r} holds no sentences.")
        if name not in self._sentence_encoders:
            self._sentence_encoders[name] = load_encoder(
                item.text["encoder"], self.cache, self.weights
            )
        vectors = self._sentence_encoders[name].encode(sentences, self.callback)
        return (vectors - from_text(item.text["mean"])) / np.float32(item.scale)

    def longest(self, name: str) -> int | None:
        """Number of tokens that the encoder of the column `name` reads, at least one a word; None:
        all.
        """
        return getattr(self._sentence_encoders[name], "longest", None)

    def _transform_text(self, item: FittedColumn, series: pd.Series) -> Float32:
        texts = _sentences(series)
        absent = texts.isna().to_numpy()
        found = np.zeros((len(texts), len(item.columns)), dtype=np.float32)
        if not absent.all():
            size = found.shape[1] - item.indicates_missing
            found[~absent, :size] = self.encode_sentences(item.name, texts[~absent].tolist())
        if item.indicates_missing:
            found[:, -1] = absent
        return found

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
            raise ValueError(
                f"column {name!r} has {rows} rows with a category unseen in training; "
                "set unseenCategories: ignore in the contract to encode those as zeros."
            )

    @property
    def categories_(self) -> dict[str, tuple[str, ...]]:
        """Categories seen in training, for every categorical column; of an ordered one all, in
        order.
        """
        return {item.name: item.categories for item in self.fitted_ if item.categories}

    def accepted(self, name: str) -> tuple[str, ...]:
        """Category names that :meth:`transform` never refuses; an ordered column may also be
        missing.
        """
        ordered = any(item.name == name and item.kind == "ordinal" for item in self.fitted_)
        return (*self.categories_[name], MISSING) if ordered else self.categories_[name]

    def transform(self, frame: pd.DataFrame, order: Literal["C", "F"] = "C") -> Float32:
        """Encode rows as a matrix of shape (n, d); columns that ``fit`` did not have are ignored.

        `order` is that of the matrix in memory: "F" keeps each of its columns together. ValueError:
        a column is missing; a category unseen in training with ``unseen="error"``, naming the
        column.
        """
        matrix = np.empty((len(frame), len(self.feature_names_)), dtype=np.float32, order=order)
        for item in self.fitted_:
            matrix[:, self.groups_[item.name]] = self._transform_column(item, frame)
        return matrix

    def _transform_column(self, item: FittedColumn, frame: pd.DataFrame) -> NDArray[Any]:
        series = _column(frame, item.name, item.missing)
        if item.kind == "text":
            return self._transform_text(item, series)
        if item.kind in RANKED_KINDS:
            numbers = self._numbers(series, item.kind, item.categories)
            absent = np.isnan(numbers)
            parts = [(np.where(absent, item.mean, numbers) - item.centre) / item.scale]
            if item.kind == "calendar":
                parts += [np.where(absent, 0.0, part) for part in calendar_parts(numbers)]
            return np.stack([*parts, absent] if item.indicates_missing else parts, axis=1)
        codes = _codes(series, item.categories)
        self._refuse_unseen(item.name, int((codes < 0).sum()))
        if item.kind == "binary":
            return (codes == 1)[:, None]
        return codes[:, None] == np.arange(len(item.categories))[None, :]

    def save(self, path: str | Path) -> None:
        """Write the fitted encoder as JSON."""
        content = {
            "format": FORMAT,
            "unseen": self.unseen,
            "specs": [asdict(spec) for spec in self.columns],
            "fitted": [asdict(item) for item in self.fitted_],
        }
        Path(path).write_text(json.dumps(content, indent=1, sort_keys=True))

    @classmethod
    def load(cls, path: str | Path) -> TableEncoder:
        """Read an encoder written by :meth:`save`; it encodes as the saved one did."""
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


def _tuples(item: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in item.items()}


def calendar_parts(days: Float) -> list[Float]:
    """Standardised month and weekday of days since 1970-01-01, NaN where these are; each of shape
    (n,).
    """
    whole = np.where(np.isnan(days), 0.0, np.floor(days)).astype(np.int64)
    months = whole.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64) % 12 + 1.0
    # 1970-01-01 was a Thursday
    weekdays = (whole + 3) % 7.0
    scaled = [
        (part - mean) / scale for part, (mean, scale) in ((months, MONTH), (weekdays, WEEKDAY))
    ]
    return [np.where(np.isnan(days), np.nan, part) for part in scaled]


def _column(
    frame: pd.DataFrame, name: str, missing: tuple[str | int | float, ...] = ()
) -> pd.Series:
    """Column of a table that must have it exactly once; spellings of missing values become
    missing.
    """
    try:
        twice = not isinstance(frame.columns.get_loc(name), int)
    except KeyError:
        raise ValueError(f"column {name!r} is missing from the table.") from None
    if twice:
        raise ValueError(f"column {name!r} is given twice in the table.")
    series: pd.Series = frame[name]
    if not missing:
        return series
    spelled = series.astype(str).str.strip() if series.dtype.kind not in "biufM" else series
    return series.mask(spelled.isin([*missing, *map(str, missing)]))


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


def _codes(series: pd.Series, categories: tuple[str, ...]) -> NDArray[np.int64]:
    """Position of every value's name among `categories`, -1 for another name; each value is named
    once.
    """
    import pandas as pd

    index = {category: position for position, category in enumerate(categories)}
    distinct: Any = ()
    if len(series) > FEW_ROWS:
        places, distinct = pd.factorize(series)
    # among mixed objects True equals 1, though their names differ
    if len(distinct) == 0 or (
        series.dtype == object and any(type(value) is not str for value in distinct)
    ):
        return np.array([index.get(name, -1) for name in _texts(series)], dtype=np.int64)
    named = [index.get(category_name(value), -1) for value in distinct]
    return np.array([*named, index.get(MISSING, -1)])[places]


def _texts(series: pd.Series) -> list[str]:
    """Category names: booleans in lower case as YAML writes them, missing ones as ``(missing)``."""
    absent = series.isna().to_numpy()
    return [
        MISSING if gone else category_name(value)
        for value, gone in zip(series, absent, strict=True)
    ]


def category_name(value: Any) -> str:
    """Name of a category, the same for every column type: 3 and 3.0 are one category."""
    if isinstance(value, bool | np.bool_):
        return str(bool(value)).lower()
    if isinstance(value, float | np.floating):
        return str(int(value)) if float(value).is_integer() else repr(float(value))
    return str(value)
