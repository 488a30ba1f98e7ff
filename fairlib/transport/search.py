"""Searches over all columns of a problem, whatever finds the rows."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.fairlib.transport._cells import build_cells
from evenhand.fairlib.transport._kernels import drawn_many, search_cells, search_lists
from evenhand.fairlib.transport._lists import nearest_lists, sorted_lists
from evenhand.fairlib.transport.problem import SAME_PLACE, TransportProblem

__all__ = ["ColumnSearch", "Envelopes"]

Float = NDArray[np.float64]
Int = NDArray[np.int64]

# Losses this close count as equal, relative to the largest: a little above the rounding of l - eta * c.
TIE = 1e-12
CHUNKS_PER_JOB = 4


@dataclass(frozen=True)
class Envelopes:
    """
    Envelopes of all queries: query q has the vertices ``start[q]:start[q + 1]``, by ascending cost.

    Attributes
    ----------
    start : ndarray of int64, shape (queries + 1,)
    cost, loss : ndarray of float64
    place : ndarray of int64
    """

    start: Int
    cost: Float
    loss: Float
    place: Int


class ColumnSearch:
    """
    Finds, for every query of a problem, the rows that can be worth most within a bracket of multipliers.

    Parameters
    ----------
    problem : TransportProblem
    jobs : int
        Threads; the result does not depend on them.
    neighbours : int or None
        Look at that many nearest places only. None looks at all, by branch and bound.

    Attributes
    ----------
    passes : int
        Searches over all queries since :meth:`load`.
    """

    def __init__(self, problem: TransportProblem, jobs: int = 1, neighbours: int | None = None) -> None:
        if jobs < 1:
            raise ValueError(f"jobs must be at least 1, got {jobs!r}.")
        if neighbours is not None and neighbours < 1:
            raise ValueError(f"neighbours must be at least 1, got {neighbours!r}.")
        self.problem = problem
        self.jobs = jobs
        self.cells = None
        self.lists = None
        if problem.places is None:
            assert problem.costs is not None
            self.lists = sorted_lists(problem.costs)
            if neighbours is not None and neighbours < problem.n:
                self.lists = self.lists.nearest(neighbours)
        elif neighbours is not None:
            self.lists = nearest_lists(problem.places, neighbours, jobs)
        else:
            self.cells = build_cells(problem.places, jobs)
        self.floor = 0.0
        if problem.places is not None:
            self.floor = float(SAME_PLACE * np.abs(problem.places).max(initial=0.0)) ** 2
        # ties are drawn by place, however places are ordered
        self._names = np.arange(problem.n_places) if self.cells is None else self.cells.place
        # a row that is likely to be good, by query: at first the own place
        self.warm = problem.query_place.copy()
        self.passes = 0

    def load(self, losses: Float, key: int) -> None:
        """Take the losses, shape (classes, n), and the key that decides ties from here on."""
        self.losses = losses
        self.key = np.uint64(key)
        self.tie = TIE * float(np.abs(losses).max())
        self.largest = self.problem.largest_losses(losses)
        self.passes = 0
        if self.cells is not None:
            self._by_position = np.ascontiguousarray(self.largest[:, self.cells.place])
            self._ordered, self._tops = self.cells.order(self._by_position)

    def envelopes(self, low: float, high: float, queries: Int | None = None) -> Envelopes:
        """
        Upper envelopes on [low, high], of all queries or of some.

        Parameters
        ----------
        low, high : float
            0 <= low <= high, finite.
        queries : ndarray of int or None
            Numbers of the queries asked.

        Returns
        -------
        Envelopes
            In the order of `queries`.
        """
        problem = self.problem
        asked = slice(None) if queries is None else queries
        place, label = problem.query_place[asked], problem.query_label[asked]
        warm = self.warm[asked]
        limits = (low, high, self.tie, self.floor, self.key, self._names)
        if self.cells is not None:
            cells = self.cells
            position, guess = cells.position[place], cells.position[warm]

            def search(first: int, last: int, *out: Any) -> tuple[int, int]:
                return search_cells(  # type: ignore[no-any-return]
                    first, last, position, label, guess, cells.points, cells.start, cells.bounds,
                    cells.unit, self._by_position, self._ordered, self._tops, *limits, *out,
                )  # fmt: skip
        else:
            assert self.lists is not None
            lists = self.lists
            most = self.largest.max(axis=1)

            def search(first: int, last: int, *out: Any) -> tuple[int, int]:
                return search_lists(  # type: ignore[no-any-return]
                    first, last, place, label, lists.place, lists.cost, self.largest, most,
                    *limits, *out,
                )  # fmt: skip

        found = self._in_threads(search, len(place))
        if queries is None:
            self.passes += 1
        if self.cells is not None:
            found = Envelopes(found.start, found.cost, found.loss, self.cells.place[found.place])
        return found

    def _in_threads(self, search: Callable[..., tuple[int, int]], queries: int) -> Envelopes:
        """Search consecutive parts in threads; a part whose buffer fills goes on with another."""
        sizes = np.zeros(queries, dtype=np.int64)

        def one(part: tuple[int, int]) -> list[tuple[Float, Float, Int]]:
            first, last = part
            pieces = []
            room = 4 * (last - first) + 64
            while first < last:
                out = np.empty(room), np.empty(room), np.empty(room, dtype=np.int64)
                reached, written = search(first, last, sizes, *out)
                pieces.append((out[0][:written], out[1][:written], out[2][:written]))
                room = room if reached > first else 4 * room
                first = reached
            return pieces

        parts = 1 if self.jobs == 1 else CHUNKS_PER_JOB * self.jobs
        edges = np.linspace(0, queries, parts + 1).astype(int)
        spans = [(int(a), int(b)) for a, b in zip(edges[:-1], edges[1:], strict=True) if b > a]
        if len(spans) == 1:
            pieces = one(spans[0])
        else:
            with ThreadPoolExecutor(self.jobs) as pool:
                pieces = [piece for done in pool.map(one, spans) for piece in done]
        cost, loss, place = (np.concatenate([piece[k] for piece in pieces]) for k in range(3))
        return Envelopes(np.concatenate([[0], np.cumsum(sizes)]), cost, loss, place)

    def unproven(self, eta: float, best: Float) -> Float:
        """
        By query, what a row that was not looked at could at most be worth at `eta`; `best` where proven.

        Parameters
        ----------
        best : ndarray, shape (queries,)
            The largest worth found.
        """
        if self.lists is None or self.lists.whole:
            return best
        last = self.lists.cost[self.problem.query_place, -1]
        ceiling = self.largest.max(axis=1)[self.problem.query_label] - eta * last
        return np.maximum(best, np.where(ceiling > best + self.tie, ceiling, best))

    def draws(self, columns: Int) -> NDArray[np.uint64]:
        """A random number of every column, the same for the same key."""
        return drawn_many(self.key, columns, np.uint64(self.problem.n))  # type: ignore[no-any-return]

    def members(self, places: Int, labels: Int, columns: Int) -> Int:
        """
        Rows that a column's mass goes to at a place: one of those with the largest loss there, at random.

        Parameters
        ----------
        places, labels, columns : ndarray of int, equal shapes
        """
        problem = self.problem
        rows = np.empty(len(places), dtype=np.int64)
        for k in range(problem.classes):
            mine = labels == k
            if not mine.any():
                continue
            loss = self.losses[k, problem.rows_by_place]
            best = loss >= np.repeat(self.largest[k], np.diff(problem.place_start)) - self.tie
            count = np.add.reduceat(best.astype(np.int64), problem.place_start[:-1])
            first = np.concatenate([[0], np.cumsum(count)])
            candidates = problem.rows_by_place[best]
            draw = drawn_many(self.key, columns[mine], np.uint64(k))
            rows[mine] = candidates[
                first[places[mine]] + (draw % count[places[mine]].astype(np.uint64)).astype(np.int64)
            ]
        return rows
