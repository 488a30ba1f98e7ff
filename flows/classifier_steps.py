"""What a job that trains a classifier does between its checked table and its gates, and what it publishes."""

from __future__ import annotations

from typing import Any

from evenhand.data_contracts.column import Column
from evenhand.fairlib.methods.registry import METHODS
from evenhand.flows.engine import Measured, Steps
from evenhand.flows.job_sections import SubspaceMetric
from evenhand.flows.resolved_job import ResolvedJob
from evenhand.tasks.errors import InputError
from evenhand.tasks.fingerprint import library_versions
from evenhand.tasks.store import Artifact

__all__ = ["more_for_card", "parts", "raw_inputs", "splitting", "train_and_measure"]


def splitting(resolved: ResolvedJob) -> dict[str, Any]:
    """Parameters of the split, which keeps the label's shares."""
    job = resolved.job
    return {"contract": resolved.contract.to_dict(), "split": job.split.model_dump(), "seed": job.seed}


def train_and_measure(resolved: ResolvedJob, steps: Steps) -> Measured:
    """Run the steps up to the metrics."""
    job, method, certificate = resolved.job, METHODS[resolved.method], resolved.certificate_budget
    train, proxy = _training_rows(resolved, steps)
    inputs = {"train": train}
    if method.needs_metric or certificate is not None:
        steps("fair_metric", *_metric_step(resolved, steps, train))
        if method.needs_metric:
            inputs["metric"] = steps.output("fair_metric", "metric")
    modules = resolved.modules
    training: dict[str, Any] = {"method": resolved.method, "arguments": resolved.arguments, "seed": job.seed}
    if job.sensitive and method.needs_groups:
        training["sensitive"] = job.sensitive
    if method.requires:
        # what they compute is part of the model
        training["libraries"] = library_versions(method.requires)
    if method.needs_counterfactuals:
        training["counterfactuals"] = job.evaluate.model_dump()["counterfactuals"]
        inputs["encoder"] = steps.output("preprocess", "encoder")
    steps("train", training, inputs, modules=modules)
    inputs = {
        "model": steps.output("train", "model"),
        "encoder": steps.output("preprocess", "encoder"),
        "test": steps.output("preprocess", "test"),
    }
    if certificate is not None:
        inputs["metric"] = steps.output("fair_metric", "metric")
    if steps.has_output("train", "without_adversary"):
        inputs["without_adversary"] = steps.output("train", "without_adversary")
    steps(
        "evaluate",
        {
            "evaluate": job.evaluate.model_dump(exclude={"certificate"}),
            "certificate": certificate,
            "seed": job.seed,
        },
        inputs,
        modules=modules,
    )
    return Measured(steps.output("evaluate", "metrics"), proxy=proxy)


def parts(steps: Steps) -> dict[str, Artifact]:
    """What is published beside encoder, metrics and decision."""
    return {"model": steps.output("train", "model"), "reference": steps.output("profile", "reference")}


def raw_inputs(resolved: ResolvedJob, steps: Steps) -> dict[str, Any]:
    """What a published model must know of the table."""
    features = resolved.contract.features
    inputs = {
        "features": [column.name for column in features],
        "label_values": steps.facts("preprocess")["label_values"],
        "booleans": [column.name for column in features if column.logical_type == "boolean"],
    }
    if METHODS[resolved.method].asks:
        inputs["questions"] = {column.name: _question(column) for column in features}
    return inputs


def more_for_card(steps: Steps) -> dict[str, Any]:
    """What the card learns from the run: which proxy chose the training rows."""
    facts = steps.facts("balance")
    keys = ("proxy", "version", "rows_before", "rows_after")
    return {"balance": {key: facts[key] for key in keys}} if facts else {}


def _question(column: Column) -> dict[str, Any]:
    """What a person who is asked must know of a feature: the contract's words, no row's value."""
    plain = column.to_dict()
    kept = {key: plain[key] for key in ("description", "allowed", "minimum", "maximum")}
    return kept | {"type": column.logical_type}


def _training_rows(resolved: ResolvedJob, steps: Steps) -> tuple[Artifact, str | None]:
    """All training rows, or those that the job's proxy keeps and the proxy's content."""
    wanted = resolved.job.balance
    if wanted is None:
        return steps.output("preprocess", "train"), None
    from evenhand.tasks.registry import published, tracking_uri

    uri = tracking_uri(steps.store)
    found = published(uri, wanted.proxy, wanted.alias)
    if found is None:
        raise InputError(
            f"balance.proxy {wanted.proxy!r} is not published in this store: run `evenhand run "
            f"{wanted.proxy}` first."
        )
    steps(
        "balance",
        {
            "proxy": wanted.proxy,
            "version": found.version,
            "content": found.content,
            "tracking_uri": uri,
            "seed": resolved.job.seed,
        },
        {"train": steps.output("preprocess", "train"), "checked": steps.output("contract", "checked")},
    )
    return steps.output("balance", "train"), found.content


def _metric_step(
    resolved: ResolvedJob, steps: Steps, train: Artifact
) -> tuple[dict[str, Any], dict[str, Artifact]]:
    """Parameters and inputs of the step that learns the metric: no more than its kind needs."""
    job = resolved.job
    parameters: dict[str, Any] = {"fair_metric": job.fair_metric.model_dump()}
    inputs = {"train": train}
    if isinstance(job.fair_metric, SubspaceMetric):
        return parameters, inputs
    copies = job.fair_metric.copies(job.evaluate.counterfactuals)
    if copies:
        parameters["counterfactuals"] = copies
        inputs["encoder"] = steps.output("preprocess", "encoder")
    if job.fair_metric.kind == "explore":
        parameters["seed"] = job.seed
    return parameters, inputs
