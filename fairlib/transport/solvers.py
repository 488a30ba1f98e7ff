"""The solvers by name, and their base. A solver's module is imported when it is made."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenhand.fairlib.randomness import generator
from evenhand.fairlib.transport.problem import TransportPlan, TransportProblem

__all__ = ["SOLVERS", "SGDSolver", "Solver", "SolverName", "make_solver"]

Float = NDArray[np.float64]
Int = NDArray[np.int64]

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
        Threads, at least 1; the result does not depend on their number.
    """

    # attributes that the next call builds on
    kept: ClassVar[tuple[str, ...]] = ()

    problem: TransportProblem
    seed: int = field(default=0, kw_only=True)
    jobs: int = field(default=1, kw_only=True)

    def __post_init__(self) -> None:
        if self.jobs < 1:
            raise ValueError(f"jobs must be at least 1, got {self.jobs!r}.")

    def solve(self, losses: ArrayLike) -> TransportPlan:
        """
        Solve for the losses (nats) of every row under every label, shape (classes, n).

        Raises
        ------
        ValueError
            Losses of another shape or not finite.
        FloatingPointError
            No optimum was found.
        """
        return self._solve(self.problem.check_losses(losses))

    @abstractmethod
    def _solve(self, losses: Float) -> TransportPlan:
        """Solve for checked losses."""

    def state(self, prefix: str = "") -> dict[str, Any]:
        """Plain arrays, each name with a prefix, from which a later process continues identically."""
        return {f"{prefix}{name}": np.asarray(getattr(self, name)) for name in self.kept}

    def restore(self, state: Mapping[str, Any], prefix: str = "") -> None:
        """Continue from a :meth:`state` of the same problem."""
        for name in self.kept:
            value = np.asarray(state[f"{prefix}{name}"])
            setattr(self, name, value if value.ndim else value.item())


@dataclass(eq=False, kw_only=True)
class SGDSolver(Solver):
    r"""
    Base: projected gradient descent with momentum on the multiplier :math:`\eta \ge 0`, then one plan.

    A plan may cost more than the budget: compare ``spent`` with the problem's.

    Parameters
    ----------
    start : float
        Multiplier at the beginning of every call.
    learning_rate, momentum : float
    iterations, batch : int
        Steps of one call, and columns drawn for each. The defaults are those that Vargo et al. 2021 print for
        Algorithm 2 on Adult; they print none for Algorithm 6.
    """

    kept: ClassVar[tuple[str, ...]] = ("calls",)
    # a subclass takes losses, gives the mean cost of some queries' moves at a multiplier, and the plan there
    _load: ClassVar[Callable[[Any, Float], None]]
    _costs: ClassVar[Callable[[Any, float, Int], Float]]
    _plan: ClassVar[Callable[[Any, float], TransportPlan]]

    start: float = 0.1
    learning_rate: float = 1e-4
    momentum: float = 0.9
    iterations: int = 100
    batch: int = 200

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (np.isfinite(self.start) and self.start >= 0):
            raise ValueError(f"start must be finite and at least 0, got {self.start!r}.")
        if not (np.isfinite(self.learning_rate) and self.learning_rate > 0 and 0 <= self.momentum < 1):
            raise ValueError(
                "learning_rate must be positive and finite, and momentum in [0, 1), "
                f"got {self.learning_rate!r} and {self.momentum!r}."
            )
        if self.iterations < 1 or self.batch < 1:
            raise ValueError(
                f"iterations and batch must be at least 1, got {self.iterations!r} and {self.batch!r}."
            )
        self.calls = 0

    def _solve(self, losses: Float) -> TransportPlan:
        problem = self.problem
        self.calls += 1
        self._load(losses)
        rng = generator(self.seed, "batches", str(self.calls))
        eta, velocity = self.start, 0.0
        for _ in range(self.iterations):
            columns = problem.query_of[rng.integers(0, problem.n, self.batch)]
            queries, counts = np.unique(columns, return_counts=True)
            # slope of the dual, (B.15), on the mini-batch
            slope = problem.budget - float(counts @ self._costs(eta, queries)) / self.batch
            velocity = self.momentum * velocity - self.learning_rate * slope
            eta = max(0.0, eta + velocity)
        return self._plan(eta)


def make_solver(
    name: str, problem: TransportProblem, *, seed: int = 0, jobs: int = 1, **options: Any
) -> Solver:
    """
    Build a solver of a problem.

    Parameters
    ----------
    name : str
        ``dual`` (exact, any size), ``lp`` (HiGHS, small problems), or of Vargo et al. 2021 ``dual-sgd``
        (Algorithm 2), ``entropic`` (Algorithms 4 and 5) or ``entropic-sgd`` (Algorithm 6).
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
    if name.startswith("dual"):
        from evenhand.fairlib.transport.dual import DualSGDSolver, DualSolver

        return DualSolver if name == "dual" else DualSGDSolver
    from evenhand.fairlib.transport.entropic import EntropicSGDSolver, EntropicSolver

    return EntropicSolver if name == "entropic" else EntropicSGDSolver
