"""Rows written to a table of a database are those that are written to files, whatever happens in
between.
"""

from __future__ import annotations

import datetime as dt
import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import sqlalchemy as sa

from evenhand.tasks.errors import InputError, NotCarriedOut
from evenhand.tasks.filtering.checks import RowFilter
from evenhand.tasks.filtering.filter_bundle import FilterSettings, ProxyBundle
from evenhand.tasks.filtering.filter_engine import UnitResult, UnitSpec, process_unit
from evenhand.tasks.filtering.output_places import open_output
from evenhand.tasks.filtering.output_table import OutputTable, columns_of
from tests.tasks.filtering.judged import filter_files

Make = Callable[..., pa.Table]
Put = Callable[..., Path]
SETTINGS = FilterSettings(key=("id",), rows_per_unit=300, workers=2)
# tells of every finished unit
RUN = """
import sys
from evenhand.tasks.filtering.filter_bundle import FilterSettings, ProxyBundle
from evenhand.tasks.filtering.checks import RowFilter
from evenhand.tasks.filtering.filter_engine import process_files

settings = FilterSettings(key=("id",), rows_per_unit=300, workers=2)
judge = RowFilter(ProxyBundle.load(sys.argv[1], "7"), settings)
process_files(judge, sys.argv[2], sys.argv[3], lambda done, *_: print(done, flush=True))
"""
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(params=["sqlite", "duckdb"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """URL of an empty database; EVENHAND_TEST_DATABASE: of another one, whose tables `kept*` are
    dropped.
    """
    if given := os.environ.get("EVENHAND_TEST_DATABASE"):
        with sa.create_engine(given).begin() as opened:
            for name in ("kept", "kept_quarantine", "kept_evenhand"):
                opened.execute(sa.text(f"drop table if exists {name}"))
        return given
    return f"{request.param}:///{tmp_path / 'rows.db'}"


def query(url: str, sql: str) -> list[tuple[Any, ...]]:
    with sa.create_engine(url).connect() as opened:
        return [tuple(row) for row in opened.execute(sa.text(sql))]


def rows_of(url: str, table: str = "kept") -> list[tuple[Any, ...]]:
    return query(url, f"select id, age, job, note from {table} order by id")


def expected(kept: Callable[[Path], pa.Table], folder: Path) -> list[tuple[Any, ...]]:
    rows = kept(folder).select(["id", "age", "job", "note"]).to_pylist()
    return sorted(tuple(row.values()) for row in rows)


def test_the_table_has_the_rows_of_the_files(
    url: str,
    people: Make,
    put: Put,
    bundle: ProxyBundle,
    kept: Callable[[Path], pa.Table],
    tmp_path: Path,
) -> None:
    put(people(2000), tmp_path / "in" / "a.parquet", row_group=300)
    put(people(700, 1, 2000), tmp_path / "in" / "b.csv")
    files = filter_files(bundle, str(tmp_path / "in"), str(tmp_path / "whole"), SETTINGS)
    table = filter_files(bundle, str(tmp_path / "in"), f"{url}#kept", SETTINGS)
    assert (table.rows_in, table.rows_out) == (files.rows_in, files.rows_out)
    assert rows_of(url) == expected(kept, tmp_path / "whole")
    everything = kept(tmp_path / "whole")
    assert query(url, "select count(*), count(income), count(since) from kept") == [
        (
            len(everything),
            *(len(everything) - everything[name].null_count for name in ("income", "since")),
        )
    ]
    # one record per unit, and each row has its unit's name
    assert query(url, "select count(distinct evenhand_unit) from kept") == [(10,)]
    again = filter_files(bundle, str(tmp_path / "in"), f"{url}#kept", SETTINGS)
    assert {file.status for file in again.files} == {"skipped"}
    put(people(300, 2, 5000), tmp_path / "in" / "c.parquet")  # the folder grows
    put(people(100, 3, 6000), tmp_path / "in" / "b.csv")  # and one file changes
    filter_files(bundle, str(tmp_path / "in"), f"{url}#kept", SETTINGS)
    filter_files(bundle, str(tmp_path / "in"), str(tmp_path / "whole"), SETTINGS)
    assert rows_of(url) == expected(kept, tmp_path / "whole")


def test_an_interrupted_run_neither_loses_nor_doubles_rows(
    url: str,
    people: Make,
    put: Put,
    bundle: ProxyBundle,
    kept: Callable[[Path], pa.Table],
    tmp_path: Path,
) -> None:
    put(people(2000), tmp_path / "in" / "a.parquet", row_group=300)
    filter_files(bundle, str(tmp_path / "in"), str(tmp_path / "whole"), SETTINGS)

    def interrupted(units: Sequence[UnitSpec]) -> Iterator[tuple[UnitSpec, UnitResult]]:
        for unit in units[:3]:
            yield unit, process_unit(unit, RowFilter(bundle, SETTINGS))
        # a cluster may run a unit twice
        process_unit(units[2], RowFilter(bundle, SETTINGS))
        raise InterruptedError

    with pytest.raises(InterruptedError):
        filter_files(bundle, str(tmp_path / "in"), f"{url}#kept", SETTINGS, workers=interrupted)
    assert query(url, "select count(distinct evenhand_unit) from kept") == [(3,)]
    # as a database without transactions leaves it: rows of a unit without its record
    with sa.create_engine(url).begin() as opened:
        opened.execute(sa.text("delete from kept_evenhand where evenhand_unit like '%-00001'"))
    filter_files(bundle, str(tmp_path / "in"), f"{url}#kept", SETTINGS)
    assert rows_of(url) == expected(kept, tmp_path / "whole")


@pytest.mark.long
def test_a_killed_run_neither_loses_nor_doubles_rows(
    url: str, people: Make, put: Put, bundle: ProxyBundle, bundle_folder: Path,
    kept: Callable[[Path], pa.Table], tmp_path: Path,
) -> None:  # fmt: skip
    put(people(4500), tmp_path / "in" / "a.parquet", row_group=300)
    filter_files(bundle, str(tmp_path / "in"), str(tmp_path / "whole"), SETTINGS)
    command = [sys.executable, "-c", RUN, str(bundle_folder), str(tmp_path / "in"), f"{url}#kept"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(ROOT)])}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for _ in range(4):
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        process.wait()
    units = query(url, "select count(*) from kept_evenhand")[0][0] - 2  # the note, and the columns
    assert 0 < units < 15, "no kill came before the end: take more rows"
    filter_files(bundle, str(tmp_path / "in"), f"{url}#kept", SETTINGS)
    assert rows_of(url) == expected(kept, tmp_path / "whole")


def test_rows_set_aside_and_failed_files(
    url: str, people: Make, put: Put, make_bundle: Callable[..., ProxyBundle], tmp_path: Path
) -> None:
    good, bad = people(600), people(600, 1, 600)
    ages = bad["age"].to_pylist()
    put(good, tmp_path / "in" / "a.parquet", row_group=300)
    few = bad.set_column(1, "age", pa.array([7, *ages[1:]], pa.int16()))
    put(few, tmp_path / "in" / "b.parquet", row_group=300)
    many = bad.set_column(1, "age", pa.array([*ages[:300], *[7] * 300], pa.int16()))
    put(many, tmp_path / "in" / "c.parquet", row_group=300)
    proxy = make_bundle(on_violation="quarantine", quarantine_share=0.01)
    summary = filter_files(proxy, str(tmp_path / "in"), f"{url}#kept", SETTINGS)
    assert {file.name: file.status for file in summary.files} == {
        "a.parquet": "done", "b.parquet": "done", "c.parquet": "failed",
    }  # fmt: skip
    assert summary.quarantined == 1
    assert rows_of(url, "kept_quarantine") == [
        (600, 7, few["job"][0].as_py(), few["note"][0].as_py())
    ]
    assert query(url, "select count(*) from kept") == [(summary.rows_out,)]


def test_a_table_of_others_or_of_another_input_is_refused(
    url: str, people: Make, put: Put, bundle: ProxyBundle, tmp_path: Path
) -> None:
    for name in ("one", "two"):
        put(people(300), tmp_path / name / "a.parquet")
    filter_files(bundle, str(tmp_path / "one"), f"{url}#kept", SETTINGS)
    with pytest.raises(InputError, match="holds the rows of .*one, not of .*two"):
        filter_files(bundle, str(tmp_path / "two"), f"{url}#kept", SETTINGS)
    with sa.create_engine(url).begin() as opened:
        opened.execute(sa.text("drop table kept_evenhand"))
    with pytest.raises(InputError, match="exists already: choose another, or drop it"):
        filter_files(bundle, str(tmp_path / "one"), f"{url}#kept", SETTINGS)


def test_files_whose_columns_do_not_fit_fail_and_say_so(
    url: str, people: Make, put: Put, bundle: ProxyBundle, tmp_path: Path
) -> None:
    table = people(300)
    put(table, tmp_path / "in" / "a.parquet")
    filter_files(bundle, str(tmp_path / "in"), f"{url}#kept", SETTINGS)
    numbers = pa.array([1.5] * 300)
    put(table.set_column(8, "note", numbers), tmp_path / "in" / "b.parquet")
    put(table.append_column("more", numbers), tmp_path / "in" / "c.parquet")
    put(table.append_column("evenhand_unit", numbers), tmp_path / "in" / "d.parquet")
    put(table.append_column("list", pa.array([[1]] * 300)), tmp_path / "in" / "e.parquet")
    put(table.drop_columns("note"), tmp_path / "in" / "f.parquet")  # a missing column is NULL
    summary = filter_files(bundle, str(tmp_path / "in"), f"{url}#kept", SETTINGS)
    reasons = {file.name: file.reason for file in summary.files}
    assert reasons["a.parquet"] is reasons["f.parquet"] is None
    assert reasons["b.parquet"].startswith("the column 'note' (DOUBLE) does not fit the table kept")
    assert "it is TEXT" in reasons["b.parquet"]
    assert "the column 'more' (DOUBLE)" in reasons["c.parquet"]
    assert "it is absent" in reasons["c.parquet"]
    assert "'evenhand_unit'" in reasons["d.parquet"]
    assert "'list' is list" in reasons["e.parquet"]
    assert query(url, "select count(*) from kept where note is null")[0][0] > 0


def test_every_type_is_read_back(url: str, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    from evenhand.tasks.filtering.output import UnitRecord, unit_name

    moment = dt.datetime(2026, 3, 1, 12, 30, 15)
    table = pa.table(
        {
            "b": [True, None],
            "i": pa.array([2**40, None]),
            "f": [0.1, math.nan],
            "d": [dt.date(2026, 3, 1), None],
            "t": pa.array([moment, None], pa.timestamp("ns")),
            "s": ["é; '\"", ""],
            "Mixed Case": pa.array([None, None]),
        }
    )
    output = OutputTable(f"{url}#kept")
    output.prepare("root")
    name = unit_name("a", 0)
    with output.workdir() as folder:
        pq.write_table(table, folder / "part")
        part = output.put(folder / "part", f"part-{name}.parquet")
        record = UnitRecord(
            "a", 1, "", 0, True, "p", "1", "s", 2, 2, 0, 0, 2.0, (), (), part, None
        )  # fmt: skip
        output.write_record(record)
    assert output.records() == [record]
    with sa.create_engine(url).connect() as opened:
        found = opened.execute(
            sa.select(*columns_of(table.schema), sa.column("evenhand_unit")).select_from(
                sa.table("kept")
            )
        )
        rows = [row._asdict() for row in found]
    assert all(row.pop("evenhand_unit") == name for row in rows)
    first = {"b": True, "i": 2**40, "f": 0.1, "d": dt.date(2026, 3, 1), "t": moment, "s": "é; '\""}
    assert rows[0] == {**first, "Mixed Case": None}
    assert rows[1] == {**dict.fromkeys(first), "s": "", "Mixed Case": None}


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("sqlite:///x.db", "names a database and no table: write URL#TABLE"),
        ("sqlite:///x.db#a;b", "no table"),
        ("$NOT_SET_HERE#t", "--output names the variable NOT_SET_HERE, which is not set"),
        ("postgresql://me:pass-word@h/db#t", "--output looks like it holds a credential"),
        ("nosuch://h/db#t", "no installed package serves nosuch://"),
        (
            "snowflake://h/db#t",
            r"snowflake:// needs an optional extra: pip install 'evenhand\[snowflake\]'\.",
        ),
        ("mysql://h/db#t", r"pip install 'evenhand\[mysql\]', and write mysql\+pymysql://"),
        ("oracle://h/db#t", r"pip install 'evenhand\[oracle\]', and write oracle\+oracledb://"),
        ("abfss://bucket/x", r"pip install 'evenhand\[azure\]'\."),
    ],
)
def test_an_output_that_cannot_be_opened_gets_one_line(address: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        open_output(address)


def test_an_unwritable_database_gets_a_line_without_credentials(
    people: Make, put: Put, bundle: ProxyBundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(people(300), tmp_path / "a.parquet")
    monkeypatch.setenv("PASS", "pass-word")
    monkeypatch.setenv("WAREHOUSE", f"sqlite:///{tmp_path}/nowhere/x.db")
    for address in ("postgresql://me:$PASS@127.0.0.1:9/db#t", "$WAREHOUSE#t"):
        with pytest.raises(NotCarriedOut, match="cannot be written .OperationalError") as caught:
            filter_files(bundle, str(tmp_path / "a.parquet"), address, replace(SETTINGS))
        assert "pass-word" not in str(caught.value)
        assert "nowhere" not in str(caught.value)


def test_a_schema_that_is_not_there_gets_one_line(tmp_path: Path) -> None:
    for kind in ("sqlite", "duckdb"):
        address = f"{kind}:///{tmp_path / kind}.db#mian.kept"
        for ask in (OutputTable.note, lambda output: output.claim({})):
            with pytest.raises(InputError, match=r"no schema 'mian'.*main"):
                ask(OutputTable(address))
    output = open_output(f"duckdb:///{tmp_path / 'duckdb'}.db#main.kept")
    output.claim({"input": "people", "verb": "filter"})
    assert output.note() == {"input": "people", "verb": "filter"}
