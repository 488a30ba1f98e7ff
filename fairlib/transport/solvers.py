"""The solvers by name, and their base. A solver's module is imported when it is made."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenhand.fairlib.transport.problem import TransportPlan, TransportProblem

__all__ = ["SOLVERS", "Solver", "SolverName", "make_solver"]

SolverName = Literal["dual", "dual-sgd", "entropic", "entropic-sgd", "lp"]
SOLVERS: tuple[str, ...] = get_args(SolverName)


@dataclass(eq=False)
class Solver(ABC):
    """
    Finds worst-case distributions of one problem, for one table of losses after another.

    A solver may use the results of its earlier calls to be fast; these are its state.

    Parameters
    ----------
    problem : TransportProblem
    seed : int
        Decides between equal optima, and draws mini-batches.
    jobs : int
        Threads; the result does not depend on their number.

    Raises
    ------
    ValueError
        A parameter outside its range.
    """

    problem: TransportProblem
    seed: int = field(default=0, kw_only=True)
    jobs: int = field(default=1, kw_only=True)

    def __post_init__(self) -> None:
        if self.jobs < 1:
            raise ValueError(f"jobs must be at least 1, got {self.jobs!r}.")

    def solve(self, losses: ArrayLike) -> TransportPlan:
        """
        Solve for one table of losses.

        Parameters
        ----------
        losses : array-like, shape (classes, n)
            Loss (nats) of every row under every label.

        Raises
        ------
        ValueError
            Losses of another shape or not finite.
        FloatingPointError
            No optimum was found.
        """
        return self._solve(self.problem.check_losses(losses))

    @abstractmethod
    def _solve(self, losses: NDArray[np.float64]) -> TransportPlan:
        """Solve for checked losses."""

    def state(self) -> dict[str, Any]:
        """Numbers and plain arrays from which a later process continues identically."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:  # noqa: B027 - some solvers have no state
        """Continue from a :meth:`state` of the same problem."""


def make_solver(
    name: str, problem: TransportProblem, *, seed: int = 0, jobs: int = 1, **options: Any
) -> Solver:
    """
    Build a solver.

    Parameters
    ----------
    name : str
        ``dual`` (exact, any size), ``lp`` (HiGHS, small problems), or of Vargo et al. 2021 ``dual-sgd``
        (Algorithm 2), ``entropic`` (Algorithms 4 and 5) or ``entropic-sgd`` (Algorithm 6).
    problem : TransportProblem
    seed, jobs : int
    **options
        The solver's own, such as ``neighbours`` of ``dual`` and ``entropy`` of ``entropic``. None means the
        default.

    Raises
    ------
    ValueError
        An unknown solver, or an option of another one.
    """
    if name not in SOLVERS:
        raise ValueError(f"solver must be one of {', '.join(SOLVERS)}, got {name!r}.")
    kind = _solver_class(name)
    given = {key: value for key, value in options.items() if value is not None}
    known = {item.name for item in fields(kind)}
    for key in given:
        if key not in known:
            raise ValueError(f"{key} does not belong to solver {name!r}.")
    return kind(problem, seed=seed, jobs=jobs, **given)


def _solver_class(name: str) -> type[Solver]:
    # imported here: they compile kernels, and a job that names a solver is checked without them
    if name == "lp":
        from evenhand.fairlib.transport.lp import LPSolver

        return LPSolver
    if name == "dual":
        from evenhand.fairlib.transport.dual import DualSolver

        return DualSolver
    if name == "entropic":
        from evenhand.fairlib.transport.entropic import EntropicSolver

        return EntropicSolver
    from evenhand.fairlib.transport.sgd import DualSGDSolver, EntropicSGDSolver

    return DualSGDSolver if name == "dual-sgd" else EntropicSGDSolver
