"""Lemma 3 and the theorems of the balancing proxies: the printed formulas, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks.reproductions import proxies_theory
from evenhand.fairlib.proxies.tree import ProxyTree


def test_the_conditions_of_the_lemma_by_hand() -> None:
    # 2 gamma - gamma^2 = .19; at a = 0 the second root is that of 2
    assert proxies_theory.least_shift(0.1, 0.0) == pytest.approx(math.sqrt(0.19 * 2))
    # at a = 1: 2 - 1 + 2 * .9 * sqrt(1.81)
    inner = 1 + 1.8 * math.sqrt(1.81)
    assert proxies_theory.least_shift(0.1, 1.0) == pytest.approx(math.sqrt(0.19 * inner))
    assert proxies_theory.least_length(0.1, 0.9) == pytest.approx(math.sqrt(0.19))


def test_twenty_five_splits_reach_a_tenth() -> None:
    splits = proxies_theory.most_splits(0.1, 0.1)
    assert math.floor(splits) == 25
    assert math.sqrt(2) * 0.9**splits == pytest.approx(0.1)


def test_the_slack_solves_the_theorem_for_the_rows() -> None:
    epsilon = proxies_theory.slack(rows=300, columns=39, groups=12, splits=25.0)
    rows = math.log(8 * 40 * 12 * 25 / 0.05) / (2 * epsilon**2)
    assert rows == pytest.approx(300)
    disclosivity, imbalance = proxies_theory.bounds(0.2, 0.1, 0.05, 12, 25.0)
    assert (disclosivity, imbalance) == pytest.approx((0.3, 0.1 + 12 * 0.05 * 5))


def test_a_watched_tree_is_the_same_and_says_how_far_it_moved() -> None:
    rng = np.random.default_rng(0)
    sex = np.repeat(["f", "m"], [50, 150])
    X = rng.normal(size=(200, 1)) + 2 * (sex == "f")[:, None]
    settings = {"alpha": 0.4, "min_leaf": 5, "tolerance": 0.01}
    watched = proxies_theory.WatchedTree(**settings).fit(X, sensitive_features={"sex": sex})
    tree = ProxyTree(**settings).fit(X, sensitive_features={"sex": sex})
    np.testing.assert_array_equal(watched.acceptance(X), tree.acceptance(X))
    first = watched.splits_[0]
    # of two groups both shares move by the same amount, towards the target alone
    base = tree.base_rates_[0]
    reached = max(tree.compositions_[:, 0])
    assert first["distance"] == pytest.approx(math.sqrt(2) * (0.5 - base))
    assert first["length"] == pytest.approx(first["shift"])
    assert first["length"] <= math.sqrt(2) * (reached - base) + 1e-9
    assert first["apart"] == pytest.approx(0.0)
