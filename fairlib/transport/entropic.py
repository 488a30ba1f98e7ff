"""Transport with an entropy term: smooth plans, at a small loss of the adversarial loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.spatial.distance import cdist

from evenhand.fairlib.arrays import Float, Int
from evenhand.fairlib.execution import map_in_threads
from evenhand.fairlib.transport.problem import Solver, TransportPlan

# Up to this many places all distances are kept (128 MiB); above, every pass computes them again.
KEPT_PLACES = 4096
# Default strength, as a share of the range of the losses.
RELATIVE_ENTROPY = 0.01
BUDGET_TOLERANCE = 1e-12
MAX_EVALUATIONS = 200
# Entries of the matrices that are computed together: they stay in a core's cache.
BLOCK = 2**16


@dataclass(eq=False, kw_only=True)
class EntropicSolver(Solver):
    r"""Entropic transport ((B.1), Algorithms 4 and 5 of Vargo et al. 2021), in the log domain.

    .. math::
        \max_{\Pi \in \Gamma} \langle R, \Pi \rangle - \gamma \langle \log \Pi, \Pi \rangle, \qquad
        \Pi_{ij} = \frac1n \operatorname{softmax}_i \frac{R_{ij} - \eta C_{ij}}{\gamma}

    :math:`\eta` is the root of :math:`\epsilon - \langle C, \Pi(\eta) \rangle` (B.6), found by Newton's
    method within a bracket; the budget is met up to 1e-12 relative. Each evaluation goes through the columns
    in blocks, without a matrix of all pairs above 4,096 places.

    `entropy` is :math:`\gamma` (nats); None takes one percent of the range of the losses at each call.
    """

    kept: ClassVar[tuple[str, ...]] = ("last",)

    entropy: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_interval("(0, inf)", "entropy", optional=True)
        # the last multiplier, if there is one
        self.last = np.empty(0)
        problem = self.problem
        places = problem.places
        self.costs = cdist(places, places, "sqeuclidean") if problem.n_places <= KEPT_PLACES else None
        rows = max(1, BLOCK // problem.n_places)
        self.blocks = [slice(at, at + rows) for at in range(0, len(problem.query_size), rows)]

    def _solve(self, losses: Float) -> TransportPlan:
        self._load(losses)
        eta = self._root()
        self.last = np.array([eta])
        return self._plan(eta)

    def _load(self, losses: Float) -> None:
        """Take the losses; sum up the rows of every place, whose shares do not depend on the multiplier."""
        problem = self.problem
        # equal losses have no range: any strength far above their rounding leaves everybody in place
        self._strength = self.entropy or max(
            RELATIVE_ENTROPY * float(np.ptp(losses)), 1e-9 * float(np.abs(losses).max()), 1e-30
        )
        by_place = losses[:, problem.rows_by_place]
        first = problem.place_start[:-1]
        self.largest = problem.largest_losses(losses)
        self.within = np.exp((by_place - self._each_row(self.largest)) / self._strength)
        total = np.add.reduceat(self.within, first, axis=1)
        self.within /= self._each_row(total)
        # entropy * log sum exp(loss / entropy) over the rows of a place
        self.pooled = self.largest + self._strength * np.log(total)
        self.mean_loss = np.add.reduceat(self.within * by_place, first, axis=1)

    def _each_row(self, by_place: Float) -> Float:
        """A value of every place, repeated for its rows."""
        return np.repeat(by_place, np.diff(self.problem.place_start), axis=1)

    def _costs(self, block: slice) -> Float:
        """Costs of moving from the places of some queries to every place, shape (b, places)."""
        place = self.problem.query_place[block]
        if self.costs is not None:
            return self.costs[place]
        return cdist(self.problem.places[place], self.problem.places, "sqeuclidean")

    def _shares(self, block: slice, costs: Float, eta: float) -> Float:
        """Share of each query's mass at every place, shape (b, places), (B.4) and (B.5)."""
        shares = self.pooled[self.problem.query_label[block]] - eta * costs
        shares -= shares.max(axis=1, keepdims=True)
        shares /= self._strength
        np.exp(shares, out=shares)
        shares /= shares.sum(axis=1, keepdims=True)
        return shares

    def _forbidding(self) -> float:
        """A multiplier at which every move that costs anything underflows to no mass."""
        costs = map(self._costs, self.blocks)
        least = min(float(cost.min(initial=np.inf, where=cost > 0.0)) for cost in costs)
        return float((np.ptp(self.pooled) + 800.0 * self._strength) / least) if np.isfinite(least) else 0.0

    def _plan(self, eta: float) -> TransportPlan:
        """The plan of Algorithm 5 at a multiplier."""
        problem = self.problem
        n, size = problem.n, problem.query_size

        def moved(block: slice) -> tuple[Float, Float, Float, Int]:
            """Mass at every place, (classes, places), and each query's cost and loss, dual term and mode."""
            costs, label = self._costs(block), problem.query_label[block]
            share, worth = self._shares(block, costs, eta), self.largest[label] - eta * costs
            mass = np.stack([(size[block] * (label == k)) @ share for k in range(len(self.pooled))])
            means = np.stack([(share * costs).sum(axis=1), (share * self.mean_loss[label]).sum(axis=1)])
            return mass, means, worth.max(axis=1), worth.argmax(axis=1)

        masses, means, best, modes = zip(*map_in_threads(self.jobs, moved, self.blocks), strict=True)
        cost, loss = np.concatenate(means, axis=1)
        support = np.empty(self.within.shape)
        support[:, problem.rows_by_place] = self.within * self._each_row(np.sum(masses, axis=0) / n)
        support /= support.sum()
        return TransportPlan(
            support=support,
            target=self._targets(np.concatenate(modes)),
            multiplier=eta,
            spent=float(size @ cost) / n,
            value=float(size @ loss) / n,
            bound=problem.budget * eta + float(size @ np.concatenate(best)) / n,
            proven=0.0,
        )

    def _targets(self, modes: Int) -> Int:
        """Row that receives most of each column's mass."""
        problem = self.problem
        rows = np.empty(problem.n, dtype=np.int64)
        for k in range(problem.classes):
            # the largest row of every place
            order = np.lexsort((-self.within[k], problem.place_of[problem.rows_by_place]))
            first = problem.rows_by_place[order][problem.place_start[:-1]]
            mine = problem.labels == k
            rows[mine] = first[modes[problem.query_of[mine]]]
        return rows

    def _excess(self, eta: float) -> tuple[float, float]:
        """Mean cost above the budget, and its derivative in eta."""

        def moments(block: slice) -> Float:
            """Mean and variance of each query's cost; the derivative of (B.6) is -variance / entropy."""
            costs = self._costs(block)
            share = self._shares(block, costs, eta)
            mean = np.einsum("qi,qi->q", share, costs)
            costs -= mean[:, None]
            costs *= costs
            return np.stack([mean, np.einsum("qi,qi->q", share, costs)])

        cost, variance = np.concatenate(map_in_threads(self.jobs, moments, self.blocks), axis=1)
        share = self.problem.query_size / self.problem.n
        return float(share @ cost) - self.problem.budget, -float(share @ variance) / self._strength

    def _root(self) -> float:
        """Smallest multiplier that keeps the budget."""
        if self.problem.budget == 0.0:
            return self._forbidding()
        tolerance = BUDGET_TOLERANCE * self.problem.budget
        eta = float(self.last[0]) if len(self.last) else 0.0
        excess, slope = self._excess(eta)
        if excess <= 0 and (eta == 0.0 or self._excess(0.0)[0] <= 0):
            return 0.0
        low, high = 0.0, np.inf
        for step in range(MAX_EVALUATIONS):
            if -tolerance <= excess <= 0:
                return eta
            width = high - low
            low, high = (eta, high) if excess > 0 else (low, eta)
            if np.isfinite(high) and high - low <= 4e-16 * high:
                return high
            # Newton's step
            trial = eta - excess / slope if slope < 0 else np.inf
            if trial == eta:
                trial = np.nextafter(eta, np.inf)  # rounding left the last digit above the budget
            if np.isinf(high):
                # far from the root the derivative vanishes: at most a few times further, or to the multiplier
                # at which the excess cost weighs as much as the entropy
                trial = min(trial, 8.0 * max(low, self._strength / (8.0 * excess)))
            elif not low < trial < high or (step % 3 == 2 and high - low > 0.5 * width):
                trial = np.sqrt(low * high) if low > 0 else high / 64.0
            eta = float(min(max(trial, low), high))
            excess, slope = self._excess(eta)
        # the budget is below rounding: as good as none
        return self._forbidding()
