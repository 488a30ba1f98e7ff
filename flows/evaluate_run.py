"""An evaluation: a published model meets a table, a baseline and gates, and what came of it is written."""

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

from evenhand.data_contracts.errors import ContractError
from evenhand.data_contracts.model import Contract
from evenhand.data_contracts.odcs import load_contract
from evenhand.fairlib.evaluation.gates import Gate, parse_gates
from evenhand.fairlib.methods.registry import METHODS
from evenhand.flows.data_source import DataSource, parse_data
from evenhand.flows.engine import Engine, Run, Steps
from evenhand.flows.execute import leaving_verdict
from evenhand.flows.job import as_number
from evenhand.flows.pipeline import ingest
from evenhand.flows.run_outputs import REPORTED_PACKAGES
from evenhand.flows.verdict import EXIT_OF_VERDICT, Verdict
from evenhand.tasks.addresses import parse_address
from evenhand.tasks.aliases import actor, now, record_evaluation
from evenhand.tasks.artifacts import Artifact
from evenhand.tasks.bundle import Bundle, open_bundle
from evenhand.tasks.errors import InputError
from evenhand.tasks.evaluating.junit import junit_of_decision
from evenhand.tasks.evaluating.markdown import markdown_of_evaluation
from evenhand.tasks.evaluating.verdicts import (
    check_gates,
    digest_of_gates,
    read_gates,
    without_baseline,
)
from evenhand.tasks.fingerprint import git_state, library_versions
from evenhand.tasks.gate import judge
from evenhand.tasks.registry import registry_client, tracking_uri
from evenhand.tasks.reporting.contract_check import render_check
from evenhand.tasks.reporting.evaluation import render_evaluation
from evenhand.tasks.store import Store

__all__ = ["EvaluationJob", "carry_out_evaluation", "plan_evaluation", "run_name"]

SAME_TABLE = (
    "learned from rows of this very table: its metrics here are better than on people whom it never saw"
)
SAME_VERSION = "model and baseline are the same version: there is nothing to tell between them"
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
class EvaluationJob:
    """What to evaluate on what, by which gates; the model must have been made under `contract`, if given."""

    model: str
    data: DataSource
    gates: dict[str, Any]
    limits: tuple[Gate, ...]
    baseline: str | None
    contract: Contract | None
    record: bool


@dataclass(frozen=True)
class Opened:
    """The models of an evaluation, held against each other, and how they are measured."""

    model: Bundle
    baseline: Bundle | None
    settings: dict[str, Any]
    seed: int

    @property
    def bundles(self) -> dict[str, Bundle]:
        """By the name that the measuring step has for each."""
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
) -> EvaluationJob:
    """
    Check all that can be checked before a model or a table is looked at.

    Raises
    ------
    InputError
        One line that names what is wrong and the cure.
    """
    if gates is None:
        chosen: dict[str, Any] = {}
    else:
        chosen = read_gates(Path(gates).expanduser()) if isinstance(gates, str) else dict(gates)
    chosen = {
        metric: {key: as_number(limit) for key, limit in limits.items()}
        if isinstance(limits, Mapping)
        else limits
        for metric, limits in chosen.items()
    }
    try:
        limits = tuple(parse_gates(chosen))
    except ValueError as error:
        raise InputError(f"gates: {error}.") from None
    if baseline is None:
        without_baseline(limits)
    for address in (model, baseline):
        if address is not None:
            parse_address(address)
    try:
        wanted = None if contract is None else load_contract(contract)
    except ContractError as error:
        raise InputError(f"--contract: {error}") from None
    return EvaluationJob(model, parse_data(data, overrides), chosen, limits, baseline, wanted, record)


def run_name(model: str) -> str:
    """What an evaluation of the model is called, as far as its address tells."""
    address = parse_address(model)
    name = address.name or (address.folder.resolve().name if address.folder else "")
    return f"{re.sub(r'[^A-Za-z0-9._-]', '-', name).strip('-.') or 'model'}-evaluate"


def carry_out_evaluation(job: EvaluationJob, store: Store, run_id: str, engine: Engine) -> Verdict:
    """
    Measure, decide, and leave a verdict and pages whatever happens.

    Raises
    ------
    EvenhandError
        After the verdict of a failed run was written. A gate that refuses raises nothing here.
    CacheMiss
        From an engine that may only look things up; no verdict is written.
    """
    run, verdict = Run(), Verdict(run_id, "failed", 4)
    with leaving_verdict(store, verdict, run), store.workdir() as scratch:
        opened = _open(job, store, scratch)
        _measure(job, opened, Steps(store, engine, run, time.perf_counter), scratch)
        content = {
            name: json.loads(store.fetch(artifact).read_text())
            for name, artifact in run.records["measure_model"].outputs.items()
        }
        run.decision = judge(content["metrics"], job.gates, content.get("comparison")).to_json()
        _fill(verdict, job, opened, run, content)
        _write(store, verdict, job, opened, run, content)
        if job.record and job.gates and opened.model.version is not None:
            _record(store, verdict, job, opened, run)
    return verdict


def _open(job: EvaluationJob, store: Store, scratch: Path) -> Opened:
    """Fetch the models and refuse what cannot be evaluated or compared."""
    model = open_bundle(job.model, store, scratch / "model")
    baseline = None if job.baseline is None else open_bundle(job.baseline, store, scratch / "baseline")
    for bundle in (model, baseline):
        if bundle is None:
            continue
        if bundle.is_proxy:
            raise InputError(
                f"{bundle.uri} is a balancing proxy, which predicts no label: "
                "only classifiers can be evaluated."
            )
        if bundle.evaluation.get("method") not in METHODS:
            raise InputError(
                f"{bundle.uri} is of a method that this version lacks: update evenhand, or publish it again."
            )
    if job.contract is not None:
        _same_contract(model, job.contract, "--contract is")
    if baseline is not None:
        _same_label(model, baseline)
        _same_contract(model, baseline.contract, f"the baseline {baseline.uri} under")
    settings = {**model.evaluation["evaluate"], **job.data.evaluate}
    check_gates(job.limits, model, settings)
    seed = int(model.evaluation["seed"]) if job.data.seed is None else job.data.seed
    return Opened(model, baseline, settings, seed)


def _same_label(model: Bundle, baseline: Bundle) -> None:
    own, other = model.contract.label, baseline.contract.label
    if (own.name, own.positive) != (other.name, other.positive):
        raise InputError(
            f"the model {model.uri} predicts {own.name} = {own.positive!r}, the baseline {baseline.uri} "
            f"{other.name} = {other.positive!r}: choose a baseline that was trained for the same label."
        )


def _same_contract(model: Bundle, other: Contract, whose: str) -> None:
    own = model.contract
    if (own.name, own.version) != (other.name, other.version):
        raise InputError(
            f"the model {model.uri} was made under the contract {own.name} {own.version}, {whose} "
            f"{other.name} {other.version}: publish it again under the version that counts."
        )
    if own.digest != other.digest:
        raise InputError(
            f"the model {model.uri} was made under the contract {own.name} {own.version}, {whose} another "
            "of the same name and version: raise the version of one of them."
        )


def _measure(job: EvaluationJob, opened: Opened, steps: Steps, scratch: Path) -> None:
    """The steps: cached as those of a run are, and shared with them."""
    ingest(job.data.source, opened.seed, steps)
    contract = opened.model.contract.to_dict()
    steps("contract", {"contract": contract}, {"raw": steps.output("ingest", "raw")})
    steps(
        "measure_model",
        {"contract": contract, "evaluate": opened.settings, "seed": opened.seed},
        {"checked": steps.output("contract", "checked")}
        | {
            name: _stored(steps.store, bundle, scratch / f"copy-{name}")
            for name, bundle in opened.bundles.items()
        },
        modules=sorted({METHODS[bundle.evaluation["method"]].module for bundle in opened.bundles.values()}),
    )


def _stored(store: Store, bundle: Bundle, copy: Path) -> Artifact:
    """The bundle as an artifact, so that the step's key is by its content and not by its version's number."""
    shutil.copytree(bundle.folder, copy)
    return store.put(copy, "bundle")


def _fill(verdict: Verdict, job: EvaluationJob, opened: Opened, run: Run, content: Mapping[str, Any]) -> None:
    verdict.status, verdict.exit_code = "evaluated", EXIT_OF_VERDICT[run.decision["verdict"]]
    for name, metric in content["metrics"]["metrics"].items():
        verdict.metrics[name] = metric["value"]
        if metric["low"] is not None:
            verdict.metrics |= {f"{name}.low": metric["low"], f"{name}.high": metric["high"]}
    verdict.gates = run.decision
    verdict.model = _described(opened.model)
    if opened.baseline is not None:
        measured = content["baseline"]["metrics"]
        verdict.baseline = _described(opened.baseline) | {
            "metrics": {name: metric["value"] for name, metric in measured.items()},
            "differences": content["comparison"]["differences"],
        }
    verdict.notes = _notes(job, opened, run)


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


def _learned_here(bundle: Bundle, run: Run) -> bool:
    """Whether the model learned from rows of the table that it is judged on."""
    return bool(bundle.evaluation.get("data_fingerprint") == run.output("ingest", "raw").sha256)


def _notes(job: EvaluationJob, opened: Opened, run: Run) -> list[str]:
    """What whoever reads the verdict should know."""
    notes = []
    model, baseline = opened.model, opened.baseline
    for role, bundle in (("model", model), ("baseline", baseline)):
        if bundle is not None and _learned_here(bundle, run):
            notes.append(f"the {role} {SAME_TABLE}")
    if baseline is not None and baseline.digest == model.digest:
        notes.append(SAME_VERSION)
    if not job.gates:
        notes.append(NO_GATES)
    return notes


def _write(
    store: Store,
    verdict: Verdict,
    job: EvaluationJob,
    opened: Opened,
    run: Run,
    content: Mapping[str, Any],
) -> None:
    """Write the run's files: each is whole or absent."""
    folder = ("runs", verdict.run_id)
    created = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    context = _context(verdict, job, opened, run, content, created)
    texts = {
        name: store.fetch(artifact).read_text()
        for name, artifact in run.records["measure_model"].outputs.items()
        if name in FILES
    }
    texts["decision"] = json.dumps(run.decision, indent=1)
    checked = json.loads(store.fetch(run.output("contract", "result")).read_text())
    texts["contract_page"] = render_check(checked)
    texts["junit"] = junit_of_decision(
        run.decision["results"],
        model=opened.model.uri,
        created=created,
        seconds=sum(run.seconds.values()),
        properties=_properties(verdict, opened, context),
    )
    texts["markdown"] = markdown_of_evaluation(context, store.uri(*folder, "report.html"))
    context["files"] = [{"name": FILES[name][0], "href": FILES[name][1]} for name in FILES if name in texts]
    for name, text in texts.items():
        verdict.artifacts[name] = store.write_text(text, *folder, FILES[name][1])
    verdict.artifacts["report"] = store.write_text(render_evaluation(context), *folder, "report.html")


def _properties(verdict: Verdict, opened: Opened, context: Mapping[str, Any]) -> dict[str, str]:
    found = {
        "run_id": verdict.run_id,
        "model": opened.model.uri,
        "model_content": opened.model.digest,
        "data": context["data"]["shown"],
        "data_fingerprint": context["data"]["fingerprint"],
        "verdict": context["status"],
    }
    return found | ({"baseline": opened.baseline.uri} if opened.baseline else {})


def _context(
    verdict: Verdict,
    job: EvaluationJob,
    opened: Opened,
    run: Run,
    content: Mapping[str, Any],
    created: str,
) -> dict[str, Any]:
    """Everything that report and summary show, as plain JSON types."""
    commit, dirty = git_state()
    facts = run.records["contract"].facts
    negative, positive = opened.model.inputs["label_values"]
    return {
        "run_id": verdict.run_id,
        "created": created,
        "status": run.decision["verdict"] if job.gates else "no_gates",
        "model": _described(opened.model),
        "baseline": None if opened.baseline is None else _described(opened.baseline),
        "data": {
            "shown": job.data.shown,
            "rows": facts["rows_kept"],
            "rows_set_aside": facts["rows"] - facts["rows_kept"],
            "fingerprint": run.output("ingest", "raw").sha256,
        },
        "label": {"name": opened.model.contract.label.name, "positive": positive, "negative": negative},
        "evaluation": content["metrics"],
        "baseline_evaluation": content.get("baseline"),
        "comparison": content.get("comparison"),
        "gates": run.decision if job.gates else None,
        "histograms": content["histograms"],
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
        "files": [],
    }


def _record(store: Store, verdict: Verdict, job: EvaluationJob, opened: Opened, run: Run) -> None:
    """Note on the version what the gates said: promotion goes by it."""
    model = opened.model
    assert model.version is not None
    evaluation = {
        "kind": "evaluate",
        "when": now(),
        "who": actor(),
        "run_id": verdict.run_id,
        "verdict": run.decision["verdict"],
        "data_fingerprint": run.output("ingest", "raw").sha256,
        "gates": digest_of_gates(job.gates),
        "baseline": None if opened.baseline is None else opened.baseline.uri,
        "metrics": run.output("measure_model", "metrics").sha256,
        "settings": {key: opened.settings[key] for key in ("draws", "level", "min_cell", "intersections")},
        "same_table": _learned_here(model, run),
    }
    with registry_client(tracking_uri(store)) as client:
        record_evaluation(client, model.name, model.version, evaluation)
