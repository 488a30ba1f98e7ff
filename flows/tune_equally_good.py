"""Models that a search for alternatives keeps for cases: some of those that are as good as the
published one, drawn at random.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from evenhand.fairlib.execution import generator
from evenhand.fairlib.tuning.budget import Budget
from evenhand.fairlib.tuning.study import Trial
from evenhand.flows import classifier_jobs as classifier
from evenhand.flows.engine import Engine, Steps
from evenhand.flows.run import facts_of_model, prepare
from evenhand.tasks.cases.equally_good import ModelFiles, keep
from evenhand.tasks.errors import InputError, OutOfTime
from evenhand.tasks.execution.store import Store

if TYPE_CHECKING:
    from evenhand.flows.tune_alternatives import Alternative
    from evenhand.flows.tune_plan import TunePlan

# Models that are kept at most: so many bound a share within some 20 points.
MOST_KEPT = 20
# Time for them: training on all rows and choosing thresholds out of fold takes so many times as
# long as a judgement; of the whole time at most a part.
KEEPING_OF_CHOSEN = 1.5
MOST_OF_THE_TIME = 0.1
# A search without a limit of time takes so long for them at least.
LEAST_S = 10.0


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


def most_seconds(budget: Budget) -> float:
    """Return for how many seconds these models are trained after a search; without an end where the
    command has a limit, which ends it.
    """
    if budget.is_limited:
        return math.inf
    return max(LEAST_S, MOST_OF_THE_TIME * budget.spent)


def drawn(good: Sequence[Trial], seed: int) -> list[Trial]:
    """Return the trials whose models are kept, drawn at random of those that are as good."""
    order = generator(seed, "kept").permutation(len(good))[:MOST_KEPT]
    return [good[place] for place in order.tolist()]


def keep_models(
    plan: TunePlan,
    good: Sequence[Trial],
    rows: int,
    engine: Engine,
    store: Store,
    *,
    seconds: float,
) -> dict[str, Any] | None:
    """Train models of `good` on all training rows, and keep them in the store; return their number
    and digest, or None without any.

    `rows` is the number of training rows. No further model is trained after so many `seconds`, or
    when the command's time is up. A setting that cannot be trained on all rows is passed over.
    """
    models: list[ModelFiles] = []
    end = time.monotonic() + seconds
    for trial in drawn(good, plan.resolved.job.seed):
        if time.monotonic() > end:
            break
        try:
            files = _trained(plan, trial, rows, engine, store)
        except OutOfTime:
            break
        except InputError:
            continue
        if files is not None:
            models.append(files)
    if not models:
        return None
    return {"models": len(models), "of": len(good), "sha256": keep(store, models)}


def _trained(
    plan: TunePlan, trial: Trial, rows: int, engine: Engine, store: Store
) -> ModelFiles | None:
    """Train a trial's model; None where its encoder of sentences is a file of the run alone."""
    resolved = plan.tuned(trial, rows)
    steps = Steps(store, engine)
    prepare(resolved, steps, with_profile=False)
    if "tune_encoder" in steps.finished:
        return None
    _, proxy = classifier.training_rows(resolved, steps)
    model = classifier.train_without_controls(resolved, steps)
    return ModelFiles(
        name=str(trial.number),
        model=store.fetch(model),
        encoder=store.fetch(steps.output("preprocess", "encoder")),
        evaluation=facts_of_model(resolved, steps, proxy),
        inputs=classifier.input_description(resolved, steps),
    )
