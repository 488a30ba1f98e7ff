"""Worker processes of a sweep or a search, each on its own core, and workers of a Dask cluster."""

from __future__ import annotations

import abc
import contextlib
import importlib.util
import logging
import multiprocessing
import os
import platform
import queue
import signal
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from functools import partial
from importlib import metadata
from multiprocessing import resource_tracker
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from evenhand.tasks.errors import (
    EvenhandError,
    InputError,
    NotCarriedOut,
    OutOfTime,
    ProcessLost,
    internal_fault,
)

# numpy is imported within functions: a worker process limits its threads between both imports
if TYPE_CHECKING:
    from evenhand.flows.job import ParallelSection
    from evenhand.tasks.execution.step import ExecutionContext, Step, StepContext, StepResult
    from evenhand.tasks.execution.store import Artifact, Store

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
    "evenhand.flows.sweep",
    "evenhand.tasks.steps.evaluate_step",
    "evenhand.tasks.steps.train_step",
)
DIED = (
    "the worker process died (killed, or out of memory): with fewer workers each has more memory."
)
STOPPED = "the work was stopped."
NO_TIME = "the time for this work is up."
# How often a call with a time limit is looked at.
LOOK_EVERY_S = 0.25
# Seconds within which the death of a killed process is noticed.
KILLED_S = 5.0
DASK_TIMEOUT_S = 20
# Of workers that train together: seconds until all have begun, seconds after which one that says
# nothing is lost (of a process that dies the others hear at once), and trainings that are begun.
BEGIN_S = 300
SILENT_S = 600
TRIES = 3
# Steps that the process of a run runs itself: they read its files, or its registry; and those whose
# inputs have fewer bytes, because a worker first imports the libraries.
HERE = ("ingest", "gate", "publish")
SMALL = 64e6


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
    """An executor with one process, so that the death of a process affects one point only.

    It has none until its process starts.
    """

    core: int | None
    executor: ProcessPoolExecutor | None


class Pool(abc.ABC):
    """Workers that run one function call at a time each; `size` is their number.

    As a context manager the pool is closed at the end of the block, and after an exception killed.
    """

    size: int

    @property
    def processes(self) -> int:
        """Number of their processes, of which one may have several threads that run calls."""
        return self.size

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(kill=kind is not None)

    @abc.abstractmethod
    def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function in a free worker and wait for it; `NotCarriedOut` if the worker died."""

    @abc.abstractmethod
    def run_until(
        self, is_over: Callable[[], bool], function: Callable[..., Any], *arguments: Any
    ) -> Any:
        """Call a function as `run` does; `OutOfTime` if `is_over` before it has ended, which stops
        it.
        """

    @abc.abstractmethod
    def close(self, *, kill: bool = False) -> None:
        """End the workers, after their calls or, with `kill`, now."""


class WorkerPool(Pool):
    """Worker processes of this machine; a dead one is replaced.

    With more than one of the `workers`, each uses one thread on its own core. They import `modules`
    first. With `started`, so many start with the pool and the others when they are needed: a call
    then runs in the process that became free last.
    """

    def __init__(
        self, workers: int, modules: Sequence[str] = PRELOADED, started: int | None = None
    ) -> None:
        self.size = workers
        self._closed = False
        self._preloaded = tuple(modules)
        _start_tracker()
        self._slots = []
        for place, core in enumerate(_cores_of(workers)):
            slot = _Slot(core, None)
            if started is None or place < started:
                slot = _start(core, self._preloaded)
            self._slots.append(slot)
        self._free: queue.Queue[_Slot] = queue.Queue()
        if started is not None:
            self._free = queue.LifoQueue()
        for slot in reversed(self._slots):
            self._free.put(slot)

    def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function in a free worker; wait until there is one."""
        slot = self._free.get()
        try:
            return self._submit(slot, function, *arguments).result()
        except BrokenProcessPool:
            raise ProcessLost(self._reason()) from None
        finally:
            self._free.put(slot)

    def run_until(
        self, is_over: Callable[[], bool], function: Callable[..., Any], *arguments: Any
    ) -> Any:
        """Call a function in a free worker, whose process is killed when the time is up."""
        slot = self._free.get()
        try:
            future = self._submit(slot, function, *arguments)
            while not _has_ended(future):
                if is_over():
                    _kill(_processes(slot))
                    # the next call of this slot then starts another process
                    with contextlib.suppress(FutureTimeout):
                        future.exception(KILLED_S)
                    raise OutOfTime(NO_TIME)
            return future.result()
        except BrokenProcessPool:
            raise ProcessLost(self._reason()) from None
        finally:
            self._free.put(slot)

    def _reason(self) -> str:
        """Why a process has ended within a call."""
        if self._closed:
            return STOPPED
        return DIED

    def _submit(self, slot: _Slot, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        if self._closed:
            raise NotCarriedOut(STOPPED)
        with contextlib.suppress(BrokenProcessPool):
            if slot.executor is not None:
                return slot.executor.submit(function, *arguments)
        # it was not started yet, or the process died in its last call or after it
        slot.executor = _start(slot.core, self._preloaded).executor
        assert slot.executor is not None, "its process has been started"
        return slot.executor.submit(function, *arguments)

    def close(self, *, kill: bool = False) -> None:
        """End the workers."""
        self._closed = True
        for slot in self._slots:
            # the executor forgets its processes then
            processes = _processes(slot)
            if slot.executor is not None:
                slot.executor.shutdown(wait=False, cancel_futures=True)
            if kill:
                _kill(processes)


def _cores_of(workers: int) -> list[int | None]:
    """Return the core of each worker; None for a single one, which uses all."""
    if workers == 1:
        return [None]
    places = cores()
    return [places[number % len(places)] for number in range(workers)]


class DaskPool(Pool):
    """Workers of a Dask cluster: the one at `address`, or a new one here of so many `workers`.

    Of a running cluster all workers are used unless their number is given; of several new workers
    each uses its own core. Raises `NotCarriedOut` if the scheduler does not answer.
    """

    def __init__(self, address: str | None, workers: int | None) -> None:
        from distributed import Client, LocalCluster

        self._cluster: Any = None
        try:
            if address is None:
                self._cluster = LocalCluster(
                    n_workers=workers,
                    threads_per_worker=1,
                    # it warns about workers that are killed when the time is up
                    silence_logs=logging.ERROR,
                    # the scheduler opens its HTTP port, by default 8787, without the dashboard too
                    dashboard_address="127.0.0.1:0",
                    scheduler_kwargs={"dashboard": False},
                )
            self._client = Client(address or self._cluster, timeout=DASK_TIMEOUT_S)
        except (OSError, ValueError):
            fault = "cluster does not start"
            if address:
                fault = f"scheduler at {address} does not answer"
            raise NotCarriedOut(f"the Dask {fault}: check address, or leave engine out.") from None
        self.size = workers or max(sum(self._client.nthreads().values()), 1)
        self._cores: list[int] = []
        if self._cluster is not None and self.size > 1:
            self._cores = cores()

    @property
    def processes(self) -> int:
        """Number of the cluster's processes, or of the workers that were asked for."""
        return min(self.size, max(len(self._client.nthreads()), 1))

    def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function in a worker of the cluster."""
        with _lost():
            return self._client.submit(
                _on_core, self._cores, function, *arguments, pure=False
            ).result()

    def run_until(
        self, is_over: Callable[[], bool], function: Callable[..., Any], *arguments: Any
    ) -> Any:
        """Call a function in a worker of the cluster.

        When the time is up, a worker that was started here is killed, and one of a running cluster
        ends the call alone.
        """
        with _lost():
            future = self._client.submit(_on_core, self._cores, function, *arguments, pure=False)
            while not future.done():
                if is_over():
                    self._stop(future)
                    raise OutOfTime(NO_TIME)
                time.sleep(LOOK_EVERY_S)
            return future.result()

    def _stop(self, future: Any) -> None:
        """Cancel a call, and kill the worker that runs it if it was started here: Dask starts
        another.

        A worker of a running cluster may run calls of others too, and Dask cannot end one alone.
        """
        from concurrent.futures import CancelledError

        running = {}
        started_here = []
        if self._cluster is not None:
            # which worker has the call is not known once it is cancelled
            running = self._client.processing()
            started_here = list(self._cluster.workers.values())
        # first: Dask repeats the call of a killed worker
        with contextlib.suppress(CancelledError):
            future.cancel()
        for worker in started_here:
            has_call = future.key in running.get(worker.worker_address, ())
            if has_call and worker.pid is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(worker.pid, signal.SIGKILL)

    def check(self, store: Store) -> list[float]:
        """Raise an error unless all workers have our code and libraries, and see the store.

        Returns the bytes that each of them may still take.
        """
        here = _versions()
        probe = store.path("tmp", f"probe-{uuid.uuid4().hex}")
        store.filesystem.pipe_file(probe, b"")
        address = store.filesystem.unstrip_protocol(probe)
        if store.is_local:
            # workers get the path of the store without links
            address = str(Path(probe).resolve())
        try:
            facts = self._client.run(_facts, address)
        except (ImportError, AttributeError, TypeError):
            raise NotCarriedOut(
                f"a Dask worker lacks evenhand {here['evenhand']}: install it there."
            ) from None
        finally:
            store.filesystem.rm(probe)
        if not facts:
            raise NotCarriedOut(
                "the Dask cluster has no workers: start some, with `dask worker ADDRESS`."
            )
        for worker, (versions, sees_store, _) in sorted(facts.items()):
            _check_worker(worker, versions, here)
            if not sees_store:
                raise InputError(
                    f"the Dask worker {worker} does not see the store {shared_address(store)}: "
                    "set EVENHAND_STORE to a folder that all machines share, or to a URL."
                )
        # Dask ends a worker that takes more than its limit
        limits = []
        for item in self._client.scheduler_info(n_workers=-1)["workers"].values():
            if item["memory_limit"]:
                limits.append(item["memory_limit"] - item["metrics"]["memory"])
        return [min([free, *limits]) for *_, free in facts.values()]

    def close(self, *, kill: bool = False) -> None:
        """Leave the cluster, whose calls are cancelled in either case; end it if it was started
        here.
        """
        self._client.close()
        if self._cluster is not None:
            self._cluster.close()


def _check_worker(worker: str, versions: Mapping[str, str], here: Mapping[str, str]) -> None:
    """Raise `NotCarriedOut` if a worker has other versions than this process."""
    differences = []
    for name, version in here.items():
        if versions.get(name) != version:
            differences.append(f"{name} {versions.get(name, 'missing')} (here {version})")
    if differences:
        raise NotCarriedOut(
            f"the Dask worker {worker} has {', '.join(differences)}: install the same there."
        )


def make_pool(
    section: ParallelSection,
    most: int,
    modules: Sequence[str] = PRELOADED,
    started: int | None = None,
) -> Pool:
    """Start the workers of a job's section, at most so many on this machine (default: one per
    core).

    Those of this machine import `modules` while they start, the first `started` of them (default:
    all) now.
    """
    workers = min(section.workers or len(cores()), most)
    if section.engine != "dask":
        return WorkerPool(workers, modules, started)
    if section.address:
        return DaskPool(section.address, section.workers)
    return DaskPool(section.address, workers)


@contextlib.contextmanager
def steps_on(address: str, store: Store) -> Iterator[ExecutionContext]:
    """Yield the execution context of steps that workers of a Dask cluster run where the store lacks
    them.

    A step gets names and paths, never a table. It is repeated elsewhere when its worker dies. The
    cluster is asked when the first step runs.
    """
    from evenhand.flows.memory import training_workers
    from evenhand.tasks.execution.step import ExecutionContext

    with contextlib.ExitStack() as stack:
        pools: list[DaskPool] = []
        free: list[float] = []

        def carry(
            name: str, key: str, parameters: Mapping[str, Any], inputs: Mapping[str, Artifact]
        ) -> bool:
            if not pools:
                if importlib.util.find_spec("distributed") is None:
                    raise InputError("a Dask cluster needs an extra: pip install 'evenhand[dask]'.")
                pools.append(stack.enter_context(DaskPool(address, None)))
                free.extend(_free_memory_of(pools[0], store))
            if name in HERE or sum(item.size for item in inputs.values()) < SMALL:
                return False
            together = 1
            if "method" in parameters and "on_disk" in parameters:
                together = training_workers(parameters["method"], free)
            step = (name, key, dict(parameters), dict(inputs))
            pools[0].run(_run_step, shared_address(store), *step, together)
            return True

        # the list is filled when the cluster is asked
        yield ExecutionContext(carry=carry, workers_free=free)


def _free_memory_of(pool: DaskPool, store: Store) -> list[float]:
    """Return the bytes that each worker may still take; of a remote store's steps, which are not
    divided, the least.
    """
    free = pool.check(store)
    if store.is_local:
        return free
    return [min(free)]


def steps_until(
    is_over: Callable[[], bool], pool_of: Callable[[str], Pool], store: Store
) -> ExecutionContext:
    """Return the execution context of steps that processes run where the store lacks them, until
    the time is up: then `OutOfTime`.

    `pool_of` gives the workers of a step by its name.
    """
    from evenhand.tasks.execution.step import ExecutionContext

    def carry(
        name: str, key: str, parameters: Mapping[str, Any], inputs: Mapping[str, Artifact]
    ) -> bool:
        step = (name, key, dict(parameters), dict(inputs))
        pool_of(name).run_until(is_over, _run_one_step, shared_address(store), *step)
        return True

    return ExecutionContext(carry=carry)


def _run_one_step(
    url: str, name: str, key: str, parameters: Mapping[str, Any], inputs: Mapping[str, Artifact]
) -> None:
    """Run a step in this process of a pool."""
    from evenhand.tasks.execution.step import STEPS, run_step
    from evenhand.tasks.execution.store import Store

    _named_errors(run_step, Store(url), STEPS[name], key, parameters, inputs)


def shared_address(store: Store) -> str:
    """Return the address of a store for other processes, whose working folder may be another."""
    if store.is_local:
        return str(store.local.resolve())
    return store.url


def _run_step(
    url: str,
    name: str,
    key: str,
    parameters: Mapping[str, Any],
    inputs: Mapping[str, Artifact],
    together: int = 1,
) -> None:
    """Run a step in this Dask worker, its units in any, and a training in so many `together`.

    Other machines lack copies of a remote store.
    """
    from evenhand.tasks.execution.step import STEPS, ExecutionContext, run_step
    from evenhand.tasks.execution.store import Store

    store = Store(url)
    execution = ExecutionContext()
    if store.is_local:
        execution = replace(execution, divide=_divide)
    if together > 1:
        execution = replace(execution, run=partial(_train_together, together))
    _named_errors(run_step, store, STEPS[name], key, parameters, inputs, None, execution)


def _train_together(count: int, step: Step, context: StepContext) -> StepResult:
    """Run a training in this worker and at the same time in others of the cluster, `count` in all.

    All run the same program, in which XGBoost gets a share of the rows from each; the result is
    that of this worker. If one is lost they begin again, with those that are there after some
    seconds.
    """
    from distributed import get_worker, wait, worker_client
    from xgboost.tracker import RabitTracker

    here = get_worker().address
    with worker_client() as client, _lost():
        for _ in range(TRIES):
            with contextlib.suppress(TimeoutError):
                client.wait_for_workers(count, timeout=DASK_TIMEOUT_S)
            addresses = sorted(client.scheduler_info(n_workers=-1)["workers"])
            members = [here, *[address for address in addresses if address != here]][:count]
            tracker = RabitTracker(
                n_workers=len(members),
                host_ip=urlsplit(here).hostname,
                sortby="task",
                timeout=BEGIN_S,
            )
            tracker.start()
            part = partial(_train_part, step, members, tracker.worker_args())
            futures = [
                client.submit(_named_errors, part, address, context, workers=[address], pure=False)
                for address in members[1:]
            ]
            try:
                result = part(here, context)
                with contextlib.suppress(TimeoutError):
                    wait(futures, timeout=DASK_TIMEOUT_S / 4)
                if result is not None:
                    return replace(result, facts={**result.facts, "workers": len(members)})
                for future in futures:
                    if future.status == "error":
                        future.result()
            finally:
                client.cancel(futures)
                with contextlib.suppress(ValueError):
                    tracker.free()
    raise NotCarriedOut(
        f"{count} workers lost each other in {TRIES} trainings: see their logs, run again."
    )


def _train_part(
    step: Step, members: list[str], arguments: dict[str, Any], address: str, context: StepContext
) -> StepResult | None:
    """Run a training in the worker at `address`, connected to the others; None if one of them is
    lost.

    Workers of one machine share its cores.
    """
    from xgboost.collective import CommunicatorContext

    from evenhand.tasks.execution.step import IN_THIS_PROCESS

    rank = members.index(address)
    host = urlsplit(address).hostname
    neighbours = [member for member in members if urlsplit(member).hostname == host]
    begun = False
    folder = context.workdir / f"worker-{rank}"
    context = replace(context, workdir=folder, execution=IN_THIS_PROCESS)
    context.workdir.mkdir(exist_ok=True)

    def work() -> StepResult:
        nonlocal begun
        if hasattr(os, "sched_setaffinity"):
            share = cores()[neighbours.index(address) :: len(neighbours)]
            os.sched_setaffinity(0, share or cores())
        with CommunicatorContext(**arguments, dmlc_task_id=f"{rank:04}", dmlc_timeout=SILENT_S):
            begun = True
            return step.run(context)

    try:
        # a connection, and the cores, are those of a thread
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(work).result()
    except Exception as error:
        # XGBoost names the file of its code that failed, and this file only if a connection did
        if "collective/result.cc" not in str(error):
            raise
    if not begun:
        raise NotCarriedOut(
            f"{len(members)} Dask workers did not begin a training together within {BEGIN_S} "
            f"seconds: others are busy, or do not reach {host}. Run again."
        )
    return None


def _divide(function: Callable[[Any], Any], units: Sequence[Any]) -> Iterator[Any]:
    """Call a function with each unit in workers of the cluster, which repeats lost ones.

    Until the last result is taken this worker runs units too, while the step waits for them.
    """
    from distributed import worker_client

    stack = contextlib.ExitStack()
    client = stack.enter_context(worker_client())
    waiting = client.map(partial(_named_errors, function), units, pure=False)

    def results() -> Iterator[Any]:
        with stack, _lost():
            while waiting:
                yield waiting.pop(0).result()

    return results()


@contextlib.contextmanager
def _lost() -> Iterator[None]:
    """Name errors of a cluster that did not carry out a call."""
    from concurrent.futures import CancelledError

    from distributed import KilledWorker

    try:
        yield
    except KilledWorker:
        raise ProcessLost(DIED) from None
    except CancelledError:
        raise ProcessLost(STOPPED) from None


def _named_errors(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function; a library's error is named only, as its text may quote a person's value."""
    try:
        return function(*arguments)
    except (EvenhandError, OSError):
        raise
    except Exception as error:  # noqa: BLE001 - every library has its own exceptions
        raise internal_fault(error) from None


def _versions() -> dict[str, str]:
    """Versions that decide the bytes of artifacts."""
    from evenhand.tasks.execution.fingerprint import code_digest, library_versions
    from evenhand.tasks.execution.step import STEPS

    code = code_digest([step.module for step in STEPS.values()])[:8]
    return {
        "Python": ".".join(platform.python_version_tuple()[:2]),
        "evenhand": f"{metadata.version('evenhand')} ({code})",
        **library_versions(),
    }


def _facts(probe: str) -> tuple[dict[str, str], bool, float]:
    """Versions of this worker, whether it sees a file, and the bytes that it may still take."""
    import fsspec

    from evenhand.fairlib.execution import free_memory

    try:
        filesystem, path = fsspec.core.url_to_fs(probe)
        sees = bool(filesystem.exists(path))
    except Exception:  # noqa: BLE001 - every file system has its own exceptions
        sees = False
    return _versions(), sees, free_memory()


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


def _has_ended(future: Future[Any]) -> bool:
    """Whether a call has ended; waits for it a moment."""
    with contextlib.suppress(FutureTimeout):
        future.exception(LOOK_EVERY_S)
    return future.done()


def _processes(slot: _Slot) -> list[BaseProcess]:
    """Process of a slot, also while it starts; none if it has died, or was not started."""
    if slot.executor is None:
        return []
    return list((slot.executor._processes or {}).values())


def _kill(processes: Sequence[BaseProcess]) -> None:
    for process in processes:
        process.kill()


def _start(core: int | None, modules: Sequence[str]) -> _Slot:
    context = multiprocessing.get_context("spawn")
    executor = ProcessPoolExecutor(1, context, _prepare, (core, modules))
    # it starts its process with the first call
    executor.submit(os.getpid)
    return _Slot(core, executor)


def _start_tracker() -> None:
    """Start the standard library's process that removes the resources of killed workers.

    Its warning about them is suppressed.
    """
    sys.warnoptions.append("ignore::UserWarning:multiprocessing.resource_tracker")
    try:
        resource_tracker.ensure_running()
    finally:
        sys.warnoptions.pop()


def _prepare(core: int | None, modules: Sequence[str]) -> None:
    """Prepare a worker: thread limits first, then the imports that every point needs."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent gets Ctrl-C too, and ends its workers
    threading.Thread(target=_end_with_parent, daemon=True).start()
    pin_to_core(core)
    _import(modules)


def _import(modules: Sequence[str]) -> None:
    for module in modules:
        importlib.import_module(module)


def _end_with_parent() -> None:
    """End this worker when its parent has ended, also if that was killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
