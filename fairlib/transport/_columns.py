"""Compiled column searches: the inner loops of the transport solvers.

Each works on some columns of the cost matrix, holds no lock and writes only its own slice of the output, so
threads may share a problem and the result does not depend on how the columns are divided.
"""

from __future__ import annotations

import numba
import numpy as np

__all__ = ["count_candidates", "fill_candidates", "search_all", "search_candidates"]

# Reordering a maximum is exact; fusing into multiply-add is not, so `contract` stays out.
_REORDER = {"nnan", "ninf", "nsz", "reassoc"}


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def _drawn(key, column, row):  # type: ignore[no-untyped-def]
    """Hash of (key, column, row), the finaliser of splitmix64 twice: ties fall alike in any order."""
    x = key + np.uint64(column) * np.uint64(0x9E3779B97F4A7C15)
    for _ in range(2):
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        x = (x ^ (x >> np.uint64(31))) + np.uint64(row)
    return x


@numba.njit(nogil=True, cache=True, fastmath=_REORDER)  # type: ignore[misc]
def _best_value(costs, gain, eta):  # type: ignore[no-untyped-def]
    top = -np.inf
    for i in range(costs.shape[0]):
        top = max(top, gain[i] - eta * costs[i])
    return top


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def search_all(costs, losses, labels, first, eta, tie, key, random, best, target, spent):  # type: ignore[no-untyped-def]
    """
    Per column j: max_i losses[labels[j], i] - eta * costs[j, i], and one of its maximisers.

    Among values within `tie` of the maximum the cheapest row, or, if `random`, the one with the largest hash.
    """
    for j in range(costs.shape[0]):
        gain = losses[labels[j]]
        row = costs[j]
        top = _best_value(row, gain, eta)
        chosen = -1
        mark = np.uint64(0)
        for i in range(row.shape[0]):
            if gain[i] - eta * row[i] >= top - tie:
                if random:
                    drawn = _drawn(key, first + j, i)
                    if chosen < 0 or drawn > mark:
                        chosen, mark = i, drawn
                elif chosen < 0 or row[i] < row[chosen]:
                    chosen = i
        best[j] = top
        target[j] = chosen
        spent[j] = row[chosen]


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def count_candidates(costs, losses, labels, low, high, floor_low, floor_high, counts):  # type: ignore[no-untyped-def]
    """
    Per column: how many rows reach both floors, the only ones that can win for a multiplier in [low, high].

    A row below the other end's winner at both ends lies below it throughout: two lines cross once.
    """
    for j in range(costs.shape[0]):
        gain = losses[labels[j]]
        found = 0
        for i in range(costs.shape[1]):
            if gain[i] - low * costs[j, i] >= floor_low[j] and gain[i] - high * costs[j, i] >= floor_high[j]:
                found += 1
        counts[j] = found


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def fill_candidates(  # type: ignore[no-untyped-def]
    costs, losses, labels, low, high, floor_low, floor_high, start, rows, kept
):
    """Write the rows that `count_candidates` counted, and their costs, from position ``start[j]`` on."""
    for j in range(costs.shape[0]):
        gain = losses[labels[j]]
        position = start[j]
        for i in range(costs.shape[1]):
            if gain[i] - low * costs[j, i] >= floor_low[j] and gain[i] - high * costs[j, i] >= floor_high[j]:
                rows[position] = i
                kept[position] = costs[j, i]
                position += 1


@numba.njit(nogil=True, cache=True)  # type: ignore[misc]
def search_candidates(start, rows, kept, losses, labels, eta, tie, key, random, best, target, spent):  # type: ignore[no-untyped-def]
    """Like `search_all`, over the candidate rows alone."""
    for j in range(labels.shape[0]):
        gain = losses[labels[j]]
        top = -np.inf
        for position in range(start[j], start[j + 1]):
            top = max(top, gain[rows[position]] - eta * kept[position])
        chosen = -1
        mark = np.uint64(0)
        for position in range(start[j], start[j + 1]):
            if gain[rows[position]] - eta * kept[position] >= top - tie:
                if random:
                    drawn = _drawn(key, j, rows[position])
                    if chosen < 0 or drawn > mark:
                        chosen, mark = position, drawn
                elif chosen < 0 or kept[position] < kept[chosen]:
                    chosen = position
        best[j] = top
        target[j] = rows[chosen]
        spent[j] = kept[chosen]
