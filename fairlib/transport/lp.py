"""The linear program as it is written, for a general solver: the reference of small problems."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from evenhand.fairlib.numerics import pairwise_squared_distances
from evenhand.fairlib.transport.problem import TransportPlan, TransportProblem

__all__ = ["LPSolver"]

MAX_ROWS = 500


class LPSolver:
    """
    Equation 2.8 of Vargo et al. 2021 in all its n² variables, by HiGHS through cvxpy.

    Parameters
    ----------
    problem : TransportProblem
        At most 500 rows.
    seed, jobs
        Unused.

    Raises
    ------
    ValueError
        More rows.
    """

    def __init__(self, problem: TransportProblem, *, seed: int = 0, jobs: int = 1) -> None:
        if problem.n > MAX_ROWS:
            raise ValueError(
                f"solver 'lp' takes at most {MAX_ROWS} rows, got {problem.n}: use 'dual', which is as exact."
            )
        self.problem = problem

    def solve(self, losses: ArrayLike) -> TransportPlan:
        """As :meth:`fairlib.transport.dual.DualSolver.solve`; FloatingPointError without an optimum."""
        import cvxpy

        problem = self.problem
        table = problem.check_losses(losses)
        n = problem.n
        if problem.costs is not None:
            costs = problem.costs
        else:
            assert problem.places is not None
            points = problem.places[problem.place_of]
            costs = pairwise_squared_distances(points, points)
        gains = table[problem.labels].T
        # in units of 1/n: each column's masses sum to 1
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
        eta = float(np.maximum(budget.dual_value, 0.0))
        best = (gains - eta * costs).max(axis=0)
        return TransportPlan(
            support=np.stack([plan @ (problem.labels == k) for k in range(len(table))]) / n,
            target=plan.argmax(axis=0),
            multiplier=eta,
            spent=float((costs * plan).sum()) / n,
            value=float((gains * plan).sum()) / n,
            bound=problem.budget * eta + float(best.mean()),
        )

    def state(self) -> dict[str, Any]:
        """Nothing: no call builds on another."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Nothing to go on from."""
