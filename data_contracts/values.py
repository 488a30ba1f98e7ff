"""The values of a raw column: which type they have, and which of them stand for a missing one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from evenhand.data_contracts import arrow
from evenhand.data_contracts.errors import ContractError

SAMPLE_ROWS = 20_000
# texts that nobody writes for a value, in lower case
_DASHES = ("", "?", "-", "--", "---", ".", "..", "–", "—")
_NOT_AVAILABLE = ("n/a", "na", "n.a.", "#n/a", "<na>", "not available", "no data")
_NO_ANSWER = ("k.a.", "k. a.", "keine angabe", "n.v.", "n. v.")
_NULLS = ("nan", "null", "nil", "(null)", "#null!", "missing", "(missing)")
_SPELLINGS = {*_DASHES, *_NOT_AVAILABLE, *_NO_ANSWER, *_NULLS}
# texts that are a category among categories, and a missing value among numbers, dates or ranges
_UNKNOWN = ("none", "unknown", "unk", "not known", "not stated", "not specified", "unspecified")
_WITHHELD = (
    "undefined",
    "refused",
    "declined",
    "prefer not to say",
    "not applicable",
    "other",
    "x",
)
_FOREIGN = ("unbekannt", "s/d", "n.c.", "inconnu")
_VAGUE = {*_UNKNOWN, *_WITHHELD, *_FOREIGN}
# as the forms of numbers and dates know them, in lower case
MISSING_TEXTS = frozenset(_SPELLINGS | _VAGUE)
# Numbers that people write for a missing one: nines, with decimals too, and one digit three times
# or more.
_SPECIAL = re.compile(r"99+(\.9+)?|(\d)\2{2,}(\.0)?|77|88")
_SPECIAL_NEGATIVE = re.compile(r"[1-9]|99+(\.9+)?|(\d)\2{2,}|77|88|9+\.9+")
# Most numbers at one end of a column that stand for a missing one: refused, not known and so on.
MOST_SENTINELS = 4
# Fewer rows do not show which numbers are unusual.
LEAST_ROWS = 20
# How far a number that is not special lies from the others, in their range, to be pointed out.
FAR = 5.0
_NUMBER = re.compile(
    r"[+-]?(?:[$€£]?\s*(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d*)?\s*[%$€£]?|\.\d+|\d+\.?\d*[eE][+-]?\d+)"
)
_WHOLE = re.compile(r"[+-]?[$€£]?\s*(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.0*)?\s*[%$€£]?")
_TRUTHS = [{true, false} for true, false in zip(arrow.TRUE, arrow.FALSE, strict=True)]
MAX_TEXTS = 5_000


@dataclass(frozen=True)
class Values:
    """A column as its contract will read it.

    Parameters
    ----------
    name : str
        Name of the column.
    kind : str
        Its logical type.
    data : pyarrow.ChunkedArray, length n
        The values as that type, missing ones as null.
    missing : tuple of str, int or float, default ()
        Spellings of missing values that the column has.
    found : str, default ""
        What the raw values were, if that is not plain from the type.
    isolated : str, default ""
        A sentence about a number in many rows that lies far from all others, and may stand for a
        missing one; empty if there is none.
    """

    name: str
    kind: str
    data: pa.ChunkedArray
    missing: tuple[str | int | float, ...] = ()
    found: str = ""
    isolated: str = ""

    @cached_property
    def present(self) -> pa.ChunkedArray:
        """The values that are not missing, and finite."""
        present = self.data.drop_null()
        if not pa.types.is_floating(present.type):
            return present
        return present.filter(pc.less_equal(pc.abs(present), arrow.LARGEST))

    @cached_property
    def distinct(self) -> int:
        """Number of different values among those that are present."""
        return int(pc.count_distinct(self.present).as_py())

    @property
    def required(self) -> bool:
        """Whether every row has a value."""
        return self.data.null_count == 0


def words_of(name: str) -> list[str]:
    """Return the words of a column's name in lower case, numbers at their ends removed.

    Parameters
    ----------
    name : str
        Name of a column, with words separated by signs or by capital letters.

    Returns
    -------
    list of str
    """
    spaced = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name)
    words = [re.sub(r"\d+$", "", word) for word in re.split(r"[^A-Za-z0-9]+", spaced)]
    return [word.lower() for word in words if word]


def sample_rows(rows: int) -> NDArray[np.int64]:
    """Return the sorted positions of the rows on which relations are estimated; always the same.

    Parameters
    ----------
    rows : int
        Number of rows of the table.

    Returns
    -------
    ndarray of int64, shape (min(rows, SAMPLE_ROWS),)
    """
    if rows <= SAMPLE_ROWS:
        return np.arange(rows)
    return np.sort(np.random.default_rng(0).choice(rows, SAMPLE_ROWS, replace=False))


def read_values(values: pa.ChunkedArray, name: str, *, plain: bool = False) -> Values:
    """Find the type of a raw column and its spellings of missing values.

    Parameters
    ----------
    values : pyarrow.ChunkedArray, length n
        The raw column.
    name : str
        Its name.
    plain : bool, default False
        Whether to keep text as it is, dates aside, and take no value for a missing one: for labels
        and ids.

    Returns
    -------
    Values

    Raises
    ------
    ContractError
        If no contract describes the type.
    """
    values = arrow.decode(values)
    kind = arrow.logical_type_of(values.type)
    if pa.types.is_null(values.type):
        return Values(name, "string", values.cast(pa.string()))
    if kind is None:
        raise ContractError(
            f"column '{name}' has type {values.type}, which no contract describes: drop or convert "
            "it first"
        )
    if plain:
        dates = arrow.dates_in_text(values) if kind == "string" else None
        if dates is None:
            return Values(name, kind, values)
        return Values(name, "date", dates)
    if kind == "string":
        return _read_text(values, name)
    if kind in ("integer", "number"):
        return _read_numbers(values, name, kind)
    return Values(name, kind, values)


def _read_text(values: pa.ChunkedArray, name: str) -> Values:
    distinct = pc.unique(values).drop_null()
    # Of very many texts a sample says what they are; the conversion below reads all of them.
    step = max(1, len(distinct) // MAX_TEXTS)
    texts = list(dict.fromkeys(item.strip() for item in distinct[::step].to_pylist()))
    if step > 1:
        texts += [item for item in _listed(values, {*_SPELLINGS, *_VAGUE}) if item not in texts]
    blank = []
    vague = []
    core = []
    for text in texts:
        if text.lower() in _SPELLINGS:
            blank.append(text)
        elif text.lower() in _VAGUE:
            vague.append(text)
        else:
            core.append(text)
    if core:
        typed = _typed_text(values, name, core, (*blank, *vague))
        if typed is not None:
            return typed
    missing = tuple(sorted(blank))
    # "none" and "None" are answers among words; where nothing else is left, all is missing
    if not missing or len(missing) == len(texts):
        return Values(name, "string", values)
    return Values(name, "string", arrow.without_spellings(values, missing), missing)


def _typed_text(
    values: pa.ChunkedArray, name: str, core: Sequence[str], missing: tuple[str, ...]
) -> Values | None:
    """Return text as numbers, dates or booleans if all of it is that, missing values aside."""
    spellings = tuple(sorted(missing))
    without_missing = arrow.without_spellings(values, spellings) if spellings else values
    for kind, form in _possible_kinds(core):
        data = arrow.convert(without_missing, kind)
        if data is None:
            continue
        if kind in ("integer", "number"):
            return _read_numbers(data, name, kind, spellings, form)
        # an empty text is read as missing without being listed
        return Values(name, kind, data, tuple(item for item in spellings if item), form)
    return None


def _possible_kinds(texts: Sequence[str]) -> list[tuple[str, str]]:
    """Types that texts may have by their form, the narrower one first, with a description."""
    # 007 and 01234 are codes
    has_codes = any(re.match(r"[+-]?0\d", text) for text in texts)
    if all(map(_NUMBER.fullmatch, texts)) and not has_codes:
        kinds = [("number", "written as text")]
        if all(map(_WHOLE.fullmatch, texts)):
            kinds.insert(0, ("integer", "written as text"))
        return kinds
    if {text.lower() for text in texts} in _TRUTHS:
        return [("boolean", f"written as {' and '.join(sorted(texts)[:2])}")]
    if re.match(r"\d{4}-\d{2}-\d{2}", texts[0]):
        return [("date", "")]
    return []


def _listed(values: pa.ChunkedArray, spellings: set[str]) -> list[str]:
    trimmed = pc.utf8_trim_whitespace(values)
    rare = pc.is_in(pc.utf8_lower(trimmed), value_set=pa.array(sorted(spellings)))
    return [text for text in pc.unique(trimmed.filter(rare)).to_pylist() if text is not None]


def _read_numbers(
    values: pa.ChunkedArray, name: str, kind: str, listed: tuple[str, ...] = (), found: str = ""
) -> Values:
    """Find the numbers that stand for missing ones: 999, -1 and the like, far from all others."""
    missing: list[str | int | float] = [item for item in listed if item]
    floating = pa.types.is_floating(values.type)
    if floating and pc.any(pc.is_nan(values)).as_py():
        missing.append("NaN")
        values = arrow.without_spellings(values, ["NaN"])
    sentinels = _sentinels(values)
    if sentinels:
        values = arrow.without_spellings(values, sentinels)
        missing.extend(sentinels)
    isolated = _isolated(values)
    return Values(name, kind, values, tuple(missing), found, isolated)


@dataclass(frozen=True)
class _Levels:
    """The numbers of a column in their order, with their rows."""

    numbers: NDArray[np.float64]
    rows: NDArray[np.int64]

    @classmethod
    def of(cls, values: pa.ChunkedArray) -> _Levels | None:
        """Count a column; None with fewer than ``LEAST_ROWS`` rows, or an infinite number."""
        present = values.drop_null()
        if len(present) < LEAST_ROWS:
            return None
        counts = pc.value_counts(present)
        numbers = counts.field("values").cast(pa.float64(), safe=False).to_numpy()
        if not np.isfinite(numbers).all():
            return None
        order = np.argsort(numbers)
        rows = counts.field("counts").to_numpy()
        return cls(numbers[order], rows[order].astype(np.int64))

    def repeated(self, place: int) -> bool:
        """Whether enough rows have a number: half a percent of all, but at least 3, and 20 always
        suffice.
        """
        enough = min(20.0, 0.005 * int(self.rows.sum()))
        return bool(self.rows[place] >= max(3.0, enough))

    def without(self, first: int, last: int) -> _Levels:
        """The numbers but for so many first and last ones."""
        end = len(self.numbers) - last
        return _Levels(self.numbers[first:end], self.rows[first:end])


def _sentinels(values: pa.ChunkedArray) -> list[int | float]:
    """Return the numbers at the ends of a column that stand for a missing one.

    They consist of nines or of one digit, or are small negative ones, and each is in enough rows
    (:meth:`_Levels.repeated`). They also lie away from the other numbers: above twice the largest
    one; or, where some are negative, ``FAR`` times their range away; or below zero, where none is.
    """
    levels = _Levels.of(values)
    if levels is None:
        return []
    last = _sentinels_above(levels)
    first = _sentinels_below(levels.without(0, last))
    places = [*range(len(levels.numbers) - last, len(levels.numbers)), *range(first)]
    return [_plain(float(levels.numbers[place])) for place in places]


def _sentinels_above(levels: _Levels) -> int:
    """How many of the largest numbers stand for a missing one."""
    count = 0
    for last in range(1, MOST_SENTINELS + 1):
        place = len(levels.numbers) - last
        if place < 1:
            break
        number = float(levels.numbers[place])
        if not levels.repeated(place) or not _SPECIAL.fullmatch(_text(number)):
            break
        remaining = levels.without(0, last)
        if remaining.rows.sum() >= LEAST_ROWS and _lies_far_above(number, remaining):
            count = last
    return count


def _sentinels_below(levels: _Levels) -> int:
    """How many of the smallest numbers stand for a missing one."""
    count = 0
    for first in range(1, MOST_SENTINELS + 1):
        place = first - 1
        if first >= len(levels.numbers):
            break
        number = float(levels.numbers[place])
        is_special = number < 0 and _SPECIAL_NEGATIVE.fullmatch(_text(-number))
        if not levels.repeated(place) or not is_special:
            break
        remaining = levels.without(first, 0)
        if remaining.rows.sum() >= LEAST_ROWS and _lies_far_below(number, remaining):
            count = first
    return count


def _lies_far_above(number: float, remaining: _Levels) -> bool:
    least = float(remaining.numbers[0])
    most = float(remaining.numbers[-1])
    if least >= 0:
        return 0 < 2 * most < number
    return number > 0 and number - most > FAR * (most - least)


def _lies_far_below(number: float, remaining: _Levels) -> bool:
    least = float(remaining.numbers[0])
    most = float(remaining.numbers[-1])
    if least >= 0:
        # the neighbours of a small code: -1, 0, 1 is a scale
        return bool(number <= -99 or len(remaining.numbers) > 5)
    return number <= -99 and least - number > FAR * (most - least)


def _isolated(values: pa.ChunkedArray) -> str:
    """Warn of the largest or smallest number if it lies far from all others and is in many rows."""
    levels = _Levels.of(values)
    if levels is None or len(levels.numbers) < 12:
        return ""
    rows = int(levels.rows.sum())
    for place, others in ((-1, levels.without(0, 1)), (0, levels.without(1, 0))):
        count = int(levels.rows[place])
        if count < max(10, 0.01 * rows):
            continue
        low = float(others.numbers[0])
        high = float(others.numbers[-1])
        number = float(levels.numbers[place])
        distance = max(number - high, low - number)
        if high > low and distance > FAR * (high - low):
            return (
                f"{number:g} in {count:,} rows lies far from all others ({low:g} to {high:g}): "
                "if it stands for a missing value, list it under missing"
            )
    return ""


def _text(number: float) -> str:
    """A number as people write it."""
    return str(_plain(number))


def _plain(number: float) -> int | float:
    if number.is_integer() and abs(number) < 1e15:
        return int(number)
    return number


def whole_numbers(values: pa.ChunkedArray) -> bool:
    """Whether all numbers are whole; text and dates are not.

    Parameters
    ----------
    values : pyarrow.ChunkedArray, length n
        The values of a column; missing ones do not count.

    Returns
    -------
    bool
    """
    if pa.types.is_integer(values.type):
        return True
    if not pa.types.is_floating(values.type):
        return False
    return bool(pc.all(pc.equal(values, pc.trunc(values))).as_py())
