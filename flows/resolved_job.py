"""A job held against its contract, its method and its own parts: all that can be known before a run."""

from __future__ import annotations

import datetime
import inspect
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError

from data_contracts.errors import ContractError
from data_contracts.model import Column, Contract, load_contract, shipped_contracts
from fairlib.evaluation.gates import Gate, parse_gates
from fairlib.evaluation.metrics import GROUP_METRICS, METRIC_MEANINGS
from fairlib.methods.registry import METHODS, method_class
from flows.job import Job, Section, as_number, nearest
from flows.metric_kinds import SubspaceMetric
from tasks.errors import InputError

__all__ = ["ResolvedJob", "resolve"]

VALUE_TYPES: dict[str, Any] = {
    "string": str,
    "integer": int,
    "number": int | float,
    "boolean": bool,
    "date": datetime.date,
}
# set by the training step, never by a job
RESERVED_ARGUMENTS = ("metric", "network", "random_state")


class ResolvedJob(Section):
    """A job with its contract, method and counterfactuals checked against each other: ready to run."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    job: Job
    contract: Contract
    method: str
    arguments: dict[str, Any]
    folder: str

    @property
    def model_name(self) -> str:
        """Name in the registry."""
        return self.job.publish.model or self.job.name

    @property
    def certificate_budget(self) -> float | None:
        """Budget of the audit: the job's own, else that which the method trained with, else none."""
        if self.job.evaluate.certificate is not None:
            return self.job.evaluate.certificate.budget
        parameters = inspect.signature(method_class(self.method).__init__).parameters
        if "perturbation_budget" not in parameters:
            return None
        return float(self.arguments.get("perturbation_budget", parameters["perturbation_budget"].default))

    @property
    def known_metrics(self) -> list[str]:
        """Metrics that this job will have; which intersections there are, the data decides."""
        attributes = [column.name for column in self.contract.sensitive]
        known = [name for name in METRIC_MEANINGS if "." not in name]
        known += [f"consistency.{name}" for name in self.job.evaluate.counterfactuals]
        known += [f"{kind}.{attribute}" for kind in GROUP_METRICS for attribute in attributes]
        if self.certificate_budget is not None:
            known.append("certificate.drf")
            known += ["certificate.dif"] if METHODS[self.method].differentiable else []
        return known

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
    method, arguments = _method(job)
    _check_metric(job, contract)
    _check_counterfactuals(job, contract)
    if METHODS[method].needs_counterfactuals and not job.evaluate.counterfactuals:
        raise InputError(
            f"job {job.name}: method {method} pairs people with their counterfactuals, and there are none: "
            "give evaluate.counterfactuals."
        )
    try:
        gates = parse_gates(job.gates)
    except ValueError as error:
        raise InputError(f"job {job.name}: gates: {error}") from None
    resolved = ResolvedJob(job=job, contract=contract, method=method, arguments=arguments, folder=folder)
    _check_gates(resolved, gates)
    return resolved


def _check_gates(resolved: ResolvedJob, gates: Sequence[Gate]) -> None:
    """Every gate names a metric that this job will have, known before anything is trained."""
    for gate in gates:
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


def _method(job: Job) -> tuple[str, dict[str, Any]]:
    arguments = dict(job.method)
    name = arguments.pop("name", None)
    if not isinstance(name, str) or name not in METHODS:
        known = ", ".join(METHODS)
        raise InputError(
            f"job {job.name}: method {name!r} is not known{nearest(str(name), list(METHODS))}; "
            f"known: {known}."
        )
    constructor = method_class(name).__init__
    kinds = get_type_hints(constructor)
    accepted = [key for key in inspect.signature(constructor).parameters if key in kinds]
    accepted = [key for key in accepted if key not in RESERVED_ARGUMENTS]
    for key in arguments:
        if key not in accepted:
            raise InputError(
                f"job {job.name}: unknown key 'method.{key}'{nearest(key, accepted)}; "
                f"{name} takes: {', '.join(accepted)}."
            )
    return name, {key: _argument(job, key, value, kinds[key]) for key, value in arguments.items()}


def _argument(job: Job, key: str, value: Any, kind: Any) -> Any:
    """A method's argument as the type that it takes, so that 1 and 1.0 are one job."""
    try:
        found = TypeAdapter(kind).validate_python(as_number(value))
    except ValidationError as error:
        reason = error.errors(include_url=False)[0]["msg"]
        raise InputError(f"job {job.name}: method.{key} is {value!r}: {reason.lower()}.") from None
    if isinstance(found, float) and not math.isfinite(found):
        raise InputError(f"job {job.name}: method.{key} is {value!r}: it must be a finite number.")
    return found


def _check_metric(job: Job, contract: Contract) -> None:
    """Every name in the metric's section is one that the contract or the job has."""
    metric = job.fair_metric
    names = [column.name for column in contract.sensitive]
    features = [column.name for column in contract.features]
    if isinstance(metric, SubspaceMetric):
        _check_names(job, "indicators", metric.indicators, features, "the contract has")
        _check_names(job, "learned", metric.learned, names, "the contract has")
        return
    defined = list(job.evaluate.counterfactuals)
    if not metric.comparable_by and not defined:
        raise InputError(
            f"job {job.name}: the metric {metric.kind} is learned from comparable people: define "
            "evaluate.counterfactuals, or list columns in fair_metric.comparable_by."
        )
    _check_names(job, "comparable_by", metric.comparable_by, features, "the contract's model inputs are")
    _check_names(job, "counterfactuals", metric.counterfactuals, defined, "evaluate.counterfactuals has")


def _check_names(job: Job, key: str, listed: list[str] | None, known: list[str], there_are: str) -> None:
    for name in listed or []:
        if name not in known:
            raise InputError(
                f"job {job.name}: fair_metric.{key} names {name!r}{nearest(name, known)}; "
                f"{there_are} {', '.join(known)}."
            )


def _check_counterfactuals(job: Job, contract: Contract) -> None:
    """Every changed column is a model input and every value one that the contract allows."""
    features = {column.name: column for column in contract.features}
    for name, changes in job.evaluate.counterfactuals.items():
        where = f"job {job.name}: the counterfactual {name!r}"
        if not changes:
            raise InputError(f"{where} changes nothing: name a column and its values.")
        for column_name, values in changes.items():
            if column_name not in features:
                raise InputError(
                    f"{where} changes the column {column_name!r}, which is no model input"
                    f"{nearest(column_name, list(features))}."
                )
            column = features[column_name]
            if values == "all":
                if column.encoding == "standard":
                    raise InputError(f"{where}: {column_name!r} is a number: list values, not all.")
                continue
            if not values:
                raise InputError(f"{where} lists no value of {column_name!r}: it needs at least two.")
            for value in values:
                _check_value(where, column, value)
        listed = [len(set(values)) for values in changes.values() if values != "all"]
        if len(listed) == len(changes) and math.prod(listed) < 2:
            raise InputError(
                f"{where} lists one value of {', '.join(map(repr, changes))}: it needs at least two."
            )


def _check_value(where: str, column: Column, value: Any) -> None:
    """One value of a counterfactual: of its column's type, and allowed by the contract."""
    if column.allowed is not None:
        if not any(value == item and type(value) is type(item) for item in column.allowed):
            known = [str(item) for item in column.allowed]
            raise InputError(
                f"{where} gives {column.name!r} the value {value!r}, which its contract lacks"
                f"{nearest(str(value), known)}."
            )
        return
    try:
        TypeAdapter(VALUE_TYPES[column.logical_type]).validate_python(value, strict=column.is_numeric)
    except ValidationError:
        raise InputError(
            f"{where} gives {column.name!r} the value {value!r}, which is no {column.logical_type}."
        ) from None
