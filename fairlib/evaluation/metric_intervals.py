"""Intervals of the metrics that follow from rates, from the counts of cells and their effective
rows.

:mod:`evenhand.fairlib.evaluation.closed_intervals` has the formulas and their sources. Rates of
different groups, and of different labels, are of different rows, and so independent.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from evenhand.fairlib.arrays import Bool, Float, Int
from evenhand.fairlib.evaluation.bootstrap import Codes, percentile_interval
from evenhand.fairlib.evaluation.closed_intervals import (
    Estimates,
    auc_interval,
    bounded_mean_interval,
    corrected_level,
    exact_interval,
    largest_difference,
    mean_interval,
    pairs_of,
    smallest_ratio,
)
from evenhand.fairlib.evaluation.effective_rows import effective_rows
from evenhand.fairlib.evaluation.metrics import (
    GROUP_METRICS,
    Array,
    Cell,
    Rate,
    recalls,
    rows_in,
    selection_rates,
    theil_index,
)
from evenhand.fairlib.evaluation.outcomes import Outcomes
from evenhand.fairlib.evaluation.probabilities import OVERALL, calibration_gap_interval, centred
from evenhand.fairlib.numerics import MAX_LOG_LOSS

if TYPE_CHECKING:
    from evenhand.fairlib.evaluation.measuring import Measured


class RateCells(NamedTuple):
    """Counts of the compared groups, label 1 the favourable one, and the rows that they are worth.

    Leading axes, such as simulated tables, are kept.
    """

    # shape (..., K, L, L): rows, or sums of weights, by group, true and predicted label
    counts: Array
    rows: Float  # shape (..., K): effective rows of each group
    rows_by_label: Float  # shape (..., K, L): effective rows of each group and true label


def recall_estimates(cells: RateCells, level: float) -> Estimates:
    """Share of each group's label that is predicted right, shape (..., K, L).

    Parameters
    ----------
    cells : RateCells
        Counts of the K compared groups, and the rows that they are worth.
    level : float
        Coverage, in (0, 1).

    Returns
    -------
    Estimates, shape (..., K, L)
        Recalls with their exact intervals.
    """
    return exact_interval(recalls(cells.counts) * cells.rows_by_label, cells.rows_by_label, level)


def selection_estimates(cells: RateCells, level: float) -> Estimates:
    """Selection rate of each group, shape (..., K).

    Parameters
    ----------
    cells : RateCells
        Counts of the K compared groups, and the rows that they are worth.
    level : float
        Coverage, in (0, 1).

    Returns
    -------
    Estimates, shape (..., K)
        Selection rates with their exact intervals.
    """
    return exact_interval(selection_rates(cells.counts) * cells.rows, cells.rows, level)


def balanced_accuracy_estimates(cells: RateCells, level: float) -> Estimates:
    """Balanced accuracy of each group, shape (..., K).

    The distances of small recalls to their ends are skewed, and their root of squares is too short
    for a sum. So the interval of the mean also contains the exact one of as many rows as have its
    variance.

    Parameters
    ----------
    cells : RateCells
        Counts of the K compared groups, and the rows that they are worth.
    level : float
        Coverage, in (0, 1).

    Returns
    -------
    Estimates, shape (..., K)
        Balanced accuracies with their intervals.
    """
    parts = recall_estimates(cells, level)
    mean = mean_interval(parts)
    labels = cells.counts.shape[-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = (
            np.sum(parts.value * (1.0 - parts.value) / cells.rows_by_label, axis=-1) / labels**2
        )
        rows = labels**2 / np.sum(1.0 / cells.rows_by_label, axis=-1)
        rows = np.where(variance > 0, mean.value * (1.0 - mean.value) / variance, rows)
    rows = np.where(np.isfinite(rows), rows, 0.0)
    exact = exact_interval(np.where(rows > 0, mean.value, 0.0) * rows, rows, level)
    return Estimates(mean.value, np.fmin(mean.low, exact.low), np.fmax(mean.high, exact.high))


def _pairs(cells: RateCells) -> int:
    """Number of pairs of groups."""
    return pairs_of(cells.counts.shape[-3])


def demographic_parity_difference(cells: RateCells, level: float) -> Estimates:
    """Interval of the largest difference of selection rates.

    Parameters
    ----------
    cells : RateCells
        Counts of the K compared groups, and the rows that they are worth.
    level : float
        Coverage, in (0, 1).

    Returns
    -------
    Estimates, shape (...)
        The difference with its interval.
    """
    wide = selection_estimates(cells, corrected_level(level, _pairs(cells)))
    return largest_difference(selection_estimates(cells, level), wide)


def impact_ratio(cells: RateCells, level: float) -> Estimates:
    """Interval of the smallest selection rate over the largest.

    Parameters
    ----------
    cells : RateCells
        Counts of the K compared groups, and the rows that they are worth.
    level : float
        Coverage, in (0, 1).

    Returns
    -------
    Estimates, shape (...)
        The ratio with its interval.
    """
    wide = selection_estimates(cells, corrected_level(level, _pairs(cells)))
    return smallest_ratio(selection_estimates(cells, level), wide)


def equal_opportunity_difference(cells: RateCells, level: float) -> Estimates:
    """Interval of the largest difference of true positive rates.

    Parameters
    ----------
    cells : RateCells
        Counts of the K compared groups, and the rows that they are worth.
    level : float
        Coverage, in (0, 1).

    Returns
    -------
    Estimates, shape (...)
        The difference with its interval.
    """

    def _rates(level: float) -> Estimates:
        return Estimates(*(column[..., 1] for column in recall_estimates(cells, level)))

    return largest_difference(_rates(level), _rates(corrected_level(level, _pairs(cells))))


def balanced_accuracy_difference(cells: RateCells, level: float) -> Estimates:
    """Interval of the largest difference of balanced accuracies.

    Parameters
    ----------
    cells : RateCells
        Counts of the K compared groups, and the rows that they are worth.
    level : float
        Coverage, in (0, 1).

    Returns
    -------
    Estimates, shape (...)
        The difference with its interval.
    """
    wide = balanced_accuracy_estimates(cells, corrected_level(level, _pairs(cells)))
    return largest_difference(balanced_accuracy_estimates(cells, level), wide)


def label_gaps(cells: RateCells, level: float) -> Estimates:
    """Interval of the largest gap of each label, shape (..., L); the lower ends hold together.

    Parameters
    ----------
    cells : RateCells
        Counts of the K compared groups, and the rows that they are worth.
    level : float
        Coverage, in (0, 1).

    Returns
    -------
    Estimates, shape (..., L)
        The gap of each label with its interval.
    """
    labels = cells.counts.shape[-1]

    def _rates(level: float) -> Estimates:
        columns = recall_estimates(cells, level)
        return Estimates(*(np.swapaxes(column, -1, -2) for column in columns))

    return largest_difference(_rates(level), _rates(corrected_level(level, _pairs(cells) * labels)))


def gap_max(cells: RateCells, level: float) -> Estimates:
    """Interval of the largest label gap: the largest ends of the labels.

    Parameters
    ----------
    cells : RateCells
        Counts of the K compared groups, and the rows that they are worth.
    level : float
        Coverage, in (0, 1).

    Returns
    -------
    Estimates, shape (...)
        The largest gap with its interval.
    """
    return Estimates(*(column.max(axis=-1) for column in label_gaps(cells, level)))


def average_odds_difference(cells: RateCells, level: float) -> Estimates:
    """Interval of the mean label gap.

    The upper end is that of a mean of independent estimates. A gap is never below 0, so noise adds
    up in the mean, and the lower end is the mean of the lower ends, which hold together.

    Parameters
    ----------
    cells : RateCells
        Counts of the K compared groups, and the rows that they are worth.
    level : float
        Coverage, in (0, 1).

    Returns
    -------
    Estimates, shape (...)
        The mean gap with its interval.
    """
    gaps = label_gaps(cells, level)
    mean = mean_interval(gaps)
    return Estimates(mean.value, gaps.low.mean(axis=-1), mean.high)


def gap_rms(cells: RateCells, level: float) -> Estimates:
    """Interval of the root mean square of the label gaps: of the mean of their squares, as the mean
    gap's.

    Parameters
    ----------
    cells : RateCells
        Counts of the K compared groups, and the rows that they are worth.
    level : float
        Coverage, in (0, 1).

    Returns
    -------
    Estimates, shape (...)
        The root mean square with its interval.
    """
    gaps = label_gaps(cells, level)
    squares = Estimates(gaps.value**2, gaps.low**2, gaps.high**2)
    mean = mean_interval(squares)
    return Estimates(np.sqrt(mean.value), np.sqrt(squares.low.mean(axis=-1)), np.sqrt(mean.high))


GROUP_INTERVALS: dict[str, Callable[[RateCells, float], Estimates]] = {
    "gap_max": gap_max,
    "gap_rms": gap_rms,
    "demographic_parity_difference": demographic_parity_difference,
    "impact_ratio": impact_ratio,
    "equal_opportunity_difference": equal_opportunity_difference,
    "average_odds_difference": average_odds_difference,
    "balanced_accuracy_difference": balanced_accuracy_difference,
}
"""Interval of each metric of :data:`evenhand.fairlib.evaluation.metrics.GROUP_METRICS` that is no
largest difference of a single declared rate.
"""


def gap_interval(
    name: str,
    cells: RateCells,
    rows_of: Callable[[Rate], Float],
    positions: Int,
    level: float,
) -> Estimates:
    """Interval of a metric that compares groups.

    Parameters
    ----------
    name : str
        Name of the metric, without an attribute.
    cells : RateCells
        Counts of all groups, and the rows that they are worth.
    rows_of : callable
        Gives the effective rows behind a rate of each of all groups.
    positions : int array, shape (K,)
        The groups that are compared.
    level : float
        Coverage, in (0, 1).

    Returns
    -------
    Estimates, shape ()
        The metric with its interval.
    """
    compared = RateCells(*(column[positions] for column in cells))
    if name in GROUP_INTERVALS:
        return GROUP_INTERVALS[name](compared, level)
    rate = GROUP_METRICS[name].rate
    assert rate is not None, f"the metric {name} has neither an interval nor a rate"
    rows = rows_of(rate)[positions]
    hits = np.where(rows > 0, rate.of(compared.counts), 0.0) * rows

    def _rates(level: float) -> Estimates:
        return exact_interval(hits, rows, level)

    wide = _rates(corrected_level(level, _pairs(compared)))
    return largest_difference(_rates(level), wide)


def theil_interval(
    counts: Array, rows: float, level: float, draws: int, rng: np.random.Generator
) -> tuple[float, float] | tuple[None, None]:
    r"""Interval of the Theil index from draws of the shares of right answers and of both errors.

    The shares of a table with effective numbers r, a and b of right rows, false negatives and false
    positives are drawn from Dirichlet distributions: :math:`(r + 1, a, b)` for fewer errors and
    :math:`(r, a + 1, b + 1)` for more. With one kind of error these have the ends of the exact
    interval as their quantiles.

    Parameters
    ----------
    counts : array, shape (2, 2)
        Rows, or sums of weights, by true and predicted label.
    rows : float
        Effective rows of the table.
    level : float
        Coverage, in (0, 1).
    draws : int
        Draws of each distribution.
    rng : numpy.random.Generator
        Generator of the draws.

    Returns
    -------
    tuple of two floats
        Lower and upper end; None for both where too few draws are defined.
    """
    scale = rows / counts.sum()
    right = float(counts[0, 0] + counts[1, 1]) * scale
    negative = float(counts[1, 0]) * scale
    positive = float(counts[0, 1]) * scale
    ends: list[float] = []
    for shape in ((right + 1.0, negative, positive), (right, negative + 1.0, positive + 1.0)):
        drawn = rng.standard_gamma(shape, size=(draws, 3))
        table = np.zeros((draws, 2, 2))
        table[:, 1, 1] = drawn[:, 0]
        table[:, 1, 0] = drawn[:, 1]
        table[:, 0, 1] = drawn[:, 2]
        index = theil_index(table)
        index = index[~np.isnan(index)]
        if len(index) < draws / 2:
            return None, None
        tail = (1.0 - level) / 2.0
        ends += np.quantile(index, [tail, 1.0 - tail]).tolist()
    return min(ends), max(ends)


Interval = tuple[float, float] | str
"""Both ends, or the reason why there are none."""

MIN_OUT_OF_ORDER = 5.0
"""Fewer rows than these out of order, at one end, are too few for the percentiles of an AUC."""

BOUNDS = {
    "brier": (0.0, 1.0),
    "log_loss": (0.0, MAX_LOG_LOSS),
    "log_loss_gain": (-MAX_LOG_LOSS, math.log(2.0)),
    "ece": (0.0, 1.0),
}
"""Smallest and largest value of one row's part of a mean: its interval where all rows' parts are
equal.
"""


def metric_intervals(
    outcomes: Outcomes,
    codes: Codes,
    measured: Measured,
    weights: Float | None,
    level: float,
    rng: np.random.Generator,
) -> dict[str, Interval]:
    """Interval of every metric: closed forms where there are, else percentiles of the draws.

    Parameters
    ----------
    outcomes : Outcomes
        The rows.
    codes : mapping
        Groups of the rows by attribute, as of ``JointTable``.
    measured : Measured
        Point estimates and draws of these rows alone.
    weights : array, shape (n,), optional
        Weights of the rows.
    level : float
        Coverage, in (0, 1).
    rng : numpy.random.Generator
        Generator of the Theil index's draws.

    Returns
    -------
    dict
        By the metric's name; metrics without enough rows are left out.
    """
    outcomes = outcomes.with_favourable_last()
    counts_of_sides = [counts.with_favourable_last() for counts in measured.counts]
    measured = measured._replace(counts=counts_of_sides)
    point = measured.point[0]
    resampled = dict(measured.resampled[0])
    if "ece" in resampled:
        resampled["ece"] = np.clip(centred(resampled["ece"], float(point["ece"])), 0.0, 1.0)
    rates = _Rates(outcomes, measured, weights, level)
    intervals: dict[str, Interval] = {}
    for name in ("auc", *OVERALL):
        if name in resampled:
            intervals[name] = percentiles(resampled[name], level, float(point[name]))
            intervals[name] = _widened(name, intervals[name], float(point[name]), rates)
    intervals |= rates.overall()
    if "theil_index" in point and not measured.shortages["theil_index"]:
        draws = len(measured.resampled[0]["theil_index"])
        counts = measured.counts[0].overall
        low, high = theil_interval(counts, float(rates.table.rows[0]), level, draws, rng)
        if low is not None and high is not None:
            intervals["theil_index"] = (low, high)
    for attribute, (code, size) in codes.items():
        intervals |= rates.of_groups(attribute, code, size)
        name = f"calibration_gap.{attribute}"
        if name in resampled and not measured.shortages[name]:
            positions = measured.selections[name].positions
            gap = calibration_gap_interval(outcomes, code, size, positions, weights, level)
            intervals[name] = _ends(gap)
    return intervals


def percentiles(draws: Float, level: float, value: float) -> Interval:
    """Percentile interval of draws around a value, or why there are too few draws.

    Parameters
    ----------
    draws : array, shape (draws,)
        The metric in every draw; NaN where it is undefined.
    level : float
        Coverage, in (0, 1).
    value : float
        Point estimate, which the interval contains.

    Returns
    -------
    tuple of two floats, or str
    """
    low, high = percentile_interval(draws, level, value)
    if low is None or high is None:
        undefined = int(np.isnan(draws).sum())
        return f"undefined in {undefined} of {len(draws)} bootstrap draws"
    return low, high


def _widened(name: str, interval: Interval, value: float, rates: _Rates) -> Interval:
    """Widen the percentiles of a mean, or of an AUC, where rows hardly vary: there draws show
    nothing.
    """
    if isinstance(interval, str) or math.isnan(value):
        return interval
    low, high = interval
    if name == "auc":
        negatives, positives = rates.table.rows_by_label[0].tolist()
        out_of_order = min(value, 1.0 - value) * min(negatives, positives)
        if out_of_order < MIN_OUT_OF_ORDER:
            exact = auc_interval(value, positives, negatives, rates.level)
            return min(low, exact[0]), max(high, exact[1])
    elif high <= low and name in BOUNDS:
        least, most = BOUNDS[name]
        return bounded_mean_interval(
            value, float(rates.table.rows[0]), rates.level, least=least, most=most
        )
    return interval


class _Rates:
    """Intervals of the metrics of one model that follow from rates."""

    def __init__(
        self, outcomes: Outcomes, measured: Measured, weights: Float | None, level: float
    ) -> None:
        self.outcomes = outcomes
        self.measured = measured
        self.weights = weights
        self.level = level
        self.labels = len(outcomes.classes) or 2
        whole = np.zeros(outcomes.n, dtype=np.int64)
        self.table = self._rate_cells(measured.counts[0].overall[None], whole, 1, self.right)

    @property
    def right(self) -> Array:
        """Whether each row is predicted right, shape (n,)."""
        return self.outcomes.y_true == self.outcomes.y_pred

    def _effective(self, cell: Array, cells: int, hit: Array, base: Bool | None = None) -> Float:
        """Effective number of rows behind a share in each cell, shape (cells,): of all rows, or of
        those of a `base`.
        """
        weights = self.weights
        people = self.outcomes.people
        if base is not None:
            cell = cell[base]
            hit = hit[base]
            weights = None if weights is None else weights[base]
            people = None if people is None else people[base]
        return effective_rows(cell, cells, hit, self.level, weights, people)

    def _rows_in(self, cells: tuple[Cell, ...]) -> Bool:
        """Whether each row is in one of some cells of true and predicted label, shape (n,)."""
        return rows_in(cells, self.outcomes.y_true, self.outcomes.y_pred)

    def _rate_cells(self, counts: Array, code: Array, size: int, hit: Array) -> RateCells:
        """Counts of `size` groups, with two effective numbers of rows.

        One is of the share of `hit` in each group, the other of the recall of each label in it.
        `code` and `hit` have the shape (n,).
        """
        by_label = self._effective(
            code * self.labels + self.outcomes.y_true, size * self.labels, self.right
        )
        return RateCells(
            counts, self._effective(code, size, hit), by_label.reshape(size, self.labels)
        )

    def overall(self) -> dict[str, Interval]:
        """Intervals of the table's rates: accuracy, recalls, consistency."""
        table = self.table
        level = self.level
        whole = np.zeros(self.outcomes.n, dtype=np.int64)
        point = self.measured.point[0]
        recalls_of_labels = recall_estimates(table, level)
        estimated = {
            "accuracy": exact_interval(point["accuracy"] * table.rows[0], table.rows[0], level),
        }
        balanced = balanced_accuracy_estimates(table, level)
        estimated["balanced_accuracy"] = Estimates(*(column[0] for column in balanced))
        for k, name in enumerate(self.outcomes.classes):
            estimated[f"recall.{name}"] = Estimates(*(column[0, k] for column in recalls_of_labels))
        for copies in self.measured.counts[0].agreeing:
            name = f"consistency.{copies}"
            rows = self._effective(whole, 1, self.outcomes.consistent[copies])[0]
            estimated[name] = exact_interval(point[name] * rows, rows, level)
        intervals: dict[str, Interval] = {}
        for name, estimate in estimated.items():
            if not self.measured.shortages[name]:
                intervals[name] = _ends(estimate)
        return intervals

    def of_groups(self, attribute: str, code: Array, size: int) -> dict[str, Interval]:
        """Intervals of the metrics that compare the groups of one attribute."""
        counts = self.measured.counts[0].groups[attribute]
        cells = self._rate_cells(counts, code, size, self.outcomes.y_pred == 1)
        intervals: dict[str, Interval] = {}

        def _rows_of(rate: Rate) -> Float:
            base = self._rows_in(rate.base)
            return self._effective(code, size, self._rows_in(rate.hits), base)

        for kind in GROUP_METRICS:
            name = f"{kind}.{attribute}"
            if name not in self.measured.point[0] or self.measured.shortages[name]:
                continue
            positions = self.measured.selections[name].positions
            intervals[name] = _ends(gap_interval(kind, cells, _rows_of, positions, self.level))
        return intervals


def _ends(estimate: Estimates) -> tuple[float, float]:
    """Both ends of one estimate's interval, as floats."""
    return float(estimate.low), float(estimate.high)
