"""Tests of reading sheets: types by column, the choice of a sheet, headers, damaged files."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from evenhand.tasks.errors import InputError
from evenhand.tasks.sources.spreadsheets import column_of, read_sheet, sheet_table
from evenhand.tasks.sources.table_reader import infer_table_forms, open_table
from tests.workbooks import write_workbook

DAY = dt.date(2024, 3, 1)
ROWS = [["id", "born", "income", "city"], [1, DAY, 12.5, "Köln"], [2, None, None, "Bonn"]]


@pytest.mark.parametrize(
    ("cells", "kind", "values"),
    [
        ([1.0, 2.0, ""], pa.int64(), [1, 2, None]),
        ([1.0, 2.5], pa.float64(), [1.0, 2.5]),
        ([1.0, "k.A.", "-"], pa.int64(), [1, None, None]),
        ([1.5, "1.234,5", "-26,4"], pa.float64(), [1.5, 1234.5, -26.4]),
        ([1.5, "1,234.5"], pa.float64(), [1.5, 1234.5]),
        # 1,234 has two readings, and 01234 is a code: the column stays text
        ([1.5, "1,234"], pa.string(), ["1.5", "1,234"]),
        ([12345.0, "01234"], pa.string(), ["12345", "01234"]),
        ([True, False, ""], pa.bool_(), [True, False, None]),
        ([DAY, "", "n/a"], pa.date32(), [DAY, None, None]),
        ([DAY, dt.datetime(2024, 3, 2, 12, 30)], pa.timestamp("us"), None),
        (["a", 2.0, DAY, True], pa.string(), ["a", "2", "2024-03-01", "true"]),
        (["x", "x"], pa.string(), ["x", "x"]),
        (["", ""], pa.string(), [None, None]),
    ],
)
def test_a_column_has_one_type_by_all_of_its_cells(
    cells: list[Any], kind: pa.DataType, values: list[Any] | None
) -> None:
    column = column_of(cells)
    assert column.type == kind
    if values is not None:
        assert column.to_pylist() == values


def test_a_sheet_is_read_as_the_same_csv_file_is(tmp_path: Path) -> None:
    book = write_workbook(tmp_path / "people.xlsx", {"Daten": ROWS})
    (tmp_path / "people.csv").write_text("id,born,income,city\n1,2024-03-01,12.5,Köln\n2,,,Bonn\n")
    assert open_table(book, {}).read_all() == open_table(tmp_path / "people.csv", {}).read_all()


def test_the_first_sheet_with_rows_is_read_and_said(tmp_path: Path) -> None:
    sheets = {"Info": [["Report of 2024"]], "Daten": ROWS, "Alt": ROWS[:2]}
    book = write_workbook(tmp_path / "people.xlsx", sheets)
    forms = infer_table_forms(book, {})
    assert forms.keys == {"sheet": "Daten"}
    assert "the sheet 'Daten' is read" in forms.notes[0]
    assert "'Info', 'Alt'" in forms.notes[0]
    assert open_table(book, {}).read_all().num_rows == 2
    assert open_table(book, {"sheet": "Alt"}).read_all().num_rows == 1
    assert open_table(book, {"sheet": "3"}).read_all().num_rows == 1
    with pytest.raises(InputError, match="no sheet 'Data': name one of 'Info', 'Daten', 'Alt'"):
        open_table(book, {"sheet": "Data"})


def test_a_name_that_occurs_twice_gets_a_number_if_stated(tmp_path: Path) -> None:
    rows = [["a", None, "a", None], [1, 2, 3, 4]]
    book = write_workbook(tmp_path / "people.xlsx", {"Daten": rows})
    with pytest.raises(InputError, match="'a' occurs more than once"):
        open_table(book, {})
    forms = infer_table_forms(book, {})
    assert forms.keys == {"headers": "numbered"}
    assert forms.repeated == {"a", "unnamed"}
    table = open_table(book, forms.keys).read_all()
    assert table.column_names == ["a", "unnamed", "a_2", "unnamed_2"]


def test_empty_rows_and_columns_behind_the_table_are_no_part(tmp_path: Path) -> None:
    rows = [[None], ["a", "b", None], [1, 2, None], [None, None], [3, 4, "  "]]
    book = write_workbook(tmp_path / "people.xlsx", {"Daten": rows})
    sheet = read_sheet(book, "people.xlsx")
    assert sheet_table(sheet, "people.xlsx", None).to_pydict() == {"a": [1, 3], "b": [2, 4]}


@pytest.mark.parametrize("content", [b"no workbook", b"PK\x03\x04 broken"])
def test_a_damaged_file_is_refused_with_its_name(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "people.xlsx").write_bytes(content)
    with pytest.raises(InputError, match="people.xlsx cannot be read as Excel"):
        open_table(tmp_path / "people.xlsx", {})


def test_a_sheet_without_rows_is_refused(tmp_path: Path) -> None:
    book = write_workbook(tmp_path / "people.xlsx", {"Daten": []})
    with pytest.raises(InputError, match="the sheet 'Daten' of people.xlsx is empty"):
        open_table(book, {})
