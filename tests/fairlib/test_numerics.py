from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from evenhand.fairlib.numerics import logistic_losses, orthonormal_basis


def test_losses_are_those_of_both_labels() -> None:
    margin = np.array([-2.0, 0.0, 3.0])
    p = 1 / (1 + np.exp(-margin))
    np.testing.assert_allclose(logistic_losses(margin), [-np.log(1 - p), -np.log(p)], rtol=1e-14)


def test_losses_stay_exact_where_the_exponential_overflows() -> None:
    np.testing.assert_array_equal(logistic_losses([800.0, -800.0]), [[800.0, 0.0], [0.0, 800.0]])
    assert logistic_losses([1e300])[0, 0] == 1e300


def test_losses_stay_positive_where_one_plus_rounds_to_one() -> None:
    # log(1 + exp(-50)) is exp(-50) to 1e-22; 1 + exp(-50) is 1 in floating point
    assert logistic_losses([50.0])[1, 0] == pytest.approx(np.exp(-50.0), rel=1e-12)


def test_basis_of_a_known_plane() -> None:
    basis = orthonormal_basis([[0.0, 3.0, 0.0, 0.0], [0.0, 0.0, 0.0, -2.0]])
    np.testing.assert_allclose(basis @ basis.T, np.diag([0.0, 1.0, 0.0, 1.0]), atol=1e-15)


@pytest.mark.parametrize(
    ("directions", "rank"),
    [
        ([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0]], 1),
        ([[1.0, 2.0, 3.0], [-1.0, -2.0, -3.0], [0.0, 0.0, 0.0]], 1),
        ([[0.0, 0.0, 0.0]], 0),
        (np.zeros((0, 3)), 0),
        (np.eye(3), 3),
        (np.vstack([np.eye(3), np.ones((1, 3))]), 3),
    ],
)
def test_basis_has_the_rank_of_its_directions(directions: np.ndarray, rank: int) -> None:
    basis = orthonormal_basis(directions)
    assert basis.shape == (3, rank)
    np.testing.assert_allclose(basis.T @ basis, np.eye(rank), atol=1e-14)


@pytest.mark.parametrize("scale", [1e-200, 1e-9, 1.0, 1e9, 1e200])
def test_basis_does_not_depend_on_the_directions_scale(scale: float) -> None:
    basis = orthonormal_basis([[scale, scale, 0.0], [0.0, 0.0, 1.0]])
    half = np.array([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])
    np.testing.assert_allclose(basis @ basis.T, half, atol=1e-15)


def test_basis_refuses_what_is_not_finite() -> None:
    with pytest.raises(ValueError, match="finite"):
        orthonormal_basis([[1.0, np.nan]])


@given(hnp.arrays(np.float64, (3, 5), elements=st.floats(-10, 10).map(lambda x: round(x, 3))))
def test_basis_spans_its_directions(directions: np.ndarray) -> None:
    basis = orthonormal_basis(directions)
    np.testing.assert_allclose(directions @ basis @ basis.T, directions, atol=1e-9)
