"""A job held against its contract, its method and its own parts: all that can be known before a run."""

from __future__ import annotations

import hashlib
import inspect
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError

from evenhand.data_contracts.errors import ContractError
from evenhand.data_contracts.model import Contract
from evenhand.data_contracts.odcs import load_contract, shipped_contracts
from evenhand.fairlib.evaluation.gates import Gate, parse_gates
from evenhand.fairlib.evaluation.metrics import GROUP_METRICS
from evenhand.fairlib.methods.registry import METHODS, PROXIES, installed, method_class, needed_extra, spec_of
from evenhand.flows import classifier, proxy
from evenhand.flows.job import Job
from evenhand.flows.job_sections import Section
from evenhand.tasks.errors import InputError
from evenhand.tasks.fingerprint import code_digest, library_versions
from evenhand.tasks.inputs import as_number, nearest
from evenhand.tasks.step import STEPS

__all__ = ["RESERVED_ARGUMENTS", "ResolvedJob", "provenance", "resolve"]


# set by the training step, never by a job
RESERVED_ARGUMENTS = ("metric", "network", "oracle", "random_state")
# What of a job changes no model: words about it, and who carries other commands out.
IRRELEVANT_KEYS = ("description", "paper", "sweep", "filter")
# Where the table lies changes nothing either: its bytes have digests.
LOCATION_KEYS = ("path", "connection")


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
        return self.method in PROXIES

    @property
    def kind(self) -> Any:
        """Module of the job's kind: checks, steps up to the metrics, what is published."""
        return _kind(self.method)

    @property
    def modules(self) -> list[str]:
        """Modules that the method brings into the keys of the steps that use it."""
        return [spec_of(self.method).module]

    @property
    def model_name(self) -> str:
        """Name in the registry."""
        return self.job.publish.model or self.job.name

    @property
    def certificate_budget(self) -> float | None:
        """Budget of the audit; None for none."""
        return None if self.is_proxy else classifier.certificate_budget(self.job, self.method, self.arguments)

    @property
    def known_metrics(self) -> list[str]:
        """Metrics that this job will have; which intersections there are, the data decides."""
        known: list[str] = self.kind.known_metrics(self)
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


def _kind(method: str) -> Any:
    return proxy if method in PROXIES else classifier


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
    learned = _kind(method).check_job(job, contract, method, arguments)
    if learned is not contract:
        contract = contract.with_sensitive([column.name for column in learned.sensitive])
    try:
        gates = parse_gates(job.gates)
    except ValueError as error:
        raise InputError(f"job {job.name}: gates: {error}") from None
    resolved = ResolvedJob(
        job=job,
        contract=learned,
        table_contract=contract,
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


def _method(job: Job) -> tuple[str, dict[str, Any]]:
    """
    Name of the job's method, and its arguments as the types that it takes.

    Raises
    ------
    InputError
        An unknown name or key, a value of another type, or a method whose optional extra is not installed.
    """
    arguments = dict(job.method)
    name = arguments.pop("name", None)
    constructor, fixed = _constructor(job, name)
    kinds = get_type_hints(constructor)
    accepted = [
        key
        for key in inspect.signature(constructor).parameters
        if key in kinds and key not in RESERVED_ARGUMENTS and key not in fixed
    ]
    for key in arguments:
        if key not in accepted:
            raise InputError(
                f"job {job.name}: unknown key 'method.{key}'{nearest(key, accepted)}; "
                f"{name} takes: {', '.join(accepted)}."
            )
    return name, {key: _argument(job, key, value, kinds[key]) for key, value in arguments.items()}


def _constructor(job: Job, name: Any) -> tuple[Any, list[str]]:
    """Constructor of a method, and the arguments that its name stands for."""
    if isinstance(name, str) and name in METHODS:
        if not installed(METHODS[name]):
            raise InputError(f"job {job.name}: {needed_extra(METHODS[name])}")
        return method_class(name).__init__, []
    if not isinstance(name, str) or name not in PROXIES:
        known = [*METHODS, *PROXIES]
        raise InputError(
            f"job {job.name}: method {name!r} is not known{nearest(str(name), known)}; "
            f"known: {', '.join(known)}."
        )
    return method_class(name).__init__, list(PROXIES[name].fixed)


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


def provenance(resolved: ResolvedJob, sources: Mapping[str, str], proxy: str | None) -> str:
    """
    Digest of all that decides what a run makes: the data's bytes, the job, its contract, our code.

    Parameters
    ----------
    resolved : ResolvedJob
    sources : mapping of str to str
        sha256 of each of the table's files; empty for a generated table, which the job's seed decides.
    proxy : str or None
        Content of the published proxy that chooses the training rows.
    """
    # every step's module, whether this job has the step or not: a digest too many trains once too often
    modules = [f"evenhand.tasks.{name}" for name in STEPS]
    job = resolved.job.model_dump(mode="json", exclude=set(IRRELEVANT_KEYS))
    job["table"] = {key: value for key, value in job["table"].items() if key not in LOCATION_KEYS}
    content = {
        "sources": dict(sources),
        "job": job,
        "contract": resolved.table_contract.digest,
        "proxy": proxy,
        "code": code_digest(
            [
                *modules,
                "evenhand.tasks.serving.model_code",
                *resolved.modules,
                resolved.kind.__name__,
            ]
        ),
        "libraries": library_versions(),
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
