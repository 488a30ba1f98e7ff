"""What `--data` and `--set` of a command say about a table, and what a job would not take
either.
"""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import sqlalchemy as sa

from evenhand.flows.data_source import parse_data
from evenhand.flows.job import TableSource
from evenhand.tasks.errors import InputError
from evenhand.tasks.sources.queries import check_query


def test_a_known_table_needs_no_path() -> None:
    found = parse_data("adult", [])
    assert set(found.source) == set(TableSource.model_fields)
    assert (found.source["name"], found.source["path"]) == ("adult", None)
    assert (found.shown, found.evaluate, found.seed) == ("adult", {}, None)


def test_a_file_is_relative_to_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A known name goes before it."""
    monkeypatch.chdir(tmp_path)
    for name in ("adult", "new.csv"):
        (tmp_path / name).write_text("a\n1\n")
    assert parse_data("new.csv", []).source["path"] == str(tmp_path / "new.csv")
    assert parse_data("adult", []).source["path"] is None
    assert parse_data("./adult", []).source["path"] == str(tmp_path / "adult")


def test_two_files_of_one_content_are_one_table(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.csv").write_text("a\n1\n")
    one, two = (parse_data(str(tmp_path / f"{name}.csv"), []).source for name in ("a", "b"))
    assert one["name"] == two["name"]


def test_settings_are_read_as_a_job_reads_them() -> None:
    given = [
        "table.delimiter=;",
        "table.null_values=['?', n/a]",
        "evaluate.draws=200",
        "evaluate.level=9e-1",
        "evaluate.intersections=true",
        "seed=3",
    ]
    found = parse_data("https://host/new.csv", given)
    assert (found.source["delimiter"], found.source["null_values"]) == (";", ["?", "n/a"])
    assert found.evaluate == {"draws": 200, "level": 0.9, "intersections": True}
    assert found.seed == 3


def test_a_query_has_only_a_name() -> None:
    found = parse_data("applicants", ["table.sql=select 1", "table.connection=$URL"])
    assert (found.source["name"], found.source["path"]) == ("applicants", None)
    assert found.source["sql"] == "select 1"
    assert found.shown == "applicants"


def test_what_is_shown_has_no_secret() -> None:
    found = parse_data("https://me:$SECRET@host/new.csv?token=$TOKEN", [])
    assert found.shown == "https://host/new.csv"
    assert "$TOKEN" in found.source["path"]
    for data in ("https://me:secret@host/new.csv", "https://host/new.csv?x=1&sas_token=secret"):
        with pytest.raises(InputError, match="--data looks like it holds a credential"):
            parse_data(data, [])


@pytest.mark.parametrize(
    ("data", "overrides", "words"),
    [
        ("adlut", [], "did you mean 'adult'"),
        ("", [], "--data is empty"),
        ("adult", ["table.delimitr=;"], "did you mean 'table.delimiter'"),
        ("adult", ["table.path=x"], "unknown key 'table.path'"),
        ("adult", ["method.eta=1"], "unknown key 'method.eta'"),
        ("adult", ["evaluate.counterfactuals=1"], "unknown key"),
        ("adult", ["draws"], "wants KEY=VALUE"),
        ("adult", ["table.delimiter=ab"], "--set table.delimiter: "),
        ("adult", ["table.format=xls"], "--set table.format: "),
        ("adult", ["table.rows=3"], "--set table.rows: "),
        ("adult", ["evaluate.draws=5"], "at least 20 draws"),
        ("adult", ["evaluate.level=.nan"], "--set evaluate.level: "),
        ("adult", ["evaluate.draws=["], "not valid YAML"),
        ("adult", ["seed=-1"], "--set seed: "),
        ("adult", ["seed=true"], "--set seed: "),
    ],
)
def test_what_is_wrong_is_named(data: str, overrides: list[str], words: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_data(data, overrides)
    assert words in str(caught.value)


@pytest.mark.parametrize("override", ["table.connection=[", "db://me:secret@host/x"])
def test_no_message_repeats_a_password(override: str) -> None:
    given: list[Any] = [override.replace("[", "[secret")]
    with pytest.raises(InputError) as caught:
        parse_data("adult", given)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("column", "partitions", "numbers"),
    [
        ("day", "2026-11-02..2026-11-03", [2, 3]),
        ("day", "2026-11-02..", [2, 3]),
        ("name", "50 % :x", [1]),
        ("name", "it's", [3]),
        ("a:b %", "2..3", [2, 3]),
        (None, None, [1, 2, 3]),
    ],
)
def test_a_range_of_a_table_is_a_query(
    column: str | None, partitions: str | None, numbers: list[int], tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'warehouse.db'}"
    engine = sa.create_engine(url)
    days = [datetime.date(2026, 11, day) for day in (1, 2, 3)]
    rows = pd.DataFrame({"name": ["50 % :x", "b", "it's"], "a:b %": [1, 2, 3], "day": days})
    rows.to_sql("people", engine, index=False, dtype={"day": sa.Date()})
    overrides = []
    if column is not None:
        overrides = [f"table.partition_by={column!r}", f'table.partitions="{partitions}"']
    data = parse_data(f"{url}#people", overrides)
    assert data.shown == f"{url}#people"
    check_query(data.source["sql"])
    with engine.connect() as opened:
        chosen = opened.execute(sa.text(data.source["sql"])).fetchall()
    engine.dispose()
    assert [row[1] for row in chosen] == numbers


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["table.partitions=1.."], "write --data URL#TABLE"),
        (["table.partition_by=day"], "write --data URL#TABLE"),
    ],
)
def test_a_file_has_no_partitions(overrides: list[str], words: str, tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text("a\n1\n")
    with pytest.raises(InputError, match=words):
        parse_data(str(tmp_path / "new.csv"), overrides)
