"""The delimiter of a CSV file, found in its first rows."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import NamedTuple

from evenhand.tasks.errors import InputError

DELIMITERS = ",;\t|"
NAMES = {",": "a comma", ";": "a semicolon", "\t": "a tab", "|": "a vertical bar"}
# Rows, and bytes of the file, that are looked at.
ROWS = 50
HEAD_BYTES = 1 << 16


def find_delimiter(content: bytes, name: str, encoding: str | None = None) -> str:
    """Delimiter of the CSV file that begins with `content`; an `InputError` if it has no header."""
    text = content[:HEAD_BYTES].decode(encoding or "utf-8", errors="replace")
    return delimiter_of(text, name, is_whole=len(content) < HEAD_BYTES)


def delimiter_of(text: str, name: str, *, is_whole: bool = True) -> str:
    """The candidate that divides most of the first rows into as many fields as the header, and of
    several of these the one with the most fields. Of a single column it is one that no row has.

    - `is_whole`: whether the text ends where its last row does
    """
    counts = {mark: _field_counts(text, mark, is_whole) for mark in DELIMITERS}
    if not any(counts.values()):
        raise InputError(f"{name} is empty: check where it is written.")

    def fitness(mark: str) -> tuple[bool, float, int, int]:
        fields, *later_counts = counts[mark]
        share = 1.0
        if later_counts:
            share = sum(count == fields for count in later_counts) / len(later_counts)
        return (fields > 1, round(share, 1), fields, -DELIMITERS.index(mark))

    return max(DELIMITERS, key=fitness)


class FirstRow(NamedTuple):
    """The first row of a text with a field that is not blank."""

    fields: list[str]
    before: int  # rows before it, blank lines among them
    follows_fields: bool  # whether some of these have delimiters


def first_row(text: str, mark: str) -> FirstRow:
    """The header of a text: its first row that is not blank; without fields if there is none."""
    before = 0
    follows_fields = False
    for row in _rows(text, mark):
        if any(field.strip() for field in row):
            return FirstRow(row, before, follows_fields)
        before += 1
        follows_fields |= len(row) > 1
    return FirstRow([], before, follows_fields)


def _field_counts(text: str, mark: str, is_whole: bool) -> list[int]:
    """Fields of the first rows; without the last one, which may be cut off, of a longer text."""
    counts = []
    for row in _rows(text, mark):
        if not any(field.strip() for field in row):
            continue
        counts.append(len(row))
        if len(counts) > ROWS:
            return counts
    if not is_whole and len(counts) > 1:
        return counts[:-1]
    return counts


def _rows(text: str, mark: str) -> Iterator[list[str]]:
    """Rows, blank lines among them, until one that is no CSV."""
    lines = io.StringIO(text.removeprefix("\ufeff"), newline="")
    try:
        yield from csv.reader(lines, delimiter=mark)
    except csv.Error:
        return
