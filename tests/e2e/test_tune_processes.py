"""Searches in processes of their own: killed at random moments, and on a Dask cluster."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from evenhand.flows.cli import app
from evenhand.tasks.errors import NotCarriedOut
from evenhand.tasks.tuning.trial_search import Study
from tests.flows.people import Bench

SMALL = {"n_steps": 4, "max_depth": 2, "n_iter_no_change": None, "n_jobs": 1}
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def searching(publishing: Bench) -> Bench:
    publishing.job["method"] = {"name": "gbdt", **SMALL}
    publishing.job["evaluate"]["min_cell"] = 2
    publishing.job["tune"] = {
        "trials": 40, "folds": 2, "workers": 1, "where": ["gap_max.sex <= 0.9"], "study": "s",
        "space": {"reweigh": SMALL, "tolerance": [0.0, 0.1, 0.2]},
    }  # fmt: skip
    return publishing


def facts_of(trials: list[Any]) -> list[tuple[Any, ...]]:
    """What does not depend on time."""
    names = (
        "number",
        "kind",
        "state",
        "model",
        "method",
        "arguments",
        "decision",
        "tolerance",
        "metrics",
    )
    return [tuple(trial[name] for name in names) for trial in trials]


def searched(bench: Bench, store: Path, *arguments: str) -> list[Any]:
    """Search in this process."""
    given = [
        "tune",
        str(bench.write()),
        "--direct",
        "--json",
        "--force",
        "--store",
        str(store),
        *arguments,
    ]
    done = CliRunner().invoke(app, given)
    assert done.exit_code == 0, done.stderr
    trials: list[Any] = json.loads(done.stdout)["tuning"]["trials"]
    return trials


@pytest.mark.long
def test_a_search_killed_ten_times_ends_as_one_that_was_not(searching: Bench) -> None:
    """At random moments of a real process; nothing finished is lost, and only what ran is
    repeated.
    """
    whole = searched(searching, searching.folder / "other")
    rng = random.Random(0)
    command = [sys.executable, "-c", "from evenhand.flows.cli import main; main()", "tune"]
    command += [
        str(searching.write()),
        "--direct",
        "--json",
        "--force",
        "--store",
        str(searching.store),
    ]
    study, before, kills = Study(searching.store / "studies" / "s"), [], 0
    while kills < 10:
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        # from the moment when it searches: the start takes seconds
        journal, size = study.folder / "journal.log", 0
        began = journal.stat().st_size if journal.exists() else 0
        while process.poll() is None and size <= began:
            time.sleep(0.02)
            size = journal.stat().st_size if journal.exists() else 0
        time.sleep(rng.uniform(0.0, 0.25))
        process.kill()
        stderr = process.communicate()[1]
        if process.returncode != -signal.SIGKILL:
            assert process.returncode == 0, stderr
            break
        kills += 1
        study = Study(study.folder)
        if study.identity() is None:
            continue
        after = study.trials()
        known = {trial.number: trial for trial in after}
        assert [known.get(trial.number) for trial in before] == before
        states = [item.state.name for item in study._items()]
        assert states.count("RUNNING") <= 1
        before = after
    assert kills == 10
    found = searched(searching, searching.store)
    assert facts_of(found) == facts_of(whole)


@pytest.mark.long
def test_a_dask_cluster_finds_the_same(searching: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    searching.job["tune"]["trials"] = 5
    here = searched(searching, searching.folder / "other")
    searching.job["tune"]["engine"] = "dask"
    assert facts_of(searched(searching, searching.store)) == facts_of(here)


def test_a_dask_scheduler_that_does_not_answer_gets_one_line(
    searching: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed")
    from evenhand.flows import workers

    monkeypatch.setattr(workers, "DASK_TIMEOUT_S", 0.2)
    for address in ("tcp://127.0.0.1:9", "nonsense"):
        with pytest.raises(NotCarriedOut, match=f"scheduler at {address} does not answer"):
            workers.DaskPool(address, 1)
