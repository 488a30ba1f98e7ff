"""A change of our code or of a numeric library: which models it makes anew, why, and when.

The plan of nights is the file ``upgrade-plan.json`` of the store; a job with
``retrain.on_code_change: listed`` waits for its model's night. Keys of steps do not depend on it.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from evenhand.flows.engine import Engine, read_verdict
from evenhand.flows.resolved_job import (
    ResolvedJob,
    code_of,
    content_of_proxy,
    inputs_digest,
    provenance,
)
from evenhand.tasks.errors import InputError, waits_for_service
from evenhand.tasks.execution.fingerprint import library_versions
from evenhand.tasks.execution.step import step_codes
from evenhand.tasks.execution.store import Store
from evenhand.tasks.registry import client as registry

PLAN = "upgrade-plan.json"
# Verdicts that are read for the seconds of steps, the newest first.
VERDICTS = 200
# What a report says of a model.
SAME = "same"
CODE = "code"
DATA_OR_JOB = "data or job"
UNRECORDED = "unrecorded"
UNPUBLISHED = "unpublished"
MEANINGS = {
    SAME: "nothing has changed",
    CODE: "the code has changed",
    DATA_OR_JOB: "data, job or contract have changed: it trains whatever the code is",
    UNRECORDED: "its version does not say by which code it was made: it trains once",
    UNPUBLISHED: "no version has the alias: it trains",
}


@dataclass
class CodeChange:
    """What the present code would repeat of a model."""

    job: str
    model: str
    version: str | None
    on_code_change: str
    change: str
    made_by: str | None = None  # release of evenhand that made the version
    # why each step has another key by its own code or libraries, by its name
    repeated: dict[str, str] = field(default_factory=dict)
    # steps that are repeated unless those before them give the same bytes
    following: list[str] = field(default_factory=list)
    seconds: float | None = None  # of all these steps when they last ran
    night: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the report of one model as plain JSON."""
        return asdict(self)


def code_state(resolved: ResolvedJob) -> str:
    """Return the digest of the code and libraries that determine a job's model."""
    content = json.dumps(code_of(resolved), sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()


def today() -> datetime.date:
    """Return the day in UTC, as the schedules have it."""
    return datetime.datetime.now(datetime.UTC).date()


def reason_to_wait(resolved: ResolvedJob, store: Store) -> str | None:
    """Say why a model by other code is not made again now; None if it is.

    Raises `InputError` if the store's plan cannot be read.
    """
    if resolved.job.retrain.on_code_change == "never":
        return "retrain.on_code_change is never"
    planned = read_plan(store).get(resolved.model_name)
    if planned is None or planned.get("code") != code_state(resolved):
        return (
            "retrain.on_code_change is listed, and `evenhand upgrade-report --write` has given it "
            "no night"
        )
    night = str(planned.get("night"))
    if today().isoformat() < night:
        return f"retrain.on_code_change is listed, and its night is {night}"
    return None


def read_plan(store: Store) -> dict[str, dict[str, Any]]:
    """Read the night and the code of each planned model, by its name; empty without a plan.

    Raises `InputError` if the file is not one of `upgrade-report --write`.
    """
    text = store.read_text(PLAN)
    if text is None:
        return {}
    try:
        content = json.loads(text)
        models = {str(name): dict(entry) for name, entry in content["models"].items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InputError(
            f"{store.uri(PLAN)} is no plan of retrainings: `evenhand upgrade-report --write` "
            "writes it anew."
        ) from None
    return models


def write_plan(store: Store, planned: Sequence[tuple[ResolvedJob, CodeChange]]) -> str:
    """Write the nights of models, next to those of other models in the plan; return its address."""
    models = read_plan(store)
    for resolved, change in planned:
        if change.night is not None:
            models[change.model] = {"night": change.night, "code": code_state(resolved)}
    return store.write_text(json.dumps({"models": models}, indent=1, sort_keys=True), PLAN)


def spread(changes: Sequence[CodeChange], nights: int, first: datetime.date) -> None:
    """Give each listed model whose code has changed a night, so that the nights take about the same
    time: the longest first, each to the night that has least.
    """
    waiting = []
    for change in changes:
        if change.change == CODE and change.on_code_change == "listed":
            waiting.append(change)
    load = [0.0] * nights
    for change in sorted(waiting, key=lambda item: (-(item.seconds or 0.0), item.model)):
        number = load.index(min(load))
        # a model of unknown time counts as a second
        load[number] += change.seconds or 1.0
        change.night = (first + datetime.timedelta(days=number)).isoformat()


def compare(resolved: ResolvedJob, store: Store, engine: Engine) -> CodeChange:
    """Compare a job with the version that has its alias; train and write nothing.

    Raises `EvenhandError` if the table or the registry cannot be read.
    """
    name = resolved.model_name
    change = CodeChange(
        job=resolved.job.name,
        model=name,
        version=None,
        on_code_change=resolved.job.retrain.on_code_change,
        change=UNPUBLISHED,
    )
    uri = registry.tracking_uri(store)
    version, tags = _current(uri, name, resolved.job.publish.alias)
    if version is None:
        return change
    change.version = version
    sources = {label: item.sha256 for label, item in engine.fetch(resolved.source()).items()}
    proxy = content_of_proxy(resolved, store)
    if tags.get(registry.PROVENANCE_TAG) == provenance(resolved, sources, proxy):
        change.change = SAME
        return change
    if registry.INPUTS_TAG not in tags or registry.CODE_TAG not in tags:
        change.change = UNRECORDED
        return change
    if tags[registry.INPUTS_TAG] != inputs_digest(resolved, sources, proxy):
        change.change = DATA_OR_JOB
        return change
    change.change = CODE
    _add_steps(change, json.loads(tags[registry.CODE_TAG]))
    change.seconds = _seconds(store, change)
    return change


@waits_for_service
def _current(uri: str, name: str, alias: str) -> tuple[str | None, Mapping[str, str]]:
    """Return the version with an alias and its tags; None and no tags without one."""
    published = registry.published(uri, name, alias)
    if published is None:
        return None, {}
    with registry.registry_client(uri) as client:
        return published.version, registry.tags_of_versions(client, name)[published.version]


def _add_steps(change: CodeChange, recorded: Mapping[str, Any]) -> None:
    """Say which steps have other code or libraries than those that made the version."""
    change.made_by = recorded.get("evenhand")
    steps = recorded["steps"]
    now = step_codes({name: entry["modules"] for name, entry in steps.items()})
    libraries = _library_changes(recorded["libraries"])
    for name, entry in steps.items():
        reasons = []
        if name not in now:
            reasons.append("this release has no such step")
        elif now[name]["code"] != entry["code"]:
            reasons.append("its code has changed")
        reasons += libraries
        if reasons:
            change.repeated[name] = "; ".join(reasons)
        elif change.repeated:
            change.following.append(name)


def _library_changes(recorded: Mapping[str, str]) -> list[str]:
    present = library_versions()
    changes = []
    for name in sorted({*recorded, *present}):
        before = recorded.get(name, "absent")
        after = present.get(name, "absent")
        if before != after:
            changes.append(f"{name} {before} is now {after}")
    return changes


def _seconds(store: Store, change: CodeChange) -> float | None:
    """Return the seconds of the steps that may be repeated, each when it was last computed; None
    if no run in the store computed one of them.
    """
    missing = {*change.repeated, *change.following}
    pattern = re.compile(rf"[0-9]+-[0-9]+-{re.escape(change.job)}-[0-9a-f]+")
    runs = [run for run in store.runs() if pattern.fullmatch(run)]
    total = None
    for run in reversed(runs[-VERDICTS:]):
        verdict = read_verdict(store, run)
        if verdict is None:
            continue
        for name in sorted(missing):
            if name in verdict.seconds and name not in verdict.cached:
                total = (total or 0.0) + verdict.seconds[name]
                missing.discard(name)
        if not missing:
            break
    return total
