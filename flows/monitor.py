"""Monitoring: new rows are compared with a published model's training rows, and gates decide on drift."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenhand.fairlib.evaluation.gates import Gate
from evenhand.fairlib.methods.registry import METHODS
from evenhand.flows.data_source import DataSource, parse_data
from evenhand.flows.engine import Engine, Steps
from evenhand.flows.run import ingest
from evenhand.flows.verdict import EXIT_OF_VERDICT, Verdict, recorded_verdict, write_verdict
from evenhand.tasks.addresses import parse_address
from evenhand.tasks.bundle import Bundle, open_bundle
from evenhand.tasks.errors import InputError
from evenhand.tasks.fingerprint import environment, now
from evenhand.tasks.gate import check_drift_gates, default_drift_gates, read_limits
from evenhand.tasks.pages.build import write_page
from evenhand.tasks.store import Store

__all__ = ["MonitorPlan", "add_retraining", "execute", "plan_monitoring"]

DEFAULT_GATES = "default gates: no gates were given"
SAME_TABLE = "the model was trained on rows of this very table: there can be no drift"
RETRAINED = "retrained"
FILES = {
    "drift": ("drift by column and group", "drift.json"),
    "metrics": ("metrics", "metrics.json"),
    "decision": ("decision of the gates", "decision.json"),
}


@dataclass(frozen=True)
class MonitorPlan:
    """Which model's training rows to compare with which rows; `gates` is None for the default ones."""

    model: str
    data: DataSource
    gates: dict[str, Any] | None
    limits: tuple[Gate, ...]

    @property
    def run_name(self) -> str:
        """Name for the run's id."""
        return f"{parse_address(self.model).run_name}-monitor"


def plan_monitoring(
    model: str, data: str, gates: Mapping[str, Any] | str | None, overrides: Sequence[str]
) -> MonitorPlan:
    """
    Check all that can be checked before a model or a table is read.

    Raises
    ------
    InputError
        One line that names what is wrong and the cure.
    """
    chosen, limits = read_limits(gates, baseline=False)
    parse_address(model)
    return MonitorPlan(model, parse_data(data, overrides), chosen, limits)


def execute(plan: MonitorPlan, store: Store, run_id: str, engine: Engine) -> Verdict:
    """
    Measure drift, decide, and leave a verdict and a page.

    Raises
    ------
    EvenhandError
        After the verdict of a failed run was written. A gate that refuses raises nothing here.
    CacheMiss
        From an engine that may only look things up; no verdict is written.
    """
    steps = Steps(store, engine)
    with recorded_verdict(store, run_id, steps) as verdict, store.workdir() as scratch:
        bundle = open_bundle(plan.model, store, scratch / "model")
        gates = _gates(plan, bundle)
        decision = _measure(plan, bundle, gates, steps, scratch)
        documents = steps.documents() | {"decision": decision}
        verdict.status, verdict.exit_code = "monitored", EXIT_OF_VERDICT[decision["verdict"]]
        verdict.add_metrics(documents["metrics"]["metrics"])
        verdict.gates, verdict.model = decision, bundle.described()
        if plan.gates is None:
            verdict.notes.append(DEFAULT_GATES)
        if bundle.trained_on(steps.output("ingest", "raw").sha256):
            verdict.notes.append(SAME_TABLE)
        _write(verdict, plan, bundle, steps, documents)
    return verdict


def add_retraining(store: Store, verdict: Verdict, retraining: str) -> None:
    """Store the address of the verdict, or the flow run, of the retraining that drift caused."""
    verdict.artifacts[RETRAINED] = retraining
    write_verdict(store, verdict)


def _gates(plan: MonitorPlan, bundle: Bundle) -> dict[str, Any]:
    """The gates that count, after they were checked against the metrics that there will be."""
    reference = bundle.folder / "reference.json"
    if not reference.is_file():
        raise InputError(
            f"the model {bundle.uri} was published without the counts of its training rows, by an older "
            "version: publish it again."
        )
    if not bundle.is_proxy:
        bundle.require_known_method()
    counts = json.loads(reference.read_text())
    if plan.gates is None:
        return default_drift_gates(counts)
    check_drift_gates(plan.limits, counts, predicts=not bundle.is_proxy)
    return plan.gates


def _measure(
    plan: MonitorPlan, bundle: Bundle, gates: Mapping[str, Any], steps: Steps, scratch: Path
) -> dict[str, Any]:
    """The steps: cached as those of a run are, and shared with them. Gives the gates' decision."""
    seed = int(bundle.evaluation["seed"]) if plan.data.seed is None else plan.data.seed
    settings = {**bundle.evaluation["evaluate"], **plan.data.evaluate}
    ingest(plan.data.source, seed, steps)
    shutil.copytree(bundle.folder, scratch / "bundle")
    # rows and predicted positives of the test rows when the model was published
    tested = None if bundle.is_proxy else bundle.evaluation.get("tested")
    steps(
        "measure_drift",
        {
            "contract": bundle.contract.to_dict(),
            "settings": {key: settings[key] for key in ("draws", "level", "min_cell")},
            "seed": seed,
            "predicted": tested and {"rows": tested["n"], "positive": tested["predicted_positive"]},
        },
        {
            "raw": steps.output("ingest", "raw"),
            # by content, so that the step's key does not depend on a version's number
            "bundle": steps.store.put(scratch / "bundle", "bundle"),
        },
        modules=[] if bundle.is_proxy else [METHODS[bundle.evaluation["method"]].module],
    )
    steps("gate", {"gates": dict(gates)}, {"metrics": steps.output("measure_drift", "metrics")})
    decision: dict[str, Any] = steps.read("gate", "decision")
    return decision | ({"note": "default gates"} if plan.gates is None else {})


def _write(
    verdict: Verdict, plan: MonitorPlan, bundle: Bundle, steps: Steps, documents: Mapping[str, Any]
) -> None:
    """Write the run's files: each is whole or absent."""
    store, folder = steps.store, ("runs", verdict.run_id)
    for name, (_, file) in FILES.items():
        text = json.dumps(documents[name], indent=1)
        verdict.artifacts[name] = store.write_text(text, *folder, file)
    run = {
        "id": verdict.run_id,
        "created": now(),
        "status": documents["decision"]["verdict"],
        "judged": bundle.described(),
        "data": {"shown": plan.data.shown, "fingerprint": steps.output("ingest", "raw").sha256},
        "default_gates": plan.gates is None,
        "notes": verdict.notes,
        "steps": steps.timeline(),
        "environment": environment(),
        "files": [{"name": name, "href": href} for name, href in FILES.values()],
    }
    page = write_page("drift", {**documents, "run": run}, store)
    verdict.artifacts["report"] = store.write_text(page, *folder, "report.html")
