"""Categories that seem to be one, written in several ways: upper case, blanks, abbreviations,
words of two languages for a sex, yes and no.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from evenhand.data_contracts.values import MISSING_TEXTS

MOST_VALUES = 200
Spellings = Mapping[str, Mapping[str, Sequence[str]]]
"""By column and by the value that stays, the other values that are read as it."""

# Words that mean the same, where a column has at least two of a line.
_WORDS = (
    "f w female weiblich frau woman women femme feminin femenino mujer f\u00e9minin donna femmina",
    "m male mann maennlich man men homme masculin masculino hombre herr uomo maschio",
    "d divers diverse nonbinary non-binary nichtbinaer x",
    "y j yes ja oui si s\u00ed true",
    "n no nein non false",
)
_UMLAUTS = {"\u00e4": "ae", "\u00f6": "oe", "\u00fc": "ue", "\u00df": "ss"}


def spellings_of(counts: Mapping[str, int]) -> dict[str, list[str]]:
    """Find values of a column that seem to be one.

    Values are one if they differ only in upper case, blanks, accents and signs between letters; if
    both are words for the same sex, or for yes or no; or if one is an abbreviation: a single
    letter, where every single letter of the column begins exactly one of its words, or letters with
    a point behind them.

    Parameters
    ----------
    counts : mapping of str to int
        Rows of each value.

    Returns
    -------
    dict of str to list of str
        By the value that most rows have of those that are no abbreviation, the others.

    Examples
    --------
    >>> spellings_of({"weiblich": 90, "w": 10, "W ": 1, "m\u00e4nnlich": 80, "m": 9})
    {'weiblich': ['W ', 'w'], 'm\u00e4nnlich': ['m']}
    >>> spellings_of({"S": 10, "M": 20, "L": 5, "Medium": 2})
    {}
    """
    values = [value for value in counts if value.strip().lower() not in MISSING_TEXTS]
    groups = _Groups(values)
    _join_by(groups, values, _plain_key)
    _join_by(groups, values, _german_key)
    _join_words(groups, values)
    _join_abbreviations(groups, values)
    spellings = {}
    for members in groups.members():
        if len(members) > 1:
            spelling = max(members, key=lambda value: (_length_class(value), counts[value], value))
            spellings[spelling] = sorted(value for value in members if value != spelling)
    return spellings


def find_spellings(columns: Mapping[str, pa.ChunkedArray]) -> dict[str, dict[str, list[str]]]:
    """Find values that seem to be one, in each column of text with at most ``MOST_VALUES`` values.

    Parameters
    ----------
    columns : mapping of str to pyarrow.ChunkedArray
        By name.

    Returns
    -------
    dict of str to dict
        By the column's name what :func:`spellings_of` finds; columns without such values are left
        out.
    """
    proposals = {}
    for name, values in columns.items():
        if pa.types.is_dictionary(values.type):
            values = values.cast(values.type.value_type)
        if not (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
            continue
        counts = pc.value_counts(values.drop_null())
        if not 1 < len(counts) <= MOST_VALUES:
            continue
        by_value = {item["values"].as_py(): item["counts"].as_py() for item in counts}
        spellings = spellings_of(by_value)
        if spellings:
            proposals[name] = spellings
    return proposals


def joined(values: pa.Array, spellings: Mapping[str, Sequence[str]]) -> pa.Array:
    """Replace spellings by the value that they stand for; blanks around them do not count.

    Parameters
    ----------
    values : pyarrow.Array or ChunkedArray of string, length n
    spellings : mapping of str to sequence of str
        By the value that stays, the others.

    Returns
    -------
    pyarrow.Array or ChunkedArray of string, length n
    """
    trimmed = pc.utf8_trim_whitespace(values)
    for spelling, variants in spellings.items():
        listed = pa.array(sorted({spelling.strip(), *(variant.strip() for variant in variants)}))
        same = pc.is_in(trimmed, value_set=listed.cast(trimmed.type))
        values = pc.if_else(same, pa.scalar(spelling, values.type), values)
    return values


class _Groups:
    """Values that are joined step by step."""

    def __init__(self, values: Collection[str]) -> None:
        self._group = {value: place for place, value in enumerate(values)}

    def join(self, first: str, second: str) -> None:
        """Make one group of those of two values."""
        group_of_first = self._group[first]
        dropped = self._group[second]
        for value, group in self._group.items():
            if group == dropped:
                self._group[value] = group_of_first

    def members(self) -> list[list[str]]:
        """The values of each group."""
        by_group: dict[int, list[str]] = {}
        for value, group in self._group.items():
            by_group.setdefault(group, []).append(value)
        return list(by_group.values())

    def are_joined(self, first: str, second: str) -> bool:
        """Whether two values are in one group."""
        return self._group[first] == self._group[second]


def _join_by(groups: _Groups, values: Sequence[str], key: Any) -> None:
    """Join values with the same key."""
    first_of: dict[str, str] = {}
    for value in values:
        groups.join(first_of.setdefault(key(value), value), value)


def _plain_key(text: str) -> str:
    """A value without upper case, accents, and blanks around it."""
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    plain = "".join(sign for sign in decomposed if not unicodedata.combining(sign))
    plain = " ".join(plain.split())
    if re.search(r"\d|[<>=+%\u20ac$]", plain) or not re.search(r"[^\W\d_]", plain):
        return plain
    return re.sub(r"[\s_\-./]+", " ", plain).strip()


def _german_key(text: str) -> str:
    """The same with umlauts as two letters."""
    lower = text.casefold()
    for umlaut, letters in _UMLAUTS.items():
        lower = lower.replace(umlaut, letters)
    return _plain_key(lower)


def _join_words(groups: _Groups, values: Sequence[str]) -> None:
    """Join words that mean the same, but for letters in a column without such a word."""
    for line in _WORDS:
        words = set(line.split())
        same = [value for value in values if _german_key(value) in words]
        has_word = any(len(_german_key(value)) > 1 for value in same)
        if has_word:
            for value in same[1:]:
                groups.join(same[0], value)


def _join_abbreviations(groups: _Groups, values: Sequence[str]) -> None:
    """Join single letters, and letters with a point, with the word that they begin."""
    keys = {value: _german_key(value) for value in values}
    words = [value for value in values if len(keys[value]) > 1 and not _is_short(value)]
    letters = [value for value in values if re.fullmatch(r"[a-z]", keys[value])]
    full: dict[str, str] = {}
    for value in [*letters, *(value for value in values if _is_short(value))]:
        begun = [word for word in words if keys[word].startswith(keys[value])]
        distinct = [word for word in begun if not groups.are_joined(word, begun[0])]
        if begun and not distinct:
            full[value] = begun[0]
    if all(value in full or _is_joined_word(groups, value, words) for value in letters):
        for value in letters:
            if value in full:
                groups.join(full[value], value)
    for value in values:
        if _is_short(value) and value in full:
            groups.join(full[value], value)


def _is_joined_word(groups: _Groups, value: str, words: Sequence[str]) -> bool:
    return any(groups.are_joined(value, word) for word in words)


def _is_short(value: str) -> bool:
    """Whether a value is letters with a point behind them."""
    return re.fullmatch(r"[^\W\d_]{1,8}\.", value.strip()) is not None


def _length_class(value: str) -> int:
    """Words before abbreviations."""
    if len(value.strip()) == 1 or _is_short(value):
        return 0
    if value != value.strip():
        return 1
    return 2
