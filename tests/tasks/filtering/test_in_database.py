"""Predictions that a database computes are the model's, and rows of the contract's exceptions end alike."""

from __future__ import annotations

import datetime
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import sqlalchemy as sa
from typer.testing import CliRunner, Result

from evenhand.flows.cli import app
from evenhand.tasks.execution.store import Store
from evenhand.tasks.exporting import score
from evenhand.tasks.filtering.filter_engine import process_files
from evenhand.tasks.filtering.predicting import PredictSettings, RowPredictor
from evenhand.tasks.registry.bundle import open_bundle
from tests.flows.people import Done, make_people

pytestmark = pytest.mark.usefixtures("flow_environment")

ROWS = 10_000
DAYS = [datetime.date(2026, 11, 1), datetime.date(2026, 11, 2), None]


def fill(engine: sa.Engine, rows: int = ROWS) -> None:
    """Write people by day."""
    people = make_people(rows, 1).to_pandas()
    people["key"] = [f"100 % of :p{number}" for number in range(rows)]
    people["day"] = [DAYS[number % 3] for number in range(rows)]
    types = {"day": sa.Date(), "since": sa.Date(), "income": sa.Double()}
    people.to_sql("people", engine, index=False, dtype=types, chunksize=5000, method="multi")


@pytest.fixture
def address(tmp_path: Path) -> str:
    """A database of DuckDB with a table of people."""
    pytest.importorskip("duckdb_engine")
    url = f"duckdb:///{tmp_path / 'warehouse.db'}"
    engine = sa.create_engine(url)
    fill(engine, 300)
    engine.dispose()
    return url


def predict(
    store: Path, address: str, output: str, *options: str, source: str = "people"
) -> Result:
    """Predict from one table to another, by day."""
    command = ["predict", "people-gbdt", "--input", f"{address}#{source}"]
    command += ["--output", f"{address}#{output}", "--store", str(store), "--direct", "--json"]
    command += ["--set", "predict.partition_by=day"]
    return CliRunner().invoke(app, [*command, *options])


def change(address: str, *statements: str) -> None:
    engine = sa.create_engine(address)
    with engine.begin() as opened:
        for statement in statements:
            opened.exec_driver_sql(statement, execution_options={"no_parameters": True})
    engine.dispose()


def table(address: str, name: str) -> pd.DataFrame:
    """Rows of a table by key; none if it is not there."""
    engine = sa.create_engine(address)
    with engine.connect() as opened:
        if sa.inspect(opened).has_table(name):
            rows = pd.read_sql_query(sa.text(f"select * from {name} order by key"), opened)
        else:
            rows = pd.DataFrame()
    engine.dispose()
    return rows


def outcome(done: Result) -> tuple[dict[str, float], list[str]]:
    """Metrics and notes of a run."""
    assert done.exit_code == 0, done.stderr
    verdict = json.loads(done.stdout)
    return verdict["metrics"], verdict["notes"]


def check_alike(store: Path, address: str) -> None:
    """Compare a run that reads its rows with one in the database."""
    read, _ = outcome(predict(store, address, "scored"))
    pushed, notes = outcome(predict(store, address, "pushed", "--in-database"))
    assert (pushed, notes) == (read, [])
    expected = table(address, "scored")
    given = table(address, "pushed")
    np.testing.assert_allclose(given.pop("probability"), expected.pop("probability"), atol=1e-6)
    pd.testing.assert_frame_equal(given, expected)
    again, _ = outcome(predict(store, address, "pushed", "--in-database"))
    assert (again["files_predicted"], again["files_done_before"]) == (0, 3)
    # a run of one kind finds the partitions of the other done
    again, _ = outcome(predict(store, address, "scored", "--in-database"))
    assert again["files_done_before"] == 3


@pytest.mark.long  # an ordinary run writes 10,000 rows to DuckDB; the next tests have 300
def test_duckdb_decides_as_the_model(published: Done, tmp_path: Path) -> None:
    pytest.importorskip("duckdb_engine")
    url = f"duckdb:///{tmp_path / 'large.db'}"
    engine = sa.create_engine(url)
    fill(engine)
    engine.dispose()
    check_alike(published.store, url)


@pytest.mark.long  # starts PostgreSQL
def test_postgresql_decides_as_the_model(published: Done, postgres: str, tmp_path: Path) -> None:
    engine = sa.create_engine(postgres)
    fill(engine)
    engine.dispose()
    check_alike(published.store, postgres)
    check_exceptions(published.store, postgres, tmp_path)


EXCEPTIONS = (
    "update people set job = 'baker' where key like '%:p7'",
    "update people set income = 'NaN' where key like '%:p8'",
    "update people set income = null where key like '%:p9'",
    "update people set income = 60000 where key like '%:p10'",
)


def check_exceptions(store: Path, address: str, scratch: Path) -> None:
    """Compare runs over rows that break the contract, where it sets such rows aside."""
    change(address, *EXCEPTIONS)
    bundle = open_bundle("people-gbdt", Store(str(store)), scratch)
    columns = [
        replace(column, maximum=50_000) if column.name == "income" else column
        for column in bundle.contract.columns
    ]
    for rules in (None, "observed"):
        kind = rules or "stated"
        contract = replace(
            bundle.contract, columns=tuple(columns), on_violation="quarantine", rules=rules
        )
        summaries = []
        for output, in_database in (("read", False), ("asked", True)):
            settings = PredictSettings(
                partition_by="day", outside="set_aside", in_database=in_database, workers=2
            )
            judge = RowPredictor(replace(bundle, contract=contract), settings)
            output = f"{output}_{kind}"
            summary = process_files(judge, f"{address}#people", f"{address}#{output}")
            summaries.append(replace(summary, seconds=0.0, read_rows=0))
        assert summaries[0] == summaries[1]
        assert summary.read_rows == 4
        assert (summary.quarantined, summary.outside) == (4, int(rules == "observed"))
        for part in ("", "_quarantine"):
            expected = table(address, f"read_{kind}{part}")
            given = table(address, f"asked_{kind}{part}")
            pd.testing.assert_frame_equal(given, expected, atol=1e-6)
        assert len(given) == 4


def test_rows_that_break_the_contract_end_alike(
    published: Done, address: str, tmp_path: Path
) -> None:
    check_exceptions(published.store, address, tmp_path)


def test_a_contract_that_stops_says_so_alike(published: Done, address: str) -> None:
    change(address, EXCEPTIONS[0])
    errors = []
    for options in ((), ("--in-database",)):
        done = predict(published.store, address, "scored", *options)
        assert done.exit_code == 2
        errors.append(done.stderr)
    assert errors[0] == errors[1]
    assert "found 1 of 100 rows" in errors[0]


def test_a_database_that_cannot_is_one_line(published: Done, address: str, tmp_path: Path) -> None:
    cases: list[tuple[tuple[str, ...], str]] = [
        (("--reasons", "2"), "--in-database gives no reasons"),
        (("--output", str(tmp_path / "out")), "--in-database needs a table, and --output"),
        (("--output", f"sqlite:///{tmp_path / 'o.db'}#t"), "input and output in one database"),
    ]
    for options, words in cases:
        done = predict(published.store, address, "scored", "--in-database", *options)
        assert done.exit_code == 2
        (line,) = done.stderr.splitlines()
        assert words in line
    assert table(address, "scored").empty


def test_a_column_of_another_type_is_one_line(published: Done, address: str) -> None:
    change(
        address,
        "create view texts as select * replace (cast(income as varchar) as income) from people",
    )
    done = predict(published.store, address, "scored", "--in-database", source="texts")
    assert done.exit_code == 2
    (line,) = done.stderr.splitlines()
    assert "the column 'income' of texts is VARCHAR, and the contract has number: CAST it" in line
    assert table(address, "scored").empty


def test_a_model_that_sql_lacks_is_one_line(
    published: Done, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(score.EXPORTABLE, "sql", ())
    done = predict(published.store, address, "scored", "--in-database")
    assert done.exit_code == 2
    (line,) = done.stderr.splitlines()
    assert "leave --in-database out: a model of the method gbdt cannot be exported" in line


def test_another_dialect_is_one_line(published: Done, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'people.db'}"
    engine = sa.create_engine(url)
    fill(engine, 30)
    engine.dispose()
    done = predict(published.store, url, "scored", "--in-database")
    assert done.exit_code == 2
    (line,) = done.stderr.splitlines()
    assert "--in-database takes PostgreSQL and DuckDB, not sqlite" in line
