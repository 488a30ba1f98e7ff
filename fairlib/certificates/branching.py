"""Branch and bound over parts of regions, until found and proved values meet or time is up."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.fairlib.certificates.networks import LinearRelaxation
from evenhand.fairlib.certificates.region import Region

Float = NDArray[np.float64]
Index = NDArray[np.intp]
# Improvements of the slopes: of a whole region, and of a part.
FIRST_STEPS, STEPS = 12, 4
# The search moves so many times from each of these many places.
STARTS, MOVES = 6, 6
# Parts that are bounded together, and most parts that wait.
BATCH, WAITING = 512, 200_000
# Fixing a unit's sign leaves the other units' bounds as they are; halving a free direction narrows them all.
UNIT_WEIGHT = 0.5


@dataclass(frozen=True)
class Extremes:
    """Largest values over regions, both (n, m): some point reaches `found`, no point is above `proved`.

    `met` says where the two differ by less than the tolerance.
    """

    found: Float
    proved: Float
    met: NDArray[np.bool_]


@dataclass
class _Parts:
    """Parts of regions: their problem, range of t, units of fixed sign, bound, and where to split them."""

    problem: Index
    low: Float
    high: Float
    signs: NDArray[np.int8]
    bound: Float
    split: Index

    def take(self, index: Any) -> _Parts:
        return _Parts(*(array[index] for array in vars(self).values()))

    @staticmethod
    def join(*parts: _Parts) -> _Parts:
        arrays = zip(*(vars(part).values() for part in parts), strict=True)
        return _Parts(*(np.concatenate(group) for group in arrays))


class Branching:
    """All problems (person, row) together; problem ``i * m + j`` is row j of person i.

    Parameters
    ----------
    relaxation : LinearRelaxation
        Of n people.
    rows : ndarray, shape (m, K)
        Coefficients of the logits.
    tolerance : float
        Found and proved values count as met when they differ by this share of the found change from the
        person's own value.
    seed : int
        Of the search's random places.
    """

    def __init__(
        self, relaxation: LinearRelaxation, rows: Float, *, tolerance: float = 0.02, seed: int = 0
    ) -> None:
        region = relaxation.region
        self.relaxation, self.region, self.tolerance, self.m = relaxation, region, tolerance, len(rows)
        self.rows = np.tile(rows, (len(region), 1))
        self.person = np.repeat(np.arange(len(region)), self.m)
        self.random = np.random.default_rng(seed)
        self.slack = (relaxation.slacks[-1][self.person] * np.abs(self.rows)).sum(axis=1)
        self.own = (relaxation.logits(region.x)[self.person] * self.rows).sum(axis=1)
        self.found = self.own - self.slack
        self.closed = np.full(len(self.rows), -np.inf)

    def run(self, seconds: float = np.inf) -> Extremes:
        """Search, bound, and split the parts whose bounds are farthest above what is found."""
        end = time.monotonic() + seconds
        self.attack()
        n, k = len(self.rows), self.region.basis.shape[1]
        hidden = sum(len(bias) for _, bias in self.relaxation.layers[:-1])
        whole = _Parts(
            np.arange(n),
            self.region.free_low[self.person],
            self.region.free_high[self.person],
            np.zeros((n, hidden), dtype=np.int8),
            np.full(n, np.inf),
            np.full(n, -1),
        )
        waiting = _Parts.join(*(self.bounded(part, FIRST_STEPS) for part in _batches(whole)))
        while True:
            waiting = self.close(waiting)
            if not len(waiting.problem) or len(waiting.problem) > WAITING or time.monotonic() >= end:
                break
            excess = waiting.bound - self.goal()[waiting.problem]
            order = np.argsort(-excess, kind="stable")
            chosen, waiting = waiting.take(order[:BATCH]), waiting.take(order[BATCH:])
            waiting = _Parts.join(waiting, self.bounded(_halves(chosen, k), STEPS))
        proved = self.closed.copy()
        np.maximum.at(proved, waiting.problem, waiting.bound)
        proved = np.maximum(proved, self.found)
        shape, met = (-1, self.m), proved <= self.goal()
        return Extremes(self.found.reshape(shape), proved.reshape(shape), met.reshape(shape))

    def goal(self) -> Float:
        """The bound of each problem from which on it counts as met."""
        return self.found + self.tolerance * np.abs(self.found - self.own) + 4 * self.slack

    def close(self, parts: _Parts) -> _Parts:
        """Put aside the parts that cannot change the result, or that cannot be split."""
        done = (parts.bound <= self.goal()[parts.problem]) | (parts.split < 0)
        np.maximum.at(self.closed, parts.problem[done], parts.bound[done])
        return parts.take(~done)

    def bounded(self, parts: _Parts, steps: int) -> _Parts:
        """The parts with their bounds and the best places to split them."""
        person = self.person[parts.problem]
        region = replace(self.region.rows(person), free_low=parts.low, free_high=parts.high)
        rows = self.rows[parts.problem]
        bound, points, axes, units = self.relaxation.bound(person, region, parts.signs, rows, steps)
        self.offer(parts.problem, points)
        gains = np.hstack([axes, UNIT_WEIGHT * units])
        split = np.where(gains.max(axis=1) > 0, gains.argmax(axis=1), -1)
        return replace(parts, bound=np.minimum(bound, parts.bound), split=split)

    def offer(self, problem: Index, points: Float) -> None:
        """Keep the largest value of points, shape (p, s, d), of problems, shape (p,)."""
        values = (self.relaxation.logits(points) * self.rows[problem][:, None, :]).sum(axis=2)
        np.maximum.at(self.found, problem, values.max(axis=1) - self.slack[problem])

    def attack(self) -> None:
        """Move to where the linearised function is largest, from the person and from random places."""
        each, problem = self.region.rows(self.person), np.arange(len(self.rows))
        for start in range(STARTS):
            shares = self.random.random(each.free_low.shape) * (start > 0)
            place = each.free_low + shares * (each.free_high - each.free_low) if start else 0.0 * each.free_low
            points = each.points(np.zeros_like(each.x), place)
            # from the place along the features alone, then also along the free directions
            fixed = replace(each, free_low=place, free_high=place)
            for move in range(MOVES):
                slope = self.relaxation.gradient(points, self.rows)[:, None, :]
                points = (fixed if move < MOVES // 2 else each).towards(slope)[:, 0]
                self.offer(problem, points[:, None, :])


def _batches(parts: _Parts) -> list[_Parts]:
    return [parts.take(slice(i, i + BATCH)) for i in range(0, len(parts.problem), BATCH)]


def _halves(parts: _Parts, k: int) -> _Parts:
    """Both halves of parts at their splits: free directions first, then hidden units."""
    lower, upper = replace(parts), replace(parts)
    lower.high, upper.low = parts.high.copy(), parts.low.copy()
    lower.signs, upper.signs = parts.signs.copy(), parts.signs.copy()
    along = np.flatnonzero(parts.split < k)
    at = along, parts.split[along]
    lower.high[at] = upper.low[at] = (parts.low[at] + parts.high[at]) / 2
    units = np.flatnonzero(parts.split >= k)
    at = units, parts.split[units] - k
    lower.signs[at], upper.signs[at] = -1, 1
    return _Parts.join(lower, upper)
