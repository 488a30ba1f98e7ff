"""Carry the points of a grid out in worker processes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, as_completed

from evenhand.flows.grid import Grid, Point, PointResult, run_point
from evenhand.flows.workers import WorkerPool, cores
from evenhand.tasks.errors import NotCarriedOut
from evenhand.tasks.progress import report_progress

__all__ = ["find_points", "in_worker", "run_points", "worker_count"]


def worker_count(grid: Grid) -> int:
    """Workers that the job asks for, else one a core; never more than there are points."""
    return min(grid.job.sweep.workers or len(cores()), len(grid.points))


def find_points(grid: Grid, store_url: str) -> list[PointResult]:
    """
    Find every point in the cache.

    Raises
    ------
    CacheMiss
        Something is to be computed.
    """
    return [run_point(point.resolved, store_url, cached_only=True) for point in grid.points]


def run_points(grid: Grid, store_url: str) -> list[PointResult]:
    """Run every point, with no orchestrator."""
    workers = worker_count(grid)
    pool = WorkerPool(workers)
    report = report_progress("runs")
    try:
        with ThreadPoolExecutor(workers) as threads:
            futures = [threads.submit(in_worker, pool, point, store_url) for point in grid.points]
            try:
                report(0, len(futures), {})
                for done, _ in enumerate(as_completed(futures), start=1):
                    report(done, len(futures), {})
            except BaseException:
                pool.close(kill=True)  # before the threads are waited for, which wait for the workers
                raise
    finally:
        pool.close()
    return [future.result() for future in futures]


def in_worker(pool: WorkerPool, point: Point, store_url: str) -> PointResult:
    """Run a point in a free worker; one that dies leaves a failed point."""
    try:
        result: PointResult = pool.run(run_point, point.resolved, store_url)
    except NotCarriedOut as error:
        return PointResult(error=str(error))
    return result
