r"""Distance of a batch from a reference, from counts alone: stability index, test, changes of
shares.

The population stability index of shares p against a reference r is the symmetrised Kullback-Leibler
divergence

.. math:: \mathrm{PSI} = \sum_{j=1}^{B} (p_j - r_j) \log \frac{p_j}{r_j}

Industry reads an index below 0.1 as stable and one above 0.2 (or 0.25) as changed. The index is
biased: for two samples of n and m rows from one distribution its mean is about :math:`(B - 1)(1/n +
1/m)`, not 0.

Sources: Lin, "Divergence Measures Based on the Shannon Entropy", IEEE Transactions on Information
Theory 37 (1991), for the divergence; Yurdakul and Naranjo, "Statistical Properties of the
Population Stability Index", Journal of Risk Model Validation 14 (2020), for its distribution
without drift.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from evenhand.fairlib.arrays import Float, Int
from evenhand.fairlib.evaluation.binning import merge_bins
from evenhand.fairlib.evaluation.closed_intervals import rate_interval
from evenhand.fairlib.evaluation.evaluate import MetricValue

FLOOR = 1e-6
"""Smallest share in the logarithm: it replaces a share of zero."""
LEAST_ROWS = 20
"""Fewest rows of a share that is compared."""
CELL_ROWS = 5
"""Fewest expected rows of a bin in the smaller sample (Cochran's rule)."""
CHANGED = 0.2
"""Index above which a column commonly counts as changed."""
FALSE_ALARM = 0.001
"""Accepted probability of such an index without drift, for one column."""
MOST_BINS = 1000
NEGLIGIBLE = 0.05
"""Share of all other values below which a single remaining bin counts as no change."""


def stability_index(shares: ArrayLike, reference: ArrayLike) -> float | Float:
    r"""Population stability index over the last axis, each share no smaller than 1e-6.

    .. math:: \sum_j (p_j - r_j) \log \frac{p_j}{r_j}

    Parameters
    ----------
    shares : array-like, shape (..., B)
        Shares by bin.
    reference : array-like, shape (..., B)
        Shares of the reference; the index is the same if the two are exchanged.

    Returns
    -------
    float or ndarray of float64, shape (...)
        At least 0.

    References
    ----------
    .. [1] J. Lin, "Divergence Measures Based on the Shannon Entropy", IEEE Transactions on
       Information Theory 37 (1991).
    .. [2] B. Yurdakul and J. Naranjo, "Statistical Properties of the Population Stability Index",
       Journal of Risk Model Validation 14 (2020).

    Examples
    --------
    >>> round(stability_index([0.3, 0.7], [0.5, 0.5]), 4)
    0.1695
    """
    p = np.maximum(np.asarray(shares, dtype=np.float64), FLOOR)
    r = np.maximum(np.asarray(reference, dtype=np.float64), FLOOR)
    index = ((p - r) * np.log(p / r)).sum(axis=-1)
    return float(index) if index.ndim == 0 else index


def most_bins(n: int, m: int) -> int:
    r"""Largest number of bins by which samples of n and m rows may be compared.

    It is the most for which the probability of an index above 0.2 without drift stays below 0.1%,
    by the index's chi-square distribution; 1 for fewer than some 55 rows.

    .. math:: \chi^2_{B - 1;\, 0.999} \left(\frac1n + \frac1m\right) \le 0.2

    Parameters
    ----------
    n : int
        Rows of the first sample, at least 1.
    m : int
        Rows of the second sample, at least 1.

    Returns
    -------
    int
        At least 1.
    """
    from scipy.special import chdtri

    bins = 1
    while float(chdtri(bins, FALSE_ALARM)) * (1.0 / n + 1.0 / m) <= CHANGED and bins < MOST_BINS:
        bins += 1
    return bins


def coarsen(
    now: ArrayLike, then: ArrayLike, ordered: int = 0, most: int | None = None
) -> list[list[int]]:
    """Merge bins until both samples expect ``CELL_ROWS`` rows in each bin under a common
    distribution.

    Works as :func:`evenhand.fairlib.evaluation.binning.merge_bins`, by the sum of the two samples
    only, so that the merging favours neither answer. Bins that are empty in both samples vanish.

    Parameters
    ----------
    now : array-like, shape (B,)
        Counts of the batch.
    then : array-like, shape (B,)
        Counts of the reference.
    ordered : int, default 0
        So many of the first bins have an order.
    most : int, optional
        Most bins; default: any number.

    Returns
    -------
    list of list of int
        Positions of the bins that became one.
    """
    a = np.asarray(now, dtype=np.float64)
    b = np.asarray(then, dtype=np.float64)
    total = a + b
    rows = float(total.sum())
    scale = min(a.sum(), b.sum()) / rows if rows else 0.0
    present = np.flatnonzero(total > 0)
    sizes = (total[present] * scale).tolist()
    merged = merge_bins(sizes, CELL_ROWS, most, int(np.sum(present < ordered)))
    return [present[part].tolist() for part in merged]


@dataclass(frozen=True)
class ColumnDrift:
    """Drift of one column."""

    psi: MetricValue  # stability index with its interval
    # about the mean of the index without drift, (B - 1)(1/n + 1/m); None where the index has no
    # evidence
    expected_psi: float | None
    p_value: float | None  # of Pearson's chi-square test, not corrected for the number of columns
    bins_compared: int


def column_drift(
    now: ArrayLike,
    then: ArrayLike,
    *,
    draws: int,
    level: float,
    random: np.random.Generator,
    ordered: int = 0,
) -> ColumnDrift:
    r"""Compare a column's counts in a batch with those of the reference.

    Bins are merged by :func:`coarsen` first, down to :func:`most_bins`, and half a row is added to
    each bin of both samples, so that an empty bin does not decide alone. The interval is a
    parametric bootstrap: both samples are drawn anew from their multinomial distributions, which
    gives indices with the quantiles q about the estimate :math:`\hat\theta`. They are biased
    upwards about it as it is about the truth, so plain percentiles would often lie above the truth.
    The upper distance, which contains bias and spread, is taken to both sides:

    .. math:: \left[\max(0,\, 2\hat\theta - q_{1 - \alpha/2}),\; q_{1 - \alpha/2}\right]

    Its lower end is that of the basic bootstrap interval (Davison and Hinkley, "Bootstrap Methods
    and their Application", 1997, section 5.2), its upper end that of the percentile interval: wide
    rather than narrow.

    Parameters
    ----------
    now : array-like, shape (B,)
        Counts of the batch by bin, missing values among them.
    then : array-like, shape (B,)
        Counts of the reference.
    draws : int
        Bootstrap draws; 0 for no interval.
    level : float
        Coverage of the interval, in (0, 1).
    random : np.random.Generator
        Generator of the draws.
    ordered : int, default 0
        As of :func:`coarsen`.

    Returns
    -------
    ColumnDrift
        Without evidence where there are too few rows for two bins, or where merging leaves one bin
        though other values have more than 5% of the rows of both samples; if they have less, the
        index is 0.

    Raises
    ------
    ValueError
        If the counts differ in length or are negative.

    References
    ----------
    .. [1] A. C. Davison and D. V. Hinkley, "Bootstrap Methods and their Application" (1997),
       section 5.2.

    Examples
    --------
    >>> drift = column_drift([600, 400], [500, 500], draws=100, level=0.95,
    ...                      random=np.random.default_rng(0))
    >>> round(drift.psi.value, 3)
    0.04
    """
    from scipy.stats import chi2_contingency

    a, b = _checked_counts(now, then)
    n = int(a.sum())
    m = int(b.sum())
    reason = f"{min(n, m):,} rows are too few to separate a change from chance"
    too_few = ColumnDrift(MetricValue.insufficient(reason), None, None, 0)
    most = most_bins(n, m) if n and m else 1
    if most == 1:
        return too_few
    parts = coarsen(a, b, ordered, most=most)
    if len(parts) == 1:
        share_of_other_values = 1.0 - float((a + b).max()) / (n + m)
        if share_of_other_values > NEGLIGIBLE:
            return too_few
        zero = MetricValue(0.0)
        if draws:
            zero = MetricValue(0.0, 0.0, _hidden_index(n, m, draws, level, random))
        return ColumnDrift(zero, 0.0, 1.0, 1)
    a = np.array([a[part].sum() for part in parts])
    b = np.array([b[part].sum() for part in parts])
    p = _smoothed(a)
    r = _smoothed(b)
    value = float(stability_index(p, r))
    psi = MetricValue(value)
    if draws:
        drawn = stability_index(
            _smoothed(random.multinomial(n, p, size=draws)),
            _smoothed(random.multinomial(m, r, size=draws)),
        )
        high = max(value, float(np.quantile(drawn, 1.0 - (1.0 - level) / 2.0)))
        psi = MetricValue(value, max(0.0, 2 * value - high), high)
    p_value = float(chi2_contingency(np.stack([a, b]), correction=False).pvalue)
    return ColumnDrift(psi, (len(parts) - 1) * (1.0 / n + 1.0 / m), p_value, len(parts))


def _checked_counts(now: ArrayLike, then: ArrayLike) -> tuple[Int, Int]:
    """Counts by bin as arrays; ValueError as :func:`column_drift` raises it."""
    a = np.asarray(now, dtype=np.int64)
    b = np.asarray(then, dtype=np.int64)
    if a.shape != b.shape or a.ndim != 1:
        raise ValueError(
            f"now: got counts of shape {a.shape}, expected {b.shape}, one a bin as in then"
        )
    if (a < 0).any() or (b < 0).any():
        raise ValueError("now, then: got a negative count, expected numbers of rows")
    return a, b


def _hidden_index(n: int, m: int, draws: int, level: float, random: np.random.Generator) -> float:
    """Upper end of the index of samples with one value each: of further values that neither may
    show.
    """
    p = _smoothed(np.array([n, 0]))
    r = _smoothed(np.array([m, 0]))
    drawn = stability_index(
        _smoothed(random.multinomial(n, p, size=draws)),
        _smoothed(random.multinomial(m, r, size=draws)),
    )
    return float(np.quantile(drawn, 1.0 - (1.0 - level) / 2.0))


def _smoothed(counts: Int) -> Float:
    """Shares after half a row more in each bin."""
    more = counts + 0.5
    return more / more.sum(axis=-1, keepdims=True)


def largest(metrics: Sequence[MetricValue]) -> MetricValue:
    """Largest of several metrics, its interval from the largest lower and the largest upper end.

    The upper end holds whatever the dependence between the metrics: the largest true value is at
    most its own upper end, and so at most the largest upper end. The lower end is less certain the
    more metrics there are. Insufficient where any metric is, or there is none: the largest may be
    the one that is not known.

    Parameters
    ----------
    metrics : sequence of MetricValue
        Metrics of which the largest counts.

    Returns
    -------
    MetricValue
        The largest value.
    """
    if not metrics:
        return MetricValue.insufficient("there is nothing to compare")
    for metric in metrics:
        if metric.status != "ok":
            return MetricValue.insufficient(metric.reason)
    value = max(metric.value for metric in metrics if metric.value is not None)
    lows = [metric.low for metric in metrics if metric.low is not None]
    highs = [metric.high for metric in metrics if metric.high is not None]
    if len(lows) < len(metrics):
        return MetricValue(value)
    return MetricValue(value, min(max(lows), value), max(*highs, value))


def share(count: int, n: int, *, level: float) -> MetricValue:
    """Share of rows with its exact interval; insufficient below ``LEAST_ROWS`` rows.

    Parameters
    ----------
    count : int
        Rows with the property.
    n : int
        All rows.
    level : float
        Coverage of the interval, in (0, 1).

    Returns
    -------
    MetricValue
        The share with its interval.
    """
    if n < LEAST_ROWS:
        return MetricValue.insufficient(f"{n:,} rows are fewer than {LEAST_ROWS}")
    return MetricValue(count / n, *rate_interval(count, n, level))


@dataclass(frozen=True)
class Change:
    """A share then and now, None where it is not known, and the absolute difference of the two."""

    then: float | None
    now: float | None
    change: MetricValue


def share_change(
    count: int, n: int, count_then: int, m: int, *, level: float, least: int = 1
) -> Change:
    """Absolute change of a share between two samples, from exact intervals by
    :func:`change_between`.

    Parameters
    ----------
    count : int
        Rows with the property now.
    n : int
        All rows now.
    count_then : int
        Rows with the property then.
    m : int
        All rows then.
    level : float
        Coverage of the interval, in (0, 1).
    least : int, default 1
        With fewer rows, now or then, the change is insufficient and the present share is not given.

    Returns
    -------
    Change
        Both shares and the change.
    """
    if min(n, m) < least:
        reason = MetricValue.insufficient(f"{min(n, m):,} rows are fewer than {least}")
        return Change(count_then / m if m else None, None, reason)
    p = count / n
    r = count_then / m
    now = rate_interval(count, n, level)
    then = rate_interval(count_then, m, level)
    return Change(r, p, change_between(MetricValue(p, *now), MetricValue(r, *then)))


def change_between(now: MetricValue, then: MetricValue) -> MetricValue:
    r"""Size of the change between independent estimates p and r of a number from 0 to 1.

    The interval of the signed difference :math:`d = p - r` combines the intervals [l, u] of both,

    .. math:: \left[d - \sqrt{(p - l_p)^2 + (u_r - r)^2},\;
              d + \sqrt{(u_p - p)^2 + (r - l_r)^2}\right]

    (Newcombe, "Interval Estimation for the Difference between Independent Proportions", Statistics
    in Medicine 17 (1998), method 10); the interval of its size follows from its position relative
    to 0. There is none if one of the two has none, and no value if one has no value.

    Parameters
    ----------
    now : MetricValue
        Present estimate, from 0 to 1.
    then : MetricValue
        Earlier, independent estimate.

    Returns
    -------
    MetricValue
        No interval if one of the two has none, and no value if one has no value.

    References
    ----------
    .. [1] R. G. Newcombe, "Interval Estimation for the Difference between Independent Proportions",
       Statistics in Medicine 17 (1998), method 10.
    """
    p = now.value
    r = then.value
    if p is None or r is None:
        return MetricValue.insufficient(now.reason or then.reason)
    size = abs(p - r)
    if now.low is None or now.high is None or then.low is None or then.high is None:
        return MetricValue(size)
    low = p - r - math.hypot(p - now.low, then.high - r)
    high = p - r + math.hypot(now.high - p, r - then.low)
    ends = sorted((abs(low), abs(high)))
    nearest = 0.0 if low <= 0.0 <= high else min(ends[0], size)
    return MetricValue(size, nearest, min(max(ends[1], size), 1.0))


def largest_change(
    now: Sequence[tuple[int, int]], then: Sequence[tuple[int, int]], *, level: float
) -> MetricValue:
    """Largest change of several shares, whose intervals hold together with `level` (Bonferroni).

    Parameters
    ----------
    now : sequence
        For each of K shares, the rows with the property and all rows, at least 1.
    then : sequence
        The same of the earlier rows.
    level : float
        Coverage of the interval, in (0, 1).

    Returns
    -------
    MetricValue
        Insufficient if K is 0.
    """
    corrected = 1.0 - (1.0 - level) / max(len(now), 1)
    changes = []
    for (count, n), (count_then, m) in zip(now, then, strict=True):
        changes.append(share_change(count, n, count_then, m, level=corrected).change)
    return largest(changes)
