"""``evenhand tune``: search for the best model within limits, and write the job of the winner."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from evenhand.flows.commands.terminal import Verb, estimate, print_end, print_table, run_verb
from evenhand.flows.engine import Verdict
from evenhand.flows.job_file import load_job
from evenhand.flows.tune import execute, status
from evenhand.flows.tune_plan import make_plan
from evenhand.tasks.execution.store import Store
from evenhand.tasks.pages.fronts.tune_front import metrics_of, trial_of

INTERRUPTED = "interrupted: run the same command again, the finished trials are kept."


def tune(
    job: str,
    show_status: bool,
    force: bool,
    seed: int | None,
    overrides: Sequence[str] | None,
    as_json: bool,
    store_url: str | None,
    direct: bool,
    **given: Any,
) -> int:
    """Search, and print the winner on validation and test rows; or print how far a study is.

    `given` are the options named like keys of the job's section `tune`. The time of the search is
    counted from here.
    """
    began = time.monotonic()
    began_at = time.time()
    keys = [
        f"tune.{key}={json.dumps(value)}" for key, value in given.items() if value not in (None, [])
    ]
    chosen = [*(overrides or ()), *keys, *([f"seed={seed}"] if seed is not None else [])]
    if show_status:
        read, _ = load_job(job, chosen)
        document = status(read.name, read.tune.study, Store(store_url))
        if as_json:
            print(json.dumps(document))
        else:
            _print_study(document)
            print(f"report    {document['report']}")
        return 0

    def plan() -> Verb:
        planned = make_plan(job, chosen, force=force)
        arguments = {"job": job, "overrides": chosen, "force": force, "started": began_at}
        name = f"{planned.resolved.job.name}-tune"
        work = partial(execute, planned, started=began)
        # the start of a temporary server would take a large part of the time
        return Verb(name, work, "tune", arguments, cacheable=False, temporary_server=False)

    ended = run_verb(
        plan, as_json=as_json, store_url=store_url, direct=direct, interrupted=INTERRUPTED
    )
    found = ended.read("tuning.json")
    shown = {**ended.verdict.to_dict(), "tuning": found}
    return ended.finish(lambda verdict, seconds: _print(verdict, found, seconds), shown)


def _print(verdict: Verdict, document: Mapping[str, Any] | None, seconds: float) -> None:
    if document is None:
        return
    _print_study(document)
    for note in verdict.notes:
        print(f"  NOTE  {note}")
    if "tuned" in verdict.artifacts:
        print(f"job       {verdict.artifacts['tuned']}")
    print_end(verdict, seconds)


def _print_study(document: Mapping[str, Any]) -> None:
    """Print the numbers of trials, the winner or the nearest trial with its metrics, and what
    limits cost.
    """
    states = [trial["state"] for trial in document["trials"]]
    counts = ", ".join(f"{states.count(state)} {state}" for state in ("judged", "pruned", "failed"))
    models = len({trial["model"] for trial in document["trials"]})
    print(f"study     {document['study']}: {models} models, {len(states)} trials ({counts})")
    winner = trial_of(document, document["winner"])
    trial = winner or trial_of(document, document["nearest"])
    if trial is None:
        return
    print(f"{'winner' if winner else 'nearest':9} {trial['label']}")
    if winner is None:
        print("          the best compromise: no trial is within the limits")
    test = document["test"]
    rows = [["", "validation", "test"] if test else ["", "validation"]]
    for name in metrics_of(document):
        found = (
            [estimate(trial["metrics"][name])] if trial["metrics"].get(name) else ["not measured"]
        )
        rows.append([name, *found, *([estimate(test[name])] if test else [])])
    print_table(rows, "  ")
    for standing in document["standings"]:
        print(f"  {standing['text']}")
    for cost in document["costs"]:
        values = [
            "none" if cost[key] is None else f"{cost[key]:.3f}" for key in ("with", "without")
        ]
        print(f"  {document['prefer']} with {cost['limit']}: {values[0]}, without it: {values[1]}")
    print()
