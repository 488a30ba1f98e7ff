"""The Prefect flows: each runs a verb with the engine whose steps are Prefect tasks.

Most runs on a schedule are retrainings, and most of those have nothing to do: so this module has
that flow alone, and imports the others when one of them is asked for.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

# before Prefect: it sets what Prefect reads when it is imported
from evenhand.flows.flow_records import (
    FLOW,
    add_artifacts,
    conclude,
    result_of,
    run_name,
    summary_of,
)

from prefect import flow  # isort: skip

from evenhand.fairlib.escaping import markdown_code
from evenhand.flows.engine import new_run_id
from evenhand.flows.job_file import load_job
from evenhand.flows.prefect_engine import HOUR_S, PrefectEngine, open_store
from evenhand.flows.resolved_job import resolve
from evenhand.flows.run_events import emit
from evenhand.flows.unchanged import up_to_date

if TYPE_CHECKING:
    from evenhand.flows.other_flows import (
        evaluate,
        filter_flow,
        monitor,
        predict_flow,
        sweep,
        tune,
    )

__all__ = ["evaluate", "filter_flow", "monitor", "predict_flow", "retrain", "sweep", "tune"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("evenhand.flows.other_flows"), name)


@flow(name="retrain", flow_run_name=run_name, timeout_seconds=48 * HOUR_S, **FLOW)
def retrain(
    job: str,
    overrides: Sequence[str] = (),
    store: str | None = None,
    run_id: str | None = None,
    only_if_changed: bool = False,
) -> dict[str, Any]:
    """Turn a job's table into a gated, published model.

    - **job**: name of a shipped job or path of a job file
    - **overrides**: `KEY=VALUE` strings, such as `method.eta=0.04`
    - **store**: folder or URL of the store (default: `EVENHAND_STORE`)
    - **run_id**: name of the run's folder (default: a new one)
    - **only_if_changed**: train nothing if the registry has a model made from the same data, job
      and code

    Returns the run's verdict. Raises `GateRefused` if the gates refuse, `InputError` if the job,
    the data or the contract is wrong, `NotCarriedOut` if something outside failed: the flow run
    then shows as failed.
    """
    resolved = resolve(*load_job(job, overrides))
    opened = open_store(store)
    engine = PrefectEngine(opened)
    name = run_id or new_run_id(resolved.job.name)
    if only_if_changed:
        unchanged = up_to_date(resolved, opened, name, engine)
        if unchanged is not None:
            conclude(unchanged)
            emit(unchanged, resolved.model_name)
            return unchanged.to_dict()
    from evenhand.flows import run as retraining

    verdict = retraining.execute(resolved, opened, name, engine)
    emit(verdict, resolved.model_name)
    model = verdict.model
    line = "No model."
    if model:
        line = f"Model: {markdown_code(model['uri'])} version {model['version']}"
    add_artifacts(verdict, resolved.job.name, "metrics", "report", summary_of(verdict, line))
    return result_of(verdict)
