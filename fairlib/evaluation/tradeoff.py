"""Trade-offs over a grid of runs: summaries over seeds, Pareto fronts, and the best value under limits."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from evenhand.fairlib.catalogue import Direction, better

Row = Mapping[str, float | None]

GOAL_FORM = "'METRIC' or 'METRIC where METRIC >= NUMBER and METRIC <= NUMBER'"


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


@dataclass(frozen=True)
class Limit:
    """A limit on one metric's mean: at least (``>=``) or at most (``<=``) ``value``."""

    metric: str
    sign: Literal[">=", "<="]
    value: float

    def shortfall(self, found: float) -> float:
        """By how much ``found`` misses the limit; at most 0 if it does not."""
        return self.value - found if self.sign == ">=" else found - self.value

    def __str__(self) -> str:
        return f"{self.metric} {self.sign} {self.value:g}"


@dataclass(frozen=True)
class Goal:
    """The metric to optimise, under limits on others."""

    metric: str
    limits: tuple[Limit, ...] = ()

    @property
    def metrics(self) -> list[str]:
        """The metric and those of the limits, each once."""
        return list(dict.fromkeys([self.metric, *(limit.metric for limit in self.limits)]))

    def __str__(self) -> str:
        limits = " and ".join(map(str, self.limits))
        return f"{self.metric} where {limits}" if limits else self.metric


def parse_goal(text: str) -> Goal:
    """Read a goal such as ``balanced_accuracy where consistency.spouse >= 0.94 and gap_max.sex <= 0.1``.
    ValueError if the text has another form, or the metric has no direction.
    """
    metric, where, rest = re.fullmatch(r"\s*(.*?)(\s+where\s+(.*))?\s*", text, re.DOTALL).groups()  # type: ignore[union-attr]
    if not metric or re.search(r"[<>=]|\bwhere\b", metric):
        raise ValueError(f"goal: got {text!r}, expected {GOAL_FORM}")
    better(metric)  # raises without a direction
    parts = re.split(r"\s+and\s+", rest.strip()) if where else []
    return Goal(metric, tuple(parse_limit(part) for part in parts))


def parse_limit(text: str) -> Limit:
    """Read a limit such as ``gap_max.sex <= 0.1``; ValueError if the text has another form."""
    match = re.fullmatch(r"\s*([^<>=]+?)\s*(>=|<=)\s*(\S+)\s*", text)
    try:
        value = float(match[3]) if match else math.nan
    except ValueError:
        value = math.nan
    if match is None or not math.isfinite(value):
        raise ValueError(f"goal: got the limit {text!r}, expected METRIC >= NUMBER or METRIC <= NUMBER")
    return Limit(match[1], ">=" if match[2] == ">=" else "<=", value)


def best(goal: Goal, rows: Sequence[Row]) -> int | None:
    """Index of the row that is best in the goal's metric among those that keep all its limits.

    `rows` map metric names to numbers, or to None where the evidence did not suffice. Of equal rows the first
    is best; None if no row qualifies.
    """
    sign = 1.0 if better(goal.metric) == "higher" else -1.0
    scores = {
        i: sign * row[goal.metric]
        for i, row in _known(goal, rows)
        if all(limit.shortfall(row[limit.metric]) <= 0 for limit in goal.limits)
    }
    return max(scores, key=scores.__getitem__) if scores else None


@dataclass(frozen=True)
class Miss:
    """The row that comes nearest to the limits, the limit that it misses most, and its value there."""

    row: int
    limit: Limit
    found: float


def nearest_miss(goal: Goal, rows: Sequence[Row]) -> Miss | None:
    """Find the row with the smallest largest shortfall, for a goal that no row meets.

    `rows` are as for :func:`best`. None if no row has a number for every metric of the goal, or the goal has
    no limit.
    """
    misses = []
    for i, row in _known(goal, rows):
        if goal.limits:
            worst = max(goal.limits, key=lambda limit: limit.shortfall(row[limit.metric]))
            misses.append(Miss(i, worst, row[worst.metric]))
    return min(misses, key=lambda miss: miss.limit.shortfall(miss.found), default=None)


def _known(goal: Goal, rows: Sequence[Row]) -> list[tuple[int, dict[str, float]]]:
    """Rows, with their indices, that have a number for every metric of the goal."""
    found = []
    for i, row in enumerate(rows):
        values = {name: row.get(name) for name in goal.metrics}
        known = {name: float(value) for name, value in values.items() if value is not None}
        if len(known) == len(values) and not any(map(math.isnan, known.values())):
            found.append((i, known))
    return found
