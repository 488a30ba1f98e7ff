"""scikit-learn's own checks, on the comparators."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import _num_samples

from evenhand.fairlib.methods.comparators.adversarial import AdversarialClassifier
from evenhand.fairlib.methods.comparators.logistic import (
    LogisticClassifier,
    ReweighedLogisticClassifier,
)
from evenhand.fairlib.methods.comparators.reduction import ExponentiatedGradientClassifier


class ByTurns:
    """The checks know no `sensitive_features`: every other row is in the other group."""

    def fit(self, X: Any, y: Any, *, callback: Any = None) -> Self:
        turn = np.arange(_num_samples(X)) % 2
        super().fit(X, y, sensitive_features={"turn": turn}, callback=callback)  # type: ignore[misc]
        return self


class ReweighedByTurns(ByTurns, ReweighedLogisticClassifier):
    pass


class ReducedByTurns(ByTurns, ExponentiatedGradientClassifier):
    pass


class TrainedByTurns(ByTurns, AdversarialClassifier):
    pass


# One that reads no group and one that does; `make test-all` checks the others too.
ESTIMATORS = [LogisticClassifier(), ReweighedByTurns(threshold=0.5)]
OTHERS = [
    ReducedByTurns(max_iter=5),
    TrainedByTurns(n_epochs=40, hidden=(16,), learning_rate=0.01, adversary_weight=0.1),
]


@parametrize_with_checks(ESTIMATORS)
def test_scikit_learns_own_checks(estimator: BaseEstimator, check: Any) -> None:
    check(estimator)


@pytest.mark.long
@parametrize_with_checks(OTHERS)
def test_scikit_learns_own_checks_on_the_others(estimator: BaseEstimator, check: Any) -> None:
    test_scikit_learns_own_checks(estimator, check)
