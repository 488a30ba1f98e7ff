"""Sheets of Excel and LibreOffice files as tables: one type for each column, by all of its
cells.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from evenhand.data_contracts.forms import COMMA, POINT, NumberForms, plain_numbers
from evenhand.data_contracts.values import MISSING_TEXTS
from evenhand.tasks.errors import InputError
from evenhand.tasks.sources.headers import NUMBERED, check_unique, column_name, numbered_names

ENDINGS = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")
# Whole numbers above it are not exact in a sheet, whose numbers are doubles.
EXACT = 2**53
Rows = list[list[Any]]


@dataclass(frozen=True)
class Sheet:
    """Cells of a sheet: the header's texts, and the rows below it that are not empty."""

    name: str
    others: tuple[str, ...]  # the file's other sheets
    is_only_one: bool  # whether no other sheet has rows below a header
    header: list[str]
    rows: Rows


def read_sheet(path: Path, file_name: str, sheet_choice: str | int | None = None) -> Sheet:
    """Read the chosen sheet of a file, by default the first one with rows below its header.

    - `file_name`: the file's name, for messages
    - `sheet_choice`: name of the sheet, or its number from 1

    Raises `InputError` if the file is damaged or has a password, or there is no such sheet.
    """
    from python_calamine import CalamineError, CalamineWorkbook

    from evenhand.tasks.sources.workbook_limits import check_workbook

    try:
        check_workbook(path, file_name)
        book = CalamineWorkbook.from_path(str(path))
        names = list(book.sheet_names)
        chosen = _sheet_name(names, file_name, sheet_choice)
        filled = {}
        for name in names:
            if sheet_choice is None or name == chosen:
                filled[name] = _filled(book.get_sheet_by_name(name).to_python())
    except (CalamineError, OSError) as error:
        raise InputError(
            f"{file_name} cannot be read as Excel ({type(error).__name__}): save it again as "
            ".xlsx, without a password."
        ) from None
    except BaseException as error:
        # the library's panics are no `Exception`
        if type(error).__name__ != "PanicException":
            raise
        raise InputError(f"{file_name} is damaged: save it again as .xlsx.") from None
    with_rows = [name for name, rows in filled.items() if len(rows) > 1]
    if sheet_choice is None and with_rows:
        chosen = with_rows[0]
    cells = filled[chosen]
    if not cells:
        raise InputError(
            f"the sheet {chosen!r} of {file_name} is empty: name another with --sheet."
        )
    width = max(_width(row) for row in cells)
    header = [_text(cell) for cell in _padded(cells[0], width)]
    rows = [_padded(row, width) for row in cells[1:]]
    other_sheets = tuple(name for name in names if name != chosen)
    return Sheet(chosen, other_sheets, not set(with_rows) & set(other_sheets), header, rows)


def sheet_table(sheet: Sheet, file_name: str, headers: str | None) -> pa.Table:
    """A sheet as a table.

    With the headers ``numbered`` empty and repeated names get numbers; otherwise a name that occurs
    twice is an `InputError`.
    """
    if headers == NUMBERED:
        names = numbered_names(sheet.header)
    else:
        names = [column_name(name) for name in sheet.header]
        check_unique(names, f"the sheet {sheet.name!r} of {file_name}")
    arrays = []
    for place in range(len(names)):
        arrays.append(column_of([row[place] for row in sheet.rows]))
    return pa.Table.from_arrays(arrays, names=names)


def column_of(cells: Sequence[Any]) -> pa.Array:
    """Cells of a column as an array of one type.

    Texts for missing values do not count among numbers and dates, nor do texts of numbers among
    numbers. A column of other texts is one of text, in which numbers and dates are written as in a
    CSV file.
    """
    holding = [cell for cell in cells if not _is_blank(cell) and not _is_missing_text(cell)]
    shared = _shared_type(holding)
    if shared is not None:
        convert, kind = shared
        return _typed(cells, convert, kind)
    numbers = _numbers_and_texts(holding)
    if numbers is not None:
        return _typed(cells, lambda cell: numbers[cell], pa.float64())
    texts = []
    for cell in cells:
        texts.append(None if _is_blank(cell) else _text(cell))
    return pa.array(texts, pa.string())


def _shared_type(cells: Sequence[Any]) -> tuple[Callable[[Any], Any], pa.DataType] | None:
    """The type that all cells have, and what converts a cell to it; None where they have none in
    common, or are texts.
    """
    if not cells:
        return None
    if all(isinstance(cell, bool) for cell in cells):
        return bool, pa.bool_()
    if all(_is_number(cell) for cell in cells):
        are_whole = all(float(cell).is_integer() and abs(cell) < EXACT for cell in cells)
        return (int, pa.int64()) if are_whole else (float, pa.float64())
    if all(isinstance(cell, dt.date) for cell in cells):
        have_times = any(_has_time(cell) for cell in cells)
        return (_as_datetime, pa.timestamp("us")) if have_times else (_as_date, pa.date32())
    return None


def _numbers_and_texts(cells: Sequence[Any]) -> dict[Any, float] | None:
    """The number of each cell where some cells are numbers, and the others texts of numbers; None
    for other cells, and where a text may be read in two ways.
    """
    values: dict[Any, float] = {}
    texts: list[str] = []
    for cell in cells:
        if _is_number(cell):
            values[cell] = float(cell)
        elif isinstance(cell, str):
            texts.append(cell)
        else:
            return None
    if not values or not texts:
        return None
    forms = NumberForms("")
    forms.add(pa.array(texts, pa.string()), pa.array([], pa.string()))
    unclear = forms.other.count or forms.either.count or forms.code.count
    if unclear or (forms.comma.count and forms.point.count):
        return None
    mark = COMMA if forms.comma.count else POINT
    plain = plain_numbers(pa.array(texts, pa.string()), mark)
    for text, number in zip(texts, plain.cast(pa.float64()).to_pylist(), strict=True):
        values[text] = number
    return values


def _sheet_name(names: Sequence[str], file_name: str, sheet_choice: str | int | None) -> str:
    """Name of the chosen sheet; of the first one where none is chosen."""
    if not names:
        raise InputError(f"{file_name} has no sheet: save it again.")
    if sheet_choice is None:
        return names[0]
    if str(sheet_choice) in names:
        return str(sheet_choice)
    number = str(sheet_choice)
    if number.isdecimal() and 1 <= int(number) <= len(names):
        return names[int(number) - 1]
    listed = ", ".join(map(repr, names))
    raise InputError(
        f"{file_name} has no sheet {sheet_choice!r}: name one of {listed} with --sheet "
        "(table.sheet)."
    )


def _filled(rows: Rows) -> Rows:
    """The rows with a cell that is not empty."""
    return [row for row in rows if any(not _is_blank(cell) for cell in row)]


def _width(row: Sequence[Any]) -> int:
    """Number of cells up to the last one that is not empty."""
    width = 0
    for place, cell in enumerate(row, start=1):
        if not _is_blank(cell):
            width = place
    return width


def _padded(row: Sequence[Any], width: int) -> list[Any]:
    return [*row[:width], *[""] * (width - len(row))]


def _is_blank(cell: Any) -> bool:
    return cell is None or (isinstance(cell, str) and not cell.strip())


def _is_missing_text(cell: Any) -> bool:
    return isinstance(cell, str) and cell.strip().lower() in MISSING_TEXTS


def _is_number(cell: Any) -> bool:
    return isinstance(cell, int | float) and not isinstance(cell, bool)


def _has_time(cell: dt.date) -> bool:
    return isinstance(cell, dt.datetime) and cell.time() != dt.time()


def _as_date(cell: dt.date) -> dt.date:
    if isinstance(cell, dt.datetime):
        return cell.date()
    return cell


def _as_datetime(cell: dt.date) -> dt.datetime:
    if isinstance(cell, dt.datetime):
        return cell
    return dt.datetime.combine(cell, dt.time())


def _typed(cells: Sequence[Any], convert: Callable[[Any], Any], kind: pa.DataType) -> pa.Array:
    """Convert the cells that hold a value; blank ones and texts for missing values become null."""
    values = []
    for cell in cells:
        is_missing = _is_blank(cell) or _is_missing_text(cell)
        values.append(None if is_missing else convert(cell))
    return pa.array(values, kind)


def _text(cell: Any) -> str:
    """A cell as people would write it into a CSV file."""
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < EXACT:
        return str(int(cell))
    if isinstance(cell, dt.datetime) and not _has_time(cell):
        return cell.date().isoformat()
    if isinstance(cell, dt.date | dt.time):
        return cell.isoformat(" ") if isinstance(cell, dt.datetime) else cell.isoformat()
    return str(cell)
