"""The regressions behind a split, and estimators in their place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from evenhand.fairlib.proxies.oracle import EstimatorOracle, LinearOracle
from evenhand.fairlib.proxies.tree import ProxyTree


def people(seed: int, groups: int = 3, n: int = 300) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)).astype(np.float32)
    scores = X @ rng.normal(size=(4, groups)) - np.linspace(0, 2, groups) + rng.gumbel(size=(n, groups))
    group = scores.argmax(axis=1)
    group[:groups] = np.arange(groups)
    return X, group


def test_scores_are_ridge_regressions_of_the_indicators() -> None:
    for seed in range(10):
        X, group = people(seed, groups=2 + seed % 4)
        indicators = np.eye(2 + seed % 4)[group]
        weights = np.random.default_rng(seed).random(len(X))
        scores = LinearOracle(2.5).fit(X, indicators, weights)
        # the same fit by another library, in float64: its penalty spares the intercept too
        peer = Ridge(alpha=2.5).fit(X.astype(np.float64), indicators, sample_weight=weights)
        np.testing.assert_allclose(scores.values, peer.predict(X.astype(np.float64)), atol=1e-4)
        np.testing.assert_allclose(scores.coefficients, peer.coef_.T, atol=1e-4)
        # groups of one attribute: everybody's scores sum to 1
        np.testing.assert_allclose(scores.values.sum(axis=1), 1, atol=1e-4)


def test_the_regression_of_any_costs_is_the_scores_times_the_costs() -> None:
    # definition 14 fits the costs themselves; every cost of a group's rows must come to the same
    X, group = people(3)
    weights = np.random.default_rng(0).random(len(X))
    scores = LinearOracle(1.0).fit(X, np.eye(3)[group], weights)
    costs = np.array([0.7, -1.3, 2.0])
    direct = Ridge(alpha=1.0).fit(X.astype(np.float64), costs[group], sample_weight=weights)
    np.testing.assert_allclose(scores.values @ costs, direct.predict(X.astype(np.float64)), atol=2e-4)


def test_rows_with_a_weight_of_two_count_twice() -> None:
    X, group = people(5, n=100)
    indicators, weights = np.eye(3)[group], np.where(np.arange(100) < 40, 2.0, 1.0)
    weighted = LinearOracle(1.0).fit(X, indicators, weights)
    twice = np.concatenate([np.arange(100), np.arange(40)])
    repeated = LinearOracle(1.0).fit(X[twice], indicators[twice], np.ones(140))
    np.testing.assert_allclose(weighted.coefficients, repeated.coefficients, atol=1e-5)


def test_a_halfspace_selects_the_rows_whose_score_is_above_the_cut() -> None:
    X, group = people(1)
    scores = LinearOracle(1.0).fit(X, np.eye(3)[group], np.ones(len(X)))
    direction = np.array([0.5, -1.0, 0.25])
    along = scores.values @ direction
    ordered = np.sort(along)
    cut = 0.5 * (ordered[100] + ordered[101])
    normal, intercept = scores.halfspace(direction, cut)
    np.testing.assert_array_equal(X.astype(np.float64) @ normal + intercept > 0, along > cut)
    assert (along > cut).sum() == 199


REGRESSORS = [
    DecisionTreeRegressor(max_depth=5, min_samples_leaf=3, random_state=0),
    pytest.param(LinearRegression(), marks=pytest.mark.long),
]
CLASSIFIERS = [
    pytest.param(LogisticRegression(max_iter=500), marks=pytest.mark.long),
    DecisionTreeClassifier(max_depth=4, min_samples_leaf=3, random_state=0),
]


@pytest.mark.parametrize(
    "estimator", [*REGRESSORS, *CLASSIFIERS], ids=lambda estimator: type(estimator).__name__
)
@pytest.mark.parametrize("alpha", [pytest.param(0.05, marks=pytest.mark.long), 0.2])
def test_the_limit_holds_whatever_the_oracle(estimator: Any, alpha: float) -> None:
    split = 0
    for seed in range(4):
        X, group = people(seed)
        proxy = ProxyTree(alpha=alpha, tolerance=0.02, oracle=estimator)
        proxy.fit(X, sensitive_features={"group": group})
        shares = proxy.shares(X)
        np.testing.assert_allclose(shares.sum(axis=1), 1, atol=1e-12)
        compositions = shares.T @ np.eye(3)[group] / shares.sum(axis=0)[:, None]
        assert np.abs(compositions - np.bincount(group) / len(group)).max() <= alpha + 1e-9
        np.testing.assert_allclose(proxy.compositions_, compositions, atol=1e-12)
        np.testing.assert_allclose(proxy.acceptance(X), shares @ proxy.acceptance_, atol=1e-12)
        split += len(proxy.masses_) > 1
    assert split >= 1


@pytest.mark.parametrize(
    "estimator", [*REGRESSORS, *CLASSIFIERS], ids=lambda estimator: type(estimator).__name__
)
def test_a_row_is_kept_alike_alone_and_among_others(estimator: Any) -> None:
    for seed in (2, 3, 5):
        X, group = people(seed)
        proxy = ProxyTree(alpha=0.2, tolerance=0.02, oracle=estimator)
        proxy.fit(X, sensitive_features={"group": group})
        alone = np.concatenate([proxy.acceptance(X[i : i + 1]) for i in range(len(X))])
        np.testing.assert_allclose(alone, proxy.acceptance(X), atol=1e-9, err_msg=str(seed))


@pytest.mark.parametrize(
    "estimator", [LogisticRegression(), DecisionTreeClassifier(max_depth=4, random_state=0)]
)
def test_a_classifier_may_see_two_groups_at_a_vertex_or_one(estimator: Any) -> None:
    # the first feature tells the third group from the others without fail, and nothing tells these apart
    for seed in (0, 1, 5):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(200, 2))
        X[:, 0] += 6 * (X[:, 0] > 0.7)
        group = np.where(X[:, 0] > 3, 2, rng.random(200) < 0.1)
        proxy = ProxyTree(alpha=1.0, tolerance=1e-6, max_height=3, min_leaf=1.0, oracle=estimator)
        proxy.fit(X, sensitive_features={"group": group})
        assert (proxy.compositions_ < 1e-12).any()
        np.testing.assert_allclose(proxy.shares(X).sum(axis=1), 1, atol=1e-12)
        assert proxy.distances_[-1] < proxy.distances_[0]


def test_scores_have_a_column_for_every_group_seen_or_not() -> None:
    X, group = people(0)
    some = group != 1
    tree = DecisionTreeClassifier(max_depth=2, random_state=0)
    scores = EstimatorOracle(tree).fit(X[some], np.eye(3)[group[some]], np.ones(some.sum()))
    peer = tree.fit(X[some], group[some]).predict_proba(X)
    np.testing.assert_allclose(scores.of(X), np.column_stack([peer[:, 0], np.zeros(len(X)), peer[:, 1]]))
    np.testing.assert_array_equal(scores.of(X[some]), scores.values)


def test_a_classifier_is_refused_for_two_attributes_and_a_regressor_is_not() -> None:
    X, group = people(0)
    attributes = {"group": group, "side": X[:, 0] > 0.8}
    with pytest.raises(ValueError, match="give a regressor"):
        ProxyTree(alpha=0.3, oracle=LogisticRegression(max_iter=500)).fit(X, sensitive_features=attributes)
    proxy = ProxyTree(alpha=0.3, oracle=LinearRegression()).fit(X, sensitive_features=attributes)
    assert len(proxy.masses_) > 1
    assert np.abs(proxy.compositions_ - proxy.base_rates_).max() <= 0.3 + 1e-9


@pytest.mark.parametrize("alpha", [0.0, 0.3])
def test_a_proxy_with_an_estimator_is_not_saved(alpha: float, tmp_path: Path) -> None:
    X, group = people(0)
    proxy = ProxyTree(alpha=alpha, tolerance=0.02, oracle=DecisionTreeClassifier(max_depth=4, random_state=0))
    proxy.fit(X, sensitive_features={"group": group})
    assert (len(proxy.masses_) > 1) == (alpha > 0)
    with pytest.raises(ValueError, match="cannot be saved"):
        proxy.save(tmp_path / "proxy")
    assert not (tmp_path / "proxy").exists()
