"""The region of comparable people: bounds of linear functions against hand-computed and convex
optima.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from evenhand.fairlib.auditor.worst_case_search import SearchBounds
from evenhand.fairlib.certificates.region import Region
from evenhand.fairlib.distances import Metric, SensitiveSubspace
from tests.fairlib.small_metrics import METRICS, subspace, table

Float = NDArray[np.float64]


def exact(region: Region, metric: Metric, i: int, a: Float) -> float:
    """The maximum of a linear function by a conic solver, from the definition alone."""
    d, k = metric.basis_.shape
    delta, t = cp.Variable(d), cp.Variable(max(k, 1))
    root = np.linalg.cholesky(metric.weigh(np.eye(d)) + 1e-13 * np.eye(d)).T
    move = delta - metric.basis_ @ (metric.basis_.T @ delta)
    limits = [
        delta >= region.low[i],
        delta <= region.high[i],
        cp.norm(root @ delta) <= region.radius[i],
    ]
    if k:
        move = move + metric.basis_ @ t
        limits += [t >= region.free_low[i], t <= region.free_high[i]]
    problem = cp.Problem(cp.Maximize(a @ move), limits)
    problem.solve(solver=cp.CLARABEL)
    return float(a @ region.x[i] + problem.value)


@METRICS
@pytest.mark.parametrize("radius", [0.0, 0.1, 1.0, np.inf])
def test_no_point_of_the_region_is_above_the_bound(
    metric: Callable[[], Metric], radius: float
) -> None:
    fitted, X, random = metric(), table(1, 20), np.random.default_rng(3)
    region = Region.of(fitted, X, radius)
    A = random.normal(size=(7, 6))
    bound = region.support(A)
    delta = random.normal(size=(300, 20, 6)) * random.choice([0.03, 1.0, 10.0], size=(300, 1, 1))
    t = 5.0 * random.normal(size=(300, 20, fitted.basis_.shape[1]))
    points = region.points(delta, t)
    assert (points @ A.T <= bound).all()
    np.testing.assert_allclose(
        region.support(np.broadcast_to(A, (20, 7, 6))), bound, rtol=0, atol=1e-10
    )
    distances = fitted.squared(points.reshape(-1, 6), np.tile(X, (300, 1)))
    assert distances.max() <= radius**2 + 1e-12
    low, high = -region.support(-np.eye(6)), region.support(np.eye(6))
    assert (points >= low).all()
    assert (points <= high).all()


@METRICS
@pytest.mark.parametrize("radius", [0.1, pytest.param(0.7, marks=pytest.mark.long)])
def test_the_bound_is_near_the_exact_maximum_and_never_below(
    metric: Callable[[], Metric], radius: float
) -> None:
    fitted, random = metric(), np.random.default_rng(5)
    region = Region.of(fitted, table(1, 6), radius)
    A = random.normal(size=(4, 6))
    found = region.support(A)
    optimum = np.array([[exact(region, fitted, i, a) for a in A] for i in range(6)])
    gap = found - optimum
    assert gap.min() >= -1e-6
    # the width of what the region allows is the scale of the gap
    width = optimum + np.array([[exact(region, fitted, i, -a) for a in A] for i in range(6)])
    assert np.median(gap / width) <= 0.1
    assert np.median(gap / width) < 0.5 * np.median((looser(region, A) - optimum) / width) + 0.01


def looser(region: Region, A: Float) -> Float:
    """The bound from the ellipsoid alone."""
    along = A @ region.basis
    free = np.maximum(along * region.free_low[:, None], along * region.free_high[:, None]).sum(
        axis=-1
    )
    rest = A - along @ region.basis.T
    return (
        region.x @ A.T
        + free
        + region.radius[:, None] * np.linalg.norm(rest @ region.factor, axis=-1)
    )


def test_a_unit_box_has_the_hand_computed_bounds() -> None:
    metric = SensitiveSubspace(indicators=(0,)).fit(np.array([[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]]))
    region = Region.of(metric, [[0.0, 1.0, 0.0]], 0.5)
    # the first column is free in [0, 1]; the second can only fall, the third only rise
    found = region.support(
        np.array([[2.0, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -3, -4], [0, -3, 4], [1, 1, 1]])
    )
    np.testing.assert_allclose(found[0], [2.0, 0.0, 1.0, -3.0 + 1.5, -3.0 + 2.5, 2.5], atol=1e-9)


def test_halves_cover_the_region_and_narrow_the_bound() -> None:
    region = Region.of(subspace(), table(1, 8), 0.2)
    middles = region.free_low.copy()
    middles[:, 0] = (region.free_low + region.free_high)[:, 0] / 2
    highs = np.where(np.arange(middles.shape[1]) == 0, middles, region.free_high)
    low, high = replace(region, free_high=highs), replace(region, free_low=middles)
    a = region.basis[:, :1].T
    assert (low.support(a) <= region.support(a) + 1e-12).all()
    np.testing.assert_allclose(
        np.maximum(low.support(a), high.support(a)), region.support(a), atol=1e-9
    )
    for middle in (low.free_high, high.free_low):
        np.testing.assert_allclose(middle[:, 0], (region.free_low + region.free_high)[:, 0] / 2)
    both = region.rows(np.array([2, 2, 5]))
    np.testing.assert_allclose(both.support(a), region.support(a)[[2, 2, 5]])


def test_the_points_are_those_of_the_search() -> None:
    metric, X, random = subspace(), table(1, 9), np.random.default_rng(2)
    region = Region.of(metric, X, np.inf)
    delta = random.normal(size=X.shape).clip(region.low, region.high)
    z = random.normal(size=(9, metric.basis_.shape[1]))
    bounds = SearchBounds(metric, torch.tensor(X))
    searched = bounds.points(torch.tensor(z), torch.tensor(delta)).numpy()
    np.testing.assert_allclose(
        region.points(delta, z + delta @ metric.basis_), searched, atol=1e-12
    )


def test_a_projection_needs_no_factor() -> None:
    region, random = Region.of(subspace(), table(1, 9), 0.3), np.random.default_rng(4)
    other = replace(region, is_projection=False)
    assert region.is_projection
    A, moves = random.normal(size=(5, 6)), random.normal(size=(9, 6))
    np.testing.assert_allclose(region.support(A), other.support(A), atol=1e-12)
    np.testing.assert_allclose(region.inside(moves), other.inside(moves), atol=1e-12)
    np.testing.assert_allclose(region.steepest(moves), other.steepest(moves), atol=1e-12)


def test_wrong_input_is_refused() -> None:
    metric, X = subspace(), table(1, 3)
    with pytest.raises(ValueError, match="fitted on 6 features"):
        Region.of(metric, X[:, :5], 0.1)
    with pytest.raises(ValueError, match="finite"):
        Region.of(metric, X, -0.1)
    metric.basis_ = np.eye(6)
    with pytest.raises(ValueError, match="matrix is zero"):
        Region.of(metric, X, 0.1)
