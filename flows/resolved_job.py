"""A job checked against its contract and its method, before anything runs; and its provenance
digest.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import math
import re
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any, get_type_hints

from pydantic import TypeAdapter, ValidationError

from evenhand.data_contracts.errors import ContractError
from evenhand.data_contracts.model import Contract
from evenhand.data_contracts.odcs import load_contract, shipped_contracts
from evenhand.fairlib.catalogue import PROVED, better, group_metrics
from evenhand.fairlib.evaluation.gates import CONTROLS, Gate, parse_gates
from evenhand.fairlib.file_digests import sha256_of_file
from evenhand.fairlib.methods.registry import (
    METHODS,
    MINILM,
    PROXIES,
    TFIDF,
    installed,
    method_class,
    needed_extra,
)
from evenhand.flows import classifier_jobs as classifier
from evenhand.flows import proxy_jobs as proxy
from evenhand.flows.checked_job import CheckedJob, JobKind, answer_by_code
from evenhand.flows.job import Job, LearnedByEvidence, TermSwap
from evenhand.tasks.errors import InputError, input_errors
from evenhand.tasks.evaluating.control_names import SIMPLE_MITIGATIONS
from evenhand.tasks.evaluating.limits import check_groups
from evenhand.tasks.execution.fingerprint import code_digest, library_versions
from evenhand.tasks.execution.step import STEPS
from evenhand.tasks.execution.store import Store
from evenhand.tasks.registry.ledger import CHAIN
from evenhand.tasks.written_input import (
    as_number,
    check_bound,
    listed_metrics,
    nearest,
    not_known,
    read_corpus,
    refuse_credentials_in_file,
    required_by,
)

# Constructor arguments that the training step sets, and a job must not.
RESERVED_ARGUMENTS = ("metric", "network", "loss", "output_distance", "random_state")
# Beginnings of metrics that are not measured of controls.
UNCONTROLLED = (
    "adversary_auc",
    "certificate.dif",
    *PROVED,
    "certificate.drf_relative",
    "features_asked",
    "leak_suspected",
    "membership_auc",
    "metric_leak",
    "probability_spread",
    "reasons_kept",
)
# Keys of a job that do not change the model: texts, and settings of other commands.
IRRELEVANT_KEYS = (
    *("description", "paper", "sweep", "filter", "tune", "memory", "engine"),
    "retrain",
)
# Keys that change what is measured, shown or published of a model, and not the model.
JUDGING_KEYS = ("name", "tuned", "gates", "publish")
# Keys of `evaluate` that a training, a fair metric or thresholds by group read, too.
READ_BY_MODEL = ("counterfactuals", "terms", "adapted", "min_cell")
# Keys of the table that do not change the model either: the digests of its bytes count.
LOCATION_KEYS = ("path", "connection")


class ResolvedJob(CheckedJob):
    """A checked job that is ready to run, with its kind."""

    @property
    def kind(self) -> JobKind:
        """The job's kind: its checks, its steps up to the metrics, and its published artifacts."""
        return _kind(self.method)

    @property
    def mitigates(self) -> bool:
        """Whether the job's classifier, or its decisions, differ from the learner's without
        mitigation.
        """
        return METHODS[self.method].plain != self.method or self.job.decision.equal is not None

    @property
    def known_metrics(self) -> list[str]:
        """Metrics of this job, without intersections: which of them exist depends on the data."""
        return self.kind.known_metrics(self)

    @property
    def crossed_metrics(self) -> list[str]:
        """Metrics of intersections, which this job may have; none where it measures no
        intersections.
        """
        if not self.job.evaluate.intersections:
            return []
        names = [column.name for column in self.contract.sensitive]
        kinds = group_metrics(any_classes=bool(self.contract.label.classes))
        return [f"{kind}.{one}&{other}" for one, other in combinations(names, 2) for kind in kinds]

    def may_have(self, metric: str) -> bool:
        """Whether this job can have the metric, as far as is known before a run."""
        return metric in self.known_metrics or metric in self.crossed_metrics

    def close_to(self, metric: str) -> str:
        """Return the end of a message that suggests the metric with the closest name; empty if none
        is close.
        """
        kind, _, subject = metric.partition(".")
        in_order = f"{kind}.{'&'.join(reversed(subject.split('&')))}"
        if in_order in self.crossed_metrics:
            return f" (did you mean {in_order!r}?)"
        return nearest(metric, [*self.known_metrics, *self.crossed_metrics])


def _kind(method: str) -> JobKind:
    if method in PROXIES:
        return proxy
    return classifier


def resolve(job: Job, folder: str) -> ResolvedJob:
    """Check the whole job before anything runs.

    Raises `InputError` with one line that names the key and the cure.
    """
    with input_errors(f"job {job.name}: ", InputError, ContractError):
        name = job.contract or job.table.name
        path = Path(folder) / name
        if name not in shipped_contracts() and path.is_file():
            name = str(path)
            refuse_credentials_in_file(path, f"contract {path.name}")
        declared = load_contract(name)
        job = _with_legitimate(with_terms(job, folder), declared)
        described = declared.without_value_names().without_legitimate().without_case_terms()
        job, contract = _leave_out(job, described)
        job = _check_text(job, contract, folder)
        method, arguments = _method(job)
        job = classifier.for_classes(job, contract, method)
        training = _kind(method).check_job(job, contract, method, arguments)
        if training is not contract:
            contract = contract.with_sensitive([column.name for column in training.sensitive])
        resolved = ResolvedJob(
            job=job,
            contract=training,
            table_contract=contract,
            method=method,
            arguments=arguments,
            folder=folder,
            value_names=declared.value_names,
            case_terms=declared.case_terms,
            legitimate=_legitimate(job, declared),
        )
        _check_gates(resolved)
        if resolved.corpus:
            read_corpus(resolved.corpus)
        if resolved.model_name.startswith(CHAIN):
            raise InputError(
                f"a model whose name begins with {CHAIN} holds records: choose another name"
            )
    return resolved


def _legitimate(job: Job, declared: Contract) -> list[str]:
    """Return the legitimate columns: those of the job, or else of its contract."""
    listed = getattr(job.fair_metric, "legitimate", None)
    if listed is not None:
        return list(listed)
    return [name for name in declared.legitimate if name not in job.leave_out]


def _with_legitimate(job: Job, declared: Contract) -> Job:
    """Write the contract's legitimate columns into a learned metric that lists none itself."""
    if not isinstance(job.fair_metric, LearnedByEvidence):
        return job
    update = {"legitimate": _legitimate(job, declared)}
    return job.model_copy(update={"fair_metric": job.fair_metric.model_copy(update=update)})


def with_terms(job: Job, folder: str) -> Job:
    """Read the job's lists of terms, from files relative to `folder`, into the job."""
    swaps = {}
    for name, swap in job.evaluate.terms.items():
        with input_errors(f"the counterfactual {name!r}: "):
            swaps[name] = swap.model_copy(update={"terms": _terms(swap, folder)})
    return job.model_copy(update={"evaluate": job.evaluate.model_copy(update={"terms": swaps})})


def _check_text(job: Job, contract: Contract, folder: str) -> Job:
    """Check the columns of terms, the encoder of sentences and the columns of the split."""
    _check_split_columns(job, contract)
    sentences = [column.name for column in contract.features if column.is_text]
    for name, swap in job.evaluate.terms.items():
        where = f"the counterfactual {name!r}"
        if swap.column not in sentences:
            raise InputError(
                f"{where} exchanges terms in the column {swap.column!r}, which has not the "
                "encoding text"
                f"{nearest(swap.column, sentences)}."
            )
        if name in job.evaluate.counterfactuals:
            raise InputError(f"{where} is defined twice: rename one.")
    encoder = job.text.encoder
    if not sentences or encoder in (TFIDF, MINILM):
        return job
    from evenhand.fairlib.preprocessing.sentences import model_folder

    encoder = str((Path(folder) / Path(encoder).expanduser()).resolve())
    with input_errors("text.encoder: "):
        model_folder(encoder)
    return job.model_copy(update={"text": job.text.model_copy(update={"encoder": encoder})})


def _check_split_columns(job: Job, contract: Contract) -> None:
    """Check that the contract has every column that the split names."""
    columns = [column.name for column in contract.columns]
    by = job.split.by
    if by and by not in columns:
        raise InputError(f"split.by names {by!r}, which the contract lacks.")
    if isinstance(job.split.hash, list):
        for name in job.split.hash:
            if name not in columns:
                raise InputError(f"split.hash names {name!r}, which the contract lacks.")


def _terms(swap: TermSwap, folder: str) -> list[list[str]]:
    """Return the groups of terms. ValueError: a file that cannot be read, or a list without
    a pair.
    """
    # imported lazily: most jobs have no sentences
    from evenhand.fairlib.preprocessing.terms import Terms

    if isinstance(swap.terms, list):
        terms = Terms(swap.column, _listed_groups(swap.terms))
    else:
        terms = Terms.read(swap.column, _read_terms(swap.terms, folder))
    return [list(group) for group in terms.groups]


def _listed_groups(items: Sequence[str | list[str]]) -> tuple[tuple[str, ...], ...]:
    """Return the groups of a list: its items, or one group of all if each item is a single term."""
    groups: list[tuple[str, ...]] = []
    for item in items:
        if isinstance(item, str):
            groups.append((item,))
        else:
            groups.append(tuple(item))
    if any(len(group) > 1 for group in groups):
        return tuple(groups)
    return (tuple(group[0] for group in groups),)


def _read_terms(file: str, folder: str) -> str:
    try:
        return (Path(folder) / Path(file).expanduser()).read_text(encoding="utf-8")
    except OSError:
        raise ValueError(f"the list of terms {file} cannot be read: check its path.") from None
    except UnicodeDecodeError:
        raise ValueError(f"the list of terms {file} is not UTF-8: save it as UTF-8.") from None


def _leave_out(job: Job, contract: Contract) -> tuple[Job, Contract]:
    """Make the columns of `leave_out` no model inputs; sensitive ones stay sensitive.

    A counterfactual copy then changes only the other columns: one that changes none equals the
    person.
    """
    inputs = [column.name for column in contract.features]
    classifier.check_names("leave_out", job.leave_out, inputs, "the model inputs are")
    if not job.leave_out:
        return job, contract
    classifier.check_counterfactuals(job, contract)
    copies = {}
    for name, changes in job.evaluate.counterfactuals.items():
        copies[name] = _changes_without(changes, job.leave_out)
    changed: dict[str, Any] = {
        "evaluate": job.evaluate.model_copy(update={"counterfactuals": copies})
    }
    indicators = getattr(job.fair_metric, "indicators", None)
    if indicators is not None:
        remaining = [name for name in indicators if name not in job.leave_out]
        changed["fair_metric"] = job.fair_metric.model_copy(update={"indicators": remaining})
    return job.model_copy(update=changed), contract.without_inputs(job.leave_out)


def _changes_without(changes: Mapping[str, Any], left_out: Sequence[str]) -> dict[str, Any]:
    """Return a counterfactual's changes of other columns; none if all copies had one value then."""
    remaining = {column: values for column, values in changes.items() if column not in left_out}
    for values in remaining.values():
        if values == "all" or len(set(values)) > 1:
            return remaining
    return {}


def _check_gates(resolved: ResolvedJob) -> None:
    """Check that this job will have the metric of every gate."""
    with input_errors("gates: "):
        gates = parse_gates(resolved.job.gates)
    for gate in gates:
        if gate.no_worse_than_baseline is not None:
            raise InputError(
                f"the gate {gate.metric!r} has no_worse_than_baseline, but a job "
                "has no baseline: give it a min or max here, and compare its model with another by "
                "`evenhand evaluate --baseline`."
            )
        if gate.metric == "membership_auc" and not (
            resolved.is_proxy or resolved.job.evaluate.membership
        ):
            raise InputError(
                "the gate 'membership_auc' is measured with evaluate.membership: {shadows: 16}: "
                "add that."
            )
        if not resolved.may_have(gate.metric):
            raise InputError(
                f"the gate {gate.metric!r} names no metric of this job"
                f"{resolved.close_to(gate.metric)}; there are "
                f"{listed_metrics(resolved.known_metrics)}."
            )
        if gate.groups:
            check_groups(gate, resolved.contract)
        _check_control(resolved, gate)


def _check_control(resolved: ResolvedJob, gate: Gate) -> None:
    """Check that a gate relative to a control is on a metric that the controls have, and that has
    a direction.
    """
    key = next((kind for kind in CONTROLS if getattr(gate, kind) is not None), None)
    if key is None:
        return
    if resolved.is_proxy:
        raise InputError(
            f"the gate {gate.metric!r} has {key}, and a proxy has no controls: use min or max."
        )
    if CONTROLS[key] in SIMPLE_MITIGATIONS and not resolved.mitigates:
        raise InputError(
            f"the gate {gate.metric!r} has {key}, and a method without mitigation such as "
            f"{resolved.method} has no such control: use better_than_blind or better_than_plain."
        )
    if gate.metric.startswith(UNCONTROLLED):
        raise InputError(
            f"the gate {gate.metric!r} has {key}, and the controls have no such metric: use min or "
            "max."
        )
    if gate.bound == "interval" and gate.metric.startswith("certificate."):
        raise InputError(
            f"the gate {gate.metric!r} has {key} and bound: interval, and differences of "
            "certificates have no interval: leave bound out."
        )
    with input_errors(f"the gate {gate.metric!r} has {key}: ", end="."):
        better(gate.metric)


def _method(job: Job) -> tuple[str, dict[str, Any]]:
    """Return the name of the job's method, and its arguments converted to the types of its
    constructor.

    Raises `InputError` for an unknown name or key, a value that the method refuses, and for a
    method whose optional extra is not installed.
    """
    arguments = dict(job.method)
    name = arguments.pop("name", None)
    specs = {**METHODS, **PROXIES}
    if not isinstance(name, str) or name not in specs:
        raise not_known("method", name, [*specs])
    if name in METHODS and not installed(METHODS[name]):
        raise InputError(needed_extra(METHODS[name]))
    fixed: Mapping[str, Any] = {}
    if name in PROXIES:
        fixed = PROXIES[name].fixed
    question = ["arguments", name, arguments]
    converted: dict[str, Any] = answer_by_code(
        question, [specs[name].module], partial(_converted, name, arguments, fixed)
    )
    return name, converted


def _converted(name: str, arguments: Mapping[str, Any], fixed: Mapping[str, Any]) -> dict[str, Any]:
    """Convert and check a method's arguments by its constructor.

    Raises `InputError` for an unknown key, and a value that the method refuses.
    """
    kinds = _accepted_arguments(name, fixed)
    for key in arguments:
        if key not in kinds:
            raise InputError(
                f"unknown key 'method.{key}'{nearest(key, [*kinds])}; {name} takes: "
                f"{', '.join(kinds)}."
            )
    converted = {key: _argument(key, value, kinds[key]) for key, value in arguments.items()}
    with input_errors(f"method {name}: "):
        method_class(name)(**fixed, **converted)._check_parameters()
    return converted


def _accepted_arguments(method: str, fixed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the types of a method's arguments that a job may give, in the constructor's order."""
    constructor = method_class(method).__init__
    kinds = get_type_hints(constructor)
    accepted = {}
    for key in inspect.signature(constructor).parameters:
        if key in kinds and key not in RESERVED_ARGUMENTS and key not in fixed:
            accepted[key] = kinds[key]
    return accepted


def _argument(key: str, value: Any, kind: Any) -> Any:
    """Convert a method's argument to the type of its parameter, so that 1 and 1.0 are the
    same job.
    """
    try:
        converted = TypeAdapter(kind).validate_python(as_number(value))
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        options = re.findall("'(.+?)'", problem.get("ctx", {}).get("expected", ""))
        raise InputError(
            f"method.{key} is {value!r}{nearest(str(value), options)}: {required_by(problem)}."
        ) from None
    if isinstance(converted, float) and not math.isfinite(converted):
        raise InputError(f"method.{key} is {value!r}: it must be a finite number.")
    if isinstance(as_number(value), bool | str) and type(converted) in (int, float):
        raise InputError(f"method.{key} is {value!r}: write a number, without quotes.")
    with input_errors(f"method.{key} ", end="."):
        check_bound(converted)
    return converted


def provenance(resolved: ResolvedJob, sources: Mapping[str, str], proxy: str | None) -> str:
    """Return the digest of all that determines a run's model: the data, the job, its contract, our
    code.

    - `sources`: sha256 of each of the table's files; empty for a generated table, which the job's
      seed determines
    - `proxy`: content digest of the published proxy that chooses the training rows
    """
    job = resolved.job.model_dump(mode="json", exclude=set(IRRELEVANT_KEYS))
    content = _inputs(resolved, sources, proxy, job) | code_of(resolved)
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def inputs_digest(resolved: ResolvedJob, sources: Mapping[str, str], proxy: str | None) -> str:
    """Return the digest of what a model is made from apart from code and libraries; arguments as of
    :func:`provenance`.

    Keys with their default are left out: a key that a later release adds changes no digest.
    """
    excluded = set(IRRELEVANT_KEYS)
    job = resolved.job.model_dump(mode="json", exclude=excluded, exclude_defaults=True)
    content = _inputs(resolved, sources, proxy, job)
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def model_digest(resolved: ResolvedJob, proxy: str | None) -> str:
    """Return the digest of what in a job determines its model and its decisions, with its contract;
    `proxy` as of :func:`provenance`.

    Gates, publication and what only measures do not count, nor does who chose the settings.
    """
    # its file has a digest of its own
    excluded = {*IRRELEVANT_KEYS, *JUDGING_KEYS, "contract"}
    job = resolved.job.model_dump(mode="json", exclude=excluded, exclude_defaults=True)
    evaluate = job.pop("evaluate", {})
    job["evaluate"] = {key: evaluate[key] for key in READ_BY_MODEL if key in evaluate}
    encoder = resolved.job.text.encoder
    if encoder not in (TFIDF, MINILM):
        # imported lazily: most jobs have no encoder of their own
        from evenhand.fairlib.preprocessing.sentences import encoder_digest

        job["text"]["encoder"] = encoder_digest(encoder)
    content = _inputs(resolved, {}, proxy, job)
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def content_of_proxy(resolved: ResolvedJob, store: Store) -> str | None:
    """Return the content digest of the proxy that a job's rows would be filtered by now; None
    without one.
    """
    balance = resolved.job.balance
    if balance is None:
        return None
    # imported lazily: most jobs have none
    from evenhand.tasks.registry import client as registry

    proxy = registry.published(registry.tracking_uri(store), balance.proxy, balance.alias)
    return None if proxy is None else proxy.content


def code_of(resolved: ResolvedJob) -> dict[str, Any]:
    """Return the digest of our code, and the libraries' versions, that determine a job's model."""
    # the modules of all steps, not only of this job's: at worst a model is trained once more than
    # needed
    steps = [step.module for step in STEPS.values()]
    ours = [*steps, "evenhand.tasks.serving.model_code", *resolved.modules, resolved.kind.__name__]
    return {"code": code_digest(ours), "libraries": library_versions()}


def _inputs(
    resolved: ResolvedJob, sources: Mapping[str, str], proxy: str | None, job: dict[str, Any]
) -> dict[str, Any]:
    """Return what determines a model apart from the code; `job` has the keys that count."""
    job["table"] = {key: value for key, value in job["table"].items() if key not in LOCATION_KEYS}
    return {
        "sources": dict(sources),
        "corpus": resolved.corpus and sha256_of_file(resolved.corpus),
        "job": job,
        "contract": resolved.table_contract.digest,
        "favourable": resolved.table_contract.label.favourable_code,
        "proxy": proxy,
    }
