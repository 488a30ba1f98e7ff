"""
Compiled inner loops of the transport solvers.

All of them are in this one file: a compiled function is kept beside its file and renewed when that file
changes, but not when a function that it calls changes elsewhere. Each holds no lock and writes only its own
slice of the output, so threads may share a problem and the result does not depend on how the columns are
divided.

A row that costs c and loses v is worth the line v - eta * c at the multiplier eta. Of the rows that a column
may move to only those on the upper envelope of these lines within a bracket [low, high] can matter; they are
kept by ascending cost, which is also by ascending loss.
"""

from __future__ import annotations

import numba
import numpy as np

__all__ = [
    "all_distances",
    "drawn_many",
    "floor_bounds",
    "least_positive",
    "likeliest",
    "listed_distances",
    "nearest_cells",
    "search_cells",
    "search_lists",
    "soften",
]

# Cells whose bounds are looked at together.
CHUNK = 64
# Reordering a maximum is exact; fusing into multiply-add changes the last digit: for distances alone.
_REORDER = {"nnan", "ninf", "nsz", "reassoc"}
_FUSE = {"nnan", "ninf", "nsz", "reassoc", "contract"}


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def drawn(key, query, row):  # type: ignore[no-untyped-def]
    """Hash of (key, query, row), the finaliser of splitmix64 twice: ties fall alike in any order."""
    x = key + np.uint64(query) * np.uint64(0x9E3779B97F4A7C15)
    for _ in range(2):
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        x = (x ^ (x >> np.uint64(31))) + np.uint64(row)
    return x


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def drawn_many(key, queries, row):  # type: ignore[no-untyped-def]
    """Hashes of many queries with one row."""
    out = np.empty(len(queries), dtype=np.uint64)
    for k in range(len(queries)):
        out[k] = drawn(key, queries[k], row)
    return out


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def admits(costs, losses, size, low, high, cost, loss):  # type: ignore[no-untyped-def]
    """Whether a line reaches the envelope (of `size` lines) anywhere in [low, high]."""
    p = 0
    while p < size and costs[p] < cost:
        p += 1
    if p < size and costs[p] == cost:
        return loss >= losses[p]
    if p == size:
        return loss - losses[p - 1] >= low * (cost - costs[p - 1])
    if p == 0:
        return losses[0] - loss <= high * (costs[0] - cost)
    slope = (losses[p] - losses[p - 1]) / (costs[p] - costs[p - 1])
    return loss - losses[p - 1] >= slope * (cost - costs[p - 1])


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def insert(costs, losses, rows, size, low, high, cost, loss, row, tie, key, query, names):  # type: ignore[no-untyped-def]
    """
    Add a line if it rises above the envelope, drop those that it covers, and give the new size.

    Of lines that are equal (cost exactly, loss within `tie`) the row whose name has the larger hash stays, at
    the larger loss.
    """
    p = 0
    while p < size and costs[p] < cost:
        p += 1
    if p < size and costs[p] == cost:
        if abs(loss - losses[p]) <= tie:
            losses[p] = max(loss, losses[p])
            if drawn(key, query, names[row]) > drawn(key, query, names[rows[p]]):
                rows[p] = row
            return size
        if loss < losses[p]:
            return size
    else:
        if p == size:
            if loss - losses[p - 1] <= low * (cost - costs[p - 1]):
                return size
        elif p == 0:
            if losses[0] - loss >= high * (costs[0] - cost):
                return size
        else:
            slope = (losses[p] - losses[p - 1]) / (costs[p] - costs[p - 1])
            if loss - losses[p - 1] <= slope * (cost - costs[p - 1]):
                return size
        for k in range(size, p, -1):
            costs[k] = costs[k - 1]
            losses[k] = losses[k - 1]
            rows[k] = rows[k - 1]
        size += 1
    costs[p] = cost
    losses[p] = loss
    rows[p] = row
    covered = 0
    while p + 1 + covered < size:
        q = p + 1 + covered
        if q + 1 == size:
            above = losses[q] - loss > low * (costs[q] - cost)
        else:
            slope = (losses[q + 1] - loss) / (costs[q + 1] - cost)
            above = losses[q] - loss > slope * (costs[q] - cost)
        if above:
            break
        covered += 1
    if covered:
        for k in range(p + 1, size - covered):
            costs[k] = costs[k + covered]
            losses[k] = losses[k + covered]
            rows[k] = rows[k + covered]
        size -= covered
    covered = 0
    while p - 1 - covered >= 0:
        q = p - 1 - covered
        if q == 0:
            above = loss - losses[q] < high * (cost - costs[q])
        else:
            slope = (loss - losses[q - 1]) / (cost - costs[q - 1])
            above = losses[q] - losses[q - 1] > slope * (costs[q] - costs[q - 1])
        if above:
            break
        covered += 1
    if covered:
        for k in range(p, size):
            costs[k - covered] = costs[k]
            losses[k - covered] = losses[k]
            rows[k - covered] = rows[k]
        size -= covered
    return size


@numba.njit(nogil=True, cache=True, fastmath=_FUSE)  # type: ignore[misc]
def _least(products, low, first, last):  # type: ignore[no-untyped-def]
    least = np.float32(np.finfo(np.float32).max)
    for j in range(first, last):
        least = min(least, low[j] - np.float32(2.0) * products[j])
    return least


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def nearest_cells(products, own, low, start, nearest):  # type: ignore[no-untyped-def]
    for i in range(products.shape[0]):
        for c in range(len(start) - 1):
            nearest[i, c] = max(np.float32(0.0), own[i] + _least(products[i], low, start[c], start[c + 1]))


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def floor_bounds(products, own, low, start, unit, bounds):  # type: ignore[no-untyped-def]
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
    top = losses[first] - rate * bounds[first]
    for c in range(first + 1, last):
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
    names,
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
            size = insert(
                costs, values, rows, size, low, high, cost, gain[warm[q]], warm[q], tie, key, q, names
            )
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
                    size = insert(costs, values, rows, size, low, high, cost, value, row, tie, key, q, names)
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


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def listed_distances(places, found, costs):  # type: ignore[no-untyped-def]
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
    names,
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
        at_low = values[0] - tie
        at_high = values[0] - tie
        for k in range(listed.shape[1]):
            cost = list_cost[here, k]
            cost = 0.0 if cost < floor else cost
            if most - low * cost < at_low:
                break
            row = listed[here, k]
            value = gain[row]
            if value - low * cost < at_low and value - high * cost < at_high:
                continue
            if row == here:
                continue
            if size == len(costs):
                costs = np.concatenate((costs, np.empty(size)))
                values = np.concatenate((values, np.empty(size)))
                rows = np.concatenate((rows, np.empty(size, dtype=np.int64)))
            size = insert(costs, values, rows, size, low, high, cost, value, row, tie, key, q, names)
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


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def all_distances(places, costs):  # type: ignore[no-untyped-def]
    for i in range(costs.shape[0]):
        for j in range(i):
            costs[i, j] = costs[j, i] = squared_distance(places, i, j)
        costs[i, i] = 0.0


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def _row(place, places, costs, row):  # type: ignore[no-untyped-def]
    if costs.shape[0]:
        row[:] = costs[place]
    else:
        for i in range(len(row)):
            row[i] = squared_distance(places, place, i)


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def least_positive(places, costs):  # type: ignore[no-untyped-def]
    """Smallest cost above 0, infinite if there is none."""
    row = np.empty(len(places))
    least = np.inf
    for place in range(len(places)):
        _row(place, places, costs, row)
        for cost in row:
            if 0.0 < cost < least:
                least = cost
    return least


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def soften(  # type: ignore[no-untyped-def]
    place,
    label,
    size,
    places,
    costs,
    pooled,
    mean_loss,
    largest,
    eta,
    entropy,
    cost_out,
    variance_out,
    loss_out,
    best_out,
    arrived,
):
    """Moments of the softmax of each query; adds its mass to `arrived` unless that is empty."""
    m = pooled.shape[1]
    row = np.empty(m)
    share = np.empty(m)
    for q in range(len(place)):
        k = label[q]
        _row(place[q], places, costs, row)
        top = -np.inf
        best = -np.inf
        for i in range(m):
            share[i] = pooled[k, i] - eta * row[i]
            top = max(top, share[i])
            best = max(best, largest[k, i] - eta * row[i])
        total = 0.0
        for i in range(m):
            share[i] = np.exp((share[i] - top) / entropy)
            total += share[i]
        cost = 0.0
        loss = 0.0
        for i in range(m):
            share[i] /= total
            cost += share[i] * row[i]
            loss += share[i] * mean_loss[k, i]
        variance = 0.0
        for i in range(m):
            variance += share[i] * (row[i] - cost) ** 2
        cost_out[q] = cost
        variance_out[q] = variance
        loss_out[q] = loss
        best_out[q] = best
        if arrived.shape[0]:
            for i in range(m):
                arrived[k, i] += size[q] * share[i]


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def likeliest(place, label, places, costs, largest, eta, out):  # type: ignore[no-untyped-def]
    m = largest.shape[1]
    row = np.empty(m)
    for q in range(len(place)):
        _row(place[q], places, costs, row)
        top = -np.inf
        for i in range(m):
            value = largest[label[q], i] - eta * row[i]
            if value > top:
                top = value
                out[q] = i
