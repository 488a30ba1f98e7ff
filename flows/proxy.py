"""Jobs that learn a proxy: what they must fit, their steps up to the metrics, and what they publish."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from evenhand.data_contracts.errors import ContractError
from evenhand.data_contracts.model import Contract
from evenhand.fairlib.methods.registry import PROXIES
from evenhand.flows.engine import Measured, Steps
from evenhand.flows.job import Job
from evenhand.tasks.errors import InputError
from evenhand.tasks.store import Artifact

if TYPE_CHECKING:
    from evenhand.flows.resolved_job import ResolvedJob

__all__ = [
    "check_job",
    "known_metrics",
    "card_fields",
    "published_artifacts",
    "input_description",
    "split_parameters",
    "train_and_measure",
]

# Sections and keys that are about a classifier.
CLASSIFIER_KEYS = {
    "fair_metric": "its own disclosivity is the limit",
    "balance": "it is what balances other jobs",
}
CLASSIFIER_EVALUATE_KEYS = {
    "counterfactuals": "it makes no predictions to compare",
    "certificate": "it has no loss to audit",
    "intersections": "list several columns in sensitive",
}


def check_job(job: Job, contract: Contract, method: str, arguments: Mapping[str, Any]) -> Contract:
    """
    Refuse what makes no sense for a proxy.

    Returns
    -------
    Contract
        As the proxy sees it: its attributes are sensitive and no inputs.

    Raises
    ------
    InputError
        One line that names the key and the cure; also for no attribute, one that has no groups, or more than
        the method can balance.
    """
    for key, reason in CLASSIFIER_KEYS.items():
        if key in job.model_fields_set:
            raise InputError(f"job {job.name}: {key} is not for a proxy ({reason}): remove it.")
    for key, reason in CLASSIFIER_EVALUATE_KEYS.items():
        if getattr(job.evaluate, key):
            raise InputError(f"job {job.name}: evaluate.{key} is not for a proxy ({reason}): remove it.")
    known = _metric_names(method)
    for name in job.paper.row if job.paper else {}:
        if name not in known:
            raise InputError(
                f"job {job.name}: paper.row has {name!r}, which is no metric of a proxy; "
                f"there are {', '.join(known)}."
            )
    return _proxy_contract(job, contract, method)


def known_metrics(resolved: ResolvedJob) -> list[str]:
    """Metrics that the job will have."""
    return _metric_names(resolved.method)


def _metric_names(method: str) -> list[str]:
    from evenhand.tasks.measure_proxy import metric_names

    return metric_names(method)


def _proxy_contract(job: Job, contract: Contract, method: str) -> Contract:
    from evenhand.tasks.learn_proxy import MAX_GROUPS

    names = job.sensitive or [column.name for column in contract.sensitive]
    if not names:
        raise InputError(
            f"job {job.name}: a proxy balances sensitive groups, and the contract {contract.name!r} has "
            "none: list columns in sensitive."
        )
    try:
        seen = contract.with_attributes(names)
    except ContractError as error:
        raise InputError(f"job {job.name}: sensitive: {error}.") from None
    if len(seen.sensitive) > 1 and PROXIES[method].class_name != "ProxyTree":
        raise InputError(
            f"job {job.name}: {method} predicts one attribute's groups, and there are {', '.join(names)}: "
            "keep one in sensitive, or take a proxy tree (proxy, relaxed-proxy)."
        )
    for column in seen.sensitive:
        count = len(column.allowed or ()) if column.bins is None else len(column.bins) + 1
        if count > MAX_GROUPS:
            raise InputError(
                f"job {job.name}: sensitive: column {column.name!r} has {count} groups, and at most "
                f"{MAX_GROUPS} can be balanced: merge them in the table, or use fewer bins."
            )
    return seen


# the run


# What of the section `evaluate` a proxy has a use for.
MEASURING = {"draws", "level", "min_cell"}


def split_parameters(resolved: ResolvedJob) -> dict[str, Any]:
    """Parameters of the split, which keeps the groups' shares."""
    job = resolved.job
    return {
        "contract": resolved.contract.to_dict(),
        "split": job.split.model_dump(),
        "strata": "groups",
        "seed": job.seed,
    }


def train_and_measure(resolved: ResolvedJob, steps: Steps) -> Measured:
    """Learn the proxy and measure it; a tree that found no split is a refusal."""
    job, modules = resolved.job, resolved.modules
    steps(
        "learn_proxy",
        {"method": resolved.method, "arguments": resolved.arguments, "seed": job.seed},
        {"train": steps.output("preprocess", "train")},
        modules=modules,
    )
    steps(
        "measure_proxy",
        {"evaluate": job.evaluate.model_dump(include=MEASURING), "method": resolved.method, "seed": job.seed},
        {
            "proxy": steps.output("learn_proxy", "proxy"),
            "train": steps.output("preprocess", "train"),
            "test": steps.output("preprocess", "test"),
        },
        modules=modules,
    )
    return Measured(steps.output("measure_proxy", "metrics"), steps.facts("learn_proxy")["refusal"])


def published_artifacts(steps: Steps) -> dict[str, Artifact]:
    """What is published beside encoder, metrics and decision."""
    return {
        "model": steps.output("learn_proxy", "proxy"),
        "balance": steps.output("measure_proxy", "balance"),
        "reference": steps.output("profile", "reference"),
    }


def input_description(resolved: ResolvedJob, steps: Steps) -> dict[str, Any]:
    """What a published proxy must know of the table; its contract is for whoever filters with it."""
    contract = resolved.contract
    return {
        "features": [column.name for column in contract.features],
        "booleans": [column.name for column in contract.features if column.logical_type == "boolean"],
        "sensitive": [column.name for column in contract.sensitive],
        "contract": resolved.table_contract.to_dict(),
    }


def card_fields(steps: Steps) -> dict[str, Any]:
    """What the card learns from the run."""
    return {"kind": "proxy"}
