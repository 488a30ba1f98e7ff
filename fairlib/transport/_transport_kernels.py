"""Compiled inner loops of the transport solver.

They are all in this file, because numba renews a cached function when its own file changes, but not
when a function that it calls changes in another file. Each releases the interpreter's lock and
writes only its own slice of the output: threads may share a problem, and the result does not depend
on how columns are divided.

In (B.14) of Vargo et al. 2021 every column has the dual term max_i R_ij - eta * C_ij. A row with
cost c and loss v contributes the line v - eta * c. Only rows on the upper envelope of these lines
within a bracket [low, high] of multipliers matter. An envelope is three arrays: costs, losses and
rows of its vertices, by ascending cost, which is also by ascending loss.
"""

# numba's decorators have no types, and it infers those of the arguments
# mypy: disable-error-code="misc, no-untyped-def"

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

# Cells whose bounds are compared together.
CHUNK = 64
# Rows of a list between one bound of the rest and the next.
STRIDE = 16
# Coordinates that are compared first, in cells of many rows, and rows that are compared together.
LEADING = 8
BLOCK = 64
# Reordering a maximum is exact. Fused multiply-add changes the last digit: for distances only.
_REORDER = {"nnan", "ninf", "nsz", "reassoc"}
_FUSE = {"nnan", "ninf", "nsz", "reassoc", "contract"}
# Of kernels that only kernels call: a fifth of the time that numba compiles went into functions by
# which Python would call them.
_inner = partial(numba.njit, nogil=True, cache=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)


class Limits(NamedTuple):
    """Bracket and tolerances of one search."""

    low: float
    high: float
    tie: float  # losses within it count as equal
    floor: float  # squared distances below it count as 0
    # among equal lines the row whose place has the larger hash under `key` is kept
    key: np.uint64
    names: NDArray[np.int64]  # (positions,): the place at each


class CellIndex(NamedTuple):
    """Places in the order of their cells, with the cells that one call searches."""

    places: NDArray[np.float64]  # (places, d), by place
    # (LEADING, positions): leading coordinates; a squared distance is at least `square` times
    # theirs less `slack`; not used if `square` is 0
    lead: NDArray[np.float32]
    square: float
    slack: float
    unit: float  # of the bounds, as a squared distance
    begin: NDArray[np.int64]  # (cells,): first position of each
    end: NDArray[np.int64]  # (cells,): position after the last of each
    bounds: NDArray[np.uint8]  # (positions, cells): roots of the bounds, in units
    offset: int  # position of the first row of `bounds`


class CellLosses(NamedTuple):
    """Largest losses by class: of every position, and of every cell that one call searches."""

    by_position: NDArray[np.float64]  # (classes, positions)
    by_cell: NDArray[np.float64]  # (classes, cells)
    # (classes, positions): `by_position` in single precision, rounded up; no columns without `lead`
    single: NDArray[np.float32]


class BestRows(NamedTuple):
    """By query the rows that were best at an earlier step; of no columns if they are not used."""

    rows: NDArray[np.int32]  # (queries, rows of a list)
    costs: NDArray[np.float64]  # (queries, rows of a list)
    rest: NDArray[np.float64]  # (queries, parts): bound of the value of all rows after a part
    since: NDArray[np.int8]  # (queries,): number of the table that `rest` refers to; -1: no list


class Rises(NamedTuple):
    """How much the values of rows rose since each table, at both ends of the bracket."""

    scale: NDArray[np.float64]  # (tables, 2): the multipliers, as shares of the table's
    rise: NDArray[np.float64]  # (tables, classes, 2): largest rise of all rows
    others: NDArray[np.float64]  # (tables, classes, 2): largest rise of all but the movers
    movers: NDArray[np.int32]  # (tables, classes, movers): the rows that rose most
    climbs: NDArray[np.float64]  # (tables, classes, movers, 2): their rises


class CellQueries(NamedTuple):
    """Queries of a search over cells."""

    order: NDArray[np.int64]  # numbers of the queries, in the order of the search
    position: NDArray[np.int64]  # (queries,): of the place, by number
    label: NDArray[np.int64]  # (queries,)
    best: BestRows
    rises: Rises


class PlaceQueries(NamedTuple):
    """Queries of a search over lists of the nearest places."""

    place: NDArray[np.int64]  # (queries,)
    label: NDArray[np.int64]  # (queries,)


class NearestPlaces(NamedTuple):
    """The first places by ascending cost from every place, itself included."""

    place: NDArray[np.int32]  # (places, neighbours)
    cost: NDArray[np.float64]  # (places, neighbours)


class PlaceLosses(NamedTuple):
    """Largest losses by class: of every place, and of all places."""

    by_place: NDArray[np.float64]  # (classes, places)
    largest: NDArray[np.float64]  # (classes,)


class EarlierEnvelopes(NamedTuple):
    """Envelopes over other cells, with which a search begins."""

    start: NDArray[np.int64]  # (queries + 1,): first vertex of each; empty: there are none
    cost: NDArray[np.float64]
    loss: NDArray[np.float64]
    row: NDArray[np.int64]
    first: int  # place in the order of the queries at which these begin


class SearchOutput(NamedTuple):
    """Arrays that a search writes to."""

    sizes: NDArray[np.int64]  # (queries,): number of vertices, by number of the query
    cost: NDArray[np.float64]  # of the vertices, one query after another
    loss: NDArray[np.float64]
    row: NDArray[np.int64]
    # (classes, 2): least value with which a row may change an envelope, at both ends of the bracket
    least: NDArray[np.float64]


@numba.njit(nogil=True, cache=True)
def tie_hash(key, query, row):
    """Hash of (key, query, row), twice the finaliser of splitmix64: ties do not depend on any
    order.

    Parameters
    ----------
    key : uint64
    query : int
        Number of the query.
    row : int
        Number of the place.

    Returns
    -------
    uint64
    """
    x = key + np.uint64(query) * np.uint64(0x9E3779B97F4A7C15)
    for _ in range(2):
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        x = (x ^ (x >> np.uint64(31))) + np.uint64(row)
    return x


@numba.njit(nogil=True, cache=True)
def tie_hashes(key, queries, row):
    """Hashes of many queries with one row.

    Parameters
    ----------
    key : uint64
    queries : ndarray of int64, shape (n,)
        Numbers of the queries.
    row : int
        Number of the place.

    Returns
    -------
    ndarray of uint64, shape (n,)
    """
    out = np.empty(len(queries), dtype=np.uint64)
    for k in range(len(queries)):
        out[k] = tie_hash(key, queries[k], row)
    return out


@_inner()
def _height(costs, losses, size, limits, p, cost, loss):
    """Largest height of a line above the envelope; its cost lies between vertices p - 1 and p.

    Between two vertices it is less a tie, so that of lines through one point the order does not
    matter.
    """
    # more expensive than all vertices: highest at the lower end of the bracket
    if p == size:
        return loss - losses[p - 1] - limits.low * (cost - costs[p - 1])
    # cheaper than all: highest at the upper end
    if p == 0:
        return limits.high * (costs[0] - cost) - (losses[0] - loss)
    # between two: highest at the multiplier where these two cross
    slope = (losses[p] - losses[p - 1]) / (costs[p] - costs[p - 1])
    return loss - losses[p - 1] - slope * (cost - costs[p - 1]) - limits.tie


@_inner()
def _reaches(costs, losses, size, limits, cost, loss):
    """Whether a line reaches the envelope anywhere in the bracket."""
    p = 0
    while p < size and costs[p] < cost:
        p += 1
    if p < size and costs[p] == cost:
        return loss >= losses[p]
    return _height(costs, losses, size, limits, p, cost, loss) >= 0.0


@_inner()
def _insert(costs, losses, rows, size, limits, query, cost, loss, row):
    """Add a line if it rises above the envelope, drop the vertices below it, and give the
    new size.
    """
    p = 0
    while p < size and costs[p] < cost:
        p += 1
    left = p
    right = p
    if p < size and costs[p] == cost:
        # equal lines: keep the larger loss, and the row with the larger hash
        if abs(loss - losses[p]) <= limits.tie:
            losses[p] = max(loss, losses[p])
            names = limits.names
            if tie_hash(limits.key, query, names[row]) > tie_hash(
                limits.key, query, names[rows[p]]
            ):
                rows[p] = row
            return size
        if loss < losses[p]:
            return size
        right = p + 1
    elif _height(costs, losses, size, limits, p, cost, loss) <= 0.0:
        return size
    # drop more expensive vertices that no longer rise above the new line and the next vertex (or
    # the low end)
    while right < size:
        slope = limits.low
        tie = 0.0
        if right + 1 < size:
            slope = (losses[right + 1] - loss) / (costs[right + 1] - cost)
            tie = limits.tie
        if losses[right] - loss > slope * (costs[right] - cost) + tie:
            break
        right += 1
    # drop cheaper vertices that no longer rise above the new line and the vertex before (or the
    # high end)
    while left > 0:
        q = left - 1
        if q == 0:
            above = loss - losses[0] < limits.high * (cost - costs[0])
        else:
            slope = (loss - losses[q - 1]) / (cost - costs[q - 1])
            above = losses[q] - losses[q - 1] > slope * (costs[q] - costs[q - 1]) + limits.tie
        if above:
            break
        left -= 1
    # close the gap between the vertices that stay on both sides, or make room for one more
    shift = left + 1 - right
    if shift > 0:
        for k in range(size, right, -1):
            costs[k] = costs[k - 1]
            losses[k] = losses[k - 1]
            rows[k] = rows[k - 1]
    elif shift < 0:
        for k in range(right, size):
            costs[k + shift] = costs[k]
            losses[k + shift] = losses[k]
            rows[k + shift] = rows[k]
    costs[left] = cost
    losses[left] = loss
    rows[left] = row
    return size + shift


@_inner()
def _threshold(costs, losses, size, limits):
    """Height of the most expensive vertex's line at both ends of the bracket, less the tie.

    The line lies on or below the envelope: a row below it at both ends is below the envelope
    throughout.
    """
    cost = costs[size - 1]
    loss = losses[size - 1]
    return loss - limits.low * cost - limits.tie, loss - limits.high * cost - limits.tie


@numba.njit(nogil=True, cache=True, fastmath=_FUSE)
def squared_distance(points, i, j):
    """Squared distance of two points.

    Parameters
    ----------
    points : ndarray of float, shape (n, d)
    i, j : int
        Their rows.

    Returns
    -------
    float
    """
    total = 0.0
    for k in range(points.shape[1]):
        step = points[i, k] - points[j, k]
        total += step * step
    return total


@_inner(fastmath=_FUSE)
def _leading(own, lead, single, rates, first, last, distances):
    """Largest values of consecutive rows at two rates of the distances in the leading coordinates
    from `own`.

    `distances` receives these. Slices that are indexed from 0 let the compiler take several rows at
    once.
    """
    gain = single[first:last]
    total = distances[: last - first]
    total[:] = 0.0
    # four coordinates at a time: the sums are written half as often as with two
    for k in range(0, LEADING, 4):
        own0 = own[k]
        own1 = own[k + 1]
        own2 = own[k + 2]
        own3 = own[k + 3]
        row0 = lead[k, first:last]
        row1 = lead[k + 1, first:last]
        row2 = lead[k + 2, first:last]
        row3 = lead[k + 3, first:last]
        for j in range(last - first):
            a = row0[j] - own0
            b = row1[j] - own1
            c = row2[j] - own2
            d = row3[j] - own3
            total[j] += a * a + b * b + c * c + d * d
    at_low = at_high = np.float32(np.finfo(np.float32).min)
    low, high = rates
    for j in range(last - first):
        at_low = max(at_low, gain[j] - low * total[j])
        at_high = max(at_high, gain[j] - high * total[j])
    return at_low, at_high


@_inner(fastmath=_FUSE)
def _least(products, low, first, last):
    """Least of |b|^2 - 2 a.b over consecutive rows b, with lowered squared norms."""
    least = np.float32(np.finfo(np.float32).max)
    for j in range(first, last):
        least = min(least, low[j] - np.float32(2.0) * products[j])
    return least


@numba.njit(nogil=True, cache=True)
def nearest_cells(products, own, low, start, nearest):
    """Least squared distance of every row to every cell, from inner products and lowered squared
    norms.

    Parameters
    ----------
    products : ndarray of float32, shape (n, positions)
        Inner products of the rows with the places.
    own : ndarray of float32, shape (n,)
        Lowered squared norms of the rows.
    low : ndarray of float32, shape (positions,)
        Lowered squared norms of the places.
    start : ndarray of int64, shape (cells + 1,)
        First position of every cell.
    nearest : ndarray of float32, shape (n, cells)
        Receives the distances.
    """
    for i in range(products.shape[0]):
        for c in range(len(start) - 1):
            # |a|^2 + min_b |b|^2 - 2 a.b, at least 0
            nearest[i, c] = max(
                np.float32(0.0), own[i] + _least(products[i], low, start[c], start[c + 1])
            )


@numba.njit(nogil=True, cache=True)
def squared(bound):
    """Squared distance, in units, of which a byte holds the root: fine steps where it is small.

    Parameters
    ----------
    bound : uint8
        The root.

    Returns
    -------
    float
    """
    return np.float64(bound) * np.float64(bound)


@_inner(fastmath=_REORDER)
def _top(losses, bounds, rate, first, last):
    """Largest value of consecutive cells at their bounds."""
    top = losses[first] - rate * squared(bounds[first])
    for c in range(first + 1, last):
        top = max(top, losses[c] - rate * squared(bounds[c]))
    return top


@_inner()
def _cost(places, here, row, limits):
    """Squared distance of the places at two positions."""
    cost = squared_distance(places, limits.names[here], limits.names[row])
    return 0.0 if cost < limits.floor else cost


@_inner()
def _search(query, here, gain, top, single, cells, distances, limits, kept, envelope, size):
    """Branch and bound over cells of neighbouring places, for one query.

    `gain` and `top` are the largest losses of all positions and of all cells, `single` the former
    in single precision, and `distances`, of BLOCK numbers, is overwritten. Of rows that are
    `kept` (rows, costs, values at ``limits.low``, which equals ``limits.high``) these become the
    best ones. Without, the envelope is found, from one of `size` vertices or none, and its size is
    returned, or -1 if it does not fit.
    """
    rows, costs, values = kept
    places = cells.places
    lead = cells.lead
    square = cells.square
    slack = cells.slack
    unit = cells.unit
    begin = cells.begin
    end = cells.end
    own_lead = lead[:, here if square > 0.0 else 0]
    low = limits.low
    high = limits.high
    rates = np.float32(min(low * square, 1e30)), np.float32(min(high * square, 1e30))
    near = cells.bounds[here - cells.offset]
    worst = 0
    if len(rows):
        worst = values.argmin()
        at_low = at_high = values[worst]
    else:
        if size == 0:
            # the own place, at no cost
            envelope[0][0] = 0.0
            envelope[1][0] = gain[here]
            envelope[2][0] = here
            size = 1
        at_low, at_high = _threshold(envelope[0], envelope[1], size, limits)
    for chunk in range(0, len(begin), CHUNK):
        stop = min(chunk + CHUNK, len(begin))
        # skip many cells at once: even their largest losses stay below the threshold at the bounds
        if (
            _top(top, near, low * unit, chunk, stop) < at_low
            and _top(top, near, high * unit, chunk, stop) < at_high
        ):
            continue
        for c in range(chunk, stop):
            bound = squared(near[c]) * unit
            if top[c] - low * bound < at_low and top[c] - high * bound < at_high:
                continue
            if size > 1 and not _reaches(
                envelope[0], envelope[1], size, limits, bound, top[c] + 2.0 * limits.tie
            ):
                continue
            for block in range(begin[c], end[c], BLOCK):
                until = min(block + BLOCK, end[c])
                if square > 0.0:
                    # lower bounds of the costs of many rows at once, by the leading coordinates
                    most = _leading(own_lead, lead, single, rates, block, until, distances)
                    if most[0] + low * slack < at_low and most[1] + high * slack < at_high:
                        continue
                for row in range(block, until):
                    loss = gain[row]
                    if loss - low * bound < at_low and loss - high * bound < at_high:
                        continue
                    if square > 0.0:
                        cost = square * distances[row - block] - slack
                        if loss - low * cost < at_low and loss - high * cost < at_high:
                            continue
                    cost = _cost(places, here, row, limits)
                    value = loss - low * cost
                    if value < at_low and loss - high * cost < at_high:
                        continue
                    if len(rows):
                        if value > values[worst] and not _has(rows, row):
                            rows[worst] = row
                            costs[worst] = cost
                            values[worst] = value
                            worst = values.argmin()
                            at_low = at_high = values[worst]
                    elif row != here:
                        if size == len(envelope[0]):
                            return -1
                        size = _insert(
                            envelope[0],
                            envelope[1],
                            envelope[2],
                            size,
                            limits,
                            query,
                            cost,
                            loss,
                            row,
                        )
                        at_low, at_high = _threshold(envelope[0], envelope[1], size, limits)
    return size


@_inner()
def _has(rows, row):
    """Whether a row is among some rows."""
    contained = False
    for k in range(len(rows)):
        contained |= rows[k] == row
    return contained


@_inner()
def _from_list(query, here, listed, gain, places, rises, limits, envelope):
    """Envelope of the listed rows: its size, or 0 if it is not proven that no other row reaches it.

    `listed` are (rows, costs, rest): after every STRIDE rows one bound of all that follow, on the
    list or off it. `rises` are the fields of :class:`Rises` for the table and the label:
    ``scale * rest + rise`` bounds the values of these now, at both ends of the bracket. In between
    that is convex: below the line of one row at both ends, it is below the envelope throughout. At
    the end of the list, it is enough that this holds with ``others``, which leaves the `movers`
    out, whose losses rose most; of these each one that can reach the envelope is tried.
    """
    rows, costs, rest = listed
    scale, rise, others, movers, climbs = rises
    low = limits.low
    high = limits.high
    middle = np.sqrt(low * high)
    best = 0
    most = -np.inf
    last = 0
    at_low = at_high = end_low = end_high = -np.inf
    proven = False
    for part in range(len(rest)):
        first = last
        last = min((part + 1) * STRIDE, len(rows))
        for k in range(first, last):
            value = gain[rows[k]] - middle * costs[k]
            if value > most:
                best = k
                most = value
        loss = gain[rows[best]] - 2.0 * limits.tie
        at_low = loss - low * costs[best]
        at_high = loss - high * costs[best]
        end_low = scale[0] * rest[part]
        end_high = scale[1] * rest[part]
        proven = end_low + rise[0] < at_low and end_high + rise[1] < at_high
        if proven:
            break
    if not proven and (end_low + others[0] >= at_low or end_high + others[1] >= at_high):
        return 0
    envelope[0][0] = costs[best]
    envelope[1][0] = gain[rows[best]]
    envelope[2][0] = rows[best]
    # numbers of one type: for others numba compiles what they are passed to again
    size = np.int64(1)
    for k in range(last):
        cost = costs[k]
        loss = gain[rows[k]]
        if k != best and (loss - low * cost >= at_low or loss - high * cost >= at_high):
            size = _insert(
                envelope[0],
                envelope[1],
                envelope[2],
                size,
                limits,
                query,
                cost,
                loss,
                np.int64(rows[k]),
            )
    if proven:
        return size
    for k in range(len(movers)):
        if end_low + climbs[k, 0] < at_low and end_high + climbs[k, 1] < at_high:
            continue
        row = np.int64(movers[k])
        loss = gain[row]
        # a row of so small a loss is out of reach at any distance
        if loss < at_low and loss < at_high:
            continue
        cost = _cost(places, here, row, limits)
        if loss - low * cost >= at_low or loss - high * cost >= at_high:
            if size == len(envelope[0]):
                return 0
            size = _insert(
                envelope[0], envelope[1], envelope[2], size, limits, query, cost, loss, row
            )
    return size


@_inner()
def _falling(values):
    """Positions by falling value, by insertion: numba compiles its own sorts for seconds."""
    order = np.arange(len(values))
    for i in range(1, len(order)):
        item = order[i]
        j = i
        while j > 0 and values[order[j - 1]] < values[item]:
            order[j] = order[j - 1]
            j -= 1
        order[j] = item
    return order


@_inner()
def _fill(query, here, listed, filled, gain, top, single, cells, distances, limits, envelope):
    """List the rows that are best at one multiplier, beginning with those listed or with
    neighbours.
    """
    rows, costs, rest = listed
    m = len(gain)
    keep = len(rows)
    begin = max(0, min(here - keep // 2, m - keep))
    values = np.empty(keep)
    for k in range(keep):
        if not filled:
            rows[k] = begin + k
            costs[k] = _cost(cells.places, here, begin + k, limits)
        values[k] = gain[rows[k]] - limits.low * costs[k]
    kept = rows, costs, values
    _search(query, here, gain, top, single, cells, distances, limits, kept, envelope, np.int64(0))
    order = _falling(values)
    rows[:] = rows[order]
    costs[:] = costs[order]
    for part in range(len(rest)):
        rest[part] = values[order[min((part + 1) * STRIDE, keep - 1)]]
    if keep == m:
        rest[len(rest) - 1] = -np.inf


@numba.njit(nogil=True, cache=True)
def search_cells(first, last, queries, cells, table, limits, before, out):
    """Envelopes of the queries from `first` to `last`, from their lists where these are proven to
    suffice.

    A full buffer ends the search early.

    Parameters
    ----------
    first, last : int
        Places in ``queries.order``; `last` is not searched any more.
    queries : CellQueries
    cells : CellIndex
    table : CellLosses
    limits : Limits
    before : EarlierEnvelopes
    out : SearchOutput
        Receives the envelopes.

    Returns
    -------
    int
        The place in ``order`` after the last query done.
    int
        Number of vertices written.
    """
    rows = queries.best.rows
    costs = queries.best.costs
    since = queries.best.since
    rises = queries.rises
    keep = rows.shape[1]
    newest = len(rises.scale) - 1
    middle = np.sqrt(limits.low * limits.high)
    at_middle = Limits(middle, middle, limits.tie, limits.floor, limits.key, limits.names)
    none = rows[0, :0], costs[0, :0], costs[0, :0]
    distances = np.empty(BLOCK, dtype=np.float32)
    written = 0
    for turn in range(first, last):
        q = queries.order[turn]
        here = queries.position[q]
        k = queries.label[q]
        gain = table.by_position[k]
        top = table.by_cell[k]
        single = table.single[k]
        # the envelope grows in place, behind those of the queries before
        envelope = out.cost[written:], out.loss[written:], out.row[written:]
        if len(envelope[0]) < keep + 2:
            return turn, written
        size = 0
        # from the query's list; where that does not suffice, once more from a new list
        for _ in range(2 if keep else 0):
            listed = rows[q], costs[q], queries.best.rest[q]
            g = since[q]
            if g >= 0:
                risen = (
                    rises.scale[g],
                    rises.rise[g, k],
                    rises.others[g, k],
                    rises.movers[g, k],
                    rises.climbs[g, k],
                )
                size = _from_list(q, here, listed, gain, cells.places, risen, limits, envelope)
            if size or g == newest:
                break
            _fill(
                q,
                here,
                listed,
                g >= 0,
                gain,
                top,
                single,
                cells,
                distances,
                at_middle,
                envelope,
            )
            since[q] = newest
        if not size:
            # from the envelope over other cells, if there is one
            if len(before.start):
                begin = before.start[turn - before.first]
                end = before.start[turn - before.first + 1]
                size = end - begin
                if len(envelope[0]) < size + 2:
                    return turn, written
                envelope[0][:size] = before.cost[begin:end]
                envelope[1][:size] = before.loss[begin:end]
                envelope[2][:size] = before.row[begin:end]
            size = _search(
                q, here, gain, top, single, cells, distances, limits, none, envelope, size
            )
            if size < 0:
                return turn, written
            at_low, at_high = _threshold(envelope[0], envelope[1], size, limits)
            out.least[k, 0] = min(out.least[k, 0], at_low)
            out.least[k, 1] = min(out.least[k, 1], at_high)
        out.sizes[q] = size
        written += size
    return last, written


@numba.njit(nogil=True, cache=True)
def reaching(apart, known, top, rates, least):
    """Cells that are not known and can reach the least value of a class at an end of the
    bracket.

    Parameters
    ----------
    apart : ndarray of uint8, shape (cells,)
        Roots of lower bounds of the squared distance to each cell, in units.
    known : ndarray of bool, shape (cells,)
    top : ndarray of float, shape (classes, cells)
        Largest loss of every cell (nats).
    rates : (float, float)
        Ends of the bracket of multipliers (nats per unit).
    least : ndarray of float, shape (classes, 2)
        Least value with which a row may change an envelope, at both ends of the bracket (nats).

    Returns
    -------
    ndarray of int64
        Numbers of the cells.
    """
    within_reach = np.zeros(len(apart), dtype=np.bool_)
    for k in range(len(top)):
        for c in range(len(apart)):
            bound = squared(apart[c])
            within_reach[c] |= top[k, c] - rates[0] * bound >= least[k, 0]
            within_reach[c] |= top[k, c] - rates[1] * bound >= least[k, 1]
    return np.flatnonzero(within_reach & ~known)


@numba.njit(nogil=True, cache=True)
def lower_margins(products, cell_of, least):
    """Lower by every row its cell's least excess of the inner product with its own centre over all
    others.

    Parameters
    ----------
    products : ndarray of float32, shape (n, cells)
        Inner products of the rows with the centres.
    cell_of : ndarray of int64, shape (n,)
        Cell of every row.
    least : ndarray of float32, shape (cells, cells)
        Lowered in place.
    """
    for i in range(products.shape[0]):
        own_cell = cell_of[i]
        row = products[i]
        mine = row[own_cell]
        low = least[own_cell]
        for c in range(len(row)):
            low[c] = min(low[c], mine - row[c])


@numba.njit(nogil=True, cache=True)
def search_lists(first, last, queries, lists, table, limits, _, out):
    """As :func:`search_cells`, over the listed neighbours of every place by ascending cost.

    Parameters
    ----------
    first, last : int
        Numbers of queries; `last` is not searched any more.
    queries : PlaceQueries
    lists : NearestPlaces
    table : PlaceLosses
    limits : Limits
    _ : any
        Not used: :func:`search_cells` has an argument here.
    out : SearchOutput
        Receives the envelopes.

    Returns
    -------
    int
        The number after that of the last query done.
    int
        Number of vertices written.
    """
    low = limits.low
    high = limits.high
    written = 0
    for q in range(first, last):
        here = queries.place[q]
        gain = table.by_place[queries.label[q]]
        most = table.largest[queries.label[q]] + limits.tie
        costs = out.cost[written:]
        losses = out.loss[written:]
        rows = out.row[written:]
        if len(costs) < 1:
            return q, written
        # the own place, at no cost
        costs[0] = 0.0
        losses[0] = gain[here]
        rows[0] = here
        size = 1
        at_low = at_high = losses[0] - limits.tie
        for k in range(lists.place.shape[1]):
            cost = lists.cost[here, k]
            cost = 0.0 if cost < limits.floor else cost
            # stop where even the largest loss is not worth the cost
            if most - low * cost < at_low:
                break
            row = lists.place[here, k]
            loss = gain[row]
            if row == here or (loss - low * cost < at_low and loss - high * cost < at_high):
                continue
            if size == len(costs):
                return q, written
            size = _insert(costs, losses, rows, size, limits, q, cost, loss, row)
            at_low, at_high = _threshold(costs, losses, size, limits)
        out.sizes[q] = size
        written += size
    return last, written


@numba.njit(nogil=True, cache=True)
def listed_distances(places, first, listed, costs):
    """Squared distances of consecutive places to their listed neighbours.

    Parameters
    ----------
    places : ndarray of float, shape (places, d)
    first : int
        The first of the m places.
    listed : ndarray of int, shape (m, neighbours)
    costs : ndarray of float, shape (m, neighbours)
        Receives the distances.
    """
    for i in range(listed.shape[0]):
        for k in range(listed.shape[1]):
            costs[i, k] = squared_distance(places, first + i, listed[i, k])
