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
    content = record.content
    if record.kind == "version":
        return f"files {hashlib.sha256(content['files'].encode()).hexdigest()[:12]}"
    if record.kind == "policy":
        if not content.get("gates"):
            return "removed"
        return f"gates on {', '.join(content['gates'])}"
    if record.kind == "approval":
        return _describe_approval(record)
    if record.kind == "refusal" and content["action"] == REVIEW:
        return f"refused by a person: {content['reason']}"
    if record.kind == "refusal":
        return f"{content['action']} refused: {content['reason']}"
    if record.kind == "signature":
        return f"with the key {content['key'][:SHOWN]}"
    if record.kind == "move":
        return _describe_evaluation(content["evaluation"]) + _described_note(content)
    return _describe_evaluation(content)


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
    """What the person who wrote a record said about it."""
    note = content.get("note")
    if not note:
        return ""
    return f"; reason: {note}"


def _describe_evaluation(evaluation: Mapping[str, Any]) -> str:
    origin = evaluation.get("run_id") or "the gates of its own run"
    verdict = str(evaluation.get("verdict", "not recorded")).replace("_", " ")
    text = f"{verdict} by {origin}"
    fingerprint = evaluation.get("data_fingerprint")
    if fingerprint:
        text += f" on data {str(fingerprint)[:12]}"
    return text
