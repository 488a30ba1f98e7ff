"""Counts that describe a column's distribution and no single person: of bins and of categories."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from evenhand.fairlib.arrays import Float, Int

MAX_BINS = 10
BIN_ROWS = 20
"""Fewest rows of a bin of numbers."""


@dataclass(frozen=True)
class Bins:
    """Bins of a numeric column, open at both ends."""

    edges: tuple[float, ...]  # length B - 1: rising; an edge belongs to the bin above it
    counts: tuple[int, ...]  # length B: rows with a number in each bin


def numeric_bins(values: ArrayLike, *, most: int = MAX_BINS, least: int = BIN_ROWS) -> Bins:
    """Cut a column's numbers at about its quantiles, or at its values where these are few.

    With at most `most` distinct values every value is a bin, else there are at most `most` bins of
    about equal size; then bins of fewer than `least` rows join the smaller neighbour. An edge is a
    round number near a quantile, a value of the column only if at least `least` rows have it, and
    the outer bins are open: the smallest and the largest value stay hidden. A constant that at
    least `least` rows share has a bin of its own between two empty ones, so that any other value is
    counted apart from it.

    Parameters
    ----------
    values : array-like, shape (n,)
        Numbers of a column; NaN and infinite values do not count.
    most : int, default MAX_BINS
        Most bins, at least 1.
    least : int, default BIN_ROWS
        Fewest rows of a bin, at least 1.

    Returns
    -------
    Bins
        One bin without edges where there are too few rows for two.

    Raises
    ------
    ValueError
        If `most` or `least` is below 1.

    Examples
    --------
    >>> numeric_bins([1, 1, 1, 2, 2, 3], least=2)
    Bins(edges=(2.0,), counts=(3, 3))
    """
    if most < 1 or least < 1:
        raise ValueError(f"most, least: got {most} and {least}, expected at least 1 each")
    numbers = np.asarray(values, dtype=np.float64)
    numbers = numbers[np.isfinite(numbers)]
    distinct, counts = np.unique(numbers, return_counts=True)
    if len(distinct) == 1 and len(numbers) >= least:
        value = float(distinct[0])
        return Bins((value, float(np.nextafter(value, np.inf))), (0, len(numbers), 0))
    if len(distinct) <= most:
        pairs = list(zip(distinct[:-1], distinct[1:], strict=True))
    else:
        pairs = _ranges_of_edges(distinct, counts, most)
    shared = set(distinct[counts >= least].tolist())
    edges = sorted({_edge(float(low), float(high), distinct, shared) for low, high in pairs})
    sizes = count_bins(numbers, edges)
    merged = merge_bins(sizes.tolist(), least, most, len(sizes))
    return Bins(
        tuple(edges[part[0] - 1] for part in merged[1:]),
        tuple(int(sizes[part].sum()) for part in merged),
    )


def _ranges_of_edges(distinct: Float, counts: Int, most: int) -> list[tuple[float, float]]:
    """Ranges, each between two values of a column, that get an edge.

    `distinct`, shape (V,), are the column's values, ascending, and `counts` their rows.
    """
    rows = int(counts.sum())
    reach = rows / (4 * most)
    # A value that many rows have gets a bin of its own: an edge on each side.
    crowded = np.flatnonzero(counts >= 2 * reach)
    ranges = []
    for position in crowded:
        if position > 0:
            ranges.append((distinct[position - 1], distinct[position]))
        if position + 1 < len(distinct):
            ranges.append((distinct[position], distinct[position + 1]))
    # An edge may lie anywhere near its quantile: a wider range allows a rounder edge, which reveals
    # less.
    quantiles = rows * np.arange(1, most) / most
    near = np.clip([quantiles - reach, quantiles + reach], 0, rows - 1).astype(int)
    lows, highs = distinct[np.searchsorted(np.cumsum(counts), near, side="right")].tolist()
    crowded_values = set(distinct[crowded].tolist())
    for low, high in zip(lows, highs, strict=True):
        if low < high and low not in crowded_values and high not in crowded_values:
            ranges.append((low, high))
    return ranges


def merge_bins(
    sizes: Sequence[float], least: float, most: int | None = None, ordered: int = 0
) -> list[list[int]]:
    """Merge bins, the smallest first, until each has `least` rows and there are at most `most`.

    Parameters
    ----------
    sizes : sequence of float, shape (B,)
        Rows of each bin.
    least : float
        Fewest rows of a merged bin.
    most : int, optional
        Most bins; default: any number.
    ordered : int, default 0
        So many of the first bins have an order: such a bin joins the smaller of its neighbours
        among these, and any other bin the smallest of all.

    Returns
    -------
    list of list of int
        Positions of the bins that became one.
    """
    sizes = list(sizes)
    parts = [[j] for j in range(len(sizes))]
    while len(parts) > 1 and (min(sizes) < least or len(parts) > (most or len(parts))):
        smallest = sizes.index(min(sizes))
        partner = min(_partners(smallest, parts, ordered), key=sizes.__getitem__)
        first = min(smallest, partner)
        second = max(smallest, partner)
        parts[first] = sorted(parts[first] + parts[second])
        sizes[first] += sizes[second]
        del parts[second], sizes[second]
    return parts


def _partners(position: int, parts: Sequence[Sequence[int]], ordered: int) -> list[int]:
    """Positions of the parts that a part may join."""
    line = [i for i, part in enumerate(parts) if part[0] < ordered]
    if position not in line or len(line) == 1:
        return [i for i in range(len(parts)) if i != position]
    place = line.index(position)
    return [*line[max(place - 1, 0) : place], *line[place + 1 : place + 2]]


def count_bins(values: ArrayLike, edges: ArrayLike) -> Int:
    """Count the rows of each bin, shape (B,); NaN do not count, and infinite values are in the
    outer bins.

    Parameters
    ----------
    values : array-like, shape (n,)
        Numbers of a column.
    edges : array-like, shape (B - 1,)
        Rising edges; an edge belongs to the bin above it.

    Returns
    -------
    ndarray of int64, shape (B,)
        Rows of each bin.
    """
    numbers = np.asarray(values, dtype=np.float64)
    cuts = np.asarray(edges, dtype=np.float64)
    places = np.searchsorted(cuts, numbers[~np.isnan(numbers)], side="right")
    return np.bincount(places, minlength=len(cuts) + 1).astype(np.int64)


def pool_small(counts: Mapping[str, int], least: int) -> tuple[dict[str, int], int]:
    """Separate the names that at least `least` rows have, in their order, from the rows of the
    rest.

    The rest takes further names, smallest first, until it has `least` rows itself or is empty.

    Parameters
    ----------
    counts : mapping
        Rows by name.
    least : int
        Fewest rows of a name that is kept.

    Returns
    -------
    tuple of dict and int
        Rows of the names that are kept, and of all others together.

    Examples
    --------
    >>> pool_small({"a": 40, "b": 2, "c": 7}, 5)
    ({'a': 40}, 9)
    """
    large = {name: count for name, count in counts.items() if count >= least}
    pooled = sum(count for name, count in counts.items() if name not in large)
    while 0 < pooled < least and large:
        smallest = min(large, key=large.__getitem__)
        pooled += large.pop(smallest)
    return large, pooled


def _edge(low: float, high: float, distinct: Float, shared: set[float]) -> float:
    """Round number between two values, and no value of the column itself unless it is shared."""
    edge = _short_between(low, high)
    if edge in shared or edge not in distinct:
        return edge
    below = distinct[max(int(np.searchsorted(distinct, edge)) - 1, 0)]
    return _short_between(float(below), edge, closed=False)


def _short_between(low: float, high: float, *, closed: bool = True) -> float:
    """Number with the fewest digits that is above `low` and at most (not `closed`: below)
    `high`.
    """
    power = math.floor(math.log10(max(abs(low), abs(high), 1e-300))) + 1
    for exponent in range(power, power - 17, -1):
        # Division keeps negative powers exact: 3 / 10 is 0.3, 3 * 0.1 is not.
        unit = 10.0 ** abs(exponent)
        if exponent >= 0:
            candidate = (math.floor(low / unit) + 1) * unit
        else:
            candidate = (math.floor(low * unit) + 1) / unit
        if low < candidate < high or (closed and candidate == high):
            return float(candidate)
    return high
