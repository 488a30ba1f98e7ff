"""Searches for the envelopes of all columns of a problem: exact over cells, or over lists of
neighbours.

The exact search is a branch and bound over cells of places. One byte for every place and cell holds
the root of a lower bound of the squared distance between them. The bounds stay the same while
boosting. A search needs only the largest loss in each cell, and skips every cell that cannot reach
the envelope even at its bound. Most columns need no search: `Lists` of the rows that were best at
an earlier step are proven to suffice.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from evenhand.fairlib.arrays import Float, Float32, Int
from evenhand.fairlib.execution import generator, map_in_threads
from evenhand.fairlib.transport import _transport_kernels as kernels
from evenhand.fairlib.transport.problem import SAME_PLACE, TransportProblem

Neighbours = tuple[NDArray[np.int32], Float]
# Envelopes to begin a search with: none.
NONE = np.empty(0, dtype=np.int64), np.empty(0), np.empty(0), np.empty(0, dtype=np.int64), 0

# Losses this close count as equal, relative to the largest: a little above the rounding of l - eta
# * c.
TIE = 1e-12
CHUNKS_PER_JOB = 4
# Cells per square root of the places: more cells give tighter bounds, and more bounds to compare.
CELLS_PER_ROOT = 7.0
# Most bytes of bounds.
MAX_BOUNDS = 512 * 2**20
LLOYD_ITERATIONS = 5
# Of more places, distances are computed only between cells that may matter to each other.
ALL_PAIRS = 100_000
# Most cells then, and bytes of bounds that are kept; places in k-means; cells that are known at
# first.
MAX_CELLS = 16_384
MAX_NEAR = 4 * 2**30
SAMPLED = 131_072
FIRST_CELLS = 16
# Of these cells, parts of at most so many places have bounds of their own.
PART_ROWS = 256
BLOCK_BYTES = 64 * 2**20
# Of products that are made and read while they are in the processor's cache.
CACHED_BYTES = 2 * 2**20
# The unit of a bound is this quantile of all bounds / 255^2: larger distances have the root 255.
RANGE_QUANTILE = 0.9
# Share of the root of a quotient that single precision may round up to the next whole number.
ROOT_ROUNDING = np.float32(1.0 - 1e-6)
# Share of the largest loss by which single precision may be off in a difference of losses.
SINGLE_ROUNDING = 1e-6
# Rows of a list, and tables of losses that the bounds of lists may refer to.
LISTED = 128
TABLES = 24
# Most rows, as a share of all, whose rise is looked at one by one.
MOVERS = 0.015
# Lists are used in brackets of at most this ratio.
NARROW = 1.1


@dataclass(frozen=True)
class Envelopes:
    """Envelopes of all queries: query q has the vertices ``start[q]:start[q + 1]``, by ascending
    cost.
    """

    start: Int
    cost: Float
    loss: Float
    place: Int


class ColumnSearch:
    """Finds, for every query of a problem, its upper envelope within a bracket of multipliers.

    The result does not depend on the number of threads, `jobs`. With `neighbours` only so many
    nearest places are searched: exact among them. None searches all, by branch and bound.
    """

    def __init__(
        self, problem: TransportProblem, jobs: int = 1, neighbours: int | None = None
    ) -> None:
        if neighbours is not None and neighbours < 1:
            raise ValueError(f"neighbours must be at least 1, got {neighbours!r}.")
        self.problem = problem
        self.jobs = jobs
        self.cells = None
        # (m, k): the first k places by ascending cost from every place, and their costs
        self.nearest: Neighbours | None = None
        self.floor = float(SAME_PLACE * np.abs(problem.places).max(initial=0.0)) ** 2
        if neighbours is None:
            self.cells = build_cells(problem.places, jobs)
        else:
            self.nearest = _nearest_lists(problem.places, neighbours, jobs)
        # a cost that few exceed, if the bounds of costs are computed when they are needed; else 0
        self.least_cost = (
            0.0 if self.cells is None or self.cells.near is None else 255 * self.cells.unit
        )
        self.begin()
        # ties are hashed by place, whatever the order of the places
        self._names = np.arange(problem.n_places) if self.cells is None else self.cells.place

    def begin(self) -> None:
        """Forget the losses of earlier calls."""
        self.lists: Lists | None = None
        self.loaded = 0

    def load(self, losses: Float, key: int) -> None:
        """Take the losses, shape (classes, n), and the key that decides ties."""
        self.losses = losses
        self.key = np.uint64(key)
        self.tie = TIE * float(np.abs(losses).max())
        self.largest = self.problem.largest_losses(losses)
        self.loaded += 1
        if self.cells is None:
            self._table: tuple[Any, ...] = (self.largest, self.largest.max(axis=1))
        else:
            by_position = np.ascontiguousarray(self.largest[:, self.cells.place])
            single = np.empty((len(losses), 0), dtype=np.float32)
            if self.cells.near is not None:
                # rounded up, and by more than differences round
                single = (by_position + SINGLE_ROUNDING * np.abs(losses).max()).astype(np.float32)
            top = np.maximum.reduceat(by_position, self.cells.start[:-1], axis=1)
            if self.cells.near is not None:
                self.cells.near.load(top)
            self._table = (by_position, top, single)

    def envelopes(self, low: float, high: float, queries: Int | None = None) -> Envelopes:
        """Upper envelopes on [low, high], with 0 <= low <= high < inf.

        `queries` are numbers of queries, None for all; the envelopes are in their order.
        """
        asked = slice(None) if queries is None else queries
        place = self.problem.query_place[asked]
        label = self.problem.query_label[asked]
        limits = kernels.Limits(low, high, self.tie, self.floor, self.key, self._names)
        search: Callable[..., tuple[int, int]]
        cells = self.cells
        near = None
        order = np.arange(len(place))
        if cells is not None:
            search = kernels.search_cells
            near = cells.near
            lists = Lists.none()
            if near is not None:
                order = np.argsort(cells.position[place], kind="stable")
            elif queries is None and self.loaded > 1 and low > 0.0 and high <= NARROW * low:
                self.lists = self.lists or Lists(len(place), self.problem.n_places)
                lists = self.lists.at(low, high, self._table[0], label)
            at: tuple[Any, ...] = (order, cells.position[place], label, *lists)
            index: tuple[Any, ...] = (cells.start[:-1], cells.start[1:], cells.bounds, 0)
            index = (self.problem.places, *cells.lead, cells.unit, *index)
        else:
            search = kernels.search_lists
            at = (place, label)
            index = self.nearest or ()
        sizes = np.zeros(len(place), dtype=np.int64)

        def run(
            first: int, last: int, index: Any, table: Any, before: Any = NONE, least: Any = None
        ) -> Any:
            """Costs, losses and rows of consecutive queries; where a buffer fills up, go on with
            another.
            """
            reached = first
            pieces = []
            room = 4 * (last - first) + len(before[1]) + 64
            least = np.empty((len(table[0]), 2)) if least is None else least
            while reached < last:
                out = np.empty(room), np.empty(room), np.empty(room, dtype=np.int64)
                begin = reached
                reached, written = search(
                    begin, last, at, index, table, limits, before, (sizes, *out, least)
                )
                pieces.append([part[:written] for part in out])
                room = room if reached > begin else 4 * room
            return [np.concatenate(parts) for parts in zip(*pieces, strict=True)]

        def run_cell(first: int, last: int, cell: int) -> Any:
            """The queries of one cell, over the cells that are near it, and over others that may
            matter.
            """
            assert near is not None
            before = NONE
            done = 0
            while True:
                listed, known = near.of(cell, done)
                least = np.full((len(self._table[0]), 2), np.inf)
                table = self._table[0], self._table[1][:, listed], self._table[2]
                found = run(first, last, (*index[:-4], *known), table, before, least)
                done += len(listed)
                if not near.add(cell, index[-5], limits, least):
                    near.release(cell)
                    return found
                start = np.concatenate([[0], np.cumsum(sizes[order[first:last]])])
                before = (start, *found, first)

        if cells is not None and near is not None:
            owner = np.searchsorted(near.start, cells.position[place[order]], side="right") - 1
            edges = np.append(np.flatnonzero(np.diff(owner, prepend=-1)), len(place))
            # one thread for each product: with two, two threads of the search took twice the time
            with threadpool_limits(1, "blas"):
                done = map_in_threads(self.jobs, run_cell, edges[:-1], edges[1:], owner[edges[:-1]])
        else:
            parts = 1 if self.jobs == 1 else CHUNKS_PER_JOB * self.jobs
            edges = np.unique(np.linspace(0, len(place), parts + 1).astype(int))
            search_all = partial(run, index=index, table=self._table)
            done = map_in_threads(self.jobs, search_all, edges[:-1], edges[1:])
        cost, loss, found = (np.concatenate(parts) for parts in zip(*done, strict=True))
        start = np.concatenate([[0], np.cumsum(sizes)])
        if near is not None:
            # from the order of the search to that of the queries
            begin = np.empty(len(place), dtype=np.int64)
            begin[order] = np.cumsum(sizes[order]) - sizes[order]
            vertex = np.arange(start[-1]) + np.repeat(begin - start[:-1], sizes)
            cost = cost[vertex]
            loss = loss[vertex]
            found = found[vertex]
        return Envelopes(start, cost, loss, self._names[found])

    def unproven(self, eta: float, best: Float) -> Float:
        """Upper bound, by query, of loss - eta * cost over all rows; `best` where that is proven.

        `best`, shape (queries,), is the largest value found.
        """
        # a list of all places leaves nothing out
        if self.nearest is None or self.nearest[1].shape[1] == self.problem.n_places:
            return best
        last = self.nearest[1][self.problem.query_place, -1]
        ceiling = self.largest.max(axis=1)[self.problem.query_label] - eta * last
        return np.maximum(best, np.where(ceiling > best + self.tie, ceiling, best))

    def members(self, places: Int, labels: Int, columns: Int) -> Int:
        """Row that receives each column's mass at a place: one of the largest loss there, at
        random.

        `places`, `labels` and `columns` have equal shapes.
        """
        problem = self.problem
        rows = np.empty(len(places), dtype=np.int64)
        for k in range(problem.classes):
            mine = labels == k
            if not mine.any():
                continue
            # rows within a tie of their place's largest loss, counted by place
            loss = self.losses[k, problem.rows_by_place]
            best = loss >= np.repeat(self.largest[k], np.diff(problem.place_start)) - self.tie
            count = np.add.reduceat(best.astype(np.int64), problem.place_start[:-1])
            first = np.concatenate([[0], np.cumsum(count)])
            # one of them for every column
            drawn = kernels.tie_hashes(self.key, columns[mine], np.uint64(k))
            draw = drawn % count[places[mine]].astype(np.uint64)
            rows[mine] = problem.rows_by_place[best][first[places[mine]] + draw.astype(np.int64)]
        return rows


def _nearest_lists(places: Float, neighbours: int, jobs: int) -> Neighbours:
    """The nearest places of every place, itself included, with their exact squared distances."""
    from sklearn.neighbors import NearestNeighbors

    m = len(places)
    k = min(neighbours, len(places))
    search = NearestNeighbors(n_neighbors=k, n_jobs=jobs).fit(places)
    listed = np.empty((m, k), dtype=np.int32)
    costs = np.empty((m, k))
    # all at once would take three times the memory of the lists
    for rows in np.array_split(np.arange(m), -(-8 * m * k // BLOCK_BYTES)):
        found = search.kneighbors(places[rows], return_distance=False)
        own = np.empty(found.shape)
        kernels.listed_distances(places, rows[0], found, own)
        order = np.argsort(own, axis=1, kind="stable")
        listed[rows] = np.take_along_axis(found, order, axis=1)
        costs[rows] = np.take_along_axis(own, order, axis=1)
    return listed, costs


@dataclass(frozen=True)
class Cells:
    """Places in cell order: those of one cell follow one another."""

    # (LEADING, m): principal coordinates in single precision; a squared distance is at least theirs
    # times the first number less the second; not used if that is 0
    lead: tuple[Float32, float, float]
    # (m,): place at each position, and position of each place
    place: Int
    position: Int
    # (cells + 1,): first position of every cell, or of every part of one if there is a `near`
    start: Int
    # (m, cells): roots of lower bounds of the squared distance from a position to all places of a
    # cell, in units; no columns where these are computed when they are needed, in `near`
    bounds: NDArray[np.uint8]
    unit: float
    near: NearCells | None = None


class NearCells:
    """Bounds between cells, and from the places of a cell to the cells that its envelopes needed so
    far.

    The latter are by the parts of cells, `part[c]:part[c + 1]`.
    """

    def __init__(self, distances: _Distances, part: Int, unit: float, jobs: int) -> None:
        self.distances = distances
        self.part = part
        self.unit = unit
        # (cells + 1,): first position of every cell
        self.start = distances.start[part]
        # (cells, cells): roots of lower bounds of the squared distance, in units
        self.apart = distances.gaps(self.start, unit, jobs)
        # by cell: the parts whose bounds are known, a mask of their cells, and the bounds by place
        self.listed = [np.empty(0, dtype=np.int64)] * len(self.apart)
        self.known = np.zeros(self.apart.shape, dtype=bool)
        self.bounds = [np.empty((size, 0), dtype=np.uint8) for size in np.diff(self.start)]
        self.kept = 0

    def load(self, top: Float) -> None:
        """Take the largest losses by class and part."""
        self.top = np.maximum.reduceat(top, self.part[:-1], axis=1)

    def of(self, cell: int, done: int) -> tuple[Int, tuple[Any, ...]]:
        """Parts whose bounds are known, but for those `done`; and their part of an index of a
        search.
        """
        if not len(self.listed[cell]):
            nearest = np.argsort(self.apart[cell], kind="stable")[:FIRST_CELLS]
            self._extend(cell, np.union1d(nearest, [cell]))
        listed = self.listed[cell][done:]
        start = self.distances.start
        bounds = np.ascontiguousarray(self.bounds[cell][:, done:])
        return listed, (start[listed], start[listed + 1], bounds, self.start[cell])

    def add(self, cell: int, unit: float, limits: kernels.Limits, least: Float) -> bool:
        """Compute the bounds to all cells that can reach the least values; whether there
        were any.
        """
        rates = limits.low * unit, limits.high * unit
        missing = kernels.reaching(self.apart[cell], self.known[cell], self.top, rates, least)
        if len(missing):
            self._extend(cell, missing)
        return len(missing) > 0

    def release(self, cell: int) -> None:
        """Drop the bounds of a cell if those of all take too much memory; a search computes them
        again.
        """
        if self.kept > MAX_NEAR:
            self.kept -= self.bounds[cell].nbytes
            self.known[cell] = False
            self.listed[cell], self.bounds[cell] = (
                self.listed[cell][:0],
                self.bounds[cell][:, :0].copy(),
            )

    def _extend(self, cell: int, others: Int) -> None:
        others = others[np.argsort(self.apart[cell, others], kind="stable")]
        parts = _ranges(self.part[others], self.part[others + 1])
        start = self.distances.start
        rows = slice(self.start[cell], self.start[cell + 1])
        sizes = np.cumsum(start[parts + 1] - start[parts])
        width = max(1, CACHED_BYTES // (4 * (rows.stop - rows.start)))
        blocks = np.split(parts, np.flatnonzero(np.diff(sizes // width)) + 1)
        found = [_units(self.distances.nearest(rows, block), self.unit) for block in blocks]
        self.kept += sum(block.nbytes for block in found)
        self.bounds[cell] = np.concatenate([self.bounds[cell], *found], axis=1)
        self.listed[cell] = np.append(self.listed[cell], parts)
        # last: what is interrupted before counts as missing
        self.known[cell, others] = True


class _Distances:
    """Lower bounds of squared distances from products in single precision, less their rounding."""

    def __init__(self, scaled: _Scaled, start: Int) -> None:
        self.start = start
        self.single = np.empty(scaled.places.shape, dtype=np.float32)
        norms = np.empty(len(self.single))
        for rows, points in scaled.blocks():
            self.single[rows] = points
            norms[rows] = np.einsum("ij,ij->i", points, points)
        # |a|^2 + |b|^2 - 2ab in single precision is off by less than this share of |a|^2 + |b|^2
        self.slack = 2.0 * (scaled.places.shape[1] + 8) * float(np.finfo(np.float32).eps)
        self.low = (norms * (1.0 - self.slack)).astype(np.float32)
        self.largest = float(norms.max(initial=0.0))

    def nearest(
        self, rows: Int | slice, cells: Int | None = None, products: Float32 | None = None
    ) -> Float32:
        """Lower bounds of the squared distances of some rows to some cells, all of them by
        default.
        """
        start = self.start
        low = self.low
        single = self.single
        if cells is not None:
            columns = _ranges(start[cells], start[cells + 1])
            start = np.concatenate([[0], np.cumsum(start[cells + 1] - start[cells])])
            low = low[columns]
            single = single[columns]
        if products is None:
            products = self.single[rows] @ single.T
        found = np.empty((len(products), len(start) - 1), dtype=np.float32)
        kernels.nearest_cells(products, self.low[rows], low, start, found)
        return found

    def gaps(self, start: Int, unit: float, jobs: int) -> NDArray[np.uint8]:
        """Roots of lower bounds of the squared distances between cells, shape (cells, cells), in
        units.

        `start`, shape (cells + 1,), are their first positions. Two cells are apart by at least the
        gap between the intervals that they cover on the line through their centres.
        """
        sizes = np.diff(start)
        centres = np.add.reduceat(self.single, start[:-1], axis=0) / sizes[:, None].astype(
            np.float32
        )
        least = np.full((len(sizes), len(sizes)), np.inf, dtype=np.float32)
        owner = np.repeat(np.arange(len(sizes)), sizes)

        def fill(first: int, last: int) -> None:
            for block in _slices(start[last] - start[first], CACHED_BYTES // (4 * len(sizes))):
                rows = slice(start[first] + block.start, start[first] + block.stop)
                kernels.lower_margins(self.single[rows] @ centres.T, owner[rows], least)

        edges = np.searchsorted(
            start, np.arange(0, start[-1], max(1, BLOCK_BYTES // (4 * len(sizes))))
        )
        edges = np.unique(np.append(edges, len(sizes)))
        map_in_threads(jobs, fill, edges[:-1], edges[1:])
        centres = centres.astype(np.float64)
        squared = np.einsum("ij,ij->i", centres, centres)
        found = np.empty(least.shape, dtype=np.uint8)
        for rows in _slices(len(sizes), BLOCK_BYTES // (8 * len(sizes))):
            apart = squared[rows, None] + squared - 2.0 * (centres[rows] @ centres.T)
            gap = least[rows] + least[:, rows].T - np.float32(2.0 * self.slack * self.largest)
            gap = np.maximum(gap, np.float32(0.0))
            bounds = gap * gap / (apart + 1e-12 * self.largest + 1e-30).astype(np.float32)
            found[rows] = _units(bounds, unit)
        return found


def _units(bounds: Float32, unit: float) -> NDArray[np.uint8]:
    """Roots of bounds in units, rounded down."""
    roots = np.sqrt(bounds / np.float32(unit)) * ROOT_ROUNDING
    return np.minimum(roots, np.float32(255.0)).astype(np.uint8)


def _ranges(first: Int, last: Int) -> Int:
    """Numbers from each `first` to before its `last`, one range after another."""
    sizes = last - first
    before = np.cumsum(sizes) - sizes
    return np.arange(sizes.sum()) + np.repeat(first - before, sizes)


def _halved(places: Int, lead: Float32) -> list[Int]:
    """Places in parts of at most `PART_ROWS`, halved where a coordinate of `lead` varies most."""
    if len(places) <= PART_ROWS:
        return [places]
    here = lead[:, places]
    places = places[np.argsort(here[here.var(axis=1).argmax()], kind="stable")]
    half = len(places) // 2
    return _halved(places[:half], lead) + _halved(places[half:], lead)


def _slices(rows: int, size: int) -> list[slice]:
    """Slices of so many rows, at least one, that cover all rows."""
    size = max(1, size)
    return [slice(first, min(first + size, rows)) for first in range(0, rows, size)]


@dataclass(frozen=True)
class _Scaled:
    """Places in some order, divided by a scale: in blocks, because a copy of all takes as much as
    they.
    """

    places: Float
    order: Int
    scale: float

    def blocks(self) -> Iterator[tuple[slice, Float]]:
        """Slices of the order, and the places there."""
        for rows in _slices(len(self.order), BLOCK_BYTES // (8 * max(1, self.places.shape[1]))):
            yield rows, self.places[self.order[rows]] / self.scale


def _leading(scaled: _Scaled) -> tuple[Float32, float, float]:
    """Principal coordinates, as in `Cells.lead`."""
    products = sum(points.T @ points for _, points in scaled.blocks())
    axes = np.linalg.eigh(products)[1][:, ::-1][:, : kernels.LEADING]
    scale = scaled.scale
    lead = np.zeros((kernels.LEADING, len(scaled.order)), dtype=np.float32)
    for rows, points in scaled.blocks():
        lead[: axes.shape[1], rows] = (points @ axes).T
    # single precision rounds each difference; (a + b)^2 <= 1.0005 a^2 + 2001 b^2
    rounding = 2.0 * float(np.finfo(np.float32).eps * np.abs(lead).max(initial=0.0))
    return lead, 0.999 * scale**2, 2001.0 * kernels.LEADING * (scale * rounding) ** 2


def build_cells(places: Float, jobs: int) -> Cells:
    """Group places by k-means and bound the distance of every place to every cell.

    The bounds are computed from all pairwise distances in single precision, less their rounding, so
    that no bound exceeds a distance. Memory: the bounds and one block of distances. Of more than
    `ALL_PAIRS` places the distances are computed only between cells that are not proven to be too
    far apart.
    """
    m = len(places)
    lazy = m > ALL_PAIRS
    wanted = int(min(CELLS_PER_ROOT * np.sqrt(m), MAX_CELLS if lazy else MAX_BOUNDS / m))
    # scaled by the largest coordinate, squares stay within single precision
    scale = float(np.abs(places).max(initial=0.0)) or 1.0
    cell_of = np.arange(m)
    if wanted < m:
        means = KMeans(
            max(1, wanted), init="random", n_init=1, max_iter=LLOYD_ITERATIONS, random_state=0
        )
        rows = (
            generator(0, "cells").choice(m, SAMPLED, replace=False) if m > SAMPLED else slice(None)
        )

        def assigned(rows: slice) -> Int:
            return means.predict((places[rows] / scale).astype(np.float32))  # type: ignore[no-any-return]

        # one thread: sums in another order would give other cells on another machine
        with threadpool_limits(1), warnings.catch_warnings():
            # fewer places than cells in single precision: empty cells are dropped below
            warnings.simplefilter("ignore", ConvergenceWarning)
            cell_of = means.fit((places[rows] / scale).astype(np.float32)).labels_
            if m > SAMPLED:
                cell_of = np.concatenate(map_in_threads(jobs, assigned, _slices(m, SAMPLED)))
    place = np.argsort(cell_of, kind="stable")
    start = np.append(np.flatnonzero(np.diff(cell_of[place], prepend=-1)), m)
    lead = np.zeros((kernels.LEADING, 1), dtype=np.float32), 0.0, 0.0
    if lazy:
        lead = _leading(_Scaled(places, np.arange(m), scale))
        parts = [_halved(place[rows], lead[0]) for rows in map(slice, start[:-1], start[1:])]
        part = np.cumsum([0, *map(len, parts)])
        place = np.concatenate([rows for cell in parts for rows in cell])
        start = np.cumsum([0, *(len(rows) for cell in parts for rows in cell)])
        lead = lead[0][:, place], *lead[1:]
    position = np.empty(m, dtype=np.int64)
    position[place] = np.arange(m)
    distances = _Distances(_Scaled(places, place, scale), start)
    sample = np.linspace(0, m - 1, min(m, 256)).astype(np.int64)
    # all at once, their products with ten million places would take 10 GB
    nearest = [
        distances.nearest(sample[part]) for part in _slices(len(sample), BLOCK_BYTES // (4 * m))
    ]
    unit = max(float(np.quantile(np.concatenate(nearest), RANGE_QUANTILE)), 1e-30) / 255.0**2
    if lazy:
        with threadpool_limits(1, "blas"):
            near = NearCells(distances, part, unit, jobs)
        return Cells(
            lead, place, position, start, np.empty((m, 0), np.uint8), unit * scale**2, near
        )
    bounds = np.empty((m, len(start) - 1), dtype=np.uint8)

    def fill(first: int, products: Float32) -> None:
        rows = slice(first, first + len(products))
        bounds[rows] = _units(distances.nearest(rows, products=products), unit)

    width = max(1, BLOCK_BYTES // (4 * m))
    for first in range(0, m, width):
        parts = np.array_split(distances.single[first : first + width] @ distances.single.T, jobs)
        starts = first + np.cumsum([0, *(len(part) for part in parts[:-1])])
        map_in_threads(jobs, fill, starts, parts)
    return Cells(lead, place, position, start, bounds, unit * scale**2)


class Lists:
    """For every query the rows that are best at some multiplier, in this order, with bounds of all
    others.

    With losses L and a multiplier m, the value of row i at cost c is L_i - m c. If no row after a
    place in the list has a value above b, then with losses L' and a multiplier m' none has one
    above

        (m' / m) b + max_i (L'_i - (m' / m) L_i),

    for the costs cancel. The rows up to there suffice until this bound reaches the best of them.
    """

    def __init__(self, queries: int, places: int) -> None:
        keep = min(LISTED, places)
        self.rows = np.zeros((queries, keep), dtype=np.int32)
        self.costs = np.zeros((queries, keep))
        self.rest = np.zeros((queries, -(-keep // kernels.STRIDE)))
        # by query the number of its table; -1: no list yet
        self.since = np.full(queries, -1, dtype=np.int8)
        # multipliers and losses by position, to which the bounds refer
        self.tables: list[tuple[float, Float]] = []

    def at(self, low: float, high: float, losses: Float, labels: Int) -> tuple[Any, ...]:
        """The lists, and by table the factors and the constants of their bounds at both ends of a
        bracket.
        """
        self.tables.append((float(np.sqrt(low * high)), losses))
        if len(self.tables) > TABLES:
            # the bounds of the oldest table become bounds of the next
            (oldest, before), (later, now) = self.tables[:2]
            old = self.since == 0
            self.rest[old] *= later / oldest
            rises = (now - later / oldest * before).max(axis=1)
            self.rest[old] += rises[labels[old], None]
            self.since[self.since > 0] -= 1
            del self.tables[0]
        return self._bounds(low, high, losses)

    def _bounds(self, low: float, high: float, losses: Float) -> tuple[Any, ...]:
        scale = np.array([[low / middle, high / middle] for middle, _ in self.tables]).reshape(
            -1, 2
        )
        classes, m = losses.shape
        room = int(np.ceil(MOVERS * m))
        rise, others = np.empty((2, len(scale), classes, 2))
        movers = np.empty((len(scale), classes, room), dtype=np.int32)
        climbs = np.empty((len(scale), classes, room, 2))
        for g, (_, table) in enumerate(self.tables):
            for k in range(classes):
                out = rise[g, k], others[g, k], movers[g, k], climbs[g, k]
                kernels.split_rises(losses[k], table[k], scale[g], *out)
        return self.rows, self.costs, self.rest, self.since, scale, rise, others, movers, climbs

    @classmethod
    def none(cls) -> tuple[Any, ...]:
        """Lists of no rows, for searches without."""
        return cls(1, 0)._bounds(1.0, 1.0, np.empty((0, 0)))
