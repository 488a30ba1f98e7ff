"""Parquet files of which a column unpacks to far more than the file holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evenhand.tasks.errors import InputError
from evenhand.tasks.sources import row_group_blocks
from evenhand.tasks.sources.row_group_blocks import dictionary_bytes
from evenhand.tasks.sources.table_reader import open_table

# texts of 6 bytes, 600 bytes of all rows
ROWS = 100
COLUMNS = {
    "texts": pa.array(["abcdef"] * ROWS),
    "bytes": pa.array([b"abcdef"] * ROWS, pa.binary(6)),
    "lists": pa.array([[1, 2]] * ROWS),
}


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_group_blocks, "LARGE_BYTES", 599)
    monkeypatch.setattr(row_group_blocks, "LARGEST_RATIO", 0)


def written(folder: Path, column: pa.Array, **options: Any) -> Path:
    path = folder / "people.parquet"
    pq.write_table(pa.table({"column": column}), path, **options)
    return path


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("has_dictionary", [True, False])
def test_a_column_that_unpacks_to_much_is_refused(
    name: str, has_dictionary: bool, tmp_path: Path
) -> None:
    path = written(tmp_path, COLUMNS[name], use_dictionary=has_dictionary)
    with pytest.raises(InputError, match=r"the column column of people\.parquet takes"):
        open_table(path, {}).read_all()


def test_row_groups_of_a_file_count_together(tmp_path: Path) -> None:
    path = written(tmp_path, COLUMNS["texts"], row_group_size=10)
    with pytest.raises(InputError, match="unpacks to"):
        open_table(path, {}).read_all()


def test_a_column_at_the_limit_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_group_blocks, "LARGE_BYTES", 600)
    path = written(tmp_path, COLUMNS["texts"], use_dictionary=True)
    assert open_table(path, {}).read_all()["column"].to_pylist() == ["abcdef"] * ROWS


def test_numbers_have_no_limit(tmp_path: Path) -> None:
    path = written(tmp_path, pa.array([0.0] * 1000))
    assert open_table(path, {}).read_all().num_rows == 1000


def test_a_large_file_may_unpack_to_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_group_blocks, "LARGEST_RATIO", 100)
    path = written(tmp_path, COLUMNS["texts"])
    assert open_table(path, {}).read_all().num_rows == ROWS


def test_texts_of_an_arrow_file_are_counted_too(tmp_path: Path) -> None:
    table = pa.table({"column": COLUMNS["texts"].dictionary_encode()})
    with pa.ipc.new_file(str(tmp_path / "people.arrow"), table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(InputError, match=r"the column column of people\.arrow takes"):
        open_table(tmp_path / "people.arrow", {}).read_all()


def test_bytes_of_a_dictionary_are_those_of_its_rows() -> None:
    column = pa.array(["ab", None, "abc", "ab"]).dictionary_encode()
    assert dictionary_bytes(column) == 2 + 3 + 2
