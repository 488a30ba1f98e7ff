"""How a table's text is written: its decimal marks and orders of day and month, inferred."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

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
    iso_dates,
    plain_numbers,
)
from evenhand.data_contracts.spellings import Spellings
from evenhand.data_contracts.values import MISSING_TEXTS
from evenhand.tasks.errors import InputError

# First values of a column, and the smallest share of them that are numbers or dates, for a look at
# all of its values.
PROBED_VALUES = 1000
PROBED_SHARE = 0.3
SHOWN_VALUES = 5
TWO_READINGS = re.compile(r"[+-]?[1-9]\d{0,2}[.,]\d{3}|\d{1,2}[/-]\d{1,2}[/-]\d{4}")
MISSING = pa.array(sorted(MISSING_TEXTS))

Open = Callable[[Collection[str]], pa.RecordBatchReader]
"""Opens a table, with the given columns of numbers as text."""


@dataclass(frozen=True)
class Preview:
    """Values of a column before and after they are read."""

    column: str
    before: list[str]
    after: list[str]


@dataclass(frozen=True)
class TableForms:
    """What was inferred of a table's text, as keys of a job's ``table``, and sentences about it."""

    keys: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    # columns of numbers, or dates, with other values too
    partly: dict[str, str] = field(default_factory=dict)
    previews: list[Preview] = field(default_factory=list)
    repeated: frozenset[str] = frozenset()  # names that the header has more than once
    # by column and value, other values that seem to be the same
    spellings: Spellings = field(default_factory=dict)

    def joined(self, other: TableForms) -> TableForms:
        """Both, `self` first."""
        return TableForms(
            {**self.keys, **other.keys},
            [*self.notes, *other.notes],
            {**self.partly, **other.partly},
            [*self.previews, *other.previews],
            self.repeated | other.repeated,
        )


def infer_forms(open_table: Open, given: Mapping[str, Any], delimiter: str | None) -> TableForms:
    """Find how a table's numbers and dates are written, column by column over all of its values.

    - `open_table`: opens the table, read without any form
    - `given`: forms that are stated, which are taken as they are
    - `delimiter`: of a CSV file; None for other formats

    Raises `InputError` for a column that mixes forms, or that has two readings.
    """
    keys: dict[str, Any] = {}
    notes: list[str] = []
    numbers, dates = count_forms(open_table, ())
    decimal = given.get("decimal")
    if decimal is None:
        decimal = _decimal_form(open_table, numbers, delimiter)
        if decimal is not None:
            keys["decimal"] = decimal
            note = _decimal_note(decimal)
            notes.append(f"{note}; state another mark with --decimal (table.decimal)")
    orders = given.get("dates")
    if orders is None:
        by_column = _date_orders(dates)
        if by_column:
            orders = _shortened(by_column)
            keys["dates"] = orders
            described_orders = ", ".join(f"{name} {order}" for name, order in by_column.items())
            notes.append(
                f"dates are read as {described_orders}; state another order with --dates "
                "(table.dates)"
            )
    previews = _previews(open_table, list(numbers), list(dates), decimal, orders)
    return TableForms(keys, notes, _partly(numbers, dates), previews)


def _previews(
    open_table: Open,
    numbers: Sequence[str],
    dates: Sequence[str],
    decimal: Forms,
    orders: Forms,
) -> list[Preview]:
    """The first values that are rewritten, of each column of numbers or dates in text."""
    with open_table(()) as blocks:
        floats = [item.name for item in blocks.schema if pa.types.is_floating(item.type)]
    commas = [name for name in floats if form_of(decimal, name) == COMMA]
    if not numbers and not dates and not commas:
        return []
    with open_table(commas) as blocks:
        block = next(iter(blocks), None)
    previews: list[Preview] = []
    if block is None:
        return previews
    for name, text in zip(block.schema.names, block.columns, strict=True):
        if not is_text(text.type):
            continue
        if name in dates and name not in numbers:
            order = form_of(orders, name)
            if order is not None:
                previews.append(_preview(name, text, partial(iso_dates, order=order)))
        elif name in numbers or name in commas:
            mark = form_of(decimal, name) or POINT
            previews.append(_preview(name, text, partial(plain_numbers, mark=mark)))
    return [preview for preview in previews if preview.before]


def _preview(name: str, text: pa.Array, rewrite: Callable[[pa.Array], pa.Array]) -> Preview:
    """The first distinct values that rewriting changes, those with two readings before others."""
    distinct = pc.unique(text.cast(pa.string())).drop_null()[:PROBED_VALUES]
    after = rewrite(distinct)
    changes = []
    for before, plain in zip(distinct.to_pylist(), after.to_pylist(), strict=True):
        if before != plain:
            changes.append((before, plain))
    unclear = [change for change in changes if TWO_READINGS.fullmatch(change[0].strip())]
    plain_changes = [change for change in changes if change not in unclear]
    first = unclear[: SHOWN_VALUES - min(2, len(plain_changes))]
    examples = [*first, *plain_changes][:SHOWN_VALUES]
    return Preview(name, [before for before, _ in examples], [plain for _, plain in examples])


def _partly(numbers: Mapping[str, NumberForms], dates: Mapping[str, DateForms]) -> dict[str, str]:
    """What keeps columns from being read as numbers, or as dates."""
    columns: dict[str, str] = {}
    for what, counted in (("number", numbers), ("date", dates)):
        for name, forms in counted.items():
            if forms.other.count:
                columns[name] = (
                    f"{forms.other.count:,} of {forms.values:,} values of {name} are no {what} "
                    f"(first in line {line_of(forms.other.row)})"
                )
    return columns


class Probe:
    """Counts of one column, given up once its first values are neither numbers nor dates."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.numbers = NumberForms(name)
        self.dates = DateForms(name)
        self.counts_numbers = True
        self.counts_dates = True

    def add(self, values: pa.Array) -> None:
        """Count the values of a block."""
        if not self.counts_numbers and not self.counts_dates:
            return
        text = values.cast(pa.string())
        for part in (text[:PROBED_VALUES], text[PROBED_VALUES:]):
            if self.counts_numbers:
                self.numbers.add(part, MISSING)
                enough = PROBED_SHARE * self.numbers.values
                self.counts_numbers = self.numbers.numbers >= enough
            if self.counts_dates:
                self.dates.add(part, MISSING)
                enough = PROBED_SHARE * self.dates.values
                self.counts_dates = self.dates.dates + self.dates.iso.count >= enough


def count_forms(
    open_table: Open, as_text: Collection[str]
) -> tuple[dict[str, NumberForms], dict[str, DateForms]]:
    """Count how values are written in the columns of text that are numbers, and dates, for the most
    part.

    With `as_text` only in these columns, which are read as text.
    """
    with open_table(as_text) as blocks:
        names = [item.name for item in blocks.schema if is_text(item.type)]
        if as_text:
            names = [name for name in names if name in as_text]
        probes = [Probe(name) for name in names]
        for block in blocks:
            for probe in probes:
                probe.add(block.column(block.schema.get_field_index(probe.name)))
    numbers = {probe.name: probe.numbers for probe in probes if probe.numbers.is_numeric}
    dates = {probe.name: probe.dates for probe in probes if probe.dates.is_dated}
    return numbers, dates


# -------------------------------------------------------------------------------------------
# numbers


def _decimal_form(
    open_table: Open, texts: Mapping[str, NumberForms], delimiter: str | None
) -> Forms:
    """The decimal mark to state: for all columns, or by column where they differ; None: none is
    needed.
    """
    suspected = any(forms.comma.count or forms.grouped.count for forms in texts.values())
    columns = dict(texts)
    if suspected or delimiter not in (None, ","):
        with open_table(()) as blocks:
            floats = [item.name for item in blocks.schema if pa.types.is_floating(item.type)]
        if floats:
            columns |= count_forms(open_table, floats)[0]
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
    """Whether a contract reads a column of numbers as it stands, if their decimal mark is a
    point.
    """
    two_readings = forms.grouped.count and delimiter not in (None, ",")
    return forms.plain.count >= forms.numbers and not two_readings


def _marks(columns: Mapping[str, NumberForms], delimiter: str | None) -> dict[str, str]:
    """Decimal marks of the columns that have one; an `InputError` where one is mixed or unclear."""
    marks: dict[str, str] = {}
    unclear: list[NumberForms] = []
    for name, forms in columns.items():
        if forms.comma.count and forms.point.count:
            comma = line_of(forms.comma.row)
            point = line_of(forms.point.row)
            raise InputError(
                f"the column {name!r} mixes numbers with a decimal comma (first in line {comma}) "
                f"and with a decimal point (first in line {point}): write one of them."
            )
        if forms.comma.count:
            marks[name] = COMMA
        elif forms.point.count:
            marks[name] = POINT
        elif forms.either.count:
            mark = _mark_by_column(forms)
            if mark is None:
                unclear.append(forms)
            else:
                marks[name] = mark
    proven = set(marks.values())
    for forms in unclear:
        marks[forms.name] = _mark_by_others(forms, proven, delimiter)
    return marks


def _mark_by_column(forms: NumberForms) -> str | None:
    """Mark that the column's other numbers imply where all with a mark are like 14,168 or 1.234.

    Who writes 4500 groups no thousands, so the mark is decimal. Who writes 900 and 1,050 does: as a
    decimal fraction the zero at the end would be left out, or 900 be written as 900,000.
    """
    has_comma = forms.grouped.count > 0
    if has_comma and forms.grouped.count < forms.either.count:
        return None
    if forms.long_whole.count:
        return COMMA if has_comma else POINT
    if forms.whole.count and forms.round_either.count:
        return POINT if has_comma else COMMA
    return None


def _mark_by_others(forms: NumberForms, proven: set[str], delimiter: str | None) -> str:
    """Mark of a column whose values can be parsed in two ways: that of the table's other columns.

    Raises `InputError` if these do not determine it.
    """
    if len(proven) == 1:
        return next(iter(proven))
    if not proven and delimiter in (None, ","):
        return POINT
    example = "1.234"
    readings = "1.234 or 1234"
    if forms.grouped.count:
        example = "14,168"
        readings = "14.168 or 14168"
    line = line_of(forms.either.row)
    raise InputError(
        f"the column {forms.name!r} has two readings (line {line} is written like {example}, which "
        f"may be {readings}): state --decimal comma or --decimal point "
        "(table.decimal)."
    )


def _decimal_note(decimal: Forms) -> str:
    if not isinstance(decimal, Mapping):
        return f"numbers are read with a decimal {decimal}"
    names = ", ".join(name for name, mark in decimal.items() if mark == COMMA)
    return f"numbers are read with a decimal comma in {names}, and with a decimal point elsewhere"


# ------------------------------------------------------------------------------------------- dates


def _date_orders(columns: Mapping[str, DateForms]) -> dict[str, str]:
    """Orders of day and month by column; an `InputError` where one is mixed or unclear."""
    orders: dict[str, str] = {}
    unclear: list[DateForms] = []
    for name, forms in columns.items():
        order = _proven_order(forms)
        if order is None:
            unclear.append(forms)
        else:
            orders[name] = order
    proven = set(orders.values()) - {YEAR_FIRST}
    for forms in unclear:
        if len(proven) != 1:
            line = line_of(forms.either.row)
            raise InputError(
                f"the dates of the column {forms.name!r} have two readings (line {line} is written "
                "like 02/03/2024): state --dates day-first or --dates month-first (table.dates)."
            )
        orders[forms.name] = next(iter(proven))
    return orders


def _proven_order(forms: DateForms) -> str | None:
    """Order of a column's dates by its own values; None if they have two readings."""
    if forms.short.count:
        line = line_of(forms.short.row)
        raise InputError(
            f"the column {forms.name!r} has dates with two digits for the year (first in line "
            f"{line}): write four, as in 31.01.2024."
        )
    rows_by_order = {
        DAY_FIRST: forms.day_first,
        MONTH_FIRST: forms.month_first,
        YEAR_FIRST: forms.year_first,
    }
    present = [order for order, part in rows_by_order.items() if part.count]
    if len(present) > 1:
        places = " and ".join(
            f"{order} in line {line_of(rows_by_order[order].row)}" for order in present
        )
        raise InputError(f"the column {forms.name!r} mixes dates: {places}: write one of them.")
    if present:
        return present[0]
    # nobody writes the month first with dots
    return DAY_FIRST if forms.dotted.count else None


def _shortened(forms: Mapping[str, str]) -> Forms:
    """One form for all columns where they agree, else by column."""
    values = set(forms.values())
    return values.pop() if len(values) == 1 else dict(forms)


def line_of(row: int) -> str:
    """Number of a row's line, the header being the first."""
    return f"{row + 2:,}"


def is_text(kind: pa.DataType) -> bool:
    """Whether a column is one of text."""
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)
