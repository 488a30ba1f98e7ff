"""The composition of a retraining run, apart from who carries the steps out."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from evenhand.flows import classifier_steps, proxy_steps
from evenhand.flows.champion import champion_now
from evenhand.flows.engine import CacheMiss, DirectEngine, Engine, Run, Steps
from evenhand.flows.provenance import provenance
from evenhand.flows.resolved_job import ResolvedJob
from evenhand.tasks.store import Store

__all__ = ["CacheMiss", "DirectEngine", "Engine", "Run", "ingest", "run_pipeline", "run_to_gate"]


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
    # before the alias moves
    run.champion = champion_now(resolved, store)
    if not decision["passed"]:
        return str(decision["verdict"])
    _publish(resolved, Steps(store, engine, run, clock), card)
    return "passed"


def run_to_gate(
    resolved: ResolvedJob, store: Store, engine: Engine, run: Run, clock: Callable[[], float]
) -> dict[str, Any]:
    """
    Carry a job out up to the gates, and publish nothing.

    Returns
    -------
    dict
        The gates' decision; a run that has nothing to publish is refused whatever they say.
    """
    steps = Steps(store, engine, run, clock)
    ingest(resolved.source(), resolved.job.seed, steps)
    steps("contract", {"contract": resolved.table_contract.to_dict()}, {"raw": run.output("ingest", "raw")})
    kind = _kind(resolved)
    steps("preprocess", kind.splitting(resolved), {"checked": run.output("contract", "checked")})
    _profile(resolved, steps)
    run.metrics = kind.train_and_measure(resolved, steps)
    steps("gate", {"gates": resolved.job.gates}, {"metrics": run.metrics})
    run.decision = json.loads(store.fetch(run.output("gate", "decision")).read_text())
    if run.refusal is not None:
        run.decision |= {"passed": False, "verdict": "refused", "note": run.refusal}
    return run.decision


def _profile(resolved: ResolvedJob, steps: Steps) -> None:
    """Count what the training rows look like, which is published so that drift can be told later."""
    steps(
        "profile",
        {
            "contract": resolved.table_contract.to_dict(),
            "features": [column.name for column in resolved.contract.features],
            "min_cell": resolved.job.evaluate.min_cell,
        },
        {
            "checked": steps.output("contract", "checked"),
            "train": steps.output("preprocess", "train"),
        },
    )


def _kind(resolved: ResolvedJob) -> Any:
    """The steps between the checked table and the gates, and what is published: the two kinds of job."""
    return proxy_steps if resolved.is_proxy else classifier_steps


def ingest(source: Mapping[str, Any], seed: int, steps: Steps) -> None:
    """
    Bring a table here and make it one Parquet file: the step ``ingest``.

    Parameters
    ----------
    source : mapping
        A job's ``table``, its path absolute.
    seed : int
        Of a table that is generated.
    steps : Steps
    """
    started = steps.clock()
    files = steps.engine.fetch(source)
    steps.run.sources = {name: artifact.sha256 for name, artifact in files.items()}
    fetched = steps.clock() - started
    reading = {
        key: source[key] for key in ("name", "path", "format", "delimiter", "null_values", "sql", "rows")
    }
    if reading["path"]:
        # only the ending matters for reading: the same bytes elsewhere are the same table
        reading["path"] = reading["path"].partition("?")[0].rstrip("/").rsplit("/", 1)[-1]
    steps("ingest", {"source": reading, "seed": seed if not files else None}, files)
    steps.run.seconds["ingest"] += fetched


def _artifact_root(store: Store, uri: str) -> str | None:
    """Folder of the files of a registry that is no server: a server has a place of its own."""
    if uri.startswith(("http://", "https://")):
        return None
    return str((store.local / "mlflow-artifacts").resolve())


def _publish(resolved: ResolvedJob, steps: Steps, card: Mapping[str, Any]) -> None:
    from evenhand.tasks.publish import is_current
    from evenhand.tasks.registry import tracking_uri

    job, store, run = resolved.job, steps.store, steps.run
    assert run.metrics is not None
    uri = tracking_uri(store)
    kind = _kind(resolved)
    parts = kind.parts(steps) | {
        "encoder": run.output("preprocess", "encoder"),
        "metrics": run.metrics,
        "decision": run.output("gate", "decision"),
    }
    modules = kind.method_modules(resolved.method)
    fingerprint = run.output("ingest", "raw").sha256
    steps(
        "publish",
        {
            "name": resolved.model_name,
            "alias": job.publish.alias,
            "tracking_uri": uri,
            "artifact_root": _artifact_root(store, uri),
            "inputs": kind.raw_inputs(resolved, steps),
            "modules": modules,
            "evaluation": {
                "job": job.name,
                "method": resolved.method,
                "contract": resolved.table_contract.to_dict(),
                "evaluate": job.evaluate.model_dump(exclude={"certificate"}),
                "seed": job.seed,
                "data_fingerprint": fingerprint,
            },
            "provenance": provenance(resolved, run.sources, run.proxy_content),
            "content": {name: artifact.sha256 for name, artifact in parts.items()},
            "card": {**card, **kind.more_for_card(steps), "data_fingerprint": fingerprint},
        },
        parts,
        modules=modules,
        holds=lambda record: is_current(record, uri),
    )
