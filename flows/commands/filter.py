"""``evenhand filter``: filter files with a published proxy, and print the result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evenhand.flows.commands.terminal import Verb, print_end, run_verb
from evenhand.flows.engine import Engine, Verdict
from evenhand.tasks.store import Store

INTERRUPTED = "interrupted: run again with the same output, the finished parts are kept."


def run_filter(
    job: str, input_url: str, output_url: str, overrides: Sequence[str] | None, **common: Any
) -> int:
    """Filter, and print the result."""
    overrides = list(overrides or ())

    def plan() -> Verb:
        from evenhand.flows.filter import execute, plan_filter
        from evenhand.tasks.step import report_progress

        found = plan_filter(job, overrides, input_url, output_url)
        given = {"job": job, "input": input_url, "output": output_url, "overrides": overrides}

        def run(store: Store, run_id: str, _: Engine) -> Verdict:
            return execute(found, store, run_id, report_progress("filter"))

        return Verb(found.run_name, run, "filter_flow", given, cacheable=False)

    return run_verb(plan, **common, interrupted=INTERRUPTED).finish(_print)


def files_counted(verdict: Verdict, verb: str) -> str:
    """Count files by what became of them."""
    named = {verb: f"files_{verb}", "done before": "files_done_before", "failed": "files_failed"}
    counts = {name: int(verdict.metrics[key] or 0) for name, key in named.items()}
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count or name == verb)


def _print(verdict: Verdict, seconds: float) -> None:
    if verdict.status == "up_to_date":
        print("\n".join(verdict.notes))
        return
    if not verdict.metrics:
        return
    found = verdict.metrics
    rows_in, rows_out = int(found["rows_in"] or 0), int(found["rows_out"] or 0)
    print(f"files     {files_counted(verdict, 'filtered')}")
    share = f" ({100 * rows_out / rows_in:.2g}%; {found['rows_expected']:,.0f} expected)" if rows_in else ""
    print(f"rows      {rows_out:,} of {rows_in:,} kept{share}")
    if found["rows_set_aside"]:
        print(f"          {int(found['rows_set_aside']):,} set aside: they break the contract")
    if found.get("imbalance") is not None:
        print(
            f"balance   expected shares are {found['imbalance']:.3f} "
            f"[{found['imbalance.low']:.3f}, {found['imbalance.high']:.3f}] from the target"
        )
    if found.get("drift.psi") is not None:
        print(f"drift     stability index {found['drift.psi']:.3f} against the training rows")
    if verdict.model:
        print(f"proxy     {verdict.model['name']} version {verdict.model['version']}")
    print(f"output    {verdict.artifacts['output']}")
    print_end(verdict, seconds)
