from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog

from fairlib.transport import TransportPlan, TransportProblem, dual, problem, solve_dual

Draw = Callable[[int], dict[str, Any]]
FAR = (1e-300, 1e-9, 0.3, 1e6, 1e300)


def solve(case: dict[str, Any], **options: Any) -> TransportPlan:
    options = {"seed": 0} | options
    return solve_dual(
        TransportProblem(case["points"], case["labels"], case["budget"]), case["losses"], **options
    )


def linear_program(case: dict[str, Any]) -> float:
    """Optimum of (2.8), written down as the paper has it and handed to HiGHS."""
    n = len(case["labels"])
    gains, costs = case["gains"] / n, case["costs"] / n
    columns = np.kron(np.ones((1, n)), np.eye(n))  # variable i * n + j: sum over i is 1 for every j
    result = linprog(
        -gains.ravel(),
        A_ub=costs.reshape(1, -1),
        b_ub=[case["budget"]],
        A_eq=columns,
        b_eq=np.ones(n),
        method="highs-ds",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    assert result.status == 0, result.message
    return float(-result.fun)


def column_extremes(case: dict[str, Any], eta: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Per column, which rows maximise R - eta C, and their least and largest cost."""
    worth = case["gains"] - eta * case["costs"]
    tied = worth >= worth.max(axis=0) - 1e-9 * max(1.0, case["losses"].max())
    least = np.where(tied, case["costs"], np.inf).min(axis=0)
    return tied, least, np.where(tied, case["costs"], -np.inf).max(axis=0)


def test_two_people_by_hand() -> None:
    # Person 0 gains 0.8 nats by becoming person 1, at squared distance 4: 0.2 nats per unit. A budget of 1
    # pays for half of it: (0.2 + 0.8 / 2 + 1) / 2.
    case = {
        "points": np.array([[0.0], [2.0]]),
        "labels": np.array([1, 1]),
        "losses": np.array([[9.0, 9.0], [0.2, 1.0]]),
        "budget": 1.0,
    }
    plan = solve(case)
    assert plan.multiplier == pytest.approx(0.2, rel=1e-12)
    assert plan.bound == pytest.approx(0.8, rel=1e-12)
    assert plan.target[1] == 1
    slack = solve(case | {"budget": 2.0})
    assert (slack.multiplier, slack.spent, slack.value, slack.bound) == (0.0, 2.0, 1.0, 1.0)
    np.testing.assert_array_equal(slack.target, [1, 1])
    np.testing.assert_array_equal(slack.weights(2), [[0.0, 0.0], [0.0, 1.0]])


def test_weights_keep_labels_and_count_who_arrives() -> None:
    plan = TransportPlan(np.array([2, 2, 2, 0]), np.array([0, 1, 1, 1]), 0.0, 0.0, 0.0, 0.0, 1)
    np.testing.assert_array_equal(plan.weights(2), [[0, 0, 0.25, 0], [0.25, 0, 0.5, 0]])


@pytest.mark.parametrize("batch", range(12))
def test_bound_equals_the_linear_programs_optimum(batch: int, transport_instance: Draw) -> None:
    for seed in range(20 * batch, 20 * batch + 20):
        case = transport_instance(seed)
        expected = linear_program(case)
        assert solve(case).bound == pytest.approx(expected, rel=1e-7, abs=1e-9), seed


@pytest.mark.parametrize("batch", range(4))
def test_plan_is_complementary_to_the_multiplier(batch: int, transport_instance: Draw) -> None:
    for seed in range(60 * batch, 60 * batch + 60):
        case = transport_instance(seed)
        plan = solve(case)
        n = len(case["labels"])
        columns = np.arange(n)
        tied, least, largest = column_extremes(case, plan.multiplier)
        assert tied[plan.target, columns].all(), seed
        # the transport map moves whole columns, each of mass 1/n, and keeps their labels
        np.testing.assert_allclose(plan.weights(2).sum(axis=1), np.bincount(case["labels"], minlength=2) / n)
        assert plan.value == pytest.approx(case["gains"][plan.target, columns].mean(), abs=1e-12)
        assert plan.spent == pytest.approx(case["costs"][plan.target, columns].mean(), rel=1e-9, abs=1e-12)
        # weak duality with equality: what is over or under the budget is worth eta per unit
        surplus = plan.multiplier * (case["budget"] - plan.spent)
        assert plan.bound == pytest.approx(plan.value + surplus, rel=1e-9, abs=1e-9), seed
        if plan.multiplier == 0.0:
            assert plan.spent <= case["budget"] * (1 + 1e-12) + 1e-12, seed
            assert plan.value == pytest.approx(plan.bound, rel=1e-12)
        else:
            # (B.15): 0 lies between the one-sided derivatives at eta*
            slack = 1e-9 * (1 + case["costs"].max())
            assert least.mean() - slack <= case["budget"] <= largest.mean() + slack, seed
            assert abs(plan.spent - case["budget"]) <= (largest - least).mean() + slack, seed


def test_no_budget_still_moves_between_people_at_distance_zero() -> None:
    # the metric ignores what tells these apart, so their projections are equal up to rounding
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.normal(size=(30, 3)))[0]
    half = 5 * rng.normal(size=(40, 30))
    raw = np.vstack([half, half + 4 * rng.normal(size=(40, 3)) @ basis.T])
    points = raw - (raw @ basis) @ basis.T
    losses = np.zeros((2, 80))
    losses[1, 40:] = 1.0  # everybody's twin in the second half loses more
    plan = solve_dual(TransportProblem(points, np.ones(80, dtype=int), 0.0), losses, seed=0)
    np.testing.assert_array_equal(plan.target[:40], np.arange(40, 80))
    np.testing.assert_array_equal(plan.target[40:], np.arange(40, 80))
    assert plan.value == plan.bound == 1.0
    assert plan.spent == 0.0


def test_no_budget_and_distinct_people_stay() -> None:
    rng = np.random.default_rng(1)
    losses = rng.exponential(size=(2, 60))
    labels = rng.integers(0, 2, 60)
    plan = solve_dual(TransportProblem(rng.normal(size=(60, 3)), labels, 0.0), losses, seed=0)
    np.testing.assert_array_equal(plan.target, np.arange(60))
    assert plan.bound == pytest.approx(losses[labels, np.arange(60)].mean(), rel=1e-14)


@pytest.mark.parametrize("start", FAR)
def test_any_start_gives_the_same_optimum(start: float, transport_instance: Draw) -> None:
    for seed in range(0, 120):
        case = transport_instance(seed)
        cold, warm = solve(case), solve(case, start=start)
        assert warm.bound == pytest.approx(cold.bound, rel=1e-12, abs=1e-13), seed
        assert warm.evaluations <= 100, seed
        if case["budget"] > 0:
            assert case["budget"] * warm.multiplier <= cold.bound + 1e-12, seed


@pytest.mark.parametrize("budget", [1e-300, 1e-30, 1e-12, 1e12, 1e300])
def test_extreme_budgets_end_and_are_exact(budget: float, transport_instance: Draw) -> None:
    for seed in range(0, 60):
        case = transport_instance(seed) | {"budget": budget}
        plan = solve(case)
        limit = solve(case | {"budget": 0.0 if budget < 1 else 1e6})
        # what a budget buys is at most its share of the cheapest move, times the largest gain
        cheapest = case["costs"][case["costs"] > 1e-12].min(initial=1.0)
        bought = case["losses"].max() * budget / cheapest if budget < 1 else 0.0
        assert -1e-12 <= plan.bound - limit.bound <= bought + 1e-12, seed
        assert plan.evaluations <= 150, seed


def test_large_losses_and_costs_keep_their_precision(transport_instance: Draw) -> None:
    for seed in range(0, 40):
        case = transport_instance(seed)
        plain = solve(case)
        scaled = solve(
            case
            | {"points": case["points"] * 1e3, "losses": case["losses"] * 1e5, "budget": case["budget"] * 1e6}
        )
        assert scaled.bound == pytest.approx(plain.bound * 1e5, rel=1e-9, abs=1e-6), seed


def same(first: TransportPlan, second: TransportPlan) -> None:
    np.testing.assert_array_equal(first.target, second.target)
    assert first.multiplier == pytest.approx(second.multiplier, rel=1e-10, abs=1e-14)
    assert first.bound == pytest.approx(second.bound, rel=1e-12)


@pytest.fixture(params=["continuous", "tied"])
def larger(request: pytest.FixtureRequest) -> dict[str, Any]:
    rng = np.random.default_rng(5)
    points = (
        rng.normal(size=(150, 3)) if request.param == "continuous" else rng.integers(0, 3, (150, 3)) * 1.0
    )
    losses = rng.exponential(size=(2, 150))
    if request.param == "tied":
        losses = np.ceil(losses * 2) / 2
    return {"points": points, "labels": rng.integers(0, 2, 150), "losses": losses, "budget": 0.4}


@pytest.mark.parametrize("jobs", [2, 3, 200])
def test_jobs_do_not_matter(jobs: int, larger: dict[str, Any]) -> None:
    one, many = solve(larger), solve(larger, jobs=jobs)
    same(one, many)
    assert (one.multiplier, one.spent, one.bound) == (many.multiplier, many.spent, many.bound)


@pytest.mark.parametrize("jobs", [1, 3])
@pytest.mark.parametrize("width", [1, 7, 150])
def test_blocks_do_not_matter(
    width: int, jobs: int, larger: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = solve(larger)
    monkeypatch.setattr(problem, "DENSE_ROWS", 10)
    monkeypatch.setattr(problem, "BLOCK_BYTES", 8 * 150 * width)
    blocks = TransportProblem(larger["points"], larger["labels"], larger["budget"]).blocks()
    assert len(blocks) == -(-150 // width)
    same(whole, solve(larger, jobs=jobs))


def test_candidate_lists_do_not_matter(larger: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    listed = solve(larger)
    monkeypatch.setattr(dual, "MEAN_CANDIDATES", -1)
    same(listed, solve(larger))


def test_ties_fall_alike_without_lists_in_blocks(
    larger: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = solve(larger)
    monkeypatch.setattr(dual, "MEAN_CANDIDATES", -1)
    monkeypatch.setattr(problem, "DENSE_ROWS", 10)
    monkeypatch.setattr(problem, "BLOCK_BYTES", 8 * 150 * 7)
    same(listed, solve(larger, jobs=2))


def test_ties_follow_the_seed() -> None:
    # two places, 20 people each; everybody at the second loses one nat more
    tied = {
        "points": np.repeat([[0.0], [1.0]], 20, axis=0),
        "labels": np.ones(40, dtype=int),
        "losses": np.tile(np.repeat([0.0, 1.0], 20), (2, 1)),
        "budget": 0.25,
    }
    first, again, other = solve(tied, seed=1), solve(tied, seed=1), solve(tied, seed=2)
    np.testing.assert_array_equal(first.target, again.target)
    assert not np.array_equal(first.target, other.target)
    # the first half may stay (at any of 20) or go (to any of 20) at the multiplier 1
    assert first.multiplier == pytest.approx(1.0, rel=1e-12)
    assert len(set(first.target)) > 20
    assert 5 <= (first.target[:20] >= 20).sum() <= 15


@pytest.mark.parametrize("seed", [0, 1])
def test_ties_are_drawn_evenly(seed: int) -> None:
    # of 40 rows that tie, 36 columns go to one of the last 4 in a tenth of the draws, and 4 columns always
    case = {
        "points": np.repeat([[0.0], [1.0]], [36, 4], axis=0),
        "labels": np.ones(40, dtype=int),
        "losses": np.tile(np.repeat([0.0, 1.0], [36, 4]), (2, 1)),
        "budget": 0.5,
    }
    arrived = np.concatenate([solve(case, seed=1000 * seed + k).target for k in range(100)])
    counts = np.bincount(arrived[arrived >= 36], minlength=40)[36:]
    expected = counts.sum() / 4
    assert 650 < counts.sum() < 850
    assert ((counts - expected) ** 2 / expected).sum() < 16.3  # chi-square, 3 degrees, 1 in 1000


@pytest.mark.parametrize("budget", [-1.0, float("nan"), float("inf")])
def test_budget_must_be_finite_and_not_negative(budget: float) -> None:
    with pytest.raises(ValueError, match="perturbation_budget must be finite and at least 0"):
        TransportProblem(np.zeros((2, 1)), np.array([0, 1]), budget)


@pytest.mark.parametrize(
    ("points", "labels", "message"),
    [
        (np.zeros((3, 1)), [0, 1], "one entry per row"),
        (np.zeros(2), [0, 1], "one entry per row"),
        ([[0.0], [np.nan]], [0, 1], "points must be finite"),
        ([[0.0], [1.0]], [0, -1], "class indices of at least 0"),
        (np.zeros((0, 2)), [], "at least one row"),
    ],
)
def test_problem_refuses_bad_input(points: Any, labels: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TransportProblem(points, np.array(labels, dtype=int), 1.0)


@pytest.mark.parametrize(
    ("losses", "options", "message"),
    [
        (np.zeros((2, 3)), {}, r"shape \(classes, 2\)"),
        (np.zeros((1, 2)), {}, "a row for every label"),
        ([[0.0, np.inf], [0.0, 0.0]], {}, "losses must be finite"),
        (np.zeros((2, 2)), {"jobs": 0}, "jobs must be at least 1"),
        (np.zeros((2, 2)), {"start": float("nan")}, "start must be finite"),
        (np.zeros((2, 2)), {"start": -1.0}, "start must be finite"),
    ],
)
def test_solver_refuses_bad_input(losses: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        solve_dual(TransportProblem(np.zeros((2, 1)), np.array([0, 1]), 1.0), losses, seed=0, **options)
