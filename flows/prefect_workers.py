"""Points of a sweep and parts of filtered files as Prefect tasks, in worker processes or on Dask."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from evenhand.flows.runtime import make_prefect_home, prepare_environment

make_prefect_home(prepare_environment())  # before Prefect reads its settings

from prefect import task  # noqa: E402
from prefect.cache_policies import NO_CACHE  # noqa: E402
from prefect.futures import as_completed  # noqa: E402
from prefect.states import Failed  # noqa: E402
from prefect.task_runners import TaskRunner, ThreadPoolTaskRunner  # noqa: E402

from evenhand.fairlib.execution import available_cores  # noqa: E402
from evenhand.flows import filter as filtering  # noqa: E402
from evenhand.flows import sweep as sweeping  # noqa: E402
from evenhand.flows.engine import Verdict  # noqa: E402
from evenhand.flows.filter import FilterPlan, Source  # noqa: E402
from evenhand.flows.grid import Grid, PointResult, run_point  # noqa: E402
from evenhand.flows.workers import WorkerPool, cores, dask_cluster, pin_to_core  # noqa: E402
from evenhand.tasks.errors import NotCarriedOut  # noqa: E402
from evenhand.tasks.filtering.bundle import FilterSettings  # noqa: E402
from evenhand.tasks.filtering.engine import Workers  # noqa: E402
from evenhand.tasks.filtering.units import UnitResult, UnitSpec, run_unit  # noqa: E402
from evenhand.tasks.step import report_progress  # noqa: E402
from evenhand.tasks.store import Store  # noqa: E402

# the records in the output folder, or the steps of a point, say what is done
TASK: dict[str, Any] = {"retries": 0, "cache_policy": NO_CACHE, "persist_result": False, "log_prints": False}
FILTER = TASK | {"tags": {"evenhand", "filter"}}
POINT = TASK | {"name": "sweep-point", "task_run_name": "{label}", "tags": {"evenhand", "sweep"}}


@contextlib.contextmanager
def dask_runner(address: str | None, workers: int, section: str, other: str) -> Iterator[Any]:
    """Yield a task runner on the given or a new Dask cluster; NotCarriedOut if it does not answer."""
    from prefect_dask import DaskTaskRunner

    settings: dict[str, Any] = {"address": address} if address else {"cluster_kwargs": dask_cluster(workers)}
    try:
        with DaskTaskRunner(**settings) as runner:
            yield runner
    except OSError:  # the runner connects when it gets its first task
        place = f"scheduler at {address} does not answer" if address else "cluster does not start"
        raise NotCarriedOut(f"the Dask {place}: check {section}.address, or use engine {other}.") from None


# filtering


@task(name="filter-files", **FILTER)
def filter_in_process(plan: FilterPlan, store_url: str, run_id: str, keep_idle: bool) -> Verdict:
    """Filter all files in threads of this process."""
    reporter = report_progress("filter", prefect=True)
    return filtering.execute(plan, Store(store_url), run_id, reporter, keep_idle=keep_idle)


@task(name="filter-unit", task_run_name="{label}", **FILTER)
def filter_unit(label: str, unit: UnitSpec, source: Source, settings: FilterSettings) -> UnitResult:
    """Filter a part of one file in this Dask worker."""
    return run_unit(unit, source.local_folder(), settings, source.version)


def filter_workers(plan: FilterPlan) -> Callable[[Source, FilterSettings], Workers]:
    """Return a function that runs units on a Dask cluster, the job's or a new one on this machine."""
    section = plan.resolved.job.filter
    count = section.workers or available_cores()

    def workers(source: Source, settings: FilterSettings) -> Workers:
        shared = {"source": source, "settings": settings}

        def run(units: Sequence[UnitSpec]) -> Iterator[tuple[UnitSpec, UnitResult]]:
            with dask_runner(section.address, count, "filter", "threads") as runner:
                futures = {}
                for unit in units:
                    label = f"{unit.file.name} {unit.index}"
                    future = runner.submit(filter_unit, {"label": label, "unit": unit, **shared})
                    futures[future.task_run_id] = (future, unit)
                for done in as_completed([future for future, _ in futures.values()]):
                    unit = futures.pop(done.task_run_id)[1]
                    yield unit, done.result()

        return run

    return workers


# sweeps


@task(description="One run of a grid, up to its gates.", **POINT)
def point_in_process(label: str, point: Any, store_url: str, pool: Any) -> Any:
    """Run the point in a free worker process."""
    return _state(sweeping.in_worker(pool, point, store_url))


@task(description="One run of a grid, up to its gates.", **POINT)
def point_on_dask(label: str, point: Any, store_url: str, places: list[int] | None) -> Any:
    """Run the point in this Dask worker; on its own core if the cluster was started here."""
    from distributed import get_worker

    if places is not None:
        pin_to_core(places[int(get_worker().name) % len(places)])
    return _state(run_point(point.resolved, store_url))


def _state(result: PointResult) -> Any:
    """Return a failed state with the result if the point failed, so that the task shows as failed."""
    return Failed(message=result.error, data=result) if result.status == "failed" else result


def run_points(grid: Grid, store_url: str) -> list[PointResult]:
    """Run every point of a grid as a task, where the job says: in worker processes or on Dask."""
    workers = sweeping.worker_count(grid)
    if grid.job.sweep.engine == "dask":
        address = grid.job.sweep.address
        places = None if address or workers == 1 else cores()
        with dask_runner(address, workers, "sweep", "processes") as cluster:
            return _results(cluster, point_on_dask, grid, store_url=store_url, places=places)
    # a failure ends the pool first: the runner waits for its threads, which wait for the workers
    runner: TaskRunner[Any] = ThreadPoolTaskRunner(max_workers=workers)
    with runner as threads, WorkerPool(workers) as pool:
        return _results(threads, point_in_process, grid, store_url=store_url, pool=pool)


def _results(runner: TaskRunner[Any], work: Any, grid: Grid, **shared: Any) -> list[PointResult]:
    """Return every point's result in order; a task without a result is a failed point."""
    futures = [runner.submit(work, {"label": p.label, "point": p, **shared}) for p in grid.points]
    sweeping.report_done(as_completed(futures), len(futures))
    return [_result(future) for future in futures]


def _result(future: Any) -> PointResult:
    try:
        found = future.result(raise_on_failure=False)
    except Exception as error:  # noqa: BLE001 - each runner has its own exceptions
        found = error
    if isinstance(found, PointResult):
        return found
    return PointResult(error=f"the run was not carried out ({type(found).__name__}).")
