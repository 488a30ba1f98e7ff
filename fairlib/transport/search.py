"""Searches for the envelopes of all columns of a problem: exact over cells, or over lists of neighbours.

The exact search is a branch and bound over cells of places. One byte for every place and cell holds a lower
bound of the squared distance between them. The bounds stay the same while boosting. A search needs only the
largest loss in each cell, and skips every cell that cannot reach the envelope even at its bound.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from evenhand.fairlib.arrays import Float, Float32, Int
from evenhand.fairlib.execution import map_in_threads
from evenhand.fairlib.transport import _kernels as kernels
from evenhand.fairlib.transport.problem import SAME_PLACE, TransportProblem

Lists = tuple[NDArray[np.int32], Float]

# Losses this close count as equal, relative to the largest: a little above the rounding of l - eta * c.
TIE = 1e-12
CHUNKS_PER_JOB = 4
# Cells per square root of the places: more cells give tighter bounds, and more bounds to compare.
CELLS_PER_ROOT = 7.0
# Most bytes of bounds.
MAX_BOUNDS = 512 * 2**20
LLOYD_ITERATIONS = 5
BLOCK_BYTES = 64 * 2**20
# The unit of a bound is this quantile of all bounds / 255: larger distances have the bound 255.
RANGE_QUANTILE = 0.9
# Share of a quotient that single precision may round up to the next whole number.
DIVISION_ROUNDING = np.float32(1.0 - 1e-6)


@dataclass(frozen=True)
class Envelopes:
    """Envelopes of all queries: query q has the vertices ``start[q]:start[q + 1]``, by ascending cost."""

    start: Int
    cost: Float
    loss: Float
    place: Int


class ColumnSearch:
    """Finds, for every query of a problem, its upper envelope within a bracket of multipliers.

    The result does not depend on the number of threads, `jobs`. With `neighbours` only so many nearest places
    are searched: exact among them. None searches all, by branch and bound. ``warm``, int32 of shape
    (queries,), is a place that is likely to be on each query's envelope: at first its own.
    """

    def __init__(self, problem: TransportProblem, jobs: int = 1, neighbours: int | None = None) -> None:
        if neighbours is not None and neighbours < 1:
            raise ValueError(f"neighbours must be at least 1, got {neighbours!r}.")
        self.problem = problem
        self.jobs = jobs
        self.cells = None
        # (m, k): the first k places by ascending cost from every place, and their costs
        self.lists: Lists | None = None
        self.floor = float(SAME_PLACE * np.abs(problem.places).max(initial=0.0)) ** 2
        if neighbours is None:
            self.cells = build_cells(problem.places, jobs)
        else:
            self.lists = _nearest_lists(problem.places, neighbours, jobs)
        # ties are hashed by place, whatever the order of the places
        self._names = np.arange(problem.n_places) if self.cells is None else self.cells.place
        self.warm = problem.query_place.astype(np.int32)

    def load(self, losses: Float, key: int) -> None:
        """Take the losses, shape (classes, n), and the key that decides ties."""
        self.losses = losses
        self.key = np.uint64(key)
        self.tie = TIE * float(np.abs(losses).max())
        self.largest = self.problem.largest_losses(losses)
        if self.cells is not None:
            by_position = np.ascontiguousarray(self.largest[:, self.cells.place])
            self._table: tuple[Any, ...] = (by_position, *self.cells.order(by_position))
        else:
            self._table = (self.largest, self.largest.max(axis=1))

    def envelopes(self, low: float, high: float, queries: Int | None = None) -> Envelopes:
        """Upper envelopes on [low, high], with 0 <= low <= high < inf.

        `queries` are numbers of queries, None for all; the envelopes are in their order.
        """
        asked = slice(None) if queries is None else queries
        place, label = self.problem.query_place[asked], self.problem.query_label[asked]
        limits = kernels.Limits(low, high, self.tie, self.floor, self.key, self._names)
        cells = self.cells
        search: Callable[..., tuple[int, int]]
        if cells is not None:
            search = kernels.search_cells
            at: tuple[Any, ...] = (cells.position[place], label, cells.position[self.warm[asked]])
            index: tuple[Any, ...] = (cells.points, cells.start, cells.bounds, cells.unit)
        else:
            search, at, index = kernels.search_lists, (place, label), self.lists or ()
        sizes = np.zeros(len(place), dtype=np.int64)

        def run(first: int, last: int) -> list[tuple[Float, Float, Int]]:
            """Search consecutive queries; where a buffer fills up, go on with another."""
            pieces = []
            room = 4 * (last - first) + 64
            while first < last:
                out = np.empty(room), np.empty(room), np.empty(room, dtype=np.int64)
                reached, written = search(first, last, at, index, self._table, limits, (sizes, *out))
                pieces.append((out[0][:written], out[1][:written], out[2][:written]))
                room = room if reached > first else 4 * room
                first = reached
            return pieces

        parts = 1 if self.jobs == 1 else CHUNKS_PER_JOB * self.jobs
        edges = np.unique(np.linspace(0, len(place), parts + 1).astype(int))
        pieces = [piece for done in map_in_threads(self.jobs, run, edges[:-1], edges[1:]) for piece in done]
        cost, loss, found = (np.concatenate([piece[k] for piece in pieces]) for k in range(3))
        return Envelopes(np.concatenate([[0], np.cumsum(sizes)]), cost, loss, self._names[found])

    def unproven(self, eta: float, best: Float) -> Float:
        """Upper bound, by query, of loss - eta * cost over all rows; `best` where that is proven.

        `best`, shape (queries,), is the largest value found.
        """
        # a list of all places leaves nothing out
        if self.lists is None or self.lists[1].shape[1] == self.problem.n_places:
            return best
        last = self.lists[1][self.problem.query_place, -1]
        ceiling = self.largest.max(axis=1)[self.problem.query_label] - eta * last
        return np.maximum(best, np.where(ceiling > best + self.tie, ceiling, best))

    def draws(self, columns: Int) -> NDArray[np.uint64]:
        """A random number for every column, the same for the same key."""
        return kernels.tie_hashes(self.key, columns, np.uint64(self.problem.n))  # type: ignore[no-any-return]

    def members(self, places: Int, labels: Int, columns: Int) -> Int:
        """Row that receives each column's mass at a place: one of the largest loss there, at random.

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


def _nearest_lists(places: Float, neighbours: int, jobs: int) -> Lists:
    """The nearest places of every place, itself included, with their exact squared distances."""
    from sklearn.neighbors import NearestNeighbors

    search = NearestNeighbors(n_neighbors=min(neighbours, len(places)), n_jobs=jobs).fit(places)
    found = search.kneighbors(places, return_distance=False)
    costs = np.empty(found.shape)
    kernels.listed_distances(places, found, costs)
    order = np.argsort(costs, axis=1, kind="stable")
    listed = np.take_along_axis(found, order, axis=1).astype(np.int32)
    return listed, np.take_along_axis(costs, order, axis=1)


@dataclass(frozen=True)
class Cells:
    """Places in cell order: those of one cell are neighbours in memory."""

    # (m, d): places in cell order
    points: Float
    # (m,): place at each position, and position of each place
    place: Int
    position: Int
    # (cells + 1,): first position of every cell
    start: Int
    # (m, cells): lower bounds of the squared distance from a position to all places of a cell, in units
    bounds: NDArray[np.uint8]
    unit: float

    def order(self, losses: Float) -> tuple[Int, Float]:
        """Positions of every cell by descending loss, and its largest loss, from losses (classes, m)."""
        ordered = np.empty(losses.shape, dtype=np.int64)
        cell_of = np.repeat(np.arange(len(self.start) - 1), np.diff(self.start))
        for k, row in enumerate(losses):
            ordered[k] = np.lexsort((-row, cell_of))
        return ordered, np.maximum.reduceat(losses, self.start[:-1], axis=1)


def build_cells(places: Float, jobs: int) -> Cells:
    """Group places by k-means and bound the distance of every place to every cell.

    The bounds are computed from all pairwise distances in single precision, less their rounding, so that no
    bound exceeds a distance. Memory: the bounds and one block of distances.
    """
    m = len(places)
    wanted = int(min(CELLS_PER_ROOT * np.sqrt(m), MAX_BOUNDS / m))
    # scaled by the largest coordinate, squares stay within single precision
    scale = float(np.abs(places).max(initial=0.0)) or 1.0
    cell_of = np.arange(m)
    if wanted < m:
        means = KMeans(max(1, wanted), init="random", n_init=1, max_iter=LLOYD_ITERATIONS, random_state=0)
        # one thread: sums in another order would give other cells on another machine
        with threadpool_limits(1), warnings.catch_warnings():
            # fewer places than cells in single precision: empty cells are dropped below
            warnings.simplefilter("ignore", ConvergenceWarning)
            cell_of = means.fit((places / scale).astype(np.float32)).labels_
    place = np.argsort(cell_of, kind="stable")
    position = np.empty(m, dtype=np.int64)
    position[place] = np.arange(m)
    start = np.append(np.flatnonzero(np.diff(cell_of[place], prepend=-1)), m)
    points = np.ascontiguousarray(places[place])

    scaled = points / scale
    single = scaled.astype(np.float32)
    norms = np.einsum("ij,ij->i", scaled, scaled)
    # |a|^2 + |b|^2 - 2ab in single precision is off by less than this share of |a|^2 + |b|^2
    slack = 2.0 * (points.shape[1] + 8) * float(np.finfo(np.float32).eps)
    low = (norms * (1.0 - slack)).astype(np.float32)

    def nearest(rows: Int | slice, products: Float32) -> Float32:
        """Lower bounds of the squared distances of some rows to every cell."""
        found = np.empty((len(products), len(start) - 1), dtype=np.float32)
        kernels.nearest_cells(products, low[rows], low, start, found)
        return found

    sample = np.linspace(0, m - 1, min(m, 256)).astype(np.int64)
    sampled = nearest(sample, single[sample] @ single.T)
    unit = max(float(np.quantile(sampled, RANGE_QUANTILE)), 1e-30) / 255.0
    bounds = np.empty((m, len(start) - 1), dtype=np.uint8)

    def fill(first: int, products: Float32) -> None:
        rows = slice(first, first + len(products))
        units = nearest(rows, products) / np.float32(unit) * DIVISION_ROUNDING
        bounds[rows] = np.minimum(units, np.float32(255.0))

    width = max(1, BLOCK_BYTES // (4 * m))
    for first in range(0, m, width):
        parts = np.array_split(single[first : first + width] @ single.T, jobs)
        starts = first + np.cumsum([0, *(len(part) for part in parts[:-1])])
        map_in_threads(jobs, fill, starts, parts)
    return Cells(points, place, position, start, bounds, unit * scale**2)
