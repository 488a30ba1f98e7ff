"""The exact solver: certificates of optimality, the divided column, draws among ties, warm
calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from evenhand.fairlib.transport import cells as cells_module
from evenhand.fairlib.transport.dual import DualSolver, envelope_moves
from evenhand.fairlib.transport.problem import TransportPlan, TransportProblem
from evenhand.fairlib.transport.search import Envelopes
from tests.oracles.linear_program import largest_loss

Draw = Callable[..., dict[str, Any]]
Rebuild = Callable[[TransportPlan], np.ndarray]


def problem_of(case: dict[str, Any]) -> TransportProblem:
    return TransportProblem(case["points"], case["labels"], case["budget"])


def solve(case: dict[str, Any], **options: Any) -> TransportPlan:
    return DualSolver(problem_of(case), **options).solve(case["losses"])


def certify(
    case: dict[str, Any], plan: TransportPlan, matrix: np.ndarray, what: Any = None
) -> None:
    """
    Check that a plan is optimal, from its matrix and multiplier alone.

    A feasible plan whose value is the dual function at some multiplier is an optimum, whoever found
    it."""
    labels, losses, costs, budget = case["labels"], case["losses"], case["costs"], case["budget"]
    n = len(labels)
    gains = losses[labels].T  # entry (i, j): loss of column j's label at row i
    slack = 1e-9 * np.abs(losses).max() + 1e-12
    assert matrix.min() >= 0, what
    np.testing.assert_allclose(matrix.sum(axis=0), 1 / n, rtol=1e-12)
    support = np.stack([matrix @ (labels == k) for k in range(len(losses))])
    np.testing.assert_allclose(plan.support, support, atol=1e-14)
    spent, value = float((costs * matrix).sum()), float((gains * matrix).sum())
    assert plan.spent == pytest.approx(spent, rel=1e-9, abs=1e-14 * costs.max()), what
    assert plan.value == pytest.approx(value, abs=slack), what
    eta = plan.multiplier
    assert eta >= 0, what
    assert plan.spent <= budget * (1 + 1e-12), what
    if eta > 0:
        assert plan.spent == pytest.approx(budget, rel=1e-9, abs=1e-14 * costs.max()), what
    worth = gains - eta * costs
    best = worth.max(axis=0)
    # complementary slackness, column by column and for the budget
    assert ((matrix == 0) | (worth >= best - slack)).all(), what
    assert plan.bound == pytest.approx(eta * budget + best.mean(), abs=slack), what
    assert plan.value + eta * (budget - plan.spent) == pytest.approx(plan.bound, abs=slack), what
    assert plan.proven == 1.0


@pytest.mark.parametrize(
    "batch", [0, *(pytest.param(batch, marks=pytest.mark.long) for batch in (1, 2, 3))]
)
@pytest.mark.parametrize("classes", [2, 3])
def test_plans_are_complementary_to_their_multiplier(
    batch: int, classes: int, transport_instance: Draw, transport_matrix: Rebuild
) -> None:
    for seed in range(1000 + 60 * batch, 1000 + 60 * batch + 60):
        case = transport_instance(seed, classes)
        plan = solve(case, seed=seed)
        certify(case, plan, transport_matrix(plan), seed)


def test_losses_may_have_any_sign(transport_instance: Draw, transport_matrix: Rebuild) -> None:
    for seed in range(60):
        rng = np.random.default_rng(seed)
        case = transport_instance(seed)
        case["losses"] = rng.normal(size=case["losses"].shape) * 10 ** rng.uniform(-2, 3) - 50 * (
            seed % 2
        )
        plan = solve(case)
        certify(case, plan, transport_matrix(plan), seed)


def test_the_divided_column_has_two_of_its_maximisers(
    transport_instance: Draw, transport_matrix: Rebuild
) -> None:
    divided = 0
    for seed in range(200):
        case = transport_instance(seed)
        plan = solve(case)
        if plan.split is None:
            continue
        divided += 1
        column, row, share = plan.split
        assert 0 < share < 1
        gains, eta = case["losses"][case["labels"][column]], plan.multiplier
        cost = case["costs"][:, column]
        worth = gains - eta * cost
        assert row != plan.target[column]
        assert worth[[row, plan.target[column]]] == pytest.approx(worth.max(), abs=1e-9)
        # the further row is dearer: without its share the budget would not be spent
        assert cost[row] > cost[plan.target[column]]
    assert divided > 30


def test_moves_with_one_price_up_to_rounding_are_paid_in_order(transport_matrix: Rebuild) -> None:
    # Two moves of one column cost the same per unit, 0.7: 0.3 gains 0.21 and 0.8 gains 0.56. Which
    # of the two quotients is larger in double precision does not decide their order.
    points = np.array([[0.0, 0.0], [0.3**0.5, 0.0], [0.0, 0.8**0.5]])
    case = {
        "points": points,
        "costs": cdist(points, points, "sqeuclidean"),
        "losses": np.array([[0.0, 0.7 * 0.3, 0.7 * 0.8]]),
        "labels": np.zeros(3, dtype=int),
    }
    for budget in np.linspace(0.005, 0.26, 18):
        for seed in range(3):
            now = case | {"budget": float(budget)}
            plan = solve(now, seed=seed)
            assert plan.multiplier == pytest.approx(0.7)
            certify(now, plan, transport_matrix(plan), (budget, seed))


@pytest.mark.parametrize(
    "batch", [0, *(pytest.param(batch, marks=pytest.mark.long) for batch in (1, 2))]
)
def test_losses_in_proportion_to_the_costs_are_spent_exactly(
    batch: int, transport_matrix: Rebuild
) -> None:
    # People in the middle of stars far apart: to every end of the own star the price is the same,
    # up to rounding, and to other stars it is lower.
    for seed in range(200 * batch, 200 * batch + 200):
        rng = np.random.default_rng(seed)
        stars, ends, price = int(rng.integers(1, 4)), int(rng.integers(2, 5)), 0.1 + rng.random()
        n = stars * (1 + ends)
        costs = np.concatenate([np.zeros((stars, 1)), rng.random((stars, ends))], axis=1)
        points = np.hstack(
            [np.repeat(3.0 * np.eye(stars), 1 + ends, axis=0), np.diag(np.sqrt(costs.ravel()))]
        )
        case: dict[str, Any] = {
            "points": points,
            "costs": cdist(points, points, "sqeuclidean"),
            "losses": price * costs.reshape(1, n),
            "labels": np.zeros(n, dtype=int),
            "budget": float(rng.random() * costs.max(axis=1).sum() / n / 2),
        }
        plan = solve(case, seed=seed)
        assert plan.multiplier == pytest.approx(price)
        certify(case, plan, transport_matrix(plan), seed)


def test_no_budget_still_moves_between_people_at_distance_zero() -> None:
    # the metric ignores their differences, so their projections are equal up to rounding
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.normal(size=(30, 3)))[0]
    half = 5 * rng.normal(size=(40, 30))
    raw = np.vstack([half, half + 4 * rng.normal(size=(40, 3)) @ basis.T])
    points = raw - (raw @ basis) @ basis.T
    losses = np.zeros((2, 80))
    losses[1, 40:] = 1.0  # everybody's twin in the second half loses more
    costs = cdist(points, points, "sqeuclidean")
    case = {
        "points": points,
        "costs": np.where(costs < 1e-20, 0.0, costs),
        "labels": np.ones(80, dtype=int),
        "losses": losses,
        "budget": 0.0,
    }
    plan = solve(case)
    np.testing.assert_array_equal(plan.target[:40], np.arange(40, 80))
    np.testing.assert_array_equal(plan.target[40:], np.arange(40, 80))
    assert plan.value == plan.bound == 1.0
    assert plan.spent == 0.0


def test_no_budget_and_distinct_people_stay() -> None:
    rng = np.random.default_rng(1)
    losses = rng.exponential(size=(2, 60))
    labels = rng.integers(0, 2, 60)
    points = rng.normal(size=(60, 3))
    case = {"points": points, "costs": cdist(points, points, "sqeuclidean"), "labels": labels}
    plan = solve(case | {"losses": losses, "budget": 0.0})
    np.testing.assert_array_equal(plan.target, np.arange(60))
    assert plan.split is None
    assert plan.value == pytest.approx(losses[labels, np.arange(60)].mean(), rel=1e-14)
    assert plan.bound == pytest.approx(plan.value, rel=1e-14)


@pytest.mark.parametrize("budget", [0.0, 1e-300, 1e-30, 1e-12, 1e12, 1e300])
def test_extreme_budgets_end_and_are_exact(
    budget: float, transport_instance: Draw, transport_matrix: Rebuild
) -> None:
    for seed in range(30):
        case = transport_instance(seed) | {"budget": budget}
        plan = solve(case)
        certify(case, plan, transport_matrix(plan), seed)
        if budget >= 1e12:
            assert plan.multiplier == 0.0
            # everybody at the largest loss, and of several such rows at a nearest one
            gains = case["losses"][case["labels"]].T
            assert plan.value == pytest.approx(gains.max(axis=0).mean(), rel=1e-12)
            nearest = np.where(gains == gains.max(axis=0), case["costs"], np.inf).min(axis=0)
            assert plan.spent == pytest.approx(nearest.mean(), rel=1e-9, abs=1e-12)
        elif budget == 0.0:
            assert plan.spent == 0.0


@pytest.mark.parametrize("distance", [1e-12, 1e-3, 1e3, 1e12])
@pytest.mark.parametrize("loss", [1e-6, 1.0, 1e6, 1e15])
def test_units_of_distances_and_losses_do_not_matter(
    distance: float, loss: float, transport_instance: Draw
) -> None:
    for seed in range(10):
        case = transport_instance(seed)
        plain = solve(case)
        scaled = solve(
            case
            | {
                "points": case["points"] * distance,
                "costs": case["costs"] * distance**2,
                "losses": case["losses"] * loss,
                "budget": case["budget"] * distance**2,
            },
        )
        assert scaled.value / loss == pytest.approx(plain.value, rel=1e-9, abs=1e-11), seed
        assert scaled.bound / loss == pytest.approx(plain.bound, rel=1e-9, abs=1e-11), seed
        assert scaled.spent / distance**2 == pytest.approx(plain.spent, rel=1e-9, abs=1e-12), seed


def changed(losses: np.ndarray) -> list[np.ndarray]:
    """Losses as boosting makes them, slowly changing, and then all that it never would."""
    rng = np.random.default_rng(3)

    def drift(table: np.ndarray) -> np.ndarray:
        return table * (1 + 0.03 * rng.random(table.shape))

    tables = [losses]
    tables += [drift(tables[-1] * 0.97) for _ in range(5)]
    tables += [drift(losses * factor) for factor in (1e-6, 1.0, 1e6, 1e6, 1e-6, 1.0)]
    tables += [
        np.zeros_like(losses),
        drift(losses),
        np.full_like(losses, 0.7),
        losses[:, ::-1].copy(),
    ]
    return tables


@pytest.mark.parametrize(
    "batch", [0, *(pytest.param(batch, marks=pytest.mark.long) for batch in (1, 2))]
)
def test_later_calls_are_as_exact_as_first_ones(
    batch: int, transport_instance: Draw, transport_matrix: Rebuild
) -> None:
    for seed in range(20 * batch, 20 * batch + 20):
        case = transport_instance(seed, 2 + seed % 2)
        warm = DualSolver(problem_of(case))
        for step, table in enumerate(changed(case["losses"])):
            now = case | {"losses": table}
            plan, fresh = warm.solve(table), solve(now)
            assert plan.value == pytest.approx(fresh.value, rel=1e-9, abs=1e-12), (seed, step)
            assert plan.bound == pytest.approx(fresh.bound, rel=1e-9, abs=1e-12), (seed, step)
            certify(now, plan, transport_matrix(plan), (seed, step))


class Spied:
    """A solver of the two people by hand, whose multiplier is 0.2, with the brackets that it
    searches.
    """

    losses = np.array([[9.0, 9.0], [0.2, 1.0]])

    def __init__(self, *multipliers: float, width: float = 2.0) -> None:
        self.solver: Any = DualSolver(TransportProblem([[0.0], [2.0]], [1, 1], 1.0))
        self.solver.multipliers = np.array(multipliers)
        self.solver.width = width
        self.brackets: list[tuple[float, float]] = []
        search = self.solver.search.envelopes

        def envelopes(low: float, high: float, queries: Any = None) -> Any:
            self.brackets.append((low, high))
            return search(low, high, queries)

        self.solver.search.envelopes = envelopes

    def solve(self) -> list[tuple[float, float]]:
        self.brackets.clear()
        plan = self.solver.solve(self.losses)
        assert plan.multiplier == pytest.approx(0.2, rel=1e-9)
        return self.brackets


@pytest.mark.parametrize(
    ("multipliers", "first"),
    [
        # of no call yet, as of a small problem: up to the range of the losses, from 0.2 to 9
        ((), (0.0, 8.8)),
        ((0.0,), (0.0, 8.8)),
        ((0.3, 0.0), (0.0, 8.8)),
        # the last one times its ratio to the one before, which is at least a half and at most 2
        ((0.25,), (0.125, 0.5)),
        ((0.16, 0.2), (0.125, 0.5)),
        ((0.125, 0.25), (0.25, 1.0)),
        ((0.01, 0.1), (0.1, 0.4)),
        ((9.0, 0.5), (0.125, 0.5)),
        ((0.0, 0.25), (0.125, 0.5)),
    ],
)
def test_the_first_bracket_is_about_the_predicted_multiplier(
    multipliers: tuple[float, ...], first: tuple[float, float]
) -> None:
    assert Spied(*multipliers).solve()[0] == pytest.approx(first, rel=1e-12)


def test_a_bracket_without_the_optimum_moves_by_growing_factors() -> None:
    over, under = 1 - 1e-9, 1 + 1e-9
    upwards = [(0.005, 0.02), (0.02 * over, 0.08), (0.08 * over, 1.28)]
    np.testing.assert_allclose(Spied(0.01).solve(), upwards, rtol=1e-12)
    downwards = [(5.0, 20.0), (1.25, 5.0 * under), (1.25 / 16, 1.25 * under)]
    np.testing.assert_allclose(Spied(10.0).solve(), downwards, rtol=1e-12)
    # factors grow to 1e12 at most: 4, 16, 256, 65536, 65536^2, and then 1e12
    high = 2e-40 * np.cumprod([1.0, 4.0, 16.0, 256.0, 65536.0, 65536.0**2, 1e12, 1e12])
    far = Spied(1e-40).solve()
    np.testing.assert_allclose(
        far, np.stack([np.r_[5e-41, high[:-1] * over], high], axis=1), rtol=1e-12
    )
    # downwards a factor of a million and more goes to 0 at once
    low = 5e29 / np.cumprod([1.0, 4.0, 16.0, 256.0, 65536.0])
    far = Spied(1e30).solve()
    expected = np.stack([np.r_[low, 0.0], np.r_[2e30, low * under]], axis=1)
    np.testing.assert_allclose(far, expected, rtol=1e-12)


def test_brackets_become_as_narrow_as_the_predictions_are_good() -> None:
    right = Spied(0.2)
    widths = []
    for _ in range(10):
        right.solve()
        widths.append(right.solver.width)
    # half the way to the cube of the error, 1; never below 1.005
    halves = [1.0 + 0.5**k for k in range(1, 8)]
    np.testing.assert_allclose(widths, [*halves, *[1.005] * 3], rtol=1e-8)
    assert right.solve()[0] == pytest.approx((0.2 / 1.005, 0.2 * 1.005), rel=1e-8)
    # a narrow bracket is moved by small factors first: the square of its width
    low, high = 0.19 / 1.02, 0.19 * 1.02
    expected = [(low, high), (high * (1 - 1e-9), high * 1.02**2)]
    np.testing.assert_allclose(Spied(0.19, width=1.02).solve(), expected, rtol=1e-12)
    for predicted in (0.22, 0.2 / 1.1):
        wrong = Spied(predicted, width=1.1)
        wrong.solve()
        assert wrong.solver.width == pytest.approx(0.5 * (1.1 + 1.1**3), rel=1e-8)
    # never above 2; and 2 where nothing was predicted
    for spied in (Spied(5.0, width=1.1), Spied(0.0, width=1.1)):
        spied.solve()
        assert spied.solver.width == 2.0


@pytest.mark.parametrize("n", [256, 257])
def test_the_first_multiplier_of_many_queries_is_a_samples(n: int) -> None:
    rng = np.random.default_rng(n)
    problem = TransportProblem(rng.normal(size=(n, 3)), np.zeros(n, dtype=int), 0.2)
    solver: Any = DualSolver(problem, seed=3)
    asked: list[tuple[float, float, Any]] = []
    search = solver.search.envelopes

    def envelopes(low: float, high: float, queries: Any = None) -> Any:
        asked.append((low, high, queries))
        return search(low, high, queries)

    solver.search.envelopes = envelopes
    losses = rng.exponential(size=(1, n))
    plan = solver.solve(losses)
    whole = (0.0, float(np.ptp(losses)))
    assert asked[0][:2] == whole
    if n == 256:
        assert len(asked) == 1
        return
    sample = asked[0][2]
    assert len(np.unique(sample)) == len(sample) == 256
    assert asked[1][2] is None
    low, high = asked[1][:2]
    # all but one of the queries: nearly the same multiplier
    assert high / low == pytest.approx(4.0, rel=1e-12)
    assert np.sqrt(low * high) == pytest.approx(plan.multiplier, rel=0.05)
    assert len(asked) == 2


@pytest.fixture(params=["continuous", "tied"])
def larger(request: pytest.FixtureRequest) -> dict[str, Any]:
    """So many places that k-means cells hold several and the first bracket comes from a sample."""
    rng = np.random.default_rng(5)
    n = 700
    points = (
        rng.normal(size=(n, 3))
        if request.param == "continuous"
        else rng.integers(0, 9, (n, 3)) * 1.0
    )
    losses = rng.exponential(size=(3, n))
    if request.param == "tied":
        losses = np.ceil(losses * 3) / 3
    return {
        "points": points,
        "costs": cdist(points, points, "sqeuclidean"),
        "labels": rng.integers(0, 3, n),
        "losses": losses,
        "budget": 0.3,
    }


def test_larger_problems_are_certified_too(
    larger: dict[str, Any], transport_matrix: Rebuild
) -> None:
    solver = DualSolver(problem_of(larger), seed=1)
    for step, table in enumerate(changed(larger["losses"])):
        plan = solver.solve(table)
        certify(larger | {"losses": table}, plan, transport_matrix(plan), step)


@pytest.mark.parametrize("neighbours", [None, 12])
def test_jobs_do_not_matter(neighbours: int | None, larger: dict[str, Any]) -> None:
    problem = problem_of(larger)
    solvers = [
        DualSolver(problem, seed=2, jobs=jobs, neighbours=neighbours) for jobs in (1, 3, 100)
    ]
    for factor in (1.0, 0.9, 30.0):
        one, *others = (solver.solve(larger["losses"] * factor) for solver in solvers)
        for plan in others:
            np.testing.assert_array_equal(plan.target, one.target)
            np.testing.assert_array_equal(plan.support, one.support)
            assert (plan.multiplier, plan.value, plan.spent) == (
                one.multiplier,
                one.value,
                one.spent,
            )
            assert (plan.bound, plan.split, plan.proven) == (one.bound, one.split, one.proven)


def boosted(losses: np.ndarray, steps: int) -> Iterator[np.ndarray]:
    """Losses as small steps of boosting make them: all grow a little, and a few by more."""
    rng = np.random.default_rng(7)
    table = losses
    for _ in range(steps):
        yield table
        change = 1.01 + 0.002 * rng.normal(size=table.shape)
        few = rng.choice(table.shape[1], 4, replace=False)
        change[:, few] += 0.1 * rng.random((len(table), 4))
        table = table * change


def test_plans_from_lists_are_certified(larger: dict[str, Any], transport_matrix: Rebuild) -> None:
    """They do not depend on the lists."""
    problem = problem_of(larger)
    solver = DualSolver(problem, seed=4)
    states, plans = [], []
    for step, table in enumerate(boosted(larger["losses"], 24)):
        states.append({key: np.asarray(value) for key, value in solver.state().items()})
        plans.append(solver.solve(table))
        certify(larger | {"losses": table}, plans[-1], transport_matrix(plans[-1]), step)
    lists = solver.search.lists
    assert lists is not None
    # at the end most lists are from earlier steps
    assert (lists.since < len(lists.tables) - 1).mean() > 0.5
    # a killed training loses its lists, and another number of threads fills them in another order
    later = DualSolver(problem, seed=4, jobs=3)
    later.restore(states[15])
    for step, table in enumerate(boosted(larger["losses"], 24)):
        if step >= 15:
            plan, expected = later.solve(table), plans[step]
            np.testing.assert_array_equal(plan.target, expected.target)
            np.testing.assert_array_equal(plan.support, expected.support)
            assert (plan.multiplier, plan.value, plan.spent) == (
                expected.multiplier,
                expected.value,
                expected.spent,
            )
            assert (plan.bound, plan.split) == (expected.bound, expected.split)


def test_other_seeds_choose_otherwise_among_ties_alone(larger: dict[str, Any]) -> None:
    first, other = solve(larger, seed=1), solve(larger, seed=2)
    assert other.value == pytest.approx(first.value, rel=1e-12)
    assert other.multiplier == pytest.approx(first.multiplier, rel=1e-12)
    tied = len(np.unique(larger["losses"])) < 100
    assert np.array_equal(first.target, other.target) != tied


# Two places, the second with a nat more: at the multiplier 1 everybody at the first may stay or go.
def two_places(first: int, second: int, budget: float) -> dict[str, Any]:
    points = np.repeat([[0.0], [1.0]], [first, second], axis=0)
    return {
        "points": points,
        "costs": cdist(points, points, "sqeuclidean"),
        "labels": np.ones(first + second, dtype=int),
        "losses": np.tile(np.repeat([0.0, 1.0], [first, second]), (2, 1)),
        "budget": budget,
    }


def test_the_seed_decides_which_columns_move_at_a_tie() -> None:
    case = two_places(20, 20, 0.25)
    plans = [solve(case, seed=seed) for seed in (1, 1, 2)]
    np.testing.assert_array_equal(plans[0].target, plans[1].target)
    moved = [np.flatnonzero(plan.target[:20] >= 20) for plan in plans]
    assert not np.array_equal(moved[0], moved[2])
    for plan, gone in zip(plans, moved, strict=True):
        assert plan.multiplier == pytest.approx(1.0, rel=1e-12)
        # a quarter of forty columns is ten whole ones
        assert len(gone) + (0 if plan.split is None else plan.split[2]) == pytest.approx(
            10, abs=1e-9
        )
        assert plan.spent == pytest.approx(0.25, rel=1e-12)
        assert plan.value == pytest.approx(0.75, rel=1e-12)


def test_draws_differ_from_call_to_call() -> None:
    solver = DualSolver(TransportProblem(**arguments(two_places(20, 20, 0.25))), seed=1)
    losses = two_places(20, 20, 0.25)["losses"]
    first, second = solver.solve(losses), solver.solve(losses)
    assert not np.array_equal(first.target, second.target)
    assert not np.array_equal(first.target[:20] >= 20, second.target[:20] >= 20)


def arguments(case: dict[str, Any]) -> dict[str, Any]:
    return {name: case[name] for name in ("points", "labels", "budget")}


@pytest.mark.parametrize("seed", [0, 1])
def test_ties_are_drawn_evenly(seed: int) -> None:
    # Twenty of the 36 go to one of the last four rows, with those four themselves.
    case = two_places(36, 4, 0.5)
    targets = np.array([solve(case, seed=1000 * seed + k).target for k in range(150)])
    arrived = targets[targets >= 36]
    assert len(arrived) == 150 * 24

    def chi_square(counts: np.ndarray) -> float:
        return float(((counts - counts.mean()) ** 2 / counts.mean()).sum())

    # Which of the equal rows: 3 degrees, limit 1 in 1000.
    assert chi_square(np.bincount(arrived - 36, minlength=4)) < 16.3
    # Those who stay are at any of the 36 rows of their place: 35 degrees.
    assert chi_square(np.bincount(targets[targets < 36], minlength=36)) < 66.6
    # Which columns go: without replacement, so each count varies 16/36 as much as a Poisson one.
    gone = (targets[:, :36] >= 36).sum(axis=0)
    assert chi_square(gone) / (16 / 36) < 66.6
    # Neighbours in the table are drawn independently of each other.
    share = (targets[:, :36] >= 36).astype(float)
    together = (share[:, :-1] * share[:, 1:]).mean()
    assert together == pytest.approx(20 / 36 * 19 / 35, abs=0.03)


@pytest.mark.parametrize("seed", range(4))
def test_ties_fall_alike_however_places_are_grouped(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # cells may differ on another machine; the plan may not
    rng = np.random.default_rng(seed)
    points = rng.integers(0, 4, (400, 3)) * 1.0
    losses = np.round(rng.exponential(size=(2, 400)) * 2) / 2
    problem = TransportProblem(points, rng.integers(0, 2, 400), 0.3)
    plans = []
    for per_root in (7.0, 2.0, 0.3):
        monkeypatch.setattr(cells_module, "CELLS_PER_ROOT", per_root)
        plans.append(DualSolver(problem, seed=seed).solve(losses))
    for plan in plans[1:]:
        np.testing.assert_array_equal(plan.target, plans[0].target)
        np.testing.assert_array_equal(plan.support, plans[0].support)


@pytest.mark.parametrize(
    "seed", [*range(40), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(40, 200))]
)
def test_losses_that_differ_by_rounding_keep_bound_and_sign(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 12))
    points = rng.integers(0, 3, (n, 2)) * 1.0
    losses = rng.integers(0, 4, (1, n)) * 1e-14 + 0.5 * rng.integers(0, 2, (1, n))
    plan = DualSolver(TransportProblem(points, np.zeros(n, dtype=int), 0.2), seed=seed).solve(
        losses
    )
    best = largest_loss(cdist(points, points, "sqeuclidean"), np.repeat(losses.T, n, axis=1), 0.2)
    assert plan.multiplier >= 0
    assert plan.spent <= 0.2 + 1e-12
    assert plan.bound >= best - 1e-12
    assert plan.value == pytest.approx(best, abs=1e-11)


def test_ratios_of_moves_that_rise_by_rounding_are_levelled() -> None:
    # two queries: along an envelope the gain per cost falls, but rounding may let it rise
    costs = np.array([0.0, 1.0, 2.0, 3.0, 0.0, 1.0])
    losses = np.array([0.0, 1.0, 2.0 + 1e-9, 2.5, 0.0, 4.0])
    envelopes = Envelopes(np.array([0, 4, 6]), costs, losses, np.arange(6))
    query, cost, gain, ratio = envelope_moves(envelopes)
    assert query.tolist() == [0, 0, 0, 1]
    assert cost.tolist() == [1.0] * 4
    assert gain == pytest.approx([1.0, 1.0, 0.5, 4.0])
    assert ratio[:2].tolist() == [1.0, 1.0]
    assert ratio[2:] == pytest.approx([0.5, 4.0])
