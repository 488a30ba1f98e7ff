"""Encoding of a table: one-hot, standardised or mapped into [0, 1], fitted on training rows only."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

FORMAT = 1
MISSING = "(missing)"
NUMERIC_KINDS = ("standard", "unit", "date")
Float32 = NDArray[np.float32]


@dataclass(frozen=True)
class ColumnSpec:
    """
    Encoding of one column of a table.

    Parameters
    ----------
    name : str
    kind : {"standard", "unit", "onehot", "binary", "date"}
        ``standard``: (x - mean) / standard deviation; ``date``: the same of the days since 1970-01-01;
        ``unit``: (x - minimum) / (maximum - minimum); ``onehot``: one 0/1 column per category seen in
        training; ``binary``: one 0/1 column.
    positive : str or None
        For ``binary``: the value that becomes 1.
    minimum, maximum : float or None
        For ``unit``: the values that become 0 and 1.
    """

    name: str
    kind: Literal["standard", "unit", "onehot", "binary", "date"]
    positive: str | None = None
    minimum: float | None = None
    maximum: float | None = None


@dataclass(frozen=True)
class _Fitted:
    """Fitted encoding of one column: numbers and category names, never a row."""

    name: str
    kind: str
    mean: float = 0.0
    scale: float = 1.0
    categories: tuple[str, ...] = ()
    indicates_missing: bool = False
    minimum: float = 0.0

    @property
    def centre(self) -> float:
        """The number that becomes 0."""
        return self.minimum if self.kind == "unit" else self.mean

    @property
    def columns(self) -> list[str]:
        if self.kind == "onehot":
            return [f"{self.name}={category}" for category in self.categories]
        if self.kind == "binary":
            return [f"{self.name}={self.categories[1]}"]
        return [self.name, f"{self.name}={MISSING}"] if self.indicates_missing else [self.name]


class TableEncoder:
    r"""
    Encode a table as a float32 matrix.

    Numeric columns become :math:`(x - \mu) / \sigma` with the training rows' mean and (population) standard
    deviation; a constant column becomes 0. Columns of kind ``unit`` become :math:`(x - a) / (b - a)` with
    given bounds a and b, which do not depend on the split and on no extreme person; a value beyond the bounds
    leaves [0, 1]. A missing number becomes the training rows' mean and, where training rows had missing ones,
    sets a 0/1 column of its own; a missing category is the category ``(missing)``.

    Parameters
    ----------
    columns : sequence of ColumnSpec
        In the order of the matrix.
    unseen : {"error", "ignore"}
        Effect of a category unseen in training at ``transform``: an error, or zeros in the whole group.

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

    def __init__(self, columns: Sequence[ColumnSpec], unseen: Literal["error", "ignore"] = "error") -> None:
        self.columns = tuple(columns)
        self.unseen = unseen

    def fit(self, frame: pd.DataFrame) -> TableEncoder:
        """
        Learn means, deviations and categories from training rows; further columns are ignored.

        Raises
        ------
        ValueError
            A column is missing or given twice, a number is infinite, a text is no number or date, a unit
            column lacks finite bounds in rising order, a binary column has other than its two values, or two
            matrix columns have one name.
        """
        if len(frame) == 0:
            raise ValueError("the encoder needs at least one training row, got 0.")
        self.fitted_ = tuple(self._fit_column(spec, frame) for spec in self.columns)
        self._describe()
        return self

    def _fit_column(self, spec: ColumnSpec, frame: pd.DataFrame) -> _Fitted:
        series = _column(frame, spec.name)
        if spec.kind in NUMERIC_KINDS:
            numbers = _numbers(series, spec.kind)
            present = numbers[~np.isnan(numbers)]
            if present.size == 0:
                raise ValueError(f"column {spec.name!r} has no value in the training rows: leave it out.")
            if spec.kind == "unit":
                return _unit(spec, present, missing=present.size < numbers.size)
            with np.errstate(over="ignore", invalid="ignore"):
                deviation = float(present.std())
            if not np.isfinite(deviation):
                raise ValueError(f"column {spec.name!r} has numbers too large to standardise: rescale it.")
            missing = present.size < numbers.size
            # The deviation of a constant column is rounding noise, which is no scale.
            if deviation <= 1e-12 * float(np.abs(present).max()):
                return _Fitted(spec.name, spec.kind, float(present[0]), 1.0, (), missing)
            return _Fitted(spec.name, spec.kind, float(present.mean()), deviation, (), missing)
        values = _texts(series)
        seen = sorted(set(values))
        if spec.kind == "onehot":
            return _Fitted(spec.name, "onehot", categories=tuple(seen))
        others = [value for value in seen if value != spec.positive]
        if spec.positive is None or len(others) > 1 or MISSING in seen:
            raise ValueError(
                f"column {spec.name!r} is encoded as binary but has {len(seen)} values"
                f"{', missing ones included' if MISSING in seen else ''}: use the encoding onehot."
            )
        return _Fitted(spec.name, "binary", categories=(others[0] if others else "other", spec.positive))

    def _describe(self) -> None:
        """Derive names, groups and kinds from the fitted columns."""
        self.feature_names_: list[str] = []
        self.groups_: dict[str, list[int]] = {}
        self.kinds_: dict[str, str] = {}
        for item in self.fitted_:
            start = len(self.feature_names_)
            self.feature_names_ += item.columns
            self.groups_[item.name] = list(range(start, len(self.feature_names_)))
            for name in item.columns:
                shown = "standard" if item.kind == "date" else item.kind
                indicator = item.kind in NUMERIC_KINDS and name != item.name
                if name in self.kinds_:
                    raise ValueError(f"two matrix columns would be named {name!r}: rename a table column.")
                self.kinds_[name] = "onehot" if indicator else shown

    @property
    def categories_(self) -> dict[str, tuple[str, ...]]:
        """Categories seen in training, for every categorical column."""
        return {item.name: item.categories for item in self.fitted_ if item.categories}

    def transform(self, frame: pd.DataFrame) -> Float32:
        """
        Encode rows as a matrix of shape (n, d); columns that ``fit`` did not have are ignored.

        Raises
        ------
        ValueError
            A column is missing; a category unseen in training with ``unseen="error"``, naming the column.
        """
        parts = [self._transform_column(item, frame) for item in self.fitted_]
        return np.concatenate(parts, axis=1, dtype=np.float32)

    def _transform_column(self, item: _Fitted, frame: pd.DataFrame) -> NDArray[Any]:
        series = _column(frame, item.name)
        if item.kind in NUMERIC_KINDS:
            numbers = _numbers(series, item.kind)
            absent = np.isnan(numbers)
            scaled = (np.where(absent, item.mean, numbers) - item.centre) / item.scale
            return np.stack([scaled, absent], axis=1) if item.indicates_missing else scaled[:, None]
        values = _texts(series)
        index = {category: position for position, category in enumerate(item.categories)}
        codes = np.array([index.get(value, -1) for value in values], dtype=np.int64)
        if self.unseen == "error" and (codes < 0).any():
            raise ValueError(
                f"column {item.name!r} has {int((codes < 0).sum())} rows with a category unseen in training; "
                "set unseenCategories: ignore in the contract to encode those as zeros."
            )
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
        encoder = cls([ColumnSpec(**spec) for spec in content["specs"]], content["unseen"])
        encoder.fitted_ = tuple(
            _Fitted(**{**item, "categories": tuple(item["categories"])}) for item in content["fitted"]
        )
        encoder._describe()
        return encoder


def _unit(spec: ColumnSpec, present: NDArray[np.float64], missing: bool) -> _Fitted:
    """Bounds from the column's spec; the training rows give only the mean, for missing numbers."""
    low, high = spec.minimum, spec.maximum
    if low is None or high is None or not 0.0 < float(high) - float(low) < np.inf:
        raise ValueError(
            f"column {spec.name!r} is encoded as unit: it needs finite bounds, the minimum below the maximum."
        )
    low, high = float(low), float(high)
    scale = high - low
    # The sum of numbers may overflow; the sum of shares of their range does not.
    mean = low + scale * float(np.mean((present - low) / scale))
    return _Fitted(spec.name, "unit", mean, scale, (), missing, low)


def _column(frame: pd.DataFrame, name: str) -> pd.Series:
    """Column of a table that must have it exactly once."""
    found = int((frame.columns == name).sum())
    if found != 1:
        raise ValueError(f"column {name!r} is {'given twice in' if found else 'missing from'} the table.")
    return frame[name]


def _numbers(series: pd.Series, kind: str) -> NDArray[np.float64]:
    """Values as float64 with NaN where missing; dates as days since 1970-01-01."""
    import pandas as pd

    # The messages of pandas quote the value, which may be sensitive, so they are replaced.
    if kind == "date":
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


def _texts(series: pd.Series) -> list[str]:
    """Category names: booleans in lower case as YAML writes them, missing ones as ``(missing)``."""
    absent = series.isna().to_numpy()
    return [MISSING if gone else category_name(value) for value, gone in zip(series, absent, strict=True)]


def category_name(value: Any) -> str:
    """Name of a category, the same for every column type: 3 and 3.0 are one category."""
    if isinstance(value, bool | np.bool_):
        return str(bool(value)).lower()
    if isinstance(value, float | np.floating):
        return str(int(value)) if float(value).is_integer() else repr(float(value))
    return str(value)
