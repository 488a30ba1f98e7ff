"""The Prefect flows but that of retraining, by the names that `prefect_flows.py` offers."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

# before Prefect: it sets what Prefect reads when it is imported
from evenhand.flows.flow_records import (
    FLOW,
    add_artifacts,
    artifact_key,
    conclude,
    result_of,
    run_name,
    summary_of,
)

import httpx  # isort: skip
from prefect import flow, task  # isort: skip
from prefect.artifacts import create_table_artifact  # isort: skip
from prefect.deployments import run_deployment  # isort: skip
from prefect.exceptions import PrefectException  # isort: skip
from prefect.futures import as_completed  # isort: skip
from prefect.states import Failed  # isort: skip
from prefect.task_runners import TaskRunner, ThreadPoolTaskRunner  # isort: skip

from evenhand.fairlib.escaping import markdown_code, markdown_text, plain_texts
from evenhand.flows.engine import Verdict, new_run_id, write_verdict
from evenhand.flows.prefect_engine import HOUR_S, TASK, PrefectEngine, open_store
from evenhand.flows.run_events import emit
from evenhand.tasks.errors import InputError, NotCarriedOut
from evenhand.tasks.execution.step import report_progress
from evenhand.tasks.execution.store import Store

# A flow imports the module of its verb when it runs.
if TYPE_CHECKING:
    from evenhand.flows.file_runs import FilesPlan
    from evenhand.flows.sweep import Grid, PointResult


@flow(name="evaluate", flow_run_name=run_name, timeout_seconds=24 * HOUR_S, **FLOW)
def evaluate(
    model: str,
    data: str,
    gates: dict[str, Any] | str | None = None,
    baseline: str | None = None,
    overrides: Sequence[str] = (),
    contract: str | None = None,
    record: bool = True,
    store: str | None = None,
    run_id: str | None = None,
) -> dict[str, Any]:
    """Evaluate a published model on a table, and compare it with a baseline if there is one.

    - **model**: `models:/NAME@ALIAS`, `models:/NAME/VERSION`, a name, or the folder of a bundle
    - **data**: a known table, a file, a folder or a URL
    - **gates**: metrics and their limits, or the path of a YAML file with them; default: no
      decision
    - **baseline**: another model, measured on the same rows
    - **overrides**: `KEY=VALUE` strings, such as `table.delimiter=;` or `evaluate.draws=200`
    - **contract**: a contract that the model must have been made under
    - **record**: record the gates' decision on the model's version
    - **store**, **run_id**: as of the flow `retrain`

    Returns the evaluation's verdict. Raises `GateRefused` if the gates refuse or lack evidence,
    `InputError` if model, data or gates are wrong, `NotCarriedOut` if something outside failed: the
    flow run then shows as failed.
    """
    from evenhand.flows import evaluate as evaluation

    plan = evaluation.plan_evaluation(
        model, data, gates, baseline, overrides, contract, record=record
    )
    opened = open_store(store)
    name = run_id or new_run_id(plan.run_name)
    verdict = evaluation.execute(plan, opened, name, PrefectEngine(opened))
    text = opened.read_text("runs", verdict.run_id, "summary.md") or ""
    assert verdict.model is not None
    emit(verdict, verdict.model["name"])
    add_artifacts(verdict, verdict.model["name"], "evaluate-metrics", "evaluate", text)
    return result_of(verdict)


@flow(name="monitor", flow_run_name=run_name, timeout_seconds=72 * HOUR_S, **FLOW)
def monitor(
    model: str,
    data: str,
    gates: dict[str, Any] | str | None = None,
    overrides: Sequence[str] = (),
    retrain_deployment: str | None = None,
    store: str | None = None,
    run_id: str | None = None,
) -> dict[str, Any]:
    """Compare new rows with a published model's training rows, and start a retraining if they have
    drifted.

    - **model**: `models:/NAME@ALIAS`, `models:/NAME/VERSION`, a name, or the folder of a bundle
    - **data**: a known table, a file, a folder or a URL
    - **gates**: metrics of drift and their limits, or the path of a YAML file that has them
      (default: a stability index of at most 0.2 of every column, at most 1% of rows with a new
      category)
    - **overrides**: `KEY=VALUE` strings, such as `table.delimiter=;` or `evaluate.draws=200`
    - **retrain_deployment**: deployment to start if the gates refuse, such as `retrain/adult-budro`
    - **store**, **run_id**: as of the flow `retrain`

    Returns the verdict. Raises `GateRefused` if the gates refuse or lack evidence, `InputError` if
    model, data or gates are wrong, `NotCarriedOut` if something outside failed: the flow run then
    shows as failed. A retraining of a table that has not changed does nothing.
    """
    from evenhand.flows import monitor as monitoring

    plan = monitoring.plan_monitoring(model, data, gates, overrides)
    opened = open_store(store)
    name = run_id or new_run_id(plan.run_name)
    verdict = monitoring.execute(plan, opened, name, PrefectEngine(opened))
    if verdict.exit_code == 1 and retrain_deployment is not None:
        _start(retrain_deployment, opened, verdict)
    assert verdict.model is not None
    emit(verdict, verdict.model["name"])
    retrained = verdict.artifacts.get("retrained")
    outcome = {0: "no drift beyond the gates", 1: "drifted", 3: "not enough evidence"}[
        verdict.exit_code
    ]
    lines = [outcome]
    if retrained:
        lines.append(f"Retraining: {markdown_code(retrained)}")
    add_artifacts(verdict, verdict.model["name"], "drift", "monitor", summary_of(verdict, *lines))
    return result_of(verdict)


def _start(deployment: str, store: Store, verdict: Verdict) -> None:
    """Start a deployment of the flow `retrain` without waiting for it."""
    try:
        started: Any = run_deployment(deployment, parameters={"only_if_changed": True}, timeout=0)
    except (PrefectException, httpx.HTTPError, ValueError) as error:
        raise NotCarriedOut(
            f"the rows have drifted, but the deployment {deployment!r} could not be started "
            f"({type(error).__name__}): `prefect deployment ls` lists the deployments."
        ) from error
    verdict.artifacts["retrained"] = f"{deployment}: flow run {started.id}"
    write_verdict(store, verdict)


# not cached: the records in the output folder say what is done
@task(name="files", task_run_name="{plan.verb}-files", tags={"evenhand"}, **TASK)
def judge_files(plan: FilesPlan, store_url: str, run_id: str, keep_idle: bool) -> Verdict:
    """Filter or predict all files, in threads of this process or on Dask."""
    from evenhand.flows import file_runs

    reporter = report_progress(plan.verb, prefect=True)
    verdict = file_runs.execute(plan, Store(store_url), run_id, reporter, keep_idle=keep_idle)
    reporter.finish()
    return verdict


def _rows_in_words(verdict: Verdict, done: str) -> str:
    """Say how many rows and files a run over files has read, and what became of them."""
    numbers = {name: int(value or 0) for name, value in verdict.metrics.items()}
    text = f"{numbers['rows_in']:,} rows read, {numbers['rows_out']:,} {done}"
    text += f", {numbers['rows_set_aside']:,} set aside. "
    text += f"Files: {numbers[f'files_{done}']:,} now, {numbers['files_done_before']:,} before"
    return f"{text}, {numbers['files_failed']:,} failed."


def _run_over_files(plan: FilesPlan, store: str | None, run_id: str | None) -> dict[str, Any]:
    """Return the verdict of a run over files, with artifacts; an `InputError` if some files
    failed.
    """
    opened = open_store(store)
    verdict = judge_files(plan, opened.url, run_id or new_run_id(plan.run_name), run_id is not None)
    if verdict.status == "up_to_date":
        conclude(verdict)
        return verdict.to_dict()
    rows = [{"measure": key, "value": value} for key, value in verdict.metrics.items()]
    name = plan.run_name.removesuffix(f"-{plan.verb}")
    lines = [_rows_in_words(verdict, plan.done)]
    if verdict.error:
        lines.append(markdown_text(verdict.error))
    text = summary_of(verdict, *lines)
    add_artifacts(verdict, name, plan.verb, f"{plan.verb}-report", text, rows)
    if verdict.exit_code != 0:
        raise InputError(str(verdict.error))
    return result_of(verdict)


@flow(name="filter", flow_run_name=run_name, timeout_seconds=14 * 24 * HOUR_S, **FLOW)
def filter_flow(
    job: str,
    input: str,
    output: str,
    overrides: Sequence[str] = (),
    store: str | None = None,
    run_id: str | None = None,
) -> dict[str, Any]:
    """Filter files into a balanced sample with a job's published proxy.

    - **job**: name of a shipped job or path of a job file, whose method is a proxy
    - **input**: a file, folder or glob of Parquet or CSV, on this machine or any URL that fsspec
      knows
    - **output**: folder, URL, or `URL#TABLE` of a database; a later run continues there, and files
      done before are skipped; with `filter.settle_seconds` in the overrides no new file is not an
      error
    - **overrides**: `KEY=VALUE` strings, such as `filter.key=[id]`
    - **store**, **run_id**: as of the flow `retrain`

    Returns the run's verdict. Raises `InputError` if the job or some file is wrong (the other files
    are filtered), `NotCarriedOut` if something outside failed: the flow run then shows as failed.
    """
    from evenhand.flows.filter import plan_filter

    return _run_over_files(plan_filter(job, overrides, input, output), store, run_id)


@flow(name="predict", flow_run_name=run_name, timeout_seconds=14 * 24 * HOUR_S, **FLOW)
def predict_flow(
    model: str,
    input: str,
    output: str,
    overrides: Sequence[str] = (),
    reasons: int | None = None,
    adverse: bool = False,
    store: str | None = None,
    run_id: str | None = None,
) -> dict[str, Any]:
    """Add a published classifier's predictions to the rows of files.

    - **model**: an address such as `models:/NAME@ALIAS`, a name, or a bundle's folder
    - **input**, **output**, **store**, **run_id**: as of the flow `filter`
    - **overrides**: `KEY=VALUE` strings, such as `predict.workers=2`
    - **reasons**, **adverse**: number of reasons for each prediction; only of unfavourable
      decisions

    Returns the run's verdict. Raises as the flow `filter` does.
    """
    from evenhand.flows.predict import plan_prediction

    plan = plan_prediction(model, input, output, overrides, reasons, adverse=adverse)
    return _run_over_files(plan, store, run_id)


# not cached: the steps of a point are
@task(name="sweep-point", task_run_name="{label}", tags={"evenhand", "sweep"}, **TASK)
def run_in_worker(label: str, point: Any, store_url: str, pool: Any) -> Any:
    """Run a point of a grid up to its gates, in a free worker."""
    from evenhand.flows import sweep as sweeping

    result = sweeping.in_worker(pool, point, store_url)
    if result.status == "failed":
        # a failed state with the result, so that the task shows as failed
        return Failed(message=result.error, data=result)
    return result


def run_points(grid: Grid, store_url: str) -> list[PointResult]:
    """Run every point of a grid as a task; return the results in order."""
    from evenhand.flows import sweep as sweeping
    from evenhand.flows.workers import make_pool

    pool = make_pool(grid.job.sweep, len(grid.points))
    runner: TaskRunner[Any] = ThreadPoolTaskRunner(max_workers=pool.size)
    shared = {"store_url": store_url, "pool": pool}
    # a failure ends the pool first: the runner waits for its threads, which wait for the workers
    with runner as threads, pool:
        futures = [
            threads.submit(run_in_worker, {"label": point.label, "point": point, **shared})
            for point in grid.points
        ]
        sweeping.report_done(as_completed(futures), len(futures))
        return [_result(future) for future in futures]


def _result(future: Any) -> PointResult:
    """Return a point's result; a task without one is a failed point."""
    from evenhand.flows.sweep import PointResult

    try:
        result = future.result(raise_on_failure=False)
    except Exception as error:  # noqa: BLE001 - each runner has its own exceptions
        result = error
    if isinstance(result, PointResult):
        return result
    return PointResult(error=f"the run was not carried out ({type(result).__name__}).")


@flow(name="sweep", flow_run_name=run_name, timeout_seconds=14 * 24 * HOUR_S, **FLOW)
def sweep(
    job: str,
    over: Sequence[str],
    seeds: int = 1,
    overrides: Sequence[str] = (),
    store: str | None = None,
    run_id: str | None = None,
) -> dict[str, Any]:
    """Run a job over a grid of its keys and seeds, and report the trade-offs between metrics.

    - **job**: name of a shipped job or path of a job file
    - **over**: `KEY=V1,V2` strings, such as `method.eta=0.01,0.05`
    - **seeds**: seeds per value, counted up from the job's own
    - **overrides**: `KEY=VALUE` strings for every run
    - **store**, **run_id**: as of the flow `retrain`

    Returns the sweep's verdict. Raises `InputError` if the job or grid is wrong, `GateRefused` if a
    run failed: the flow run then shows as failed.
    """
    from evenhand.flows import sweep as sweeping

    grid = sweeping.make_grid(job, over, seeds=seeds, overrides=overrides)
    opened = Store(store)
    name = run_id or new_run_id(grid.run_name)
    verdict = sweeping.execute(grid, opened, name, run_points)
    text = opened.read_text("runs", name, "tradeoff.json")
    if text is not None:
        _show_means(json.loads(text), verdict)
    return result_of(verdict)


def _show_means(document: Mapping[str, Any], verdict: Verdict) -> None:
    rows = []
    for value in document["values"]:
        row = {"value": value["name"]}
        for name, summary in value["metrics"].items():
            row[name] = summary["mean"]
        rows.append(row)
    report = f"Means of {verdict.run_id}; report: {markdown_code(verdict.artifacts['report'])}"
    create_table_artifact(
        table=plain_texts(rows), key=artifact_key(document["job"], "sweep"), description=report
    )


@flow(name="tune", flow_run_name=run_name, timeout_seconds=14 * 24 * HOUR_S, **FLOW)
def tune(
    job: str,
    overrides: Sequence[str] = (),
    force: bool = False,
    store: str | None = None,
    run_id: str | None = None,
    started: float | None = None,
) -> dict[str, Any]:
    """Search for the best model within limits, and write the job of the winner next to the job's
    file.

    - **job**: name of a shipped job or path of a job file, whose key `tune` says what is searched
    - **overrides**: `KEY=VALUE` strings, such as `tune.minutes=20`
    - **force**: overwrite the tuned job's file, as a schedule must
    - **store** (a folder), **run_id**: as of the flow `retrain`
    - **started**: seconds since 1970 from which `tune.minutes` are counted (default: now)

    Returns the verdict. Raises `InputError` if the job or the search is wrong, `GateRefused` if
    nothing is within the limits: the flow run then shows as failed, and the job of the best
    compromise is written.
    """
    from evenhand.flows import tune as tuning
    from evenhand.flows.tune_plan import make_plan

    began = time.monotonic()
    if started is not None:
        began -= time.time() - started
    plan = make_plan(job, overrides, force=force, store_url=store)
    opened = open_store(store)
    name = run_id or new_run_id(f"{plan.resolved.job.name}-tune")
    verdict = tuning.execute(plan, opened, name, PrefectEngine(opened), prefect=True, started=began)
    lines = [markdown_text(note) for note in verdict.notes]
    lines.append(f"Job: {markdown_code(verdict.artifacts.get('tuned', 'none'))}")
    add_artifacts(
        verdict, plan.resolved.job.name, "tune-metrics", "tune", summary_of(verdict, *lines)
    )
    return result_of(verdict)
