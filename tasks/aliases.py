"""Who may be called champion: moving an alias, the record that every move leaves, and what may move it.

The registry keeps the records beside the alias itself, as tags of the registered model, so that everybody who
publishes to it adds to one history. Each record holds the digest of the one before: a record that was changed
or taken out shows once another follows it. Two moves at one moment share a number, and neither overwrites the
other's record.
"""

from __future__ import annotations

import getpass
import hashlib
import json
import os
import platform
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from evenhand.tasks.errors import InputError
from evenhand.tasks.fingerprint import now
from evenhand.tasks.registry import ABSENT, registry_client

if TYPE_CHECKING:
    from mlflow import MlflowClient

__all__ = [
    "EVALUATION_TAG",
    "AliasChange",
    "History",
    "actor",
    "alias_history",
    "current_aliases",
    "move_alias",
    "now",
    "promote",
    "record_evaluation",
    "recorded_evaluation",
]

AUDIT_TAG = "evenhand.audit."
EVALUATION_TAG = "evenhand.evaluation"
# where continuous integration says on whose behalf it runs
ACTORS = ("EVENHAND_ACTOR", "GITHUB_ACTOR", "GITLAB_USER_LOGIN")


@dataclass(frozen=True)
class AliasChange:
    """
    One move of an alias.

    Attributes
    ----------
    number : int
        Counts the model's moves from 1.
    when : str
        UTC, ISO 8601.
    who : str
    alias : str
    from_version : str or None
    to_version : str
    reason : str
        ``run`` (a retraining run published it) or ``promote``.
    evaluation : mapping
        The evaluation that allowed it.
    previous : str
        Digest of the record before; empty for the first.
    """

    number: int
    when: str
    who: str
    alias: str
    from_version: str | None
    to_version: str
    reason: str
    evaluation: Mapping[str, Any]
    previous: str = ""

    def to_json(self) -> str:
        """Canonical JSON, of which :attr:`digest` is taken."""
        return json.dumps(asdict(self), sort_keys=True)

    @property
    def digest(self) -> str:
        """sha256 of the record."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()


@dataclass(frozen=True)
class History:
    """
    All recorded moves of a model's aliases, oldest first, and where the aliases are now.

    `faults` says in words what does not fit: a record that was changed or removed, an alias that was moved
    past us.
    """

    name: str
    changes: Sequence[AliasChange]
    aliases: Mapping[str, str]
    faults: Sequence[str]


def actor() -> str:
    """Who acts: ``EVENHAND_ACTOR``, else who started the CI job, else the user of this machine."""
    for name in ACTORS:
        if os.environ.get(name):
            return os.environ[name]
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        user = f"uid {os.getuid()}"
    return f"{user}@{platform.node()}"


def move_alias(
    client: MlflowClient, name: str, alias: str, version: str, *, reason: str, evaluation: Mapping[str, Any]
) -> AliasChange | None:
    """
    Record the move, then make it; None if the alias is there already.

    The record comes first: what is interrupted between the two leaves a record without effect, which
    :func:`alias_history` tells, and never a move without a record.

    """
    model = client.get_registered_model(name)
    before = dict(model.aliases).get(alias)
    if before is not None and str(before) == version:
        return None
    changes = _changes(model.tags)
    change = AliasChange(
        number=changes[-1].number + 1 if changes else 1,
        when=now(),
        who=actor(),
        alias=alias,
        from_version=None if before is None else str(before),
        to_version=version,
        reason=reason,
        evaluation=dict(evaluation),
        previous=changes[-1].digest if changes else "",
    )
    # a key of its own: the registry has no compare-and-set, and nobody may overwrite another's record
    key = f"{AUDIT_TAG}{change.number:06d}.{secrets.token_hex(4)}"
    client.set_registered_model_tag(name, key, change.to_json())
    client.set_registered_model_alias(name, alias, version)
    return change


def record_evaluation(client: MlflowClient, name: str, version: str, evaluation: Mapping[str, Any]) -> None:
    """Note on a version what its latest evaluation said; :func:`promote` goes by it."""
    client.set_model_version_tag(name, version, EVALUATION_TAG, json.dumps(dict(evaluation), sort_keys=True))


def recorded_evaluation(client: MlflowClient, name: str, version: str) -> dict[str, Any] | None:
    """What a version's latest evaluation said; None if none is recorded."""
    tag = client.get_model_version(name, version).tags.get(EVALUATION_TAG)
    return None if tag is None else dict(json.loads(tag))


def promote(uri: str, name: str, version: str, alias: str) -> AliasChange | None:
    """
    Give a version an alias, if its recorded evaluation passed; None if it has it already.

    Raises
    ------
    InputError
        It was never judged by gates, or they did not let it pass.
    NotCarriedOut
        The registry does not answer.
    """
    with registry_client(uri) as client:
        evaluation = recorded_evaluation(client, name, version) or {}
        fault = _fault_of(evaluation) or _outdated(client, name, version, alias, evaluation)
        if fault:
            raise InputError(
                f"{name} version {version} cannot become {alias}: {fault}. `evenhand evaluate "
                f"models:/{name}/{version} --data … --gates …` evaluates it."
            )
        return move_alias(client, name, alias, version, reason="promote", evaluation=evaluation)


def _fault_of(evaluation: Mapping[str, Any]) -> str | None:
    """Why an evaluation does not let a version be promoted; None if it does."""
    verdict = evaluation.get("verdict")
    if verdict == "passed":
        same = "its recorded evaluation is on the table that it learned from"
        return same if evaluation.get("same_table") else None
    faults = {
        None: "no evaluation of it is recorded",
        "no_gates": "it was never judged by gates",
        "refused": "its recorded evaluation was refused by the gates",
    }
    return faults.get(verdict, "its recorded evaluation lacks evidence for a gate")


def _outdated(
    client: MlflowClient, name: str, version: str, alias: str, evaluation: Mapping[str, Any]
) -> str | None:
    """Whether it was held against a version that no longer has the alias; the way back stays open."""
    model = client.get_registered_model(name)
    current, baseline = dict(model.aliases).get(alias), str(evaluation.get("baseline") or "")
    ours = baseline.startswith(f"models:/{name}/")
    if current is None or not ours or baseline == f"models:/{name}/{current}" or str(current) == version:
        return None
    if any(change.alias == alias and change.from_version == version for change in _changes(model.tags)):
        return None
    return (
        f"it was judged beside version {baseline.rpartition('/')[2]}, and version {current} is {alias} since"
    )


def current_aliases(uri: str, names: Sequence[str]) -> dict[str, dict[str, str]]:
    """
    Version of every alias of each model; those that are not in the registry are left out.

    Raises
    ------
    NotCarriedOut
        The registry does not answer.
    """
    with registry_client(uri) as client:
        wanted = set(names)
        return {
            model.name: {alias: str(version) for alias, version in dict(model.aliases).items()}
            for model in client.search_registered_models(max_results=1000)
            if model.name in wanted
        }


def alias_history(uri: str, name: str) -> History:
    """
    Read a model's history.

    Raises
    ------
    InputError
        There is no such model.
    NotCarriedOut
        The registry does not answer.
    """
    with registry_client(uri) as client:
        from mlflow import MlflowException

        try:
            model = client.get_registered_model(name)
        except MlflowException as error:
            if error.error_code in ABSENT:
                raise InputError(
                    f"the model {name!r} is not in the registry: `evenhand run JOB` publishes one."
                ) from None
            raise
        aliases = {alias: str(version) for alias, version in dict(model.aliases).items()}
    changes = _changes(model.tags)
    return History(name, changes, aliases, _faults(changes, aliases))


def _changes(tags: Mapping[str, str]) -> list[AliasChange]:
    """Records in order; one that cannot be read shows as a gap in the chain."""
    found = []
    for key, text in tags.items():
        if not key.startswith(AUDIT_TAG):
            continue
        try:
            found.append(AliasChange(**json.loads(text)))
        except (ValueError, TypeError):
            continue
    return sorted(found, key=lambda change: (change.number, change.when, change.digest))


def _faults(changes: Sequence[AliasChange], aliases: Mapping[str, str]) -> list[str]:
    faults = []
    digests: dict[int, set[str]] = {0: {""}}
    for change in changes:
        digests.setdefault(change.number, set()).add(change.digest)
    for change in changes:
        if change.previous not in digests.get(change.number - 1, set()):
            faults.append(f"the record before number {change.number} was changed or taken out")
    # of moves at one moment any may have been the last
    last: dict[str, list[AliasChange]] = {}
    for change in changes:
        known = last.setdefault(change.alias, [])
        last[change.alias] = [item for item in known if item.number == change.number] + [change]
    for alias in sorted({*last, *aliases}):
        recorded, actual = [change.to_version for change in last.get(alias, [])], aliases.get(alias)
        if actual not in recorded:
            where = "nowhere" if actual is None else f"at version {actual}"
            said = f"the last record says version {recorded[-1]}" if recorded else "no record of it"
            faults.append(f"{alias} is {where}, and {said}: it was moved without a record")
    return faults
