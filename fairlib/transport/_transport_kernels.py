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

from __future__ import annotations

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


class Limits(NamedTuple):
    """Bracket and tolerances of one search."""

    low: float
    high: float
    tie: float  # losses within it count as equal
    floor: float  # squared distances below it count as 0
    # among equal lines the row whose place has the larger hash under `key` is kept
    key: np.uint64
    names: NDArray[np.int64]  # (positions,): the place at each


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def tie_hash(key, query, row):  # type: ignore[no-untyped-def]
    """Hash of (key, query, row), twice the finaliser of splitmix64: ties do not depend on any
    order.
    """
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
    """Largest height of a line above the envelope; its cost lies between vertices p - 1 and p.

    Between two vertices it is less a tie, so that of lines through one point the order does not
    matter.
    """
    # dearer than all vertices: highest at the lower end of the bracket
    if p == size:
        return loss - losses[p - 1] - limits.low * (cost - costs[p - 1])
    # cheaper than all: highest at the upper end
    if p == 0:
        return limits.high * (costs[0] - cost) - (losses[0] - loss)
    # between two: highest at the multiplier where these two cross
    slope = (losses[p] - losses[p - 1]) / (costs[p] - costs[p - 1])
    return loss - losses[p - 1] - slope * (cost - costs[p - 1]) - limits.tie


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
    # drop dearer vertices that no longer rise above the new line and the next vertex (or the low
    # end)
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
            costs[k], losses[k], rows[k] = costs[k - 1], losses[k - 1], rows[k - 1]
    elif shift < 0:
        for k in range(right, size):
            costs[k + shift], losses[k + shift], rows[k + shift] = costs[k], losses[k], rows[k]
    costs[left], losses[left], rows[left] = cost, loss, row
    return size + shift


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def _threshold(costs, losses, size, limits):  # type: ignore[no-untyped-def]
    """Height of the dearest vertex's line at both ends of the bracket, less the tie.

    The line lies on or below the envelope: a row below it at both ends is below the envelope
    throughout.
    """
    cost = costs[size - 1]
    loss = losses[size - 1]
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
def _leading(own, lead, single, rates, first, last, distances):  # type: ignore[no-untyped-def]
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


@numba.njit(nogil=True, cache=True, fastmath=_FUSE)  # type: ignore[misc]
def _least(products, low, first, last):  # type: ignore[no-untyped-def]
    least = np.float32(np.finfo(np.float32).max)
    for j in range(first, last):
        least = min(least, low[j] - np.float32(2.0) * products[j])
    return least


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def nearest_cells(products, own, low, start, nearest):  # type: ignore[no-untyped-def]
    """Least squared distance of every row to every cell, from inner products and lowered squared
    norms.
    """
    for i in range(products.shape[0]):
        for c in range(len(start) - 1):
            # |a|^2 + min_b |b|^2 - 2 a.b, at least 0
            nearest[i, c] = max(
                np.float32(0.0), own[i] + _least(products[i], low, start[c], start[c + 1])
            )


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def squared(bound):  # type: ignore[no-untyped-def]
    """Squared distance, in units, of which a byte holds the root: fine steps where it is small."""
    return np.float64(bound) * np.float64(bound)


@numba.njit(nogil=True, cache=True, fastmath=_REORDER)  # type: ignore[misc]
def _top(losses, bounds, rate, first, last):  # type: ignore[no-untyped-def]
    top = losses[first] - rate * squared(bounds[first])
    for c in range(first + 1, last):
        top = max(top, losses[c] - rate * squared(bounds[c]))
    return top


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def _cost(places, here, row, limits):  # type: ignore[no-untyped-def]
    """Squared distance of the places at two positions."""
    cost = squared_distance(places, limits.names[here], limits.names[row])
    return 0.0 if cost < limits.floor else cost


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def _search(query, here, gain, top, cells, limits, kept, envelope, size):  # type: ignore[no-untyped-def]
    """Branch and bound over cells of neighbouring places, for one query.

    `gain` and `top` are the largest losses of all positions and of all cells. Of rows that are
    `kept` (rows, costs, values at ``limits.low``, which equals ``limits.high``) these become the
    best ones. Without, the envelope is found, from one of `size` vertices or none, and its size is
    returned, or -1 if it does not fit.
    """
    rows, costs, values = kept
    places, lead, square, slack, unit, begin, end, bounds, offset, single, distances = cells
    own = lead[:, here if square > 0.0 else 0]
    low = limits.low
    high = limits.high
    rates = np.float32(min(low * square, 1e30)), np.float32(min(high * square, 1e30))
    near = bounds[here - offset]
    worst = 0
    if len(rows):
        worst = values.argmin()
        at_low = at_high = values[worst]
    else:
        if size == 0:
            # the own place, at no cost
            envelope[0][0], envelope[1][0], envelope[2][0] = 0.0, gain[here], here
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
                    most = _leading(own, lead, single, rates, block, until, distances)
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
                            rows[worst], costs[worst], values[worst] = row, cost, value
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


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def _has(rows, row):  # type: ignore[no-untyped-def]
    found = False
    for k in range(len(rows)):
        found |= rows[k] == row
    return found


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def _from_list(query, here, listed, gain, places, rises, limits, envelope):  # type: ignore[no-untyped-def]
    """Envelope of the listed rows: its size, or 0 if it is not proven that no other row reaches it.

    `listed` are (rows, costs, rest): after every STRIDE rows one bound of all that follow, on the
    list or off it. `rises` are (scale, rise, others, movers, climbs): ``scale * rest + rise``
    bounds the values of these now, at both ends of the bracket. In between that is convex: below
    the line of one row at both ends, it is below the envelope throughout. At the end of the list,
    it is enough that this holds with ``others``, which leaves the `movers` out, whose losses rose
    most; of these each one that can reach the envelope is tried.
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
    envelope[0][0], envelope[1][0], envelope[2][0] = costs[best], gain[rows[best]], rows[best]
    size = 1
    for k in range(last):
        cost = costs[k]
        loss = gain[rows[k]]
        if k != best and (loss - low * cost >= at_low or loss - high * cost >= at_high):
            size = _insert(
                envelope[0], envelope[1], envelope[2], size, limits, query, cost, loss, rows[k]
            )
    if proven:
        return size
    for k in range(len(movers)):
        if end_low + climbs[k, 0] < at_low and end_high + climbs[k, 1] < at_high:
            continue
        row = movers[k]
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


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def _fill(query, here, listed, filled, gain, top, cells, limits, envelope):  # type: ignore[no-untyped-def]
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
            rows[k], costs[k] = begin + k, _cost(cells[0], here, begin + k, limits)
        values[k] = gain[rows[k]] - limits.low * costs[k]
    _search(query, here, gain, top, cells, limits, (rows, costs, values), envelope, 0)
    order = np.argsort(-values)
    rows[:], costs[:] = rows[order], costs[order]
    for part in range(len(rest)):
        rest[part] = values[order[min((part + 1) * STRIDE, keep - 1)]]
    if keep == m:
        rest[len(rest) - 1] = -np.inf


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def search_cells(first, last, queries, cells, table, limits, before, out):  # type: ignore[no-untyped-def]
    """Envelopes of the queries from `first` to `last`, from their lists where these are proven to
    suffice.

    `queries` are the order of their numbers and, by number, position, label and the arrays of
    `Lists`: (rows, costs, rest, since) by query and (scale, rise, others, movers, climbs) by table;
    lists of no rows are not used. `cells` are the places, (`lead`, unit) of `Cells`, first and last
    positions, bounds and the position with which these begin, and the `table` has by class the
    largest losses of all positions and of these cells, and if there is a `lead` the former in
    single precision, rounded up. `before` (start, costs, losses, rows, turn) are envelopes over
    other cells, from the place `turn` in the order on; or none. In `out` (sizes, costs, losses,
    rows, least) ``sizes[q]`` receives the number of vertices, which follow one another in the
    buffers, and ``least``, by class and end of the bracket, the least value with which a row may
    change an envelope. A full buffer ends the search early: the place in `order` after the last
    query done is returned, and the number of vertices written.
    """
    order, position, label, rows, costs, rest, since, scale, rise, others, movers, climbs = queries
    keep = rows.shape[1]
    newest = len(scale) - 1
    middle = np.sqrt(limits.low * limits.high)
    at_middle = Limits(middle, middle, limits.tie, limits.floor, limits.key, limits.names)
    none = rows[0, :0], costs[0, :0], costs[0, :0]
    distances = np.empty(BLOCK, dtype=np.float32)
    written = 0
    for turn in range(first, last):
        q = order[turn]
        here = position[q]
        k = label[q]
        gain = table[0][k]
        top = table[1][k]
        index = (*cells, table[2][k], distances)
        # the envelope grows in place, behind those of the queries before
        envelope = out[1][written:], out[2][written:], out[3][written:]
        if len(envelope[0]) < keep + 2:
            return turn, written
        size = 0
        for _ in range(2 if keep else 0):
            listed = rows[q], costs[q], rest[q]
            g = since[q]
            if g >= 0:
                rises = scale[g], rise[g, k], others[g, k], movers[g, k], climbs[g, k]
                size = _from_list(q, here, listed, gain, cells[0], rises, limits, envelope)
            if size or g == newest:
                break
            _fill(q, here, listed, g >= 0, gain, top, index, at_middle, envelope)
            since[q] = newest
        if not size:
            if len(before[0]):
                begin = before[0][turn - before[4]]
                end = before[0][turn - before[4] + 1]
                size = end - begin
                if len(envelope[0]) < size + 2:
                    return turn, written
                envelope[0][:size] = before[1][begin:end]
                envelope[1][:size] = before[2][begin:end]
                envelope[2][:size] = before[3][begin:end]
            size = _search(q, here, gain, top, index, limits, none, envelope, size)
            if size < 0:
                return turn, written
            at_low, at_high = _threshold(envelope[0], envelope[1], size, limits)
            out[4][k, 0], out[4][k, 1] = min(out[4][k, 0], at_low), min(out[4][k, 1], at_high)
        out[0][q] = size
        written += size
    return last, written


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def reaching(apart, known, top, rates, least):  # type: ignore[no-untyped-def]
    """Cells that are not known and can reach the least value of a class at an end of the
    bracket.
    """
    found = np.zeros(len(apart), dtype=np.bool_)
    for k in range(len(top)):
        for c in range(len(apart)):
            bound = squared(apart[c])
            found[c] |= top[k, c] - rates[0] * bound >= least[k, 0]
            found[c] |= top[k, c] - rates[1] * bound >= least[k, 1]
    return np.flatnonzero(found & ~known)


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def lower_margins(products, cell_of, least):  # type: ignore[no-untyped-def]
    """Lower by every row its cell's least excess of the inner product with its own centre over all
    others.
    """
    for i in range(products.shape[0]):
        own = cell_of[i]
        row = products[i]
        mine = row[own]
        low = least[own]
        for c in range(len(row)):
            low[c] = min(low[c], mine - row[c])


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def split_rises(now, before, scale, rise, others, movers, climbs):  # type: ignore[no-untyped-def]
    """Rows with the largest ``now - scale * before``, for two scales, and the largest rises.

    A sample gives the rise from which rows are `movers`, as many as there is room for. The largest
    rises at both scales are those of all rows, `rise`, and of all but the movers, `others`.
    """
    step = max(1, len(now) // 1024)
    sample = np.sort(now[::step] - scale[0] * before[::step])
    # half as many as there is room for: the sample errs
    limit = sample[max(0, len(sample) - 1 - len(sample) * len(movers) // (2 * len(now)))]
    rise[:] = others[:] = -np.inf
    count = 0
    for i in range(len(now)):
        at_low = now[i] - scale[0] * before[i]
        at_high = now[i] - scale[1] * before[i]
        if at_low > limit and count < len(movers):
            movers[count], climbs[count, 0], climbs[count, 1] = i, at_low, at_high
            count += 1
        else:
            others[0], others[1] = max(others[0], at_low), max(others[1], at_high)
    for k in range(len(movers)):
        if k >= count:
            movers[k], climbs[k] = 0, -np.inf
        rise[0], rise[1] = max(rise[0], climbs[k, 0]), max(rise[1], climbs[k, 1])
    rise[:] = np.maximum(rise, others)


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def search_lists(first, last, queries, lists, table, limits, _, out):  # type: ignore[no-untyped-def]
    """As `search_cells`, over the listed neighbours of every place by ascending cost.

    `queries` are (place, label), and `lists` (place, cost) the neighbours of every place with the
    costs of moving there. The `table` has by class the largest loss of every place and of all
    places.
    """
    place, label = queries
    listed, list_cost = lists
    low = limits.low
    high = limits.high
    written = 0
    for q in range(first, last):
        here = place[q]
        gain = table[0][label[q]]
        most = table[1][label[q]] + limits.tie
        costs = out[1][written:]
        losses = out[2][written:]
        rows = out[3][written:]
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
def listed_distances(places, first, found, costs):  # type: ignore[no-untyped-def]
    """Squared distances of the places from `first` on to their listed neighbours."""
    for i in range(found.shape[0]):
        for k in range(found.shape[1]):
            costs[i, k] = squared_distance(places, first + i, found[i, k])
