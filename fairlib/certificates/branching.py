"""Branch and bound over parts of regions, until found and proved values meet or enough parts were
split.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenhand.fairlib.arrays import Float, Index
from evenhand.fairlib.certificates.measures import Ring
from evenhand.fairlib.certificates.networks import (
    Layers,
    LinearRelaxation,
    NotProvedError,
    forward,
    gradient,
    read_network,
)
from evenhand.fairlib.certificates.region import Region
from evenhand.fairlib.distances.metric_base import Metric

if TYPE_CHECKING:
    from torch import nn

# Improvements of the slopes: of a whole region, and of a part.
FIRST_STEPS = 6
STEPS = 3
# The search moves so many times from each of the best of so many places along the free directions,
# first by this share of their range.
PLACES = 64
STARTS = 4
MOVES = 20
SHARE = 0.1
# Parts that are bounded together, that are split between two sortings, and that may wait.
BATCH = 256
ROUND = 4096
WAITING = 200_000
# Fixing a unit's sign leaves the other units' bounds as they are; halving a free direction narrows
# them all.
UNIT_WEIGHT = 0.2
TOLERANCE = 0.02
# Columns of the margin and of minus the margin in the rings of a network.
MARGIN = (3, 7)


@dataclass
class _Parts:
    """Parts of regions: their problem, range of t, units of fixed sign, bounds, and where to split
    them.
    """

    problem: Index
    low: Float
    high: Float
    signs: NDArray[np.int8]
    bound: Float
    inner: Float
    split: Index

    def take(self, index: Any) -> _Parts:
        """Some of the parts.

        Parameters
        ----------
        index : ndarray of int or bool, or slice

        Returns
        -------
        _Parts
        """
        return _Parts(*(array[index] for array in vars(self).values()))

    @staticmethod
    def join(*parts: _Parts) -> _Parts:
        """Put parts one after another.

        Parameters
        ----------
        *parts : _Parts
            At least one.

        Returns
        -------
        _Parts
        """
        arrays = zip(*(vars(part).values() for part in parts), strict=True)
        return _Parts(*(np.concatenate(group) for group in arrays))


class Branching:
    """All problems (person, row) together; problem ``i * m + j`` is row j of person i.

    `relaxation` is of n people, and `rows`, shape (m, K), are coefficients of the logits. Found and
    proved values count as met when they differ by the share ``TOLERANCE`` of the found change from
    the person's own value. `inner` is the inner radius, from 0 to the regions' one radius. Between
    the two, the largest value over a radius is at most a straight line: each part's bound is affine
    in the radius, so their maximum is convex.

    Parameters
    ----------
    relaxation : LinearRelaxation
        Relaxation over the regions of n people.
    rows : ndarray of float64, shape (m, K)
        Coefficients of the logits.
    inner : float, default 0.0
        Inner radius, from 0 to the regions' one radius.
    seed : int, default 0
        Seed of the search.
    start : Moves, optional
        Good moves of smaller regions of the same people, from which the search then begins.
    """

    def __init__(
        self,
        relaxation: LinearRelaxation,
        rows: Float,
        *,
        inner: float = 0.0,
        seed: int = 0,
        start: Moves | None = None,
    ) -> None:
        region = relaxation.region
        self.relaxation = relaxation
        self.region = region
        self.m = len(rows)
        self.rows = np.tile(rows, (len(region), 1))
        self.person = np.repeat(np.arange(len(region)), self.m)
        self.random = np.random.default_rng(seed)
        self.slack = (relaxation.slacks[-1][self.person] * np.abs(self.rows)).sum(axis=1)
        self.logits = relaxation.logits(region.x)
        self.longest = np.zeros(len(region))  # longest change of all logits that a point reaches
        self.own = (self.logits[self.person] * self.rows).sum(axis=1)
        self.found = self.own - self.slack
        self.closed, self.closed_inner = np.full((2, len(self.rows)), -np.inf)
        self.start = start
        # the best moves of the search
        self.moves: Moves | None = None
        self.inner = inner
        self.radius = float(region.radius[0])
        # an infinite radius has no factor
        self.width = 0.0
        if np.isfinite(self.radius):
            self.width = self.radius - inner

    def run(self, most_parts: int = 2**62) -> Ring:
        """Search, bound, and split the parts whose bounds are farthest above what is found.

        It ends after so many parts, with the bounds so far.

        Parameters
        ----------
        most_parts : int, default 2 ** 62
            Most parts that are split; then the bounds so far are returned.

        Returns
        -------
        Ring
            Found and proved values.
        """
        count = 0
        if self.moves is None:
            self.attack()
        n = len(self.rows)
        k = self.region.basis.shape[1]
        hidden = sum(len(bias) for _, bias in self.relaxation.layers[:-1])
        whole = _Parts(
            problem=np.arange(n),
            low=self.region.free_low[self.person],
            high=self.region.free_high[self.person],
            signs=np.zeros((n, hidden), dtype=np.int8),
            bound=np.full(n, np.inf),
            inner=np.full(n, np.inf),
            split=np.full(n, -1),
        )
        bounded = [self.bounded(part, FIRST_STEPS) for part in _batches(whole)]
        waiting = self.close(_Parts.join(*bounded))
        while 0 < len(waiting.problem) <= WAITING and count < most_parts:
            order = np.argsort(self.goal()[waiting.problem] - waiting.bound, kind="stable")
            size = min(ROUND, most_parts - count)
            chosen = waiting.take(order[:size])
            waiting = waiting.take(order[size:])
            count += len(chosen.problem)
            split = (self.bounded(_halves(part, k), STEPS) for part in _batches(chosen, BATCH // 2))
            waiting = self.close(_Parts.join(waiting, *split))
        self.put_aside(waiting)
        proved = np.maximum(self.closed, self.found)
        inner = np.maximum(self.closed_inner, self.own)
        return Ring(
            inner=self.inner,
            radius=self.radius,
            own=self.own.reshape(-1, self.m),
            found=self.found.reshape(-1, self.m),
            proved=proved.reshape(-1, self.m),
            inner_proved=inner.reshape(-1, self.m),
            longest=self.longest,
        )

    def goal(self) -> Float:
        """The bound of each problem from which on it counts as met."""
        return self.found + TOLERANCE * np.abs(self.found - self.own) + 4 * self.slack

    def close(self, parts: _Parts) -> _Parts:
        """Put aside the parts that cannot change the result, or that cannot be split.

        Parameters
        ----------
        parts : _Parts
            Parts of regions.

        Returns
        -------
        _Parts
            The other parts.
        """
        done = (parts.bound <= self.goal()[parts.problem]) | (parts.split < 0)
        self.put_aside(parts.take(done))
        return parts.take(~done)

    def put_aside(self, parts: _Parts) -> None:
        """Count the parts' bounds.

        Parameters
        ----------
        parts : _Parts
            Parts of regions.
        """
        np.maximum.at(self.closed, parts.problem, parts.bound)
        np.maximum.at(self.closed_inner, parts.problem, parts.inner)

    def bounded(self, parts: _Parts, steps: int) -> _Parts:
        """The parts with their bounds and the best places to split them.

        Parameters
        ----------
        parts : _Parts
            Parts of regions.
        steps : int
            Improvements of the slopes of the relaxation.

        Returns
        -------
        _Parts
            The same parts.
        """
        person = self.person[parts.problem]
        region = replace(self.region.rows(person), free_low=parts.low, free_high=parts.high)
        rows = self.rows[parts.problem]
        bound, factor, points, axes, units = self.relaxation.bound(
            person, region, parts.signs, rows, steps
        )
        self.offer(parts.problem, points)
        gains = np.hstack([axes, UNIT_WEIGHT * units])
        # without an open unit the conditions on units are loose: halving a free direction makes
        # them idle
        idle = (gains == 0).all(axis=1, keepdims=True) & (parts.signs != 0).any(
            axis=1, keepdims=True
        )
        gains[:, : axes.shape[1]] += idle * (parts.high - parts.low)
        split = np.where(gains.max(axis=1, initial=0.0) > 0, gains.argmax(axis=1), -1)
        # both of a part or both of the part that it comes from: together they are a line
        better = bound < parts.bound
        inner = np.where(better, bound - self.width * factor, parts.inner)
        return replace(parts, bound=np.where(better, bound, parts.bound), inner=inner, split=split)

    def offer(self, problem: Index, points: Float) -> None:
        """Keep the largest value of points, shape (p, s, d), of problems, shape (p,).

        Parameters
        ----------
        problem : ndarray of intp, shape (p,)
            Problem of each row of points.
        points : ndarray of float64, shape (p, s, d)
            Points of the regions.
        """
        self._offer(problem, self.relaxation.logits(points))

    def _offer(self, problem: Index, logits: Float) -> None:
        """Keep the largest value of points by their logits, shape (p, s, K)."""
        person = self.person[problem]
        values = (logits * self.rows[problem][:, None, :]).sum(axis=2)
        np.maximum.at(self.found, problem, values.max(axis=1) - self.slack[problem])
        longest = np.linalg.norm(logits - self.logits[person][:, None, :], axis=2).max(axis=1)
        np.maximum.at(
            self.longest,
            person,
            longest - 2.0 * np.abs(self.relaxation.slacks[-1][person]).sum(axis=1),
        )

    def attack(self) -> None:
        """Climb from several places, every second time for the longest change.

        The climbs begin at the people themselves and at `start`, or without it at several random
        places. They are in single precision. Their best points count by their values in double
        precision, after they are brought into the region.
        """
        regions = self.region.rows(self.person)
        starts = [Moves(np.zeros_like(regions.x), np.zeros_like(regions.free_low))]
        starts += self.random_starts() if self.start is None else [self.start]
        climbs = _Climbs(self.relaxation, regions, self.rows)
        for number, moves in enumerate(starts):
            climbs.run(moves, for_longest=number % 2 == 1)
        for moves in (climbs.longest, climbs.best):
            delta = moves.delta.astype(np.float64)
            points = regions.points(delta, moves.t.astype(np.float64))
            self.offer(np.arange(len(self.rows)), points[:, None, :])
        self.moves = climbs.best

    def random_starts(self) -> list[Moves]:
        """The best of random places along the free directions, for every problem."""
        region = self.region
        shares = self.random.random((PLACES, *region.free_low.shape))
        tried = region.free_low + shares * (region.free_high - region.free_low)
        logits = self.relaxation.logits(region.points(np.zeros_like(region.x), tried))
        values = np.einsum("pnk,nmk->pnm", logits, self.rows.reshape(len(region), self.m, -1))
        best = np.argpartition(-values.reshape(PLACES, -1), STARTS, axis=0)[:STARTS]
        still = np.zeros_like(region.x)[self.person]
        return [Moves(still, place) for place in tried[best, self.person]]


class Moves(NamedTuple):
    """Moves of p problems: delta, shape (p, d), and t along the free directions, shape (p, k)."""

    delta: NDArray[Any]
    t: NDArray[Any]


class _Climbs:
    """Climbs of all problems together, in single precision, and the best moves of all.

    Parameters
    ----------
    relaxation : LinearRelaxation
        Its layers are used.
    regions : Region
        One for each problem.
    rows : ndarray of float64, shape (p, K)
        Coefficients of the logits of each problem.
    """

    def __init__(self, relaxation: LinearRelaxation, regions: Region, rows: Float) -> None:
        arrays = {name: _single(value) for name, value in vars(regions).items()}
        self.regions = replace(regions, **arrays)
        self.layers = [(_single(weight), _single(bias)) for weight, bias in relaxation.layers]
        self.rows = _single(rows)
        self.width = self.regions.free_high - self.regions.free_low
        self.logits, _ = forward(self.layers, self.regions.x)
        self.best = Moves(np.zeros_like(self.regions.x), np.zeros_like(self.width))
        self.longest = Moves(np.zeros_like(self.regions.x), np.zeros_like(self.width))
        self.best_value = np.einsum("pk,pk->p", self.logits, self.rows)
        self.longest_change = np.zeros_like(self.best_value)

    def run(self, start: Moves, for_longest: bool) -> None:
        """Climb with steps that shrink.

        Parameters
        ----------
        start : Moves
            Where the climb begins.
        for_longest : bool
            Whether most of it is for the longest change of the logits.
        """
        regions = self.regions
        base = regions.basis
        delta = _single(start.delta)
        place = _single(start.t)
        rows = self.rows
        for move in range(MOVES + 1):
            # as regions.points(delta, place), which are within the region already
            points = regions.x + delta + (place - delta @ base) @ base.T
            logits, active = forward(self.layers, points)
            self.keep(logits, Moves(delta, place))
            if move == MOVES:
                return
            if for_longest and move > MOVES / 4:
                rows = logits - self.logits
            slope = gradient(self.layers, active, rows)
            pace = 1.0 - move / MOVES
            along = slope @ base
            ahead = replace(regions, low=regions.low - delta, high=regions.high - delta)
            delta = regions.inside(delta + pace * ahead.steepest(slope - along @ base.T))
            # at the first move the place stays
            step = SHARE * pace**2 * (move > 0) * self.width * np.sign(along)
            place = np.clip(place + step, regions.free_low, regions.free_high)

    def keep(self, logits: NDArray[Any], moves: Moves) -> None:
        """Keep the moves that are better than the best so far.

        Parameters
        ----------
        logits : ndarray of float32, shape (p, K)
            Logits where the moves lead.
        moves : Moves
            Moves of all problems.
        """
        value = np.einsum("pk,pk->p", logits, self.rows)
        _keep_better(self.best_value, value, self.best, moves)
        change = np.square(logits - self.logits).sum(axis=1)
        _keep_better(self.longest_change, change, self.longest, moves)


def _keep_better(best: NDArray[Any], value: NDArray[Any], kept: Moves, moves: Moves) -> None:
    """Where a value is above the best one, copy it and the moves that lead there."""
    better = np.flatnonzero(value > best)
    best[better] = value[better]
    for target, source in zip(kept, moves, strict=True):
        target[better] = source[better]


def _single(value: Any) -> Any:
    """An array in single precision; anything else as it is."""
    if isinstance(value, np.ndarray):
        return value.astype(np.float32)
    return value


def network_rings(
    network: nn.Module,
    metric: Metric,
    X: ArrayLike,
    radii: Sequence[float],
    *,
    parts: int = 40,
    seed: int = 0,
) -> list[Ring]:
    r"""Bounds of a network's two logits in eight directions, up to rising fair distances from each
    person.

    Direction j is at the angle :math:`j \pi / 4`. :data:`MARGIN` are the columns of the margin, the
    second logit less the first, and of minus the margin, both divided by :math:`\sqrt 2`.

    Parameters
    ----------
    network : nn.Module
        ReLU network with two logits.
    metric : Metric
        Fitted fair metric.
    X : array-like, shape (n, d)
        The people.
    radii : sequence of float
        Fair distances, rising from 0; the last may be infinite.
    parts : int, default 40
        Parts that are split per person and radius; the result does not depend on the machine.
    seed : int, default 0
        Seed of the search.

    Returns
    -------
    list of Ring
        One per radius.

    Raises
    ------
    NotProvedError
        For a network whose layers are not known, or that has not two logits.
    """
    layers = read_network(network)
    if len(layers[-1][1]) != 2:
        raise NotProvedError(
            f"a bound is known for two logits only, and the network has {len(layers[-1][1])}"
        )
    angles = np.arange(8) * np.pi / 4
    rows = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    bounds = _RingBounds(layers, metric, X, rows, radii, parts, seed)
    last = len(radii) - 1
    bounds.run(0, None)
    if last:
        bounds.run(last, 0)
    between = [(0, last)]
    while between:
        low, high = between.pop()
        if _nearly_equal(bounds.runs[low], bounds.runs[high]):
            for number in range(low + 1, high):
                bounds.search(number, number - 1)
        elif high - low > 1:
            middle = (low + high) // 2
            bounds.run(middle, low)
            between += [(low, middle), (middle, high)]
    return _nested([bounds.ring(number) for number in range(len(radii))])


@dataclass
class _RingBounds:
    """Searches up to rising radii, and the rings of those that were also bounded."""

    layers: Layers
    metric: Metric
    X: ArrayLike
    rows: Float
    radii: Sequence[float]
    parts: int
    seed: int

    def __post_init__(self) -> None:
        self.searches: dict[int, Branching] = {}
        self.runs: dict[int, Ring] = {}

    def search(self, number: int, smaller: int | None) -> Branching:
        """Search up to a radius, from the best moves of a smaller one."""
        region = Region.of(self.metric, self.X, self.radii[number])
        search = Branching(
            LinearRelaxation(self.layers, region),
            self.rows,
            inner=self.radii[max(number - 1, 0)],
            seed=self.seed,
            start=None if smaller is None else self.searches[smaller].moves,
        )
        search.attack()
        self.searches[number] = search
        return search

    def run(self, number: int, smaller: int | None) -> None:
        """Search, and bound the values."""
        search = self.search(number, smaller)
        self.runs[number] = search.run(self.parts * len(search.region))

    def ring(self, number: int) -> Ring:
        """The ring up to a radius: what is proved for a larger one holds, too."""
        if number in self.runs:
            return self.runs[number]
        above = self.runs[min(other for other in self.runs if other > number)]
        search = self.searches[number]
        return replace(
            above,
            inner=search.inner,
            radius=search.radius,
            found=search.found.reshape(above.own.shape),
            proved=above.inner_proved,
            longest=search.longest,
        )


def _nearly_equal(low: Ring, high: Ring) -> bool:
    """Whether the bounds of all radii between two rings differ little, as changes of the values."""
    change = low.proved - low.own
    return float((high.inner_proved - low.proved).sum()) <= TOLERANCE * float(change.sum())


def _nested(rings: list[Ring]) -> list[Ring]:
    """Rings of rising radii: what a smaller region holds, a larger one holds too."""
    nested: list[Ring] = []
    largest_found = np.full((1, 1), -np.inf)
    longest = np.zeros(1)
    for ring in rings:
        assert ring.longest is not None
        largest_found = np.maximum(ring.found, largest_found)
        longest = np.maximum(ring.longest, longest)
        proved = np.maximum(ring.proved, largest_found)
        nested.append(replace(ring, found=largest_found, proved=proved, longest=longest))
    return nested


def _batches(parts: _Parts, size: int = BATCH) -> list[_Parts]:
    return [parts.take(slice(i, i + size)) for i in range(0, len(parts.problem), size)]


def _halves(parts: _Parts, k: int) -> _Parts:
    """Both halves of parts at their splits: free directions first, then hidden units."""
    lower = replace(parts)
    upper = replace(parts)
    lower.high = parts.high.copy()
    upper.low = parts.low.copy()
    lower.signs = parts.signs.copy()
    upper.signs = parts.signs.copy()
    along = np.flatnonzero(parts.split < k)
    at = along, parts.split[along]
    lower.high[at] = upper.low[at] = (parts.low[at] + parts.high[at]) / 2
    units = np.flatnonzero(parts.split >= k)
    at = units, parts.split[units] - k
    lower.signs[at] = -1
    upper.signs[at] = 1
    return _Parts.join(lower, upper)
