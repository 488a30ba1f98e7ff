"""The result of a run: what its verdict has, and its finished steps."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from evenhand.tasks.execution.store import StepRecord


@dataclass(frozen=True)
class FinishedStep:
    """A step's record, how long it took in this run, and whether it came from the cache."""

    record: StepRecord
    seconds: float
    cached: bool
    ended_ns: int = field(default_factory=time.time_ns)
    modules: tuple[str, ...] = ()  # whose code is part of its key because of its parameters


@dataclass
class Verdict:
    """The result of a run."""

    run_id: str
    # published, gated, up_to_date (a retraining had nothing to do), evaluated (a sweep or an
    # evaluation), filtered, predicted, monitored or failed
    status: str
    # 0 done, 1 a gate refused, 2 the job, the data or the contract is wrong, 3 not enough evidence
    # for a gate, 4 could not be carried out
    exit_code: int
    error: str | None = None
    metrics: dict[str, float | None] = field(default_factory=dict)
    gates: dict[str, Any] = field(default_factory=dict)
    model: dict[str, Any] | None = None
    artifacts: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    cached: list[str] = field(default_factory=list)
    baseline: dict[str, Any] | None = None
    # a run's metrics and differences by control
    controls: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)  # sentences for the reader
    # of a run with two labels: share of people with the positive one, `predicted` and `observed`,
    # and its name, `positive`
    rates: dict[str, Any] = field(default_factory=dict)
    rows: int | None = None  # of the run's table
    # what an audit shows, in sentences, the gravest first; of a run what a learned metric does
    findings: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict as plain JSON."""
        return asdict(self)

    def add_metrics(self, metrics: Mapping[str, Mapping[str, Any]]) -> None:
        """Add an evaluation's metrics, with the ends of their intervals as ``NAME.low`` and
        ``NAME.high``.
        """
        for name, metric in metrics.items():
            self.metrics[name] = metric["value"]
            if metric["low"] is not None:
                self.metrics |= {f"{name}.low": metric["low"], f"{name}.high": metric["high"]}
