"""Worker processes of a sweep or a search, each on its own core, and workers of a Dask cluster."""

from __future__ import annotations

import abc
import contextlib
import importlib.util
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
from typing import TYPE_CHECKING, Any, Self

from evenhand.tasks.errors import InputError, NotCarriedOut

if TYPE_CHECKING:
    from evenhand.flows.job import ParallelSection

THREAD_LIMITS = (
    "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)  # fmt: skip
PRELOADED = (
    "pandas", "pyarrow.parquet", "sklearn.linear_model", "evenhand.flows.sweep",
    "evenhand.tasks.evaluate", "evenhand.tasks.train",
)  # fmt: skip
DIED = "the worker process died (killed, or out of memory): with fewer workers each has more memory."
STOPPED = "the work was stopped."
DASK_TIMEOUT_S = 20


def cores() -> list[int]:
    """Return the numbers of the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def pin_to_core(core: int | None) -> None:
    """Restrict this process to one thread on one core; None changes nothing.

    Must run before numpy is imported, because its libraries read their number of threads once.
    """
    if core is None:
        return
    for name in THREAD_LIMITS:
        os.environ[name] = "1"
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})
    if "torch" in sys.modules:  # imported by the caller's program
        sys.modules["torch"].set_num_threads(1)


@dataclass
class _Slot:
    """An executor with one process, so that the death of a process affects one point only."""

    core: int | None
    executor: ProcessPoolExecutor
    ready: Future[int]


class Pool(abc.ABC):
    """Workers that run one function call at a time each; `size` is their number.

    As a context manager the pool is closed at the end of the block, and after an exception killed.
    """

    size: int

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(kill=kind is not None)

    @abc.abstractmethod
    def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function in a free worker and wait for it; `NotCarriedOut` if the worker died."""

    @abc.abstractmethod
    def close(self, *, kill: bool = False) -> None:
        """End the workers, after their calls or, with `kill`, now."""


class WorkerPool(Pool):
    """Worker processes of this machine; they start with the pool, and a dead one is replaced.

    With more than one of the `workers`, each uses one thread on its own core.
    """

    def __init__(self, workers: int) -> None:
        places = cores()
        self.size, self._closed = workers, False
        _start_tracker()
        self._slots = [_start(places[i % len(places)] if workers > 1 else None) for i in range(workers)]
        self._free: queue.SimpleQueue[_Slot] = queue.SimpleQueue()
        for slot in self._slots:
            self._free.put(slot)

    def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function in a free worker; wait until there is one."""
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
        # the process died in its last call or after it: start another
        fresh = _start(slot.core)
        slot.executor, slot.ready = fresh.executor, fresh.ready
        return slot.executor.submit(function, *arguments)

    def close(self, *, kill: bool = False) -> None:
        """End the workers."""
        self._closed = True
        for slot in self._slots:
            slot.executor.shutdown(wait=False, cancel_futures=True)
            if kill and slot.ready.done() and slot.ready.exception() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(slot.ready.result(), signal.SIGKILL)


class DaskPool(Pool):
    """Workers of a Dask cluster: the one at `address`, or a new one here of so many `workers`.

    Of a running cluster all workers are used unless their number is given; of several new workers each uses
    its own core. Raises `NotCarriedOut` if the scheduler does not answer.
    """

    def __init__(self, address: str | None, workers: int | None) -> None:
        from distributed import Client, LocalCluster

        self._cluster: Any = None
        try:
            if address is None:
                self._cluster = LocalCluster(
                    n_workers=workers,
                    threads_per_worker=1,
                    # the scheduler opens its HTTP port, by default 8787, without the dashboard too
                    dashboard_address="127.0.0.1:0",
                    scheduler_kwargs={"dashboard": False},
                )
            self._client = Client(address or self._cluster, timeout=DASK_TIMEOUT_S)
        except (OSError, ValueError):
            place = f"scheduler at {address} does not answer" if address else "cluster does not start"
            raise NotCarriedOut(f"the Dask {place}: check address, or leave engine out.") from None
        self.size = workers or max(sum(self._client.nthreads().values()), 1)
        self._cores = cores() if self._cluster is not None and self.size > 1 else []

    def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function in a worker of the cluster."""
        from concurrent.futures import CancelledError

        from distributed import KilledWorker

        try:
            return self._client.submit(_on_core, self._cores, function, *arguments, pure=False).result()
        except KilledWorker:
            raise NotCarriedOut(DIED) from None
        except CancelledError:
            raise NotCarriedOut(STOPPED) from None

    def close(self, *, kill: bool = False) -> None:
        """Leave the cluster, whose calls are cancelled in either case; end it if it was started here."""
        self._client.close()
        if self._cluster is not None:
            self._cluster.close()


def make_pool(section: ParallelSection, most: int) -> Pool:
    """Start the workers of a job's section, at most so many on this machine (default: one per core)."""
    workers = min(section.workers or len(cores()), most)
    if section.engine == "dask":
        return DaskPool(section.address, section.workers if section.address else workers)
    return WorkerPool(workers)


def check_engine(section: ParallelSection, name: str) -> None:
    """Raise `InputError` if the engine of a job's section is not installed."""
    if section.engine == "dask" and importlib.util.find_spec("distributed") is None:
        raise InputError(f"{name}.engine is dask, which is an extra: pip install 'evenhand[dask]'.")


def _on_core(places: list[int], function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function in this Dask worker, on the worker's own core if there are `places`."""
    if places:
        from distributed import get_worker

        pin_to_core(places[int(get_worker().name) % len(places)])
    return function(*arguments)


def _start(core: int | None) -> _Slot:
    context = multiprocessing.get_context("spawn")
    executor = ProcessPoolExecutor(1, context, _prepare, (core,))
    return _Slot(core, executor, executor.submit(os.getpid))


def _start_tracker() -> None:
    """Start the standard library's process that removes the resources of killed workers.

    Its warning about them is suppressed.
    """
    sys.warnoptions.append("ignore::UserWarning:multiprocessing.resource_tracker")
    try:
        resource_tracker.ensure_running()
    finally:
        sys.warnoptions.pop()


def _prepare(core: int | None) -> None:
    """Prepare a worker: thread limits first, then the imports that every point needs."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent gets Ctrl-C too, and ends its workers
    threading.Thread(target=_end_with_parent, daemon=True).start()
    pin_to_core(core)
    for module in PRELOADED:
        importlib.import_module(module)


def _end_with_parent() -> None:
    """End this worker when its parent has ended, also if that was killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
