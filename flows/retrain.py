"""The retraining flow: a table becomes a gated, published model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flows.runtime import make_prefect_home, prepare_environment

make_prefect_home(prepare_environment())  # before Prefect reads its settings

from prefect import flow  # noqa: E402
from prefect.artifacts import create_markdown_artifact, create_table_artifact  # noqa: E402
from prefect.logging import get_run_logger  # noqa: E402

from flows.carry_out import carry_out  # noqa: E402
from flows.job import load_job  # noqa: E402
from flows.outcome import new_run_id  # noqa: E402
from flows.resolved_job import ResolvedJob, resolve  # noqa: E402
from flows.verdict import Verdict  # noqa: E402
from tasks.artifacts import Artifact  # noqa: E402
from tasks.errors import GateRefused  # noqa: E402
from tasks.orchestrated import STEP_TASKS, fetch_task  # noqa: E402
from tasks.sources import fetch_source, needs_network  # noqa: E402
from tasks.store import StepRecord, Store  # noqa: E402

__all__ = ["PrefectEngine", "retrain"]


class PrefectEngine:
    """Runs every step as a Prefect task of the flow run around it."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def fetch(self, source: Mapping[str, Any]) -> dict[str, Artifact]:
        """Fetch in a task with retries where the network is involved."""
        if not needs_network(source):
            return fetch_source(self.store, source)
        files = fetch_task(self.store.url, dict(source))
        return {name: Artifact.from_dict(item) for name, item in files.items()}

    def run(
        self,
        name: str,
        key: str,
        parameters: Mapping[str, Any],
        inputs: Mapping[str, Artifact],
        *,
        refresh: bool,
    ) -> tuple[StepRecord, bool]:
        """Run the step's task; a Prefect record whose artifacts are gone is refreshed."""
        if refresh:
            self.store.forget(name, key)
        whole = not refresh and self.store.find(name, key) is not None
        state: Any = STEP_TASKS[name].with_options(refresh_cache=not whole)(
            step=name,
            key=key,
            store_url=self.store.url,
            parameters=dict(parameters),
            inputs={label: artifact.to_dict() for label, artifact in inputs.items()},
            return_state=True,
        )
        result: dict[str, Any] = state.result()
        return StepRecord.from_dict(result["record"]), state.name == "Cached" or result["cached"]


@flow(
    name="retrain",
    flow_run_name="{job}",
    validate_parameters=True,
    persist_result=False,
    log_prints=False,
    timeout_seconds=48 * 3600,
)
def retrain(
    job: str,
    overrides: Sequence[str] = (),
    store: str | None = None,
    run_id: str | None = None,
) -> dict[str, Any]:
    """
    Turn a job's table into a gated, published model.

    - **job**: name of a shipped job or path of a job file
    - **overrides**: `KEY=VALUE` strings, such as `method.eta=0.04`
    - **store**: folder or URL of the store (default: `EVENHAND_STORE`)
    - **run_id**: name of the run's folder (default: a new one)

    Returns the run's verdict. Raises `GateRefused` if the gates refuse, `InputError` if the job, the data or
    the contract is wrong, `NotCarriedOut` if something outside failed: the flow run then shows as failed.
    """
    logger = get_run_logger()
    resolved = resolve(*load_job(job, overrides))
    opened = Store(store)
    verdict = carry_out(resolved, opened, run_id or new_run_id(resolved.job.name), PrefectEngine(opened))
    _show_in_prefect(resolved, verdict)
    logger.info("%s: %s", verdict.run_id, verdict.status)
    if verdict.exit_code != 0:
        texts = [result["text"] for result in verdict.gates["results"] if not result["passed"]]
        raise GateRefused(verdict.error or "; ".join(texts), verdict.exit_code)
    return verdict.to_dict()


def _show_in_prefect(resolved: ResolvedJob, verdict: Verdict) -> None:
    """Keyed artifacts, so that the interface shows their history run by run."""
    key = "".join(c if c.isalnum() else "-" for c in resolved.job.name.lower()).strip("-")
    rows = [
        {
            "metric": name,
            "value": value if value is not None else "insufficient evidence",
            "low": verdict.metrics.get(f"{name}.low"),
            "high": verdict.metrics.get(f"{name}.high"),
        }
        for name, value in verdict.metrics.items()
        if not name.endswith((".low", ".high"))
    ]
    create_table_artifact(table=rows, key=f"{key}-metrics", description=f"Metrics of {verdict.run_id}")
    report = verdict.artifacts.get("report", "")
    model = (
        f"Model: `{verdict.model['uri']}` version {verdict.model['version']}"
        if verdict.model
        else "No model."
    )
    create_markdown_artifact(
        markdown=f"**{verdict.status}** — run `{verdict.run_id}`\n\nReport: `{report}`\n\n{model}",
        key=f"{key}-report",
        description="Where the report and the model are",
    )
