"""Growing a proxy tree: the leaves, the trial of each, and the graph that comes of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.fairlib.methods.base import Callback
from evenhand.fairlib.proxies.graph import SplittingGraph
from evenhand.fairlib.proxies.sampling import nearest_mixture
from evenhand.fairlib.proxies.splitting import Hypotheses, Limits, play_game, solve_program
from evenhand.fairlib.proxies.vertices import OracleGraph, Vertex, split_vertices

__all__ = ["Growth", "Settings"]

Float = NDArray[np.float64]
Float32 = NDArray[np.float32]
# Cuts of a vertex's first directions, and of one that the program's prices point to.
FIRST_CUTS, NEXT_CUTS = 32, 12
FIRST_GROUPS = 4
# Bisection steps for the least offset that makes enough progress.
OFFSETS = 5
LIMITS = 3
# A row with a smaller share of a vertex is not looked at there; it still goes where the graph sends it.
LEAST_SHARE = 1e-12
# Limits that are tried, from the least, for the smallest that allows a split; and how finely it is told.
ALPHA_STEPS, LEAST_ALPHA, ALPHA_RESOLUTION = 12, 0.005, 0.001
LARGEST_POOL = 160


@dataclass(frozen=True)
class Settings:
    """Parameters of the proxy tree; `rounds` of the game, or None for the program."""

    alpha: float
    relaxed: bool
    progress: float
    tolerance: float
    max_height: int
    min_leaf: float
    rounds: int | None


@dataclass(frozen=True)
class Trial:
    """A split that makes enough progress: the mixture, the distance after it and the share then kept."""

    vertex: Vertex
    mixture: Float
    distance: float
    rate: float


class Growth:
    """
    Algorithm 4 on one sample.

    Parameters
    ----------
    X : ndarray of float32, shape (n, d)
    indicators : ndarray, shape (n, K)
    target : ndarray, shape (K,)
    settings : Settings
    oracle : LinearOracle or EstimatorOracle
    """

    def __init__(self, X: Float32, indicators: Float, target: Float, settings: Settings, oracle: Any) -> None:
        self.X, self.indicators, self.target = X, indicators, target
        self.settings, self.oracle = settings, oracle
        self.limits = Limits(indicators.mean(axis=0), settings.alpha, settings.min_leaf)
        self.root = self._vertex(np.arange(len(X)), np.ones(len(X)), 0)
        self.leaves = [self.root]
        self.imbalance = math.inf
        self.distances: list[float] = []

    def grow(self, callback: Callback | None = None) -> None:
        """Split until the target is near enough, or no leaf has a split that is allowed and helps."""
        distance, towards = self._position()
        self.distances.append(distance)
        while self.imbalance > self.settings.tolerance:
            best = self._best_trial(distance, towards, self.limits)
            if best is None:
                return
            self._split(best)
            distance, towards = self._position()
            self.distances.append(distance)
            if callback is not None:
                callback(len(self.leaves) - 1, self._most_splits(), {"imbalance": self.imbalance})

    def _most_splits(self) -> int:
        """Splits within which the tolerance is reached (theorem 2), or those made if that says nothing."""
        made, first = len(self.leaves) - 1, self.distances[0]
        if self.settings.tolerance <= 0:
            return made
        shrinkings = math.log(self.settings.tolerance / first) / math.log(1.0 - self.settings.progress)
        return max(made, math.ceil(shrinkings))

    def least_alpha(self) -> float | None:
        """Smallest limit, to a thousandth, under which a first split was found; None if none was."""
        distance, towards = self._position()
        if self.imbalance <= self.settings.tolerance:
            return None
        low = self.limits.alpha
        steps = np.geomspace(max(low, LEAST_ALPHA), 1.0, ALPHA_STEPS)
        high = next((float(alpha) for alpha in steps if self._allows(alpha, distance, towards)), None)
        if high is None:
            return None
        low = max([low, *(float(alpha) for alpha in steps if alpha < high)])
        while high - low > ALPHA_RESOLUTION:
            middle = 0.5 * (low + high)
            if self._allows(middle, distance, towards):
                high = middle
            else:
                low = middle
        return high

    def _allows(self, alpha: float, distance: float, towards: Float) -> bool:
        self.root.pool = None  # what earlier trials have added and dropped must not decide
        return self._best_trial(distance, towards, replace(self.limits, alpha=float(alpha))) is not None

    def _vertex(self, rows: NDArray[np.intp], weights: Float, depth: int) -> Vertex:
        tally = np.append(weights @ self.indicators[rows], weights.sum())
        return Vertex(rows, weights, tally, depth)

    def _measure(self, compositions: Float) -> tuple[Float, Float]:
        """Mixture of compositions that is nearest to the target, and what is left to the target."""
        mixture = nearest_mixture(compositions, self.target, relaxed=self.settings.relaxed)
        return mixture, self.target - mixture @ compositions

    def _position(self) -> tuple[float, Float]:
        """Distance of the target from the leaves' hull (or cone), and the unit direction towards it."""
        compositions = np.array([leaf.composition for leaf in self.leaves])
        mixture, left = self._measure(compositions)
        shares = mixture @ compositions / mixture.sum()
        self.imbalance = float(np.linalg.norm(shares - self.target))
        distance = float(np.linalg.norm(left))
        return distance, left / distance if distance > 0 else left

    def _best_trial(self, distance: float, towards: Float, limits: Limits) -> Trial | None:
        """
        The split, of all leaves, after which most people can be kept (by the mixture that is found first).

        Under a loose limit the program may take a child too far, past the target in other directions: if no
        leaf has a split that makes enough progress, stricter limits are tried.
        """
        for _ in range(LIMITS):
            best: Trial | None = None
            for leaf in self.leaves:
                if leaf.depth >= self.settings.max_height or leaf.tally[-1] < 2 * limits.least_rows:
                    continue
                trial = self._try(leaf, limits, distance, towards)
                if trial is not None and (best is None or trial.rate > best.rate):
                    best = trial
            if best is not None:
                return best
            limits = replace(limits, alpha=0.5 * limits.alpha)
        return None

    def _try(self, leaf: Vertex, limits: Limits, distance: float, towards: Float) -> Trial | None:
        """
        The split of one leaf that moves most rows and still makes enough progress.

        The larger the offset, the fewer rows move and the farther: bisection finds the least that is enough.
        """
        pool = self._pool(leaf, towards)
        if len(pool.cuts) == 0:
            return None
        some = pool.tallies[pool.tallies[:, -1] > 0]  # the game's halfspaces can be empty
        gains = some[:, :-1] @ towards / some[:, -1] - towards @ leaf.composition
        low, high = 0.0, float(gains.max(initial=0.0))
        best: Trial | None = None
        offset = 0.0
        for _ in range(OFFSETS + 1):
            trial = self._mix(leaf, pool, limits, towards, offset)
            if trial is not None and trial.distance <= (1.0 - self.settings.progress) * distance:
                if best is None or trial.rate > best.rate:
                    best = trial
                high = offset
            else:
                low = offset
            if high <= 0:
                break
            offset = 0.5 * (low + high)
        return best

    def _pool(self, leaf: Vertex, towards: Float) -> Hypotheses:
        """Halfspaces of a leaf, made when it is first tried, with those along the present direction."""
        if leaf.pool is None:
            leaf.scores = self.oracle.fit(self.X[leaf.rows], self.indicators[leaf.rows], leaf.weights)
            leaf.pool = Hypotheses(leaf.scores.values, self.indicators[leaf.rows], leaf.weights)
            for group in np.argsort(-towards)[:FIRST_GROUPS]:
                leaf.pool.sweep(np.eye(len(towards))[group], FIRST_CUTS)
        if len(leaf.pool.cuts) > LARGEST_POOL:
            leaf.pool.forget(np.arange(len(leaf.pool.cuts) - LARGEST_POOL // 2, len(leaf.pool.cuts)))
        leaf.pool.sweep(towards, FIRST_CUTS)
        return leaf.pool

    def _mix(
        self, leaf: Vertex, pool: Hypotheses, limits: Limits, towards: Float, offset: float
    ) -> Trial | None:
        """One offset's mixture; the program is solved again with the halfspaces that its prices point to."""
        if self.settings.rounds is not None:
            mixture = play_game(pool, limits, towards, offset, self.settings.rounds)
        else:
            solved = solve_program(pool, limits, towards, offset)
            if solved is None:
                return None
            length = float(np.linalg.norm(solved[1]))
            if length > 0:
                pool.sweep(solved[1] / length, NEXT_CUTS)
                solved = solve_program(pool, limits, towards, offset) or solved
            mixture = solved[0]
        if mixture is None:
            return None
        mixture = np.append(mixture, np.zeros(len(pool.cuts) - len(mixture)))
        return self._trial(leaf, mixture, mixture @ pool.tallies)

    def _trial(self, leaf: Vertex, mixture: Float, one: Float) -> Trial:
        zero = leaf.tally - one
        others = [other.tally for other in self.leaves if other is not leaf]
        tallies = np.array([*others, one, zero])
        weights, left = self._measure(tallies[:, :-1] / tallies[:, -1:])
        ratios = weights / weights.sum() / (tallies[:, -1] / len(self.X))
        return Trial(leaf, mixture, float(np.linalg.norm(left)), 1.0 / float(ratios.max()))

    def _split(self, trial: Trial) -> None:
        leaf = trial.vertex
        pool = leaf.pool
        assert pool is not None
        chosen = np.flatnonzero(trial.mixture)
        leaf.halfspaces = [(pool.directions[t], pool.cuts[t], float(trial.mixture[t])) for t in chosen]
        share = np.zeros(len(leaf.rows))
        for direction, cut, weight in leaf.halfspaces:
            share += weight * (pool.scores @ direction > cut)
        one = leaf.weights * np.minimum(share, 1.0)
        children = []
        for weights in (one, leaf.weights - one):
            kept = weights > LEAST_SHARE
            children.append(self._vertex(leaf.rows[kept], weights[kept], leaf.depth + 1))
        leaf.children = (children[0], children[1])
        # its pool holds a matrix of scores that nobody needs again
        leaf.pool = None
        place = next(i for i, other in enumerate(self.leaves) if other is leaf)
        self.leaves[place : place + 1] = children

    def graph(self) -> Any:
        """The tree as a splitting graph, or as one of fitted estimators."""
        split = split_vertices(self.root)
        leaf_of = {id(leaf): -1 - j for j, leaf in enumerate(self.leaves)}
        place_of = {id(vertex): i for i, vertex in enumerate(split)} | leaf_of
        links = [
            np.array([place_of[id(vertex.children[side])] for vertex in split], dtype=np.int64)  # type: ignore[index]
            for side in (0, 1)
        ]
        if split and not hasattr(split[0].scores, "halfspace"):
            return OracleGraph(split, links, len(self.leaves))
        normals, intercepts, mixture, starts = [], [], [], [0]
        for vertex in split:
            for direction, cut, weight in vertex.halfspaces or []:
                normal, intercept = vertex.scores.halfspace(direction, cut)  # type: ignore[union-attr]
                normals.append(normal)
                intercepts.append(intercept)
                mixture.append(weight)
            starts.append(len(normals))
        return SplittingGraph(
            np.array(normals).reshape(len(normals), self.X.shape[1]),
            np.array(intercepts),
            np.array(mixture),
            np.array(starts, dtype=np.int64),
            *links,
        )
