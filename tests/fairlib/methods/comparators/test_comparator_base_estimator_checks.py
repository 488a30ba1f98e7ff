"""scikit-learn's own checks, on the comparators."""

from __future__ import annotations

from typing import Any

import pytest
from sklearn.base import BaseEstimator
from sklearn.utils.estimator_checks import parametrize_with_checks

from tests.fairlib import estimator_checks as checks


# one that reads no group and one that does; `make test-all` checks the others too
@parametrize_with_checks(checks.LOGISTIC)
def test_scikit_learns_own_checks(estimator: BaseEstimator, check: Any) -> None:
    checks.run_check(estimator, check)


@pytest.mark.long
@parametrize_with_checks(checks.FAIRLEARN)
def test_scikit_learns_own_checks_on_the_others(estimator: BaseEstimator, check: Any) -> None:
    checks.run_check(estimator, check)
