"""The worker processes of a sweep: a core and a thread each, and a new one for one that died."""

from __future__ import annotations

import importlib.util
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from threadpoolctl import threadpool_info

import evenhand.flows.workers
from evenhand.flows.job import Filter, Sweep
from evenhand.flows.workers import DaskPool, WorkerPool, check_engine, make_pool, steps_until
from evenhand.tasks.errors import InputError, NotCarriedOut, OutOfTime
from evenhand.tasks.execution.step import STEPS, run_step
from evenhand.tasks.execution.store import Store

pytestmark = pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity"), reason="this system cannot pin"
)


def test_workers_have_a_core_each_and_dead_ones_are_replaced() -> None:
    """Each has one thread, too."""
    mine = os.sched_getaffinity(0)
    pool = WorkerPool(2)
    try:
        assert len(pool.run(os.sched_getaffinity, 0)) == 1
        assert {info["num_threads"] for info in pool.run(threadpool_info)} == {1}
        assert pool.run(os.getenv, "OMP_NUM_THREADS") == "1"
        one, other = (pool.run(os.getpid) for _ in range(2))
        assert one != other
        with pytest.raises(NotCarriedOut, match="worker process died"):
            pool.run(os._exit, 1)
        assert pool.run(os.getpid) == other, "a death concerns no other worker"
        assert pool.run(os.getpid) not in (one, other)
        assert len(pool.run(os.sched_getaffinity, 0)) == 1
    finally:
        pool.close()
    assert os.sched_getaffinity(0) == mine
    with pytest.raises(NotCarriedOut, match="stopped"):
        pool.run(os.getpid)


def test_a_process_starts_when_it_is_needed() -> None:
    pool = WorkerPool(2, modules=(), started=1)
    try:
        first = pool.run(os.getpid)
        assert pool.run(os.getpid) == first
        assert [slot.executor is None for slot in pool._slots] == [False, True]
        with ThreadPoolExecutor(2) as threads:
            futures = [threads.submit(pool.run, slow_pid) for _ in range(2)]
            assert len({future.result() for future in futures}) == 2
    finally:
        pool.close(kill=True)


def slow_pid() -> int:
    """Number of this process, after a moment in which no other call can run here."""
    time.sleep(0.3)
    return os.getpid()


def has_ended(process: int) -> bool:
    """Whether a process runs no more; the system may still keep its entry for its parent."""
    try:
        status = Path(f"/proc/{process}/stat").read_text()
    except FileNotFoundError:
        return True
    return status.rpartition(")")[2].split()[0] in ("Z", "X")


def test_a_call_whose_time_is_up_is_killed() -> None:
    """The next one gets a new process."""
    pool = WorkerPool(1, modules=())
    try:
        first = pool.run(os.getpid)
        looks: list[int] = []

        def is_over() -> bool:
            looks.append(len(looks))
            return len(looks) == 2

        with pytest.raises(OutOfTime):
            pool.run_until(is_over, time.sleep, 3600)
        # its pipes are closed a moment before the system has ended it
        for _ in range(1000):
            if has_ended(first):
                break
            time.sleep(0.01)
        assert has_ended(first)
        assert pool.run_until(lambda: False, os.getpid) != first
    finally:
        pool.close(kill=True)


def test_steps_with_a_time_limit_run_in_a_process_to_kill(tmp_path: Path) -> None:
    store, pool = Store(str(tmp_path)), WorkerPool(1, modules=())
    try:
        pool.run(os.getpid)
        execution = steps_until(lambda: True, lambda name: pool, store)
        with pytest.raises(OutOfTime):
            run_step(store, STEPS["ingest"], "0" * 64, {}, {}, execution=execution)
        assert store.find("ingest", "0" * 64) is None
    finally:
        pool.close(kill=True)


@pytest.mark.long
def test_a_worker_alone_keeps_all_cores() -> None:
    pool = WorkerPool(1)
    try:
        assert pool.run(os.sched_getaffinity, 0) == os.sched_getaffinity(0)
    finally:
        pool.close()


def test_a_pool_is_no_larger_than_the_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A running cluster is used whole."""
    made: list[tuple[str | None, int | None]] = []
    monkeypatch.setattr(evenhand.flows.workers, "cores", lambda: [0, 1, 2, 3])

    def make(count: int, modules: Any, started: int | None) -> None:
        made.append(("here", count))

    monkeypatch.setattr(evenhand.flows.workers, "WorkerPool", make)
    monkeypatch.setattr(evenhand.flows.workers, "DaskPool", lambda *given: made.append(given))
    sections = [{}, {"workers": 3}, {"engine": "dask"}, {"engine": "dask", "address": "tcp://h:1"}]
    for section in [*sections, {**sections[-1], "workers": 9}]:
        make_pool(Sweep.model_validate(section), 2)
    make_pool(Sweep(), 5)
    here = [("here", 2), ("here", 2), (None, 2)]
    assert made == [*here, ("tcp://h:1", None), ("tcp://h:1", 9), ("here", 4)]


def test_an_engine_not_installed_is_named_with_its_section(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    check_engine(Filter(), "filter")
    with pytest.raises(
        InputError, match=r"filter\.engine is dask.* pip install 'evenhand\[dask\]'"
    ):
        check_engine(Filter(engine="dask"), "filter")


@pytest.mark.parametrize(("limits", "expected"), [((0, 0), [5e9, 3e9]), ((4e9, 0), [3.5e9, 3e9])])
def test_workers_without_a_limit_of_dask_have_what_is_free(
    limits: tuple[float, float], expected: list[float], tmp_path: Path
) -> None:
    versions = evenhand.flows.workers._versions()
    workers = {
        address: {"memory_limit": limit, "metrics": {"memory": 0.5e9}}
        for address, limit in zip("ab", limits, strict=True)
    }
    pool: Any = DaskPool.__new__(DaskPool)
    pool._client = SimpleNamespace(
        run=lambda *_: {"a": (versions, True, 5e9), "b": (versions, True, 3e9)},
        scheduler_info=lambda n_workers: {"workers": workers},
    )
    assert pool.check(Store(str(tmp_path / "store"))) == expected
