"""Relaxed thresholds by group on tuned boosted trees: "unprocessing" (Cruz and Hardt, ICLR
2024).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from error_parity import RelaxedThresholdOptimizer
from lightgbm import LGBMClassifier
from xgboost import XGBClassifier

from benchmarks.peers.exchange import (
    LIMITS,
    Decide,
    Rows,
    Settings,
    balanced_costs,
    lightgbm_settings,
    remembered,
    run,
    scored,
    threads,
    xgboost_settings,
)

CONSTRAINTS = ("true_positive_rate_parity", "equalized_odds", "demographic_parity")


def draw(rng: np.random.Generator) -> Settings:
    """Draw a library and its parameters."""
    library = str(rng.choice(["lightgbm", "xgboost"]))
    return {"library": library} | (
        lightgbm_settings if library == "lightgbm" else xgboost_settings
    )(rng)


def train(settings: Settings, fit: Rows, held: Rows) -> Iterator[tuple[Settings, Decide]]:
    """Train one model; one threshold for all, and thresholds by group for each constraint and
    tolerance.
    """
    given = {key: value for key, value in settings.items() if key != "library"}
    model: Any
    if settings["library"] == "lightgbm":
        model = LGBMClassifier(n_jobs=threads(), verbose=-1, **given)
    else:
        model = XGBClassifier(n_jobs=threads(), tree_method="hist", **given)
    model.fit(fit.X, fit.y)

    score = remembered(lambda X: model.predict_proba(X)[:, 1])
    yield {"constraint": None}, scored(score, held)
    for constraint in CONSTRAINTS:
        for tolerance in LIMITS:
            rule = {"constraint": constraint, "tolerance": tolerance}
            yield rule, relaxed(rule, score, held)


def relaxed(rule: Settings, score: Callable[[Any], Any], held: Rows) -> Decide:
    """Choose thresholds by group, some of them random.

    A fitted rule continues its random numbers from call to call. Rows and their copies must get the
    same numbers, or a copy would be decided otherwise by chance, so every call is made by a new
    copy of the rule.
    """
    costs, on_held = balanced_costs(held.y), score(held.X)
    optimizer = RelaxedThresholdOptimizer(
        predictor=lambda scores: scores,
        **rule,
        false_pos_cost=costs["fp"],
        false_neg_cost=costs["fn"],
        seed=0,
    )
    optimizer.fit(on_held, held.y, group=held.group, y_scores=on_held)
    return lambda X, group: copy.deepcopy(optimizer).predict(score(X), group=group)


if __name__ == "__main__":
    run(draw, train)
