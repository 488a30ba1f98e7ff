"""Two models on the same rows: the difference of every metric, with an interval from a paired bootstrap.

Each draw resamples the rows once, for both models, so the variation that both models share cancels in the
difference. The interval is therefore narrower than two separate intervals would suggest: Efron and
Tibshirani, "An Introduction to the Bootstrap" (1993), chapter 8, on resampling the units that were observed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from evenhand.fairlib.arrays import Float, Int
from evenhand.fairlib.evaluation.bootstrap import (
    CellSum,
    JointTable,
    distinct_rows,
    multinomial_chunks,
    score_bins,
    score_table,
)
from evenhand.fairlib.evaluation.evaluate import (
    MetricValue,
    check_settings,
    encode_sensitive,
    estimates,
    find_shortages,
    metric_values,
    reading_json,
    resample_metrics,
)
from evenhand.fairlib.evaluation.metrics import Array, auc, ratio
from evenhand.fairlib.evaluation.outcomes import Outcomes
from evenhand.fairlib.evaluation.probabilities import (
    centred,
    ece_shortage,
    probability_draws,
    probability_values,
)
from evenhand.fairlib.execution import generator


@dataclass(frozen=True)
class Comparison:
    """Differences between a model and a baseline on the same rows."""

    differences: Mapping[str, MetricValue]  # flat metric name to model less baseline, in reading order
    n: int
    # ``draws``, ``level``, ``min_cell``, ``seed`` and ``intersections`` that were used
    settings: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Give the comparison as plain JSON types, without NaN; ``from_json`` reads it."""
        whole = asdict(self)
        return {key: whole[key] for key in ("n", "settings", "differences")}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Comparison:
        """Read the result of ``to_json``.
        ValueError if a part is missing or a difference is malformed.
        """
        with reading_json("comparison"):
            differences = {name: MetricValue(**found) for name, found in data["differences"].items()}
            return cls(differences, int(data["n"]), dict(data.get("settings", {})))


def compare(
    outcomes: Outcomes,
    baseline: Outcomes,
    *,
    draws: int = 1000,
    level: float = 0.95,
    min_cell: int = 5,
    seed: int = 0,
    intersections: bool = False,
) -> Comparison:
    r"""Measure the difference between a model and a baseline on the same rows, metric by metric.

    .. math:: \Delta = m(\mathrm{model}) - m(\mathrm{baseline}), \qquad
              \left[ q_{\alpha / 2}(\Delta^*),\; q_{1 - \alpha / 2}(\Delta^*) \right],\quad
              \alpha = 1 - \mathrm{level}

    with the quantiles of :math:`\Delta^*` over draws that resample each row with both its predictions, both
    its scores and both its flags of consistency; widened to contain :math:`\Delta`.

    The `baseline` has the same rows in the same order; the other arguments are those of
    :func:`evenhand.fairlib.evaluation.evaluate.evaluate`. The result has every metric that both sides have:
    all but the consistency of copies that one of them lacks. A metric that is insufficient for either side is
    insufficient here. ValueError: rows that differ (in number, labels or sensitive columns), an argument out
    of its range, an ambiguous intersection.

    The interval shows whether the difference could be due to the sample, given the two models as they are; it
    says nothing about training them again. A largest difference between groups is never negative, and the
    resampled one is biased upwards, so its interval is conservative where both models treat groups nearly
    alike. :func:`evenhand.fairlib.evaluation.paired.paired_auc_draws` bounds the error of the AUC's
    draws; the AUC's point estimate is exact.
    """
    check_settings(draws, level, min_cell)
    _check_same_rows(outcomes, baseline)
    # A group that either side knows of is missing for both.
    groups = {
        name: (*outcomes.groups.get(name, ()), *baseline.groups.get(name, ())) for name in outcomes.sensitive
    }
    _, codes = encode_sensitive(outcomes.sensitive, groups, intersections)
    both = (outcomes, baseline)
    copies = [name for name in outcomes.consistent if name in baseline.consistent]
    flags = [{name: side.consistent[name] for name in copies} for side in both]
    classes = outcomes.classes
    predicted = [side.y_pred for side in both]
    table = JointTable(outcomes.y_true, predicted, codes, flags, classes=classes)

    counts = table.counts(table.weights)
    first, second = (metric_values(side) for side in counts)
    if not classes:
        first["auc"], second["auc"] = (auc(*score_table(side.y_true, side.ranks)) for side in both)
    first, second = (
        values | probability_values(side, codes) for values, side in zip((first, second), both, strict=True)
    )
    # The cells that must not be short are of labels and groups, which both sides share.
    shortages = find_shortages(counts[0], min_cell)
    if not classes:
        shortages["ece"] = (
            shortages["ece"] or ece_shortage(outcomes, min_cell) or ece_shortage(baseline, min_cell)
        )

    model, other = resample_metrics(table, draws, generator(seed, "paired bootstrap", "cells"))
    resampled = {name: values - other[name] for name, values in model.items()}
    if draws and not classes and not shortages["auc"]:
        rng = generator(seed, "paired bootstrap", "auc")
        resampled["auc"] = paired_auc_draws(outcomes.y_true, outcomes.ranks, baseline.ranks, draws, rng)
    point = {name: first[name] - second[name] for name in first}
    if draws:
        rng = generator(seed, "paired bootstrap", "probabilities")
        drawn, drawn_of_other = probability_draws(both, codes, draws, rng)
        resampled |= {name: values - drawn_of_other[name] for name, values in drawn.items()}
        if not classes:
            resampled["ece"] = centred(resampled["ece"], float(point["ece"]))
    return Comparison(
        estimates(point, shortages, resampled, level),
        table.n,
        {"draws": draws, "level": level, "min_cell": min_cell, "seed": seed, "intersections": intersections},
    )


def _check_same_rows(outcomes: Outcomes, baseline: Outcomes) -> None:
    cure = "evaluate both models on the same rows, in the same order"
    if baseline.n != outcomes.n:
        raise ValueError(f"baseline: got {baseline.n} rows, expected {outcomes.n} as the model's; {cure}")
    if set(baseline.sensitive) != set(outcomes.sensitive):
        raise ValueError(
            f"baseline: got the sensitive columns {sorted(baseline.sensitive)}, "
            f"expected {sorted(outcomes.sensitive)} as the model's; {cure}"
        )
    pairs: dict[str, tuple[Any, Any]] = {"labels": (outcomes.y_true, baseline.y_true)}
    pairs |= {
        f"groups of {name!r}": (column, baseline.sensitive[name])
        for name, column in outcomes.sensitive.items()
    }
    for what, (own, other) in pairs.items():
        if differing := int(np.sum(own != other)):
            raise ValueError(
                f"baseline: {differing} of {outcomes.n} {what} differ from the model's rows; {cure}"
            )


MAX_ATOMS = 5_000
"""Distinct (score, baseline's score, label) up to which rows are resampled exactly."""

PLACEMENT_BINS = 10_000
"""Bins of equal width for the placements' differences, per label."""


def paired_auc_draws(
    y_true: Int,
    score: Array,
    baseline_score: Array,
    draws: int,
    rng: np.random.Generator,
    *,
    max_atoms: int = MAX_ATOMS,
) -> Float:
    r"""Bootstrap the AUC of a model less that of a baseline, resampling rows with both their scores.

    Labels 0 and 1, and both scores, have the shape (n,); integers are ranks already. Draws, generator and
    bytes are those of :func:`evenhand.fairlib.evaluation.bootstrap.multinomial_chunks`. The result has the
    shape (draws,), with NaN in draws without a positive or without a negative row.

    Up to ``max_atoms`` distinct combinations of both scores and label the draws are those of resampled rows.
    With more, placements are resampled: with
    :math:`d_{ij}` the model's :math:`h_{ij}` less the baseline's, :math:`D_i` and :math:`E_j` its row and
    column means and :math:`\delta` its mean, a draw is

    .. math:: \frac1{n_1^*} \sum_i w_i D_i + \frac1{n_0^*} \sum_j w_j E_j - \delta

    for weights w of the rows, :math:`n_1^*` of them on positives and :math:`n_0^*` on negatives. The draw
    omits the mean of :math:`r_{ij} = d_{ij} - D_i - E_j + \delta` over the resampled pairs. All row and
    column means of r are zero, so given :math:`n_1^*` and :math:`n_0^*` the omitted part has mean zero, is
    uncorrelated with the draw, and has the variance

    .. math:: \frac{1}{n_1^* n_0^*} \, \frac{1}{n_1 n_0} \sum_{ij} r_{ij}^2 \le \frac{q}{n_1^* n_0^*} ,

    q being the share of pairs that the two models order differently. On 10,000 rows, a tenth of them
    positive and q = 0.1, that is a standard deviation of 0.00011 at most; it falls with n, the standard error
    of the difference only with its root.

    Equal placements' differences share an atom; where they have more than ``PLACEMENT_BINS`` values, the mean
    of their bin replaces them. For a label with m rows this removes at most the share
    :math:`m / (2 \cdot \mathrm{PLACEMENT\_BINS}^2)` of their variance, 0.5 % for a million rows: a bin
    removes at most a quarter of its squared width per row, and the two extreme values alone give half the
    squared range.
    """
    model, baseline = (score_bins(column) for column in (score, baseline_score))
    row_of_atom, weights = distinct_rows(
        [(model, int(model.max()) + 1), (baseline, int(baseline.max()) + 1), (y_true, 2)]
    )
    if len(weights) > max_atoms:
        return _placement_draws(y_true, model, baseline, draws, rng)
    # Atoms of (rank, baseline's rank, label), summed into a table of (rank, label) per model.
    label = y_true[row_of_atom]
    ranks = [column[row_of_atom] for column in (model, baseline)]
    sums = [CellSum(rank * 2 + label, 2 * (int(rank.max()) + 1)) for rank in ranks]
    values = [np.empty(0)]
    for drawn in multinomial_chunks(weights, draws, rng):
        tables = [total(drawn).reshape(len(drawn), -1, 2) for total in sums]
        first, second = (auc(table[..., 1], table[..., 0]) for table in tables)
        values.append(first - second)
    return np.concatenate(values)


def _placement_draws(y_true: Int, model: Int, baseline: Int, draws: int, rng: np.random.Generator) -> Float:
    """Draws from the placements' differences; scores are given as ranks from 0, ties sharing one."""
    # D_i and E_j as whole numbers: twice the differences of the placements, before the division.
    n_positive = int(y_true.sum())
    n_negative = len(y_true) - n_positive
    difference = _placements(y_true, model) - _placements(y_true, baseline)
    pairs = 2.0 * n_positive * n_negative
    point = int(difference[y_true == 1].sum()) / pairs
    means, weights = zip(*(_bin_means(difference[y_true == label]) for label in (1, 0)), strict=True)
    split = len(weights[0])  # atoms of positives come first
    values = [np.empty(0)]
    for drawn in multinomial_chunks(np.concatenate(weights), draws, rng):
        positive, negative = drawn[:, :split], drawn[:, split:]
        values.append(
            ratio((positive * means[0]).sum(axis=1), 2.0 * n_negative * positive.sum(axis=1))
            + ratio((negative * means[1]).sum(axis=1), 2.0 * n_positive * negative.sum(axis=1))
            - point
        )
    return np.concatenate(values)


def _placements(y_true: Int, rank: Int) -> Int:
    """Twice the number of rows of the other label that a row is ranked correctly against, ties half."""
    n_ranks = int(rank.max()) + 1
    negatives, positives = np.bincount(rank + n_ranks * y_true, minlength=2 * n_ranks).reshape(2, n_ranks)
    below = 2 * np.cumsum(negatives) - negatives
    above = 2 * (positives.sum() - np.cumsum(positives)) + positives
    # Sums of whole numbers are exact, so that the order of the rows does not matter.
    return np.where(y_true == 1, below[rank], above[rank])


def _bin_means(values: Int) -> tuple[Float, Int]:
    """Mean and row count of every bin of equal width that holds a row."""
    above = values - values.min()
    width = int(above.max()) + 1
    bins = above * PLACEMENT_BINS // width if width > PLACEMENT_BINS else above
    counts = np.bincount(bins)
    present = np.flatnonzero(counts)
    # A float's 53 bits hold these sums exactly up to sixty million rows.
    totals = np.bincount(bins, weights=above)[present]
    return totals / counts[present] + float(values.min()), counts[present].astype(np.int64)
