"""Engines carry out steps; :class:`Steps` runs one step after another and keeps what each left."""

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

# JSON outputs that no page shows.
NOT_ON_PAGES = ("encoder", "reference")


class CacheMiss(Exception):
    """A step would have to run."""


class Engine(Protocol):
    """Carries out steps."""

    def fetch(self, source: Mapping[str, Any]) -> dict[str, Artifact]:
        """Bring the table's bytes here."""

    def run(
        self,
        name: str,
        key: str,
        parameters: Mapping[str, Any],
        inputs: Mapping[str, Artifact],
        *,
        refresh: bool,
    ) -> tuple[StepRecord, bool]:
        """Run a step, or find its record; say which."""


@dataclass
class DirectEngine:
    """Runs the steps in this process. With `cached_only` it runs none: it finds their records."""

    store: Store
    cached_only: bool = False

    def fetch(self, source: Mapping[str, Any]) -> dict[str, Artifact]:
        """Fetch, unless that needs the network while only the cache may be used."""
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
        """Run the step here."""
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
    What the steps of a kind of job give.

    `metrics` is what the gates judge; `refusal` says why nothing may be published whatever the gates say;
    `proxy` is the content of the published proxy that chose the training rows.
    """

    metrics: Artifact
    refusal: str | None = None
    proxy: str | None = None


@dataclass
class Steps:
    """Runs the steps of one run in order; `finished` has those that are done, by name."""

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
            Modules that these parameters bring into the step's key.
        is_valid : callable, optional
            A record for which it is false is computed again.
        started : float, optional
            Clock from which the step's time counts; default: now.
        """
        started = self.clock() if started is None else started
        key = step_key(STEPS[name], parameters, inputs, modules)
        known = self.store.find(name, key) if is_valid is not None else None
        refresh = known is not None and is_valid is not None and not is_valid(known)
        record, cached = self.engine.run(name, key, parameters, inputs, refresh=refresh)
        self.finished[name] = FinishedStep(record, self.clock() - started, cached)
        return record

    def output(self, step: str, name: str) -> Artifact:
        """Handle of a finished step's output."""
        return self.finished[step].record.outputs[name]

    def has_output(self, step: str, name: str) -> bool:
        """Whether a step has finished and has this output."""
        return step in self.finished and name in self.finished[step].record.outputs

    def facts(self, step: str) -> dict[str, Any]:
        """Facts of a finished step; empty if it did not run."""
        return self.finished[step].record.facts if step in self.finished else {}

    def text(self, step: str, name: str) -> str:
        """Content of a step's output that is text."""
        return self.store.fetch(self.output(step, name)).read_text()

    def read(self, step: str, name: str) -> Any:
        """Content of a step's JSON output."""
        return json.loads(self.text(step, name))

    def documents(self) -> dict[str, Any]:
        """Content of every JSON output, by the output's name: what pages are built from."""
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
        """Name, seconds and cached of each step, for pages."""
        return [
            {"name": name, "seconds": step.seconds, "cached": step.cached}
            for name, step in self.finished.items()
        ]
