"""A job with its contract and its method, and the protocol of the kinds of jobs."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import json
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from pydantic import ConfigDict

from evenhand.data_contracts.model import Contract
from evenhand.fairlib.methods.registry import PROXIES, method_class, spec_of
from evenhand.flows.engine import Measured, Steps
from evenhand.flows.job import Job, Section
from evenhand.tasks.execution.fingerprint import (
    NUMERIC_LIBRARIES,
    ROOT,
    code_digest,
    library_versions,
)
from evenhand.tasks.execution.store import Artifact, cache_folder

# Libraries that check a method's arguments, in addition to the numeric ones.
CHECKING_LIBRARIES = (*NUMERIC_LIBRARIES, "pydantic", "pydantic-core", "narwhals", "joblib")


class MethodTraits(NamedTuple):
    """Facts about a method's class, for which the class need not be imported again."""

    parameters: list[str]
    """Names of the constructor's arguments."""
    adapts_inputs: bool
    """Whether a learned metric may adapt the columns that the method reads."""


def answer_by_code(question: Any, modules: Sequence[str], ask: Callable[[], Any]) -> Any:
    """Answer a question on which our code and the libraries alone decide, from the user's cache.

    An answer is kept with a digest of the question, the modules' code, the libraries' versions
    and Python's; if any of them differs, `ask` answers anew. So a job that was checked before is
    checked without importing scikit-learn, which takes longer than the rest of an unchanged run.
    An error of `ask` is raised and not kept; nor is an answer that JSON would change.
    """
    text = _exact_json(question)
    if text is None:
        return ask()
    facts = {
        "question": text,
        "code": code_digest(["evenhand.flows.resolved_job", *modules]),
        "libraries": library_versions(CHECKING_LIBRARIES),
        "python": platform.python_version(),
    }
    key = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
    # One file a question and installation: the answer of older code in the same place is replaced.
    # Two installations of a user, such as two releases, would replace each other's at every run.
    name = hashlib.sha256(f"{ROOT}\n{text}".encode()).hexdigest()[:32]
    file = cache_folder("checked") / f"{name}.json"
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        stored = json.loads(file.read_text(encoding="utf-8"))
        if stored["key"] == key:
            return stored["answer"]
    answer = ask()
    if _exact_json(answer) is not None:
        _keep(file, {"key": key, "answer": answer})
    return answer


def _exact_json(value: Any) -> str | None:
    """Return a value as JSON; None for one that is another one after it was read again."""
    try:
        text = json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return None
    if repr(json.loads(text)) != repr(value):
        return None
    return text


def _keep(file: Path, content: Mapping[str, Any]) -> None:
    """Write a file of the cache under a temporary name; a cache that cannot be written is none."""
    part = file.with_name(f"{file.name}.{os.getpid()}.part")
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        part.write_text(json.dumps(content), encoding="utf-8")
        part.replace(file)


@functools.cache
def method_traits(method: str) -> MethodTraits:
    """Return the traits of a classifier's or a proxy's class."""
    answer = answer_by_code(
        ["traits", method], [spec_of(method).module], functools.partial(_look_at_class, method)
    )
    return MethodTraits(*answer)


def _look_at_class(method: str) -> list[Any]:
    """Import a method's class for its traits."""
    cls = method_class(method)
    return [list(inspect.signature(cls.__init__).parameters), hasattr(cls, "adapts_inputs")]


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
        if self.job.evaluate.certificate is not None:
            return True
        return "perturbation_budget" in method_traits(self.method).parameters

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
