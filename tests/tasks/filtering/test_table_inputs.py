"""A table of a database as input: each partition once, changed ones again, and one line for errors."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner, Result

from evenhand.flows.cli import app
from evenhand.tasks.filtering import table_inputs
from evenhand.tasks.filtering.table_inputs import range_of, read_date
from tests.flows.people import Done, make_people

pytestmark = pytest.mark.usefixtures("flow_environment")

DAYS = [datetime.date(2026, 11, day) for day in (1, 2, 3)]
Warehouse = Callable[..., Result]


def fill(engine: sa.Engine, rows: int = 90) -> None:
    """Write people, with their day of arrival, and some without a day."""
    people = make_people(rows, 1).to_pandas()
    people["day"] = [DAYS[number % 3] for number in range(rows)]
    people.loc[people.index[:6], "day"] = None
    people["loaded_at"] = 1
    people.to_sql("people", engine, index=False, dtype={"day": sa.Date()})


@pytest.fixture(params=["sqlite", "duckdb"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "duckdb":
        pytest.importorskip("duckdb_engine")
    url = f"{request.param}:///{tmp_path / 'warehouse.db'}"
    engine = sa.create_engine(url)
    fill(engine)
    engine.dispose()
    return url


@pytest.fixture
def run(published: Done, address: str) -> Warehouse:
    """Predict from the table `people` to the table `scored`, by day."""

    def predict(*arguments: str, source: str = "people", by: str | None = "day") -> Result:
        command = ["predict", "people-gbdt", "--input", f"{address}#{source}"]
        command += ["--output", f"{address}#scored", "--store", str(published.store), "--direct"]
        command += ["--json"]
        if by is not None:
            command += ["--set", f"predict.partition_by={by}"]
        return CliRunner().invoke(app, [*command, *arguments])

    return predict


def rows_of(address: str) -> list[tuple[Any, ...]]:
    """Key and unit of every row of the output."""
    engine = sa.create_engine(address)
    with engine.connect() as opened:
        rows = opened.execute(sa.text("select key, evenhand_unit from scored")).fetchall()
    engine.dispose()
    return [tuple(row) for row in rows]


def change(address: str, *statements: str) -> None:
    engine = sa.create_engine(address)
    with engine.begin() as opened:
        for statement in statements:
            opened.execute(sa.text(statement))
    engine.dispose()


def counts(done: Result) -> tuple[int, int, int]:
    """Partitions done and skipped, and rows."""
    assert done.exit_code == 0, done.stderr
    metrics = json.loads(done.stdout)["metrics"]
    return (
        int(metrics["files_predicted"]),
        int(metrics["files_done_before"]),
        int(metrics["rows_in"]),
    )


def test_each_row_is_written_once(run: Warehouse, address: str) -> None:
    # a backfill of two days, then all that is missing: a day, and the rows without one
    assert counts(run("--partition", "2026-11-01..2026-11-02"))[:2] == (2, 0)
    assert counts(run())[:2] == (2, 2)
    keys = [key for key, _ in rows_of(address)]
    assert (len(keys), len(set(keys))) == (90, 90)
    assert counts(run("--set", "predict.settle_seconds=0"))[:2] == (0, 4)
    # new rows of a day repeat this day alone, and no row of it is there twice
    change(address, "insert into people select * from people where day = '2026-11-03' limit 1")
    assert counts(run("--since", "2026-11-02"))[:2] == (1, 1)
    assert len(rows_of(address)) == 91


def test_a_watermark_shows_a_change_of_values(run: Warehouse, address: str) -> None:
    watermark = ("--set", "predict.watermark=loaded_at")
    assert counts(run(*watermark))[:2] == (4, 0)
    change(address, "update people set income = 1, loaded_at = 2 where day = '2026-11-02'")
    assert counts(run(*watermark))[:2] == (1, 3)
    assert len(rows_of(address)) == 90


def test_without_partitions_the_table_is_one(run: Warehouse, address: str) -> None:
    assert counts(run(by=None)) == (1, 0, 90)
    assert len({unit for _, unit in rows_of(address)}) == 1


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        ((), {"source": "peple"}, "has no table 'peple' (did you mean 'people'?)"),
        ((), {"source": "other.people"}, "has no schema 'other'"),
        ((), {"by": "dya"}, "predict.partition_by is 'dya', which the table people lacks"),
        (("--set", "predict.watermark=at"), {}, "predict.watermark is 'at'"),
        (("--partition", "a..b"), {}, "'a' is no value of the column 'day'"),
        (("--partition", "2031-01-01.."), {}, "has no rows within 2031-01-01.."),
        (
            ("--partition", "2026-11-03..2026-11-01"),
            {},
            "--partition 2026-11-03..2026-11-01 ends before it begins",
        ),
        (("--partition", "1..2"), {"by": None}, "set predict.partition_by"),
        (("--partition", "1..2", "--since", "1"), {}, "exclude each other"),
    ],
)
def test_a_wrong_table_is_one_line(
    run: Warehouse, arguments: tuple[str, ...], options: dict[str, Any], words: str
) -> None:
    done = run(*arguments, **options)
    assert done.exit_code == 2, done.stdout
    (line,) = done.stderr.splitlines()
    assert words in line


QUERY = "SELECT p.*, '12:30' AS noon FROM people p WHERE p.day >= '2026-11-02'"


def test_a_query_is_read_by_partition(run: Warehouse, address: str) -> None:
    assert counts(run(source=QUERY)) == (2, 0, 56)
    assert len(set(rows_of(address))) == 56
    assert counts(run(source=QUERY))[:2] == (0, 2)
    other = run(source=QUERY.replace("-02", "-03"))
    assert other.exit_code == 2
    assert "#scored holds the rows of" in other.stderr
    assert "SELECT" not in other.stderr


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("SELECT * FROM nowhere", "gets no answer"),
        ("WITH x AS (DELETE FROM people RETURNING *) SELECT * FROM x", "must be one SELECT"),
        ("SELECT * FROM people; DROP TABLE people", "must be one SELECT"),
    ],
)
def test_a_wrong_query_is_one_line(run: Warehouse, query: str, words: str) -> None:
    done = run(source=query)
    assert done.exit_code == 2, done.stdout
    (line,) = done.stderr.splitlines()
    assert words in line


def test_a_column_of_rows_is_no_partition(run: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_inputs, "MOST_PARTITIONS", 20)
    done = run(by="key")
    assert done.exit_code == 2
    assert "has more than 20 values" in done.stderr


def test_the_output_is_not_the_input(run: Warehouse, published: Done, address: str) -> None:
    command = ["predict", "people-gbdt", "--input", f"{address}#people"]
    command += ["--output", f"{address}#people", "--store", str(published.store), "--direct"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 2
    assert "is the input: choose another table" in done.stderr


@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
def test_a_mistyped_address_creates_no_file(published: Done, kind: str, tmp_path: Path) -> None:
    (tmp_path / "warehouse.db").touch()
    url = f"{kind}:///{tmp_path / 'warehuose.db'}"
    command = ["predict", "people-gbdt", "--input", f"{url}#people", "--direct"]
    command += ["--output", f"{url}#scored", "--store", str(published.store)]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 2
    (line,) = done.stderr.splitlines()
    assert "which does not exist (did you mean 'warehouse.db'?)" in line
    assert [path.name for path in tmp_path.iterdir() if "ware" in path.name] == ["warehouse.db"]


def test_a_day_may_be_relative_to_today() -> None:
    today = datetime.datetime.now(datetime.UTC).date()
    week = datetime.timedelta(days=7)
    assert read_date("today-7") in (today - week, today - week + datetime.timedelta(days=1))
    assert read_date("2026-11-01") == datetime.date(2026, 11, 1)
    first, last = range_of("today-7..today", "day", datetime.date)
    assert last - first == week
    with pytest.raises(ValueError, match="Invalid isoformat"):
        read_date("today+1")


def test_an_unset_variable_is_named(published: Done, tmp_path: Path) -> None:
    command = ["predict", "people-gbdt", "--input", "$NO_SUCH_WAREHOUSE#people", "--direct"]
    command += ["--output", str(tmp_path / "out"), "--store", str(published.store)]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 2
    assert "--input names the variable NO_SUCH_WAREHOUSE, which is not set" in done.stderr


def test_partitions_are_counted_as_such(run: Warehouse, published: Done, address: str) -> None:
    run("--partition", "2026-11-01")
    command = ["predict", "people-gbdt", "--input", f"{address}#people", "--direct"]
    command += ["--output", f"{address}#scored", "--store", str(published.store)]
    done = CliRunner().invoke(app, [*command, "--set", "predict.partition_by=day"])
    first, second = done.stdout.splitlines()[:2]
    assert first == "partitions 3 predicted, 1 done before"
    assert second.startswith("rows      90 of 90 predicted")
    assert second.endswith(", with those of earlier runs")
