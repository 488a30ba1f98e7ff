"""Share of people whose decision changes when they are treated as comparable other people."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from evenhand.fairlib.arrays import Bool, Float, Int
from evenhand.fairlib.evaluation.bootstrap import (
    multinomial_chunks,
    percentile_interval,
    score_bins,
)
from evenhand.fairlib.evaluation.closed_intervals import rate_interval
from evenhand.fairlib.evaluation.evaluate import check_settings
from evenhand.fairlib.execution import generator

MAX_DISTANCES = 10_000
"""Distances kept in the bootstrap; more of them are merged with their neighbours."""


@dataclass(frozen=True, eq=False)
class Flips:
    """Decisions that an adversary can change within a budget."""

    budget: float  # squared fair distance
    # largest share of people with a changed decision when the mean squared fair distance over all
    # people is at most the budget
    share: float
    # low, high: interval of `share` over the people, given the distances; None without draws
    low: float | None
    high: float | None
    # share of people with a differently decided row within the squared fair distance `budget`
    radius_share: float
    # shape (n,): squared fair distance to the nearest row with the other decision; infinite without
    # such a row
    nearest: Float


def flips(
    points: ArrayLike,
    decision: ArrayLike,
    budget: float,
    *,
    draws: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> Flips:
    r"""Largest share of people whose decision changes when each may be treated as another given
    row.

    .. math:: \max_{S} \frac{|S|}{n} \quad \text{s.t.} \quad
              \frac1n \sum_{i \in S} d_i^2 \le \epsilon, \qquad
              d_i^2 = \min_{j:\, c_j \ne c_i} \|x_i - x_j\|^2

    People are counted whole, so taking the smallest distances first is optimal. The share depends
    on the decisions alone: unlike ``certificate.drf`` it cannot be reduced by shrinking the scores.
    The adversary has the given rows only, so against arbitrary comparable people the share can be
    larger. It takes no weights of rows: each of the people is one.

    Parameters
    ----------
    points : array-like, shape (n, d)
        Rows projected by the fair metric, so that Euclidean distance is fair distance.
    decision : array-like, shape (n,)
        0 or 1.
    budget : float
        Mean squared fair distance :math:`\epsilon`, at least 0.
    draws : int, default 1000
        Bootstrap draws of the people, with their distances held fixed; 0 for no interval.
    level : float, default 0.95
        Coverage of the interval, in (0, 1). It is widened to contain the exact interval of a share
        of so many people, because all draws are 0 where no decision changes.
    seed : int, default 0
        Seed of the bootstrap.

    Returns
    -------
    Flips
        The result does not depend on the order of the rows, and is exact up to rounding of the
        distances.

    Raises
    ------
    ValueError
        For no row, points or decisions of another form, a negative or non-finite budget, or a
        setting out of range.

    Examples
    --------
    >>> flips([[0.0], [1.0], [9.0]], [0, 1, 1], 0.5, draws=0).share
    0.3333333333333333
    """
    check_settings(draws, level)
    rows, decided = _checked(points, decision, budget)
    nearest = _nearest_of_other_decision(rows, decided)
    distances, counts = np.unique(nearest, return_counts=True)
    share = float(affordable(distances, counts[None], budget)[0])
    bins = score_bins(nearest, MAX_DISTANCES)
    counts = np.bincount(bins)
    # summed by rising distance, for the order of the rows must not matter
    means = np.bincount(
        np.sort(bins), weights=np.sort(np.minimum(nearest, _beyond(budget, len(rows))))
    )
    chunks = multinomial_chunks(counts, draws, generator(seed, "bootstrap", "flips"))
    drawn = [np.empty(0)]
    for chunk in chunks:
        drawn.append(affordable(means / counts, chunk, budget))
    low, high = percentile_interval(np.concatenate(drawn), level, share)
    if low is not None and high is not None:
        exact = rate_interval(share * len(rows), len(rows), level)
        low = min(low, exact[0])
        high = max(high, exact[1])
    return Flips(budget, share, low, high, float((nearest <= budget).mean()), nearest)


def _checked(points: ArrayLike, decision: ArrayLike, budget: float) -> tuple[Float, Bool]:
    """Points and decisions as arrays; ValueError as :func:`flips` raises it."""
    if not (np.isfinite(budget) and budget >= 0):
        raise ValueError(f"budget must be finite and at least 0, got {budget!r}.")
    rows = np.asarray(points, dtype=np.float64)
    decided = np.asarray(decision)
    if rows.ndim != 2 or not len(rows) or not np.isfinite(rows).all():
        raise ValueError("points must be a table of finite numbers with at least one row.")
    if decided.shape != (len(rows),) or not np.isin(decided, (0, 1)).all():
        raise ValueError(
            f"decision must hold {len(rows)} values, each 0 or 1, as many as points has rows."
        )
    return rows, decided.astype(bool)


def _nearest_of_other_decision(points: Float, decided: Bool) -> Float:
    """Squared distance of every row to the nearest row with the other decision, infinite without
    one.
    """
    from sklearn.metrics import pairwise_distances_argmin

    nearest = np.full(len(points), np.inf)
    if decided.all() or not decided.any():
        return nearest
    # equal rows are searched once
    distinct = []
    for side in (False, True):
        distinct.append(np.unique(points[decided == side], axis=0, return_inverse=True))
    for side in (False, True):
        rows, place = distinct[side]
        candidates, _ = distinct[not side]
        # the search subtracts squared norms, which are needlessly large far from the origin
        centre = candidates.mean(axis=0)
        closest = candidates[pairwise_distances_argmin(rows - centre, candidates - centre)]
        # directly, for the search's own distances carry the rounding of the norms
        nearest[decided == side] = ((rows - closest) ** 2).sum(axis=1)[place.ravel()]
    return nearest


def _beyond(budget: float, n: int) -> float:
    """A squared distance above the whole budget; finite, because 0 times infinity is undefined."""
    return 2.0 * budget * n + 1.0


def affordable(distances: Float, counts: Int, budget: float) -> Float:
    """Share of people within the budget; squared distances rise, shape (k,), with counts (draws,
    k).

    Parameters
    ----------
    distances : ndarray of float64, shape (k,)
        Rising squared distances.
    counts : ndarray of int64, shape (draws, k)
        People at each distance, in every draw.
    budget : float
        Mean squared distance.

    Returns
    -------
    ndarray of float64, shape (draws,)
        Largest share of people whose distances fit into the budget.
    """
    n = int(counts[0].sum())
    limit = budget * n
    price = np.minimum(distances, _beyond(budget, n))
    spent = np.cumsum(counts * price, axis=1)
    people = np.cumsum(counts, axis=1)
    # all people of the distances that can be paid for, and some of the first that can be paid for
    # in part
    full = (spent <= limit).sum(axis=1)
    before = np.arange(len(counts)), full - 1
    paid = np.where(full > 0, spent[before], 0.0)
    whole = np.where(full > 0, people[before], 0)
    next_price = np.append(price, np.inf)[full]
    some = np.floor(
        np.divide(limit - paid, next_price, out=np.zeros(len(counts)), where=next_price > 0)
    )
    return (whole + some) / n
