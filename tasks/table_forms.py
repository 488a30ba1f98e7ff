"""Forms of a table's text: its encoding, decimal marks and orders of day and month, inferred or applied."""

from __future__ import annotations

import codecs
import gzip
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc

from evenhand.data_contracts.forms import (
    COMMA,
    DAY_FIRST,
    MONTH_FIRST,
    POINT,
    YEAR_FIRST,
    DateForms,
    Forms,
    NumberForms,
    form_of,
    has_two_readings,
    in_other_form,
    iso_dates,
    plain_numbers,
)
from evenhand.data_contracts.values import MISSING_TEXTS
from evenhand.tasks.errors import InputError

# A file that is not UTF-8 is most likely of this encoding, which latin-1 is a part of but for control characters.
WESTERN = "cp1252"
CHUNK_BYTES = 1 << 20
# Values of a column that tell whether all are worth a look, and the smallest share of them that are numbers or dates.
PROBED_VALUES, PROBED_SHARE = 1000, 0.3
# Share of the letters beyond ASCII that look unlike a language of Western Europe.
MOST_UNLIKELY = 0.3
MISSING = pa.array(sorted(MISSING_TEXTS))

Open = Callable[[Collection[str]], pa.RecordBatchReader]
"""Opens a table, with the given columns of numbers as text."""


@dataclass(frozen=True)
class TableForms:
    """What was inferred of a table's text, as keys of a job's ``table``, and sentences that say so."""

    keys: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    partly: dict[str, str] = field(
        default_factory=dict
    )  # columns of numbers, or dates, with other values too


# ------------------------------------------------------------------------------------------- the encoding


def encoding_of(files: Sequence[Path]) -> str | None:
    """Encoding of text files: None for UTF-8, else that of a byte order mark or cp1252.

    Raises `InputError` if a file is neither, or files differ.
    """
    encodings = {file: _encoding_of(file) for file in files}
    marked = {encoding for encoding in encodings.values() if encoding is not None}
    if len(marked) > 1:
        first, second = (
            next(file.name for file in files if encodings[file] == each) for each in sorted(marked)[:2]
        )
        raise InputError(f"{first} and {second} have different encodings: save all files as UTF-8.")
    if not marked:
        return None
    (encoding,) = marked
    for file in files:
        if encodings[file] is None and not _decodes(file, "ascii"):
            raise InputError(
                f"{file.name} is UTF-8, and other files are {encoding}: save all files as UTF-8."
            )
    return encoding


def _encoding_of(file: Path) -> str | None:
    with _opened(file) as stream:
        head = stream.read(4)
    if head.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return "utf-32"
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if _decodes(file, "utf-8"):
        return None
    cure = "name its encoding with --encoding, such as --encoding cp1250"
    if b"\0" in head:
        raise InputError(
            f"{file.name} is not UTF-8, perhaps UTF-16 without its mark: try --encoding utf-16-le."
        )
    if not _decodes(file, WESTERN):
        raise InputError(f"{file.name} is neither UTF-8 nor {WESTERN} (Western European): {cure}.")
    if not _looks_western(file):
        raise InputError(
            f"{file.name} is not UTF-8, and does not read as {WESTERN} (Western European): {cure}."
        )
    return WESTERN


def _opened(file: Path) -> IO[bytes]:
    with file.open("rb") as stream:
        magic = stream.read(2)
    return gzip.open(file) if magic == b"\x1f\x8b" else file.open("rb")  # type: ignore[return-value]


def _decodes(file: Path, encoding: str) -> bool:
    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        with _opened(file) as stream:
            while chunk := stream.read(CHUNK_BYTES):
                decoder.decode(chunk)
        decoder.decode(b"", final=True)
    except (UnicodeDecodeError, EOFError, OSError):
        return False
    return True


def _looks_western(file: Path) -> bool:
    """Whether few of a file's letters beyond ASCII stand three in a row, and few signs are within words."""
    letters = unlikely = 0
    with _opened(file) as stream:
        while chunk := stream.read(CHUNK_BYTES):
            words = re.findall(rb"[\xc0-\xff]+", chunk)
            letters += sum(len(word) for word in words)
            unlikely += sum(len(word) for word in words if len(word) > 2)
            # but for the point of Catalan
            unlikely += len(re.findall(rb"[A-Za-z][\xa1-\xb6\xb8-\xbf][A-Za-z]", chunk))
    return unlikely <= MOST_UNLIKELY * max(letters, 1)


# ------------------------------------------------------------------------------------------- inferring


def infer_forms(
    open_table: Open, given: Mapping[str, Any], delimiter: str | None, encoding: str | None
) -> TableForms:
    """Find the decimal marks and the orders of dates of a table, column by column over all of its values.

    - `open_table`: opens the table, read without any form
    - `given`: forms that are stated, which are taken as they are
    - `delimiter`: of a CSV file; None for other formats
    - `encoding`: of a CSV file, None for UTF-8, for the sentence that says so

    Raises `InputError` for a column that mixes forms, or that has two readings.
    """
    keys: dict[str, Any] = {}
    notes: list[str] = []
    if encoding is not None and given.get("encoding") is None:
        keys["encoding"] = encoding
        notes.append(
            f"the file is not UTF-8: read as {encoding}; state another encoding with --encoding (table.encoding)"
        )
    numbers, dates = _count_forms(open_table, ())
    if given.get("decimal") is None:
        decimal = _decimal_form(open_table, numbers, delimiter)
        if decimal is not None:
            keys["decimal"] = decimal
            notes.append(f"{_decimal_note(keys['decimal'])}; state another with --decimal (table.decimal)")
    if given.get("dates") is None:
        orders = _date_orders(dates)
        if orders:
            keys["dates"] = _shortened(orders)
            named = ", ".join(f"{name} {order}" for name, order in orders.items())
            notes.append(f"dates are read as: {named}; state another order with --dates (table.dates)")
    return TableForms(keys, notes, _partly(numbers, dates))


def _partly(numbers: Mapping[str, NumberForms], dates: Mapping[str, DateForms]) -> dict[str, str]:
    """What keeps columns from being read as numbers, or as dates."""
    columns: dict[str, str] = {}
    for what, counted in (("number", numbers), ("date", dates)):
        for name, forms in counted.items():
            if forms.other.count:
                columns[name] = (
                    f"{forms.other.count:,} of {forms.values:,} values of {name} are no {what} "
                    f"(first in line {_line(forms.other.row)})"
                )
    return columns


def _count_forms(
    open_table: Open, as_text: Collection[str]
) -> tuple[dict[str, NumberForms], dict[str, DateForms]]:
    """Count how values are written in every column of text that may be one of numbers or dates."""
    with open_table(as_text) as blocks:
        names = [
            item.name
            for item in blocks.schema
            if _is_text(item.type) and (not as_text or item.name in as_text)
        ]
        probes = {name: _Probe(name) for name in names}
        for block in blocks:
            for probe in probes.values():
                probe.add(block.column(block.schema.get_field_index(probe.name)))
    numbers = {name: probe.numbers for name, probe in probes.items() if probe.numbers.is_numeric}
    dates = {name: probe.dates for name, probe in probes.items() if probe.dates.is_dated}
    return numbers, dates


class _Probe:
    """Counts of one column, given up once its first values are neither numbers nor dates."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.numbers = NumberForms(name)
        self.dates = DateForms(name)
        self.counts_numbers = True
        self.counts_dates = True

    def add(self, values: pa.Array) -> None:
        values = values.cast(pa.string())
        for part in (values[:PROBED_VALUES], values[PROBED_VALUES:]):
            if self.counts_numbers:
                self.numbers.add(part, MISSING)
                self.counts_numbers = self._may_be(self.numbers.numbers, self.numbers.values)
            if self.counts_dates:
                self.dates.add(part, MISSING)
                self.counts_dates = self._may_be(self.dates.dates + self.dates.iso.count, self.dates.values)

    @staticmethod
    def _may_be(count: int, values: int) -> bool:
        return count >= PROBED_SHARE * values


def _decimal_form(open_table: Open, texts: Mapping[str, NumberForms], delimiter: str | None) -> Forms:
    """The decimal mark to state: for all columns, or by column where they differ; None if none is needed."""
    suspected = any(forms.comma.count or forms.grouped.count for forms in texts.values())
    columns = dict(texts)
    if suspected or delimiter not in (None, ","):
        with open_table(()) as blocks:
            floats = [item.name for item in blocks.schema if pa.types.is_floating(item.type)]
        if floats:
            columns |= _count_forms(open_table, floats)[0]
    marks = _marks(columns, delimiter)
    unreadable = [name for name, forms in texts.items() if not _is_readable(forms, delimiter)]
    if COMMA not in marks.values():
        return POINT if unreadable else None
    if POINT not in marks.values():
        return COMMA
    stated = {name: mark for name, mark in marks.items() if mark == COMMA}
    for name in unreadable:
        stated.setdefault(name, POINT)
    return stated


def _is_readable(forms: NumberForms, delimiter: str | None) -> bool:
    """Whether a contract reads a column of numbers as it stands, if their decimal mark is a point."""
    two_readings = forms.grouped.count and delimiter not in (None, ",")
    return forms.plain.count >= forms.numbers and not two_readings


def _marks(columns: Mapping[str, NumberForms], delimiter: str | None) -> dict[str, str]:
    """Decimal marks of the columns that have one. Raises `InputError` where one is mixed or unclear."""
    marks: dict[str, str] = {}
    unclear: list[NumberForms] = []
    for name, forms in columns.items():
        if forms.comma.count and forms.point.count:
            raise InputError(
                f"the column {name!r} mixes numbers with a decimal comma (first in line "
                f"{_line(forms.comma.row)}) and with a decimal point (line {_line(forms.point.row)}): "
                "write one of them."
            )
        if forms.comma.count:
            marks[name] = COMMA
        elif forms.point.count:
            marks[name] = POINT
        elif forms.either.count:
            unclear.append(forms)
    proven = set(marks.values())
    for forms in unclear:
        marks[forms.name] = _open_mark(forms, proven, delimiter)
    return marks


def _open_mark(forms: NumberForms, proven: set[str], delimiter: str | None) -> str:
    """Mark of a column whose values have two readings, by the other columns of the file.

    Raises `InputError` if these do not tell.
    """
    if len(proven) == 1:
        return next(iter(proven))
    if not proven and delimiter in (None, ","):
        return POINT
    example = "14,168" if forms.grouped.count else "1.234"
    raise InputError(
        f"the column {forms.name!r} has two readings (line {_line(forms.either.row)} is written like {example}: a "
        f"decimal mark, or thousands?): state the mark with --decimal comma or --decimal point (table.decimal)."
    )


def _shortened(forms: Mapping[str, str]) -> Forms:
    """One form for all columns where they agree, else by column."""
    values = set(forms.values())
    return values.pop() if len(values) == 1 else dict(forms)


def _decimal_note(decimal: Forms) -> str:
    if not isinstance(decimal, Mapping):
        return f"numbers are read with a decimal {decimal}"
    names = ", ".join(name for name, mark in decimal.items() if mark == COMMA)
    return f"numbers are read with a decimal comma in {names}, and with a decimal point elsewhere"


def _date_orders(columns: Mapping[str, DateForms]) -> dict[str, str]:
    """Orders of day and month by column. Raises `InputError` for a column that mixes them or has two readings."""
    orders: dict[str, str] = {}
    open_columns: list[DateForms] = []
    for name, forms in columns.items():
        if forms.short.count:
            raise InputError(
                f"the column {name!r} has dates with two digits for the year (first in line "
                f"{_line(forms.short.row)}): write four, such as 31.01.2024."
            )
        seen = {DAY_FIRST: forms.day_first, MONTH_FIRST: forms.month_first, YEAR_FIRST: forms.year_first}
        present = [order for order, part in seen.items() if part.count]
        if len(present) > 1:
            places = [f"{order} in line {_line(seen[order].row)}" for order in present[:2]]
            raise InputError(f"the column {name!r} mixes dates: {' and '.join(places)}: write one of them.")
        if present:
            orders[name] = present[0]
        elif forms.dotted.count:
            orders[name] = DAY_FIRST
        else:
            open_columns.append(forms)
    proven = set(orders.values()) - {YEAR_FIRST}
    for forms in open_columns:
        if len(proven) != 1:
            raise InputError(
                f"the dates of the column {forms.name!r} have two readings (line {_line(forms.either.row)} is written "
                "like 02/03/2024): state --dates day-first or --dates month-first (table.dates)."
            )
        orders[forms.name] = next(iter(proven))
    return orders


def _line(row: int) -> str:
    """Number of a row's line, the header being the first."""
    return f"{row + 2:,}"


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


# ------------------------------------------------------------------------------------------- applying


@dataclass(frozen=True)
class _Change:
    """How one column is rewritten."""

    name: str
    form: str  # a decimal mark, or an order of day and month
    is_date: bool
    kind: pa.DataType  # the column's type afterwards

    def apply(self, values: pa.Array) -> pa.Array:
        text = values.cast(pa.string())
        plain = iso_dates(text, self.form) if self.is_date else plain_numbers(text, self.form)
        blank = pc.equal(pc.utf8_trim_whitespace(plain), "")
        plain = pc.if_else(blank, pa.scalar(None, pa.string()), plain)
        return plain.cast(self.kind)


def in_plain_forms(open_table: Open, name: str, decimal: Forms, dates: Forms) -> pa.RecordBatchReader:
    """Open a table with numbers and dates of the given forms in their plain form, and typed where all values are.

    A column is rewritten if most of its values are numbers, or dates; of these, what is neither stays text, which a
    contract refuses. Raises `InputError` if a form names no column, or numbers have the other decimal mark.
    """
    with open_table(()) as blocks:
        schema = blocks.schema
    for key, forms in (("decimal", decimal), ("dates", dates)):
        unknown = (
            [] if not isinstance(forms, Mapping) else [item for item in forms if item not in schema.names]
        )
        if unknown:
            raise InputError(f"table.{key} names the column {unknown[0]!r}, which {name} lacks: correct it.")
    # a reader takes 1.234 for a number with a decimal point
    floats = [
        item.name
        for item in schema
        if pa.types.is_floating(item.type) and form_of(decimal, item.name) == COMMA
    ]
    changes = _changes(open_table, floats, name, decimal, dates)
    texts = [item for item in floats if item in changes]
    fields = [item.with_type(changes[item.name].kind) if item.name in changes else item for item in schema]
    plain = pa.schema(fields)

    def blocks_of() -> Iterator[pa.RecordBatch]:
        with open_table(texts) as opened:
            for block in opened:
                columns = [
                    changes[item].apply(values) if item in changes else values
                    for item, values in zip(block.schema.names, block.columns, strict=True)
                ]
                yield pa.RecordBatch.from_arrays(columns, schema=plain)

    return pa.RecordBatchReader.from_batches(plain, blocks_of())


def _changes(
    open_table: Open, floats: Sequence[str], name: str, decimal: Forms, dates: Forms
) -> dict[str, _Change]:
    """Tell which columns are rewritten, and the types that they then have."""
    numbers, dated = _count_forms(open_table, ())
    if floats:
        numbers |= _count_forms(open_table, floats)[0]
    changes: dict[str, _Change] = {}
    for column, forms in numbers.items():
        mark = form_of(decimal, column)
        if mark is None:
            continue
        wrong = forms.point if mark == COMMA else forms.comma
        if wrong.count:
            raise _other_mark(column, name, _line(wrong.row), wrong.count, mark, "table")
        changes[column] = _Change(column, mark, False, _number_kind(forms, mark))
    for column, written in dated.items():
        order = form_of(dates, column)
        if order is not None and column not in changes:
            changes[column] = _Change(column, order, True, _date_kind(written, order))
    return changes


def _number_kind(forms: NumberForms, mark: str) -> pa.DataType:
    """Type of a column of numbers; text where some values are none."""
    if forms.other.count or forms.spelled.count:
        return pa.string()
    fractions = forms.with_comma if mark == COMMA else forms.with_point
    return pa.float64() if fractions.count or forms.large.count else pa.int64()


def _date_kind(forms: DateForms, order: str) -> pa.DataType:
    """Type of a column of dates; text where some values are of another order, none, or have a time."""
    parts = {
        DAY_FIRST: (forms.day_first, forms.dotted, forms.either),
        MONTH_FIRST: (forms.month_first, forms.dotted, forms.either),
        YEAR_FIRST: (forms.year_first,),
    }
    fitting = sum(part.count for part in parts[order]) + forms.iso.count
    if fitting < forms.values or forms.spelled.count or forms.timed.count:
        return pa.string()
    return pa.date32()


def _other_mark(column: str, name: str, line: str, count: int, mark: str, section: str) -> InputError:
    other = POINT if mark == COMMA else COMMA
    more = f" (and {count - 1:,} more)" if count > 1 else ""
    return InputError(
        f"the column {column!r} of {name} has a number with a decimal {other} in line {line}{more}, but "
        f"{section}.decimal is {mark}: write one mark, or give {section}.decimal by column, as in "
        f"{{{column}: {other}}}."
    )


# ------------------------------------------------------------------------------------------- batches of a file


@dataclass(frozen=True)
class Wanted:
    """The forms of a file's numbers and dates, and the logical types of its columns."""

    decimal: Forms
    dates: Forms
    kinds: Mapping[str, str]


def rewrite_batch(
    batch: pa.RecordBatch, wanted: Wanted, first_row: int, name: str, section: str
) -> pa.RecordBatch:
    """Rewrite the numbers and dates of a batch of text.

    `first_row` of the file is the batch's first. Raises `InputError` for a number with the other decimal mark.
    """
    columns = []
    for column, values in zip(batch.schema.names, batch.columns, strict=True):
        kind = wanted.kinds.get(column, "")
        mark = form_of(wanted.decimal, column)
        order = form_of(wanted.dates, column)
        in_dictionary = pa.types.is_dictionary(values.type)
        text = values.cast(values.type.value_type) if in_dictionary else values
        if not _is_text(text.type):
            columns.append(values)
            continue
        if kind in ("integer", "number") and mark is not None:
            wrong = in_other_form(text, mark)
            count = pc.sum(wrong).as_py() or 0
            if count:
                line = _line(first_row + pc.index(wrong, True).as_py())
                raise _other_mark(column, name, line, count, mark, section)
            text = plain_numbers(text, mark)
        elif kind == "date" and order is not None:
            text = iso_dates(text, order)
        columns.append(text.dictionary_encode().cast(values.type) if in_dictionary else text)
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def refuse_two_readings(
    batch: pa.RecordBatch, kinds: Mapping[str, str], first_row: int, name: str, section: str
) -> None:
    """Raise `InputError` for a number like 14,168, whose comma is a decimal mark or separates thousands."""
    for column, values in zip(batch.schema.names, batch.columns, strict=True):
        if kinds.get(column) not in ("integer", "number") or not _is_text(values.type):
            continue
        unclear = has_two_readings(values)
        if pc.any(unclear).as_py():
            row = first_row + pc.index(unclear, True).as_py()
            raise two_readings(column, name, row, section)


def two_readings(column: str, name: str, row: int, section: str) -> InputError:
    """The error for a column of numbers such as 14,168."""
    return InputError(
        f"the column {column!r} of {name} has two readings (line {_line(row)} is written like 14,168: a decimal "
        f"comma, or thousands?): set {section}.decimal to comma or point."
    )


def checked_blocks(
    blocks: Iterator[pa.RecordBatch], schema: pa.Schema, name: str
) -> Iterator[pa.RecordBatch]:
    """Give blocks of a file whose delimiter is no comma, and refuse columns of numbers that have two readings.

    A column is refused if all of its numbers may be read either way. It raises `InputError` after the last block.
    """
    probes = [_Probe(item.name) for item in schema if _is_text(item.type)]
    for probe in probes:
        probe.counts_dates = False
    for block in blocks:
        for probe in probes:
            if probe.counts_numbers:
                probe.add(block.column(block.schema.get_field_index(probe.name)))
        yield block
    for probe in probes:
        forms = probe.numbers
        if forms.is_numeric and forms.grouped.count and not forms.comma.count and not forms.point.count:
            raise two_readings(forms.name, name, forms.grouped.row, "table")


def refuse_unread_numbers(table: pa.Table) -> None:
    """Raise `InputError` for a column of numbers with decimal commas, which was read as text."""
    for column in table.column_names:
        if not _is_text(table[column].type):
            continue
        forms = NumberForms(column)
        for part in table[column].chunks:
            forms.add(part.cast(pa.string()), MISSING)
        if forms.is_numeric and forms.comma.count:
            raise InputError(
                f"the column {column!r} holds numbers with a decimal comma (first in line {_line(forms.comma.row)}): "
                "set table.decimal to comma (--set table.decimal=comma)."
            )
