"""Events of verdicts: about which model and version, and nothing about people."""

from __future__ import annotations

from typing import Any

import pytest

from evenhand.flows import run_events
from evenhand.flows.run_events import describe, event_of, refusal_of
from evenhand.flows.run_verdict import Verdict
from evenhand.tasks.errors import GateRefused

MODEL = {"name": "campaign", "version": "3", "alias": "champion", "uri": "models:/campaign/3"}


@pytest.mark.parametrize(
    ("status", "code", "event"),
    [
        ("published", 0, "evenhand.version.published"),
        ("up_to_date", 0, "evenhand.version.confirmed"),
        ("evaluated", 0, "evenhand.version.evaluated"),
        ("monitored", 0, "evenhand.version.monitored"),
        ("gated", 1, "evenhand.version.refused"),
        ("evaluated", 1, "evenhand.version.refused"),
        ("monitored", 1, "evenhand.version.drift"),
        ("gated", 3, "evenhand.version.no-evidence"),
        ("monitored", 3, "evenhand.version.no-evidence"),
        ("failed", 2, None),
        ("failed", 4, None),
        ("filtered", 0, None),
    ],
)
def test_each_verdict_has_its_event(status: str, code: int, event: str | None) -> None:
    assert event_of(Verdict("run", status, code)) == event


def test_an_event_names_model_and_version() -> None:
    gates = {"results": [{"passed": False, "text": "auc is 0.5"}, {"passed": True, "text": "ok"}]}
    content = describe(Verdict("run", "evaluated", 1, model=MODEL, gates=gates), "campaign")
    assert content is not None
    assert content["resource"]["prefect.resource.id"] == "evenhand.model.campaign"
    (version,) = content["related"]
    assert version["prefect.resource.id"] == "evenhand.version.campaign.3"
    assert version["prefect.resource.role"] == "version"
    assert content["payload"]["refused"] == ["auc is 0.5"]
    # a refused training has no version yet
    content = describe(Verdict("run", "gated", 1), "campaign")
    assert content is not None
    assert (content["related"], content["payload"]["version"]) == ([], None)
    assert describe(Verdict("run", "failed", 2), "campaign") is None


def test_a_refusal_names_its_reason_by_its_class() -> None:
    # the automations match these beginnings, so they are part of what a server keeps
    names: dict[tuple[str, int], Any] = {
        ("gated", 1): "GateRefused",
        ("monitored", 1): "GateRefusedDrift",
        ("gated", 3): "GateRefusedEvidence",
        ("monitored", 3): "GateRefusedEvidence",
    }
    for (status, code), name in names.items():
        error = refusal_of(Verdict("run", status, code), "auc is 0.5")
        assert (type(error).__name__, error.exit_code, str(error)) == (name, code, "auc is 0.5")
        assert isinstance(error, GateRefused)


def test_an_event_that_cannot_be_sent_fails_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = []

    def emit_event(**content: Any) -> None:
        sent.append(content["event"])
        raise ConnectionError("no server")

    monkeypatch.setattr("prefect.events.emit_event", emit_event)
    run_events.emit(Verdict("run", "published", 0, model=MODEL), "campaign")
    run_events.emit(Verdict("run", "failed", 2), "campaign")
    assert sent == ["evenhand.version.published"]
