"""Problems, plans and their solver, against the linear program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog

from evenhand.fairlib.transport import problem as problem_module
from evenhand.fairlib.transport.dual import DualSolver
from evenhand.fairlib.transport.problem import TransportPlan, TransportProblem
from tests.oracles.linear_program import largest_loss

Draw = Callable[..., dict[str, Any]]
Rebuild = Callable[[TransportPlan], np.ndarray]


def problem_of(case: dict[str, Any]) -> TransportProblem:
    return TransportProblem(case["points"], case["labels"], case["budget"])


def keeps_labels(plan: TransportPlan, labels: np.ndarray, classes: int) -> None:
    n = len(labels)
    assert plan.support.shape == (classes, n)
    assert plan.support.min() >= 0
    assert plan.support.sum() == pytest.approx(1.0, abs=1e-12)
    mass = np.bincount(labels, minlength=classes) / n
    np.testing.assert_allclose(plan.support.sum(axis=1), mass, atol=1e-12)
    assert plan.target.shape == (n,)
    assert plan.target.min() >= 0
    assert plan.target.max() < n


def test_two_people_by_hand() -> None:
    # Person 0 gains 0.8 nats by becoming person 1, at squared distance 4: 0.2 nats per unit. A mean
    # budget of 1 pays for half of person 0: (0.2 / 2 + 1 / 2 + 1) / 2.
    case = {
        "points": np.array([[0.0], [2.0]]),
        "costs": np.array([[0.0, 4.0], [4.0, 0.0]]),
        "labels": np.array([1, 1]),
        "budget": 1.0,
    }
    losses = [[9.0, 9.0], [0.2, 1.0]]
    plan = DualSolver(problem_of(case)).solve(losses)
    assert plan.multiplier == pytest.approx(0.2, rel=1e-9)
    assert plan.value == pytest.approx(0.8, rel=1e-9)
    assert plan.bound == pytest.approx(0.8, rel=1e-9)
    assert plan.spent == pytest.approx(1.0, rel=1e-9)
    np.testing.assert_allclose(plan.support, [[0.0, 0.0], [0.25, 0.75]], atol=1e-9)
    assert plan.target[1] == 1
    slack = DualSolver(problem_of(case | {"budget": 2.5})).solve(losses)
    assert slack.multiplier == pytest.approx(0.0, abs=1e-12)
    assert (slack.spent, slack.value, slack.bound) == pytest.approx((2.0, 1.0, 1.0))
    np.testing.assert_array_equal(slack.target, [1, 1])
    np.testing.assert_allclose(slack.support, [[0.0, 0.0], [0.0, 1.0]], atol=1e-9)


@pytest.mark.parametrize(
    "batch", [0, 1, *(pytest.param(batch, marks=pytest.mark.long) for batch in range(2, 10))]
)
@pytest.mark.parametrize("classes", [2, 3])
def test_plans_reach_the_optimum_of_the_linear_program(
    batch: int, classes: int, transport_instance: Draw
) -> None:
    for seed in range(20 * batch, 20 * batch + 20):
        case = transport_instance(seed, classes)
        best = largest_loss(case["costs"], case["gains"], case["budget"])
        expected = pytest.approx(best, rel=1e-7, abs=1e-9)
        # over all cells, and over lists of all rows
        for options in ({}, {"neighbours": len(case["labels"])}):
            exact = DualSolver(problem_of(case), **options).solve(case["losses"])
            assert exact.value == expected, (seed, options)
            assert exact.bound == expected, (seed, options)
            assert exact.spent <= case["budget"] + 1e-9, (seed, options)
            if exact.multiplier > 0:
                assert exact.spent == pytest.approx(case["budget"], abs=1e-9), (seed, options)
            assert exact.proven == 1.0
            keeps_labels(exact, case["labels"], classes)


@pytest.mark.parametrize("classes", [2, 3])
def test_weights_of_people_are_masses_of_the_linear_program(
    classes: int, transport_instance: Draw
) -> None:
    for seed in range(20):
        case = transport_instance(seed, classes)
        n = len(case["labels"])
        rng = np.random.default_rng(seed)
        # fractions, people who count nothing, and one who counts a lot
        mass = rng.exponential(size=n) * (rng.random(n) < 0.8)
        mass[rng.integers(n)] = 5.0
        problem = TransportProblem(case["points"], case["labels"], case["budget"], mass)
        plan = DualSolver(problem).solve(case["losses"])
        share = mass / mass.sum()
        found = linprog(
            -(case["gains"] * share).ravel(),
            A_ub=(case["costs"] * share).reshape(1, -1),
            b_ub=[case["budget"]],
            A_eq=np.tile(np.eye(n), n),
            b_eq=np.ones(n),
            method="highs",
        )
        assert plan.value == pytest.approx(-found.fun, rel=1e-7, abs=1e-9), seed
        assert plan.bound == pytest.approx(-found.fun, rel=1e-7, abs=1e-9), seed
        assert plan.spent <= case["budget"] + 1e-9
        kept = np.bincount(case["labels"], share, minlength=classes)
        np.testing.assert_allclose(plan.support.sum(axis=1), kept, atol=1e-12)


def test_classes_without_any_person_get_no_mass() -> None:
    rng = np.random.default_rng(0)
    labels = np.array([0, 1, 1, 0, 1, 0])
    problem = TransportProblem(rng.normal(size=(6, 2)), labels, 0.5)
    losses = rng.exponential(size=(4, 6))
    wide = DualSolver(problem, seed=3).solve(losses)
    keeps_labels(wide, labels, 4)
    narrow = DualSolver(problem, seed=3).solve(losses[:2])
    np.testing.assert_array_equal(wide.support[:2], narrow.support)


# the search over cells and the one over lists
SEARCHES = [None, 100]


@pytest.mark.parametrize("neighbours", SEARCHES)
def test_same_seed_same_plan(neighbours: int | None, transport_instance: Draw) -> None:
    case = transport_instance(33)
    losses = np.round(case["losses"])
    first, again = (DualSolver(problem_of(case), seed=5, neighbours=neighbours) for _ in range(2))
    for step in range(3):
        one, two = first.solve(losses * (1 + step)), again.solve(losses * (1 + step))
        np.testing.assert_array_equal(one.support, two.support)
        np.testing.assert_array_equal(one.target, two.target)
        assert (one.multiplier, one.split) == (two.multiplier, two.split)


@pytest.mark.parametrize("neighbours", SEARCHES)
def test_a_restored_solver_goes_on_bit_by_bit(neighbours: int | None) -> None:
    rng = np.random.default_rng(8)
    n = 60
    points = rng.integers(0, 4, (n, 3)) * 1.0
    problem = TransportProblem(points, rng.integers(0, 3, n), 1.2)
    losses = np.ceil(rng.exponential(size=(3, n)) * 2)  # many ties, which the next draws decide
    tables = [losses * (1 + 0.03 * step) for step in range(7)]
    tables[5] = tables[5] * 1e3
    straight = DualSolver(problem, seed=9, neighbours=neighbours)
    for table in tables[:3]:
        straight.solve(table)
    # a checkpoint stores arrays: a number is restored from one
    state = {key: np.asarray(value) for key, value in straight.state().items()}
    restored = DualSolver(problem, seed=9, neighbours=neighbours)
    restored.restore(state)
    for table in tables[3:]:
        expected, got = straight.solve(table), restored.solve(table)
        np.testing.assert_array_equal(got.support, expected.support)
        np.testing.assert_array_equal(got.target, expected.target)
        assert got.multiplier == expected.multiplier
        assert (got.value, got.spent, got.split) == (expected.value, expected.spent, expected.split)


@pytest.mark.parametrize("neighbours", SEARCHES)
def test_a_solver_that_begins_again_is_a_new_one(neighbours: int | None) -> None:
    rng = np.random.default_rng(3)
    problem = TransportProblem(rng.integers(0, 4, (60, 3)) * 1.0, rng.integers(0, 2, 60), 0.8)
    losses = np.ceil(
        rng.exponential(size=(2, 60)) * 2
    )  # many ties, which the number of the call decides
    solver = DualSolver(problem, seed=2, neighbours=neighbours)
    tables = [losses * (1 + 0.03 * step) for step in range(5)]
    first = [solver.solve(table) for table in tables]
    solver.begin()
    for table, expected in zip(tables, first, strict=True):
        found = solver.solve(table)
        np.testing.assert_array_equal(found.target, expected.target)
        assert (found.multiplier, found.split) == (expected.multiplier, expected.split)


@pytest.mark.parametrize("block", [1, 7, 1 << 16])
def test_places_are_the_distinct_rows_in_their_order(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(problem_module, "BLOCK_ROWS", block)
    rng = np.random.default_rng(7)
    for _ in range(20):
        n, d = int(rng.integers(1, 60)), int(rng.integers(1, 4))
        # whole numbers about a mean of 0 are centred without rounding
        half = rng.integers(-2, 3, (n, d)) * 1.0
        points = np.concatenate([half, -half])
        problem = TransportProblem(points, np.zeros(2 * n, dtype=int), 1.0)
        places, first, place_of = np.unique(points, axis=0, return_index=True, return_inverse=True)
        np.testing.assert_array_equal(problem.places, places)
        np.testing.assert_array_equal(problem.place_of, place_of.reshape(-1))
        np.testing.assert_array_equal(problem.rows_by_place[problem.place_start[:-1]], first)
        assert problem.place_start[-1] == 2 * n


def test_a_state_holds_only_numbers_and_arrays() -> None:
    problem = TransportProblem(np.eye(4), [0, 1, 0, 1], 0.2)
    solver = DualSolver(problem)
    for _ in range(2):
        for name, value in solver.state().items():
            assert np.asarray(value).dtype.kind in "iuf", name
        solver.solve(np.eye(2, 4))


def test_rows_that_only_rounding_tells_apart_are_one_place() -> None:
    step = 1e-12
    points = np.array([[100.0, 0.0], [100.0 + step, 0.0], [0.0, 50.0], [100.0, -step], [0.0, 50.0]])
    problem = TransportProblem(points, [0, 0, 1, 1, 1], 1.0)
    assert problem.n_places == 2
    assert problem.place_of[0] == problem.place_of[1] == problem.place_of[3] != problem.place_of[2]
    # queries: (first place, 0), (first place, 1), (second place, 1)
    assert sorted(problem.query_size) == [1, 2, 2]
    np.testing.assert_array_equal(problem.query_label[problem.query_of], problem.labels)
    np.testing.assert_array_equal(problem.query_place[problem.query_of], problem.place_of)
    losses = np.array([[1.0, 4.0, 2.0, 3.0, 7.0], [5.0, 1.0, 0.0, 0.0, 6.0]])
    got = problem.largest_losses(losses)[:, [problem.place_of[0], problem.place_of[2]]]
    np.testing.assert_array_equal(got, [[4.0, 7.0], [5.0, 6.0]])


def test_people_without_any_coordinate_are_at_one_place() -> None:
    problem = TransportProblem(np.zeros((3, 0)), [0, 1, 1], 0.0)
    assert problem.n_places == 1
    plan = DualSolver(problem).solve([[3.0, 1.0, 2.0], [1.0, 5.0, 1.0]])
    assert (plan.value, plan.spent) == (pytest.approx((3.0 + 5.0 + 5.0) / 3), 0.0)
    np.testing.assert_array_equal(plan.target, [0, 1, 1])


def test_people_a_millionth_apart_are_two_places() -> None:
    problem = TransportProblem([[0.0], [1e-6], [1.0]], [0, 0, 0], 1e-13)
    assert problem.n_places == 3
    # a third of the way up is paid for, once
    plan = DualSolver(problem).solve([[0.0, 1.0, 0.0]])
    assert plan.spent == pytest.approx(1e-13, rel=1e-6)
    assert plan.value == pytest.approx((1.0 + 0.3) / 3, rel=1e-6)


def test_far_from_the_origin_people_are_still_told_apart() -> None:
    rng = np.random.default_rng(2)
    near = rng.normal(size=(40, 3))
    losses = rng.exponential(size=(2, 40))
    labels = rng.integers(0, 2, 40)
    plans = [
        DualSolver(TransportProblem(near + shift, labels, 0.3)).solve(losses)
        for shift in (0.0, 1e6)
    ]
    np.testing.assert_array_equal(plans[0].target, plans[1].target)
    assert plans[0].value == pytest.approx(plans[1].value, rel=1e-7)


def test_one_row_stays_where_it_is() -> None:
    plan = DualSolver(TransportProblem([[3.0, 4.0]], [0], 2.0)).solve([[0.7]])
    assert (plan.value, plan.spent) == (pytest.approx(0.7), 0.0)
    np.testing.assert_array_equal(plan.target, [0])
    np.testing.assert_array_equal(plan.support, [[1.0]])


@pytest.mark.parametrize("budget", [-1.0, -1e-300, float("nan"), float("inf")])
def test_budget_must_be_finite_and_not_negative(budget: float) -> None:
    with pytest.raises(ValueError, match="perturbation_budget must be finite and at least 0"):
        TransportProblem(np.zeros((2, 1)), [0, 1], budget)


@pytest.mark.parametrize(
    ("points", "labels", "message"),
    [
        (np.zeros((3, 1)), [0, 1], "labels must have one entry per row of points"),
        (np.zeros((2, 1)), [[0], [1]], "labels must have one entry per row of points"),
        (np.zeros(2), [0, 1], "labels must have one entry per row of points"),
        ([[0.0], [np.nan]], [0, 1], "points must be finite"),
        ([[0.0], [-np.inf]], [0, 1], "points must be finite"),
        ([[0.0], [1.0]], [0, -1], "labels must be class indices"),
        ([[0.0], [1.0]], [0.0, 1.0], "labels must be class indices"),
        ([[0.0], [1.0]], [False, True], "labels must be class indices"),
        ([[0.0], [1.0]], ["0", "1"], "labels must be class indices"),
        (np.zeros((0, 2)), [], "points must have at least one row"),
    ],
)
def test_problem_refuses_bad_input(points: Any, labels: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TransportProblem(points, labels, 1.0)


@pytest.mark.parametrize(
    ("losses", "message"),
    [
        (np.zeros((2, 3)), r"losses must have shape \(classes, 2\)"),
        (np.zeros(2), r"losses must have shape \(classes, 2\)"),
        (np.zeros((1, 2)), "a row for every label"),
        ([[0.0, np.inf], [0.0, 0.0]], "losses must be finite"),
        ([[0.0, 0.0], [np.nan, 0.0]], "losses must be finite"),
    ],
)
def test_bad_losses_are_refused(losses: Any, message: str) -> None:
    solver = DualSolver(TransportProblem(np.zeros((2, 1)), [0, 1], 1.0))
    with pytest.raises(ValueError, match=message):
        solver.solve(losses)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"jobs": 0}, "jobs must be a whole number, at least 1"),
        ({"jobs": -1}, "jobs must be a whole number, at least 1"),
        ({"neighbours": 0}, "neighbours must be at least 1"),
        ({"neighbours": -2}, "neighbours must be at least 1"),
    ],
)
def test_bad_parameters_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DualSolver(TransportProblem(np.zeros((2, 1)), [0, 1], 1.0), **options)
