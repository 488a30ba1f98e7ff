"""The steps as Prefect tasks, which call :func:`evenhand.tasks.step.run_step`.

Prefect stores no result: a stored one names the serializer that reads it, and so could execute code. The
store has the steps' records; a step that was found there ends in the state that Prefect calls Cached.
"""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.states import Completed
from prefect.tasks import Task, exponential_backoff

from evenhand.tasks.errors import EvenhandError, InputError, internal_fault
from evenhand.tasks.sources import FETCH, fetch_source
from evenhand.tasks.step import STEPS, report_progress, run_step, working
from evenhand.tasks.store import Artifact, Store

HOUR_S = 3600
TIMEOUT_S = {
    "train": 24 * HOUR_S,
    "membership": 24 * HOUR_S,
    "learn_proxy": 24 * HOUR_S,
    "publish": HOUR_S // 4,
}
SUMMARIES = {
    "ingest": "Read the table and store it as Parquet.",
    "contract": "Check the raw table against its data contract.",
    "preprocess": "Split, then one-hot and scale with the training rows and the contract alone.",
    "profile": "Count the training rows by value, as the reference for drift.",
    "balance": "Keep the training rows that a published proxy accepts.",
    "fair_metric": "Learn the fair metric from the training rows.",
    "train": "Train the job's method.",
    "decide": "Calibrate the model and choose its decision rule.",
    "controls": "Train the learner without mitigation, and without the sensitive columns.",
    "membership": "Attack the model with shadow models that tell training rows from test rows.",
    "evaluate": "Measure performance, group gaps and consistency on the test rows.",
    "learn_proxy": "Learn a proxy of the sensitive groups from the training rows.",
    "measure_proxy": "Measure the disclosivity of a proxy and the balance of its sample on the test rows.",
    "measure_model": "Measure a published model, and a baseline, on another table.",
    "measure_drift": "Compare a batch with the counts of the training rows.",
    "gate": "Decide whether the model may be published.",
    "publish": "Register the model and move its alias.",
}


def _step_task(name: str) -> Task[..., Any]:
    @task(
        name=name,
        task_run_name=name,
        description=SUMMARIES[name],
        tags={"evenhand", name},
        cache_policy=NO_CACHE,
        persist_result=False,
        timeout_seconds=TIMEOUT_S.get(name, HOUR_S),
        log_prints=False,
    )
    def run(
        step: str, key: str, store_url: str, parameters: dict[str, Any], inputs: dict[str, dict[str, Any]]
    ) -> Any:
        try:
            record, cached = run_step(
                Store(store_url),
                STEPS[step],
                key,
                parameters,
                {label: Artifact(**item) for label, item in inputs.items()},
                report_progress(step, prefect=True),
            )
        except (EvenhandError, OSError):
            raise
        except Exception as error:
            if os.environ.get("EVENHAND_LOG"):
                raise
            # Prefect stores the message of an error, and a library's message may quote a person's value.
            raise internal_fault(error) from None
        found = (record, cached)
        return Completed(name="Cached", data=found) if cached else found

    return run


STEP_TASKS = {name: _step_task(name) for name in STEPS}


def _worth_retrying(task: Any, task_run: Any, state: Any) -> bool:
    """Whether to repeat a read: a network fault may pass, a wrong digest or a bad query stays."""
    error = state.result(raise_on_failure=False)
    return not (isinstance(error, InputError) and "cannot be reached" not in str(error))


@task(
    name="fetch",
    task_run_name="fetch",
    description="Read the table's bytes over the network.",
    tags={"evenhand", "network"},
    retries=2,
    retry_delay_seconds=exponential_backoff(backoff_factor=1),
    retry_jitter_factor=0.5,
    retry_condition_fn=_worth_retrying,
    cache_policy=NO_CACHE,
    persist_result=False,
    timeout_seconds=HOUR_S,
)
def fetch_task(store_url: str, source: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Fetch the source's files. Not cached: their digests are part of the keys of all steps."""
    report = report_progress(FETCH, prefect=True)
    with working(FETCH):
        files = fetch_source(Store(store_url), source, progress=lambda done, total: report(done, total, {}))
    return {name: asdict(artifact) for name, artifact in files.items()}
