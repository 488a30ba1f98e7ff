"""The synthetic example of figures 1 and 3 (Yurochkin and Sun 2021).

Run ``python -m benchmarks.reproductions.decision_surfaces``.

The fair distance is the vertical distance, but labels depend on the horizontal feature too.
Written to ``docs/decision-surfaces-sensei.svg`` and ``docs/decision-surfaces-sensr.svg``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.common import DOCS, picture
from benchmarks.page_generators.surface_plots import decision_surfaces
from benchmarks.reproductions.two_clusters import changing, surface
from evenhand.fairlib.distances import SensitiveSubspace
from evenhand.fairlib.methods.method_base import Method
from evenhand.fairlib.methods.networks import SenSeIClassifier, SenSRClassifier

Float = NDArray[np.float64]
Int = NDArray[np.int64]

SEED = 0
PEOPLE, NOISE = 200, 0.3
WEIGHTS, BUDGETS = (0.0, 0.3, 1.0, 30.0), (0.0, 0.001, 0.01, 0.1)
TRAINING: dict[str, Any] = {
    "hidden": (50,),
    "n_steps": 1500,
    "learning_rate": 2e-3,
    "random_state": SEED,
}
# A training this short meets SenSeI's budget only with a large multiplier rate.
SENSEI: dict[str, Any] = {"multiplier_rate": 5.0, "perturbation_budget": 0.001}
EDGE = 1.0
SQUARE = {"x": (-EDGE, EDGE), "y": (-EDGE, EDGE)}


@dataclass(frozen=True)
class Panel:
    """A trained network and its caption."""

    title: str
    model: Any


def people(seed: int = SEED) -> tuple[Float, Int]:
    """Features, uniform on a square, and labels: 1 above a falling diagonal, with some noise."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-EDGE, EDGE, size=(PEOPLE, 2))
    y = (X.sum(axis=1) + NOISE * rng.normal(size=PEOPLE) > 0).astype(np.int64)
    return X, y


def sensei(X: Float, y: Int, weights: Sequence[float] = WEIGHTS) -> list[Panel]:
    """SenSeI for each weight of invariance."""
    metric = SensitiveSubspace(indicators=[0]).fit(X)
    return [
        Panel(
            f"ρ = {rho:g}",
            SenSeIClassifier(metric, rho=rho, **SENSEI, **TRAINING).fit(X, y),
        )
        for rho in weights
    ]


def sensr(X: Float, y: Int) -> list[Panel]:
    """SenSR for each budget."""
    metric = SensitiveSubspace(indicators=[0]).fit(X)
    return [
        Panel(
            f"ε = {budget:g}",
            SenSRClassifier(metric, perturbation_budget=budget, **TRAINING).fit(X, y),
        )
        for budget in BUDGETS
    ]


def main() -> None:
    """Write both pictures."""
    X, y = people()
    (DOCS / "decision-surfaces-sensei.svg").write_text(draw("SenSeI", sensei(X, y), X, y))
    (DOCS / "decision-surfaces-sensr.svg").write_text(draw("SenSR", sensr(X, y), X, y))


def sideways(model: Method, cells: int = 40) -> float:
    r"""Share of the logit's variation over the square that lies along the protected feature.

    .. math:: E[Var(s | x_2)] / Var(s), \qquad s = h_1(x) - h_0(x)

    Returns
    -------
    float
        0 where all contours are level, 1 where they are upright; 0.5 for a straight diagonal.
    """
    middles = (np.arange(cells) + 0.5) / cells * 2 * EDGE - EDGE
    points = np.stack([np.tile(middles, cells), np.repeat(middles, cells)], axis=1)
    probability = model.predict_proba(points).astype(np.float64)
    logit = (np.log(probability[:, 1]) - np.log(probability[:, 0])).reshape(cells, cells)
    return float(logit.var(axis=1).mean() / logit.var())


def draw(name: str, panels: Sequence[Panel], X: Float, y: Int) -> str:
    """The panels side by side, each with its people."""
    drawn, moved = [], []
    for panel in panels:
        moved.append(changing(panel.model.predict, X, -EDGE, EDGE))
        right = float((panel.model.predict(X) == y).mean())
        notes = [
            f"Right for {right:.0%} of the people.",
            f"x₁ can change {moved[-1]:.0%} of predictions.",
        ]
        grid = surface(panel.model, *SQUARE.values())
        drawn.append(
            {"title": panel.title, "notes": notes, "grid": grid, "points": X, "labels": y, **SQUARE}
        )
    shares = ", ".join(
        f"{share:.0%} at {panel.title}" for share, panel in zip(moved, panels, strict=True)
    )
    return picture(
        decision_surfaces(drawn, x_title="x₁ (protected)", y_title="x₂", width=1040),
        f"Decision surfaces of {name}",
        f"{len(X)} people over the protected feature x1 and the feature x2. Label 1 is more "
        "frequent where "
        "either is high. Shades are the probability of label 1, the line is the border between the "
        f"predictions. Moving x1 alone changes the prediction for {shares}.",
    )


if __name__ == "__main__":
    main()
