"""Default gradient-boosted trees beside scikit-learn's histogram boosting, on tables of different
kinds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.datasets import make_classification, make_hastie_10_2, make_moons
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import log_loss, roc_auc_score

from benchmarks.common import log, provenance, write_result
from evenhand.fairlib.datasets.generated import make_hiring, make_loans
from evenhand.fairlib.methods.gbdt import GBDTClassifier

COMMAND = "python -m benchmarks.studies.default_trees"
SEEDS = (0, 1)
TEST_ROWS = 20_000
LEVELS = (40, 30, 12)
Rows = tuple[NDArray[Any], NDArray[Any]]
Draw = Callable[[int, np.random.Generator], Rows]


def _labels(rng: np.random.Generator, score: NDArray[Any]) -> NDArray[np.int64]:
    return (rng.random(len(score)) < expit(score)).astype(np.int64)


def linear(n: int, rng: np.random.Generator) -> Rows:
    """Ten normal features with falling coefficients."""
    X = rng.standard_normal((n, 10))
    return X, _labels(rng, X @ np.linspace(0.8, 0.08, 10))


def interactions(n: int, rng: np.random.Generator) -> Rows:
    """Products and a sine."""
    X = rng.standard_normal((n, 8))
    return X, _labels(rng, 2 * X[:, 0] * X[:, 1] + np.sin(3 * X[:, 2]) + (X[:, 3] > 0) * X[:, 4])


def noise(n: int, rng: np.random.Generator) -> Rows:
    """A weak signal among twenty features."""
    X = rng.standard_normal((n, 20))
    return X, _labels(rng, 0.35 * X[:, 0] + 0.3 * np.abs(X[:, 1]) - 0.25 * X[:, 2] * X[:, 3])


def categories(n: int, rng: np.random.Generator) -> Rows:
    """Three categorical columns of many levels, one-hot, and four skewed numbers."""
    effects = np.random.default_rng(5)
    codes = [rng.integers(0, level, n) for level in LEVELS]
    score = np.sum(
        [effects.normal(0, 0.7, len_)[code] for len_, code in zip(LEVELS, codes, strict=True)], 0
    )
    numbers = rng.gamma(2.0, 1.0, (n, 4))
    onehot = [np.eye(level)[code] for level, code in zip(LEVELS, codes, strict=True)]
    return np.concatenate([*onehot, numbers], 1), _labels(
        rng, score + 0.5 * np.log1p(numbers[:, 0]) - 0.3 * numbers[:, 1]
    )


def shifted(intercept: float) -> Draw:
    """Unequal classes, by the intercept."""

    def draw(n: int, rng: np.random.Generator) -> Rows:
        X = rng.standard_normal((n, 12))
        score = X[:, 0] + 0.8 * X[:, 1] + 0.7 * X[:, 2] * (X[:, 3] > 0)
        return X, _labels(rng, intercept + score)

    return draw


def informative(n: int, rng: np.random.Generator) -> Rows:
    """scikit-learn's clusters, four of each class."""
    X, y = make_classification(
        n,
        25,
        n_informative=8,
        n_redundant=5,
        n_clusters_per_class=4,
        flip_y=0.08,
        class_sep=0.8,
        random_state=1,
    )
    order = rng.permutation(n)
    return X[order], y[order]


def hastie(n: int, rng: np.random.Generator) -> Rows:
    """scikit-learn's sum of ten squares."""
    X, y = make_hastie_10_2(n, random_state=int(rng.integers(2**31)))
    return X, (y > 0).astype(np.int64)


def moons(n: int, rng: np.random.Generator) -> Rows:
    """scikit-learn's two moons, with six features of noise."""
    X, y = make_moons(n, noise=0.35, random_state=int(rng.integers(2**31)))
    return np.concatenate([X, rng.standard_normal((n, 6))], axis=1), y


def _encoded(frame: Any, label: str) -> Rows:
    import pandas as pd

    return pd.get_dummies(frame.drop(columns=label), dtype=float).to_numpy(), frame[
        label
    ].to_numpy()


def hiring(n: int, rng: np.random.Generator) -> Rows:
    """The generated table of hiring decisions."""
    return _encoded(make_hiring(n, seed=int(rng.integers(2**31))), "hired")


def loans(n: int, rng: np.random.Generator) -> Rows:
    """The generated table of loans."""
    return _encoded(make_loans(n, seed=int(rng.integers(2**31))), "repaid")


TABLES: dict[str, tuple[Draw, int]] = {
    "linear": (linear, 20_000),
    "linear, 300 rows": (linear, 300),
    "interactions": (interactions, 20_000),
    "interactions, 1,000 rows": (interactions, 1000),
    "weak signal": (noise, 25_000),
    "weak signal, 1,500 rows": (noise, 1500),
    "many categories": (categories, 20_000),
    "2 % positive": (shifted(-5.1), 20_000),
    "2 % positive, 3,000 rows": (shifted(-5.1), 3000),
    "90 % positive": (shifted(3.2), 8000),
    "clusters": (informative, 8000),
    "ten squares": (hastie, 6000),
    "moons": (moons, 2000),
    "hiring": (hiring, 8000),
    "loans": (loans, 20_000),
}


def measure(draw: Draw, rows: int, seed: int) -> dict[str, float]:
    """AUC and log loss of both defaults on test rows of one draw, and the seconds of their
    training.
    """
    X, y = draw(rows + TEST_ROWS, np.random.default_rng([seed, rows]))
    found: dict[str, float] = {}
    models = {
        "ours": GBDTClassifier(random_state=seed),
        "theirs": HistGradientBoostingClassifier(random_state=seed),
    }
    for name, model in models.items():
        started = time.perf_counter()
        model.fit(X[:rows], y[:rows])
        found[f"{name}.seconds"] = time.perf_counter() - started
        positive = model.predict_proba(X[rows:])[:, 1]
        found[f"{name}.auc"] = float(roc_auc_score(y[rows:], positive))
        found[f"{name}.log_loss"] = float(log_loss(y[rows:], positive))
    return found


def main() -> None:
    """Write ``results/default_trees.json``."""
    tables: dict[str, Any] = {}
    for name, (draw, rows) in TABLES.items():
        runs = [measure(draw, rows, seed) for seed in SEEDS]
        differences = [run["ours.auc"] - run["theirs.auc"] for run in runs]
        losses = [run["ours.log_loss"] - run["theirs.log_loss"] for run in runs]
        tables[name] = {
            "rows": rows,
            "runs": runs,
            "auc_difference": differences,
            "log_loss_difference": losses,
        }
        log(f"{name:26} AUC {np.mean(differences):+.4f}  log loss {np.mean(losses):+.4f}")
    write_result("default_trees", {**provenance(COMMAND), "tables": tables})


if __name__ == "__main__":
    main()
