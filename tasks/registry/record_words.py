"""Records of a chain in a few words, for the terminal and for pages."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from evenhand.tasks.registry.ledger import Record
from evenhand.tasks.registry.policy import REVIEW
from evenhand.tasks.registry.policy_people import shown
from evenhand.tasks.registry.signatures import SHOWN


def describe_record(record: Record) -> str:
    """Describe a record's content in a few words."""
    describe = {
        "version": _describe_publication,
        "policy": _describe_policy,
        "approval": _describe_approval,
        "refusal": _describe_refusal,
        "signature": _describe_signature,
        "move": _describe_move,
        "alternative": _describe_alternative,
    }.get(record.kind, _describe_measurement)
    return describe(record)


def _describe_publication(record: Record) -> str:
    return f"files {hashlib.sha256(record.content['files'].encode()).hexdigest()[:12]}"


def _describe_policy(record: Record) -> str:
    gates = record.content.get("gates")
    if not gates:
        return "removed"
    return f"gates on {', '.join(gates)}"


def _describe_refusal(record: Record) -> str:
    content = record.content
    if content["action"] == REVIEW:
        return f"refused by a person: {content['reason']}"
    return f"{content['action']} refused: {content['reason']}"


def _describe_signature(record: Record) -> str:
    return f"with the key {record.content['key'][:SHOWN]}"


def _describe_alternative(record: Record) -> str:
    content = record.content
    models = content.get("judged_models", content["models"])
    if content["alternative_gap"] == 0:
        return f"search for alternatives: no better {content['metric']} found in {models} models"
    return (
        f"search for alternatives: {content['metric']} better by {content['alternative_gap']:.3g} "
        f"found in {models} models"
    )


def _describe_move(record: Record) -> str:
    return _describe_evaluation(record.content["evaluation"]) + _described_note(record.content)


def _describe_measurement(record: Record) -> str:
    return _describe_evaluation(record.content)


def _describe_approval(record: Record) -> str:
    """Name the key, and the evaluation and the policy that an approval is of, in a few digits."""
    parts = []
    if record.record_key:
        parts.append(f"with the key {shown(record.record_key)}")
    for name in ("evaluation", "policy"):
        digest = record.content.get(name)
        if digest:
            parts.append(f"of the {name} {str(digest)[:12]}")
    return ", ".join(parts) + _described_note(record.content)


def _described_note(content: Mapping[str, Any]) -> str:
    """The reason that the person who wrote a record gave."""
    note = content.get("note")
    if not note:
        return ""
    return f"; reason: {note}"


def _describe_evaluation(evaluation: Mapping[str, Any]) -> str:
    origin = evaluation.get("run_id") or "the gates of its own run"
    verdict = str(evaluation.get("verdict", "not recorded")).replace("_", " ")
    text = f"{verdict} by {origin}"
    if evaluation.get("unmet"):
        text = f"gates {verdict}, but not accepted by the policy, by {origin}"
    fingerprint = evaluation.get("data_fingerprint")
    if fingerprint:
        text += f" on data {str(fingerprint)[:12]}"
    return text
