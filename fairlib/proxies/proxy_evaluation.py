"""Measures of a proxy on rows that it was not learned from: disclosivity, and balance of its
sample.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from evenhand.fairlib.arrays import Bool, Float
from evenhand.fairlib.catalogue import names_of
from evenhand.fairlib.evaluation.closed_intervals import rate_interval
from evenhand.fairlib.execution import Progress
from evenhand.fairlib.proxies.graph import expected_acceptance
from evenhand.fairlib.proxies.proxy_base import BalancingProxy
from evenhand.fairlib.proxies.proxy_groups import indicators_of

CHUNK_DRAWS = 50
# Least number of rows with one acceptance probability for which group shares are computed.
LEAST_ALIKE = 50
# Imbalances of rounding.
ROUNDING = 1e-9
# A person is supported above this share of the mean chance, and has no chance below NO_CHANCE.
LEAST_SHARE = 0.1
NO_CHANCE = 0.001
# They depend on a norm or a maximum, so that percentiles would lie too low or too high.
CENTRED = ("imbalance_reduction", "support_shift")
# Shares of rows that have a property or not.
SHARES_OF_ROWS = ("support", "support_none")
# Measures without a largest value.
UNBOUNDED = ("smallest_growth", "imbalance_reduction", "support_shift")
MEASURES = tuple(name for name in names_of("proxy") if "." not in name)


@dataclass(frozen=True)
class ProxyMeasures:
    """Measures of a proxy with l groups on one set of rows; without draws no interval has ends.

    Parameters
    ----------
    values : dict of str to float or None
        By the names of `MEASURES`; None: undefined.
    lows, highs : dict of str to float or None
        Ends of the intervals.
    base_rates : ndarray of float64, shape (K,)
        Shares of the sensitive groups among all rows.
    shares : ndarray of float64, shape (K,)
        Expected shares among the kept rows.
    compositions : ndarray of float64, shape (l, K)
        Shares within each proxy group; NaN where it has no rows.
    rows : ndarray of float64, shape (l,)
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
    r"""Disclosivity (Deng et al. 2023, definition 5) and imbalance (definition 2) on given rows.

    .. math:: \max_{j,k} |A_{jk} - r_k|, \qquad
        \lVert \textstyle\sum_j \hat r_j \rho_j A_j / \sum_j \hat r_j \rho_j - t \rVert_2

    with A, r and :math:`\hat r` from these rows. The bootstrap draws weights of the rows from a
    Poisson distribution of mean 1. A maximum and a norm grow with any noise, so their percentiles
    would lie too high. Their interval is the value plus and minus the quantile of the same maximum
    or norm of the draws' differences from the point. By the triangle inequality it covers the true
    value at least as often as stated. The values are biased a little upwards on few rows. What
    follows from a norm or a maximum has the value plus and minus the quantile of the draws'
    distances from it; other intervals are percentiles.

    The support is about the acceptance probabilities p: the share of rows with p above a tenth of
    the mean, the share below .001, the effective sample size :math:`(\sum p)^2 / (n \sum p^2)`, and
    the covariate shift, the largest chi-square divergence :math:`n_k \sum p^2 / (\sum p)^2 - 1` of
    the kept from all rows within a group k of at least `min_rows` rows.

    Parameters
    ----------
    proxy : BalancingProxy
        A fitted proxy.
    X : array-like, shape (n, d)
    sensitive_features : mapping of str to array-like, shape (n,)
    draws : int, default 1000
        Draws of the bootstrap; 0 gives no intervals.
    level : float, default 0.95
        Of the intervals.
    min_rows : float, default 0
        Proxy groups with fewer expected rows do not count for the disclosivity, which is None if
        none remains.
    rng : numpy.random.Generator or None, default None
        Needed for draws.
    callback : callable, default None
        ``callback(done, total)`` counts draws.

    Returns
    -------
    ProxyMeasures

    Raises
    ------
    ValueError
        For draws without a generator, a missing attribute, or a group that the proxy was not
        fitted on.

    Examples
    --------
    >>> from evenhand.fairlib.proxies.tree import ProxyTree
    >>> rng = np.random.default_rng(0)
    >>> sex = np.repeat(["f", "m"], [50, 150])
    >>> X = rng.normal(size=(200, 1)) + (sex == "f")[:, None]
    >>> proxy = ProxyTree(alpha=0.4).fit(X, sensitive_features={"sex": sex})
    >>> measures = measure_proxy(proxy, X, {"sex": sex}, draws=0)
    >>> bool(measures.values["disclosivity"] <= 0.4 + 1e-6)
    True
    """
    if draws > 0 and rng is None:
        raise ValueError("an interval needs a generator: give rng, or draws=0.")
    shares = proxy.shares(X)
    indicators = indicators_of(sensitive_features, proxy.group_names_)
    flat = np.einsum("nl,nk->nlk", shares, indicators).reshape(len(shares), -1)
    flat = np.hstack([flat, _chances(expected_acceptance(shares, proxy.acceptance_), indicators)])
    shape = (-1, shares.shape[1], indicators.shape[1])
    width = shape[1] * shape[2]
    sums = flat.sum(axis=0)[None]
    tallies = sums[0, :width].reshape(shape[1:])
    rows = tallies.sum(axis=1) / len(proxy.group_names_)
    enough = rows >= max(min_rows, np.finfo(np.float64).tiny)
    is_large = tallies.sum(axis=0) >= max(min_rows, 1.0)
    point = _statistics(proxy, tallies[None], enough)
    point |= _support(sums[:, width:], tallies[None], is_large)
    values = {name: _value_of(name, item, proxy.target_) for name, item in point.items()}
    lows: dict[str, float | None] = dict.fromkeys(MEASURES)
    highs: dict[str, float | None] = dict.fromkeys(MEASURES)
    if draws > 0:
        assert rng is not None  # for the type checker
        sums = _drawn_sums(flat, draws, rng, callback)
        drawn_tallies = sums[:, :width].reshape(shape)
        drawn = _statistics(proxy, drawn_tallies, enough)
        drawn |= _support(sums[:, width:], drawn_tallies, is_large)
        for name, value in values.items():
            if value is not None:
                ends = _interval(name, value, point[name], drawn[name], level)
                lows[name], highs[name] = _widened(name, value, ends, len(flat), level)
    values["disclosivity_of_probability"] = _fineness(
        proxy, shares, indicators, max(min_rows, LEAST_ALIKE)
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        compositions = tallies / rows[:, None]
    base_rates = point["imbalance_before"][0]
    kept_shares = point["imbalance"][0]
    return ProxyMeasures(values, lows, highs, base_rates, kept_shares, compositions, rows)


def possible_reduction(proxy: BalancingProxy) -> float | None:
    """Share of the training rows' imbalance that a proxy's groups could remove without support.

    The sample is the mixture of the proxy groups that is nearest to the target (Deng et al. 2023,
    Algorithm 1), whose leaves are within the proxy's disclosivity limit, if it has one. It is what
    `support` and a target that is nearer than the limit are given up for.

    Parameters
    ----------
    proxy : BalancingProxy
        A fitted proxy.

    Returns
    -------
    float or None
        From 0 to 1; None if the rows have the target shares, or nothing can be removed.

    Examples
    --------
    >>> from evenhand.fairlib.proxies.tree import ProxyTree
    >>> rng = np.random.default_rng(0)
    >>> sex = np.repeat(["f", "m"], [50, 150])
    >>> X = rng.normal(size=(200, 1)) + (sex == "f")[:, None]
    >>> proxy = ProxyTree(alpha=0.2, tolerance=0.0).fit(X, sensitive_features={"sex": sex})
    >>> possible = possible_reduction(proxy)
    >>> bool(0.5 < possible <= 0.2 / 0.25)  # a leaf is at most .2 nearer to one half than 1 / 4 is
    True
    """
    from evenhand.fairlib.proxies.sampling import nearest_mixture

    before = float(np.linalg.norm(proxy.base_rates_ - proxy.target_))
    compositions = proxy.compositions_[proxy.masses_ > 0]
    mixture = nearest_mixture(compositions, proxy.target_)
    after = float(np.linalg.norm(mixture @ compositions - proxy.target_))
    if before <= ROUNDING or after >= before - ROUNDING:
        return None
    return 1.0 - after / before


def _value_of(name: str, statistic: Float, target: Float) -> float | None:
    """The measure from its statistic on all rows; None if it is not finite."""
    if statistic.ndim == 1:
        value = float(statistic[0])
    elif name.startswith("imbalance"):
        value = float(_size(name, statistic - target)[0])
    else:
        value = float(_size(name, statistic)[0])
    if math.isfinite(value):
        return value
    return None


def _drawn_sums(
    columns: Float, draws: int, rng: np.random.Generator, callback: Progress | None
) -> Float:
    """Sums of the columns under Poisson weights of the rows, shape (draws, columns)."""
    parts = []
    for start in range(0, draws, CHUNK_DRAWS):
        weights = rng.poisson(1.0, size=(min(CHUNK_DRAWS, draws - start), len(columns)))
        sums = weights.astype(np.float32) @ columns.astype(np.float32)
        parts.append(sums.astype(np.float64))
        if callback is not None:
            callback(min(start + CHUNK_DRAWS, draws), draws)
    return np.concatenate(parts)


def _statistics(proxy: BalancingProxy, tallies: Float, enough: Bool) -> dict[str, Float]:
    """Vectors or numbers behind the measures (for the imbalances: shares), one per draw of the
    tallies.
    """
    rows = tallies.sum(axis=2) / len(proxy.group_names_)
    all_rows = rows.sum(axis=1)
    kept_rows = rows @ proxy.acceptance_
    mixed_rows, counts = proxy.relabelled(rows, tallies)
    with_target = np.flatnonzero(proxy.target_ > 0)
    # the rarest group of the training rows, so that it is the same one in every draw
    least = with_target[np.argmin(proxy.base_rates_[with_target])]
    with np.errstate(invalid="ignore", divide="ignore"):
        base = tallies.sum(axis=1) / all_rows[:, None]
        apart = counts / mixed_rows[:, :, None] - base[:, None, :]
        kept_shares = np.einsum("l,dlk->dk", proxy.acceptance_, tallies) / kept_rows[:, None]
        before = _size("", base - proxy.target_)
        after = _size("", kept_shares - proxy.target_)
        return {
            "disclosivity": apart[:, enough].reshape(len(tallies), -1),
            "imbalance": kept_shares,
            "imbalance_before": base,
            "smallest_growth": kept_shares[:, least] / base[:, least],
            "smallest_share": kept_shares[:, least],
            "kept": kept_rows / all_rows,
            "imbalance_reduction": 1.0 - after / before,
        }


def _chances(chances: Float, indicators: Float) -> Float:
    """Columns whose sums give the support: all rows, those with and without a chance, and
    moments.
    """
    supported = chances > LEAST_SHARE * chances.mean()
    none = chances < NO_CHANCE
    first = np.stack([np.ones(len(chances)), supported, none, chances, chances**2], axis=1)
    return np.hstack([first, chances[:, None] * indicators, chances[:, None] ** 2 * indicators])


def _support(sums: Float, tallies: Float, is_large: Bool) -> dict[str, Float]:
    """Measures of the support, shape (draws,), from sums of the columns of `_chances`."""
    rows, supported, none, chances, squares = sums[:, :5].T
    by_group, squares_by_group = np.split(sums[:, 5:], 2, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        shifts = tallies.sum(axis=1) * squares_by_group / by_group**2 - 1.0
        return {
            "support": np.where(chances > 0, supported / rows, np.nan),
            "support_none": none / rows,
            "support_size": chances**2 / (rows * squares),
            "support_shift": _largest_of(shifts[:, is_large]),
        }


def _largest_of(values: Float) -> Float:
    """Largest finite entry of each row, NaN without one."""
    largest = np.nanmax(np.where(np.isfinite(values), values, np.nan), axis=1, initial=-np.inf)
    return np.where(np.isfinite(largest), largest, np.nan)


def _size(name: str, vectors: Float) -> Float:
    """Largest absolute entry of each vector for the disclosivity, Euclidean norm for the
    imbalances.
    """
    if name != "disclosivity":
        return np.linalg.norm(vectors, axis=1)
    return _largest_of(np.abs(vectors))


def _interval(
    name: str, value: float, point: Float, drawn: Float, level: float
) -> tuple[float, float]:
    if drawn.ndim > 1:
        margin = float(np.nanquantile(_size(name, drawn - point), level))
        largest = 1.0 if name == "disclosivity" else math.inf
        return max(0.0, value - margin), min(largest, value + margin)
    if name in CENTRED:
        margin = float(np.nanquantile(np.abs(drawn - value), level))
        return value - margin, value + margin
    tail = (1.0 - level) / 2.0
    low, high = np.nanquantile(drawn, [tail, 1.0 - tail])
    return float(low), float(high)


def _widened(
    name: str, value: float, ends: tuple[float, float], rows: int, level: float
) -> tuple[float, float]:
    """Widen an interval of width 0, and that of a share of rows to its exact interval.

    Where all rows are alike every draw is: some share of further rows may differ. A growth and a
    shift have no upper bound, and reach as far as their value, or 1.
    """
    low, high = ends
    if name in SHARES_OF_ROWS:
        exact = rate_interval(value * rows, rows, level)
        return min(low, exact[0]), max(high, exact[1])
    if high > low:
        return ends
    _, share = rate_interval(0, rows, level)
    low = value - share * max(value, 1.0)
    if name in UNBOUNDED:
        return low, value + share * max(value, 1.0)
    return max(low, 0.0), value + share * (1.0 - value)


def _fineness(
    proxy: BalancingProxy, shares: Float, indicators: Float, least: float
) -> float | None:
    """Disclosivity of the acceptance probability itself, over the values that at least `least` rows
    have.
    """
    acceptance = np.round(shares @ proxy.acceptance_, 9)
    _, codes, rows = np.unique(acceptance, return_inverse=True, return_counts=True)
    tallies = np.stack([np.bincount(codes, weights=column) for column in indicators.T], axis=1)
    alike = rows >= least
    if not alike.any():
        return None
    compositions = tallies[alike] / rows[alike, None]
    return float(np.abs(compositions - indicators.mean(axis=0)).max())
