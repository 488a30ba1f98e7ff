"""An evaluation: a published model and a baseline are measured on a table, and gates decide."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from evenhand.data_contracts.errors import ContractError
from evenhand.data_contracts.favourable import favourable_not_stated
from evenhand.data_contracts.model import Column, Contract
from evenhand.data_contracts.odcs import load_contract
from evenhand.fairlib.evaluation.gates import Gate
from evenhand.fairlib.evaluation.group_selection import left_out_notes
from evenhand.fairlib.methods.registry import METHODS
from evenhand.fairlib.outcome_words import outcome_in_words
from evenhand.flows.data_source import DataSource, parse_data, with_forms
from evenhand.flows.engine import (
    EXIT_OF_VERDICT,
    Engine,
    RunFolder,
    Steps,
    Verdict,
    recorded_verdict,
)
from evenhand.flows.run import (
    group_findings,
    ingest,
    overall_rates,
    reading_notes,
    unknown_columns_notes,
)
from evenhand.tasks.errors import InputError, input_errors, waits_for_service
from evenhand.tasks.evaluating.limits import check_evaluation_gates, judge, read_limits
from evenhand.tasks.evaluating.summaries import junit_of_decision, markdown_of_evaluation
from evenhand.tasks.execution.fingerprint import code_digest, now
from evenhand.tasks.execution.store import Artifact, Store
from evenhand.tasks.pages.formats import plural, shortlist
from evenhand.tasks.registry.bundle import Bundle, open_bundle, parse_address
from evenhand.tasks.registry.client import registry_client, tracking_uri
from evenhand.tasks.registry.ledger import (
    Record,
    actor,
    current_policy,
    read_chain,
    record_evaluation,
)
from evenhand.tasks.registry.policy import leave_policy_traces, unmet_terms
from evenhand.tasks.registry.policy_terms import (
    SETTINGS,
    digest_of_judged,
    evaluating_version,
    favourable_outcome,
    group_sizes,
    judged_columns,
    judged_copies,
    kept_shares,
)
from evenhand.tasks.registry.policy_traces import refuse_without_policy
from evenhand.tasks.registry.row_digests import RECORD, digest_of_rows, key_file, read_key
from evenhand.tasks.registry.row_overlap import TrainingOverlap, needed_key, overlap
from evenhand.tasks.sources.row_group_blocks import columns_of_raw, unknown_columns

SAME_TABLE = (
    "was trained on rows of this table: its metrics here are better than on people who are new to "
    "it"
)
SAME_VERSION = "model and baseline are the same version: there is no difference"
NO_GATES = "no gates were given: nothing was decided"
# JSON files of the run's folder and their titles.
FILES = {
    "metrics": "metrics",
    "baseline": "metrics of the baseline",
    "comparison": "comparison with the baseline",
    "decision": "decision of the gates",
    "audit": "verdict, groups and gaps of an audit",
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
    ignored_columns: list[str] = field(default_factory=list)  # the contract does not know them
    # of the contract, ids and ignored ones that the table lacks
    unneeded_columns: list[str] = field(default_factory=list)
    unmet: str | None = None  # why the model's policy does not accept it

    @property
    def bundles(self) -> dict[str, Bundle]:
        """Bundles by the name of the measuring step's input."""
        bundles = {"bundle": self.model}
        if self.baseline:
            bundles["baseline"] = self.baseline
        return bundles

    @property
    def fingerprint(self) -> str:
        """Digest of the table."""
        return self.steps.output("ingest", "raw").sha256

    def training_record(self) -> dict[str, Any] | None:
        """Record of the model's training rows; None if it was published without one."""
        for name, key in ((RECORD, None), ("reference.json", "membership")):
            path = self.model.folder / name
            if not path.is_file():
                continue
            content: dict[str, Any] = json.loads(path.read_text())
            if key is None:
                return content
            if key in content:
                older: dict[str, Any] = content[key]
                return older
        return None

    def overlap(self) -> TrainingOverlap:
        """Share of the table's rows that the model was trained on."""
        record = self.training_record()
        if record is None:
            return TrainingOverlap(None, note="the model has no record of its training rows")
        key = None
        if needed_key(record) is not None:
            key = read_key(key_file(self.steps.store))
        checked = self.steps.store.fetch(self.steps.output("contract", "checked"))
        return overlap(pq.read_table(checked), self.model.contract, record, key)


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
    required = None
    if contract is not None:
        with input_errors("--contract: ", ContractError):
            required = load_contract(contract)
    source = parse_data(data, overrides)
    return EvaluationPlan(model, source, chosen or {}, limits, baseline, required, record)


def execute(plan: EvaluationPlan, store: Store, run_id: str, engine: Engine) -> Verdict:
    """Measure, decide, and write a verdict and pages, as `execute_recorded` does."""
    return execute_recorded(plan, store, run_id, engine)[0]


def execute_recorded(
    plan: EvaluationPlan, store: Store, run_id: str, engine: Engine
) -> tuple[Verdict, Record | None]:
    """Measure, decide, and write a verdict and pages; return the verdict and the chain's record of
    it, if there is one.

    Raises `EvenhandError` after the verdict of a failed run was written; a refusing gate raises
    nothing. Raises `CacheMiss` from an engine that may only use the cache; no verdict is written.
    """
    steps = Steps(store, engine)
    record = None
    with recorded_verdict(store, run_id, steps) as verdict, store.workdir() as scratch:
        evaluation = _open(plan, steps, scratch)
        if plan.record and plan.gates and evaluation.model.version is not None:
            refuse_without_policy(tracking_uri(store), evaluation.model.name)
        _measure(evaluation, scratch)
        _fill(verdict, evaluation)
        try:
            if plan.record and plan.gates and evaluation.model.version is not None:
                record = _record(verdict, evaluation)
        finally:
            # the record may add a note; the files stay if the registry fails
            write_reports(
                verdict, steps, _facts(evaluation), evaluation.documents, evaluation.decision
            )
    return verdict, record


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
    seed = plan.data.seed
    if seed is None:
        seed = int(model.evaluation["seed"])
    return Evaluation(plan, steps, model, baseline, settings, seed)


def _same_label(model: Bundle, baseline: Bundle) -> None:
    label = model.contract.label.outcome
    baseline_label = baseline.contract.label.outcome
    for attribute in ("name", "positive", "classes"):
        if getattr(label, attribute) != getattr(baseline_label, attribute):
            raise InputError(
                f"the model {model.uri} predicts {_label_in_words(label)}, the baseline "
                f"{baseline.uri} {_label_in_words(baseline_label)}: choose a baseline that was "
                "trained for the same label."
            )


def _label_in_words(label: Column) -> str:
    if label.classes:
        return f"one of {len(label.classes)} classes of {label.name}"
    return outcome_in_words(label.name, label.positive)


def _same_contract(model: Bundle, other: Contract, whose: str) -> None:
    contract = model.contract
    made = (
        f"the model {model.uri} was made under the contract {contract.name} {contract.version}, "
        f"{whose}"
    )
    if (contract.name, contract.version) != (other.name, other.version):
        raise InputError(
            f"{made} {other.name} {other.version}: publish it again under the required version."
        )
    if contract.digest != other.digest:
        raise InputError(
            f"{made} another of the same name and version: raise the version of one of them."
        )


def _measure(evaluation: Evaluation, scratch: Path) -> None:
    """Run the steps, whose cache is shared with runs of jobs, and judge the metrics."""
    steps = evaluation.steps
    model = evaluation.model
    ingest(with_forms(evaluation.plan.data.source, model.evaluation), evaluation.seed, steps)
    contract = model.contract.to_dict()
    checked_by = model.contract.without_favourable()
    if checked_by.rules_observed:
        # what nobody stated sets rows aside and does not refuse a table
        checked_by = replace(checked_by, on_violation="quarantine")
    raw = steps.output("ingest", "raw")
    raw_table = steps.store.fetch(raw)
    evaluation.unneeded_columns = _unneeded_columns(raw_table, checked_by)
    needed = [
        column for column in checked_by.columns if column.name not in evaluation.unneeded_columns
    ]
    checked_by = replace(checked_by, columns=tuple(needed))
    evaluation.ignored_columns = _ignored_columns(raw_table, checked_by)
    checking: dict[str, Any] = {"contract": checked_by.to_dict()}
    if evaluation.ignored_columns:
        # a key of its own only where there are such: the others share the cache of runs
        checking["ignored_columns"] = evaluation.ignored_columns
    steps("contract", checking, {"raw": raw})
    inputs = {"checked": steps.output("contract", "checked")}
    modules = set()
    for name, bundle in evaluation.bundles.items():
        inputs[name] = stored(steps.store, bundle, scratch / f"copy-{name}")
        modules.add(METHODS[bundle.evaluation["method"]].module)
    steps(
        "measure_model",
        {"contract": contract, "evaluate": evaluation.settings, "seed": evaluation.seed},
        inputs,
        modules=sorted(modules),
    )
    documents = steps.documents()
    gates = evaluation.plan.gates
    decision = judge(documents["metrics"], gates, documents.get("comparison")).to_json()
    evaluation.decision = decision
    evaluation.documents = documents
    if gates:
        evaluation.documents = documents | {"decision": decision}


def _unneeded_columns(raw: Path, contract: Contract) -> list[str]:
    """Names of a contract's columns that a table lacks and that no model is measured by."""
    present = set(columns_of_raw(raw))
    unused = [column for column in contract.columns if column.role in ("id", "ignore")]
    return [column.name for column in unused if column.name not in present]


def _unneeded_columns_notes(names: Sequence[str]) -> list[str]:
    """Return a sentence on columns that a table lacks and that are not missed."""
    if not names:
        return []
    quoted = [f"'{name}'" for name in names]
    counted = plural(len(names), "column")
    return [f"measured without {counted} that no model reads: {shortlist(quoted)}"]


def _ignored_columns(raw: Path, contract: Contract) -> list[str]:
    """Names of a table's columns that its contract does not know; none if the check has more to say
    about columns: one is missing, perhaps renamed, or one is there twice.
    """
    names = columns_of_raw(raw)
    declared = {column.name for column in contract.columns}
    if not declared <= set(names) or len(names) > len(set(names)):
        return []
    return unknown_columns(raw, contract)


def stored(store: Store, bundle: Bundle, copy: Path) -> Artifact:
    """Store the bundle as an artifact: the step's key then depends on its content, not on its
    version.
    """
    shutil.copytree(bundle.folder, copy)
    return store.put(copy, "bundle")


def _fill(verdict: Verdict, evaluation: Evaluation) -> None:
    """Fill in the metrics, the decision, the comparison with the baseline, and notes."""
    model = evaluation.model
    baseline = evaluation.baseline
    documents = evaluation.documents
    fill_verdict(verdict, documents, evaluation.decision, model.described())
    verdict.rates = overall_rates(documents["metrics"])
    verdict.findings = group_findings(documents["metrics"])
    if baseline is not None:
        metrics = documents["baseline"]["metrics"]
        verdict.baseline = baseline.described() | {
            "metrics": {name: metric["value"] for name, metric in metrics.items()},
            "differences": documents["comparison"]["differences"],
        }
    verdict.notes += reading_notes(evaluation.steps)
    verdict.notes += unknown_columns_notes(evaluation.ignored_columns)
    verdict.notes += _unneeded_columns_notes(evaluation.unneeded_columns)
    verdict.notes += _notes_on("model", model, evaluation.fingerprint)
    if baseline is not None:
        verdict.notes += _notes_on("baseline", baseline, evaluation.fingerprint)
        if baseline.digest == model.digest:
            verdict.notes.append(SAME_VERSION)
    label = model.contract.label
    if not label.classes and not label.states_favourable:
        verdict.notes.append(favourable_not_stated(label))


def _notes_on(role: str, bundle: Bundle, fingerprint: str) -> list[str]:
    """Return a bundle's notes, and one more if it was trained on this table."""
    notes = list(bundle.notes)
    if bundle.trained_on(fingerprint):
        notes.append(f"the {role} {SAME_TABLE}")
    return notes


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
    kind: str = "evaluation",
) -> None:
    """Write the run's files, each atomically; `facts` are what page and summary show of
    this run, and `kind` is that of the page.
    """
    run = {
        "id": verdict.run_id,
        "created": now(),
        "status": "no_gates",
        "notes": verdict.notes,
        "steps": steps.timeline(),
        **facts,
    }
    if decision["results"]:
        run["status"] = decision["verdict"]
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
    if baseline:
        properties["baseline"] = baseline["uri"]
    junit = junit_of_decision(
        decision["results"],
        model=judged["uri"],
        created=run["created"],
        seconds=sum(steps.seconds.values()),
        properties=properties,
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
    folder.write_report(kind, documents, run)


def _facts(evaluation: Evaluation) -> dict[str, Any]:
    """Return what the page and the summary show in addition to the documents of the steps."""
    model = evaluation.model
    counts = evaluation.steps.facts("contract")
    facts = {
        "judged": model.described(),
        "baseline": None,
        "data": {
            "shown": evaluation.plan.data.shown,
            "rows": counts["rows_kept"],
            "rows_set_aside": counts["rows"] - counts["rows_kept"],
            "fingerprint": evaluation.fingerprint,
            "label": model.label,
        },
        "value_names": model.value_names,
        "unmet": evaluation.unmet,
    }
    if evaluation.baseline is not None:
        facts["baseline"] = evaluation.baseline.described()
    return facts


def _settings_of(evaluation: Evaluation) -> dict[str, Any]:
    """Return the settings that a policy pins."""
    settings = {**evaluation.settings, "seed": evaluation.seed}
    return {key: settings[key] for key in SETTINGS}


def _kept(evaluation: Evaluation, *, by_group: bool) -> dict[str, Any]:
    """Return the share of the table's rows that was measured, and the smallest of a group's."""
    steps = evaluation.steps
    if not by_group:
        facts = steps.facts("contract")
        return {"rows": facts["rows_kept"] / facts["rows"]}
    raw = pq.read_table(steps.store.fetch(steps.output("ingest", "raw")))
    checked = pq.read_table(steps.store.fetch(steps.output("contract", "checked")))
    return kept_shares(raw, checked, evaluation.model.contract, evaluation.settings["min_cell"])


def _sizes(evaluation: Evaluation, policy: dict[str, Any] | None) -> dict[str, dict[str, int]]:
    """Return the measured rows of the groups that the policy names."""
    least_sizes = (policy or {}).get("group_sizes")
    if not least_sizes:
        return {}
    steps = evaluation.steps
    checked = pq.read_table(steps.store.fetch(steps.output("contract", "checked")))
    return group_sizes(checked, evaluation.model.contract, least_sizes)


@waits_for_service
def _record(verdict: Verdict, evaluation: Evaluation) -> Record:
    """Add the gates' decision to the model's chain: promotion depends on it."""
    model = evaluation.model
    steps = evaluation.steps
    uri = tracking_uri(steps.store)
    assert model.version is not None
    metrics = evaluation.documents["metrics"]["metrics"]
    policy = current_policy(uri, model.name)
    training_overlap = evaluation.overlap()
    judged = judged_columns(model.contract)
    content = {
        "kind": "evaluate",
        "when": now(),
        "who": actor(),
        "run_id": verdict.run_id,
        "verdict": evaluation.decision["verdict"],
        "data_fingerprint": evaluation.fingerprint,
        "gates": evaluation.plan.gates,
        "values": {name: metric["value"] for name, metric in metrics.items()},
        "model": model.digest,
        "code": code_digest(
            ["evenhand.tasks.steps.measure_model_step", "evenhand.tasks.evaluating.limits"]
        ),
        "overlap": training_overlap.share,
        "baseline": None,
        "metrics": steps.output("measure_model", "metrics").sha256,
        "settings": _settings_of(evaluation),
        "judged": judged,
        "judged_digest": digest_of_judged(judged),
        "favourable": favourable_outcome(model.contract),
        "copies": judged_copies(list(evaluation.plan.gates), evaluation.settings),
        "kept": _kept(evaluation, by_group=policy is not None),
        "sizes": _sizes(evaluation, policy),
        "evenhand": evaluating_version(),
        "overlap_method": training_overlap.method,
        "overlap_noticed_from": training_overlap.noticed_from,
        "policy": (policy or {}).get("digest"),
        "same_table": model.trained_on(evaluation.fingerprint),
    }
    if evaluation.baseline is not None:
        content["baseline"] = evaluation.baseline.uri
    holdout = None
    if policy:
        holdout = policy["holdout"]
    if holdout:
        raw = pq.read_table(steps.store.fetch(steps.output("ingest", "raw")))
        content["holdout"] = digest_of_rows(raw, holdout["salt"])
    unmet = unmet_terms(policy, content) if policy else None
    content["unmet"] = unmet
    evaluation.unmet = unmet
    with registry_client(uri) as client:
        record = record_evaluation(client, model.name, model.version, content)
        if policy is not None:
            leave_policy_traces(client, read_chain(client, model.name), model.version)
    if training_overlap.note:
        verdict.notes.append(training_overlap.note)
    if unmet is not None:
        verdict.notes.append(f"the policy does not accept this evaluation: {unmet}")
        if verdict.exit_code == 0:
            verdict.exit_code = 1
    if holdout and content["holdout"] != holdout["digest"]:
        verdict.notes.append(
            f"these are not the {holdout['rows']:,} rows of the policy's holdout: the evaluation "
            "counts for no promotion"
        )
    return record
