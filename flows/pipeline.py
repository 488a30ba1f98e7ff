"""The composition of a retraining run, apart from who carries the steps out."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from fairlib.methods.registry import METHODS
from flows.metric_kinds import SubspaceMetric
from flows.resolved_job import ResolvedJob
from tasks.artifacts import Artifact
from tasks.progress import report_progress
from tasks.sources import fetch_source, needs_network
from tasks.step import run_step, step_key
from tasks.steps import get_step
from tasks.store import StepRecord, Store

__all__ = ["CacheMiss", "DirectEngine", "Engine", "Run", "run_pipeline", "run_to_gate"]


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
        return fetch_source(self.store, source)

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
    """What has happened so far: records of finished steps, in order, and which were cached."""

    records: dict[str, StepRecord] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    cached: list[str] = field(default_factory=list)

    def output(self, step: str, name: str) -> Artifact:
        """Handle of a finished step's output."""
        return self.records[step].outputs[name]


def run_pipeline(
    resolved: ResolvedJob,
    store: Store,
    engine: Engine,
    run: Run,
    clock: Callable[[], float],
    card: Mapping[str, Any],
) -> str:
    """
    Carry a job out up to its verdict, and publish if the gates let it pass.

    Returns
    -------
    str
        The gates' verdict: ``passed`` (and published), ``refused`` or ``insufficient_evidence``.
    """
    decision = run_to_gate(resolved, store, engine, run, clock)
    if not decision["passed"]:
        return str(decision["verdict"])
    _publish(resolved, store, engine, run, clock, card)
    return "passed"


def run_to_gate(
    resolved: ResolvedJob, store: Store, engine: Engine, run: Run, clock: Callable[[], float]
) -> dict[str, Any]:
    """
    Carry a job out up to the gates, and publish nothing.

    Returns
    -------
    dict
        The gates' decision.
    """
    from tasks.train import method_modules

    job, contract = resolved.job, resolved.contract
    seed = job.seed
    step = partial(_step, store, engine, run, clock)

    started = clock()
    source = resolved.source()
    files = engine.fetch(source)
    fetched = clock() - started
    reading = {
        key: source[key] for key in ("name", "path", "format", "delimiter", "null_values", "sql", "rows")
    }
    if reading["path"]:
        # only the ending matters for reading: the same bytes elsewhere are the same table
        reading["path"] = reading["path"].partition("?")[0].rstrip("/").rsplit("/", 1)[-1]
    step("ingest", {"source": reading, "seed": seed if not files else None}, files)
    run.seconds["ingest"] += fetched
    step("contract", {"contract": contract.to_dict()}, {"raw": run.output("ingest", "raw")})
    step(
        "preprocess",
        {"contract": contract.to_dict(), "split": job.split.model_dump(), "seed": seed},
        {"checked": run.output("contract", "checked")},
    )
    train_inputs = {"train": run.output("preprocess", "train")}
    certificate = resolved.certificate_budget
    if METHODS[resolved.method].needs_metric or certificate is not None:
        step("fair_metric", *_metric_step(resolved, run))
        if METHODS[resolved.method].needs_metric:
            train_inputs["metric"] = run.output("fair_metric", "metric")
    modules = method_modules(resolved.method)
    training: dict[str, Any] = {"method": resolved.method, "arguments": resolved.arguments, "seed": seed}
    if METHODS[resolved.method].needs_counterfactuals:
        training["counterfactuals"] = job.evaluate.model_dump()["counterfactuals"]
        train_inputs["encoder"] = run.output("preprocess", "encoder")
    step("train", training, train_inputs, modules=modules)
    evaluate_inputs = {
        "model": run.output("train", "model"),
        "encoder": run.output("preprocess", "encoder"),
        "test": run.output("preprocess", "test"),
    }
    if certificate is not None:
        evaluate_inputs["metric"] = run.output("fair_metric", "metric")
    if "without_adversary" in run.records["train"].outputs:
        evaluate_inputs["without_adversary"] = run.output("train", "without_adversary")
    step(
        "evaluate",
        {
            "evaluate": job.evaluate.model_dump(exclude={"certificate"}),
            "certificate": certificate,
            "seed": seed,
        },
        evaluate_inputs,
        modules=modules,
    )
    step("gate", {"gates": job.gates}, {"metrics": run.output("evaluate", "metrics")})
    decision: dict[str, Any] = json.loads(store.fetch(run.output("gate", "decision")).read_text())
    return decision


def _publish(
    resolved: ResolvedJob,
    store: Store,
    engine: Engine,
    run: Run,
    clock: Callable[[], float],
    card: Mapping[str, Any],
) -> None:
    from tasks.publish import is_current, tracking_uri
    from tasks.train import method_modules

    job, contract = resolved.job, resolved.contract
    uri = tracking_uri(store)
    _step(
        store,
        engine,
        run,
        clock,
        "publish",
        {
            "name": resolved.model_name,
            "alias": job.publish.alias,
            "tracking_uri": uri,
            "artifact_root": None
            if "://" in store.url
            else str((store.local / "mlflow-artifacts").resolve()),
            "inputs": {
                "features": [column.name for column in contract.features],
                "label_values": run.records["preprocess"].facts["label_values"],
                "booleans": [c.name for c in contract.features if c.logical_type == "boolean"],
            },
            "content": {
                "model": run.output("train", "model").sha256,
                "encoder": run.output("preprocess", "encoder").sha256,
                "metrics": run.output("evaluate", "metrics").sha256,
                "decision": run.output("gate", "decision").sha256,
            },
            "card": {
                **card,
                "data_fingerprint": run.output("ingest", "raw").sha256,
            },
        },
        {
            "model": run.output("train", "model"),
            "encoder": run.output("preprocess", "encoder"),
            "metrics": run.output("evaluate", "metrics"),
            "decision": run.output("gate", "decision"),
        },
        modules=method_modules(resolved.method),
        holds=lambda record: is_current(record, uri),
    )


def _step(
    store: Store,
    engine: Engine,
    run: Run,
    clock: Callable[[], float],
    name: str,
    parameters: dict[str, Any],
    inputs: dict[str, Artifact],
    *,
    modules: list[str] | None = None,
    holds: Callable[[StepRecord], bool] | None = None,
) -> None:
    """Run one step and note it; a record that no longer `holds` is made anew."""
    started = clock()
    key = step_key(get_step(name), parameters, inputs, modules or ())
    known = store.find(name, key) if holds is not None else None
    refresh = known is not None and holds is not None and not holds(known)
    record, cached = engine.run(name, key, parameters, inputs, refresh=refresh)
    run.records[name] = record
    run.seconds[name] = clock() - started
    if cached:
        run.cached.append(name)


def _metric_step(resolved: ResolvedJob, run: Run) -> tuple[dict[str, Any], dict[str, Artifact]]:
    """Parameters and inputs of the step that learns the metric: no more than its kind needs."""
    job = resolved.job
    parameters: dict[str, Any] = {"fair_metric": job.fair_metric.model_dump()}
    inputs = {"train": run.output("preprocess", "train")}
    if isinstance(job.fair_metric, SubspaceMetric):
        return parameters, inputs
    copies = job.fair_metric.copies(job.evaluate.counterfactuals)
    if copies:
        parameters["counterfactuals"] = copies
        inputs["encoder"] = run.output("preprocess", "encoder")
    if job.fair_metric.kind == "explore":
        parameters["seed"] = job.seed
    return parameters, inputs
