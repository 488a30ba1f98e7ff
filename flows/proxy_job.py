"""What a job that learns a proxy must fit: its attributes, and what is measured of it."""

from __future__ import annotations

from evenhand.data_contracts.errors import ContractError
from evenhand.data_contracts.model import Contract
from evenhand.fairlib.methods.registry import PROXIES
from evenhand.flows.job import Job
from evenhand.tasks.errors import InputError

__all__ = ["check_proxy", "is_tree", "proxy_contract", "proxy_metrics"]

# Sections and keys that are about a classifier.
FOREIGN = {
    "fair_metric": "its own disclosivity is the limit",
    "balance": "it is what balances other jobs",
}
FOREIGN_EVALUATION = {
    "counterfactuals": "it makes no predictions to compare",
    "certificate": "it has no loss to audit",
    "intersections": "list several columns in sensitive",
}


def check_proxy(job: Job, method: str) -> None:
    """
    Refuse what makes no sense for a proxy.

    Raises
    ------
    InputError
        One line that names the key and the cure.
    """
    for key, reason in FOREIGN.items():
        if key in job.model_fields_set:
            raise InputError(f"job {job.name}: {key} is not for a proxy ({reason}): remove it.")
    for key, reason in FOREIGN_EVALUATION.items():
        if getattr(job.evaluate, key):
            raise InputError(f"job {job.name}: evaluate.{key} is not for a proxy ({reason}): remove it.")
    known = proxy_metrics(method)
    for name in job.paper.row if job.paper else {}:
        if name not in known:
            raise InputError(
                f"job {job.name}: paper.row has {name!r}, which is no metric of a proxy; "
                f"there are {', '.join(known)}."
            )


def proxy_contract(job: Job, contract: Contract, method: str) -> Contract:
    """
    Give the contract as the proxy sees it: its attributes are sensitive and no inputs.

    Raises
    ------
    InputError
        No attribute, one that has no groups, or more than the method can balance.
    """
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
    if len(seen.sensitive) > 1 and not is_tree(method):
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


def is_tree(method: str) -> bool:
    """Whether a proxy is grown, and not a prediction of the group."""
    return PROXIES[method].class_name == "ProxyTree"


def proxy_metrics(method: str) -> list[str]:
    """Metrics that the job will have."""
    from evenhand.tasks.measure_proxy import metric_names

    return metric_names(method)
