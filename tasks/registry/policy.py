"""Policies: what a version of a registered model must have passed before it gets an alias."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evenhand.tasks.errors import InputError, waits_for_service
from evenhand.tasks.registry.client import damaged_files, registry_client
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
from evenhand.tasks.registry.policy_terms import judged_otherwise, measured_otherwise, terms_of

# An alias that no policy guards: versions wait there.
WAITING = "challenger"
# Without a policy: share of an evaluation's rows among the training rows from which it is no
# evidence.
SAME_ROWS = 0.9
# Times that a version is judged again because a policy or an evaluation was recorded meanwhile.
JUDGEMENTS = 10


@waits_for_service
def promote(uri: str, name: str, version: str, alias: str) -> Record | None:
    """Give a version an alias if its recorded evaluations allow it; None if it has the alias
    already.

    Raises `InputError` if the model's policy, or without one any of its evaluations, does not allow
    it, or its files were changed; `NotCarriedOut` if the alias was moved at the same moment. The
    policy that counts is the one in force when the move is recorded.
    """
    for attempt in range(JUDGEMENTS):
        try:
            return _judge_and_move(uri, name, version, alias)
        except EvidenceChangedError:
            if attempt == JUDGEMENTS - 1:
                raise
    raise AssertionError("unreachable: the last attempt returns or raises")


def _judge_and_move(uri: str, name: str, version: str, alias: str) -> Record | None:
    """Judge a version by the chain as it is now, and move the alias unless the evidence changes
    meanwhile.
    """
    with registry_client(uri) as client:
        chain = settled_chain(client, name, alias)
        policy = None
        if alias != WAITING:
            policy = chain.policy
        evaluations = evaluations_of(client, chain, version)
        if policy is not None:
            allowed, reason = judge(policy, chain, version, evaluations)
        else:
            allowed, reason = _without_policy(chain, version, alias, evaluations)
        reason = reason or damage(uri, chain, version, required=policy is not None)
        if reason:
            option = "--policy" if policy is not None else "--data … --gates …"
            raise InputError(
                f"{name} version {version} cannot become {alias}: {reason}. `evenhand evaluate "
                f"models:/{name}/{version} {option}` evaluates it."
            )
        return move_alias(
            client,
            name,
            alias,
            version,
            reason="promote",
            evaluation=allowed,
            seen=chain,
            judged=True,
        )


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
    rules = policy.content
    terms = terms_of(rules)
    by_gates = [item for item in evaluations if _counts(rules, item)]
    evidence = [item for item in by_gates if measured_otherwise(terms, item) is None]
    if not evidence:
        holdout = ""
        if rules.get("holdout"):
            holdout = " on the agreed holdout"
        reason = f"no evaluation of it by the policy's gates{holdout} is recorded"
        if by_gates:
            reason = f"its evaluation does not count: {measured_otherwise(terms, by_gates[-1])}"
        return {}, reason
    last = evidence[-1]
    return last, (
        _refusal(last)
        or judged_otherwise(terms, last)
        or _shares_rows(last, rules["max_overlap"], required=bool(rules.get("holdout")))
        or _lacks(rules, last)
        or _people(rules, chain, version)
    )


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
        or _shares_rows(evaluation, rules["max_overlap"], required=bool(rules.get("holdout")))
    )


def _counts(rules: Mapping[str, Any], evaluation: Mapping[str, Any]) -> bool:
    """Whether an evaluation applied all gates of the policy, on its holdout."""
    applied = evaluation.get("gates")
    if not isinstance(applied, Mapping):
        applied = {}
    strict = all(applied.get(metric) == limits for metric, limits in rules["gates"].items())
    holdout = rules.get("holdout")
    return strict and (not holdout or evaluation.get("holdout") == holdout["digest"])


def _lacks(rules: Mapping[str, Any], evaluation: Mapping[str, Any]) -> str | None:
    values = evaluation.get("values", {})
    for metric in rules["required"]:
        if values.get(metric) is None:
            return f"the policy requires the metric {metric}, and the evaluation has no value of it"
    return None


def _people(rules: Mapping[str, Any], chain: Chain, version: str) -> str | None:
    """Whether the version is old enough, and approved by enough people; who may promote."""
    made = chain.of("version", version)
    if not made:
        return "no record says who published it: publish it again"
    age = datetime.datetime.now(datetime.UTC) - datetime.datetime.fromisoformat(made[0].when)
    if age < datetime.timedelta(hours=rules["min_age"]):
        hours = age.total_seconds() / 3600
        return f"it is {hours:.1f} hours old, and the policy asks for {rules['min_age']:g}"
    approved = sorted({record.who for record in chain.of("approval", version)} - {made[0].who})
    if len(approved) < rules["approvals"]:
        by = ""
        if approved:
            by = f" ({', '.join(approved)})"
        return (
            f"it has {len(approved)} of {rules['approvals']} approvals{by}: `evenhand approve "
            f"{chain.name}/{version}`"
        )
    # imported lazily: a cached run needs no cryptography
    from evenhand.tasks.registry.signatures import unsigned

    reason = unsigned(chain, version, rules.get("signed_by", ()))
    if reason:
        return f"{reason}: `evenhand sign {chain.name}/{version} --key FILE`"
    if rules["promoters"] and actor() not in rules["promoters"]:
        return f"{actor()} may not promote it: the policy names {', '.join(rules['promoters'])}"
    return None


@waits_for_service
def approve(uri: str, name: str, version: str) -> Record:
    """Record that the acting person approves a version; an `InputError` if it is the one who
    published it.
    """
    with registry_client(uri) as client:
        chain = settled_chain(client, name, WAITING)
        made = _publication(chain, version)
        if made.who == actor():
            raise InputError(
                f"{actor()} published {name} version {version}, and an author's own approval does "
                "not count: ask someone else."
            )
        return append(
            client, name, "approval", {"version": version, "files": made.content["files"]}
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
        if allowed_keys and made["key"] not in allowed_keys:
            raise InputError(
                f"--key {key_file} is none of the keys that the policy of {name} names."
            )
        return append(client, name, "signature", {"version": version, **made})


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
    }
    for key, words in conditions.items():
        if policy.get(key):
            return f"the policy asks for {words}"
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
    reason = _refusal(last) or _shares_rows(last, SAME_ROWS, required=False)
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


def _shares_rows(evaluation: Mapping[str, Any], limit: float, *, required: bool) -> str | None:
    """Reason if too many of an evaluation's rows are training rows."""
    share = evaluation.get("overlap")
    if share is None and required:
        return "the share of the evaluated rows that it was trained on is not known"
    if share is None or share <= limit:
        return None
    return (
        f"it was trained on {share:.0%} of the rows of its evaluation, and at most {limit:.0%} may "
        "be"
    )


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
