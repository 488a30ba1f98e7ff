"""Spreadsheets that would grow beyond all memory are refused before they are read."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest

from evenhand.tasks.errors import InputError
from evenhand.tasks.sources import workbook_limits
from evenhand.tasks.sources.spreadsheets import read_sheet
from evenhand.tasks.sources.workbook_limits import _Extent, _read_records, check_workbook
from tests.workbooks import write_workbook

ROWS = [["a", "b"], ["1", "x"], ["2", "y"]]


def with_cell(folder: Path, cell: str) -> Path:
    """A workbook with a further row of one cell."""
    plain = write_workbook(folder / "plain.xlsx", {"people": ROWS})
    target = folder / "odd.xlsx"
    with zipfile.ZipFile(plain) as parts, zipfile.ZipFile(target, "w") as changed:
        for part in parts.namelist():
            text = parts.read(part).decode()
            changed.writestr(part, text.replace("</sheetData>", f"{cell}</sheetData>"))
    return target


def test_a_cell_far_away_is_refused(tmp_path: Path) -> None:
    path = with_cell(tmp_path, '<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>')
    with pytest.raises(InputError, match=r"has 7 filled cells spread over 17,179,869,184 places"):
        read_sheet(path, "odd.xlsx")


def test_a_cell_that_is_only_formatted_is_no_cell(tmp_path: Path) -> None:
    path = with_cell(tmp_path, '<row r="1048576"><c r="XFD1048576" s="1"/></row>')
    assert read_sheet(path, "odd.xlsx").rows == [["1", "x"], ["2", "y"]]


def test_a_sheet_that_unpacks_to_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workbook_limits, "SMALL_BYTES", 1 << 20)
    path = tmp_path / "odd.xlsx"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/worksheets/sheet1.xml", b" " * (3 << 20))
    with pytest.raises(InputError, match="unpacks to more than 1 MiB"):
        check_workbook(path, "odd.xlsx")


def test_tags_across_pieces_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workbook_limits, "CHUNK_BYTES", 7)
    path = with_cell(tmp_path, '<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>')
    # the rest that is kept is longer than a piece
    monkeypatch.setattr(workbook_limits, "CHUNK_BYTES", 100)
    with pytest.raises(InputError, match="has 7 filled cells"):
        check_workbook(path, "odd.xlsx")


def test_cells_of_a_binary_sheet_are_found() -> None:
    def record(kind: int, content: bytes) -> bytes:
        return bytes([kind, len(content)]) + content

    def number(value: int) -> bytes:
        return value.to_bytes(4, "little")

    content = record(0, number(0)) + record(2, number(1) + bytes(8))
    content += record(0, number(1_048_575)) + record(5, number(16_383) + bytes(12))
    content += bytes([0x81, 0x01, 0])  # a record of another kind, without content
    extent = _Extent()
    assert sum(_read_records(io.BytesIO(content), extent)) > 0
    assert (extent.cells, extent.area) == (2, 1_048_576 * 16_383)


def test_other_files_are_left_to_their_reader(tmp_path: Path) -> None:
    path = tmp_path / "old.xls"
    path.write_bytes(b"\xd0\xcf\x11\xe0" + bytes(100))
    check_workbook(path, "old.xls")
