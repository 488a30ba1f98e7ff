"""The monitoring flow: are the people of a batch still like those that a model learned from?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evenhand.flows.runtime import make_prefect_home, prepare_environment

make_prefect_home(prepare_environment())  # before Prefect reads its settings

import httpx  # noqa: E402
from prefect import flow  # noqa: E402
from prefect.artifacts import create_markdown_artifact, create_table_artifact  # noqa: E402
from prefect.deployments import run_deployment  # noqa: E402
from prefect.exceptions import PrefectException  # noqa: E402
from prefect.logging import get_run_logger  # noqa: E402

from evenhand.flows.job import load_job  # noqa: E402
from evenhand.flows.monitor_run import (  # noqa: E402
    add_retraining,
    carry_out_monitoring,
    monitor_name,
    plan_monitoring,
)
from evenhand.flows.prefect_engine import PrefectEngine, lasting_store  # noqa: E402
from evenhand.flows.resolved_job import resolve  # noqa: E402
from evenhand.flows.retrain import retrain as retrain_flow  # noqa: E402
from evenhand.flows.run_outputs import new_run_id  # noqa: E402
from evenhand.flows.verdict import Verdict  # noqa: E402
from evenhand.tasks.errors import GateRefused, InputError, NotCarriedOut  # noqa: E402
from evenhand.tasks.store import Store  # noqa: E402

__all__ = ["monitor"]


@flow(
    name="monitor",
    flow_run_name="{model}",
    validate_parameters=True,
    persist_result=False,
    log_prints=False,
    timeout_seconds=72 * 3600,
)
def monitor(
    model: str,
    data: str,
    gates: dict[str, Any] | str | None = None,
    overrides: Sequence[str] = (),
    retrain: str | None = None,
    retrain_deployment: str | None = None,
    store: str | None = None,
    run_id: str | None = None,
) -> dict[str, Any]:
    """
    Hold a batch against what a published model's training rows were, and retrain if it has drifted.

    - **model**: `models:/NAME@ALIAS`, `models:/NAME/VERSION`, a name, or the folder of a bundle
    - **data**: a known table, a file, a folder or a URL
    - **gates**: metrics of drift and their limits, or the path of a YAML file that has them (default: a
      stability index of at most 0.2 of every column, at most 1% of rows with a new category)
    - **overrides**: `KEY=VALUE` strings, such as `table.delimiter=;` or `evaluate.draws=200`
    - **retrain**: job to run, as a flow within this one, if the gates refuse
    - **retrain_deployment**: deployment to start instead, such as `retrain/adult-budro`, without waiting
    - **store**: folder or URL of the store (default: `EVENHAND_STORE`)
    - **run_id**: name of the run's folder (default: a new one)

    Returns the verdict. Raises `GateRefused` if the gates refuse or lack evidence, also if the retraining
    that this caused went well; `InputError` if model, data or gates are wrong, `NotCarriedOut` if something
    outside failed: the flow run then shows as failed. A retraining of a table that has not changed does
    nothing.
    """
    if retrain is not None and retrain_deployment is not None:
        raise InputError("retrain and retrain_deployment are both given: leave one of them out.")
    if retrain is not None:
        resolve(*load_job(retrain, ()))
    job = plan_monitoring(model, data, gates, overrides)
    opened = lasting_store(store)
    name = run_id or new_run_id(monitor_name(model))
    verdict = carry_out_monitoring(job, opened, name, PrefectEngine(opened))
    logger = get_run_logger()
    logger.info("%s: %s", verdict.run_id, verdict.status)
    if verdict.exit_code == 1 and retrain_deployment is not None:
        _start(retrain_deployment, opened, verdict)
    elif verdict.exit_code == 1 and retrain is not None:
        _retrain(retrain, opened, verdict)
    _show_in_prefect(verdict)
    if verdict.exit_code != 0:
        texts = [result["text"] for result in verdict.gates["results"] if not result["passed"]]
        raise GateRefused("; ".join(texts), verdict.exit_code)
    return verdict.to_dict()


def _start(deployment: str, store: Store, verdict: Verdict) -> None:
    """Start a deployment of the flow `retrain`, and do not wait for it."""
    try:
        started: Any = run_deployment(deployment, parameters={"only_if_changed": True}, timeout=0)
    except (PrefectException, httpx.HTTPError, ValueError) as error:
        raise NotCarriedOut(
            f"the rows have drifted, but the deployment {deployment!r} could not be started "
            f"({type(error).__name__}): `prefect deployment ls` lists those that are there."
        ) from error
    add_retraining(store, verdict, f"{deployment}: flow run {started.id}")


def _retrain(job: str, store: Store, verdict: Verdict) -> None:
    """Retrain within this flow run; what comes of it is in its own verdict, and does not change this one."""
    resolved = resolve(*load_job(job, ()))
    run_id = new_run_id(resolved.job.name)
    # noted first: of a retraining that is killed, too, one should know
    add_retraining(store, verdict, store.uri("runs", run_id, "verdict.json"))
    retrain_flow(job, store=store.url, run_id=run_id, only_if_changed=True, return_state=True)


def _show_in_prefect(verdict: Verdict) -> None:
    """Keyed artifacts, so that the interface shows their history batch by batch."""
    assert verdict.model is not None
    key = "".join(c if c.isalnum() else "-" for c in verdict.model["name"].lower()).strip("-")
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
    create_table_artifact(table=rows, key=f"{key}-drift", description=f"Drift found by {verdict.run_id}")
    words = {0: "no drift beyond the gates", 1: "drifted", 3: "not enough evidence"}[verdict.exit_code]
    refused = [f"- {result['text']}" for result in verdict.gates["results"] if not result["passed"]]
    retrained = verdict.artifacts.get("retrained")
    lines = [
        f"**{words}** — run `{verdict.run_id}`",
        "\n".join(refused),
        f"Retraining: `{retrained}`" if retrained else "",
        f"Report: `{verdict.artifacts.get('report', '')}`",
    ]
    create_markdown_artifact(
        markdown="\n\n".join(line for line in lines if line),
        key=f"{key}-monitor",
        description="What was found of drift",
    )
