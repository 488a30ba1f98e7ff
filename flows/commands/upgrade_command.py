"""``evenhand upgrade-report``: what the installed code would repeat, before an upgrade."""

from __future__ import annotations

import datetime
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path

from evenhand.flows.code_changes import (
    CODE,
    MEANINGS,
    CodeChange,
    compare,
    spread,
    today,
    write_plan,
)
from evenhand.flows.engine import DirectEngine
from evenhand.flows.job_file import load_job
from evenhand.flows.resolved_job import ResolvedJob, resolve
from evenhand.flows.runtime import prepare_environment
from evenhand.tasks.errors import InputError
from evenhand.tasks.execution.store import Store

# A variable in a file of deployments, as Prefect writes it.
VARIABLE = re.compile(r"\{\{ *\$(\w+) *\}\}")
NOT_NOW = {
    "never": "not repeated for it: retrain.on_code_change is never",
    "listed": "waits until `--write` gives it a night: retrain.on_code_change is listed",
    "always": "repeated by its next run: retrain.on_code_change is always",
}


def upgrade_report(
    jobs: Sequence[str] | None,
    deployments: Path | None,
    nights: int,
    write: bool,
    store_url: str | None,
    as_json: bool = False,
) -> None:
    """Print what the installed code would repeat of each job, and why; write nights if asked."""
    prepare_environment(store_url)
    planned: list[tuple[str, Sequence[str]]] = [(name, ()) for name in jobs or ()]
    if deployments is not None:
        planned += _deployed_jobs(deployments)
    if not planned:
        raise InputError("name jobs, or a file of deployments with --deployments.")
    store = Store(store_url)
    engine = DirectEngine(store)
    pairs: list[tuple[ResolvedJob, CodeChange]] = []
    for job, overrides in planned:
        resolved = resolve(*load_job(job, overrides))
        pairs.append((resolved, compare(resolved, store, engine)))
    changes = [change for _, change in pairs]
    spread(changes, nights, today() + datetime.timedelta(days=1))
    plan = None
    if write:
        plan = write_plan(store, pairs)
    if as_json:
        models = [change.to_dict() for change in changes]
        print(json.dumps({"models": models, "plan": plan}))
        return
    for change in changes:
        _print(change, written=write)
    repeated = [change for change in changes if change.change == CODE]
    seconds = sum(change.seconds or 0.0 for change in repeated)
    print(f"{len(repeated)} of {len(changes)} models are by other code; {seconds:.0f} s of steps")
    if plan is not None:
        print(f"plan      {plan}")


def _deployed_jobs(path: Path) -> list[tuple[str, Sequence[str]]]:
    """Return the jobs of a file's retraining deployments, with their overrides.

    Raises `InputError` if the file cannot be read, or a variable in it is not set.
    """
    # imported lazily: a report on named jobs needs no Prefect
    from evenhand.flows.services import read_deployments

    jobs: list[tuple[str, Sequence[str]]] = []
    for item in read_deployments(path):
        if not item.entrypoint.endswith(".retrain") or "job" not in item.parameters:
            continue
        job = str(item.parameters["job"])
        for name in VARIABLE.findall(job):
            if name not in os.environ:
                raise InputError(f"{path}: {item.name}: set the variable {name}, as its job needs.")
        job = VARIABLE.sub(lambda match: os.environ[match[1]], job)
        jobs.append((job, tuple(item.parameters.get("overrides", ()))))
    return jobs


def _print(change: CodeChange, *, written: bool) -> None:
    version = "no version"
    if change.version is not None:
        version = f"version {change.version}"
    print(f"{change.model}: {version}: {MEANINGS[change.change]}")
    if change.change != CODE:
        return
    if change.made_by:
        print(f"  made by   evenhand {change.made_by}")
    for name, reason in change.repeated.items():
        print(f"  repeats   {name}: {reason}")
    if change.following:
        print(f"  follows   {', '.join(change.following)}: unless what they read stays the same")
    if change.seconds is not None:
        print(f"  took      {change.seconds:.1f} s")
    when = NOT_NOW[change.on_code_change]
    if change.night is not None and written:
        when = f"the night of {change.night}"
    elif change.night is not None:
        when = f"{when} (it would be {change.night})"
    print(f"  when      {when}")
