r"""What a metric may be on unseen rows, by the counts of the validation rows.

A largest gap between groups is never below 0, so noise makes it larger: on few rows a model without
any gap has one. The metric of unseen rows is therefore not distributed around the value of the
validation rows, and a normal distribution states the chance of keeping a limit too high where
groups are small. Here the rates of the groups and then the unseen rows are drawn.

Thresholds by group need more than that. They are chosen so that the validation rows have about the
gap that is allowed. So the noise of these rows is not in the gap, where it could be seen, but in
the thresholds. Its effect is measured: the thresholds are chosen again on random halves of the
validation rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenhand.fairlib.arrays import Bool, Float, Int
from evenhand.fairlib.evaluation.evaluate import encode_sensitive
from evenhand.fairlib.evaluation.group_selection import needed_rows
from evenhand.fairlib.evaluation.metrics import (
    GROUP_METRICS,
    OVERALL_METRICS,
    Array,
    Metric,
    Needs,
)
from evenhand.fairlib.evaluation.outcomes import Outcomes
from evenhand.fairlib.tuning.quantiles import LEVELS

CALIBRATION_GAP = "calibration_gap"
DRAWS = 2000
PRIOR = 0.5
"""Rows that are added to each cell, as for Jeffreys' interval of a rate (Brown, Cai and DasGupta,
"Interval Estimation for a Binomial Proportion", Statistical Science 16, 2001): a rate of few rows
without a single error is not 0.
"""


@dataclass(frozen=True, eq=False)
class HalfChoice:
    """Decisions about all validation rows by a rule that was chosen on a half of them.

    Parameters
    ----------
    is_half : ndarray of bool, shape (n,)
        Whether a row is in the half.
    y_pred : ndarray of int, shape (n,)
    """

    is_half: Bool
    y_pred: Int


def unseen_quantiles(
    outcomes: Outcomes,
    measured: Mapping[str, Mapping[str, Any]],
    names: Sequence[str],
    *,
    unseen: float,
    inflation: float = 1.0,
    choices: Sequence[HalfChoice] = (),
    intersections: bool,
    min_cell: int = 1,
    rng: np.random.Generator,
) -> dict[str, list[float]]:
    r"""Return the quantiles of ``LEVELS`` of metrics on unseen rows.

    The shares of the cells of group, label and decision are drawn: from their Dirichlet
    distribution given the validation rows, each of which counts for :math:`1 / inflation` rows.
    Then the unseen rows are drawn from a multinomial distribution with these shares, and the metric
    is computed from them: of the groups that have enough of the drawn rows, as on real ones.

    With `choices` the shares are drawn from a t-distribution about those of the validation rows,
    with a degree of freedom for each two choices. A rule that is chosen on the half :math:`A` has
    the shares :math:`s_A` on it and :math:`s_B` on the other half, and the covariance is estimated
    by the mean of the products of :math:`(s_B - s_A) / 2`. A difference of halves of n rows has
    four times the variance of a difference between n rows and the population: so it is with the
    rates of a fixed rule, and with those of one whose choice makes :math:`s_A` what it is.

    Parameters
    ----------
    outcomes : Outcomes
        Of the validation rows, with two labels.
    measured : mapping
        Per metric that compares groups, ``measured``: the names of the groups that it compares.
    names : sequence of str
        Metrics; left out are those that neither follow from counts of cells nor are
        ``calibration_gap``, whose mean residuals are drawn.
    unseen : float
        Number of unseen rows over that of the validation rows.
    inflation : float, default 1
        By how much the variance of the metric is larger than that of so many validation rows.
    choices : sequence of HalfChoice, default ()
        Of a rule that was chosen on the validation rows; `inflation` is not used then.
    intersections : bool
        Whether the groups of pairs of attributes are compared too.
    min_cell : int, default 1
        Fewest unseen rows, or people, in every cell of a group that a metric needs. Where fewer
        than two groups have as many, the metric has no value; one that has none in half of the
        draws has no quantiles.
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
    # its draws do not depend on those of decisions
    calibration_rng = rng.spawn(1)[0]
    quantiles: dict[str, list[float]] = {}
    drawn: dict[str, Array] = {}
    for name in names:
        kind, _, attribute = name.partition(".")
        compared = measured.get(name, {}).get("measured", ())
        positions = _positions(group_names.get(attribute, ()), compared)
        metric = _metric_of(name, codes)
        if attribute and len(positions) < 2:
            continue
        if kind == CALIBRATION_GAP and attribute in codes:
            code, size = codes[attribute]
            rows = np.bincount(code, minlength=size).astype(np.float64) * weight
            values = _drawn_calibration_gaps(
                outcomes,
                code,
                rows,
                positions,
                unseen=unseen,
                min_cell=min_cell,
                rng=calibration_rng,
            )
        elif metric is None:
            continue
        else:
            if attribute not in drawn:
                code, size = codes.get(attribute, (np.zeros(outcomes.n, dtype=np.int64), 1))
                counts = _cells(outcomes, outcomes.y_pred, code, size)
                shares = _drawn_shares(counts, inflation, weight, rng)
                if choices:
                    differences = _differences(outcomes, choices, code, size)
                    shares = _moved_shares(counts, differences, rng)
                number = max(1, round(outcomes.n * weight * unseen))
                drawn[attribute] = rng.multinomial(number, shares).reshape(DRAWS, *counts.shape)
            cells = drawn[attribute]
            if attribute:
                cells = _of_large_groups(cells[:, positions], metric.needs, min_cell)
                values = metric.function(cells)
            else:
                values = metric.function(cells[:, 0])
        values = values[np.isfinite(values)]
        if len(values) >= DRAWS / 2:
            quantiles[name] = [float(value) for value in np.quantile(values, LEVELS)]
    return quantiles


def _drawn_calibration_gaps(
    outcomes: Outcomes,
    group: Array,
    rows: Float,
    compared: Sequence[int],
    *,
    unseen: float,
    min_cell: int,
    rng: np.random.Generator,
) -> Float:
    r"""Draws of the largest difference between groups of the mean residual :math:`p - y` on unseen
    rows, shape (draws,) or fewer.

    The numbers of unseen rows of the groups, :math:`m_g`, are drawn. The mean of a group's unseen
    rows is about that of its :math:`n_g` validation rows, with the variance
    :math:`s_g^2 (1 / n_g + 1 / m_g)` and the tails of a t-distribution. Draws in which fewer than
    two groups have `min_cell` rows are left out.
    """
    residual = outcomes.score - outcomes.y_true
    number = max(1, round(rows.sum() * unseen))
    unseen_rows = rng.multinomial(number, rows / rows.sum(), size=DRAWS)
    smallest = np.full(DRAWS, np.inf)
    largest = np.full(DRAWS, -np.inf)
    comparable = np.zeros(DRAWS, dtype=np.int64)
    for place in compared:
        in_group = residual[group == place]
        enough = unseen_rows[:, place] >= max(min_cell, 1)
        comparable += enough
        spread = 1.0  # of a single residual nothing is known
        if len(in_group) > 1:
            spread = float(np.std(in_group, ddof=1))
        variance = 1.0 / rows[place] + 1.0 / np.maximum(unseen_rows[:, place], 1)
        noise = rng.standard_t(max(rows[place] - 1.0, 1.0), size=DRAWS)
        means = in_group.mean() + spread * np.sqrt(variance) * noise
        smallest = np.where(enough, np.minimum(smallest, means), smallest)
        largest = np.where(enough, np.maximum(largest, means), largest)
    is_comparable = comparable >= 2
    gaps: Float = largest[is_comparable] - smallest[is_comparable]
    return gaps


def _metric_of(name: str, codes: Mapping[str, Any]) -> Metric | None:
    """The metric of that name if it is computed from cells; None for one that is not."""
    kind, _, attribute = name.partition(".")
    if kind in OVERALL_METRICS and not attribute:
        return OVERALL_METRICS[kind]
    if kind in GROUP_METRICS and attribute in codes:
        return GROUP_METRICS[kind]
    return None


def _positions(names: Sequence[str], compared: Sequence[str]) -> list[int]:
    """Places of the compared groups among all."""
    return [place for place, group in enumerate(names) if group in compared]


def _of_large_groups(cells: Array, needs: Needs, min_cell: int) -> Array:
    """The draws in which two groups or more have enough rows, without groups that have too few.

    Such a group gets the cells of one that has enough: metrics of groups compare the largest and
    the smallest rate, and a copy changes neither.
    """
    rows_by_label = cells.sum(axis=-1)
    needed = needed_rows(rows_by_label.sum(axis=-1), rows_by_label, needs)
    enough: Bool = np.all(needed >= min_cell, axis=-1)
    is_comparable = enough.sum(axis=-1) >= 2
    cells, enough = cells[is_comparable], enough[is_comparable]
    first_large = np.argmax(enough, axis=-1)[:, np.newaxis]
    places = np.where(enough, np.arange(enough.shape[-1]), first_large)
    return np.take_along_axis(cells, places[..., np.newaxis, np.newaxis], axis=1)


def _cells(outcomes: Outcomes, y_pred: Array, code: Array, size: int) -> Float:
    """Rows by group, label and decision, shape (K, 2, 2); label 1 is the favourable one."""
    y_true = outcomes.y_true
    if outcomes.favourable == 0:
        y_true = 1 - y_true
        y_pred = 1 - y_pred
    cell = (code * 2 + y_true) * 2 + y_pred
    return np.bincount(cell, minlength=4 * size).reshape(size, 2, 2).astype(np.float64)


def _drawn_shares(
    counts: Float, inflation: float, weight: float, rng: np.random.Generator
) -> Float:
    """Shares of cells under a rule that does not depend on the rows, shape (draws, 4K)."""
    return rng.dirichlet(counts.ravel() * weight / inflation + PRIOR, size=DRAWS)


def _differences(
    outcomes: Outcomes, choices: Sequence[HalfChoice], code: Array, size: int
) -> Float:
    """Half the differences of the shares of cells between the other half and that of each choice,
    shape (B, 4K).
    """
    differences = []
    for choice in choices:
        cells = _cells(outcomes, choice.y_pred, code, size).ravel()
        # the rows of the half, counted by making a cell for each half
        of_half = _cells(outcomes, choice.y_pred, code + size * choice.is_half, 2 * size)
        in_half = of_half.ravel()[4 * size :]
        in_other = cells - in_half
        differences.append((in_other / in_other.sum() - in_half / in_half.sum()) / 2)
    return np.array(differences)


def _moved_shares(counts: Float, differences: Float, rng: np.random.Generator) -> Float:
    """Shares of cells under a rule that was chosen on the rows, shape (draws, 4K)."""
    weights = rng.normal(size=(DRAWS, len(differences))) / np.sqrt(len(differences))
    # both halves of a division are alike
    degrees = max(1.0, len(differences) / 2)
    weights /= np.sqrt(rng.chisquare(degrees, size=(DRAWS, 1)) / degrees)
    rows = counts.sum()
    moved = counts.ravel() + rows * (weights @ differences)
    moved = np.maximum(moved, 0.0) + PRIOR
    return np.asarray(moved / moved.sum(axis=1, keepdims=True))
