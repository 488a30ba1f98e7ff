"""What `evenhand tune` searches: a job's key `tune` checked against the job, and the job of the
winner.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenhand.fairlib.catalogue import better, group_metrics
from evenhand.fairlib.evaluation.gates import CONTROLS as GATE_CONTROLS
from evenhand.fairlib.tuning import space as spaces
from evenhand.fairlib.tuning.study import (
    BY_VALUE,
    Aim,
    Limit,
    Trial,
    check_limits,
    parse_limit,
)
from evenhand.flows.job import (
    Job,
    Tune,
)
from evenhand.flows.job_file import job_path, load_job
from evenhand.flows.resolved_job import UNCONTROLLED, ResolvedJob, resolve
from evenhand.flows.tune_alternatives import (
    Alternative,
    objectives_of,
    provisional,
    with_champion,
)
from evenhand.flows.tune_first_models import LARGE_TABLE
from evenhand.flows.tune_job import tuned_job
from evenhand.flows.tune_proofs import (
    is_certificate,
    is_screening,
    proof_limit,
    screening_limit,
)
from evenhand.flows.tune_rules import (
    CRITERIA,
    has_fixed_decision,
    rules_of,
)
from evenhand.flows.tune_space import space_of, variants_of
from evenhand.flows.workers import check_engine
from evenhand.tasks.errors import InputError, input_errors
from evenhand.tasks.evaluating.control_names import SIMPLE_MITIGATIONS
from evenhand.tasks.tuning.trial_search import JOB, Candidate, Rule
from evenhand.tasks.written_input import listed_metrics

FOLDS = 5
FEW_FOLDS = 3
# The confidence that an old `bound` is read as; `auto` is the default.
CONFIDENCE_OF_BOUND = {"auto": None, "point": 0.5, "interval": 0.8, "prediction": 0.975}


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
        return self.tune.wall_seconds

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
        variants = variants_of(resolved, aim, proofs)
        methods = {method: space_of(resolved, variants[method]) for method in variants}
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
