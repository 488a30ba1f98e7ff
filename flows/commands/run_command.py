"""``evenhand run``: run a job, print the result, and return the exit code of its verdict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evenhand.flows.commands import terminal
from evenhand.flows.engine import DirectEngine, Engine, Verdict
from evenhand.flows.job_file import load_job
from evenhand.flows.memory import expected
from evenhand.flows.resolved_job import ResolvedJob, resolve
from evenhand.tasks.execution.store import Store


def run(job: str, overrides: Sequence[str] | None, if_changed: bool, **common: Any) -> int:
    """Run a job, unless `if_changed` finds its model up to date, and print the result."""
    resolved: list[ResolvedJob] = []

    def plan() -> terminal.Verb:
        resolved.append(resolve(*load_job(job, overrides or ())))
        message = expected(resolved[0], common["store_url"])
        if message:
            terminal.print_note(message)
        arguments = {"job": job, "overrides": list(overrides or ())}
        return terminal.Verb(resolved[0].job.name, execute, "retrain", arguments)

    def execute(store: Store, run_id: str, engine: Engine) -> Verdict:
        # imported lazily: a run with nothing to do needs none of it
        from evenhand.flows import run as retraining

        return retraining.execute(resolved[0], store, run_id, engine)

    def nothing_to_do(store: Store, run_id: str) -> bool:
        if not if_changed:
            return False
        from evenhand.flows.unchanged import up_to_date

        # compared in this process: a server would take longer to start
        return up_to_date(resolved[0], store, run_id, DirectEngine(store)) is not None

    return terminal.run_verb(plan, **common, skip=nothing_to_do).finish(_print)


def _print(verdict: Verdict, seconds: float) -> None:
    if verdict.error:
        return
    if verdict.status == "up_to_date":
        print("\n".join(verdict.notes))
        print(f"run       {verdict.run_id}, {seconds:.1f} s")
        return
    terminal.print_steps(verdict)
    terminal.print_metrics(verdict)
    terminal.print_rates(verdict)
    print_controls(verdict)
    terminal.print_gates(verdict.gates["results"])
    if verdict.gates["note"] == "default gates":
        print("  the job sets no gates: only the default gates were checked")
    elif not verdict.gates["results"]:
        print("  the job has no gates: any model would pass")
    for note in verdict.notes:
        print(f"  WARNING  {note}")
    print()
    _print_published(verdict)
    terminal.print_end(verdict, seconds)


def print_controls(verdict: Verdict) -> None:
    """Print in one line the comparison of the model with its baselines."""
    if verdict.controls:
        from evenhand.tasks.pages.sections.controls_section import answers

        text = " ".join(answers(verdict.controls)).replace("**", "")
        print(f"  comparison with baselines: {text}")
        print()


def _print_published(verdict: Verdict) -> None:
    """Print which version was published, or why none was."""
    if verdict.model:
        model = verdict.model
        print(f"published {model['name']} version {model['version']} as {model['uri']}")
    else:
        print(f"not published: {verdict.gates.get('degenerate') or _reason(verdict)}")


def _reason(verdict: Verdict) -> str:
    """Return why a model was not published."""
    if verdict.exit_code != 1:
        return "not enough evidence for a gate"
    if verdict.gates.get("note") == "default gates":
        return "it is no better than the majority-class baseline"
    return "the gates refused the model"
