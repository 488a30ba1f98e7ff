"""What `evenhand tune` searches: a job's key `tune` checked against the job, and the job of the
winner.
"""

from __future__ import annotations

import hashlib
import inspect
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from evenhand.data_contracts.yaml_writer import comment, dump_plainly
from evenhand.fairlib.catalogue import better, group_metrics
from evenhand.fairlib.evaluation.gates import CONTROLS as GATE_CONTROLS
from evenhand.fairlib.methods.registry import METHODS, method_class
from evenhand.fairlib.tuning import space as spaces
from evenhand.fairlib.tuning.study import (
    BY_VALUE,
    PERFORMANCE,
    Aim,
    Limit,
    Trial,
    check_limits,
    parse_limit,
)
from evenhand.flows import classifier_jobs as classifier
from evenhand.flows.checked_job import answer_by_code
from evenhand.flows.job import (
    Job,
    LearnedByEvidence,
    SubspaceMetric,
    Tune,
)
from evenhand.flows.job_file import job_path, load_job
from evenhand.flows.resolved_job import RESERVED_ARGUMENTS, UNCONTROLLED, ResolvedJob, resolve
from evenhand.flows.tune_alternatives import (
    Alternative,
    objectives_of,
    provisional,
    with_champion,
)
from evenhand.flows.tune_proofs import (
    is_certificate,
    is_screening,
    proof_limit,
    refuse_unproved_method,
    screening_limit,
)
from evenhand.flows.tune_rules import (
    CALIBRATION,
    CRITERIA,
    DECISION,
    TOLERANCE,
    decision_of,
    has_fixed_decision,
    rules_of,
)
from evenhand.flows.workers import check_engine
from evenhand.tasks.errors import InputError, input_errors
from evenhand.tasks.evaluating.control_names import SIMPLE_MITIGATIONS
from evenhand.tasks.tuning.trial_search import DEFAULT, FIRST_PART, JOB, Candidate, Plan, Rule
from evenhand.tasks.written_input import listed_metrics, nearest, not_known

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
MINUTES = 20.0
LARGE_TABLE = 5000
SMALLEST_PART = 10_000
# The first look at a model is on so many rows at least.
FIRST_ROWS = 1500
FOLDS = 5
FEW_FOLDS = 3
# The confidence that an old `bound` is read as; `auto` is the default.
CONFIDENCE_OF_BOUND = {"auto": None, "point": 0.5, "interval": 0.8, "prediction": 0.975}
# An absolute budget of a job is searched up to so many times smaller and larger.
BUDGET_FACTOR = 30.0


# Methods whose kernels are compiled once on a machine: folder of the kernels, and seconds that it
# takes.
COMPILED = {"budro": "transport"}
COMPILING_S = 100.0
# Their models are the first, as an answer is needed before the time is up.
QUICK_METHODS = ("gbdt", "lightgbm", "reweigh", "logistic", "reweigh-logistic")
# Their first models show whether limits on performance can be met.
FIRST_METHODS = ("gbdt", "logistic")


@dataclass(frozen=True)
class TunePlan:
    """A checked search."""

    resolved: ResolvedJob
    aim: Aim
    variants: Mapping[str, ResolvedJob]  # the job with each method's own arguments
    methods: Mapping[str, spaces.Space]
    rules: Sequence[Rule]  # rules of decisions that every model is judged under
    target: Path  # file of the tuned job
    alternative: Alternative | None = None  # to which model an alternative is looked for
    # limits on proved certificates; those of the aim are on what is found
    proofs: Sequence[Limit] = ()
    overwrites: bool = True  # whether the file of the tuned job may be there already
    is_choice: bool = False  # whether a winner is to be chosen among the trials that there are

    @property
    def promised(self) -> list[Limit]:
        """The limits that were given, with proved ends of certificates."""
        measured = [limit for limit in self.aim.limits if not is_screening(limit)]
        return [*measured, *self.proofs]

    @property
    def tune(self) -> Tune:
        """The job's key."""
        return self.resolved.job.tune

    @property
    def confidence(self) -> float | None:
        """The confidence that was asked for, also by its old spelling; None for the default."""
        return _confidence(self.tune)

    @property
    def first(self) -> str:
        """Metric by which the winner is chosen: the preferred one, or the first objective."""
        return self.tune.prefer or self.aim.objectives[0]

    @property
    def seconds(self) -> float:
        """Wall-clock seconds of the whole command; infinite where another limit is its only one."""
        return _wall_seconds_of(self.tune)

    @property
    def cpu_seconds(self) -> float:
        """CPU seconds of the whole command; infinite without such a limit."""
        if self.tune.cpu_minutes is None:
            return math.inf
        return 60.0 * self.tune.cpu_minutes

    @property
    def time_limit(self) -> str:
        """The limits of time, for messages: ``20 minutes``."""
        limits = []
        if math.isfinite(self.seconds):
            limits.append(_minutes_text(self.seconds / 60, "minute"))
        if self.tune.cpu_minutes is not None:
            limits.append(_minutes_text(self.tune.cpu_minutes, "CPU minute"))
        return " or ".join(limits)

    def searches(self, has_trials: bool) -> bool:
        """Whether trials are to be run: not for a preference alone, on a study that has trials."""
        tune = self.tune
        limits = (tune.minutes, tune.trials, tune.cpu_minutes, tune.until_gain)
        has_limit = any(limit is not None for limit in limits)
        only_chosen = tune.prefer is not None and (self.is_choice or not has_limit)
        return not (only_chosen and has_trials)

    def folds(self, rows: int) -> int:
        """Number of folds of so many training rows."""
        if self.tune.folds:
            return self.tune.folds
        if rows < LARGE_TABLE:
            return FOLDS
        return FEW_FOLDS

    def base(self, candidate: Candidate) -> dict[str, Any]:
        """Arguments of a candidate's method that are not searched."""
        name = candidate.method or self.resolved.method
        arguments = dict(self.variants[name].arguments)
        if candidate.kind != JOB and "budget_share" in self.methods[name]:
            arguments.pop("perturbation_budget", None)
        return arguments

    def tuned(self, winner: Trial, rows: int) -> ResolvedJob:
        """Return the job of the winner; `rows` is the number of training rows."""
        return resolve(tuned_job(self, winner, rows), self.resolved.folder)


def _wall_seconds_of(tune: Tune) -> float:
    """Return the limit of wall-clock seconds; infinite where another limit is the only one."""
    has_other_limit = tune.trials is not None or tune.cpu_minutes is not None
    if tune.minutes is None and has_other_limit:
        return math.inf
    return 60.0 * (tune.minutes or MINUTES)


def _seconds_of(tune: Tune) -> float:
    """Return the smaller limit of seconds, of the wall clock or of the CPU."""
    seconds = _wall_seconds_of(tune)
    if tune.cpu_minutes is not None:
        seconds = min(seconds, 60.0 * tune.cpu_minutes)
    return seconds


def make_plan(
    name: str,
    overrides: Sequence[str] = (),
    *,
    force: bool = False,
    store_url: str | None = None,
) -> TunePlan:
    """Check a search before anything runs.

    `name` is a job or the path of a job file. With `force` an existing file of the tuned job is
    overwritten. The store at `store_url` has the registry in which a published model is looked up.
    Raises `InputError` with one line that names the key and the cure.
    """
    job, folder = load_job(name, overrides)
    job = _with_intersections(job)
    check_engine(job.tune, "tune")
    with input_errors(f"job {job.name}: tune: ", InputError):
        target = _target(name, job)
        job, folder, alternative = with_champion(job, folder, store_url, name, overrides)
    # the champion's job may be another one
    job = _with_intersections(job)
    if job.tune.engine == "dask" and job.tune.cpu_minutes is not None:
        raise InputError(
            "tune.cpu_minutes counts the processes of this machine, and tune.engine is dask: use "
            "minutes."
        )
    resolved = resolve(job, folder)
    if resolved.is_proxy:
        raise InputError(
            f"job {job.name} learns a proxy, and tune searches classifiers: use `evenhand sweep`."
        )
    if job.tuned is not None and alternative is None:
        raise InputError(
            f"job {job.name} has been tuned already: tune the job that it was made from."
        )
    with input_errors(f"job {job.name}: tune: ", InputError):
        _check_gates(resolved.job)
        aim = _aim(resolved, alternative)
        proofs = _proofs(resolved, alternative)
        variants = _variants(resolved, aim, proofs)
        methods = {method: _space(resolved, variants[method]) for method in variants}
        # the job as it is is judged too, also where its method is not searched
        variants.setdefault(resolved.method, resolved)
        rules = rules_of(resolved, aim, proofs)
    if target.is_dir():
        raise InputError(f"{target} is a folder, where the tuned job's file goes: move it away.")
    if target.exists() and not force:
        raise InputError(f"{target} exists: give --force to overwrite it, or move it away.")
    if not os.access(target.parent, os.W_OK):
        raise InputError(
            f"the folder {target.parent} cannot be written to, and the tuned job is written next "
            "to the job: copy the job's file to another folder."
        )
    return TunePlan(
        resolved,
        aim,
        variants,
        methods,
        rules,
        target,
        alternative,
        proofs,
        overwrites=force,
        is_choice=_is_choice(overrides),
    )


def _check_gates(job: Job) -> None:
    """Refuse gates that compare with a simple mitigation: the answer may be a model without
    mitigation, which is not compared with any, so that no run of its job could be judged.
    """
    refused = [key for key, control in GATE_CONTROLS.items() if control in SIMPLE_MITIGATIONS]
    for metric, gate in job.gates.items():
        for key in refused:
            if key in gate:
                raise InputError(
                    f"the gate {metric!r} has {key}, which a model without mitigation cannot have, "
                    'and such a model may be the answer: search with --set "gates={}", then write '
                    "the gates into the tuned job, or use better_than_blind."
                )


def _is_choice(overrides: Sequence[str]) -> bool:
    """Whether a command asks for a preferred metric, and for no search: its job's own limits of
    time are those of the search before.
    """
    keys = {text.partition("=")[0] for text in overrides}
    searching = {f"tune.{key}" for key in ("minutes", "trials", "cpu_minutes", "until_gain")}
    return "tune.prefer" in keys and not keys & searching


def _with_intersections(job: Job) -> Job:
    """Return the job, which measures intersections where the search names a metric of one."""
    tune = job.tune
    named = [*tune.maximize, *tune.minimize, *tune.where, *tune.no_worse, tune.prefer or ""]
    if not any("&" in text for text in named):
        return job
    return job.model_copy(
        update={"evaluate": job.evaluate.model_copy(update={"intersections": True})}
    )


def notes_of_plan(plan: TunePlan) -> list[str]:
    """Return notes on old spellings, and on metrics for which no thresholds by group are tried."""
    notes = [*old_spellings(plan.tune)]
    without = [
        name for name in plan.aim.metrics if "&" in name and name.partition(".")[0] not in CRITERIA
    ]
    if without:
        notes.append(f"no thresholds by group are tried for {', '.join(without)}")
    of_groups = [name for name in plan.aim.metrics if name.partition(".")[0] in CRITERIA]
    if of_groups and has_fixed_decision(plan.resolved.job):
        notes.append(
            "no thresholds by group are tried, as decision of the job is a share or a number that "
            f"they would not keep: leave it out to try them for {', '.join(of_groups)}"
        )
    return notes


def _minutes_text(number: float, noun: str) -> str:
    """Return a number of minutes with its noun: ``1 minute``, ``0.5 minutes``."""
    if number == 1.0:
        return f"1 {noun}"
    return f"{number:g} {noun}s"


def check_aim(name: str, overrides: Sequence[str] = ()) -> str | None:
    """Return what is wrong with the objectives and limits of a search; None where they are right,
    or something else is wrong before them.
    """
    try:
        job, folder = load_job(name, overrides)
        resolved = resolve(_with_intersections(job), folder)
    except InputError:
        # the plan of the search says so, with what it knows of the command
        return None
    if resolved.is_proxy or job.tune.alternative_to is not None:
        return None
    try:
        with input_errors(f"job {job.name}: tune: ", InputError):
            _aim(resolved, None)
    except InputError as error:
        return str(error)
    return None


def _target(name: str, job: Job) -> Path:
    """Return the file of the tuned job: next to the job's file, or here for a shipped job."""
    path = job_path(name)
    if not path:
        return Path(f"{job.name}.tuned.yaml")
    return path.with_name(f"{path.stem}.tuned.yaml")


def _aim(resolved: ResolvedJob, alternative: Alternative | None) -> Aim:
    """Check the objectives and limits against what the trials of this job can have."""
    tune = resolved.job.tune
    _check_objectives(resolved, "maximize", tune.maximize, "higher")
    _check_objectives(resolved, "minimize", tune.minimize, "lower")
    objectives = [*tune.maximize, *tune.minimize] or ["balanced_accuracy"]
    if alternative is not None:
        objectives = objectives_of(resolved)
        _check_alternative(resolved, objectives, alternative)
    if len(set(objectives)) < len(objectives):
        raise InputError("an objective is given twice: keep one of them.")
    limits: list[Limit] = []
    for text in tune.where:
        with input_errors(end="."):
            limits.append(parse_limit(text))
        if is_certificate(limits[-1].metric):
            limits[-1] = screening_limit(proof_limit(resolved, limits[-1]))
            continue
        _check_metric(resolved, f"the limit {text!r} names", limits[-1].metric)
    if tune.prefer is not None:
        _check_metric(resolved, "prefer names", tune.prefer)
    confidence = _confidence(tune)
    if confidence != BY_VALUE and limits and resolved.job.evaluate.draws == 0:
        raise InputError(
            "the chance of keeping a limit needs evaluate.draws above 0: or set tune.confidence to "
            "0.5, where the value decides."
        )
    with input_errors(end="."):
        check_limits(limits)
    aim = Aim(tuple(objectives), tuple(limits), confidence, resolved.job.evaluate.level)
    if alternative is not None:
        return provisional(aim, alternative)
    return aim


def _proofs(resolved: ResolvedJob, alternative: Alternative | None) -> list[Limit]:
    """Return the limits on proved certificates."""
    proofs = []
    for text in resolved.job.tune.where:
        limit = parse_limit(text)
        if is_certificate(limit.metric):
            proofs.append(proof_limit(resolved, limit))
    if proofs and alternative is not None:
        raise InputError(f"a search for alternatives has no limit such as '{proofs[0]}'.")
    return proofs


def _check_alternative(
    resolved: ResolvedJob, objectives: Sequence[str], alternative: Alternative
) -> None:
    """Check the metrics of a search for alternatives."""
    if len(objectives) > 1:
        raise InputError("a search for alternatives has one objective: give --minimize once.")
    if "." not in objectives[0]:
        raise InputError(
            f"a search for alternatives makes a disparity smaller, and {objectives[0]} is none: "
            "give a metric of groups or copies, and what must stay as good by --no-worse."
        )
    if resolved.contract.label.classes:
        raise InputError("a search for alternatives is for labels of two values.")
    _check_metric(resolved, "minimize names", objectives[0])
    for item in alternative.no_worse:
        _check_metric(resolved, "no_worse names", item.metric)


def _confidence(tune: Tune) -> float | None:
    """Return the confidence that was asked for, also by its old spelling."""
    if tune.bound is None:
        return tune.confidence
    if tune.confidence is not None:
        raise InputError(
            f"bound {tune.bound!r} is the old spelling of confidence, and confidence is "
            f"{tune.confidence:g}: leave bound out."
        )
    return CONFIDENCE_OF_BOUND[tune.bound]


def old_spellings(tune: Tune) -> list[str]:
    """Return a note for each key of the job that has a new name."""
    if tune.bound is None:
        return []
    confidence = CONFIDENCE_OF_BOUND[tune.bound]
    meaning = "the default"
    if confidence is not None:
        meaning = f"--confidence {confidence:g}"
    return [f"bound {tune.bound!r} is an old spelling, and read as {meaning}"]


def _check_objectives(resolved: ResolvedJob, key: str, names: Sequence[str], way: str) -> None:
    """Check that the job has each metric of a key, and that it is better in this direction."""
    for name in names:
        _check_metric(resolved, f"{key} names", name)
        if better(name) != way:
            raise InputError(f"{key} {name}: of this metric {better(name)} is better.")


def _check_metric(resolved: ResolvedJob, where: str, name: str) -> None:
    not_searched = (*UNCONTROLLED, "certificate.")
    if name.startswith(not_searched):
        raise InputError(
            f"{where} {name!r}, which is not measured in a search: use a gate of the job."
        )
    sensitive = [column.name for column in resolved.contract.sensitive]
    if name in group_metrics() and sensitive:
        raise InputError(
            f"{where} {name!r}, which compares groups: name the column, such as "
            f"'{name}.{sensitive[0]}'."
        )
    if not resolved.may_have(name):
        searched = [item for item in resolved.known_metrics if not item.startswith(not_searched)]
        raise InputError(
            f"{where} {name!r}, no metric of this job{resolved.close_to(name)}; there are "
            f"{listed_metrics(searched)}."
        )
    with input_errors(f"{where} {name!r}: ", end="."):
        better(name)


def _variants(resolved: ResolvedJob, aim: Aim, proofs: Sequence[Limit]) -> dict[str, ResolvedJob]:
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


def _space(resolved: ResolvedJob, variant: ResolvedJob) -> spaces.Space:
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
    is_short = _seconds_of(job.tune) < METRIC_SECONDS
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
        resolve(_leaving_out(job, names), variant.folder)
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
            job = _leaving_out(job, value)
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


def plan_of_rows(plan: TunePlan, rows: int) -> Plan:
    """Return the plan of the search for so many training rows.

    The models before the search are the controls, the job as it is, and each method's defaults; the
    quick ones first, as the time may end with any of them.
    """
    job_method = plan.resolved.method
    job = plan.resolved.job
    controls = [Candidate(name) for name in ("majority", "plain", "blind")]
    as_it_is: list[Candidate] = []
    is_champion = plan.alternative is not None
    if METHODS[job_method].plain != job_method or job.decision.equal is not None or is_champion:
        as_it_is = [Candidate(JOB)]
    defaults = [_default(method, space) for method, space in plan.methods.items()]
    quick = [item for item in defaults if item.method in QUICK_METHODS]
    slow = [item for item in defaults if item.method not in QUICK_METHODS]
    without_columns = _without_columns(quick, plan.methods)
    # the learners without mitigation, with thresholds by group: the surest answer within limits
    quick.sort(key=lambda item: METHODS[item.method or job_method].plain != item.method)
    if rows < LARGE_TABLE:
        quick += _cautious(quick, plan.methods)
    quick += without_columns
    if job_method in QUICK_METHODS:
        fixed = [*controls, *as_it_is, *quick, *slow]
    else:
        fixed = [*controls, *quick, *as_it_is, *slow]
    if math.isfinite(min(plan.seconds, plan.cpu_seconds)) and quick:
        # the first answer: it has all rules of decisions, and the controls only the job's
        first = quick[:1]
        if any(limit.metric in PERFORMANCE for limit in plan.aim.limits):
            # by both it is soon known whether a limit on performance is out of reach
            first = [item for item in quick if item.method in FIRST_METHODS][:2] or first
        fixed = [*first, *(item for item in fixed if item not in first)]
    if is_champion:
        fixed.remove(as_it_is[0])
        fixed.insert(0, as_it_is[0])
    return Plan(
        plan.aim,
        plan.methods,
        plan.rules,
        fixed,
        job.seed,
        parts_of(rows),
        plan.tune.sampler,
        is_champion,
        first_part_of(rows),
    )


def _default(method: str, space: spaces.Space) -> Candidate:
    """Return the candidate with the defaults of a method's space."""
    return Candidate(DEFAULT, method, {key: item.default for key, item in space.items()})


def _without_columns(
    defaults: Sequence[Candidate], methods: Mapping[str, spaces.Space]
) -> list[Candidate]:
    """Return the candidates of learners without mitigation without each set of columns that their
    method may leave out.
    """
    candidates = []
    for candidate in defaults:
        method = candidate.method or ""
        if METHODS[method].plain == method:
            for columns in _left_out_sets(methods[method]):
                arguments = {**candidate.arguments, LEAVE_OUT: columns}
                candidates.append(Candidate(DEFAULT, method, arguments))
    return candidates


def _cautious(
    defaults: Sequence[Candidate], methods: Mapping[str, spaces.Space]
) -> list[Candidate]:
    """Return the candidates of learners without mitigation with the parameters against overfitting
    that are worth trying on a small table, where the space has them.
    """
    candidates = []
    for candidate in defaults:
        method = candidate.method or ""
        space = methods[method]
        changed = method_class(method).cautious
        is_plain = METHODS[method].plain == method
        if not is_plain or not changed:
            continue
        if all(key in space and space[key].holds(value) for key, value in changed.items()):
            arguments = {**candidate.arguments, **changed}
            candidates.append(Candidate(DEFAULT, method, arguments))
    return candidates


def parts_of(rows: int) -> list[int]:
    """Return by what the training rows are divided before models are judged on all of them.

    The last part is a third, and each is a third of the next one, as long as it has about
    ``SMALLEST_PART`` rows; a small table is not divided.
    """
    parts: list[int] = []
    divisor = FIRST_PART
    while rows >= LARGE_TABLE and (not parts or rows / divisor >= SMALLEST_PART):
        parts.insert(0, divisor)
        divisor *= FIRST_PART
    return parts


def first_part_of(rows: int) -> int:
    """Return by what the training rows are divided for the very first look at a model: on a busy
    machine it is the only one.
    """
    divisor = FIRST_PART
    while rows / (FIRST_PART * divisor) >= FIRST_ROWS:
        divisor *= FIRST_PART
    return divisor


def _left_out_sets(space: spaces.Space) -> list[Sequence[str]]:
    """Return the sets of columns that a method may leave out; without the empty one."""
    dimension = space.get(LEAVE_OUT)
    if not isinstance(dimension, spaces.Choice):
        return []
    return [columns for columns in dimension.values if columns]


def compiling_seconds(methods: Iterable[str]) -> dict[str, float]:
    """Return how much longer the first model of a method takes, where its kernels are not compiled
    yet.
    """
    fairlib = Path(__file__).resolve().parents[1] / "fairlib"
    seconds = {}
    for method in methods:
        if method not in COMPILED:
            continue
        default = fairlib / COMPILED[method] / "__pycache__"
        folder = Path(os.environ.get("NUMBA_CACHE_DIR") or default)
        if not any(folder.rglob("_kernels.*.nbi")):
            seconds[method] = COMPILING_S
    return seconds


# the tuned job


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
    return _leaving_out(job.model_copy(update=changes), leave_out)


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
