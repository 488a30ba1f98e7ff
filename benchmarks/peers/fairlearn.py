"""Fairlearn's ExponentiatedGradient and GridSearch over XGBoost (Agarwal et al., ICML 2018)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from fairlearn.reductions import (
    DemographicParity,
    EqualizedOdds,
    ErrorRate,
    ExponentiatedGradient,
    GridSearch,
    TruePositiveRateParity,
)
from numpy.typing import NDArray
from xgboost import XGBClassifier

from benchmarks.peers.exchange import (
    LIMITS,
    Decide,
    Rows,
    Settings,
    balanced_costs,
    run,
    scored,
    threads,
    xgboost_settings,
)

CONSTRAINTS = {
    "TruePositiveRateParity": TruePositiveRateParity,
    "EqualizedOdds": EqualizedOdds,
    "DemographicParity": DemographicParity,
}
GRID_SIZE = 10


def draw(rng: np.random.Generator) -> Settings:
    """Draw the reduction, the constraint with its bound, and the parameters of boosting."""
    return {
        "reduction": str(rng.choice(["ExponentiatedGradient", "GridSearch"])),
        "constraint": str(rng.choice(list(CONSTRAINTS))),
        "bound": float(rng.choice([0.005, 0.01, *LIMITS])),
        "max_iter": int(rng.choice([10, 50])),
        "booster": xgboost_settings(rng),
    }


def _probability(model: Any, X: NDArray[Any]) -> NDArray[Any]:
    """Probabilities of the favourable label."""
    return np.asarray(model.predict_proba(X)[:, 1])


def train(settings: Settings, fit: Rows, held: Rows) -> Iterator[tuple[Settings, Decide]]:
    """Train one reduction.

    ExponentiatedGradient decides itself, at random between its models, for the costs with which the
    error is 1 less the balanced accuracy. GridSearch gives several models; each is a candidate,
    with the balanced threshold.
    """
    booster = XGBClassifier(n_jobs=threads(), tree_method="hist", **settings["booster"])
    constraint = CONSTRAINTS[settings["constraint"]]
    if settings["reduction"] == "GridSearch":
        search = GridSearch(booster, constraint(), grid_size=GRID_SIZE)
        search.fit(fit.X, fit.y, sensitive_features=fit.group)
        for number, model in enumerate(search.predictors_):
            yield (
                {"model": number},
                scored(partial(_probability, model), held),
            )
        return
    bounded = constraint(difference_bound=settings["bound"])
    costs = ErrorRate(costs=balanced_costs(fit.y))
    reduction = ExponentiatedGradient(
        booster, bounded, objective=costs, max_iter=settings["max_iter"]
    )
    reduction.fit(fit.X, fit.y, sensitive_features=fit.group)
    # the same random numbers for a row and its copies: else a copy would be decided otherwise by
    # chance
    yield {}, lambda X, group: reduction.predict(X, random_state=0)


if __name__ == "__main__":
    run(draw, train)
