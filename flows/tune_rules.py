"""The rules of decisions under which `evenhand tune` judges every model: thresholds, thresholds by
group at several tolerances, and calibrations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from evenhand.fairlib.catalogue import attribute_names, describe, group_metrics
from evenhand.fairlib.tuning import space as spaces
from evenhand.fairlib.tuning.study import Aim, Limit
from evenhand.flows.job import DecisionRule, Equal, Job
from evenhand.flows.resolved_job import ResolvedJob
from evenhand.flows.tune_proofs import needs_one_rule
from evenhand.tasks.errors import InputError
from evenhand.tasks.tuning.trial_search import JOB, Rule
from evenhand.tasks.written_input import nearest

DECISION = "decision"
TOLERANCE = "tolerance"
CALIBRATION = "calibration"
CALIBRATIONS = ("none", "sigmoid", "isotonic")
# Metrics that depend on how well probabilities hold.
PROBABILITY_METRICS = ("log_loss", "log_loss_gain", "brier", "ece", "calibration_gap")
BALANCED = "balanced"
MAX_ACCURACY = "max_accuracy"
OBSERVED = "observed"
# Criterion of the thresholds by group that makes a metric small.
CRITERIA = {
    "equal_opportunity_difference": "equal_opportunity",
    "demographic_parity_difference": "demographic_parity",
    "impact_ratio": "demographic_parity",
    "gap_max": "equalized_odds",
    "gap_rms": "equalized_odds",
    "average_odds_difference": "equalized_odds",
    "balanced_accuracy_difference": "equalized_odds",
}
# Tolerances of thresholds by group that are tried: shares of the limit on the metric, or where
# there is none these.
SHARES = (0.2, 0.4, 0.55, 0.7, 0.85, 1.0)
GRID = (0.0, 0.02, 0.05, 0.075, 0.1, 0.15)


def rules_of(resolved: ResolvedJob, aim: Aim, proofs: Sequence[Limit] = ()) -> list[Rule]:
    """Return the rules of decisions that every model is judged under.

    In addition to the job's own: the balanced threshold where balanced accuracy is an objective or
    limited, the one of fewest errors where accuracy is, and thresholds by group for each metric of
    groups among objectives and limits. The threshold that keeps the observed share is tried where
    the job names it. With more than two labels everybody gets the most probable one: that is the
    only rule. Calibrations are tried where a metric or the job's threshold depends on them. With
    limits on `proofs` that depend on decisions there are no thresholds by group, of which nothing
    is proved.
    """
    job_space = resolved.job.tune.space
    if resolved.contract.label.classes:
        _refuse_decision_keys(job_space)
        return [Rule()]
    rules = {JOB: [Rule()]}
    decision = resolved.job.decision
    has_other_threshold = (
        decision.is_own
        or (decision.equal is not None and decision.costs is None)
        or decision.threshold in ("observed", "max_accuracy")
    )
    if "balanced_accuracy" in aim.metrics and has_other_threshold:
        rules[BALANCED] = [Rule(BALANCED)]
    named = _listed(job_space.get(DECISION, []))
    takes_other_threshold = has_other_threshold or decision.named_threshold == BALANCED
    for name in (MAX_ACCURACY, OBSERVED):
        is_aim = name == MAX_ACCURACY and "accuracy" in aim.metrics
        is_job_rule = decision.threshold == name and decision.equal is None
        if takes_other_threshold and not is_job_rule and (is_aim or name in named):
            rules[name] = [Rule(name)]
    tolerances = _tolerances(job_space)
    if not has_fixed_decision(resolved.job) and not any(map(needs_one_rule, proofs)):
        for rule in _group_rules(resolved, aim, tolerances):
            rules.setdefault(rule.decision, []).append(rule)
    chosen = _chosen_rules(rules, job_space)
    return [*chosen, *_calibrated_rules(resolved, aim, chosen)]


def has_fixed_decision(job: Job) -> bool:
    """Whether the job's decisions keep a share or a number, which thresholds by group would not."""
    return job.decision.rate is not None or isinstance(job.decision.threshold, float | int)


def _listed(value: Any) -> list[Any]:
    """Return what a key of the space has: a list, or one value as a list."""
    if isinstance(value, list | tuple):
        return list(value)
    return [value]


def _calibrated_rules(resolved: ResolvedJob, aim: Aim, rules: Sequence[Rule]) -> list[Rule]:
    """Return the rules once more after each other calibration that is tried.

    A threshold that is chosen moves with the calibration, so that decisions stay the same but for
    people of one probability. So calibrations are tried only where the probabilities are measured,
    or where the threshold is a number or follows from costs; then under the job's own rule.
    `space.calibration` names those that are tried under all rules.
    """
    job = resolved.job
    job_space = job.tune.space
    has_named = CALIBRATION in job_space
    kinds = _listed(job_space.get(CALIBRATION, list(CALIBRATIONS)))
    options = ["auto", *CALIBRATIONS, "beta"]
    if not kinds:
        raise InputError("space.calibration is empty: name at least one kind.")
    for kind in kinds:
        # a list, as what a job names need not be hashable
        if kind not in options:
            raise InputError(
                f"space.calibration names {kind!r}{nearest(str(kind), options)}; there are "
                f"{', '.join(options)}."
            )
    measured = any(metric.partition(".")[0] in PROBABILITY_METRICS for metric in aim.metrics)
    is_fixed = isinstance(job.decision.threshold, float | int) or job.decision.costs is not None
    tried: Sequence[Rule] = []
    if has_named:
        tried = rules
    elif measured or is_fixed:
        tried = [rule for rule in rules if rule.decision == JOB]
    found = []
    for kind in dict.fromkeys(kinds):
        if kind == job.calibration:
            continue
        found += [replace(rule, calibration=kind) for rule in tried]
    return found


def _refuse_decision_keys(job_space: Mapping[str, Any]) -> None:
    """Refuse the settings of decisions where the label has more than two values."""
    for key in (DECISION, TOLERANCE, CALIBRATION):
        if key in job_space:
            raise InputError(f"space.{key} is for labels of two values: leave it out.")


def _tolerances(job_space: Mapping[str, Any]) -> list[Any]:
    """Return the tolerances that are tried of thresholds by group."""
    tolerances = job_space.get(TOLERANCE, GRID)
    listed = [tolerances]
    if isinstance(tolerances, list | tuple):
        listed = list(tolerances)
    if not listed or not all(spaces.is_number(value) and 0 <= value <= 1 for value in listed):
        raise InputError(
            f"space.tolerance is {tolerances!r}: give a number from 0 to 1, or a list of them."
        )
    return listed


def _group_rules(resolved: ResolvedJob, aim: Aim, tolerances: Sequence[float]) -> list[Rule]:
    """Return the thresholds by group that make the metrics of groups small.

    Where one criterion is limited for several attributes, thresholds for their crossed groups come
    last. The rates of a group are means of those of the crossed groups in it: where these differ by
    at most a tolerance, the groups of each attribute do. Small groups share thresholds, and
    nothing follows for these; what a trial measures decides.
    """
    attributes = [column.name for column in resolved.contract.sensitive]
    limited_by: dict[str, dict[str, float | None]] = {}
    rules = []
    for metric in aim.metrics:
        kind, _, attribute = metric.partition(".")
        is_known = all(name in attributes for name in attribute_names(attribute, attributes))
        if kind not in CRITERIA or kind not in group_metrics() or not is_known:
            continue
        criterion = CRITERIA[kind]
        limit = _smallest_limit(aim, metric)
        is_limited = limit is not None or _has_lower_limit(aim, metric)
        if is_limited and attribute in attributes:
            limits = limited_by.setdefault(criterion, {})
            limits[attribute] = _smaller(limit, limits.get(attribute))
        rules += _rules_of_criterion(resolved, f"{criterion} by {attribute}", limit, tolerances)
    for criterion, limits in limited_by.items():
        if len(limits) > 1:
            names = tuple(name for name in attributes if name in limits)
            crossed = "&".join(names)
            if attribute_names(crossed, attributes) != names:
                # the name of an attribute has this sign
                continue
            smallest = None
            for limit in limits.values():
                smallest = _smaller(smallest, limit)
            rules += _rules_of_criterion(
                resolved, f"{criterion} by {crossed}", smallest, tolerances
            )
    return rules


def _smaller(one: float | None, other: float | None) -> float | None:
    """Return the smaller of two limits, of which either may be missing."""
    return min((limit for limit in (one, other) if limit is not None), default=None)


def _has_lower_limit(aim: Aim, metric: str) -> bool:
    """Return whether a metric, such as the impact ratio, must be at least something."""
    least = describe(metric)[0].domain[0]
    return any(
        limit.metric == metric and limit.sign == ">=" and (least is None or limit.value > least)
        for limit in aim.limits
    )


def _rules_of_criterion(
    resolved: ResolvedJob, name: str, limit: float | None, tolerances: Sequence[float]
) -> list[Rule]:
    """Return thresholds by group at tolerances that are shares of a limit; without one, or where
    the job names tolerances, at the given ones.
    """
    tried = list(tolerances)
    if limit is not None and TOLERANCE not in resolved.job.tune.space:
        tried = [round(min(1.0, share * limit), 4) for share in SHARES]
    return [Rule(name, float(value)) for value in tried]


def _smallest_limit(aim: Aim, metric: str) -> float | None:
    """Return the smallest upper limit on a metric; None without one.

    A limit that every model keeps is none: it stands for what a champion has until it was judged.
    """
    largest = describe(metric)[0].domain[1]
    limits = []
    for limit in aim.limits:
        is_upper = limit.metric == metric and limit.sign == "<="
        if is_upper and (largest is None or limit.value < largest):
            limits.append(limit.value)
    return min(limits, default=None)


def _chosen_rules(rules: Mapping[str, Sequence[Rule]], job_space: Mapping[str, Any]) -> list[Rule]:
    """Return the rules that `space.decision` names, each once; all without this key."""
    names = job_space.get(DECISION, list(rules))
    if not isinstance(names, list):
        names = [names]
    options = list(rules)
    for name in names:
        # a list, as what a job names need not be hashable
        if name not in options:
            raise InputError(
                f"space.decision names {name!r}{nearest(str(name), options)}; there are "
                f"{', '.join(options)}."
            )
    if not names:
        raise InputError("space.decision is empty: name at least one rule.")
    chosen: dict[Rule, None] = {}
    for name in names:
        chosen |= dict.fromkeys(rules[name])
    return list(chosen)


def decision_of(
    resolved: ResolvedJob, aim: Aim, name: str, tolerance: float | None
) -> DecisionRule:
    """Return the decision rule of a job that a name of :class:`Rule` and a tolerance stand for."""
    job_rule = resolved.job.decision
    if name == JOB:
        return job_rule
    if name == BALANCED:
        return DecisionRule(threshold="balanced")
    if name == MAX_ACCURACY:
        return DecisionRule(threshold="max_accuracy")
    if name == OBSERVED:
        return DecisionRule(threshold="observed")
    criterion, _, attribute = name.partition(" by ")
    rounded = round(tolerance or 0.0, 4)
    equal = Equal.model_validate(
        {
            "criterion": criterion,
            "tolerance": rounded,
            "attribute": attribute,
            "smoothing": "auto",
        }
    )
    if job_rule.costs is not None:
        return DecisionRule(costs=job_rule.costs, equal=equal)
    return DecisionRule(threshold=_threshold_of_groups(resolved, aim), equal=equal)


def _threshold_of_groups(
    resolved: ResolvedJob, aim: Aim
) -> Literal["observed", "balanced", "max_accuracy"]:
    """Return what thresholds by group are best in: what the search is for, else as the job's.

    A job that keeps the observed share of positive labels, as those of `init` do, would have
    thresholds by group far from the best balanced accuracy where few labels are positive.
    """
    threshold = resolved.job.decision.threshold
    if "balanced_accuracy" in aim.metrics:
        return "balanced"
    if "accuracy" in aim.metrics or threshold == "max_accuracy":
        return "max_accuracy"
    return "observed" if threshold == "observed" else "balanced"
