"""Values of a partition's column that somebody chose: each has its own name, and stays a value."""

from __future__ import annotations

import sqlite3
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from evenhand.tasks.errors import InputError
from evenhand.tasks.filtering.table_inputs import list_partitions, read_partition

DAYS = [None, "(null)", "((null))", "null", "'; drop table arrivals;--", "2026-11-01' or '1'='1"]


@pytest.fixture
def table(tmp_path: Path) -> str:
    with sqlite3.connect(tmp_path / "w.db") as opened:
        opened.execute("create table arrivals (day text, n integer)")
        opened.executemany("insert into arrivals values (?, ?)", zip(DAYS, range(6), strict=True))
    return f"sqlite:///{tmp_path / 'w.db'}#arrivals"


def partitions(table: str, by: str = "day", wanted: str | None = None) -> dict[str, list[int]]:
    """Rows of each partition by its name."""
    settings: Any = SimpleNamespace(
        partition_by=by, partitions=wanted, watermark=None, settle_seconds=None
    )
    found: dict[str, list[int]] = {}
    for file in list_partitions(table, settings, None, "predict").files:
        with ExitStack() as files:
            _, batches = read_partition(file, ["n"], files)
            numbers = [number for batch in batches for number in batch.column(0).to_pylist()]
        assert file.name not in found
        found[file.name] = numbers
    return found


def test_every_value_is_a_partition_of_its_own_name(table: str) -> None:
    """A text that is written as a missing value is named would take its place."""
    found = partitions(table)
    assert sorted(found.values()) == [[number] for number in range(6)]
    assert found["arrivals/day=(null)"] == [0]
    assert found["arrivals/day=((null))"] == [1]
    assert found["arrivals/day=(((null)))"] == [2]


@pytest.mark.parametrize("wanted", ["1' or '1'='1", "'; drop table arrivals;--", "%", "(null)"])
def test_a_chosen_value_is_compared_and_no_sql(table: str, wanted: str) -> None:
    matching = [[place] for place, day in enumerate(DAYS) if day == wanted]
    if matching:
        assert list(partitions(table, wanted=wanted).values()) == matching
    else:
        with pytest.raises(InputError, match="has no rows within"):
            partitions(table, wanted=wanted)
    assert len(partitions(table)) == 6


@pytest.mark.parametrize("wanted", ["9" * 30, f"1..{'9' * 30}"])
def test_a_number_that_the_database_lacks_is_one_line(table: str, wanted: str) -> None:
    with pytest.raises(InputError, match=r"cannot be listed \(OverflowError\)"):
        partitions(table, "n", wanted)
