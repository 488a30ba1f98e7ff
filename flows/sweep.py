"""The sweep flow: a grid of runs, each observed by Prefect as a task."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from evenhand.flows.runtime import make_prefect_home, prepare_environment

make_prefect_home(prepare_environment())  # before Prefect reads its settings

from prefect import flow, task  # noqa: E402
from prefect.artifacts import create_table_artifact  # noqa: E402
from prefect.cache_policies import NO_CACHE  # noqa: E402
from prefect.futures import PrefectFuture, as_completed  # noqa: E402
from prefect.logging import get_run_logger  # noqa: E402
from prefect.states import Failed  # noqa: E402
from prefect.task_runners import ThreadPoolTaskRunner  # noqa: E402

from evenhand.flows.grid import Grid, PointResult, make_grid, run_point  # noqa: E402
from evenhand.flows.run_grid import in_worker, worker_count  # noqa: E402
from evenhand.flows.run_outputs import new_run_id  # noqa: E402
from evenhand.flows.sweep_outputs import finish, read_tradeoffs  # noqa: E402
from evenhand.flows.verdict import Verdict  # noqa: E402
from evenhand.flows.workers import WorkerPool, cores, dask_cluster, settle  # noqa: E402
from evenhand.tasks.errors import GateRefused, NotCarriedOut  # noqa: E402
from evenhand.tasks.progress import report_progress  # noqa: E402
from evenhand.tasks.store import Store  # noqa: E402

__all__ = ["sweep"]


TASK_OPTIONS: dict[str, Any] = {
    "name": "sweep-point",
    "task_run_name": "{label}",
    "description": "One run of a grid, up to its gates.",
    "tags": {"evenhand", "sweep"},
    "retries": 0,
    "cache_policy": NO_CACHE,
    "persist_result": False,
    "log_prints": False,
}


@task(**TASK_OPTIONS)
def point_in_process(label: str, pool: Any, point: Any, store_url: str) -> Any:
    """Hand the point to a free worker process."""
    return _state(in_worker(pool, point, store_url))


@task(**TASK_OPTIONS)
def point_on_dask(label: str, point: Any, store_url: str, places: list[int] | None) -> Any:
    """Run the point in this Dask worker, on a core of its own if the cluster is ours."""
    from distributed import get_worker

    if places is not None:
        settle(places[int(get_worker().name) % len(places)])
    return _state(run_point(point.resolved, store_url))


def _state(result: PointResult) -> Any:
    """A failed point is a failed task, which keeps its numbers."""
    return Failed(message=result.error, data=result) if result.status == "failed" else result


@flow(
    name="sweep",
    flow_run_name="{job}",
    validate_parameters=True,
    persist_result=False,
    log_prints=False,
    timeout_seconds=14 * 24 * 3600,
)
def sweep(
    job: str,
    over: Sequence[str],
    seeds: int = 1,
    overrides: Sequence[str] = (),
    best: str | None = None,
    store: str | None = None,
    run_id: str | None = None,
) -> dict[str, Any]:
    """
    Run a job over a grid of its keys and seeds, and report what it trades for what.

    - **job**: name of a shipped job or path of a job file
    - **over**: `KEY=V1,V2` strings, such as `method.eta=0.01,0.05`
    - **seeds**: seeds per value, counted up from the job's own
    - **overrides**: `KEY=VALUE` strings for every run
    - **best**: what to choose by, such as `balanced_accuracy where consistency.spouse >= 0.94`
    - **store**: folder or URL of the store (default: `EVENHAND_STORE`)
    - **run_id**: name of the sweep's folder (default: a new one)

    Returns the sweep's verdict. Raises `InputError` if the job or grid is wrong, `GateRefused` if a run
    failed or no value is good enough: the flow run then shows as failed.
    """
    started = time.perf_counter()
    grid = make_grid(job, over, seeds=seeds, overrides=overrides, best=best)
    opened = Store(store)
    carry_out = _run_on_dask if grid.job.sweep.engine == "dask" else _run_in_processes
    results = carry_out(grid, opened.url if "://" in opened.url else str(opened.local.resolve()))
    name = run_id or new_run_id(f"{grid.job.name}-sweep")
    verdict = finish(grid, opened, name, results, time.perf_counter() - started)
    _show_in_prefect(read_tradeoffs(opened, name), verdict)
    get_run_logger().info("%s: %s", verdict.run_id, verdict.status)
    if verdict.exit_code != 0:
        raise GateRefused(str(verdict.error), verdict.exit_code)
    return verdict.to_dict()


def _show_in_prefect(document: Mapping[str, Any] | None, verdict: Verdict) -> None:
    """A keyed artifact, so that the interface shows its history sweep by sweep."""
    if document is None:
        return
    rows = [
        {"value": value["name"]} | {name: summary["mean"] for name, summary in value["metrics"].items()}
        for value in document["values"]
    ]
    key = "".join(c if c.isalnum() else "-" for c in document["job"].lower()).strip("-")
    create_table_artifact(
        table=rows,
        key=f"{key}-sweep",
        description=f"Means of {verdict.run_id}; report: `{verdict.artifacts['report']}`",
    )


def _run_in_processes(grid: Grid, store_url: str) -> list[PointResult]:
    workers = worker_count(grid)
    pool = WorkerPool(workers)
    runner: ThreadPoolTaskRunner[Any] = ThreadPoolTaskRunner(max_workers=workers)
    try:
        with runner:
            try:
                futures: list[PrefectFuture[Any]] = [
                    runner.submit(
                        point_in_process,
                        {"label": point.label, "pool": pool, "point": point, "store_url": store_url},
                    )
                    for point in grid.points
                ]
                return _collect(futures)
            except BaseException:
                pool.close(kill=True)  # before the runner waits for its threads, which wait for the workers
                raise
    finally:
        pool.close()


def _run_on_dask(grid: Grid, store_url: str) -> list[PointResult]:
    from prefect_dask import DaskTaskRunner

    address, places, workers = grid.job.sweep.address, cores(), worker_count(grid)
    settings: dict[str, Any] = {"address": address} if address else {"cluster_kwargs": dask_cluster(workers)}
    shared = {"store_url": store_url, "places": None if address or workers == 1 else places}
    try:
        with DaskTaskRunner(**settings) as runner:
            futures: list[PrefectFuture[Any]] = [
                runner.submit(point_on_dask, {"label": point.label, "point": point, **shared})
                for point in grid.points
            ]
            return _collect(futures)
    except OSError:  # it connects when it gets its first task
        place = f"scheduler at {address} does not answer" if address else "cluster does not start"
        raise NotCarriedOut(f"the Dask {place}: check sweep.address, or use engine processes.") from None


def _collect(futures: list[PrefectFuture[Any]]) -> list[PointResult]:
    """Every task's result in order; a task that left none gives a failed point."""
    report = report_progress("runs")
    report(0, len(futures), {})
    for done, _ in enumerate(as_completed(futures), start=1):
        report(done, len(futures), {})
    return [_result(future) for future in futures]


def _result(future: PrefectFuture[Any]) -> PointResult:
    try:
        found = future.result(raise_on_failure=False)
    except Exception as error:  # noqa: BLE001 - every runner brings exceptions of its own
        found = error
    if isinstance(found, PointResult):
        return found
    return PointResult(error=f"the run was not carried out ({type(found).__name__}).")
