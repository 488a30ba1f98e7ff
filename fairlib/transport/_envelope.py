"""
Upper envelopes of lines, kept while a column is searched.

A row that costs c and loses v is worth the line v - eta * c at the multiplier eta. Of the rows that a column
may move to only those on the upper envelope of these lines within a bracket [low, high] can matter; they are
kept by ascending cost, which is also by ascending loss. Every function here is compiled, holds no lock and
touches nothing but its arguments.
"""

from __future__ import annotations

import numba
import numpy as np

__all__ = ["admits", "drawn", "drawn_many", "insert"]


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
def insert(costs, losses, rows, size, low, high, cost, loss, row, tie, key, query):  # type: ignore[no-untyped-def]
    """
    Add a line if it rises above the envelope, drop those that it covers, and give the new size.

    Of lines that are equal (cost exactly, loss within `tie`) the row with the larger hash stays.
    """
    p = 0
    while p < size and costs[p] < cost:
        p += 1
    if p < size and costs[p] == cost:
        if abs(loss - losses[p]) <= tie:
            if drawn(key, query, row) > drawn(key, query, rows[p]):
                losses[p] = loss
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
