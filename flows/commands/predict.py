"""``evenhand predict``: add predictions to the rows of files, and print the result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evenhand.flows.commands.filter import INTERRUPTED, files_counted
from evenhand.flows.commands.terminal import Verb, print_end, print_model, run_verb
from evenhand.flows.engine import Engine, Verdict
from evenhand.tasks.store import Store


def predict(
    model: str,
    input_url: str,
    output_url: str,
    reasons: int | None,
    adverse: bool,
    overrides: Sequence[str] | None,
    **common: Any,
) -> int:
    """Predict, and print the result."""
    given: dict[str, Any] = {"model": model, "overrides": list(overrides or ())}
    given |= {"input": input_url, "output": output_url, "reasons": reasons, "adverse": adverse}

    def plan() -> Verb:
        from evenhand.flows.predict import execute, plan_prediction
        from evenhand.tasks.step import report_progress

        found = plan_prediction(**given)

        def run(store: Store, run_id: str, _: Engine) -> Verdict:
            return execute(found, store, run_id, report_progress("predict"))

        return Verb(found.run_name, run, "predict_flow", given, cacheable=False)

    return run_verb(plan, **common, interrupted=INTERRUPTED).finish(_print)


def _print(verdict: Verdict, seconds: float) -> None:
    if verdict.status == "up_to_date":
        print("\n".join(verdict.notes))
    if verdict.status == "up_to_date" or not verdict.metrics:
        return
    found = verdict.metrics
    print(f"files     {files_counted(verdict, 'predicted')}")
    share = "" if found["positive"] is None else f", {100 * found['positive']:.3g}% of them positive"
    print(f"rows      {found['rows_out']:,} of {found['rows_in']:,} predicted{share}")
    if found["rows_set_aside"]:
        print(f"          {found['rows_set_aside']:,} set aside: they break the contract")
    print_model("model", verdict.model)
    print(f"output    {verdict.artifacts['output']}")
    print_end(verdict, seconds)
