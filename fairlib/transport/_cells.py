"""
Exact column searches by branch and bound over cells of neighbouring places.

For every place and cell a lower bound of the least squared distance between them is kept in one byte. These
bounds never change while boosting; a search only needs the largest loss in each cell, and passes over the
cells that cannot reach the envelope even at that bound.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numba
import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans

from fairlib.transport._envelope import admits, insert

__all__ = ["Cells", "Vertices", "build_cells", "search_cells"]

Float = NDArray[np.float64]
Int = NDArray[np.int64]

# Cells per square root of the places: more cells are tighter, and cost more to pass over.
CELLS_PER_ROOT = 7.0
# Bounds kept, one byte for every place and cell.
MAX_BOUNDS = 512 * 2**20
LLOYD_ITERATIONS = 5
BLOCK_BYTES = 64 * 2**20
CHUNK = 64
# A step of the bound is this quantile of all bounds / 255: beyond it every distance counts as that.
RANGE_QUANTILE = 0.9

_REORDER = {"nnan", "ninf", "nsz", "reassoc"}
_FUSE = {"nnan", "ninf", "nsz", "reassoc", "contract"}


@dataclass(frozen=True)
class Cells:
    """
    Places grouped into cells, places of a cell side by side.

    Attributes
    ----------
    points : ndarray of float64, shape (m, d)
        Places in cell order.
    place : ndarray of int64, shape (m,)
        Place at each position, and its inverse `position`.
    start : ndarray of int64, shape (cells + 1,)
    bounds : ndarray of uint8, shape (m, cells)
        In units of `unit`: no row of the cell is nearer to the position than this (squared distance).
    """

    points: Float
    place: Int
    position: Int
    start: Int
    bounds: NDArray[np.uint8]
    unit: float

    def order(self, losses: Float) -> tuple[Int, Float]:
        """
        Positions within every cell by descending loss, and the largest loss of every cell.

        Parameters
        ----------
        losses : ndarray, shape (classes, m)
            By position.
        """
        ordered = np.empty(losses.shape, dtype=np.int64)
        cell_of = np.repeat(np.arange(len(self.start) - 1), np.diff(self.start))
        for k, row in enumerate(losses):
            ordered[k] = np.lexsort((-row, cell_of))
        return ordered, np.maximum.reduceat(losses, self.start[:-1], axis=1)


@dataclass(frozen=True)
class Vertices:
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


def build_cells(places: Float, jobs: int) -> Cells:
    """
    Group places by k-means and bound the distance of every place to every cell.

    The bounds come from all pairwise distances in single precision, less their rounding, so that a bound
    never exceeds the distance. Memory is that of the bounds and of one block.
    """
    m = len(places)
    wanted = int(min(CELLS_PER_ROOT * np.sqrt(m), MAX_BOUNDS / m))
    if wanted >= m:
        cell_of = np.arange(m)
    else:
        means = KMeans(max(1, wanted), init="random", n_init=1, max_iter=LLOYD_ITERATIONS, random_state=0)
        cell_of = means.fit(places.astype(np.float32)).labels_
    place = np.argsort(cell_of, kind="stable")
    position = np.empty(m, dtype=np.int64)
    position[place] = np.arange(m)
    start = np.append(np.flatnonzero(np.diff(cell_of[place], prepend=-1)), m)
    points = np.ascontiguousarray(places[place])

    single = points.astype(np.float32)
    norms = np.einsum("ij,ij->i", points, points)
    # |a|^2 + |b|^2 - 2ab in single precision is off by less than this share of |a|^2 + |b|^2
    slack = 2.0 * (points.shape[1] + 8) * float(np.finfo(np.float32).eps)
    low = (norms * (1.0 - slack)).astype(np.float32)
    cells = len(start) - 1
    sample = np.linspace(0, m - 1, min(m, 256)).astype(np.int64)
    nearest = np.empty((len(sample), cells), dtype=np.float32)
    _nearest(single[sample] @ single.T, low[sample], low, start, nearest)
    unit = max(float(np.quantile(nearest, RANGE_QUANTILE)), float(np.finfo(np.float32).tiny) * 1e6) / 255.0

    bounds = np.empty((m, cells), dtype=np.uint8)
    width = max(1, BLOCK_BYTES // (4 * m))
    with ThreadPoolExecutor(jobs) as pool:
        for first in range(0, m, width):
            block = slice(first, min(first + width, m))
            products = single[block] @ single.T
            parts = np.array_split(np.arange(len(products)), jobs)

            def one(part: Int, products: NDArray[np.float32] = products, first: int = first) -> None:
                if len(part):
                    rows = slice(part[0], part[-1] + 1)
                    kept = slice(first + part[0], first + part[-1] + 1)
                    _floors(products[rows], low[kept], low, start, np.float32(unit), bounds[kept])

            list(pool.map(one, parts))
    return Cells(points, place, position, start, bounds, unit)


@numba.njit(nogil=True, cache=True, fastmath=_FUSE)  # type: ignore[misc]
def _least(products, low, first, last):  # type: ignore[no-untyped-def]
    least = np.float32(np.finfo(np.float32).max)
    for j in range(first, last):
        least = min(least, low[j] - np.float32(2.0) * products[j])
    return least


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def _nearest(products, own, low, start, nearest):  # type: ignore[no-untyped-def]
    for i in range(products.shape[0]):
        for c in range(len(start) - 1):
            nearest[i, c] = max(np.float32(0.0), own[i] + _least(products[i], low, start[c], start[c + 1]))


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def _floors(products, own, low, start, unit, bounds):  # type: ignore[no-untyped-def]
    for i in range(products.shape[0]):
        for c in range(len(start) - 1):
            value = (own[i] + _least(products[i], low, start[c], start[c + 1])) / unit
            # the division may round up to the next whole number: one unit in a million below it is safe
            bounds[i, c] = np.uint8(
                min(max(value * np.float32(1.0 - 1e-6), np.float32(0.0)), np.float32(255.0))
            )


@numba.njit(nogil=True, cache=True, fastmath=_FUSE)  # type: ignore[misc]
def squared_distance(points, i, j):  # type: ignore[no-untyped-def]
    """Of two rows of `points`."""
    total = 0.0
    for k in range(points.shape[1]):
        step = points[i, k] - points[j, k]
        total += step * step
    return total


@numba.njit(nogil=True, cache=True, fastmath=_REORDER)  # type: ignore[misc]
def _top(losses, bounds, rate, first, last):  # type: ignore[no-untyped-def]
    top = -np.inf
    for c in range(first, last):
        top = max(top, losses[c] - rate * bounds[c])
    return top


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def search_cells(  # type: ignore[no-untyped-def]
    first,
    last,
    position,
    label,
    warm,
    points,
    start,
    bounds,
    unit,
    losses,
    ordered,
    tops,
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
    """
    Envelopes on [low, high] of the queries from `first` to `last`.

    ``warm[q]`` is a position that is likely to be good. Sizes go to ``sizes[q]``, the vertices one after
    another into the buffers; a full buffer ends the search early. Returns the query after the last one done,
    and the vertices written. Squared distances below `floor` are 0.
    """
    cells = len(start) - 1
    costs = np.empty(32)
    values = np.empty(32)
    rows = np.empty(32, dtype=np.int64)
    written = 0
    for q in range(first, last):
        here = position[q]
        gain = losses[label[q]]
        top = tops[label[q]]
        inside = ordered[label[q]]
        near = bounds[here]
        costs[0] = 0.0
        values[0] = gain[here]
        rows[0] = here
        size = 1
        if warm[q] != here:
            cost = squared_distance(points, here, warm[q])
            cost = 0.0 if cost < floor else cost
            size = insert(costs, values, rows, size, low, high, cost, gain[warm[q]], warm[q], tie, key, q)
        # the line of the dearest vertex lies on or below the envelope: what is below that line at both ends
        # of the bracket is below the envelope throughout, and most rows are
        at_low = values[size - 1] - low * costs[size - 1] - tie
        at_high = values[size - 1] - high * costs[size - 1] - tie
        for chunk in range(0, cells, CHUNK):
            stop = min(chunk + CHUNK, cells)
            if (
                _top(top, near, low * unit, chunk, stop) < at_low
                and _top(top, near, high * unit, chunk, stop) < at_high
            ):
                continue
            for c in range(chunk, stop):
                bound = near[c] * unit
                if top[c] - low * bound < at_low and top[c] - high * bound < at_high:
                    continue
                if size > 1 and not admits(costs, values, size, low, high, bound, top[c] + tie):
                    continue
                for k in range(start[c], start[c + 1]):
                    row = inside[k]
                    value = gain[row]
                    if value - low * bound < at_low and value - high * bound < at_high:
                        break
                    cost = squared_distance(points, here, row)
                    cost = 0.0 if cost < floor else cost
                    if value - low * cost < at_low and value - high * cost < at_high:
                        continue
                    if row == here:
                        continue
                    if size == len(costs):
                        costs = np.concatenate((costs, np.empty(size)))
                        values = np.concatenate((values, np.empty(size)))
                        rows = np.concatenate((rows, np.empty(size, dtype=np.int64)))
                    size = insert(costs, values, rows, size, low, high, cost, value, row, tie, key, q)
                    at_low = values[size - 1] - low * costs[size - 1] - tie
                    at_high = values[size - 1] - high * costs[size - 1] - tie
        if written + size > len(cost_out):
            return q, written
        for k in range(size):
            cost_out[written + k] = costs[k]
            loss_out[written + k] = values[k]
            row_out[written + k] = rows[k]
        sizes[q] = size
        written += size
    return last, written
