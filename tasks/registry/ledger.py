"""The chain of a registered model: who published, judged, approved and promoted what, in an order
that holds.

Every record is a version of a second registered model, ``evenhand.audit.NAME``. The registry
numbers versions one after another, also for writers at the same moment, and each record holds the
digest of the one before. A record whose parent already has a successor lost a race: readers ignore
it, and its writer looks again. A record that was changed or removed leaves its successor without a
parent. Older versions of evenhand recorded moves of aliases as tags of the model; the chain
continues after them.
"""

from __future__ import annotations

import datetime
import getpass
import hashlib
import json
import os
import platform
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenhand.tasks.errors import InputError, NotCarriedOut, waits_for_service
from evenhand.tasks.execution.fingerprint import now
from evenhand.tasks.registry.client import (
    ABSENT,
    EVALUATION_TAG,
    POLICY_TAG,
    SQLITE,
    absence,
    ask_once,
    named,
    read_registry,
)

if TYPE_CHECKING:
    from mlflow import MlflowClient

AUDIT_TAG = "evenhand.audit."  # of moves that older versions recorded
CHAIN = "evenhand.audit."  # before the name of the model whose records it holds
RECORD_TAG = "evenhand.record"
ATTEMPTS = 60
# Variables with the name of the acting person; the last two are set by CI systems.
ACTORS = ("EVENHAND_ACTOR", "GITHUB_ACTOR", "GITLAB_USER_LOGIN")
# Clocks of machines differ by less, but for one that is wrong.
CLOCKS_DIFFER = datetime.timedelta(hours=1)
SIGNATURE_FIELDS = ("record_key", "record_signature")
SUBJECTS = ("number", "when", "who", "kind", "previous")
# What readers take from the content of a record.
NEEDED = {kind: {"version"} for kind in ("evaluation", "approval", "signature")}
NEEDED |= {
    "alternative": {"version", "metric", "alternative_gap", "models"},
    "refusal": {"action", "reason"},
    "version": {"version", "files"},
    "policy": {"gates"},
    "move": {"alias", "from_version", "to_version"},
}


@dataclass(frozen=True)
class Record:
    """One record of a chain.

    `content` depends on `kind`: ``version`` (version, files), ``evaluation`` (version, verdict,
    gates, data), ``policy``, ``approval`` (version, evaluation, policy), ``signature`` (version,
    key, signature), ``refusal`` (version, action, reason), ``alternative`` (version, metric,
    alternative_gap, models) or ``move`` (alias, from_version, to_version, reason, evaluation). A
    record that was written with a key has the key and its signature.
    """

    number: int
    when: str  # UTC, ISO 8601
    who: str
    kind: str
    content: Mapping[str, Any]
    previous: str  # digest of the record before; empty for the first
    digest: str
    place: str = ""  # version of the chain's model; empty for a tag
    record_key: str = ""  # public key of who wrote it; empty if it is not signed
    record_signature: str = ""
    added: float = 0.0  # seconds since 1970 by the clock of the registry; 0 if it does not say

    @classmethod
    def read(cls, text: str, place: str = "", added: float = 0.0) -> Record | None:
        """Read a record's JSON; None if it is none. A record of an older version is a move without
        a kind.
        """
        try:
            fields = json.loads(text)
            head: dict[str, Any] = {"kind": "move"}
            for key in SUBJECTS:
                if key in fields:
                    head[key] = fields.pop(key)
            if "content" in fields:
                for key in SIGNATURE_FIELDS:
                    head[key] = fields.pop(key, "")
            digest = hashlib.sha256(text.encode()).hexdigest()
            content = fields.pop("content", fields)
            record = cls(**head, content=content, digest=digest, place=place, added=added)
            is_valid = record._is_valid()
        except (ValueError, TypeError, AttributeError):
            return None
        return record if is_valid else None

    def _is_valid(self) -> bool:
        """Whether all values are of their types, and none that the kind needs is missing."""
        texts = [getattr(self, key) for key in SUBJECTS[1:]]
        texts += [self.record_key, self.record_signature]
        texts.append(self.content.get("alias", ""))
        if not isinstance(self.number, int) or not all(isinstance(text, str) for text in texts):
            return False
        # ages are computed, and times are shown
        if datetime.datetime.fromisoformat(self.when).tzinfo is None:
            return False
        if not self.content.get("version", "0").isdecimal():
            return False
        return NEEDED.get(self.kind, set()) <= set(self.content)


@dataclass(frozen=True)
class Chain:
    """Records of a model in order, the versions that its aliases have, and what is wrong, in
    sentences.
    """

    name: str
    records: Sequence[Record]
    aliases: Mapping[str, str] = field(default_factory=dict)
    faults: Sequence[str] = ()
    # places in `records` before which a record was changed or taken out; numbers of records are
    # what their writers say
    breaks: Sequence[int] = ()
    # the model's tag about the policy that was in force, as `policy_traces` reads it
    policy_trace: str = ""

    def of(self, kind: str, version: str | None = None) -> list[Record]:
        """Records of a kind, oldest first; of one version."""
        records = [record for record in self.records if record.kind == kind]
        if version is None:
            return records
        return [record for record in records if record.content.get("version") == version]

    @property
    def policy(self) -> Record | None:
        """The record of the policy that holds now.

        Where a policy lists the keys that may replace it, a later record that none of them signed
        counts for nothing.
        """
        newest = self._policies()[0]
        if newest is None or newest.content.get("gates") is None:
            return None
        return newest

    @property
    def ignored_policies(self) -> list[Record]:
        """Records of policies that count for nothing, because no key that may set one signed
        them.
        """
        return self._policies()[1]

    def _policies(self) -> tuple[Record | None, list[Record]]:
        newest: Record | None = None
        ignored = []
        for record in self.of("policy"):
            if newest is None or _may_replace(self.name, newest, record):
                newest = record
            else:
                ignored.append(record)
        return newest, ignored

    def broken_since(self, policy: Record | None) -> bool:
        """Whether records were changed or taken out after a policy was set, or at all without
        one.
        """
        if policy is None:
            return bool(self.breaks)
        set_at = [record.digest for record in self.records].index(policy.digest)
        return any(place > set_at for place in self.breaks)

    def same_model(self, version: str) -> set[str]:
        """Versions that were published with the same model as one, and this one itself."""
        versions = {version}
        published = self.of("version")
        for key in ("content", "model"):
            own_values = {
                record.content.get(key) for record in published if _is_of(record, version)
            }
            for record in published:
                if record.content.get(key) and record.content[key] in own_values:
                    versions.add(record.content["version"])
        return versions

    def earliest_time(self, record: Record) -> datetime.datetime:
        """The earliest time at which a record may have been added.

        Who writes a record writes its time too. But it was added after those before it, and the
        registry has a clock of its own. A time before it that is still to come is of a wrong clock.
        """
        current = datetime.datetime.now(datetime.UTC)
        times = [
            datetime.datetime.fromisoformat(record.when),
            datetime.datetime.fromtimestamp(record.added, datetime.UTC),
        ]
        for earlier in self.records:
            if earlier.digest == record.digest:
                break
            when = datetime.datetime.fromisoformat(earlier.when)
            if when <= current:
                times.append(when)
        return max(times)

    def odd_times(self) -> list[str]:
        """Say which records have a time before that of the record before, or after that at which
        the registry got them, by more than clocks differ.
        """
        notes = []
        before: Record | None = None
        for record in self.records:
            when = datetime.datetime.fromisoformat(record.when)
            if before is not None:
                earlier = datetime.datetime.fromisoformat(before.when)
                if earlier - when > CLOCKS_DIFFER:
                    notes.append(
                        f"record {record.number} says {record.when}, and record {before.number} "
                        f"before it {before.when}: one of the clocks was wrong"
                    )
            added = datetime.datetime.fromtimestamp(record.added, datetime.UTC)
            if record.added and when - added > CLOCKS_DIFFER:
                notes.append(
                    f"record {record.number} says {record.when}, and the registry got it at "
                    f"{added.isoformat(timespec='seconds')}"
                )
            before = record
        return notes

    def moves(self, alias: str) -> list[Record]:
        """Moves of an alias, oldest first."""
        return [record for record in self.of("move") if record.content.get("alias") == alias]


def _is_of(record: Record, version: str) -> bool:
    return record.content.get("version") == version


def _may_replace(name: str, policy: Record, record: Record) -> bool:
    """Whether a later record of a policy is signed by a key that the earlier policy lists."""
    keys = (policy.content.get("keys") or {}).get("set_by")
    if not keys:
        return True
    # imported lazily: a cached run needs no cryptography
    from evenhand.tasks.registry.signed_records import signer

    return signer(name, record) in keys


def actor() -> str:
    """Name of the acting person: ``EVENHAND_ACTOR``, else who started the CI job, else
    user@machine.
    """
    for name in ACTORS:
        # on one line: the name is printed among other lines
        acting = " ".join(os.environ.get(name, "").split())
        if acting:
            return acting
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # the user of a container may have no name
        user = f"uid {os.getuid()}"
    return f"{user}@{platform.node()}"


def read_chain(client: MlflowClient, name: str) -> Chain:
    """Read a model's chain; one without records if there is no such model."""
    tags = {}
    aliases = {}
    try:
        model = client.get_registered_model(name)
        tags = model.tags
        aliases = {alias: str(number) for alias, number in dict(model.aliases).items()}
    except absence() as error:
        if error.error_code not in ABSENT:
            raise
    texts = []
    token = None
    while token != "":
        page = client.search_model_versions(
            named(f"{CHAIN}{name}"), max_results=1000, page_token=token
        )
        for item in page:
            added = (getattr(item, "creation_timestamp", None) or 0) / 1000
            texts.append((int(item.version), item.tags.get(RECORD_TAG, ""), added))
        token = page.token or ""
    old = [Record.read(text) for key, text in tags.items() if key.startswith(AUDIT_TAG)]
    # tags were of moves alone: a publication or a policy in one is forged
    moves = [record for record in old if record is not None and record.kind == "move"]
    records, faults = _tagged(moves)
    linked, more, breaks = _linked(sorted(texts), records)
    faults = [*faults, *more, *_moved(linked, aliases)]
    return Chain(name, linked, aliases, faults, breaks, tags.get(POLICY_TAG, ""))


def _tagged(records: list[Record]) -> tuple[list[Record], list[str]]:
    """Order the moves of older versions; several at one moment may have one number."""
    records = sorted(records, key=lambda record: (record.number, record.when, record.digest))
    digests: dict[int, set[str]] = {0: {""}}
    for record in records:
        digests.setdefault(record.number, set()).add(record.digest)
    return records, [
        _lost(record)
        for record in records
        if record.previous not in digests.get(record.number - 1, set())
    ]


def _linked(
    texts: Iterable[tuple[int, str, float]], before: Sequence[Record]
) -> tuple[list[Record], list[str], list[int]]:
    """Follow the chain through the records in their order; leave out those that lost a race.

    Returns the records, what is wrong in sentences, and the places in the records before which
    something was changed.
    """
    chain = list(before)
    faults = []
    breaks = []
    heads = {record.digest for record in before} or {""}
    read_before = set(heads)
    for place, text, added in texts:
        record = Record.read(text, str(place), added)
        if record is None:
            faults.append(f"the record at place {place} cannot be read: it was changed")
            breaks.append(len(chain))
            continue
        if record.previous not in heads:
            if record.previous in read_before:
                continue
            faults.append(_lost(record))
            breaks.append(len(chain))
        elif chain and record.number != chain[-1].number + 1:
            faults.append(
                f"the record at place {place} has the number {record.number}, expected "
                f"{chain[-1].number + 1}"
            )
        chain.append(record)
        heads = {record.digest}
        read_before.add(record.digest)
    return chain, faults, breaks


def _lost(record: Record) -> str:
    expected = "expected none"
    if record.previous:
        expected = f"expected one with the digest {record.previous[:12]}"
    return f"the record before number {record.number} was changed or taken out: {expected}"


def _moved(records: Sequence[Record], aliases: Mapping[str, str]) -> list[str]:
    """Compare each alias with the last record of a move of it."""
    faults: list[str] = []
    last: dict[str, list[Record]] = {}
    for record in records:
        if record.kind == "move":
            alias = record.content["alias"]
            # of several moves with the same number, any may have been made last
            same_number = [item for item in last.get(alias, []) if item.number == record.number]
            last[alias] = [*same_number, record]
    for alias in sorted({*last, *aliases}):
        recorded = [record.content["to_version"] for record in last.get(alias, [])]
        actual = aliases.get(alias)
        if actual not in recorded:
            place = "at no version"
            if actual is not None:
                place = f"at version {actual}"
            expected = "in no record"
            if recorded:
                expected = f"version {recorded[-1]} by the last record"
            faults.append(f"{alias} is {place}, but {expected}: it was moved without a record")
    return faults


def append(
    client: MlflowClient,
    name: str,
    kind: str,
    content: Mapping[str, Any],
    *,
    seen: Chain | None = None,
    unless: Callable[[Record], None] = lambda record: None,
) -> Record:
    """Add a record at the end of a model's chain.

    With `seen`, `unless` is called with every record that others have added since, also at this
    moment, and may raise: then nothing is recorded. Raises `NotCarriedOut` if others write all the
    time.
    """
    from mlflow import MlflowException

    create_model(client, f"{CHAIN}{name}")
    chain = read_chain(client, name)
    checked = len(chain.records)
    if seen is not None:
        checked = len(seen.records)
    for attempt in range(ATTEMPTS):
        for record in chain.records[checked:]:
            unless(record)
        checked = len(chain.records)
        text = _record_text(chain, kind, content)
        try:
            made = client.create_model_version(
                f"{CHAIN}{name}", "evenhand:/record", tags={RECORD_TAG: text}
            ).version
        except MlflowException as error:
            if "Giving up" not in str(error):  # others have created versions at the same moment
                raise
            made = None
        chain = read_chain(client, name)
        for record in chain.records:
            if record.place == str(made):
                return record
        if made is not None:
            client.delete_model_version(f"{CHAIN}{name}", str(made))
        time.sleep(random.SystemRandom().uniform(0.01, 0.05) * (attempt + 1))
    raise NotCarriedOut(f"others write records of {name} all the time: run again.")


def _record_text(chain: Chain, kind: str, content: Mapping[str, Any]) -> str:
    """JSON of a record that follows the last one of a chain."""
    number = 1
    previous = ""
    if chain.records:
        number = chain.records[-1].number + 1
        previous = chain.records[-1].digest
    record = {
        "number": number,
        "when": now(),
        "who": actor(),
        "kind": kind,
        "content": dict(content),
        "previous": previous,
    }
    if os.environ.get("EVENHAND_KEY"):
        # imported lazily: a cached run needs no cryptography
        from evenhand.tasks.registry.signed_records import with_signature

        record = with_signature(record, chain.name)
    return json.dumps(record, sort_keys=True)


def create_model(client: MlflowClient, name: str) -> None:
    """Create a registered model, unless it exists."""
    from mlflow import MlflowException

    try:
        client.create_registered_model(name)
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise


def settled_chain(client: MlflowClient, name: str, alias: str) -> Chain:
    """Read a chain; if a move of the alias is recorded and not yet made, wait for it a moment."""
    for _ in range(20):
        chain = read_chain(client, name)
        moves = chain.moves(alias)
        if not moves or moves[-1].content["to_version"] == chain.aliases.get(alias):
            break
        time.sleep(0.1)
    return chain


def evaluations_of(client: MlflowClient, chain: Chain, version: str) -> list[dict[str, Any]]:
    """Evaluations of a version, oldest first; of an older evenhand only the newest is kept, as a
    tag.
    """
    records = chain.of("evaluation", version)
    evaluations = []
    for record in records:
        evaluations.append({**record.content, "when": record.when, "record": record.digest})
    tag = client.get_model_version(chain.name, version).tags.get(EVALUATION_TAG)
    if not evaluations and tag is not None:
        evaluations.append(dict(json.loads(tag)))
    return evaluations


def record_evaluation(
    client: MlflowClient, name: str, version: str, evaluation: Mapping[str, Any]
) -> Record:
    """Add an evaluation to the chain; a tag of the version shows the newest one in MLflow's
    pages.
    """
    made = append(client, name, "evaluation", {"version": version, **evaluation})
    text = json.dumps(dict(evaluation), sort_keys=True)
    client.set_model_version_tag(name, version, EVALUATION_TAG, text)
    return made


class EvidenceChangedError(NotCarriedOut):
    """A policy or an evaluation was recorded while a version was judged: it has to be
    judged again.
    """


def move_alias(
    client: MlflowClient,
    name: str,
    alias: str,
    version: str,
    *,
    reason: str,
    evaluation: Mapping[str, Any],
    seen: Chain | None = None,
    judged: bool = False,
    grounds: Mapping[str, Any] | None = None,
) -> Record | None:
    """Record the move, then make it; None if the version has the alias already.

    The record is written first. A process that is killed between the two leaves a record without a
    move, which :func:`read_chain` reports, and never a move without a record. Raises
    `NotCarriedOut` if the alias was moved by someone else since the chain was `seen`. If the
    version was `judged` by that chain, raises `EvidenceChangedError` where a policy or an
    evaluation of it was recorded since. `grounds` are added to the record: the policy and the
    approvals that allowed the move.
    """
    chain = seen or settled_chain(client, name, alias)
    before = chain.aliases.get(alias)
    if before == version and not any(fault.startswith(f"{alias} is ") for fault in chain.faults):
        return None

    def check(record: Record) -> None:
        if judged:
            _refuse_new_evidence(record, name, version)
        _refuse_other_move(record, name, alias, version)

    content: dict[str, Any] = {
        "alias": alias,
        "from_version": before,
        "to_version": version,
        "reason": reason,
    }
    made = next(iter(chain.moves(alias)[-1:]), None)
    reasons = grounds or {}
    if before == version or not _is_same_move(name, made, content, reasons.get("policy")):
        content |= {"evaluation": dict(evaluation), **reasons}
        made = append(client, name, "move", content, seen=chain, unless=check)
    # else a kill or an outage came between the record and the move
    client.set_registered_model_alias(name, alias, version)
    # a process that was stopped before its move may make it after a later one
    last = read_chain(client, name).moves(alias)[-1].content["to_version"]
    if last != version:
        client.set_registered_model_alias(name, alias, last)
    return made


def _is_same_move(
    name: str, made: Record | None, content: Mapping[str, Any], policy: str | None
) -> bool:
    """Whether the newest move was recorded by this actor and with this process's key, under the
    same policy, with the same content.
    """
    if made is None or made.who != actor() or made.content.get("policy") != policy:
        return False
    if not content.items() <= made.content.items():
        return False
    if not os.environ.get("EVENHAND_KEY"):
        return not made.record_key
    # imported lazily: a cached run needs no cryptography
    from evenhand.tasks.registry.signed_records import own_key, signer

    return signer(name, made) == own_key()


def _refuse_new_evidence(record: Record, name: str, version: str) -> None:
    """Raise `EvidenceChangedError` for a policy, or for an evaluation, a refusal or a search for
    alternatives of the version.
    """
    kinds = ("evaluation", "refusal", "alternative")
    is_about = record.kind in kinds and record.content.get("version") == version
    if record.kind == "policy" or is_about:
        raise EvidenceChangedError(
            f"the record of a {record.kind} of {name} was added at the same moment, by "
            f"{record.who} ({record.when}): run again."
        )


def _refuse_other_move(record: Record, name: str, alias: str, version: str) -> None:
    """Raise `NotCarriedOut` for a move of the alias."""
    if record.kind == "move" and record.content["alias"] == alias:
        raise NotCarriedOut(
            f"{name} version {record.content['to_version']} became {alias} at the same moment, by "
            f"{record.who} ({record.when}): version {version} did not. Look at it, then promote "
            "again."
        )


@waits_for_service
def history(uri: str, name: str) -> Chain:
    """Read a model's chain; an `InputError` if there is no such model."""
    chain = read_registry(uri, lambda client: read_chain(client, name))
    if not chain.records and not chain.aliases:
        raise InputError(
            f"the model {name!r} is not in the registry: `evenhand run JOB` publishes one."
        )
    return chain


@waits_for_service
def current_policy(uri: str, name: str) -> dict[str, Any] | None:
    """Content of the policy of a model, with the digest of its record; None if it has none."""

    def look_up() -> dict[str, Any]:
        record = read_registry(uri, lambda client: read_chain(client, name)).policy
        if record is None:
            return {}
        facts = {"digest": record.digest, "who": record.who, "when": record.when}
        return {**record.content, **facts, "record": record.number}

    path = uri.removeprefix(SQLITE)
    if path != uri and not Path(path).is_file():
        return None  # a query would create the database
    return ask_once(uri, f"policy of {name}", look_up) or None


def anchor_of(chain: Chain) -> dict[str, Any]:
    """The end of a chain, to keep where writers of the registry cannot reach it."""
    last = chain.records[-1]
    return {
        "name": chain.name,
        "first": chain.records[0].digest,
        "number": last.number,
        "digest": last.digest,
        "when": now(),
    }


def check_anchor(chain: Chain, anchor: Mapping[str, Any]) -> list[str]:
    """Say what a chain lacks of the one whose end was kept.

    Raises `InputError` for an anchor of another model or registry.
    """
    if not {"name", "first", "number", "digest"} <= set(anchor):
        raise InputError(
            "the anchor lacks a key: give a file that `evenhand history --anchor FILE` wrote."
        )
    if anchor["name"] != chain.name:
        raise InputError(f"the anchor is of the model {anchor['name']!r}, not of {chain.name!r}.")
    digests = [record.digest for record in chain.records]
    if anchor["digest"] in digests:
        return []
    if anchor["first"] not in digests:
        raise InputError(
            f"the anchor is of another registry, or all records of {chain.name} were replaced: its "
            f"first record is {str(anchor['first'])[:12]}, expected one of this registry."
        )
    instead = "nothing"
    for record in chain.records:
        if record.number == anchor["number"]:
            instead = record.digest[:12]
            break
    return [
        f"record number {anchor['number']} was changed or taken out: the anchor has "
        f"{anchor['digest'][:12]}, the registry {instead}"
    ]
