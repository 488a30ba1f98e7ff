"""Algorithms 4 to 6 of BuDRO against a linear program, the exact solver and hand-made cases."""

import numpy as np
import pytest
from scipy.optimize import linprog

from benchmarks.reproductions.entropic_transport import (
    Program,
    compare,
    entropic_columns,
    entropic_plan,
    multiplier_by_descent,
    program_of,
    unspent_budget,
)
from evenhand.fairlib.transport.dual import DualSolver
from evenhand.fairlib.transport.problem import TransportProblem


def small_problem(seed: int, people: int = 12):
    random = np.random.default_rng(seed)
    points = random.normal(size=(people, 2))
    labels = random.integers(0, 2, people)
    labels[:2] = 0, 1
    chance = random.uniform(0.1, 0.9, people)
    table = -np.log(np.stack([1 - chance, chance]))
    return points, labels, table


def value_by_linear_program(program: Program) -> float:
    """The optimum of (2.8), every entry of the plan a variable."""
    people = len(program.costs)
    sums = np.zeros((people, people * people))
    for column in range(people):
        sums[column, column::people] = 1
    solution = linprog(
        -program.losses.ravel(),
        A_ub=program.costs.reshape(1, -1),
        b_ub=[program.budget],
        A_eq=sums,
        b_eq=np.full(people, 1 / people),
    )
    return -solution.fun


def test_two_people_by_hand():
    # R = [[0, 0], [ln 3, ln 3]] without costs: the second row gets 3/4 of each column at strength 1
    losses = np.array([[0.0, 0.0], [np.log(3), np.log(3)]])
    program = Program(np.zeros((2, 2)), losses, budget=1.0)
    plan = entropic_columns(0.0, program, strength=1.0)
    np.testing.assert_allclose(plan, [[1 / 8, 1 / 8], [3 / 8, 3 / 8]])
    assert unspent_budget(0.0, program, 1.0) == pytest.approx(1.0)


@pytest.mark.parametrize("seed", range(4))
def test_plan_spends_the_budget_and_sums_to_one(seed):
    points, labels, table = small_problem(seed)
    program = program_of(points, labels, table, budget=0.2)
    plan, multiplier = entropic_plan(program, strength=0.02)
    np.testing.assert_allclose(plan.sum(axis=0), 1 / 12)
    assert program.spent(plan) == pytest.approx(0.2, rel=1e-6)
    assert multiplier > 0


@pytest.mark.parametrize("seed", range(4))
def test_entropic_plan_tends_to_the_exact_optimum(seed):
    points, labels, table = small_problem(seed)
    program = program_of(points, labels, table, budget=0.2)
    optimum = value_by_linear_program(program)
    exact = DualSolver(TransportProblem(points, labels, 0.2)).solve(table)
    assert exact.value == pytest.approx(optimum, rel=1e-9)
    missed = [
        optimum - program.value(entropic_plan(program, strength)[0])
        for strength in (1.0, 0.1, 0.01, 0.001)
    ]
    assert missed == sorted(missed, reverse=True)
    assert missed[-1] >= -1e-9
    # a plan of n entries a column has at most log n of entropy
    assert missed[-1] <= 0.001 * np.log(12)


def test_slack_budget_needs_no_multiplier():
    points, labels, table = small_problem(0)
    program = program_of(points, labels, table, budget=1e6)
    assert entropic_plan(program, strength=0.1)[1] == 0.0


def test_budget_of_zero_between_distinct_people_is_refused():
    program = Program(np.array([[1.0, 1.0], [1.0, 1.0]]), np.zeros((2, 2)), budget=0.0)
    with pytest.raises(ValueError, match="larger budget"):
        entropic_plan(program, strength=1.0)


def test_gradient_is_that_of_the_dual():
    # d/deta of eta eps + gamma mean_j log sum_i exp((R - eta C) / gamma), by differences
    points, labels, table = small_problem(2)
    program = program_of(points, labels, table, budget=0.2)

    def dual(multiplier: float) -> float:
        powers = np.exp((program.losses - multiplier * program.costs) / 0.3)
        return multiplier * 0.2 + 0.3 * np.log(powers.sum(axis=0)).mean()

    slope = (dual(0.4 + 1e-6) - dual(0.4 - 1e-6)) / 2e-6
    assert unspent_budget(0.4, program, 0.3) == pytest.approx(slope, rel=1e-5)


def test_descent_comes_near_the_root():
    points, labels, table = small_problem(3, people=40)
    program = program_of(points, labels, table, budget=0.2)
    _, root = entropic_plan(program, strength=0.1)
    reached = multiplier_by_descent(program, 0.1, start=2 * root, rate=0.1 * root / 0.2)
    assert reached == pytest.approx(root, rel=0.2)


def test_compared_by_strength():
    points, labels, table = small_problem(1, people=30)
    result = compare(points, labels, table, 0.2)
    missed = [row["missed"] for row in result["entropic"]]
    assert missed == sorted(missed, reverse=True)
    assert result["people"] == 30
    assert result["matrices"]["bytes"] == 2 * 30 * 30 * 8
