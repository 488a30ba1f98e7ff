"""scikit-learn's own checks, on the comparators."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import _num_samples

from evenhand.fairlib.methods.comparators.adversarial import AdversarialClassifier
from evenhand.fairlib.methods.comparators.logistic import LogisticClassifier, ReweighedLogisticClassifier
from evenhand.fairlib.methods.comparators.reduction import ExponentiatedGradientClassifier
from evenhand.fairlib.methods.comparators.thresholds import GroupThresholdsClassifier


class ByTurns:
    """The checks know no `sensitive_features`: every other row is in the other group."""

    def fit(self, X: Any, y: Any, *, callback: Any = None) -> Self:
        turn = np.arange(_num_samples(X)) % 2
        super().fit(X, y, sensitive_features={"turn": turn}, callback=callback)  # type: ignore[misc]
        return self


class ByFirstColumn:
    """As with `ByTurns`, but the group must be among the inputs: by turns along the first column's values."""

    def fit(self, X: Any, y: Any, *, callback: Any = None) -> Self:
        super().fit(X, y, sensitive_features={"x0": _stripes(X)}, callback=callback)  # type: ignore[misc]
        return self


def _stripes(X: Any) -> Any:
    """Eight stripes of two kinds; of what is no table of numbers, which `fit` is to refuse, any."""
    try:
        first = np.array(X, dtype=object)[:, 0].astype(np.float32)
        return np.digitize(first, np.quantile(first, np.arange(1, 8) / 8)) % 2
    except (TypeError, ValueError, IndexError):
        return np.arange(_num_samples(X)) % 2


class ReweighedByTurns(ByTurns, ReweighedLogisticClassifier):
    pass


class ReducedByTurns(ByTurns, ExponentiatedGradientClassifier):
    pass


class TrainedByTurns(ByTurns, AdversarialClassifier):
    pass


class ThresholdsByFirst(ByFirstColumn, GroupThresholdsClassifier):
    pass


# Waived checks: {class: {check: reason}}.
SIX_ROWS = "six rows with four values in the first column leave no two groups to be read from it"
TEN_ROWS = "ten rows hold too few of each group and label to set some of all aside"
WAIVED: dict[str, dict[str, str]] = {
    "ThresholdsByFirst": {"check_classifier_data_not_an_array": SIX_ROWS, "check_fit2d_1feature": TEN_ROWS},
}
# One that reads no group and one that does; `make test-all` checks the others too.
ESTIMATORS = [LogisticClassifier(), ThresholdsByFirst()]
OTHERS = [
    ReweighedByTurns(threshold=0.5),
    ReducedByTurns(max_iter=5),
    TrainedByTurns(n_epochs=40, hidden=(16,), learning_rate=0.01, adversary_weight=0.1),
]


@parametrize_with_checks(ESTIMATORS)
def test_scikit_learns_own_checks(estimator: BaseEstimator, check: Any) -> None:
    reason = WAIVED.get(type(estimator).__name__, {}).get(check.func.__name__)
    if reason is not None:
        pytest.skip(reason)
    check(estimator)


@pytest.mark.long
@parametrize_with_checks(OTHERS)
def test_scikit_learns_own_checks_on_the_others(estimator: BaseEstimator, check: Any) -> None:
    test_scikit_learns_own_checks(estimator, check)
