"""
Column searches over lists of neighbours, nearest first.

With every row in the list the search is exact; with the k nearest it is exact among them, and a column is
proven where no row outside the list could do better.
"""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors

from fairlib.transport._cells import squared_distance
from fairlib.transport._envelope import insert

__all__ = ["Lists", "nearest_lists", "search_lists", "sorted_lists"]

Float = NDArray[np.float64]


@dataclass(frozen=True)
class Lists:
    """
    Places by ascending cost.

    Attributes
    ----------
    place : ndarray of int32, shape (m, k)
    cost : ndarray of float64, shape (m, k)
    whole : bool
        Whether every list holds all places.
    """

    place: NDArray[np.int32]
    cost: Float
    whole: bool

    def nearest(self, k: int) -> Lists:
        """The first k places of every list."""
        return Lists(np.ascontiguousarray(self.place[:, :k]), np.ascontiguousarray(self.cost[:, :k]), False)


def sorted_lists(costs: Float) -> Lists:
    """All rows of a cost matrix in order of what it costs to move a column there."""
    columns = np.ascontiguousarray(costs.T)
    order = np.argsort(columns, axis=1, kind="stable").astype(np.int32)
    return Lists(order, np.take_along_axis(columns, order.astype(np.int64), axis=1), True)


def nearest_lists(places: Float, neighbours: int, jobs: int) -> Lists:
    """The nearest places of every place, itself included, with their exact squared distances."""
    k = min(neighbours, len(places))
    search = NearestNeighbors(n_neighbors=k, n_jobs=jobs).fit(places)
    found = search.kneighbors(places, return_distance=False)
    costs = np.empty(found.shape)
    _measure(places, found, costs)
    order = np.argsort(costs, axis=1, kind="stable")
    return Lists(
        np.take_along_axis(found, order, axis=1).astype(np.int32),
        np.take_along_axis(costs, order, axis=1),
        k == len(places),
    )


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def _measure(places, found, costs):  # type: ignore[no-untyped-def]
    for i in range(found.shape[0]):
        for k in range(found.shape[1]):
            costs[i, k] = squared_distance(places, i, found[i, k])


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def search_lists(  # type: ignore[no-untyped-def]
    first,
    last,
    place,
    label,
    listed,
    list_cost,
    losses,
    largest,
    low,
    high,
    tie,
    floor,
    key,
    sizes,
    cost_out,
    loss_out,
    row_out,
):
    """Like `search_cells`; a walk ends where even the largest loss could not pay for the distance."""
    costs = np.empty(32)
    values = np.empty(32)
    rows = np.empty(32, dtype=np.int64)
    written = 0
    for q in range(first, last):
        here = place[q]
        gain = losses[label[q]]
        most = largest[label[q]] + tie
        costs[0] = 0.0
        values[0] = gain[here]
        rows[0] = here
        size = 1
        for k in range(listed.shape[1]):
            row = listed[here, k]
            cost = list_cost[here, k]
            cost = 0.0 if cost < floor else cost
            if most - low * cost < values[size - 1] - low * costs[size - 1]:
                break
            if row == here:
                continue
            if size == len(costs):
                costs = np.concatenate((costs, np.empty(size)))
                values = np.concatenate((values, np.empty(size)))
                rows = np.concatenate((rows, np.empty(size, dtype=np.int64)))
            size = insert(costs, values, rows, size, low, high, cost, gain[row], row, tie, key, q)
        if written + size > len(cost_out):
            return q, written
        for k in range(size):
            cost_out[written + k] = costs[k]
            loss_out[written + k] = values[k]
            row_out[written + k] = rows[k]
        sizes[q] = size
        written += size
    return last, written
