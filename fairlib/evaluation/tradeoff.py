"""Trade-offs over a grid of runs: summaries over seeds, and Pareto fronts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from evenhand.fairlib.catalogue import Direction


@dataclass(frozen=True)
class Summary:
    """A metric over the seeds of one grid value."""

    # mean, sd: the sample standard deviation is None for fewer than two numbers, the mean without a number
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

    There is one value per seed, None or NaN where the evidence did not suffice. `level` is the coverage of
    the interval. `single` is the interval if only one seed has a number, such as that run's own bootstrap
    interval. ValueError if `level` is not in (0, 1).
    """
    from scipy.special import stdtrit

    if not 0 < level < 1:
        raise ValueError(f"level: got {level}, expected a number between 0 and 1")
    known = np.array([x for x in values if x is not None and not math.isnan(x)], dtype=np.float64)
    n = len(known)
    if n == 0:
        return Summary(None, None, 0)
    mean = float(known.mean())
    if n == 1:
        return Summary(mean, None, 1, *single)
    sd = float(known.std(ddof=1))
    half = float(stdtrit(n - 1, (1 + level) / 2)) * sd / math.sqrt(n)
    return Summary(mean, sd, n, mean - half, mean + half)


def pareto_front(values: ArrayLike, directions: Sequence[Direction]) -> list[int]:
    """Find the rows that no other row dominates.

    A row dominates another if it is at least as good in every column and better in one, so two equal rows do
    not dominate each other. `values`, shape (n, d), have one row per candidate and one column per metric; a
    row with NaN (or None) is never on the front. `directions`, length d, are "higher" or "lower", whichever
    is better. The row indices rise. ValueError if the columns and directions do not match.
    """
    table = np.asarray(values, dtype=np.float64)
    if table.ndim != 2 or table.shape[1] != len(directions):
        raise ValueError(
            f"values: got shape {table.shape}, expected (n, {len(directions)}), one column a direction"
        )
    cost = table * np.array([-1.0 if way == "higher" else 1.0 for way in directions])
    known = np.flatnonzero(~np.isnan(cost).any(axis=1))
    cost = cost[known]
    no_worse = (cost[:, None] <= cost[None]).all(axis=2)
    ahead = (cost[:, None] < cost[None]).any(axis=2)
    dominated = (no_worse & ahead).any(axis=0)
    return [int(i) for i in known[~dominated]]
