"""Distributions of a number by group: simpler models where the rows do not reject them."""

import numpy as np
import pytest

from evenhand.fairlib.distances.number_fits import (
    NumberFit,
    additive,
    effects_design,
    fit_number,
    knots_of,
    ridge,
    scale_ratio,
    shared_slopes,
    shares_of_knots,
    slopes_are_alike,
    with_intercept,
    with_one_location,
)


def people(n=1200, seed=0):
    rng = np.random.default_rng(seed)
    return rng, np.repeat([0, 1], n // 2), rng.normal(size=n)


def test_groups_share_coefficients_that_are_alike():
    rng, codes, parent = people()
    values = 2 * parent + codes + 0.5 * rng.normal(size=len(codes))
    fit = fit_number(with_intercept(parent[:, None]), values, codes, np.ones(len(codes)), [2])
    assert fit.pooled
    assert fit.weights[0, 1] == fit.weights[1, 1] == pytest.approx(2, abs=0.05)
    assert fit.weights[1, 0] - fit.weights[0, 0] == pytest.approx(1, abs=0.1)
    np.testing.assert_allclose(fit.scales, 0.5, atol=0.03)


def test_groups_keep_coefficients_that_differ():
    rng, codes, parent = people()
    values = np.where(codes == 1, 2.0, -1.0) * parent + 0.5 * rng.normal(size=len(codes))
    fit = fit_number(with_intercept(parent[:, None]), values, codes, np.ones(len(codes)), [2])
    assert not fit.pooled
    np.testing.assert_allclose(fit.weights[:, 1], [-1, 2], atol=0.05)
    assert [len(residual) for residual in fit.residuals] == [600, 600]


def test_shared_slopes_equal_a_regression_with_dummies():
    rng, codes, parent = people(300)
    values = parent + 3 * codes + rng.normal(size=300)
    weights = rng.uniform(0.5, 2, size=300)
    shared = shared_slopes(with_intercept(parent[:, None]), values, codes, weights, 2)
    root = np.sqrt(weights)
    design = np.column_stack([codes == 0, codes == 1, parent]) * root[:, None]
    expected, *_ = np.linalg.lstsq(design, values * root, rcond=None)
    np.testing.assert_allclose([shared[0, 0], shared[1, 0], shared[0, 1]], expected, atol=0.01)


def test_the_f_test_by_hand():
    # 4 rows, 2 groups, 1 coefficient: no row is left to judge by
    assert not slopes_are_alike(np.full(4, 1.0), np.full(4, 1.1), 2, 1)
    # F(1, 16) = 1 / (16 / 16) = 1 has p = .33, and F = 16 has p = .001
    errors = np.ones(20) * np.sqrt(16 / 20)
    assert slopes_are_alike(errors, errors * np.sqrt(17 / 16), 2, 1)
    assert not slopes_are_alike(errors, errors * np.sqrt(2), 2, 1)
    # groups of one line each, on which all people lie
    assert slopes_are_alike(np.zeros(20), np.zeros(20), 2, 1)
    assert not slopes_are_alike(np.zeros(20), np.ones(20), 2, 1)


def test_effects_of_two_attributes_add_up_unless_rejected():
    variances = np.full(4, 0.01)
    # the interaction is .05 + .05 - 0 - .1 = 0 up to noise
    near = additive(np.array([0.0, 1.0, 2.0, 3.1]), variances, [2, 2])
    np.testing.assert_allclose(near, [-0.025, 1.025, 2.025, 3.075])
    far = np.array([0.0, 1.0, 2.0, 5.0])
    assert (additive(far, variances, [2, 2]) == far).all()
    assert (additive(far, variances, [4]) == far).all()


def test_the_design_of_two_and_three_groups():
    design = effects_design([2, 3])
    assert design.tolist() == [
        [1, 0, 0, 0],
        [1, 0, 1, 0],
        [1, 0, 0, 1],
        [1, 1, 0, 0],
        [1, 1, 1, 0],
        [1, 1, 0, 1],
    ]


def test_one_location_where_only_the_scale_differs():
    rng = np.random.default_rng(0)
    residuals = [rng.normal(size=400), 3 * rng.normal(size=400)]
    fit = NumberFit(np.array([[0.02], [-0.05]]), np.array([1.0, 3.0]), residuals, True)
    one = with_one_location(fit)
    # weighted by precision, 9 to 1
    np.testing.assert_allclose(one.weights[:, 0], (9 * 0.02 - 0.05) / 10)
    np.testing.assert_allclose(one.residuals[0] - residuals[0], 0.02 - one.weights[0, 0])
    other = NumberFit(np.array([[0.0], [2.0]]), fit.scales, residuals, True)
    assert with_one_location(other) is other
    own = NumberFit(fit.weights, fit.scales, residuals, False)
    assert with_one_location(own) is own


def test_weights_count_in_a_ridge_regression():
    inputs = with_intercept(np.array([[0.0], [1.0], [1.0]]))
    doubled = ridge(np.vstack([inputs, inputs[2:]]), np.array([0.0, 1.0, 2.0, 2.0]))
    weighted = ridge(inputs, np.array([0.0, 1.0, 2.0]), np.array([1.0, 1.0, 2.0]))
    np.testing.assert_allclose(weighted, doubled, atol=0.01)
    assert ridge(inputs, np.array([0.0, 1.0, 2.0]))[1] == pytest.approx(1.5, abs=0.01)


def test_shares_of_knots_follow_the_weights():
    values = np.arange(20.0)
    assert knots_of(values).tolist() == [4.5, 14.5]
    assert shares_of_knots(values, np.ones(20)).tolist() == [0.25, 0.75]
    heavy = np.repeat([1.0, 3.0], 10)
    assert shares_of_knots(values[::-1], heavy[::-1]).tolist() == [0.125, 0.625]


def test_a_constant_group_keeps_its_scale():
    assert scale_ratio(2.0, 0.0) == 1.0
    assert scale_ratio(2.0, 4.0) == 0.5
