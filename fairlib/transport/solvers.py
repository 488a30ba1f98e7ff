"""The solvers by name."""

from __future__ import annotations

import inspect
from typing import Any, Literal, Protocol

from numpy.typing import ArrayLike

from evenhand.fairlib.transport.dual import DualSolver
from evenhand.fairlib.transport.entropic import EntropicSGDSolver, EntropicSolver
from evenhand.fairlib.transport.lp import LPSolver
from evenhand.fairlib.transport.problem import TransportPlan, TransportProblem
from evenhand.fairlib.transport.sgd import DualSGDSolver

__all__ = ["SOLVERS", "Solver", "SolverName", "make_solver"]


class Solver(Protocol):
    """
    Finds worst-case distributions of one problem, for one table of losses after another.

    A solver may build on its earlier calls to be fast; what it builds on is its state.
    """

    def solve(self, losses: ArrayLike) -> TransportPlan:
        """Solve for losses of shape (classes, n)."""

    def state(self) -> dict[str, Any]:
        """Numbers and plain arrays that a later process can go on from."""

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from such a state."""


SolverName = Literal["dual", "dual-sgd", "entropic", "entropic-sgd", "lp"]

SOLVERS: dict[str, type[Any]] = {
    "dual": DualSolver,
    "dual-sgd": DualSGDSolver,
    "entropic": EntropicSolver,
    "entropic-sgd": EntropicSGDSolver,
    "lp": LPSolver,
}


def make_solver(
    name: str, problem: TransportProblem, *, seed: int = 0, jobs: int = 1, **options: Any
) -> Solver:
    """
    Build a solver.

    Parameters
    ----------
    name : str
        ``dual`` (exact, any size), ``dual-sgd`` (Algorithm 2), ``entropic`` (Algorithms 4 and 5),
        ``entropic-sgd`` (Algorithm 6) or ``lp`` (HiGHS, small problems).
    problem : TransportProblem
    seed, jobs : int
    **options
        Of that solver, such as ``neighbours`` of ``dual`` and ``entropy`` of ``entropic``; None is as good as
        not given.

    Raises
    ------
    ValueError
        No such solver, or an option that it does not take.
    """
    if name not in SOLVERS:
        raise ValueError(f"solver must be one of {', '.join(SOLVERS)}, got {name!r}.")
    given = {key: value for key, value in options.items() if value is not None}
    known = set(inspect.signature(SOLVERS[name]).parameters)
    for key in given:
        if key not in known:
            raise ValueError(f"{key} does not belong to solver {name!r}.")
    solver: Solver = SOLVERS[name](problem, seed=seed, jobs=jobs, **given)
    return solver
