"""A sweep in worker processes: its numbers, cache, failures and exit codes."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import scipy.stats
from typer.testing import CliRunner

from evenhand.flows.cli import app
from evenhand.flows.job_file import load_job
from evenhand.flows.resolved_job import resolve
from evenhand.flows.sweep import PointResult, execute, make_grid, run_point, sweep_table, tradeoffs
from evenhand.flows.workers import WorkerPool
from evenhand.tasks.execution.store import Store

# a gate that refuses: the comparable run must not stop to publish
JOB = (
    "loans-gbdt",
    *("--set", "table.rows=600"),
    *("--set", "method.n_steps=4"),
    *("--set", "evaluate.draws=20"),
    *("--set", "gates={accuracy: {min: 1.5}}"),
)
GRID = ("--over", "method.eta=0.1,0.4", "--seeds", "2")
STEPS = ("ingest", "contract", "preprocess", "profile", "controls", "train", "evaluate", "gate")


def call(command: str, *arguments: str, store: Path) -> Any:
    done = CliRunner().invoke(app, [command, *arguments, "--store", str(store)])
    assert done.exception is None or isinstance(done.exception, SystemExit), repr(done.exception)
    return done


@dataclass
class Swept:
    store: Path
    content: dict[str, Any]

    @property
    def table(self) -> dict[str, list[Any]]:
        columns: dict[str, list[Any]] = pq.read_table(self.content["sweep"]).to_pydict()
        return columns


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Swept:
    """Two values and two seeds, computed once by a worker process."""
    store = tmp_path_factory.mktemp("sweep") / "store"
    done = call("sweep", *JOB, *GRID, "--direct", "--workers", "1", "--json", store=store)
    assert done.exit_code == 0, done.stderr
    return Swept(store, json.loads(done.stdout))


def test_every_point_is_computed_and_shared_steps_only_once(swept: Swept) -> None:
    content = swept.content
    assert content["status"] == "evaluated"
    assert [(p["settings"]["method.eta"], p["seed"]) for p in content["points"]] == [
        (0.1, 0),
        (0.1, 1),
        (0.4, 0),
        (0.4, 1),
    ]
    assert {(p["status"], p["verdict"], p["error"]) for p in content["points"]} == {
        ("done", "refused", None)
    }
    assert all(tuple(point["seconds"]) == STEPS for point in content["points"])
    records = {step: len(list((swept.store / "steps" / step).iterdir())) for step in STEPS}
    # the made-up table and its split depend on the seed alone
    assert records == {
        "ingest": 2,
        "contract": 2,
        "preprocess": 2,
        "profile": 2,
        "train": 4,
        # a plain method is its own control; the share of positives is kept
        "controls": 4,
        "evaluate": 4,
        "gate": 4,
    }
    assert not (swept.store / "mlflow.db").exists()


def test_a_point_has_the_numbers_of_a_run_with_the_same_settings(
    swept: Swept, tmp_path: Path
) -> None:
    settings = ("--set", "method.eta=0.4", "--set", "seed=1")
    done = call("run", *JOB, *settings, "--direct", "--json", store=tmp_path / "store")
    expected = json.loads(done.stdout)["metrics"]
    point = swept.content["points"][3]
    found = {}
    for name, metric in point["metrics"].items():
        found[name] = metric["value"]
        if metric["low"] is not None:
            found |= {f"{name}.low": metric["low"], f"{name}.high": metric["high"]}
    assert found == expected
    row = {name: values[3] for name, values in swept.table.items()}
    assert {name: row[name] for name in expected} == expected
    assert (row["method.eta"], row["seed"], row["status"], row["verdict"]) == (
        0.4,
        1,
        "done",
        "refused",
    )
    assert row["seconds"] == pytest.approx(sum(row[f"seconds.{step}"] for step in STEPS))


def test_a_value_is_summed_up_over_its_seeds(swept: Swept) -> None:
    table, kept = swept.table, json.loads(Path(swept.content["artifacts"]["tradeoff"]).read_text())
    assert kept["values"] == swept.content["values"]
    for index, eta in enumerate((0.1, 0.4)):
        for name, summary in kept["values"][index]["metrics"].items():
            values = [x for x, e in zip(table[name], table["method.eta"], strict=True) if e == eta]
            interval = scipy.stats.ttest_1samp(values, 0).confidence_interval(0.95)
            assert summary["mean"] == pytest.approx(np.mean(values))
            assert summary["sd"] == pytest.approx(np.std(values, ddof=1))
            assert (summary["low"], summary["high"]) == pytest.approx(tuple(interval))


def test_a_point_has_its_differences_from_the_blind_control(bench: Any) -> None:
    bench.job |= {"gates": {"accuracy": {"min": 1.5}}, "method": {"name": "reweigh", "n_steps": 20}}
    differences = bench.run("--json").json["controls"]["blind"]["differences"]
    assert differences["log_loss"]["value"] != 0.0, "the model is its own control"
    found = run_point(
        resolve(*load_job(str(bench.folder / "job.yaml"))), str(bench.store), cached_only=True
    )
    assert found.over_blind == {name: one["value"] for name, one in differences.items()}


def test_again_everything_is_found_without_a_server_or_a_worker(
    swept: Swept, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evenhand.flows.sweep.make_pool", None)
    done = call("sweep", *JOB, *GRID, "--json", store=swept.store)
    assert done.exit_code == 0, done.stderr
    again = json.loads(done.stdout)
    assert again["run_id"] != swept.content["run_id"]
    assert again["cached"] == dict.fromkeys(STEPS, 4)
    assert [p["metrics"] for p in again["points"]] == [
        p["metrics"] for p in swept.content["points"]
    ]
    assert not (swept.store / "prefect" / "prefect.db").exists()


def test_every_value_has_a_line_and_the_report_is_found(swept: Swept) -> None:
    means = [value["metrics"]["balanced_accuracy"]["mean"] for value in swept.content["values"]]
    done = call("sweep", *JOB, *GRID, store=swept.store)
    assert done.exit_code == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split()[:4] for line in lines[1:3]] == [
        ["0.1", "2", "0/2", "pass"],
        ["0.4", "2", "0/2", "pass"],
    ]
    for mean, line in zip(means, lines[1:3], strict=True):
        assert f"{mean:.3f} ±" in line
    page = call("report", store=swept.store).stdout.strip()
    assert lines[-1].split()[-1] == page


@pytest.mark.long
def test_bad_points_and_dead_workers_leave_the_others_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = WorkerPool.run

    def run(self: WorkerPool, function: Any, resolved: Any, store_url: str) -> Any:
        if resolved.job.split.test == 0.2:
            return real(self, os._exit, 9)  # as a process that the system kills
        return real(self, function, resolved, store_url)

    monkeypatch.setattr(WorkerPool, "run", run)
    # too few training rows are left
    values = ("--over", "split.test=0.2,0.998,0.3")
    done = call(
        "sweep", *JOB, *values, "--direct", "--workers", "1", "--json", store=tmp_path / "store"
    )
    content = json.loads(done.stdout)
    assert done.exit_code == 4
    assert done.stderr.startswith(
        "evenhand: 2 of 3 runs failed; the first: the worker process died"
    )
    assert len(done.stderr.splitlines()) == 1
    died, bad, good = content["points"]
    assert [point["status"] for point in content["points"]] == ["failed", "failed", "done"]
    assert died["seconds"] == {}
    assert "the table cannot be split" in bad["error"]
    assert list(bad["seconds"]) == ["ingest", "contract"]
    assert 0 < good["metrics"]["accuracy"]["value"] < 1
    assert [value["failed"] for value in content["values"]] == [1, 1, 0]
    errors = pq.read_table(content["sweep"])["error"].to_pylist()
    assert errors == [died["error"], bad["error"], None]
    # one run a value: the interval is the run's own
    own, summary = good["metrics"]["auc"], content["values"][2]["metrics"]["auc"]
    assert (summary["low"], summary["high"], summary["n"]) == (own["low"], own["high"], 1)
    assert own["low"] < own["high"]
    page = Path(content["artifacts"]["report"]).read_text()
    assert "2 of 3 runs failed" in page


def result(**metrics: float | None) -> PointResult:
    named = {name.replace("__", "."): value for name, value in metrics.items()}
    return PointResult(
        "done",
        "passed",
        {name: {"value": value, "low": None, "high": None} for name, value in named.items()},
    )


def test_fronts_and_lacking_evidence_by_hand(tmp_path: Path) -> None:
    grid = make_grid("loans-gbdt", ["method.eta=0.1,0.2,0.3"])
    results = [
        result(balanced_accuracy=0.9, gap_max__group=0.3, gap_rms__group=None),
        result(balanced_accuracy=0.8, gap_max__group=0.1, gap_rms__group=None),
        result(balanced_accuracy=0.8, gap_max__group=0.2, gap_rms__group=None),
    ]
    found = tradeoffs(grid, results)
    assert found["without_evidence"] == ["gap_rms.group"]
    assert found["metrics"] == {"balanced_accuracy": "higher", "gap_max.group": "lower"}
    assert found["fronts"] == {"gap_max.group": [0, 1]}
    assert found["front"] == [0, 1]
    verdict = execute(grid, Store(str(tmp_path / "store")), "r", lambda *_: results)
    page = Path(verdict.artifacts["report"]).read_text()
    assert "no run had enough evidence: " in page
    assert "<code>gap_rms.group</code>" in page.partition("no run had enough evidence: ")[2][:200]


def test_all_runs_failed_is_still_told(tmp_path: Path) -> None:
    grid = make_grid("loans-gbdt", ["method.eta=0.1,0.2"])
    results = [PointResult(error="disk full"), PointResult(error="disk full")]
    store = Store(str(tmp_path / "store"))
    verdict = execute(grid, store, "r", lambda *_: results)
    assert (verdict.status, verdict.exit_code) == ("failed", 4)
    assert verdict.error == "2 of 2 runs failed; the first: disk full"
    assert "2 of 2 runs failed" in Path(verdict.artifacts["report"]).read_text()
    assert pq.read_table(verdict.artifacts["sweep"])["status"].to_pylist() == ["failed", "failed"]


def test_swept_values_keep_their_type_and_mixtures_become_text() -> None:
    grid = make_grid(
        "german-gbdt",
        [
            "method.max_depth=2,3",
            "method=gbdt,{name: reweigh, attributes: [age]}",
            "split.test=0.2,0.3",
        ],
    )
    table = sweep_table(grid, [result(auc=0.5) for _ in grid.points])
    assert [str(table[name].type) for name in ("method.max_depth", "method", "split.test")] == [
        "int64",
        "string",
        "double",
    ]
    assert set(table["method"].to_pylist()) == {"gbdt", "{name: reweigh, attributes: [age]}"}
