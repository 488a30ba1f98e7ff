"""Monitoring: the drift of new rows from a published model's training rows is measured, and gates
decide.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenhand.fairlib.evaluation.gates import Gate
from evenhand.fairlib.methods.registry import METHODS
from evenhand.flows.data_source import DataSource, parse_data, with_forms
from evenhand.flows.engine import (
    EXIT_OF_VERDICT,
    Engine,
    RunFolder,
    Steps,
    Verdict,
    recorded_verdict,
)
from evenhand.flows.evaluate import stored
from evenhand.flows.run import ingest, reading_notes, unknown_columns_notes
from evenhand.tasks.errors import InputError
from evenhand.tasks.evaluating.drift_limits import (
    check_drift_gates,
    default_drift_gates,
    drift_metrics,
)
from evenhand.tasks.evaluating.limits import read_limits
from evenhand.tasks.execution.store import Store
from evenhand.tasks.registry.bundle import Bundle, open_bundle, parse_address
from evenhand.tasks.sources.row_group_blocks import unknown_columns

DEFAULT_GATES = "default gates: no gates were given"
SAME_TABLE = "the model was trained on rows of this table: there is no drift"
FILES = {
    "drift": "drift by column and group",
    "metrics": "metrics",
    "decision": "decision of the gates",
}


@dataclass(frozen=True)
class MonitorPlan:
    """Checked options of a comparison with training rows; `gates` is None for the default ones."""

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
    """Check the options, before a model or a table is read.

    Raises `InputError` with one line that names what is wrong and the cure.
    """
    chosen, limits = read_limits(gates, baseline=False)
    parse_address(model)
    return MonitorPlan(model, parse_data(data, overrides), chosen, limits)


def execute(plan: MonitorPlan, store: Store, run_id: str, engine: Engine) -> Verdict:
    """Measure drift, decide, and write a verdict and a page.

    Raises `EvenhandError` after the verdict of a failed run was written; a refusing gate raises
    nothing. Raises `CacheMiss` from an engine that may only use the cache; no verdict is written.
    """
    steps = Steps(store, engine)
    with recorded_verdict(store, run_id, steps) as verdict, store.workdir() as scratch:
        bundle = open_bundle(plan.model, store, scratch / "model")
        gates = _gates(plan, bundle)
        decision = _measure(plan, bundle, gates, steps, scratch)
        documents = steps.documents() | {"decision": decision}
        verdict.status = "monitored"
        verdict.exit_code = EXIT_OF_VERDICT[decision["verdict"]]
        verdict.add_metrics(documents["metrics"]["metrics"])
        verdict.gates = decision
        verdict.rates = _rates(documents["drift"], bundle)
        verdict.model = bundle.described()
        verdict.notes += reading_notes(steps)
        raw = store.fetch(steps.output("ingest", "raw"))
        verdict.notes += unknown_columns_notes(unknown_columns(raw, bundle.contract))
        verdict.notes += bundle.notes
        if plan.gates is None:
            verdict.notes.append(DEFAULT_GATES)
        if bundle.trained_on(steps.output("ingest", "raw").sha256):
            verdict.notes.append(SAME_TABLE)
        _write(verdict, plan, bundle, steps, documents)
    return verdict


def _rates(drift: Mapping[str, Any], bundle: Bundle) -> dict[str, Any]:
    """Return the share of new rows with the positive label, as predicted, and as observed where the
    rows have labels; empty for other than two labels.
    """
    prediction = drift["prediction"]
    if bundle.is_proxy or prediction is None or prediction["rate"] is None:
        return {}
    return {
        "positive": bundle.positive_outcome,
        "predicted": prediction["rate"]["value"],
        "predicted_in_test_rows": prediction["then"],
        "observed": drift["label"]["now"],
    }


def _gates(plan: MonitorPlan, bundle: Bundle) -> dict[str, Any]:
    """Return the given or default gates, checked against the metrics that there will be."""
    reference = bundle.folder / "reference.json"
    if not reference.is_file():
        raise InputError(
            f"the model {bundle.uri} was published by an older release, without the counts of its "
            "training "
            "rows: publish it again."
        )
    if not bundle.is_proxy:
        bundle.require_known_method()
    counts = json.loads(reference.read_text())
    if plan.gates is None:
        return default_drift_gates(counts)
    terms = {**bundle.evaluation["evaluate"], **plan.data.evaluate}.get("terms", {})
    names = drift_metrics(
        counts, predicts=not bundle.is_proxy, terms=terms, adapts=bundle.adapts_columns
    )
    check_drift_gates(plan.limits, names)
    return plan.gates


def _measure(
    plan: MonitorPlan, bundle: Bundle, gates: Mapping[str, Any], steps: Steps, scratch: Path
) -> dict[str, Any]:
    """Run the steps, whose cache is shared with runs of jobs, and return the gates' decision."""
    seed = plan.data.seed
    if seed is None:
        seed = int(bundle.evaluation["seed"])
    # what the model did on the test rows when it was published
    tested = None
    modules = []
    if not bundle.is_proxy:
        tested = bundle.evaluation.get("tested")
        modules = [METHODS[bundle.evaluation["method"]].module]
    settings = {**bundle.evaluation["evaluate"], **plan.data.evaluate}
    ingest(with_forms(plan.data.source, bundle.evaluation), seed, steps)
    steps(
        "measure_drift",
        {
            "contract": bundle.contract.to_dict(),
            "settings": {key: settings[key] for key in ("draws", "level", "min_cell")},
            "seed": seed,
            "tested": tested,
            "exchanged": bundle.evaluation.get("exchanged", {}),
            "adapted": bundle.evaluation.get("adapted"),
            "terms": settings.get("terms", {}),
        },
        {
            "raw": steps.output("ingest", "raw"),
            "bundle": stored(steps.store, bundle, scratch / "bundle"),
        },
        modules=modules,
    )
    steps("gate", {"gates": dict(gates)}, {"metrics": steps.output("measure_drift", "metrics")})
    decision: dict[str, Any] = steps.read("gate", "decision")
    if plan.gates is None:
        decision["note"] = "default gates"
    return decision


def _write(
    verdict: Verdict, plan: MonitorPlan, bundle: Bundle, steps: Steps, documents: Mapping[str, Any]
) -> None:
    """Write the run's files, each atomically."""
    folder = RunFolder(steps.store, verdict)
    for name, title in FILES.items():
        folder.write_json(name, f"{name}.json", documents[name], title)
    run = {
        "status": documents["decision"]["verdict"],
        "judged": bundle.described(),
        "data": {"shown": plan.data.shown, "fingerprint": steps.output("ingest", "raw").sha256},
        "default_gates": plan.gates is None,
        "value_names": bundle.value_names,
        "positive": verdict.rates.get("positive", ""),
        "notes": verdict.notes,
        "steps": steps.timeline(),
    }
    folder.write_report("drift", documents, run)
