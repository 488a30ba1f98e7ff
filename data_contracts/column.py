"""One column of a table: its type, its values and its role."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any

from evenhand.data_contracts.errors import ContractError, did_you_mean

Value = bool | int | float | str | dt.date

ROLES = ("label", "sensitive", "feature", "id", "ignore")
_ENCODINGS_OF = {
    "string": ("onehot", "binary", "ordinal", "text"),
    "integer": ("standard", "unit", "onehot", "binary", "ordinal"),
    "number": ("standard", "unit", "binary"),
    "boolean": ("onehot", "binary"),
    "date": ("standard", "calendar"),
}
LOGICAL_TYPES = tuple(_ENCODINGS_OF)
ENCODINGS = ("onehot", "binary", "ordinal", "standard", "unit", "calendar", "text")


@dataclass(frozen=True)
class Column:
    """One column of a table.
    ContractError if a value is unknown or has the wrong type, or two attributes contradict each
    other.
    """

    name: str  # as in the table
    logical_type: str  # type of the values, one of `LOGICAL_TYPES`
    # whether a missing value is a violation; for a sensitive column ``missing_sensitive`` decides
    # instead
    required: bool = False
    description: str = ""  # one sentence for people
    unit: str | None = None  # of a number, such as years, for display only
    # inclusive bounds; None leaves a side open
    minimum: int | float | dt.date | None = None
    maximum: int | float | dt.date | None = None
    # the values that the column may hold, for the encoding ``ordinal`` in their order; None allows
    # all
    allowed: tuple[Value, ...] | None = None
    role: str = "feature"  # use of the column, one of `ROLES`
    is_feature: bool = (
        False  # True for features, and for sensitive columns that are model inputs too
    )
    # the label's value that becomes 1, None for a label of more than two values; for a binary
    # encoding the value that becomes 1
    positive: Value | None = None
    # of a label of two values: the value that is the favourable outcome for a person, or, where its
    # other value has no name, ``{"positive": "adverse"}``; None if the contract does not say
    favourable: Value | Mapping[str, str] | None = None
    # how a model input becomes numbers: onehot, a 0/1 column per category; binary, one 0/1 column;
    # ordinal, the standardised position in ``allowed``; standard, (x - mean) / standard deviation;
    # unit, (x - minimum) / (maximum - minimum); calendar, a date's age, month and weekday; text,
    # the vector of a sentence. None for columns that are no input.
    encoding: str | None = None
    bins: tuple[float, ...] | None = (
        None  # cut points of a numeric sensitive column, for group metrics only
    )
    # texts and numbers that stand for a missing value, such as ``?`` and 999; they are read as
    # missing
    missing: tuple[str | int | float, ...] | None = None
    # names of coded values, for display only; kept as pairs of `value_text` and name
    value_names: Mapping[Any, str] | tuple[tuple[str, str], ...] | None = None

    def __post_init__(self) -> None:
        """Check every attribute and convert values to the column's type."""
        where = f"column '{self.name}'"
        if not isinstance(self.name, str) or not self.name.strip():
            raise ContractError("a column has an empty name: give every column a name")
        one_of(where, "logicalType", self.logical_type, LOGICAL_TYPES)
        one_of(where, "role", self.role, ROLES)
        if self.is_feature != (self.role == "feature") and self.role != "sensitive":
            raise self._fault(
                f"use: feature is for sensitive columns only, not for role {self.role}"
            )
        self._check_values(where)
        self._check_favourable(where)
        self._check_encoding(where)
        self._check_bins(where)
        self._check_names(where)

    def _fault(self, text: str) -> ContractError:
        return ContractError(f"column '{self.name}': {text}")

    @property
    def is_numeric(self) -> bool:
        """True for integers and numbers."""
        return self.logical_type in ("integer", "number")

    @property
    def default_encoding(self) -> str:
        """Encoding of a model input whose contract names none."""
        return "standard" if self.is_numeric or self.logical_type == "date" else "onehot"

    @property
    def shows_values(self) -> bool:
        """True if messages may quote its values: never for sensitive columns, ids and sentences."""
        return self.role not in ("sensitive", "id") and not self.is_text

    @property
    def classes(self) -> tuple[Value, ...]:
        """Values of a label of more than two values, which become 0, 1 and so on; else empty."""
        return (self.allowed or ()) if self.role == "label" and self.positive is None else ()

    @property
    def states_favourable(self) -> bool:
        """True for a label that says which outcome is favourable."""
        return self.favourable is not None

    @property
    def favourable_code(self) -> int:
        """Label, 1 (positive) or 0, that is the favourable outcome; 1 where the contract does not
        say.
        """
        if isinstance(self.favourable, Mapping):
            return 0 if self.favourable["positive"] == "adverse" else 1
        return 1 if self.favourable in (None, self.positive) else 0

    @property
    def favourable_value(self) -> Value | None:
        """Value of the label that counts as favourable; None where it has no name."""
        if self.favourable_code == 1:
            return self.positive
        return self.favourable if not isinstance(self.favourable, Mapping) else None

    @property
    def is_text(self) -> bool:
        """True for a model input of sentences."""
        return self.encoding == "text"

    def _check_values(self, where: str) -> None:
        for key in ("minimum", "maximum"):
            value = getattr(self, key)
            if value is None:
                continue
            if self.logical_type in ("string", "boolean"):
                raise self._fault(f"{key} means nothing for a {self.logical_type}: remove it")
            object.__setattr__(self, key, _typed(where, key, value, self.logical_type))
        if self.minimum is not None and self.maximum is not None and self.minimum > self.maximum:  # type: ignore[operator]
            raise self._fault("minimum is above maximum: swap them")
        if self.allowed is not None:
            allowed = tuple(
                _typed(where, "validValues", value, self.logical_type) for value in self.allowed
            )
            if not allowed:
                raise self._fault("validValues is empty: list the values or remove the rule")
            if len(set(allowed)) < len(allowed):
                raise self._fault("validValues names a value twice: keep one of them")
            object.__setattr__(self, "allowed", allowed)
        if self.missing is not None:
            if not self.missing or not all(
                isinstance(value, str | int | float) and not isinstance(value, bool)
                for value in self.missing
            ):
                raise self._fault("missing must list texts or numbers, such as ['?', 999]")
            object.__setattr__(self, "missing", tuple(self.missing))
        if self.positive is not None:
            positive = _typed(where, "positive", self.positive, self.logical_type)
            if self.allowed is not None and positive not in self.allowed:
                raise self._fault("positive is not among validValues: use one of them")
            object.__setattr__(self, "positive", positive)

    def _check_favourable(self, where: str) -> None:
        """Check the favourable outcome; ``{"positive": ...}`` becomes a value where that has a
        name.
        """
        if self.favourable is None:
            return
        if self.role != "label" or self.positive is None:
            raise self._fault(
                "favourable is for a label of two values, of which one is positive: remove it"
            )
        if isinstance(self.favourable, Mapping):
            if dict(self.favourable) not in ({"positive": "adverse"}, {"positive": "favourable"}):
                raise self._fault(
                    "favourable is one of the label's values, or {positive: adverse} or "
                    "{positive: favourable}"
                )
            others = [value for value in self.allowed or () if value != self.positive]
            if self.favourable["positive"] == "favourable":
                object.__setattr__(self, "favourable", self.positive)
            elif len(others) == 1:
                object.__setattr__(self, "favourable", others[0])
            return
        value = _typed(where, "favourable", self.favourable, self.logical_type)
        if self.allowed is not None and value not in self.allowed:
            raise self._fault("favourable is not among validValues: use one of them")
        object.__setattr__(self, "favourable", value)

    def _check_encoding(self, where: str) -> None:
        # a column that is ignored for a while may keep what it has as a model input
        if self.encoding is not None and not self.is_feature and self.role != "ignore":
            raise self._fault(f"encoding is for model inputs; role {self.role} is none: remove it")
        encoding = (self.encoding or self.default_encoding) if self.is_feature else None
        if encoding is not None:
            one_of(where, "encoding", encoding, ENCODINGS)
            if encoding not in _ENCODINGS_OF[self.logical_type]:
                fitting = " or ".join(_ENCODINGS_OF[self.logical_type])
                raise self._fault(
                    f"encoding {encoding} does not fit a {self.logical_type}: use {fitting}"
                )
        if encoding == "binary":
            if self.logical_type == "boolean" and self.positive is None:
                object.__setattr__(self, "positive", True)
            if self.positive is None:
                raise self._fault("encoding: binary needs positive, the value that becomes 1")
            if self.logical_type != "boolean" and (self.allowed is None or len(self.allowed) != 2):
                raise self._fault("encoding: binary needs validValues with exactly two values")
        elif self.positive is not None and self.role != "label":
            raise self._fault("positive is for the label and for encoding: binary: remove it")
        if encoding == "ordinal" and len(self.allowed or ()) < 2:
            raise self._fault(
                "encoding: ordinal needs validValues with at least two values, in their order"
            )
        if encoding == "unit":
            low = self.minimum
            high = self.maximum
            if low is None or high is None or not 0 < float(high) - float(low) < math.inf:  # type: ignore[arg-type]
                raise self._fault(
                    "encoding: unit needs logicalTypeOptions with a minimum below its maximum, the "
                    "values that become 0 and 1"
                )
        object.__setattr__(self, "encoding", encoding)

    def _check_bins(self, where: str) -> None:
        sensitive = self.role == "sensitive"
        if self.bins is None:
            if sensitive and self.is_numeric and self.allowed is None:
                raise self._fault(
                    "a numeric sensitive column needs bins (cut points, such as [25]) to form "
                    "the groups that are compared, or validValues where its few values are the "
                    "groups"
                )
            if sensitive and self.logical_type == "date":
                raise self._fault(
                    "a date cannot be sensitive: use a numeric column (age, year) with bins"
                )
            return
        if not sensitive or not self.is_numeric:
            raise self._fault("bins is for numeric sensitive columns only: remove it")
        bins = tuple(finite(where, "bins", cut) for cut in self.bins)
        if not bins or any(a >= b for a, b in pairwise(bins)):
            raise self._fault("bins must hold at least one cut point, in rising order")
        if self.logical_type == "integer" and any(cut != int(cut) for cut in bins):
            raise self._fault("bins of an integer column must be whole numbers")
        object.__setattr__(self, "bins", bins)

    def _check_names(self, where: str) -> None:
        if self.unit is not None and not (
            self.is_numeric and isinstance(self.unit, str) and self.unit.strip()
        ):
            raise self._fault(
                "unit is a text, such as years, and for numbers only: quote it or remove it"
            )
        if self.value_names is None:
            return
        if self.bins is not None or self.logical_type == "date":
            raise self._fault("valueNames is for coded values, not for dates or bins: remove it")
        named: dict[str, str] = {}
        pairs = (
            self.value_names.items() if isinstance(self.value_names, Mapping) else self.value_names
        )
        for value, name in pairs:
            code = value_text(self._coded(where, value))
            if not isinstance(name, str) or not name.strip():
                raise self._fault(f"valueNames gives {code} a name that is no text: quote it")
            if code in named:
                raise self._fault(f"valueNames names the value {code} twice: keep one of them")
            if name in named.values():
                raise self._fault(f"valueNames gives two values the name {name!r}: change one")
            named[code] = name
        if not named:
            raise self._fault("valueNames is empty: name a value or remove it")
        object.__setattr__(self, "value_names", tuple(named.items()))

    def _coded(self, where: str, value: Any) -> Value:
        """Return the value of the column that a key of `value_names` means: '1', 1 and 1.0
        are one.
        """
        text = str(value).strip()
        found = value
        try:
            if self.is_numeric:
                found = float(text)
            elif self.logical_type == "boolean":
                found = {"true": True, "false": False, "1": True, "0": False}[text.lower()]
            elif not isinstance(value, str):
                found = value_text(value)
            if self.logical_type == "integer" and found == int(found):
                found = int(text) if text.lstrip("+-").isdigit() else int(found)
            typed: Value = _typed(where, "valueNames", found, self.logical_type)
        except (KeyError, ValueError, OverflowError):
            kind = f"not of type {self.logical_type}"
            raise self._fault(f"valueNames has the key {text!r}, which is {kind}") from None
        low = self.minimum
        high = self.maximum
        outside = (low is not None and typed < low) or (high is not None and typed > high)  # type: ignore[operator]
        if outside or (self.allowed is not None and typed not in self.allowed):
            raise self._fault(f"valueNames has the key {text!r}, a value that is not allowed")
        return typed

    def no_input(self, role: str, **changes: Any) -> Column:
        """Return a copy of the given role that is no model input."""
        return replace(
            self,
            role=role,
            is_feature=False,
            encoding=None,
            positive=None,
            favourable=None,
            **changes,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the column as plain JSON types; dates as ISO text."""
        plain = {field.name: _plain(getattr(self, field.name)) for field in fields(self)}
        # a contract without such values keeps the digest that it had before they could be declared
        late = [
            key for key in ("missing", "value_names", "unit", "favourable") if plain[key] is None
        ]
        return {key: value for key, value in plain.items() if key not in late}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Column:
        """Create a column from :meth:`to_dict`."""
        only_known("column", data, [field.name for field in fields(cls)])
        values: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in data.items()
        }
        return cls(**values)


def one_of(where: str, key: str, value: Any, known: tuple[str, ...]) -> None:
    """Raise ContractError unless ``value`` is one of ``known``."""
    if value not in known:
        raise ContractError(f"{where}: {key} is {value!r}, expected one of {', '.join(known)}")


def only_known(where: str, data: Mapping[str, Any], known: list[str]) -> None:
    """Raise ContractError if ``data`` has a key that is not in ``known``."""
    for key in data:
        if key not in known:
            raise ContractError(f"{where}: unknown key '{key}'{did_you_mean(key, known)}")


def finite(where: str, key: str, value: Any) -> float:
    """Return a finite number as a float; raise ContractError for any other value."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ContractError(f"{where}: {key} must hold finite numbers")
    return float(value)


def value_text(value: Value) -> str:
    """Return a value as groups and categories are named: true, 1 for 1.0, every digit of 0.25."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return repr(value) if isinstance(value, float) else str(value)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value.isoformat() if isinstance(value, dt.date) else value


def _typed(where: str, key: str, value: Any, logical_type: str) -> Any:
    """Return ``value`` as the column's type; raise ContractError with the way to write it."""
    if logical_type == "number":
        return finite(where, key, value)
    if logical_type == "date":
        try:
            value = dt.date.fromisoformat(value) if isinstance(value, str) else value
        except ValueError:
            value = None
        if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
            return value
        raise ContractError(f"{where}: {key} must hold dates, such as 2024-01-31")
    expected = {"string": str, "integer": int, "boolean": bool}[logical_type]
    if isinstance(value, expected) and isinstance(value, bool) == (expected is bool):
        return value
    if logical_type == "string":
        yaml_reads = "true/false (YAML reads an unquoted yes, no, on or off so)"
        kind = yaml_reads if isinstance(value, bool) else "no text"
        raise ContractError(f"{where}: {key} holds a value that is {kind}: put it in quotes")
    raise ContractError(f"{where}: {key} must hold {logical_type} values")
