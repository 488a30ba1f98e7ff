"""Who must have trained, measured, approved and promoted a version, by the keys that a policy
lists.

Where a policy lists no keys, approvals count by the name of the acting person, which is no proof.
"""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from evenhand.tasks.registry.ledger import Chain, Record, actor
from evenhand.tasks.registry.signatures import SHOWN, unsigned
from evenhand.tasks.registry.signed_records import own_key, signer

# Roles of keys, as a policy's `keys` and the options of `policy set` name them, and who has them.
ROLES = {
    "set_by": "may set the policy",
    "trained_by": "trains",
    "measured_by": "measures",
    "approved_by": "approves",
    "promoted_by": "promotes",
}
# What an approval is of: the parts of an evaluation that another one must repeat.
MEASURED = (
    "verdict",
    "gates",
    "settings",
    "judged",
    "favourable",
    "copies",
    "kept",
    "sizes",
    "holdout",
    "overlap",
    "overlap_method",
    "model",
)
# Significant digits of values that two machines must share.
DIGITS = 9


def keys_of(rules: Mapping[str, Any], role: str) -> list[str]:
    """Return the keys that a policy lists for one of `ROLES`."""
    return list((rules.get("keys") or {}).get(role) or ())


def digest_of_measurement(evaluation: Mapping[str, Any]) -> str:
    """Return the sha256 of what an evaluation measured, by anybody and at any time."""
    values = {}
    for name, value in (evaluation.get("values") or {}).items():
        values[name] = value
        if isinstance(value, float):
            values[name] = f"{value:.{DIGITS}g}"
    content = {key: evaluation.get(key) for key in MEASURED}
    text = json.dumps({**content, "values": values}, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def signed_by_measurer(
    rules: Mapping[str, Any], chain: Chain, evaluation: Mapping[str, Any]
) -> bool:
    """Whether a key that the policy lists has measured, or the policy lists none."""
    keys = keys_of(rules, "measured_by")
    return not keys or _signer_of(chain, evaluation) in keys


def _signer_of(chain: Chain, evaluation: Mapping[str, Any]) -> str:
    """Return the key that signed an evaluation's record; empty if none did."""
    for record in chain.records:
        if record.digest == evaluation.get("record"):
            return signer(chain.name, record)
    return ""


def unmet_by_people(
    policy: Record, chain: Chain, version: str, evaluation: Mapping[str, Any]
) -> str | None:
    """Say why the people of a version do not allow its promotion; None if they do."""
    rules = policy.content
    published = chain.of("version", version)
    if not published:
        return "no record says who published it: publish it again"
    return (
        _too_young(rules, chain, published[0])
        or _trained_by_others(rules, chain, published[0])
        or _lacks_approvals(policy, chain, version, evaluation)
        or _lacks_signatures(rules, chain, version)
        or _may_not_promote(rules)
    )


def _too_young(rules: Mapping[str, Any], chain: Chain, published: Record) -> str | None:
    if not rules["min_age"]:
        return None
    age = datetime.datetime.now(datetime.UTC) - chain.earliest_time(published)
    if age >= datetime.timedelta(hours=rules["min_age"]):
        return None
    hours = age.total_seconds() / 3600
    return f"it is {hours:.1f} hours old, and the policy asks for {rules['min_age']:g}"


def _trained_by_others(rules: Mapping[str, Any], chain: Chain, published: Record) -> str | None:
    keys = keys_of(rules, "trained_by")
    if not keys or signer(chain.name, published) in keys:
        return None
    return "the record of its publication is signed by no key that the policy lists in trained_by"


def approvals_of(
    policy: Record, chain: Chain, version: str, evaluation: Mapping[str, Any]
) -> dict[str, Record]:
    """Return the approvals that count, by key or, where the policy lists no keys, by name.

    An approval counts for the files, the measurement and the policy that it names. A key that
    signed the publication or the measurement approves nothing.
    """
    published = chain.of("version", version)[0]
    approved = {
        "files": published.content["files"],
        "measured": digest_of_measurement(evaluation),
        "policy": policy.digest,
    }
    keys = keys_of(policy.content, "approved_by")
    excluded = {signer(chain.name, published), _signer_of(chain, evaluation)}
    approvals = {}
    for record in chain.of("approval", version):
        if not approved.items() <= record.content.items():
            continue
        if not keys and record.who != published.who:
            approvals[record.who] = record
        key = signer(chain.name, record) if keys else ""
        if key in keys and key not in excluded:
            approvals[key] = record
    return approvals


def _lacks_approvals(
    policy: Record, chain: Chain, version: str, evaluation: Mapping[str, Any]
) -> str | None:
    approvals = approvals_of(policy, chain, version, evaluation)
    approvals_needed = policy.content["approvals"]
    if len(approvals) >= approvals_needed:
        return None
    by = ""
    if approvals:
        by = f" ({', '.join(shown(key) for key in sorted(approvals))})"
    option = ""
    if keys_of(policy.content, "approved_by"):
        option = " --key FILE"
    reason = f"it has {len(approvals)} of {approvals_needed} approvals{by}"
    not_counting = len(chain.of("approval", version)) - len(approvals)
    if not_counting:
        verb = "do" if not_counting > 1 else "does"
        why = "for another evaluation or policy, or by another key"
        reason += f", and {not_counting} {verb} not count ({why})"
    return f"{reason}: `evenhand approve {chain.name}/{version}{option}`"


def shown(key: str) -> str:
    """Shorten a key for messages; a name stays."""
    if len(key) == 64 and set(key) <= set("0123456789abcdef"):
        return key[:SHOWN]
    return key


def _lacks_signatures(rules: Mapping[str, Any], chain: Chain, version: str) -> str | None:
    reason = unsigned(chain, version, rules.get("signed_by", ()))
    if reason:
        return f"{reason}: `evenhand sign {chain.name}/{version} --key FILE`"
    return None


def _may_not_promote(rules: Mapping[str, Any]) -> str | None:
    promoters = rules["promoters"]
    if promoters and actor() not in promoters:
        return f"{actor()} may not promote it: the policy names {', '.join(promoters)}"
    keys = keys_of(rules, "promoted_by")
    if keys and own_key() not in keys:
        return (
            "nobody may promote it without a key that the policy lists in promoted_by: --key FILE "
            "or EVENHAND_KEY names yours"
        )
    return None


def cannot_approve(rules: Mapping[str, Any], chain: Chain, version: str) -> str | None:
    """Say why the acting person's approval of a version would not count; None if it would."""
    published = chain.of("version", version)[0]
    keys = keys_of(rules, "approved_by")
    if not keys:
        if published.who == actor():
            return f"{actor()} published it, and an author's own approval does not count"
        return None
    key = own_key()
    if not key:
        return "the policy counts approvals by the keys in approved_by: --key FILE names yours"
    if key not in keys:
        return f"the key {shown(key)} is none of those that the policy lists in approved_by"
    if key == signer(chain.name, published):
        return f"the key {shown(key)} signed its publication, and an author approves nothing"
    return None


def unsigned_moves(chain: Chain) -> list[str]:
    """Describe an alias whose last move no key of the policy's `promoted_by` has signed.

    Moves from before the policy was set are not judged by it.
    """
    policy = chain.policy
    if policy is None:
        return []
    keys = keys_of(policy.content, "promoted_by")
    faults = []
    for alias, version in sorted(chain.aliases.items()):
        moves = chain.moves(alias)
        if not keys or not moves or alias == "challenger" or moves[-1].number < policy.number:
            continue
        if signer(chain.name, moves[-1]) not in keys:
            faults.append(
                f"{alias} is version {version} by record {moves[-1].number}, which no key of the "
                "policy's promoted_by signed"
            )
    return faults


def false_records(chain: Chain) -> list[str]:
    """Describe records with a signature that does not hold, and policies that do not count."""
    faults = []
    for record in chain.records:
        if record.record_signature and not signer(chain.name, record):
            faults.append(f"record {record.number} has a false signature")
    for record in chain.ignored_policies:
        faults.append(
            f"record {record.number}, a policy by {record.who}, counts for nothing: no key of the "
            "policy before it (set_by) signed it"
        )
    return faults


def check_roles(keys: Mapping[str, Sequence[str]]) -> str | None:
    """Say which key has two roles that must be of different people; None if none has."""
    for role in ("trained_by", "measured_by"):
        for key in keys.get(role, ()):
            if key in keys.get("approved_by", ()):
                return (
                    f"the key {shown(key)} is in {role} and in approved_by, and who {ROLES[role]} "
                    "approves nothing: give other keys"
                )
    return None
