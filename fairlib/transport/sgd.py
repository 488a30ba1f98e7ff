"""The stochastic solvers of the paper, for comparison: one multiplier from mini-batches of columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenhand.fairlib.randomness import derive_seed, generator
from evenhand.fairlib.transport.dual import Allocation, plan_of
from evenhand.fairlib.transport.problem import TransportPlan, TransportProblem
from evenhand.fairlib.transport.search import ColumnSearch

__all__ = ["Descent", "DualSGDSolver"]

Float = NDArray[np.float64]


class Descent:
    """
    Projected gradient descent with momentum on one number that may not be negative.

    Parameters
    ----------
    start, learning_rate, momentum : float
    iterations, batch : int
        Steps of one call, and columns drawn for each.

    Raises
    ------
    ValueError
        A parameter outside its range.
    """

    def __init__(
        self, start: float, learning_rate: float, momentum: float, iterations: int, batch: int
    ) -> None:
        if not (np.isfinite(start) and start >= 0):
            raise ValueError(f"start must be finite and at least 0, got {start!r}.")
        if not (np.isfinite(learning_rate) and learning_rate > 0 and 0 <= momentum < 1):
            raise ValueError("learning_rate must be positive and finite, and momentum in [0, 1).")
        if iterations < 1 or batch < 1:
            raise ValueError("iterations and batch must be at least 1.")
        self.start = start
        self.learning_rate = learning_rate
        self.momentum = momentum
        self.iterations = iterations
        self.batch = batch

    def run(self, problem: TransportProblem, rng: np.random.Generator, spent_at: Any) -> float:
        """Descend from the start; ``spent_at(multiplier, columns)`` is the mean cost of some columns."""
        value, velocity = self.start, 0.0
        for _ in range(self.iterations):
            columns = rng.integers(0, problem.n, self.batch)
            slope = problem.budget - spent_at(value, columns)
            velocity = self.momentum * velocity - self.learning_rate * slope
            value = max(0.0, value + velocity)
        return value


class DualSGDSolver:
    r"""
    Algorithm 2 of Vargo et al. 2021: stochastic gradient descent on :math:`\eta`, then one map.

    Nothing makes it meet the budget: compare ``spent`` with the problem's.

    Parameters
    ----------
    problem : TransportProblem
    seed : int
    jobs : int
    start, learning_rate, momentum, iterations, batch
        As the paper prints them for Adult. The multiplier starts there at every call.
    """

    def __init__(
        self,
        problem: TransportProblem,
        *,
        seed: int = 0,
        jobs: int = 1,
        start: float = 0.1,
        learning_rate: float = 1e-4,
        momentum: float = 0.9,
        iterations: int = 100,
        batch: int = 200,
    ) -> None:
        self.problem = problem
        self.seed = seed
        self.descent = Descent(start, learning_rate, momentum, iterations, batch)
        self.search = ColumnSearch(problem, jobs)
        self._calls = 0

    def solve(self, losses: ArrayLike) -> TransportPlan:
        """As :meth:`evenhand.fairlib.transport.dual.DualSolver.solve`, approximately."""
        table = self.problem.check_losses(losses)
        self._calls += 1
        self.search.load(table, derive_seed(self.seed, "ties", str(self._calls)))

        def spent_at(eta: float, columns: NDArray[np.int64]) -> float:
            queries, counts = np.unique(self.problem.query_of[columns], return_counts=True)
            return float(counts @ self.search.envelopes(eta, eta, queries).cost) / len(columns)

        rng = generator(self.seed, "batches", str(self._calls))
        eta = self.descent.run(self.problem, rng, spent_at)
        vertices = self.search.envelopes(eta, eta)
        self.search.warm = vertices.place
        return plan_of(self.search, vertices, Allocation(eta, np.zeros(len(vertices.place), dtype=np.int64)))

    def state(self) -> dict[str, Any]:
        """What the next call builds on."""
        return {"calls": self._calls, "warm": self.search.warm.astype(np.int32)}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a :meth:`state` of the same problem."""
        self._calls = int(state["calls"])
        self.search.warm = np.asarray(state["warm"], dtype=np.int64)
