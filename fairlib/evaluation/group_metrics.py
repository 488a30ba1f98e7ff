"""Metrics of single groups, each with an interval: rates, means of numbers, the AUC.

A metric of C cells (groups, or groups within levels of control features) is a :class:`CellMetric`:
values, the rows that they are of, and a function that gives their intervals at any level. Rates
have exact intervals of their effective rows, means those of Student's distribution
(:mod:`evenhand.fairlib.evaluation.closed_intervals`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from evenhand.fairlib.arrays import Bool, Float, Int
from evenhand.fairlib.evaluation.bootstrap import score_table
from evenhand.fairlib.evaluation.closed_intervals import (
    Estimates,
    auc_interval,
    bounded_mean_interval,
    exact_interval,
    student_interval,
)
from evenhand.fairlib.evaluation.effective_rows import CellMeans, cell_means, effective_number
from evenhand.fairlib.evaluation.metric_intervals import RateCells, balanced_accuracy_estimates
from evenhand.fairlib.evaluation.metrics import auc

Intervals = Callable[[float], Estimates]
Base = Literal["rows", "positives", "negatives", "selected", "not selected"]


@dataclass(frozen=True, eq=False)
class CellMetric:
    """One metric in each of C cells."""

    value: NDArray[Any]  # shape (C,): NaN where it is undefined; objects for values of callables
    n: Float  # shape (C,): rows that the value is of, or people where they are numbered
    intervals: Intervals | None = None  # gives the estimates at a level; None for no interval
    is_positive: bool = True  # whether it is never below 0, so that ratios mean something


@dataclass(frozen=True, eq=False)
class Cells:
    """Rows in C cells, with weights and people."""

    code: Int  # shape (n,)
    size: int
    weights: Float | None = None
    people: Int | None = None

    @cached_property
    def order(self) -> Int:
        """Positions of the rows by cell; within one they keep their order."""
        return np.argsort(self.code, kind="stable")

    def means(self, value: Float, rows: Bool | None = None) -> CellMeans:
        """Average a value over some rows of each cell.

        Parameters
        ----------
        value : array, shape (n,)
            Value of every row.
        rows : bool array, shape (n,), optional
            Rows that count; default: all.

        Returns
        -------
        CellMeans
        """
        order = self.order
        if rows is not None:
            order = order[rows[order]]
        return cell_means(self.code, self.size, value, self.weights, self.people, order=order)

    def counts(self, rows: Bool | None = None) -> Float:
        """Rows of a positive weight, or people with such rows, of each cell, shape (C,).

        Parameters
        ----------
        rows : bool array, shape (n,), optional
            Rows that count; default: all.

        Returns
        -------
        array, shape (C,)
        """
        if self.people is not None:
            return self.means(np.ones(len(self.code)), rows).people
        chosen = self.code
        counted = rows
        if self.weights is not None:
            positive = self.weights > 0
            counted = positive if rows is None else positive & rows
        if counted is not None:
            chosen = chosen[counted]
        return np.bincount(chosen, minlength=self.size).astype(np.float64)

    @cached_property
    def is_plain(self) -> bool:
        """Whether every row is a person of its own, and all have one weight."""
        if self.people is not None:
            return False
        return self.weights is None or bool(self.weights.min() == self.weights.max())


def share_metric(cells: Cells, hit: Bool, rows: Bool | None = None) -> CellMetric:
    """Share of rows with a property in each cell, with its exact interval.

    Parameters
    ----------
    cells : Cells
        Cells of the rows.
    hit : bool array, shape (n,)
        Whether a row has the property.
    rows : bool array, shape (n,), optional
        Rows that count; default: all.

    Returns
    -------
    CellMetric
    """
    if cells.is_plain:
        n = cells.counts(rows)
        hits = cells.counts(hit if rows is None else hit & rows)
        share = np.full(len(n), np.nan)
        np.divide(hits, n, out=share, where=n > 0)

        def _exact(level: float) -> Estimates:
            return exact_interval(hits, n, level)

        return CellMetric(share, n, _exact)
    means = cells.means(hit.astype(np.float64), rows)
    share = means.mean
    n = means.rows if cells.people is None else means.people

    def _effective(level: float) -> Estimates:
        number = effective_number(means, share, level)
        return exact_interval(np.where(number > 0, share, 0.0) * number, number, level)

    return CellMetric(share, n, _effective)


def mean_metric(
    cells: Cells,
    part: Float,
    bounds: tuple[float, float] | None = None,
    *,
    is_positive: bool = True,
    is_squared: bool = False,
) -> CellMetric:
    """Mean of a number in each cell, or the root of a mean of squares, with Student's interval.

    Parameters
    ----------
    cells : Cells
        Cells of the rows.
    part : array, shape (n,)
        Number of every row.
    bounds : tuple, optional
        Smallest and largest number that a row may have: for means of numbers that do not vary.
    is_positive : bool
        Whether the numbers are never below 0.
    is_squared : bool
        Whether they are squares, and the metric is the root of their mean.

    Returns
    -------
    CellMetric
    """
    means = cells.means(part)

    def _student(level: float) -> Estimates:
        estimate = student_interval(means.mean, means.variance, means.people, level, means.skewness)
        if bounds is not None:
            estimate = _within_bounds(estimate, means, bounds, level)
        elif is_positive:
            estimate = estimate._replace(low=np.maximum(estimate.low, 0.0))
        if is_squared:
            return Estimates(*(np.sqrt(column) for column in estimate))
        return estimate

    value = np.sqrt(means.mean) if is_squared else means.mean
    n = means.rows if cells.people is None else means.people
    return CellMetric(value, n, _student, is_positive=is_positive)


def _within_bounds(
    estimate: Estimates, means: CellMeans, bounds: tuple[float, float], level: float
) -> Estimates:
    """Cut an interval at bounds; where the numbers do not vary it is that of a share."""
    least, most = bounds
    low = np.maximum(estimate.low, least)
    high = np.minimum(estimate.high, most)
    for cell in np.flatnonzero(np.isnan(low) & (means.equal_people >= 1)).tolist():
        ends = bounded_mean_interval(
            float(estimate.value[cell]),
            float(means.equal_people[cell]),
            level,
            least=least,
            most=most,
        )
        low[cell] = ends[0]
        high[cell] = ends[1]
    return Estimates(estimate.value, low, high)


def auc_metric(cells: Cells, label: Int, ranks: Int) -> CellMetric:
    """AUC within each cell, with the interval of its numbers of positive and negative rows.

    Parameters
    ----------
    cells : Cells
        Cells of the rows.
    label : int array, shape (n,)
        0 or 1.
    ranks : int array, shape (n,)
        Scores, or their ranks.

    Returns
    -------
    CellMetric
    """
    area = np.full(cells.size, np.nan)
    ends = np.cumsum(np.bincount(cells.code, minlength=cells.size))
    for cell, rows in enumerate(np.split(cells.order, ends[:-1])):
        if len(rows):
            weight = None if cells.weights is None else cells.weights[rows]
            _, of_cell = np.unique(ranks[rows], return_inverse=True)
            area[cell] = float(auc(*score_table(label[rows], of_cell.astype(np.int64), weight)))
    ones = np.ones(len(label))
    of_label = [label == 0, label == 1]
    n = np.minimum(cells.counts(of_label[0]), cells.counts(of_label[1]))
    negatives, positives = (cells.means(ones, rows).equal_people for rows in of_label)

    def _closed(level: float) -> Estimates:
        low = np.full(cells.size, np.nan)
        high = np.full(cells.size, np.nan)
        for cell in np.flatnonzero(~np.isnan(area)).tolist():
            low[cell], high[cell] = auc_interval(
                float(area[cell]), float(positives[cell]), float(negatives[cell]), level
            )
        return Estimates(area, low, high)

    return CellMetric(area, n, _closed)


def balanced_accuracy_metric(cells: Cells, label: Int, right: Bool, labels: int) -> CellMetric:
    """Mean over the labels of the share that is predicted right.

    Parameters
    ----------
    cells : Cells
        Cells of the rows.
    label : int array, shape (n,)
        Label of every row.
    right : bool array, shape (n,)
        Whether it is predicted right.
    labels : int
        Number of labels, L.

    Returns
    -------
    CellMetric
    """
    recalls = [share_metric(cells, right, label == k) for k in range(labels)]
    values = np.stack([recall.value for recall in recalls], axis=-1)
    n = np.min(np.stack([recall.n for recall in recalls], axis=-1), axis=-1)
    if cells.is_plain:

        def _rows_at(level: float) -> list[Float]:
            return [recall.n for recall in recalls]
    else:
        means = [cells.means(right.astype(np.float64), label == k) for k in range(labels)]

        def _rows_at(level: float) -> list[Float]:
            return [effective_number(mean, mean.mean, level) for mean in means]

    def _closed(level: float) -> Estimates:
        by_label = np.stack(_rows_at(level), axis=-1)
        # of a table with the right recalls only these and the effective rows count
        counts = np.zeros((*by_label.shape, labels))
        for k in range(labels):
            hits = np.where(by_label[..., k] > 0, values[..., k], 0.0) * by_label[..., k]
            counts[..., k, k] = hits
            counts[..., k, (k + 1) % labels] = by_label[..., k] - hits
        return balanced_accuracy_estimates(
            RateCells(counts, by_label.sum(axis=-1), by_label), level
        )

    return CellMetric(values.mean(axis=-1), n, _closed)


def base_rows(base: Base, label: Int | None, selected: Bool) -> Bool | None:
    """Rows that a rate is of; None for all.

    Parameters
    ----------
    base : {"rows", "positives", "negatives", "selected", "not selected"}
        Which rows.
    label : int array, shape (n,), optional
        True labels, 0 or 1.
    selected : bool array, shape (n,)
        Whether a row is predicted 1.

    Returns
    -------
    bool array, shape (n,), or None
    """
    if base == "rows":
        return None
    if base == "selected":
        return selected
    if base == "not selected":
        return ~selected
    assert label is not None
    return label == (1 if base == "positives" else 0)


@dataclass(frozen=True)
class RateInfo:
    """A rate of two labels: of which rows it is, and which of them count."""

    base: Base
    hit: Literal["selected", "right", "wrong", "positive"]
    title: str


RATES: dict[str, RateInfo] = {
    "accuracy": RateInfo("rows", "right", "Accuracy"),
    "base_rate": RateInfo("rows", "positive", "Base rate"),
    "true_positive_rate": RateInfo("positives", "right", "True positive rate"),
    "true_negative_rate": RateInfo("negatives", "right", "True negative rate"),
    "false_positive_rate": RateInfo("negatives", "wrong", "False positive rate"),
    "false_negative_rate": RateInfo("positives", "wrong", "False negative rate"),
    "precision": RateInfo("selected", "right", "Precision"),
    "negative_predictive_value": RateInfo("not selected", "right", "Negative predictive value"),
}
"""Rates of two labels; the selection rate is of the favourable one, and the base rate too."""

TITLES = {name: rate.title for name, rate in RATES.items()} | {
    "count": "Rows",
    "selection_rate": "Selection rate",
    "balanced_accuracy": "Balanced accuracy",
    "auc": "Area under the ROC curve",
    "brier": "Brier score",
    "log_loss": "Log loss",
    "log_loss_gain": "Log loss less that of the base rate",
    "ece": "Calibration error",
    "theil_index": "Theil index",
    "r2": "R²",
    "mean_score": "Mean probability",
    "mean_prediction": "Mean prediction",
    "mean_target": "Mean true value",
    "mean_error": "Mean error (prediction less true value)",
    "mean_absolute_error": "Mean absolute error",
    "root_mean_squared_error": "Root mean squared error",
}
"""Names of metrics for readers."""

ALIASES = {
    "tpr": "true_positive_rate",
    "recall": "true_positive_rate",
    "sensitivity": "true_positive_rate",
    "tnr": "true_negative_rate",
    "specificity": "true_negative_rate",
    "fpr": "false_positive_rate",
    "fnr": "false_negative_rate",
    "ppv": "precision",
    "positive_predictive_value": "precision",
    "npv": "negative_predictive_value",
    "roc_auc": "auc",
    "mae": "mean_absolute_error",
    "rmse": "root_mean_squared_error",
    "brier_score": "brier",
    "selection": "selection_rate",
    "prevalence": "base_rate",
}
"""Other names of metrics."""

OF_SCORES = ("auc", "brier", "log_loss", "mean_score")
OF_NUMBERS = (
    "mean_target",
    "mean_error",
    "mean_absolute_error",
    "root_mean_squared_error",
)
