"""The best mean gain that a mean budget buys, when everyone has a few options to choose from and to mix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Purchases", "purchases"]

Float = NDArray[np.float64]
Int = NDArray[np.int64]


@dataclass(frozen=True)
class Purchases:
    r"""
    Everything that can be bought, the best price first.

    The linear program

    .. math::
        R(\epsilon) = \max_{p \ge 0} \frac1n \sum_{i, m} p_{im} a_{im} \quad \text{s.t.} \quad
        \sum_m p_{im} = 1, \; \frac1n \sum_{i, m} p_{im} c_{im} \le \epsilon

    is a continuous knapsack: each person's options matter through their upper concave hull, and the pieces of
    all hulls are bought in the order of their slopes. By duality it is also

    .. math:: \min_{\lambda \ge 0} \lambda \epsilon + \frac1n \sum_i \max_m a_{im} - \lambda c_{im}

    and :math:`\lambda` is the slope at which the budget runs out.

    Parameters
    ----------
    free : ndarray, shape (n,)
        What each person has at no cost.
    person : ndarray of int64, shape (s,)
        Whose piece of a hull it is.
    cost, gain : ndarray, shape (s,)
        Of the whole piece; gain / cost falls from piece to piece.
    """

    free: Float
    person: Int
    cost: Float
    gain: Float

    def best(self, budgets: Float, weights: NDArray[Any] | None = None) -> tuple[Float, Float]:
        r"""
        :math:`R` and :math:`\lambda` of each budget, exact.

        Parameters
        ----------
        budgets : ndarray, shape (b,)
        weights : ndarray, shape (n,), or None
            How often each person counts, summing to n; None for once each.

        Returns
        -------
        value, price : ndarray, shape (b,)
            The price is 0 where the budget buys all there is.
        """
        n = len(self.free)
        counts = np.ones(n) if weights is None else weights
        each = counts[self.person] / n
        spent = np.concatenate([[0.0], np.cumsum(each * self.cost)])
        bought = np.concatenate([[0.0], np.cumsum(each * self.gain)])
        values = counts @ self.free / n + np.interp(budgets, spent, bought)
        last = np.searchsorted(spent[1:], budgets, side="right")
        slopes = np.append(self.gain / self.cost, 0.0)
        return values, slopes[last]


def purchases(gains: Float, costs: Float) -> Purchases:
    """
    Upper concave hulls of everyone's options.

    Parameters
    ----------
    gains, costs : ndarray of float64, shape (n, m)
        Costs are not negative; the first option of each person costs nothing.
    """
    rows = np.arange(len(gains))
    free = np.where(costs == 0.0, gains, -np.inf).max(axis=1)
    now_cost, now_gain = np.zeros(len(gains)), free.copy()
    people, cost, gain = [], [], []
    open_rows = rows
    while len(open_rows):
        rise = gains[open_rows] - now_gain[open_rows, None]
        step = costs[open_rows] - now_cost[open_rows, None]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            slope = np.where((step > 0) & (rise > 0), rise / step, -np.inf)
        # of several on the same line the farthest
        best = slope.max(axis=1, keepdims=True)
        chosen = np.where(slope == best, step, -np.inf).argmax(axis=1)
        going = np.isfinite(best[:, 0]) & (best[:, 0] > 0)
        at, chosen, open_rows = np.flatnonzero(going), chosen[going], open_rows[going]
        people.append(open_rows)
        cost.append(step[at, chosen])
        gain.append(rise[at, chosen])
        now_cost[open_rows] = costs[open_rows, chosen]
        now_gain[open_rows] = gains[open_rows, chosen]
    who = np.concatenate(people) if people else np.zeros(0, dtype=np.int64)
    paid = np.concatenate(cost) if cost else np.zeros(0)
    got = np.concatenate(gain) if gain else np.zeros(0)
    order = np.argsort(-(got / paid), kind="stable")
    return Purchases(free, who[order], paid[order], got[order])
