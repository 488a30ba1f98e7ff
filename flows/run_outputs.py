"""What a run leaves behind for people: its folder with job, report, pages and verdict."""

from __future__ import annotations

import datetime
import inspect
import json
import os
import platform
import secrets
from collections.abc import Mapping
from typing import Any

import yaml

from evenhand.flows.engine import Run
from evenhand.flows.resolved_job import ResolvedJob
from evenhand.flows.verdict import Verdict
from evenhand.tasks.errors import without_secrets
from evenhand.tasks.fingerprint import git_state, library_versions
from evenhand.tasks.reporting.adversary import adversary_sections
from evenhand.tasks.reporting.asked import asked_sections
from evenhand.tasks.reporting.balance import balance_findings, balance_sections, kept_rows_section
from evenhand.tasks.reporting.contract_check import render_check
from evenhand.tasks.reporting.invariance import invariance_sections
from evenhand.tasks.reporting.page import render_report
from evenhand.tasks.reporting.selected import selection_sections
from evenhand.tasks.store import Store

__all__ = ["new_run_id", "model_card", "write_report"]

REPORTED_PACKAGES = (
    "prefect",
    "great-expectations",
    "mlflow-skinny",
    "numpy",
    "pandas",
    "pyarrow",
    "scikit-learn",
    "torch",
    "xgboost",
    "xgboost-cpu",
)


def new_run_id(job_name: str) -> str:
    """Time, job and a little chance: sorts by time, never collides."""
    stamp = datetime.datetime.now(datetime.UTC).strftime("%Y%m%d-%H%M%S")
    return f"{stamp}-{job_name}-{secrets.token_hex(3)}"


def model_card(resolved: ResolvedJob) -> dict[str, Any]:
    """What is known about the model before it is trained."""
    job, contract = resolved.job, resolved.contract
    return {
        "name": resolved.model_name,
        "description": job.description,
        "intended_use": job.publish.intended_use,
        "table": job.table.name,
        "contract": {"name": contract.name, "version": contract.version, "digest": contract.digest},
        "sensitive": [column.name for column in contract.sensitive],
        "method": resolved.method,
        "parameters": resolved.arguments,
        "seed": job.seed,
    }


def write_report(store: Store, resolved: ResolvedJob, run: Run, verdict: Verdict) -> None:
    """
    Write the run's pages and add their addresses to the verdict.

    The report tells this run's own story (what was cached, how long each step took), so it is never cached.
    """
    folder = ("runs", verdict.run_id)
    add = verdict.artifacts.__setitem__
    add(
        "job", store.write_text(yaml.safe_dump(_job_document(resolved), sort_keys=False), *folder, "job.yaml")
    )
    for step, record in run.records.items():
        for name, artifact in record.outputs.items():
            add(f"{step}.{name}", artifact.uri)
    contract_page = None
    if "contract" in run.records:
        text = render_check(_read(store, run, "contract", "result"))
        add("contract_page", store.write_text(text, *folder, "contract.html"))
        contract_page = "contract.html"
    if "preprocess" in run.records:
        for part in ("train", "test"):
            text = render_check(_read(store, run, "preprocess", f"{part}_result"))
            add(f"encoded_{part}_page", store.write_text(text, *folder, f"encoded-{part}.html"))
    if run.metrics is not None:
        metrics = store.fetch(run.metrics).read_text()
        add("metrics", store.write_text(metrics, *folder, "metrics.json"))
        context = _context(store, resolved, run, verdict, json.loads(metrics), contract_page)
        add("report", store.write_text(render_report(context), *folder, "report.html"))
    if "publish" in run.records:
        card = store.fetch(run.output("publish", "card"))
        for name in ("model_card.json", "model_card.md"):
            add(name, store.write_text((card / name).read_text(), *folder, name))


def _job_document(resolved: ResolvedJob) -> dict[str, Any]:
    """The job as it ran: overrides applied, contract by name and digest."""
    document = resolved.job.model_dump(mode="json", exclude_none=True)
    for key in ("path", "connection"):
        if key in document["table"]:
            document["table"][key] = without_secrets(document["table"][key])
    return document | {"contract": f"{resolved.contract.name} {resolved.contract.version}"}


def _context(
    store: Store,
    resolved: ResolvedJob,
    run: Run,
    verdict: Verdict,
    evaluation: Mapping[str, Any],
    contract_page: str | None,
) -> dict[str, Any]:
    """Everything the report shows, as plain JSON types."""
    job, contract = resolved.job, resolved.contract
    facts = run.records["preprocess"].facts
    status = "insufficient_evidence" if verdict.exit_code == 3 else verdict.status
    commit, dirty = git_state()
    return {
        "title": job.name,
        "job": {
            "name": job.name,
            "method": resolved.method,
            "parameters": resolved.arguments,
            "seed": job.seed,
            "description": job.description,
        },
        "run_id": verdict.run_id,
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "status": status,
        "table": {
            "name": job.table.name,
            "rows": run.records["contract"].facts["rows_kept"],
            "train_rows": facts["train_rows"],
            "test_rows": facts["test_rows"],
            "features": facts["features"],
            "fingerprint": run.output("ingest", "raw").sha256,
            "contract_name": contract.name,
            "contract_version": contract.version,
            "contract_page": contract_page,
        },
        "evaluation": dict(evaluation),
        "paper": job.paper.model_dump() if job.paper else None,
        "gates": _read(store, run, "gate", "decision"),
        "refusal": run.refusal,
        "champion": run.champion,
        "steps": [
            {"name": name, "seconds": run.seconds[name], "cached": name in run.cached} for name in run.records
        ],
        "model": verdict.model,
        **(_of_proxy if resolved.is_proxy else _of_classifier)(store, resolved, run, evaluation),
        "environment": {
            "python": platform.python_version(),
            "packages": library_versions(REPORTED_PACKAGES),
            "git_commit": commit,
            "git_dirty": dirty,
            "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        },
        "files": [
            {"name": "the job as it ran", "href": "job.yaml"},
            {"name": "metrics", "href": "metrics.json"},
            {"name": "checks of the encoded training rows", "href": "encoded-train.html"},
            {"name": "checks of the encoded test rows", "href": "encoded-test.html"},
        ]
        + ([{"name": "model card", "href": "model_card.md"}] if verdict.model else []),
    }


def _read(store: Store, run: Run, step: str, name: str) -> Any:
    """Content of a step's JSON output; None if it has none."""
    outputs = run.records[step].outputs
    return json.loads(store.fetch(outputs[name]).read_text()) if name in outputs else None


def _of_proxy(store: Store, resolved: ResolvedJob, run: Run, evaluation: Mapping[str, Any]) -> dict[str, Any]:
    """What the report of a proxy has of its own."""
    balance = _read(store, run, "measure_proxy", "balance")
    distances = balance["distances"] or []
    curve = {"steps": list(range(len(distances))), "series": {"distance to the target": distances}}
    return {
        "findings": balance_findings(evaluation, balance),
        "sections": balance_sections(evaluation, balance, _alpha(resolved)),
        "training": curve if len(distances) > 1 else None,
    }


def _alpha(resolved: ResolvedJob) -> float | None:
    """The limit of a tree, its default included; the other proxies have none."""
    from evenhand.fairlib.methods.registry import proxy_class

    parameters = inspect.signature(proxy_class(resolved.method).__init__).parameters
    if "alpha" not in parameters:
        return None
    return float(resolved.arguments.get("alpha", parameters["alpha"].default))


def _of_classifier(
    store: Store, resolved: ResolvedJob, run: Run, evaluation: Mapping[str, Any]
) -> dict[str, Any]:
    """What the report of a classifier has of its own."""
    balanced = [kept_rows_section(run.records["balance"].facts)] if "balance" in run.records else []
    return {
        "histograms": _read(store, run, "evaluate", "histograms"),
        "sections": balanced + _sections(store, run, evaluation),
        "training": _training(store, run),
    }


def _sections(store: Store, run: Run, evaluation: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What an agent asks or a selector leaves out; what auditor and adversary found, given certificates."""
    acquisition, selection, certificate, audit, plain = (
        _read(store, run, "evaluate", name)
        for name in ("acquisition", "selection", "certificate", "audit", "without_adversary")
    )
    return [
        *asked_sections(acquisition, evaluation),
        *selection_sections(selection),
        *invariance_sections(certificate, evaluation),
        *adversary_sections(audit, plain, evaluation),
    ]


def _training(store: Store, run: Run) -> dict[str, Any] | None:
    """Loss curves of methods that keep a history."""
    history = _read(store, run, "train", "history")
    if history is None:
        return None
    names = ("adversarial_loss", "classification_loss", "adversary_loss", "loss")
    series = {name: history[name] for name in names if name in history}
    length = len(next(iter(series.values()), []))
    # networks record means now and then, and at which steps; boosting records every step
    steps = [int(step) for step in history.get("step", range(1, length + 1))]
    return {"steps": steps, "series": series} if length else None
