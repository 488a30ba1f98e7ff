"""The stochastic solvers of the paper, for comparison: the multiplier from mini-batches of columns."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.fairlib.randomness import derive_seed, generator
from evenhand.fairlib.transport.dual import Allocation, plan_of
from evenhand.fairlib.transport.entropic import EntropicPlans
from evenhand.fairlib.transport.problem import TransportPlan
from evenhand.fairlib.transport.search import ColumnSearch
from evenhand.fairlib.transport.solvers import Solver

__all__ = ["DualSGDSolver", "EntropicSGDSolver"]

Float = NDArray[np.float64]
Int = NDArray[np.int64]


@dataclass(eq=False, kw_only=True)
class SGDSolver(Solver):
    r"""
    Base: projected gradient descent with momentum on the multiplier :math:`\eta \ge 0`, then one plan.

    A plan may cost more than the budget: compare ``spent`` with the problem's.

    Parameters
    ----------
    start : float
        The multiplier at the begin of every call.
    learning_rate, momentum : float
    iterations, batch : int
        Steps of one call, and columns drawn for each. The defaults are those that Vargo et al. 2021 print for
        Algorithm 2 on Adult; they print none for Algorithm 6.
    """

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
        self._calls = 0

    def _solve(self, losses: Float) -> TransportPlan:
        problem = self.problem
        self._calls += 1
        self._load(losses)
        rng = generator(self.seed, "batches", str(self._calls))
        eta, velocity = self.start, 0.0
        for _ in range(self.iterations):
            columns = problem.query_of[rng.integers(0, problem.n, self.batch)]
            queries, counts = np.unique(columns, return_counts=True)
            # slope of the dual, (B.15), on the mini-batch
            slope = problem.budget - float(counts @ self._costs(eta, queries)) / self.batch
            velocity = self.momentum * velocity - self.learning_rate * slope
            eta = max(0.0, eta + velocity)
        return self._plan(eta)

    @abstractmethod
    def _load(self, losses: Float) -> None:
        """Take the losses of this call."""

    @abstractmethod
    def _costs(self, eta: float, queries: Int) -> Float:
        """Mean cost of some queries' moves at a multiplier."""

    @abstractmethod
    def _plan(self, eta: float) -> TransportPlan:
        """The plan at a multiplier."""

    def state(self) -> dict[str, Any]:
        """As :meth:`Solver.state`."""
        return {"calls": self._calls}

    def restore(self, state: dict[str, Any]) -> None:
        """As :meth:`Solver.restore`."""
        self._calls = int(state["calls"])


@dataclass(eq=False, kw_only=True)
class DualSGDSolver(SGDSolver):
    """Algorithm 2 of Vargo et al. 2021: every column moves whole to its maximiser at the multiplier."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.search = ColumnSearch(self.problem, self.jobs)

    def _load(self, losses: Float) -> None:
        self.search.load(losses, derive_seed(self.seed, "ties", str(self._calls)))

    def _costs(self, eta: float, queries: Int) -> Float:
        return self.search.envelopes(eta, eta, queries).cost

    def _plan(self, eta: float) -> TransportPlan:
        envelopes = self.search.envelopes(eta, eta)
        self.search.warm = envelopes.place
        return plan_of(
            self.search, envelopes, Allocation(eta, np.zeros(len(envelopes.place), dtype=np.int64))
        )

    def state(self) -> dict[str, Any]:
        """As :meth:`Solver.state`."""
        return {**super().state(), "warm": self.search.warm.astype(np.int32)}

    def restore(self, state: dict[str, Any]) -> None:
        """As :meth:`Solver.restore`."""
        super().restore(state)
        self.search.warm = np.asarray(state["warm"], dtype=np.int64)


@dataclass(eq=False, kw_only=True)
class EntropicSGDSolver(SGDSolver):
    """
    Algorithm 6 of Vargo et al. 2021: the multiplier of the entropic problem.

    Parameters
    ----------
    entropy : float or None
        As in :class:`evenhand.fairlib.transport.entropic.EntropicSolver`.
    """

    entropy: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._plans = EntropicPlans(self.problem, self.jobs, self.entropy)

    def _load(self, losses: Float) -> None:
        self._plans.load(losses)

    def _costs(self, eta: float, queries: Int) -> Float:
        return self._plans.moments(eta, queries)[0]

    def _plan(self, eta: float) -> TransportPlan:
        return self._plans.plan(eta, passes=1)
