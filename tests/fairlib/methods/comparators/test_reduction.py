"""The reduction's vote is Fairlearn's, and it meets its constraint."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from comparator_samples import draw_people, fit_comparator
from sklearn.linear_model import LogisticRegression

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of its optional parts that are not installed


# --- Fairlearn ---


@pytest.mark.long
@pytest.mark.parametrize(
    "constraint", ["demographic_parity", "equalized_odds", "error_rate_parity"]
)
def test_the_weighted_vote_is_fairlearns(constraint: str) -> None:
    from fairlearn import reductions

    X, y, sensitive = draw_people(300)
    model = fit_comparator(
        "exponentiated-gradient",
        X,
        y,
        sensitive,
        constraint=constraint,
        eps=0.02,
        max_iter=8,
        attribute="race",
    )
    moment = {
        "demographic_parity": reductions.DemographicParity,
        "equalized_odds": reductions.EqualizedOdds,
        "error_rate_parity": reductions.ErrorRateParity,
    }[constraint](difference_bound=0.02)
    estimator = LogisticRegression(solver="newton-cholesky", max_iter=1000, tol=1e-6)
    theirs = reductions.ExponentiatedGradient(estimator, moment, eps=0.02, max_iter=8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of how it writes to pandas tables
        theirs.fit(X.astype(np.float64), y, sensitive_features=sensitive["race"])
    np.testing.assert_allclose(
        model.predict_proba(X), theirs._pmf_predict(X.astype(np.float64)), atol=1e-12
    )
    assert model.weights_.sum() == pytest.approx(1)


def test_the_reduction_meets_its_constraint() -> None:
    X, y, sensitive = draw_people(1500)
    male = sensitive["sex"] == "male"
    plain = fit_comparator("logistic", X, y, sensitive).predict(X)
    model = fit_comparator("exponentiated-gradient", X, y, sensitive, eps=0.01, max_iter=50)
    assert abs(plain[male].mean() - plain[~male].mean()) > 0.2
    expected = model.predict_proba(X)[:, 1]
    assert abs(expected[male].mean() - expected[~male].mean()) < 0.05
