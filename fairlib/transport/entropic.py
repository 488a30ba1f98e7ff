"""Transport with an entropy term: smooth plans, at a small loss of the adversarial loss."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenhand.fairlib.randomness import generator
from evenhand.fairlib.transport._kernels import all_distances, least_positive, likeliest, soften
from evenhand.fairlib.transport.problem import TransportPlan, TransportProblem
from evenhand.fairlib.transport.sgd import Descent

__all__ = ["EntropicSGDSolver", "EntropicSolver"]

Float = NDArray[np.float64]
Int = NDArray[np.int64]

# Up to this many places the distances are kept: 128 MiB; above, they are computed again at every pass.
KEPT_PLACES = 4096
# Without a given strength, this share of the range of the losses.
RELATIVE_ENTROPY = 0.01
BUDGET_TOLERANCE = 1e-12
MAX_EVALUATIONS = 200
PARTS = 8


@dataclass(frozen=True)
class _Moments:
    """Of every query's distribution over the places: mean cost and its variance, mean loss, best worth."""

    cost: Float
    variance: Float
    loss: Float
    best: Float


class _Smoothed:
    """Evaluates entropic plans of one problem for given losses, strength and multiplier."""

    def __init__(self, problem: TransportProblem, jobs: int) -> None:
        if jobs < 1:
            raise ValueError(f"jobs must be at least 1, got {jobs!r}.")
        self.problem = problem
        self.jobs = jobs
        places = problem.places
        if places is None:
            assert problem.costs is not None
            self.places = np.zeros((problem.n, 1))
            self.costs = np.ascontiguousarray(problem.costs.T)
        else:
            self.places = places
            self.costs = np.empty((0, 0))
            if len(places) <= KEPT_PLACES:
                self.costs = np.empty((len(places), len(places)))
                all_distances(places, self.costs)

    def load(self, losses: Float, entropy: float) -> None:
        """Put the rows of every place together: their shares of it do not depend on the multiplier."""
        problem = self.problem
        self.entropy = entropy
        self.largest = problem.largest_losses(losses)
        sizes = np.diff(problem.place_start)
        rows = problem.rows_by_place
        self.within = np.exp((losses[:, rows] - np.repeat(self.largest, sizes, axis=1)) / entropy)
        total = np.add.reduceat(self.within, problem.place_start[:-1], axis=1)
        self.within /= np.repeat(total, sizes, axis=1)
        # entropy * log sum exp(loss / entropy) over the rows of a place
        self.pooled = self.largest + entropy * np.log(total)
        self.mean_loss = np.add.reduceat(self.within * losses[:, rows], problem.place_start[:-1], axis=1)

    def forbidding(self) -> float:
        """A multiplier at which every move that costs anything underflows to no mass."""
        least = least_positive(self.places, self.costs)
        return float((np.ptp(self.pooled) + 800.0 * self.entropy) / least) if np.isfinite(least) else 0.0

    def moments(self, eta: float, queries: Int | None = None) -> _Moments:
        """Per query, at a multiplier."""
        asked = np.arange(len(self.problem.query_size)) if queries is None else queries
        out = tuple(np.empty(len(asked)) for _ in range(4))
        nothing = np.empty((0, 0))
        self._run(eta, asked, out, nothing)
        return _Moments(*out)

    def mass(self, eta: float) -> tuple[_Moments, Float]:
        """Moments of all queries, and how much mass arrives at every place under every label."""
        asked = np.arange(len(self.problem.query_size))
        out = tuple(np.empty(len(asked)) for _ in range(4))
        shares = np.zeros(self.pooled.shape)
        self._run(eta, asked, out, shares)
        return _Moments(*out), shares / self.problem.n

    def _run(self, eta: float, asked: Int, out: tuple[Float, ...], arrived: Float) -> None:
        problem = self.problem
        # as many parts with any number of threads: sums come out the same
        edges = np.linspace(0, len(asked), PARTS + 1).astype(int)
        parts = [asked[a:b] for a, b in zip(edges[:-1], edges[1:], strict=True)]
        outs = [[column[a:b] for column in out] for a, b in zip(edges[:-1], edges[1:], strict=True)]
        sums = [np.zeros_like(arrived) for _ in parts]

        def one(k: int) -> None:
            part = parts[k]
            soften(
                problem.query_place[part], problem.query_label[part],
                problem.query_size[part].astype(np.float64), self.places, self.costs, self.pooled,
                self.mean_loss, self.largest, eta, self.entropy, *outs[k], sums[k],
            )  # fmt: skip

        with ThreadPoolExecutor(self.jobs) as pool:
            list(pool.map(one, range(len(parts))))
        for part in sums:
            arrived += part

    def plan(self, eta: float, passes: int) -> TransportPlan:
        """The plan of Algorithm 5 at a multiplier."""
        problem = self.problem
        moments, arrived = self.mass(eta)
        n = problem.n
        size = problem.query_size
        sizes = np.diff(problem.place_start)
        support = np.empty(self.within.shape)
        support[:, problem.rows_by_place] = self.within * np.repeat(arrived, sizes, axis=1)
        support /= support.sum()
        return TransportPlan(
            support=support,
            target=self._modes(eta),
            multiplier=eta,
            spent=float(size @ moments.cost) / n,
            value=float(size @ moments.loss) / n,
            bound=problem.budget * eta + float(size @ moments.best) / n,
            proven=0.0,
            passes=passes,
        )

    def _modes(self, eta: float) -> Int:
        """Row that gets most of each column's mass."""
        problem = self.problem
        place = np.empty(len(problem.query_size), dtype=np.int64)
        likeliest(problem.query_place, problem.query_label, self.places, self.costs, self.largest, eta, place)
        rows = np.empty(problem.n, dtype=np.int64)
        for k in range(problem.classes):
            order = problem.rows_by_place[
                np.lexsort((-self.within[k], problem.place_of[problem.rows_by_place]))
            ]
            first = order[problem.place_start[:-1]]
            mine = problem.labels == k
            rows[mine] = first[place[problem.query_of[mine]]]
        return rows


class EntropicSolver:
    r"""
    Entropic transport (B.1, Algorithms 4 and 5 of Vargo et al. 2021), in the log domain.

    .. math::
        \max_{\Pi \in \Gamma} \langle R, \Pi \rangle - \gamma \langle \log \Pi, \Pi \rangle, \qquad
        \Pi_{ij} = \frac1n \operatorname{softmax}_i \frac{R_{ij} - \eta C_{ij}}{\gamma}

    :math:`\eta` is the root of :math:`\epsilon - \langle C, \Pi(\eta) \rangle`, found by Newton's method
    within a bracket; each evaluation goes column by column, without a matrix of all pairs above 4,096 places.

    Parameters
    ----------
    problem : TransportProblem
    seed : int
        Unused: nothing is random.
    jobs : int
    entropy : float or None
        :math:`\gamma` (nats). None: one percent of the range of the losses at each call.

    Raises
    ------
    ValueError
        An entropy that is not positive and finite.
    """

    def __init__(
        self, problem: TransportProblem, *, seed: int = 0, jobs: int = 1, entropy: float | None = None
    ) -> None:
        _check_entropy(entropy)
        self.problem = problem
        self.entropy = entropy
        self._smoothed = _Smoothed(problem, jobs)
        self._last: float | None = None

    def solve(self, losses: ArrayLike) -> TransportPlan:
        """Solve for one table of losses, shape (classes, n): the budget is met up to 1e-12 relative."""
        table = self.problem.check_losses(losses)
        self._smoothed.load(table, _strength(self.entropy, table))
        self._passes = 0
        eta = self._root()
        self._last = eta
        return self._smoothed.plan(eta, self._passes)

    def state(self) -> dict[str, Any]:
        """What the next call builds on."""
        return {"last": np.array([] if self._last is None else [self._last])}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a :meth:`state` of the same problem."""
        last = np.asarray(state["last"])
        self._last = float(last[0]) if last.size else None

    def _excess(self, eta: float) -> tuple[float, float]:
        """Cost above the budget, and its derivative in eta."""
        moments = self._smoothed.moments(eta)
        self._passes += 1
        share = self.problem.query_size / self.problem.n
        return (
            float(share @ moments.cost) - self.problem.budget,
            -float(share @ moments.variance) / self._smoothed.entropy,
        )

    def _root(self) -> float:
        """Smallest multiplier that keeps the budget."""
        if self.problem.budget == 0.0:
            return self._smoothed.forbidding()
        tolerance = BUDGET_TOLERANCE * self.problem.budget
        eta = self._last or 0.0
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
            trial = eta - excess / slope if slope < 0 else np.inf
            if trial == eta:
                trial = np.nextafter(eta, np.inf)  # rounding left a last unit above the budget
            if np.isinf(high):
                # far from the root the derivative vanishes: never more than a few times further
                trial = min(trial, 8.0 * max(low, self._scale(excess)))
            elif not low < trial < high or (step % 3 == 2 and high - low > 0.5 * width):
                trial = np.sqrt(low * high) if low > 0 else high / 64.0
            eta = float(min(max(trial, low), high))
            excess, slope = self._excess(eta)
        # a budget below rounding: as good as none
        return self._smoothed.forbidding()

    def _scale(self, excess: float) -> float:
        """Multiplier at which the cost above the budget would weigh as much as the entropy."""
        return self._smoothed.entropy / (8.0 * excess)


class EntropicSGDSolver:
    r"""
    Algorithm 6 of Vargo et al. 2021: the multiplier of the entropic problem by stochastic gradient descent.

    Parameters
    ----------
    problem, seed, jobs, entropy
        As :class:`EntropicSolver`.
    start, learning_rate, momentum, iterations, batch
        Of the descent. The paper prints none for this algorithm; these are those of Algorithm 2.
    """

    def __init__(
        self,
        problem: TransportProblem,
        *,
        seed: int = 0,
        jobs: int = 1,
        entropy: float | None = None,
        start: float = 0.1,
        learning_rate: float = 1e-4,
        momentum: float = 0.9,
        iterations: int = 100,
        batch: int = 200,
    ) -> None:
        _check_entropy(entropy)
        self.problem = problem
        self.seed = seed
        self.entropy = entropy
        self.descent = Descent(start, learning_rate, momentum, iterations, batch)
        self._smoothed = _Smoothed(problem, jobs)
        self._calls = 0

    def solve(self, losses: ArrayLike) -> TransportPlan:
        """As :meth:`EntropicSolver.solve`; nothing makes it meet the budget."""
        table = self.problem.check_losses(losses)
        self._calls += 1
        self._smoothed.load(table, _strength(self.entropy, table))

        def spent_at(eta: float, columns: Int) -> float:
            queries, counts = np.unique(self.problem.query_of[columns], return_counts=True)
            return float(counts @ self._smoothed.moments(eta, queries).cost) / len(columns)

        rng = generator(self.seed, "batches", str(self._calls))
        return self._smoothed.plan(self.descent.run(self.problem, rng, spent_at), 1)

    def state(self) -> dict[str, Any]:
        """What the next call builds on."""
        return {"calls": self._calls}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a :meth:`state` of the same problem."""
        self._calls = int(state["calls"])


def _check_entropy(entropy: float | None) -> None:
    if entropy is not None and not (np.isfinite(entropy) and entropy > 0):
        raise ValueError(f"entropy must be positive and finite, got {entropy!r}.")


def _strength(entropy: float | None, losses: Float) -> float:
    # equal losses have no range: any strength far above their rounding leaves everybody at home
    return entropy or max(RELATIVE_ENTROPY * float(np.ptp(losses)), 1e-9 * float(np.abs(losses).max()), 1e-30)
