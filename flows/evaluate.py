"""An evaluation: a published model and a baseline are measured on a table, and gates decide."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from evenhand.data_contracts.errors import ContractError
from evenhand.data_contracts.favourable import favourable_not_stated
from evenhand.data_contracts.model import Contract
from evenhand.data_contracts.odcs import load_contract
from evenhand.fairlib.evaluation.gates import Gate
from evenhand.fairlib.evaluation.group_selection import left_out_notes
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
from evenhand.flows.run import ingest
from evenhand.tasks.errors import InputError, input_errors, waits_for_service
from evenhand.tasks.evaluating.summaries import junit_of_decision, markdown_of_evaluation
from evenhand.tasks.execution.fingerprint import code_digest, now
from evenhand.tasks.execution.store import Artifact, Store
from evenhand.tasks.registry.bundle import Bundle, open_bundle, parse_address
from evenhand.tasks.registry.client import registry_client, tracking_uri
from evenhand.tasks.registry.ledger import actor, current_policy, record_evaluation
from evenhand.tasks.registry.policy_terms import (
    SETTINGS,
    judged_columns,
    judged_copies,
    kept_shares,
)
from evenhand.tasks.registry.row_digests import digest_of_rows, overlap
from evenhand.tasks.steps.gate_step import check_evaluation_gates, judge, read_limits

SAME_TABLE = "was trained on rows of this table: its metrics here are better than on people who are new to it"
SAME_VERSION = "model and baseline are the same version: there is no difference"
NO_GATES = "no gates were given: nothing was decided"
# JSON files of the run's folder and their titles.
FILES = {
    "metrics": "metrics",
    "baseline": "metrics of the baseline",
    "comparison": "comparison with the baseline",
    "decision": "decision of the gates",
}


@dataclass(frozen=True)
class EvaluationPlan:
    """Checked options of an evaluation; a given `contract` is the one that the model must be made
    under.
    """

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


@dataclass
class Evaluation:
    """An evaluation: plan, models, settings and steps; once measured also documents and
    decision.
    """

    plan: EvaluationPlan
    steps: Steps
    model: Bundle
    baseline: Bundle | None
    settings: dict[str, Any]
    seed: int
    documents: dict[str, Any] = field(default_factory=dict)
    decision: dict[str, Any] = field(default_factory=dict)

    @property
    def bundles(self) -> dict[str, Bundle]:
        """Bundles by the name of the measuring step's input."""
        return {"bundle": self.model} | ({"baseline": self.baseline} if self.baseline else {})

    @property
    def fingerprint(self) -> str:
        """Digest of the table."""
        return self.steps.output("ingest", "raw").sha256

    def overlap(self) -> float | None:
        """Share of the table's rows that the model was trained on; None if an older version
        published it.
        """
        reference = self.model.folder / "reference.json"
        known = json.loads(reference.read_text()).get("membership") if reference.is_file() else None
        checked = self.steps.store.fetch(self.steps.output("contract", "checked"))
        return (
            None if known is None else overlap(pq.read_table(checked), self.model.contract, known)
        )


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
    """Check the options, before a model or a table is read.

    Raises `InputError` with one line that names what is wrong and the cure.
    """
    chosen, limits = read_limits(gates, baseline=baseline is not None)
    for address in (model, baseline):
        if address is not None:
            parse_address(address)
    with input_errors("--contract: ", ContractError):
        wanted = None if contract is None else load_contract(contract)
    return EvaluationPlan(
        model, parse_data(data, overrides), chosen or {}, limits, baseline, wanted, record
    )


def execute(plan: EvaluationPlan, store: Store, run_id: str, engine: Engine) -> Verdict:
    """Measure, decide, and write a verdict and pages.

    Raises `EvenhandError` after the verdict of a failed run was written; a refusing gate raises
    nothing. Raises `CacheMiss` from an engine that may only use the cache; no verdict is written.
    """
    steps = Steps(store, engine)
    with recorded_verdict(store, run_id, steps) as verdict, store.workdir() as scratch:
        found = _open(plan, steps, scratch)
        _measure(found, scratch)
        _fill(verdict, found)
        try:
            if plan.record and plan.gates and found.model.version is not None:
                _record(verdict, found)
        finally:
            # the record may add a note; the files stay if the registry fails
            write_reports(verdict, found.steps, _facts(found), found.documents, found.decision)
    return verdict


def _open(plan: EvaluationPlan, steps: Steps, scratch: Path) -> Evaluation:
    """Fetch the models, and refuse a proxy or models that cannot be compared."""
    model = open_bundle(plan.model, steps.store, scratch / "model")
    baseline = None
    if plan.baseline is not None:
        baseline = open_bundle(plan.baseline, steps.store, scratch / "baseline")
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
    return Evaluation(plan, steps, model, baseline, settings, seed)


def _same_label(model: Bundle, baseline: Bundle) -> None:
    own = model.contract.label
    other = baseline.contract.label
    if (own.name, own.positive, own.classes) != (other.name, other.positive, other.classes):
        told, beside = (
            f"one of {len(label.classes)} classes of {label.name}"
            if label.classes
            else f"{label.name} = {label.positive!r}"
            for label in (own, other)
        )
        raise InputError(
            f"the model {model.uri} predicts {told}, the baseline {baseline.uri} {beside}: choose "
            "a baseline "
            "that was trained for the same label."
        )


def _same_contract(model: Bundle, other: Contract, whose: str) -> None:
    own = model.contract
    made = f"the model {model.uri} was made under the contract {own.name} {own.version}, {whose}"
    if (own.name, own.version) != (other.name, other.version):
        raise InputError(
            f"{made} {other.name} {other.version}: publish it again under the required version."
        )
    if own.digest != other.digest:
        raise InputError(
            f"{made} another of the same name and version: raise the version of one of them."
        )


def _measure(found: Evaluation, scratch: Path) -> None:
    """Run the steps, whose cache is shared with runs of jobs, and judge the metrics."""
    steps = found.steps
    ingest(with_forms(found.plan.data.source, found.model.evaluation), found.seed, steps)
    contract = found.model.contract.to_dict()
    checked_by = found.model.contract.without_favourable().to_dict()
    steps("contract", {"contract": checked_by}, {"raw": steps.output("ingest", "raw")})
    copies = {
        name: stored(steps.store, bundle, scratch / f"copy-{name}")
        for name, bundle in found.bundles.items()
    }
    steps(
        "measure_model",
        {"contract": contract, "evaluate": found.settings, "seed": found.seed},
        {"checked": steps.output("contract", "checked"), **copies},
        modules=sorted(
            {METHODS[bundle.evaluation["method"]].module for bundle in found.bundles.values()}
        ),
    )
    documents = steps.documents()
    gates = found.plan.gates
    found.decision = judge(documents["metrics"], gates, documents.get("comparison")).to_json()
    found.documents = documents | ({"decision": found.decision} if gates else {})


def stored(store: Store, bundle: Bundle, copy: Path) -> Artifact:
    """Store the bundle as an artifact: the step's key then depends on its content, not on its
    version.
    """
    shutil.copytree(bundle.folder, copy)
    return store.put(copy, "bundle")


def _fill(verdict: Verdict, found: Evaluation) -> None:
    documents = found.documents
    fill_verdict(verdict, documents, found.decision, found.model.described())
    if found.baseline is not None:
        measured = documents["baseline"]["metrics"]
        verdict.baseline = found.baseline.described() | {
            "metrics": {name: metric["value"] for name, metric in measured.items()},
            "differences": documents["comparison"]["differences"],
        }
    for role, bundle in (("model", found.model), ("baseline", found.baseline)):
        if bundle is not None:
            verdict.notes += bundle.notes
        if bundle is not None and bundle.trained_on(found.fingerprint):
            verdict.notes.append(f"the {role} {SAME_TABLE}")
    if found.baseline is not None and found.baseline.digest == found.model.digest:
        verdict.notes.append(SAME_VERSION)
    label = found.model.contract.label
    if not label.classes and not label.states_favourable:
        verdict.notes.append(favourable_not_stated(label))


def fill_verdict(
    verdict: Verdict, documents: dict[str, Any], decision: dict[str, Any], model: dict[str, Any]
) -> None:
    """Fill in what was measured of a model, and what the gates decided."""
    verdict.status = "evaluated"
    verdict.exit_code = EXIT_OF_VERDICT[decision["verdict"]]
    verdict.add_metrics(documents["metrics"]["metrics"])
    verdict.gates = decision
    verdict.model = model
    verdict.notes += left_out_notes(documents["metrics"])
    if not decision["results"]:
        verdict.notes.append(NO_GATES)


def write_reports(
    verdict: Verdict,
    steps: Steps,
    facts: dict[str, Any],
    documents: dict[str, Any],
    decision: dict[str, Any],
) -> None:
    """Write the run's files, each atomically; `facts` are what page and summary show of
    this run.
    """
    run = {
        "id": verdict.run_id,
        "created": now(),
        "status": decision["verdict"] if decision["results"] else "no_gates",
        "notes": verdict.notes,
        "steps": steps.timeline(),
        **facts,
    }
    folder = RunFolder(steps.store, verdict)
    contents = {**documents, "decision": decision}
    judged = run["judged"]
    baseline = run["baseline"]
    data = run["data"]
    for name, title in FILES.items():
        if name in contents:
            folder.write_json(name, f"{name}.json", contents[name], title)
    properties = {
        "run_id": verdict.run_id,
        "model": judged["uri"],
        "model_content": judged["content"],
        "data": data["shown"],
        "data_fingerprint": data["fingerprint"],
        "verdict": run["status"],
    }
    junit = junit_of_decision(
        decision["results"],
        model=judged["uri"],
        created=run["created"],
        seconds=sum(steps.seconds.values()),
        properties=properties | ({"baseline": baseline["uri"]} if baseline else {}),
    )
    folder.write("junit", "junit.xml", junit, "JUnit report")
    report = steps.store.uri("runs", verdict.run_id, "report.html")
    folder.write(
        "markdown", "summary.md", markdown_of_evaluation(run, documents, report), "summary"
    )
    if "result" in documents:
        folder.write_check(
            "contract_page",
            "contract.html",
            documents["result"],
            "the table",
            "checks of the table",
        )
    folder.write_report("evaluation", documents, run)


def _facts(found: Evaluation) -> dict[str, Any]:
    """Return what the page and the summary show of this run beside the documents of its steps."""
    plan = found.plan
    facts = found.steps.facts("contract")
    return {
        "judged": found.model.described(),
        "baseline": None if found.baseline is None else found.baseline.described(),
        "data": {
            "shown": plan.data.shown,
            "rows": facts["rows_kept"],
            "rows_set_aside": facts["rows"] - facts["rows_kept"],
            "fingerprint": found.fingerprint,
            "label": found.model.label,
        },
        "value_names": found.model.value_names,
    }


def _settings_of(found: Evaluation) -> dict[str, Any]:
    """Return the settings that a policy pins."""
    settings = {**found.settings, "seed": found.seed}
    return {key: settings[key] for key in SETTINGS}


def _kept(found: Evaluation, *, by_group: bool) -> dict[str, Any]:
    """Return the share of the table's rows that was measured, and the smallest of a group's."""
    facts = found.steps.facts("contract")
    if not by_group:
        return {"rows": facts["rows_kept"] / facts["rows"]}
    steps = found.steps
    raw = pq.read_table(steps.store.fetch(steps.output("ingest", "raw")))
    checked = pq.read_table(steps.store.fetch(steps.output("contract", "checked")))
    return kept_shares(raw, checked, found.model.contract, found.settings["min_cell"])


@waits_for_service
def _record(verdict: Verdict, found: Evaluation) -> None:
    """Add the gates' decision to the model's chain: promotion depends on it."""
    model = found.model
    steps = found.steps
    uri = tracking_uri(found.steps.store)
    assert model.version is not None
    metrics = found.documents["metrics"]["metrics"]
    policy = current_policy(uri, model.name)
    holdout = policy["holdout"] if policy else None
    evaluation = {
        "kind": "evaluate",
        "when": now(),
        "who": actor(),
        "run_id": verdict.run_id,
        "verdict": found.decision["verdict"],
        "data_fingerprint": found.fingerprint,
        "gates": found.plan.gates,
        "values": {name: metric["value"] for name, metric in metrics.items()},
        "model": model.digest,
        "code": code_digest(
            ["evenhand.tasks.steps.measure_model_step", "evenhand.tasks.steps.gate_step"]
        ),
        "overlap": found.overlap(),
        "baseline": None if found.baseline is None else found.baseline.uri,
        "metrics": steps.output("measure_model", "metrics").sha256,
        "settings": _settings_of(found),
        "judged": judged_columns(model.contract),
        "copies": judged_copies(list(found.plan.gates), found.settings),
        "kept": _kept(found, by_group=policy is not None),
        "same_table": model.trained_on(found.fingerprint),
    }
    if holdout:
        raw = pq.read_table(steps.store.fetch(steps.output("ingest", "raw")))
        evaluation["holdout"] = digest_of_rows(raw, holdout["salt"])
    with registry_client(uri) as client:
        record_evaluation(client, model.name, model.version, evaluation)
    if holdout and evaluation["holdout"] != holdout["digest"]:
        verdict.notes.append(
            f"these are not the {holdout['rows']:,} rows of the policy's holdout: the evaluation "
            "counts "
            "for no promotion"
        )
