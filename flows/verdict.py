"""The verdict of a run: one file, from which the exit code follows."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from evenhand.tasks.store import Store

__all__ = ["EXIT_OF_VERDICT", "Verdict", "read_verdict", "write_verdict"]

EXIT_OF_VERDICT = {"passed": 0, "refused": 1, "insufficient_evidence": 3}


@dataclass
class Verdict:
    """
    What came of a run.

    `status` is ``published``, ``gated``, ``up_to_date`` (a retraining had nothing to do), ``evaluated`` (a
    sweep or an evaluation), ``filtered``, ``monitored`` or ``failed``; `exit_code` 0 done, 1 a gate refused,
    2 the job, the data or the contract is wrong, 3 not enough evidence for a gate, 4 could not be carried
    out. `notes` are sentences that whoever reads the verdict should know.
    """

    run_id: str
    status: str
    exit_code: int
    error: str | None = None
    metrics: dict[str, float | None] = field(default_factory=dict)
    gates: dict[str, Any] = field(default_factory=dict)
    model: dict[str, Any] | None = None
    artifacts: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    cached: list[str] = field(default_factory=list)
    baseline: dict[str, Any] | None = None
    notes: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return asdict(self)


def write_verdict(store: Store, verdict: Verdict) -> str:
    """Write ``runs/<run>/verdict.json`` in one step."""
    return store.write_text(json.dumps(verdict.to_dict(), indent=1), "runs", verdict.run_id, "verdict.json")


def read_verdict(store: Store, run_id: str) -> Verdict | None:
    """Read the verdict of a run; None if it left none, which is a failure."""
    text = store.read_text("runs", run_id, "verdict.json")
    return None if text is None else Verdict(**json.loads(text))
