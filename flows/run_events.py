"""What a run sends a Prefect server, besides its state: events about models, and reasons of
refusals.

An event's resource is the model, ``evenhand.model.NAME``; a version of it is a related resource,
``evenhand.version.NAME.VERSION`` with the role `version`. Automations can act on both.
"""

from __future__ import annotations

import contextlib
import logging
import os
from pathlib import Path
from typing import Any
from urllib.parse import quote

from evenhand.flows.run_verdict import Verdict
from evenhand.tasks.errors import GateRefused, without_secrets

PUBLISHED = "evenhand.version.published"
CONFIRMED = "evenhand.version.confirmed"
EVALUATED = "evenhand.version.evaluated"
MONITORED = "evenhand.version.monitored"
REFUSED = "evenhand.version.refused"
DRIFT = "evenhand.version.drift"
NO_EVIDENCE = "evenhand.version.no-evidence"
EVENTS = {
    PUBLISHED: "A run has published a version.",
    CONFIRMED: "A retraining had nothing to do: the version in use is of the same data and job.",
    EVALUATED: "An evaluation's gates have passed a version, or there were none.",
    MONITORED: "New rows are like the training rows of a version.",
    REFUSED: "Gates have refused a model or a version.",
    DRIFT: "New rows differ from the training rows of a version by more than the limits.",
    NO_EVIDENCE: "There were too few rows for a gate.",
}
PASSED = {
    "published": PUBLISHED,
    "up_to_date": CONFIRMED,
    "evaluated": EVALUATED,
    "monitored": MONITORED,
}


# Prefect writes the name of an exception's class into the message of a run's state, by which the
# automations of `evenhand.flows.services` distinguish the reasons. All names begin alike.
class GateRefusedDrift(GateRefused):
    """New rows have drifted beyond the limits."""


class GateRefusedEvidence(GateRefused):
    """There is not enough evidence for a gate."""


def refusal_of(verdict: Verdict, message: str) -> GateRefused:
    """Return the exception of a verdict whose exit code is not 0, by its reason."""
    if verdict.exit_code == 3:
        return GateRefusedEvidence(message, verdict.exit_code)
    if verdict.status == "monitored":
        return GateRefusedDrift(message, verdict.exit_code)
    return GateRefused(message, verdict.exit_code)


def outcome(verdict: Verdict) -> str:
    """Say in a few words how a run has ended, for the name of its flow run."""
    if verdict.exit_code == 3:
        return "not enough evidence"
    if verdict.exit_code == 1:
        return "drifted" if verdict.status == "monitored" else "refused"
    if verdict.exit_code != 0:
        return "failed in part"
    version = (verdict.model or {}).get("version")
    if verdict.status == "published" and version:
        return f"published version {version}"
    if verdict.status == "evaluated" and verdict.gates.get("results"):
        return "passed"
    if verdict.status == "monitored":
        return "no drift"
    return verdict.status.replace("_", " ")


def log_lines(verdict: Verdict) -> list[tuple[int, str]]:
    """Return what a run's log says of its verdict: level and text of each gate, of the model, of
    the notes and of the report.
    """
    lines = []
    for result in verdict.gates.get("results", []):
        if result["passed"]:
            lines.append((logging.INFO, f"pass  {result['text']}"))
        elif result["status"] == "ok":
            lines.append((logging.WARNING, f"FAIL  {result['text']}"))
        else:
            lines.append((logging.WARNING, f"open  {result['text']}"))
    for note in verdict.notes:
        lines.append((logging.INFO, note))
    if verdict.model and verdict.status == "published":
        model = verdict.model
        name = f"{model['name']} version {model['version']}"
        lines.append((logging.INFO, f"published {name} as {model['alias']}"))
    if "report" in verdict.artifacts:
        lines.append((logging.INFO, f"report {verdict.artifacts['report']}"))
    lines.append((logging.INFO, f"{verdict.run_id}: {outcome(verdict)}"))
    return lines


def links(verdict: Verdict) -> dict[str, tuple[str, str]]:
    """Return address and text of what a run's page links to: the report, and the version on the
    MLflow server.

    ``EVENHAND_REPORTS_URL`` is the address at which browsers reach the folder ``runs`` of the
    store; without it the report's link is its file's.
    """
    addresses = {}
    report = verdict.artifacts.get("report")
    if report:
        base = os.environ.get("EVENHAND_REPORTS_URL")
        address = report
        if base:
            address = f"{base.rstrip('/')}/{verdict.run_id}/report.html"
        elif "://" not in report:
            address = Path(report).resolve().as_uri()
        addresses["report"] = (without_secrets(address), f"Report of {verdict.run_id}")
    registry = os.environ.get("MLFLOW_TRACKING_URI", "")
    model = verdict.model or {}
    if model.get("version") and registry.startswith(("http://", "https://")):
        place = f"{without_secrets(registry).rstrip('/')}/#/models/{quote(model['name'])}"
        address = f"{place}/versions/{model['version']}"
        addresses["version"] = (address, f"{model['name']} version {model['version']}")
    return addresses


def event_of(verdict: Verdict) -> str | None:
    """Return the event of a verdict; None if it is about no model, or the run has failed."""
    if verdict.exit_code == 3:
        return NO_EVIDENCE
    if verdict.exit_code == 1:
        if verdict.status == "monitored":
            return DRIFT
        return REFUSED
    if verdict.exit_code == 0:
        return PASSED.get(verdict.status)
    return None


def describe(verdict: Verdict, model: str) -> dict[str, Any] | None:
    """Return the arguments of Prefect's ``emit_event`` for a verdict about a model.

    The payload has numbers and gates, and no row and no value of a person. None without an event.
    """
    event = event_of(verdict)
    if event is None:
        return None
    related = []
    version = None
    alias = ""
    if verdict.model is not None and verdict.model.get("version"):
        model = str(verdict.model["name"])
        version = str(verdict.model["version"])
        alias = str(verdict.model.get("alias") or "")
        related.append(
            {
                "prefect.resource.id": f"evenhand.version.{model}.{version}",
                "prefect.resource.role": "version",
                "prefect.resource.name": f"{model} version {version}",
            }
        )
    failed_gates = []
    for result in verdict.gates.get("results", []):
        if not result["passed"]:
            failed_gates.append(result["text"])
    return {
        "event": event,
        "resource": {
            "prefect.resource.id": f"evenhand.model.{model}",
            "prefect.resource.name": model,
            "evenhand.run": verdict.run_id,
            "evenhand.alias": alias,
        },
        "related": related,
        "payload": {
            "run_id": verdict.run_id,
            "status": verdict.status,
            "exit_code": verdict.exit_code,
            "model": model,
            "version": version,
            "alias": alias,
            "refused": failed_gates,
            "notes": list(verdict.notes),
            "report": verdict.artifacts.get("report"),
        },
    }


def emit(verdict: Verdict, model: str) -> None:
    """Send the event of a verdict to the Prefect server of this run.

    An event that cannot be sent fails no run: the alerts about refused runs act on states.
    """
    content = describe(verdict, model)
    if content is None:
        return
    from prefect.events import emit_event

    with contextlib.suppress(Exception):
        emit_event(**content)
