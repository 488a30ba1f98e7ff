"""Searches for the envelopes of all columns of a problem: exact over cells, or over lists of
neighbours.

The exact search is a branch and bound over cells of places (`cells`). The bounds of distances stay
the same while boosting. A search needs only the largest loss in each cell, and skips every cell
that cannot reach the envelope even at its bound. Most columns need no search: lists of the rows
that were best at an earlier step (`neighbour_lists`) are proven to suffice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from evenhand.fairlib.arrays import Float, Int
from evenhand.fairlib.execution import map_in_threads
from evenhand.fairlib.transport import _transport_kernels as kernels
from evenhand.fairlib.transport.cells import Cells, NearCells, build_cells
from evenhand.fairlib.transport.neighbour_lists import Lists, nearest_places
from evenhand.fairlib.transport.problem import SAME_PLACE, TransportProblem

# Losses this close count as equal, relative to the largest: a little above the rounding of l - eta
# * c.
TIE = 1e-12
CHUNKS_PER_JOB = 4
# Share of the largest loss by which single precision may be off in a difference of losses.
SINGLE_ROUNDING = 1e-6
# Lists are used in brackets of at most this ratio.
NARROW = 1.2
# Envelopes to begin a search with: none.
NO_ENVELOPES = kernels.EarlierEnvelopes(
    start=np.empty(0, dtype=np.int64),
    cost=np.empty(0),
    loss=np.empty(0),
    row=np.empty(0, dtype=np.int64),
    first=0,
)


@dataclass(frozen=True)
class Envelopes:
    """Envelopes of all queries: query q has the vertices ``start[q]:start[q + 1]``, by ascending
    cost.

    Attributes
    ----------
    start : ndarray of int, shape (queries + 1,)
    cost : ndarray of float, shape (vertices,)
        Squared distances.
    loss : ndarray of float, shape (vertices,)
        Losses (nats).
    place : ndarray of int, shape (vertices,)
        Numbers of the places.
    """

    start: Int
    cost: Float
    loss: Float
    place: Int


class _Vertices(NamedTuple):
    """Vertices of envelopes, one query after another."""

    cost: Float
    loss: Float
    row: Int  # position in the order of the cells, or number of the place without cells


@dataclass(frozen=True)
class _Search:
    """A search with a compiled function, for some queries in one bracket of multipliers."""

    function: Callable[..., tuple[int, int]]
    queries: kernels.CellQueries | kernels.PlaceQueries
    limits: kernels.Limits
    sizes: Int  # (queries,): receives the number of vertices of every query
    classes: int

    def run(
        self,
        first: int,
        last: int,
        *,
        index: kernels.CellIndex | kernels.NearestPlaces,
        table: kernels.CellLosses | kernels.PlaceLosses,
        before: kernels.EarlierEnvelopes = NO_ENVELOPES,
        least: Float | None = None,
    ) -> _Vertices:
        """Search the queries from `first` to `last` in their order.

        Where a buffer fills up, the search goes on with another.

        Parameters
        ----------
        first, last : int
            Places in the order of the queries; `last` is not searched any more.
        index : CellIndex or NearestPlaces
            Places to search.
        table : CellLosses or PlaceLosses
            Largest losses (nats), of the same kind as `index`.
        before : EarlierEnvelopes, default none
            Envelopes over other cells, with which the search begins.
        least : ndarray of float, shape (classes, 2), or None, default None
            Lowered to the least value with which a row may change an envelope, at both ends of the
            bracket (nats).

        Returns
        -------
        _Vertices
            Of the envelopes, one query after another.
        """
        if least is None:
            least = np.empty((self.classes, 2))
        reached = first
        pieces = []
        room = 4 * (last - first) + len(before.cost) + 64
        while reached < last:
            begin = reached
            out = kernels.SearchOutput(
                sizes=self.sizes,
                cost=np.empty(room),
                loss=np.empty(room),
                row=np.empty(room, dtype=np.int64),
                least=least,
            )
            reached, written = self.function(
                begin, last, self.queries, index, table, self.limits, before, out
            )
            pieces.append(_Vertices(out.cost[:written], out.loss[:written], out.row[:written]))
            # not even one query fitted
            if reached == begin:
                room = 4 * room
        return _joined(pieces)


class ColumnSearch:
    """Finds, for every query of a problem, its upper envelope within a bracket of multipliers.

    The result does not depend on the number of threads.

    Parameters
    ----------
    problem : TransportProblem
    jobs : int, default 1
        Threads.
    neighbours : int or None, default None
        Search only so many nearest places: exact among them. None searches all, by branch and
        bound.

    Attributes
    ----------
    cells : Cells or None
        None with `neighbours`.
    nearest : NearestPlaces or None
        The first places by ascending cost from every place; None without `neighbours`.
    floor : float
        Squared distances below it count as 0.
    least_cost : float
        A cost that few exceed, if the bounds of costs are computed when they are needed; else 0.
    losses : ndarray of float, shape (classes, n)
        Of the last :meth:`load` (nats).
    largest : ndarray of float, shape (classes, places)
        Largest loss of every place (nats).
    lists : Lists or None
        Of the rows that were best at an earlier step.

    Raises
    ------
    ValueError
        If `neighbours` is below 1.
    """

    def __init__(
        self, problem: TransportProblem, jobs: int = 1, neighbours: int | None = None
    ) -> None:
        if neighbours is not None and neighbours < 1:
            raise ValueError(f"neighbours must be at least 1, got {neighbours!r}.")
        self.problem = problem
        self.jobs = jobs
        self.cells: Cells | None = None
        self.nearest: kernels.NearestPlaces | None = None
        self.floor = float(SAME_PLACE * np.abs(problem.places).max(initial=0.0)) ** 2
        self.least_cost = 0.0
        # ties are hashed by place, whatever the order of the places
        self._names = np.arange(problem.n_places)
        if neighbours is None:
            self.cells = build_cells(problem.places, jobs)
            self._names = self.cells.place
            if self.cells.near is not None:
                self.least_cost = 255 * self.cells.unit
        else:
            self.nearest = nearest_places(problem.places, neighbours, jobs)
        self.begin()

    def begin(self) -> None:
        """Forget the losses of earlier calls."""
        self.lists: Lists | None = None
        self.loaded = 0

    def load(self, losses: Float, key: int) -> None:
        """Take the losses of a step.

        Parameters
        ----------
        losses : ndarray of float, shape (classes, n)
            Of every row under every label (nats).
        key : int
            Decides ties.
        """
        self.losses = losses
        self.key = np.uint64(key)
        self.tie = TIE * float(np.abs(losses).max())
        self.largest = self.problem.largest_losses(losses)
        self.loaded += 1
        if self.cells is not None:
            self._table = self._cell_losses(self.cells)

    def _cell_losses(self, cells: Cells) -> kernels.CellLosses:
        """Largest losses by position and by cell, or part of one."""
        by_position = np.ascontiguousarray(self.largest[:, cells.place])
        by_cell = np.maximum.reduceat(by_position, cells.start[:-1], axis=1)
        if cells.near is None:
            single = np.empty((len(self.losses), 0), dtype=np.float32)
        else:
            # rounded up, and by more than differences round
            rounding = SINGLE_ROUNDING * np.abs(self.losses).max()
            single = (by_position + rounding).astype(np.float32)
            cells.near.load(by_cell)
        return kernels.CellLosses(by_position, by_cell, single)

    def envelopes(self, low: float, high: float, queries: Int | None = None) -> Envelopes:
        """Upper envelopes in a bracket of multipliers.

        Parameters
        ----------
        low, high : float
            Ends of the bracket, 0 <= low <= high < inf (nats per squared distance).
        queries : ndarray of int or None, default None
            Numbers of queries; None: all.

        Returns
        -------
        Envelopes
            In the order of the queries.
        """
        chosen = slice(None) if queries is None else queries
        place = self.problem.query_place[chosen]
        label = self.problem.query_label[chosen]
        sizes = np.zeros(len(place), dtype=np.int64)
        limits = kernels.Limits(low, high, self.tie, self.floor, self.key, self._names)
        if self.cells is None:
            assert self.nearest is not None
            vertices = self._over_nearest(self.nearest, place, label, limits, sizes)
        elif self.cells.near is None:
            # lists are of all queries, in narrow brackets, from the second step on
            with_lists = queries is None and self.loaded > 1 and low > 0.0 and high <= NARROW * low
            vertices = self._over_cells(self.cells, place, label, limits, sizes, with_lists)
        else:
            vertices = self._over_near_cells(
                self.cells, self.cells.near, place, label, limits, sizes
            )
        start = np.concatenate([[0], np.cumsum(sizes)])
        return Envelopes(start, vertices.cost, vertices.loss, self._names[vertices.row])

    def _over_nearest(
        self,
        nearest: kernels.NearestPlaces,
        place: Int,
        label: Int,
        limits: kernels.Limits,
        sizes: Int,
    ) -> _Vertices:
        """Search the lists of the nearest places; `sizes` receives the sizes of the envelopes."""
        queries = kernels.PlaceQueries(place, label)
        search = _Search(kernels.search_lists, queries, limits, sizes, len(self.largest))
        table = kernels.PlaceLosses(self.largest, self.largest.max(axis=1))
        return self._in_chunks(partial(search.run, index=nearest, table=table), len(place))

    def _over_cells(
        self,
        cells: Cells,
        place: Int,
        label: Int,
        limits: kernels.Limits,
        sizes: Int,
        with_lists: bool,
    ) -> _Vertices:
        """Search all cells, whose bounds are known; `sizes` receives the sizes of the envelopes."""
        if with_lists:
            if self.lists is None:
                self.lists = Lists(len(place), self.problem.n_places)
            best, rises = self.lists.at(limits.low, limits.high, self._table.by_position, label)
        else:
            best, rises = Lists.none()
        order = np.arange(len(place))
        queries = kernels.CellQueries(order, cells.position[place], label, best, rises)
        search = _Search(kernels.search_cells, queries, limits, sizes, len(self.largest))
        index = kernels.CellIndex(
            places=self.problem.places,
            lead=cells.lead.coordinates,
            square=cells.lead.square,
            slack=cells.lead.slack,
            unit=cells.unit,
            begin=cells.start[:-1],
            end=cells.start[1:],
            bounds=cells.bounds,
            offset=0,
        )
        return self._in_chunks(partial(search.run, index=index, table=self._table), len(place))

    def _in_chunks(self, run: Callable[[int, int], _Vertices], queries: int) -> _Vertices:
        """Search consecutive queries in each thread."""
        parts = 1 if self.jobs == 1 else CHUNKS_PER_JOB * self.jobs
        edges = np.unique(np.linspace(0, queries, parts + 1).astype(int))
        return _joined(map_in_threads(self.jobs, run, edges[:-1], edges[1:]))

    def _over_near_cells(
        self,
        cells: Cells,
        near: NearCells,
        place: Int,
        label: Int,
        limits: kernels.Limits,
        sizes: Int,
    ) -> _Vertices:
        """Search the cells that may matter; `sizes` receives the sizes of the envelopes.

        The queries of one cell are searched together, over the cells whose bounds to it are known,
        then over others that can still reach an envelope, until there are none.
        """
        order = np.argsort(cells.position[place], kind="stable")
        best, rises = Lists.none()
        queries = kernels.CellQueries(order, cells.position[place], label, best, rises)
        search = _Search(kernels.search_cells, queries, limits, sizes, len(self.largest))

        def run_cell(first: int, last: int, cell: int) -> _Vertices:
            before = NO_ENVELOPES
            done = 0
            while True:
                parts = near.of(cell, done)
                index = kernels.CellIndex(
                    places=self.problem.places,
                    lead=cells.lead.coordinates,
                    square=cells.lead.square,
                    slack=cells.lead.slack,
                    unit=cells.unit,
                    begin=parts.begin,
                    end=parts.end,
                    bounds=parts.bounds,
                    offset=parts.offset,
                )
                table = self._table._replace(by_cell=self._table.by_cell[:, parts.part])
                least = np.full((len(self.largest), 2), np.inf)
                vertices = search.run(
                    first, last, index=index, table=table, before=before, least=least
                )
                done += len(parts.part)
                if not near.add(cell, cells.unit, limits, least):
                    near.release(cell)
                    return vertices
                start = np.concatenate([[0], np.cumsum(sizes[order[first:last]])])
                before = kernels.EarlierEnvelopes(start, *vertices, first)

        owner = np.searchsorted(near.start, cells.position[place[order]], side="right") - 1
        edges = np.append(np.flatnonzero(np.diff(owner, prepend=-1)), len(place))
        # one thread for each product: with two, two threads of the search took twice the time
        with threadpool_limits(1, "blas"):
            pieces = map_in_threads(self.jobs, run_cell, edges[:-1], edges[1:], owner[edges[:-1]])
        return _reordered(_joined(pieces), order, sizes)

    def unproven(self, eta: float, best: Float) -> Float:
        """Upper bound of the value of all rows, by query.

        Parameters
        ----------
        eta : float
            The multiplier (nats per squared distance).
        best : ndarray of float, shape (queries,)
            Largest loss - eta * cost found.

        Returns
        -------
        ndarray of float, shape (queries,)
            Upper bound of loss - eta * cost over all rows; `best` where that is proven.
        """
        # a list of all places leaves nothing out
        if self.nearest is None or self.nearest.cost.shape[1] == self.problem.n_places:
            return best
        last = self.nearest.cost[self.problem.query_place, -1]
        ceiling = self.largest.max(axis=1)[self.problem.query_label] - eta * last
        return np.maximum(best, np.where(ceiling > best + self.tie, ceiling, best))

    def members(self, places: Int, labels: Int, columns: Int) -> Int:
        """Row that receives each column's mass at a place: one of the largest loss there, at
        random.

        Parameters
        ----------
        places, labels, columns : ndarray of int, shape (m,)
            Numbers of the places, labels and columns.

        Returns
        -------
        ndarray of int, shape (m,)
            Numbers of rows.
        """
        problem = self.problem
        rows = np.empty(len(places), dtype=np.int64)
        for k in range(problem.classes):
            of_label = labels == k
            if not of_label.any():
                continue
            # rows within a tie of their place's largest loss, counted by place
            loss = self.losses[k, problem.rows_by_place]
            best = loss >= np.repeat(self.largest[k], np.diff(problem.place_start)) - self.tie
            count = np.add.reduceat(best.astype(np.int64), problem.place_start[:-1])
            first = np.concatenate([[0], np.cumsum(count)])
            # one of them for every column
            at = places[of_label]
            hashes = kernels.tie_hashes(self.key, columns[of_label], np.uint64(k))
            draw = (hashes % count[at].astype(np.uint64)).astype(np.int64)
            rows[of_label] = problem.rows_by_place[best][first[at] + draw]
        return rows


def _joined(pieces: list[Any]) -> _Vertices:
    """Vertices of one piece after another."""
    cost, loss, row = zip(*pieces, strict=True)
    return _Vertices(np.concatenate(cost), np.concatenate(loss), np.concatenate(row))


def _reordered(vertices: _Vertices, order: Int, sizes: Int) -> _Vertices:
    """Vertices in the order of the queries' numbers, from that of a search.

    `order`, shape (queries,), has the numbers in the order of the search, and `sizes`, by number,
    how many vertices each query has.
    """
    ends = np.cumsum(sizes)
    starts = ends - sizes
    # first vertex of every query in the order of the search
    begin = np.empty(len(order), dtype=np.int64)
    begin[order] = np.cumsum(sizes[order]) - sizes[order]
    vertex = np.arange(sizes.sum()) + np.repeat(begin - starts, sizes)
    return _Vertices(vertices.cost[vertex], vertices.loss[vertex], vertices.row[vertex])
