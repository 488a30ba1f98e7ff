"""Metrics that a caller passes as functions, such as those of scikit-learn and Fairlearn.

The value of a group is what the function returns for the group's rows. Where the function is one
whose metric this library has, and gives the same values, its closed interval is used; the others
are resampled within each group.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.fairlib.arrays import Float, Int
from evenhand.fairlib.evaluation.closed_intervals import Estimates, student_interval
from evenhand.fairlib.evaluation.group_metrics import CellMetric, Cells

Function = Callable[..., Any]

MOST_WORK = 20_000_000
"""Rows that the draws of one metric and attribute have together, at most."""

FEWEST_DRAWS = 20
FEWEST_IN_TAIL = 2.0
"""Draws beyond each end of an interval; with fewer it follows from their standard deviation."""

CATALOGUED = {
    ("sklearn", "accuracy_score"): "accuracy",
    ("sklearn", "balanced_accuracy_score"): "balanced_accuracy",
    ("sklearn", "recall_score"): "true_positive_rate",
    ("sklearn", "precision_score"): "precision",
    ("sklearn", "roc_auc_score"): "auc",
    ("sklearn", "brier_score_loss"): "brier",
    ("sklearn", "log_loss"): "log_loss",
    ("sklearn", "mean_absolute_error"): "mean_absolute_error",
    ("sklearn", "root_mean_squared_error"): "root_mean_squared_error",
    ("fairlearn", "count"): "count",
    ("fairlearn", "selection_rate"): "selection_rate",
    ("fairlearn", "true_positive_rate"): "true_positive_rate",
    ("fairlearn", "true_negative_rate"): "true_negative_rate",
    ("fairlearn", "false_positive_rate"): "false_positive_rate",
    ("fairlearn", "false_negative_rate"): "false_negative_rate",
    ("fairlearn", "mean_prediction"): "mean_prediction",
}
"""Metrics of this library by package and name of other libraries' functions."""


def name_of(function: Function) -> str:
    """Name of a metric's function.

    Parameters
    ----------
    function : callable
        A function, a partial or another callable object.

    Returns
    -------
    str
    """
    if isinstance(function, partial):
        return name_of(function.func)
    return str(getattr(function, "__name__", type(function).__name__))


def catalogued_name(function: Function) -> str | None:
    """Name of the same metric in this library; None where none is known.

    Parameters
    ----------
    function : callable
        A metric's function.

    Returns
    -------
    str or None
    """
    package = str(getattr(function, "__module__", "")).partition(".")[0]
    return CATALOGUED.get((package, str(getattr(function, "__name__", ""))))


def check_takes_weights(name: str, function: Function) -> None:
    """Refuse a function that cannot take the weights of rows.

    Parameters
    ----------
    name : str
        Name of the metric.
    function : callable
        Its function.

    Raises
    ------
    ValueError
        If it has no parameter ``sample_weight``.
    """
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):  # of compiled functions, which have none
        return
    has_any = any(entry.kind is entry.VAR_KEYWORD for entry in parameters.values())
    if "sample_weight" not in parameters and not has_any:
        raise ValueError(
            f"metrics: {name} does not take sample_weight; give it such a parameter, or audit "
            "without weights"
        )


def callable_metric(
    function: Function,
    cells: Cells,
    y_true: NDArray[Any],
    y_pred: NDArray[Any],
    *,
    draws: int,
    rng: np.random.Generator,
    twin: CellMetric | None = None,
) -> CellMetric:
    """Compute a function's metric in each cell, with its interval.

    Parameters
    ----------
    function : callable
        ``function(y_true, y_pred)``, with weights also ``sample_weight=``.
    cells : Cells
        Cells of the rows.
    y_true, y_pred : array, shape (n,)
        True and predicted values as they were passed.
    draws : int
        Bootstrap draws; 0 for no interval.
    rng : numpy.random.Generator
        Generator of the draws.
    twin : CellMetric, optional
        The metric of this library that the function is known to compute.

    Returns
    -------
    CellMetric
        Its values are objects where the function does not return numbers.
    """
    measure = _Measure(function, y_true, y_pred, cells.weights)
    ends = np.cumsum(np.bincount(cells.code, minlength=cells.size))
    rows_of_cells = np.split(cells.order, ends[:-1])
    values = _values(measure, rows_of_cells)
    n = cells.counts()
    if not all(np.isscalar(value) and not isinstance(value, str) for value in values):
        objects = np.empty(len(values), dtype=object)
        objects[:] = values
        return CellMetric(objects, n)
    column = np.array(values, dtype=np.float64)
    if twin is not None and np.allclose(column, twin.value, atol=1e-12, rtol=0, equal_nan=True):
        return replace(twin, value=column)
    is_positive = not bool(np.any(column < 0))
    drawn = _drawn(measure, rows_of_cells, cells.people, draws, rng)
    if drawn.shape[1] == 0:
        return CellMetric(column, n, is_positive=is_positive)
    return CellMetric(column, n, partial(_percentiles, column, drawn), is_positive=is_positive)


def _values(measure: _Measure, rows_of_cells: list[Int]) -> list[Any]:
    """Value of each cell; NaN where the function fails, unless it fails for all."""
    values: list[Any] = []
    faults: list[Exception] = []
    filled = 0
    for rows in rows_of_cells:
        value: Any = np.nan
        if len(rows):
            filled += 1
            try:
                value = measure(rows)
            except (ValueError, ZeroDivisionError) as fault:
                faults.append(fault)
        values.append(value)
    if faults and len(faults) == filled:
        raise faults[0]
    return values


class _Measure:
    """A function's value of some rows; NaN where the function fails."""

    def __init__(
        self, function: Function, y_true: NDArray[Any], y_pred: NDArray[Any], weights: Float | None
    ) -> None:
        self.function = function
        self.y_true = y_true
        self.y_pred = y_pred
        self.weights = weights

    def __call__(self, rows: Int) -> Any:
        """Value of some rows, shape (m,)."""
        keywords: Mapping[str, Any] = {}
        if self.weights is not None:
            keywords = {"sample_weight": self.weights[rows]}
        return self.function(self.y_true[rows], self.y_pred[rows], **keywords)

    def drawn(self, rows: Int) -> float:
        """Value of drawn rows; NaN where it is undefined, as of a draw with one label alone."""
        try:
            return float(self(rows))
        except (ValueError, ZeroDivisionError):
            return float("nan")


def _drawn(
    measure: _Measure,
    rows_of_cells: list[Int],
    people: Int | None,
    draws: int,
    rng: np.random.Generator,
) -> Float:
    """Values of draws of each cell's rows, or of its people with all their rows, (C, draws)."""
    import warnings

    total = sum(len(rows) for rows in rows_of_cells)
    if draws:
        draws = min(draws, max(MOST_WORK // max(total, 1), FEWEST_DRAWS))
    drawn = np.full((len(rows_of_cells), draws), np.nan)
    for cell, rows in enumerate(rows_of_cells):
        sampler = _Sampler(rows, people)
        with warnings.catch_warnings():
            # a drawn group may lack a label that the group itself has
            warnings.simplefilter("ignore")
            for draw in range(draws):
                drawn[cell, draw] = measure.drawn(sampler(rng))
    return drawn


class _Sampler:
    """Draws rows with replacement, or people with all their rows."""

    def __init__(self, rows: Int, people: Int | None) -> None:
        self.rows = rows
        self.parts: list[Int] = []
        if people is not None and len(rows):
            _, person = np.unique(people[rows], return_inverse=True)
            order = np.argsort(person, kind="stable")
            ends = np.cumsum(np.bincount(person))
            self.parts = np.split(rows[order], ends[:-1])

    def __call__(self, rng: np.random.Generator) -> Int:
        """Positions of drawn rows."""
        if not self.parts:
            return self.rows[rng.integers(0, max(len(self.rows), 1), len(self.rows))]
        chosen = rng.integers(0, len(self.parts), len(self.parts))
        return np.concatenate([self.parts[place] for place in chosen])


def _percentiles(value: Float, drawn: Float, level: float) -> Estimates:
    """Percentiles of draws, (C, draws); far out those of Student's distribution."""
    tail = (1.0 - level) / 2.0
    low = np.full(len(value), np.nan)
    high = np.full(len(value), np.nan)
    for cell in range(len(value)):
        defined = drawn[cell][~np.isnan(drawn[cell])]
        if len(defined) < max(drawn.shape[1] / 2, 2) or np.ptp(defined) == 0:
            continue
        if tail * len(defined) >= FEWEST_IN_TAIL:
            ends = np.quantile(defined, [tail, 1.0 - tail])
        else:
            variance = np.array([defined.var(ddof=1)])
            size = np.array([float(len(defined))])
            normal = student_interval(value[[cell]], variance, size, level)
            ends = np.array([normal.low[0], normal.high[0]])
        low[cell] = min(ends[0], value[cell])
        high[cell] = max(ends[1], value[cell])
    return Estimates(value, low, high)
