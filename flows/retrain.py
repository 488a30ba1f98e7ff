"""The retraining flow: a table becomes a gated, published model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evenhand.flows.runtime import make_prefect_home, prepare_environment

make_prefect_home(prepare_environment())  # before Prefect reads its settings

from prefect import flow  # noqa: E402
from prefect.artifacts import create_markdown_artifact, create_table_artifact  # noqa: E402
from prefect.logging import get_run_logger  # noqa: E402

from evenhand.flows.execute import carry_out, up_to_date  # noqa: E402
from evenhand.flows.job import load_job  # noqa: E402
from evenhand.flows.prefect_engine import PrefectEngine, lasting_store  # noqa: E402
from evenhand.flows.resolved_job import ResolvedJob, resolve  # noqa: E402
from evenhand.flows.run_outputs import new_run_id  # noqa: E402
from evenhand.flows.verdict import Verdict  # noqa: E402
from evenhand.tasks.errors import GateRefused  # noqa: E402

__all__ = ["retrain"]


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
    only_if_changed: bool = False,
) -> dict[str, Any]:
    """
    Turn a job's table into a gated, published model.

    - **job**: name of a shipped job or path of a job file
    - **overrides**: `KEY=VALUE` strings, such as `method.eta=0.04`
    - **store**: folder or URL of the store (default: `EVENHAND_STORE`)
    - **run_id**: name of the run's folder (default: a new one)
    - **only_if_changed**: train nothing if the registry has a model made from the same data, job and code

    Returns the run's verdict. Raises `GateRefused` if the gates refuse, `InputError` if the job, the data or
    the contract is wrong, `NotCarriedOut` if something outside failed: the flow run then shows as failed.
    """
    logger = get_run_logger()
    resolved = resolve(*load_job(job, overrides))
    opened = lasting_store(store)
    engine, name = PrefectEngine(opened), run_id or new_run_id(resolved.job.name)
    verdict = up_to_date(resolved, opened, name, engine) if only_if_changed else None
    if verdict is not None:
        logger.info("%s", "; ".join(verdict.notes))
        return verdict.to_dict()
    verdict = carry_out(resolved, opened, name, engine)
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
