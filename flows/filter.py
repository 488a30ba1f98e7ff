"""The filter flow: files become balanced samples, in this process or over a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from evenhand.flows.runtime import make_prefect_home, prepare_environment

make_prefect_home(prepare_environment())  # before Prefect reads its settings

from prefect import flow, task  # noqa: E402
from prefect.artifacts import create_markdown_artifact, create_table_artifact  # noqa: E402
from prefect.cache_policies import NO_CACHE  # noqa: E402
from prefect.futures import as_completed  # noqa: E402
from prefect.logging import get_run_logger  # noqa: E402

from evenhand.flows.filter_run import FilterJob, Source, carry_out_filter, follow, resolve_filter  # noqa: E402
from evenhand.flows.prefect_engine import lasting_store  # noqa: E402
from evenhand.flows.run_outputs import new_run_id  # noqa: E402
from evenhand.flows.verdict import Verdict  # noqa: E402
from evenhand.flows.workers import dask_cluster  # noqa: E402
from evenhand.tasks.errors import InputError, NotCarriedOut  # noqa: E402
from evenhand.tasks.filtering.bundle import FilterSettings  # noqa: E402
from evenhand.tasks.filtering.engine import Workers  # noqa: E402
from evenhand.tasks.filtering.units import UnitResult, UnitSpec, run_unit  # noqa: E402
from evenhand.tasks.store import Store  # noqa: E402

__all__ = ["filter_flow"]

TASK_OPTIONS: dict[str, Any] = {
    "tags": {"evenhand", "filter"},
    "retries": 0,
    "cache_policy": NO_CACHE,  # the output's own records say what is done
    "persist_result": False,
    "log_prints": False,
}


@task(name="filter-files", description="Filter all files with threads of this process.", **TASK_OPTIONS)
def filter_here(job: FilterJob, store_url: str, run_id: str, keep_idle: bool) -> Verdict:
    """Filter in this process."""
    return carry_out_filter(job, Store(store_url), run_id, follow(prefect=True), keep_idle=keep_idle)


@task(name="filter-unit", task_run_name="{label}", description="Filter a part of one file.", **TASK_OPTIONS)
def unit_on_dask(label: str, unit: UnitSpec, source: Source, settings: FilterSettings) -> UnitResult:
    """Filter one unit in this Dask worker."""
    return run_unit(unit, source.here(), settings, source.version)


@flow(
    name="filter",
    flow_run_name="{job}",
    validate_parameters=True,
    persist_result=False,
    log_prints=False,
    timeout_seconds=14 * 24 * 3600,
)
def filter_flow(
    job: str,
    input: str,
    output: str,
    overrides: Sequence[str] = (),
    store: str | None = None,
    run_id: str | None = None,
) -> dict[str, Any]:
    """
    Filter files into a balanced sample with a job's published proxy.

    - **job**: name of a shipped job or path of a job file, whose method is a proxy
    - **input**: a file, folder or glob of Parquet or CSV, on this machine or any URL that fsspec knows
    - **output**: folder or URL for the sample; a later run goes on there, and files done before are skipped;
      with `filter.settle_seconds` among the overrides the input is watched: nothing new is no error
    - **overrides**: `KEY=VALUE` strings, such as `filter.key=[id]`
    - **store**: folder or URL of the store (default: `EVENHAND_STORE`)
    - **run_id**: name of the run's folder (default: a new one)

    Returns the run's verdict. Raises `InputError` if the job or some file is wrong (the other files are
    filtered), `NotCarriedOut` if something outside failed: the flow run then shows as failed.
    """
    planned = resolve_filter(job, overrides, input, output)
    opened = lasting_store(store)
    name = run_id or new_run_id(f"{planned.resolved.job.name}-filter")
    if planned.resolved.job.filter.engine == "dask":
        verdict = carry_out_filter(
            planned, opened, name, follow(prefect=True), _on_dask(planned), keep_idle=run_id is not None
        )
    else:
        verdict = filter_here(planned, opened.url, name, run_id is not None)
    if verdict.status == "up_to_date":
        get_run_logger().info("%s", "; ".join(verdict.notes))
        return verdict.to_dict()
    _show_in_prefect(planned, verdict)
    get_run_logger().info("%s: %s", verdict.run_id, verdict.status)
    if verdict.exit_code != 0:
        raise InputError(str(verdict.error))
    return verdict.to_dict()


def _on_dask(job: FilterJob) -> Callable[[Source, FilterSettings], Workers]:
    """Hand units to a Dask cluster, the job's or one of our own on this machine."""
    from prefect_dask import DaskTaskRunner

    from evenhand.fairlib.cores import available_cores

    section = job.resolved.job.filter
    runner_settings: dict[str, Any] = (
        {"address": section.address}
        if section.address
        else {"cluster_kwargs": dask_cluster(section.workers or available_cores())}
    )

    def workers(source: Source, settings: FilterSettings) -> Workers:
        shared = {"source": source, "settings": settings}

        def run(units: Sequence[UnitSpec]) -> Iterator[tuple[UnitSpec, UnitResult]]:
            try:
                with DaskTaskRunner(**runner_settings) as runner:
                    futures = {}
                    for unit in units:
                        label = f"{unit.file.name} {unit.index}"
                        future: Any = runner.submit(unit_on_dask, {"label": label, "unit": unit, **shared})
                        futures[future.task_run_id] = (future, unit)
                    for future in as_completed([future for future, _ in futures.values()]):
                        unit = futures.pop(future.task_run_id)[1]
                        yield unit, future.result()
            except OSError:  # it connects when it gets its first task
                place = (
                    f"scheduler at {section.address} does not answer" if section.address else "cluster failed"
                )
                raise NotCarriedOut(
                    f"the Dask {place}: check filter.address, or use engine threads."
                ) from None

        return run

    return workers


def _show_in_prefect(job: FilterJob, verdict: Verdict) -> None:
    """Keyed artifacts, so that the interface shows their history run by run."""
    key = "".join(c if c.isalnum() else "-" for c in job.resolved.job.name.lower()).strip("-")
    rows = [{"measure": name, "value": value} for name, value in verdict.metrics.items()]
    create_table_artifact(table=rows, key=f"{key}-filter", description=f"Filter run {verdict.run_id}")
    report = verdict.artifacts.get("report", "")
    create_markdown_artifact(
        markdown=f"**{verdict.status}** — run `{verdict.run_id}`\n\nReport: `{report}`",
        key=f"{key}-filter-report",
        description="Where the report is",
    )
