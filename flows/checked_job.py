"""A job with its contract and its method, and the protocol of the kinds of jobs."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from pydantic import ConfigDict

from evenhand.data_contracts.model import Contract
from evenhand.fairlib.methods.registry import PROXIES, method_class, spec_of
from evenhand.flows.engine import Measured, Steps
from evenhand.flows.job import Job, Section
from evenhand.tasks.execution.store import Artifact


class CheckedJob(Section):
    """A job whose contract, method and counterfactuals were checked against each other.

    `evenhand.flows.resolved_job.ResolvedJob` adds what depends on the job's kind.
    """

    # only subclasses are made: what pydantic builds of a class would be built twice
    model_config = ConfigDict(
        extra="forbid", frozen=True, arbitrary_types_allowed=True, defer_build=True
    )

    job: Job
    contract: Contract
    method: str
    arguments: dict[str, Any]
    folder: str
    # the table is checked by this one; `contract` is the one for training
    table_contract: Contract
    # both contracts are without these, so that naming a value computes nothing anew
    value_names: dict[str, dict[str, str]] = {}
    # texts and marks for case files, by column
    case_terms: dict[str, dict[str, Any]] = {}
    # columns whose differences between groups may count: the job's, or else the contract's
    legitimate: list[str] = []

    @property
    def is_proxy(self) -> bool:
        """Whether the job learns a proxy instead of a classifier."""
        return self.method in PROXIES

    @property
    def modules(self) -> list[str]:
        """Modules of the method, whose code is part of the keys of the steps that use it."""
        return [spec_of(self.method).module]

    @property
    def model_name(self) -> str:
        """Name in the registry."""
        return self.job.publish.model or self.job.name

    @property
    def has_certificate(self) -> bool:
        """Whether the model is audited: the job gives a budget, or the method was trained within
        one.
        """
        if self.is_proxy or self.contract.label.classes:
            return False
        parameters = inspect.signature(method_class(self.method).__init__).parameters
        return self.job.evaluate.certificate is not None or "perturbation_budget" in parameters

    @property
    def corpus(self) -> Path | None:
        """File of sentences to learn the fair metric from; None: it is learned from the training
        rows.
        """
        name = getattr(self.job.fair_metric, "corpus", None)
        if name is None:
            return None
        return (Path(self.folder) / Path(name).expanduser()).resolve()

    def source(self) -> dict[str, Any]:
        """Return the table's source; a relative path is resolved against the job file's folder."""
        source = self.job.table.model_dump()
        path = source["path"]
        if path and "://" not in path:
            source["path"] = str((Path(self.folder) / Path(path).expanduser()).resolve())
        return source


class JobKind(Protocol):
    """What a kind of jobs provides: jobs of classifiers, or jobs of proxies.

    The modules `evenhand.flows.classifier_jobs` and `evenhand.flows.proxy_jobs` are its
    implementations.
    """

    __name__: str
    """Name of the module, whose code is part of a model's provenance."""

    def check_job(
        self, job: Job, contract: Contract, method: str, arguments: Mapping[str, Any]
    ) -> Contract:
        """Check a job against its contract and method, and return the contract for training.

        Raises `InputError` with one line that names the key and the cure.
        """

    def known_metrics(self, resolved: CheckedJob) -> list[str]:
        """Return the metrics that a run of the job will have, without intersections."""

    def train_and_measure(self, resolved: CheckedJob, steps: Steps) -> Measured:
        """Run the steps after `prepare` up to the metrics."""

    def gate_step(
        self, resolved: CheckedJob, steps: Steps, measured: Measured
    ) -> tuple[dict[str, Any], dict[str, Artifact]]:
        """Return the parameters and inputs of the step that applies the gates."""

    def published_artifacts(self, steps: Steps) -> dict[str, Artifact]:
        """Return the published artifacts by name, without encoder, metrics and decision."""

    def input_description(self, resolved: CheckedJob, steps: Steps) -> dict[str, Any]:
        """Return what a published model needs to read raw rows."""
