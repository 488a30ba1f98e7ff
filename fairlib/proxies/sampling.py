"""Sampling probabilities of proxy groups: the mixture of their compositions that is nearest to a
target.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linprog, nnls

from evenhand.fairlib.arrays import Float

# A mixture whose image differs from the nearest one's by no more than this counts as nearest: the
# tolerance of the linear program.
SLACK = 1e-7
# Least chance of a proxy group, as a share of the mean chance, if imbalance is given up for
# support: a little above a tenth, so that a tenth also holds on rows whose mean is a little larger.
LEAST_CHANCE = 0.12
# Halvings of the range in which a number of the supported mixture is searched.
HALVINGS = 60


@dataclass(frozen=True)
class SamplingPlan:
    """Result of Algorithm 1 for l proxy groups and K sensitive groups.

    Parameters
    ----------
    mixture : ndarray of float64, shape (l,)
        q: share of each proxy group among the kept rows; relaxed up to scale.
    acceptance : ndarray of float64, shape (l,)
        Probability with which a row of each group is kept; the largest is 1.
    shares : ndarray of float64, shape (K,)
        Expected shares of the sensitive groups among the kept rows.
    imbalance : float
        Euclidean distance of `shares` from the target.
    residual : float
        ``norm(q A - t)``, the program's minimum: the imbalance, or if relaxed at most that.
    rate : float
        Expected share of rows that are kept.
    """

    mixture: Float
    acceptance: Float
    shares: Float
    imbalance: float
    residual: float
    rate: float


def nearest_mixture(compositions: ArrayLike, target: ArrayLike, *, relaxed: bool = False) -> Float:
    r"""Weights of the mixture of compositions that is nearest to a target (Deng et al. 2023,
    Algorithm 1).

    .. math:: q = \arg\min_q \lVert q A - t \rVert_2
        \quad\text{with } q \ge 0,\ \textstyle\sum_j q_j = 1

    The relaxed form has no constraint on the sum. Both are non-negative least squares: with
    :math:`B = A - \mathbf{1} t` the minimiser :math:`x` of :math:`\lVert x B \rVert^2 + (\sum_j x_j
    - 1)^2` over :math:`x \ge 0` is :math:`s q`, for at the best scale :math:`s` of any :math:`q`
    that sum is :math:`b / (1 + b)` with :math:`b = \lVert q B \rVert^2`.

    Parameters
    ----------
    compositions : array-like, shape (l, K)
        A: in row j the shares of the groups within proxy group j.
    target : array-like, shape (K,)
        t: target shares of the groups.
    relaxed : bool, default False
        Whether to leave out the constraint on the sum.

    Returns
    -------
    ndarray of float64, shape (l,)

    Examples
    --------
    >>> nearest_mixture([[0.8, 0.2], [0.2, 0.8]], [0.5, 0.5]).round(6).tolist()
    [0.5, 0.5]
    """
    rows = np.asarray(compositions, np.float64)
    goal = np.asarray(target, np.float64)
    if relaxed:
        return np.asarray(nnls(rows.T, goal)[0])
    system = np.vstack([(rows - goal).T, np.ones(len(rows))])
    right = np.zeros(len(system))
    right[-1] = 1.0
    weights = np.asarray(nnls(system, right)[0])
    return weights / weights.sum()


def sampling_plan(
    compositions: ArrayLike,
    masses: ArrayLike,
    target: ArrayLike,
    *,
    relaxed: bool = False,
    support: float = 0.0,
) -> SamplingPlan:
    r"""Acceptance probabilities of proxy groups (Deng et al. 2023, Algorithm 1).

    .. math:: \rho_j = \frac{q_j / \hat r_j}{\max_i q_i / \hat r_i}

    Several mixtures can be nearest to the target. A linear program chooses the one that keeps most
    rows, which has the least :math:`\max_j q_j / \hat r_j`.

    With several attributes compositions and target hold one block per attribute, each of sum 1
    (appendix A.2).

    Parameters
    ----------
    compositions : array-like, shape (l, K)
        Shares of the groups within each proxy group.
    masses : array-like, shape (l,)
        Shares of rows in each proxy group, all above 0.
    target : array-like, shape (K,)
        Target shares of the groups.
    relaxed : bool, default False
        Whether to leave out the constraint that q sums to 1.
    support : float, default 0
        If above 0 the plan is that of :func:`supported_mixture`, whose imbalance is larger by at
        most this number.

    Returns
    -------
    SamplingPlan

    Raises
    ------
    ValueError
        If a mass is 0.

    Examples
    --------
    >>> plan = sampling_plan([[0.8, 0.2], [0.2, 0.8]], masses=[0.75, 0.25], target=[0.5, 0.5])
    >>> plan.acceptance.round(4).tolist()
    [0.3333, 1.0]
    >>> round(plan.rate, 4)
    0.5
    """
    rows = np.asarray(compositions, np.float64)
    goal = np.asarray(target, np.float64)
    sizes = np.asarray(masses, np.float64)
    if not (sizes > 0).all():
        raise ValueError("every proxy group needs rows: a mass is 0.")
    mixture = _keeping_most(nearest_mixture(rows, goal, relaxed=relaxed), rows, sizes)
    nearest = plan_of(mixture, rows, sizes, goal)
    if support == 0:
        return nearest
    mixture = supported_mixture(rows, sizes, goal, nearest.imbalance + support)
    return plan_of(mixture, rows, sizes, goal)


def supported_mixture(compositions: Float, masses: Float, target: Float, limit: float) -> Float:
    r"""Mixture within a distance of the target whose sample is most useful; not part of the paper.

    .. math:: \min_q \sum_j q_j^2 / \hat r_j \quad\text{with } \lVert q A - t \rVert_2 \le \delta,\
        q_j \ge f \hat r_j,\ \textstyle\sum_j q_j = 1

    The objective minus 1 is the chi-square divergence of the kept from all rows over the proxy
    groups, and its inverse the effective sample size as a share of all rows. f is `LEAST_CHANCE`,
    or the largest number below it that the limit allows: :math:`q_j / \hat r_j` is the chance of a
    proxy group divided by the mean chance. With :math:`q = f \hat r + (1 - f) p` and a price
    :math:`\lambda` on the objective, p is a nearest mixture, to a target farther away by :math:`f
    \hat r A`. The price is the largest within the limit.

    Parameters
    ----------
    compositions : ndarray, shape (l, K)
    masses : ndarray, shape (l,)
    target : ndarray, shape (K,)
        As of :func:`sampling_plan`.
    limit : float
        :math:`\delta`, at least the distance of the nearest mixture.

    Returns
    -------
    ndarray of float64, shape (l,)
        It sums to 1.
    """
    groups = len(masses)
    overall = masses @ compositions
    spread = np.diag(1.0 / np.sqrt(masses))

    def _mixture(floor: float, price: float) -> Float:
        goal = np.append((target - floor * overall) / (1.0 - floor), np.zeros(groups))
        free = nearest_mixture(np.hstack([compositions, np.sqrt(price) * spread]), goal)
        return floor * masses + (1.0 - floor) * free

    def _is_allowed(mixture: Float) -> bool:
        return bool(np.linalg.norm(mixture @ compositions - target) <= limit + SLACK)

    if _is_allowed(masses):
        return masses / masses.sum()
    floor = _largest(lambda floor: _is_allowed(_mixture(floor, 0.0)), 0.0, LEAST_CHANCE)
    price = _largest(lambda power: _is_allowed(_mixture(floor, 10.0**power)), -12.0, 4.0)
    return _mixture(floor, 10.0**price)


def _largest(allowed: Callable[[float], bool], low: float, high: float) -> float:
    """Largest number from low to high that is allowed, if all below an allowed one are; low if none
    is.
    """
    if allowed(high):
        return high
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        if allowed(middle):
            low = middle
        else:
            high = middle
    return low


def plan_of(mixture: Float, compositions: Float, masses: Float, target: Float) -> SamplingPlan:
    """Compute the plan that samples the proxy groups in the shares of a mixture.

    Parameters
    ----------
    mixture : ndarray, shape (l,)
        Share of each proxy group among the kept rows.
    compositions : ndarray, shape (l, K)
    masses : ndarray, shape (l,)
    target : ndarray, shape (K,)
        As of :func:`sampling_plan`.

    Returns
    -------
    SamplingPlan
    """
    ratios = mixture / masses
    acceptance = ratios / ratios.max()
    kept_masses = masses * acceptance
    shares = kept_masses @ compositions / kept_masses.sum()
    return SamplingPlan(
        mixture=mixture,
        acceptance=acceptance,
        shares=shares,
        imbalance=float(np.linalg.norm(shares - target)),
        residual=float(np.linalg.norm(mixture @ compositions - target)),
        rate=float(kept_masses.sum()),
    )


def _keeping_most(mixture: Float, rows: Float, sizes: Float) -> Float:
    """Of the mixtures with the same image, return the one with the least maximal ratio to the
    sizes.
    """
    groups = len(mixture)
    image = np.append(mixture @ rows, mixture.sum())
    system = np.hstack([np.vstack([rows.T, np.ones(groups)]), np.zeros((rows.shape[1] + 1, 1))])
    bounds = np.hstack([np.diag(1.0 / sizes), -np.ones((groups, 1))])
    solution = linprog(
        np.append(np.zeros(groups), 1.0),
        A_ub=np.vstack([bounds, system, -system]),
        b_ub=np.concatenate([np.zeros(groups), image + SLACK, -image + SLACK]),
        method="highs",
    )
    if solution.x is None:
        return mixture
    wider = np.maximum(solution.x[:-1], 0.0)
    if (wider / sizes).max() < (mixture / sizes).max():
        return wider
    return mixture
