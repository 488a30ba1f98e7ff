"""The exact solver: the multiplier at which the whole budget is allocated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from evenhand.fairlib.arrays import Float, Int
from evenhand.fairlib.execution import derive_seed, generator
from evenhand.fairlib.parameters import ParameterChecks
from evenhand.fairlib.transport._transport_kernels import tie_hashes
from evenhand.fairlib.transport.problem import TransportPlan, TransportProblem
from evenhand.fairlib.transport.search import ColumnSearch, Envelopes

# Queries in the sample that gives the first multiplier.
SAMPLE = 256
FIRST_WIDTH = 2.0
LEAST_WIDTH = 1.005
# Where a wide bracket is expensive: queries in the sample of every call, and the width of all
# brackets at first.
MANY = 2048
FOLLOWING = 1.1
MAX_MOVES = 400
OVERLAP = 1e-9
BUDGET_ROUNDING = 1e-14


@dataclass(frozen=True)
class Allocation:
    """Allocation of a budget to envelopes.

    Attributes
    ----------
    multiplier : float
        Ratio of the last move (nats per squared distance).
    chosen : ndarray of int, shape (queries,)
        Vertex of its envelope at which each query ends.
    divided : int
        Query of which some columns are at the next vertex; -1: none.
    columns : float
        Mass of these columns, the last one in part.
    """

    multiplier: float
    chosen: Int
    divided: int = -1
    columns: float = 0.0


@dataclass(eq=False, kw_only=True)
class DualSolver(ParameterChecks):
    r"""Maximises the adversarial loss within the budget, exactly, for one table of losses after
    another.

    The dual :math:`\min_{\eta \ge 0} \epsilon \eta + \frac1n \sum_j \max_i R_{ij} - \eta C_{ij}`
    (B.14 of Vargo et al. 2021) is a sum of upper envelopes of lines. Column j's envelope, followed
    from :math:`\eta = \infty` down, is a list of moves, each with a cost and a gain of loss per
    unit of cost. The optimum makes all columns' moves in the order of that ratio until the budget
    is used up (the continuous multiple-choice knapsack problem); :math:`\eta^*` is the ratio of the
    last one. The last move is divided, so that the budget is met to rounding and every weight is at
    least 0. With a slack budget (:math:`\eta^* = 0`) every column is at its cheapest maximiser.

    Only the part of the envelopes near :math:`\eta^*` is needed: a bracket is predicted from the
    multipliers of the last calls, searched once, and moved if the optimum is outside. The seed
    decides which of the columns that tie at the multiplier move, and between equal rows. The result
    does not depend on `jobs`, the number of threads.

    Parameters
    ----------
    problem : TransportProblem
    seed : int, default 0
        Draws ties, samples and the order of equal moves.
    jobs : int, default 1
        Threads.
    neighbours : int or None, default None
        Restricts every column to this many nearest places: exact among them; ``proven`` is the
        share of columns for which no other row could be better. None: all places.

    Raises
    ------
    ValueError
        If `neighbours` or `jobs` is below 1.

    References
    ----------
    Vargo, Zhang, Yurochkin and Sun, "Individually fair gradient boosting", ICLR 2021.

    Examples
    --------
    >>> problem = TransportProblem([[0.0], [1.0]], labels=[0, 0], budget=0.25)
    >>> losses = [[0.0, 1.0]]  # of both rows under label 0
    >>> plan = DualSolver(problem).solve(losses)
    >>> plan.loss, plan.value, plan.spent  # half of the first row is treated as the second
    (0.5, 0.75, 0.25)
    """

    # attributes that the next call builds on
    kept: ClassVar[tuple[str, ...]] = ("calls", "multipliers", "width")

    problem: TransportProblem = field(kw_only=False)
    seed: int = 0
    jobs: int = 1
    neighbours: int | None = None

    def __post_init__(self) -> None:
        self._check_counts("jobs")
        self.search = ColumnSearch(self.problem, self.jobs, self.neighbours)
        self.widest = FOLLOWING if self.search.least_cost else FIRST_WIDTH
        self.begin()

    def begin(self) -> None:
        """Forget all calls, but not the distances: the next results are those of a new solver."""
        self.calls = 0
        self.multipliers = np.empty(0)
        self.width = self.widest
        self.search.begin()

    def solve(self, losses: ArrayLike) -> TransportPlan:
        """Find the worst-case distribution for a table of losses.

        Parameters
        ----------
        losses : array-like, shape (classes, n)
            Loss of every row under every label (nats).

        Returns
        -------
        TransportPlan

        Raises
        ------
        ValueError
            For losses of another shape or not finite.
        FloatingPointError
            If no optimum was found.
        """
        table = self.problem.check_losses(losses)
        self.calls += 1
        self.search.load(table, derive_seed(self.seed, "ties", str(self.calls)))
        envelopes, allocation = self._allocate(generator(self.seed, "order", str(self.calls)))
        self.multipliers = np.append(self.multipliers[-1:], allocation.multiplier)
        return plan_of(self.search, envelopes, allocation)

    def state(self) -> dict[str, Any]:
        """Give all from which a later process continues identically.

        Returns
        -------
        dict of str to number or ndarray
        """
        return {name: getattr(self, name) for name in self.kept}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a :meth:`state` of the same problem.

        Parameters
        ----------
        state : mapping of str to number or ndarray
            Its numbers may be arrays.
        """
        for name in self.kept:
            value = np.asarray(state[name])
            setattr(self, name, value if value.ndim else value.item())

    def _allocate(self, rng: np.random.Generator) -> tuple[Envelopes, Allocation]:
        """Move the bracket until the optimum is inside."""
        predicted = self._predict()
        if predicted > 0:
            low = predicted / self.width
            high = predicted * self.width
        else:
            low = 0.0
            high = max(1e-6, float(np.ptp(self.search.losses)))
        envelopes, allocation = self._move(low, high, self.width**2, rng)
        self._adapt_width(predicted, allocation.multiplier)
        return envelopes, allocation

    def _move(
        self,
        low: float,
        high: float,
        factor: float,
        rng: np.random.Generator,
        queries: Int | None = None,
    ) -> tuple[Envelopes, Allocation]:
        """Move a bracket until it contains the optimum of all or some queries."""
        for _ in range(MAX_MOVES):
            envelopes = self.search.envelopes(low, high, queries)
            allocation = allocate_budget(self.problem, envelopes, rng, queries)
            if isinstance(allocation, Allocation):
                return envelopes, allocation
            if allocation == "under" and low == 0.0:
                # a slack budget: every query ends at its last vertex
                return envelopes, Allocation(0.0, np.diff(envelopes.start) - 1)
            # brackets overlap: the optimum may be the very end of one
            if allocation == "over":
                low = high * (1.0 - OVERLAP)
                high = high * factor
            else:
                high = low * (1.0 + OVERLAP)
                low = low / factor if factor < 1e6 else 0.0
            growth = factor * factor if queries is None else factor**FOLLOWING
            factor = min(growth, 1e12)
        raise FloatingPointError(
            "no multiplier meets the budget: the costs differ by more than rounding allows."
        )

    def _predict(self) -> float:
        """The next multiplier, by the ratio of the last two; of a sample of the queries at the
        first call.

        If a wide bracket needs distances that are not known, every call tries narrow ones on a
        sample. They begin at the prediction, or where nobody moves by more than the least cost.
        """
        guess = 0.0
        narrow = self.search.least_cost
        if len(self.multipliers):
            before = float(self.multipliers[0])
            guess = float(self.multipliers[-1])
            if guess > 0 and before > 0:
                guess *= min(max(guess / before, 0.5), 2.0)
        queries = len(self.problem.query_size)
        size = MANY if narrow else SAMPLE
        if not narrow and (len(self.multipliers) or queries <= size):
            return guess
        sample = np.sort(
            generator(self.seed, "sample").choice(queries, min(size, queries), replace=False)
        )
        factor = (FOLLOWING if guess else FIRST_WIDTH) ** 2
        high = guess * FOLLOWING or max(1e-6, float(np.ptp(self.search.losses))) / (narrow or 1.0)
        low = high / factor if narrow else 0.0
        rng = generator(self.seed, "estimate")
        _, allocation = self._move(low, high, factor, rng, sample)
        return allocation.multiplier

    def _adapt_width(self, predicted: float, multiplier: float) -> None:
        """Keep the bracket a few times as wide as the errors of the predictions."""
        width = self.widest
        if predicted > 0 and multiplier > 0:
            error = max(predicted / multiplier, multiplier / predicted)
            width = float(np.clip(0.5 * (self.width + error**3), LEAST_WIDTH, self.widest))
        self.width = width


def envelope_moves(envelopes: Envelopes) -> tuple[Int, Float, Float, Float]:
    """The moves from every vertex of an envelope to the next.

    The ratios of a query are at least 0 and never above the one before: only rounding bends an
    envelope up.

    Parameters
    ----------
    envelopes : Envelopes

    Returns
    -------
    query : ndarray of int, shape (moves,)
    cost : ndarray of float, shape (moves,)
        Squared distances.
    gain : ndarray of float, shape (moves,)
        Of loss (nats).
    ratio : ndarray of float, shape (moves,)
        Gain per cost.
    """
    start = envelopes.start
    move = np.ones(len(envelopes.cost), dtype=bool)
    move[start[:-1]] = False
    at = np.flatnonzero(move)
    query = np.repeat(np.arange(len(start) - 1), np.diff(start))[at]
    cost = envelopes.cost[at] - envelopes.cost[at - 1]
    gain = envelopes.loss[at] - envelopes.loss[at - 1]
    ratio = np.maximum(gain / cost, 0.0)
    same = query[1:] == query[:-1]
    rising = same & (ratio[1:] > ratio[:-1])
    while rising.any():
        ratio[1:][rising] = ratio[:-1][rising]
        rising = same & (ratio[1:] > ratio[:-1])
    return query, cost, gain, ratio


def allocate_budget(
    problem: TransportProblem,
    envelopes: Envelopes,
    rng: np.random.Generator,
    queries: Int | None = None,
) -> Allocation | Literal["over", "under"]:
    """Allocate the budget to the moves of some envelopes, largest ratio first.

    Parameters
    ----------
    problem : TransportProblem
    envelopes : Envelopes
    rng : numpy.random.Generator
        Draws the order of moves of equal ratio.
    queries : ndarray of int or None, default None
        The queries of the envelopes; None: all. The budget of some is in proportion to their
        columns.

    Returns
    -------
    Allocation, "over" or "under"
        ``"over"`` if even the cheapest vertices cost more than the budget, ``"under"`` if the most
        expensive ones cost no more than it.
    """
    weights = problem.query_mass[slice(None) if queries is None else queries]
    total = problem.budget * weights.sum()
    start = envelopes.start
    base = float(weights @ envelopes.cost[start[:-1]])
    if base > total * (1 + BUDGET_ROUNDING):
        return "over"
    if float(weights @ envelopes.cost[start[1:] - 1]) <= total * (1 + BUDGET_ROUNDING):
        return "under"
    query, cost, _, ratio = envelope_moves(envelopes)
    # moves of equal ratio come in random order of their queries, and each query's moves in their
    # own order
    order = np.lexsort((rng.permutation(len(start) - 1)[query], -ratio))
    used = base + np.cumsum((weights[query] * cost)[order])
    last = min(int(np.searchsorted(used, total)), len(order) - 1)
    chosen = np.bincount(query[order[:last]], minlength=len(start) - 1)
    # the last move is made for as many columns as the rest of the budget allows
    move = order[last]
    spent = used[last - 1] if last else base
    columns = (total - spent) / cost[move]
    columns = min(max(float(columns), 0.0), float(weights[query[move]]))
    return Allocation(float(ratio[move]), chosen, int(query[move]), columns)


def plan_of(search: ColumnSearch, envelopes: Envelopes, allocation: Allocation) -> TransportPlan:
    """Write an allocation out, column by column.

    Parameters
    ----------
    search : ColumnSearch
        With the losses of the step.
    envelopes : Envelopes
        Of all queries.
    allocation : Allocation

    Returns
    -------
    TransportPlan
    """
    problem = search.problem
    n = problem.n
    classes = len(search.losses)
    at = envelopes.start[:-1] + allocation.chosen
    columns = np.arange(n)
    vertex = at[problem.query_of]
    column = -1
    part = 0.0
    if allocation.divided >= 0:
        # which columns of the divided query go further is random: they differ in nothing else
        of_query = np.flatnonzero(problem.query_of == allocation.divided)
        hashes = tie_hashes(search.key, of_query, np.uint64(n))
        of_query = of_query[np.argsort(hashes, kind="stable")]
        upto = np.cumsum(problem.mass[of_query])
        whole = int(np.searchsorted(upto, allocation.columns, side="right"))
        vertex[of_query[:whole]] += 1
        last_part = allocation.columns - (upto[whole - 1] if whole else 0.0)
        if last_part > 0 and whole < len(of_query):
            column = int(of_query[whole])
            part = float(last_part / problem.mass[column])
    target = search.members(envelopes.place[vertex], problem.labels, columns)
    cost = envelopes.cost[vertex]
    loss = envelopes.loss[vertex]
    mass = problem.mass
    spent = float((mass * cost).mean())
    value = float((mass * loss).mean())
    support = np.bincount(problem.labels * n + target, mass, minlength=classes * n) / n
    split = None
    if column >= 0:
        # move the share of the one divided column to its next vertex
        further = vertex[column] + 1
        label = problem.labels[column]
        row = int(
            search.members(envelopes.place[[further]], label[None], np.array([n + column]))[0]
        )
        split = (column, row, part)
        share = part * float(mass[column])
        support[label * n + target[column]] -= share / n
        support[label * n + row] += share / n
        spent += share * float(envelopes.cost[further] - cost[column]) / n
        value += share * float(envelopes.loss[further] - loss[column]) / n
    # the dual value (B.14) at the multiplier
    eta = allocation.multiplier
    best = envelopes.loss[at] - eta * envelopes.cost[at]
    ceiling = search.unproven(eta, best)
    size = problem.query_mass
    return TransportPlan(
        support=np.maximum(support, 0.0).reshape(classes, n),
        target=target,
        multiplier=eta,
        spent=spent,
        value=value,
        bound=problem.budget * eta + float(size @ ceiling) / n,
        loss=float((mass * search.losses[problem.labels, columns]).mean()),
        proven=float(size @ (ceiling <= best)) / n,
        split=split,
    )
