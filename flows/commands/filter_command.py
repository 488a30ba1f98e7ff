"""``evenhand filter`` and ``predict``: run a published model over files, and print the result."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

from evenhand.flows.commands.terminal import Verb, print_end, run_verb
from evenhand.flows.engine import Engine, Verdict
from evenhand.tasks.execution.store import Store

INTERRUPTED = "interrupted: run again with the same output, the finished parts are kept."


def run_filter(
    job: str, input_url: str, output_url: str, overrides: Sequence[str] | None, **common: Any
) -> int:
    """Filter, and print the result."""
    given = {
        "job": job,
        "input": input_url,
        "output": output_url,
        "overrides": list(overrides or ()),
    }
    return _run("filter", "plan_filter", given, common)


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
    given = {
        "model": model,
        "input": input_url,
        "output": output_url,
        "overrides": list(overrides or ()),
    }
    return _run(
        "predict", "plan_prediction", given | {"reasons": reasons, "adverse": adverse}, common
    )


def _run(verb: str, planner: str, given: dict[str, Any], common: dict[str, Any]) -> int:
    def plan() -> Verb:
        from evenhand.flows.file_runs import execute
        from evenhand.tasks.execution.step import report_progress

        found = getattr(importlib.import_module(f"evenhand.flows.{verb}"), planner)(**given)

        def run(store: Store, run_id: str, _: Engine) -> Verdict:
            return execute(found, store, run_id, report_progress(verb))

        return Verb(found.run_name, run, f"{verb}_flow", given, cacheable=False)

    return run_verb(plan, **common, interrupted=INTERRUPTED).finish(_print)


def _print(verdict: Verdict, seconds: float) -> None:
    if verdict.status == "up_to_date":
        print("\n".join(verdict.notes))
        return
    if not verdict.metrics:
        return
    for note in verdict.notes:
        print(f"note      {note}")
    found = verdict.metrics
    rows_in = int(found["rows_in"] or 0)
    rows_out = int(found["rows_out"] or 0)
    done = "predicted" if "positive" in found else "filtered"
    counts = {done: found[f"files_{done}"], "done before": found["files_done_before"]}
    counts["failed"] = found["files_failed"]
    counted = [
        f"{int(count or 0)} {name}" for name, count in counts.items() if count or name == done
    ]
    print(f"files     {', '.join(counted)}")
    if done == "predicted":
        positive = found["positive"]
        share = "" if positive is None else f", {100 * positive:.3g}% of them positive"
        print(f"rows      {rows_out:,} of {rows_in:,} predicted{share}")
    else:
        expected = found["rows_expected"]
        share = f" ({100 * rows_out / rows_in:.2g}%; {expected:,.0f} expected)" if rows_in else ""
        print(f"rows      {rows_out:,} of {rows_in:,} kept{share}")
    if found["rows_set_aside"]:
        print(f"          {int(found['rows_set_aside']):,} set aside: they break the contract")
    if found.get("rows_outside_bounds"):
        count = int(found["rows_outside_bounds"] or 0)
        print(
            f"WARNING   {count:,} {done} with values outside the bounds that the training table had"
        )
    if found.get("imbalance") is not None:
        print(
            f"balance   expected shares are {found['imbalance']:.3f} "
            f"[{found['imbalance.low']:.3f}, {found['imbalance.high']:.3f}] from the target"
        )
    if found.get("drift.psi") is not None:
        print(f"drift     stability index {found['drift.psi']:.3f} against the training rows")
    if verdict.model:
        kind = "model" if done == "predicted" else "proxy"
        version = verdict.model["version"]
        print(
            f"{kind:9} "
            f"{verdict.model['name']}{f' version {version}' if version else ', from a folder'}"
        )
    print(f"output    {verdict.artifacts['output']}")
    print_end(verdict, seconds)
