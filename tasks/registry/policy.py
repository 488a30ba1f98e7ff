"""Policies: what a version of a registered model must have passed before it gets an alias."""

from __future__ import annotations

import contextlib
import datetime
import json
import math
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenhand.tasks.errors import GateRefused, InputError, NotCarriedOut, waits_for_service
from evenhand.tasks.execution.store import sha256_of_path
from evenhand.tasks.registry.client import (
    FILES_TAG,
    POLICY_TAG,
    damaged_files,
    fetch_bundle,
    registry_client,
    tags_of_versions,
    without_kept_answers,
)
from evenhand.tasks.registry.ledger import (
    Chain,
    EvidenceChangedError,
    Record,
    actor,
    append,
    evaluations_of,
    move_alias,
    settled_chain,
)
from evenhand.tasks.registry.policy_terms import (
    MAX_UNNOTICED,
    Terms,
    judged_otherwise,
    measured_otherwise,
    terms_of,
)

if TYPE_CHECKING:
    from mlflow import MlflowClient

# An alias that no policy guards: versions wait there.
WAITING = "challenger"
# The action of a person's refusal, in its record.
REVIEW = "review"
LONGEST_REASON = 2000
VERSION = re.compile("[1-9][0-9]{0,17}")
# Without a policy: share of an evaluation's rows among the training rows from which it is no
# evidence.
SAME_ROWS = 0.9
MISSING_RECORDS = (
    "no record of {name} has the evaluation of its version {version}: its records were removed, or "
    "the model was renamed; `evenhand verify {name}` says what is left, and a new evaluation counts"
)
CHANGED_CHAIN = (
    "records of its chain were changed or taken out since its policy was set: `evenhand verify "
    "{name}` names them, and `evenhand policy set` takes the chain as it is"
)
UNKNOWN_SHARE = (
    "the share of the evaluated rows that it was trained on is not known: give the file "
    "overlap.key of the store that published it, by `EVENHAND_OVERLAP_KEY=FILE evenhand evaluate "
    "MODEL --policy`, or publish it again"
)
UNNOTICED = (
    "its evaluation cannot tell whether it was trained on rows of the holdout: copied rows would "
    "surely be noticed from {share:.0%} of its rows on, and the policy asks for {limit:.0%}: take "
    "a larger holdout or one whose rows differ more, or accept that by `evenhand policy set "
    "--max-unnoticed {share:.2f}`"
)
# Times that a version is judged again because a policy or an evaluation was recorded meanwhile.
JUDGEMENTS = 10


class Refused(Exception):
    """A version does not get an alias, or an approval does not count; for the chain's record."""

    def __init__(
        self, action: str, reason: str, *, advice: str = "", recorded: bool = True, **content: Any
    ) -> None:
        super().__init__(reason)
        self.recorded = recorded
        self.reason = reason
        self.advice = advice
        self.content = {"action": action, "reason": reason, **content}


@waits_for_service
def promote(
    uri: str,
    name: str,
    version: str,
    alias: str,
    measured: str | None = None,
    *,
    note: str = "",
) -> Record | None:
    """Give a version an alias if its recorded evaluations allow it; None if it has the alias
    already.

    `measured` is the digest of the record of an evaluation that alone counts, and `note` what the
    acting person says about the move. Raises `GateRefused`,
    and records the refusal, if the model's policy, or without one any of its evaluations, does not
    allow it, or its files were changed; `NotCarriedOut` if the alias was moved at the same moment.
    The policy that counts is the one in force when the move is recorded.
    """
    require_version(name, version)
    for attempt in range(JUDGEMENTS):
        try:
            return _judge_and_move(uri, name, version, alias, measured, note)
        except Refused as refused:
            if refused.recorded:
                _record_refusal(uri, name, refused)
            raise GateRefused(
                f"{name} version {version} cannot become {alias}: {refused.reason}."
                f"{refused.advice}",
                1,
            ) from None
        except EvidenceChangedError:
            if attempt == JUDGEMENTS - 1:
                raise
    raise AssertionError("unreachable: the last attempt returns or raises")


def require_version(name: str, version: str) -> None:
    """Raise `InputError` for a text that is no version of a model as records have it.

    The registry reads "02" as 2, and no record is about a version "02".
    """
    if VERSION.fullmatch(version) is None:
        raise InputError(f"{name} has no version {version!r}: expected a number such as 2.")


def _record_refusal(uri: str, name: str, refused: Refused) -> None:
    """Add a refusal to the chain; where that cannot be written, it stays a refusal."""
    with contextlib.suppress(NotCarriedOut), registry_client(uri) as client:
        append(client, name, "refusal", refused.content)


def in_force(policy: Record | Mapping[str, Any]) -> str:
    """Say which record of a policy is in force, who set it, and when."""
    if isinstance(policy, Record):
        return f"the policy is record {policy.number}, set by {policy.who}, {policy.when}"
    number = policy.get("record", "?")
    who = policy.get("who", "an unknown person")
    return f"the policy is record {number}, set by {who}, {policy.get('when', 'at no known time')}"


def _judge_and_move(
    uri: str, name: str, version: str, alias: str, measured: str | None, note: str
) -> Record | None:
    """Judge a version by the chain as it is now, and move the alias unless the evidence changes
    meanwhile.
    """
    with registry_client(uri) as client:
        chain = settled_chain(client, name, alias)
        if alias != WAITING:
            lost = lost_policy(client, chain)
            if lost is not None:
                # a new chain would be in the way of one that was renamed
                recorded = bool(chain.records)
                raise Refused(
                    "promote", lost, recorded=recorded, version=version, alias=alias, policy=None
                )
        judgement = _judgement(client, uri, chain, version, alias)
        policy = judgement.policy
        evidence = judgement.evidence
        reason = judgement.objection or _not_remeasured(policy, evidence, measured)
        if reason:
            raise _refusal_to_promote(policy, name, version, alias, reason)
        move = move_alias(
            client,
            name,
            alias,
            version,
            reason="promote",
            evaluation=evidence,
            seen=chain,
            judged=True,
            grounds={**_grounds(policy, chain, version, evidence), **_noted(note)},
        )
        leave_policy_traces(client, chain, version)
        return move


def lost_policy(client: MlflowClient, chain: Chain) -> str | None:
    """Say that a model was under a policy that its chain lacks, or is under another one than is
    expected; None if neither.
    """
    versions = tags_of_versions(client, chain.name)
    has_trace = bool(chain.policy_trace) or any(POLICY_TAG in tags for tags in versions.values())
    if not has_trace and not os.environ.get("EVENHAND_POLICY"):
        return None
    # imported lazily: a run without a policy needs none of it
    from evenhand.tasks.registry.policy_traces import missing_policy, other_policy

    return missing_policy(chain, versions) or other_policy(chain)


def other_than_expected(chain: Chain) -> str | None:
    """Say that another policy is in force than `EVENHAND_POLICY` pins; None if not."""
    if not os.environ.get("EVENHAND_POLICY"):
        return None
    from evenhand.tasks.registry.policy_traces import other_policy

    return other_policy(chain)


def leave_policy_traces(client: MlflowClient, chain: Chain, version: str) -> None:
    """Write the policy in force to tags of the model and of a version that was judged by it."""
    if chain.policy is None:
        return
    from evenhand.tasks.registry.policy_traces import leave_traces

    leave_traces(client, chain, [version])


@dataclass(frozen=True)
class Judgement:
    """Whether a version may get an alias by its chain: `objection` is None if it may."""

    chain: Chain
    policy: Record | None  # None for the alias that no policy guards
    evidence: Mapping[str, Any]  # the evaluation that counts; empty without one
    objection: str | None


def judgement_of(uri: str, chain: Chain, version: str, alias: str) -> Judgement:
    """Judge a version by a model's chain as `promote` would, and change and record nothing.

    The acting person counts: a policy may say who promotes.
    """
    (judgement,) = judgements_of(uri, chain, [version], alias)
    return judgement


@waits_for_service
def judgements_of(uri: str, chain: Chain, versions: Sequence[str], alias: str) -> list[Judgement]:
    """Judge versions as `judgement_of` does; what is of the whole model is read once."""
    with registry_client(uri) as client:
        lost = _lost(client, chain, alias)
        return [_judged(client, uri, chain, version, alias, lost) for version in versions]


def _judgement(client: MlflowClient, uri: str, chain: Chain, version: str, alias: str) -> Judgement:
    return _judged(client, uri, chain, version, alias, _lost(client, chain, alias))


def _lost(client: MlflowClient, chain: Chain, alias: str) -> str | None:
    """Say that the policy of an alias was lost; None if it was not, or no policy guards it."""
    if alias == WAITING:
        return None
    return lost_policy(client, chain)


def _judged(
    client: MlflowClient, uri: str, chain: Chain, version: str, alias: str, lost: str | None
) -> Judgement:
    """Judge a version; `lost` says that its policy was lost."""
    policy = None
    if alias != WAITING:
        policy = chain.policy
    evaluations = evaluations_of(client, chain, version)
    if policy is not None:
        evidence, reason = judge(policy, chain, version, evaluations)
    else:
        evidence, reason = _without_policy(chain, version, alias, evaluations)
    reason = lost or reason
    if alias != WAITING and chain.broken_since(policy):
        reason = reason or CHANGED_CHAIN.format(name=chain.name)
    if alias != WAITING:
        reason = reason or refused_by_person(chain, version)
        reason = reason or _unpublished(client, chain, version)
    reason = reason or damage(uri, chain, version, required=policy is not None)
    reason = reason or _of_another_model(uri, chain.name, version, evidence)
    return Judgement(chain, policy, evidence, reason)


def _unpublished(client: MlflowClient, chain: Chain, version: str) -> str | None:
    """Say that no record has the publication of a version; None if one has, or it is older."""
    if chain.of("version", version):
        return None
    model_version = client.get_model_version(chain.name, version)
    created_ms = int(getattr(model_version, "creation_timestamp", None) or 0)
    return without_publication(chain, version, created_ms, model_version.tags)


def without_publication(
    chain: Chain, version: str, created_ms: int, tags: Mapping[str, str]
) -> str | None:
    """Say that no record has the publication of a version, unless it is older than such records.

    MLflow adds a version without a record, for instance as a copy of another one.
    """
    if chain.of("version", version):
        return None
    fault = (
        "no record has its publication: MLflow added it, or records were removed. Delete it, or "
        "publish it again"
    )
    first = next(iter(chain.of("version")), None)
    if first is None:
        # such records are as old as this tag
        return fault if FILES_TAG in tags else None
    first_ms = datetime.datetime.fromisoformat(first.when).timestamp() * 1000
    return fault if FILES_TAG in tags or created_ms > first_ms else None


def refused_by_person(chain: Chain, version: str) -> str | None:
    """Say who refused a version and has not approved it since; None if nobody has.

    A refusal is of the model, also where it is published again under another number. Where the
    policy lists the keys of approvers, only their refusals count, and a key withdraws its own; else
    a name does.
    """
    keys: list[str] = []
    if chain.policy is not None:
        keys = list((chain.policy.content.get("keys") or {}).get("approved_by") or ())
    versions = chain.same_model(version)
    standing: dict[str, Record] = {}
    for record in chain.records:
        if record.content.get("version") not in versions:
            continue
        person = record.who
        if keys:
            person = _listed_signer(chain, record, keys)
        if record.kind == "refusal" and record.content.get("action") == REVIEW and person:
            standing[person] = record
        if record.kind == "approval":
            standing.pop(person, None)
    if not standing:
        return None
    newest = max(standing.values(), key=lambda record: record.number)
    subject = "it"
    if newest.content["version"] != version:
        subject = f"the same model as version {newest.content['version']}"
    return (
        f"{newest.who} refused {subject} (record {newest.number}, {newest.when}): "
        f"{newest.content['reason']}; `evenhand approve {chain.name}/{version}` by the same person "
        "or key withdraws that"
    )


def lapsed_refusals(chain: Chain, policy: Record) -> list[str]:
    """Say which refusals by people the last record, a policy, has made count for nothing."""
    earlier = [record for record in chain.records if record.digest != policy.digest]
    before = replace(chain, records=earlier)
    lapsed = []
    for version in sorted({record.content["version"] for record in chain.of("version")}, key=int):
        reason = refused_by_person(before, version)
        if reason is not None and refused_by_person(chain, version) is None:
            lapsed.append(f"version {version}: {reason.partition(';')[0]}, which counts no more")
    return lapsed


def _listed_signer(chain: Chain, record: Record, keys: Sequence[str]) -> str:
    """Return the listed key that signed a record; empty if none did."""
    from evenhand.tasks.registry.signed_records import signer

    key = signer(chain.name, record)
    return key if key in keys else ""


def _refusal_to_promote(
    policy: Record | None, name: str, version: str, alias: str, reason: str
) -> Refused:
    option = "--data … --gates …"
    digest = None
    names_cure = "`evenhand " in reason
    if policy is not None:
        option = "--policy"
        digest = policy.digest
        reason = f"{reason} ({in_force(policy)})"
    advice = f" `evenhand evaluate models:/{name}/{version} {option}` evaluates it."
    if names_cure:
        advice = ""
    return Refused(
        "promote",
        reason,
        advice=advice,
        version=version,
        alias=alias,
        policy=digest,
    )


def _of_another_model(uri: str, name: str, version: str, evidence: Mapping[str, Any]) -> str | None:
    """Say that other files than the version's were measured, though its record names the
    version.
    """
    digest = evidence.get("model")
    if digest is None:
        return None
    with tempfile.TemporaryDirectory() as scratch, without_kept_answers():
        bundle = fetch_bundle(uri, name, version, Path(scratch))
        if sha256_of_path(bundle)[0] == digest:
            return None
    return "its evaluation measured other files than those of this version: evaluate it again"


def _not_remeasured(
    policy: Record | None, evidence: Mapping[str, Any], measured: str | None
) -> str | None:
    """Say that the newest evaluation is not the one that this promotion has measured."""
    if policy is None or measured is None or evidence.get("record") == measured:
        return None
    return "another evaluation of it was recorded after this one measured it: promote it again"


def _grounds(
    policy: Record | None, chain: Chain, version: str, evidence: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the digests of the policy and of the approvals that allow a move, for its record."""
    if policy is None:
        return {}
    approvals: list[str] = []
    if policy.content["approvals"]:
        from evenhand.tasks.registry.policy_people import approvals_of

        counted = approvals_of(policy, chain, version, evidence)
        approvals = sorted(record.digest for record in counted.values())
    return {"policy": policy.digest, "approvals": approvals}


def damage(uri: str, chain: Chain, version: str, *, required: bool) -> str | None:
    """What was changed in a version's files since it was published."""
    published = chain.of("version", version)
    files = None
    if published:
        files = published[0].content["files"]
    faults = damaged_files(uri, chain.name, version, files)
    if faults is None and required:
        return "an older version published it without a list of its files: publish it again"
    if not faults:
        return None
    return f"its files are not what was published: {faults[0]}"


def judge(
    policy: Record, chain: Chain, version: str, evaluations: list[dict[str, Any]]
) -> tuple[dict[str, Any], str | None]:
    """The newest evaluation of a version that its policy counts, and why it does not allow a
    promotion.
    """
    # imported lazily: a cached run needs no cryptography
    from evenhand.tasks.registry.policy_people import unmet_by_people

    rules = policy.content
    terms = terms_of(rules)
    last, reason = evidence_for(rules, chain, evaluations)
    if last is None:
        return {}, reason
    return last, (
        _refusal(last)
        or judged_otherwise(terms, last)
        or _shares_rows(last, rules["max_overlap"], terms, required=bool(rules.get("holdout")))
        or _lacks(rules, last)
        or unmet_by_people(policy, chain, version, last)
        or _unmet_alternative(policy, chain, version)
    )


def _unmet_alternative(policy: Record, chain: Chain, version: str) -> str | None:
    """Say why the searches for alternatives do not allow a promotion; None if they do."""
    if not policy.content.get("alternative"):
        return None
    # imported lazily: other policies need none of it
    from evenhand.tasks.registry.policy_alternatives import unmet_alternative

    return unmet_alternative(policy, chain, version)


def evidence_for(
    rules: Mapping[str, Any], chain: Chain, evaluations: list[dict[str, Any]]
) -> tuple[dict[str, Any] | None, str | None]:
    """Return the newest evaluation that a policy counts, or None and the reason why none does."""
    from evenhand.tasks.registry.policy_people import signed_by_measurer

    terms = terms_of(rules)
    by_gates = [item for item in evaluations if _counts(rules, item)]
    if not by_gates:
        holdout = ""
        if rules.get("holdout"):
            holdout = " on the agreed holdout"
        return None, f"no evaluation of it by the policy's gates{holdout} is recorded"
    for item in reversed(by_gates):
        if measured_otherwise(terms, item) is None and signed_by_measurer(rules, chain, item):
            return item, None
    newest = by_gates[-1]
    reason = measured_otherwise(terms, newest)
    if reason is None:
        reason = "its record is signed by no key that the policy lists in measured_by"
    return None, f"its evaluation does not count: {reason}"


def unmet_terms(rules: Mapping[str, Any], evaluation: Mapping[str, Any]) -> str | None:
    """Why a policy would not accept an evaluation by its own gates, whatever these say; None if it
    would, or if the evaluation was by other gates.
    """
    if not _counts(rules, evaluation):
        return None
    terms = terms_of(rules)
    return (
        measured_otherwise(terms, evaluation)
        or judged_otherwise(terms, evaluation)
        or _shares_rows(
            evaluation, rules["max_overlap"], terms, required=bool(rules.get("holdout"))
        )
    )


def _counts(rules: Mapping[str, Any], evaluation: Mapping[str, Any]) -> bool:
    """Whether an evaluation applied all gates of the policy, on its holdout."""
    applied = evaluation.get("gates")
    if not isinstance(applied, Mapping):
        applied = {}
    for metric, limits in rules["gates"].items():
        if metric not in applied or _stated(applied[metric]) != _stated(limits):
            return False
    holdout = rules.get("holdout")
    return not holdout or evaluation.get("holdout") == holdout["digest"]


def _stated(limits: Any) -> Any:
    """Return a gate's limits with its bound, which is the point estimate where it has none."""
    if not isinstance(limits, Mapping):
        return limits
    return {"bound": "point", **limits}


def _lacks(rules: Mapping[str, Any], evaluation: Mapping[str, Any]) -> str | None:
    values = evaluation.get("values", {})
    for metric in rules["required"]:
        if values.get(metric) is None:
            return f"the policy requires the metric {metric}, and the evaluation has no value of it"
    return None


def _noted(note: str) -> dict[str, str]:
    """Return what a person says, for a record; nothing for an empty text.

    Raises `InputError` for a text of more than `LONGEST_REASON` characters.
    """
    note = " ".join(note.split())
    if len(note) > LONGEST_REASON:
        raise InputError(
            f"the reason has {len(note):,} characters: give at most {LONGEST_REASON:,}."
        )
    return {"note": note} if note else {}


@waits_for_service
def approve(uri: str, name: str, version: str, *, note: str = "") -> Record:
    """Record that the acting person approves a version as it was measured under its policy.

    `note` is what the person says about it.

    Raises `GateRefused`, and records that, for an approval that would not count; an `InputError` if
    there is no evaluation under the policy yet.
    """
    from evenhand.tasks.registry.policy_people import cannot_approve

    require_version(name, version)
    with registry_client(uri) as client:
        chain = settled_chain(client, name, WAITING)
        _publication(chain, version)
        policy = chain.policy
        rules: Mapping[str, Any] = {}
        if policy is not None:
            rules = policy.content
        reason = lost_policy(client, chain) or cannot_approve(rules, chain, version)
        if reason is None:
            evaluations = evaluations_of(client, chain, version)
            content = _approval(policy, chain, version, evaluations) | _noted(note)
            return append(client, name, "approval", content)
    raise _refused(uri, name, Refused("approve", reason, version=version), "approved", policy)


@waits_for_service
def refuse(uri: str, name: str, version: str, reason: str) -> Record:
    """Record that the acting person refuses a version, and why.

    The version gets no alias that a policy guards until the same person, or the same key, approves
    it. Raises `InputError` for a reason that is empty or has more than `LONGEST_REASON` characters,
    and `GateRefused`, recorded, where the policy lists keys of approvers and this process signs
    with none of them.
    """
    from evenhand.tasks.registry.signed_records import own_key

    require_version(name, version)
    note = _noted(reason)
    if not note:
        raise InputError("the reason is empty: say in a sentence why the version is refused.")
    with registry_client(uri) as client:
        chain = settled_chain(client, name, WAITING)
        _publication(chain, version)
        policy = chain.policy
        keys: list[str] = []
        if policy is not None:
            keys = list((policy.content.get("keys") or {}).get("approved_by") or ())
        if not keys or own_key() in keys:
            content = {"action": REVIEW, "reason": note["note"], "version": version}
            return append(client, name, "refusal", content)
    why_not = "the policy counts refusals by the keys in approved_by: --key FILE names yours"
    raise _refused(uri, name, Refused("refuse", why_not, version=version), "refused", policy)


def _approval(
    policy: Record | None, chain: Chain, version: str, evaluations: list[dict[str, Any]]
) -> dict[str, Any]:
    """Return what an approval names: files, measurement, and policy."""
    from evenhand.tasks.registry.policy_people import digest_of_measurement

    content: dict[str, Any] = {
        "version": version,
        "files": _publication(chain, version).content["files"],
    }
    if policy is None:
        evaluation = next(reversed(evaluations), None)
    else:
        evaluation, reason = evidence_for(policy.content, chain, evaluations)
        if evaluation is None:
            raise InputError(
                f"there is nothing to approve of {chain.name} version {version}: {reason}. "
                f"`evenhand evaluate models:/{chain.name}/{version} --policy` evaluates it."
            )
        content["policy"] = policy.digest
    if evaluation is not None:
        content["evaluation"] = evaluation.get("record")
        content["measured"] = digest_of_measurement(evaluation)
    return content


def _refused(
    uri: str, name: str, refused: Refused, verb: str, policy: Record | None
) -> GateRefused:
    """Record that something other than a promotion was refused; return the error to raise."""
    _record_refusal(uri, name, refused)
    of_policy = ""
    if policy is not None:
        of_policy = f" ({in_force(policy)})"
    version = refused.content.get("version")
    subject = f"the policy of {name}"
    if version:
        subject = f"{name} version {version}"
    return GateRefused(f"{subject} was not {verb}: {refused.reason}{of_policy}.", 1)


@waits_for_service
def set_policy(uri: str, name: str, rules: Mapping[str, Any]) -> Record:
    """Add a policy to a model's chain.

    Raises `GateRefused`, and records that, where the policy in force lists keys that may replace
    it, and this process signs with none of them.
    """
    from evenhand.tasks.registry.policy_people import keys_of
    from evenhand.tasks.registry.policy_traces import (
        leave_traces_everywhere,
        may_set_again,
    )
    from evenhand.tasks.registry.signed_records import own_key

    with registry_client(uri) as client:
        chain = settled_chain(client, name, WAITING)
        policy = chain.policy
        allowed_keys: list[str] = []
        if policy is not None:
            allowed_keys = keys_of(policy.content, "set_by")
        reason = may_set_again(chain, tags_of_versions(client, name), own_key())
        if allowed_keys and own_key() not in allowed_keys:
            reason = "only a key that it lists in set_by may replace it: --key FILE names yours"
        if reason is None:
            made = append(client, name, "policy", rules, seen=chain, unless=_refuse_new_policy)
            leave_traces_everywhere(client, name)
            return made
    if not chain.records:
        raise GateRefused(f"the policy of {name} was not set: {reason}.", 1)
    raise _refused(uri, name, Refused("policy set", reason), "set", policy)


def _refuse_new_policy(record: Record) -> None:
    """Raise `NotCarriedOut` for a policy that was set since the chain was read.

    By that policy this one may count for nothing, and its writer has not seen it.
    """
    if record.kind == "policy":
        raise NotCarriedOut(
            f"another policy was set at the same moment, by {record.who} ({record.when}): look at "
            "it, then set yours again."
        )


def sign(uri: str, name: str, version: str, key_file: Path) -> Record:
    """Record a signature of a version's files as they were published.

    Raises `InputError` if the key cannot be used, the policy names others, or the files were
    changed.
    """
    from evenhand.tasks.registry.signatures import read_private_key, signature

    key = read_private_key(key_file)
    with registry_client(uri) as client:
        chain = settled_chain(client, name, WAITING)
        files = _publication(chain, version).content["files"]
        reason = damage(uri, chain, version, required=True)
        if reason:
            raise InputError(f"{name} version {version} cannot be signed: {reason}.")
        made = signature(key, name, files)
        allowed_keys = None
        if chain.policy:
            allowed_keys = chain.policy.content.get("signed_by")
        if not allowed_keys or made["key"] in allowed_keys:
            return append(client, name, "signature", {"version": version, **made})
    reason = f"--key {key_file.name} is none of the keys that the policy names in signed_by"
    refused = Refused("sign", reason, version=version)
    raise _refused(uri, name, refused, "signed", chain.policy)


def _publication(chain: Chain, version: str) -> Record:
    made = chain.of("version", version)
    if not made:
        raise InputError(
            f"no record says who published {chain.name} version {version}: publish it again."
        )
    return made[0]


def holds_back(policy: Mapping[str, Any], evaluation: Mapping[str, Any]) -> str | None:
    """Why a run may publish a version, but not make it champion; None if it may."""
    conditions = {
        "holdout": "an evaluation on its holdout",
        "approvals": "approvals",
        "signed_by": "signatures",
        "group_sizes": "a count of named groups",
        "alternative": "a search for alternatives",
    }
    for key, words in conditions.items():
        if policy.get(key):
            return f"the policy asks for {words}"
    keys = policy.get("keys") or {}
    for role in ("trained_by", "measured_by", "promoted_by"):
        if keys.get(role):
            return f"the policy lists keys in {role}"
    promoters = policy.get("promoters")
    if promoters and actor() not in promoters:
        return f"the policy names who may promote ({', '.join(promoters)})"
    if policy["min_age"]:
        return f"the policy asks for an age of {policy['min_age']:g} hours"
    if not _counts(policy, evaluation):
        return "the job's gates lack gates of the policy"
    terms = terms_of(policy)
    return (
        measured_otherwise(terms, evaluation)
        or judged_otherwise(terms, evaluation)
        or _refusal(evaluation)
        or _lacks(policy, evaluation)
    )


def _without_policy(
    chain: Chain, version: str, alias: str, evaluations: list[dict[str, Any]]
) -> tuple[dict[str, Any], str | None]:
    """The newest evaluation, and why it does not allow a promotion.

    A refusal stands until the gates that refused have passed: other gates do not undo it.
    """
    last: dict[str, Any] = {}
    if evaluations:
        last = evaluations[-1]
    refused = refusal_of(evaluations)
    reason = _refusal(last) or _shares_rows(last, SAME_ROWS, None, required=False)
    # who records an evaluation adds it to the chain, so a policy may have been removed with it
    if reason is None and last.get("evenhand") and not chain.of("evaluation", version):
        reason = MISSING_RECORDS.format(name=chain.name, version=version)
    if reason is None and refused is not None:
        reason = f"the evaluation {refused.get('run_id')} by other gates did not pass it"
    return last, reason or _outdated(chain, version, alias, last)


def refusal_of(evaluations: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The newest evaluation by gates that refused a version and have not passed it since."""
    newest = {
        json.dumps(item.get("gates"), sort_keys=True): item
        for item in evaluations
        if item.get("kind") != "run"
    }
    return next((item for item in newest.values() if item.get("verdict") != "passed"), None)


def _refusal(evaluation: Mapping[str, Any]) -> str | None:
    """Reason why an evaluation does not allow a promotion; None if it does."""
    verdict = evaluation.get("verdict")
    if verdict == "passed":
        if evaluation.get("same_table"):
            return "its recorded evaluation is on the table that it learned from"
        return None
    reasons = {
        None: "no evaluation of it is recorded",
        "no_gates": "it was never judged by gates",
        "refused": "its recorded evaluation was refused by the gates",
    }
    return reasons.get(verdict, "its recorded evaluation lacks evidence for a gate")


def _shares_rows(
    evaluation: Mapping[str, Any], limit: float, terms: Terms | None, *, required: bool
) -> str | None:
    """Reason if too many of an evaluation's rows are training rows, or could be."""
    share = evaluation.get("overlap")
    noticed_from = evaluation.get("overlap_noticed_from")
    if required and terms is not None and (share is None or share <= limit):
        if noticed_from is not None:
            return _too_coarse(noticed_from, terms)
        if share is not None and terms.max_unnoticed is not None:
            return "its record does not say which copied share would be noticed: evaluate it again"
    if share is None and required:
        return UNKNOWN_SHARE
    if share is None or share <= limit:
        return None
    return (
        f"it was trained on {share:.0%} of the rows of its evaluation, and at most {limit:.0%} may "
        "be"
    )


def _too_coarse(noticed_from: float, terms: Terms) -> str | None:
    """Reason if copied rows of a holdout could go unnoticed, and the policy does not accept it."""
    limit = terms.max_unnoticed
    if limit is None:
        limit = MAX_UNNOTICED
    if noticed_from <= limit:
        return None
    return UNNOTICED.format(share=math.ceil(noticed_from * 100) / 100, limit=limit)


def _outdated(chain: Chain, version: str, alias: str, evaluation: Mapping[str, Any]) -> str | None:
    """Reason why the evaluation's baseline no longer counts: another version has the alias now.

    A version that had the alias before may get it back: a rollback is always possible.
    """
    current = chain.aliases.get(alias)
    baseline = str(evaluation.get("baseline") or "")
    ours = baseline.startswith(f"models:/{chain.name}/")
    if current is None or current == version:
        return None
    if not ours or baseline == f"models:/{chain.name}/{current}":
        return None
    if any(move.content["from_version"] == version for move in chain.moves(alias)):
        return None
    compared = baseline.rpartition("/")[2]
    return f"it was compared with version {compared}, and version {current} is {alias} now"
