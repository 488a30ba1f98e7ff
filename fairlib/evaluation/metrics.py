r"""Metrics as pure functions of counts, vectorised over leading axes.

``counts[..., g, y, p]`` is the number of rows of group g with true label y and predicted label p,
or the sum of their weights (:func:`evenhand.fairlib.evaluation.evaluate.evaluate` takes them);
leading axes (such as bootstrap draws) are kept. Metrics of the whole table take counts of shape
(..., L, L), those of a sensitive attribute counts of shape (..., K, L, L), of L labels; where a
function says nothing else, L is 2. A metric that is undefined, because a needed cell is empty, is
NaN. With K groups every difference is the maximum over pairs of groups: the largest rate less the
smallest.
:mod:`evenhand.fairlib.catalogue` has each metric's formula and source.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from evenhand.fairlib.arrays import Bool, Float, Int

Array = NDArray[Any]


def ratio(numerator: Array, denominator: Array) -> Float:
    """Divide elementwise, NaN where the denominator is zero.

    Parameters
    ----------
    numerator : ndarray, shape (...)
        Numbers above the line.
    denominator : ndarray, shape (...)
        Numbers below the line; the shapes broadcast.

    Returns
    -------
    ndarray of float64, shape (...)
        Quotients.
    """
    top, bottom = np.broadcast_arrays(numerator, denominator)
    result = np.full(bottom.shape, np.nan)
    np.divide(top, bottom, out=result, where=bottom != 0)
    return result


def recalls(counts: Array) -> Float:
    """P(prediction = label | label, group), shape (..., K, L), of any number of labels.

    Parameters
    ----------
    counts : ndarray, shape (..., K, L, L)
        Rows, or sums of weights, by group, true and predicted label.

    Returns
    -------
    ndarray of float64, shape (..., K, L)
        NaN where no row has the label.
    """
    return ratio(np.diagonal(counts, axis1=-2, axis2=-1), counts.sum(axis=-1))


def selection_rates(counts: Array) -> Float:
    """P(prediction = 1 | group), shape (..., K).

    Parameters
    ----------
    counts : ndarray, shape (..., K, 2, 2)
        Rows, or sums of weights, by group, true and predicted label.

    Returns
    -------
    ndarray of float64, shape (..., K)
        NaN for a group without a row.
    """
    return ratio(counts[..., 1].sum(axis=-1), counts.sum(axis=(-2, -1)))


def spread(rates: Float) -> Float:
    """Largest difference between two groups; ``rates`` has shape (..., K). NaN if any group's rate
    is.

    Parameters
    ----------
    rates : ndarray of float64, shape (..., K)
        Rate of each group.

    Returns
    -------
    ndarray of float64, shape (...)
        Largest rate less the smallest.
    """
    return np.max(rates, axis=-1) - np.min(rates, axis=-1)


def spread_of_defined(rates: Float) -> Float:
    """Largest difference between two groups whose rate is defined; NaN with fewer than two
    of them.

    Parameters
    ----------
    rates : ndarray of float64, shape (..., K)
        Rate of each group.

    Returns
    -------
    ndarray of float64, shape (...)
        Largest defined rate less the smallest.
    """
    defined = ~np.isnan(rates)
    largest = np.max(np.where(defined, rates, -np.inf), axis=-1, initial=-np.inf)
    smallest = np.min(np.where(defined, rates, np.inf), axis=-1, initial=np.inf)
    enough = defined.sum(axis=-1) >= 2
    return np.where(
        enough, np.where(enough, largest, 0.0) - np.where(enough, smallest, 0.0), np.nan
    )


def label_gaps(counts: Array) -> Float:
    r"""Largest gap per label, shape (..., L); Vargo et al., ICLR 2021, appendix C.2, there for two
    groups.

    .. math:: \mathrm{Gap}_y = \max_{g,h} | P(\hat Y = y | Y = y, g) - P(\hat Y = y | Y = y, h) |

    Parameters
    ----------
    counts : ndarray, shape (..., K, L, L)
        Rows, or sums of weights, by group, true and predicted label.

    Returns
    -------
    ndarray of float64, shape (..., L)
        Largest difference of recall between two groups, by label.

    References
    ----------
    .. [1] A. Vargo et al., "Individually Fair Gradient Boosting", ICLR 2021, appendix C.2.
    """
    return spread(np.swapaxes(recalls(counts), -1, -2))


def gap_max(counts: Array) -> Float:
    r"""Largest of the label gaps, :math:`\max_y \mathrm{Gap}_y`.

    Parameters
    ----------
    counts : ndarray, shape (..., K, L, L)
        Rows, or sums of weights, by group, true and predicted label.

    Returns
    -------
    ndarray of float64, shape (...)
        NaN where a group has no row of a label.

    Examples
    --------
    >>> counts = np.array([[[40.0, 10.0], [10.0, 40.0]], [[45.0, 5.0], [25.0, 25.0]]])
    >>> round(float(gap_max(counts)), 3)
    0.3
    """
    return np.max(label_gaps(counts), axis=-1)


def gap_rms(counts: Array) -> Float:
    r"""Root mean square of the label gaps, :math:`\sqrt{\tfrac1L \sum_y \mathrm{Gap}_y^2}`.

    Parameters
    ----------
    counts : ndarray, shape (..., K, L, L)
        Rows, or sums of weights, by group, true and predicted label.

    Returns
    -------
    ndarray of float64, shape (...)
        NaN where a group has no row of a label.
    """
    return np.sqrt(np.mean(label_gaps(counts) ** 2, axis=-1))


def demographic_parity_difference(counts: Array) -> Float:
    """Largest difference of selection rates between two groups.

    Parameters
    ----------
    counts : ndarray, shape (..., K, 2, 2)
        Rows, or sums of weights, by group, true and predicted label.

    Returns
    -------
    ndarray of float64, shape (...)
        NaN where a group has no row.

    Examples
    --------
    >>> counts = np.array([[[40.0, 10.0], [10.0, 40.0]], [[45.0, 5.0], [25.0, 25.0]]])
    >>> round(float(demographic_parity_difference(counts)), 3)
    0.2
    """
    return spread(selection_rates(counts))


def impact_ratio(counts: Array) -> Float:
    """Smallest selection rate of a group over the largest; undefined if nobody is selected.

    Parameters
    ----------
    counts : ndarray, shape (..., K, 2, 2)
        Rows, or sums of weights, by group, true and predicted label.

    Returns
    -------
    ndarray of float64, shape (...)
        In [0, 1]; NaN where a group has no row.

    Examples
    --------
    >>> counts = np.array([[[40.0, 10.0], [10.0, 40.0]], [[45.0, 5.0], [25.0, 25.0]]])
    >>> round(float(impact_ratio(counts)), 3)
    0.6
    """
    rates = selection_rates(counts)
    return ratio(np.min(rates, axis=-1), np.max(rates, axis=-1))


def equal_opportunity_difference(counts: Array) -> Float:
    """Largest difference of true positive rates between two groups.

    Parameters
    ----------
    counts : ndarray, shape (..., K, 2, 2)
        Rows, or sums of weights, by group, true and predicted label.

    Returns
    -------
    ndarray of float64, shape (...)
        NaN where a group has no row of label 1.

    References
    ----------
    .. [1] M. Hardt, E. Price and N. Srebro, "Equality of Opportunity in Supervised Learning",
       NeurIPS 2016.

    Examples
    --------
    >>> counts = np.array([[[40.0, 10.0], [10.0, 40.0]], [[45.0, 5.0], [25.0, 25.0]]])
    >>> round(float(equal_opportunity_difference(counts)), 3)
    0.3
    """
    return spread(recalls(counts)[..., 1])


def average_odds_difference(counts: Array) -> Float:
    """Mean of the label gaps: of two labels Fairlearn's
    ``equalized_odds_difference(agg="mean")``.

    Parameters
    ----------
    counts : ndarray, shape (..., K, L, L)
        Rows, or sums of weights, by group, true and predicted label.

    Returns
    -------
    ndarray of float64, shape (...)
        NaN where a group has no row of a label.
    """
    return np.mean(label_gaps(counts), axis=-1)


def accuracy(counts: Array) -> Float:
    """Share of correct predictions, of any number of labels.

    Parameters
    ----------
    counts : ndarray, shape (..., L, L)
        Rows, or sums of weights, by true and predicted label.

    Returns
    -------
    ndarray of float64, shape (...)
        NaN without a row.
    """
    return ratio(np.trace(counts, axis1=-2, axis2=-1), counts.sum(axis=(-2, -1)))


def balanced_accuracy(counts: Array) -> Float:
    """Mean over the labels of the share that is predicted right; of a group or of the whole
    table.

    Parameters
    ----------
    counts : ndarray, shape (..., L, L)
        Rows, or sums of weights, by true and predicted label.

    Returns
    -------
    ndarray of float64, shape (...)
        NaN where a label has no row.
    """
    return np.mean(recalls(counts), axis=-1)


def balanced_accuracy_difference(counts: Array) -> Float:
    r"""Largest difference of balanced accuracy between two groups.

    .. math:: \max_{g,h} |\mathrm{BA}_g - \mathrm{BA}_h|, \qquad
              \mathrm{BA}_g = \tfrac12 (\mathrm{TPR}_g + 1 - \mathrm{FPR}_g)

    FAIAS calls this the absolute average odds difference (section 6.6); AIF360's metric of that
    name is ``average_odds_difference``. A larger TPR and a larger FPR of one group cancel here and
    add up there.

    Parameters
    ----------
    counts : ndarray, shape (..., K, L, L)
        Rows, or sums of weights, by group, true and predicted label.

    Returns
    -------
    ndarray of float64, shape (...)
        NaN where a group has no row of a label.
    """
    return spread(balanced_accuracy(counts))


def theil_index(counts: Array) -> Float:
    r"""Theil index of the benefits, as in AIF360; undefined if every benefit is zero.

    .. math:: \frac1n \sum_i \frac{b_i}{\mu} \ln \frac{b_i}{\mu}, \qquad
              b_i = \hat y_i - y_i + 1,\quad
              \mu = \tfrac1n \sum_i b_i,\quad 0 \ln 0 = 0

    Parameters
    ----------
    counts : ndarray, shape (..., 2, 2)
        Rows, or sums of weights, by true and predicted label.

    Returns
    -------
    ndarray of float64, shape (...)
        At least 0, in nats.

    References
    ----------
    .. [1] T. Speicher et al., "A Unified Approach to Quantifying Algorithmic Unfairness", KDD 2018.
    """
    n = counts.sum(axis=(-2, -1))
    right = counts[..., 0, 0] + counts[..., 1, 1]
    false_positive = counts[..., 0, 1]
    mean = ratio(right + 2 * false_positive, n)
    # Benefits are 0 (false negative, which adds nothing), 1 (correct) or 2 (false positive).
    one = ratio(np.ones_like(mean), mean)
    two = ratio(np.full_like(mean, 2.0), mean)
    index = ratio(right, n) * one * np.log(one) + ratio(false_positive, n) * two * np.log(two)
    # At least 0 in exact arithmetic; rounding may give -1e-17, which is no possible value.
    return np.maximum(index, 0.0)


def auc(positives: Array, negatives: Array) -> Float:
    r"""Area under the ROC curve as the rank statistic, ties counting half.

    .. math:: \frac{1}{n_1 n_0} \sum_s w^+_s \left( \sum_{t < s} w^-_t + \tfrac12 w^-_s \right)

    Parameters
    ----------
    positives : ndarray, shape (..., S)
        Rows of label 1, or sums of their weights w, at each distinct score, scores ascending.
    negatives : ndarray, shape (..., S)
        The same of label 0.

    Returns
    -------
    ndarray of float64, shape (...)
        In [0, 1]; NaN where there is no positive or no negative row.

    Examples
    --------
    >>> float(auc(np.array([0, 1, 1]), np.array([1, 1, 0])))
    0.875
    """
    below = np.cumsum(negatives, axis=-1, dtype=float)
    below -= negatives / 2
    below *= positives
    concordant = np.sum(below, axis=-1)
    return ratio(
        concordant,
        np.sum(positives, axis=-1, dtype=float) * np.sum(negatives, axis=-1, dtype=float),
    )


Needs = Literal["rows", "positives", "cells"]
"""Which counts must not be too small for a metric: the rows of each group (or of the table), those
of the favourable label in it, or those of each label in it.
"""

Cell = tuple[int, int]
"""True and predicted label, the favourable one coded 1."""


@dataclass(frozen=True)
class Rate:
    """Share of the rows in the cells `base` that are in the cells `hits`, of two labels.

    The false omission rate P(y = 1 | ŷ = 0), for instance, is
    ``Rate(hits=((1, 0),), base=((0, 0), (1, 0)))``.
    """

    hits: tuple[Cell, ...]
    base: tuple[Cell, ...]  # with the hits among them

    def of(self, counts: Array) -> Float:
        """Rate of each group.

        Parameters
        ----------
        counts : ndarray, shape (..., K, 2, 2)
            Rows, or sums of weights, by group, true and predicted label.

        Returns
        -------
        ndarray of float64, shape (..., K)
            NaN where no row of a group is in the base.
        """
        return ratio(_total(counts, self.hits), _total(counts, self.base))


def _total(counts: Array, cells: tuple[Cell, ...]) -> Array:
    """Rows of each group in some cells."""
    return np.sum([counts[..., label, predicted] for label, predicted in cells], axis=0)


def rows_in(cells: tuple[Cell, ...], label: Int, predicted: Int) -> Bool:
    """Say which rows are in one of some cells.

    Parameters
    ----------
    cells : tuple of pairs
        True and predicted label of each cell.
    label, predicted : int array, shape (n,)
        True and predicted label of every row.

    Returns
    -------
    bool array, shape (n,)
    """
    inside = np.zeros(len(label), dtype=bool)
    for true, decided in cells:
        inside |= (label == true) & (predicted == decided)
    return inside


@dataclass(frozen=True)
class Metric:
    """A metric's function, and what it needs; its text is in the catalogue."""

    function: Callable[[Array], Float]
    needs: Needs
    rate: Rate | None = None  # of which the metric is the largest difference between groups
    needs_labels: bool = True  # False for a metric of the predictions alone


def rate_difference(rate: Rate, needs: Needs) -> Metric:
    """Metric of the largest difference of a rate between two groups: it needs no interval of its
    own.

    Parameters
    ----------
    rate : Rate
        Rate of each group.
    needs : {"rows", "positives", "cells"}
        Cells of the table that must not be empty.

    Returns
    -------
    Metric
        It needs true labels, unless the rate counts both labels alike, as the selection rate does.

    Examples
    --------
    >>> omission = rate_difference(Rate(hits=((1, 0),), base=((0, 0), (1, 0))), "cells")
    >>> counts = np.array([[[40.0, 10.0], [10.0, 40.0]], [[45.0, 5.0], [25.0, 25.0]]])
    >>> round(float(omission.function(counts)), 3)
    0.157
    """

    def _largest(counts: Array) -> Float:
        return spread(rate.of(counts))

    of_predictions = _has_both_labels(rate.hits) and _has_both_labels(rate.base)
    return Metric(_largest, needs, rate, needs_labels=not of_predictions)


def _has_both_labels(cells: tuple[Cell, ...]) -> bool:
    """Whether a prediction among some cells is there with either true label."""
    return {(1 - label, predicted) for label, predicted in cells} == set(cells)


OVERALL_METRICS: dict[str, Metric] = {
    "accuracy": Metric(accuracy, "rows"),
    "balanced_accuracy": Metric(balanced_accuracy, "cells"),
    "theil_index": Metric(theil_index, "rows"),
}
"""Metrics of the table as a whole, from counts of shape (..., L, L)."""

GROUP_METRICS: dict[str, Metric] = {
    "gap_max": Metric(gap_max, "cells"),
    "gap_rms": Metric(gap_rms, "cells"),
    "demographic_parity_difference": Metric(
        demographic_parity_difference, "rows", needs_labels=False
    ),
    "impact_ratio": Metric(impact_ratio, "rows", needs_labels=False),
    "equal_opportunity_difference": Metric(equal_opportunity_difference, "positives"),
    "average_odds_difference": Metric(average_odds_difference, "cells"),
    "balanced_accuracy_difference": Metric(balanced_accuracy_difference, "cells"),
}
"""Metrics per sensitive attribute, from counts of shape (..., K, L, L).

The interval of each is in :data:`evenhand.fairlib.evaluation.metric_intervals.GROUP_INTERVALS`, or
follows from its rate.
"""
