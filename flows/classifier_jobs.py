"""Jobs that train a classifier: their checks, steps up to the metrics, and published artifacts."""

from __future__ import annotations

import datetime
import inspect
import math
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from evenhand.data_contracts.favourable import describe_outcome, favourable_not_stated
from evenhand.data_contracts.model import Column, Contract
from evenhand.fairlib.catalogue import (
    PROVED,
    attribute_names,
    classifier_metrics,
    term_metrics,
)
from evenhand.fairlib.methods.registry import METHODS, PROXIES, MethodSpec, method_class
from evenhand.flows.checked_job import CheckedJob, method_traits
from evenhand.flows.engine import Measured, Steps
from evenhand.flows.job import ONCE, Job, LearnedByEvidence, SubspaceMetric
from evenhand.flows.memory import Place, place_of
from evenhand.tasks.errors import InputError
from evenhand.tasks.evaluating.control_names import BLIND, PLAIN, SIMPLE_MITIGATIONS
from evenhand.tasks.execution.fingerprint import library_versions
from evenhand.tasks.execution.store import Artifact
from evenhand.tasks.sources.fetching import local_file
from evenhand.tasks.written_input import nearest

# Verdicts of a learned metric on columns that are mapped to one group.
ADAPTED_VERDICTS = ("shift", "scale", "quantiles", "steps", "levels")
# What the step of the controls writes about them.
CONTROL_FACTS = ("simple_mitigations", "plain_settings")
# Share of the label's signal from which on a run says that a metric takes much of it.
MUCH_SIGNAL = 0.25

VALUE_TYPES: dict[str, Any] = {
    "string": str,
    "integer": int,
    "number": int | float,
    "boolean": bool,
    "date": datetime.date,
}


def check_job(job: Job, contract: Contract, method: str, arguments: Mapping[str, Any]) -> Contract:
    """Check the job's metric, counterfactuals and arguments against its contract and method.

    Returns the contract for training, which is the given one. Raises `InputError` with one line
    that names the key and the cure.
    """
    sensitive = [column.name for column in contract.sensitive]
    check_names("sensitive", job.sensitive, sensitive, "the contract's sensitive columns are")
    if "filter" in job.model_fields_set:
        raise InputError(f"filter is for jobs of a proxy, and {method} is not a proxy: remove it.")
    _check_metric(job, contract)
    check_counterfactuals(job, contract)
    _check_reasons(job, method)
    _check_adapted(job, contract)
    _check_proofs(job, contract, method)
    evaluate = job.evaluate
    defined = any(evaluate.counterfactuals.values()) or evaluate.terms or evaluate.adapted
    if METHODS[method].pairs_copies(arguments) and not defined:
        raise InputError(
            f"method {method} pairs people with their counterfactuals, and there are none: "
            "give evaluate.counterfactuals."
        )
    _check_decision(job, contract)
    if METHODS[method].asks:
        _check_asking(job, contract, arguments)
    elif METHODS[method].needs_groups:
        _check_compared(job, contract, method, arguments)
    return contract


def _check_adapted(job: Job, contract: Contract) -> None:
    """Check that there is a metric that adapts copies."""
    for name in job.evaluate.adapted:
        where = f"the counterfactual {name!r}"
        if name in job.evaluate.counterfactuals or name in job.evaluate.terms:
            raise InputError(f"{where} is defined twice: rename one.")
        if not isinstance(job.fair_metric, LearnedByEvidence):
            raise InputError(
                f"{where} is of adapted copies, which a learned fair metric makes: set "
                "fair_metric.kind to learned."
            )
        _sensitive(None, contract, f"{where} is of copies in other groups")


def reads_adapted(job: Job, contract: Contract, method: str) -> bool:
    """Whether the model of a job reads adapted columns: they are no linear map of its inputs."""
    if not METHODS[method].needs_metric or not isinstance(job.fair_metric, LearnedByEvidence):
        return False
    are_inputs = all(column.is_feature for column in contract.sensitive)
    adapts = method_traits(method).adapts_inputs
    return adapts and bool(contract.sensitive) and are_inputs


def _check_proofs(job: Job, contract: Contract, method: str) -> None:
    """Refuse what asks for a proof of a model that reads adapted columns."""
    if not reads_adapted(job, contract, method):
        return
    asks = [name for name in job.gates if name in PROVED]
    if "proof_parts" in job.evaluate.model_fields_set and job.evaluate.proof_parts != "none":
        asks.append("evaluate.proof_parts")
    if asks:
        raise InputError(
            f"{asks[0]} asks for a proof, and {method} with the learned metric reads adapted "
            "columns, for which there is none (nor an export): leave it out, or set another "
            "fair_metric.kind."
        )


def _check_reasons(job: Job, method: str) -> None:
    """Check that there are reasons to compare, and counterfactuals to compare them between."""
    if not job.evaluate.reasons:
        return
    if not METHODS[method].gives_reasons:
        obstacle = f"the method {method} gives no reasons"
    elif not job.evaluate.counterfactuals:
        obstacle = "the job has none"
    else:
        return
    raise InputError(
        f"evaluate.reasons compares reasons of counterfactuals, and {obstacle}: leave it out."
    )


def check_labels(contract: Contract, method: str) -> None:
    """Raise `InputError` for a classifier of two labels where the label has classes."""
    label = contract.label
    if label.classes and "multiclass" not in METHODS[method].tasks:
        multiclass = ", ".join(name for name, spec in METHODS.items() if "multiclass" in spec.tasks)
        count = f"the label {label.name!r} has {len(label.classes)} classes"
        raise InputError(f"{method} is for labels of two values, and {count}: use {multiclass}.")


def for_classes(job: Job, contract: Contract, method: str) -> Job:
    """Return the job as it runs: of a label of more than two values every person gets the most
    probable one.

    Raises `InputError` for a method or a key that is for labels of two values only.
    """
    label = contract.label
    if not label.classes or method in PROXIES:
        return job
    check_labels(contract, method)
    binary_keys = _keys_of_two_labels(job)
    if binary_keys:
        count = f"the label {label.name!r} has {len(label.classes)} classes"
        raise InputError(
            f"{binary_keys[0]} is for labels of two values, and {count}: leave it out."
        )
    method_decides = job.decision.model_copy(update={"threshold": "own"})
    return job.model_copy(update={"calibration": "none", "decision": method_decides})


def _keys_of_two_labels(job: Job) -> list[str]:
    """Return the job's keys that are for labels of two values only."""
    keys = []
    for key, value in job.decision.model_dump(exclude={"threshold"}).items():
        if value is not None:
            keys.append(f"decision.{key}")
    if job.decision.threshold not in (None, "own"):
        keys.append("decision.threshold")
    if job.calibration not in ("auto", "none"):
        keys.append("calibration")
    for key in ("certificate", "membership", "reasons"):
        if getattr(job.evaluate, key):
            keys.append(f"evaluate.{key}")
    return keys


def certificate_budget(resolved: CheckedJob, mean_squared_distance: float) -> float | None:
    """Return the budget of the audit: the job's, else that of the method's training, else None.

    `mean_squared_distance` is that of two random training rows, for a budget that is a share of it.
    """
    job = resolved.job
    arguments = resolved.arguments
    if job.evaluate.certificate is not None:
        return job.evaluate.certificate.budget
    if not resolved.has_certificate:
        return None
    parameters = inspect.signature(method_class(resolved.method).__init__).parameters
    absolute = arguments.get("perturbation_budget", parameters["perturbation_budget"].default)
    if absolute is not None:
        return float(absolute)
    share = float(arguments.get("budget_share", parameters["budget_share"].default))
    return share * mean_squared_distance


def known_metrics(resolved: CheckedJob) -> list[str]:
    """Return the job's metrics, without intersections: which of them exist depends on the data."""
    method = METHODS[resolved.method]
    keys = resolved.job.evaluate
    absent = set()
    if not method.asks:
        absent.add("features_asked")
    if not keys.membership:
        absent.add("membership_auc")
    if not keys.reasons:
        absent.add("reasons_kept")
    is_learned = isinstance(resolved.job.fair_metric, LearnedByEvidence)
    if not reports_leak(resolved) or not is_learned:
        absent.add("adapted_consistency")
    classes = resolved.contract.label.classes
    attributes = [column.name for column in resolved.contract.sensitive]
    copies = [*keys.counterfactuals, *keys.adapted]
    measured = classifier_metrics(attributes, classes, copies)
    metrics = [name for name in measured if name not in absent]
    metrics += term_metrics(keys.terms, any_classes=bool(classes))
    if method.asks:
        metrics += [f"adversary_auc.{column.name}" for column in resolved.contract.sensitive]
    if reports_leak(resolved):
        metrics += [f"metric_leak.{column.name}" for column in resolved.contract.sensitive]
    if resolved.has_certificate:
        is_adapted = reads_adapted(resolved.job, resolved.contract, resolved.method)
        proved = keys.proof_parts != "none" and not is_adapted
        metrics += _certificate_metrics(method, proved=proved)
    return metrics


def reports_leak(resolved: CheckedJob) -> bool:
    """Whether the model uses a fair metric, whose leak is measured on the test rows."""
    return METHODS[resolved.method].needs_metric and bool(resolved.contract.sensitive)


def _certificate_metrics(method: MethodSpec, *, proved: bool) -> list[str]:
    """Return the metrics of the audit that a model of this method has."""
    metrics = ["certificate.drf", "certificate.drf_relative", "certificate.flips"]
    if not proved:
        return metrics
    if method.differentiable:
        metrics.append("certificate.dif")
    if method.provable:
        for name in PROVED:
            if method.differentiable or not name.startswith("certificate.dif."):
                metrics.append(name)
    return metrics


def _check_metric(job: Job, contract: Contract) -> None:
    """Check that the contract or the job has every name in the section `fair_metric`."""
    metric = job.fair_metric
    names = [column.name for column in contract.sensitive]
    features = [column.name for column in contract.features]
    if isinstance(metric, SubspaceMetric):
        check_names("fair_metric.indicators", metric.indicators, features, "the contract has")
        check_names("fair_metric.learned", metric.learned, names, "the contract has")
        return
    if isinstance(metric, LearnedByEvidence):
        for name in metric.legitimate or ():
            if name in names:
                raise InputError(
                    f"fair_metric.legitimate has {name!r}, which is a sensitive attribute: remove "
                    "it from the list."
                )
        check_names(
            "fair_metric.legitimate", metric.legitimate, features, "the contract's model inputs are"
        )
        return
    defined = [*job.evaluate.counterfactuals, *job.evaluate.terms]
    if not metric.comparable_by and not defined:
        raise InputError(
            f"the metric {metric.kind} is learned from comparable people: define "
            "evaluate.counterfactuals, or list columns in fair_metric.comparable_by."
        )
    check_names(
        "fair_metric.comparable_by",
        metric.comparable_by,
        features,
        "the contract's model inputs are",
    )
    check_names(
        "fair_metric.counterfactuals",
        metric.counterfactuals,
        defined,
        "evaluate.counterfactuals has",
    )
    used_copies = set(metric.counterfactuals or defined)
    if metric.corpus is not None and used_copies.isdisjoint(job.evaluate.terms):
        raise InputError(
            "fair_metric.corpus has sentences, and no counterfactual of the metric has a list of "
            "terms."
        )


def _check_decision(job: Job, contract: Contract) -> None:
    """Check that thresholds by group have an attribute, and that folds have something to choose."""
    if job.decision.folds is not None and not job.decides:
        raise InputError(
            "decision.folds: the job has neither a calibration nor a decision rule to choose on "
            "folds; leave it out, or set calibration or decision.threshold."
        )
    equal = job.decision.equal
    if equal is None:
        return
    names = _sensitive(None, contract, "decision.equal compares the groups of one")
    if equal.attribute is not None:
        check_names(
            "decision.equal.attribute",
            attribute_names(equal.attribute, names),
            names,
            "the sensitive columns are",
        )
    elif len(names) > 1:
        raise InputError(
            "decision.equal needs the attribute whose groups it compares: give "
            f"decision.equal.attribute, one of {', '.join(names)}, or several as "
            f"{'&'.join(names[:2])}."
        )


def _check_asking(job: Job, contract: Contract, arguments: Mapping[str, Any]) -> None:
    """Check the arguments of a method that asks for features against the contract."""
    sensitive = _sensitive(job, contract, "the adversary guesses one")
    if arguments.get("attributes") == []:
        raise InputError(
            "method.attributes is empty: name a sensitive column, or leave it out for all."
        )
    check_names(
        "method.attributes", arguments.get("attributes"), sensitive, "the sensitive columns are"
    )
    features = [column.name for column in contract.features]
    check_names("method.costs", arguments.get("costs"), features, "the model inputs are")
    for name, cost in (arguments.get("costs") or {}).items():
        if not (math.isfinite(cost) and cost >= 0):
            raise InputError(
                f"method.costs.{name} is {cost:g}, expected a finite number, not negative."
            )


def _check_compared(
    job: Job, contract: Contract, method: str, arguments: Mapping[str, Any]
) -> None:
    """Check that the compared groups exist, and are model inputs if the method reads them from
    there.
    """
    sensitive = _sensitive(job, contract, f"{method} compares the groups of one")
    key = "method.attribute"
    attributes = []
    if arguments.get("attributes"):
        key = "method.attributes"
        attributes = list(arguments["attributes"])
    if arguments.get("attribute") is not None:
        attributes.append(arguments["attribute"])
    check_names(key, attributes, sensitive, "the sensitive columns are")
    if not METHODS[method].needs_feature_groups:
        return
    compared = attributes or sensitive
    for column in contract.sensitive:
        if column.name in compared and not column.is_feature:
            raise InputError(
                f"{method} reads {column.name!r} from the model inputs, and it is not one of them: "
                "give it use: feature in the contract, or use a method that needs groups only in "
                "training, such as reweigh."
            )


def _sensitive(job: Job | None, contract: Contract, needs: str) -> list[str]:
    """Return the job's sensitive columns, by default the contract's; `needs` says why there must be
    one.
    """
    names = (job and job.sensitive) or [column.name for column in contract.sensitive]
    if not names:
        raise InputError(
            f"the contract {contract.name!r} has no sensitive column, and {needs}: give one the "
            "role sensitive."
        )
    return names


def check_names(key: str, listed: Iterable[str] | None, known: list[str], there_are: str) -> None:
    """Raise `InputError` for a listed name that is not `known`."""
    for name in listed or ():
        if name not in known:
            raise InputError(
                f"{key} names {name!r}{nearest(name, known)}; {there_are} {', '.join(known)}."
            )


def check_counterfactuals(job: Job, contract: Contract) -> None:
    """Check that every changed column is a model input, and that the contract allows every
    value.
    """
    for name, changes in job.evaluate.counterfactuals.items():
        where = f"the counterfactual {name!r}"
        if not changes and job.leave_out:
            continue  # it changed only what is left out
        if not changes:
            raise InputError(f"{where} changes nothing: name a column and its values.")
        for column_name, values in changes.items():
            _check_change(where, contract, column_name, values)
        _check_copies_differ(where, changes)


def _check_change(where: str, contract: Contract, column_name: str, values: Any) -> None:
    """Check that a column is a model input, and that it can have the values."""
    features = {column.name: column for column in contract.features}
    if column_name not in features:
        raise InputError(
            f"{where} changes the column {column_name!r}, which is not a model input"
            f"{nearest(column_name, list(features))}."
        )
    column = features[column_name]
    if values == "all":
        if column.encoding in ("standard", "unit", "calendar"):
            raise InputError(f"{where}: {column_name!r} is a number: list values, not all.")
        return
    if not values:
        raise InputError(f"{where} lists no value of {column_name!r}: it needs at least two.")
    for value in values:
        _check_value(where, column, value)


def _check_copies_differ(where: str, changes: Mapping[str, Any]) -> None:
    """Raise `InputError` if every changed column has one value, so that all copies are equal."""
    for values in changes.values():
        if values == "all" or len(set(values)) > 1:
            return
    raise InputError(
        f"{where} lists one value of {', '.join(map(repr, changes))}: it needs at least two."
    )


def _check_value(where: str, column: Column, value: Any) -> None:
    """Check that a counterfactual's value has its column's type and is allowed by the contract."""
    if column.allowed is not None:
        if not any(value == item and type(value) is type(item) for item in column.allowed):
            allowed = [str(item) for item in column.allowed]
            raise InputError(
                f"{where} gives {column.name!r} the value {value!r}, which its contract lacks"
                f"{nearest(str(value), allowed)}."
            )
        return
    try:
        TypeAdapter(VALUE_TYPES[column.logical_type]).validate_python(
            value, strict=column.is_numeric
        )
    except ValidationError:
        raise InputError(
            f"{where} gives {column.name!r} the value {value!r}, which is not a "
            f"{column.logical_type}."
        ) from None


def train_and_measure(resolved: CheckedJob, steps: Steps) -> Measured:
    """Run the steps up to the metrics.

    They are, in this order: the balance of the training rows, the fair metric, the controls, the
    training, the decision rule, the membership attack, and the evaluation. Those that a job does
    not need are left out.
    """
    job = resolved.job
    method = METHODS[resolved.method]
    train, proxy = training_rows(resolved, steps)
    place = place_of(resolved, steps)
    certificate = None
    if method.needs_metric or resolved.has_certificate or job.evaluate.adapted:
        learn_metric(resolved, steps, train)
        distance = steps.facts("fair_metric")["mean_squared_distance"]
        certificate = certificate_budget(resolved, distance)
    model = _train_and_decide(resolved, steps, train, place)
    if job.evaluate.membership:
        _attack(resolved, steps, train)
    _evaluate(resolved, steps, model, certificate, place)
    notes = _notes(steps)
    if place.note:
        notes.append(place.note)
    label = resolved.contract.label
    if not label.classes and not label.states_favourable:
        notes.append(favourable_not_stated(label))
    for weight in resolved.contract.unused_weights:
        notes.append(
            f"all figures are of rows: the column {weight} reads as a sampling weight and is not "
            "used, so that they may differ from those of the people for whom the rows stand"
        )
    return Measured(steps.output("evaluate", "metrics"), proxy=proxy, notes=notes)


def train_to_decide(resolved: CheckedJob, steps: Steps) -> tuple[Artifact, Artifact]:
    """Run the steps of :func:`train_and_measure` up to the decision rule, and learn the fair
    metric; return the model and the training rows.
    """
    train, _ = training_rows(resolved, steps)
    place = place_of(resolved, steps)
    learn_metric(resolved, steps, train)
    return _train_and_decide(resolved, steps, train, place), train


def train_without_controls(resolved: CheckedJob, steps: Steps) -> tuple[Artifact, str | None]:
    """Run the steps of :func:`train_and_measure` up to the decision rule, and the controls only
    where the training needs them; return the model, and the content of the job's proxy.
    """
    train, proxy = training_rows(resolved, steps)
    place = place_of(resolved, steps)
    return _train_and_decide(resolved, steps, train, place, with_controls=False), proxy


def _train_and_decide(
    resolved: CheckedJob,
    steps: Steps,
    train: Artifact,
    place: Place,
    *,
    with_controls: bool = True,
) -> Artifact:
    """Train the controls and the model, and choose its decision rule; return the model."""
    job = resolved.job
    method = METHODS[resolved.method]
    parameters, inputs = training_step(resolved, steps, train)
    parameters |= place.parameters
    rule = {"calibration": job.calibration, "decision": job.decision.model_dump(), "seed": job.seed}
    if job.decides:
        parameters["validate"] = True
        if job.decision.folds is not None:
            parameters["decision_folds"] = job.decision.folds
    controls: dict[str, Any] = {
        "method": resolved.method,
        "arguments": shared_arguments(resolved.method, resolved.arguments),
        **rule,
        **place.parameters,
    }
    # the default strength is lowered where the model loses too much compared with `plain`; what it
    # loses is measured with thresholds, of two labels only
    may_lower = method.lacks_strength(resolved.arguments) and not resolved.contract.label.classes
    if may_lower:
        controls["held_out"] = True
    if job.sensitive and method.name != method.plain:
        controls["sensitive"] = job.sensitive
    if with_controls or may_lower:
        steps("controls", controls, {"train": train}, modules=_learner_modules(resolved))
    if may_lower:
        inputs["plain"] = steps.output("controls", "plain_held_out")
    steps("train", parameters, inputs, modules=resolved.modules)
    if not job.decides:
        return steps.output("train", "model")
    return _decide(resolved, steps, train, rule)


def _learner_modules(resolved: CheckedJob) -> list[str]:
    """Return the modules of the method, and of its learner without mitigation."""
    plain = METHODS[resolved.method].plain
    return [*resolved.modules, METHODS[plain].module]


def _decide(
    resolved: CheckedJob, steps: Steps, train: Artifact, rule: Mapping[str, Any]
) -> Artifact:
    """Calibrate the model and choose its thresholds; return the model with both."""
    job = resolved.job
    parameters = {**rule, "min_cell": job.evaluate.min_cell}
    inputs = {
        "model": steps.output("train", "model"),
        "held_out": steps.output("train", "held_out"),
    }
    if job.decision.equal:
        inputs["train"] = train
        parameters["attribute"] = attribute(resolved)
        parameters["favourable"] = resolved.contract.label.favourable_code
    steps("decide", parameters, inputs)
    return steps.output("decide", "model")


def _evaluate(
    resolved: CheckedJob, steps: Steps, model: Artifact, certificate: float | None, place: Place
) -> None:
    """Measure the model and its controls on the test rows."""
    job = resolved.job
    label = resolved.contract.label
    inputs = {
        "model": model,
        "encoder": steps.output("preprocess", "encoder"),
        "test": steps.output("preprocess", "test"),
        "majority": steps.output("controls", "majority"),
    }
    for control in (PLAIN, BLIND, *SIMPLE_MITIGATIONS, *CONTROL_FACTS):
        if steps.has_output("controls", control):
            inputs[control] = steps.output("controls", control)
    if certificate is not None or reports_leak(resolved) or job.evaluate.adapted:
        inputs["metric"] = steps.output("fair_metric", "metric")
    if job.evaluate.membership:
        inputs["membership"] = steps.output("membership", "membership")
    if job.evaluate.terms:
        inputs["checked"] = steps.output("contract", "checked")
    parameters: dict[str, Any] = {
        "evaluate": job.evaluate.model_dump(exclude=ONCE),
        "certificate": certificate,
    }
    if job.evaluate.reasons:
        parameters["reasons"] = job.evaluate.reasons
    if label.classes:
        parameters["classes"] = list(map(str, label.classes))
    else:
        parameters["outcome"] = describe_outcome(label)
    if reports_leak(resolved):
        parameters["metric_leak"] = True
        if resolved.legitimate:
            parameters["legitimate"] = resolved.legitimate
    parameters |= place.parameters
    parameters["seed"] = job.seed
    steps("evaluate", parameters, inputs, modules=_learner_modules(resolved))


def _attack(resolved: CheckedJob, steps: Steps, train: Artifact) -> None:
    """Attack the model, before any calibration, by shadow models of the same learner."""
    parameters, inputs = training_step(resolved, steps, train)
    strength = steps.facts("train").get("strength")
    if strength:
        used = {strength["parameter"]: strength["used"]}
        parameters["arguments"] = parameters["arguments"] | used
    measuring = resolved.job.evaluate.model_dump()
    for key in ("draws", "level", "min_cell"):
        parameters[key] = measuring[key]
    parameters |= measuring["membership"]
    inputs |= {"model": steps.output("train", "model"), "test": steps.output("preprocess", "test")}
    steps("membership", parameters, inputs, modules=resolved.modules)


def _notes(steps: Steps) -> list[str]:
    """Return sentences on the choices that depended on the data, and on memorisation."""
    notes = list(steps.facts("preprocess").get("notes", []))
    for step in ("decide", "membership"):
        if steps.facts(step).get("warning"):
            notes.append(steps.facts(step)["warning"])
    unlearned = steps.facts("fair_metric").get("unlearned")
    if unlearned:
        notes.append(
            f"the fair metric has no learned direction for {' and '.join(unlearned)}, which the "
            "model inputs predict no better than chance"
        )
    learned = steps.facts("fair_metric").get("learned")
    metric_sentence = metric_note(learned) if learned else None
    if metric_sentence:
        notes.append(metric_sentence)
    workers = steps.facts("train").get("workers")
    if workers:
        notes.append(
            f"{workers} Dask workers trained the model together: it is that of one up to rounding"
        )
    strength = steps.facts("train").get("strength")
    if strength:
        notes += _strength_notes(strength)
    return notes


def _strength_notes(strength: Mapping[str, Any]) -> list[str]:
    """Return sentences on a mitigation's strength that was lowered, or that costs much."""
    notes = []
    name = strength["parameter"]
    lost = "less balanced accuracy on held-out training rows than without it"
    if strength["used"] != strength["default"]:
        notes.append(
            f"the mitigation's strength {name} was lowered from {strength['default']:g} to "
            f"{strength['used']:g}: at the default the model has "
            f"{strength['tried'][0]['lost']:.3f} {lost}; a job that gives method.{name} keeps its "
            "own"
        )
    if not strength["allowed"]:
        notes.append(f"the mitigation costs much: the model has {strength['lost']:.3f} {lost}")
    return notes


def training_step(
    resolved: CheckedJob, steps: Steps, train: Artifact
) -> tuple[dict[str, Any], dict[str, Artifact]]:
    """Return the parameters and inputs of the training; its metric is learned if it needs one."""
    job = resolved.job
    method = METHODS[resolved.method]
    training: dict[str, Any] = {
        "method": resolved.method,
        "arguments": resolved.arguments,
        "seed": job.seed,
    }
    inputs = {"train": train}
    if method.needs_metric:
        if "fair_metric" not in steps.finished:
            learn_metric(resolved, steps, train)
        inputs["metric"] = steps.output("fair_metric", "metric")
    if job.sensitive and method.needs_groups:
        training["sensitive"] = job.sensitive
    if method.requires:
        # another version of the library may give another model
        training["libraries"] = library_versions(method.requires)
    if method.pairs_copies(resolved.arguments):
        training["counterfactuals"] = job.evaluate.counterfactuals
        if job.evaluate.adapted:
            training["adapted"] = True
            if "fair_metric" not in steps.finished:
                learn_metric(resolved, steps, train)
            inputs["metric"] = steps.output("fair_metric", "metric")
        inputs["encoder"] = steps.output("preprocess", "encoder")
        if job.evaluate.terms:
            training["terms"] = job.evaluate.model_dump()["terms"]
            inputs["checked"] = steps.output("contract", "checked")
    return training, inputs


def learn_metric(resolved: CheckedJob, steps: Steps, train: Artifact) -> None:
    """Run the step that learns the job's fair metric."""
    steps("fair_metric", *_metric_step(resolved, steps, train))


def gate_step(
    resolved: CheckedJob, steps: Steps, measured: Measured
) -> tuple[dict[str, Any], dict[str, Artifact]]:
    """Return the parameters and inputs of the gates."""
    parameters = {
        "gates": resolved.job.gates,
        "method": resolved.method,
        "calibrated": resolved.job.calibration != "none",
    }
    inputs = {"metrics": measured.metrics, "controls": steps.output("evaluate", "controls")}
    if steps.has_output("profile", "leaks"):
        inputs["leaks"] = steps.output("profile", "leaks")
    return parameters, inputs


def attribute(resolved: CheckedJob) -> dict[str, Any]:
    """Return the attribute of thresholds by group, or several crossed ones: a published model reads
    its groups by this.
    """
    equal = resolved.job.decision.equal
    assert equal is not None
    columns = {column.name: column for column in resolved.contract.sensitive}
    names = attribute_names(equal.attribute or next(iter(columns)), columns)
    parts = [_groups_of_column(resolved.contract.column(name)) for name in names]
    if len(parts) == 1:
        return parts[0]
    return {"name": equal.attribute, "bins": None, "names": [], "crossed": parts}


def _groups_of_column(column: Column) -> dict[str, Any]:
    """Return how the groups of a sensitive column are read."""
    names = []
    if column.bins is not None:
        # imported lazily: a run that finds nothing new needs no Arrow
        from evenhand.data_contracts.arrow import bin_names

        names = list(bin_names(column))
    return {"name": column.name, "bins": column.bins and list(column.bins), "names": names}


def shared_arguments(method: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of a method's arguments that its learner without mitigation has too."""
    plain = method_traits(METHODS[method].plain).parameters
    return {name: value for name, value in arguments.items() if name in plain}


def published_artifacts(steps: Steps) -> dict[str, Artifact]:
    """Return the artifacts that are published in addition to encoder, metrics and decision."""
    last_step = "train"
    if "decide" in steps.finished:
        last_step = "decide"
    return {
        "model": steps.output(last_step, "model"),
        "reference": steps.output("profile", "reference"),
        "training_rows": steps.output("profile", "training_rows"),
    }


def input_description(resolved: CheckedJob, steps: Steps) -> dict[str, Any]:
    """Return what a published model needs to read raw rows."""
    features = resolved.contract.features
    read = {column.name for column in features}
    if resolved.job.decision.equal:
        # a published model reads the groups of its decisions from the raw rows
        groups = attribute(resolved)
        read.update(part["name"] for part in groups.get("crossed", [groups]))
    booleans = []
    for column in resolved.contract.columns:
        if column.logical_type == "boolean" and column.name in read:
            booleans.append(column.name)
    inputs = {
        "features": [column.name for column in features],
        "label_values": steps.facts("preprocess")["label_values"],
        "booleans": booleans,
    }
    if METHODS[resolved.method].asks:
        # the contract's description of a feature, for a person who is asked for it; no value of a
        # row
        inputs["questions"] = {column.name: _question(column) for column in features}
    return inputs


def _question(column: Column) -> dict[str, Any]:
    """Return what a person has to know who is asked for a feature."""
    described = column.to_dict()
    question: dict[str, Any] = {}
    for key in ("description", "allowed", "minimum", "maximum", "unit"):
        if key in described:
            question[key] = described[key]
    question["type"] = column.logical_type
    return question


def training_rows(resolved: CheckedJob, steps: Steps) -> tuple[Artifact, str | None]:
    """Return the training rows (filtered by the job's proxy, if it has one) and the proxy's
    content.
    """
    balance = resolved.job.balance
    if balance is None:
        return steps.output("preprocess", "train"), None
    from evenhand.tasks.registry.client import published, tracking_uri

    uri = tracking_uri(steps.store)
    version = published(uri, balance.proxy, balance.alias)
    if version is None:
        raise InputError(
            f"balance.proxy {balance.proxy!r} is not published in this store: run `evenhand run "
            f"{balance.proxy}` first."
        )
    parameters = {
        "proxy": balance.proxy,
        "version": version.version,
        "content": version.content,
        "tracking_uri": uri,
        "seed": resolved.job.seed,
    }
    inputs = {
        "train": steps.output("preprocess", "train"),
        "checked": steps.output("contract", "checked"),
    }
    steps("balance", parameters, inputs)
    return steps.output("balance", "train"), version.content


def metric_note(learned: Mapping[str, Any]) -> str | None:
    """Return a sentence where a learned metric gains nothing, or takes much of the label's signal;
    else None.
    """
    verdicts = [column["verdict"] for column in learned["columns"]]
    adapts = any(verdict in ADAPTED_VERDICTS for verdict in verdicts)
    if not adapts and "removed" not in verdicts:
        return (
            "the learned metric has no proxy feature: to leave out the sensitive attributes is "
            "enough"
        )
    if not adapts:
        columns = learned["columns"]
        removed = [item["column"] for item in columns if item["verdict"] == "removed"]
        return (
            f"the learned metric only removes {', '.join(removed)}: it gains nothing over leaving "
            "these columns and the sensitive attributes out (leave_out)"
        )
    if learned["label_auc"] is None:
        return None
    before, after = learned["label_auc"]
    if before - after < MUCH_SIGNAL * (before - 0.5):
        return None
    if not learned.get("adapts", True):
        return (
            f"the learned metric takes much of the label's signal (AUC {before:.2f} before, "
            f"{after:.2f} after), because a sensitive attribute is no model input: if decisions "
            "may use it, make it a model input in the contract, and columns are adapted instead"
        )
    return (
        f"the learned metric takes much of the label's signal (AUC {before:.2f} before, "
        f"{after:.2f} after): name columns whose differences between groups may count in "
        "fair_metric.legitimate"
    )


def _stated_ranges(contract: Contract) -> dict[str, list[Any]]:
    """Return the range of each number that the contract states; none that `init` saw."""
    ranges: dict[str, list[Any]] = {}
    if contract.rules_observed:
        return ranges
    for column in contract.features:
        is_number = column.is_numeric and column.encoding in ("standard", "unit")
        has_range = column.minimum is not None or column.maximum is not None
        if is_number and has_range and column.role == "feature":
            ranges[column.name] = [column.minimum, column.maximum]
    return ranges


def _metric_step(
    resolved: CheckedJob, steps: Steps, train: Artifact
) -> tuple[dict[str, Any], dict[str, Artifact]]:
    """Return the parameters and inputs of the step that learns the metric: only those that its kind
    needs.
    """
    job = resolved.job
    parameters: dict[str, Any] = {"fair_metric": job.fair_metric.model_dump(exclude={"corpus"})}
    inputs = {"train": train}
    if isinstance(job.fair_metric, SubspaceMetric):
        return parameters, inputs
    if isinstance(job.fair_metric, LearnedByEvidence):
        parameters["seed"] = job.seed
        parameters["min_cell"] = job.evaluate.min_cell
        ranges = _stated_ranges(resolved.contract)
        if ranges:
            parameters["ranges"] = ranges
            inputs["encoder"] = steps.output("preprocess", "encoder")
        return parameters, inputs
    terms = job.evaluate.model_dump()["terms"]
    copies = job.fair_metric.copies({**job.evaluate.counterfactuals, **terms})
    if copies:
        changed_columns = {name: copy for name, copy in copies.items() if name not in terms}
        parameters["counterfactuals"] = changed_columns
        inputs["encoder"] = steps.output("preprocess", "encoder")
    term_swaps = {name: terms[name] for name in copies if name in terms}
    if term_swaps:
        parameters |= {"terms": term_swaps, "seed": job.seed}
        if resolved.corpus is None:
            inputs["checked"] = steps.output("contract", "checked")
        else:
            inputs["corpus"] = local_file(resolved.corpus)
    if job.fair_metric.kind == "explore":
        parameters["seed"] = job.seed
    return parameters, inputs
