"""Rings of a tree model: bounds of its margin up to several fair distances from each person."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from evenhand.fairlib.arrays import Float32, Index
from evenhand.fairlib.certificates.measures import Ring
from evenhand.fairlib.certificates.trees import ROUNDS, TreeProver
from evenhand.fairlib.distances.metric_base import Metric

# Points are shortened to a little less than a radius: they are rounded to float32 afterwards.
WITHIN = 1.0 - 1e-6


def tree_rings(
    model: Any,
    metric: Metric,
    X: ArrayLike,
    radii: Sequence[float],
    *,
    rounds: Sequence[int] = ROUNDS,
    far_rounds: Sequence[int] | None = None,
) -> list[Ring]:
    """Bounds of a tree model's margin and of minus the margin, up to rising fair distances from
    each person.

    The largest and the smallest radius are bounded first. What is proved for a larger radius holds
    for all smaller ones, so those between two radii with the same proved margins are not bounded
    themselves: for a person whose bounds differ the middle one is, and so on. Every point found is
    also tried at each other radius, shortened where it is farther away.

    Parameters
    ----------
    model : fitted classifier
        Fitted tree model, as in :class:`TreeProver`.
    metric : Metric
        Fitted fair metric.
    X : array-like, shape (n, d)
        The people.
    radii : sequence of float
        Rising fair distances; the last may be infinite.
    rounds : sequence of int, default ROUNDS
        States per round, as in :meth:`TreeProver.margins`.
    far_rounds : sequence of int, optional
        Those of an infinite radius; default: `rounds`.

    Returns
    -------
    list of Ring
        One per radius. A margin of trees jumps, so nothing is gained between two radii:
        ``inner_proved`` equals ``proved``.
    """
    search = _TreeRings(TreeProver(model, metric), X, radii)
    everybody = np.arange(len(search.rows))
    for number, radius in enumerate(radii):
        if np.isinf(radius):
            search.run(number, everybody, rounds if far_rounds is None else far_rounds)
    finite = np.flatnonzero(np.isfinite(radii))
    if len(finite):
        first = int(finite[0])
        last = int(finite[-1])
        search.run(first, everybody, rounds)
        if last > first:
            search.run(last, everybody, rounds)
        search.run_between(first, last, everybody, rounds)
    return search.rings()


class _TreeRings:
    """What is known about the largest margins, and the largest negative ones, up to each radius.

    Parameters
    ----------
    prover : TreeProver
    X : array-like, shape (n, d)
        The people.
    radii : sequence of float
        Rising fair distances.
    """

    def __init__(self, prover: TreeProver, X: ArrayLike, radii: Sequence[float]) -> None:
        self.prover = prover
        self.rows = np.asarray(X, dtype=np.float32)
        self.radii = radii
        margin = prover.sums(prover.read(self.rows)).astype(np.float64)
        self.own = np.stack([margin, -margin], axis=1)
        # shape (radii, n, 2)
        self.found = np.tile(self.own, (len(radii), 1, 1))
        self.proved = np.full(self.found.shape, np.inf)

    def run(self, number: int, people: Index, rounds: Sequence[int]) -> None:
        """Bound the margins of some people up to a radius.

        Parameters
        ----------
        number : int
            Position of the radius.
        people : ndarray of intp
            Positions of people.
        rounds : sequence of int
            States per round.
        """
        bounds = self.prover.margins(self.rows[people], self.radii[number], rounds=rounds)
        self.proved[number, people] = np.stack([bounds.high, -bounds.low], axis=1)
        largest_found = np.stack([bounds.found_high, -bounds.found_low], axis=1)
        self.found[number, people] = np.maximum(self.found[number, people], largest_found)
        for side, points in enumerate((bounds.highest, bounds.lowest)):
            for smaller in range(number):
                self._offer(smaller, people, side, points)
        # a larger region holds what a smaller one holds
        self.found = np.maximum.accumulate(self.found, axis=0)
        self.proved = np.minimum.accumulate(self.proved[::-1], axis=0)[::-1]

    def run_between(self, low: int, high: int, people: Index, rounds: Sequence[int]) -> None:
        """Bound the margins up to the radii between two that were, where these differ.

        Parameters
        ----------
        low, high : int
            Positions of two radii.
        people : ndarray of intp
            Positions of people.
        rounds : sequence of int
            States per round.
        """
        differs = (self.proved[high, people] > self.proved[low, people]).any(axis=1)
        people = people[differs]
        if high - low < 2 or not len(people):
            return
        middle = (low + high) // 2
        self.run(middle, people, rounds)
        self.run_between(low, middle, people, rounds)
        self.run_between(middle, high, people, rounds)

    def _offer(self, number: int, people: Index, side: int, points: Float32) -> None:
        """Try points at a radius, nearer to the people where they are farther away.

        A region contains all points between a person and each of its points, with the same move
        along the free directions.
        """
        metric = self.prover.metric
        rows = self.rows[people].astype(np.float64)
        moves = points.astype(np.float64) - rows
        free_moves = (moves @ metric.basis_) @ metric.basis_.T
        distances = metric.distance(rows + moves, rows)
        longest = self.radii[number]
        is_far = distances > longest
        shares = np.ones((len(rows), 1))
        shares[is_far, 0] = WITHIN * longest / distances[is_far]
        nearer = rows + free_moves + shares * (moves - free_moves)
        nearer[~is_far] = points[~is_far]
        margins = self.prover.sums(self.prover.read(nearer.astype(np.float32))).astype(np.float64)
        if side == 1:
            margins = -margins
        self.found[number, people, side] = np.maximum(self.found[number, people, side], margins)

    def rings(self) -> list[Ring]:
        """One ring per radius."""
        rings = []
        for number, radius in enumerate(self.radii):
            inner = self.radii[max(number - 1, 0)]
            proved = self.proved[number]
            rings.append(Ring(inner, radius, self.own, self.found[number], proved, proved))
        return rings
