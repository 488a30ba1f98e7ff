"""scikit-learn's own checks on the methods, and that no public estimator is left out of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.utils.estimator_checks import parametrize_with_checks

import evenhand
from evenhand.fairlib.distances import SensitiveSubspace
from tests.fairlib import estimator_checks as checks


@parametrize_with_checks(checks.METHODS)
def test_scikit_learns_own_checks(estimator: BaseEstimator, check: Any) -> None:
    checks.run_check(estimator, check)


@pytest.mark.long
@parametrize_with_checks(checks.OTHER_METHODS)
def test_scikit_learns_own_checks_on_the_others(estimator: BaseEstimator, check: Any) -> None:
    checks.run_check(estimator, check)


def test_every_public_estimator_is_checked() -> None:
    public = {
        name
        for name in evenhand.__all__
        if isinstance(getattr(evenhand, name), type)
        and issubclass(getattr(evenhand, name), BaseEstimator)
    }
    checked = {type(estimator).__name__ for estimator in checks.ALL}
    assert checked == public
    assert len({reason for reason, _ in checks.WAIVED.values()}) <= checks.MOST_REASONS
    assert {name for _, names in checks.WAIVED.values() for name in names} <= public


def test_the_adapter_passes_the_argument_and_nothing_else() -> None:
    X = np.random.default_rng(0).normal(size=(60, 3))
    y = (X[:, 0] > 0).astype(int)
    turn = np.arange(60) % 3 == 0
    options: dict[str, Any] = {"n_steps": 5, "random_state": 0}
    adapter = checks.passing(evenhand.ReweighedGBDTClassifier, sensitive_features=checks.by_turns)
    weights = np.linspace(1.0, 2.0, 60)
    found = adapter(**options).fit(X, y, sample_weight=weights).predict_proba(X)
    model = evenhand.ReweighedGBDTClassifier(**options)
    model.fit(X, y, sensitive_features={"turn": turn}, sample_weight=weights)
    np.testing.assert_array_equal(found, model.predict_proba(X))
    metric = checks.passing(SensitiveSubspace, sensitive_features=checks.by_turns)().fit(X)
    expected = SensitiveSubspace().fit(X, sensitive_features={"turn": turn})
    np.testing.assert_array_equal(metric.basis_, expected.basis_)
