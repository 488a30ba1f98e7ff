"""A table of Delta Lake or Iceberg as input: its current rows, each partition once and changed ones again."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog.sql import SqlCatalog

from evenhand.tasks.errors import InputError
from evenhand.tasks.filtering.filter_bundle import FileSettings
from evenhand.tasks.filtering.lake_inputs import (
    lake_schema,
    list_lake_partitions,
    read_lake_partition,
)

DAYS = [datetime.date(2026, 11, 1), datetime.date(2026, 11, 1), datetime.date(2026, 11, 2), None]
ROWS = pa.table({"key": [1, 2, 3, 4], "name": ["ä", "b", None, "d"], "day": DAYS})
MORE = pa.table({"key": [5], "name": ["e"], "day": [datetime.date(2026, 11, 2)]})


class Lake:
    """A table by day, to which rows are added and from which they are deleted."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind = kind
        if kind == "delta":
            self.path = folder / "people"
            write_deltalake(self.path, ROWS, partition_by=["day"])
            return
        catalog = SqlCatalog(
            "c", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}"
        )
        catalog.create_namespace("n")
        self.table = catalog.create_table("n.people", schema=ROWS.schema)
        with self.table.update_spec() as spec:
            spec.add_identity("day")
        self.table.append(ROWS)
        self.path = folder / "n" / "people"

    def add(self, rows: pa.Table) -> None:
        if self.kind == "delta":
            write_deltalake(self.path, rows, mode="append")
        else:
            self.table.append(rows)

    def delete(self, condition: str) -> None:
        if self.kind == "delta":
            DeltaTable(self.path).delete(condition)
        else:
            self.table.delete(condition)

    def listed(self, **settings: Any) -> dict[str, Any]:
        chosen = FileSettings(**{"partition_by": "day", **settings})
        inputs = list_lake_partitions(str(self.path), chosen, "/tmp/elsewhere", "predict")
        return {file.name.removeprefix("people"): file for file in inputs.files}


@pytest.fixture(params=["delta", "iceberg"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    return Lake(request.param, tmp_path)


def keys(file: Any) -> list[int]:
    schema = lake_schema(file)
    assert [str(kind) for kind in schema.types] == ["int64", "string", "date32[day]"]
    batches = read_lake_partition(file, pa.schema([schema.field("key")]))
    return sorted(key for batch in batches for key in batch.column("key").to_pylist())


def test_a_partition_has_its_rows(lake: Lake) -> None:
    files = lake.listed()
    rows = {name: keys(file) for name, file in files.items()}
    assert rows == {"/day=2026-11-01": [1, 2], "/day=2026-11-02": [3], "/day=(null)": [4]}
    assert [file.size for file in files.values()] == [1, 2, 1]


def test_a_change_is_seen_in_its_partition_alone(lake: Lake) -> None:
    before = lake.listed()
    lake.add(MORE)
    after = lake.listed()
    changed = [name for name in before if before[name] != after[name]]
    assert changed == ["/day=2026-11-02"]
    assert keys(after["/day=2026-11-02"]) == [3, 5]
    lake.delete("key = 1")
    last = lake.listed()
    assert [name for name in after if after[name] != last[name]] == ["/day=2026-11-01"]
    assert keys(last["/day=2026-11-01"]) == [2]


def test_a_range_chooses_partitions(lake: Lake) -> None:
    assert [*lake.listed(partitions="2026-11-02..")] == ["/day=2026-11-02"]
    assert [*lake.listed(partitions="..2026-11-01")] == ["/day=2026-11-01"]
    (whole,) = lake.listed(partition_by=None).values()
    assert keys(whole) == [1, 2, 3, 4]


def test_files_of_other_partitions_stay_closed(lake: Lake) -> None:
    file = lake.listed()["/day=2026-11-02"]
    for path in lake.path.rglob("*.parquet"):
        if 3 not in pyarrow.dataset.dataset(path).to_table(["key"])["key"].to_pylist():
            path.unlink()
    assert keys(file) == [3]


CASES: list[tuple[dict[str, Any], str]] = [
    ({"partition_by": "dya"}, "'dya', by which people is not partitioned .did you mean 'day'"),
    ({"partition_by": "key"}, "its columns of partitions are day"),
    ({"partitions": "2026-11-02..2026-11-01"}, "ends before it begins"),
    ({"partitions": "x"}, "'x' is no value of the column 'day'"),
    ({"partitions": "2031-01-01.."}, "has no rows within 2031-01-01.."),
    ({"partitions": "1..", "partition_by": None}, "set predict.partition_by"),
]


@pytest.mark.parametrize(("settings", "words"), CASES)
def test_a_wrong_choice_is_one_line(lake: Lake, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        lake.listed(**settings)
    assert "\n" not in str(caught.value)


def test_the_output_is_outside(lake: Lake) -> None:
    settings = FileSettings(partition_by="day")
    with pytest.raises(InputError, match="within the input"):
        list_lake_partitions(str(lake.path), settings, str(lake.path / "out"), "predict")
