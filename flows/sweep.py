"""A sweep: a job is run over a grid of its keys and seeds, and the trade-offs are reported."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from evenhand.flows.engine import RunFolder, Verdict, write_verdict
from evenhand.flows.grid import Grid, Point, PointResult, as_text, run_point
from evenhand.flows.tradeoffs import tradeoffs
from evenhand.flows.workers import Pool, make_pool
from evenhand.tasks.errors import NotCarriedOut
from evenhand.tasks.step import report_progress
from evenhand.tasks.store import Store

RunPoints = Callable[[Grid, str], list[PointResult]]


def execute(grid: Grid, store: Store, run_id: str, run: RunPoints) -> Verdict:
    """Run every point and write the sweep's table, trade-offs and page, and last its verdict.

    `run` is ``(grid, store_url) -> results`` of all points.
    """
    started = time.perf_counter()
    results = run(grid, store.url if "://" in store.url else str(store.local.resolve()))
    seconds = round(time.perf_counter() - started, 3)
    document: dict[str, Any] = {"run_id": run_id, "seconds": seconds} | tradeoffs(grid, results)
    verdict = Verdict(run_id, "evaluated", 0, seconds={"sweep": seconds})
    folder = RunFolder(store, verdict)
    text = json.dumps(document, indent=1, allow_nan=False, default=str)
    folder.write("tradeoff", "tradeoff.json", text, "the trade-offs as JSON")
    with store.workdir() as scratch:
        pq.write_table(sweep_table(grid, results), scratch / "sweep.parquet")
        store.move_in(scratch / "sweep.parquet", "runs", run_id, "sweep.parquet")
    verdict.artifacts["sweep"] = store.uri("runs", run_id, "sweep.parquet")
    folder.add("sweep.parquet", "all runs as a table")
    failed = [result for result in results if result.status == "failed"]
    if failed:
        verdict.status = "failed" if len(failed) == len(results) else "evaluated"
        verdict.exit_code = 4
        verdict.error = f"{len(failed)} of {len(results)} runs failed; the first: {failed[0].error}"
    folder.write_report("sweep", {"tradeoff": document}, {"made": [["The sweep", _facts(grid, seconds)]]})
    write_verdict(store, verdict)
    return verdict


def cached_points(grid: Grid, store_url: str) -> list[PointResult]:
    """Return the results of all points from the cache.

    Raises `CacheMiss` if a step is not in the cache.
    """
    return [run_point(point.resolved, store_url, cached_only=True) for point in grid.points]


def run_points(grid: Grid, store_url: str) -> list[PointResult]:
    """Run every point in a worker of the job's section `sweep`, without Prefect."""
    pool = make_pool(grid.job.sweep, len(grid.points))
    # a failure ends the pool first: the executor waits for its threads, which wait for the workers
    with ThreadPoolExecutor(pool.size) as threads, pool:
        futures = [threads.submit(in_worker, pool, point, store_url) for point in grid.points]
        report_done(as_completed(futures), len(futures))
        return [future.result() for future in futures]


def report_done(finished: Iterable[Any], total: int) -> None:
    """Report how many of the runs have finished, as they finish."""
    report = report_progress("runs")
    report(0, total, {})
    for done, _ in enumerate(finished, start=1):
        report(done, total, {})


def in_worker(pool: Pool, point: Point, store_url: str) -> PointResult:
    """Run a point in a free worker; the point has failed if the worker dies."""
    try:
        result: PointResult = pool.run(run_point, point.resolved, store_url)
    except NotCarriedOut as error:
        return PointResult(error=str(error))
    return result


def _facts(grid: Grid, seconds: float) -> list[list[str]]:
    """Return what the page shows of this sweep beside its trade-offs, as names and values."""
    swept = [[f"Values of {axis.key}", ", ".join(map(as_text, axis.values))] for axis in grid.axes]
    engine = "Dask" if grid.job.sweep.engine == "dask" else "worker processes"
    made = [["Job", grid.job.name], *swept, ["Seeds", ", ".join(map(str, grid.seeds))]]
    return [*made, ["Seconds", f"{seconds:.1f}"], ["Engine", engine]]


def sweep_table(grid: Grid, results: Sequence[PointResult]) -> pa.Table:
    """Build the table of all runs, one row per point."""
    columns: dict[str, list[Any]] = {
        axis.key: _column([point.settings[axis.key] for point in grid.points]) for axis in grid.axes
    }
    columns["seed"] = [point.seed for point in grid.points]
    for name in ("status", "verdict"):
        columns[name] = [getattr(result, name) for result in results]
    for name in dict.fromkeys(name for result in results for name in result.metrics):
        for key, suffix in (("value", ""), ("low", ".low"), ("high", ".high")):
            columns[f"{name}{suffix}"] = [result.metrics.get(name, {}).get(key) for result in results]
    columns["seconds"] = [sum(result.seconds.values()) for result in results]
    for step in dict.fromkeys(step for result in results for step in result.seconds):
        columns[f"seconds.{step}"] = [result.seconds.get(step) for result in results]
    columns["cached"] = [", ".join(result.cached) for result in results]
    columns["error"] = [result.error for result in results]
    texts = {"status", "verdict", "cached", "error"}
    swept = {"seed", *(axis.key for axis in grid.axes)}
    return pa.table(
        {
            name: pa.array(values, None if name in swept else pa.string() if name in texts else pa.float64())
            for name, values in columns.items()
        }
    )


def _column(values: Sequence[Any]) -> list[Any]:
    """Return values of one type unchanged, integers and floats as floats, and other mixtures as text."""
    kinds = {type(value) for value in values}
    if kinds <= {int, float} or kinds in ({str}, {bool}):
        return [float(value) for value in values] if kinds == {int, float} else list(values)
    return [as_text(value) for value in values]
