"""One column of a table: its type, its values and its role."""

from __future__ import annotations

import datetime as dt
import math
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any

from evenhand.data_contracts.errors import ContractError, did_you_mean

Value = bool | int | float | str | dt.date

ROLES = ("label", "sensitive", "feature", "id", "ignore")
# Roles that other tools have, and no job of ours.
WEIGHT_ROLES = ("weight", "sample_weight", "sampling_weight")
_ENCODINGS_OF = {
    "string": ("onehot", "binary", "ordinal", "text"),
    "integer": ("standard", "unit", "onehot", "binary", "ordinal"),
    "number": ("standard", "unit", "binary"),
    "boolean": ("onehot", "binary"),
    "date": ("standard", "calendar"),
}
LOGICAL_TYPES = tuple(_ENCODINGS_OF)
# The two sides of a label's threshold, as `favourable` names them.
SIDES = ("at-least", "below")
# Attributes that a contract leaves out where they have no value.
_LATER_ATTRIBUTES = (
    "missing",
    "other",
    "value_names",
    "unit",
    "favourable",
    "at_least",
    "legitimate",
    "changeable",
    "adverse_reason",
)
# Whether a person can change a value: not at all, only upwards or downwards, or freely.
CHANGES = ("fixed", "up", "down", "free")
# Language of a reason that names none.
LANGUAGE = "en"
ENCODINGS = ("onehot", "binary", "ordinal", "standard", "unit", "calendar", "text")


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Parameters
    ----------
    name : str
        As in the table.
    logical_type : str
        Type of the values, one of `LOGICAL_TYPES`.
    required : bool, default False
        Whether a missing value is a violation. For a sensitive column ``missing_sensitive`` of the
        contract decides instead.
    description : str, default ""
        One sentence for people.
    unit : str or None, default None
        Unit of a number, such as years, for display only.
    minimum, maximum : int, float, date or None, default None
        Inclusive bounds; None leaves a side open.
    allowed : tuple or None, default None
        The values that the column may hold, for the encoding ``ordinal`` in their order; None
        allows all.
    role : str, default "feature"
        Use of the column, one of `ROLES`.
    is_feature : bool, default False
        Whether the column is a model input: True for features, and for sensitive columns that are
        model inputs too.
    positive : bool, int, float, str, date or None, default None
        The label's value that becomes 1, None for a label of more than two values; for a binary
        encoding the value that becomes 1.
    favourable : value, mapping or None, default None
        Of a label of two values: the value that is the favourable outcome for a person, or, where
        its other value has no name, ``{"positive": "adverse"}``. Of a label with ``at_least``: one
        of `SIDES`. None if the contract does not say.
    encoding : str or None, default None
        How a model input becomes numbers. ``onehot``: a 0/1 column per category; ``binary``: one
        0/1 column; ``ordinal``: the standardised position in ``allowed``; ``standard``:
        (x - mean) / standard deviation; ``unit``: (x - minimum) / (maximum - minimum);
        ``calendar``: a date's age, month and weekday; ``text``: the vector of a sentence. None for
        columns that are no input, and for the default of the type.
    bins : tuple of float or None, default None
        Rising cut points of a numeric sensitive column, for group metrics only.
    missing : tuple of str, int or float, or None, default None
        Texts and numbers that stand for a missing value, such as ``?`` and 999; they are read as
        missing.
    other : str or None, default None
        Of categories in text: the one of `allowed` that every value becomes which is not in
        `allowed`. Without it such a value is a violation.
    value_names : mapping, tuple of pairs, or None, default None
        Names of coded values, for display only; kept as pairs of `value_text` and name.
    at_least : int, float or None, default None
        Threshold of a numeric label: numbers of at least that become 1, numbers below it 0.
    legitimate : True or None, default None
        Of a feature: whether its differences between groups may count, for fair metrics (a
        resolving variable). False becomes None.
    changeable : str or None, default None
        Of a model input: whether a person can change its value, one of `CHANGES`, for case files;
        ``up`` and ``down`` need numbers or an order. None if the contract does not say.
    adverse_reason : str, mapping, tuple of pairs, or None, default None
        Of a model input: the text of the principal reason of an adverse decision, by language,
        for case files; kept as pairs of language and text.

    Raises
    ------
    ContractError
        If a value is unknown or has the wrong type, or two attributes contradict each other.
    """

    name: str
    logical_type: str
    required: bool = False
    description: str = ""
    unit: str | None = None
    minimum: int | float | dt.date | None = None
    maximum: int | float | dt.date | None = None
    allowed: tuple[Value, ...] | None = None
    role: str = "feature"
    is_feature: bool = False
    positive: Value | None = None
    favourable: Value | Mapping[str, str] | None = None
    encoding: str | None = None
    bins: tuple[float, ...] | None = None
    missing: tuple[str | int | float, ...] | None = None
    other: str | None = None
    value_names: Mapping[Any, str] | tuple[tuple[str, str], ...] | None = None
    at_least: int | float | None = None
    legitimate: bool | None = None
    changeable: str | None = None
    adverse_reason: str | Mapping[str, str] | tuple[tuple[str, str], ...] | None = None

    def __post_init__(self) -> None:
        """Check every attribute and convert values to the column's type."""
        where = f"column '{self.name}'"
        if not isinstance(self.name, str) or not self.name.strip():
            raise ContractError("a column has an empty name: give every column a name")
        one_of(where, "logicalType", self.logical_type, LOGICAL_TYPES)
        if self.role in WEIGHT_ROLES:
            raise self._fault(
                "a run trains, decides and measures by rows, without weights: set role ignore, and "
                f"measure predictions with `evenhand audit --weight {self.name}`"
            )
        one_of(where, "role", self.role, ROLES)
        if self.is_feature != (self.role == "feature") and self.role != "sensitive":
            raise self._fault(
                f"use: feature is for sensitive columns only, not for role {self.role}"
            )
        self._check_bounds(where)
        self._check_allowed(where)
        self._check_missing()
        self._check_threshold(where)
        self._check_positive(where)
        self._check_favourable(where)
        self._check_encoding(where)
        self._check_other()
        self._check_bins(where)
        self._check_unit()
        self._check_names(where)
        self._check_legitimate()
        self._check_changeable(where)
        self._check_adverse_reason()

    def _fault(self, text: str) -> ContractError:
        return ContractError(f"column '{self.name}': {text}")

    def _set(self, attribute: str, value: Any) -> None:
        """Replace an attribute by its checked and converted value."""
        object.__setattr__(self, attribute, value)

    @property
    def is_numeric(self) -> bool:
        """True for integers and numbers."""
        return self.logical_type in ("integer", "number")

    @property
    def default_encoding(self) -> str:
        """Encoding of a model input whose contract names none."""
        if self.is_numeric or self.logical_type == "date":
            return "standard"
        return "onehot"

    @property
    def shows_values(self) -> bool:
        """True if messages may quote its values: never for sensitive columns, ids and sentences."""
        return self.role not in ("sensitive", "id") and not self.is_text

    @property
    def classes(self) -> tuple[Value, ...]:
        """Values of a label of more than two values, which become 0, 1 and so on; else empty."""
        if self.role != "label" or self.positive is not None:
            return ()
        return self.allowed or ()

    @property
    def outcome(self) -> Column:
        """The label as its two outcomes in words, where a threshold makes them of numbers; any
        other column as it is.
        """
        if self.at_least is None:
            return self
        below = f"below {self.at_least:,}"
        reached = f"at least {self.at_least:,}"
        favourable = None
        if self.favourable is not None:
            favourable = (below, reached)[self.favourable_code]
        return Column(
            self.name,
            "string",
            self.required,
            self.description,
            allowed=(below, reached),
            role=self.role,
            positive=reached,
            favourable=favourable,
        )

    @property
    def states_favourable(self) -> bool:
        """True for a label that says which outcome is favourable."""
        return self.favourable is not None

    @property
    def favourable_code(self) -> int:
        """Label, 1 (positive) or 0, that is the favourable outcome; 1 where the contract does not
        say.
        """
        if self.at_least is not None:
            positive_is_favourable = self.favourable != "below"
        elif isinstance(self.favourable, Mapping):
            positive_is_favourable = self.favourable["positive"] != "adverse"
        else:
            positive_is_favourable = self.favourable in (None, self.positive)
        return int(positive_is_favourable)

    @property
    def favourable_value(self) -> Value | None:
        """Value of the label that counts as favourable; None where it has no name."""
        if self.favourable_code == 1:
            return self.positive
        if isinstance(self.favourable, Mapping):
            return None
        return self.favourable

    @property
    def is_text(self) -> bool:
        """True for a model input of sentences."""
        return self.encoding == "text"

    def _check_bounds(self, where: str) -> None:
        for key in ("minimum", "maximum"):
            value = getattr(self, key)
            if value is None:
                continue
            if self.logical_type in ("string", "boolean"):
                raise self._fault(f"{key} means nothing for a {self.logical_type}: remove it")
            self._set(key, _typed(where, key, value, self.logical_type))
        minimum: Any = self.minimum
        maximum: Any = self.maximum
        if minimum is not None and maximum is not None and minimum > maximum:
            raise self._fault("minimum is above maximum: swap them")

    def _check_allowed(self, where: str) -> None:
        if self.allowed is None:
            return
        allowed = tuple(
            _typed(where, "validValues", value, self.logical_type) for value in self.allowed
        )
        if not allowed:
            raise self._fault("validValues is empty: list the values or remove the rule")
        if len(set(allowed)) < len(allowed):
            raise self._fault("validValues names a value twice: keep one of them")
        self._set("allowed", allowed)

    def _check_missing(self) -> None:
        if self.missing is None:
            return
        if not self.missing or not all(map(_is_text_or_number, self.missing)):
            raise self._fault("missing must list texts or numbers, such as ['?', 999]")
        self._set("missing", tuple(self.missing))

    def _check_threshold(self, where: str) -> None:
        """Check that the threshold is a label's, and that numbers on both sides are allowed."""
        if self.at_least is None:
            return
        if self.role != "label" or not self.is_numeric:
            raise self._fault("atLeast is for a label of numbers only: remove it")
        if self.positive is not None or self.allowed is not None:
            raise self._fault(
                "atLeast makes two outcomes of numbers, and so do positive and validValues: keep "
                "one of them"
            )
        if self.bins is not None or self.value_names is not None:
            raise self._fault("valueNames and bins mean nothing with atLeast: remove them")
        threshold = finite(where, "atLeast", self.at_least)
        minimum: Any = self.minimum
        maximum: Any = self.maximum
        no_number_below = minimum is not None and threshold <= minimum
        no_number_above = maximum is not None and threshold > maximum
        if no_number_below or no_number_above:
            raise self._fault(
                "atLeast leaves all numbers between minimum and maximum on one side: move it"
            )
        # a contract has the same digest whether it says 50000 or 50000.0
        self._set("at_least", int(threshold) if threshold.is_integer() else threshold)

    def _check_positive(self, where: str) -> None:
        if self.positive is None:
            return
        positive = _typed(where, "positive", self.positive, self.logical_type)
        if self.allowed is not None and positive not in self.allowed:
            raise self._fault("positive is not among validValues: use one of them")
        self._set("positive", positive)

    def _check_favourable(self, where: str) -> None:
        """Check the favourable outcome; ``{"positive": ...}`` becomes a value where that has a
        name.
        """
        if self.favourable is None:
            return
        if self.at_least is not None:
            if self.favourable not in SIDES:
                raise self._fault(
                    f"favourable is {self.favourable!r}, expected at-least or below, as the label "
                    "has atLeast"
                )
            return
        if self.role != "label" or self.positive is None:
            raise self._fault(
                "favourable is for a label of two values, of which one is positive: remove it"
            )
        if isinstance(self.favourable, Mapping):
            self._name_favourable(dict(self.favourable))
            return
        value = _typed(where, "favourable", self.favourable, self.logical_type)
        if self.allowed is not None and value not in self.allowed:
            raise self._fault("favourable is not among validValues: use one of them")
        self._set("favourable", value)

    def _name_favourable(self, statement: dict[str, str]) -> None:
        """Replace ``{"positive": ...}`` by the value that is favourable, if it has a name."""
        if statement not in ({"positive": "adverse"}, {"positive": "favourable"}):
            raise self._fault(
                "favourable is one of the label's values, or {positive: adverse} or "
                "{positive: favourable}"
            )
        if statement["positive"] == "favourable":
            self._set("favourable", self.positive)
            return
        negatives = [value for value in self.allowed or () if value != self.positive]
        if len(negatives) == 1:
            self._set("favourable", negatives[0])

    def _check_encoding(self, where: str) -> None:
        # a column that is ignored for a while may keep what it has as a model input
        if self.encoding is not None and not self.is_feature and self.role != "ignore":
            raise self._fault(f"encoding is for model inputs; role {self.role} is none: remove it")
        encoding = None
        if self.is_feature:
            encoding = self.encoding or self.default_encoding
            self._check_encoding_fits(where, encoding)
        if encoding == "binary":
            self._check_binary()
        elif self.positive is not None and self.role != "label":
            raise self._fault("positive is for the label and for encoding: binary: remove it")
        if encoding == "ordinal":
            self._check_order()
        if encoding == "unit" and not self._has_finite_range():
            raise self._fault(
                "encoding: unit needs logicalTypeOptions with a minimum below its maximum, the "
                "values that become 0 and 1"
            )
        self._set("encoding", encoding)

    def _check_other(self) -> None:
        if self.other is None:
            return
        is_category = self.logical_type == "string" and self.role not in ("label", "id")
        if not is_category or self.encoding not in (None, "onehot"):
            raise self._fault(
                "other is for categories in text with the encoding onehot only: remove it"
            )
        if self.other not in (self.allowed or ()):
            raise self._fault("other is not among validValues: list it there")

    def _check_encoding_fits(self, where: str, encoding: str) -> None:
        one_of(where, "encoding", encoding, ENCODINGS)
        fitting = _ENCODINGS_OF[self.logical_type]
        if encoding not in fitting:
            usable = " or ".join(fitting)
            raise self._fault(
                f"encoding {encoding} does not fit a {self.logical_type}: use {usable}"
            )

    def _check_order(self) -> None:
        if len(self.allowed or ()) < 2:
            raise self._fault(
                "encoding: ordinal needs validValues with at least two values, in their order"
            )

    def _check_binary(self) -> None:
        """Check a binary encoding; the positive value of a boolean is True by default."""
        if self.logical_type == "boolean" and self.positive is None:
            self._set("positive", True)
        if self.positive is None:
            raise self._fault("encoding: binary needs positive, the value that becomes 1")
        if self.logical_type != "boolean" and (self.allowed is None or len(self.allowed) != 2):
            raise self._fault("encoding: binary needs validValues with exactly two values")

    def _has_finite_range(self) -> bool:
        low: Any = self.minimum
        high: Any = self.maximum
        if low is None or high is None:
            return False
        return 0 < float(high) - float(low) < math.inf

    def _check_bins(self, where: str) -> None:
        is_sensitive = self.role == "sensitive"
        if self.bins is None:
            if is_sensitive:
                self._check_groups()
            return
        if not is_sensitive or not self.is_numeric:
            raise self._fault("bins is for numeric sensitive columns only: remove it")
        bins = tuple(finite(where, "bins", cut) for cut in self.bins)
        if not bins or any(lower >= upper for lower, upper in pairwise(bins)):
            raise self._fault("bins must hold at least one cut point, in rising order")
        if self.logical_type == "integer" and any(cut != int(cut) for cut in bins):
            raise self._fault("bins of an integer column must be whole numbers")
        self._set("bins", bins)

    def _check_groups(self) -> None:
        """Check that the values of a sensitive column without bins are groups."""
        if self.is_numeric and self.allowed is None:
            raise self._fault(
                "a numeric sensitive column needs bins (cut points, such as [25]) to form "
                "the groups that are compared, or validValues where its few values are the "
                "groups"
            )
        if self.logical_type == "date":
            raise self._fault(
                "a date cannot be sensitive: use a numeric column (age, year) with bins"
            )

    def _check_unit(self) -> None:
        if self.unit is None:
            return
        if not self.is_numeric or not isinstance(self.unit, str) or not self.unit.strip():
            raise self._fault(
                "unit is a text, such as years, and for numbers only: quote it or remove it"
            )

    def _check_legitimate(self) -> None:
        if self.legitimate is None:
            return
        if not isinstance(self.legitimate, bool):
            raise self._fault(f"legitimate is {self.legitimate!r}, expected true or false")
        # a column that is ignored for a while may keep it
        if self.legitimate and self.role not in ("feature", "ignore"):
            raise self._fault(
                f"legitimate is for features, whose differences between groups may count; role "
                f"{self.role} is none: remove it"
            )
        self._set("legitimate", self.legitimate or None)

    def _check_changeable(self, where: str) -> None:
        if self.changeable is None:
            return
        one_of(where, "changeable", self.changeable, CHANGES)
        self._require_input("changeable")
        if self.changeable == "fixed":
            return
        if self.role == "sensitive":
            raise self._fault("a sensitive column is fixed: remove changeable")
        has_order = self.is_numeric and self.encoding in ("standard", "unit")
        if self.changeable != "free" and not has_order and self.encoding != "ordinal":
            raise self._fault(
                f"changeable: {self.changeable} needs numbers or an order: use free or fixed"
            )
        if self.logical_type == "date" or self.is_text:
            raise self._fault("changeable is for numbers and categories only: use fixed")

    def _check_adverse_reason(self) -> None:
        if self.adverse_reason is None:
            return
        self._require_input("adverseReason")
        reasons: Any = self.adverse_reason
        if isinstance(reasons, str):
            reasons = {LANGUAGE: reasons}
        pairs = reasons.items() if isinstance(reasons, Mapping) else reasons
        texts = {}
        for language, text in pairs:
            if not isinstance(language, str) or not isinstance(text, str) or not text.strip():
                raise self._fault(
                    "adverseReason is a text, or texts by language such as "
                    "{en: Too few years of work, de: Zu wenige Berufsjahre}"
                )
            texts[language] = text.strip()
        if not texts:
            raise self._fault("adverseReason is empty: write a text or remove it")
        self._set("adverse_reason", tuple(texts.items()))

    def _require_input(self, key: str) -> None:
        """Check that a key for case files is on a column that a model may read."""
        # a column that is ignored for a while may keep it
        if not self.is_feature and self.role != "ignore":
            raise self._fault(f"{key} is for model inputs; role {self.role} is none: remove it")

    def _check_names(self, where: str) -> None:
        if self.value_names is None:
            return
        if self.bins is not None or self.logical_type == "date":
            raise self._fault("valueNames is for coded values, not for dates or bins: remove it")
        names: dict[str, str] = {}
        pairs: Iterable[tuple[Any, str]]
        if isinstance(self.value_names, Mapping):
            pairs = self.value_names.items()
        else:
            pairs = self.value_names
        for value, name in pairs:
            code = value_text(self._coded(where, value))
            if not isinstance(name, str) or not name.strip():
                raise self._fault(f"valueNames gives {code} a name that is no text: quote it")
            if code in names:
                raise self._fault(f"valueNames names the value {code} twice: keep one of them")
            if name in names.values():
                raise self._fault(f"valueNames gives two values the name {name!r}: change one")
            names[code] = name
        if not names:
            raise self._fault("valueNames is empty: name a value or remove it")
        self._set("value_names", tuple(names.items()))

    def _coded(self, where: str, value: Any) -> Value:
        """Return the value of the column that a key of `value_names` means: '1', 1 and 1.0
        are one.
        """
        text = str(value).strip()
        try:
            converted = self._converted(text, value)
            typed: Value = _typed(where, "valueNames", converted, self.logical_type)
        except (KeyError, ValueError, OverflowError):
            kind = f"not of type {self.logical_type}"
            raise self._fault(f"valueNames has the key {text!r}, which is {kind}") from None
        if self._is_outside(typed) or (self.allowed is not None and typed not in self.allowed):
            raise self._fault(f"valueNames has the key {text!r}, a value that is not allowed")
        return typed

    def _converted(self, text: str, value: Any) -> Any:
        """Convert a key of `value_names`, also given as its trimmed text, to the column's type."""
        if self.logical_type == "number":
            return float(text)
        if self.logical_type == "integer":
            number = float(text)
            if number != int(number):
                return number
            # large integers have more digits than a float
            if text.lstrip("+-").isdigit():
                return int(text)
            return int(number)
        if self.logical_type == "boolean":
            return {"true": True, "false": False, "1": True, "0": False}[text.lower()]
        if isinstance(value, str):
            return value
        return value_text(value)

    def _is_outside(self, value: Any) -> bool:
        """Whether a value is below the minimum or above the maximum."""
        minimum: Any = self.minimum
        maximum: Any = self.maximum
        if minimum is not None and value < minimum:
            return True
        return maximum is not None and value > maximum

    def no_input(self, role: str, **changes: Any) -> Column:
        """Return a copy of the given role that is no model input.

        Parameters
        ----------
        role : str
            One of `ROLES`; the encoding, the positive and the favourable value, the threshold and
            the marks of legitimate and changeable columns are removed.
        **changes
            Other attributes of :class:`Column` to replace.

        Returns
        -------
        Column
        """
        return replace(
            self,
            role=role,
            is_feature=False,
            encoding=None,
            positive=None,
            favourable=None,
            at_least=None,
            legitimate=None,
            changeable=None,
            adverse_reason=None,
            **changes,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the column as plain JSON types; dates as ISO text."""
        data = {}
        for field in fields(self):
            value = _plain(getattr(self, field.name))
            # without such values a contract keeps the digest that it had before they existed
            if value is None and field.name in _LATER_ATTRIBUTES:
                continue
            data[field.name] = value
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Column:
        """Create a column from :meth:`to_dict`.

        Parameters
        ----------
        data : mapping of str to value
            Attributes of the column by name.

        Returns
        -------
        Column

        Raises
        ------
        ContractError
            If an attribute is unknown or its value is not valid.
        """
        only_known("column", data, [field.name for field in fields(cls)])
        values: dict[str, Any] = {}
        for key, value in data.items():
            values[key] = tuple(value) if isinstance(value, list) else value
        return cls(**values)


def one_of(where: str, key: str, value: Any, known: tuple[str, ...]) -> None:
    """Raise ContractError unless ``value`` is one of ``known``.

    Parameters
    ----------
    where : str
        What has the value, for the message.
    key : str
        Name of the value, for the message.
    value : object
        The value to check.
    known : tuple of str
        The values that are allowed.

    Raises
    ------
    ContractError
        If the value is none of them.
    """
    if value not in known:
        raise ContractError(f"{where}: {key} is {value!r}, expected one of {', '.join(known)}")


def only_known(where: str, data: Mapping[str, Any], known: list[str]) -> None:
    """Raise ContractError if ``data`` has a key that is not in ``known``.

    Parameters
    ----------
    where : str
        What has the keys, for the message.
    data : mapping
        Its keys are checked.
    known : list of str
        The keys that are allowed.

    Raises
    ------
    ContractError
        For the first unknown key, with the nearest known one.
    """
    for key in data:
        if key not in known:
            raise ContractError(f"{where}: unknown key '{key}'{did_you_mean(key, known)}")


def finite(where: str, key: str, value: Any) -> float:
    """Return a finite number as a float; raise ContractError for any other value.

    Parameters
    ----------
    where, key : str
        What has the value, and its name, for the message.
    value : object
        The value to check.

    Returns
    -------
    float

    Raises
    ------
    ContractError
        If the value is no number, a boolean, NaN or infinite.
    """
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    # a whole number may be larger than any float
    if not is_number or not abs(value) <= sys.float_info.max:
        raise ContractError(f"{where}: {key} must hold finite numbers")
    return float(value)


def value_text(value: Value) -> str:
    """Return a value as groups and categories are named: true, 1 for 1.0, every digit of 0.25.

    Parameters
    ----------
    value : bool, int, float, str or date
        A value of a column.

    Returns
    -------
    str
    """
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, float):
        return str(value)
    if value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return repr(value)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dt.date):
        return value.isoformat()
    return value


def _is_text_or_number(value: Any) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _typed(where: str, key: str, value: Any, logical_type: str) -> Any:
    """Return ``value`` as the column's type; raise ContractError with the way to write it."""
    if logical_type == "number":
        return finite(where, key, value)
    if logical_type == "date":
        return _as_date(where, key, value)
    expected = {"string": str, "integer": int, "boolean": bool}[logical_type]
    if isinstance(value, expected) and isinstance(value, bool) == (expected is bool):
        return value
    if logical_type == "string":
        kind = "no text"
        if isinstance(value, bool):
            kind = "true/false (YAML reads an unquoted yes, no, on or off so)"
        raise ContractError(f"{where}: {key} holds a value that is {kind}: put it in quotes")
    raise ContractError(f"{where}: {key} must hold {logical_type} values")


def _as_date(where: str, key: str, value: Any) -> dt.date:
    """Return a date, also from its ISO text; raise ContractError for any other value."""
    if isinstance(value, str):
        try:
            return dt.date.fromisoformat(value)
        except ValueError:
            value = None
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return value
    raise ContractError(f"{where}: {key} must hold dates, such as 2024-01-31")
