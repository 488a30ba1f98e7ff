"""Measures of proved bounds against hand-computed values, brute force and linear programs."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.special import expit

from evenhand.fairlib.certificates.measures import (
    Ring,
    decision_radii,
    flipped_share,
    loss_rise,
    mean_change,
    score_change,
    squared_found,
    squared_gain,
    squared_length,
)

Float = NDArray[np.float64]


def ring(
    inner: float, radius: float, margin: list[float], found: list[float], proved: list[float]
) -> Ring:
    """Margins that move by so much either way, found and proved; half as far at the inner
    radius.
    """
    own = np.array(margin)
    both = np.stack([own, -own], axis=1)
    far, sure = np.array(found)[:, None], np.array(proved)[:, None]
    return Ring(inner, radius, both, both + far, both + sure, both + sure / 2)


def test_the_change_of_a_score_is_of_the_worst_person() -> None:
    margins = ring(0.0, 1.0, [0.0, 3.0], [0.5, 1.0], [1.0, 2.0])
    found = score_change(margins, lambda margin: np.asarray(expit(margin)))
    assert found.found == pytest.approx(max(expit(0.5) - 0.5, expit(3) - expit(2)))
    assert found.proved == pytest.approx(max(expit(1.0) - 0.5, expit(3) - expit(1)))
    one_way = Ring(0.0, 1.0, np.array([[0.0, 0.0]]), *(np.array([[0.0, 2.0]]),) * 3)
    assert score_change(one_way, lambda margin: np.asarray(expit(margin))).proved == pytest.approx(
        0.5 - expit(-2.0)
    )


def test_radii_of_decisions_are_the_hand_computed_ones() -> None:
    # at the inner radius the bound has moved half as far as at the radius
    rings = [
        ring(0.0, 0.0, [0.4, -0.4, 2.0, 0.4], [0, 0, 0, 0.5], [0, 0, 0, 0.5]),
        ring(0.0, 1.0, [0.4, -0.4, 2.0, 0.4], [0.1, 0.1, 0.1, 0.5], [0.6, 0.3, 0.3, 0.9]),
        ring(1.0, 3.0, [0.4, -0.4, 2.0, 0.4], [0.5, 0.2, 0.1, 0.5], [0.7, 0.6, 0.6, 0.9]),
    ]
    proved, found = decision_radii(rings, 0.0)
    # 0.3 + 0.3 s = 0.4 at s = 1/3; the second ring has 0.35 + 0.35 s = 0.4 at s = 1/7, so 1 + 2/7
    np.testing.assert_allclose(proved, [1 + 2 / 7, 1 + 2 * (0.1 / 0.3), 3.0, 0.0], rtol=1e-7)
    np.testing.assert_array_equal(found, [3.0, np.inf, np.inf, 0.0])
    # a threshold between two margins
    np.testing.assert_allclose(decision_radii(rings[:2], 0.55)[0][:2], [0.0, 1.0], atol=1e-7)


def test_the_share_of_flips_takes_the_cheapest_people_first() -> None:
    proved = np.array([0.0, 1.0, 2.0, np.inf])
    found = np.array([1.0, 2.0, np.inf, np.inf])
    # four people and a mean budget of 1.25: 5 in all; proved costs 0 + 1 + 4, found costs 1 + 4
    assert flipped_share(proved, found, 1.25) == flipped_share(proved, found, 1.3)
    share = flipped_share(proved, found, 1.25)
    assert (share.found, share.proved) == (0.5, 0.75)
    assert flipped_share(proved, found, 1.2).proved == 0.5


def test_the_longest_vector_is_that_of_a_fine_grid() -> None:
    random = np.random.default_rng(0)
    angles, fine = np.arange(8) * np.pi / 4, np.linspace(0.0, 2 * np.pi, 20_001)
    cloud = random.normal(size=(200, 4, 2)) * random.choice([1.0, 0.1], (200, 1, 2))
    H = np.maximum(cloud @ np.stack([np.cos(angles), np.sin(angles)]), 0.0).max(axis=1)
    reach = np.cos(fine[:, None] - angles)  # how fast each bound is used up in each direction
    with np.errstate(divide="ignore"):
        longest = np.where(reach > 1e-12, H[:, None, :] / np.maximum(reach, 1e-12), np.inf).min(
            axis=2
        )
    np.testing.assert_allclose(squared_length(H), np.square(longest).max(axis=1), rtol=2e-3)
    assert (squared_length(H) >= np.square(cloud).sum(axis=2).max(axis=1) - 1e-12).all()


def test_the_mean_change_of_a_linear_output_has_its_closed_form() -> None:
    # the change at distance r is s r for everybody: its square is s^2 r^2, at a mean budget s^2
    # times it
    slopes = np.array([1.0, 1.0, 3.0])
    unit = slopes[:, None] * np.maximum(np.cos(np.arange(8) * np.pi / 4), 0.0)

    def at(inner: float, radius: float) -> Ring:
        zero = np.zeros((3, 8))
        return Ring(
            inner, radius, zero, radius * unit, radius * unit, inner * unit, radius * slopes
        )

    radii = [0.0, 0.0, 0.5, 1.0, 2.0, 4.0]
    rings = [at(inner, radius) for inner, radius in zip(radii, radii[1:], strict=False)]
    found, proved = (
        hull.allocate(np.array([0.0, 0.25, 1.0]))[0]
        for hull in mean_change(rings, squared_gain, squared_found)
    )
    true = 0.5 * 9.0 * np.array([0.0, 0.25, 1.0])
    assert (found <= true + 1e-12).all()
    assert (proved >= true - 1e-12).all()
    np.testing.assert_allclose(found, true, rtol=1e-9)
    np.testing.assert_allclose(proved, true, rtol=0.1, atol=0.01)


def test_the_mean_change_is_the_optimum_of_the_linear_program() -> None:
    random = np.random.default_rng(1)
    zero = np.zeros((4, 8))
    radii = [0.0, 0.5, 1.0, 2.0]
    sizes = np.sort(random.uniform(0, 1, (4, 4, 1)), axis=0) * random.uniform(0.5, 1.0, (4, 4, 8))
    rings = [
        Ring(0.0, r, zero, size, size, zero, size.max(axis=1))
        for r, size in zip(radii, sizes, strict=True)
    ]
    found, _ = mean_change(rings, squared_gain, squared_found)
    gains = np.stack([np.square(size).max(axis=1) / 2 for size in sizes], axis=1)
    costs = np.tile(np.square(radii), (4, 1))
    for budget in (0.1, 0.7):
        best = linprog(
            -gains.ravel() / 4,
            A_ub=costs.reshape(1, -1) / 4,
            b_ub=[budget],
            A_eq=np.kron(np.eye(4), np.ones(4)),
            b_eq=np.ones(4),
        )
        assert found.allocate(np.array([budget]))[0][0] == pytest.approx(-best.fun)


def test_the_rise_of_the_loss_is_that_towards_the_wrong_label() -> None:
    # label 1 loses where the margin falls to -0.5, label 0 where it rises to 2.5; nobody gains
    own = np.array([[1.0, -1.0], [1.0, -1.0], [1.0, -1.0]])
    ends = np.array([[2.5, 0.5], [2.5, 0.5], [0.5, 3.0]])
    rise = loss_rise(own, ends, lambda margin: np.asarray(expit(margin)), np.array([1, 0, 0]))
    expected = [
        np.log1p(np.exp(0.5)) - np.log1p(np.exp(-1)),
        np.log1p(np.exp(2.5)) - np.log1p(np.exp(1)),
        0,
    ]
    np.testing.assert_allclose(rise, expected)


@pytest.mark.parametrize("budget", [0.05, 0.6, 2.0])
def test_no_plan_raises_the_mean_loss_above_the_proved_rise(budget: float) -> None:
    # margins move by s r within distance r: plans with this mean squared distance, drawn at random
    random = np.random.default_rng(2)
    own, slopes, y = random.normal(size=30), random.uniform(0, 2, 30), random.integers(0, 2, 30)
    both = np.stack([own, -own], axis=1)
    radii = [0.0, 0.0, 0.5, 1.0, 2.0, 4.0, 12.0]
    rings = []
    for inner, radius in zip(radii, radii[1:], strict=False):
        ends, before = (both + (r * slopes)[:, None] for r in (radius, inner))
        rings.append(Ring(inner, radius, both, ends, ends, before))

    def rise(own: Float, ends: Float) -> Float:
        return loss_rise(own, ends, lambda margin: np.asarray(expit(margin)), y)

    found, proved = (
        float(hull.allocate(np.array([budget]))[0][0])
        for hull in mean_change(rings, rise, lambda ring: rise(ring.own, ring.found))
    )
    sign, best = 1 - 2 * y, 0.0
    for _ in range(3000):
        distance = random.random(30) * (random.random(30) < random.random())
        distance *= np.sqrt(budget / max(float(np.square(distance).mean()), 1e-12))
        far = np.logaddexp(0.0, sign * own + np.minimum(distance, 12.0) * slopes)
        best = max(best, float((far - np.logaddexp(0.0, sign * own)).mean()))
    assert 0.6 * proved < best <= proved
    assert found <= proved
