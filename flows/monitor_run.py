"""A look at drift: a batch is held against what a published model's training rows were, and gates decide."""

from __future__ import annotations

import datetime
import json
import os
import platform
import re
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenhand.fairlib.evaluation.gates import Gate, parse_gates
from evenhand.fairlib.methods.registry import METHODS
from evenhand.flows.data_source import DataSource, parse_data
from evenhand.flows.engine import Engine, Run, Steps
from evenhand.flows.execute import leaving_verdict
from evenhand.flows.pipeline import ingest
from evenhand.flows.run_outputs import REPORTED_PACKAGES
from evenhand.flows.verdict import EXIT_OF_VERDICT, Verdict, write_verdict
from evenhand.tasks.addresses import parse_address
from evenhand.tasks.bundle import Bundle, open_bundle
from evenhand.tasks.errors import InputError
from evenhand.tasks.evaluating.verdicts import read_gates, without_baseline
from evenhand.tasks.fingerprint import git_state, library_versions
from evenhand.tasks.monitoring.gates import check_gates, default_gates
from evenhand.tasks.reporting.monitoring import render_monitoring
from evenhand.tasks.store import Store

__all__ = ["MonitorJob", "add_retraining", "carry_out_monitoring", "monitor_name", "plan_monitoring"]

DEFAULT_GATES = "default gates: no gates were given"
SAME_TABLE = "the model learned from rows of this very table: there can be no drift"
RETRAINED = "retrained"
FILES = {
    "drift": ("drift by column and group", "drift.json"),
    "metrics": ("metrics", "metrics.json"),
    "decision": ("decision of the gates", "decision.json"),
}


@dataclass(frozen=True)
class MonitorJob:
    """Which model's training rows to hold what against; `gates` is None for the default ones."""

    model: str
    data: DataSource
    gates: dict[str, Any] | None
    limits: tuple[Gate, ...]


def plan_monitoring(
    model: str, data: str, gates: Mapping[str, Any] | str | None, overrides: Sequence[str]
) -> MonitorJob:
    """
    Check all that can be checked before a model or a table is looked at.

    Raises
    ------
    InputError
        One line that names what is wrong and the cure.
    """
    chosen: dict[str, Any] | None = None
    limits: tuple[Gate, ...] = ()
    if gates is not None:
        chosen = read_gates(Path(gates).expanduser()) if isinstance(gates, str) else dict(gates)
        try:
            limits = tuple(parse_gates(chosen))
        except ValueError as error:
            raise InputError(f"gates: {error}.") from None
        without_baseline(limits)
    parse_address(model)
    return MonitorJob(model, parse_data(data, overrides), chosen, limits)


def monitor_name(model: str) -> str:
    """What a look at the model's drift is called, as far as its address tells."""
    address = parse_address(model)
    name = address.name or (address.folder.resolve().name if address.folder else "")
    return f"{re.sub(r'[^A-Za-z0-9._-]', '-', name).strip('-.') or 'model'}-monitor"


def carry_out_monitoring(job: MonitorJob, store: Store, run_id: str, engine: Engine) -> Verdict:
    """
    Measure, decide, and leave a verdict and a report whatever happens.

    Raises
    ------
    EvenhandError
        After the verdict of a failed run was written. A gate that refuses raises nothing here.
    CacheMiss
        From an engine that may only look things up; no verdict is written.
    """
    run, verdict = Run(), Verdict(run_id, "failed", 4)
    with leaving_verdict(store, verdict, run), store.workdir() as scratch:
        bundle = open_bundle(job.model, store, scratch / "model")
        gates = _gates(job, bundle)
        steps = Steps(store, engine, run, time.perf_counter)
        _measure(job, bundle, gates, steps, scratch)
        _fill(verdict, job, bundle, run, store)
        _write(store, verdict, job, bundle, run)
    return verdict


def add_retraining(store: Store, verdict: Verdict, retraining: str) -> None:
    """Note where the verdict is of the retraining that drift caused, or which run of a deployment it is."""
    verdict.artifacts[RETRAINED] = retraining
    write_verdict(store, verdict)


def _gates(job: MonitorJob, bundle: Bundle) -> dict[str, Any]:
    """The gates that count, after they were held against the metrics that there will be."""
    reference = bundle.folder / "reference.json"
    if not reference.is_file():
        raise InputError(
            f"the model {bundle.uri} was published without the counts of its training rows, by an older "
            "version: publish it again."
        )
    if not bundle.is_proxy and bundle.evaluation.get("method") not in METHODS:
        raise InputError(
            f"{bundle.uri} is of a method that this version lacks: update evenhand, or publish it again."
        )
    told = json.loads(reference.read_text())
    if job.gates is None:
        return default_gates(told)
    check_gates(job.limits, told, predicts=not bundle.is_proxy)
    return job.gates


def _measure(job: MonitorJob, bundle: Bundle, gates: Mapping[str, Any], steps: Steps, scratch: Path) -> None:
    """The steps: cached as those of a run are, and shared with them."""
    seed = int(bundle.evaluation["seed"]) if job.data.seed is None else job.data.seed
    settings = {**bundle.evaluation["evaluate"], **job.data.evaluate}
    ingest(job.data.source, seed, steps)
    shutil.copytree(bundle.folder, scratch / "bundle")
    steps(
        "measure_drift",
        {
            "contract": bundle.contract.to_dict(),
            "settings": {key: settings[key] for key in ("draws", "level", "min_cell")},
            "seed": seed,
            "predicted": None if bundle.is_proxy else _predicted(bundle),
        },
        {
            "raw": steps.output("ingest", "raw"),
            # by content, so that the step's key does not depend on a version's number
            "bundle": steps.store.put(scratch / "bundle", "bundle"),
        },
        modules=[] if bundle.is_proxy else [METHODS[bundle.evaluation["method"]].module],
    )
    steps.run.metrics = steps.output("measure_drift", "metrics")
    steps("gate", {"gates": dict(gates)}, {"metrics": steps.run.metrics})
    decision = json.loads(steps.store.fetch(steps.output("gate", "decision")).read_text())
    steps.run.decision = decision | ({"note": "default gates"} if job.gates is None else {})


def _predicted(bundle: Bundle) -> dict[str, int] | None:
    """Rows and predicted positives of the test rows, as they were when the model was published."""
    tested = bundle.evaluation.get("tested")
    return tested and {"rows": tested["n"], "positive": tested["predicted_positive"]}


def _fill(verdict: Verdict, job: MonitorJob, bundle: Bundle, run: Run, store: Store) -> None:
    assert run.metrics is not None
    verdict.status, verdict.exit_code = "monitored", EXIT_OF_VERDICT[run.decision["verdict"]]
    for name, metric in json.loads(store.fetch(run.metrics).read_text())["metrics"].items():
        verdict.metrics[name] = metric["value"]
        if metric["low"] is not None:
            verdict.metrics |= {f"{name}.low": metric["low"], f"{name}.high": metric["high"]}
    verdict.gates = run.decision
    verdict.model = _described(bundle)
    if job.gates is None:
        verdict.notes.append(DEFAULT_GATES)
    if bundle.evaluation.get("data_fingerprint") == run.output("ingest", "raw").sha256:
        verdict.notes.append(SAME_TABLE)


def _described(bundle: Bundle) -> dict[str, Any]:
    contract = bundle.contract
    return {
        "name": bundle.name,
        "version": bundle.version,
        "uri": bundle.uri,
        "method": bundle.evaluation["method"],
        "contract": {"name": contract.name, "version": contract.version},
        "content": bundle.digest,
    }


def _write(store: Store, verdict: Verdict, job: MonitorJob, bundle: Bundle, run: Run) -> None:
    """Write the run's files: each is whole or absent."""
    folder = ("runs", verdict.run_id)
    texts = {
        "drift": store.fetch(run.output("measure_drift", "drift")).read_text(),
        "metrics": store.fetch(run.output("measure_drift", "metrics")).read_text(),
        "decision": json.dumps(run.decision, indent=1),
    }
    for name, text in texts.items():
        verdict.artifacts[name] = store.write_text(text, *folder, FILES[name][1])
    commit, dirty = git_state()
    context = {
        "run_id": verdict.run_id,
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "status": run.decision["verdict"],
        "model": verdict.model,
        "data": {"shown": job.data.shown, "fingerprint": run.output("ingest", "raw").sha256},
        "drift": json.loads(texts["drift"]),
        "gates": run.decision,
        "default_gates": job.gates is None,
        "notes": verdict.notes,
        "seconds": {name: round(value, 3) for name, value in run.seconds.items()},
        "cached": list(run.cached),
        "environment": {
            "python": platform.python_version(),
            "packages": library_versions(REPORTED_PACKAGES),
            "git_commit": commit,
            "git_dirty": dirty,
            "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        },
        "files": [{"name": name, "href": href} for name, href in FILES.values()],
    }
    verdict.artifacts["report"] = store.write_text(render_monitoring(context), *folder, "report.html")
