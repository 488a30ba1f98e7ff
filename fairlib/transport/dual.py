"""Exact dual solver: one multiplier, found by shrinking a bracket on the subgradient, then the map."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairlib.transport._columns import count_candidates, fill_candidates, search_all, search_candidates
from fairlib.transport.problem import TransportPlan, TransportProblem

__all__ = ["solve_dual"]

Float = NDArray[np.float64]
Int = NDArray[np.int64]
# Values this close count as ties, relative to the largest loss: a little above the rounding of l - eta * c.
TIE = 1e-12
MAX_EVALUATIONS = 200
# Keep candidate lists only if they are this short on average; longer ones save nothing over a full pass.
MEAN_CANDIDATES = 512
# A multiplier to start from is widened by these factors in turn, then given up for the bounds of the problem.
NEARBY = (1.5, 4.0, 64.0)


@dataclass(frozen=True)
class _Point:
    """The dual objective at one multiplier: M(eta) = budget * eta + mean_j best_j, with a subgradient."""

    eta: float
    value: float
    slope: float
    target: Int
    spent: Float

    def line(self, eta: float) -> float:
        return self.value + self.slope * (eta - self.eta)


@dataclass(frozen=True)
class _Candidates:
    """Rows that can win somewhere in a bracket: ``rows[start[j]:start[j + 1]]`` for column j."""

    start: Int
    rows: Int
    costs: Float


class _Dual:
    """Evaluates the dual objective of one problem at fixed losses."""

    def __init__(self, problem: TransportProblem, losses: Float, jobs: int) -> None:
        self.problem = problem
        self.losses = losses
        self.jobs = jobs
        self.tie = TIE * max(1.0, float(np.abs(losses).max()))
        self.best = np.empty(problem.n)
        self.target = np.empty(problem.n, dtype=np.int64)
        self.spent = np.empty(problem.n)
        self.candidates: _Candidates | None = None
        self.evaluations = 0

    def at(self, eta: float, *, key: int = 0, random: bool = False) -> _Point:
        """One pass over all columns: over the candidates once there are some."""
        if self.candidates is None:
            self._over_columns(
                lambda costs, part: search_all(
                    costs,
                    self.losses,
                    self.problem.labels[part],
                    part.start,
                    eta,
                    self.tie,
                    np.uint64(key),
                    random,
                    self.best[part],
                    self.target[part],
                    self.spent[part],
                )
            )
        else:
            kept = self.candidates
            search_candidates(
                kept.start,
                kept.rows,
                kept.costs,
                self.losses,
                self.problem.labels,
                eta,
                self.tie,
                np.uint64(key),
                random,
                self.best,
                self.target,
                self.spent,
            )
        self.evaluations += 1
        value = self.problem.budget * eta + float(self.best.mean())
        slope = self.problem.budget - float(self.spent.mean())
        return _Point(eta, value, slope, self.target.copy(), self.spent.copy())

    def _over_columns(self, work: Callable[[Float, slice], None]) -> None:
        """Call ``work(costs, columns)`` for all columns, in threads if there are several jobs."""
        for block in self.problem.blocks():
            costs = self.problem.costs(block)
            edges = np.linspace(block.start, block.stop, self.jobs + 1).astype(int)
            parts = [slice(int(a), int(b)) for a, b in zip(edges[:-1], edges[1:], strict=True) if b > a]

            def one(part: slice, costs: Float = costs, start: int = block.start) -> None:
                work(costs[part.start - start : part.stop - start], part)

            if len(parts) == 1:
                one(parts[0])
            else:
                with ThreadPoolExecutor(len(parts)) as pool:
                    list(pool.map(one, parts))

    def _floor(self, winner: _Point, eta: float) -> Float:
        """What the rows that win at one multiplier are worth at another, per column."""
        return self.losses[self.problem.labels, winner.target] - eta * winner.spent - self.tie

    def restrict(self, low: _Point, high: _Point) -> None:
        """Keep only the rows that can win for a multiplier in [low, high], unless they are too many."""
        floor_low, floor_high = self._floor(high, low.eta), self._floor(low, high.eta)
        n = self.problem.n
        counts = np.empty(n, dtype=np.int64)

        def count(costs: Float, part: slice) -> None:
            count_candidates(
                costs,
                self.losses,
                self.problem.labels[part],
                low.eta,
                high.eta,
                floor_low[part],
                floor_high[part],
                counts[part],
            )

        self._over_columns(count)
        total = int(counts.sum())
        if total > MEAN_CANDIDATES * n:
            return
        start = np.concatenate([[0], np.cumsum(counts)])
        rows = np.empty(total, dtype=np.int64)
        kept = np.empty(total)

        def fill(costs: Float, part: slice) -> None:
            fill_candidates(
                costs,
                self.losses,
                self.problem.labels[part],
                low.eta,
                high.eta,
                floor_low[part],
                floor_high[part],
                start[part],
                rows,
                kept,
            )

        self._over_columns(fill)
        self.candidates = _Candidates(start, rows, kept)


def solve_dual(
    problem: TransportProblem,
    losses: ArrayLike,
    *,
    seed: int,
    start: float | None = None,
    jobs: int = 1,
) -> TransportPlan:
    r"""
    Maximise the adversarial loss within the budget (Algorithm 7, with the map of Algorithm 2).

    The dual :math:`\min_{\eta \ge 0} M(\eta) = \epsilon \eta + \frac1n \sum_j \max_i R_{ij} - \eta C_{ij}`
    (B.14) is convex and piecewise linear, with :math:`\epsilon - \frac1n \sum_j C_{i_j j}` in its
    subdifferential (B.15). A bracket around the sign change shrinks by bisection and by the crossing of the
    tangents at its ends; where the objective touches that crossing, the kink is the exact optimum. Once the
    bracket is within a factor of four, each column keeps only the rows that can still win inside it, which
    makes the remaining passes nearly free.

    Parameters
    ----------
    problem : TransportProblem
    losses : array-like, shape (classes, n)
        Loss (nats) of every row under every label.
    seed : int
        Ties in a column's maximum are broken at random by a hash of (seed, column, row).
    start : float or None
        Multiplier to bracket first, such as the last step's.
    jobs : int
        Threads over the columns; the result does not depend on it.

    Returns
    -------
    TransportPlan

    Raises
    ------
    ValueError
        `jobs` below 1, a negative or non-finite `start`, or losses of the wrong shape or not finite.

    Notes
    -----
    With a slack budget (:math:`\eta^* = 0`) each column takes its cheapest maximiser. Otherwise whole columns
    move, so that the spent budget differs from :math:`\epsilon` by the columns that tie at :math:`\eta^*`, as
    in the paper's appendix B.3.
    """
    if jobs < 1:
        raise ValueError(f"jobs must be at least 1, got {jobs!r}.")
    if start is not None and not (np.isfinite(start) and start >= 0):
        raise ValueError(f"start must be finite and at least 0, got {start!r}.")
    dual = _Dual(problem, problem.losses_of(losses), jobs)
    low, high = _bracket(dual, start)
    if low.slope >= 0:
        return _plan(dual, low, low.value)
    optimum = _minimise(dual, low, high)
    return _plan(dual, dual.at(optimum.eta, key=seed, random=True), optimum.value)


def _bracket(dual: _Dual, start: float | None) -> tuple[_Point, _Point]:
    """Points with slopes < 0 and >= 0 around the optimum; both slopes are >= 0 if the optimum is 0."""
    low: _Point | None = None
    high: _Point | None = None
    if start:
        near = dual.at(start)
        rising = near.slope >= 0
        for factor in NEARBY:
            other = dual.at(near.eta / factor if rising else near.eta * factor)
            if (other.slope >= 0) != rising:
                return (other, near) if rising else (near, other)
            near = other
        low, high = (None, near) if rising else (near, None)
    if low is None:
        low = dual.at(0.0)
        if low.slope >= 0:
            return low, low
    budget = dual.problem.budget
    own = float(dual.losses[dual.problem.labels, np.arange(dual.problem.n)].mean())
    # M(eta) >= budget * eta + own loss, and M(eta*) <= M(low), bound the optimum from above
    ceiling = (low.value - own) / budget if budget > 0 else np.inf
    if high is None or 2.0 * low.eta < ceiling < high.eta:
        high = dual.at(max(ceiling if 0.0 < ceiling < np.inf else 1.0, 2.0 * low.eta))
    while high.slope < 0 and np.isfinite(2.0 * high.eta):
        low, high = high, dual.at(2.0 * high.eta)
    return low, high


def _minimise(dual: _Dual, low: _Point, high: _Point) -> _Point:
    """Shrink [low, high] to the kink between them."""
    for step in range(MAX_EVALUATIONS):
        if high.slope == 0 or high.eta - low.eta <= 4e-16 * high.eta:
            return high
        if dual.candidates is None and high.eta <= 4.0 * low.eta:
            dual.restrict(low, high)
        crossing = (high.value - low.value + low.slope * low.eta - high.slope * high.eta) / (
            low.slope - high.slope
        )
        # tangents home in fast near the end, halving guards against a long flat stretch before it; a very
        # wide bracket needs both, as halving alone takes one pass for each factor of two
        halve = step % 3 == 2 or (high.eta > 4.0 * low.eta and step % 2 == 1)
        trial = 0.5 * (low.eta + high.eta) if halve else crossing
        if not low.eta < trial < high.eta:
            return high
        point = dual.at(trial)
        if not halve and point.value <= low.line(trial) + 1e-15 * max(1.0, abs(point.value)):
            return point
        low, high = (point, high) if point.slope < 0 else (low, point)
    return high


def _plan(dual: _Dual, point: _Point, bound: float) -> TransportPlan:
    labels = dual.problem.labels
    return TransportPlan(
        target=point.target,
        labels=labels,
        multiplier=point.eta,
        spent=float(point.spent.mean()),
        value=float(dual.losses[labels, point.target].mean()),
        bound=bound,
        evaluations=dual.evaluations,
    )
