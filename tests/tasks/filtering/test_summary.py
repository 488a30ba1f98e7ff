"""Drift and expected shares against formulas written out, and against draws."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from evenhand.tasks.filtering.summary import drift_of, expected_shares


def test_drift_by_hand() -> None:
    found = drift_of([30.0, 70.0], [0.5, 0.5], 0.2)
    assert found is not None
    assert found["psi"] == pytest.approx(-0.2 * math.log(0.6) + 0.2 * math.log(1.4))
    assert found["chi_square"] == pytest.approx(16.0)
    assert found["p_value"] == pytest.approx(stats.chi2.sf(16.0, 1))
    assert not found["warning"]
    assert drift_of([30.0, 70.0], [0.5, 0.5], 0.1)["warning"]  # type: ignore[index]


def test_the_statistic_is_pearsons() -> None:
    rng = np.random.default_rng(0)
    training = rng.dirichlet(np.ones(7))
    counts = rng.multinomial(5000, training).astype(float)
    found = drift_of(counts, training, 0.2)
    expected = stats.chisquare(counts, training * 5000)
    assert found is not None
    assert found["chi_square"] == pytest.approx(expected.statistic)
    assert found["p_value"] == pytest.approx(expected.pvalue)


def test_equal_shares_have_no_drift_at_any_size() -> None:
    for rows in (1e-3, 1.0, 1e9):
        found = drift_of(np.array([0.2, 0.3, 0.5]) * rows, [0.2, 0.3, 0.5], 0.2)
        assert found is not None
        assert found["psi"] == pytest.approx(0.0, abs=1e-12)
        assert found["p_value"] == pytest.approx(1.0)


def test_empty_proxy_groups_stay_finite() -> None:
    found = drift_of([0.0, 10.0, 0.0], [0.5, 0.5, 0.0], 0.2)
    assert found is not None
    assert math.isfinite(found["psi"])
    assert found["warning"]
    assert drift_of([0.0, 0.0], [0.5, 0.5], 0.2) is None
    assert drift_of([12.0], [1.0], 0.2)["p_value"] == 1.0  # type: ignore[index]


BALANCE = {
    "groups": ["a", "b", "c"],
    "compositions": [[0.5, 0.3, 0.2], [0.1, 0.9, 0.0]],
    "rows": [100.0, 40.0],
    "target": [0.3, 0.6, 0.1],
}


def test_expected_shares_by_hand() -> None:
    found = expected_shares([300.0, 100.0], [0.5, 1.0], BALANCE, 0)
    assert found is not None
    # 150 and 100 people are kept: 0.6 of the first composition and 0.4 of the second
    np.testing.assert_allclose(found["shares"], [0.34, 0.54, 0.12])
    assert sum(found["shares"]) == pytest.approx(1.0)
    assert all(
        low <= share <= high
        for low, share, high in zip(found["low"], found["shares"], found["high"], strict=True)
    )
    assert expected_shares([300.0, 100.0], [0.5, 1.0], BALANCE, 0) == found
    assert expected_shares([300.0, 100.0], [0.0, 0.0], BALANCE, 0) is None


def test_the_interval_narrows_with_the_held_out_rows() -> None:
    widths = []
    for rows in (10.0, 1000.0, 1e7):
        found = expected_shares([1.0, 1.0], [1.0, 1.0], {**BALANCE, "rows": [rows, rows]}, 0)
        assert found is not None
        widths.append(found["high"][0] - found["low"][0])
    assert widths[0] > 5 * widths[1] > 50 * widths[2]
    # at many rows the normal approximation holds: the variance of a mean of two binomial shares
    deviation = math.sqrt((0.5 * 0.5 + 0.1 * 0.9) / 4 / 1e7)
    assert widths[2] == pytest.approx(2 * 1.96 * deviation, rel=0.06)


def test_the_interval_covers_the_truth_as_often_as_it_says() -> None:
    rng = np.random.default_rng(4)
    truth = np.array([[0.5, 0.3, 0.2], [0.2, 0.6, 0.2], [0.1, 0.2, 0.7]])
    rows = np.array([60, 25, 150])
    weights = np.array([5.0, 3.0, 2.0])
    expected = weights @ truth / weights.sum()
    hits = np.zeros(3)
    repeats = 300
    for repeat in range(repeats):
        seen = np.stack([rng.multinomial(n, p) / n for n, p in zip(rows, truth, strict=True)])
        balance = {"groups": list("abc"), "compositions": seen, "rows": rows, "target": [1 / 3] * 3}
        found = expected_shares(weights, np.ones(3), balance, repeat)
        assert found is not None
        hits += (np.array(found["low"]) <= expected) & (expected <= np.array(found["high"]))
    # 95 % of 300: 285, give or take 3.8
    assert hits.min() > 285 - 4.5 * 3.8
    assert hits.min() < 300


def test_what_a_proxy_group_lacks_is_taken_from_training() -> None:
    hidden = {
        **BALANCE,
        "compositions": [[0.5, 0.3, 0.2], None],
        "compositions_train": [[0.9, 0.1, 0.0], [0.1, 0.9, 0.0]],
    }
    told = expected_shares([300.0, 100.0], [0.5, 1.0], BALANCE, 0)
    found = expected_shares([300.0, 100.0], [0.5, 1.0], hidden, 0)
    assert told is not None
    assert found is not None
    np.testing.assert_allclose(found["shares"], told["shares"])
    # no held-out row stands behind it, so less is certain
    assert found["high"][1] - found["low"][1] > 2 * (told["high"][1] - told["low"][1])


def test_a_group_that_is_told_nowhere_stands_at_the_target() -> None:
    hidden = {**BALANCE, "compositions": [[0.5, None, 0.2], [0.1, None, 0.0]]}
    found = expected_shares([1.0, 1.0], [1.0, 1.0], hidden, 0)
    assert found is not None
    np.testing.assert_allclose(found["shares"], BALANCE["target"])
    assert found["imbalance"] == pytest.approx(0.0, abs=1e-12)


def test_the_imbalance_by_hand_and_its_ends() -> None:
    found = expected_shares([300.0, 100.0], [0.5, 1.0], BALANCE, 0)
    assert found is not None
    # (.34, .54, .12) from (.3, .6, .1)
    assert found["imbalance"] == pytest.approx(math.sqrt(0.04**2 + 0.06**2 + 0.02**2))
    assert 0.0 <= found["imbalance_low"] < found["imbalance"] < found["imbalance_high"]
    reach = found["imbalance_high"] - found["imbalance"]
    surer = expected_shares([300.0, 100.0], [0.5, 1.0], {**BALANCE, "rows": [1e6, 4e5]}, 0)
    assert surer is not None
    assert surer["imbalance_high"] - surer["imbalance"] < reach / 20
    assert surer["imbalance_low"] == pytest.approx(
        surer["imbalance"] - (surer["imbalance_high"] - surer["imbalance"]), rel=1e-9
    )


def test_the_interval_of_the_imbalance_holds_the_truth() -> None:
    rng = np.random.default_rng(8)
    truth = np.array([[0.45, 0.3, 0.25], [0.2, 0.45, 0.35]])
    target = truth.mean(axis=0)
    held = 0
    for repeat in range(200):
        seen = np.stack([rng.multinomial(80, p) / 80 for p in truth])
        balance = {"groups": list("abc"), "compositions": seen, "rows": [80, 80], "target": target}
        found = expected_shares([1.0, 1.0], [1.0, 1.0], balance, repeat)
        assert found is not None
        held += found["imbalance_low"] <= 0.0 <= found["imbalance_high"]
    # a percentile of the norm itself would never hold the true 0
    assert held >= 180


def test_every_attribute_has_shares_of_its_own() -> None:
    balance = {
        "attributes": {"sex": ["f", "m"], "age": ["old", "young"]},
        "groups": ["sex=f", "sex=m", "age=old", "age=young"],
        "compositions": [[0.4, 0.6, 0.9, 0.1]],
        "rows": [50.0],
        "target": [0.5, 0.5, 0.5, 0.5],
    }
    found = expected_shares([10.0], [0.5], balance, 0)
    assert found is not None
    np.testing.assert_allclose(found["shares"], [0.4, 0.6, 0.9, 0.1])
    # two groups of one attribute mirror each other, so their ends do
    assert found["low"][0] == pytest.approx(1.0 - found["high"][1])
    assert found["low"][2] == pytest.approx(1.0 - found["high"][3])
