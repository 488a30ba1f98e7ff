"""Worker processes that live as long as a sweep, each on a core of its own."""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import resource_tracker
from typing import Any

from evenhand.tasks.errors import NotCarriedOut

__all__ = ["WorkerPool", "cores", "dask_cluster", "pin_to_core"]

THREAD_LIMITS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
PRELOADED = (
    "pandas",
    "pyarrow.parquet",
    "sklearn.linear_model",
    "evenhand.flows.grid",
    "evenhand.tasks.evaluate",
    "evenhand.tasks.train",
)
DIED = "the worker process died (killed, or out of memory): with fewer workers each has more memory."

STOPPED = "the sweep was stopped."


def cores() -> list[int]:
    """Numbers of the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def dask_cluster(workers: int) -> dict[str, Any]:
    """Settings of a Dask cluster of our own: workers of one thread each, no dashboard, any free port."""
    return {
        "n_workers": workers,
        "threads_per_worker": 1,
        # its scheduler answers over HTTP all the same; without an address at 8787, which another may hold
        "dashboard_address": "127.0.0.1:0",
        "scheduler_kwargs": {"dashboard": False},
    }


def pin_to_core(core: int | None) -> None:
    """
    Make this process use one thread on one core; with None it keeps all.

    Must run before numpy is imported, for its libraries read their number of threads once.
    """
    if core is None:
        return
    for name in THREAD_LIMITS:
        os.environ[name] = "1"
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})
    if "torch" in sys.modules:  # by the program around us
        sys.modules["torch"].set_num_threads(1)


@dataclass
class _Slot:
    """A place for one process at a time, so that a death concerns one point and no other."""

    core: int | None
    executor: ProcessPoolExecutor
    ready: Future[int]


class WorkerPool:
    """
    Worker processes that start at once and run one function call at a time each.

    Parameters
    ----------
    workers : int
        With more than one, each uses one thread on its own core.
    """

    def __init__(self, workers: int) -> None:
        places = cores()
        self._closed = False
        _start_tracker()
        self._slots = [_start(places[i % len(places)] if workers > 1 else None) for i in range(workers)]
        self._free: queue.SimpleQueue[_Slot] = queue.SimpleQueue()
        for slot in self._slots:
            self._free.put(slot)

    def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """
        Call a function in a free worker, waiting for one if need be.

        Raises
        ------
        NotCarriedOut
            The worker died; another takes its place for the next call.
        """
        slot = self._free.get()
        try:
            return self._submit(slot, function, *arguments).result()
        except BrokenProcessPool:
            raise NotCarriedOut(STOPPED if self._closed else DIED) from None
        finally:
            self._free.put(slot)

    def _submit(self, slot: _Slot, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        if self._closed:
            raise NotCarriedOut(STOPPED)
        with contextlib.suppress(BrokenProcessPool):
            return slot.executor.submit(function, *arguments)
        # it died in its last call, or since: this call gets a new one
        fresh = _start(slot.core)
        slot.executor, slot.ready = fresh.executor, fresh.ready
        return slot.executor.submit(function, *arguments)

    def close(self, *, kill: bool = False) -> None:
        """End the workers: after their calls, or at once."""
        self._closed = True
        for slot in self._slots:
            slot.executor.shutdown(wait=False, cancel_futures=True)
            if kill and slot.ready.done() and slot.ready.exception() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(slot.ready.result(), signal.SIGKILL)


def _start(core: int | None) -> _Slot:
    context = multiprocessing.get_context("spawn")
    executor = ProcessPoolExecutor(1, context, _prepare, (core,))
    return _Slot(core, executor, executor.submit(os.getpid))


def _start_tracker() -> None:
    """
    Start the standard library's process that removes what killed workers leave.

    It does so with a warning, which would follow our one line to the terminal.
    """
    before = os.environ.get("PYTHONWARNINGS")
    quiet = "ignore::UserWarning:multiprocessing.resource_tracker"
    os.environ["PYTHONWARNINGS"] = f"{before},{quiet}" if before else quiet
    try:
        resource_tracker.ensure_running()
    finally:
        if before is None:
            del os.environ["PYTHONWARNINGS"]
        else:
            os.environ["PYTHONWARNINGS"] = before


def _prepare(core: int | None) -> None:
    """Begin a worker: limits first, then the imports that every point needs."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, which ends its workers
    threading.Thread(target=_end_with_parent, daemon=True).start()
    pin_to_core(core)
    for module in PRELOADED:
        importlib.import_module(module)


def _end_with_parent() -> None:
    """Nobody collects the result of a worker whose parent was killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
