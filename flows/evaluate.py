"""An evaluation: a published model on a table, beside a baseline, judged by gates."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenhand.data_contracts.errors import ContractError
from evenhand.data_contracts.model import Contract
from evenhand.data_contracts.odcs import load_contract
from evenhand.fairlib.evaluation.gates import Gate
from evenhand.fairlib.methods.registry import METHODS
from evenhand.flows.data_source import DataSource, parse_data
from evenhand.flows.engine import Engine, Steps
from evenhand.flows.run import ingest
from evenhand.flows.verdict import EXIT_OF_VERDICT, Verdict, recorded_verdict
from evenhand.tasks.addresses import parse_address
from evenhand.tasks.aliases import actor, record_evaluation
from evenhand.tasks.bundle import Bundle, open_bundle
from evenhand.tasks.errors import InputError
from evenhand.tasks.evaluating.junit import junit_of_decision
from evenhand.tasks.evaluating.markdown import markdown_of_evaluation
from evenhand.tasks.fingerprint import environment, now
from evenhand.tasks.gate import check_evaluation_gates, digest_of_gates, judge, read_limits
from evenhand.tasks.pages.build import write_page
from evenhand.tasks.registry import registry_client, tracking_uri
from evenhand.tasks.store import Artifact, Store

__all__ = ["EvaluationPlan", "execute", "plan_evaluation"]

SAME_TABLE = (
    "was trained on rows of this very table: its metrics here are better than on people whom it never saw"
)
SAME_VERSION = "model and baseline are the same version: they cannot differ"
NO_GATES = "no gates were given: nothing was decided"
FILES = {
    "metrics": ("metrics", "metrics.json"),
    "baseline": ("metrics of the baseline", "baseline.json"),
    "comparison": ("comparison with the baseline", "comparison.json"),
    "decision": ("decision of the gates", "decision.json"),
    "junit": ("JUnit report", "junit.xml"),
    "markdown": ("summary", "summary.md"),
    "contract_page": ("checks of the table", "contract.html"),
}


@dataclass(frozen=True)
class EvaluationPlan:
    """What to evaluate on what, by which gates; the model must have been made under `contract`, if given."""

    model: str
    data: DataSource
    gates: dict[str, Any]
    limits: tuple[Gate, ...]
    baseline: str | None
    contract: Contract | None
    record: bool

    @property
    def run_name(self) -> str:
        """Name for the run's id."""
        return f"{parse_address(self.model).run_name}-evaluate"


@dataclass(frozen=True)
class EvaluatedModels:
    """The models of an evaluation, and how they are measured."""

    model: Bundle
    baseline: Bundle | None
    settings: dict[str, Any]
    seed: int

    @property
    def bundles(self) -> dict[str, Bundle]:
        """By the name of the measuring step's input."""
        return {"bundle": self.model} | ({"baseline": self.baseline} if self.baseline else {})


def plan_evaluation(
    model: str,
    data: str,
    gates: Mapping[str, Any] | str | None,
    baseline: str | None,
    overrides: Sequence[str],
    contract: str | None,
    *,
    record: bool,
) -> EvaluationPlan:
    """
    Check all that can be checked before a model or a table is read.

    Raises
    ------
    InputError
        One line that names what is wrong and the cure.
    """
    chosen, limits = read_limits(gates, baseline=baseline is not None)
    for address in (model, baseline):
        if address is not None:
            parse_address(address)
    try:
        wanted = None if contract is None else load_contract(contract)
    except ContractError as error:
        raise InputError(f"--contract: {error}") from None
    return EvaluationPlan(model, parse_data(data, overrides), chosen or {}, limits, baseline, wanted, record)


def execute(plan: EvaluationPlan, store: Store, run_id: str, engine: Engine) -> Verdict:
    """
    Measure, decide, and leave a verdict and pages.

    Raises
    ------
    EvenhandError
        After the verdict of a failed run was written. A gate that refuses raises nothing here.
    CacheMiss
        From an engine that may only look things up; no verdict is written.
    """
    steps = Steps(store, engine)
    with recorded_verdict(store, run_id, steps) as verdict, store.workdir() as scratch:
        opened = _open(plan, store, scratch)
        _measure(plan, opened, steps, scratch)
        documents = steps.documents()
        decision = judge(documents["metrics"], plan.gates, documents.get("comparison")).to_json()
        if plan.gates:
            documents["decision"] = decision
        _fill(verdict, plan, opened, steps, documents, decision)
        _write(verdict, plan, opened, steps, documents, decision)
        if plan.record and plan.gates and opened.model.version is not None:
            _record(verdict, plan, opened, steps, decision)
    return verdict


def _open(plan: EvaluationPlan, store: Store, scratch: Path) -> EvaluatedModels:
    """Fetch the models and refuse what cannot be evaluated or compared."""
    model = open_bundle(plan.model, store, scratch / "model")
    baseline = None if plan.baseline is None else open_bundle(plan.baseline, store, scratch / "baseline")
    for bundle in (model, baseline):
        if bundle is not None and bundle.is_proxy:
            raise InputError(
                f"{bundle.uri} is a balancing proxy, which predicts no label: "
                "only classifiers can be evaluated."
            )
        if bundle is not None:
            bundle.require_known_method()
    if plan.contract is not None:
        _same_contract(model, plan.contract, "--contract is")
    if baseline is not None:
        _same_label(model, baseline)
        _same_contract(model, baseline.contract, f"the baseline {baseline.uri} under")
    settings = {**model.evaluation["evaluate"], **plan.data.evaluate}
    check_evaluation_gates(plan.limits, model, settings)
    seed = int(model.evaluation["seed"]) if plan.data.seed is None else plan.data.seed
    return EvaluatedModels(model, baseline, settings, seed)


def _same_label(model: Bundle, baseline: Bundle) -> None:
    own, other = model.contract.label, baseline.contract.label
    if (own.name, own.positive) != (other.name, other.positive):
        raise InputError(
            f"the model {model.uri} predicts {own.name} = {own.positive!r}, the baseline {baseline.uri} "
            f"{other.name} = {other.positive!r}: choose a baseline that was trained for the same label."
        )


def _same_contract(model: Bundle, other: Contract, whose: str) -> None:
    own = model.contract
    made = f"the model {model.uri} was made under the contract {own.name} {own.version}, {whose}"
    if (own.name, own.version) != (other.name, other.version):
        raise InputError(
            f"{made} {other.name} {other.version}: publish it again under the version that counts."
        )
    if own.digest != other.digest:
        raise InputError(f"{made} another of the same name and version: raise the version of one of them.")


def _measure(plan: EvaluationPlan, opened: EvaluatedModels, steps: Steps, scratch: Path) -> None:
    """The steps: cached as those of a run are, and shared with them."""
    ingest(plan.data.source, opened.seed, steps)
    contract = opened.model.contract.to_dict()
    steps("contract", {"contract": contract}, {"raw": steps.output("ingest", "raw")})
    copies = {
        name: _stored(steps.store, bundle, scratch / f"copy-{name}")
        for name, bundle in opened.bundles.items()
    }
    steps(
        "measure_model",
        {"contract": contract, "evaluate": opened.settings, "seed": opened.seed},
        {"checked": steps.output("contract", "checked"), **copies},
        modules=sorted({METHODS[bundle.evaluation["method"]].module for bundle in opened.bundles.values()}),
    )


def _stored(store: Store, bundle: Bundle, copy: Path) -> Artifact:
    """The bundle as an artifact, so that the step's key is by its content and not by its version's number."""
    shutil.copytree(bundle.folder, copy)
    return store.put(copy, "bundle")


def _fill(
    verdict: Verdict,
    plan: EvaluationPlan,
    opened: EvaluatedModels,
    steps: Steps,
    documents: Mapping[str, Any],
    decision: dict[str, Any],
) -> None:
    verdict.status, verdict.exit_code = "evaluated", EXIT_OF_VERDICT[decision["verdict"]]
    verdict.add_metrics(documents["metrics"]["metrics"])
    verdict.gates, verdict.model = decision, opened.model.described()
    if opened.baseline is not None:
        measured = documents["baseline"]["metrics"]
        verdict.baseline = opened.baseline.described() | {
            "metrics": {name: metric["value"] for name, metric in measured.items()},
            "differences": documents["comparison"]["differences"],
        }
    fingerprint = steps.output("ingest", "raw").sha256
    for role, bundle in (("model", opened.model), ("baseline", opened.baseline)):
        if bundle is not None and bundle.trained_on(fingerprint):
            verdict.notes.append(f"the {role} {SAME_TABLE}")
    if opened.baseline is not None and opened.baseline.digest == opened.model.digest:
        verdict.notes.append(SAME_VERSION)
    if not plan.gates:
        verdict.notes.append(NO_GATES)


def _write(
    verdict: Verdict,
    plan: EvaluationPlan,
    opened: EvaluatedModels,
    steps: Steps,
    documents: Mapping[str, Any],
    decision: Mapping[str, Any],
) -> None:
    """Write the run's files: each is whole or absent."""
    store, folder = steps.store, ("runs", verdict.run_id)
    run = _facts(verdict, plan, opened, steps, decision)
    texts = {name: json.dumps(documents[name], indent=1) for name in FILES if name in documents}
    texts["decision"] = json.dumps(decision, indent=1)
    check = {"result": documents["result"], "run": {"title": "the table"}}
    texts["contract_page"] = write_page("contract", check, store)
    texts["junit"] = junit_of_decision(
        decision["results"],
        model=opened.model.uri,
        created=run["created"],
        seconds=sum(steps.seconds.values()),
        properties=_properties(verdict, opened, run),
    )
    texts["markdown"] = markdown_of_evaluation(run, documents, store.uri(*folder, "report.html"))
    run["files"] = [{"name": FILES[name][0], "href": FILES[name][1]} for name in FILES if name in texts]
    for name, text in texts.items():
        verdict.artifacts[name] = store.write_text(text, *folder, FILES[name][1])
    page = write_page("evaluation", {**documents, "run": run}, store)
    verdict.artifacts["report"] = store.write_text(page, *folder, "report.html")


def _properties(verdict: Verdict, opened: EvaluatedModels, run: Mapping[str, Any]) -> dict[str, str]:
    found = {
        "run_id": verdict.run_id,
        "model": opened.model.uri,
        "model_content": opened.model.digest,
        "data": run["data"]["shown"],
        "data_fingerprint": run["data"]["fingerprint"],
        "verdict": run["status"],
    }
    return found | ({"baseline": opened.baseline.uri} if opened.baseline else {})


def _facts(
    verdict: Verdict, plan: EvaluationPlan, opened: EvaluatedModels, steps: Steps, decision: Mapping[str, Any]
) -> dict[str, Any]:
    """What the page and the summary show of this run beside the documents of its steps."""
    facts, label = steps.facts("contract"), opened.model.contract.label
    negative, positive = opened.model.inputs["label_values"]
    return {
        "id": verdict.run_id,
        "created": now(),
        "status": decision["verdict"] if plan.gates else "no_gates",
        "judged": opened.model.described(),
        "baseline": None if opened.baseline is None else opened.baseline.described(),
        "data": {
            "shown": plan.data.shown,
            "rows": facts["rows_kept"],
            "rows_set_aside": facts["rows"] - facts["rows_kept"],
            "fingerprint": steps.output("ingest", "raw").sha256,
            "label": {"name": label.name, "positive": positive, "negative": negative},
        },
        "notes": verdict.notes,
        "steps": steps.timeline(),
        "environment": environment(),
    }


def _record(
    verdict: Verdict, plan: EvaluationPlan, opened: EvaluatedModels, steps: Steps, decision: Mapping[str, Any]
) -> None:
    """Record on the version what the gates decided: promotion goes by it."""
    model, fingerprint = opened.model, steps.output("ingest", "raw").sha256
    assert model.version is not None
    evaluation = {
        "kind": "evaluate",
        "when": now(),
        "who": actor(),
        "run_id": verdict.run_id,
        "verdict": decision["verdict"],
        "data_fingerprint": fingerprint,
        "gates": digest_of_gates(plan.gates),
        "baseline": None if opened.baseline is None else opened.baseline.uri,
        "metrics": steps.output("measure_model", "metrics").sha256,
        "settings": {key: opened.settings[key] for key in ("draws", "level", "min_cell", "intersections")},
        "same_table": model.trained_on(fingerprint),
    }
    with registry_client(tracking_uri(steps.store)) as client:
        record_evaluation(client, model.name, model.version, evaluation)
