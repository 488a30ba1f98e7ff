"""What `evenhand tune` searches: a job's key `tune` checked against the job, and the job of the
winner.
"""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from evenhand.fairlib.catalogue import better, group_metrics
from evenhand.fairlib.methods.registry import METHODS, method_class
from evenhand.fairlib.tuning import space as spaces
from evenhand.fairlib.tuning.study import Aim, Limit, Trial, check_limits, parse_limit
from evenhand.flows import classifier_jobs as classifier
from evenhand.flows.job import DecisionRule, Equal, Job, SubspaceMetric, Tune
from evenhand.flows.job_file import job_path, load_job
from evenhand.flows.resolved_job import RESERVED_ARGUMENTS, UNCONTROLLED, ResolvedJob, resolve
from evenhand.flows.workers import check_engine
from evenhand.tasks.errors import InputError, input_errors
from evenhand.tasks.tuning.trial_search import DEFAULT, JOB, Candidate, Plan, Rule
from evenhand.tasks.written_input import nearest, not_known

DEFAULT_METHODS = ("gbdt", "reweigh")
# searched too where decisions about a person and the person's copies are to agree
CONSISTENT_METHODS = ("project",)
# for a network that tells many labels apart: trees would grow one tree for each label in every step
CONSISTENT_NETWORKS = ("clp",)
LEAVE_OUT = "leave_out"
DECISION = "decision"
TOLERANCE = "tolerance"
MINUTES = 20.0
LARGE_TABLE = 5000
FOLDS = 5
FEW_FOLDS = 3
BALANCED = "balanced"
# Criterion of the thresholds by group that makes a metric small.
CRITERIA = {
    "equal_opportunity_difference": "equal_opportunity",
    "demographic_parity_difference": "demographic_parity",
    "gap_max": "equalized_odds",
    "gap_rms": "equalized_odds",
    "average_odds_difference": "equalized_odds",
}
# Tolerances of thresholds by group that are tried: shares of the limit on the metric, or where
# there is none these.
SHARES = (0.2, 0.4, 0.55, 0.7, 0.85, 1.0)
GRID = (0.0, 0.02, 0.05, 0.075, 0.1, 0.15)
# An absolute budget of a job is searched up to so many times smaller and larger.
BUDGET_FACTOR = 30.0


# Methods whose kernels are compiled once on a machine: folder of the kernels, and seconds that it
# takes.
COMPILED = {"budro": "transport"}
COMPILING_S = 100.0
# Their models are the first, as an answer is needed before the time is up.
QUICK_METHODS = ("gbdt", "reweigh", "logistic", "reweigh-logistic")


@dataclass(frozen=True)
class TunePlan:
    """A checked search."""

    resolved: ResolvedJob
    aim: Aim
    variants: Mapping[str, ResolvedJob]  # the job with each method's own arguments
    methods: Mapping[str, spaces.Space]
    rules: Sequence[Rule]  # rules of decisions that every model is judged under
    target: Path  # file of the tuned job

    @property
    def tune(self) -> Tune:
        """The job's key."""
        return self.resolved.job.tune

    @property
    def first(self) -> str:
        """Metric by which the winner is chosen: the preferred one, or the first objective."""
        return self.tune.prefer or self.aim.objectives[0]

    @property
    def seconds(self) -> float:
        """Seconds of the whole command; infinite where the number of models is its only limit."""
        if self.tune.minutes is None and self.tune.trials is not None:
            return float("inf")
        return 60.0 * (self.tune.minutes or MINUTES)

    def searches(self, has_trials: bool) -> bool:
        """Whether trials are to be run: not for a preference alone, on a study that has trials."""
        tune = self.tune
        only_chosen = tune.prefer is not None and tune.minutes is None and tune.trials is None
        return not (only_chosen and has_trials)

    def folds(self, rows: int) -> int:
        """Number of folds of so many training rows."""
        return self.tune.folds or (FOLDS if rows < LARGE_TABLE else FEW_FOLDS)

    def base(self, candidate: Candidate) -> dict[str, Any]:
        """Arguments of a candidate's method that are not searched."""
        name = candidate.method or self.resolved.method
        given = dict(self.variants[name].arguments)
        if candidate.kind != JOB and "budget_share" in self.methods[name]:
            given.pop("perturbation_budget", None)
        return given

    def tuned(self, winner: Trial, rows: int) -> ResolvedJob:
        """Return the job of the winner; `rows` is the number of training rows."""
        return resolve(tuned_job(self, winner, rows), self.resolved.folder)


def make_plan(name: str, overrides: Sequence[str] = (), *, force: bool = False) -> TunePlan:
    """Check a search before anything runs.

    `name` is a job or the path of a job file. With `force` an existing file of the tuned job is
    overwritten. Raises `InputError` with one line that names the key and the cure.
    """
    job, folder = load_job(name, overrides)
    check_engine(job.tune, "tune")
    resolved = resolve(job, folder)
    if resolved.is_proxy:
        raise InputError(
            f"job {job.name} learns a proxy, and tune searches classifiers: use `evenhand sweep`."
        )
    if job.tuned is not None:
        raise InputError(
            f"job {job.name} has been tuned already: tune the job that it was made from."
        )
    with input_errors(f"job {job.name}: tune: ", InputError):
        aim = _aim(resolved)
        variants = _variants(resolved, aim)
        methods = {method: _space(resolved, variants[method]) for method in variants}
        rules = _rules(resolved, aim)
    target = _target(name, job)
    if target.exists() and not force:
        raise InputError(f"{target} exists: give --force to overwrite it, or move it away.")
    return TunePlan(resolved, aim, variants, methods, rules, target)


def _target(name: str, job: Job) -> Path:
    """Return the file of the tuned job: beside the job's file, or here for a shipped job."""
    path = job_path(name)
    return path.with_name(f"{path.stem}.tuned.yaml") if path else Path(f"{job.name}.tuned.yaml")


def _aim(resolved: ResolvedJob) -> Aim:
    """Check the objectives and limits against what the trials of this job can have."""
    tune = resolved.job.tune
    for word, names, way in (
        ("maximize", tune.maximize, "higher"),
        ("minimize", tune.minimize, "lower"),
    ):
        for name in names:
            _check_metric(resolved, f"{word} names", name)
            if better(name) != way:
                raise InputError(f"{word} {name}: of this metric {better(name)} is better.")
    objectives = [*tune.maximize, *tune.minimize] or ["balanced_accuracy"]
    if len(set(objectives)) < len(objectives):
        raise InputError("an objective is given twice: keep one of them.")
    limits: list[Limit] = []
    for text in tune.where:
        with input_errors(end="."):
            limits.append(parse_limit(text))
        _check_metric(resolved, f"the limit {text!r} names", limits[-1].metric)
    if tune.prefer is not None:
        _check_metric(resolved, "prefer names", tune.prefer)
    if tune.bound != "point" and limits and resolved.job.evaluate.draws == 0:
        raise InputError(
            "limits on intervals need evaluate.draws above 0: or set tune.bound to point."
        )
    with input_errors(end="."):
        check_limits(limits)
    return Aim(tuple(objectives), tuple(limits), tune.bound)


def _check_metric(resolved: ResolvedJob, where: str, name: str) -> None:
    not_searched = (*UNCONTROLLED, "certificate.")
    if name.startswith(not_searched):
        raise InputError(
            f"{where} {name!r}, which is not measured in a search: use a gate of the job."
        )
    if not resolved.may_have(name):
        known = [item for item in resolved.known_metrics if not item.startswith(not_searched)]
        raise InputError(
            f"{where} {name!r}, no metric of this job{nearest(name, known)}; there are "
            f"{', '.join(known)}."
        )
    with input_errors(f"{where} {name!r}: ", end="."):
        better(name)


def _variants(resolved: ResolvedJob, aim: Aim) -> dict[str, ResolvedJob]:
    """Resolve the job with each method; of the default methods, those that it can have."""
    job = resolved.job
    own = resolved.method
    found: dict[str, ResolvedJob] = {}
    copies = any(metric.startswith(("consistency.", "token_gap")) for metric in aim.metrics)
    default = [own, *DEFAULT_METHODS, *(CONSISTENT_METHODS if copies else ())]
    if resolved.contract.label.classes and METHODS[own].plain == "nn":
        default = [own, *(CONSISTENT_NETWORKS if copies else ())]
    for name in dict.fromkeys(job.tune.methods or default):
        if name not in METHODS:
            raise not_known("method", name, [*METHODS])
        if name == own:
            found[name] = resolved
            continue
        try:
            found[name] = resolve(
                job.model_copy(update={"method": {"name": name}}), resolved.folder
            )
        except InputError as error:
            if job.tune.methods is not None:
                raise InputError(str(error).removeprefix(f"job {job.name}: ")) from None
    return found


def _space(resolved: ResolvedJob, variant: ResolvedJob) -> spaces.Space:
    """Return a method's space, restricted or widened by the job; defaults are the job's own
    values.
    """
    name = variant.method
    cls = method_class(variant.method)
    space = spaces.space_of(cls)
    for key, value in variant.arguments.items():
        if key in space:
            space[key] = spaces.with_default(_without_default(space[key]), value)
    budget = variant.arguments.get("perturbation_budget")
    if budget and "budget_share" in space:
        del space["budget_share"]
        low = budget / BUDGET_FACTOR
        high = budget * BUDGET_FACTOR
        space["perturbation_budget"] = spaces.Real(low, high, log=True, default=budget)
    hidden = tuple(column.name for column in resolved.contract.sensitive if column.is_feature)
    if hidden and _may_leave_out(variant, hidden):
        space[LEAVE_OUT] = spaces.Choice(((), hidden), ())
    given = resolved.job.tune.space
    known = [method for method in METHODS if method in given]
    for key in given:
        if key not in METHODS and key not in (DECISION, TOLERANCE):
            options = [*METHODS, DECISION, TOLERANCE]
            raise InputError(f"space names {key!r}, which is no method{nearest(key, options)}.")
    if name not in known:
        return space
    if not isinstance(given[name], Mapping):
        raise InputError(f"space.{name} must be a mapping of parameters to values or ranges.")
    parameters = inspect.signature(cls.__init__).parameters
    accepted = [item for item in list(parameters)[1:] if item not in RESERVED_ARGUMENTS]
    accepted += [LEAVE_OUT] if LEAVE_OUT in space else []
    for key, value in given[name].items():
        if key not in accepted:
            raise InputError(
                f"space.{name} names {key!r}, no parameter of {name}{nearest(key, accepted)}; it "
                "has: "
                f"{', '.join(accepted)}."
            )
        with input_errors(f"space.{name}.{key}: ", end="."):
            default = (
                () if key == LEAVE_OUT else variant.arguments.get(key, parameters[key].default)
            )
            space[key] = spaces.restricted(space.get(key), value, default)
        if key == "perturbation_budget":
            space.pop("budget_share", None)
        if key == LEAVE_OUT and not all(
            isinstance(item, list | tuple) for item in _ends(space[key])
        ):
            raise InputError(
                f"space.{name}.leave_out must be a list of lists of columns, such as [[], "
                f"[{hidden[0]}]]."
            )
        _check_ends(resolved, name, key, space[key])
    return space


def _may_leave_out(variant: ResolvedJob, names: Sequence[str]) -> bool:
    """Whether a method can do without columns; with a metric or copies it has its own way with
    them.
    """
    spec = METHODS[variant.method]
    if spec.needs_metric or spec.needs_counterfactuals:
        return False
    try:
        resolve(_leaving_out(variant.job, names), variant.folder)
    except InputError:
        return False
    return True


def _leaving_out(job: Job, names: Sequence[str]) -> Job:
    """Return the job with further columns left out."""
    return job.model_copy(update={LEAVE_OUT: [*dict.fromkeys([*job.leave_out, *names])]})


def _without_default(dimension: spaces.Dimension) -> spaces.Dimension:
    if isinstance(dimension, spaces.Choice):
        return spaces.Choice(dimension.values)
    return replace(dimension, default=None)


def _check_ends(resolved: ResolvedJob, method: str, key: str, dimension: spaces.Dimension) -> None:
    """Check that the method takes every value of a choice, or both ends of a range."""
    for value in _ends(dimension):
        given = {} if key == LEAVE_OUT else {key: value}
        job = resolved.job.model_copy(update={"method": {"name": method, **given}})
        try:
            resolve(_leaving_out(job, value) if key == LEAVE_OUT else job, resolved.folder)
        except InputError as error:
            raise InputError(
                f"space.{method}: {str(error).removeprefix(f'job {resolved.job.name}: ')}"
            ) from None


def _ends(dimension: spaces.Dimension) -> Sequence[Any]:
    """Values of a choice, or both ends of a range."""
    return (
        dimension.values
        if isinstance(dimension, spaces.Choice)
        else (dimension.low, dimension.high)
    )


def _rules(resolved: ResolvedJob, aim: Aim) -> list[Rule]:
    """Return the rules of decisions that every model is judged under.

    Beside the job's own: the balanced threshold where balanced accuracy is an objective or limited,
    and thresholds by group for each metric of groups among objectives and limits. Of more than two
    labels everybody gets the likeliest one: that is the only rule.
    """
    given = resolved.job.tune.space
    if resolved.contract.label.classes:
        for key in (DECISION, TOLERANCE):
            if key in given:
                raise InputError(f"space.{key} is for labels of two values: leave it out.")
        return [Rule()]
    rule = resolved.job.decision
    found = {JOB: [Rule()]}
    if "balanced_accuracy" in aim.metrics and (rule.is_own or rule.threshold == "max_accuracy"):
        found[BALANCED] = [Rule(BALANCED)]
    tolerances = given.get(TOLERANCE, GRID)
    listed = list(tolerances) if isinstance(tolerances, list | tuple) else [tolerances]
    if not listed or not all(spaces.is_number(value) and 0 <= value <= 1 for value in listed):
        raise InputError(
            f"space.tolerance is {tolerances!r}: give a number from 0 to 1, or a list of them."
        )
    if rule.rate is None and not isinstance(rule.threshold, float | int) and rule.equal is None:
        known = [column.name for column in resolved.contract.sensitive]
        for metric in aim.metrics:
            kind, _, attribute = metric.partition(".")
            if kind in CRITERIA and kind in group_metrics() and attribute in known:
                limits = [
                    limit.value
                    for limit in aim.limits
                    if (limit.metric, limit.sign) == (metric, "<=")
                ]
                tried = listed
                if limits and TOLERANCE not in given:
                    tried = [round(min(1.0, share * min(limits)), 4) for share in SHARES]
                name = f"{CRITERIA[kind]} by {attribute}"
                found.setdefault(name, []).extend(Rule(name, float(value)) for value in tried)
    wanted = given.get(DECISION, list(found))
    names = wanted if isinstance(wanted, list) else [wanted]
    for name in names:
        # a list, as what a job names need not be hashable
        if name not in [*found]:
            raise InputError(
                f"space.decision names {name!r}{nearest(str(name), [*found])}; there are "
                f"{', '.join(found)}."
            )
    if not names:
        raise InputError("space.decision is empty: name at least one rule.")
    return list(dict.fromkeys(rule for name in names for rule in found[name]))


def decision_of(plan: TunePlan, name: str, tolerance: float | None) -> DecisionRule:
    """Return the rule of decisions of a name."""
    own = plan.resolved.job.decision
    if name == JOB:
        return own
    if name == BALANCED:
        return DecisionRule(threshold="balanced")
    criterion, _, attribute = name.partition(" by ")
    equal = Equal(criterion=criterion, tolerance=round(tolerance or 0.0, 4), attribute=attribute)  # type: ignore[arg-type]
    if own.costs is not None:
        return DecisionRule(costs=own.costs, equal=equal)
    threshold = "max_accuracy" if own.threshold == "max_accuracy" else "balanced"
    return DecisionRule.model_validate({"threshold": threshold, "equal": equal})


def plan_of_rows(plan: TunePlan, rows: int) -> Plan:
    """Return the plan of the search for so many training rows.

    The models before the search are the controls, the job as it is, and each method's defaults; the
    quick ones first, as the time may end with any of them.
    """
    own = plan.resolved.method
    job = plan.resolved.job
    controls = [Candidate(name) for name in ("majority", "plain", "blind")]
    as_it_is: list[Candidate] = []
    if METHODS[own].plain != own or job.decision.equal is not None:
        as_it_is = [Candidate(JOB)]
    quick: list[Candidate] = []
    slow: list[Candidate] = []
    for method, space in plan.methods.items():
        defaults = {key: item.default for key, item in space.items()}
        group = quick if method in QUICK_METHODS else slow
        group.append(Candidate(DEFAULT, method, defaults))
    if own in QUICK_METHODS:
        fixed = [*controls, *as_it_is, *quick, *slow]
    else:
        fixed = [*controls, *quick, *as_it_is, *slow]
    if math.isfinite(plan.seconds) and quick:
        # the first answer: it has all rules of decisions, and the controls only the job's
        fixed.remove(quick[0])
        fixed.insert(0, quick[0])
    return Plan(
        plan.aim, plan.methods, plan.rules, fixed, job.seed, rows >= LARGE_TABLE, plan.tune.sampler
    )


def compiling_seconds(methods: Iterable[str]) -> dict[str, float]:
    """Return how much longer the first model of a method takes, where its kernels are not compiled
    yet.
    """
    fairlib = Path(__file__).resolve().parents[1] / "fairlib"
    seconds = {}
    for method in methods:
        if method not in COMPILED:
            continue
        beside = fairlib / COMPILED[method] / "__pycache__"
        folder = Path(os.environ.get("NUMBA_CACHE_DIR") or beside)
        if not any(folder.rglob("_kernels.*.nbi")):
            seconds[method] = COMPILING_S
    return seconds


# the tuned job


def tuned_job(plan: TunePlan, winner: Trial, rows: int) -> Job:
    """Return the job with the winner's method, arguments and rule of decisions."""
    resolved = plan.resolved
    job = plan.resolved.job
    decision = decision_of(plan, winner.decision, winner.tolerance)
    method: dict[str, Any]
    leave_out = list(winner.arguments.get(LEAVE_OUT, ()))
    if winner.kind == JOB:
        method = dict(job.method)
        spec = METHODS[resolved.method]
        if spec.lacks_strength(resolved.arguments):
            # as it was judged: without it, a run could lower the default
            taken = inspect.signature(method_class(spec.name).__init__).parameters
            method[spec.strength[0]] = taken[spec.strength[0]].default
    elif winner.kind in ("plain", "blind"):
        given = classifier.shared_arguments(resolved.method, resolved.arguments)
        learner = method_class(resolved.method)(**given).plain(rows)
        name = METHODS[resolved.method].plain
        defaults = inspect.signature(method_class(name).__init__).parameters
        changed = {
            key: value
            for key, value in learner.get_params(deep=False).items()
            if key not in RESERVED_ARGUMENTS and not spaces.same(value, defaults[key].default)
        }
        method = {"name": name, **changed}
        decision = decision.model_copy(update={"equal": None})
        if winner.kind == "blind":
            leave_out = [column.name for column in resolved.contract.sensitive if column.is_feature]
    else:
        assert winner.method is not None
        candidate = Candidate(winner.kind, winner.method)
        searched = {name: value for name, value in winner.arguments.items() if name != LEAVE_OUT}
        method = {"name": winner.method, **plan.base(candidate), **searched}
    if decision.equal is not None:
        # as they were judged: chosen on all training rows
        decision = decision.model_copy(update={"folds": plan.folds(rows)})
    changes: dict[str, Any] = {"method": method, "decision": decision, "paper": None}
    if leave_out and job.evaluate.certificate is None:
        # no method that leaves columns out has a fair metric, and the job's may name these columns
        changes["fair_metric"] = SubspaceMetric()
    return _leaving_out(job.model_copy(update=changes), leave_out)


def tuned_text(
    plan: TunePlan, winner: Trial, rows: int, tuned: Mapping[str, str], caveats: Sequence[str] = ()
) -> str:
    """Write the tuned job as YAML; its description ends with the caveats."""
    job = tuned_job(plan, winner, rows)
    if caveats:
        described = " ".join([job.description, *caveats]).strip()
        job = job.model_copy(update={"description": described})
    content = job.model_dump(mode="json", exclude_defaults=True, exclude={"tune"}) | {
        "tuned": dict(tuned)
    }
    head = (
        f"# Found by `evenhand tune` on folds of the training rows: trial {winner.number} of the "
        "study\n"
        f"# {tuned['study']}, for {plan.aim}.\n"
    )
    head += "".join(f"# {caveat}\n" for caveat in caveats)
    return head + yaml.safe_dump(content, sort_keys=False, allow_unicode=True)
