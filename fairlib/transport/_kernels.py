"""Compiled inner loops of the transport solver.

They are all in this file, because numba renews a cached function when its own file changes, but not when a
function that it calls changes in another file. Each releases the interpreter's lock and writes only its own
slice of the output: threads may share a problem, and the result does not depend on how columns are divided.

In (B.14) of Vargo et al. 2021 every column has the dual term max_i R_ij - eta * C_ij. A row with cost c and
loss v contributes the line v - eta * c. Only rows on the upper envelope of these lines within a bracket [low,
high] of multipliers matter. An envelope is three arrays: costs, losses and rows of its vertices, by ascending
cost, which is also by ascending loss.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

# Cells whose bounds are compared together.
CHUNK = 64
# Reordering a maximum is exact. Fused multiply-add changes the last digit: for distances only.
_REORDER = {"nnan", "ninf", "nsz", "reassoc"}
_FUSE = {"nnan", "ninf", "nsz", "reassoc", "contract"}


class Limits(NamedTuple):
    """Bracket and tolerances of one search."""

    low: float
    high: float
    tie: float  # losses within it count as equal
    floor: float  # squared distances below it count as 0
    # among equal lines the row whose ``names[row]`` has the larger hash under `key` is kept
    key: np.uint64
    names: NDArray[np.int64]


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def tie_hash(key, query, row):  # type: ignore[no-untyped-def]
    """Hash of (key, query, row), twice the finaliser of splitmix64: ties do not depend on any order."""
    x = key + np.uint64(query) * np.uint64(0x9E3779B97F4A7C15)
    for _ in range(2):
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        x = (x ^ (x >> np.uint64(31))) + np.uint64(row)
    return x


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def tie_hashes(key, queries, row):  # type: ignore[no-untyped-def]
    """Hashes of many queries with one row."""
    out = np.empty(len(queries), dtype=np.uint64)
    for k in range(len(queries)):
        out[k] = tie_hash(key, queries[k], row)
    return out


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def _height(costs, losses, size, limits, p, cost, loss):  # type: ignore[no-untyped-def]
    """Largest height of a line above the envelope; its cost lies between vertices p - 1 and p."""
    # dearer than all vertices: highest at the lower end of the bracket
    if p == size:
        return loss - losses[p - 1] - limits.low * (cost - costs[p - 1])
    # cheaper than all: highest at the upper end
    if p == 0:
        return limits.high * (costs[0] - cost) - (losses[0] - loss)
    # between two: highest at the multiplier where these two cross
    slope = (losses[p] - losses[p - 1]) / (costs[p] - costs[p - 1])
    return loss - losses[p - 1] - slope * (cost - costs[p - 1])


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def _reaches(costs, losses, size, limits, cost, loss):  # type: ignore[no-untyped-def]
    """Whether a line reaches the envelope anywhere in the bracket."""
    p = 0
    while p < size and costs[p] < cost:
        p += 1
    if p < size and costs[p] == cost:
        return loss >= losses[p]
    return _height(costs, losses, size, limits, p, cost, loss) >= 0.0


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def _insert(costs, losses, rows, size, limits, query, cost, loss, row):  # type: ignore[no-untyped-def]
    """Add a line if it rises above the envelope, drop the vertices below it, and give the new size."""
    p = 0
    while p < size and costs[p] < cost:
        p += 1
    left, right = p, p
    if p < size and costs[p] == cost:
        # equal lines: keep the larger loss, and the row with the larger hash
        if abs(loss - losses[p]) <= limits.tie:
            losses[p] = max(loss, losses[p])
            names = limits.names
            if tie_hash(limits.key, query, names[row]) > tie_hash(limits.key, query, names[rows[p]]):
                rows[p] = row
            return size
        if loss < losses[p]:
            return size
        right = p + 1
    elif _height(costs, losses, size, limits, p, cost, loss) <= 0.0:
        return size
    # drop dearer vertices that no longer rise above the new line and the next vertex (or the low end)
    while right < size:
        slope = limits.low
        if right + 1 < size:
            slope = (losses[right + 1] - loss) / (costs[right + 1] - cost)
        if losses[right] - loss > slope * (costs[right] - cost):
            break
        right += 1
    # drop cheaper vertices that no longer rise above the new line and the vertex before (or the high end)
    while left > 0:
        q = left - 1
        if q == 0:
            above = loss - losses[0] < limits.high * (cost - costs[0])
        else:
            slope = (loss - losses[q - 1]) / (cost - costs[q - 1])
            above = losses[q] - losses[q - 1] > slope * (costs[q] - costs[q - 1])
        if above:
            break
        left -= 1
    # close the gap between the vertices that stay on both sides, or make room for one more
    shift = left + 1 - right
    if shift > 0:
        for k in range(size, right, -1):
            costs[k], losses[k], rows[k] = costs[k - 1], losses[k - 1], rows[k - 1]
    elif shift < 0:
        for k in range(right, size):
            costs[k + shift], losses[k + shift], rows[k + shift] = costs[k], losses[k], rows[k]
    costs[left], losses[left], rows[left] = cost, loss, row
    return size + shift


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def _threshold(costs, losses, size, limits):  # type: ignore[no-untyped-def]
    """Height of the dearest vertex's line at both ends of the bracket, less the tie.

    The line lies on or below the envelope: a row below it at both ends is below the envelope throughout.
    """
    cost, loss = costs[size - 1], losses[size - 1]
    return loss - limits.low * cost - limits.tie, loss - limits.high * cost - limits.tie


@numba.njit(nogil=True, cache=True, fastmath=_FUSE)  # type: ignore[misc]
def squared_distance(points, i, j):  # type: ignore[no-untyped-def]
    """Of two rows of `points`."""
    total = 0.0
    for k in range(points.shape[1]):
        step = points[i, k] - points[j, k]
        total += step * step
    return total


@numba.njit(nogil=True, cache=True, fastmath=_FUSE)  # type: ignore[misc]
def _least(products, low, first, last):  # type: ignore[no-untyped-def]
    least = np.float32(np.finfo(np.float32).max)
    for j in range(first, last):
        least = min(least, low[j] - np.float32(2.0) * products[j])
    return least


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def nearest_cells(products, own, low, start, nearest):  # type: ignore[no-untyped-def]
    """Least squared distance of every row to every cell, from inner products and lowered squared norms."""
    for i in range(products.shape[0]):
        for c in range(len(start) - 1):
            # |a|^2 + min_b |b|^2 - 2 a.b, at least 0
            nearest[i, c] = max(np.float32(0.0), own[i] + _least(products[i], low, start[c], start[c + 1]))


@numba.njit(nogil=True, cache=True, fastmath=_REORDER)  # type: ignore[misc]
def _top(losses, bounds, rate, first, last):  # type: ignore[no-untyped-def]
    top = losses[first] - rate * bounds[first]
    for c in range(first + 1, last):
        top = max(top, losses[c] - rate * bounds[c])
    return top


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def search_cells(first, last, queries, cells, table, limits, out):  # type: ignore[no-untyped-def]
    """Envelopes of the queries from `first` to `last`, by branch and bound over cells of neighbouring places.

    Of the `queries` (position, label, guess) the guess is a position that is likely to be on the envelope.
    `cells` are (points, start, bounds, unit) of `Cells`. The `table` has by class the largest loss at every
    position, the positions of every cell by descending loss, and the largest loss of every cell. In `out`
    (sizes, costs, losses, rows) ``sizes[q]`` receives the number of vertices; the vertices follow one another
    in the buffers. A full buffer ends the search early: the query after the last one done is returned, and
    the vertices written.
    """
    position, label, guess = queries
    points, start, bounds, unit = cells
    low, high = limits.low, limits.high
    written = 0
    for q in range(first, last):
        here = position[q]
        gain, inside, top = table[0][label[q]], table[1][label[q]], table[2][label[q]]
        near = bounds[here]
        # the envelope grows in place, behind those of the queries before
        costs, losses, rows = out[1][written:], out[2][written:], out[3][written:]
        if len(costs) < 2:
            return q, written
        # the own place, at no cost, and the guess
        costs[0], losses[0], rows[0] = 0.0, gain[here], here
        size = 1
        if guess[q] != here:
            cost = squared_distance(points, here, guess[q])
            cost = 0.0 if cost < limits.floor else cost
            size = _insert(costs, losses, rows, size, limits, q, cost, gain[guess[q]], guess[q])
        at_low, at_high = _threshold(costs, losses, size, limits)
        for chunk in range(0, len(start) - 1, CHUNK):
            stop = min(chunk + CHUNK, len(start) - 1)
            # skip many cells at once: even their largest losses stay below the threshold at the bounds
            if (
                _top(top, near, low * unit, chunk, stop) < at_low
                and _top(top, near, high * unit, chunk, stop) < at_high
            ):
                continue
            for c in range(chunk, stop):
                # skip a cell whose largest loss at its bound is below the threshold, then the envelope
                bound = near[c] * unit
                if top[c] - low * bound < at_low and top[c] - high * bound < at_high:
                    continue
                if size > 1 and not _reaches(costs, losses, size, limits, bound, top[c] + limits.tie):
                    continue
                for k in range(start[c], start[c + 1]):
                    # rows by descending loss: stop where no later one can reach the threshold
                    row = inside[k]
                    loss = gain[row]
                    if loss - low * bound < at_low and loss - high * bound < at_high:
                        break
                    cost = squared_distance(points, here, row)
                    cost = 0.0 if cost < limits.floor else cost
                    if row == here or (loss - low * cost < at_low and loss - high * cost < at_high):
                        continue
                    if size == len(costs):
                        return q, written
                    size = _insert(costs, losses, rows, size, limits, q, cost, loss, row)
                    at_low, at_high = _threshold(costs, losses, size, limits)
        out[0][q] = size
        written += size
    return last, written


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def search_lists(first, last, queries, lists, table, limits, out):  # type: ignore[no-untyped-def]
    """As `search_cells`, over the listed neighbours of every place by ascending cost.

    `queries` are (place, label), and `lists` (place, cost) the neighbours of every place with the costs of
    moving there. The `table` has by class the largest loss of every place and of all places.
    """
    place, label = queries
    listed, list_cost = lists
    low, high = limits.low, limits.high
    written = 0
    for q in range(first, last):
        here = place[q]
        gain, most = table[0][label[q]], table[1][label[q]] + limits.tie
        costs, losses, rows = out[1][written:], out[2][written:], out[3][written:]
        if len(costs) < 1:
            return q, written
        # the own place, at no cost
        costs[0], losses[0], rows[0] = 0.0, gain[here], here
        size = 1
        at_low = at_high = losses[0] - limits.tie
        for k in range(listed.shape[1]):
            cost = list_cost[here, k]
            cost = 0.0 if cost < limits.floor else cost
            # stop where even the largest loss is not worth the cost
            if most - low * cost < at_low:
                break
            row = listed[here, k]
            loss = gain[row]
            if row == here or (loss - low * cost < at_low and loss - high * cost < at_high):
                continue
            if size == len(costs):
                return q, written
            size = _insert(costs, losses, rows, size, limits, q, cost, loss, row)
            at_low, at_high = _threshold(costs, losses, size, limits)
        out[0][q] = size
        written += size
    return last, written


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def listed_distances(places, found, costs):  # type: ignore[no-untyped-def]
    """Squared distances of every place to its listed neighbours."""
    for i in range(found.shape[0]):
        for k in range(found.shape[1]):
            costs[i, k] = squared_distance(places, i, found[i, k])
