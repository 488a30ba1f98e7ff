"""Values over seeds: their mean and its interval, paired differences, Holm's correction, the Pareto
front.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np
from numpy.typing import ArrayLike

from evenhand.fairlib.arrays import Bool, Float
from evenhand.fairlib.catalogue import Direction

# Rows that are compared with the Pareto front at once.
FRONT_BLOCK = 256
# Equal differences of rounded numbers are not quite equal.
ROUNDING = 1e-12


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    r"""Correct p-values for their number, so that the probability of any false finding stays below
    the level.

    Of the m p-values in rising order, the i-th becomes

    .. math:: \tilde p_{(i)} = \max_{j \le i} \min\left(1, (m - j + 1)\, p_{(j)}\right)

    Source: Holm, "A Simple Sequentially Rejective Multiple Test Procedure", Scandinavian Journal of
    Statistics 6 (1979).

    Parameters
    ----------
    p_values : sequence
        P-values in [0, 1]; None where no test was made, which is not counted and stays None.

    Returns
    -------
    list of float or None
        In the order given; below 5 % means a finding at 5 %.

    Raises
    ------
    ValueError
        If a p-value is not in [0, 1].

    References
    ----------
    .. [1] S. Holm, "A Simple Sequentially Rejective Multiple Test Procedure", Scandinavian Journal
       of Statistics 6 (1979).

    Examples
    --------
    >>> holm([0.03, None, 0.01])
    [0.03, None, 0.02]
    """
    tested = {i: p for i, p in enumerate(p_values) if p is not None}
    for p in tested.values():
        if not 0 <= p <= 1:
            raise ValueError(f"p_values: got {p}, expected numbers between 0 and 1, or None")
    order = sorted(tested, key=tested.__getitem__)
    raised = (min(1.0, (len(order) - place) * tested[i]) for place, i in enumerate(order))
    corrected = dict(zip(order, accumulate(raised, max), strict=True))
    return [corrected.get(i) for i in range(len(p_values))]


@dataclass(frozen=True)
class Summary:
    """A metric over the seeds of one grid value."""

    # mean, sd: the sample standard deviation is None for fewer than two numbers, the mean without a
    # number
    mean: float | None
    sd: float | None
    n: int  # seeds with a number
    # low, high: ends of the interval of the mean; None without one
    low: float | None = None
    high: float | None = None


def summarise(
    values: Sequence[float | None],
    *,
    level: float = 0.95,
    single: tuple[float | None, float | None] = (None, None),
) -> Summary:
    r"""Summarise a metric over seeds, with Student's interval of its mean.

    .. math:: \bar x \pm t_{n-1,\,(1 + \mathrm{level}) / 2} \, \frac{s}{\sqrt n}

    Parameters
    ----------
    values : sequence
        One number per seed, None or NaN where the evidence did not suffice.
    level : float, default 0.95
        Coverage of the interval, in (0, 1).
    single : tuple, default (None, None)
        Interval if only one seed has a number, such as that run's own bootstrap interval.

    Returns
    -------
    Summary
        Mean, standard deviation and interval.

    Raises
    ------
    ValueError
        If `level` is not in (0, 1).
    """
    from scipy.special import stdtrit

    if not 0 < level < 1:
        raise ValueError(f"level: got {level}, expected a number between 0 and 1")
    numbers = np.array([x for x in values if x is not None and not math.isnan(x)], dtype=np.float64)
    n = len(numbers)
    if n == 0:
        return Summary(None, None, 0)
    mean = float(numbers.mean())
    if n == 1:
        return Summary(mean, None, 1, *single)
    sd = float(numbers.std(ddof=1))
    half = float(stdtrit(n - 1, (1 + level) / 2)) * sd / math.sqrt(n)
    return Summary(mean, sd, n, mean - half, mean + half)


def mean_difference(
    differences: Sequence[float | None], *, ratio: float, level: float = 0.95
) -> Summary:
    r"""Summarise the difference between two methods over J random splits of one table.

    .. math:: \bar d \pm t_{J-1,\,(1 + \mathrm{level}) / 2}
              \sqrt{\left(\frac1J + \frac{n_{test}}{n_{train}}\right) s^2}

    for the mean :math:`\bar d` and the sample variance :math:`s^2` of the differences. The splits
    share rows, so the differences are correlated: with :math:`1/J` alone the interval would be far
    too narrow.

    Source: Nadeau and Bengio, "Inference for the Generalization Error", Machine Learning 52 (2003),
    the corrected resampled t-test.

    Parameters
    ----------
    differences : sequence
        One difference per split, None where a method has no number.
    ratio : float
        :math:`n_{test} / n_{train}`.
    level : float, default 0.95
        Coverage of the interval, in (0, 1).

    Returns
    -------
    Summary
        Where all differences are equal, their variance says nothing: there is no interval unless
        they are 0.

    Raises
    ------
    ValueError
        If `ratio` is no finite number of at least 0.

    References
    ----------
    .. [1] C. Nadeau and Y. Bengio, "Inference for the Generalization Error", Machine Learning 52
       (2003).

    Examples
    --------
    >>> summary = mean_difference([0.25, 0.5, None], ratio=0.25)
    >>> summary.n, summary.mean, round(summary.low, 3), round(summary.high, 3)
    (2, 0.375, -1.57, 2.32)
    """
    if not (math.isfinite(ratio) and ratio >= 0):
        raise ValueError(f"ratio: got {ratio}, expected test rows over training rows, at least 0")
    summary = summarise(differences, level=level)
    if summary.mean is None or summary.sd is None or summary.high is None:
        return summary
    if summary.sd <= ROUNDING:
        end = 0.0 if abs(summary.mean) <= ROUNDING else None
        return replace(summary, low=end, high=end)
    half = (summary.high - summary.mean) * math.sqrt(1.0 + summary.n * ratio)
    return replace(summary, low=summary.mean - half, high=summary.mean + half)


def pareto_front(values: ArrayLike, directions: Sequence[Direction]) -> list[int]:
    """Find the rows that no other row dominates.

    A row dominates another if it is at least as good in every column and better in one, so two
    equal rows do not dominate each other. `values`, shape (n, d), have one row per candidate and
    one column per metric; a row with NaN (or None) is never on the front. `directions`, length d,
    are "higher" or "lower", whichever is better. The row indices rise. ValueError if the columns
    and directions do not match.

    Parameters
    ----------
    values : array-like, shape (n, d)
        One row per candidate and one column per metric; a row with NaN (or None) is never on the
        front.
    directions : sequence of Direction
        Whether "higher" or "lower" is better, by column.

    Returns
    -------
    list of int
        Rising row indices.

    Raises
    ------
    ValueError
        If the columns and directions do not match.

    Examples
    --------
    >>> pareto_front([[0.8, 0.1], [0.7, 0.2], [0.9, 0.3]], ["higher", "lower"])
    [0, 2]
    """
    table = np.asarray(values, dtype=np.float64)
    if table.ndim != 2 or table.shape[1] != len(directions):
        raise ValueError(
            f"values: got shape {table.shape}, expected (n, {len(directions)}), one column a "
            "direction"
        )
    signs = np.where(np.array(directions, dtype=object) == "higher", -1.0, 1.0)
    # adding 0 makes -0 and 0 the same number to the sort below
    cost = table * signs + 0.0
    complete = np.flatnonzero(~np.isnan(cost).any(axis=1))
    different, place = np.unique(cost[complete], axis=0, return_inverse=True)
    on_front = _undominated(different)[place.reshape(-1)]
    return [int(i) for i in complete[on_front]]


def _undominated(cost: Float) -> Bool:
    """Return which rows no other row dominates, of different rows in lexicographic order; smaller
    is better in every column.

    A row is dominated only by one before it, so blocks of rows are compared with the front so far.
    """
    undominated = np.zeros(len(cost), dtype=bool)
    front = cost[:0]
    for start in range(0, len(cost), FRONT_BLOCK):
        block = cost[start : start + FRONT_BLOCK]
        rivals = np.concatenate([front, block])
        no_worse = (rivals[None] <= block[:, None]).all(axis=2)
        # each row is no worse than itself, and no other one is the same
        is_on_front = no_worse.sum(axis=1) == 1
        undominated[start : start + FRONT_BLOCK] = is_on_front
        front = np.concatenate([front, block[is_on_front]])
    return undominated
