"""Engines run single steps; :class:`Steps` runs the steps of a run in order and keeps their records."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from evenhand.tasks.sources import FETCH, fetch_source, needs_network
from evenhand.tasks.step import STEPS, report_progress, run_step, step_key, working
from evenhand.tasks.store import Artifact, StepRecord, Store

__all__ = ["CacheMiss", "DirectEngine", "Engine", "FinishedStep", "Measured", "Steps"]

# JSON outputs that pages do not show.
NOT_ON_PAGES = ("encoder", "reference")


class CacheMiss(Exception):
    """A step would have to run."""


class Engine(Protocol):
    """Interface of the engines, which run single steps."""

    def fetch(self, source: Mapping[str, Any]) -> dict[str, Artifact]:
        """Copy the table's files into the store."""

    def run(
        self,
        name: str,
        key: str,
        parameters: Mapping[str, Any],
        inputs: Mapping[str, Artifact],
        *,
        refresh: bool,
    ) -> tuple[StepRecord, bool]:
        """Run a step or find its record; return the record, and whether it was found."""


@dataclass
class DirectEngine:
    """Runs the steps in this process; with `cached_only` it only finds their records."""

    store: Store
    cached_only: bool = False

    def fetch(self, source: Mapping[str, Any]) -> dict[str, Artifact]:
        """Fetch the table; CacheMiss if that needs the network and only the cache may be used."""
        if self.cached_only and needs_network(source):
            raise CacheMiss
        with working(FETCH):
            report = report_progress(FETCH)
            return fetch_source(self.store, source, progress=lambda done, total: report(done, total, {}))

    def run(
        self,
        name: str,
        key: str,
        parameters: Mapping[str, Any],
        inputs: Mapping[str, Artifact],
        *,
        refresh: bool,
    ) -> tuple[StepRecord, bool]:
        """Run the step in this process."""
        if self.cached_only:
            record = None if refresh else self.store.find(name, key)
            if record is None:
                raise CacheMiss
            return record, True
        if refresh:
            self.store.forget(name, key)
        return run_step(self.store, STEPS[name], key, parameters, inputs, report_progress(name))


@dataclass(frozen=True)
class FinishedStep:
    """A step's record, how long it took in this run, and whether it came from the cache."""

    record: StepRecord
    seconds: float
    cached: bool


@dataclass(frozen=True)
class Measured:
    """
    Results of the steps up to the metrics.

    The gates decide by `metrics`. With a `refusal`, its reason, nothing is published even if the gates pass.
    `proxy` is the content digest of the published proxy that selected the training rows.
    """

    metrics: Artifact
    refusal: str | None = None
    proxy: str | None = None


@dataclass
class Steps:
    """Runs the steps of one run in order; `finished` has the finished ones by name."""

    store: Store
    engine: Engine
    finished: dict[str, FinishedStep] = field(default_factory=dict)
    clock: Callable[[], float] = time.perf_counter

    def __call__(
        self,
        name: str,
        parameters: Mapping[str, Any],
        inputs: Mapping[str, Artifact],
        *,
        modules: Sequence[str] = (),
        is_valid: Callable[[StepRecord], bool] | None = None,
        started: float | None = None,
    ) -> StepRecord:
        """
        Run one step.

        Parameters
        ----------
        name : str
        parameters, inputs : mapping
        modules : sequence of str
            Modules whose code is part of the step's key because of these parameters.
        is_valid : callable, optional
            A cached record for which it returns False is computed again.
        started : float, optional
            Clock time at which the step started; default: now.
        """
        started = self.clock() if started is None else started
        key = step_key(STEPS[name], parameters, inputs, modules)
        known = self.store.find(name, key) if is_valid is not None else None
        refresh = known is not None and is_valid is not None and not is_valid(known)
        record, cached = self.engine.run(name, key, parameters, inputs, refresh=refresh)
        self.finished[name] = FinishedStep(record, self.clock() - started, cached)
        return record

    def output(self, step: str, name: str) -> Artifact:
        """Return an output of a finished step."""
        return self.finished[step].record.outputs[name]

    def has_output(self, step: str, name: str) -> bool:
        """Return whether a step has finished and has this output."""
        return step in self.finished and name in self.finished[step].record.outputs

    def facts(self, step: str) -> dict[str, Any]:
        """Return the facts of a finished step; empty if it did not run."""
        return self.finished[step].record.facts if step in self.finished else {}

    def text(self, step: str, name: str) -> str:
        """Read a text output of a step."""
        return self.store.fetch(self.output(step, name)).read_text()

    def read(self, step: str, name: str) -> Any:
        """Read a JSON output of a step."""
        return json.loads(self.text(step, name))

    def documents(self) -> dict[str, Any]:
        """Read every JSON output that pages are built from, by the output's name."""
        return {
            name: self.read(step, name)
            for step, finished in self.finished.items()
            for name, artifact in finished.record.outputs.items()
            if artifact.uri.endswith(".json") and name not in NOT_ON_PAGES
        }

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds of each step."""
        return {name: step.seconds for name, step in self.finished.items()}

    @property
    def cached(self) -> list[str]:
        """Steps that came from the cache."""
        return [name for name, step in self.finished.items() if step.cached]

    def timeline(self) -> list[dict[str, Any]]:
        """Return name, seconds and `cached` of each step, for pages."""
        return [
            {"name": name, "seconds": step.seconds, "cached": step.cached}
            for name, step in self.finished.items()
        ]
