"""The largest mean gain within a mean budget, when each person has a few options that can
be mixed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.fairlib.arrays import Float, Int


@dataclass(frozen=True)
class ConcaveHulls:
    r"""Segments of the upper concave hulls of all people's options, in falling order of slope.

    The linear program

    .. math::
        R(\epsilon) = \max_{p \ge 0} \frac1n \sum_{i, m} p_{im} a_{im} \quad \text{s.t.} \quad
        \sum_m p_{im} = 1, \; \frac1n \sum_{i, m} p_{im} c_{im} \le \epsilon

    with gains a and costs c is a continuous knapsack: only the options on each person's upper
    concave hull matter, and the optimum takes the segments of all hulls in the order of their
    slopes. By duality it is also

    .. math:: \min_{\lambda \ge 0} \lambda \epsilon + \frac1n \sum_i \max_m a_{im} - \lambda c_{im}

    and :math:`\lambda` is the slope at which the budget is used up.
    """

    free: Float  # shape (n,): each person's gain at no cost
    person: Int  # shape (s,): the person of each segment
    # shape (s,): of the whole segment; gain / cost falls from segment to segment
    cost: Float
    gain: Float

    def allocate(self, budgets: Float, weights: NDArray[Any] | None = None) -> tuple[Float, Float]:
        r""":math:`R` and :math:`\lambda` of each budget, exact, each of shape (b,).

        Parameters
        ----------
        budgets : ndarray of float64, shape (b,)
            Mean costs.
        weights : ndarray, shape (n,), optional
            How often each person counts, summing to n; default: once.

        Returns
        -------
        tuple of two ndarrays, shape (b,)
            Mean gains, and multipliers, which are 0 where the budget exceeds the cost of all
            segments.
        """
        n = len(self.free)
        counts = np.ones(n) if weights is None else weights
        # Mean cost and gain after each segment; between two segments both grow linearly.
        share = counts[self.person] / n
        used = np.concatenate([[0.0], np.cumsum(share * self.cost)])
        gained = np.concatenate([[0.0], np.cumsum(share * self.gain)])
        values = counts @ self.free / n + np.interp(budgets, used, gained)
        last = np.searchsorted(used[1:], budgets, side="right")
        slopes = np.append(self.gain / self.cost, 0.0)
        return values, slopes[last]


def concave_hulls(gains: Float, costs: Float) -> ConcaveHulls:
    """Upper concave hulls of all people's options.

    Parameters
    ----------
    gains : ndarray of float64, shape (n, m)
        Gain of each person's m options.
    costs : ndarray of float64, shape (n, m)
        Their costs, not negative; the first option of each person costs nothing.

    Returns
    -------
    ConcaveHulls
        The segments of all people.
    """
    free = np.where(costs == 0.0, gains, -np.inf).max(axis=1)
    now_cost = np.zeros(len(gains))
    now_gain = free.copy()
    rows = np.arange(len(gains))
    segments = []
    while len(rows):
        # From each person's vertex, the steepest rise to an option that costs more.
        rise = gains[rows] - now_gain[rows, None]
        step = costs[rows] - now_cost[rows, None]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            slope = np.where((step > 0) & (rise > 0), rise / step, -np.inf)
        # Of several options on one line the farthest.
        best = slope.max(axis=1, keepdims=True)
        chosen = np.where(slope == best, step, -np.inf).argmax(axis=1)
        going = np.isfinite(best[:, 0]) & (best[:, 0] > 0)
        at = np.flatnonzero(going)
        chosen = chosen[going]
        rows = rows[going]
        segments.append((rows, step[at, chosen], rise[at, chosen]))
        now_cost[rows] = costs[rows, chosen]
        now_gain[rows] = gains[rows, chosen]
    person, cost, gain = (np.concatenate(part) for part in zip(*segments, strict=True))
    order = np.argsort(-(gain / cost), kind="stable")
    return ConcaveHulls(free, person[order], cost[order], gain[order])
