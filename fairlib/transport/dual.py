"""The exact solver: one multiplier, found as the price at which the budget is spent to the last unit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenhand.fairlib.randomness import derive_seed, generator
from evenhand.fairlib.transport.problem import TransportPlan, TransportProblem
from evenhand.fairlib.transport.search import ColumnSearch, Envelopes

__all__ = ["DualSolver", "Allocation", "plan_of", "allocate_budget"]

Float = NDArray[np.float64]
Int = NDArray[np.int64]

# Queries that the first multiplier is estimated from.
SAMPLE = 256
# A bracket that misses is moved on by this factor, and by its square the next time.
WIDEN = 4.0
FIRST_WIDTH = 2.0
LEAST_WIDTH = 1.02
MOST_MISSES = 400
OVERLAP = 1e-9


@dataclass(frozen=True)
class Allocation:
    """
    How a budget is spent on envelopes: query q ends at vertex ``chosen[q]``.

    The query `divided` stands `share` of one column further: `whole` of its columns and `share` of another
    are at the next vertex.
    """

    multiplier: float
    chosen: Int
    divided: int = -1
    whole: int = 0
    share: float = 0.0


class DualSolver:
    r"""
    Maximise the adversarial loss within the budget, exactly.

    The dual :math:`\min_{\eta \ge 0} \epsilon \eta + \frac1n \sum_j \max_i R_{ij} - \eta C_{ij}` (B.14 of
    Vargo et al. 2021) is a sum of upper envelopes of lines. Column j's envelope, walked from
    :math:`\eta = \infty` down, is a list of moves, each with its cost and the loss it gains per unit of cost;
    the optimum takes all columns' moves in order of that ratio until the budget is spent (the continuous
    multiple-choice knapsack problem), and :math:`\eta^*` is the ratio of the last one. That one is divided,
    so that the budget is met to rounding and every weight is at least 0. With a slack budget
    (:math:`\eta^* = 0`) every column is at its cheapest maximiser.

    Only the part of the envelopes near :math:`\eta^*` is needed: a bracket is predicted from the multipliers
    of the last calls, searched once, and moved if the optimum is not inside.

    Parameters
    ----------
    problem : TransportProblem
    seed : int
        Decides which of the columns that tie at the multiplier move, and between equal rows.
    jobs : int
        Threads; the result does not depend on them.
    neighbours : int or None
        Restrict every column to that many nearest places: exact among them, with the share of columns in
        ``proven`` that no other row could serve better.
    """

    def __init__(
        self, problem: TransportProblem, *, seed: int = 0, jobs: int = 1, neighbours: int | None = None
    ) -> None:
        self.problem = problem
        self.seed = seed
        self.search = ColumnSearch(problem, jobs, neighbours)
        self._calls = 0
        self._multipliers: list[float] = []
        self._width = FIRST_WIDTH

    def solve(self, losses: ArrayLike) -> TransportPlan:
        """
        Solve for one table of losses.

        Parameters
        ----------
        losses : array-like, shape (classes, n)
            Loss (nats) of every row under every label.

        Returns
        -------
        TransportPlan

        Raises
        ------
        ValueError
            Losses of the wrong shape or not finite.
        """
        table = self.problem.check_losses(losses)
        self._calls += 1
        self.search.load(table, derive_seed(self.seed, "ties", str(self._calls)))
        vertices, spending = self._spend(generator(self.seed, "order", str(self._calls)))
        self._multipliers = [*self._multipliers[-1:], spending.multiplier]
        self.search.warm = vertices.place[vertices.start[:-1] + spending.chosen]
        return plan_of(self.search, vertices, spending)

    def state(self) -> dict[str, Any]:
        """What the next call builds on, as plain arrays: with it, a later process goes on identically."""
        return {
            "calls": self._calls,
            "multipliers": np.array(self._multipliers),
            "width": self._width,
            "warm": self.search.warm.astype(np.int32),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a :meth:`state` of the same problem."""
        self._calls = int(state["calls"])
        self._multipliers = [float(value) for value in state["multipliers"]]
        self._width = float(state["width"])
        self.search.warm = np.asarray(state["warm"], dtype=np.int64)

    def _spend(self, rng: np.random.Generator) -> tuple[Envelopes, Allocation]:
        """Move the bracket until the optimum lies in it."""
        predicted = self._predict()
        if predicted is None:
            predicted = self._estimate()
        if predicted > 0:
            low, high = predicted / self._width, predicted * self._width
        else:
            low, high = 0.0, max(1e-6, float(np.ptp(self.search.losses)))
        factor = WIDEN
        for _ in range(MOST_MISSES):
            vertices = self.search.envelopes(low, high)
            outcome = allocate_budget(self.problem, vertices, rng)
            if isinstance(outcome, Allocation):
                self._learn(predicted, outcome.multiplier)
                return vertices, outcome
            # brackets overlap: the optimum may be the very end of one
            if outcome == "over":
                low, high = high * (1.0 - OVERLAP), high * factor
            elif low == 0.0:
                self._learn(predicted, 0.0)
                return vertices, Allocation(0.0, np.diff(vertices.start) - 1)
            else:
                low, high = (low / factor if factor < 1e6 else 0.0), low * (1.0 + OVERLAP)
            factor = min(factor * factor, 1e12)
        raise FloatingPointError("no multiplier spends the budget: the costs are too unequal to tell.")

    def _predict(self) -> float | None:
        """The multiplier drifts steadily from step to step: go on as before."""
        if not self._multipliers:
            return None
        now = self._multipliers[-1]
        before = self._multipliers[0]
        if now <= 0 or before <= 0:
            return now
        return now * min(max(now / before, 0.5), 2.0)

    def _estimate(self) -> float:
        """Multiplier of a sample of the queries, over all multipliers."""
        queries = len(self.problem.query_size)
        if queries <= SAMPLE:
            return 0.0
        sample = np.sort(generator(self.seed, "sample").choice(queries, SAMPLE, replace=False))
        high = max(1e-6, float(np.ptp(self.search.losses)))
        rng = generator(self.seed, "estimate")
        for _ in range(MOST_MISSES):
            outcome = allocate_budget(self.problem, self.search.envelopes(0.0, high, sample), rng, sample)
            if isinstance(outcome, Allocation):
                return outcome.multiplier
            if outcome == "under":
                return 0.0
            high *= WIDEN * WIDEN
        return high

    def _learn(self, predicted: float, found: float) -> None:
        """Keep the bracket a few times as wide as the predictions were off."""
        if predicted > 0 and found > 0:
            error = max(predicted / found, found / predicted)
            self._width = float(np.clip(0.5 * (self._width + error**3), LEAST_WIDTH, FIRST_WIDTH))
        else:
            self._width = FIRST_WIDTH


def allocate_budget(
    problem: TransportProblem,
    vertices: Envelopes,
    rng: np.random.Generator,
    queries: Int | None = None,
) -> Allocation | str:
    """
    Spend the budget on the moves of some envelopes, best ratio first.

    Parameters
    ----------
    queries : ndarray of int or None
        Which queries the envelopes belong to; the budget is in proportion to their columns. None: all.

    Returns
    -------
    Allocation or str
        ``"over"`` if even the cheapest vertices cost more than there is, ``"under"`` if the dearest do not
        cost more.
    """
    weights = problem.query_size[slice(None) if queries is None else queries].astype(np.float64)
    total = problem.budget * weights.sum()
    start = vertices.start
    base = float(weights @ vertices.cost[start[:-1]])
    if base > total * (1 + 1e-14):
        return "over"
    dearest = float(weights @ vertices.cost[start[1:] - 1])
    if dearest <= total * (1 + 1e-14):
        return "under"
    move = np.ones(len(vertices.cost), dtype=bool)
    move[start[:-1]] = False
    at = np.flatnonzero(move)
    query = np.repeat(np.arange(len(start) - 1), np.diff(start))[at]
    cost = vertices.cost[at] - vertices.cost[at - 1]
    ratio = enforce_concavity((vertices.loss[at] - vertices.loss[at - 1]) / cost, query)
    # whose moves of one ratio are made is a draw; nobody's second move comes before the first
    order = np.lexsort((rng.permutation(len(start) - 1)[query], -ratio))
    spent = base + np.cumsum((weights[query] * cost)[order])
    last = min(int(np.searchsorted(spent, total)), len(at) - 1)
    chosen = np.bincount(query[order[:last]], minlength=len(start) - 1)
    move_at = order[last]
    columns = (total - (spent[last - 1] if last else base)) / cost[move_at]
    columns = min(max(columns, 0.0), float(weights[query[move_at]]))
    whole = int(columns)
    return Allocation(float(ratio[move_at]), chosen, int(query[move_at]), whole, float(columns) - whole)


def enforce_concavity(ratio: Float, query: Int) -> Float:
    """
    Ratios of each query's moves, at least 0 and never above the one before.

    Only rounding makes an envelope bend up, or down at its end.
    """
    same = query[1:] == query[:-1]
    ratio = np.maximum(ratio, 0.0)
    while (bad := same & (ratio[1:] > ratio[:-1])).any():
        ratio[1:][bad] = ratio[:-1][bad]
    return ratio


def plan_of(search: ColumnSearch, vertices: Envelopes, spending: Allocation) -> TransportPlan:
    """Write a spending down column by column."""
    problem = search.problem
    n = problem.n
    classes = len(search.losses)
    at = vertices.start[:-1] + spending.chosen
    columns = np.arange(n)
    vertex = at[problem.query_of]
    split: tuple[int, int, float] | None = None
    if spending.divided >= 0:
        mine = np.flatnonzero(problem.query_of == spending.divided)
        # which of a query's columns go further is a draw as well: they differ in nothing else
        mine = mine[np.argsort(search.draws(mine), kind="stable")]
        vertex[mine[: spending.whole]] += 1
        if spending.share > 0 and spending.whole < len(mine):
            split = (int(mine[spending.whole]), -1, spending.share)
    target = search.members(vertices.place[vertex], problem.labels, columns)
    cost, loss = vertices.cost[vertex], vertices.loss[vertex]
    spent, value = float(cost.mean()), float(loss.mean())
    support = np.bincount(problem.labels * n + target, minlength=classes * n) / n
    if split is not None:
        column, _, share = split
        further = vertex[column] + 1
        label = problem.labels[column]
        row = int(search.members(vertices.place[[further]], label[None], np.array([n + column]))[0])
        split = (column, row, share)
        support[label * n + target[column]] -= share / n
        support[label * n + row] += share / n
        spent += share * float(vertices.cost[further] - cost[column]) / n
        value += share * float(vertices.loss[further] - loss[column]) / n
    eta = spending.multiplier
    best = vertices.loss[at] - eta * vertices.cost[at]
    ceiling = search.unproven(eta, best)
    size = problem.query_size
    return TransportPlan(
        support=np.maximum(support, 0.0).reshape(classes, n),
        target=target,
        multiplier=eta,
        spent=float(spent),
        value=float(value),
        bound=problem.budget * eta + float(size @ ceiling) / n,
        proven=float(size @ (ceiling <= best)) / n,
        passes=search.passes,
        split=split,
    )
