r"""What a metric may be on unseen rows, by the counts of the validation rows.

A largest gap between groups is never below 0, so noise makes it larger: on few rows a model without
any gap has one. The metric of unseen rows is therefore not distributed around the value of the
validation rows, and a normal distribution states the chance of keeping a limit too high where
groups are small. Here the rates of the groups and then the unseen rows are drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from evenhand.fairlib.arrays import Float
from evenhand.fairlib.evaluation.evaluate import encode_sensitive
from evenhand.fairlib.evaluation.metrics import GROUP_METRICS, OVERALL_METRICS, Array
from evenhand.fairlib.evaluation.outcomes import Outcomes
from evenhand.fairlib.tuning.quantiles import LEVELS

DRAWS = 2000
PRIOR = 0.5
"""Rows that are added to each cell, as for Jeffreys' interval of a rate (Brown, Cai and DasGupta,
"Interval Estimation for a Binomial Proportion", Statistical Science 16, 2001): a rate of few rows
without a single error is not 0.
"""


def unseen_quantiles(
    outcomes: Outcomes,
    measured: Mapping[str, Mapping[str, Any]],
    names: Sequence[str],
    *,
    unseen: float,
    inflation: float,
    intersections: bool,
    rng: np.random.Generator,
) -> dict[str, list[float]]:
    r"""Return the quantiles of ``LEVELS`` of metrics on unseen rows.

    The shares of the cells of group, label and decision are drawn from their Dirichlet distribution
    given the validation rows, each of which counts for :math:`1 / inflation` rows. Then those of
    unseen rows are drawn from a multinomial distribution with these shares, and the metric is
    computed from them.

    Parameters
    ----------
    outcomes : Outcomes
        Of the validation rows, with two labels.
    measured : mapping
        Per metric that compares groups, ``measured``: the names of the groups that it compares.
    names : sequence of str
        Metrics; those that do not follow from counts of cells are left out.
    unseen : float
        Number of unseen rows over that of the validation rows.
    inflation : float
        By how much the variance of the metric is larger than that of so many validation rows, as
        thresholds are chosen anew.
    intersections : bool
        Whether the groups of pairs of attributes are compared too.
    rng : numpy.random.Generator
        Generator of the draws.

    Returns
    -------
    dict
        By metric.
    """
    group_names, codes = encode_sensitive(outcomes.sensitive, outcomes.groups, intersections)
    weight = 1.0
    if outcomes.people is not None and outcomes.counts_people:
        # the rows of a person are alike
        weight = len(np.unique(outcomes.people)) / outcomes.n
    quantiles: dict[str, list[float]] = {}
    drawn: dict[str, Array] = {}
    for name in names:
        attribute = name.partition(".")[2]
        function = _function_of(name, codes)
        if function is None:
            continue
        if attribute not in drawn:
            code, size = codes.get(attribute, (np.zeros(outcomes.n, dtype=np.int64), 1))
            counts = _cells(outcomes, code, size)
            drawn[attribute] = _drawn_cells(counts, unseen, inflation, weight, rng)
        positions = [0]
        if attribute:
            compared = measured.get(name, {}).get("measured", ())
            positions = _positions(group_names[attribute], compared)
            if len(positions) < 2:
                continue
        values = _values_of(function, drawn[attribute], positions, by_group=bool(attribute))
        if len(values) >= DRAWS / 2:
            quantiles[name] = [float(value) for value in np.quantile(values, LEVELS)]
    return quantiles


def _function_of(name: str, codes: Mapping[str, Any]) -> Callable[[Array], Float] | None:
    """What computes a metric from cells; None for one that does not follow from them."""
    kind, _, attribute = name.partition(".")
    if kind in OVERALL_METRICS and not attribute:
        return OVERALL_METRICS[kind].function
    if kind in GROUP_METRICS and attribute in codes:
        return GROUP_METRICS[kind].function
    return None


def _positions(names: Sequence[str], compared: Sequence[str]) -> list[int]:
    """Places of the compared groups among all."""
    return [place for place, group in enumerate(names) if group in compared]


def _values_of(
    function: Callable[[Array], Float], cells: Array, positions: Sequence[int], *, by_group: bool
) -> Float:
    """The finite values of a metric of drawn cells."""
    if by_group:
        values = function(cells[:, positions])
    else:
        values = function(cells[:, 0])
    return np.asarray(values[np.isfinite(values)])


def _cells(outcomes: Outcomes, code: Array, size: int) -> Float:
    """Rows by group, label and decision, shape (K, 2, 2); label 1 is the favourable one."""
    y_true = outcomes.y_true
    y_pred = outcomes.y_pred
    if outcomes.favourable == 0:
        y_true = 1 - y_true
        y_pred = 1 - y_pred
    cell = (code * 2 + y_true) * 2 + y_pred
    return np.bincount(cell, minlength=4 * size).reshape(size, 2, 2).astype(np.float64)


def _drawn_cells(
    counts: Float, unseen: float, inflation: float, weight: float, rng: np.random.Generator
) -> Array:
    """Draw cells of unseen rows, shape (draws, K, 2, 2)."""
    rows = counts.sum() * weight
    shares = rng.dirichlet(counts.ravel() * weight / inflation + PRIOR, size=DRAWS)
    cells = rng.multinomial(max(1, round(rows * unseen)), shares)
    return cells.reshape(DRAWS, *counts.shape)
