r"""Effective numbers of rows: how many independent rows of equal weight have the same information.

Rows of one person are alike, and rows of unequal weight have less information than as many of equal
weight. The exact interval of a share then uses the effective number

.. math:: n^* = \frac{\hat p (1 - \hat p)}{\hat v} \left(\frac{t_{n-1}}{t_{k-1}}\right)^2, \qquad
          \hat v = \frac{k}{k - 1} \frac{\sum_i (s_i - \hat p w_i)^2}{(\sum_i w_i)^2}

of n rows of k people with weights :math:`w_i` and sums :math:`s_i` of weighted values, with the
quantiles t of Student's distribution (Korn and Graubard, "Confidence Intervals for Proportions with
Small Expected Number of Positive Counts Estimated from Survey Data", Survey Methodology 24, 1998).
It is at most n. Where the share is 0 or 1 the variance says nothing, and :math:`(\sum w_i)^2 / \sum
w_i^2` (Kish) takes the place of its quotient, as if all rows of a person had to agree.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenhand.fairlib.arrays import Bool, Float, Int


@dataclass(frozen=True)
class CellMeans:
    """Mean of a value in each of C cells, each of shape (C,); NaN where a cell has no row."""

    rows: Float  # rows of a positive weight
    people: Float  # people with such a row
    mean: Float
    variance: Float  # of the mean; NaN for fewer than two people
    equal_people: Float  # Kish's number of people of equal weight
    skewness: Float  # of the people's deviations from the mean; 0 where these do not vary


def cell_means(
    cell: Int,
    cells: int,
    value: Float,
    weights: Float | None = None,
    people: Int | None = None,
    *,
    order: Int | None = None,
) -> CellMeans:
    """Average a value in cells, with the variance of the mean between people.

    Parameters
    ----------
    cell : int array, shape (n,)
        Cell of every row, from 0 to ``cells - 1``.
    cells : int
        Number of cells.
    value : array, shape (n,)
        Value of every row.
    weights : array, shape (n,), optional
        Weights of the rows; default: 1.
    people : int array, shape (n,), optional
        Number of every row's person; default: each row is of its own.
    order : int array, shape (n,), optional
        Positions of the rows by cell, then by person, weight and value, where they are known
        already: sorting takes longest.

    Returns
    -------
    CellMeans
    """
    weight = np.ones(len(cell)) if weights is None else weights
    if order is None:
        # sums of floats depend on the order of their terms, and must not depend on that of the rows
        keys = [value, weight, cell] if people is None else [value, weight, people, cell]
        order = np.lexsort(keys)
    order = order[weight[order] > 0]
    cell = cell[order]
    value = value[order]
    weight = weight[order]
    first = np.arange(len(cell))
    unit = first
    if people is not None:
        person = people[order]
        new = np.concatenate([[True], (cell[1:] != cell[:-1]) | (person[1:] != person[:-1])])[
            : len(cell)
        ]
        unit = np.cumsum(new) - 1
        first = np.flatnonzero(new)
    cell_of_unit = cell[first]
    unit_weight = np.bincount(unit, weight, len(first))
    unit_sum = np.bincount(unit, weight * value, len(first))
    count = np.bincount(cell_of_unit, minlength=cells).astype(np.float64)
    total = np.bincount(cell_of_unit, unit_weight, cells)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.bincount(cell_of_unit, unit_sum, cells) / total
        deviation = unit_sum - mean[cell_of_unit] * unit_weight
        squares = np.bincount(cell_of_unit, deviation**2, cells)
        variance = np.where(count > 1, count / (count - 1.0) * squares / total**2, np.nan)
        equal_people = total**2 / np.bincount(cell_of_unit, unit_weight**2, cells)
        cubes = np.bincount(cell_of_unit, deviation**3, cells)
        skewness = np.where(squares > 0, cubes / count / (squares / count) ** 1.5, 0.0)
    rows = np.bincount(cell, minlength=cells).astype(np.float64)
    equal_people = np.where(count > 0, equal_people, 0.0)
    return CellMeans(rows, count, mean, variance, equal_people, skewness)


def effective_rows(
    cell: Int,
    cells: int,
    hit: Bool,
    level: float,
    weights: Float | None = None,
    people: Int | None = None,
) -> Float:
    """Effective number of rows behind a share in each cell.

    Parameters
    ----------
    cell, cells, weights, people
        As of :func:`cell_means`.
    hit : bool array, shape (n,)
        Whether a row has the property.
    level : float
        Coverage of the intervals, for the quantiles of Student's distribution.

    Returns
    -------
    array, shape (C,)
        0 where a cell has no row of a positive weight; the number of rows where all have one weight
        and are of different people.
    """
    if people is None and (weights is None or weights.min() == weights.max()):
        return np.bincount(cell, minlength=cells).astype(np.float64)
    means = cell_means(cell, cells, hit.astype(np.float64), weights, people)
    return effective_number(means, means.mean, level)


def effective_number(means: CellMeans, share: Float, level: float, *, most: float = 1.0) -> Float:
    """Number of rows whose share has the variance of a mean.

    Parameters
    ----------
    means : CellMeans
        Means whose variance counts.
    share : array, shape (C,)
        Share of a property in each cell.
    level : float
        Coverage of the intervals.
    most : float
        Largest result, as a multiple of the rows of each cell.

    Returns
    -------
    array, shape (C,)

    References
    ----------
    .. [1] E. L. Korn and B. I. Graubard, "Confidence Intervals for Proportions with Small Expected
       Number of Positive Counts Estimated from Survey Data", Survey Methodology 24 (1998).
    """
    from scipy.special import stdtrit

    binomial = share * (1.0 - share)
    usable = (binomial > 0) & (means.variance > 0)
    number = means.equal_people.copy()
    np.divide(binomial, means.variance, out=number, where=usable)
    tail = (1.0 + level) / 2.0
    # with one person there is no variance, and no quantile either
    quantile = stdtrit(np.maximum(means.rows - 1.0, 1.0), tail)
    quantile_of_people = stdtrit(np.maximum(means.people - 1.0, 1.0), tail)
    shrunk = number * (quantile / quantile_of_people) ** 2
    return np.minimum(np.where(means.people > 1, shrunk, number), most * means.rows)
