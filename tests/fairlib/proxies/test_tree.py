"""What a proxy tree promises of its training rows, on tables of every kind."""

from __future__ import annotations

import math
from typing import Any

import cvxpy
import numpy as np
import pytest

from evenhand.fairlib.proxies.tree import ProxyTree
from tests.oracles.proxy_game import GameTree

KINDS = ("continuous", "one-hot", "mixed", "repeated")
Table = tuple[np.ndarray, np.ndarray]


def table(
    seed: int, kind: str = "continuous", n: int | None = None, groups: int | None = None
) -> Table:
    """Features and a group for every row that depends on them, all groups present, the later ones
    rarer.
    """
    rng = np.random.default_rng(seed)
    n, groups = n or int(rng.integers(60, 500)), groups or int(rng.integers(2, 6))
    X = rng.normal(size=(n, int(rng.integers(1, 7))))
    if kind != "continuous":
        codes = [rng.integers(0, size, n) for size in (4, 3, 2)]
        hot = np.hstack([np.eye(size)[code] for size, code in zip((4, 3, 2), codes, strict=True)])
        X = hot if kind == "one-hot" else np.hstack([X, hot])
    if kind == "repeated":
        X = X[rng.integers(0, n // 3, n)]
    scores = X @ rng.normal(size=(X.shape[1], groups)) * rng.choice([0.5, 1.5]) - np.linspace(
        0, 2, groups
    )
    group = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
    group[:groups] = np.arange(groups)
    return X, group


def fit(X: np.ndarray, group: np.ndarray, **arguments: Any) -> ProxyTree:
    return ProxyTree(**arguments).fit(X, sensitive_features={"group": group})


def distance_from(rows: np.ndarray, target: np.ndarray, relaxed: bool) -> float:
    """Of the target from the hull or cone of compositions, by an interior-point solver."""
    weights = cvxpy.Variable(len(rows), nonneg=True)
    limits = [] if relaxed else [cvxpy.sum(weights) == 1]
    far = cvxpy.Problem(cvxpy.Minimize(cvxpy.norm(rows.T @ weights - target)), limits)
    return float(far.solve(solver=cvxpy.CLARABEL))


def heights(proxy: ProxyTree) -> list[int]:
    """Number of splits above every leaf."""
    graph, depth, found = proxy.graph_, {0: 0}, []
    for node, children in enumerate(zip(graph.one, graph.zero, strict=True)):
        for child in children:
            if child >= 0:
                depth[int(child)] = depth[node] + 1
            else:
                found.append(depth[node] + 1)
    return found or [0]


def certify(proxy: ProxyTree, X: np.ndarray, group: np.ndarray, what: Any) -> None:
    """Check a fitted tree by counting its training rows anew."""
    shares = proxy.shares(X)
    assert shares.min() >= 0
    np.testing.assert_allclose(shares.sum(axis=1), 1, atol=1e-12, err_msg=str(what))
    indicators = np.eye(group.max() + 1)[group]
    rows = shares.sum(axis=0)
    compositions = (shares.T @ indicators) / rows[:, None]
    base = indicators.mean(axis=0)
    np.testing.assert_allclose(proxy.base_rates_, base, atol=1e-12)
    np.testing.assert_allclose(proxy.masses_, rows / len(X), atol=1e-12)
    np.testing.assert_allclose(proxy.compositions_, compositions, atol=1e-12)
    assert np.abs(compositions - base).max() <= proxy.alpha + 1e-9, what
    # a tree without a split may be smaller
    assert len(rows) == 1 or rows.min() >= proxy.min_leaf * (1 - 1e-6), what
    assert max(heights(proxy)) <= proxy.max_height, what
    assert len(heights(proxy)) == len(rows)
    check_distances(proxy, compositions, what)
    kept = proxy.masses_ * proxy.acceptance_
    assert proxy.acceptance_.min() >= 0
    assert proxy.acceptance_.max() == pytest.approx(1, abs=1e-12)
    np.testing.assert_allclose(proxy.shares_, kept @ compositions / kept.sum(), atol=1e-12)
    np.testing.assert_allclose(proxy.acceptance(X), shares @ proxy.acceptance_, atol=1e-12)
    imbalance = np.linalg.norm(proxy.shares_ - proxy.target_)
    assert imbalance == pytest.approx(
        distance_from(compositions, proxy.target_, relaxed=False), abs=2e-5
    )


def check_distances(proxy: ProxyTree, compositions: np.ndarray, what: Any) -> None:
    distances = np.array(proxy.distances_)
    assert len(distances) == len(compositions)
    first = distance_from(proxy.base_rates_[None], proxy.target_, proxy.relaxed)
    assert distances[0] == pytest.approx(first, abs=2e-5)
    last = distance_from(compositions, proxy.target_, proxy.relaxed)
    assert distances[-1] == pytest.approx(last, abs=2e-5), what
    assert (distances[1:] <= (1 - proxy.progress) * distances[:-1] + 1e-12).all(), what
    assert (distances[:-1] > proxy.tolerance).all(), what
    # theorem 2's bound on the number of splits
    assert len(distances) - 1 <= math.ceil(
        math.log(proxy.tolerance / math.sqrt(2)) / math.log(1 - proxy.progress)
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("relaxed", [False, True])
@pytest.mark.parametrize("seeds", [2, pytest.param(8, marks=pytest.mark.long)])
def test_a_tree_keeps_its_promises_on_its_training_rows(
    kind: str, relaxed: bool, seeds: int
) -> None:
    split = 0
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        X, group = table(seed, kind)
        proxy = fit(
            X,
            group,
            alpha=float(rng.choice([0.02, 0.1, 0.2, 0.5])),
            relaxed=relaxed,
            progress=float(rng.choice([0.05, 0.1, 0.3])),
            tolerance=float(rng.choice([0.01, 0.1])),
            min_leaf=float(rng.choice([1, 5, 20])),
            max_height=int(rng.choice([2, 20])),
        )
        certify(proxy, X, group, (kind, seed))
        split += len(proxy.masses_) > 1
    assert split >= seeds / 4


@pytest.mark.parametrize("groups", [2, 3, 5])
@pytest.mark.parametrize("seeds", [2, pytest.param(6, marks=pytest.mark.long)])
def test_the_limit_holds_under_the_game_too(groups: int, seeds: int) -> None:
    split = 0
    for seed in range(seeds):
        X, group = table(seed, n=300, groups=groups)
        proxy = GameTree(alpha=0.3, tolerance=0.05).fit(X, sensitive_features={"g": group})
        certify(proxy, X, group, seed)
        split += len(proxy.masses_) > 1
    assert split >= 1


@pytest.mark.parametrize("share", [0.03, 0.3, 0.5, 0.62, 0.7])
def test_one_binary_feature_is_split_where_it_balances(share: float) -> None:
    # half of the ones and a tenth of the zeros are in the second group: the ones are balanced
    ones = np.arange(1000) < 1000 * share
    group = np.where(ones, np.arange(1000) % 2, np.arange(1000) % 10 == 0).astype(int)
    proxy = fit(ones[:, None].astype(float), group, alpha=1.0, tolerance=1e-3)
    assert proxy.distances_[-1] <= 1e-3
    assert np.linalg.norm(proxy.shares_ - 0.5) <= 1e-3


def test_one_hot_features_give_splits_by_category() -> None:
    for seed in range(8):
        rng = np.random.default_rng(seed)
        category = rng.choice(4, 800, p=[0.4, 0.3, 0.2, 0.1])
        group = (rng.random(800) < np.array([0.05, 0.15, 0.4, 0.8])[category]).astype(int)
        proxy = fit(np.eye(4)[category], group, alpha=1.0, tolerance=1e-3)
        # the last category alone has more of the second group than the first
        assert group[category == 3].mean() > 0.5
        assert np.linalg.norm(proxy.shares_ - 0.5) <= 1e-3, seed


def test_an_alpha_of_zero_keeps_everyone() -> None:
    for seed, kind in enumerate(KINDS[:2]):
        X, group = table(seed, kind, n=60, groups=2)
        proxy = fit(X, group, alpha=0.0)
        assert len(proxy.masses_) == 1
        assert proxy.graph_.groups == 1
        assert len(proxy.distances_) == 1
        np.testing.assert_array_equal(proxy.acceptance(X), 1.0)
        np.testing.assert_allclose(proxy.shares_, np.bincount(group) / len(group))


def test_an_alpha_of_one_balances_separable_groups() -> None:
    """Features tell these groups apart."""
    for groups in (2, 3, 4):
        rng = np.random.default_rng(groups)
        group = rng.choice(groups, 600, p=np.r_[np.full(groups - 1, 0.1), 1.1 - 0.1 * groups])
        X = np.eye(groups)[group] * 6 + rng.normal(size=(600, groups))
        proxy = fit(X, group, alpha=1.0, tolerance=0.01)
        assert np.linalg.norm(proxy.shares_ - 1 / groups) <= 0.01
        kept = rng.random(600) < proxy.acceptance(X)
        assert kept.sum() > 20


def test_growing_stops_within_the_tolerance() -> None:
    X, group = table(4, n=500, groups=3)
    counts = []
    for tolerance in (0.6, 0.2, 0.05, 0.005):
        proxy = fit(X, group, alpha=0.5, tolerance=tolerance)
        assert all(distance > tolerance for distance in proxy.distances_[:-1])
        counts.append(len(proxy.masses_))
    assert counts == sorted(counts)
    # balanced people need no split
    even = np.arange(500) % 2
    assert len(fit(X, even, alpha=0.5).masses_) == 1


def test_a_larger_limit_gives_a_better_balance_in_the_end() -> None:
    X, group = table(11, n=500, groups=3)
    imbalances = [
        fit(X, group, alpha=alpha, tolerance=0.01).distances_[-1] for alpha in (0.0, 0.05, 0.9)
    ]
    assert imbalances[0] > imbalances[1] > imbalances[2]


def test_other_shares_than_equal_ones_are_reached() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 3))
    group = np.where(X[:, 0] + 0.3 * rng.normal(size=600) > 0.8, "few", "many")
    proxy = fit(X, group, alpha=0.8, tolerance=0.005, target={"group": {"few": 0.6, "many": 0.4}})
    np.testing.assert_allclose(proxy.target_, [0.6, 0.4])
    np.testing.assert_allclose(proxy.shares_, [0.6, 0.4], atol=0.005)


def test_two_attributes_are_balanced_at_once() -> None:
    # four kinds of people at the corners of a square: 400, 100, 80 and 20 of them
    rng = np.random.default_rng(0)
    kinds = np.repeat(np.arange(4), [400, 100, 80, 20])
    sex, region = kinds % 2, kinds // 2
    X = np.column_stack([sex, region]) + 0.1 * rng.normal(size=(600, 2))
    attributes = {"sex": np.array(["f", "m"])[sex], "region": np.array(["north", "south"])[region]}
    proxy = ProxyTree(alpha=0.9, tolerance=0.01).fit(X, sensitive_features=attributes)
    assert proxy.group_names_ == {"sex": ["f", "m"], "region": ["north", "south"]}
    np.testing.assert_allclose(proxy.base_rates_, [0.8, 0.2, 500 / 600, 100 / 600])
    np.testing.assert_allclose(proxy.target_, 0.5)
    np.testing.assert_allclose(proxy.shares_, 0.5, atol=0.01)
    rows = proxy.shares(X).sum(axis=0)
    np.testing.assert_allclose(proxy.compositions_[:, :2].sum(axis=1), 1)
    np.testing.assert_allclose(proxy.compositions_[:, 2:].sum(axis=1), 1)
    for attribute, codes in enumerate((sex, region)):
        counted = proxy.shares(X).T @ np.eye(2)[codes] / rows[:, None]
        np.testing.assert_allclose(
            proxy.compositions_[:, 2 * attribute : 2 * attribute + 2], counted
        )
    strict = ProxyTree(alpha=0.1, tolerance=0.01).fit(X, sensitive_features=attributes)
    assert np.abs(strict.compositions_ - strict.base_rates_).max() <= 0.1 + 1e-9
    assert strict.distances_[-1] < strict.distances_[0]


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (2, 7, 23))]
)
def test_the_least_alpha_allows_the_first_split(seed: int) -> None:
    X, group = table(seed, n=120, groups=2 + seed % 3)
    least = fit(X, group, alpha=0.0, tolerance=0.01).least_alpha_
    assert least is not None
    assert 0 < least <= 1
    assert len(fit(X, group, alpha=least, tolerance=0.01).masses_) > 1
    # its resolution is a thousandth; the halfspaces at hand differ a little from one limit to
    # another
    assert len(fit(X, group, alpha=0.9 * least - 0.002, tolerance=0.01).masses_) == 1
