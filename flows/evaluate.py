"""The evaluation flow: may this published model ship, judged on this table?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evenhand.flows.runtime import make_prefect_home, prepare_environment

make_prefect_home(prepare_environment())  # before Prefect reads its settings

from prefect import flow  # noqa: E402
from prefect.artifacts import create_markdown_artifact, create_table_artifact  # noqa: E402
from prefect.logging import get_run_logger  # noqa: E402

from evenhand.flows.evaluate_run import carry_out_evaluation, plan_evaluation, run_name  # noqa: E402
from evenhand.flows.prefect_engine import PrefectEngine, lasting_store  # noqa: E402
from evenhand.flows.run_outputs import new_run_id  # noqa: E402
from evenhand.flows.verdict import Verdict  # noqa: E402
from evenhand.tasks.errors import GateRefused  # noqa: E402
from evenhand.tasks.store import Store  # noqa: E402

__all__ = ["evaluate"]


@flow(
    name="evaluate",
    flow_run_name="{model}",
    validate_parameters=True,
    persist_result=False,
    log_prints=False,
    timeout_seconds=24 * 3600,
)
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
    """
    Judge a published model on a table, beside a baseline if there is one.

    - **model**: `models:/NAME@ALIAS`, `models:/NAME/VERSION`, a name, or the folder of a bundle
    - **data**: a known table, a file, a folder or a URL
    - **gates**: metrics and their limits, or the path of a YAML file that has them; none decides nothing
    - **baseline**: another model, measured on the same rows
    - **overrides**: `KEY=VALUE` strings, such as `table.delimiter=;` or `evaluate.draws=200`
    - **contract**: a contract that the model must have been made under
    - **record**: note the gates' verdict on the model's version
    - **store**: folder or URL of the store (default: `EVENHAND_STORE`)
    - **run_id**: name of the run's folder (default: a new one)

    Returns the evaluation's verdict. Raises `GateRefused` if the gates refuse or lack evidence, `InputError`
    if model, data or gates are wrong, `NotCarriedOut` if something outside failed: the flow run then shows
    as failed.
    """
    job = plan_evaluation(model, data, gates, baseline, overrides, contract, record=record)
    opened = lasting_store(store)
    verdict = carry_out_evaluation(job, opened, run_id or new_run_id(run_name(model)), PrefectEngine(opened))
    _show_in_prefect(verdict, opened)
    get_run_logger().info("%s: %s", verdict.run_id, verdict.status)
    if verdict.exit_code != 0:
        texts = [result["text"] for result in verdict.gates["results"] if not result["passed"]]
        raise GateRefused("; ".join(texts), verdict.exit_code)
    return verdict.to_dict()


def _show_in_prefect(verdict: Verdict, store: Store) -> None:
    """Keyed artifacts, so that the interface shows their history evaluation by evaluation."""
    assert verdict.model is not None
    key = "".join(c if c.isalnum() else "-" for c in verdict.model["name"].lower()).strip("-")
    differences = verdict.baseline["differences"] if verdict.baseline else {}
    rows = []
    for name, value in verdict.metrics.items():
        if name.endswith((".low", ".high")):
            continue
        row: dict[str, Any] = {
            "metric": name,
            "value": value if value is not None else "insufficient evidence",
            "low": verdict.metrics.get(f"{name}.low"),
            "high": verdict.metrics.get(f"{name}.high"),
        }
        if verdict.baseline:
            row["baseline"] = verdict.baseline["metrics"].get(name)
            row["difference"] = differences.get(name, {}).get("value")
        rows.append(row)
    create_table_artifact(
        table=rows, key=f"{key}-evaluate-metrics", description=f"Metrics of {verdict.run_id}"
    )
    create_markdown_artifact(
        markdown=store.read_text("runs", verdict.run_id, "summary.md") or "",
        key=f"{key}-evaluate",
        description="What the evaluation found",
    )
