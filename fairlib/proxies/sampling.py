"""Sampling probabilities of proxy groups: the mixture of their compositions that is nearest to a target."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linprog, nnls

__all__ = ["SamplingPlan", "nearest_mixture", "sampling_plan"]

Float = NDArray[np.float64]
# A mixture that is this much farther from the target than the nearest one counts as nearest, when the choice
# among nearest ones is made: the tolerance of the linear program.
SLACK = 1e-7


@dataclass(frozen=True)
class SamplingPlan:
    """
    What Algorithm 1 gives, and what follows from it.

    Attributes
    ----------
    mixture : ndarray, shape (l,)
        q: the share of each proxy group in what is kept, up to scale in the relaxed form.
    acceptance : ndarray, shape (l,)
        Probability, in [0, 1], with which a member of each proxy group is kept; the largest is 1.
    shares : ndarray, shape (K,)
        Expected shares of the sensitive groups in what is kept.
    imbalance : float
        Euclidean distance of `shares` from the target.
    residual : float
        What the program minimised, ``norm(q A - t)``: the imbalance, and in the relaxed form at most that.
    rate : float
        Expected share of people that are kept.
    """

    mixture: Float
    acceptance: Float
    shares: Float
    imbalance: float
    residual: float
    rate: float


def nearest_mixture(compositions: ArrayLike, target: ArrayLike, *, relaxed: bool = False) -> Float:
    r"""
    Weights of the mixture of rows that is nearest to a target (Deng et al. 2023, Algorithm 1).

    .. math:: q = \arg\min_q \lVert q A - t \rVert_2 \quad\text{with } q \ge 0,\ \textstyle\sum_j q_j = 1

    and without the sum in the relaxed form. Both are one non-negative least squares: with
    :math:`B = A - \mathbf{1} t` the minimiser :math:`x` of
    :math:`\lVert x B \rVert^2 + (\sum_j x_j - 1)^2` over :math:`x \ge 0` is :math:`s q`, for at the best
    scale :math:`s` of any :math:`q` that sum is :math:`b / (1 + b)` with :math:`b = \lVert q B \rVert^2`.

    Parameters
    ----------
    compositions : array-like, shape (l, K)
        A: in row j the shares of the groups within proxy group j.
    target : array-like, shape (K,)

    Returns
    -------
    ndarray, shape (l,)
    """
    rows, goal = np.asarray(compositions, np.float64), np.asarray(target, np.float64)
    if relaxed:
        return np.asarray(nnls(rows.T, goal)[0])
    system = np.vstack([(rows - goal).T, np.ones(len(rows))])
    right = np.zeros(len(system))
    right[-1] = 1.0
    weights = np.asarray(nnls(system, right)[0])
    return weights / weights.sum()


def sampling_plan(
    compositions: ArrayLike, masses: ArrayLike, target: ArrayLike, *, relaxed: bool = False
) -> SamplingPlan:
    r"""
    Acceptance probabilities of proxy groups (Deng et al. 2023, Algorithm 1).

    .. math:: \rho_j = \frac{q_j / \hat r_j}{\max_i q_i / \hat r_i}

    Many mixtures can be nearest to the target. Of these the one is taken that keeps most people, which is the
    one of the least :math:`\max_j q_j / \hat r_j`: a linear program.

    Parameters
    ----------
    compositions : array-like, shape (l, K)
    masses : array-like, shape (l,)
        Share of people in each proxy group, all above 0.
    target : array-like, shape (K,)
        Wanted shares of the groups. For several attributes at once both hold one block an attribute, each of
        sum 1 (appendix A.2).
    relaxed : bool
        Leave out that q sums to 1.

    Raises
    ------
    ValueError
        A proxy group without people.
    """
    rows, goal = np.asarray(compositions, np.float64), np.asarray(target, np.float64)
    sizes = np.asarray(masses, np.float64)
    if not (sizes > 0).all():
        raise ValueError("every proxy group needs people in it: a mass is 0.")
    mixture = _widest(nearest_mixture(rows, goal, relaxed=relaxed), rows, sizes)
    ratios = mixture / sizes
    acceptance = ratios / ratios.max()
    kept = sizes * acceptance
    shares = kept @ rows / kept.sum()
    return SamplingPlan(
        mixture,
        acceptance,
        shares,
        float(np.linalg.norm(shares - goal)),
        float(np.linalg.norm(mixture @ rows - goal)),
        float(kept.sum()),
    )


def _widest(mixture: Float, rows: Float, sizes: Float) -> Float:
    """Of the mixtures with the same image the one of the least largest ratio to the sizes."""
    groups = len(mixture)
    image = np.append(mixture @ rows, mixture.sum())
    system = np.hstack([np.vstack([rows.T, np.ones(groups)]), np.zeros((rows.shape[1] + 1, 1))])
    bounds = np.hstack([np.diag(1.0 / sizes), -np.ones((groups, 1))])
    found = linprog(
        np.append(np.zeros(groups), 1.0),
        A_ub=np.vstack([bounds, system, -system]),
        b_ub=np.concatenate([np.zeros(groups), image + SLACK, -image + SLACK]),
        method="highs",
    )
    if found.x is None:
        return mixture
    wider = np.maximum(found.x[:-1], 0.0)
    return wider if (wider / sizes).max() < (mixture / sizes).max() else mixture
