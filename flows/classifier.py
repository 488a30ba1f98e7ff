"""Jobs that train a classifier: what they must fit, their steps up to the metrics, and what they publish."""

from __future__ import annotations

import datetime
import inspect
import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from evenhand.data_contracts.model import Column, Contract
from evenhand.fairlib.catalogue import names_of
from evenhand.fairlib.evaluation.metrics import GROUP_METRICS
from evenhand.fairlib.methods.registry import METHODS, method_class
from evenhand.flows.engine import Measured, Steps
from evenhand.flows.job import Job
from evenhand.flows.job_sections import SubspaceMetric
from evenhand.tasks.errors import InputError
from evenhand.tasks.fingerprint import library_versions
from evenhand.tasks.inputs import nearest
from evenhand.tasks.store import Artifact

if TYPE_CHECKING:
    from evenhand.flows.resolved_job import ResolvedJob

__all__ = [
    "certificate_budget",
    "check_job",
    "known_metrics",
    "card_fields",
    "published_artifacts",
    "input_description",
    "split_parameters",
    "train_and_measure",
]

VALUE_TYPES: dict[str, Any] = {
    "string": str,
    "integer": int,
    "number": int | float,
    "boolean": bool,
    "date": datetime.date,
}


def check_job(job: Job, contract: Contract, method: str, arguments: Mapping[str, Any]) -> Contract:
    """
    Check the job's metric, counterfactuals and arguments against its contract and method.

    Returns
    -------
    Contract
        By which the job learns: the given one.

    Raises
    ------
    InputError
        One line that names the key and the cure.
    """
    sensitive = [column.name for column in contract.sensitive]
    _check_names(job, "sensitive", job.sensitive, sensitive, "the contract's sensitive columns are")
    if "filter" in job.model_fields_set:
        raise InputError(f"job {job.name}: filter is for jobs of a proxy, and {method} is none: remove it.")
    _check_metric(job, contract)
    _check_counterfactuals(job, contract)
    if METHODS[method].needs_counterfactuals and not job.evaluate.counterfactuals:
        raise InputError(
            f"job {job.name}: method {method} pairs people with their counterfactuals, and there are none: "
            "give evaluate.counterfactuals."
        )
    if METHODS[method].asks:
        _check_asking(job, contract, arguments)
    elif METHODS[method].needs_groups:
        _check_compared(job, contract, method, arguments)
    return contract


def certificate_budget(job: Job, method: str, arguments: Mapping[str, Any]) -> float | None:
    """Budget of the audit: the job's own, else that which the method trained with, else none."""
    if job.evaluate.certificate is not None:
        return job.evaluate.certificate.budget
    parameters = inspect.signature(method_class(method).__init__).parameters
    if "perturbation_budget" not in parameters:
        return None
    return float(arguments.get("perturbation_budget", parameters["perturbation_budget"].default))


def known_metrics(resolved: ResolvedJob) -> list[str]:
    """Metrics that the job will have; which intersections there are, the data decides."""
    method = METHODS[resolved.method]
    known = [name for name in names_of("classifier") if "." not in name and name != "features_asked"]
    known += ["features_asked"] if method.asks else []
    known += [f"consistency.{name}" for name in resolved.job.evaluate.counterfactuals]
    known += [f"{kind}.{column.name}" for kind in GROUP_METRICS for column in resolved.contract.sensitive]
    if resolved.certificate_budget is not None:
        known.append("certificate.drf")
        known += ["certificate.dif"] if method.differentiable else []
    return known


def _check_metric(job: Job, contract: Contract) -> None:
    """Every name in the metric's section is one that the contract or the job has."""
    metric = job.fair_metric
    names = [column.name for column in contract.sensitive]
    features = [column.name for column in contract.features]
    if isinstance(metric, SubspaceMetric):
        _check_names(job, "fair_metric.indicators", metric.indicators, features, "the contract has")
        _check_names(job, "fair_metric.learned", metric.learned, names, "the contract has")
        return
    defined = list(job.evaluate.counterfactuals)
    if not metric.comparable_by and not defined:
        raise InputError(
            f"job {job.name}: the metric {metric.kind} is learned from comparable people: define "
            "evaluate.counterfactuals, or list columns in fair_metric.comparable_by."
        )
    _check_names(
        job, "fair_metric.comparable_by", metric.comparable_by, features, "the contract's model inputs are"
    )
    _check_names(
        job, "fair_metric.counterfactuals", metric.counterfactuals, defined, "evaluate.counterfactuals has"
    )


def _check_asking(job: Job, contract: Contract, arguments: Mapping[str, Any]) -> None:
    """The arguments of a method that asks for features, as far as the contract tells."""
    from evenhand.fairlib.methods.dadi.objectives import CRITERIA

    gamma, criterion = arguments.get("gamma", 0.5), arguments.get("criterion", CRITERIA[0])
    if not 0 <= gamma <= 1:
        raise InputError(
            f"job {job.name}: method.gamma is {gamma:g}, expected a number from 0 (ask for nothing that "
            "tells the group) to 1 (ask for whatever helps to predict)."
        )
    if criterion not in CRITERIA:
        raise InputError(
            f"job {job.name}: method.criterion {criterion!r} is not known{nearest(criterion, CRITERIA)}; "
            f"known: {', '.join(CRITERIA)}."
        )
    sensitive = job.sensitive or [column.name for column in contract.sensitive]
    if not sensitive:
        raise InputError(
            f"job {job.name}: the contract {contract.name!r} has no sensitive column for the adversary to "
            "guess: give one the role sensitive."
        )
    if arguments.get("attributes") == []:
        raise InputError(
            f"job {job.name}: method.attributes is empty: name a sensitive column, or leave it out for all."
        )
    _check_names(
        job, "method.attributes", arguments.get("attributes"), sensitive, "the sensitive columns are"
    )
    features = [column.name for column in contract.features]
    _check_names(job, "method.costs", arguments.get("costs"), features, "the model inputs are")
    for name, cost in (arguments.get("costs") or {}).items():
        if not (math.isfinite(cost) and cost >= 0):
            raise InputError(
                f"job {job.name}: method.costs.{name} is {cost:g}, expected a finite number, not negative."
            )


def _check_compared(job: Job, contract: Contract, method: str, arguments: Mapping[str, Any]) -> None:
    """There are sensitive columns to compare by and, where the group is read from the inputs, it is there."""
    sensitive = job.sensitive or [column.name for column in contract.sensitive]
    if not sensitive:
        raise InputError(
            f"job {job.name}: the contract {contract.name!r} has no sensitive column, and {method} compares "
            "the groups of one: give one the role sensitive."
        )
    named = list(arguments.get("attributes") or [])
    named += [arguments["attribute"]] if arguments.get("attribute") is not None else []
    key = "method.attributes" if arguments.get("attributes") else "method.attribute"
    _check_names(job, key, named, sensitive, "the sensitive columns are")
    if not METHODS[method].needs_feature_groups:
        return
    compared = [column for column in contract.sensitive if column.name in (named or sensitive)]
    hidden = [column.name for column in compared if not column.is_feature]
    if hidden:
        raise InputError(
            f"job {job.name}: {method} reads {hidden[0]!r} from the model inputs, and it is none: give it "
            "use: feature in the contract, or take a method that trains with groups alone, such as "
            "exponentiated-gradient."
        )


def _check_names(job: Job, key: str, listed: Iterable[str] | None, known: list[str], there_are: str) -> None:
    for name in listed or ():
        if name not in known:
            raise InputError(
                f"job {job.name}: {key} names {name!r}{nearest(name, known)}; {there_are} {', '.join(known)}."
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
                if column.encoding in ("standard", "unit"):
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


# the run


def split_parameters(resolved: ResolvedJob) -> dict[str, Any]:
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


def published_artifacts(steps: Steps) -> dict[str, Artifact]:
    """What is published beside encoder, metrics and decision."""
    return {"model": steps.output("train", "model"), "reference": steps.output("profile", "reference")}


def input_description(resolved: ResolvedJob, steps: Steps) -> dict[str, Any]:
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


def card_fields(steps: Steps) -> dict[str, Any]:
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
