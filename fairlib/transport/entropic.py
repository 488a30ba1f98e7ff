"""Transport with an entropy term: smooth plans, at a small loss of the adversarial loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from evenhand.fairlib.arrays import Float, Int
from evenhand.fairlib.execution import map_in_threads
from evenhand.fairlib.transport._kernels import all_distances, least_positive_cost, softmax_moments
from evenhand.fairlib.transport.problem import Solver, TransportPlan

# Up to this many places all distances are kept (128 MiB); above, every pass computes them again.
KEPT_PLACES = 4096
# Default strength, as a share of the range of the losses.
RELATIVE_ENTROPY = 0.01
BUDGET_TOLERANCE = 1e-12
MAX_EVALUATIONS = 200
PARTS = 8


@dataclass(eq=False, kw_only=True)
class EntropicSolver(Solver):
    r"""Entropic transport ((B.1), Algorithms 4 and 5 of Vargo et al. 2021), in the log domain.

    .. math::
        \max_{\Pi \in \Gamma} \langle R, \Pi \rangle - \gamma \langle \log \Pi, \Pi \rangle, \qquad
        \Pi_{ij} = \frac1n \operatorname{softmax}_i \frac{R_{ij} - \eta C_{ij}}{\gamma}

    :math:`\eta` is the root of :math:`\epsilon - \langle C, \Pi(\eta) \rangle` (B.6), found by Newton's
    method within a bracket; the budget is met up to 1e-12 relative. Each evaluation goes column by column,
    without a matrix of all pairs above 4,096 places.

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
        self.places = problem.places
        self.costs = np.empty((0, 0))
        if problem.n_places <= KEPT_PLACES:
            self.costs = np.empty((problem.n_places, problem.n_places))
            all_distances(self.places, self.costs)

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

    def _forbidding(self) -> float:
        """A multiplier at which every move that costs anything underflows to no mass."""
        least = least_positive_cost(self.places, self.costs)
        return float((np.ptp(self.pooled) + 800.0 * self._strength) / least) if np.isfinite(least) else 0.0

    def _evaluate(self, eta: float, shape: tuple[int, ...] = (0, 0)) -> tuple[Float, Int, Float]:
        """Moments of all queries, shape (4, queries), their modes, and their mass at every place.

        Moments are mean cost, variance of the cost, mean loss and best loss - eta * cost. The mass and the
        modes are computed only for a `shape` that is not empty.
        """
        problem = self.problem

        def evaluate(part: slice) -> tuple[Float, Int, Float]:
            place = problem.query_place[part]
            found = np.empty((4, len(place))), np.empty(len(place), dtype=np.int64), np.zeros(shape)
            softmax_moments(
                place, problem.query_label[part], problem.query_size[part].astype(np.float64), self.places,
                self.costs, self.pooled, self.mean_loss, self.largest, eta, self._strength, *found,
            )  # fmt: skip
            return found

        # a fixed number of parts: the sums do not depend on the number of threads
        edges = np.linspace(0, len(problem.query_size), PARTS + 1).astype(int)
        found = map_in_threads(self.jobs, evaluate, map(slice, edges[:-1], edges[1:]))
        moments, modes, masses = zip(*found, strict=True)
        return np.concatenate(moments, axis=1), np.concatenate(modes), np.asarray(sum(masses))

    def _plan(self, eta: float) -> TransportPlan:
        """The plan of Algorithm 5 at a multiplier."""
        problem = self.problem
        n, size = problem.n, problem.query_size
        (cost, _, loss, best), modes, mass = self._evaluate(eta, self.pooled.shape)
        support = np.empty(self.within.shape)
        support[:, problem.rows_by_place] = self.within * self._each_row(mass / n)
        support /= support.sum()
        return TransportPlan(
            support=support,
            target=self._targets(modes),
            multiplier=eta,
            spent=float(size @ cost) / n,
            value=float(size @ loss) / n,
            bound=problem.budget * eta + float(size @ best) / n,
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
        cost, variance, _, _ = self._evaluate(eta)[0]
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
