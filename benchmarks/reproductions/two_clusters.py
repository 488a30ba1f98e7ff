"""The synthetic example of appendix C.1 (Vargo et al. 2021): ``python -m benchmarks.reproductions.two_clusters``.

Two clusters of people whose labels follow opposite diagonals. The horizontal feature is protected:
the fair distance is the vertical distance. Written to ``docs/two-clusters.svg``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.common import DOCS, picture
from benchmarks.page_generators.surface_plots import decision_surfaces
from evenhand.fairlib.distances import SensitiveSubspace
from evenhand.fairlib.methods.budro import BudroClassifier
from evenhand.fairlib.methods.gbdt import GBDTClassifier
from evenhand.fairlib.numerics import logistic_losses
from evenhand.fairlib.transport.dual import DualSolver
from evenhand.fairlib.transport.problem import TransportPlan, TransportProblem

Float = NDArray[np.float64]
Int = NDArray[np.int64]

SEED = 0
PEOPLE, MAJORITY, SHIFT = 150, 125, 2.0
BUDGET, STEPS, RATE = 0.005, 200, 0.02
COLUMNS, ROWS = 72, 46


@dataclass(frozen=True)
class Example:
    """The people and the models trained on them."""

    X: Float
    y: Int
    majority: NDArray[np.bool_]
    plain: GBDTClassifier
    fair: BudroClassifier
    plan: TransportPlan


def people(seed: int = SEED) -> tuple[Float, Int, NDArray[np.bool_]]:
    """Features, labels, and whether a person belongs to the majority.

    All features have one normal distribution. The diagonal of the bounding rectangle that rises
    labels the majority, the one that falls labels the others; only then the two move apart.
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(PEOPLE, 2))
    majority = np.zeros(PEOPLE, dtype=bool)
    majority[rng.choice(PEOPLE, MAJORITY, replace=False)] = True
    low, high = X.min(axis=0), X.max(axis=0)
    across, up = ((X - low) / (high - low)).T
    y = np.where(majority, up > across, up > 1.0 - across).astype(np.int64)
    X[:, 0] += np.where(majority, -SHIFT, SHIFT)
    return X, y, majority


def example() -> Example:
    """Both models, and the adversarial rows of BuDRO's last step."""
    X, y, majority = people()
    metric = SensitiveSubspace(indicators=[0]).fit(X)
    fair = BudroClassifier(
        metric,
        perturbation_budget=BUDGET,
        n_steps=STEPS,
        max_depth=4,
        eta=RATE,
        reg_lambda=0.01,
        min_child_weight=1.25 / PEOPLE,
        balance_classes=False,
        base_score=0.5,
        n_iter_no_change=None,
        random_state=SEED,
    ).fit(X, y)
    plain = fair.plain(PEOPLE).fit(X, y)
    # trees are the plain one and one for each step: without the last, the model that the last step
    # saw
    margin = fair.booster_[:STEPS].inplace_predict(X.astype(np.float32), predict_type="margin")
    solver = DualSolver(TransportProblem(metric.project(X), y, BUDGET), seed=SEED)
    return Example(X, y, majority, plain, fair, solver.solve(logistic_losses(margin)))


def main() -> None:
    """Write the picture."""
    (DOCS / "two-clusters.svg").write_text(draw(example()))


def draw(found: Example) -> str:
    """Three panels: plain boosting, BuDRO, and BuDRO with the arrows of its last adversary."""
    low, high = found.X.min(axis=0) - 0.3, found.X.max(axis=0) + 0.3
    ends = {"x": (float(low[0]), float(high[0])), "y": (float(low[1]), float(high[1]))}
    people = {**ends, "points": found.X, "labels": found.y}
    panels, shares = [], []
    for title, model in (("Plain boosting", found.plain), ("BuDRO", found.fair)):
        shares.append(changing(model.predict, found.X, low[0], high[0]))
        right = float((model.predict(found.X) == found.y).mean())
        notes = [
            f"Right for {right:.0%} of the people.",
            f"Moving x₁ can change {shares[-1]:.0%} of the predictions.",
        ]
        panels.append({"title": title, "notes": notes, "grid": surface(model, **ends), **people})
    moved = int((found.plan.target != np.arange(PEOPLE)).sum())
    notes = [
        f"{moved} of {PEOPLE} are treated as somebody else.",
        f"Mean squared difference in x₂: {found.plan.spent:.3g}.",
    ]
    adversary = {
        "title": "BuDRO: who is treated as whom",
        "notes": notes,
        "targets": found.plan.target,
    }
    panels.append({**panels[1], **adversary})
    return picture(
        decision_surfaces(panels, x_title="x₁ (protected)", y_title="x₂", width=1060),
        "Plain boosting and BuDRO on two clusters",
        f"{MAJORITY} people on the left and {PEOPLE - MAJORITY} on the right, over the protected "
        "feature x1 "
        "and the feature x2. Shades are the probability of label 1, the line is the border between "
        "the "
        "predictions. Plain boosting asks for more of x2 where x1 is high. The threshold of BuDRO "
        "is "
        "nearly level. Arrows in the third panel go from people to the comparable others that they "
        "are "
        "treated as; they are nearly level too. Moving x1 alone can change the prediction for "
        f"{shares[0]:.0%} of the people "
        f"with plain boosting and for {shares[1]:.0%} with BuDRO.",
    )


def changing(predict: Callable[[Float], Any], X: Float, low: float, high: float) -> float:
    """Share of people whose prediction depends on the protected feature."""
    values = np.linspace(low, high, 10 * COLUMNS)
    copies = np.stack([np.repeat(values, len(X)), np.tile(X[:, 1], len(values))], axis=1)
    answers = np.asarray(predict(copies)).reshape(len(values), len(X))
    return float((answers != answers[0]).any(axis=0).mean())


def surface(model: Any, x: tuple[float, float], y: tuple[float, float]) -> Float:
    """Probability of label 1 at the middle of every cell, from the lowest row up."""
    across = x[0] + (np.arange(COLUMNS) + 0.5) / COLUMNS * (x[1] - x[0])
    up = y[0] + (np.arange(ROWS) + 0.5) / ROWS * (y[1] - y[0])
    points = np.stack([np.tile(across, ROWS), np.repeat(up, COLUMNS)], axis=1)
    grid: Float = model.predict_proba(points)[:, 1].reshape(ROWS, COLUMNS)
    return grid


if __name__ == "__main__":
    main()
