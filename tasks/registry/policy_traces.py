"""Traces of a policy outside the chain of records, and the policy that a person expects.

Who can write to MLflow can delete or rename the model that holds the chain, and the policy goes
with it. So a policy leaves its digest in a tag of the model and of each version. A model with such
a trace, whose chain has no such policy, is neither evaluated nor promoted. Tags can be deleted too:
`EVENHAND_POLICY`, which is not in the registry, has the digest of the policy that must be in force.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from evenhand.tasks.errors import GateRefused, InputError
from evenhand.tasks.registry.client import (
    ABSENT,
    POLICY_TAG,
    registry_client,
    tags_of_versions,
)
from evenhand.tasks.registry.ledger import CHAIN, Chain, Record, read_chain
from evenhand.tasks.registry.policy_people import keys_of, shown

if TYPE_CHECKING:
    from mlflow import MlflowClient

PIN_VARIABLE = "EVENHAND_POLICY"
DIGEST = re.compile(r"[0-9a-f]{64}")
MISSING = (
    "its policy is missing: {place} names record {number}, set by {who}, {when}, and the chain "
    "{chain} has no such record. Restore it from a backup, or rename it back, or set a policy "
    "again: `evenhand policy set {name}{key}`"
)
UNREADABLE = (
    "its policy is missing: {place}, which names it, cannot be read. `evenhand policy set {name}` "
    "sets a policy again"
)


@dataclass(frozen=True)
class Trace:
    """What a tag says of a policy that was in force."""

    place: str  # of the tag, in words
    digest: str = ""  # of the policy's record; empty if the tag cannot be read
    number: int = 0
    who: str = ""
    when: str = ""
    set_by: tuple[str, ...] = ()  # keys that may replace it

    @classmethod
    def read(cls, text: str, place: str) -> Trace:
        """Read the text of a tag; without a digest if it is none of ours."""
        try:
            content = json.loads(text)
            texts = [str(content[key]) for key in ("digest", "who", "when")]
            keys = tuple(str(key) for key in content["set_by"])
            number = int(content["number"])
        except (ValueError, TypeError, KeyError, RecursionError):
            return cls(place)
        digest, who, when = texts
        return cls(place, digest, number, who, when, keys)


def trace_text(policy: Record) -> str:
    """Write what a tag says of a policy."""
    content = {
        "digest": policy.digest,
        "number": policy.number,
        "who": policy.who,
        "when": policy.when,
        "set_by": keys_of(policy.content, "set_by"),
    }
    return json.dumps(content, sort_keys=True)


def unsettled_traces(chain: Chain, versions: Mapping[str, Mapping[str, str]]) -> list[Trace]:
    """Return the traces of policies that the chain lacks, with the newest first.

    - `versions`: tags of versions of the model, by number
    """
    traces = []
    if chain.policy_trace:
        traces.append(Trace.read(chain.policy_trace, f"the tag {POLICY_TAG} of the model"))
    for number, tags in versions.items():
        if POLICY_TAG in tags:
            place = f"the tag {POLICY_TAG} of its version {number}"
            traces.append(Trace.read(tags[POLICY_TAG], place))
    unsettled = [trace for trace in traces if not _is_settled(trace, chain)]
    return sorted(unsettled, key=lambda trace: trace.when, reverse=True)


def _is_settled(trace: Trace, chain: Chain) -> bool:
    """Whether the chain has the policy of a trace, or a later one by a key that may replace it."""
    ignored = {record.digest for record in chain.ignored_policies}
    for record in chain.of("policy"):
        if record.digest == trace.digest and record.digest not in ignored:
            return True
    policy = chain.policy
    if policy is None or not trace.digest or policy.when < trace.when:
        return False
    if not trace.set_by:
        return True
    # imported lazily: a policy without keys needs no cryptography
    from evenhand.tasks.registry.signed_records import signer

    return signer(chain.name, policy) in trace.set_by


def missing_policy(chain: Chain, versions: Mapping[str, Mapping[str, str]]) -> str | None:
    """Say which policy a model was under that its chain lacks, and the cure; None if none.

    - `versions`: tags of the versions that count, by number
    """
    for trace in unsettled_traces(chain, versions):
        if not trace.digest:
            return UNREADABLE.format(place=trace.place, name=chain.name)
        key = ""
        if trace.set_by:
            listed = ", ".join(shown(digits) for digits in trace.set_by)
            key = f" --key FILE` (a key that it lists in set_by: {listed})"
        reason = MISSING.format(
            place=trace.place,
            number=trace.number,
            who=trace.who,
            when=trace.when,
            chain=f"{CHAIN}{chain.name}",
            name=chain.name,
            key=key or " --gates FILE`",
        )
        return reason.removesuffix("`")
    return None


def leave_traces(client: MlflowClient, chain: Chain, versions: Iterable[str]) -> None:
    """Write the digest of the policy in force to tags of the model and of these versions."""
    if chain.policy is None:
        return
    text = trace_text(chain.policy)
    if chain.policy_trace != text:
        client.set_registered_model_tag(chain.name, POLICY_TAG, text)
    for version in versions:
        client.set_model_version_tag(chain.name, version, POLICY_TAG, text)


def leave_traces_everywhere(client: MlflowClient, name: str) -> None:
    """Write the policy in force to the model and to all its versions, if there is a model."""
    from mlflow import MlflowException

    try:
        client.get_registered_model(name)
    except MlflowException as error:
        if error.error_code in ABSENT:
            return
        raise
    chain = read_chain(client, name)
    leave_traces(client, chain, tags_of_versions(client, name))


# the policy that a person expects


def expected_policy(name: str) -> str | None:
    """Return the digest that `EVENHAND_POLICY` pins for a model; None if it pins none.

    The variable holds a digest for every model, or ``NAME=DIGEST`` entries, separated by commas or
    line breaks, or ``@FILE`` with such entries. Raises `InputError` for another text.
    """
    text = os.environ.get(PIN_VARIABLE, "").strip()
    if not text:
        return None
    entries = _pin_entries(text)
    return entries.get(name, entries.get(""))


def _pin_entries(text: str) -> dict[str, str]:
    """Digests by the name of a model; by the empty name for every model."""
    source = PIN_VARIABLE
    if text.startswith("@"):
        path = Path(text[1:]).expanduser()
        source = f"{PIN_VARIABLE} ({path})"
        try:
            text = path.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{source} cannot be read ({type(error).__name__}).") from None
    entries = {}
    for line in text.splitlines():
        for entry in line.partition("#")[0].split(","):
            if not entry.strip():
                continue
            name, _, digest = entry.strip().rpartition("=")
            if not DIGEST.fullmatch(digest.strip()):
                raise InputError(
                    f"{source}: {entry.strip()[:80]!r} is no digest of a policy: expected "
                    "NAME=DIGEST with the 64 digits that `evenhand policy set` prints."
                )
            entries[name.strip()] = digest.strip()
    if not entries:
        raise InputError(f"{source} names no digest of a policy: expected NAME=DIGEST.")
    return entries


def other_policy(chain: Chain) -> str | None:
    """Say that another policy is in force than `EVENHAND_POLICY` pins; None if not."""
    expected = expected_policy(chain.name)
    policy = chain.policy
    if expected is None or (policy is not None and policy.digest == expected):
        return None
    actual = "it has no policy"
    if policy is not None:
        actual = (
            f"its policy is {policy.digest[:12]}, record {policy.number}, set by {policy.who}, "
            f"{policy.when}"
        )
    return (
        f"{PIN_VARIABLE} (--policy-digest) expects the policy {expected[:12]}, and {actual}: find "
        "out who changed it; if that was agreed, give its digest"
    )


@contextlib.contextmanager
def expecting_policy(digest: str | None) -> Iterator[None]:
    """Demand in this block that the policy in force has this digest; None changes nothing.

    Raises `InputError` for a text that is no digest.
    """
    if digest is None:
        _check_pin()
        yield
        return
    if not DIGEST.fullmatch(digest):
        raise InputError(
            f"--policy-digest {digest[:80]}: expected the 64 digits that `evenhand policy set` and "
            "`policy show --json` print."
        )
    before = os.environ.get(PIN_VARIABLE)
    os.environ[PIN_VARIABLE] = digest
    try:
        yield
    finally:
        if before is None:
            del os.environ[PIN_VARIABLE]
        else:
            os.environ[PIN_VARIABLE] = before


def _check_pin() -> None:
    """Raise `InputError` for a variable that cannot be read, before anything is measured."""
    expected_policy("")


def refuse_without_policy(uri: str, name: str) -> None:
    """Raise `GateRefused` if a model has lost its policy, or has another one than is expected."""
    with registry_client(uri) as client:
        chain = read_chain(client, name)
        versions = tags_of_versions(client, name)
    reason = missing_policy(chain, versions) or other_policy(chain)
    if reason is not None:
        raise GateRefused(f"{name} is refused: {reason}.", 1)


def faults_of_policy(chain: Chain, versions: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Describe for `verify` that a policy is missing, or is not the expected one."""
    reasons = [missing_policy(chain, versions), other_policy(chain)]
    return [f"{chain.name}: {reason}" for reason in reasons if reason is not None]


def may_set_again(chain: Chain, versions: Mapping[str, Mapping[str, str]], key: str) -> str | None:
    """Say why a key may not set a policy in place of one that is missing; None if it may."""
    for trace in unsettled_traces(chain, versions):
        if trace.set_by and key not in trace.set_by:
            return (
                f"its policy is missing, and {trace.place} lists the keys that may replace it "
                f"({', '.join(shown(digits) for digits in trace.set_by)}): --key FILE names yours"
            )
    return None
