"""Numbers and dates of a table's text in their plain form, as a contract reads them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

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
from evenhand.data_contracts.spellings import Spellings, joined
from evenhand.tasks.errors import InputError
from evenhand.tasks.sources.table_forms import MISSING, Open, Probe, count_forms, is_text, line_of


@dataclass(frozen=True)
class _Change:
    """How one column is rewritten."""

    form: str  # a decimal mark, or an order of day and month
    is_date: bool
    kind: pa.DataType  # the column's type afterwards

    def apply(self, values: pa.Array) -> pa.Array:
        """Rewrite the values of a block."""
        text = values.cast(pa.string())
        plain = iso_dates(text, self.form) if self.is_date else plain_numbers(text, self.form)
        if pa.types.is_string(self.kind):
            return plain
        blank = pc.equal(pc.utf8_trim_whitespace(plain), "")
        return pc.if_else(blank, pa.scalar(None, pa.string()), plain).cast(self.kind)


def in_plain_forms(
    open_table: Open, name: str, decimal: Forms, dates: Forms
) -> pa.RecordBatchReader:
    """Open a table with numbers and dates of the given forms in their plain form.

    A column is rewritten if most of its values are numbers, or dates. If all are, it has their
    type; otherwise it stays text, and a contract refuses the other values. Raises `InputError` if a
    form names no column, or numbers have the other decimal mark.
    """
    with open_table(()) as blocks:
        schema = blocks.schema
    _check_columns("decimal", decimal, schema, name)
    _check_columns("dates", dates, schema, name)
    # a reader takes 1.234 for a number with a decimal point
    floats = [item.name for item in schema if pa.types.is_floating(item.type)]
    floats = [column for column in floats if form_of(decimal, column) == COMMA]
    changes = _changes(open_table, floats, name, decimal, dates)
    as_text = [column for column in floats if column in changes]
    plain = schema
    for column, change in changes.items():
        place = schema.get_field_index(column)
        plain = plain.set(place, schema.field(place).with_type(change.kind))

    def plain_blocks() -> Iterator[pa.RecordBatch]:
        with open_table(as_text) as opened:
            for block in opened:
                columns = dict(zip(block.schema.names, block.columns, strict=True))
                for column, change in changes.items():
                    columns[column] = change.apply(columns[column])
                yield pa.RecordBatch.from_arrays(list(columns.values()), schema=plain)

    return pa.RecordBatchReader.from_batches(plain, plain_blocks())


def in_joined_spellings(
    reader: pa.RecordBatchReader, spellings: Spellings, name: str
) -> pa.RecordBatchReader:
    """A table in which spellings of a category are the value that they stand for.

    Raises `InputError` for a column that the table lacks, or that holds no text.
    """
    schema = reader.schema
    for column in spellings:
        if column not in schema.names:
            raise InputError(
                f"table.spellings names the column {column!r}, which {name} lacks: correct it."
            )
    blocks = (join_spellings(block, spellings) for block in reader)
    kinds = join_spellings(pa.RecordBatch.from_pylist([], schema=schema), spellings).schema
    return pa.RecordBatchReader.from_batches(kinds, blocks)


def join_spellings(batch: pa.RecordBatch, spellings: Spellings) -> pa.RecordBatch:
    """Replace spellings in the text columns of a batch; dictionaries stay dictionaries."""
    columns = []
    for name, values in zip(batch.schema.names, batch.columns, strict=True):
        in_dictionary = pa.types.is_dictionary(values.type)
        text = values.cast(values.type.value_type) if in_dictionary else values
        if name not in spellings or not is_text(text.type):
            columns.append(values)
            continue
        text = joined(text, spellings[name])
        columns.append(text.dictionary_encode().cast(values.type) if in_dictionary else text)
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _check_columns(key: str, forms: Forms, schema: pa.Schema, name: str) -> None:
    """Raise `InputError` if a form is that of a column that is not there."""
    if not isinstance(forms, Mapping):
        return
    for column in forms:
        if column not in schema.names:
            raise InputError(
                f"table.{key} names the column {column!r}, which {name} lacks: correct it."
            )


def _changes(
    open_table: Open, floats: Sequence[str], name: str, decimal: Forms, dates: Forms
) -> dict[str, _Change]:
    """Find the columns that are rewritten, and the types that they then have."""
    numbers, dated = count_forms(open_table, ())
    if floats:
        numbers |= count_forms(open_table, floats)[0]
    changes: dict[str, _Change] = {}
    for column, forms in numbers.items():
        mark = form_of(decimal, column)
        if mark is None:
            continue
        wrong = forms.point if mark == COMMA else forms.comma
        if wrong.count:
            raise _other_mark(column, name, line_of(wrong.row), wrong.count, mark, "table")
        changes[column] = _Change(mark, False, _number_kind(forms, mark))
    for column, written in dated.items():
        order = form_of(dates, column)
        if order is not None and column not in changes:
            changes[column] = _Change(order, True, _date_kind(written, order))
    return changes


def _number_kind(forms: NumberForms, mark: str) -> pa.DataType:
    """Type of a column of numbers; text where some values are none."""
    if forms.other.count or forms.spelled.count:
        return pa.string()
    fractions = forms.with_comma if mark == COMMA else forms.with_point
    return pa.float64() if fractions.count or forms.large.count else pa.int64()


def _date_kind(forms: DateForms, order: str) -> pa.DataType:
    """Type of a column of dates; text where some are none, of another order, or have a time."""
    parts = {
        DAY_FIRST: (forms.day_first, forms.dotted, forms.either),
        MONTH_FIRST: (forms.month_first, forms.dotted, forms.either),
        YEAR_FIRST: (forms.year_first,),
    }
    fitting = sum(part.count for part in parts[order])
    if fitting < forms.values or forms.spelled.count or forms.timed.count:
        return pa.string()
    return pa.date32()


def _other_mark(
    column: str, name: str, line: str, count: int, mark: str, section: str
) -> InputError:
    other_mark = POINT if mark == COMMA else COMMA
    more = f" (and {count - 1:,} more)" if count > 1 else ""
    return InputError(
        f"the column {column!r} of {name} has a number with a decimal {other_mark} in line "
        f"{line}{more}, "
        f"but {section}.decimal is {mark}: write one mark, or give {section}.decimal by column, as "
        "in "
        f"{{{column}: {other_mark}}}."
    )


# ----------------------------------------------------------------------------------- batches of a
# file


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

    `first_row` of the file is the batch's first. Raises `InputError` for a number with the other
    mark.
    """
    columns = []
    for column, values in zip(batch.schema.names, batch.columns, strict=True):
        kind = wanted.kinds.get(column, "")
        mark = form_of(wanted.decimal, column)
        order = form_of(wanted.dates, column)
        in_dictionary = pa.types.is_dictionary(values.type)
        text = values.cast(values.type.value_type) if in_dictionary else values
        is_number = kind in ("integer", "number") and mark is not None
        is_date = kind == "date" and order is not None
        if not is_text(text.type) or not (is_number or is_date):
            columns.append(values)
            continue
        if is_number:
            _check_mark(column, text, str(mark), first_row, name, section)
            text = plain_numbers(text, str(mark))
        else:
            text = iso_dates(text, str(order))
        columns.append(text.dictionary_encode().cast(values.type) if in_dictionary else text)
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _check_mark(
    column: str, text: pa.Array, mark: str, first_row: int, name: str, section: str
) -> None:
    wrong = in_other_form(text, mark)
    count = pc.sum(wrong).as_py() or 0
    if count:
        line = line_of(first_row + pc.index(wrong, True).as_py())
        raise _other_mark(column, name, line, count, mark, section)


def refuse_two_readings(
    batch: pa.RecordBatch, kinds: Mapping[str, str], first_row: int, name: str, section: str
) -> None:
    """Raise `InputError` for a number like 14,168, whose comma may be decimal or separate
    thousands.
    """
    for column, values in zip(batch.schema.names, batch.columns, strict=True):
        if kinds.get(column) not in ("integer", "number") or not is_text(values.type):
            continue
        unclear = has_two_readings(values)
        if pc.any(unclear).as_py():
            row = first_row + pc.index(unclear, True).as_py()
            raise _two_readings(column, name, row, section)


def _two_readings(column: str, name: str, row: int, section: str) -> InputError:
    return InputError(
        f"the column {column!r} of {name} has two readings (line {line_of(row)} is written like "
        f"14,168: a decimal comma, or thousands?): set {section}.decimal to comma or point."
    )


def checked_blocks(
    blocks: Iterator[pa.RecordBatch], schema: pa.Schema, name: str
) -> Iterator[pa.RecordBatch]:
    """Give the blocks of a file whose delimiter is no comma.

    Raises `InputError`, after the last block, for a column of numbers that may all be read either
    way.
    """
    probes = [Probe(item.name) for item in schema if is_text(item.type)]
    for probe in probes:
        probe.counts_dates = False
    for block in blocks:
        for probe in probes:
            probe.add(block.column(block.schema.get_field_index(probe.name)))
        yield block
    for probe in probes:
        forms = probe.numbers
        is_proven = forms.comma.count or forms.point.count
        if forms.is_numeric and forms.grouped.count and not is_proven:
            raise _two_readings(forms.name, name, forms.grouped.row, "table")


def refuse_unread_numbers(table: pa.Table) -> None:
    """Raise `InputError` for a column of numbers with decimal commas, which was read as text."""
    for column in table.column_names:
        if not is_text(table[column].type):
            continue
        forms = NumberForms(column)
        for part in table[column].chunks:
            forms.add(part.cast(pa.string()), MISSING)
        if forms.is_numeric and forms.comma.count:
            line = line_of(forms.comma.row)
            raise InputError(
                f"the column {column!r} holds numbers with a decimal comma (first in line {line}): "
                "add --set table.decimal=comma."
            )
