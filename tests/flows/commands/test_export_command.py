"""`evenhand export`: what a person types, and one line for everything that cannot be exported."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import duckdb
import numpy as np
import onnxruntime
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from evenhand.flows.cli import app


@pytest.fixture
def export(tmp_path: Path) -> Callable[..., Any]:
    def call(store: Path, *arguments: str) -> Any:
        return CliRunner().invoke(app, ["export", *arguments, "--store", str(store)])

    return call


def test_a_published_classifier_in_both_formats(
    published: Any, export: Any, tmp_path: Path
) -> None:
    artifacts = published.json["artifacts"]
    rows = pq.read_table(artifacts["contract.checked"])
    measured = pq.read_table(artifacts["evaluate.predictions"]).to_pydict()
    done = export(published.store, "people-gbdt", "--to", "sql")
    assert done.exit_code == 0, done.stderr
    with duckdb.connect() as database:
        database.register("people", rows)
        found = database.execute(done.stdout).fetchnumpy()
    place = {key: row for row, key in enumerate(found["key"])}
    order = [place[key] for key in np.array(rows["key"].to_pylist())[measured["row"]]]
    np.testing.assert_allclose(found["probability"][order], measured["probability"], atol=1e-6)
    np.testing.assert_array_equal(found["prediction"][order] == "yes", measured["prediction"])

    path = tmp_path / "people.onnx"
    done = export(published.store, "people-gbdt@champion", "--to", "onnx", "--output", str(path))
    assert done.exit_code == 0, done.stderr
    assert done.stdout.startswith(f"wrote {path}  (onnx of models:/people-gbdt/1, ")
    session = onnxruntime.InferenceSession(path.read_bytes())
    assert {item.name for item in session.get_inputs()} == {"income", "job", "owner", "since"}
    frame = rows.to_pandas()
    days = np.array(rows["since"].to_pylist(), dtype="datetime64[D]").astype(float)
    given = {
        "income": frame["income"].to_numpy(float), "since": days,
        "job": frame["job"].to_numpy(object), "owner": frame["owner"].astype(str).to_numpy(object),
    }  # fmt: skip
    probability = session.run(
        ["probability"], {name: values[:, None] for name, values in given.items()}
    )[0]
    np.testing.assert_allclose(probability[measured["row"], 0], measured["probability"], atol=1e-6)
    assert [*tmp_path.iterdir()] == [path]

    path = tmp_path / "people.pmml"
    done = export(published.store, "people-gbdt", "--to", "pmml", "--output", str(path))
    assert (done.exit_code, done.stdout.split()[:2]) == (0, ["wrote", str(path)]), done.stderr
    document = ET.parse(path).getroot()
    fields = document.iter("{http://www.dmg.org/PMML-4_4}DataField")
    assert {field.get("name") for field in fields} == {"income", "job", "owner", "since"}
    assert document[0].get("description", "").startswith("models:/people-gbdt/1, gbdt.")


def test_a_published_proxy_as_a_filter(published_proxy: Any, export: Any, tmp_path: Path) -> None:
    job = published_proxy.store.parent / "job.yaml"
    given = (
        "people-proxy",
        "--to",
        "sql",
        "--job",
        str(job),
        "--dialect",
        "bigquery",
        "--table",
        "a.people",
    )
    path = tmp_path / "filter.sql"
    changes = ("--set", "filter.hash=sha256", "--set", "filter.key=[key]", "--output", str(path))
    done = export(published_proxy.store, *given, *changes)
    assert (done.exit_code, done.stdout.split()[:2]) == (0, ["wrote", str(path)]), done.stderr
    assert "FROM a.people AS t" in path.read_text()
    refused = export(published_proxy.store, *given)
    assert (refused.exit_code, len(refused.stderr.splitlines())) == (2, 1)
    assert "filter.hash=sha256" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "cause"),
    [
        (
            ("people-gbdt", "--to", "pickle"),
            "--to 'pickle' is no format: give bundle, onnx, sql or pmml",
        ),
        (("people-gbdt", "--to", "pmml"), "--format pmml needs --output"),
        (
            ("people-gbdt", "--to", "pmml", "--output", "x", "--dialect", "duckdb"),
            "takes no --dialect",
        ),
        (
            ("people-gbdt", "--to", "sql", "--dialect", "mysql"),
            "not one of duckdb, postgres, bigquery",
        ),
        (("people-gbdt", "--to", "onnx"), "needs --output"),
        (
            ("people-gbdt", "--to", "onnx", "--output", "x.onnx", "--dialect", "duckdb"),
            "takes no --dialect",
        ),
        (("people-gbdt", "--to", "sql", "--output", "."), "no path of a file"),
        (("people-gbdt", "--to", "sql", "--output", "none/x.sql"), "no path of a file"),
        (("people-gbdt", "--to", "sql", "--set", "filter.seed=1"), "are for proxies"),
        (("people-gbdt", "--to", "sql", "--table", "a; b"), "is no table's name"),
        (("people-gbdt/7", "--to", "sql"), "has no version 7 in this store"),
        (
            ("people-dadi", "--to", "sql"),
            "the method dadi cannot be exported to sql; the methods that can",
        ),
        (("people-dadi", "--to", "onnx", "--output", "x.onnx"), "dadi cannot be exported to onnx"),
        (("people-dadi", "--to", "pmml", "--output", "x.pmml"), "dadi cannot be exported to pmml"),
    ],
)
def test_bad_input(
    agent_store: Path, export: Any, arguments: Any, cause: str, tmp_path: Path, bench: Any
) -> None:
    done = export(agent_store, *arguments)
    assert done.exit_code == 2
    (line,) = done.stderr.splitlines()
    assert cause in line
    assert (done.stdout, [*tmp_path.iterdir()]) == ("", [])


@pytest.mark.parametrize("target", ["onnx", "pmml"])
def test_a_proxy_is_exported_to_sql_alone(
    published_proxy: Any, export: Any, tmp_path: Path, target: str
) -> None:
    done = export(
        published_proxy.store, "people-proxy", "--to", target, "--output", str(tmp_path / "x")
    )
    assert (done.exit_code, len(done.stderr.splitlines())) == (2, 1)
    assert "export it to sql" in done.stderr


def test_the_extra_is_named(export: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    done = export(tmp_path, "people-gbdt", "--to", "onnx", "--output", "x")
    assert done.exit_code == 2
    assert (
        done.stderr
        == "evenhand: `evenhand export` needs an optional extra: pip install 'evenhand[export]'.\n"
    )
