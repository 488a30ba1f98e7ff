"""Measures of a proxy on other rows, their intervals, and the theory's bound."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest

from evenhand.fairlib.proxies.predicted import PredictedGroupProxy
from evenhand.fairlib.proxies.proxy_base import BalancingProxy
from evenhand.fairlib.proxies.proxy_evaluation import (
    MEASURES,
    _interval,
    _widened,
    measure_proxy,
    possible_reduction,
)
from evenhand.fairlib.proxies.tree import ProxyTree

Table = tuple[np.ndarray, np.ndarray]


def people(n: int, seed: int = 0, groups: int = 3) -> Table:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    scores = 1.5 * X[:, :1] * np.linspace(-1, 1, groups) - np.linspace(0, 1.5, groups)
    group = (scores + rng.gumbel(size=(n, groups))).argmax(axis=1)
    group[:groups] = np.arange(groups)
    return X, group


def tree(seed: int = 0, **arguments: Any) -> ProxyTree:
    X, group = people(500, seed)
    return ProxyTree(**{"alpha": 0.15, "tolerance": 0.02} | arguments).fit(
        X, sensitive_features={"g": group}
    )


def blocks(*counts: tuple[float, int, int]) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Rows of one feature: (value, rows of the first group, rows of the second)."""
    X = np.concatenate([np.full(a + b, value) for value, a, b in counts])[:, None]
    group = np.concatenate([np.repeat(["a", "b"], [a, b]) for _, a, b in counts])
    return X, {"g": group}


def test_measures_by_hand() -> None:
    # 80 and 20 rows are predicted a and b: a quarter of the first are kept, all of the second
    X, groups = blocks((0.0, 72, 8), (1.0, 5, 15))
    proxy = PredictedGroupProxy(sampling="equal").fit(X, sensitive_features=groups)
    np.testing.assert_allclose(proxy.acceptance_, [0.25, 1.0])
    # other rows: 24 and 16 of value 0, 2 and 6 of value 1; 26 of 48 are in the first group
    X, groups = blocks((0.0, 24, 16), (1.0, 2, 6))
    measured = measure_proxy(proxy, X, groups, draws=0)
    np.testing.assert_allclose(measured.base_rates, [26 / 48, 22 / 48])
    np.testing.assert_allclose(measured.rows, [40, 8])
    np.testing.assert_allclose(measured.compositions, [[0.6, 0.4], [0.25, 0.75]])
    # kept: 6 + 2 of the first group, 4 + 6 of the second
    np.testing.assert_allclose(measured.shares, [8 / 18, 10 / 18])
    assert measured.values == pytest.approx(
        {
            "disclosivity": 26 / 48 - 0.25,
            # no 50 rows have one probability
            "disclosivity_of_probability": None,
            "imbalance": (10 / 18 - 0.5) * math.sqrt(2),
            "imbalance_before": (26 / 48 - 0.5) * math.sqrt(2),
            "smallest_growth": (10 / 18) / (22 / 48),
            "smallest_share": 10 / 18,
            "kept": 18 / 48,
            # the distances of the first group's shares from a half are 1/18 and 1/24
            "imbalance_reduction": 1 - 24 / 18,
            "support": 1.0,
            "support_none": 0.0,
            # the chances sum to 18 and their squares to 40 / 16 + 8
            "support_size": 18**2 / (48 * 10.5),
            # the second group's 22 rows: chances of 10 in all, squares of 16 / 16 + 6
            "support_shift": 22 * 7 / 10**2 - 1,
        }
    )
    assert set(measured.values) == set(measured.lows) == set(measured.highs) == set(MEASURES)
    assert set(measured.lows.values()) == set(measured.highs.values()) == {None}


def test_what_can_be_removed_by_hand() -> None:
    # the first group has 3/4 of the first proxy group and 3/5 of the second, 72 of 100 rows in all:
    # the nearest sample is the second proxy group alone
    X, groups = blocks((0.0, 60, 20), (1.0, 12, 8))
    proxy = PredictedGroupProxy(sampling="equal").fit(X, sensitive_features=groups)
    proxy.compositions_ = np.array([[0.75, 0.25], [0.6, 0.4]])
    proxy.masses_ = np.array([0.8, 0.2])
    assert possible_reduction(proxy) == pytest.approx(1 - 0.1 / 0.22)
    # the whole imbalance, where the target is between the proxy groups
    X, groups = blocks((0.0, 72, 8), (1.0, 5, 15))
    proxy = PredictedGroupProxy(sampling="equal").fit(X, sensitive_features=groups)
    assert possible_reduction(proxy) == pytest.approx(1.0)
    # nothing, where the proxy groups do not differ, and where the rows have the target shares
    proxy.compositions_ = np.tile(proxy.base_rates_, (2, 1))
    assert possible_reduction(proxy) is None
    proxy.target_ = proxy.base_rates_
    assert possible_reduction(proxy) is None


def test_measures_under_mixed_labels_by_hand() -> None:
    X, groups = blocks((0.0, 72, 8), (1.0, 5, 15))
    proxy = PredictedGroupProxy(sampling="equal", mixing=0.5).fit(X, sensitive_features=groups)
    X, groups = blocks((0.0, 24, 16), (1.0, 2, 6))
    measured = measure_proxy(proxy, X, groups, draws=0)
    # label 0 is shown on half of the 40 rows and a quarter of all 48, of which 26 are in the first
    # group
    first, second = (12 + 6.5) / (20 + 12), (1 + 6.5) / (4 + 12)
    assert measured.values["disclosivity"] == pytest.approx(
        max(abs(first - 26 / 48), abs(second - 26 / 48))
    )
    kept = proxy.acceptance(X)
    assert measured.values["kept"] == pytest.approx(kept.mean())
    share = kept[groups["g"] == "a"].sum() / kept.sum()
    np.testing.assert_allclose(measured.shares, [share, 1 - share])


def test_measures_are_those_of_counting_row_by_row() -> None:
    for seed in range(2):
        proxy = tree(seed)
        X, group = people(200, seed + 50)
        measured = measure_proxy(proxy, X, {"g": group}, draws=0)
        shares, kept = proxy.shares(X), proxy.acceptance(X)
        base = np.bincount(group) / len(group)
        told = 0.0
        for proxy_group in range(shares.shape[1]):
            rows = sum(shares[i, proxy_group] for i in range(len(X)))
            for k in range(3):
                members = sum(shares[i, proxy_group] for i in range(len(X)) if group[i] == k)
                told = max(told, abs(members / rows - base[k]))
        assert measured.values["disclosivity"] == pytest.approx(told)
        accepted = np.array([kept[group == k].sum() for k in range(3)]) / kept.sum()
        np.testing.assert_allclose(measured.shares, accepted)
        assert measured.values["imbalance"] == pytest.approx(np.linalg.norm(accepted - 1 / 3))
        assert measured.values["imbalance_before"] == pytest.approx(np.linalg.norm(base - 1 / 3))
        rarest = proxy.base_rates_.argmin()
        assert measured.values["smallest_share"] == pytest.approx(accepted[rarest])
        assert measured.values["smallest_growth"] == pytest.approx(accepted[rarest] / base[rarest])
        assert measured.values["kept"] == pytest.approx(kept.mean())


def test_on_training_rows_a_tree_tells_no_more_than_its_limit() -> None:
    proxy = tree(3)
    X, group = people(500, 3)
    measured = measure_proxy(proxy, X, {"g": group}, draws=0)
    assert measured.values["disclosivity"] is not None
    assert measured.values["disclosivity"] <= 0.15 + 1e-9
    np.testing.assert_allclose(measured.shares, proxy.shares_, atol=1e-9)
    np.testing.assert_allclose(measured.compositions, proxy.compositions_, atol=1e-9)


def test_a_probability_is_counted_over_rows_that_share_it() -> None:
    # 100 rows of probability 1 / 4, 60 of 1: 70 and 15 are in the first group
    X, groups = blocks((0.0, 72, 8), (1.0, 5, 15))
    proxy = PredictedGroupProxy(sampling="equal").fit(X, sensitive_features=groups)
    X, groups = blocks((0.0, 70, 30), (1.0, 15, 45))
    told = measure_proxy(proxy, X, groups, draws=0).values
    assert told["disclosivity_of_probability"] == pytest.approx(85 / 160 - 0.25)
    told = measure_proxy(proxy, X, groups, draws=0, min_rows=61).values
    assert told["disclosivity_of_probability"] == pytest.approx(0.7 - 85 / 160)
    # a randomised split leaves the drawn group coarse and the probability fine
    tree_proxy = tree(1)
    X, group = people(5000, 1)
    told = measure_proxy(tree_proxy, X, {"g": group}, draws=0).values
    accepted, base, worst = tree_proxy.acceptance(X), np.bincount(group) / 5000, 0.0
    for value in np.unique(np.round(accepted, 9)):
        alike = np.abs(accepted - value) < 1e-8
        if alike.sum() >= 50:
            worst = max(
                worst, np.abs(np.bincount(group[alike], minlength=3) / alike.sum() - base).max()
            )
    assert told["disclosivity_of_probability"] == pytest.approx(worst)


def test_two_attributes_are_measured_in_one_row_of_shares() -> None:
    X, group = people(500, 1)
    sex = np.where(X[:, 1] + np.random.default_rng(0).normal(size=500) > 0.7, "f", "m")
    attributes = {"g": group, "sex": sex}
    proxy = ProxyTree(alpha=0.2, tolerance=0.05).fit(X, sensitive_features=attributes)
    measured = measure_proxy(proxy, X, attributes, draws=20, rng=np.random.default_rng(0))
    assert measured.rows.sum() == pytest.approx(500)
    np.testing.assert_allclose(measured.compositions[:, :3].sum(axis=1), 1)
    np.testing.assert_allclose(measured.compositions[:, 3:].sum(axis=1), 1)
    kept = proxy.acceptance(X)
    counted = [kept[group == k].sum() for k in range(3)] + [
        kept[sex == s].sum() for s in ("f", "m")
    ]
    np.testing.assert_allclose(measured.shares, np.array(counted) / kept.sum())
    assert measured.values["kept"] == pytest.approx(kept.mean())
    np.testing.assert_allclose(measured.base_rates, proxy.base_rates_)
    # a person counts once, whatever the number of attributes
    most = measured.rows.max()
    assert (
        measure_proxy(proxy, X, attributes, draws=0, min_rows=most - 1).values["disclosivity"]
        is not None
    )
    assert (
        measure_proxy(proxy, X, attributes, draws=0, min_rows=most + 1).values["disclosivity"]
        is None
    )


def test_proxy_groups_of_few_rows_do_not_count() -> None:
    """They are left out of the disclosivity."""
    X, groups = blocks((0.0, 72, 8), (1.0, 5, 15))
    proxy = PredictedGroupProxy().fit(X, sensitive_features=groups)
    measured = [
        measure_proxy(proxy, X, groups, draws=0, min_rows=rows).values for rows in (0, 20, 21, 81)
    ]
    assert measured[0]["disclosivity"] == measured[1]["disclosivity"] == pytest.approx(0.77 - 0.25)
    assert measured[2]["disclosivity"] == pytest.approx(0.9 - 0.77)
    assert measured[3]["disclosivity"] is None
    assert measured[3]["imbalance"] == measured[0]["imbalance"]
    drawn = measure_proxy(proxy, X, groups, draws=30, min_rows=81, rng=np.random.default_rng(0))
    assert drawn.lows["disclosivity"] is None
    assert drawn.highs["disclosivity"] is None


def test_a_proxy_group_without_rows_has_no_composition() -> None:
    X, groups = blocks((0.0, 72, 8), (1.0, 5, 15))
    proxy = PredictedGroupProxy().fit(X, sensitive_features=groups)
    X, groups = blocks((0.0, 10, 10))
    measured = measure_proxy(proxy, X, groups, draws=50, rng=np.random.default_rng(0))
    assert np.isnan(measured.compositions[1]).all()
    np.testing.assert_allclose(measured.compositions[0], 0.5)
    assert measured.values["disclosivity"] == pytest.approx(0)
    assert measured.values["imbalance"] == pytest.approx(0)


def test_rows_of_unknown_groups_are_refused_without_being_quoted() -> None:
    proxy = tree()
    X, group = people(10)
    with pytest.raises(ValueError, match="not fitted on") as caught:
        measure_proxy(proxy, X, {"g": np.where(group == 0, "planted", group.astype(str))}, draws=0)
    assert "planted" not in str(caught.value)
    with pytest.raises(ValueError, match="lacks the attribute 'g'"):
        measure_proxy(proxy, X, {"h": group}, draws=0)


def width(proxy: BalancingProxy, n: int, name: str, level: float = 0.95) -> float:
    X, group = people(n, 77)
    rng = np.random.default_rng(0)
    measured = measure_proxy(proxy, X, {"g": group}, draws=300, level=level, rng=rng)
    low, high = measured.lows[name], measured.highs[name]
    assert low is not None
    assert high is not None
    return high - low


def test_intervals_contain_the_point_and_widen_with_fewer_rows() -> None:
    proxy = tree()
    for seed in range(10):
        X, group = people(300, 100 + seed)
        measured = measure_proxy(proxy, X, {"g": group}, draws=100, rng=np.random.default_rng(seed))
        for name, low in measured.lows.items():
            point, high = measured.values[name], measured.highs[name]
            # it is given without an interval
            if name == "disclosivity_of_probability":
                continue
            assert low is not None
            assert high is not None
            assert point is not None
            assert low <= point <= high, (seed, name)
            # the ends of these two lie symmetrically about a point that can be below or near 0
            assert low >= 0 or name in ("imbalance_reduction", "support_shift"), (seed, name)
    for name in ("smallest_share", "kept", "imbalance_before"):
        # sixteen times the rows make it a quarter as wide
        assert width(proxy, 200, name) / width(proxy, 3200, name) == pytest.approx(4, rel=0.4), name
        assert width(proxy, 200, name, 0.5) < width(proxy, 200, name)


def test_intervals_hold_what_is_true_of_many_people() -> None:
    proxy = tree(min_leaf=20.0)
    X, group = people(200_000, 999)
    truth = measure_proxy(proxy, X, {"g": group}, draws=0).values
    hits = dict.fromkeys(
        ("disclosivity", "imbalance", "imbalance_before", "smallest_share", "kept"), 0
    )
    for seed in range(40):
        X, group = people(400, 2000 + seed)
        measured = measure_proxy(proxy, X, {"g": group}, draws=200, rng=np.random.default_rng(seed))
        for name in hits:
            low, true, high = measured.lows[name], truth[name], measured.highs[name]
            assert low is not None
            assert high is not None
            assert true is not None
            hits[name] += low <= true <= high
    # at 95%, fewer than 34 of 40 have a chance of a hundredth
    assert min(hits.values()) >= 34, hits


def test_intervals_are_those_of_the_bootstrap() -> None:
    proxy = tree()
    X, group = people(400, 9)
    measured = measure_proxy(proxy, X, {"g": group}, draws=2000, rng=np.random.default_rng(0))
    kept, rng = proxy.acceptance(X), np.random.default_rng(1)
    shares, rates = [], []
    for _ in range(2000):
        rows = rng.integers(0, 400, 400)
        shares.append(
            kept[rows][group[rows] == proxy.base_rates_.argmin()].sum() / kept[rows].sum()
        )
        rates.append(kept[rows].mean())
    for name, drawn in (("smallest_share", shares), ("kept", rates)):
        low, high = np.quantile(drawn, [0.025, 0.975])
        assert measured.lows[name] == pytest.approx(low, abs=0.12 * (high - low)), name
        assert measured.highs[name] == pytest.approx(high, abs=0.12 * (high - low)), name


def test_the_same_generator_gives_the_same_intervals() -> None:
    proxy = tree()
    X, group = people(200, 9)
    first, second, other = (
        measure_proxy(proxy, X, {"g": group}, draws=60, rng=np.random.default_rng(seed))
        for seed in (0, 0, 1)
    )
    assert first.lows == second.lows
    assert first.highs == second.highs
    assert first.lows != other.lows


def test_the_interval_of_the_disclosivity_is_its_noise() -> None:
    """It ends at one."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(4000, 2))
    group = np.where(rng.random(4000) < np.where(X[:, 0] > 0, 0.7, 0.2), "a", "b")
    proxy = ProxyTree(alpha=0.5, tolerance=0.01, min_leaf=500).fit(
        X, sensitive_features={"g": group}
    )
    found = measure_proxy(proxy, X, {"g": group}, rng=np.random.default_rng(0))
    value, low, high = (part["disclosivity"] for part in (found.values, found.lows, found.highs))
    assert value is not None
    assert low is not None
    assert high is not None
    # a leaf of 500 rows: a share's standard error is at most .022, and the largest of few is within
    # 4 of them
    assert 0.0 < value - low < 0.09
    assert 0.0 < high - value < 0.09
    few = measure_proxy(proxy, X[:12], {"g": group[:12]}, rng=np.random.default_rng(0))
    assert few.highs["disclosivity"] is not None
    assert few.highs["disclosivity"] <= 1.0


def test_the_interval_of_vectors_is_their_largest_noise() -> None:
    point = np.array([[0.2, -0.1]])
    # the largest absolute entries of the differences: .05, .1, .2, .3 and .4
    differences = [[0.05, 0.0], [0.0, -0.1], [-0.2, 0.1], [0.3, 0.0], [0.0, 0.4]]
    drawn = point + np.array(differences)
    assert _interval("disclosivity", 0.5, point, drawn, 0.5) == pytest.approx((0.3, 0.7))
    assert _interval("disclosivity", 0.5, point, drawn, 1.0) == pytest.approx((0.1, 0.9))
    assert _interval("disclosivity", 0.8, point, drawn, 1.0) == pytest.approx((0.4, 1.0))
    assert _interval("disclosivity", 0.3, point, drawn, 1.0) == pytest.approx((0.0, 0.7))
    # Euclidean norms, and no upper bound: .05, .1, .2236, .3, .4
    norm = 0.05**0.5
    assert _interval("imbalance", 0.9, point, drawn, 0.5) == pytest.approx((0.9 - norm, 0.9 + norm))


def test_an_interval_of_no_width_is_widened_by_unseen_rows() -> None:
    share = binomtest(0, 50).proportion_ci(0.9).high
    unbounded = _widened("smallest_growth", 0.4, (0.4, 0.4), 50, 0.9)
    assert unbounded == pytest.approx((0.4 - share, 0.4 + share))
    larger = _widened("smallest_growth", 3.0, (3.0, 3.0), 50, 0.9)
    assert larger == pytest.approx((3.0 - 3 * share, 3.0 + 3 * share))
    bounded = _widened("disclosivity", 0.01, (0.01, 0.01), 50, 0.9)
    assert bounded == pytest.approx((0.0, 0.01 + 0.99 * share))
    assert _widened("disclosivity", 0.01, (0.005, 0.02), 50, 0.9) == (0.005, 0.02)
    exact = binomtest(10, 50).proportion_ci(0.9)
    assert _widened("support", 0.2, (0.19, 0.21), 50, 0.9) == pytest.approx((exact.low, exact.high))
    assert _widened("support", 0.2, (0.0, 1.0), 50, 0.9) == (0.0, 1.0)


def test_one_draw_gives_an_interval() -> None:
    X, group = people(200, 3)
    one = measure_proxy(tree(), X, {"g": group}, draws=1, rng=np.random.default_rng(0))
    for name, value in one.values.items():
        assert value is None or one.lows[name] is not None
