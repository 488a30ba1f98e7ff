"""Distances that are computed when they are needed, against all pairs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from evenhand.fairlib.methods.budro import BudroClassifier
from evenhand.fairlib.transport import cells as cells_module
from evenhand.fairlib.transport import dual as dual_module
from evenhand.fairlib.transport.dual import DualSolver
from evenhand.fairlib.transport.problem import TransportProblem
from evenhand.fairlib.transport.search import ColumnSearch

KEY = 20240229


def clusters(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    """Rows about 30 centres, of which a few are equal."""
    points = rng.normal(size=(30, d))[rng.integers(0, 30, n)] + 0.05 * rng.normal(size=(n, d))
    return points[rng.integers(0, n, n)]


CLOUDS: dict[str, Any] = {
    "clusters": clusters,
    "normal": lambda rng, n, d: rng.normal(size=(n, d)),
    "grid": lambda rng, n, d: rng.integers(0, 4, (n, d)) * 1.0,
    "one place": lambda rng, n, d: np.ones((n, d)),
    "norms": lambda rng, n, d: rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-3, 4, (n, 1)),
    "far": lambda rng, n, d: rng.normal(size=(n, d)) + 1e4,
    "tiny": lambda rng, n, d: rng.normal(size=(n, d)) * 1e-9,
    "huge": lambda rng, n, d: rng.normal(size=(n, d)) * 1e140,
}


@pytest.fixture
def when_needed(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Small tables are searched as large ones are."""
    for name, value in {
        "ALL_PAIRS": 0,
        "FIRST_CELLS": 2,
        "SAMPLED": 400,
        "BLOCK_BYTES": 5000,
        "CACHED_BYTES": 3000,
        "PART_ROWS": 3,
    }.items():
        monkeypatch.setattr(cells_module, name, value)
    monkeypatch.setattr(dual_module, "MANY", 60)
    return monkeypatch


@pytest.mark.parametrize("kind", CLOUDS)
@pytest.mark.parametrize("seeds", [2, pytest.param(4, marks=pytest.mark.long)])
@pytest.mark.filterwarnings("ignore:Number of distinct clusters")
def test_envelopes_are_those_of_all_pairs(
    kind: str, seeds: int, when_needed: pytest.MonkeyPatch
) -> None:
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        n, d, classes = int(rng.integers(1, 600)), int(rng.integers(1, 15)), int(rng.integers(1, 4))
        problem = TransportProblem(CLOUDS[kind](rng, n, d), rng.integers(0, classes, n), 1.0)
        near = ColumnSearch(problem, jobs=1 + seed % 3)
        with when_needed.context() as patch:
            patch.setattr(cells_module, "ALL_PAIRS", 10**9)
            every = ColumnSearch(problem)
        assert near.cells is not None
        assert near.cells.near is not None
        assert every.cells is not None
        assert every.cells.near is None
        placed = problem.places[near.cells.place]
        squared = cdist(placed, placed, "sqeuclidean")
        scale = float(np.median(squared)) or 1.0
        some = np.sort(
            rng.choice(len(problem.query_size), min(20, len(problem.query_size)), replace=False)
        )
        # the cheapest moves first: cells are added later
        for eta in (30.0 / scale, 3.0 / scale, 0.3 / scale, 0.0):
            losses = rng.exponential(size=(classes, n))
            losses = np.round(losses * 3) / 3 if seed % 2 else losses
            for search in (near, every):
                search.load(losses, KEY)
                search.loaded = 1
            for queries in (some, None):
                found = near.envelopes(eta / 1.1, eta * 1.1 + 1e-9 / scale, queries)
                expected = every.envelopes(eta / 1.1, eta * 1.1 + 1e-9 / scale, queries)
                for name in ("start", "cost", "loss", "place"):
                    np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
        # all bounds hold, between cells and from places to parts of cells
        cells, known = near.cells, near.cells.near
        assert len(cells.start) >= len(known.start)
        assert set(known.start) <= set(cells.start)
        assert np.diff(cells.start).max() <= cells_module.PART_ROWS
        least = np.minimum.reduceat(squared, cells.start[:-1], axis=1)
        apart = np.minimum.reduceat(
            np.minimum.reduceat(squared, known.start[:-1], axis=1), known.start[:-1]
        )
        assert (np.square(known.apart, dtype=float) * cells.unit <= apart).all()
        for cell, (listed, bounds) in enumerate(zip(known.listed, known.bounds, strict=True)):
            rows = least[known.start[cell] : known.start[cell + 1]][:, listed]
            assert (np.square(bounds, dtype=float) * cells.unit <= rows).all()


def test_bounds_that_take_too_much_memory_are_computed_again(
    when_needed: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(4)
    problem = TransportProblem(clusters(rng, 700, 3), rng.integers(0, 2, 700), 1.0)
    losses = rng.exponential(size=(2, 700))
    kept = DualSolver(problem).solve(losses)
    when_needed.setattr(cells_module, "MAX_NEAR", 2000)
    solver = DualSolver(problem)
    for _ in range(2):
        solver.begin()
        found = solver.solve(losses)
        assert (found.value, found.multiplier) == (kept.value, kept.multiplier)
        np.testing.assert_array_equal(found.target, kept.target)
    assert solver.search.cells is not None
    near = solver.search.cells.near
    assert near is not None
    assert near.kept == sum(bounds.nbytes for bounds in near.bounds) <= 2000
    assert any(not bounds.size for bounds in near.bounds)


def test_far_cells_are_left_out(when_needed: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    problem = TransportProblem(clusters(rng, 900, 3), np.zeros(900, dtype=int), 1.0)
    search = ColumnSearch(problem)
    assert search.cells is not None
    assert search.cells.near is not None
    search.load(rng.exponential(size=(1, 900)), KEY)
    search.envelopes(100.0, 110.0)
    few = float(search.cells.near.known.mean())
    search.envelopes(0.3, 0.33)
    assert few < 0.1
    assert 2 * few < search.cells.near.known.mean() < 0.9


@pytest.mark.parametrize("jobs", [1, 3])
def test_plans_of_a_sequence_are_those_of_all_pairs(
    jobs: int, when_needed: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(5)
    problem = TransportProblem(
        clusters(rng, 700, 4), rng.integers(0, 2, 700), 0.05, rng.random(700)
    )
    near = DualSolver(problem, seed=3, jobs=jobs)
    with when_needed.context() as patch:
        patch.setattr(cells_module, "ALL_PAIRS", 10**9)
        every = DualSolver(problem, seed=3)
    losses = rng.exponential(size=(2, 700))
    for step in range(6):
        # from step to step by a third, then to another level at once
        losses = losses * np.exp(0.3 * rng.normal(size=losses.shape)) * (8.0 if step == 4 else 1.0)
        one, other = near.solve(losses), every.solve(losses)
        np.testing.assert_array_equal(one.target, other.target)
        np.testing.assert_allclose(one.support, other.support, rtol=0, atol=1e-13)
        assert one.multiplier == pytest.approx(other.multiplier, rel=1e-12)
        assert one.bound == pytest.approx(one.value, rel=1e-9)
        assert one.proven == pytest.approx(1.0)


def test_the_model_is_that_of_all_pairs(when_needed: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(6)
    X = clusters(rng, 800, 5)
    y = (X[:, 0] + 0.3 * rng.normal(size=800) > 0).astype(int)
    model = BudroClassifier(
        n_steps=12, neighbours=None, n_iter_no_change=None, budget_share=0.01, n_jobs=1
    )
    near = model.fit(X, y)
    raw, history = bytes(near.booster_.save_raw()), dict(near.history_)
    when_needed.setattr(cells_module, "ALL_PAIRS", 10**9)
    every = model.fit(X, y)
    assert raw == bytes(every.booster_.save_raw())
    np.testing.assert_allclose(history["multiplier"], every.history_["multiplier"], rtol=1e-9)


def test_a_slack_budget_moves_everybody(when_needed: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(7)
    problem = TransportProblem(rng.normal(size=(200, 2)), np.zeros(200, dtype=int), 1e6)
    losses = rng.exponential(size=(1, 200))
    solver = DualSolver(problem)
    for _ in range(2):
        plan = solver.solve(losses)
        assert (plan.multiplier, plan.value) == (0.0, pytest.approx(losses.max()))


def dual_value(problem: TransportProblem, losses: np.ndarray, eta: float) -> float:
    """(B.14) over all pairs."""
    points = problem.places[problem.place_of]
    values = losses[problem.labels] - eta * cdist(points, points, "sqeuclidean")
    best = values.max(axis=1)
    return eta * problem.budget + float((problem.mass * best).mean())


@pytest.mark.parametrize("kind", ["clusters", "normal", "grid", "norms"])
@pytest.mark.parametrize("neighbours", [5, 60, None])
@pytest.mark.filterwarnings("ignore:Number of distinct clusters")
def test_the_gap_is_proven(
    kind: str, neighbours: int | None, when_needed: pytest.MonkeyPatch
) -> None:
    gaps, missed = [], []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        n, classes = int(rng.integers(150, 250)), 3 - seed
        points = CLOUDS[kind](rng, n, 3)
        budget = 0.003 * float(cdist(points, points, "sqeuclidean").mean())
        mass = rng.integers(0, 3, n) * 1.0 if seed % 2 else None
        problem = TransportProblem(points, rng.integers(0, classes, n), budget, mass)
        solver = DualSolver(problem, seed=seed, neighbours=neighbours)
        with when_needed.context() as patch:
            patch.setattr(cells_module, "ALL_PAIRS", 10**9)
            every = DualSolver(problem, seed=seed)
        table = rng.exponential(size=(classes, n))
        for _ in range(5):
            table = table * np.exp(0.1 * rng.normal(size=table.shape))
            losses = np.round(table * 3) / 3 if seed % 2 else table
            plan, best = solver.solve(losses), every.solve(losses)
            rounding = 1e-9 * best.value
            assert plan.value <= best.value + rounding
            assert dual_value(problem, losses, plan.multiplier) <= plan.bound + rounding
            # the definition, and what it bounds
            without = float((problem.mass * losses[problem.labels, np.arange(n)]).mean())
            assert plan.loss == pytest.approx(without, rel=1e-12)
            assert plan.gap == pytest.approx(
                max(plan.bound - plan.value, 0.0) / (plan.bound - without), abs=1e-12
            )
            gaps.append(plan.gap)
            missed.append((best.value - plan.value) / (best.value - without))
            # feasible: nobody's mass is lost, and the budget is met
            assert plan.spent <= budget * (1 + 1e-9)
            assert (plan.support >= 0).all()
            np.testing.assert_allclose(
                plan.support.sum(axis=1) * n,
                [problem.mass[problem.labels == k].sum() for k in range(classes)],
                rtol=1e-12,
            )
            assert (plan.support * losses).sum() == pytest.approx(plan.value, rel=1e-12)
    assert (np.array(missed) <= np.array(gaps) + 1e-8).all()
    assert max(gaps) < 1
    if neighbours is None:
        assert max(gaps) < 1e-8
    elif neighbours == 5:
        assert max(missed) > 0.01


def test_neighbours_have_a_proven_gap_too() -> None:
    rng = np.random.default_rng(13)
    problem = TransportProblem(clusters(rng, 300, 3), rng.integers(0, 2, 300), 0.05)
    losses = rng.exponential(size=(2, 300))
    best = DualSolver(problem).solve(losses)
    for neighbours, least in ((5, 0.1), (60, 0.0)):
        plan = DualSolver(problem, neighbours=neighbours).solve(losses)
        missed = (best.value - plan.value) / (best.value - plan.loss)
        assert least < missed + 1e-12 <= plan.gap + 1e-9
        assert plan.gap < 1


@pytest.mark.parametrize("neighbours", [3, None])
def test_a_table_where_nothing_can_rise_has_no_gap(
    neighbours: int | None, when_needed: pytest.MonkeyPatch
) -> None:
    problem = TransportProblem(
        np.random.default_rng(1).normal(size=(50, 2)), np.zeros(50, dtype=int), 0.1
    )
    assert DualSolver(problem, neighbours=neighbours).solve(np.full((1, 50), 0.7)).gap == 0.0
