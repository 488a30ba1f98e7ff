"""``evenhand monitor``: compare new rows with a model's training rows, and retrain if they have drifted."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial

from evenhand.flows.commands import terminal
from evenhand.flows.commands.run import print_published, verb_of
from evenhand.flows.engine import DirectEngine, Verdict, new_run_id
from evenhand.flows.job_file import load_job
from evenhand.flows.resolved_job import ResolvedJob, resolve
from evenhand.flows.run import up_to_date
from evenhand.flows.runtime import prepare_environment
from evenhand.tasks.step import listen
from evenhand.tasks.store import Store

SHOWN_COLUMNS = 10
SHOWN_GATES = 10
OUTCOMES = {0: "no drift beyond the gates", 1: "drifted", 3: "not enough evidence for a gate"}


def monitor(
    model: str,
    data: str,
    gates: str | None,
    overrides: Sequence[str] | None,
    retrain: str | None,
    as_json: bool,
    store_url: str | None,
    direct: bool,
) -> int:
    """Measure drift, print it, and run the job `retrain` if the gates refuse; the exit code is the gates'."""
    overrides = list(overrides or ())
    successor: list[ResolvedJob] = []

    def plan() -> terminal.Verb:
        from evenhand.flows.monitor import execute, plan_monitoring

        found = plan_monitoring(model, data, gates, overrides)
        if retrain is not None:
            successor.append(resolve(*load_job(retrain, ())))
        given = {"model": model, "data": data, "gates": found.gates, "overrides": overrides}
        return terminal.Verb(found.run_name, partial(execute, found), "monitor", given)

    ended = terminal.run_verb(plan, as_json=as_json, store_url=store_url, direct=direct)
    verdict, store = ended.verdict, ended.store
    if not as_json and verdict.status == "monitored":
        _print(verdict, ended.seconds)
    retrained = None
    drifted = verdict.status == "monitored" and verdict.exit_code == 1
    if drifted and successor and store is not None:
        if not as_json:
            print(f"\nretraining {successor[0].job.name}")
        retrained = _retrain(str(retrain), successor[0], store, verdict, as_json=as_json, direct=direct)
        if not as_json:
            _print_retrained(retrained)
    document = verdict.to_dict() | ({"retrained": retrained.to_dict()} if retrained else {})
    return ended.finish(lambda *_: None, document)


def _retrain(
    name: str, resolved: ResolvedJob, store: Store, verdict: Verdict, *, as_json: bool, direct: bool
) -> Verdict:
    """Run the job unless its model is up to date; store the address of its verdict in the drift verdict."""
    from evenhand.flows.monitor import add_retraining

    run_id = new_run_id(resolved.job.name)
    add_retraining(store, verdict, store.uri("runs", run_id, "verdict.json"))
    with (
        terminal.one_line_errors() as caught,
        terminal.show_progress(quiet=as_json) as listener,
        listen(listener),
    ):
        if up_to_date(resolved, store, run_id, DirectEngine(store)) is None:
            home = prepare_environment(store.url)
            terminal.execute_verb(verb_of(resolved, name, ()), store, run_id, home, direct=direct)
    return terminal.verdict_of(store, run_id, caught.error)


def _print(verdict: Verdict, seconds: float) -> None:
    terminal.print_steps(verdict)
    _print_metrics(verdict)
    results = verdict.gates["results"]
    failed = sorted((r for r in results if not r["passed"]), key=lambda result: result["status"] != "ok")
    terminal.print_gates(failed[:SHOWN_GATES])
    if len(failed) > SHOWN_GATES:
        print(f"  … and {len(failed) - SHOWN_GATES} more")
    kind = "default gates" if verdict.gates.get("note") == "default gates" else "gates"
    print(f"  {len(results) - len(failed)} of {len(results)} {kind} passed\n")
    for note in verdict.notes:
        print(f"note      {note}")
    print(f"verdict   {OUTCOMES[verdict.exit_code]}")
    terminal.print_model("model", verdict.model)
    terminal.print_end(verdict, seconds)


def _print_metrics(verdict: Verdict) -> None:
    """Print the metrics of the whole table and the most drifted columns; the report has all."""
    metrics, names = verdict.metrics, terminal.metric_names(verdict)
    columns = [name for name in names if name.startswith("psi.")]
    columns.sort(key=lambda name: -(metrics[name] or 0.0))
    grouped = ("group_share_change.", "label_rate_change.", "token_gap", "consistency.")
    whole = [name for name in names if "." not in name or name.startswith(grouped)]
    whole = [name for name in whole if metrics[name] is not None]
    terminal.print_metrics(verdict, [*whole, *columns[:SHOWN_COLUMNS]])
    if len(columns) > SHOWN_COLUMNS:
        print(f"  … {len(columns) - SHOWN_COLUMNS} more columns in the report\n")


def _print_retrained(verdict: Verdict) -> None:
    if verdict.error:
        print(f"evenhand: retraining: {verdict.error}", file=sys.stderr)
    elif verdict.status == "up_to_date":
        print("\n".join(verdict.notes))
    else:
        print_published(verdict)
    if "report" in verdict.artifacts:
        print(f"report    {verdict.artifacts['report']}")
