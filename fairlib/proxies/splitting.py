"""One split of a vertex: halfspaces over its scores, and the mixture of them that moves its
children best.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, lstsq
from scipy.optimize import linprog

from evenhand.fairlib.arrays import Float, Float32, Index

# Rows that are scored together.
CHUNK_ROWS = 65_536
# Smaller weights of the mixture are rounding errors of the program.
LEAST_WEIGHT = 1e-9
# Scores that are nearer than this count as equal: no cut is set between them.
LEAST_GAP = 1e-10
# Rounding of sums over rows, in disclosivity above the limit.
ROUNDING = 1e-12
# Rounding of the least number of rows, as a share of it.
FLOOR_ROUNDING = 1e-9
# Price of the last hypothesis over the first where both are equally good: above the program's
# tolerance (1e-7), so that machines that round otherwise find the same mixture.
TIE_BREAK = 1e-5
# The program's tolerance can break a limit; it is then solved again under a stricter one.
TRIES = 4


@dataclass(frozen=True)
class Limits:
    """Constraints on both children of a split.

    Parameters
    ----------
    base_rates : ndarray of float64, shape (K,)
        r: shares of the groups among all rows.
    alpha : float
        Largest allowed difference between a group's share within a child and its base rate.
    least_rows : float
        Fewest expected rows of each child.
    """

    base_rates: Float
    alpha: float
    least_rows: float

    def disclosivity(self, tally: Float) -> float:
        """Largest difference from the base rates.

        Parameters
        ----------
        tally : ndarray of float64, shape (K + 1,)
            Rows of every group, and all rows.

        Returns
        -------
        float
            0 without rows.
        """
        if tally[-1] <= 0:
            return 0.0
        return float(np.abs(tally[:-1] / tally[-1] - self.base_rates).max())

    def allow(self, tally: Float) -> bool:
        """Whether a child meets the constraints.

        Parameters
        ----------
        tally : ndarray of float64, shape (K + 1,)
            Rows of every group, and all rows.

        Returns
        -------
        bool
        """
        enough = tally[-1] >= self.least_rows * (1 - FLOOR_ROUNDING)
        return bool(enough) and self.disclosivity(tally) <= self.alpha + ROUNDING

    def excess(self, tallies: Float, alpha: float) -> Float:
        r"""Rows of each group above and below the allowed number; linear in the tally.

        .. math:: \pm (N_k - r_k M) - \alpha M

        Parameters
        ----------
        tallies : ndarray of float64, shape (..., K + 1)
        alpha : float
            The limit.

        Returns
        -------
        ndarray of float64, shape (..., 2K)
        """
        rows = tallies[..., -1:]
        apart = tallies[..., :-1] - rows * self.base_rates
        slack = alpha * rows
        return np.concatenate([apart - slack, -apart - slack], axis=-1)


class Hypotheses:
    """Halfspaces of a vertex's scores, with the rows that they select.

    Hypothesis t selects the rows with ``scores @ directions[t] > cuts[t]``.

    Parameters
    ----------
    scores : ndarray of float64, shape (m, K)
    indicators : ndarray of float64, shape (m, K)
        Membership of every row in every group.
    weights : ndarray of float64, shape (m,)
        Share of each row that is at the vertex, in [0, 1].

    Attributes
    ----------
    directions : list of ndarray of float64, shape (K,) each
    cuts : list of float
    tallies : ndarray of float64, shape (T, K + 1)
        By hypothesis, the expected rows of every group that it selects, and all its expected rows.
    """

    def __init__(self, scores: Float, indicators: Float, weights: Float) -> None:
        self.scores = scores
        self.counted = np.hstack([indicators * weights[:, None], weights[:, None]])
        self.total = self.counted.sum(axis=0)
        self.directions: list[Float] = []
        self.cuts: list[float] = []
        self.tallies = np.zeros((0, len(self.total)))

    def sweep(self, direction: Float, cuts: int) -> None:
        """Add halfspaces along one direction, with denser cuts where few rows are on one side.

        Parameters
        ----------
        direction : ndarray of float64, shape (K,)
        cuts : int
            Number of cuts to aim at.
        """
        scores = self.scores @ direction
        order = np.argsort(-scores, kind="stable")
        ordered = scores[order]
        sums = np.cumsum(self.counted[order], axis=0)
        small = np.geomspace(min(0.5, 2.0 / max(self.total[-1], 4.0)), 0.5, cuts // 2)
        shares = np.unique(np.concatenate([small, 1.0 - small]))
        # cuts are possible in the gaps between unequal scores: take the two gaps next to each share
        gaps = np.flatnonzero(ordered[:-1] - ordered[1:] > LEAST_GAP)
        if len(gaps) == 0:
            return
        nearest = np.searchsorted(sums[gaps, -1], shares * self.total[-1])
        places = gaps[np.unique(np.clip(np.concatenate([nearest - 1, nearest]), 0, len(gaps) - 1))]
        self.tallies = np.vstack([self.tallies, sums[places]])
        self.directions += [direction] * len(places)
        self.cuts += [float(0.5 * (ordered[place] + ordered[place + 1])) for place in places]

    def keep(self, kept: Index) -> None:
        """Drop all hypotheses but some.

        Parameters
        ----------
        kept : ndarray of int
            Positions of those that remain.
        """
        self.tallies = self.tallies[kept]
        self.directions = [self.directions[t] for t in kept]
        self.cuts = [self.cuts[t] for t in kept]


def solve_program(
    pool: Hypotheses, limits: Limits, direction: Float, offset: float
) -> tuple[Float, Float] | None:
    r"""Find the best mixture of the hypotheses by a linear program (Deng et al. 2023, program (3)).

    With :math:`N_t, M_t` the rows of each group and all rows that hypothesis t selects, :math:`g =
    (U - U') / \lVert U - U' \rVert` (`direction`), :math:`\tau` the `offset` and :math:`a` the
    composition of the vertex:

    .. math:: \max_{p} \sum_t p_t \left(g \cdot N_t - (g \cdot a + \tau) M_t\right)
        \quad\text{with } p \ge 0,\ \textstyle\sum_t p_t = 1,\
        \left|\sum_t p_t (N_{tk} - r_k M_t)\right| \le \alpha \sum_t p_t M_t

    The rows that are not selected obey the same limit, and both children have enough rows. The
    objective is the left side of equation 2 with the sign of its :math:`f(\gamma)` corrected, and
    :math:`\tau \ge 0` in its place: the larger :math:`\tau`, the fewer rows are selected, and the
    more their composition differs.

    Parameters
    ----------
    pool : Hypotheses
        T halfspaces.
    limits : Limits
    direction : ndarray of float64, shape (K,)
    offset : float
        At least 0.

    Returns
    -------
    mixture : ndarray of float64, shape (T,)
        At most 4K + 3 entries are positive. None in place of both if no mixture is allowed.
    prices : ndarray of float64, shape (K,)
        Value of each group's rows under the duals of the limits: the direction in which a further
        hypothesis would help.
    """
    alpha = limits.alpha
    for _ in range(TRIES):
        solved = _solve(pool, limits, alpha, direction, offset)
        if solved is None:
            return None
        one = solved[0] @ pool.tallies
        children = (one, pool.total - one)
        if all(limits.allow(child) for child in children):
            return solved
        excess = max(limits.disclosivity(child) for child in children) - limits.alpha
        alpha -= 2.0 * max(excess, ROUNDING)
        if alpha < 0:
            return None
    return None


def _solve(
    pool: Hypotheses, limits: Limits, alpha: float, direction: Float, offset: float
) -> tuple[Float, Float] | None:
    total = pool.total
    floor = limits.least_rows
    counts = pool.tallies[:, :-1]
    rows = pool.tallies[:, -1]
    # limits on the selected rows, on the rest (all rows minus the selected ones), and on both sizes
    selected = limits.excess(pool.tallies, alpha).T
    coefficients = np.vstack([selected, -selected, rows[None], -rows[None]])
    bounds = np.concatenate(
        [np.zeros(len(selected)), -limits.excess(total, alpha), [total[-1] - floor, -floor]]
    )
    scale = total[-1]
    mean = direction @ total[:-1] / scale
    gain = (counts @ direction - (mean + offset) * rows) / scale
    # a child may hold a thousandth of the vertex: tolerances are relative to the least rows of a
    # child
    unit = max(floor / scale, 1e-4)
    # of equally good mixtures, that of the earlier hypotheses
    ranks = np.arange(len(rows)) / len(rows)
    solution = linprog(
        TIE_BREAK * ranks - gain / unit,
        A_ub=coefficients / (scale * unit),
        b_ub=bounds / (scale * unit),
        A_eq=np.ones((1, len(rows))),
        b_eq=[1.0],
        method="highs-ds",
        options={"presolve": False},  # it would take a third of the time of a program this small
    )
    if solution.x is None:
        return None
    mixture = np.where(solution.x > LEAST_WEIGHT, solution.x, 0.0)
    mixture /= mixture.sum()
    duals = -np.asarray(solution.ineqlin.marginals)
    above, below, rest_below, rest_above = duals[: 2 * len(selected)].reshape(4, -1)
    return mixture, direction - (above - below - rest_below + rest_above)


class LinearScores:
    """Weighted least-squares predictions of group membership.

    Parameters
    ----------
    coefficients : ndarray of float64, shape (d, K)
    intercepts : ndarray of float64, shape (K,)
    X : ndarray of float32, shape (n, d)
        The fitted rows.

    Attributes
    ----------
    values : ndarray of float64, shape (n, K)
        Predictions for the fitted rows.
    """

    def __init__(self, coefficients: Float, intercepts: Float, X: Float32) -> None:
        self.coefficients = coefficients
        self.intercepts = intercepts
        # in float64, so that a cut separates the same rows again
        self.values = np.empty((len(X), len(intercepts)))
        for start in range(0, len(X), CHUNK_ROWS):
            part = X[start : start + CHUNK_ROWS].astype(np.float64)
            self.values[start : start + CHUNK_ROWS] = part @ coefficients + intercepts

    def halfspace(self, direction: Float, cut: float) -> tuple[Float, float]:
        """Normal and intercept of the halfspace of rows whose score along a direction is above a
        cut.

        Parameters
        ----------
        direction : ndarray of float64, shape (K,)
        cut : float

        Returns
        -------
        normal : ndarray of float64, shape (d,)
        intercept : float
        """
        return self.coefficients @ direction, float(self.intercepts @ direction - cut)


def fit_scores(X: Float32, indicators: Float, weights: Float, ridge: float = 1.0) -> LinearScores:
    r"""Weighted least squares of all group indicators at once.

    The paired-regression classifier (Deng et al. 2023, definition 14) fits one regression to the
    costs of each answer and gives the answer of the smaller prediction. A row's cost depends only
    on its group and the duals, and least squares is linear in its target. With one factorisation
    per vertex, the K fits

    .. math:: \beta = (X^\top W X + \lambda I)^{-1} X^\top W Z

    give the regression of any such costs :math:`Z \kappa` as :math:`X \beta \kappa`. The penalty
    :math:`\lambda` is `ridge`, in rows of unit variance; the intercept has none. It must be above
    0, because one-hot columns are collinear with the intercept.

    Parameters
    ----------
    X : ndarray of float32, shape (m, d)
    indicators : ndarray of float64, shape (m, K)
    weights : ndarray of float64, shape (m,)
    ridge : float, default 1

    Returns
    -------
    LinearScores
    """
    total = weights.sum()
    centre = (weights @ X) / total
    shares = (weights @ indicators) / total
    apart = (weights[:, None] * (indicators - shares)).astype(np.float32)
    # centred before the products: in float32 a large mean would cancel the variation around it
    centred = X - centre.astype(np.float32)
    gram = ((centred * weights.astype(np.float32)[:, None]).T @ centred).astype(np.float64)
    cross = (centred.T @ apart).astype(np.float64)
    gram[np.diag_indices_from(gram)] += ridge
    try:
        coefficients = np.asarray(cho_solve(cho_factor(gram), cross))
    except LinAlgError:  # columns of very different scale that are nearly collinear
        coefficients = np.asarray(lstsq(gram, cross)[0])
    return LinearScores(coefficients, shares - centre @ coefficients, X)
