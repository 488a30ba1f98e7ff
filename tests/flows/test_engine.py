"""Verdicts of the engine: written, read again, and recorded only when they are complete."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import pytest

import evenhand.flows.run
from evenhand.flows.engine import (
    CacheMiss,
    DirectEngine,
    Steps,
    Verdict,
    read_verdict,
    recorded_verdict,
    write_verdict,
)
from evenhand.flows.run_verdict import FinishedStep
from evenhand.tasks.errors import NotCarriedOut
from evenhand.tasks.execution.store import StepRecord, Store


def test_looking_things_up_leaves_no_verdict(bench: Any) -> None:
    from evenhand.flows.job_file import load_job
    from evenhand.flows.resolved_job import resolve

    job = bench.write()
    store = Store(str(bench.store))
    with pytest.raises(CacheMiss):
        evenhand.flows.run.execute(
            resolve(*load_job(str(job))), store, "r", DirectEngine(store, cached_only=True)
        )
    assert read_verdict(store, "r") is None
    assert list(bench.store.glob("runs/*")) == []


# documents of pages


def finished_step(store: Store, name: str, *outputs: str) -> FinishedStep:
    artifacts = {}
    for output in outputs:
        file = store.scratch() / f"{output}.json"
        file.write_text(json.dumps(f"{output} of {name}"))
        artifacts[output] = store.put(file, "document")
    return FinishedStep(StepRecord(name, "key", artifacts, {}, 0.0), 0.0, cached=False)


def test_two_outputs_of_one_name_are_no_documents(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    steps = Steps(store, DirectEngine(store))
    steps.finished["evaluate"] = finished_step(store, "evaluate", "metrics", "reference")
    # what pages do not show may occur twice
    steps.finished["gate"] = finished_step(store, "gate", "decision", "reference")
    assert steps.documents() == {"metrics": "metrics of evaluate", "decision": "decision of gate"}
    steps.finished["count"] = finished_step(store, "count", "metrics")
    with pytest.raises(ValueError, match="'metrics' of 'count'"):
        steps.documents()


# the verdict file and the errors themselves


def test_a_verdict_survives_its_file(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store"))
    verdict = Verdict("r", "gated", 3, metrics={"auc": 0.5, "gap_max.sex": None}, cached=["train"])
    write_verdict(store, verdict)
    assert read_verdict(store, "r") == verdict
    assert read_verdict(store, "other") is None


def test_an_interrupt_after_the_result_leaves_no_verdict(tmp_path: Path) -> None:
    """SIGTERM between the decision and the pages: a verdict would name a report that does not
    exist.
    """
    store = Store(str(tmp_path / "store"))

    def interrupted() -> None:
        with recorded_verdict(store, "some-run") as verdict:
            verdict.status, verdict.exit_code = "evaluated", 3
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert read_verdict(store, "some-run") is None


def test_a_verdict_that_a_full_disk_refuses_gets_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> str:
        raise OSError(errno.ENOSPC, "No space left on device")

    store = Store(str(tmp_path / "store"))
    monkeypatch.setattr(store, "write_text", refuse)
    with (
        pytest.raises(NotCarriedOut, match=r"^the disk is full: free some space"),
        recorded_verdict(store, "run"),
    ):
        raise OSError(errno.ENOSPC, "No space left on device")
