"""The regressions behind a split."""

from __future__ import annotations

import numpy as np
from sklearn.linear_model import Ridge

from evenhand.fairlib.proxies.splitting import fit_scores


def people(seed: int, groups: int = 3, n: int = 300) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)).astype(np.float32)
    scores = (
        X @ rng.normal(size=(4, groups)) - np.linspace(0, 2, groups) + rng.gumbel(size=(n, groups))
    )
    group = scores.argmax(axis=1)
    group[:groups] = np.arange(groups)
    return X, group


def test_scores_are_ridge_regressions_of_the_indicators() -> None:
    for seed in range(10):
        X, group = people(seed, groups=2 + seed % 4)
        indicators = np.eye(2 + seed % 4)[group]
        weights = np.random.default_rng(seed).random(len(X))
        scores = fit_scores(X, indicators, weights, 2.5)
        # the same fit by another library, in float64: its penalty spares the intercept too
        peer = Ridge(alpha=2.5).fit(X.astype(np.float64), indicators, sample_weight=weights)
        np.testing.assert_allclose(scores.values, peer.predict(X.astype(np.float64)), atol=1e-4)
        np.testing.assert_allclose(scores.coefficients, peer.coef_.T, atol=1e-4)
        # groups of one attribute: everybody's scores sum to 1
        np.testing.assert_allclose(scores.values.sum(axis=1), 1, atol=1e-4)


def test_the_regression_of_costs_is_scores_times_costs() -> None:
    # definition 14 fits the costs themselves; every cost of a group's rows must come to the same
    X, group = people(3)
    weights = np.random.default_rng(0).random(len(X))
    scores = fit_scores(X, np.eye(3)[group], weights, 1.0)
    costs = np.array([0.7, -1.3, 2.0])
    direct = Ridge(alpha=1.0).fit(X.astype(np.float64), costs[group], sample_weight=weights)
    np.testing.assert_allclose(
        scores.values @ costs, direct.predict(X.astype(np.float64)), atol=2e-4
    )


def test_rows_with_a_weight_of_two_count_twice() -> None:
    X, group = people(5, n=100)
    indicators, weights = np.eye(3)[group], np.where(np.arange(100) < 40, 2.0, 1.0)
    weighted = fit_scores(X, indicators, weights, 1.0)
    twice = np.concatenate([np.arange(100), np.arange(40)])
    repeated = fit_scores(X[twice], indicators[twice], np.ones(140), 1.0)
    np.testing.assert_allclose(weighted.coefficients, repeated.coefficients, atol=1e-5)


def test_a_halfspace_selects_rows_with_scores_above_the_cut() -> None:
    X, group = people(1)
    scores = fit_scores(X, np.eye(3)[group], np.ones(len(X)), 1.0)
    direction = np.array([0.5, -1.0, 0.25])
    along = scores.values @ direction
    ordered = np.sort(along)
    cut = 0.5 * (ordered[100] + ordered[101])
    normal, intercept = scores.halfspace(direction, cut)
    np.testing.assert_array_equal(X.astype(np.float64) @ normal + intercept > 0, along > cut)
    assert (along > cut).sum() == 199
