"""Filter commands that are wrong before a file is read: exit code 2 and one line that names the
cure.
"""

from __future__ import annotations

import json
import shutil
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from evenhand.flows.cli import app


@pytest.fixture
def asked(proxies: Any) -> Any:
    """A bench with a proxy that is not published, and a file to filter."""
    proxies.store.mkdir(mode=0o700)
    shutil.copyfile(proxies.database, proxies.store / "mlflow.db")
    (proxies.folder / "in").mkdir()
    pq.write_table(proxies.table, proxies.folder / "in" / "a.parquet")
    return proxies


def filtered(bench: Any, *arguments: str, job: str | None = None) -> Result:
    given = ("--input", "in", "--output", "out", "--direct", "--store", str(bench.store))
    done = CliRunner().invoke(app, ["filter", job or str(bench.write()), *given, *arguments])
    assert done.exception is None or isinstance(done.exception, SystemExit), repr(done.exception)
    return done


def refused(
    bench: Any, *words: str, arguments: tuple[str, ...] = (), job: str | None = None
) -> str:
    """Refuse in one line, and write nothing where the filtered rows would be."""
    done = filtered(bench, *arguments, job=job)
    assert done.exit_code == 2, (done.exit_code, done.stdout, done.stderr)
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("evenhand: ")
    for word in words:
        assert word in line, (word, line)
    assert not (bench.folder / "out").exists()
    return str(line)


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("filter.kye=[key]", ["unknown key 'filter.kye'", "did you mean 'key'", "seed, hash, key"]),
        ("fliter.key=[key]", ["unknown key 'fliter'", "did you mean 'filter'"]),
        ("filter=[key]", ["filter: ", "must be a mapping"]),
        ("filter.key=key", ["filter.key", "list"]),
        ("filter.key=[]", ["filter.key", "a list of 1 or more"]),
        ("filter.key=[key, key]", ["filter.key", "each only once"]),
        ("filter.key=[1]", ["filter.key", "must be text"]),
        ("filter.engine=spark", ["filter.engine", "'threads' or 'dask'"]),
        (
            "filter.address=tcp://h:1",
            ["filter.address", "set engine to dask, or leave address out"],
        ),
        ("filter.seed=soon", ["filter.seed", "a whole number"]),
        ("filter.seed=-1", ["filter.seed", "at least 0"]),
        ("filter.seed=2147483648", ["filter: seed", "must be below 2,147,483,648"]),
        ("filter.probability=often", ["filter.probability", "true or false"]),
        ("filter.sensitive=keep", ["filter.sensitive", "'drop' or 'refuse'"]),
        ("filter.format=orc", ["filter.format", "'parquet'", "'csv'"]),
        ("filter.delimiter=ab", ["filter.delimiter", "at most 1"]),
        ("filter.compression=xz", ["filter.compression", "'snappy', 'zstd'"]),
        ("filter.rows_per_unit=0", ["filter.rows_per_unit", "at least 1"]),
        ("filter.max_drift=.nan", ["filter.max_drift", "finite"]),
        ("filter.max_drift=-1", ["filter.max_drift", "at least 0"]),
        ("filter.workers=0", ["filter.workers", "at least 1"]),
    ],
)
def test_a_wrong_setting_is_refused_before_a_run_begins(
    asked: Any, setting: str, words: list[str]
) -> None:
    refused(asked, *words, arguments=("--set", setting))
    assert not (asked.store / "runs").exists()


@pytest.mark.parametrize("verb", ["filter", "predict"])
def test_rows_are_named_once(verb: str) -> None:
    twice = CliRunner().invoke(app, [verb, "people", "a", "--input", "b", "--output", "out"])
    assert (twice.exit_code, twice.stdout) == (2, "")
    assert twice.stderr == (
        "evenhand: the rows are given twice, as a and by --input: leave one out.\n"
    )
    never = CliRunner().invoke(app, [verb, "people", "--output", "out", "--json"])
    assert never.exit_code == 2
    assert f"`evenhand {verb} … ROWS --output …`" in json.loads(never.stdout)["error"]


def test_no_such_job_is_refused(asked: Any) -> None:
    refused(asked, "'bank-proxi'", "did you mean 'bank-proxy'", job="bank-proxi")


def test_a_proxy_that_is_not_published_is_named_with_the_cure(asked: Any) -> None:
    cure = "run its job people-proxy first"
    refused(asked, "'people-proxy' is not published in this store", "'champion'", cure)
    refused(
        asked, "'other-proxy' is not published", arguments=("--set", "publish.model=other-proxy")
    )
    refused(asked, "'candidate'", arguments=("--set", "publish.alias=candidate"))


def test_a_refusal_is_one_object_too(asked: Any) -> None:
    for setting, run in (("filter.engine=spark", False), ("publish.alias=candidate", True)):
        done = filtered(asked, "--json", "--set", setting)
        assert done.exit_code == 2
        assert len(done.stdout.splitlines()) == 1
        verdict = json.loads(done.stdout)
        assert (verdict["status"], verdict["exit_code"]) == ("failed", 2)
        assert (verdict["metrics"], verdict["model"]) == ({}, None)
        assert done.stderr == f"evenhand: {verdict['error']}\n"
        assert bool(verdict["run_id"]) == run
    (left,) = (asked.store / "runs").iterdir()
    assert [path.name for path in left.iterdir()] == ["verdict.json"]
    assert json.loads((left / "verdict.json").read_text()) == verdict


def test_the_job_of_a_classifier_filters_nothing(bench: Any) -> None:
    refused(
        bench, "people-gbdt trains a classifier (gbdt)", "filter with a job whose method is a proxy"
    )
