"""Whether a run of a job has nothing to do: a version of the same data, job and code is published.

A scheduled retraining asks this first, and mostly ends with it; so this module imports little, and
no numeric library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from evenhand.flows.engine import Engine, Steps, Verdict, recorded_verdict
from evenhand.flows.resolved_job import (
    ResolvedJob,
    content_of_proxy,
    inputs_digest,
    provenance,
)
from evenhand.tasks.errors import waits_for_service
from evenhand.tasks.execution.store import Store
from evenhand.tasks.registry import client as registry
from evenhand.tasks.registry.ledger import history

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.model_registry import ModelVersion


def up_to_date(resolved: ResolvedJob, store: Store, run_id: str, engine: Engine) -> Verdict | None:
    """Write the verdict ``up_to_date`` if the registry has a model with the provenance that a run
    would have.

    Returns None if a run is needed; nothing is written then. Raises `EvenhandError` if the table or
    the registry cannot be read; the verdict of a failed run was written.
    """
    steps = Steps(store, engine)
    with recorded_verdict(store, run_id) as verdict:
        started = steps.clock()
        unchanged = find_unchanged(resolved, store, engine)
        if unchanged is None:
            return None
        version = unchanged.version
        current = unchanged.current
        name = resolved.model_name
        alias = resolved.job.publish.alias
        note = f"up to date: {name} version {version} was made from the same data, job and code"
        if unchanged.other_code:
            note = (
                f"up to date: {name} version {version} was made from the same data and job, by "
                f"other code ({unchanged.other_code})"
            )
        if current == version:
            note += f", and is {alias}."
        elif current is None:
            note += f"; no version is {alias} by a later decision (`evenhand history {name}`)."
        else:
            note += (
                f"; version {current} is {alias} by a later decision (`evenhand history {name}`)."
            )
        verdict.seconds = {"compare": round(steps.clock() - started, 3)}
        verdict.status = "up_to_date"
        verdict.exit_code = 0
        verdict.notes = [note]
        verdict.model = {
            "name": name,
            "version": version,
            "alias": None,
            "uri": f"models:/{name}/{version}",
        }
        if current == version:
            verdict.model["alias"] = alias
    return verdict


class Unchanged(NamedTuple):
    """A version that makes a run unnecessary."""

    version: str
    current: str | None  # the version that has the alias
    other_code: str = ""  # why a version by other code is not made again


def find_unchanged(resolved: ResolvedJob, store: Store, engine: Engine) -> Unchanged | None:
    """Read the table's files, and look for a version as :func:`find_equal_version` does; write
    nothing.

    A version by other code counts too where ``retrain.on_code_change`` says so.
    """
    sources = {name: item.sha256 for name, item in engine.fetch(resolved.source()).items()}
    proxy_content = content_of_proxy(resolved, store)
    digest = provenance(resolved, sources, proxy_content)
    unchanged = find_equal_version(resolved, store, digest)
    if unchanged is not None or resolved.job.retrain.on_code_change == "always":
        return unchanged
    # imported lazily: most jobs train again after every change
    from evenhand.flows.code_changes import reason_to_wait

    reason = reason_to_wait(resolved, store)
    if reason is None:
        return None
    digest = inputs_digest(resolved, sources, proxy_content)
    unchanged = find_equal_version(resolved, store, digest, registry.INPUTS_TAG)
    if unchanged is None:
        return None
    return unchanged._replace(other_code=reason)


@waits_for_service
def find_equal_version(
    resolved: ResolvedJob, store: Store, digest: str, tag: str = registry.PROVENANCE_TAG
) -> Unchanged | None:
    """Find a version with this provenance, or other digest in a tag, that makes a run unnecessary,
    and the version that has the alias.

    The first is a version which has the job's alias; or which had it until a person gave the alias
    to another version, because a schedule must not undo that. The result is None if a run is
    needed: also if a later run replaced the version (data or job have changed back), or if the
    version never got the alias (its run ended before the last step).
    """
    uri = registry.tracking_uri(store)
    name = resolved.model_name
    alias = resolved.job.publish.alias
    path = uri.removeprefix(registry.SQLITE)
    if path != uri and not Path(path).is_file():
        return None  # a query would create the database
    state = registry.ask_once(
        uri,
        f"versions of {name} with {digest} and moves of {alias}",
        partial(_state_of_alias, uri, name, alias, tag, digest),
    )
    made = state["made"]
    current = state["current"]
    if not made:
        return None
    if current in made:
        if registry.damaged_files(uri, name, current):
            return None  # a lost or damaged version is made again
        return Unchanged(current, current)
    if not _last_move_was_decided(state["moves"], current):
        return None  # a later run replaced the version
    had_alias = {move["from_version"] for move in state["moves"]}
    candidates = [version for version in made if version in had_alias]
    if not candidates:
        return None
    return Unchanged(max(candidates, key=int), current)


def _state_of_alias(uri: str, name: str, alias: str, tag: str, digest: str) -> dict[str, Any]:
    """Ask the registry for the versions with a digest in a tag, and for an alias' version and
    moves.
    """
    versions = _versions_of(uri, name, tag, digest)
    state: dict[str, Any] = {"made": versions, "current": None, "moves": []}
    if not state["made"]:
        return state
    chain = history(uri, name)
    state["current"] = chain.aliases.get(alias)
    for record in chain.moves(alias):
        move = {key: record.content.get(key) for key in ("reason", "from_version", "to_version")}
        state["moves"].append(move)
    return state


def _last_move_was_decided(moves: Sequence[Mapping[str, Any]], current: str | None) -> bool:
    """Whether a person made an alias's last move, or it was moved outside Evenhand since."""
    if not moves:
        return False
    return moves[-1]["reason"] == "promote" or moves[-1]["to_version"] != current


def _versions_of(uri: str, name: str, tag: str, digest: str) -> list[str]:
    """Return the finished versions of a model with a digest in a tag; none without the model."""

    def look_up(client: MlflowClient) -> list[ModelVersion]:
        try:
            return list(client.search_model_versions(registry.named(name)))
        except registry.absence() as error:
            if error.error_code in registry.ABSENT:
                return []
            raise

    versions = registry.read_registry(uri, look_up)
    made = []
    for version in versions:
        has_digest = version.tags.get(tag) == digest
        if has_digest and version.status == "READY":
            made.append(str(version.version))
    return made
