"""How a number is distributed in each group: its location, its scale and its shape.

Each is different in the groups only where the rows show that it is: what is estimated has a
sampling error, which moves decisions near the threshold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evenhand.fairlib.arrays import Float, Index

# People behind each point of a quantile function by default, so that no single person's value is
# stored.
LEAST_PER_KNOT = 10
MOST_KNOTS = 40
# Ridge penalty per row of the regressions on the conditioning columns.
RIDGE = 1e-3
# Level of the tests from which on a simpler model is taken.
SIMPLER = 0.1


@dataclass
class NumberFit:
    """Regressions of a number in all groups.

    Parameters
    ----------
    weights : ndarray of float, shape (groups, 1 + k)
        Intercept and coefficients of the conditioning columns.
    scales : ndarray of float, shape (groups,)
        Standard deviations of the residuals.
    residuals : list of ndarray of float
        Of each group's members.
    pooled : bool
        Whether all groups have the same coefficients.
    """

    weights: Float
    scales: Float
    residuals: list[Float]
    pooled: bool


def fit_number(
    inputs: Float,
    values: Float,
    codes: Index,
    row_weights: Float,
    factors: Sequence[int],
) -> NumberFit:
    """Regress a number on the conditioning columns in every group.

    The groups have the same coefficients, if a test does not reject it. Of several attributes the
    effects on the location and on the logarithm of the scale add up, if a test does not reject it.

    Parameters
    ----------
    inputs : ndarray of float, shape (n, 1 + k)
        With a column of ones.
    values : ndarray of float, shape (n,)
    codes : ndarray of int, shape (n,)
        Group of every row.
    row_weights : ndarray of float, shape (n,)
        With mean 1 in each group.
    factors : sequence of int
        Number of groups of each attribute; their product is the number of groups.

    Returns
    -------
    NumberFit
    """
    n_groups = int(np.prod(factors))
    parts = [np.flatnonzero(codes == group) for group in range(n_groups)]
    weights = np.stack(
        [ridge(inputs[members], values[members], row_weights[members]) for members in parts]
    )
    errors = values - (inputs * weights[codes]).sum(axis=1)
    pooled = inputs.shape[1] == 1
    if not pooled:
        shared = shared_slopes(inputs, values, codes, row_weights, n_groups)
        shared_errors = values - (inputs * shared[codes]).sum(axis=1)
        if slopes_are_alike(errors, shared_errors, n_groups, inputs.shape[1] - 1):
            pooled = True
            weights = shared
            errors = shared_errors
    scales = np.array(
        [
            np.sqrt(np.average(errors[members] ** 2, weights=row_weights[members]))
            for members in parts
        ]
    )
    sizes = np.array([len(members) for members in parts])
    if pooled:
        variances = np.maximum(scales, 1e-12) ** 2 / sizes
        weights[:, 0] = additive(weights[:, 0], variances, factors)
    if scales.min() > 0:
        # variance of the logarithm of a standard deviation, by the fourth moment
        fourth = np.array([np.mean((errors[members]) ** 4) for members in parts])
        excess = np.maximum(fourth / scales**4 - 1, 0.5)
        scales = np.exp(additive(np.log(scales), excess / (4 * sizes), factors))
    errors = values - (inputs * weights[codes]).sum(axis=1)
    return NumberFit(weights, scales, [errors[members] for members in parts], pooled)


def shared_slopes(
    inputs: Float, values: Float, codes: Index, row_weights: Float, n_groups: int
) -> Float:
    """Regressions with an intercept for each group and the same coefficients.

    Parameters
    ----------
    inputs, values, codes, row_weights
        As of :func:`fit_number`.
    n_groups : int

    Returns
    -------
    ndarray of float, shape (groups, 1 + k)
    """
    centred_inputs = inputs[:, 1:].copy()
    centred_values = values.copy()
    centres = []
    for group in range(n_groups):
        members = codes == group
        centre = np.average(inputs[members, 1:], axis=0, weights=row_weights[members])
        level = np.average(values[members], weights=row_weights[members])
        centred_inputs[members] -= centre
        centred_values[members] -= level
        centres.append((centre, level))
    penalty = RIDGE * len(values) * np.eye(centred_inputs.shape[1])
    weighted = centred_inputs * row_weights[:, None]
    slopes = np.linalg.solve(weighted.T @ centred_inputs + penalty, weighted.T @ centred_values)
    rows = [np.concatenate([[level - centre @ slopes], slopes]) for centre, level in centres]
    return np.stack(rows)


def slopes_are_alike(errors: Float, shared_errors: Float, n_groups: int, slopes: int) -> bool:
    """Whether an F test does not reject the same coefficients in all groups.

    Parameters
    ----------
    errors, shared_errors : ndarray of float, shape (n,)
        Residuals with coefficients of each group, and with shared ones.
    n_groups, slopes : int

    Returns
    -------
    bool
    """
    from scipy.stats import f

    extra = (n_groups - 1) * slopes
    degrees = len(errors) - n_groups * (slopes + 1)
    squared_errors = float(errors @ errors)
    rise = max(float(shared_errors @ shared_errors) - squared_errors, 0.0)
    if squared_errors <= 1e-18 * max(float(shared_errors @ shared_errors), 1e-300) or degrees <= 0:
        return rise <= 0.0
    statistic = rise / extra / (squared_errors / degrees)
    return bool(f.sf(statistic, extra, degrees) >= SIMPLER)


def additive(values: Float, variances: Float, factors: Sequence[int]) -> Float:
    """Values of all combinations of groups, as sums of the attributes' effects.

    Parameters
    ----------
    values, variances : ndarray of float, shape (groups,)
        Estimates and their sampling variances.
    factors : sequence of int
        Number of groups of each attribute.

    Returns
    -------
    ndarray of float, shape (groups,)
        The values themselves with one attribute, or where a chi-squared test at the level .1
        rejects the sums.
    """
    from scipy.stats import chi2

    if len(factors) < 2:
        return values
    design = effects_design(factors)
    root = 1 / np.sqrt(variances)
    effects, *_ = np.linalg.lstsq(design * root[:, None], values * root, rcond=None)
    fitted = design @ effects
    distance = float(((values - fitted) ** 2 / variances).sum())
    if chi2.sf(distance, len(values) - design.shape[1]) < SIMPLER:
        return values
    return np.asarray(fitted)


def effects_design(factors: Sequence[int]) -> Float:
    """Design matrix of an intercept and the effect of each group but the first of an attribute.

    Parameters
    ----------
    factors : sequence of int

    Returns
    -------
    ndarray of float, shape (groups, 1 + sum(factors - 1))
    """
    positions = np.stack(np.unravel_index(np.arange(int(np.prod(factors))), tuple(factors)))
    columns = [np.ones(positions.shape[1])]
    for attribute, size in enumerate(factors):
        for group in range(1, size):
            columns.append((positions[attribute] == group).astype(np.float64))
    return np.column_stack(columns)


def with_one_location(fit: NumberFit) -> NumberFit:
    """The same intercept in all groups, if a chi-squared test at the level .1 does not reject it.

    Parameters
    ----------
    fit : NumberFit

    Returns
    -------
    NumberFit
        `fit` itself where groups differ or have coefficients of their own.
    """
    from scipy.stats import chi2

    if not fit.pooled:
        return fit
    sizes = np.array([len(residual) for residual in fit.residuals])
    precision = sizes / np.maximum(fit.scales, 1e-12) ** 2
    locations = fit.weights[:, 0]
    centre = float(np.average(locations, weights=precision))
    distance = float((precision * (locations - centre) ** 2).sum())
    if chi2.sf(distance, len(locations) - 1) < SIMPLER:
        return fit
    weights = fit.weights.copy()
    weights[:, 0] = centre
    residuals = []
    for group, residual in enumerate(fit.residuals):
        residuals.append(residual + locations[group] - centre)
    return NumberFit(weights, fit.scales, residuals, fit.pooled)


def with_intercept(inputs: Float) -> Float:
    """The inputs after a column of ones.

    Parameters
    ----------
    inputs : ndarray of float, shape (n, k)

    Returns
    -------
    ndarray of float, shape (n, 1 + k)
    """
    return np.concatenate([np.ones((len(inputs), 1)), inputs], axis=1)


def ridge(inputs: Float, values: Float, row_weights: Float | None = None) -> Float:
    """Coefficients of a ridge regression; the first column, the intercept, is not penalised.

    Parameters
    ----------
    inputs : ndarray of float, shape (n, k)
    values : ndarray of float, shape (n,)
    row_weights : ndarray of float, shape (n,), optional

    Returns
    -------
    ndarray of float, shape (k,)
    """
    penalty = RIDGE * len(inputs) * np.eye(inputs.shape[1])
    penalty[0, 0] = 0.0
    weighted = inputs if row_weights is None else inputs * row_weights[:, None]
    return np.asarray(np.linalg.solve(weighted.T @ inputs + penalty, weighted.T @ values))


def scale_ratio(target: float, source: float) -> float:
    """Ratio of two standard deviations; 1 where the source is constant.

    Parameters
    ----------
    target, source : float

    Returns
    -------
    float
    """
    return target / source if source > 0 else 1.0


def knots_of(residuals: Float, least: int = LEAST_PER_KNOT) -> Float:
    """Means of equally many sorted residuals.

    Parameters
    ----------
    residuals : ndarray of float, shape (n,)
    least : int
        Residuals in each mean, if there are so many.

    Returns
    -------
    ndarray of float, at most 40
        In rising order.
    """
    parts = np.array_split(np.sort(residuals), knot_count(len(residuals), least))
    return np.array([part.mean() for part in parts])


def knot_count(people: int, least: int) -> int:
    """Number of knots of a quantile function.

    Parameters
    ----------
    people : int
    least : int
        People behind each knot.

    Returns
    -------
    int
        From 1 to 40.
    """
    return max(min(people // least, MOST_KNOTS), 1)


def shares_of_knots(residuals: Float, row_weights: Float, least: int = LEAST_PER_KNOT) -> Float:
    """Cumulated share of the people up to the middle of each knot.

    Parameters
    ----------
    residuals, row_weights : ndarray of float, shape (n,)
    least : int
        People behind each knot.

    Returns
    -------
    ndarray of float in (0, 1), at most 40
        In rising order.
    """
    ordered = row_weights[np.argsort(residuals, kind="stable")]
    parts = np.array_split(ordered, knot_count(len(residuals), least))
    masses = np.array([part.sum() for part in parts])
    return np.asarray((np.cumsum(masses) - masses / 2) / masses.sum())
