"""Events of verdicts: about which model and version, and nothing about people."""

from __future__ import annotations

from typing import Any

import pytest

from evenhand.flows import run_events
from evenhand.flows.run_events import describe, event_of, links, log_lines, outcome, refusal_of
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


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [
        ("published", 0, "published version 3"),
        ("gated", 1, "refused"),
        ("gated", 3, "not enough evidence"),
        ("monitored", 1, "drifted"),
        ("monitored", 0, "no drift"),
        ("up_to_date", 0, "up to date"),
        ("predicted", 2, "failed in part"),
        ("predicted", 0, "predicted"),
    ],
)
def test_the_name_of_a_run_says_how_it_ended(status: str, code: int, words: str) -> None:
    verdict = Verdict("run", status, code, model={"name": "people", "version": "3"})
    assert outcome(verdict) == words


def test_the_log_has_every_gate_and_the_report() -> None:
    gates = {
        "results": [
            {"passed": True, "status": "ok", "text": "auc is 0.8"},
            {"passed": False, "status": "ok", "text": "gap is 0.3"},
            {"passed": False, "status": "insufficient_evidence", "text": "gap of 3 people"},
        ]
    }
    verdict = Verdict("r-1", "gated", 1, gates=gates, notes=["a note"])
    verdict.artifacts["report"] = "/srv/store/runs/r-1/report.html"
    assert log_lines(verdict) == [
        (20, "pass  auc is 0.8"),
        (30, "FAIL  gap is 0.3"),
        (30, "open  gap of 3 people"),
        (20, "a note"),
        (20, "report /srv/store/runs/r-1/report.html"),
        (20, "r-1: refused"),
    ]


def test_links_lead_to_the_report_and_the_version(monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = Verdict("r-1", "published", 0, model={"name": "people", "version": "3"})
    verdict.artifacts["report"] = "/srv/store/runs/r-1/report.html"
    monkeypatch.delenv("EVENHAND_REPORTS_URL", raising=False)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:////srv/mlflow.db")
    assert links(verdict) == {"report": ("file:///srv/store/runs/r-1/report.html", "Report of r-1")}
    monkeypatch.setenv("EVENHAND_REPORTS_URL", "https://reports.example.org/runs/")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://user:secret@mlflow:5000/")
    addresses = links(verdict)
    assert addresses["report"][0] == "https://reports.example.org/runs/r-1/report.html"
    assert addresses["version"][0].endswith("mlflow:5000/#/models/people/versions/3")
    assert "secret" not in addresses["version"][0]
