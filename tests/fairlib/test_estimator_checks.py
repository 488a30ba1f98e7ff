from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import _num_samples

from fairlib.distances import SensitiveSubspace
from fairlib.methods.budro import BudroClassifier
from fairlib.methods.gbdt import GBDTClassifier
from fairlib.methods.neural_network import NeuralNetworkClassifier
from fairlib.methods.projection import ProjectedGBDTClassifier
from fairlib.methods.reweighing import ReweighedGBDTClassifier


class _NothingToRemove:
    """A metric of any width: the checks fit one estimator on tables of several."""

    def project(self, X: np.ndarray) -> np.ndarray:
        return np.asarray(X, dtype=np.float64)


class ReweighedByTurns(ReweighedGBDTClassifier):
    """The checks know no `sensitive_features`: every other row is in the other group."""

    def fit(self, X: Any, y: Any, *, callback: Any = None) -> ReweighedByTurns:  # type: ignore[override]
        super().fit(X, y, sensitive_features={"turn": np.arange(_num_samples(X)) % 2}, callback=callback)
        return self


# Waived checks: {class: {check: reason}}. None at present.
WAIVED: dict[str, dict[str, str]] = {}

ESTIMATORS = [
    GBDTClassifier(n_steps=10, n_jobs=1),
    NeuralNetworkClassifier(n_steps=100, learning_rate=0.01),
    BudroClassifier(n_steps=5, perturbation_budget=0.1, n_jobs=1),
    BudroClassifier(_NothingToRemove(), n_steps=3, perturbation_budget=0.1, n_jobs=1),
    ProjectedGBDTClassifier(_NothingToRemove(), n_steps=10, n_jobs=1),
    ReweighedByTurns(n_steps=10, n_jobs=1),
    SensitiveSubspace(),
]


def waived(estimator: BaseEstimator) -> dict[str, str]:
    return WAIVED.get(type(estimator).__name__, {})


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=waived)
def test_scikit_learns_own_checks(estimator: BaseEstimator, check: Any) -> None:
    check(estimator)
