"""How much a search looks at, and what its kernels return: numbers that were written down.

A bound that is too loose changes no result, only the work. The kernels run here as plain Python,
where calls can be counted.
"""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numba
import numpy as np
import pytest

from evenhand.fairlib import transport
from evenhand.fairlib.transport import _transport_kernels as compiled
from evenhand.fairlib.transport import cells, neighbour_lists, search
from evenhand.fairlib.transport.dual import DualSolver
from evenhand.fairlib.transport.problem import TransportProblem
from tests.signatures import modules_below, positional_only
from tests.written_results import check_written

COUNTED = (
    "_cost",
    "_fill",
    "_from_list",
    "_height",
    "_insert",
    "_leading",
    "_reaches",
    "_search",
    "_top",
    "squared_distance",
)


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """Calls of the kernels, which are not compiled within the test."""
    assert compiled.__file__ is not None
    spec = importlib.util.spec_from_file_location("plain_kernels", compiled.__file__)
    assert spec is not None
    assert spec.loader is not None
    plain = importlib.util.module_from_spec(spec)
    # other modules compile while the test runs
    with monkeypatch.context() as loading:
        loading.setattr(numba.config, "DISABLE_JIT", True)
        spec.loader.exec_module(plain)
    calls: Counter[str] = Counter()
    for name in COUNTED:
        setattr(plain, name, counted(plain, name, calls))
    for module in (search, cells, neighbour_lists):
        monkeypatch.setattr(module, "kernels", plain)
    # integers of a fixed width wrap on purpose in the hash of ties
    with np.errstate(over="ignore"):
        yield calls


def counted(module: ModuleType, name: str, calls: Counter[str]) -> Callable[..., Any]:
    """A function of a module that counts its calls."""
    function = getattr(module, name)

    def call(*arguments: Any) -> Any:
        calls[name] += 1
        return function(*arguments)

    return call


def people(n: int, d: int, seed: int) -> tuple[TransportProblem, np.ndarray]:
    """Rows about some centres, and losses of two labels with ties."""
    rng = np.random.default_rng(seed)
    centres = 3.0 * rng.normal(size=(4, d))
    X = centres[rng.integers(0, 4, n)] + rng.normal(size=(n, d))
    problem = TransportProblem(X, rng.integers(0, 2, n), 0.5)
    return problem, np.round(rng.exponential(size=(2, n)), 1)


def sums_of(envelopes: search.Envelopes) -> dict[str, Any]:
    """Number of vertices, and sums over them."""
    return {
        "vertices": len(envelopes.cost),
        "cost": float(envelopes.cost.sum()),
        "loss": float(envelopes.loss.sum()),
    }


@pytest.mark.parametrize(
    ("low", "high"), [(0.0, 0.0), (0.02, 0.05), (0.2, 0.2), (0.5, 0.6), (0.1, 50.0)]
)
@pytest.mark.parametrize("dimensions", [2, 9])
def test_a_search_looks_at_no_more(
    work: Counter[str], dimensions: int, low: float, high: float
) -> None:
    problem, losses = people(90, dimensions, 1)
    searched = search.ColumnSearch(problem)
    searched.load(losses, 5)
    work.clear()
    results = sums_of(searched.envelopes(low, high))
    results["calls"] = dict(sorted(work.items()))
    # a second one knows the best rows of the first
    work.clear()
    searched.envelopes(low * 1.01, high * 1.02)
    results["calls again"] = dict(sorted(work.items()))
    check_written(__file__, f"search, {dimensions} dimensions, {low} to {high}", results)


@pytest.mark.parametrize(("low", "high"), [(0.01, 0.02), (0.3, 0.3), (0.1, 30.0)])
@pytest.mark.parametrize("per_root", [0.3, 1.0])
def test_a_search_of_large_cells_looks_at_no_more(
    work: Counter[str], monkeypatch: pytest.MonkeyPatch, per_root: float, low: float, high: float
) -> None:
    monkeypatch.setattr(cells, "CELLS_PER_ROOT", per_root)
    problem, losses = people(150, 4, 7)
    searched = search.ColumnSearch(problem)
    searched.load(losses, 5)
    work.clear()
    results = sums_of(searched.envelopes(low, high))
    results["calls"] = dict(sorted(work.items()))
    check_written(__file__, f"{per_root} cells per root, {low} to {high}", results)


@pytest.mark.parametrize(("low", "high"), [(0.01, 0.02), (0.3, 0.3), (0.1, 30.0)])
def test_a_search_with_bounds_when_needed_looks_at_no_more(
    work: Counter[str], monkeypatch: pytest.MonkeyPatch, low: float, high: float
) -> None:
    # small tables are searched as large ones are
    for name, value in {
        "ALL_PAIRS": 0,
        "CELLS_PER_ROOT": 1.0,
        "FIRST_CELLS": 2,
        "BLOCK_BYTES": 5000,
        "CACHED_BYTES": 3000,
        "PART_ROWS": 5,
    }.items():
        monkeypatch.setattr(cells, name, value)
    problem, losses = people(150, 10, 8)
    searched = search.ColumnSearch(problem)
    assert searched.cells is not None
    assert searched.cells.near is not None
    searched.load(losses, 5)
    work.clear()
    results = sums_of(searched.envelopes(low, high))
    results["calls"] = dict(sorted(work.items()))
    work.clear()
    searched.envelopes(low * 1.1, high * 1.2)
    results["calls again"] = dict(sorted(work.items()))
    check_written(__file__, f"bounds when needed, {low} to {high}", results)


@pytest.mark.parametrize("neighbours", [None, 7])
def test_a_sequence_of_plans_looks_at_no_more(work: Counter[str], neighbours: int | None) -> None:
    problem, losses = people(70, 3, 2)
    solver = DualSolver(problem, seed=3, neighbours=neighbours)
    rng = np.random.default_rng(4)
    steps = []
    for _ in range(4):
        work.clear()
        plan = solver.solve(losses)
        steps.append(
            {
                "calls": dict(sorted(work.items())),
                "value": plan.value,
                "multiplier": plan.multiplier,
                "spent": plan.spent,
                "bound": plan.bound,
                "proven": plan.proven,
            }
        )
        losses = losses + 0.02 * rng.normal(size=losses.shape)
    check_written(__file__, f"plans, neighbours: {neighbours}", steps)


def test_cells_are_those_written_down() -> None:
    problem, _ = people(300, 5, 6)
    built = search.ColumnSearch(problem).cells
    assert built is not None
    sizes = np.diff(built.start)
    check_written(
        __file__,
        "cells",
        {"sizes": sizes, "unit": built.unit, "bounds": float(built.bounds.mean())},
    )


def test_the_hash_of_ties_is_the_documented_one() -> None:
    mask = 2**64 - 1

    def documented(key: int, query: int, row: int) -> int:
        value = (key + query * 0x9E3779B97F4A7C15) & mask
        for _ in range(2):
            value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 & mask
            value = (value ^ (value >> 27)) * 0x94D049BB133111EB & mask
            value = ((value ^ (value >> 31)) + row) & mask
        return value

    queries = np.array([0, 1, 2, 12_345_678_901])
    for key, row in ((0, 0), (7, 3), (2**64 - 5, 99_999)):
        hashes = compiled.tie_hashes(np.uint64(key), queries, row)
        assert [int(value) for value in hashes] == [
            documented(key, int(query), row) for query in queries
        ]


def test_every_argument_of_the_solver_can_be_named() -> None:
    assert [place for module in modules_below(transport) for place in positional_only(module)] == []
