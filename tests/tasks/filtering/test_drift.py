"""Drift and expected shares against formulas written out, and against draws."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from tasks.filtering.drift import drift_of, expected_shares


def test_drift_by_hand() -> None:
    found = drift_of([30.0, 70.0], [0.5, 0.5], 0.2)
    assert found is not None
    assert found.psi == pytest.approx(-0.2 * math.log(0.6) + 0.2 * math.log(1.4))
    assert found.chi_square == pytest.approx(16.0)
    assert found.p_value == pytest.approx(stats.chi2.sf(16.0, 1))
    assert not found.warning
    assert drift_of([30.0, 70.0], [0.5, 0.5], 0.1).warning  # type: ignore[union-attr]


def test_the_statistic_is_pearsons() -> None:
    rng = np.random.default_rng(0)
    training = rng.dirichlet(np.ones(7))
    counts = rng.multinomial(5000, training).astype(float)
    found = drift_of(counts, training, 0.2)
    expected = stats.chisquare(counts, training * 5000)
    assert found is not None
    assert found.chi_square == pytest.approx(expected.statistic)
    assert found.p_value == pytest.approx(expected.pvalue)


def test_equal_shares_have_no_drift_at_any_size() -> None:
    for rows in (1e-3, 1.0, 1e9):
        found = drift_of(np.array([0.2, 0.3, 0.5]) * rows, [0.2, 0.3, 0.5], 0.2)
        assert found is not None
        assert found.psi == pytest.approx(0.0, abs=1e-12)
        assert found.p_value == pytest.approx(1.0)


def test_empty_proxy_groups_stay_finite() -> None:
    found = drift_of([0.0, 10.0, 0.0], [0.5, 0.5, 0.0], 0.2)
    assert found is not None
    assert math.isfinite(found.psi)
    assert found.warning
    assert drift_of([0.0, 0.0], [0.5, 0.5], 0.2) is None
    assert drift_of([12.0], [1.0], 0.2).p_value == 1.0  # type: ignore[union-attr]


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
    np.testing.assert_allclose(found.shares, [0.34, 0.54, 0.12])
    assert sum(found.shares) == pytest.approx(1.0)
    assert all(
        low <= share <= high for low, share, high in zip(found.low, found.shares, found.high, strict=True)
    )
    assert expected_shares([300.0, 100.0], [0.5, 1.0], BALANCE, 0) == found
    assert expected_shares([300.0, 100.0], [0.0, 0.0], BALANCE, 0) is None


def test_the_interval_narrows_with_the_held_out_rows() -> None:
    widths = []
    for rows in (10.0, 1000.0, 1e7):
        found = expected_shares([1.0, 1.0], [1.0, 1.0], {**BALANCE, "rows": [rows, rows]}, 0)
        assert found is not None
        widths.append(found.high[0] - found.low[0])
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
        hits += (np.array(found.low) <= expected) & (expected <= np.array(found.high))
    # 95 % of 300: 285, give or take 3.8
    assert hits.min() > 285 - 4.5 * 3.8
    assert hits.min() < 300
