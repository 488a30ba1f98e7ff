"""``evenhand run``: carry a job out, print the result, and give the exit code of its verdict."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from evenhand.flows import run as retraining
from evenhand.flows.commands.terminal import (
    Verb,
    print_end,
    print_gates,
    print_metrics,
    print_steps,
    run_verb,
)
from evenhand.flows.engine import DirectEngine
from evenhand.flows.job import load_job
from evenhand.flows.resolved_job import ResolvedJob, resolve
from evenhand.flows.verdict import Verdict
from evenhand.tasks.store import Store

__all__ = ["run_job", "verb_of"]


def verb_of(resolved: ResolvedJob, job: str, overrides: Sequence[str]) -> Verb:
    """The verb of a job's run."""
    return Verb(
        resolved.job.name,
        lambda store, run_id, engine: retraining.execute(resolved, store, run_id, engine),
        "retrain",
        {"job": job, "overrides": list(overrides)},
    )


def run_job(
    name: str,
    overrides: Sequence[str],
    *,
    as_json: bool,
    store_url: str | None,
    direct: bool,
    only_if_changed: bool = False,
) -> int:
    """Run, print, and return the exit code."""
    resolved: list[ResolvedJob] = []

    def plan() -> Verb:
        resolved.append(resolve(*load_job(name, overrides)))
        return verb_of(resolved[0], name, overrides)

    def nothing_to_do(store: Store, run_id: str) -> bool:
        from evenhand.flows.up_to_date import up_to_date

        # compared in this process: that is too little work for a server
        return up_to_date(resolved[0], store, run_id, DirectEngine(store)) is not None

    verdict, _, seconds = run_verb(
        plan,
        as_json=as_json,
        store_url=store_url,
        direct=direct,
        skip=nothing_to_do if only_if_changed else None,
    )
    if as_json:
        print(json.dumps(verdict.to_dict()))
    elif not verdict.error:
        _print(verdict, seconds)
    if verdict.error:
        print(f"evenhand: {verdict.error}", file=sys.stderr)
    return verdict.exit_code


def _print(verdict: Verdict, seconds: float) -> None:
    if verdict.status == "up_to_date":
        print("\n".join(verdict.notes))
        print(f"run       {verdict.run_id}, {seconds:.1f} s")
        return
    print_steps(verdict)
    print_metrics(verdict)
    print_gates(verdict.gates["results"])
    if not verdict.gates["results"]:
        print("  the job has no gates: any model would pass")
    print()
    print_published(verdict)
    print_end(verdict, seconds)


def print_published(verdict: Verdict) -> None:
    """Print which version was published, or why none was."""
    if verdict.model:
        model = verdict.model
        print(f"published {model['name']} version {model['version']} as {model['uri']}")
    else:
        reason = "the gates refused the model" if verdict.exit_code == 1 else "not enough evidence for a gate"
        print(f"not published: {reason}")
