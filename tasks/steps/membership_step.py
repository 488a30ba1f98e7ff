"""Membership: how well training rows, and sensitive attributes, can be inferred from a model's
outputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from evenhand.fairlib.evaluation import membership as attack
from evenhand.fairlib.execution import derive_seed, generator
from evenhand.fairlib.methods.registry import load_model
from evenhand.fairlib.preprocessing.leaks import MIN_ROWS, binned, told_groups
from evenhand.tasks.classifier_training import positive_probability
from evenhand.tasks.execution.dataset import Dataset, read_dataset
from evenhand.tasks.execution.step import StepContext, StepResult
from evenhand.tasks.steps.train_step import learner_of

# Bins of the scores by which a sensitive attribute is inferred.
SCORE_BINS = 16


def membership(context: StepContext) -> StepResult:
    """Write ``membership.json``: how well each attack does, and how well outputs predict sensitive
    groups.

    The attacked rows, the pool, are as many training rows as test rows, of each label as many. A
    shadow model is trained on a random half of the pool, and on all training rows outside of it. So
    it has as many rows as the attacked model, whose own half of the pool is one of those that could
    have been drawn; every row of the pool is in half of the shadow models. They have the job's
    arguments, encoder and fair metric, and seeds of their own, and are thrown away: nothing is kept
    of the test rows but these figures.

    Inputs and parameters are those of the step `train`, with the ``test`` rows, the ``model``
    before any calibration, the number of ``shadows``, and ``draws``, ``level`` and ``min_cell`` of
    the intervals.
    """
    parameters = context.parameters
    train, test = (read_dataset(context.inputs[name]) for name in ("train", "test"))
    data = train.with_rows_of(test)
    member = np.isin(data.rows, train.rows)
    rng = generator(parameters["seed"], "membership")
    shadows = parameters["shadows"]
    pool = attack.balanced_pool(data.y, member, rng)
    included = attack.random_halves(data.y[pool], shadows, rng)
    label = data.y[pool]
    outside = np.setdiff1d(np.flatnonzero(member), pool)
    learner = learner_of(context, data)
    shadow_confidences = []
    for number, chosen in enumerate(included):
        seed = derive_seed(parameters["seed"], "membership", str(number))
        rows = np.union1d(outside, pool[chosen])
        shadow = learner.changed(random_state=seed).fit(data, rows)
        shadow_confidences.append(
            attack.confidences(positive_probability(shadow, data.X[pool]), label)
        )
        context.progress(number + 1, shadows, {})
    model = load_model(context.inputs["model"])
    observed = attack.confidences(positive_probability(model, data.X[pool]), label)
    online, offline = attack.likelihood_ratios(observed, np.stack(shadow_confidences), included)
    settings = {key: parameters[key] for key in ("draws", "level", "min_cell", "seed")}
    content = {
        "shadows": shadows,
        "members": len(pool) // 2,
        "trained_on": len(train.y),
        "false_positive_rate": attack.FALSE_POSITIVE_RATE,
        "attacks": {
            name: attack.measure_attack(score, member[pool], **settings)
            for name, score in (("online", online), ("offline", offline), ("threshold", observed))
        },
        "attributes": inferred_attributes(
            test, positive_probability(model, test.X), parameters["min_cell"]
        ),
    }
    return StepResult(context.write_json("membership", content), {"warning": warning(content)})


def warning(content: Mapping[str, Any]) -> str | None:
    """Warn that training rows can be identified; None up to an AUC of ``WARNED_AUC``."""
    auc = attack.stronger_attack(content["attacks"])["auc"]
    if auc["value"] is None or auc["value"] <= attack.WARNED_AUC:
        return None
    message = (
        "whether a person is in the training table can be inferred from the model with an AUC of "
        f"{auc['value']:.3f}, above {attack.WARNED_AUC}"
    )
    if auc["low"] is not None and auc["low"] <= 0.5:
        message += " (the interval contains 0.5: it may be chance)"
    return f"{message}; fewer training steps, smaller trees or more regularisation lower it"


def inferred_attributes(data: Dataset, score: Any, min_cell: int) -> list[dict[str, Any]]:
    """How well the true label, the score, and both predict the groups of each sensitive attribute.

    Of each attribute and source the best-predicted group: the cross-validated AUC of the rows'
    bins of the source, and the group's share of rows. Groups of fewer than `min_cell` or twenty
    rows are left out.
    """
    bins = binned(np.asarray(score, dtype=np.float64), SCORE_BINS)
    codes = {"label": data.y, "score": bins, "both": 2 * bins + data.y}
    groups = {name: values.astype(str) for name, values in data.sensitive.items()}
    rows = []
    for name, predicted_groups in told_groups(codes, groups, max(MIN_ROWS, min_cell)).items():
        for predicted in predicted_groups:
            row = {
                "attribute": name,
                "source": predicted.name,
                "group": predicted.group,
                "auc": predicted.auc,
                "base_rate": float((groups[name] == predicted.group).mean()),
            }
            rows.append(row)
    return rows
