"""From verdict to exit code: passed, refused, not enough evidence, could not be carried out."""

from __future__ import annotations

import importlib
import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

import evenhand.flows.run
from evenhand.flows.commands import terminal
from evenhand.tasks.errors import (
    MAX_MESSAGE,
    InputError,
    NotCarriedOut,
    internal_fault,
    without_secrets,
)
from evenhand.tasks.execution.step import STEPS as STEP_TABLE
from evenhand.tasks.execution.store import Store
from tests.flows.people import STEPS, Bench
from tests.tasks.registry.test_client_refused import refusing


def registered(store: Path) -> tuple[list[int], list[tuple[str, int]]]:
    """Versions of the models, without those that hold records, and aliases; read without MLflow."""
    with sqlite3.connect(store / "mlflow.db") as opened:
        models = "select version from model_versions where name not like 'evenhand.audit.%' order by version"
        versions = [row[0] for row in opened.execute(models)]
        aliases = opened.execute("select alias, version from registered_model_aliases").fetchall()
    opened.close()
    return versions, aliases


def test_passing_gates_publish_and_end_with_0(publishing: Any) -> None:
    done = publishing.run("--json")
    assert (done.code, done.json["status"], done.json["exit_code"]) == (0, "published", 0)
    assert done.err == ""
    assert done.json["model"] == {
        "name": "people-gbdt",
        "version": "1",
        "alias": "champion",
        "uri": "models:/people-gbdt@champion",
    }
    assert list(done.json["seconds"]) == STEPS
    assert done.json["cached"] == []
    assert done.json["error"] is None
    assert done.json == done.verdict
    for name, place in done.json["artifacts"].items():
        assert Path(place).exists(), name
    again = publishing.run("--json")
    assert again.json["cached"] == STEPS
    assert again.json["metrics"] == done.json["metrics"]
    assert registered(done.store) == ([1], [("champion", 1)])


def test_a_person_reads_where_the_report_and_the_model_are(publishing: Any) -> None:
    done = publishing.run()
    assert "published people-gbdt version 1 as models:/people-gbdt@champion" in done.out
    report = next(line.split()[-1] for line in done.out.splitlines() if line.startswith("report"))
    assert Path(report).read_text().lower().startswith("<!doctype html>")
    assert "pass  auc is" in done.out


def test_a_refused_model_ends_with_1_and_the_champion_stays(publishing: Any) -> None:
    assert publishing.run().code == 0
    done = publishing.run("--set", "method.n_steps=1", "--set", "gates.auc.min=1.01", "--json")
    assert (done.code, done.json["status"], done.json["exit_code"]) == (1, "gated", 1)
    assert done.json["model"] is None
    assert "publish" not in done.json["seconds"]
    (result,) = done.json["gates"]["results"]
    assert not result["passed"]
    assert result["shortfall"] == pytest.approx(1.01 - done.json["metrics"]["auc"])
    report = Path(done.json["artifacts"]["report"]).read_text()
    assert "refused" in report
    assert registered(done.store) == ([1], [("champion", 1)])


def test_a_refused_model_says_so_in_words(bench: Any) -> None:
    done = bench.run("--set", "gates.auc.min=1.01")
    assert done.code == 1
    assert done.err == ""
    assert "FAIL  auc is" in done.out
    assert "not published: the gates refused the model" in done.out
    assert not (done.store / "mlflow.db").exists()


def test_lack_of_evidence_ends_with_3(bench: Any) -> None:
    arguments = ("--set", "evaluate.min_cell=100000", "--set", "gates={gap_max.sex: {max: 1.0}}")
    done = bench.run(*arguments, "--json")
    assert (done.code, done.json["status"], done.json["exit_code"]) == (3, "gated", 3)
    assert done.json["metrics"]["gap_max.sex"] is None
    assert done.json["model"] is None
    assert "insufficient evidence" in Path(done.json["artifacts"]["report"]).read_text().lower()
    assert "not enough evidence" in bench.run(*arguments).out
    assert not (done.store / "mlflow.db").exists()


def test_a_refusal_outranks_lack_of_evidence(bench: Any) -> None:
    gates = "gates={gap_max.sex: {max: 1.0}, auc: {min: 1.01}}"
    done = bench.run("--set", "evaluate.min_cell=30", "--set", gates, "--json")
    assert done.json["metrics"]["gap_max.sex"] is None
    assert done.code == 1


def test_no_registry_ends_with_4_and_registers_nothing(
    publishing: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://me:pass-word@127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    done = publishing.run("--json")
    assert (done.code, done.json["status"], done.json["exit_code"]) == (4, "failed", 4)
    assert done.json == done.verdict
    assert done.json["model"] is None
    assert len(done.err.splitlines()) == 1
    assert "the model registry at http://127.0.0.1:9 gave no valid answer" in done.err
    assert "check MLFLOW_TRACKING_URI" in done.err
    assert "pass-word" not in done.err + done.out
    assert list(done.store.glob("tmp/*")) == []
    assert not list(done.store.glob("steps/publish/*"))
    # the rest is kept for the next try
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    again = publishing.run("--json")
    assert (again.code, again.json["cached"]) == (0, STEPS[:-1])


def test_a_registry_that_cannot_be_opened_ends_with_4(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (bench.folder / "file").write_text("")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{bench.folder}/file/mlflow.db")
    done = bench.run()
    assert done.code == 4
    assert len(done.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("step", "error"),
    [
        *((step, KeyError("secret-value")) for step in STEPS),
        ("train", OSError(28, "No space left on device")),
    ],
)
def test_a_fault_in_a_step_ends_with_4_and_not_1(
    champion: Any, step: str, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = importlib.import_module(STEP_TABLE[step].module)
    for name in STEPS[STEPS.index(step) :]:
        shutil.rmtree(champion.store / "steps" / name)

    def crash(context: Any) -> Any:
        (context.workdir / "half").write_text("half")
        raise error

    monkeypatch.setattr(module, step, crash)
    done = champion.run("--json")
    assert (done.code, done.json["status"], done.json["exit_code"]) == (4, "failed", 4)
    assert done.json == done.verdict
    assert len(done.err.splitlines()) == 1
    assert "secret-value" not in done.err + done.out
    expected = "internal fault (KeyError" if isinstance(error, KeyError) else "the disk is full"
    assert expected in done.err
    assert list(done.json["seconds"]) == done.json["cached"] == STEPS[: STEPS.index(step)]
    assert list(done.store.glob("tmp/*")) == []
    assert not list((done.store / "steps" / step).glob("*"))


def test_a_fault_is_shown_in_full_on_demand(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVENHAND_LOG", "1")
    module = importlib.import_module("evenhand.tasks.steps.gate_step")

    def crash(context: Any) -> Any:
        raise KeyError("in detail")

    monkeypatch.setattr(module, "gate", crash)
    done = bench.run()
    assert done.code == 4
    assert "Traceback" in done.err
    assert "in detail" in done.err


@pytest.mark.long
def test_a_fault_while_the_pages_are_written_ends_with_4(
    publishing: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: Any) -> None:
        raise AttributeError("secret-value")

    monkeypatch.setattr(evenhand.flows.run, "_write_outputs", crash)
    done = publishing.run("--json")
    assert (done.code, done.json["status"]) == (4, "failed")
    assert "secret-value" not in done.err + done.out


def test_no_verdict_ends_with_4(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "execute_verb", lambda *_, **__: None)
    done = bench.run("--json")
    assert (done.code, done.json["status"], done.json["exit_code"]) == (4, "failed", 4)
    assert "without a verdict" in done.json["error"]
    assert len(done.err.splitlines()) == 1


def test_an_interruption_ends_with_4_and_not_1(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(terminal, "execute_verb", interrupt)
    done = bench.run("--json")
    assert done.code == 4
    assert "interrupted: run again" in done.json["error"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["init", "{table}", "--label", "paid", "--sensitive", "sex", "--name", "new"],
        ["cache", "ls"],
        ["cache", "gc"],
        ["report"],
    ],
)
def test_no_command_ends_with_1_for_a_fault_of_ours(
    bench: Any, arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from typer.testing import CliRunner

    from evenhand.flows.cli import app

    def crash(*_: Any, **__: Any) -> Any:
        raise KeyError("secret-value")

    bench.write()
    for place in ("usage", "prune", "runs"):
        monkeypatch.setattr(Store, place, crash)
    monkeypatch.setattr("evenhand.tasks.sources.table_reader.read_source", crash)
    monkeypatch.setenv("EVENHAND_STORE", str(bench.store))
    given = [argument.format(table=bench.folder / "people.csv") for argument in arguments]
    done = CliRunner().invoke(app, given)
    assert done.exit_code == 4
    assert "internal fault (KeyError" in done.stderr
    assert "secret-value" not in done.stderr


def test_an_error_is_one_line_of_bearable_length() -> None:
    assert str(InputError("a\nb\x85c\u2028 d\r\n")) == "a b c d"
    long = str(InputError("x" * 5000))
    assert len(long) == MAX_MESSAGE
    assert long.endswith("…")


def test_an_internal_fault_says_where_and_not_what() -> None:
    try:
        Store.name_of(None)  # type: ignore[arg-type]
    except TypeError as error:
        fault = str(internal_fault(error))
    assert "TypeError at tasks/execution/store.py:" in fault
    assert isinstance(internal_fault(KeyError("secret")), NotCarriedOut)
    assert "secret" not in str(internal_fault(KeyError("secret")))


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:p@ss@host/db", "postgresql://host/db"),
        ("https://host/a.csv?token=a/b", "https://host/a.csv"),
        ("sqlite:////a/b@c.db", "sqlite:////a/b@c.db"),
        ("(Error: http://u:p@h:80/x?y=1) again", "(Error: http://h:80/x) again"),
        ("plain/path@home.csv", "plain/path@home.csv"),
        ("folder/part-?.csv holds no file", "folder/part-?.csv holds no file"),
        ("s3://bucket/a-b?versionId=secret", "s3://bucket/a-b"),
        ("select name from t", "select name from t"),
    ],
)
def test_secrets_are_cut_out(url: str, shown: str) -> None:
    assert without_secrets(url) == shown


def test_the_exit_codes_are_documented_in_the_help() -> None:
    from typer.testing import CliRunner

    from evenhand.flows.cli import app

    text = " ".join(CliRunner().invoke(app, ["--help"]).stdout.split())
    for words in (
        "0 done",
        "1 a gate refused",
        "2 the job",
        "3 not enough evidence",
        "4 could not be",
    ):
        assert words in text


def test_json_has_the_documented_keys(bench: Any) -> None:
    done = bench.run("--set", "gates.auc.min=1.01", "--json")
    assert {"run_id", "status", "metrics", "model", "artifacts", "seconds", "cached"} <= set(
        done.json
    )
    assert json.loads(json.dumps(done.json)) == done.json
    assert {"auc", "auc.low", "auc.high", "gap_max.sex", "consistency.work"} <= set(
        done.json["metrics"]
    )


@pytest.mark.parametrize(("accuracy", "notes"), [(0.7, 1), (0.8, 0), (0.9, 0), (None, 0)])
def test_a_model_worse_than_the_majority_is_named(accuracy: float | None, notes: int) -> None:
    verdict = evenhand.flows.run.Verdict("run", "published", 0, metrics={"accuracy": accuracy})
    verdict.controls = {"majority": {"metrics": {"accuracy": 0.8}}}
    assert len(evenhand.flows.run.less_accurate(verdict)) == notes
    verdict.controls = {}
    assert evenhand.flows.run.less_accurate(verdict) == []


@pytest.mark.parametrize("alias", ["champion", "challenger"])
def test_a_refused_password_ends_a_run_before_it_trains(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, alias: str
) -> None:
    """No policy guards a challenger, so its run asks the registry nothing else before the end."""
    monkeypatch.delenv("MLFLOW_TRACKING_USERNAME", raising=False)
    with refusing() as server:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{server.server_port}")
        done = bench.run("--set", f"publish.alias={alias}")
    assert done.code == 2
    assert "asks for a name and a password: set MLFLOW_TRACKING_USERNAME" in done.err
    assert len(done.err.strip().splitlines()) == 1
    assert not list(bench.store.glob("steps/*/*.json"))
