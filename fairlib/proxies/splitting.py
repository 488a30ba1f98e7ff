"""One split of a vertex: halfspaces over its scores, and which mixture of them to take."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

__all__ = ["Hypotheses", "Limits", "play_game", "solve_program"]

Float = NDArray[np.float64]
# A weight of the mixture below this is the program's rounding.
LEAST_WEIGHT = 1e-9
# Two scores nearer than this are one: no cut is set between them.
LEAST_GAP = 1e-10
# Of disclosivity, above what is allowed: rounding of sums over rows.
ROUNDING = 1e-12
# Of a floor on rows, as a share of it.
FLOOR_ROUNDING = 1e-9
# The program's own tolerance can break a constraint; it is then solved again under a stricter one.
TRIES = 4
# The game meets its constraints only in the limit: it is played for a little less than is allowed.
GAME_MARGIN = 0.05


@dataclass(frozen=True)
class Limits:
    """
    What both children of a split must respect.

    Attributes
    ----------
    base_rates : ndarray, shape (K,)
        r, the shares of the groups among all people.
    alpha : float
        Largest allowed difference between a group's share within a child and its base rate.
    least_rows : float
        Expected rows that each child must have.
    """

    base_rates: Float
    alpha: float
    least_rows: float

    def allow(self, tally: Float) -> bool:
        """Whether a child with this tally (rows of every group, rows) is allowed."""
        rows = tally[-1]
        if rows < self.least_rows * (1 - FLOOR_ROUNDING):
            return False
        return bool(np.abs(tally[:-1] / rows - self.base_rates).max() <= self.alpha + ROUNDING)


class Hypotheses:
    """
    Halfspaces of a vertex's scores, with what they select.

    Parameters
    ----------
    scores : ndarray, shape (m, K)
    indicators : ndarray, shape (m, K)
        1 where a row belongs to a group.
    weights : ndarray, shape (m,)

    Attributes
    ----------
    directions : list of ndarray, shape (K,)
    cuts : list of float
        Hypothesis t selects the rows with ``scores @ directions[t] > cuts[t]``.
    tallies : ndarray, shape (T, K + 1)
        Expected rows of every group that hypothesis t selects, and expected rows.
    """

    def __init__(self, scores: Float, indicators: Float, weights: Float) -> None:
        self.scores = scores
        self.counted = np.hstack([indicators * weights[:, None], weights[:, None]])
        self.total = self.counted.sum(axis=0)
        self.directions: list[Float] = []
        self.cuts: list[float] = []
        self.tallies = np.zeros((0, len(self.total)))

    def sweep(self, direction: Float, cuts: int) -> None:
        """Add halfspaces along one direction, at cuts that are dense where little is selected or left."""
        scores = self.scores @ direction
        order = np.argsort(-scores, kind="stable")
        ordered = scores[order]
        sums = np.cumsum(self.counted[order], axis=0)
        small = np.geomspace(min(0.5, 2.0 / max(self.total[-1], 4.0)), 0.5, cuts // 2)
        shares = np.unique(np.concatenate([small, 1.0 - small]))
        # between equal scores there is no cut: of the places where there is one, those about each share
        gaps = np.flatnonzero(ordered[:-1] - ordered[1:] > LEAST_GAP)
        if len(gaps) == 0:
            return
        nearest = np.searchsorted(sums[gaps, -1], shares * self.total[-1])
        places = gaps[np.unique(np.clip(np.concatenate([nearest - 1, nearest]), 0, len(gaps) - 1))]
        self.tallies = np.vstack([self.tallies, sums[places]])
        self.directions += [direction] * len(places)
        self.cuts += [float(0.5 * (ordered[place] + ordered[place + 1])) for place in places]

    def add(self, direction: Float, cut: float) -> None:
        """Add one halfspace."""
        chosen = self.scores @ direction > cut
        self.tallies = np.vstack([self.tallies, self.counted[chosen].sum(axis=0)])
        self.directions.append(direction)
        self.cuts.append(cut)

    def forget(self, kept: NDArray[np.intp]) -> None:
        """Keep some of the hypotheses only."""
        self.tallies = self.tallies[kept]
        self.directions = [self.directions[t] for t in kept]
        self.cuts = [self.cuts[t] for t in kept]


def solve_program(
    pool: Hypotheses, limits: Limits, direction: Float, offset: float
) -> tuple[Float, Float] | None:
    r"""
    The best mixture of the hypotheses, as a linear program (Deng et al. 2023, program 3 and appendix A.4).

    With :math:`N_t, M_t` the rows of each group and all rows that hypothesis t selects,
    :math:`g = (U - U') / \lVert U - U' \rVert` and the composition :math:`a` of the vertex:

    .. math:: \max_{p} \sum_t p_t \left(g \cdot N_t - (g \cdot a + \tau) M_t\right)
        \quad\text{with } p \ge 0,\ \textstyle\sum_t p_t = 1,\
        \left|\sum_t p_t (N_{tk} - r_k M_t)\right| \le \alpha \sum_t p_t M_t

    the same for what is not selected, and enough rows on both sides. The objective is the left side of
    equation 2 with the sign of its :math:`f(\gamma)` set right, and :math:`\tau \ge 0` in its place: the
    larger, the fewer rows move and the farther.

    Returns
    -------
    mixture, prices : ndarray of shape (T,), ndarray of shape (K,)
        At most 4K + 3 entries of the mixture are positive. The prices are the cost of each group's rows under
        the constraints' duals: the direction in which another hypothesis would help. None if no mixture is
        allowed.
    """
    base, alpha = limits.base_rates, limits.alpha
    for _ in range(TRIES):
        solved = _solve(pool, limits, alpha, direction, offset)
        if solved is None:
            return None
        mixture, prices = solved
        one = mixture @ pool.tallies
        excess = max(
            np.abs(side[:-1] / side[-1] - base).max() - limits.alpha if side[-1] > 0 else 0.0
            for side in (one, pool.total - one)
        )
        if limits.allow(one) and limits.allow(pool.total - one):
            return mixture, prices
        alpha -= 2.0 * max(excess, ROUNDING)
        if alpha < 0:
            return None
    return None


def _solve(
    pool: Hypotheses, limits: Limits, alpha: float, direction: Float, offset: float
) -> tuple[Float, Float] | None:
    base, total = limits.base_rates, pool.total
    groups = len(base)
    counts, rows = pool.tallies[:, :-1], pool.tallies[:, -1]
    apart, all_apart = counts - rows[:, None] * base, total[:-1] - total[-1] * base
    slack = alpha * rows[:, None]
    left = np.vstack(
        [(apart - slack).T, (-apart - slack).T, (slack - apart).T, (slack + apart).T, rows[None], -rows[None]]
    )
    floor = limits.least_rows
    right = np.concatenate(
        [
            np.zeros(2 * groups),
            alpha * total[-1] - all_apart,
            alpha * total[-1] + all_apart,
            [total[-1] - floor, -floor],
        ]
    )
    scale = total[-1]
    mean = direction @ total[:-1] / scale
    gain = (counts @ direction - (mean + offset) * rows) / scale
    # a child may be a thousandth of the vertex: each limit is measured in the rows that it is about
    unit = max(floor / scale, 1e-4)
    found = linprog(
        -gain / unit,
        A_ub=left / (scale * unit),
        b_ub=right / (scale * unit),
        A_eq=np.ones((1, len(rows))),
        b_eq=[1.0],
        method="highs-ds",
        options={"presolve": False},  # of a program this small it takes a third of the time
    )
    if found.x is None:
        return None
    mixture = np.where(found.x > LEAST_WEIGHT, found.x, 0.0)
    mixture /= mixture.sum()
    duals = -np.asarray(found.ineqlin.marginals)
    above, below, rest_below, rest_above = duals[: 4 * groups].reshape(4, groups)
    prices = direction - (above - below - rest_below + rest_above)
    return mixture, prices


def play_game(pool: Hypotheses, limits: Limits, direction: Float, offset: float, rounds: int) -> Float | None:
    r"""
    The uniform mixture over the rounds of the two-player game (Deng et al. 2023, Algorithm 3).

    In every round the learner answers the duals by its oracle, the halfspace on which the regression of the
    costs is negative, and the auditor takes a projected gradient step of :math:`1 / \sqrt t`, in units of the
    vertex's rows. The hypotheses are added to the pool.

    Returns
    -------
    ndarray, shape (T,), or None if the mixture is not allowed
    """
    base, total = limits.base_rates, pool.total
    groups = len(base)
    alpha = limits.alpha * (1.0 - GAME_MARGIN)
    mean = direction @ total[:-1] / total[-1]
    all_apart = total[:-1] / total[-1] - base
    duals = np.zeros((4, groups))
    signs = np.array([1.0, -1.0, -1.0, 1.0])
    first = len(pool.cuts)
    for t in range(1, rounds + 1):
        # cost of selecting a row of group k: prices[k] + constant
        prices = signs @ duals - direction
        constant = mean + offset - signs @ duals @ base
        constant += alpha * (duals[2:].sum() - duals[:2].sum())
        pool.add(-prices, constant)
        one = pool.tallies[-1] / total[-1]
        apart, slack = one[:-1] - one[-1] * base, alpha * one[-1]
        rest, rest_slack = all_apart - apart, alpha - slack
        broken = np.stack([apart - slack, -apart - slack, rest - rest_slack, -rest - rest_slack])
        duals = np.maximum(duals + broken / np.sqrt(t), 0.0)
    mixture = np.zeros(len(pool.cuts))
    mixture[first:] = 1.0 / rounds
    one = mixture @ pool.tallies
    return mixture if limits.allow(one) and limits.allow(total - one) else None
