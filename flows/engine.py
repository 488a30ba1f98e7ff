"""Who carries out steps, what has come of them so far, and running the next one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from evenhand.tasks.artifacts import Artifact
from evenhand.tasks.progress import report_progress, working
from evenhand.tasks.sources import FETCH, fetch_source, needs_network
from evenhand.tasks.step import run_step, step_key
from evenhand.tasks.steps import get_step
from evenhand.tasks.store import StepRecord, Store

__all__ = ["CacheMiss", "DirectEngine", "Engine", "Run", "Steps"]


class CacheMiss(Exception):
    """A step would have to run."""


class Engine(Protocol):
    """Who carries out steps."""

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
    """Runs the steps in this process, one after another. With `cached_only` it runs none: it finds them."""

    store: Store
    cached_only: bool = False

    def fetch(self, source: Mapping[str, Any]) -> dict[str, Artifact]:
        """Fetch, unless that would need the network while only the cache may be used."""
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
        if refresh:
            if self.cached_only:
                raise CacheMiss
            self.store.forget(name, key)
        elif self.cached_only:
            record = self.store.find(name, key)
            if record is None:
                raise CacheMiss
            return record, True
        return run_step(self.store, get_step(name), key, parameters, inputs, report_progress(name))


@dataclass
class Run:
    """
    What has happened so far: records of finished steps, in order, and which were cached.

    `sources` are the digests of the table's files, `proxy_content` that of the proxy that chose the training
    rows; `metrics` is what the gates judge, `decision` what they said; `refusal` says why there is nothing to
    publish whatever the gates say; `champion` is the version that was champion before.
    """

    records: dict[str, StepRecord] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    cached: list[str] = field(default_factory=list)
    sources: dict[str, str] = field(default_factory=dict)
    proxy_content: str | None = None
    metrics: Artifact | None = None
    decision: dict[str, Any] = field(default_factory=dict)
    refusal: str | None = None
    champion: dict[str, Any] | None = None

    def output(self, step: str, name: str) -> Artifact:
        """Handle of a finished step's output."""
        return self.records[step].outputs[name]


@dataclass
class Steps:
    """Runs one step after another and notes what came of each."""

    store: Store
    engine: Engine
    run: Run
    clock: Callable[[], float]

    def __call__(
        self,
        name: str,
        parameters: dict[str, Any],
        inputs: dict[str, Artifact],
        *,
        modules: Sequence[str] = (),
        holds: Callable[[StepRecord], bool] | None = None,
    ) -> None:
        """Run one step; a record that no longer `holds` is made anew."""
        started = self.clock()
        key = step_key(get_step(name), parameters, inputs, modules)
        known = self.store.find(name, key) if holds is not None else None
        refresh = known is not None and holds is not None and not holds(known)
        record, cached = self.engine.run(name, key, parameters, inputs, refresh=refresh)
        self.run.records[name] = record
        self.run.seconds[name] = self.clock() - started
        if cached:
            self.run.cached.append(name)

    def output(self, step: str, name: str) -> Artifact:
        """Handle of a finished step's output."""
        return self.run.output(step, name)
