"""Runs that others went before or go beside: what is kept, what is redone, and who trains."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
QUICK = (
    "--set",
    "method.n_steps=60",
    "--set",
    "evaluate.draws=50",
    "--set",
    "gates={auc: {min: 0.4}}",
)
# boosting slow enough to be met in the middle, or to be killed at its start, on any machine
BUDRO = (
    "loans-budro",
    "--direct",
    "--set",
    "evaluate.draws=20",
    "--set",
    "gates={auc: {min: 0.4}}",
)
SLOW = (*BUDRO, "--set", "table.rows=2000", "--set", "method.n_steps=150")
LESS_SLOW = (*BUDRO, "--set", "table.rows=1000", "--set", "method.n_steps=60")

pytestmark = pytest.mark.flow


def copy_of_the_project(folder: Path) -> Path:
    """With what is compiled of it, which holds as long as its source is unchanged."""
    folder.mkdir()
    being_written = shutil.ignore_patterns("*.tmp.*", "*.pyc.*")
    for package in ("flows", "tasks", "fairlib", "data_contracts"):
        shutil.copytree(ROOT / package, folder / "evenhand" / package, ignore=being_written)
    return folder


@pytest.mark.long  # the keys are compared in tests/tasks/execution/test_step_keys.py
def test_editing_a_file_that_training_calls_reruns_training(cli: Any, tmp_path: Path) -> None:
    cli.source = copy_of_the_project(tmp_path / "copy")
    job = ("loans-budro", "--direct", "--set", "table.rows=400", *QUICK)
    first = cli.json(*job)
    assert first["status"] == "published", first["error"]
    assert set(cli.json(*job)["cached"]) == set(first["seconds"])

    solver = cli.source / "evenhand" / "fairlib" / "transport" / "_kernels.py"
    solver.write_text(solver.read_text() + "\n# edited\n")
    edited = cli.json(*job)
    assert edited["status"] == "published", edited["error"]
    assert edited["cached"][:5] == ["ingest", "contract", "preprocess", "profile", "fair_metric"]
    assert "train" not in edited["cached"]


def wait_for(condition: Any, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.long
def test_a_killed_run_is_finished_by_the_next_one(cli: Any) -> None:
    process = cli.start("run", *LESS_SLOW, "--json")
    locks = cli.store / "locks"
    wait_for(lambda: list(locks.glob("train-*")), process)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert not list((cli.store / "steps" / "train").glob("*")), "killed too late to tell anything"
    (record,) = map(
        json.loads, (path.read_text() for path in (cli.store / "steps" / "controls").glob("*"))
    )
    finished = {Path(item["uri"]) for item in record["outputs"].values() if item["kind"] == "model"}
    assert set((cli.store / "artifacts" / "model").glob("*")) == finished

    second = cli.json(*LESS_SLOW)
    assert second["status"] == "published", second["error"]
    assert second["cached"] == [
        "ingest",
        "contract",
        "preprocess",
        "profile",
        "fair_metric",
        "controls",
    ]


@pytest.mark.long  # one lock a key is tested in tests/tasks/execution/test_store.py
def test_two_runs_at_the_same_moment_train_once(cli: Any) -> None:
    processes = [cli.start("run", *SLOW, "--json") for _ in range(2)]
    verdicts = [json.loads(process.communicate(timeout=300)[0]) for process in processes]
    assert [verdict["status"] for verdict in verdicts] == ["published", "published"], verdicts
    assert sum("train" in verdict["cached"] for verdict in verdicts) == 1
    assert verdicts[0]["metrics"] == verdicts[1]["metrics"]
    assert verdicts[0]["model"] == verdicts[1]["model"]
