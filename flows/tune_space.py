"""The methods and parameters that `evenhand tune` searches: what the methods declare, and what the
job's keys `tune.methods` and `tune.space` make of it.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from evenhand.fairlib.methods.registry import METHODS, method_class
from evenhand.fairlib.tuning import space as spaces
from evenhand.fairlib.tuning.study import Aim, Limit
from evenhand.flows.checked_job import answer_by_code
from evenhand.flows.job import Job, LearnedByEvidence, SubspaceMetric
from evenhand.flows.resolved_job import RESERVED_ARGUMENTS, ResolvedJob, resolve
from evenhand.flows.tune_proofs import refuse_unproved_method
from evenhand.flows.tune_rules import CALIBRATION, DECISION, TOLERANCE
from evenhand.tasks.errors import InputError, input_errors
from evenhand.tasks.written_input import nearest, not_known

if TYPE_CHECKING:
    from evenhand.flows.tune_plan import TunePlan

DEFAULT_METHODS = ("gbdt", "logistic", "reweigh")
# searched too where decisions about a person and the person's copies are to agree
CONSISTENT_METHODS = ("project",)
# for a network with many labels: trees would grow one tree for each label in every step
CONSISTENT_NETWORKS = ("clp",)
LEAVE_OUT = "leave_out"
# the kind of the fair metric that a method is trained with
METRIC = "fair_metric"
LEARNED = "learned"
# Shortest search in which another metric is learned, which may take a minute.
METRIC_SECONDS = 300.0
# An absolute budget of a job is searched up to so many times smaller and larger.
BUDGET_FACTOR = 30.0


def variants_of(resolved: ResolvedJob, aim: Aim, proofs: Sequence[Limit]) -> dict[str, ResolvedJob]:
    """Resolve the job with each method; of the default methods, those that it can have, and that
    have the proofs.
    """
    job = resolved.job
    variants: dict[str, ResolvedJob] = {}
    for name in dict.fromkeys(job.tune.methods or _default_methods(resolved, aim)):
        if name not in METHODS:
            raise not_known("method", name, [*METHODS])
        obstacle = refuse_unproved_method(name, proofs)
        if obstacle is not None:
            if job.tune.methods is not None:
                raise InputError(f"methods: {obstacle}.")
            continue
        if name == resolved.method:
            variants[name] = resolved
            continue
        with_method = job.model_copy(update={"method": {"name": name}})
        try:
            variants[name] = resolve(with_method, resolved.folder)
        except InputError as error:
            if job.tune.methods is not None:
                raise InputError(str(error).removeprefix(f"job {job.name}: ")) from None
    if not variants:
        raise InputError(
            "no searched method has the certificates that limits are on: give --method sensei."
        )
    return variants


def _default_methods(resolved: ResolvedJob, aim: Aim) -> list[str]:
    """Return the methods that are searched where the job names none: its own one comes first."""
    agreeing = ("consistency.", "token_gap", "certificate.")
    copies_agree = any(metric.startswith(agreeing) for metric in aim.metrics)
    if resolved.contract.label.classes and METHODS[resolved.method].plain == "nn":
        defaults = [resolved.method]
        consistent = CONSISTENT_NETWORKS
    else:
        defaults = [resolved.method, *DEFAULT_METHODS]
        consistent = CONSISTENT_METHODS
    if copies_agree:
        defaults += consistent
    return defaults


def space_of(resolved: ResolvedJob, variant: ResolvedJob) -> spaces.Space:
    """Return a method's space, restricted or widened by the job; defaults are the job's own
    values.
    """
    space = _declared_space(variant.method)
    for key, value in variant.arguments.items():
        if key in space:
            space[key] = spaces.with_default(_without_default(space[key]), value)
    budget = variant.arguments.get("perturbation_budget")
    if budget and "budget_share" in space:
        del space["budget_share"]
        low = budget / BUDGET_FACTOR
        high = budget * BUDGET_FACTOR
        space["perturbation_budget"] = spaces.Real(low, high, log=True, default=budget)
    hidden = _sensitive_inputs(resolved)
    if hidden and _may_leave_out(variant, hidden):
        space[LEAVE_OUT] = spaces.Choice(((), hidden), ())
    kinds = _metric_kinds(variant)
    if len(kinds) > 1:
        space[METRIC] = spaces.Choice(kinds, kinds[0])
    job_space = resolved.job.tune.space
    _check_space_keys(job_space)
    if variant.method in job_space:
        _restrict(space, resolved, variant)
    return space


def _declared_space(method: str) -> dict[str, spaces.Dimension]:
    """Return the space that a method declares.

    Its class is imported only where its code is new here: the numeric libraries take a large part
    of a short time.
    """
    modules = [METHODS[method].module, spaces.__name__]
    answer = answer_by_code(["space", method], modules, partial(_look_at_space, method))
    return spaces.from_json(answer)


def _look_at_space(method: str) -> list[Any]:
    """Import a method's class for its space."""
    return spaces.to_json(spaces.space_of(method_class(method)))


def _check_space_keys(job_space: Mapping[str, Any]) -> None:
    """Check that the key `space` of a job names methods, and settings of decisions."""
    options = [*METHODS, DECISION, TOLERANCE, CALIBRATION]
    for key in job_space:
        if key not in options:
            raise InputError(f"space names {key!r}, which is no method{nearest(key, options)}.")


def _restrict(
    space: dict[str, spaces.Dimension],
    resolved: ResolvedJob,
    variant: ResolvedJob,
) -> None:
    """Apply the job's key `space.METHOD` to a method's space."""
    name = variant.method
    dimensions = resolved.job.tune.space[name]
    if not isinstance(dimensions, Mapping):
        raise InputError(f"space.{name} must be a mapping of parameters to values or ranges.")
    parameters = inspect.signature(method_class(name).__init__).parameters
    accepted = [item for item in list(parameters)[1:] if item not in RESERVED_ARGUMENTS]
    if _can_do_without_columns(variant):
        accepted.append(LEAVE_OUT)
    if METRIC in space:
        accepted.append(METRIC)
    example = next(iter(_sensitive_inputs(resolved)), "COLUMN")
    for key, value in dimensions.items():
        if key not in accepted:
            raise InputError(
                f"space.{name} names {key!r}, no parameter of {name}{nearest(key, accepted)}; it "
                f"has: {', '.join(accepted)}."
            )
        with input_errors(f"space.{name}.{key}: ", end="."):
            default: Any = ()
            if key == METRIC:
                default = variant.job.fair_metric.kind
            elif key != LEAVE_OUT:
                default = variant.arguments.get(key, parameters[key].default)
            space[key] = spaces.restricted(space.get(key), value, default)
        if key == "perturbation_budget":
            space.pop("budget_share", None)
        if key == LEAVE_OUT and not _are_lists(_ends(space[key])):
            raise InputError(
                f"space.{name}.leave_out must be a list of lists of columns, such as [[], "
                f"[{example}]]."
            )
        _check_ends(resolved, name, key, space[key])


def with_proxy_features(plan: TunePlan, sets: Sequence[Sequence[str]]) -> TunePlan:
    """Return the plan in which methods may also do without the sensitive columns and a set of
    columns that predict a group.

    Not where the job says what a method may leave out. A set without which the job cannot be is not
    tried.
    """
    if not sets:
        return plan
    hidden = _sensitive_inputs(plan.resolved)
    methods = {}
    for name, space in plan.methods.items():
        methods[name] = dict(space)
        given = plan.tune.space.get(name)
        if isinstance(given, Mapping) and LEAVE_OUT in given:
            continue
        values: list[tuple[str, ...]] = [()]
        if hidden:
            values.append(hidden)
        for columns in sets:
            if _may_leave_out(plan.variants[name], (*hidden, *columns)):
                values.append((*hidden, *columns))
        if len(values) > 1 and (LEAVE_OUT in space or not hidden):
            methods[name][LEAVE_OUT] = spaces.Choice(tuple(values), ())
    return replace(plan, methods=methods)


def _sensitive_inputs(resolved: ResolvedJob) -> tuple[str, ...]:
    """Return the sensitive columns that are model inputs."""
    return tuple(column.name for column in resolved.contract.sensitive if column.is_feature)


def _metric_kinds(variant: ResolvedJob) -> tuple[str, ...]:
    """Return the kinds of fair metrics that are searched: the job's own one, and a learned one
    where the job can have it, or the default one instead.

    Adapted columns need the groups of all people, so that sensitive columns are model inputs. A
    certificate and adapted copies are of the job's own metric.
    """
    job = variant.job
    spec = METHODS[variant.method]
    is_fixed = job.evaluate.certificate is not None or job.evaluate.adapted
    is_short = job.tune.shortest_seconds < METRIC_SECONDS
    if not spec.needs_metric or is_fixed or is_short:
        return (job.fair_metric.kind,)
    other_kind = LEARNED
    if job.fair_metric.kind == LEARNED:
        other_kind = SubspaceMetric().kind
    return (job.fair_metric.kind, other_kind)


def with_metric(resolved: ResolvedJob, kind: str) -> ResolvedJob:
    """Return the job with a fair metric of this kind; its own one if it is of it."""
    if resolved.job.fair_metric.kind == kind:
        return resolved
    metric: Any = SubspaceMetric()
    if kind == LEARNED:
        metric = LearnedByEvidence(kind="learned", legitimate=resolved.legitimate)
    job = resolved.job.model_copy(update={"fair_metric": metric})
    return resolved.model_copy(update={"job": job})


def _are_lists(values: Sequence[Any]) -> bool:
    return all(isinstance(value, list | tuple) for value in values)


def _may_leave_out(variant: ResolvedJob, names: Sequence[str]) -> bool:
    """Whether a method can do without columns; with a metric or copies it has its own way with
    them.
    """
    if not _can_do_without_columns(variant):
        return False
    job = variant.job
    if _holds_out_other_rows(variant, names):
        return False
    if job.evaluate.certificate is None and not job.evaluate.adapted:
        # as the tuned job has it, see `tuned_job`
        job = job.model_copy(update={"fair_metric": SubspaceMetric()})
    try:
        resolve(leaving_out(job, names), variant.folder)
    except InputError:
        return False
    return True


def _holds_out_other_rows(variant: ResolvedJob, names: Sequence[str]) -> bool:
    """Whether other rows are held out without these columns: by a hash of the row, which has the
    model inputs and the sensitive columns.
    """
    sensitive = [column.name for column in variant.contract.sensitive]
    return variant.job.split.hash == "row" and not set(names).issubset(sensitive)


def _can_do_without_columns(variant: ResolvedJob) -> bool:
    """Whether a method can do without columns: not where a fair metric or copies say how columns
    count.
    """
    spec = METHODS[variant.method]
    return not (spec.needs_metric or spec.needs_counterfactuals)


def leaving_out(job: Job, names: Sequence[str]) -> Job:
    """Return the job with further columns left out."""
    return job.model_copy(update={LEAVE_OUT: [*dict.fromkeys([*job.leave_out, *names])]})


def _without_default(dimension: spaces.Dimension) -> spaces.Dimension:
    if isinstance(dimension, spaces.Choice):
        return spaces.Choice(dimension.values)
    return replace(dimension, default=None)


def _check_ends(resolved: ResolvedJob, method: str, key: str, dimension: spaces.Dimension) -> None:
    """Check that the method takes every value of a choice, or both ends of a range."""
    for value in _ends(dimension):
        changed_method = {"name": method}
        if key == METRIC:
            kinds = _metric_kinds(resolved.model_copy(update={"method": method}))
            if value not in kinds:
                raise InputError(
                    f"space.{method}.fair_metric has {value!r}; there are {', '.join(kinds)}."
                )
            continue
        if key != LEAVE_OUT:
            changed_method[key] = value
        job = resolved.job.model_copy(update={"method": changed_method})
        if key == LEAVE_OUT:
            job = leaving_out(job, value)
            if _holds_out_other_rows(resolved, value):
                raise InputError(
                    f"space.{method}.leave_out: with split.hash: row other rows are held out "
                    "without these columns: list columns in split.hash."
                )
        try:
            resolve(job, resolved.folder)
        except InputError as error:
            reason = str(error).removeprefix(f"job {resolved.job.name}: ")
            raise InputError(f"space.{method}: {reason}") from None


def _ends(dimension: spaces.Dimension) -> Sequence[Any]:
    """Values of a choice, or both ends of a range."""
    if isinstance(dimension, spaces.Choice):
        return dimension.values
    return (dimension.low, dimension.high)
