r"""Paired bootstrap of the difference of two AUCs, whose cost does not grow with the number of rows.

The AUC is the mean over pairs of a positive row i and a negative row j of :math:`h_{ij}`, which is 1 where
i scores above j, 1/2 where they tie, else 0. Its *placements* are the row means
:math:`\tfrac1{n_0} \sum_j h_{ij}` and the column means :math:`\tfrac1{n_1} \sum_i h_{ij}`; both average to
the AUC. DeLong, DeLong and Clarke-Pearson, "Comparing the Areas under Two or More Correlated Receiver
Operating Characteristic Curves", Biometrics 44 (1988), compare two AUCs by the placements' differences. This
module resamples the differences instead of using a normal approximation.
"""

from __future__ import annotations

import numpy as np

from evenhand.fairlib.arrays import Float, Int
from evenhand.fairlib.evaluation.bootstrap import CellSum, distinct_rows, multinomial_chunks
from evenhand.fairlib.evaluation.metrics import auc, ratio

MAX_ATOMS = 5_000
"""Distinct (score, baseline's score, label) up to which rows are resampled exactly."""

PLACEMENT_BINS = 10_000
"""Bins of equal width for the placements' differences, per label."""


def paired_auc_draws(
    y_true: Int,
    score: Float,
    baseline_score: Float,
    draws: int,
    rng: np.random.Generator,
    *,
    max_atoms: int = MAX_ATOMS,
) -> Float:
    r"""Bootstrap the AUC of a model less that of a baseline, resampling rows with both their scores.

    Labels 0 and 1, and both scores, have the shape (n,). Draws, generator and bytes are those of
    :func:`evenhand.fairlib.evaluation.bootstrap.multinomial_chunks`. The result has the shape (draws,), with
    NaN in draws without a positive or without a negative row.

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
    model, baseline = (np.unique(column, return_inverse=True)[1] for column in (score, baseline_score))
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
