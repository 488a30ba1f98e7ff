"""How a proxy does on rows that it was not learned from: what it tells, and how balanced its sample is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenhand.fairlib.progress import Progress
from evenhand.fairlib.proxies.base import BalancingProxy
from evenhand.fairlib.proxies.groups import indicators_of
from evenhand.fairlib.proxies.tree import ProxyTree

__all__ = ["MEASURES", "ProxyMeasures", "generalisation_bound", "measure_proxy"]

Float = NDArray[np.float64]
CHUNK_DRAWS = 50
# Rows with one acceptance probability, at least, for their groups' shares to say anything.
LEAST_ALIKE = 50
MEASURES = (
    "disclosivity",
    "disclosivity_of_probability",
    "imbalance",
    "imbalance_before",
    "smallest_growth",
    "smallest_share",
    "kept",
)


@dataclass(frozen=True)
class ProxyMeasures:
    """
    Measures of a proxy on one set of rows.

    Attributes
    ----------
    values, lows, highs : dict of str to float or None
        By the names of ``MEASURES``; no ends without draws.
    base_rates, shares : ndarray, shape (K,)
        Shares of the groups among all rows, and expected among those kept.
    compositions : ndarray, shape (l, K)
        Shares of the groups within each proxy group; NaN where it has no rows.
    rows : ndarray, shape (l,)
        Expected rows of each proxy group.
    """

    values: dict[str, float | None]
    lows: dict[str, float | None]
    highs: dict[str, float | None]
    base_rates: Float
    shares: Float
    compositions: Float
    rows: Float


def measure_proxy(
    proxy: BalancingProxy,
    X: ArrayLike,
    sensitive_features: Mapping[str, ArrayLike],
    *,
    draws: int = 1000,
    level: float = 0.95,
    min_rows: float = 0.0,
    rng: np.random.Generator | None = None,
    callback: Progress | None = None,
) -> ProxyMeasures:
    r"""
    Disclosivity (Deng et al. 2023, definition 5) and imbalance (definition 2) on given rows.

    .. math:: \max_{j,k} |A_{jk} - r_k|, \qquad
        \lVert \textstyle\sum_j \hat r_j \rho_j A_j / \sum_j \hat r_j \rho_j - t \rVert_2

    with A, r and :math:`\hat r` from these rows. The bootstrap draws weights of the rows from a Poisson
    distribution of mean 1. A maximum and a norm grow with any noise, so their own percentiles would lie too
    high: their intervals are the value plus and minus the quantile of the same maximum or norm of *what the
    draws differ by*, which by the triangle inequality holds the true one at least as often as stated. The
    values themselves still lie a little high on few rows. The other intervals are percentiles.

    Parameters
    ----------
    proxy : fitted proxy
    X : array-like, shape (n, d)
    sensitive_features : mapping of str to array-like, shape (n,)
    draws : int
        0 gives no intervals.
    level : float
    min_rows : float
        Proxy groups with fewer expected rows do not count for the disclosivity: a share of three people tells
        nothing of it. If none is left, the disclosivity is None.
    rng : numpy.random.Generator, needed for draws
    callback : callable, optional
        ``callback(done, total)``, in bootstrap draws.

    Raises
    ------
    ValueError
        Draws without a generator, an attribute that is missing, a group that the proxy does not know.
    """
    if draws > 0 and rng is None:
        raise ValueError("an interval needs a generator: give rng, or draws=0.")
    shares = proxy.shares(X)
    indicators = indicators_of(sensitive_features, proxy.group_names_)
    flat = np.einsum("nl,nk->nlk", shares, indicators).reshape(len(shares), -1)
    shape = (shares.shape[1], indicators.shape[1])
    attributes = len(proxy.group_names_)
    tallies = flat.sum(axis=0).reshape(shape)
    rows = tallies.sum(axis=1) / attributes
    enough = rows >= max(min_rows, np.finfo(np.float64).tiny)
    point = _Tallied(proxy, tallies[None], enough, attributes)
    values = {name: _plain(found[0]) for name, found in point.measures().items()}
    values["disclosivity_of_probability"] = _fineness(proxy, shares, indicators, max(min_rows, LEAST_ALIKE))
    lows: dict[str, float | None] = dict.fromkeys(values)
    highs: dict[str, float | None] = dict.fromkeys(values)
    if draws > 0:
        assert rng is not None  # for the type checker
        parts = []
        for start in range(0, draws, CHUNK_DRAWS):
            weights = rng.poisson(1.0, size=(min(CHUNK_DRAWS, draws - start), len(flat)))
            parts.append((weights.astype(np.float32) @ flat.astype(np.float32)).astype(np.float64))
            if callback is not None:
                callback(min(start + CHUNK_DRAWS, draws), draws)
        drawn = _Tallied(proxy, np.concatenate(parts).reshape(-1, *shape), enough, attributes)
        lows |= {name: ends[0] for name, ends in _intervals(point, drawn, values, level).items()}
        highs |= {name: ends[1] for name, ends in _intervals(point, drawn, values, level).items()}
    with np.errstate(invalid="ignore", divide="ignore"):
        compositions = tallies / rows[:, None]
    base, kept = point.base[0], point.kept[0]
    return ProxyMeasures(values, lows, highs, base, kept, compositions, rows)


class _Tallied:
    """What follows from tallies of proxy groups by sensitive groups, shape (draws, l, K)."""

    def __init__(
        self, proxy: BalancingProxy, tallies: Float, enough: NDArray[np.bool_], attributes: int
    ) -> None:
        rows = tallies.sum(axis=2) / attributes
        self.people = rows.sum(axis=1)
        self.target = proxy.target_
        with np.errstate(invalid="ignore", divide="ignore"):
            self.base = tallies.sum(axis=1) / self.people[:, None]
            shown, counts = proxy.relabelled(rows, tallies)
            apart = counts / shown[:, :, None] - self.base[:, None, :]
            self.apart = apart[:, enough].reshape(len(tallies), -1)
            self.kept_rows = rows @ proxy.acceptance_
            self.kept = np.einsum("l,dlk->dk", proxy.acceptance_, tallies) / self.kept_rows[:, None]
        wanted = np.flatnonzero(proxy.target_ > 0)
        # the group that the training rows had least of, so that every draw is about the same one
        self.least = wanted[np.argmin(proxy.base_rates_[wanted])]

    def measures(self) -> dict[str, Float]:
        """All measures, shape (draws,) each; NaN where undefined."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return {
                "disclosivity": _largest(self.apart),
                "imbalance": np.linalg.norm(self.kept - self.target, axis=1),
                "imbalance_before": np.linalg.norm(self.base - self.target, axis=1),
                "smallest_growth": self.kept[:, self.least] / self.base[:, self.least],
                "smallest_share": self.kept[:, self.least],
                "kept": self.kept_rows / self.people,
            }


def _intervals(
    point: _Tallied, drawn: _Tallied, values: Mapping[str, float | None], level: float
) -> dict[str, tuple[float, float]]:
    reach = {
        "disclosivity": _largest(drawn.apart - point.apart),
        "imbalance": np.linalg.norm(drawn.kept - point.kept, axis=1),
        "imbalance_before": np.linalg.norm(drawn.base - point.base, axis=1),
    }
    tail = (1.0 - level) / 2.0
    found = {}
    for name, draws in drawn.measures().items():
        value = values[name]
        if value is None:
            continue
        if name in reach:
            far = float(np.nanquantile(reach[name], level))
            most = 1.0 if name == "disclosivity" else math.inf
            found[name] = (max(0.0, value - far), min(most, value + far))
        else:
            low, high = np.nanquantile(draws, [tail, 1.0 - tail])
            found[name] = (float(low), float(high))
    return found


def _largest(apart: Float) -> Float:
    """Largest absolute entry of each row; NaN for a row without any."""
    if apart.shape[1] == 0:
        return np.full(len(apart), np.nan)
    found = np.nanmax(np.abs(apart), axis=1, initial=-np.inf)
    return np.where(np.isfinite(found), found, np.nan)


def _fineness(proxy: BalancingProxy, shares: Float, indicators: Float, least: float) -> float | None:
    """Disclosivity of the acceptance probability itself, over values that enough rows have."""
    acceptance = np.round(shares @ proxy.acceptance_, 9)
    _, codes = np.unique(acceptance, return_inverse=True)
    rows = np.bincount(codes).astype(np.float64)
    tallies = np.stack([np.bincount(codes, weights=column) for column in indicators.T], axis=1)
    alike = rows >= least
    if not alike.any():
        return None
    compositions = tallies[alike] / rows[alike, None]
    return float(np.abs(compositions - indicators.mean(axis=0)).max())


def _plain(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def generalisation_bound(proxy: ProxyTree, confidence: float = 0.95) -> dict[str, float]:
    r"""
    The paper's bound on new rows (Deng et al. 2023, theorem 3), evaluated for the tree as it was fitted.

    It says that with probability :math:`1 - \delta` a tree of L splits, whose smallest leaf has m rows, is an
    :math:`(\alpha + 2\epsilon, \beta + k \epsilon \sqrt L)`-proxy, where

    .. math:: \epsilon = \sqrt{\frac{1}{2m} \ln \frac{8 d k L}{\delta}}

    The theorem has the largest possible number of splits, :math:`(\ln\beta - \ln\sqrt 2) / \ln(1 - \gamma)`,
    for L, and leaves the VC dimension d of the class of proxies open; here it is that of halfspaces, the
    number of features plus 1. The theorem has d inside the logarithm only, where uniform convergence needs
    about :math:`d \ln m` rows: with as many features as rows, pure noise breaks it. Read it as the paper's
    number, and rely on measures of held-out rows.

    Returns
    -------
    dict
        ``epsilon``, ``disclosivity`` and ``imbalance`` (the bounds, which can exceed what is possible),
        ``smallest_leaf``, ``splits``.
    """
    splits = max(len(proxy.masses_) - 1, 1)
    smallest = float(proxy.masses_[proxy.masses_ > 0].min() * proxy.training_rows_)
    groups = len(proxy.target_)
    dimension = proxy.n_features_in_ + 1
    epsilon = math.sqrt(math.log(8.0 * dimension * groups * splits / (1.0 - confidence)) / (2.0 * smallest))
    disclosivity = float(np.abs(proxy.compositions_ - proxy.base_rates_).max())
    imbalance = float(np.linalg.norm(proxy.shares_ - proxy.target_))
    return {
        "epsilon": epsilon,
        "disclosivity": disclosivity + 2.0 * epsilon,
        "imbalance": imbalance + groups * epsilon * math.sqrt(splits),
        "smallest_leaf": smallest,
        "splits": float(len(proxy.masses_) - 1),
    }
