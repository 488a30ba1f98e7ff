"""The linear program as written, for a general solver: the reference for small problems."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenhand.fairlib.numerics import pairwise_squared_distances
from evenhand.fairlib.transport.problem import Solver, TransportPlan

MAX_ROWS = 500


@dataclass(eq=False)
class LPSolver(Solver):
    """Equation (2.8) of Vargo et al. 2021 in all n² variables, by HiGHS through cvxpy: at most 500 rows."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.problem.n > MAX_ROWS:
            raise ValueError(
                f"solver 'lp' takes at most {MAX_ROWS} rows, got {self.problem.n}: "
                "use 'dual', which is as exact."
            )

    def _solve(self, losses: NDArray[np.float64]) -> TransportPlan:
        import cvxpy

        problem = self.problem
        n = problem.n
        points = problem.places[problem.place_of]
        costs = pairwise_squared_distances(points, points)
        gains = losses[problem.labels].T
        # masses in units of 1/n: every column sums to 1
        moved = cvxpy.Variable((n, n), nonneg=True)
        budget = cvxpy.sum(cvxpy.multiply(costs, moved)) / n <= problem.budget
        program = cvxpy.Problem(
            cvxpy.Maximize(cvxpy.sum(cvxpy.multiply(gains, moved)) / n),
            [budget, cvxpy.sum(moved, axis=0) == 1],
        )
        program.solve(
            solver=cvxpy.HIGHS,
            highs_options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
        )
        if program.status != cvxpy.OPTIMAL or moved.value is None:
            raise FloatingPointError(f"HiGHS ended with status {program.status}.")
        plan = np.maximum(moved.value, 0.0)
        plan /= plan.sum(axis=0)
        # the dual variable of the budget, and the dual value (B.14)
        eta = float(np.maximum(budget.dual_value, 0.0))
        best = (gains - eta * costs).max(axis=0)
        return TransportPlan(
            support=np.stack([plan @ (problem.labels == k) for k in range(len(losses))]) / n,
            target=plan.argmax(axis=0),
            multiplier=eta,
            spent=float((costs * plan).sum()) / n,
            value=float((gains * plan).sum()) / n,
            bound=problem.budget * eta + float(best.mean()),
        )
