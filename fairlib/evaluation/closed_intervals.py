r"""Intervals of rates, of their differences and of their ratios in closed form.

A bootstrap resamples the rows that were seen. Where no row of a group was selected it draws none,
so its interval of that group's rate is [0, 0], however few rows there are. The intervals here start
from the exact interval of each rate, which is never of width 0, and combine these:

- a rate: Clopper and Pearson, "The Use of Confidence or Fiducial Limits Illustrated in the Case of
  the Binomial", Biometrika 26 (1934). Wilson's score interval is shorter, but of 50 rows and a rate
  of .01 it covers 91 % only.
- a difference, and a mean of rates: Newcombe, "Interval Estimation for the Difference between
  Independent Proportions", Statistics in Medicine 17 (1998), method 10, with exact intervals in
  place of Wilson's; Zou and Donner, "Construction of Confidence Limits about Effect Measures",
  Statistics in Medicine 27 (2008).
- a ratio: Newcombe, "MOVER-R Confidence Intervals for Ratios and Products of Two Independent
  Quantities", Statistical Methods in Medical Research 25 (2016).
- a difference of two shares of the same rows: Newcombe, "Improved Confidence Intervals for the
  Difference between Binomial Proportions Based on Paired Data", Statistics in Medicine 17 (1998),
  method 10, again with exact intervals.
- a mean of numbers: Student's distribution, and Hall, "On the Removal of Skewness by
  Transformation", Journal of the Royal Statistical Society B 54 (1992).
- an AUC: Newcombe, "Confidence Intervals for an Effect Size Measure Based on the Mann-Whitney
  Statistic, Part 2", Statistics in Medicine 25 (2006), method 5.

A largest difference between K groups is the largest of :math:`m = K (K - 1) / 2` differences. Its
upper end is the largest upper end of a pair, at the level itself: the pair that truly differs most
is one of them. Its lower end is the largest lower end of a pair, at the level :math:`1 - \alpha /
m` (Bonferroni), or 0 where no pair differs: then the interval of equal groups contains 0 with at
least the level. A smallest ratio has its lower end from the level itself and its upper end from the
corrected one.

The functions take arrays and know nothing of rows, labels or groups.
"""

from __future__ import annotations

from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from evenhand.fairlib.arrays import Float

LEAST = 1e-300
"""In place of 0 where a function of scipy needs a positive number whose result is then not used."""


MOST_PAIRED = 400
"""Of more groups not every pair is compared: the arrays of pairs would not fit into memory."""


class Estimates(NamedTuple):
    """Estimates with the lower and the upper ends of their intervals, of one shape."""

    value: Float
    low: Float
    high: Float


def exact_interval(hits: ArrayLike, n: ArrayLike, level: float) -> Estimates:
    r"""Exact interval of shares (Clopper and Pearson 1934), which covers at least as often as
    stated.

    .. math:: \left[ B_{\alpha/2}(h,\, n - h + 1),\; B_{1 - \alpha/2}(h + 1,\, n - h) \right]

    with the quantiles B of the beta distribution.

    Parameters
    ----------
    hits : array-like, shape (...)
        Rows with the property, from 0 to `n`. Effective numbers need not be whole.
    n : array-like, shape (...)
        Rows; without any, the share is NaN and its interval [0, 1].
    level : float
        Coverage, in (0, 1).

    Returns
    -------
    Estimates
        Shares and ends, shape (...).

    References
    ----------
    .. [1] C. J. Clopper and E. S. Pearson, "The Use of Confidence or Fiducial Limits Illustrated in
       the Case of the Binomial", Biometrika 26 (1934).

    Examples
    --------
    >>> found = exact_interval(0, 20, 0.95)
    >>> float(found.value), float(found.low), round(float(found.high), 3)
    (0.0, 0.0, 0.168)
    """
    from scipy.special import betaincinv

    count, rows = np.broadcast_arrays(np.asarray(hits, np.float64), np.asarray(n, np.float64))
    misses = np.maximum(rows - count, 0.0)
    tail = (1.0 - level) / 2.0
    share = np.full(rows.shape, np.nan)
    np.divide(count, rows, out=share, where=rows > 0)
    low = np.where(count > 0, betaincinv(np.maximum(count, LEAST), misses + 1.0, tail), 0.0)
    high = np.where(misses > 0, betaincinv(count + 1.0, np.maximum(misses, LEAST), 1.0 - tail), 1.0)
    # rounding may leave a share just outside; fmin and fmax pass over the NaN of no rows
    return Estimates(share, np.fmin(low, share), np.fmax(high, share))


def drawn_interval(hits: int, n: int, population: int, level: float) -> tuple[float, float]:
    r"""Exact interval of a share of a finite population, by a sample without replacement.

    The ends are the smallest and the largest number K of hits in the population for which neither
    tail of the hypergeometric distribution of the sample's hits, from the observed number on, has a
    chance below :math:`(1 - level) / 2`, divided by the population. With the whole population the
    interval is the share itself.

    Parameters
    ----------
    hits : int
        Members of the sample with the property.
    n : int
        Size of the sample, at least 1.
    population : int
        Size of the population, at least `n`.
    level : float
        Coverage, in (0, 1).

    Returns
    -------
    tuple of two floats
        Lower and upper end, in [0, 1], around ``hits / n``.

    Raises
    ------
    ValueError
        If `hits` is no part of `n`, or `n` no part of `population`, or `n` is below 1.

    References
    ----------
    .. [1] T. Wright, "Exact Confidence Bounds when Sampling from Small Finite Universes", Springer
       1991.

    Examples
    --------
    >>> drawn_interval(1, 4, 4, 0.95)
    (0.25, 0.25)
    """
    from scipy.stats import hypergeom

    if not 0 <= hits <= n <= population or n < 1:
        raise ValueError(
            f"hits: got {hits} of {n} of {population}, expected parts of each other, and at least "
            "one member"
        )
    tail = (1.0 - level) / 2.0
    # so many hits are seen, and so many misses
    totals = np.arange(hits, population - (n - hits) + 1)
    at_most = hypergeom.cdf(hits, population, totals, n)
    at_least = hypergeom.sf(hits - 1, population, totals, n)
    possible = totals[(at_most >= tail) & (at_least >= tail)]
    return float(possible.min() / population), float(possible.max() / population)


def rate_interval(hits: float, n: float, level: float) -> tuple[float, float]:
    """Ends of :func:`exact_interval` for one share.

    Parameters
    ----------
    hits, n : float
        Rows with the property, and all rows, at least 1.
    level : float
        Coverage, in (0, 1).

    Returns
    -------
    tuple of two floats
        Lower and upper end, in [0, 1], around ``hits / n``.

    Raises
    ------
    ValueError
        If `hits` is no part of `n`, or `n` is below 1.
    """
    if not 0 <= hits <= n or n < 1:
        raise ValueError(f"hits: got {hits} of {n}, expected a part of at least one row")
    estimate = exact_interval(hits, n, level)
    return float(estimate.low), float(estimate.high)


def mean_interval(parts: Estimates) -> Estimates:
    r"""Interval of the mean of independent estimates (Zou and Donner 2008), over the last axis of
    k.

    .. math:: \bar\theta - \tfrac1k \sqrt{\textstyle\sum_i (\hat\theta_i - l_i)^2}, \qquad
              \bar\theta + \tfrac1k \sqrt{\textstyle\sum_i (u_i - \hat\theta_i)^2}

    Parameters
    ----------
    parts : Estimates
        Estimates of shape (..., k).

    Returns
    -------
    Estimates
        Means, shape (...).

    References
    ----------
    .. [1] G. Y. Zou and A. Donner, "Construction of Confidence Limits about Effect Measures",
       Statistics in Medicine 27 (2008).
    """
    number = parts.value.shape[-1]
    mean = parts.value.mean(axis=-1)
    below = np.sqrt(np.sum((parts.value - parts.low) ** 2, axis=-1)) / number
    above = np.sqrt(np.sum((parts.high - parts.value) ** 2, axis=-1)) / number
    return Estimates(mean, mean - below, mean + above)


def student_interval(
    mean: Float, variance: Float, people: Float, level: float, skewness: Float | None = None
) -> Estimates:
    r"""Interval of means of independent numbers, :math:`\bar x \pm t_{k-1} \sqrt{\hat v}`.

    Of few skewed numbers this interval covers too seldom. With their skewness it is widened to
    contain that of Hall's transformed statistic,

    .. math:: \left[\bar x - \sqrt{\hat v}\, g(t_{k-1}),\; \bar x - \sqrt{\hat v}\, g(-t_{k-1})
              \right], \qquad
              g(x) = \tfrac3a \left(\sqrt[3]{1 + a (x - a / 6)} - 1\right),\quad
              a = \hat\gamma / \sqrt k

    Parameters
    ----------
    mean : array, shape (...)
        Means.
    variance : array, shape (...)
        Estimated variances of the means.
    people : array, shape (...)
        Independent numbers k of each mean.
    level : float
        Coverage, in (0, 1).
    skewness : array, shape (...), optional
        Skewness of the numbers; default: 0.

    Returns
    -------
    Estimates
        Of shape (...); the ends are NaN for fewer than two numbers, or numbers that do not vary.

    References
    ----------
    .. [1] P. Hall, "On the Removal of Skewness by Transformation", Journal of the Royal Statistical
       Society B 54 (1992).

    Examples
    --------
    >>> mean = student_interval(np.array([10.0]), np.array([1.0]), np.array([11.0]), 0.95)
    >>> round(float(mean.high[0]), 3)
    12.228
    """
    from scipy.special import stdtrit

    usable = (people > 1) & (variance > 0)
    quantile = stdtrit(np.maximum(people - 1.0, 1.0), (1.0 + level) / 2.0)
    error = np.where(usable, np.sqrt(np.where(usable, variance, 1.0)), np.nan)
    low = mean - quantile * error
    high = mean + quantile * error
    if skewness is not None:
        scaled = skewness / np.sqrt(np.maximum(people, 1.0))
        low = np.minimum(low, mean - error * _without_skewness(quantile, scaled))
        high = np.maximum(high, mean - error * _without_skewness(-quantile, scaled))
    return Estimates(mean, low, high)


def _without_skewness(statistic: Float, scaled: Float) -> Float:
    """Hall's function g of Student's statistic; `scaled` is a."""
    # for hardly any skewness the function is the identity, and its form 0/0
    safe = np.where(np.abs(scaled) > 1e-6, scaled, 1.0)
    root = np.cbrt(1.0 + safe * (statistic - safe / 6.0))
    return np.where(np.abs(scaled) > 1e-6, 3.0 / safe * (root - 1.0), statistic)


def paired_difference(first: Estimates, second: Estimates, correlation: Float) -> Estimates:
    r"""Interval of the difference of two estimates from the same rows (Newcombe 1998, method 10).

    .. math:: d - \sqrt{a^2 - 2 \phi a b + b^2}, \qquad a = \hat\theta_1 - l_1,\quad
              b = u_2 - \hat\theta_2, \qquad d = \hat\theta_1 - \hat\theta_2

    and the upper end likewise, with the correlation :math:`\phi`.

    Parameters
    ----------
    first, second : Estimates
        Estimates of shape (...).
    correlation : array, shape (...)
        Correlation of both estimates, from -1 to 1; NaN counts as 0.

    Returns
    -------
    Estimates
        Of shape (...): the first less the second.

    References
    ----------
    .. [1] R. G. Newcombe, "Improved Confidence Intervals for the Difference between Binomial
       Proportions Based on Paired Data", Statistics in Medicine 17 (1998), method 10.
    """
    phi = np.where(np.isnan(correlation), 0.0, correlation)
    difference = first.value - second.value

    def _reach(of_first: Float, of_second: Float) -> Float:
        square = of_first**2 - 2.0 * phi * of_first * of_second + of_second**2
        # rounding may leave a root of a number just below 0
        return np.sqrt(np.maximum(square, 0.0))

    below = _reach(first.value - first.low, second.high - second.value)
    above = _reach(first.high - first.value, second.value - second.low)
    return Estimates(difference, difference - below, difference + above)


def paired_correlation(both: Float, first: Float, second: Float, n: Float) -> Float:
    r"""Correlation of two shares of the same rows, drawn towards 0 as Newcombe's method 10 does.

    .. math:: \hat\phi = \frac{\max(0,\; p_{12} - p_1 p_2 - 1 / 2n)}
                             {\sqrt{p_1 (1 - p_1) p_2 (1 - p_2)}}

    where the numerator is positive; a negative one stays as it is. So two shares that agree in all
    rows have no correlation of 1, and their difference has an interval of some width.

    Parameters
    ----------
    both, first, second : array, shape (...)
        Shares of the rows with both properties, with the first, and with the second.
    n : array, shape (...)
        Effective rows.

    Returns
    -------
    array, shape (...)
        NaN where a share is 0 or 1.
    """
    covariance = both - first * second
    with np.errstate(divide="ignore", invalid="ignore"):
        reduced = np.where(covariance > 0, np.maximum(covariance - 0.5 / n, 0.0), covariance)
        scale = np.sqrt(first * (1.0 - first) * second * (1.0 - second))
        return np.where(scale > 0, reduced / scale, np.nan)


def pairwise_differences(parts: Estimates) -> Estimates:
    r"""Intervals of all differences between two of k independent estimates (Newcombe 1998, method
    10).

    .. math:: d - \sqrt{(\hat\theta_i - l_i)^2 + (u_j - \hat\theta_j)^2}, \qquad
              d + \sqrt{(u_i - \hat\theta_i)^2 + (\hat\theta_j - l_j)^2}, \qquad
              d = \hat\theta_i - \hat\theta_j

    Parameters
    ----------
    parts : Estimates
        Estimates of shape (..., k).

    Returns
    -------
    Estimates
        Of shape (..., k, k): the i-th less the j-th.

    References
    ----------
    .. [1] R. G. Newcombe, "Interval Estimation for the Difference between Independent Proportions",
       Statistics in Medicine 17 (1998), method 10.
    """
    below = parts.value - parts.low
    above = parts.high - parts.value
    difference = parts.value[..., :, None] - parts.value[..., None, :]
    low = difference - np.hypot(below[..., :, None], above[..., None, :])
    high = difference + np.hypot(above[..., :, None], below[..., None, :])
    return Estimates(difference, low, high)


def largest_difference(narrow: Estimates, wide: Estimates) -> Estimates:
    """Interval of the largest difference between two of k independent estimates, over the last
    axis.

    Parameters
    ----------
    narrow : Estimates
        Estimates of shape (..., k), at least two, with intervals of the level: they give the upper
        end.
    wide : Estimates
        The same estimates with intervals of :func:`corrected_level`: they give the lower end, at
        least 0.

    Returns
    -------
    Estimates
        Of shape (...).
    """
    value = narrow.value.max(axis=-1) - narrow.value.min(axis=-1)
    if narrow.value.shape[-1] > MOST_PAIRED:
        return _difference_of_many(value, narrow, wide)
    off_diagonal = ~np.eye(narrow.value.shape[-1], dtype=bool)
    low = pairwise_differences(wide).low[..., off_diagonal].max(axis=-1)
    high = pairwise_differences(narrow).high[..., off_diagonal].max(axis=-1)
    return Estimates(value, np.maximum(low, 0.0), high)


def _difference_of_many(value: Float, narrow: Estimates, wide: Estimates) -> Estimates:
    """Interval of the largest difference of very many estimates: longer than that of all pairs.

    The upper end is the largest upper end less the smallest lower end; the lower end is of the
    estimates with the largest and the smallest ends.
    """
    lower, upper = _extremes(wide)
    low = pairwise_differences(Estimates(*(column[..., [lower, upper]] for column in wide)))
    high = narrow.high.max(axis=-1) - narrow.low.min(axis=-1)
    return Estimates(value, np.maximum(low.low[..., 1, 0], 0.0), high)


def _extremes(parts: Estimates) -> tuple[int, int]:
    """Positions of the estimates of the smallest upper and of the largest lower end."""
    return int(np.argmin(parts.high)), int(np.argmax(parts.low))


def corrected_level(level: float, comparisons: int) -> float:
    """Level of each of several intervals that hold together with at least `level` (Bonferroni).

    Parameters
    ----------
    level : float
        Coverage of all together, in (0, 1).
    comparisons : int
        Number of intervals, at least 1.

    Returns
    -------
    float
    """
    return 1.0 - (1.0 - level) / comparisons


def pairs_of(groups: int) -> int:
    """Number of pairs of K groups, at least 1.

    Parameters
    ----------
    groups : int
        Number of groups, K.

    Returns
    -------
    int
        K (K - 1) / 2, and 1 for fewer than two groups.
    """
    return max(groups * (groups - 1) // 2, 1)


def pairwise_ratios(parts: Estimates) -> Estimates:
    r"""Intervals of all ratios of two of k independent shares (Newcombe 2016, MOVER-R).

    .. math:: \frac{l_1 (2 \theta_1 - l_1)}
                   {\theta_1 \theta_2 + \sqrt{(\theta_1 \theta_2)^2 - l_1 (2 \theta_1 - l_1)\,
                   u_2 (2 \theta_2 - u_2)}}, \qquad
              \frac{\theta_1 \theta_2 + \sqrt{(\theta_1 \theta_2)^2 - u_1 (2 \theta_1 - u_1)\,
                   l_2 (2 \theta_2 - l_2)}}{l_2 (2 \theta_2 - l_2)}

    The first is the root of the paper in the form that has no 0/0.

    Parameters
    ----------
    parts : Estimates
        Shares of shape (..., k).

    Returns
    -------
    Estimates
        Of shape (..., k, k): the i-th over the j-th, infinite with all ends where the j-th is 0.

    References
    ----------
    .. [1] R. G. Newcombe, "MOVER-R Confidence Intervals for Ratios and Products of Two Independent
       Quantities", Statistical Methods in Medical Research 25 (2016).
    """
    top = Estimates(*(column[..., :, None] for column in parts))
    bottom = Estimates(*(column[..., None, :] for column in parts))
    product = top.value * bottom.value
    lower_top = top.low * (2.0 * top.value - top.low)
    upper_top = top.high * (2.0 * top.value - top.high)
    lower_bottom = bottom.low * (2.0 * bottom.value - bottom.low)
    upper_bottom = bottom.high * (2.0 * bottom.value - bottom.high)
    # rounding may leave a root of a number just below 0
    low_root = np.sqrt(np.maximum(product**2 - lower_top * upper_bottom, 0.0))
    high_root = np.sqrt(np.maximum(product**2 - upper_top * lower_bottom, 0.0))
    defined = np.broadcast_to(bottom.value > 0, product.shape)
    value = np.full(product.shape, np.inf)
    low = np.full(product.shape, np.inf)
    high = np.full(product.shape, np.inf)
    np.divide(np.broadcast_to(top.value, product.shape), bottom.value, out=value, where=defined)
    # without a hit above the line the lower end is 0
    low[defined & (product <= 0)] = 0.0
    np.divide(lower_top + 0.0 * product, product + low_root, out=low, where=defined & (product > 0))
    np.divide(product + high_root, lower_bottom + 0.0 * product, out=high, where=defined)
    return Estimates(value, low, high)


def smallest_ratio(narrow: Estimates, wide: Estimates) -> Estimates:
    """Interval of the smallest share over the largest of k independent shares, over the last axis.

    Parameters
    ----------
    narrow : Estimates
        Shares of shape (..., k), at least two, with intervals of the level: they give the lower
        end.
    wide : Estimates
        The same shares with intervals of :func:`corrected_level`: they give the upper end, at most
        1.

    Returns
    -------
    Estimates
        Of shape (...); NaN, with the ends 0 and 1, where all shares are 0.
    """
    most = narrow.value.max(axis=-1)
    value = np.full(most.shape, np.nan)
    np.divide(narrow.value.min(axis=-1), most, out=value, where=most > 0)
    if narrow.value.shape[-1] > MOST_PAIRED:
        return _ratio_of_many(value, narrow, wide)
    off_diagonal = ~np.eye(narrow.value.shape[-1], dtype=bool)
    low = pairwise_ratios(narrow).low[..., off_diagonal].min(axis=-1)
    high = pairwise_ratios(wide).high[..., off_diagonal].min(axis=-1)
    return Estimates(value, np.where(most > 0, low, 0.0), np.minimum(high, 1.0))


def _ratio_of_many(value: Float, narrow: Estimates, wide: Estimates) -> Estimates:
    """Interval of the smallest ratio of very many shares: longer than that of all pairs."""
    lower, upper = _extremes(wide)
    extreme = Estimates(*(column[..., [lower, upper]] for column in wide))
    high = np.minimum(pairwise_ratios(extreme).high[..., 0, 1], 1.0)
    low = narrow.low.min(axis=-1) / narrow.high.max(axis=-1)
    return Estimates(value, np.where(np.isnan(value), 0.0, low), high)


def auc_interval(
    area: float, positives: float, negatives: float, level: float
) -> tuple[float, float]:
    r"""Interval of an AUC from the numbers of rows alone (Newcombe 2006, method 5).

    It holds all :math:`\theta` with

    .. math:: |\hat\theta - \theta| \le z \sqrt{\frac{\theta (1 - \theta)}{m n}
              \left(1 + N \frac{1 - \theta}{2 - \theta} + N \frac{\theta}{1 + \theta}\right)},
              \qquad N = \frac{m + n}{2} - 1

    Parameters
    ----------
    area : float
        The AUC, in [0, 1].
    positives, negatives : float
        Numbers of rows m and n of the two labels, at least 1.
    level : float
        Coverage, in (0, 1).

    Returns
    -------
    tuple of two floats
        Lower and upper end, in [0, 1].

    References
    ----------
    .. [1] R. G. Newcombe, "Confidence Intervals for an Effect Size Measure Based on the
       Mann-Whitney Statistic, Part 2", Statistics in Medicine 25 (2006), method 5.
    """
    # the variance is symmetric about one half, so the upper end mirrors a lower one
    low = _lowest_area(area, positives, negatives, level)
    high = 1.0 - _lowest_area(1.0 - area, positives, negatives, level)
    return low, high


def _lowest_area(area: float, positives: float, negatives: float, level: float) -> float:
    from scipy.optimize import brentq

    z = NormalDist().inv_cdf((1.0 + level) / 2.0)
    mean_size = (positives + negatives) / 2.0 - 1.0

    def _excess(theta: float) -> float:
        shape = 1.0 + mean_size * ((1.0 - theta) / (2.0 - theta) + theta / (1.0 + theta))
        variance = theta * (1.0 - theta) * shape / (positives * negatives)
        return area - theta - z * float(np.sqrt(variance))

    if area <= 0.0:
        return 0.0
    # the excess is the area itself at 0, and negative next to the area
    return float(brentq(_excess, 0.0, area * (1.0 - 1e-12), xtol=1e-12))


def bounded_mean_interval(
    mean: float, n: float, level: float, *, least: float = 0.0, most: float = 1.0
) -> tuple[float, float]:
    """Interval of a mean of n numbers within bounds, for the case that the numbers seen do not
    vary.

    Of all numbers within the bounds those at the two bounds vary most, and their mean is a share:
    its exact interval is used.

    Parameters
    ----------
    mean : float
        Mean of the numbers, from `least` to `most`.
    n : float
        Number of independent numbers, at least 1.
    level : float
        Coverage, in (0, 1).
    least, most : float
        Bounds; equal ones give the interval of width 0.

    Returns
    -------
    tuple of two floats
        Lower and upper end, within the bounds.
    """
    width = most - least
    if width <= 0:
        return mean, mean
    share = min(max((mean - least) / width, 0.0), 1.0)
    low, high = rate_interval(share * n, n, level)
    low_end = max(least + width * low, least)
    high_end = min(least + width * high, most)
    return min(low_end, mean), max(high_end, mean)
