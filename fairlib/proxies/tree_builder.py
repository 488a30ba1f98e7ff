"""Builder of a proxy tree: its leaves, the best split of each, and the finished graph."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from evenhand.fairlib.arrays import Float, Float32, Index
from evenhand.fairlib.proxies.graph import SplittingGraph
from evenhand.fairlib.proxies.sampling import nearest_mixture
from evenhand.fairlib.proxies.splitting import (
    Hypotheses,
    Limits,
    LinearScores,
    fit_scores,
    solve_program,
)

if TYPE_CHECKING:
    from evenhand.fairlib.methods.method_base import Callback
    from evenhand.fairlib.proxies.tree import ProxyTree

# Cuts along a vertex's first directions, and along the direction of the program's prices.
FIRST_CUTS = 32
NEXT_CUTS = 12
FIRST_GROUPS = 4
# Bisection steps for the least offset that makes enough progress.
OFFSETS = 5
# Limits that are tried: the given one, then each half of the one before.
LIMITS = 3
# Rows with a smaller share of a vertex are left out of its fit; the graph still carries them.
LEAST_SHARE = 1e-12
# Search for the smallest alpha that allows a split: number of first values, the least of them,
# resolution.
ALPHA_STEPS = 12
LEAST_ALPHA = 0.005
ALPHA_RESOLUTION = 0.001
LARGEST_POOL = 160


@dataclass(eq=False)
class Vertex:
    """A leaf or a split vertex.

    Parameters
    ----------
    rows : ndarray of int, shape (m,)
        Positions of its rows.
    weights : ndarray of float64, shape (m,)
        Share of each row that reaches it.
    tally : ndarray of float64, shape (K + 1,)
        Expected rows of every group, and all expected rows.
    depth : int
    pool : Hypotheses or None, default None
        None before a first split is tried, and after one was made; the scores are there from the
        first on.
    halfspaces : list of tuple, default []
        Direction, cut and weight of each.
    children : tuple of Vertex, default ()
    """

    rows: Index
    weights: Float
    tally: Float
    depth: int
    pool: Hypotheses | None = None
    scores: LinearScores = field(init=False)
    halfspaces: list[tuple[Float, float, float]] = field(default_factory=list)
    children: tuple[Vertex, ...] = ()

    @property
    def composition(self) -> Float:
        """Shares of the groups."""
        return self.tally[:-1] / self.tally[-1]

    def share(self, scores: Float) -> Float:
        """Share of rows that goes to the first child.

        Parameters
        ----------
        scores : ndarray of float64, shape (n, K)
            Scores of the rows.

        Returns
        -------
        ndarray of float64, shape (n,)
        """
        share = np.zeros(len(scores))
        for direction, cut, weight in self.halfspaces:
            share += weight * (scores @ direction > cut)
        return np.minimum(share, 1.0)


@dataclass(frozen=True)
class Candidate:
    """A split.

    Parameters
    ----------
    vertex : Vertex
    mixture : ndarray of float64
        Weights of the pool's halfspaces.
    distance : float
        Of the target, after the split.
    rate : float
        Share of rows that can be kept after it.
    """

    vertex: Vertex
    mixture: Float
    distance: float
    rate: float


class TreeBuilder:
    """Algorithm 4 of Deng et al. (2023).

    Parameters
    ----------
    X : ndarray of float32, shape (n, d)
    indicators : ndarray of float64, shape (n, K)
        Membership of every row in every group.
    target : ndarray of float64, shape (K,)
        Share of every group that a mixture of the leaves should have.
    config : ProxyTree
        Its parameters are used.

    Attributes
    ----------
    distances : list of float
        Distance of the target before the first split and after each.
    imbalance : float
        That of the leaves' nearest mixture.
    """

    def __init__(self, X: Float32, indicators: Float, target: Float, config: ProxyTree) -> None:
        self.X = X
        self.indicators = indicators
        self.target = target
        self.config = config
        self.limits = Limits(indicators.mean(axis=0), config.alpha, max(config.min_leaf, 1e-6))
        self.root = self._vertex(np.arange(len(X)), np.ones(len(X)), 0)
        self.leaves = [self.root]
        self.imbalance = math.inf
        self.distances: list[float] = []

    def grow(self, callback: Callback | None = None) -> None:
        """Split until the imbalance is within the tolerance, or no leaf has a split that is
        allowed.

        Parameters
        ----------
        callback : callable, default None
            Called after every split; a true result ends the growth.
        """
        distance, direction = self._distance()
        self.distances.append(distance)
        while self.imbalance > self.config.tolerance:
            best = self._best_split(distance, direction, self.limits)
            if best is None:
                return
            self._split(best)
            distance, direction = self._distance()
            self.distances.append(distance)
            if callback is not None:
                made = len(self.leaves) - 1
                if callback(made, made + self._splits_left(), {"imbalance": self.imbalance}):
                    return

    def _splits_left(self) -> int:
        """Largest number of splits until the tolerance is reached (theorem 2); at least 0."""
        if self.config.tolerance <= 0:
            return 1
        ratio = self.imbalance / self.config.tolerance
        return math.ceil(math.log(max(ratio, 1.0)) / -math.log1p(-self.config.progress))

    def least_alpha(self) -> float | None:
        """Smallest alpha, to a thousandth, under which a first split was found; None if
        none was.
        """
        distance, direction = self._distance()
        if self.imbalance <= self.config.tolerance:
            return None

        def _allows(alpha: float) -> bool:
            self.root.pool = None  # the halfspaces of earlier trials must not decide
            limits = replace(self.limits, alpha=alpha)
            return self._best_split(distance, direction, limits) is not None

        low = self.limits.alpha
        steps = [float(alpha) for alpha in np.geomspace(max(low, LEAST_ALPHA), 1.0, ALPHA_STEPS)]
        high = next((alpha for alpha in steps if _allows(alpha)), None)
        if high is None:
            return None
        low = max([low, *(alpha for alpha in steps if alpha < high)])
        while high - low > ALPHA_RESOLUTION:
            middle = 0.5 * (low + high)
            if _allows(middle):
                high = middle
            else:
                low = middle
        return high

    def _vertex(self, rows: Index, weights: Float, depth: int) -> Vertex:
        tally = np.append(weights @ self.indicators[rows], weights.sum())
        return Vertex(rows, weights, tally, depth)

    def _nearest(self, compositions: Float) -> tuple[Float, Float]:
        """Mixture of compositions that is nearest to the target, and the difference to the
        target.
        """
        mixture = nearest_mixture(compositions, self.target, relaxed=self.config.relaxed)
        return mixture, self.target - mixture @ compositions

    def _distance(self) -> tuple[float, Float]:
        """Distance of the target from the leaves' hull (or cone), and the unit direction towards
        it.
        """
        compositions = np.array([leaf.composition for leaf in self.leaves])
        mixture, difference = self._nearest(compositions)
        shares = mixture @ compositions / mixture.sum()
        self.imbalance = float(np.linalg.norm(shares - self.target))
        distance = float(np.linalg.norm(difference))
        return distance, difference / distance if distance > 0 else difference

    def _best_split(self, distance: float, direction: Float, limits: Limits) -> Candidate | None:
        """Of the allowed splits of all leaves, find the one after which most rows can be kept.

        Under a loose limit the program may move a child past the target in other directions. If no
        leaf has a split that makes enough progress, stricter limits are tried.
        """
        for _ in range(LIMITS):
            candidates = []
            for leaf in self.leaves:
                has_room = leaf.tally[-1] >= 2 * limits.least_rows
                if leaf.depth >= self.config.max_height or not has_room:
                    continue
                candidate = self._split_of(leaf, limits, distance, direction)
                if candidate is not None:
                    candidates.append(candidate)
            best = max(candidates, key=lambda candidate: candidate.rate, default=None)
            if best is not None:
                return best
            limits = replace(limits, alpha=0.5 * limits.alpha)
        return None

    def _split_of(
        self, leaf: Vertex, limits: Limits, distance: float, direction: Float
    ) -> Candidate | None:
        """Find the split of one leaf that moves most rows and still makes enough progress.

        The larger the offset, the fewer rows move and the more their composition changes. Bisection
        finds the least offset that makes enough progress.
        """
        pool = self._pool(leaf, direction)
        if len(pool.cuts) == 0:
            return None
        shares_along = pool.tallies[:, :-1] @ direction / pool.tallies[:, -1]
        gains = shares_along - direction @ leaf.composition
        low = 0.0
        high = float(gains.max(initial=0.0))
        best: Candidate | None = None
        offset = 0.0
        for _ in range(OFFSETS + 1):
            candidate = self._candidate(leaf, pool, limits, direction, offset)
            enough = (1.0 - self.config.progress) * distance
            if candidate is not None and candidate.distance <= enough:
                if best is None or candidate.rate > best.rate:
                    best = candidate
                high = offset
            else:
                low = offset
            if high <= 0:
                break
            offset = 0.5 * (low + high)
        return best

    def _pool(self, leaf: Vertex, direction: Float) -> Hypotheses:
        """Halfspaces of a leaf, with those along the present direction."""
        if leaf.pool is None:
            indicators = self.indicators[leaf.rows]
            X = self.X[leaf.rows]
            leaf.scores = fit_scores(X, indicators, leaf.weights, self.config.ridge)
            leaf.pool = Hypotheses(leaf.scores.values, indicators, leaf.weights)
            for group in np.argsort(-direction)[:FIRST_GROUPS]:
                leaf.pool.sweep(np.eye(len(direction))[group], FIRST_CUTS)
        if len(leaf.pool.cuts) > LARGEST_POOL:
            leaf.pool.keep(np.arange(len(leaf.pool.cuts) - LARGEST_POOL // 2, len(leaf.pool.cuts)))
        leaf.pool.sweep(direction, FIRST_CUTS)
        return leaf.pool

    def _candidate(
        self, leaf: Vertex, pool: Hypotheses, limits: Limits, direction: Float, offset: float
    ) -> Candidate | None:
        """Split at one offset."""
        mixture = self._mixture(pool, limits, direction, offset)
        if mixture is None:
            return None
        mixture = np.append(mixture, np.zeros(len(pool.cuts) - len(mixture)))
        one = mixture @ pool.tallies
        unchanged = [vertex.tally for vertex in self.leaves if vertex is not leaf]
        tallies = np.array([*unchanged, one, leaf.tally - one])
        weights, difference = self._nearest(tallies[:, :-1] / tallies[:, -1:])
        ratios = weights / weights.sum() / (tallies[:, -1] / len(self.X))
        return Candidate(
            leaf, mixture, float(np.linalg.norm(difference)), 1.0 / float(ratios.max())
        )

    def _mixture(
        self, pool: Hypotheses, limits: Limits, direction: Float, offset: float
    ) -> Float | None:
        """Best mixture of the first halfspaces of a pool; those along the program's prices
        join it.
        """
        solved = solve_program(pool, limits, direction, offset)
        if solved is None:
            return None
        length = float(np.linalg.norm(solved[1]))
        if length > 0:
            pool.sweep(solved[1] / length, NEXT_CUTS)
            solved = solve_program(pool, limits, direction, offset) or solved
        return solved[0]

    def _split(self, best: Candidate) -> None:
        leaf = best.vertex
        pool = leaf.pool
        assert pool is not None
        leaf.halfspaces = [
            (pool.directions[t], pool.cuts[t], float(best.mixture[t]))
            for t in np.flatnonzero(best.mixture)
        ]
        one = leaf.weights * leaf.share(pool.scores)
        for weights in (one, leaf.weights - one):
            is_reached = weights > LEAST_SHARE
            child = self._vertex(leaf.rows[is_reached], weights[is_reached], leaf.depth + 1)
            leaf.children += (child,)
        leaf.pool = None  # frees its matrix of scores
        place = next(i for i, vertex in enumerate(self.leaves) if vertex is leaf)
        self.leaves[place : place + 1] = leaf.children

    def graph(self) -> SplittingGraph:
        """Convert the tree to a splitting graph."""
        vertices = self._split_vertices()
        places = {id(vertex): i for i, vertex in enumerate(vertices)}
        for j, leaf in enumerate(self.leaves):
            places[id(leaf)] = -1 - j
        first_children = [places[id(vertex.children[0])] for vertex in vertices]
        second_children = [places[id(vertex.children[1])] for vertex in vertices]
        normals = []
        intercepts = []
        weights = []
        starts = [0]
        for vertex in vertices:
            for direction, cut, weight in vertex.halfspaces:
                normal, intercept = vertex.scores.halfspace(direction, cut)
                normals.append(normal)
                intercepts.append(intercept)
                weights.append(weight)
            starts.append(len(weights))
        return SplittingGraph(
            np.array(normals).reshape(-1, self.X.shape[1]),
            np.array(intercepts),
            np.array(weights),
            np.array(starts, dtype=np.int64),
            np.array(first_children, dtype=np.int64),
            np.array(second_children, dtype=np.int64),
        )

    def _split_vertices(self) -> list[Vertex]:
        """Vertices with children, parents before children."""
        vertices: list[Vertex] = []
        waiting = [self.root]
        while waiting:
            vertex = waiting.pop()
            if vertex.children:
                vertices.append(vertex)
                waiting += reversed(vertex.children)
        return vertices
