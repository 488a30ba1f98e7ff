"""How a proxy does on rows that it was not learned from: what it tells, and how balanced its sample is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairlib.proxies.base import BalancingProxy
from fairlib.proxies.groups import indicators_of
from fairlib.proxies.tree import ProxyTree

__all__ = ["PROXY_METRICS", "ProxyMeasures", "generalisation_bound", "measure_proxy"]

Float = NDArray[np.float64]
CHUNK_DRAWS = 50
PROXY_METRICS = {
    "disclosivity": "largest difference between a group's share in a proxy group and its base rate, lower",
    "imbalance": "distance of the kept sample's group shares from the target, lower",
    "imbalance_before": "distance of all rows' group shares from the target, for comparison",
    "smallest_growth": "how many times the share of the least represented group grows, higher",
    "smallest_share": "share of the least represented of the wanted groups in the kept sample, higher",
    "kept": "expected share of rows that are kept, higher",
}


@dataclass(frozen=True)
class ProxyMeasures:
    """
    Measures of a proxy on one set of rows.

    Attributes
    ----------
    values, lows, highs : dict of str to float or None
        By the names of ``PROXY_METRICS``; no ends without draws.
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
) -> ProxyMeasures:
    r"""
    Disclosivity (Deng et al. 2023, definition 5) and imbalance (definition 2) on given rows.

    .. math:: \max_{j,k} |A_{jk} - r_k|, \qquad
        \lVert \textstyle\sum_j \hat r_j \rho_j A_j / \sum_j \hat r_j \rho_j - t \rVert_2

    with A, r and :math:`\hat r` from these rows. Intervals are percentiles over weights of the rows that are
    drawn from a Poisson distribution of mean 1, which is the bootstrap without counting to n. The
    disclosivity is a maximum, so its draws lie above it in the mean: its interval is that of a bootstrap, not
    centred.

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
    """
    shares = proxy.shares(X)
    indicators = indicators_of(sensitive_features, proxy.group_names_)
    flat = np.einsum("nl,nk->nlk", shares, indicators).reshape(len(shares), -1)
    shape = (shares.shape[1], indicators.shape[1])
    attributes = len(proxy.group_names_)
    tallies = flat.sum(axis=0).reshape(shape)
    enough = tallies.sum(axis=1) / attributes >= max(min_rows, np.finfo(np.float64).tiny)
    point = _measures(proxy, tallies[None], enough, attributes)
    values = {name: _plain(found[0]) for name, found in point.items()}
    lows: dict[str, float | None] = dict.fromkeys(values)
    highs: dict[str, float | None] = dict.fromkeys(values)
    if draws > 0:
        assert rng is not None
        parts = []
        for start in range(0, draws, CHUNK_DRAWS):
            weights = rng.poisson(1.0, size=(min(CHUNK_DRAWS, draws - start), len(flat)))
            parts.append((weights.astype(np.float32) @ flat.astype(np.float32)).astype(np.float64))
        drawn = _measures(proxy, np.concatenate(parts).reshape(-1, *shape), enough, attributes)
        tail = (1.0 - level) / 2.0
        for name, found in drawn.items():
            if values[name] is not None:
                low, high = np.nanquantile(found, [tail, 1.0 - tail])
                lows[name], highs[name] = float(low), float(high)
    rows = tallies.sum(axis=1) / attributes
    with np.errstate(invalid="ignore", divide="ignore"):
        compositions = tallies / rows[:, None]
    kept = proxy.acceptance_ @ tallies
    return ProxyMeasures(
        values,
        lows,
        highs,
        tallies.sum(axis=0) / len(shares),
        kept / (proxy.acceptance_ @ rows) if (proxy.acceptance_ @ rows) > 0 else kept * np.nan,
        compositions,
        rows,
    )


def _measures(
    proxy: BalancingProxy, tallies: Float, enough: NDArray[np.bool_], attributes: int
) -> dict[str, Float]:
    """All measures of several tallies (draws, l, K) at once, shape (draws,) each; NaN where undefined."""
    rows = tallies.sum(axis=2) / attributes
    people = rows.sum(axis=1, keepdims=True)
    target = proxy.target_
    with np.errstate(invalid="ignore", divide="ignore"):
        base = tallies.sum(axis=1) / people
        shown, counts = proxy.relabelled(rows, tallies)
        apart = np.abs(counts / shown[:, :, None] - base[:, None, :])[:, enough]
        disclosivity = (
            np.nanmax(apart.reshape(len(tallies), -1), axis=1, initial=-np.inf)
            if enough.any()
            else np.full(len(tallies), np.nan)
        )
        kept_rows = rows @ proxy.acceptance_
        kept = np.einsum("l,dlk->dk", proxy.acceptance_, tallies) / kept_rows[:, None]
        wanted = np.flatnonzero(target > 0)
        # the group that the training rows had least of, so that every draw is about the same one
        least = wanted[np.argmin(proxy.base_rates_[wanted])]
        growth = kept[:, least] / base[:, least]
        return {
            "disclosivity": np.where(np.isfinite(disclosivity), disclosivity, np.nan),
            "imbalance": np.linalg.norm(kept - target, axis=1),
            "imbalance_before": np.linalg.norm(base - target, axis=1),
            "smallest_growth": growth,
            "smallest_share": kept[:, least],
            "kept": kept_rows / people[:, 0],
        }


def _plain(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def generalisation_bound(proxy: ProxyTree, confidence: float = 0.95) -> dict[str, float]:
    r"""
    What the theory promises of new rows (Deng et al. 2023, theorem 3), for the tree as it was fitted.

    With probability :math:`1 - \delta` a tree of L splits, whose smallest leaf has m rows, is an
    :math:`(\alpha + 2\epsilon, \beta + k \epsilon \sqrt L)`-proxy, where

    .. math:: \epsilon = \sqrt{\frac{1}{2m} \ln \frac{8 d k L}{\delta}}

    The theorem has the largest possible number of splits, :math:`(\ln\beta - \ln\sqrt 2) / \ln(1 - \gamma)`,
    for L, and leaves the VC dimension d of the class of proxies open; here it is that of halfspaces, the
    number of features plus 1.

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
