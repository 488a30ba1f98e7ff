"""Algorithm 1: the nearest mixture, and the acceptance that keeps most people and balances them."""

from __future__ import annotations

from itertools import product

import cvxpy
import numpy as np
import pytest
from scipy.optimize import linprog

from evenhand.fairlib.proxies.sampling import (
    LEAST_CHANCE,
    SamplingPlan,
    nearest_mixture,
    sampling_plan,
)

FORMS = pytest.mark.parametrize("relaxed", [False, True])
Case = tuple[np.ndarray, np.ndarray, np.ndarray]


def draw(seed: int, *, uniform: bool | None = None) -> Case:
    """Compositions (some equal, some pure), masses and a target."""
    rng = np.random.default_rng(seed)
    groups, proxies = int(rng.integers(2, 7)), int(rng.integers(1, 13))
    rows = rng.dirichlet(np.full(groups, rng.choice([0.3, 1.0, 5.0])), proxies)
    if seed % 4 == 0:
        rows = rows[rng.integers(0, proxies, proxies)]
    if seed % 5 == 0:
        rows[0] = np.eye(groups)[rng.integers(groups)]
    masses = 0.9 * rng.dirichlet(np.ones(proxies)) + 0.1 / proxies
    even = seed % 2 == 0 if uniform is None else uniform
    target = np.full(groups, 1 / groups) if even else rng.dirichlet(np.full(groups, 2.0))
    return rows, masses, target


def cone_or_hull_point(rows: np.ndarray, target: np.ndarray, relaxed: bool) -> np.ndarray:
    """The nearest point itself is unique: by an interior-point solver."""
    weights = cvxpy.Variable(len(rows), nonneg=True)
    limits = [] if relaxed else [cvxpy.sum(weights) == 1]
    cvxpy.Problem(cvxpy.Minimize(cvxpy.sum_squares(rows.T @ weights - target)), limits).solve(
        solver=cvxpy.CLARABEL
    )
    return np.asarray(rows.T @ weights.value)


@FORMS
def test_the_mixture_is_as_near_as_an_interior_point_solvers(relaxed: bool) -> None:
    for seed in range(40):
        rows, _, target = draw(seed)
        mixture = nearest_mixture(rows, target, relaxed=relaxed)
        assert mixture.shape == (len(rows),)
        assert mixture.min() >= 0
        if not relaxed:
            assert mixture.sum() == pytest.approx(1, abs=1e-12)
        point = cone_or_hull_point(rows, target, relaxed)
        np.testing.assert_allclose(mixture @ rows, point, atol=2e-4, err_msg=str(seed))
        distance = np.linalg.norm(mixture @ rows - target)
        assert distance <= np.linalg.norm(point - target) + 1e-6, seed


@FORMS
def test_no_row_lies_beyond_the_plane_at_the_nearest_point(relaxed: bool) -> None:
    # the condition for a projection on a convex set, with equality for the rows that make it up
    for seed in range(400):
        rows, _, target = draw(seed)
        mixture = nearest_mixture(rows, target, relaxed=relaxed)
        point = mixture @ rows
        beyond = (rows - (0 if relaxed else point)) @ (target - point)
        assert beyond.max() <= 1e-10, seed
        np.testing.assert_allclose(beyond[mixture > 1e-9], 0, atol=1e-8, err_msg=str(seed))


@FORMS
def test_no_mixture_of_a_grid_is_nearer(relaxed: bool) -> None:
    grid = np.array(list(product(np.linspace(0, 1, 41), repeat=3)))
    grid = 1.6 * grid if relaxed else grid[np.isclose(grid.sum(axis=1), 1)]
    for seed in range(30):
        rng = np.random.default_rng(seed)
        groups = 2 + seed % 2
        rows, target = rng.dirichlet(np.ones(groups), 3), rng.dirichlet(np.full(groups, 3.0))
        found = np.linalg.norm(nearest_mixture(rows, target, relaxed=relaxed) @ rows - target)
        nearest = np.linalg.norm(grid @ rows - target, axis=1).min()
        # some point of the grid is within half a step of the optimum in every weight
        assert found <= nearest + 1e-12, seed
        assert nearest <= found + 3 * 0.04, seed


def test_two_proxy_groups_around_the_target_by_hand() -> None:
    # .9 q + .3 (1 - q) = .5 at q = 1/3; the ratios to the masses are 4/9 and 8/3
    plan = sampling_plan([[0.9, 0.1], [0.3, 0.7]], [0.75, 0.25], [0.5, 0.5])
    np.testing.assert_allclose(plan.mixture, [1 / 3, 2 / 3], atol=1e-6)
    np.testing.assert_allclose(plan.acceptance, [1 / 6, 1], atol=1e-6)
    np.testing.assert_allclose(plan.shares, [0.5, 0.5], atol=1e-6)
    assert plan.rate == pytest.approx(0.375, abs=1e-6)
    assert plan.imbalance == pytest.approx(0, abs=1e-6)
    # another target of the same two: .9 q + .3 (1 - q) = .6 at q = 1/2, the ratios are 2/3 and 2
    plan = sampling_plan([[0.9, 0.1], [0.3, 0.7]], [0.75, 0.25], [0.6, 0.4])
    np.testing.assert_allclose(plan.acceptance, [1 / 3, 1], atol=1e-6)
    np.testing.assert_allclose(plan.shares, [0.6, 0.4], atol=1e-6)


def test_a_target_beyond_both_proxy_groups_by_hand() -> None:
    arguments = ([[0.9, 0.1], [0.8, 0.2]], [0.5, 0.5], [0.5, 0.5])
    plan = sampling_plan(*arguments)
    np.testing.assert_allclose(plan.acceptance, [0, 1], atol=1e-5)
    assert plan.imbalance == plan.residual == pytest.approx(0.3 * np.sqrt(2), abs=1e-6)
    # the ray through (.8, .2) passes the target at the distance of its orthogonal part
    relaxed = sampling_plan(*arguments, relaxed=True)
    np.testing.assert_allclose(relaxed.acceptance, [0, 1], atol=1e-5)
    assert relaxed.residual == pytest.approx(np.sqrt(0.5 - 0.25 / 0.68), abs=1e-6)
    assert relaxed.imbalance == pytest.approx(0.3 * np.sqrt(2), abs=1e-6)
    np.testing.assert_allclose(relaxed.mixture, [0, 0.5 / 0.68], atol=1e-6)


def test_pure_groups_are_kept_in_inverse_proportion_to_size() -> None:
    plan = sampling_plan(np.eye(3), [0.7, 0.2, 0.1], np.full(3, 1 / 3))
    np.testing.assert_allclose(plan.acceptance, [1 / 7, 0.5, 1], atol=1e-6)
    assert plan.rate == pytest.approx(0.3, abs=1e-6)
    # one proxy group has nothing to choose
    plan = sampling_plan([[0.7, 0.3]], [1.0], [0.5, 0.5])
    assert plan.acceptance == [1.0]
    assert plan.imbalance == pytest.approx(0.2 * np.sqrt(2))


def test_everyone_is_kept_where_the_proxy_groups_balance_already() -> None:
    # the first group alone would balance too, and keep a fifth
    rows = [[0.5, 0.5], [0.9, 0.1], [0.1, 0.9]]
    plan = sampling_plan(rows, [0.2, 0.4, 0.4], [0.5, 0.5])
    np.testing.assert_allclose(plan.acceptance, 1, atol=1e-5)
    assert plan.rate == pytest.approx(1, abs=1e-5)


@FORMS
def test_of_the_nearest_mixtures_the_fullest_is_taken(relaxed: bool) -> None:
    """The fullest one keeps the most people."""
    for seed in range(40):
        rows, masses, target = draw(seed)
        plan = sampling_plan(rows, masses, target, relaxed=relaxed)
        nearest = nearest_mixture(rows, target, relaxed=relaxed)
        # the program in the people kept of each proxy group, between none and all of them
        away = rows - nearest @ rows / nearest.sum()
        best = linprog(
            -np.ones(len(rows)),
            A_ub=np.vstack([away.T, -away.T]),
            b_ub=np.full(2 * away.shape[1], 1e-9),
            bounds=np.column_stack([np.zeros(len(rows)), masses]),
            options={"primal_feasibility_tolerance": 1e-9},
        )
        assert plan.rate == pytest.approx(-best.fun, rel=1e-3), seed
        # and it is a nearest mixture still
        moved = plan.mixture @ rows - nearest @ rows
        np.testing.assert_allclose(moved, 0, atol=1e-6, err_msg=str(seed))


def test_sampling_is_uniform_where_the_target_lies_in_the_hull() -> None:
    # lemma 2: the turns of any row around its groups have the uniform distribution as their mean
    for seed in range(100):
        rng = np.random.default_rng(seed)
        groups = 2 + seed % 5
        first = rng.dirichlet(np.ones(groups))
        rows = np.array([np.roll(first, shift) for shift in range(groups)])
        rows = np.vstack([rows, rng.dirichlet(np.ones(groups), seed % 4)])
        masses = rng.dirichlet(np.ones(len(rows))) * 0.9 + 0.1 / len(rows)
        plan = sampling_plan(rows, masses, np.full(groups, 1 / groups), relaxed=seed % 2 == 0)
        kept = masses * plan.acceptance
        np.testing.assert_allclose(
            kept @ rows / kept.sum(), 1 / groups, atol=2e-6, err_msg=str(seed)
        )


def check_definitions(
    plan: SamplingPlan, rows: np.ndarray, masses: np.ndarray, target: np.ndarray
) -> None:
    ratios = plan.mixture / masses
    np.testing.assert_allclose(plan.acceptance, ratios / ratios.max(), rtol=1e-12)
    assert plan.acceptance.min() >= 0
    assert plan.acceptance.max() == 1
    np.testing.assert_allclose(plan.shares, plan.mixture @ rows / plan.mixture.sum(), atol=1e-9)
    assert plan.rate == pytest.approx(masses @ plan.acceptance)
    assert plan.imbalance == pytest.approx(np.linalg.norm(plan.shares - target), abs=1e-12)
    assert plan.residual == pytest.approx(np.linalg.norm(plan.mixture @ rows - target), abs=1e-12)


@pytest.mark.parametrize("seeds", [50, pytest.param(200, marks=pytest.mark.long)])
def test_a_plan_is_what_its_definitions_say(seeds: int) -> None:
    strictly = 0
    for seed in range(seeds):
        rows, masses, target = draw(seed)
        exact = sampling_plan(rows, masses, target)
        relaxed = sampling_plan(rows, masses, target, relaxed=True)
        for plan in (exact, relaxed):
            check_definitions(plan, rows, masses, target)
        assert exact.mixture.sum() == pytest.approx(1, abs=1e-6)
        assert exact.residual == pytest.approx(exact.imbalance, abs=1e-6)
        assert relaxed.residual <= relaxed.imbalance + 1e-6
        # of all shares that can be reached the exact form's are the nearest
        assert exact.imbalance <= relaxed.imbalance + 1e-6
        strictly += exact.imbalance < relaxed.imbalance - 1e-4
    assert strictly > seeds / 40


@pytest.mark.parametrize("seeds", [40, pytest.param(200, marks=pytest.mark.long)])
def test_both_forms_keep_the_same_shares_for_a_uniform_target(seeds: int) -> None:
    for seed in range(seeds):
        rows, masses, target = draw(seed, uniform=True)
        exact = sampling_plan(rows, masses, target)
        relaxed = sampling_plan(rows, masses, target, relaxed=True)
        np.testing.assert_allclose(exact.shares, relaxed.shares, atol=2e-6, err_msg=str(seed))


@FORMS
def test_two_attributes_are_balanced_block_by_block(relaxed: bool) -> None:
    # sexes 50 : 50 need equal parts of the first two; then a third each way for three regions
    rows = np.array(
        [[0.8, 0.2, 0.6, 0.2, 0.2], [0.2, 0.8, 0.2, 0.6, 0.2], [0.5, 0.5, 0.2, 0.2, 0.6]]
    )
    target = np.array([0.5, 0.5, 1 / 3, 1 / 3, 1 / 3])
    plan = sampling_plan(rows, [0.6, 0.3, 0.1], target, relaxed=relaxed)
    np.testing.assert_allclose(plan.acceptance, [1 / 6, 1 / 3, 1], atol=1e-5)
    np.testing.assert_allclose(plan.shares, target, atol=1e-6)


def test_a_proxy_group_cut_in_two_alike_changes_nothing() -> None:
    for seed in range(30):
        rows, masses, target = draw(seed)
        whole = sampling_plan(rows, masses, target)
        parts = np.append(masses, 0.25 * masses[0])
        parts[0] *= 0.75
        halves = sampling_plan(np.vstack([rows, rows[:1]]), parts, target)
        np.testing.assert_allclose(halves.shares, whole.shares, atol=2e-6, err_msg=str(seed))
        assert halves.rate == pytest.approx(whole.rate, rel=1e-3), seed


def test_a_proxy_group_without_people_is_refused() -> None:
    with pytest.raises(ValueError, match="a mass is 0"):
        sampling_plan([[0.5, 0.5], [0.2, 0.8]], [1.0, 0.0], [0.5, 0.5])


def test_a_million_draws_come_out_balanced() -> None:
    """They are kept as planned."""
    rng = np.random.default_rng(3)
    rows = np.array([[0.7, 0.2, 0.1], [0.3, 0.6, 0.1], [0.4, 0.1, 0.5], [0.1, 0.3, 0.6]])
    masses = np.array([0.5, 0.3, 0.15, 0.05])
    plan = sampling_plan(rows, masses, np.full(3, 1 / 3))
    assert plan.imbalance < 1e-6
    proxies = rng.choice(4, size=1_000_000, p=masses)
    groups = (rng.random(len(proxies))[:, None] > np.cumsum(rows, axis=1)[proxies]).sum(axis=1)
    kept = rng.random(len(proxies)) < plan.acceptance[proxies]
    for proxy, probability in enumerate(plan.acceptance):
        count = (proxies == proxy).sum()
        spread = np.sqrt(probability * (1 - probability) / count) + 1e-9
        assert abs(kept[proxies == proxy].mean() - probability) < 5 * spread
    shares = np.bincount(groups[kept], minlength=3) / kept.sum()
    np.testing.assert_allclose(shares, 1 / 3, atol=5 * np.sqrt(2 / 9 / kept.sum()))
    assert kept.mean() == pytest.approx(plan.rate, abs=5 * 0.5 / 1000)


def test_support_by_hand() -> None:
    # Two proxy groups of half of the people each; the target is the first one's composition. Within
    # .1 of it in every share (.1 times the root of 2 as a distance), the second group may be a
    # fifth of the sample.
    rows = np.array([[0.75, 0.25], [0.25, 0.75]])
    plan = sampling_plan(rows, [0.5, 0.5], rows[0], support=0.1 * np.sqrt(2))
    np.testing.assert_allclose(plan.mixture, [0.8, 0.2], atol=1e-6)
    np.testing.assert_allclose(plan.acceptance, [1.0, 0.25], atol=1e-6)
    assert plan.imbalance == pytest.approx(0.1 * np.sqrt(2), abs=1e-6)
    # nothing given up: the second group has no chance
    np.testing.assert_allclose(
        sampling_plan(rows, [0.5, 0.5], rows[0]).acceptance, [1.0, 0.0], atol=1e-6
    )
    # more given up than the imbalance of all rows: everybody is kept
    np.testing.assert_allclose(
        sampling_plan(rows, [0.5, 0.5], rows[0], support=1.0).acceptance, 1.0
    )


@FORMS
def test_supported_plans_are_those_of_an_interior_point_solver(relaxed: bool) -> None:
    floors = set()
    for seed in range(24):
        rows, masses, target = draw(seed)
        nearest = sampling_plan(rows, masses, target, relaxed=relaxed)
        support = 0.05 if seed % 2 else 0.003
        plan = sampling_plan(rows, masses, target, relaxed=relaxed, support=support)
        limit = nearest.imbalance + support
        assert plan.imbalance <= limit + 1e-6, seed
        assert plan.mixture.sum() == pytest.approx(1, abs=1e-9)
        chance, floor = cvxpy.Variable(len(rows)), cvxpy.Variable()
        distance = cvxpy.norm(rows.T @ chance - target)
        constraints = [cvxpy.sum(chance) == 1, chance >= floor * masses, floor <= LEAST_CHANCE]
        constraints += [distance <= limit, chance >= 0]
        highest = cvxpy.Problem(cvxpy.Maximize(floor), constraints).solve(solver=cvxpy.CLARABEL)
        assert (plan.mixture / masses).min() >= highest - 1e-3, seed
        floors.add(bool(highest > LEAST_CHANCE - 1e-6))
        if highest > LEAST_CHANCE - 1e-6:  # at a lower one the feasible set is nearly a point
            objective = cvxpy.sum(cvxpy.square(chance) / masses)
            constraints.append(floor >= highest - 1e-4)
            best = cvxpy.Problem(cvxpy.Minimize(objective), constraints).solve(
                solver=cvxpy.CLARABEL
            )
            assert (plan.mixture**2 / masses).sum() == pytest.approx(best, rel=5e-3, abs=5e-3), seed
    # cases in which the floor is reached, and in which the limit does not allow it
    assert floors == {True, False}


def test_no_mixture_drawn_at_random_has_more_support() -> None:
    for seed in range(20):
        rows, masses, target = draw(seed)
        plan = sampling_plan(rows, masses, target, support=0.05)
        rng = np.random.default_rng(seed)
        # around the plan and all over the simplex, above the plan's own floor
        floor = min((plan.mixture / masses).min(), LEAST_CHANCE)
        others = np.vstack(
            [
                rng.dirichlet(np.ones(len(rows)), 3000),
                rng.dirichlet(200 * plan.mixture + 0.05, 3000),
            ]
        )
        others = floor * masses + (1 - floor) * others
        near = np.linalg.norm(others @ rows - target, axis=1) <= plan.imbalance
        divergence = (others[near] ** 2 / masses).sum(axis=1)
        assert divergence.min(initial=np.inf) >= (plan.mixture**2 / masses).sum() - 1e-4, seed
