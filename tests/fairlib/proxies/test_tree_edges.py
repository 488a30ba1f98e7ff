"""Proxy trees on degenerate tables, with wrong arguments, and as scikit-learn estimators."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from evenhand.fairlib.proxies.predicted import PredictedGroupProxy
from evenhand.fairlib.proxies.tree import ProxyTree
from tests.fairlib import estimator_checks as checks


def people(n: int = 300, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, np.where(X[:, 0] + rng.normal(size=n) > 1, "few", "many")


def fit(X: np.ndarray, group: np.ndarray, **arguments: Any) -> ProxyTree:
    return ProxyTree(**arguments).fit(X, sensitive_features={"group": group})


def check_limit(proxy: ProxyTree, X: np.ndarray, group: np.ndarray) -> None:
    shares = proxy.shares(X)
    indicators = (group[:, None] == np.unique(group)[None]).astype(float)
    compositions = shares.T @ indicators / shares.sum(axis=0)[:, None]
    assert np.abs(compositions - indicators.mean(axis=0)).max() <= proxy.alpha + 1e-9


@pytest.mark.parametrize("n", [2, 3, 4, 8])
def test_a_handful_of_people_can_be_split(n: int) -> None:
    X, group = np.arange(n)[:, None].astype(float), np.where(np.arange(n) == 0, "few", "many")
    arguments = {"tolerance": 0.01, "min_leaf": 1.0}
    proxy = fit(X, group, alpha=1.0, **arguments)
    # the one of the smaller group can be told from all others
    assert (len(proxy.masses_) > 1) == (n > 2)
    np.testing.assert_allclose(proxy.shares_, 0.5, atol=0.01)
    check_limit(fit(X, group, alpha=0.05, **arguments), X, group)


@pytest.mark.parametrize("value", [0.0, 1.0, 33.3, 333.0])
def test_a_constant_feature_neither_helps_nor_harms(value: float) -> None:
    X, group = people()
    constant = np.full((len(X), 2), value)
    alone = fit(constant, group, alpha=0.5)
    assert len(alone.masses_) == 1
    # no limit would let anything be split by it
    assert alone.least_alpha_ is None
    beside = fit(np.hstack([X, constant]), group, alpha=0.5)
    np.testing.assert_allclose(
        beside.distances_[-1], fit(X, group, alpha=0.5).distances_[-1], atol=0.1
    )
    check_limit(beside, np.hstack([X, constant]), group)


def test_one_feature_and_repeated_rows_are_enough() -> None:
    X, group = people(60)
    rows, groups = np.repeat(X[:, :1], 5, axis=0), np.repeat(group, 5)
    proxy = fit(rows, groups, alpha=0.15, tolerance=0.01)
    assert len(proxy.masses_) > 1
    check_limit(proxy, rows, groups)
    # equal rows are in the same place
    shares = proxy.shares(rows).reshape(60, 5, -1)
    np.testing.assert_array_equal(shares, np.repeat(shares[:, :1], 5, axis=1))


def test_people_who_differ_in_their_group_only_stay_together() -> None:
    group = np.where(np.arange(40) % 4 == 0, "few", "many")
    proxy = fit(np.ones((40, 2)), group, alpha=1.0)
    assert proxy.shares_ == pytest.approx([0.25, 0.75])
    np.testing.assert_array_equal(proxy.acceptance(np.ones((3, 2))), 1.0)


def test_two_fits_are_one_to_the_bit() -> None:
    X, group = people()
    first, second = (fit(X, group, alpha=0.3, tolerance=0.02) for _ in range(2))
    assert len(first.masses_) > 1
    assert first.distances_ == second.distances_
    for name in ("coefficients", "intercepts", "mixture", "starts", "one", "zero"):
        np.testing.assert_array_equal(getattr(first.graph_, name), getattr(second.graph_, name))
    np.testing.assert_array_equal(first.acceptance_, second.acceptance_)


def test_the_callback_hears_of_every_split() -> None:
    X, group = people()
    heard: list[tuple[int, int, float]] = []
    proxy = ProxyTree(alpha=0.15, tolerance=0.01, progress=0.05).fit(
        X,
        sensitive_features={"group": group},
        callback=lambda splits, most, progress: heard.append((splits, most, progress["imbalance"])),
    )
    assert [splits for splits, _, _ in heard] == list(range(1, len(proxy.masses_)))
    assert [imbalance for _, _, imbalance in heard] == proxy.distances_[1:]
    assert len(heard) >= 1
    # shrinking by a twentieth each time: so many splits at most from this imbalance to the
    # tolerance
    for splits, most, imbalance in heard:
        assert most == splits + max(0, int(np.ceil(np.log(0.01 / imbalance) / np.log(0.95))))


def test_a_callback_ends_the_growth() -> None:
    X, group = people()
    grown, ended = ProxyTree(alpha=0.5, tolerance=0.0), ProxyTree(alpha=0.5, tolerance=0.0)
    grown.fit(X, sensitive_features={"group": group})
    ended.fit(X, sensitive_features={"group": group}, callback=lambda made, *_: made == 1)
    assert len(grown.masses_) > len(ended.masses_) == 2
    assert ended.distances_ == grown.distances_[:2]


def test_no_leaf_is_smaller_than_asked() -> None:
    X, group = people()
    for least in (1.0, 40.0, 149.0):
        proxy = fit(X, group, alpha=1.0, tolerance=1e-4, min_leaf=least)
        assert len(proxy.masses_) > 1
        assert proxy.masses_.min() * 300 >= least * (1 - 1e-6)
    assert len(fit(X, group, alpha=1.0, tolerance=1e-4, min_leaf=151.0).masses_) == 1


def test_a_height_of_one_is_one_split() -> None:
    X, group = people()
    assert len(fit(X, group, alpha=0.1, tolerance=1e-4, max_height=1).masses_) == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"alpha": -0.1}, r"alpha must be in \[0, 1\], got -0\.1"),
        ({"alpha": float("nan")}, r"alpha must be in \[0, 1\]"),
        ({"progress": 1.0}, r"progress must be in \(0, 1\), got 1\.0"),
        ({"progress": 0.0}, "progress must be in"),
        ({"tolerance": -1.0}, "tolerance must be finite and not negative"),
        ({"ridge": float("inf")}, "ridge must be positive and finite"),
        ({"ridge": 0.0}, "ridge must be positive and finite"),
        ({"min_leaf": -2}, "min_leaf must be finite and not negative"),
        ({"max_height": 0}, "max_height must be a whole number, at least 1"),
        ({"max_height": 2.5}, "max_height must be a whole number"),
        ({"target": {"sex": {"few": 1.0}}}, "target names the attribute 'sex'; there are group"),
        (
            {"target": {"group": {"few": 0.5, "none": 0.5}}},
            "group 'none' of 'group', which has no row",
        ),
        ({"target": {"group": {"few": 1.0}}}, "must give all 2 groups of 'group' a share"),
        ({"target": {"group": {"few": 0.5, "many": 0.4}}}, r"sum to 1, got a sum of 0\.9"),
        ({"target": {"group": {"few": 1.5, "many": -0.5}}}, "at least 0"),
        ({"target": {"group": {"few": float("nan"), "many": 0.5}}}, "at least 0"),
    ],
)
def test_a_wrong_argument_is_named(arguments: dict[str, Any], said: str) -> None:
    X, group = people(40)
    with pytest.raises(ValueError, match=said) as caught:
        fit(X, group, **arguments)
    assert "\n" not in str(caught.value)


def test_wrong_tables_are_named() -> None:
    X, group = people(40)
    with pytest.raises(ValueError, match="needs an attribute"):
        ProxyTree().fit(X, sensitive_features={})
    with pytest.raises(ValueError, match="one group only"):
        ProxyTree().fit(X, sensitive_features={"group": np.full(40, "same")})
    with pytest.raises(ValueError, match=r"shape \(40,\)"):
        ProxyTree().fit(X, sensitive_features={"group": group[:-1]})
    proxy = fit(X, group, alpha=0.3)
    with pytest.raises(ValueError, match="2 features"):
        proxy.acceptance(X[:, :2])
    with pytest.raises(ValueError, match="NaN"):
        proxy.acceptance(np.full((1, 3), np.nan))
    with pytest.raises(NotFittedError):
        ProxyTree().acceptance(X)


@pytest.mark.parametrize(
    "proxy", [ProxyTree(alpha=0.3, target={"g": {"a": 1.0}}), PredictedGroupProxy(mixing=0.2)]
)
def test_a_clone_has_the_parameters_and_nothing_learnt(proxy: BaseEstimator) -> None:
    X, group = people(60)
    copy = clone(proxy)
    assert copy.get_params() == proxy.get_params()
    copy.set_params(target=None).fit(X, sensitive_features={"group": group})
    assert not hasattr(clone(copy), "graph_")
    assert clone(copy).get_params() == copy.get_params()


@parametrize_with_checks(checks.PROXIES)
def test_scikit_learns_own_checks(estimator: BaseEstimator, check: Any) -> None:
    checks.run_check(estimator, check)


@pytest.mark.long
@parametrize_with_checks(checks.OTHER_PROXIES)
def test_scikit_learns_own_checks_of_the_others(estimator: BaseEstimator, check: Any) -> None:
    checks.run_check(estimator, check)
