"""Forms of numbers and dates in text: decimal commas, separators of thousands, the order of day and
month.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

COMMA = "comma"
POINT = "point"
DAY_FIRST = "day-first"
MONTH_FIRST = "month-first"
YEAR_FIRST = "year-first"
Forms = str | Mapping[str, str] | None
"""A form for all columns, or by column, or none: then text stays as it is."""

# A column is one of numbers, or of dates, if at least this share of its values is.
MOST = 0.5

# Blanks of other widths, the typographic minus and apostrophe.
_BLANKS = "[\u00a0\u2009\u202f]"
_CURRENCY = "(?:[$€£¥]|CHF|EUR|USD|GBP|Fr\\.)"
_COMMA_BODY = (
    r"(?:(?:[1-9]\d{0,2}(?:\.\d{3})+|[1-9]\d{0,2}(?: \d{3})+|[1-9]\d{0,2}(?:'\d{3})+|0|[1-9]\d*)"
    r"(?:,\d*)?|,\d+)(?:[eE][+-]?\d+)?"
)
_POINT_BODY = (
    r"(?:(?:[1-9]\d{0,2}(?:,\d{3})+|[1-9]\d{0,2}(?: \d{3})+|[1-9]\d{0,2}(?:'\d{3})+|0|[1-9]\d*)"
    r"(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?"
)
_AROUND = rf"^(?:[+-] ?)?(?:{_CURRENCY} ?)?[+-]?%s ?(?:%%|{_CURRENCY})?-?$"
_NUMBER = {COMMA: _AROUND % _COMMA_BODY, POINT: _AROUND % _POINT_BODY}
_WHOLE = r"^[+-]?\d+$"
# 007 and 01234 are codes
_CODE = r"^[+-]?0\d"
_TIME = r"(?P<time>[ T]\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?)?"
_DATE = rf"^(?P<a>\d{{1,2}})(?P<mark>[./-])(?P<b>\d{{1,2}})[./-](?P<year>\d{{4}}){_TIME}$"
_YEAR_FIRST = (
    rf"^(?P<year>\d{{4}})(?:/(?P<a>\d{{1,2}})/|\.(?P<c>\d{{1,2}})\.)(?P<b>\d{{1,2}}){_TIME}$"
)
_SHORT_YEAR = r"^\d{1,2}[./-]\d{1,2}[./-]\d{2}$"
_ISO = r"^\d{4}-\d{2}-\d{2}"


def form_of(forms: Forms, column: str) -> str | None:
    """Return the form of a column.

    Parameters
    ----------
    forms : str, mapping or None
        A form for all columns, or by the name of a column.
    column : str
        Name of the column.

    Returns
    -------
    str or None
        The column's form; None if there is none.
    """
    if forms is None or isinstance(forms, str):
        return forms
    return forms.get(column)


@dataclass
class Seen:
    """How many values have a property, and the row of the first one.

    Parameters
    ----------
    count : int, default 0
    row : int, default -1
        -1 while no value has the property.
    """

    count: int = 0
    row: int = -1

    def add(self, mask: pa.Array, first_row: int) -> None:
        """Count the true values of a mask.

        Parameters
        ----------
        mask : pyarrow.Array of bool, length n
        first_row : int
            Row of the mask's first value.
        """
        count = pc.sum(mask).as_py() or 0
        if count and not self.count:
            self.row = first_row + pc.index(mask, True).as_py()
        self.count += count


@dataclass
class NumberForms:
    """How the values of one text column are written, if they are numbers.

    Parameters
    ----------
    name : str
        Name of the column.
    """

    name: str
    values: int = 0  # neither null nor empty
    rows: int = 0
    whole: Seen = field(default_factory=Seen)  # digits only: of either form
    comma: Seen = field(default_factory=Seen)  # a number with a decimal comma only, such as 1.234,5
    point: Seen = field(default_factory=Seen)  # a number with a decimal point only, such as 1,234.5
    either: Seen = field(default_factory=Seen)  # 14,168 and 1.234 have both readings
    grouped: Seen = field(default_factory=Seen)  # those of them with a comma, as in 14,168
    long_whole: Seen = field(default_factory=Seen)  # digits only, four or more
    round_either: Seen = field(default_factory=Seen)  # those of both readings that end with a zero
    # 1 234, 12 € and 12-: numbers, though not plain ones
    spaced: Seen = field(default_factory=Seen)
    code: Seen = field(default_factory=Seen)  # 01234
    plain: Seen = field(default_factory=Seen)  # a number that a contract reads without a form
    with_comma: Seen = field(default_factory=Seen)  # a number with a comma in it
    with_point: Seen = field(default_factory=Seen)
    # a number of more digits than 64 bits hold, or an exponent
    large: Seen = field(default_factory=Seen)
    spelled: Seen = field(default_factory=Seen)  # a text that stands for a missing value, such as ?
    other: Seen = field(default_factory=Seen)

    @property
    def numbers(self) -> int:
        """Number of values that are numbers of any form."""
        parts = (self.whole, self.comma, self.point, self.either, self.spaced)
        return sum(part.count for part in parts)

    @property
    def is_numeric(self) -> bool:
        """Whether most values are numbers, and none is a code."""
        return bool(self.values) and self.numbers >= MOST * self.values and not self.code.count

    def add(self, values: pa.Array, missing: pa.Array) -> None:
        """Count the values of a block.

        Parameters
        ----------
        values : pyarrow.Array of string, length n
        missing : pyarrow.Array of string
            Lower-case texts that count as null.
        """
        text = _tidy(values)
        absent = pc.or_kleene(pc.is_null(text), pc.is_in(pc.utf8_lower(text), value_set=missing))
        present = pc.invert(absent)
        masks = _number_masks(text, present)
        masks["spelled"] = pc.and_(absent, pc.is_valid(text))
        for name, mask in masks.items():
            tally: Seen = getattr(self, name)
            tally.add(mask, self.rows)
        self.values += pc.sum(present).as_py() or 0
        self.rows += len(values)


def _number_masks(text: pa.Array, present: pa.Array) -> dict[str, pa.Array]:
    """For each value, which forms of a number it has."""
    comma = pc.and_(_matches(text, _NUMBER[COMMA]), present)
    point = pc.and_(_matches(text, _NUMBER[POINT]), present)
    has_both_forms = pc.and_(comma, point)
    any_form = pc.or_(comma, point)
    has_comma = pc.match_substring(text, ",").fill_null(False)
    has_point = pc.match_substring(text, ".").fill_null(False)
    marked = _matches(text, r"\d[.,]\d|^[+-]?[.,]\d|\d[.,]$")
    whole = pc.and_(has_both_forms, _matches(text, _WHOLE))
    return {
        "whole": whole,
        "comma": pc.and_not(comma, point),
        "point": pc.and_not(point, comma),
        "either": pc.and_(has_both_forms, marked),
        "grouped": pc.and_(pc.and_(has_both_forms, marked), has_comma),
        "long_whole": pc.and_(whole, _matches(text, r"\d{4}")),
        "round_either": pc.and_(pc.and_(has_both_forms, marked), _matches(text, r"0$")),
        "spaced": pc.and_not(pc.and_not(has_both_forms, marked), whole),
        "code": pc.and_(_matches(text, _CODE), pc.and_(present, _matches(text, r"^[+-]?\d+$"))),
        "plain": pc.and_(
            point, _matches(text, r"^[+-]?[$€£]?\s*[\d,]*\.?\d*([eE][+-]?\d+)?\s*[%$€£]?$")
        ),
        "with_comma": pc.and_(any_form, has_comma),
        "with_point": pc.and_(any_form, has_point),
        "large": pc.and_(any_form, _matches(text, r"(?:\d[.,' ]?){19,}|\d[eE][+-]?\d")),
        "other": pc.and_not(present, any_form),
    }


@dataclass
class DateForms:
    """How the values of one text column are written, if they are dates.

    Parameters
    ----------
    name : str
        Name of the column.
    """

    name: str
    values: int = 0
    rows: int = 0
    day_first: Seen = field(default_factory=Seen)  # 16/08/1980
    month_first: Seen = field(default_factory=Seen)  # 08/16/1980
    # 12.03.2024: the month is never first with dots
    dotted: Seen = field(default_factory=Seen)
    either: Seen = field(default_factory=Seen)  # 12/03/2024
    year_first: Seen = field(default_factory=Seen)  # 2024/03/12
    short: Seen = field(default_factory=Seen)  # 12.03.24
    iso: Seen = field(default_factory=Seen)
    timed: Seen = field(default_factory=Seen)  # with a time of day
    spelled: Seen = field(default_factory=Seen)
    other: Seen = field(default_factory=Seen)

    @property
    def dates(self) -> int:
        """Number of values that are dates of any form but ISO."""
        parts = (
            self.day_first,
            self.month_first,
            self.dotted,
            self.either,
            self.year_first,
            self.short,
        )
        return sum(part.count for part in parts)

    @property
    def is_dated(self) -> bool:
        """Whether most values are dates, not all of them in ISO form."""
        return self.dates > 0 and self.dates + self.iso.count >= MOST * self.values

    def add(self, values: pa.Array, missing: pa.Array) -> None:
        """Count the values of a block.

        Parameters
        ----------
        values : pyarrow.Array of string, length n
        missing : pyarrow.Array of string
            Lower-case texts that count as null.
        """
        text = _tidy(values)
        absent = pc.or_kleene(pc.is_null(text), pc.is_in(pc.utf8_lower(text), value_set=missing))
        present = pc.invert(absent)
        masks = _date_masks(text, present)
        masks["spelled"] = pc.and_(absent, pc.is_valid(text))
        masks["timed"] = pc.and_(present, _matches(text, r"\d:\d"))
        for name, mask in masks.items():
            tally: Seen = getattr(self, name)
            tally.add(mask, self.rows)
        self.values += pc.sum(present).as_py() or 0
        self.rows += len(values)


def _date_masks(text: pa.Array, present: pa.Array) -> dict[str, pa.Array]:
    """For each value, which form of a date it has."""
    parts = pc.extract_regex(text, _DATE)
    first = pc.cast(pc.struct_field(parts, "a"), pa.int64())
    second = pc.cast(pc.struct_field(parts, "b"), pa.int64())
    possible_day = _between(first, 1, 31)
    day_first = pc.and_(possible_day, _between(second, 1, 12))
    month_first = pc.and_(_between(first, 1, 12), _between(second, 1, 31))
    has_both_orders = pc.and_(day_first, month_first)
    dotted = pc.equal(pc.struct_field(parts, "mark"), ".").fill_null(False)
    year = _matches(text, _YEAR_FIRST)
    short = _matches(text, _SHORT_YEAR)
    iso = _matches(text, _ISO)
    masks = {
        "day_first": pc.and_not(day_first, month_first),
        "month_first": pc.and_not(month_first, day_first),
        "dotted": pc.and_(has_both_orders, dotted),
        "either": pc.and_not(has_both_orders, dotted),
        "year_first": year,
        "short": short,
        "iso": iso,
    }
    unread = present
    for mask in masks.values():
        unread = pc.and_not(unread, mask)
    return {**masks, "other": unread}


def _between(numbers: pa.Array, low: int, high: int) -> pa.Array:
    inside = pc.and_(pc.greater_equal(numbers, low), pc.less_equal(numbers, high))
    return inside.fill_null(False)


def _matches(text: pa.Array, pattern: str) -> pa.Array:
    return pc.match_substring_regex(text, pattern).fill_null(False)


def _tidy(values: pa.Array) -> pa.Array:
    """Return text with plain blanks, apostrophes and minus signs, trimmed; empty text is null."""
    text = pc.replace_substring_regex(values, _BLANKS, " ")
    text = pc.replace_substring(text, "\u2019", "'")
    text = pc.replace_substring(text, "\u2212", "-")
    text = pc.utf8_trim_whitespace(text)
    return pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.string()), text)


def plain_numbers(values: pa.Array, mark: str) -> pa.Array:
    """Rewrite numbers with the given decimal mark as plain ones, such as ``-1234.56``.

    Separators of thousands, signs of currency and percent are removed; a minus sign at the end
    moves to the front. Text that is no number of this form stays.

    Parameters
    ----------
    values : pyarrow.Array or ChunkedArray of string, shape (n,)
    mark : {"comma", "point"}

    Returns
    -------
    pyarrow.Array or ChunkedArray of string, shape (n,)
    """
    text = _tidy(values)
    fits = _matches(text, _NUMBER[mark])
    thousands = "." if mark == COMMA else ","
    # the e of an exponent is no currency
    digits = pc.replace_substring_regex(text, rf"{_CURRENCY}|[%' ]", "")
    digits = pc.replace_substring(digits, thousands, "")
    digits = pc.replace_substring(digits, ",", ".")
    digits = pc.replace_substring_regex(digits, r"^(.*\d\.?)-$", r"-\1")
    digits = pc.replace_substring_regex(digits, r"^\+|\.$", "")
    return pc.if_else(fits, digits, values)


def iso_dates(values: pa.Array, order: str) -> pa.Array:
    """Rewrite dates with the given order of day, month and year as ISO dates, such as
    ``2024-01-31``.

    A time of day stays. Text that is no date of this order stays.

    Parameters
    ----------
    values : pyarrow.Array or ChunkedArray of string, shape (n,)
    order : {"day-first", "month-first", "year-first"}

    Returns
    -------
    pyarrow.Array or ChunkedArray of string, shape (n,)
    """
    text = _tidy(values)
    parts = pc.extract_regex(text, _YEAR_FIRST if order == YEAR_FIRST else _DATE)
    first = pc.struct_field(parts, "a")
    second = pc.struct_field(parts, "b")
    if order == YEAR_FIRST:
        dotted = pc.struct_field(parts, "c")
        first = pc.if_else(pc.equal(first, ""), dotted, first)
    if order == DAY_FIRST:
        day = first
        month = second
    else:
        day = second
        month = first
    exists = pc.and_(_between(day.cast(pa.int64()), 1, 31), _between(month.cast(pa.int64()), 1, 12))
    days = pc.binary_join_element_wise(
        pc.struct_field(parts, "year"), pc.utf8_lpad(month, 2, "0"), pc.utf8_lpad(day, 2, "0"), "-"
    )
    whole = pc.binary_join_element_wise(days, pc.struct_field(parts, "time"), "")
    return pc.if_else(exists, whole, values)


def in_other_form(values: pa.Array, mark: str) -> pa.Array:
    """Whether values are numbers with the other decimal mark only, such as 12.5 where the mark is a
    comma.

    Parameters
    ----------
    values : pyarrow.Array or ChunkedArray of string, length n
    mark : {"comma", "point"}

    Returns
    -------
    pyarrow.Array or ChunkedArray of bool, length n
    """
    text = _tidy(values)
    other_mark = POINT if mark == COMMA else COMMA
    return pc.and_not(_matches(text, _NUMBER[other_mark]), _matches(text, _NUMBER[mark]))


def has_two_readings(values: pa.Array) -> pa.Array:
    """Whether a comma in numbers may be decimal or separate thousands, as in 14,168.

    Parameters
    ----------
    values : pyarrow.Array or ChunkedArray of string, length n

    Returns
    -------
    pyarrow.Array or ChunkedArray of bool, length n
    """
    return _matches(_tidy(values), r"^[+-]?[1-9]\d{0,2},\d{3}$")
