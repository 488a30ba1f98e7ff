"""``evenhand monitor``: compare new rows with a model's training rows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from evenhand.flows.commands import terminal
from evenhand.flows.commands.filter_command import partition_overrides
from evenhand.flows.engine import Verdict

SHOWN_COLUMNS = 10
SHOWN_GATES = 10
OUTCOMES = {0: "no drift beyond the gates", 1: "drifted", 3: "not enough evidence for a gate"}


def monitor(
    model: str,
    data: str,
    gates: str | None,
    partition: str | None,
    since: str | None,
    overrides: Sequence[str] | None,
    **common: Any,
) -> int:
    """Measure drift and print it; the exit code is the gates'."""
    chosen = [*(overrides or ()), *partition_overrides("table", partition, since)]

    def plan() -> terminal.Verb:
        from evenhand.flows.monitor import execute, plan_monitoring

        planned = plan_monitoring(model, data, gates, chosen)
        arguments = {"model": model, "data": data, "gates": planned.gates, "overrides": chosen}
        return terminal.Verb(planned.run_name, partial(execute, planned), "monitor", arguments)

    return terminal.run_verb(plan, **common, reads_registry=True).finish(_print)


def _print(verdict: Verdict, seconds: float) -> None:
    if verdict.status != "monitored":
        return
    terminal.print_steps(verdict)
    _print_metrics(verdict)
    terminal.print_rates(verdict)
    results = verdict.gates["results"]
    failed = sorted(
        (r for r in results if not r["passed"]), key=lambda result: result["status"] != "ok"
    )
    terminal.print_gates(failed[:SHOWN_GATES])
    if len(failed) > SHOWN_GATES:
        print(f"  … and {len(failed) - SHOWN_GATES} more")
    kind = "gates"
    if verdict.gates.get("note") == "default gates":
        kind = "default gates"
    print(f"  {len(results) - len(failed)} of {len(results)} {kind} passed\n")
    for note in verdict.notes:
        print(f"note      {note}")
    print(f"verdict   {OUTCOMES[verdict.exit_code]}")
    terminal.print_model("model", verdict.model)
    terminal.print_end(verdict, seconds)


def _print_metrics(verdict: Verdict) -> None:
    """Print the metrics of the whole table and the most drifted columns; the report has all."""
    metrics = verdict.metrics
    names = terminal.metric_names(verdict)
    columns = [name for name in names if name.startswith("psi.")]
    columns.sort(key=lambda name: -(metrics[name] or 0.0))
    grouped = ("group_share_change.", "label_rate_change.", "token_gap", "consistency.")
    whole = [name for name in names if "." not in name or name.startswith(grouped)]
    whole = [name for name in whole if metrics[name] is not None]
    terminal.print_metrics(verdict, [*whole, *columns[:SHOWN_COLUMNS]])
    if len(columns) > SHOWN_COLUMNS:
        print(f"  … {len(columns) - SHOWN_COLUMNS} more columns in the report\n")
