"""Runs and searches whose counterfactuals are the adapted copies of a learned metric.

Each learns a metric, which trains some hundred small cross-validated models, and takes 5 to 10 CPU
seconds. Short tests of the same: tests/tasks/evaluating/test_metric_leaks.py (copies and what they
measure), tests/tasks/steps/test_fair_metric_step.py, tests/fairlib/methods/test_adapted_inputs.py.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from typer.testing import CliRunner

from evenhand.fairlib.datasets.planted import WORLDS
from evenhand.flows.cli import app

pytestmark = pytest.mark.long

COUNTERPART = "evaluate.counterfactuals={counterpart: adapted}"
QUICK = ("--set", "evaluate.draws=20")


@pytest.fixture
def starter(tmp_path: Path) -> Any:
    """`evenhand init` for people of a world with proxy features; gives the job's path."""
    people = WORLDS["linear"].draw(700, np.random.default_rng(0))
    table = pa.Table.from_pandas(people.table, preserve_index=False)
    table = table.append_column("hired", pa.array(np.where(people.label == 1, "yes", "no")))
    pyarrow.csv.write_csv(table, tmp_path / "people.csv")

    def write(method: str, *options: str) -> Path:
        arguments = ["init", str(tmp_path / "people.csv"), "--label", "hired", "--sensitive", "sex"]
        arguments += ["--method", method, "--name", method, "--into", str(tmp_path)]
        done = CliRunner().invoke(app, [*arguments, *options])
        assert done.exit_code == 0, done.stderr
        return tmp_path / f"{method}.yaml"

    return write


def command(verb: str, job: Path, *overrides: str) -> dict[str, Any]:
    sets = [part for override in overrides for part in ("--set", override)]
    store = str(job.parent / "store")
    arguments = [verb, str(job), *sets, *QUICK, "--direct", "--json", "--store", store]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.stderr
    content: dict[str, Any] = json.loads(done.stdout)
    return content


def test_logits_are_paired_with_those_of_counterparts(starter: Any) -> None:
    job = starter("clp", "--use-sensitive")
    quick = ("method.n_steps=150", "method.rho=3", "calibration=none", "decision=own")
    verdict = command("run", job, *quick)
    consistency = verdict["metrics"]["consistency.counterpart"]
    blind = verdict["controls"]["blind"]["metrics"]["consistency.counterpart"]
    assert consistency > max(0.85, blind + 0.1)
    # the method reads copies, and no metric
    assert "metric_leak.sex" not in verdict["metrics"]


def test_a_model_without_the_attribute_is_measured_too(starter: Any) -> None:
    job = starter("gbdt")
    metrics = command("run", job, COUNTERPART, "fair_metric={kind: learned}", "method.n_steps=30")[
        "metrics"
    ]
    # leaving the column out leaves its proxy features in
    assert 0.4 < metrics["consistency.counterpart"] < 0.9


def test_a_search_compares_metrics_by_counterparts(starter: Any) -> None:
    job = starter("project", "--use-sensitive")
    content = command(
        "tune",
        job,
        COUNTERPART,
        "tune={trials: 5, folds: 2, workers: 1, methods: [project], bound: point}",
        "tune.where=['consistency.counterpart >= 0.9']",
        "tune.space={project: {n_steps: 30, max_depth: 2}}",
    )
    trials = content["tuning"]["trials"]
    for trial in trials:
        assert "consistency.counterpart" in trial["metrics"]
    by_kind = {trial["kind"]: trial["metrics"]["consistency.counterpart"] for trial in trials}
    assert by_kind["default"]["value"] > by_kind["blind"]["value"] + 0.1
    assert content["tuning"]["winner"]


def test_a_published_model_is_measured_on_its_copies(starter: Any) -> None:
    job = starter("project", "--use-sensitive")
    run = command("run", job, "method.n_steps=30")
    people = str(job.parent / "people.csv")
    gate = {"consistency.counterpart": {"min": 0.5}, "adapted_consistency": {"min": 0.5}}
    gates = job.parent / "gates.yaml"
    gates.write_text(json.dumps(gate))
    store = ("--direct", "--json", "--store", str(job.parent / "store"))
    limits = ("--gates", str(gates))
    done = CliRunner().invoke(app, ["evaluate", "project", "--data", people, *limits, *store])
    assert done.exit_code == 0, done.stderr
    metrics = json.loads(done.stdout)["metrics"]
    assert metrics["adapted_consistency"] == metrics["consistency.counterpart"]
    assert metrics["adapted_consistency"] == pytest.approx(
        run["metrics"]["adapted_consistency"], abs=0.1
    )
    # neither labels nor groups are needed for the copies of new rows
    gates.write_text(json.dumps({"adapted_consistency": {"min": 0.5}}))
    done = CliRunner().invoke(app, ["monitor", "project", "--data", people, *limits, *store])
    assert done.exit_code == 0, done.stderr
    monitored = json.loads(done.stdout)["metrics"]
    assert monitored["adapted_consistency"] == metrics["adapted_consistency"]


def test_copies_that_a_model_cannot_make_are_no_gate(starter: Any) -> None:
    job = starter("gbdt")
    command("run", job, COUNTERPART, "fair_metric={kind: learned}", "method.n_steps=5")
    gates = job.parent / "gates.yaml"
    gates.write_text(json.dumps({"consistency.counterpart": {"min": 0.5}}))
    place = ("--data", str(job.parent / "people.csv"), "--store", str(job.parent / "store"))
    limits = ("--gates", str(gates), "--direct")
    done = CliRunner().invoke(app, ["evaluate", "gbdt", *place, *limits])
    assert done.exit_code == 2
    assert "reads no adapted columns" in done.stderr


def test_without_the_attribute_as_input_groups_are_treated_alike(starter: Any) -> None:
    job = starter("project")
    verdict = command("run", job, "method.n_steps=30")
    metrics = verdict["metrics"]
    assert metrics["consistency.counterpart"] > 0.95
    assert metrics["metric_leak.sex"] < 0.65
    blind = verdict["controls"]["blind"]["metrics"]
    assert blind["consistency.counterpart"] < metrics["consistency.counterpart"] - 0.1
