"""Models that a search for alternatives keeps for cases: some of those that are as good as the
published one, drawn at random.
"""

from __future__ import annotations

import inspect
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evenhand.fairlib.execution import generator
from evenhand.fairlib.methods.registry import METHODS, method_class
from evenhand.fairlib.tuning.budget import Budget
from evenhand.fairlib.tuning.study import Trial
from evenhand.flows import classifier_jobs as classifier
from evenhand.flows.engine import Steps
from evenhand.flows.resolved_job import ResolvedJob
from evenhand.tasks.errors import InputError, disk_is_full
from evenhand.tasks.tuning.trial_search import RANDOM, SEARCH

if TYPE_CHECKING:
    from evenhand.flows.tune_alternatives import Alternative
    from evenhand.flows.tune_ending import Ending
    from evenhand.flows.tune_plan import TunePlan
    from evenhand.tasks.cases.equally_good import ModelFiles

# Models that are kept at most: so many bound a share within some 20 points.
MOST_KEPT = 20
# Time for them: training on all rows and choosing thresholds out of fold takes so many times as
# long as a judgement; of the whole time at most a part.
KEEPING_OF_CHOSEN = 1.5
MOST_OF_THE_TIME = 0.1
# A search without a limit of time takes so long for them at least.
LEAST_S = 10.0
# Steps of the search that these models share: all read the same rows of the same table.
SHARED = ("ingest", "contract", "preprocess")


def keeps_models(alternative: Alternative | None) -> bool:
    """Whether an alternative to a published version is searched, about which cases are made."""
    model = alternative.model if alternative is not None else None
    return model is not None and model["version"] is not None


def keeping_seconds(alternative: Alternative | None, chosen: Trial | None, budget: Budget) -> float:
    """Return how many seconds of a search are kept for training these models."""
    if chosen is None or not keeps_models(alternative):
        return 0.0
    most_s = MOST_OF_THE_TIME * min(budget.seconds, budget.cpu_seconds / budget.share)
    return min(KEEPING_OF_CHOSEN * MOST_KEPT * chosen.seconds, most_s)


def time_for_keeping(budget: Budget) -> Callable[[], bool]:
    """Return what says whether the time for these models is over: that of the command, or without a
    limit a part of what the search took.
    """
    if budget.is_limited:
        return lambda: budget.search_left <= 0
    end = time.monotonic() + max(LEAST_S, MOST_OF_THE_TIME * budget.spent)
    return lambda: time.monotonic() >= end


def different_settings(
    plan: TunePlan, champion: Trial, good: Sequence[Trial], rows: int
) -> list[Trial]:
    """Return the settings that are as good, each once, without the champion's own.

    What the search itself drew is compared by its parts; by the jobs that they are, the models
    before it, as the defaults of a method may be the champion or a control, and those with the
    champion's arguments. `rows` is the number of training rows.
    """
    by_key: dict[str, Trial] = {}
    for trial in good:
        by_key.setdefault(_key(trial), trial)
    champion_job = plan.tuned(champion, rows)
    seen = {_signature(champion_job)}
    different = []
    for trial in by_key.values():
        if trial.kind not in (SEARCH, RANDOM) or _has_arguments_of(champion_job, trial):
            try:
                signature = _signature(plan.tuned(trial, rows))
            except InputError:
                # no job that runs, so no copy of one that does
                signature = _key(trial)
            if signature in seen:
                continue
            seen.add(signature)
        different.append(trial)
    return different


def drawn_jobs(
    plan: TunePlan, champion: Trial, good: Sequence[Trial], rows: int
) -> Iterator[tuple[Trial, ResolvedJob | None]]:
    """Yield the settings that are as good with their jobs, in random order: each model once, and no
    copy of the champion. A setting that is no job that runs has none.

    `rows` is the number of training rows.
    """
    # before the order is drawn: a setting that the search proposed often is not likelier
    different = {_key(trial): trial for trial in good}
    settings = list(different.values())
    seen = {_signature(plan.tuned(champion, rows))}
    order = generator(plan.resolved.job.seed, "kept").permutation(len(settings))
    for place in order.tolist():
        try:
            resolved = plan.tuned(settings[place], rows)
        except InputError:
            yield settings[place], None
            continue
        # defaults that one setting names and another leaves out
        signature = _signature(resolved)
        if signature not in seen:
            seen.add(signature)
            yield settings[place], resolved


def _has_arguments_of(resolved: ResolvedJob, trial: Trial) -> bool:
    """Whether a trial has a job's method with the job's arguments, where it names any."""
    if trial.method != resolved.method:
        return False
    parameters = inspect.signature(method_class(resolved.method).__init__).parameters
    for name, value in trial.arguments.items():
        if name in parameters:
            own = resolved.arguments.get(name, parameters[name].default)
            if value != own:
                return False
    return True


def _key(trial: Trial) -> str:
    """What a setting is, by its own parts."""
    kind = trial.kind if trial.method is None else ""
    parts = [kind, trial.method, trial.arguments, trial.decision, trial.tolerance]
    return json.dumps([*parts, trial.calibration], sort_keys=True, default=str)


def _signature(resolved: ResolvedJob) -> str:
    """What makes a job's model and decisions, on the rows that all settings share."""
    arguments = {}
    parameters = inspect.signature(method_class(resolved.method).__init__).parameters
    for name, parameter in parameters.items():
        if parameter.default is not inspect.Parameter.empty:
            arguments[name] = parameter.default
    job = resolved.job
    content: dict[str, Any] = {
        "method": resolved.method,
        "arguments": arguments | dict(resolved.arguments),
        "decision": job.decision.model_dump(exclude={"folds"}),
        "calibration": job.calibration,
        "columns": [column.name for column in resolved.contract.features],
    }
    if METHODS[resolved.method].needs_metric:
        content["metric"] = job.fair_metric.model_dump()
    return json.dumps(content, sort_keys=True, default=str)


@dataclass
class _Draw:
    """What became of the settings that were drawn."""

    drawn: int = 0
    models: int = 0
    is_exhausted: bool = True  # all there are were drawn
    failure: Exception | None = None  # why the last one without a model has none


def keep_models(
    plan: TunePlan,
    champion: Trial,
    good: Sequence[Trial],
    rows: int,
    steps: Steps,
    ending: Ending,
    is_over: Callable[[], bool],
) -> dict[str, Any] | None:
    """Train models of `good` on all training rows until the time `is_over`, and keep them in the
    store; return their digest, how many they are, and how many were drawn, or None without any.

    `steps` are those of the search, whose encoded rows they share; `rows` is the number of training
    rows. A setting that cannot be trained counts as drawn; where none can be, the last failure is
    raised. An interrupt is kept in `ending`.
    """
    # imported lazily: other searches do not need it
    from evenhand.tasks.cases.equally_good import keep

    if "tune_encoder" in steps.finished:
        # the encoder of sentences is a file of the run alone
        return None
    draw = _Draw()
    jobs = drawn_jobs(plan, champion, good, rows)
    digest = keep(steps.store, _models(jobs, draw, plan, steps, ending, is_over))
    if digest is None:
        if draw.failure is not None:
            raise draw.failure
        return None
    # how many different ones there are is known where all were drawn
    different = draw.drawn if draw.is_exhausted else None
    return {"models": draw.models, "drawn": draw.drawn, "of": different, "sha256": digest}


def _models(
    jobs: Iterator[tuple[Trial, ResolvedJob | None]],
    draw: _Draw,
    plan: TunePlan,
    steps: Steps,
    ending: Ending,
    is_over: Callable[[], bool],
) -> Iterator[ModelFiles]:
    """Train the models of jobs one after another, and yield those that could be."""
    for trial, resolved in jobs:
        if is_over() or ending.error is not None or draw.models == MOST_KEPT:
            draw.is_exhausted = False
            return
        draw.drawn += 1
        files = None
        with ending.kept():
            try:
                if resolved is not None:
                    files = _trained(trial, resolved, plan, steps)
            except Exception as error:
                # the others go on, unless nothing can be written any more
                if disk_is_full(error):
                    raise
                draw.failure = error
        if files is not None:
            draw.models += 1
            yield files


def _trained(trial: Trial, resolved: ResolvedJob, plan: TunePlan, steps: Steps) -> ModelFiles:
    """Train a trial's model on all training rows."""
    # imported lazily: other searches do not need it
    from evenhand.flows.run import encode_rows, facts_of_model
    from evenhand.tasks.cases.equally_good import ModelFiles

    shared = {name: steps.finished[name] for name in SHARED}
    own = Steps(steps.store, steps.engine, shared)
    if resolved.contract != plan.resolved.contract:
        # other columns, of the same rows
        encode_rows(resolved, own)
    model, proxy = classifier.train_without_controls(resolved, own)
    return ModelFiles(
        name=trial.number,
        model=own.store.fetch(model),
        encoder=own.store.fetch(own.output("preprocess", "encoder")),
        evaluation=facts_of_model(resolved, own, proxy),
        inputs=classifier.input_description(resolved, own),
    )
