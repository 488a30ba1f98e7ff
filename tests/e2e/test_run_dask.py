"""A run whose steps workers of a Dask cluster run has the artifacts of one in this process."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import evenhand.flows.memory
import evenhand.flows.workers
import evenhand.tasks.steps.ingest_step
from evenhand.flows.engine import DirectEngine, Verdict
from evenhand.flows.job_file import load_job
from evenhand.flows.resolved_job import resolve
from evenhand.flows.run import execute
from evenhand.flows.workers import DaskPool
from evenhand.tasks.errors import EvenhandError, InputError, NotCarriedOut
from evenhand.tasks.execution.store import Store

pytestmark = [pytest.mark.flow, pytest.mark.long]

SETTINGS = (
    "table.rows=1500",
    "method.n_steps=4",
    "evaluate.draws=20",
    "publish.without_policy=true",
)


def run(folder: Path | str, *settings: str) -> Verdict:
    store = Store(str(folder))
    return execute(
        resolve(*load_job("loans-gbdt", [*SETTINGS, *settings])), store, "r", DirectEngine(store)
    )


def artifacts(folder: Path) -> set[str]:
    return {
        str(path.relative_to(folder))
        for path in (folder / "artifacts").rglob("*")
        if path.is_file()
    }


def kill_twice(cluster: Any, ended: threading.Event, killed: list[str]) -> None:
    """Kill two workers, each while it runs a unit of a step's work."""
    from distributed import Client

    with Client(cluster.scheduler_address) as client:
        while len(killed) < 2 and not ended.is_set():
            units = {
                worker: "_named_errors" in str(keys) for worker, keys in client.processing().items()
            }
            running = {worker for worker, runs in units.items() if runs}
            for nanny in cluster.workers.values():
                address, process = nanny.worker_address, nanny.process
                # a worker is not asked for its process: one that is ending may never answer
                if address in running - {*killed} and process is not None and process.pid:
                    os.kill(process.pid, signal.SIGKILL)
                    killed.append(address)
                    break
            time.sleep(0.02)


def test_workers_give_the_same_artifacts_though_two_are_killed(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evenhand.flows.workers, "SMALL", 0)
    monkeypatch.setattr(evenhand.tasks.steps.ingest_step, "GROUP_ROWS", 200)  # eight blocks
    carried: list[str] = []
    submit = DaskPool.run

    def noted(pool: DaskPool, function: Any, *arguments: Any) -> Any:
        carried.append(arguments[1])
        return submit(pool, function, *arguments)

    monkeypatch.setattr(DaskPool, "run", noted)
    alone = run(tmp_path / "alone")
    assert not carried
    ended, killed = threading.Event(), list[str]()
    killer = threading.Thread(target=kill_twice, args=(cluster, ended, killed))
    killer.start()
    try:
        shared = run(tmp_path / "shared", f"engine.dask={cluster.scheduler_address}")
    finally:
        ended.set()
        killer.join()
    assert len(killed) == 2
    assert carried == ["contract", "preprocess", "profile", "controls", "train", "evaluate"]
    assert (alone.status, shared.status, shared.metrics) == (
        "published",
        "published",
        alone.metrics,
    )
    assert artifacts(tmp_path / "shared") == artifacts(tmp_path / "alone")
    blocks = [path for path in artifacts(tmp_path / "shared") if "/checked/" in path]
    assert len(blocks) == 8
    # all of it is in the store: no cluster is asked
    monkeypatch.setenv("DASK_SCHEDULER_ADDRESS", "tcp://127.0.0.1:1")
    assert run(tmp_path / "shared").status == "published"


def refused(kind: type[EvenhandError], folder: Path | str, address: str) -> str:
    with pytest.raises(kind) as caught:
        run(folder, f"engine.dask={address}")
    return str(caught.value)


def test_an_unfit_cluster_is_refused_before_its_steps(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evenhand.flows.workers, "DASK_TIMEOUT_S", 1)
    said = refused(NotCarriedOut, tmp_path / "a", "tcp://127.0.0.1:1")
    assert said.startswith("the Dask scheduler at tcp://127.0.0.1:1 does not answer")
    monkeypatch.setattr(evenhand.flows.workers, "DASK_TIMEOUT_S", 20)
    said = refused(InputError, "memory://unshared", cluster.scheduler_address)
    assert "does not see the store memory://unshared: set EVENHAND_STORE" in said
    here = evenhand.flows.workers._versions()
    monkeypatch.setattr(
        evenhand.flows.workers, "_versions", lambda: here | {"Python": "2.7", "numpy": "9"}
    )
    said = refused(NotCarriedOut, tmp_path / "a", cluster.scheduler_address)
    assert (
        f"has Python {here['Python']} (here 2.7), numpy {here['numpy']} (here 9): install the same"
        in said
    )
    assert not list((tmp_path / "a").glob("steps/*"))


def test_small_inputs_stay_in_this_process(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[float] = []
    known = evenhand.flows.workers.DaskPool.check

    def check(pool: Any, store: Store) -> list[float]:
        asked.extend(known(pool, store))
        return asked

    monkeypatch.setattr(evenhand.flows.workers.DaskPool, "check", check)
    # the rows of a training must fit a worker, whatever this process has
    monkeypatch.setattr(evenhand.flows.memory, "free_memory", lambda: 0.0)
    sent = run(tmp_path, f"engine.dask={cluster.scheduler_address}")
    limit = min(worker["memory_limit"] for worker in cluster.scheduler_info["workers"].values())
    assert len(asked) == 2
    assert 0 < min(asked) <= max(asked) < limit
    assert sent.status == "published"
    assert not [note for note in sent.notes if "in files" in note]
