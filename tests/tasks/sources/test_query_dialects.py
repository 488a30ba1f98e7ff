"""Attacks on databases by a job's query, and queries that go on working."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from evenhand.tasks.errors import InputError
from evenhand.tasks.execution.store import Store
from evenhand.tasks.sources.fetching import _as_arrow, fetch_source
from evenhand.tasks.sources.queries import check_query
from evenhand.tasks.sources.query_dialects import (
    OPEN_TO_FUNCTIONS,
    check_functions,
    check_parsed_query,
)
from tests.tasks.sources.query_attacks import ATTACKS

# By database, what only it understands, and all others.
READING = {
    "sqlite": [
        "select printf('%d', a) as p, julianday('now') as j from people",
        "select group_concat(a, ', ') as g, total(a) as t from people group by a % 2",
        "select p.a from people p, json_each('[1, 2]') e where e.value = p.a",
        "select a, row_number() over (order by a) as n from people limit 5 offset 0",
        "select name from pragma_table_info('people')",
    ],
    "postgresql": [
        "select a, gen_random_uuid()::text as u, clock_timestamp()::text as c from people",
        "select string_agg(a::text, ',') as s, array_agg(a)::text as g from people",
        "select distinct on (a) a, to_char(now(), 'YYYY') as y from people order by a",
        "select regexp_replace(a::text, '\\d', 'x', 'g') as r, width_bucket(a, 0, 9, 3) as w from people",
        "select a, x from people, lateral generate_series(1, 2) x",
        "select pg_typeof(a)::text as t, pg_size_pretty(10::bigint) as s from people",
        "select double_of(a) as d from people",
        "select jsonb_path_query_first('{\"a\": 1}', '$.a')::text as j from people",
    ],
    "duckdb": [
        "select a, half(a) as h, list_sum([1, 2]) as s from people",
        "select strftime(now(), '%Y') as y, a // 2 as d from people",
        "select * exclude (a), a as b from people",
        "select a from people qualify row_number() over (order by a) = 1",
        "select unnest(range(3)) as r, date_part('year', date '2020-01-01') as y",
    ],
    "mysql": [
        "select ifnull(a, 0), concat_ws('-', a, 1), date_format(now(), '%Y') from people",
        "select `a` from `people` where a regexp '^1' limit 5, 10",
        "select group_concat(distinct a order by a separator ';') from people",
        "select json_unquote(json_extract(b, '$.x')), b->>'$.y', timestampdiff(year, c, now()) from people",
    ],
    "mssql": [
        "select top 10 * from dbo.people with (nolock) order by a",
        "select dbo.age_of(born), isnull(a, 0), getdate(), datediff(year, born, getdate()) from [people]",
        "select a, string_agg(b, ',') within group (order by b) from people group by a",
        "select p.a from people p cross apply openjson(p.b) with (x int '$.x') j",
        "select try_convert(int, a), iif(a > 1, 1, 0), charindex('x', b) from people option (recompile)",
    ],
    "oracle": [
        "select nvl(a, 0), to_char(sysdate, 'YYYY'), decode(a, 1, 'x', 'y') from people where rownum < 9",
        "select a from people connect by prior a = b start with b is null",
    ],
    "snowflake": [
        "select a:b::int, my_function(a) from people qualify row_number() over (order by a) = 1"
    ],
    "bigquery": ["select safe_cast(a as int64), b.c from `project.data.people`, unnest(d) as b"],
    "trino": ["select a, approx_distinct(b) as d from catalog.db.people group by a"],
    "databricks": ["select `a b`, explode(c) as e from catalog.db.`people of 2024`"],
    "clickhouse": ["select a, uniqExact(b) from db.people final group by a"],
    "": ["select a from people fetch first 5 rows only"],
}


def refused(sql: str, backend: str) -> bool:
    """Whether the two checks refuse a query, with a function of which no database answers."""
    try:
        check_query(sql)
        return bool(check_parsed_query(sql, backend))
    except InputError:
        return True


def test_there_are_a_hundred_attacks() -> None:
    assert len({(name, sql) for name, items in ATTACKS.items() for sql in items}) >= 160
    assert sum(len(items) for items in ATTACKS.values()) - 4 * 13 >= 100


@pytest.mark.parametrize("backend", ATTACKS)
def test_every_attack_is_refused_unless_a_server_decides(backend: str) -> None:
    assert [sql for sql in ATTACKS[backend] if not refused(sql, backend)] == []


@pytest.mark.parametrize("backend", READING)
def test_queries_that_read_pass(backend: str) -> None:
    for sql in READING[backend]:
        check_query(sql)
        unknown = check_parsed_query(sql, backend)
        assert backend in ("postgresql", "duckdb") or not unknown, (sql, unknown)


def test_a_line_says_where_a_query_cannot_be_read() -> None:
    with pytest.raises(InputError, match=r"cannot be read as mysql SQL at line 2, column"):
        check_parsed_query("select a\nfrom people where (", "mysql")
    with pytest.raises(InputError, match="cannot be read as standard SQL"):
        check_parsed_query("select " + "(" * 3000 + "1" + ")" * 3000, "")


def test_a_function_that_no_database_vouches_for_is_named() -> None:
    assert "oracle" in OPEN_TO_FUNCTIONS
    names = check_parsed_query("select pack.touch(a) from people", "oracle")
    with pytest.raises(InputError, match="the function touch, which may have effects: make a view"):
        check_functions(names, "oracle", None)  # type: ignore[arg-type]


class Tried:
    """One database in a folder, and what a query leaves behind."""

    def __init__(self, folder: Path, connection: str) -> None:
        self.folder = folder
        self.connection = connection
        self.store = Store(str(folder / "store"))

    def size(self, sql: str) -> int:
        source: dict[str, Any] = {"name": "people", "path": None, "connection": self.connection}
        return fetch_source(self.store, {**source, "sql": sql})["query.parquet"].size

    def check(self, backend: str, state: Any) -> None:
        before = state()
        files = sorted(path.name for path in self.folder.iterdir())
        for sql in READING[backend]:
            assert self.size(sql) > 0, sql
        with contextlib.chdir(self.folder):
            for sql in ATTACKS[backend]:
                with pytest.raises(InputError, match=r"table\.sql"):
                    self.size(sql)
        assert state() == before
        assert sorted(path.name for path in self.folder.iterdir()) == files


@pytest.fixture
def sqlite_file(tmp_path: Path) -> Path:
    path = tmp_path / "people.db"
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("create table people (a int)")
        database.execute("insert into people values (1), (2)")
        database.commit()
    return path


def test_attacks_on_sqlite(sqlite_file: Path) -> None:
    tried = Tried(sqlite_file.parent, f"sqlite:///{sqlite_file}")
    tried.check("sqlite", sqlite_file.read_bytes)


def test_attacks_on_duckdb(tmp_path: Path) -> None:
    import sqlalchemy

    engine = sqlalchemy.create_engine(f"duckdb:///{tmp_path}/people.duckdb")
    with engine.begin() as opened:
        opened.exec_driver_sql("create table people as select 1 as a union all select 2")
        opened.exec_driver_sql("create sequence counter")
        opened.exec_driver_sql("create macro half(x) as x / 2")
    engine.dispose()

    def state() -> list[Any]:
        with engine.connect() as opened:
            tables = opened.exec_driver_sql("select table_name from duckdb_tables()").fetchall()
            return [tables, opened.exec_driver_sql("select * from people").fetchall()]

    tried = Tried(tmp_path, f"duckdb:///{tmp_path}/people.duckdb")
    tried.check("duckdb", state)
    engine.dispose()


def test_duckdb_reads_files_only_if_its_connection_says_so(tmp_path: Path) -> None:
    """Also through a view or a macro of the database, which no parser sees, and Python's names."""
    import sqlalchemy

    (tmp_path / "people.csv").write_text("a\n1\n2\n3\n")
    address = f"duckdb:///{tmp_path}/people.duckdb"
    engine = sqlalchemy.create_engine(address)
    file = f"read_csv('{tmp_path}/people.csv')"
    with engine.begin() as opened:
        opened.exec_driver_sql("create table people as select 1 as a union all select 2")
        opened.exec_driver_sql(f"create view behind as select * from {file}")
        opened.exec_driver_sql(f"create macro of_file() as table select * from {file}")
    engine.dispose()
    hidden = {"a": [1]}
    assert hidden
    closed = Tried(tmp_path, address)
    assert closed.size("select a from people") > 0
    for sql in ("select * from behind", "select * from of_file()", "select * from hidden"):
        with pytest.raises(InputError, match=r"table\.sql failed"):
            closed.size(sql)
    with pytest.raises(InputError, match=r"reads files by read_text.*enable_external_access=true"):
        closed.size("select * from read_text('/etc/passwd')")
    for opened_address in (f"{address}?enable_external_access=true", "duckdb:///:memory:"):
        tried = Tried(tmp_path, opened_address)
        assert tried.size(f"select * from {file}") > 0
        assert tried.size(f"select a from '{tmp_path}/*.csv' where a > 1") > 0
        with pytest.raises(InputError, match=r"table\.sql"):
            tried.size("select getenv('HOME')")


def test_times_with_a_zone_are_kept_without_a_warning(tmp_path: Path) -> None:
    """A warning would be an error here, and a line on a user's terminal."""
    import pandas as pd
    import pyarrow as pa

    for zone in ("UTC", "Europe/Berlin", "+05:30", None):
        times = pd.to_datetime(["2024-01-01 12:00", "2024-07-01 12:00", None]).tz_localize(zone)
        column = _as_arrow(pd.Series(times))
        assert column.type == pa.timestamp("us", zone)
        expected = [None if pd.isna(time) else time for time in times]
        assert column.to_pylist() == expected


@pytest.mark.long
def test_attacks_on_postgresql(postgres: str, tmp_path: Path) -> None:
    """A function that lies about itself is stopped by the server."""
    import sqlalchemy

    engine = sqlalchemy.create_engine(postgres)
    body = "language sql as 'delete from people returning 1'"
    hidden = "language plpgsql stable as 'begin delete from people; return 1; end'"
    with engine.begin() as opened:
        for statement in (
            "create table people (a int)",
            "insert into people values (1), (2)",
            "create sequence counter",
            f"create function drain() returns int {body}",
            f"create function hidden_drain() returns int {hidden}",
            "create function double_of(int) returns int language sql stable as 'select 2 * $1'",
        ):
            opened.exec_driver_sql(statement)

    def state() -> list[Any]:
        with engine.connect() as opened:
            tables = opened.exec_driver_sql(
                "select relname from pg_class where relnamespace = 'public'::regnamespace order by 1"
            ).fetchall()
            counter = opened.exec_driver_sql("select last_value, is_called from counter").fetchall()
            people = opened.exec_driver_sql("select * from people order by a").fetchall()
            return [tables, counter, people]

    Tried(tmp_path, postgres).check("postgresql", state)
    engine.dispose()
