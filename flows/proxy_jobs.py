"""Jobs that learn a proxy: their checks, steps up to the metrics, and published artifacts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evenhand.data_contracts.errors import ContractError
from evenhand.data_contracts.model import Column, Contract
from evenhand.fairlib.catalogue import names_of
from evenhand.fairlib.methods.registry import PROXIES
from evenhand.flows.checked_job import CheckedJob
from evenhand.flows.engine import Measured, Steps
from evenhand.flows.job import Job
from evenhand.tasks.errors import InputError, input_errors
from evenhand.tasks.execution.store import Artifact

# Sections and keys of classifiers, and why a proxy has none.
CLASSIFIER_KEYS = {
    "fair_metric": "its own disclosivity is the limit",
    "balance": "it is what balances other jobs",
    "calibration": "it predicts no label",
    "decision": "it decides nothing about people",
}
CLASSIFIER_EVALUATE_KEYS = {
    "counterfactuals": "it makes no predictions to compare",
    "certificate": "it has no loss to audit",
    "membership": "it predicts no label",
    "intersections": "list several columns in sensitive",
}


def check_job(job: Job, contract: Contract, method: str, arguments: Mapping[str, Any]) -> Contract:
    """Refuse the keys of classifiers, and attributes that cannot be balanced.

    Returns the contract for training: the attributes are sensitive and not model inputs. Raises
    `InputError` with one line that names the key and the cure; also for no attribute, an attribute
    without groups, or more attributes or groups than the method can balance.
    """
    _check_keys(job)
    names = job.sensitive or [column.name for column in contract.sensitive]
    if not names:
        raise InputError(
            f"a proxy balances sensitive groups, and the contract {contract.name!r} has "
            "none: list columns in sensitive."
        )
    with input_errors("sensitive: ", ContractError, end="."):
        training = contract.with_attributes(names)
    if len(training.sensitive) > 1 and PROXIES[method].class_name != "ProxyTree":
        raise InputError(
            f"{method} predicts one attribute's groups, and there are {', '.join(names)}: "
            "keep one in sensitive, or use a proxy tree (proxy, relaxed-proxy)."
        )
    for column in training.sensitive:
        _check_group_count(column)
    return training


def _check_keys(job: Job) -> None:
    """Refuse keys that are for classifiers, and metrics of a paper that a proxy has not."""
    for key, reason in CLASSIFIER_KEYS.items():
        if key in job.model_fields_set:
            raise InputError(f"{key} is not for a proxy ({reason}): remove it.")
    for key, reason in CLASSIFIER_EVALUATE_KEYS.items():
        if getattr(job.evaluate, key):
            raise InputError(f"evaluate.{key} is not for a proxy ({reason}): remove it.")
    if job.paper is None:
        return
    metrics = names_of("proxy")
    for name in job.paper.row:
        if name not in metrics:
            raise InputError(
                f"paper.row has {name!r}, which is not a metric of a proxy; there are "
                f"{', '.join(metrics)}."
            )


def _check_group_count(column: Column) -> None:
    """Refuse a column of more groups than can be balanced."""
    from evenhand.fairlib.proxies.proxy_groups import MAX_GROUPS

    count = len(column.allowed or ())
    if column.bins is not None:
        count = len(column.bins) + 1
    if count > MAX_GROUPS:
        raise InputError(
            f"sensitive: column {column.name!r} has {count} groups, and at most "
            f"{MAX_GROUPS} can be balanced: merge them in the table, or use fewer bins."
        )


def known_metrics(resolved: CheckedJob) -> list[str]:
    """Return the metrics that the job will have."""
    return names_of("proxy")


# Keys of the section `evaluate` that a proxy uses.
MEASURING = {"draws", "level", "min_cell"}


def train_and_measure(resolved: CheckedJob, steps: Steps) -> Measured:
    """Learn the proxy and measure it; a tree without a split is refused."""
    job = resolved.job
    modules = resolved.modules
    train = steps.output("preprocess", "train")
    steps(
        "learn_proxy",
        {"method": resolved.method, "arguments": resolved.arguments, "seed": job.seed},
        {"train": train},
        modules=modules,
    )
    measuring = job.evaluate.model_dump(include=MEASURING)
    steps(
        "measure_proxy",
        {"evaluate": measuring, "method": resolved.method, "seed": job.seed},
        {
            "proxy": steps.output("learn_proxy", "proxy"),
            "train": train,
            "test": steps.output("preprocess", "test"),
        },
        modules=modules,
    )
    metrics = steps.output("measure_proxy", "metrics")
    refusal = steps.facts("learn_proxy")["refusal"]
    if refusal:
        # the refusal says what is wrong, so that no warning is needed
        return Measured(metrics, refusal)
    return Measured(metrics, refusal, notes=steps.facts("measure_proxy")["warnings"])


def gate_step(
    resolved: CheckedJob, steps: Steps, measured: Measured
) -> tuple[dict[str, Any], dict[str, Artifact]]:
    """Return the parameters and inputs of the gates."""
    return {"gates": resolved.job.gates}, {"metrics": measured.metrics}


def published_artifacts(steps: Steps) -> dict[str, Artifact]:
    """Return the artifacts that are published in addition to encoder, metrics and decision."""
    return {
        "model": steps.output("learn_proxy", "proxy"),
        "balance": steps.output("measure_proxy", "balance"),
        "reference": steps.output("profile", "reference"),
        "training_rows": steps.output("profile", "training_rows"),
    }


def input_description(resolved: CheckedJob, steps: Steps) -> dict[str, Any]:
    """Return what a published proxy needs to read raw rows; its contract is for the filter."""
    contract = resolved.contract
    return {
        "features": [column.name for column in contract.features],
        "booleans": [
            column.name for column in contract.features if column.logical_type == "boolean"
        ],
        "sensitive": [column.name for column in contract.sensitive],
        "contract": resolved.table_contract.to_dict(),
        # two proxies decide about a person independently, though their seeds are the same
        "salt": resolved.model_name,
    }
