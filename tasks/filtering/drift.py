"""How far a batch is from the training rows, and what balance its sample can be expected to have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import chi2

from evenhand.fairlib.evaluation.drift import FLOOR, stability_index
from evenhand.fairlib.randomness import generator

__all__ = ["Drift", "ExpectedShares", "drift_of", "expected_shares"]

Float = NDArray[np.float64]
LEVEL = 0.95
DRAWS = 2000


@dataclass(frozen=True)
class Drift:
    """
    Distance of the batch's shares of proxy groups from the training rows'.

    Attributes
    ----------
    psi : float
        Population stability index.
    chi_square, p_value : float
        Pearson's statistic and its tail probability; see :func:`drift_of`.
    warning : bool
        The index is above the limit.
    """

    psi: float
    chi_square: float
    p_value: float
    warning: bool

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return asdict(self)


def drift_of(masses: ArrayLike, training: ArrayLike, limit: float) -> Drift | None:
    r"""
    Compare sums of shares with the training rows' shares r of the proxy groups.

    With the batch's shares p, all of them no smaller than 1e-6, the index is
    :func:`evenhand.fairlib.evaluation.drift.stability_index`, and

    .. math:: \chi^2 = n \sum_j \frac{(p_j - r_j)^2}{r_j}

    on l - 1 degrees of freedom. A row that is in several proxy groups by shares varies less than a whole one
    would, so the p-value is too large rather than too small. At millions of rows it is small for differences
    that do not matter: the index, not the p-value, decides about the warning.

    Parameters
    ----------
    masses : array-like, shape (l,)
        Sums of the batch's shares.
    training : array-like, shape (l,)
    limit : float

    Returns
    -------
    Drift or None
        None for a batch without rows.
    """
    sums, reference = np.asarray(masses, dtype=np.float64), np.asarray(training, dtype=np.float64)
    rows = float(sums.sum())
    if rows <= 0:
        return None
    shares = np.maximum(sums / rows, FLOOR)
    reference = np.maximum(reference / reference.sum(), FLOOR)
    difference = shares - reference
    statistic = float(rows * (difference**2 / reference).sum())
    freedom = len(sums) - 1
    psi = float(stability_index(shares, reference))
    return Drift(psi, statistic, float(chi2.sf(statistic, freedom)) if freedom else 1.0, psi > limit)


@dataclass(frozen=True)
class ExpectedShares:
    """
    Expected shares of the sensitive groups in the sample.

    Attributes
    ----------
    groups : list of str
    shares, low, high, target : list of float
        One number a group; low and high bound the interval of `level`.
    imbalance, imbalance_low, imbalance_high : float
        Distance of the shares from the target.
    level : float
    """

    groups: list[str]
    shares: list[float]
    low: list[float]
    high: list[float]
    target: list[float]
    imbalance: float
    imbalance_low: float
    imbalance_high: float
    level: float = LEVEL

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return asdict(self)


def expected_shares(
    masses: ArrayLike, acceptance: ArrayLike, balance: Mapping[str, Any], seed: int
) -> ExpectedShares | None:
    r"""
    Shares of the groups among the accepted rows, as far as the proxy groups' compositions A tell.

    .. math:: s_k = \frac{\sum_j m_j \rho_j A_{jk}}{\sum_j m_j \rho_j}

    The interval is a parametric bootstrap over what the held-out rows leave open about A: each attribute's
    part of row j is drawn from the Dirichlet distribution of :math:`n_j A_{jk} + 1/2`, where :math:`n_j` are
    the effective held-out rows of proxy group j. Of a proxy group with too few of them to tell, the training
    composition stands in (or, if that is not told either, the target), with no rows behind it. The interval
    of the imbalance, a norm, is its value plus and minus a quantile of the norm of what the draws differ by,
    so it is wide rather than narrow. None of it says whether the proxy groups of this batch are composed like
    those of the held-out rows; drift is the sign to look at for that.

    Parameters
    ----------
    masses : array-like, shape (l,)
        Sums of the batch's shares.
    acceptance : array-like, shape (l,)
    balance : mapping
        ``groups``, ``compositions`` (null where too few held-out rows are behind one), ``rows``, ``target``,
        and, if there are several attributes, ``attributes`` with the groups of each.
    seed : int

    Returns
    -------
    ExpectedShares or None
        None if no row can be expected to be accepted.
    """
    kept = np.asarray(masses, dtype=np.float64) * np.asarray(acceptance, dtype=np.float64)
    total = float(kept.sum())
    if total <= 0:
        return None
    compositions, rows = _held_out(balance)
    draws = generator(seed, "filter", "expected shares").standard_gamma(
        rows[:, None] * compositions + 0.5, size=(DRAWS, *compositions.shape)
    )
    ends = np.cumsum([len(groups) for groups in balance.get("attributes", {"": balance["groups"]}).values()])
    for block in np.split(np.arange(ends[-1]), ends[:-1]):
        draws[:, :, block] /= draws[:, :, block].sum(axis=2, keepdims=True)
    drawn = np.einsum("j,djk->dk", kept / total, draws)
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail], axis=0)
    shares = kept @ compositions / total
    imbalance = float(np.linalg.norm(shares - np.asarray(balance["target"], dtype=np.float64)))
    reach = float(np.quantile(np.linalg.norm(drawn - drawn.mean(axis=0), axis=1), LEVEL))
    return ExpectedShares(
        list(balance["groups"]),
        shares.tolist(),
        # the half rows of the prior pull the draws off small shares
        np.minimum(low, shares).tolist(),
        np.maximum(high, shares).tolist(),
        list(balance["target"]),
        imbalance,
        max(0.0, imbalance - reach),
        imbalance + reach,
    )


def _held_out(balance: Mapping[str, Any]) -> tuple[Float, Float]:
    """Compositions and the rows behind them: none behind one that is not told, for which another stands."""
    rows = np.array(balance["rows"], dtype=np.float64)
    compositions = np.empty((len(rows), len(balance["groups"])))
    training = balance.get("compositions_train") or [None] * len(rows)
    for j, told in enumerate(balance["compositions"]):
        whole = [row for row in (told, training[j]) if row is not None and None not in list(row)]
        compositions[j] = whole[0] if whole else balance["target"]
        rows[j] = rows[j] if whole and whole[0] is told else 0.0
    return compositions, rows
