"""Metrics of the catalogue that are no mean of the rows' values, as functions of columns.

``metric(y_true, y_pred, sample_weight=None)`` has the labels 0 and 1, and decisions or
probabilities. An audit computes them in each group, and resamples them as it does the functions of
others.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from evenhand.fairlib.arrays import Float, Int
from evenhand.fairlib.evaluation.metrics import theil_index
from evenhand.fairlib.evaluation.outcomes import Outcomes
from evenhand.fairlib.evaluation.probabilities import probability_values

OF_DECISIONS = ("theil_index",)
OF_PROBABILITIES = ("ece", "log_loss_gain")


def table_metric(name: str) -> Callable[..., float]:
    """Look up a metric of decisions or of probabilities.

    Parameters
    ----------
    name : str
        One of ``OF_DECISIONS`` or ``OF_PROBABILITIES``.

    Returns
    -------
    callable
    """
    if name in OF_PROBABILITIES:
        return partial(_of_probabilities, name)
    return _theil_index


def _theil_index(label: Int, decided: Int, sample_weight: Float | None = None) -> float:
    """Theil index of some rows; the favourable label is 1."""
    counts = np.bincount(label * 2 + decided, sample_weight, minlength=4).reshape(2, 2)
    return float(theil_index(counts.astype(np.float64)))


def _of_probabilities(
    name: str, label: Int, score: Float, sample_weight: Float | None = None
) -> float:
    """A metric of the probabilities of some rows."""
    outcomes = Outcomes(label, (score >= 0.5).astype(np.int64), score, {})
    return float(probability_values(outcomes, {}, sample_weight)[name])


def r2(y_true: Float, y_pred: Float, sample_weight: Float | None = None) -> float:
    r"""Share of the variance of numbers that is predicted.

    .. math:: 1 - \frac{\sum_i w_i (y_i - \hat y_i)^2}{\sum_i w_i (y_i - \bar y)^2}

    Parameters
    ----------
    y_true, y_pred : array, shape (n,)
        True and predicted numbers.
    sample_weight : array, shape (n,), optional
        Weights of the rows.

    Returns
    -------
    float
        NaN where the true numbers do not vary.
    """
    target = np.asarray(y_true, dtype=np.float64)
    weights = np.ones(len(target)) if sample_weight is None else sample_weight
    mean = np.average(target, weights=weights)
    variance = float(np.sum(weights * (target - mean) ** 2))
    if variance <= 0:
        return float("nan")
    return 1.0 - float(np.sum(weights * (target - y_pred) ** 2)) / variance
