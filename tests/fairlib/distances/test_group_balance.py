"""Weights under which groups are alike in columns that do not differ: by hand, limits, gain."""

import numpy as np
import pytest

from evenhand.fairlib.distances.group_balance import (
    LARGEST_WEIGHT,
    LEAST_WEIGHT,
    balance_weights,
    moments_of,
)


def test_weights_by_hand():
    # two groups of 20: means 0 and 1, and within each half 1 below and half 1 above
    values = np.repeat([-1.0, 1.0, 0.0, 2.0], 10)
    codes = np.repeat([0, 1], 20)
    weights = balance_weights(values[:, None], codes, 2)
    # the common mean is 1/2: a share of 3/4 above in the first group, of 1/4 in the second
    np.testing.assert_allclose(weights, np.repeat([0.5, 1.5, 1.5, 0.5], 10))


def test_every_group_has_the_means_of_all_rows():
    rng = np.random.default_rng(0)
    codes = np.repeat([0, 1, 2], [300, 200, 100])
    moments = rng.normal(size=(600, 3))
    weights = balance_weights(moments, codes, 3)
    for group in range(3):
        members = codes == group
        assert weights[members].mean() == pytest.approx(1)
        means = np.average(moments[members], axis=0, weights=weights[members])
        np.testing.assert_allclose(means, moments.mean(axis=0), atol=1e-9)


def test_small_groups_use_fewer_moments_and_weights_are_limited():
    rng = np.random.default_rng(1)
    codes = np.repeat([0, 1], [300, 39])
    moments = rng.normal(size=(339, 2))
    one = balance_weights(moments[:, :1], codes, 2)
    # 39 people carry one moment, not two
    assert (balance_weights(moments, codes, 2) == one).all()
    moments[codes == 1] += 20
    weights = balance_weights(moments, codes, 2)
    for group in (0, 1):
        part = weights[codes == group]
        assert part.max() / part.min() <= LARGEST_WEIGHT / LEAST_WEIGHT + 1e-9


def test_without_moments_all_rows_count_the_same():
    codes = np.repeat([0, 1], 50)
    assert (balance_weights(np.empty((100, 0)), codes, 2) == 1).all()
    assert (balance_weights(np.ones((100, 1)), codes, 2) == 1).all()


def test_balanced_differences_have_a_smaller_error():
    rng = np.random.default_rng(2)
    codes = np.repeat([0, 1], 100)
    plain = []
    balanced = []
    for _ in range(200):
        merit = rng.normal(size=200)
        test = merit + 0.3 * rng.normal(size=200)
        rating = merit + codes + 0.3 * rng.normal(size=200)
        weights = balance_weights(moments_of([test]), codes, 2)
        first = codes == 0
        plain.append(rating[~first].mean() - rating[first].mean() - 1)
        weighted = [np.average(rating[part], weights=weights[part]) for part in (first, ~first)]
        balanced.append(weighted[1] - weighted[0] - 1)
    # the rest is what the test does not tell of the merit: a standard deviation of .41 of 1.04
    assert np.std(balanced) < 0.5 * np.std(plain)
    assert abs(np.mean(balanced)) < 0.02


def test_moments_are_values_then_squares():
    two_values = np.tile([0.0, 1.0], 50)
    many = np.linspace(-1, 1, 100)
    moments = moments_of([two_values, many, np.zeros(100)])
    # of two values the square says nothing new, and constants are left out
    assert moments.shape == (100, 3)
    np.testing.assert_allclose(moments.mean(axis=0), [0, 0, 1], atol=1e-9)
    assert moments_of([]).shape == (0, 0)
