"""What a model is made from, in one digest; and whether the registry has a model made from just that."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from evenhand.flows.resolved_job import ResolvedJob
from evenhand.tasks.aliases import alias_history
from evenhand.tasks.fingerprint import code_digest, library_versions
from evenhand.tasks.registry import ABSENT, PROVENANCE_TAG, published, registry_client, tracking_uri
from evenhand.tasks.step import STEPS
from evenhand.tasks.store import Store

__all__ = ["Standing", "made_before", "provenance", "proxy_content"]

# What of a job changes no model: words about it, and who carries other commands out.
BESIDE = ("description", "paper", "sweep", "filter")
# Where the table lies changes nothing either: its bytes have digests.
PLACES = ("path", "connection")


@dataclass(frozen=True)
class Standing:
    """A version made from what a run would use, and whether it still has the alias."""

    name: str
    version: str
    alias: str
    current: str | None

    @property
    def text(self) -> str:
        """The same in one line of words."""
        made = f"up to date: {self.name} version {self.version} was made from the same data, job and code"
        if self.current == self.version:
            return f"{made}, and is {self.alias}."
        where = "no version is" if self.current is None else f"version {self.current} is"
        return f"{made}; {where} {self.alias} since somebody decided so (`evenhand history {self.name}`)."


def provenance(resolved: ResolvedJob, sources: Mapping[str, str], proxy: str | None) -> str:
    """
    Digest of all that decides what a run makes: the data's bytes, the job, its contract, our code.

    Parameters
    ----------
    resolved : ResolvedJob
    sources : mapping of str to str
        sha256 of each of the table's files; empty for a generated table, which the job's seed decides.
    proxy : str or None
        Content of the published proxy that chooses the training rows.
    """
    # every step's module, whether this job has the step or not: a digest too many trains once too often
    modules = [f"evenhand.tasks.{name}" for name in STEPS]
    job = resolved.job.model_dump(mode="json", exclude=set(BESIDE))
    job["table"] = {key: value for key, value in job["table"].items() if key not in PLACES}
    content = {
        "sources": dict(sources),
        "job": job,
        "contract": resolved.table_contract.digest,
        "proxy": proxy,
        "code": code_digest(
            [
                *modules,
                "evenhand.tasks.serving.model_code",
                *resolved.modules,
                resolved.kind.__name__,
            ]
        ),
        "libraries": library_versions(),
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def proxy_content(resolved: ResolvedJob, store: Store) -> str | None:
    """Content of the proxy that chooses the job's training rows, as it is published now."""
    wanted = resolved.job.balance
    if wanted is None:
        return None
    found = published(tracking_uri(store), wanted.proxy, wanted.alias)
    return None if found is None else found.content


def made_before(resolved: ResolvedJob, store: Store, digest: str) -> Standing | None:
    """
    Find the version with this provenance that a run would only make again; None if there is something to do.

    It has the job's alias; or it had it, and a person has put another in its place since, which a schedule
    must not undo. What another run replaced is made champion again: data or job went there and back. What
    never got the alias is finished: its run ended before its last step.
    """
    uri, name, alias = tracking_uri(store), resolved.model_name, resolved.job.publish.alias
    with registry_client(uri) as client:
        from mlflow import MlflowException

        try:
            versions = client.search_model_versions(f"name = '{name}'")
        except MlflowException as error:
            if error.error_code in ABSENT:
                return None
            raise
    made = [str(v.version) for v in versions if v.tags.get(PROVENANCE_TAG) == digest and v.status == "READY"]
    if not made:
        return None
    history = alias_history(uri, name)
    current = history.aliases.get(alias)
    if current in made:
        return Standing(name, str(current), alias, current)
    moves = [change for change in history.changes if change.alias == alias]
    # a person's record is the last, or somebody moved the alias past us
    decided = bool(moves) and (moves[-1].reason == "promote" or moves[-1].to_version != current)
    had = {move.from_version for move in moves}
    newest = max((version for version in made if version in had), key=int, default=None)
    return Standing(name, newest, alias, current) if decided and newest is not None else None
