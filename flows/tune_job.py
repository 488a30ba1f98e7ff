"""The tuned job: the one of a search with the winner's method, parameters and rule of decisions."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from evenhand.data_contracts.yaml_writer import comment, dump_plainly
from evenhand.fairlib.methods.registry import METHODS, method_class
from evenhand.fairlib.tuning import space as spaces
from evenhand.fairlib.tuning.study import Limit, Trial
from evenhand.flows import classifier_jobs as classifier
from evenhand.flows.job import Job, SubspaceMetric
from evenhand.flows.resolved_job import RESERVED_ARGUMENTS, ResolvedJob
from evenhand.flows.tune_first_models import QUICK_METHODS
from evenhand.flows.tune_rules import CALIBRATION, CRITERIA, decision_of
from evenhand.flows.tune_space import LEAVE_OUT, METRIC, leaving_out, with_metric
from evenhand.tasks.tuning.trial_search import DEFAULT, JOB, Candidate

if TYPE_CHECKING:
    from evenhand.flows.tune_plan import TunePlan


def tuned_job(plan: TunePlan, winner: Trial, rows: int) -> Job:
    """Return the job with the winner's method, arguments and rule of decisions."""
    resolved = plan.resolved
    job = plan.resolved.job
    decision = decision_of(resolved, plan.aim, winner.decision, winner.tolerance)
    leave_out = list(winner.arguments.get(LEAVE_OUT, ()))
    if winner.kind == JOB:
        method = _job_method(resolved)
    elif winner.kind in ("plain", "blind"):
        method = _control_method(resolved, rows)
        decision = decision.model_copy(update={"equal": None})
        if winner.kind == "blind":
            leave_out = [column.name for column in resolved.contract.sensitive if column.is_feature]
    else:
        method = _searched_method(plan, winner)
    if decision.equal is not None:
        # as they were judged: chosen on all training rows
        decision = decision.model_copy(update={"folds": plan.folds(rows)})
    changes: dict[str, Any] = {"method": method, "decision": decision, "paper": None}
    if winner.calibration is not None:
        changes[CALIBRATION] = winner.calibration
    if METRIC in winner.arguments:
        kind = winner.arguments[METRIC]
        changes["fair_metric"] = with_metric(resolved, kind).job.fair_metric
    if leave_out and job.evaluate.certificate is None and not job.evaluate.adapted:
        # no method that leaves columns out has a fair metric, and the job's may name these columns
        changes["fair_metric"] = SubspaceMetric()
    return leaving_out(job.model_copy(update=changes), leave_out)


def _job_method(resolved: ResolvedJob) -> dict[str, Any]:
    """Return the job's own method as it was judged."""
    method = dict(resolved.job.method)
    spec = METHODS[resolved.method]
    if spec.lacks_strength(resolved.arguments):
        # without the default, a run could lower the strength
        name = spec.strength[0]
        parameters = inspect.signature(method_class(spec.name).__init__).parameters
        method[name] = parameters[name].default
    return method


def _control_method(resolved: ResolvedJob, rows: int) -> dict[str, Any]:
    """Return the job's learner without mitigation, with the arguments that are not defaults."""
    arguments = classifier.shared_arguments(resolved.method, resolved.arguments)
    learner = method_class(resolved.method)(**arguments).plain(rows)
    name = METHODS[resolved.method].plain
    defaults = inspect.signature(method_class(name).__init__).parameters
    method = {"name": name}
    for key, value in learner.get_params(deep=False).items():
        if key not in RESERVED_ARGUMENTS and not spaces.same(value, defaults[key].default):
            method[key] = value
    return method


def _searched_method(plan: TunePlan, winner: Trial) -> dict[str, Any]:
    """Return the winner's method with its searched arguments."""
    assert winner.method is not None
    method = {"name": winner.method, **plan.base(Candidate(winner.kind, winner.method))}
    for name, value in winner.arguments.items():
        if name not in (LEAVE_OUT, METRIC):
            method[name] = value
    return method


# Share of the limit that thresholds by group of an unjudged job have.
UNJUDGED_SHARE = 0.55
UNJUDGED = (
    "Not judged: the time ended before any model was. These are the defaults of a quick method, "
    "with thresholds by group where a limit is about groups; the limits are gates of this job."
)


def unjudged_text(plan: TunePlan) -> str:
    """Write the job that is left where the time ends before any model was judged.

    It has the defaults of a quick method. Where a limit or an objective is about groups it has
    thresholds by group. The limits are its gates, so a run measures it and publishes it only if it
    keeps them.
    """
    method = next(iter(plan.methods))
    if plan.resolved.method in plan.methods:
        method = plan.resolved.method
    for name in QUICK_METHODS:
        if name in plan.methods:
            method = name
            break
    arguments = {key: item.default for key, item in plan.methods[method].items()}
    # a metric that must be at least something, such as the impact ratio, needs equal rates
    limited = []
    for limit in plan.aim.limits:
        is_of_groups = limit.metric.partition(".")[0] in CRITERIA
        if is_of_groups and limit.sign == "<=":
            limited.append(limit.value)
    unjudged_tolerance = UNJUDGED_SHARE * min(limited, default=0.0)
    rule = min(
        (rule for rule in plan.rules if rule.tolerance is not None),
        key=lambda rule: abs(float(rule.tolerance or 0.0) - unjudged_tolerance),
        default=plan.rules[0],
    )
    trial = Trial(
        0,
        DEFAULT,
        "partial",
        method=method,
        arguments=arguments,
        decision=rule.decision,
        tolerance=rule.tolerance,
    )
    digest = hashlib.sha256(UNJUDGED.encode()).hexdigest()
    made = {"study": f"{plan.resolved.job.name}-unjudged", "digest": digest}
    return tuned_text(plan, trial, 0, made, [UNJUDGED], is_compromise=True, is_judged=False)


def limits_as_gates(job: Job, limits: Sequence[Limit]) -> dict[str, dict[str, Any]]:
    """Return the gates of a job, with limits added to them where no gate is at least as strict."""
    gates = {name: dict(gate) for name, gate in job.gates.items()}
    for limit in limits:
        key = "min" if limit.sign == ">=" else "max"
        gate = gates.setdefault(limit.metric, {})
        number = gate.get(key)
        is_as_strict = isinstance(number, int | float) and limit.shortfall(float(number)) <= 0
        if not is_as_strict:
            gate[key] = limit.value
    return gates


def tuned_text(
    plan: TunePlan,
    winner: Trial,
    rows: int,
    tuned: Mapping[str, str],
    caveats: Sequence[str] = (),
    *,
    is_compromise: bool = False,
    is_judged: bool = True,
) -> str:
    """Write the tuned job as YAML; its description ends with the caveats.

    Limits on proved certificates are its gates. That of a compromise has all limits as gates, so
    that a run does not publish a model that misses one of them.
    """
    job = tuned_job(plan, winner, rows)
    gate_limits = list(plan.proofs)
    if is_compromise:
        gate_limits = plan.promised
    if gate_limits:
        job = job.model_copy(update={"gates": limits_as_gates(job, gate_limits)})
    if caveats:
        described = job.description.strip()
        if described and not described.endswith((".", "!", "?")):
            described += "."
        described = " ".join([described, *caveats]).strip()
        job = job.model_copy(update={"description": described})
    content = job.model_dump(mode="json", exclude_defaults=True, exclude={"tune"}) | {
        "tuned": dict(tuned)
    }
    head = (
        f"# Found by `evenhand tune` on folds of the training rows: trial {winner.number} of the "
        "study\n"
    )
    asked = replace(plan.aim, limits=tuple(plan.promised))
    origin = f"{tuned['study']}, for {asked}."
    if not is_judged:
        head = "# Made by `evenhand tune` with default settings, before a model was judged,\n"
        origin = f"for {asked}."
    head += comment(origin)
    head += "".join(map(comment, caveats))
    return head + dump_plainly(content)
