"""What a spreadsheet's file may grow to when it is read, found out before it is.

The library that reads sheets unpacks them as a whole, and makes a cell of every place between the
first and the last one that is filled: a file of a few kilobytes could take all memory of a machine.
"""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import IO

from evenhand.tasks.errors import InputError

# Spreadsheets unpack to five to forty times their size.
LARGEST_RATIO = 100
SMALL_BYTES = 256 << 20
# Cells between the corners of a sheet; sheets that are filled to a fourth may have more.
MOST_CELLS = 30_000_000
LEAST_FILLED = 4
CHUNK_BYTES = 1 << 20
# A cell that holds something; one that is only formatted ends with a slash.
_CELL = re.compile(rb"<(?:\w+:)?c\s[^<>]*?\br=[\"']([A-Z]{1,3})(\d{1,7})[\"'][^<>]*(?<!/)>")
# Records of a binary sheet: a row, and its cells.
_ROW_RECORD = 0
_CELL_RECORDS = range(2, 12)
_WIDEST_RECORD = 1 << 28


class _Extent:
    """The corners of what is filled, and how many cells are."""

    def __init__(self) -> None:
        self.cells = 0
        self.first_row = 1 << 30
        self.last_row = 0
        self.first_column = 1 << 30
        self.last_column = 0

    def add(self, row: int, column: int) -> None:
        """Add a cell."""
        self.cells += 1
        self.first_row = min(self.first_row, row)
        self.last_row = max(self.last_row, row)
        self.first_column = min(self.first_column, column)
        self.last_column = max(self.last_column, column)

    @property
    def area(self) -> int:
        """Places between the corners."""
        if not self.cells:
            return 0
        rows = self.last_row - self.first_row + 1
        return rows * (self.last_column - self.first_column + 1)


def check_workbook(path: Path, shown: str) -> None:
    """Raise `InputError` for a spreadsheet that would take much more memory than its size says.

    - `shown`: the file's name, for the message

    A file that is no archive, as those with the ending .xls, or a damaged one is left to its
    reader.
    """
    status = path.stat()
    reason = _fault(path, status.st_mtime_ns, status.st_size)
    if reason is not None:
        raise InputError(f"{shown} {reason}")


@lru_cache(maxsize=1)
def _fault(path: Path, changed: int, size: int) -> str | None:
    """Why a version of a file is not read; None for one that is."""
    if not zipfile.is_zipfile(path):
        return None
    most = max(SMALL_BYTES, LARGEST_RATIO * size)
    unpacked = 0
    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                extent = _Extent()
                with archive.open(member) as stream:
                    for count in _read(stream, member.filename, extent):
                        unpacked += count
                        if unpacked > most:
                            return (
                                f"unpacks to more than {most >> 20:,} MiB: save it again, or as "
                                "CSV."
                            )
                if extent.area > max(MOST_CELLS, LEAST_FILLED * extent.cells):
                    return (
                        f"has {extent.cells:,} filled cells spread over {extent.area:,} places: "
                        "delete the cells far from the table, and save it again."
                    )
    except (zipfile.BadZipFile, zlib.error, RuntimeError, NotImplementedError, EOFError):
        return None
    except (ValueError, OSError):
        return None
    return None


def _read(stream: IO[bytes], name: str, extent: _Extent) -> Iterator[int]:
    """Read a part of a spreadsheet, add its cells to the extent, and yield the bytes of each
    piece.
    """
    is_sheet = "worksheets/" in name
    if is_sheet and name.endswith(".bin"):
        yield from _read_records(stream, extent)
        return
    unread = b""
    while chunk := stream.read(CHUNK_BYTES):
        if is_sheet:
            text = unread + chunk
            # a tag may be cut off
            end = text.rfind(b"<")
            end = len(text) if end < 0 else end
            _add_cells(text[:end], extent)
            unread = text[end:][-CHUNK_BYTES:]
        yield len(chunk)
    _add_cells(unread, extent)


def _add_cells(text: bytes, extent: _Extent) -> None:
    for letters, digits in _CELL.findall(text):
        column = 0
        for letter in letters:
            column = 26 * column + letter - 64
        extent.add(int(digits), column)


def _read_records(stream: IO[bytes], extent: _Extent) -> Iterator[int]:
    """Read a binary sheet record by record."""
    row = 0
    while head := stream.read(1):
        kind = head[0]
        if kind & 0x80:
            kind = (kind & 0x7F) | (stream.read(1) or b"\0")[0] << 7
        size = 0
        for place in range(4):
            part = (stream.read(1) or b"\0")[0]
            size |= (part & 0x7F) << 7 * place
            if not part & 0x80:
                break
        content = stream.read(min(size, _WIDEST_RECORD))
        if kind == _ROW_RECORD:
            row = int.from_bytes(content[:4], "little")
        elif kind in _CELL_RECORDS:
            extent.add(row, int.from_bytes(content[:4], "little"))
        yield len(content) + 2
