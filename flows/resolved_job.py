"""A job held against its contract, its method and its own parts: all that can be known before a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ConfigDict

from evenhand.data_contracts.errors import ContractError
from evenhand.data_contracts.model import Contract
from evenhand.data_contracts.odcs import load_contract, shipped_contracts
from evenhand.fairlib.evaluation.gates import Gate, parse_gates
from evenhand.fairlib.evaluation.metrics import GROUP_METRICS
from evenhand.flows.classifier_job import certificate_budget, check_classifier, classifier_metrics
from evenhand.flows.job import Job, Section, nearest
from evenhand.flows.method import is_proxy, resolve_method
from evenhand.flows.proxy_job import check_proxy, proxy_contract, proxy_metrics
from evenhand.tasks.errors import InputError

__all__ = ["ResolvedJob", "resolve"]


class ResolvedJob(Section):
    """A job with its contract, method and counterfactuals checked against each other: ready to run."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    job: Job
    contract: Contract
    method: str
    arguments: dict[str, Any]
    folder: str
    # by which the table is checked and rows may leave; `contract` is what the job learns by
    table_contract: Contract

    @property
    def is_proxy(self) -> bool:
        """Whether the job learns a proxy, and not a classifier."""
        return is_proxy(self.method)

    @property
    def model_name(self) -> str:
        """Name in the registry."""
        return self.job.publish.model or self.job.name

    @property
    def certificate_budget(self) -> float | None:
        """Budget of the audit; None for none."""
        return None if self.is_proxy else certificate_budget(self.job, self.method, self.arguments)

    @property
    def known_metrics(self) -> list[str]:
        """Metrics that this job will have; which intersections there are, the data decides."""
        if self.is_proxy:
            return proxy_metrics(self.method)
        return classifier_metrics(self.job, self.contract, self.method, self.certificate_budget)

    def may_have(self, metric: str) -> bool:
        """Whether the metric is one of this job, as far as can be told before a run."""
        kind, _, subject = metric.partition(".")
        crossed = self.job.evaluate.intersections and kind in GROUP_METRICS and "&" in subject
        return crossed or metric in self.known_metrics

    def source(self) -> dict[str, Any]:
        """The table's source with its path made absolute against the job file's folder."""
        source = self.job.table.model_dump()
        path = source["path"]
        if path and "://" not in path:
            source["path"] = str((Path(self.folder) / Path(path).expanduser()).resolve())
        return source


def resolve(job: Job, folder: str) -> ResolvedJob:
    """
    Check the whole job before anything runs.

    Raises
    ------
    InputError
        One line that names the key and the cure.
    """
    contract = _contract(job, folder)
    method, arguments = resolve_method(job)
    table_contract = contract
    if is_proxy(method):
        check_proxy(job, method)
        contract = proxy_contract(job, contract, method)
        table_contract = table_contract.with_sensitive([column.name for column in contract.sensitive])
    else:
        check_classifier(job, contract, method, arguments)
    try:
        gates = parse_gates(job.gates)
    except ValueError as error:
        raise InputError(f"job {job.name}: gates: {error}") from None
    resolved = ResolvedJob(
        job=job,
        contract=contract,
        table_contract=table_contract,
        method=method,
        arguments=arguments,
        folder=folder,
    )
    _check_gates(resolved, gates)
    return resolved


def _check_gates(resolved: ResolvedJob, gates: Sequence[Gate]) -> None:
    """Every gate is one that this job can be held to, known before anything is trained."""
    for gate in gates:
        if gate.no_worse_than_baseline is not None:
            raise InputError(
                f"job {resolved.job.name}: the gate {gate.metric!r} has no_worse_than_baseline, but a job "
                "has no baseline: give it a min or max here, and hold its model against another with "
                "`evenhand evaluate --baseline`."
            )
        if not resolved.may_have(gate.metric):
            known = resolved.known_metrics
            raise InputError(
                f"job {resolved.job.name}: the gate {gate.metric!r} names no metric of this job"
                f"{nearest(gate.metric, known)}; there are {', '.join(known)}."
            )


def _contract(job: Job, folder: str) -> Contract:
    name = job.contract or job.table.name
    path = Path(folder) / name
    try:
        return load_contract(str(path) if name not in shipped_contracts() and path.is_file() else name)
    except ContractError as error:
        raise InputError(f"job {job.name}: {error}") from None
