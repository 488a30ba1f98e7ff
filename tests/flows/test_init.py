"""`evenhand init`: from a table that nobody described to a published model, with no code."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import yaml
from typer.testing import CliRunner

from evenhand.flows.cli import app
from evenhand.flows.job import load_job
from evenhand.flows.resolved_job import resolve

COLUMNS = ("--label", "paid", "--sensitive", "sex", "--sensitive", "age", "--id", "key")


def command(*arguments: Any) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_a_new_table_is_described_and_run(
    tmp_path: Path, people: Any, registry: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    table = tmp_path / "_-Leute, 2026 (1).csv"
    pyarrow.csv.write_csv(people(300), table)
    done = command("init", table, *COLUMNS, "--into", "new folder")
    assert done.exit_code == 0, done.stderr
    job = tmp_path / "new folder" / "Leute-2026-1.yaml"
    assert f"evenhand run {Path('new folder') / job.name}" in done.stdout
    store = tmp_path / "store"
    store.mkdir()
    shutil.copyfile(registry, store / "mlflow.db")
    quick = ("--set", "method.n_steps=3", "--set", "evaluate.draws=20", "--json", "--store", store)
    ran = command("run", job, "--direct", *quick)
    assert ran.exit_code == 0, ran.stderr
    verdict = json.loads(ran.stdout)
    assert verdict["status"] == "published"
    assert {"gap_max.sex", "gap_max.age"} <= set(verdict["metrics"])


def test_a_parquet_table_gets_the_contract_of_the_same_csv(tmp_path: Path, people: Any) -> None:
    found = {}
    for ending, write in (("csv", pyarrow.csv.write_csv), ("parquet", pq.write_table)):
        write(people(300), tmp_path / f"people.{ending}")
        done = command("init", tmp_path / f"people.{ending}", *COLUMNS, "--into", tmp_path / ending)
        assert done.exit_code == 0, done.stderr
        found[ending] = resolve(*load_job(str(tmp_path / ending / "people.yaml")))
    assert found["parquet"].contract == found["csv"].contract
    assert found["parquet"].source()["path"] == str(tmp_path / "people.parquet")


def test_all_that_the_comments_offer_is_a_job(tmp_path: Path, people: Any) -> None:
    """With every comment taken away, what stands below it is valid."""
    pyarrow.csv.write_csv(people(300), tmp_path / "people.csv")
    command("init", tmp_path / "people.csv", *COLUMNS, "--into", tmp_path)
    job = tmp_path / "people.yaml"
    lines = job.read_text().splitlines()
    shown = [line[2:] for line in lines if line.startswith("# ") and not line[2].isupper()]
    content = yaml.safe_load("\n".join([line for line in lines if not line.startswith("#")] + shown))
    assert {"evaluate", "gates"} <= set(content)
    job.write_text(yaml.safe_dump(content))
    assert resolve(*load_job(str(job))).job.gates


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nowhere.csv", *COLUMNS), ("nowhere.csv",)),
        (("people.csv", "--label", "payd", "--sensitive", "sex"), ("'payd'", "did you mean 'paid'?")),
        (("people.csv", "--label", "paid", "--sensitive", "sax"), ("'sax'", "did you mean 'sex'?")),
        (("people.csv", "--label", "job", "--sensitive", "sex"), ("'job'", "two")),
        (("people.csv", "--label", "paid", "--sensitive", "key"), ("'key'", "too many groups")),
        (("people.csv", "--label", "paid", "--sensitive", "paid"), ("'paid'", "choose one")),
        (("people.csv", *COLUMNS, "--method", "gbtd"), ("'gbtd'", "known: gbdt")),
        (("people.csv", *COLUMNS, "--positive", "maybe"), ("'maybe'", "'paid'")),
        (("people.csv", *COLUMNS, "--name", "a b"), ("'a b'", "use letters")),
        (("people.csv", *COLUMNS, "--name", "../x"), ("'../x'", "use letters")),
        (("people.csv", *COLUMNS, "--into", "people.csv/x"), ("cannot be written", "--into")),
        (("empty.csv", *COLUMNS), ("empty.csv is empty",)),
    ],
)
def test_what_cannot_be_described_is_refused(
    tmp_path: Path,
    people: Any,
    arguments: tuple[str, ...],
    words: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    pyarrow.csv.write_csv(people(100), tmp_path / "people.csv")
    (tmp_path / "empty.csv").touch()
    done = command("init", *arguments)
    assert done.exit_code == 2, (done.exit_code, done.stdout, done.stderr)
    assert len(done.stderr.splitlines()) == 1
    for word in words:
        assert word in done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"people.csv", "empty.csv"}


def test_files_are_not_overwritten_unless_told(tmp_path: Path, people: Any) -> None:
    pyarrow.csv.write_csv(people(100), tmp_path / "people.csv")
    arguments = ("init", tmp_path / "people.csv", *COLUMNS, "--into", tmp_path)
    assert command(*arguments).exit_code == 0
    (tmp_path / "people.yaml").write_text("mine")
    done = command(*arguments)
    assert done.exit_code == 2
    assert "--force" in done.stderr
    assert (tmp_path / "people.yaml").read_text() == "mine"
    assert command(*arguments, "--force").exit_code == 0
    assert (tmp_path / "people.yaml").read_text() != "mine"
