r"""Metrics of predicted probabilities: log loss, Brier score and calibration, with bootstrap draws.

Every metric here is a function of sums over rows, so a bootstrap draw is a weighted sum. Tables of
more than ``MAX_BLOCKS`` rows (or people) are divided at random into that many blocks, and blocks
are resampled. The sums of a block keep each row's value exactly. The variance of a resampled sum
has the right expectation, with a relative standard deviation of :math:`\sqrt{2 /
\mathrm{MAX\_BLOCKS}}`, 2 %.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenhand.fairlib.arrays import Bool, Float, Int
from evenhand.fairlib.evaluation.bootstrap import (
    MAX_BLOCKS,
    Codes,
    dealt,
    joint_code,
    multinomial_chunks,
    score_bins,
    weight_column,
)
from evenhand.fairlib.evaluation.closed_intervals import (
    Estimates,
    corrected_level,
    exact_interval,
    largest_difference,
    pairs_of,
    rate_interval,
)
from evenhand.fairlib.evaluation.effective_rows import cell_means, effective_number
from evenhand.fairlib.evaluation.metrics import ratio, spread_of_defined
from evenhand.fairlib.evaluation.outcomes import Outcomes, encode_groups
from evenhand.fairlib.numerics import log_losses
from evenhand.fairlib.parameters import check_sample_weight

ECE_BINS = 10
PART_ROWS = 1 << 18
OVERALL = ("log_loss", "log_loss_gain", "brier", "ece")
"""Metrics of the table as a whole, in reading order; ``calibration_gap`` is per sensitive
attribute.

Of more than two labels there is the log loss alone."""


def probability_values(
    outcomes: Outcomes,
    codes: Codes,
    sample_weight: ArrayLike | None = None,
    compared: Mapping[str, Int] | None = None,
) -> dict[str, Float]:
    """Compute every metric of the probabilities by name, each of shape (); `codes` as in
    ``JointTable``.

    Parameters
    ----------
    outcomes : Outcomes
        Rows of an evaluation.
    codes : mapping
        Groups of the rows by attribute, as in ``JointTable``.
    sample_weight : array-like, shape (n,), optional
        Weights of the rows, checked by :func:`evenhand.fairlib.parameters.check_sample_weight`.
    compared : mapping, optional
        Positions of each attribute's groups that the calibration gap is of; default: all.

    Returns
    -------
    dict
        Name to value.
    """
    weights = check_sample_weight(sample_weight, outcomes.n)
    # float sums depend on the order of their terms, and must not depend on that of the rows
    rows = _Sums(outcomes, codes, weights, compared)
    keys: list[Float | Int] = [outcomes.y_true, outcomes.ranks]
    if weights is not None:
        keys.insert(0, weights)
    order = np.lexsort(keys)
    return rows.metrics(rows.table(order, np.zeros(outcomes.n, dtype=np.int64), 1)[0])


def probability_draws(
    sides: Sequence[Outcomes],
    codes: Codes,
    draws: int,
    rng: np.random.Generator,
    *,
    sample_weight: ArrayLike | None = None,
    compared: Mapping[str, Int] | None = None,
    max_blocks: int = MAX_BLOCKS,
) -> list[dict[str, Float]]:
    """Bootstrap every metric of the probabilities of one or more models on the same rows.

    `sides` are the models' outcomes with the same labels; a draw resamples all models alike, and a
    drawn row brings its weight, and those of one person are drawn together. `codes` are as in
    ``JointTable``; draws, generator and bytes as in ``multinomial_chunks``. With more than
    `max_blocks` rows (or people), random blocks of them are resampled.

    Parameters
    ----------
    sides : sequence of Outcomes
        The models' outcomes, with the same labels. A draw resamples all models alike.
    codes : mapping
        Groups of the rows by attribute, as in ``JointTable``.
    draws : int
        Number of draws.
    rng : np.random.Generator
        Generator of the draws.
    sample_weight : array-like, shape (n,), optional
        Weights of the rows, checked by :func:`evenhand.fairlib.parameters.check_sample_weight`.
    compared : mapping, optional
        Positions of each attribute's groups that the calibration gap is of; default: all.
    max_blocks : int, default MAX_BLOCKS
        With more rows (or people), random blocks of them are resampled.

    Returns
    -------
    list of dict
        Per model, metric name to values, shape (draws,). The calibration gap of a draw is of the
        groups that it has, NaN with fewer than two. The bins of the calibration error stay those of
        all rows.
    """
    from scipy.sparse import csr_array

    n = sides[0].n
    rows_weight = check_sample_weight(sample_weight, n)
    models = [_Sums(side, codes, rows_weight, compared) for side in sides]
    labels = (sides[0].y_true, len(sides[0].classes) or 2)
    columns = [(side.ranks, int(side.ranks.max()) + 1) for side in sides]
    columns += [labels, *codes.values(), *weight_column(rows_weight)]
    order = np.argsort(joint_code(columns), kind="stable")
    if sides[0].people is None:
        block, n_blocks = dealt(np.arange(n), rng, max_blocks)
    else:
        block, n_blocks = dealt(sides[0].people[order], rng, max_blocks)
    # a sparse product adds the blocks one after another: the draws do not depend on chunks or
    # threads
    tables = [csr_array(rows.table(order, block, n_blocks).T) for rows in models]
    chunks: list[dict[str, list[Float]]] = [{} for _ in sides]
    for weights in multinomial_chunks(np.ones(n_blocks, dtype=np.int64), draws, rng):
        columnwise = np.ascontiguousarray(weights.T, dtype=np.float64)
        for values, rows, table in zip(chunks, models, tables, strict=True):
            for name, column in rows.metrics((table @ columnwise).T).items():
                values.setdefault(name, []).append(column)
    result = []
    for values in chunks:
        result.append({name: np.concatenate(parts) for name, parts in values.items()})
    return result


def centred(draws: Float, point: float) -> Float:
    """Shift draws so that their mean is the point estimate.

    The calibration error takes absolute values, so resampling adds to it what the point estimate
    leaves out: without the shift, the interval of a calibrated model would lie above its estimate.

    Parameters
    ----------
    draws : ndarray of float64, shape (draws,)
        Values of a metric.
    point : float
        Point estimate.

    Returns
    -------
    ndarray of float64, shape (draws,)
        Shifted draws.
    """
    return draws - draws.mean() + point


def ece_shortage(outcomes: Outcomes, min_cell: int, sample_weight: ArrayLike | None = None) -> str:
    """Say why there are too few rows for the bins of the calibration error; empty if there are
    enough.

    Parameters
    ----------
    outcomes : Outcomes
        Rows of an evaluation.
    min_cell : int
        Fewest rows per bin, on average.
    sample_weight : array-like, shape (n,), optional
        Weights of the rows, checked by :func:`evenhand.fairlib.parameters.check_sample_weight`.

    Returns
    -------
    str
        A sentence, or "".
    """
    weights = check_sample_weight(sample_weight, outcomes.n)
    code = score_bins(outcomes.ranks, ECE_BINS, weights)
    if weights is not None:
        code = code[weights > 0]
    n = len(code)
    bins = np.count_nonzero(np.bincount(code))
    if n >= bins * min_cell:
        return ""
    return f"the table: {n} rows in {bins} bins of scores, fewer than {min_cell} per bin on average"


class _Sums:
    """Sums over blocks of rows, taken in a given order, and the metrics that follow from them."""

    def __init__(
        self,
        outcomes: Outcomes,
        codes: Codes,
        sample_weight: Float | None = None,
        compared: Mapping[str, Int] | None = None,
    ) -> None:
        self.outcomes = outcomes
        self.codes = codes
        self.weight = sample_weight
        self.compared = compared or {}
        if outcomes.classes:
            self.sizes = [1, 1]
            return
        self.bins = score_bins(outcomes.ranks, ECE_BINS, sample_weight)
        n_bins = int(self.bins.max()) + 1
        sizes = [1, 1, 1, 1, n_bins, n_bins]
        for _, size in codes.values():
            sizes += [size, size]
        self.sizes = sizes

    def _columns(self, rows: Int) -> Iterator[tuple[NDArray[np.signedinteger[Any]] | int, Float]]:
        """Give, for some rows, the cell of every row and its value, in the order of `sizes`."""
        p = self.outcomes.score[rows]
        y = self.outcomes.y_true[rows]
        if self.outcomes.classes:
            yield 0, np.ones(len(rows))
            yield 0, log_losses(p[np.arange(len(rows)), y][:, None])[0]
            return
        ones = np.ones(len(rows))
        residual = p - y
        yield 0, ones
        yield 0, y.astype(np.float64)
        yield 0, log_losses(np.where(y == 1, p, 1.0 - p)[:, None])[0]
        yield 0, residual**2
        yield self.bins[rows], residual
        yield self.bins[rows], p * (1.0 - p)
        for code, _ in self.codes.values():
            yield code[rows], ones
            yield code[rows], residual

    def table(self, order: Int, block: Int, n_blocks: int) -> Float:
        """Sums per block, one column per cell of every value.

        Parameters
        ----------
        order : ndarray of int, shape (n,)
            The rows one after another.
        block : ndarray of int, shape (n,)
            The block of each of these.
        n_blocks : int

        Returns
        -------
        ndarray of float, shape (n_blocks, C)
        """
        total = np.zeros((n_blocks, sum(self.sizes)))
        # a part of the rows at a time: every value of all rows would be many times the table
        for start in range(0, len(order), PART_ROWS):
            rows = order[start : start + PART_ROWS]
            blocks = block[start : start + PART_ROWS]
            weight = 1.0 if self.weight is None else self.weight[rows]
            parts = [
                np.bincount(blocks * size + cell, values * weight, n_blocks * size).reshape(
                    -1, size
                )
                for size, (cell, values) in zip(self.sizes, self._columns(rows), strict=True)
            ]
            total += np.concatenate(parts, axis=1)
        return total

    def metrics(self, sums: Float) -> dict[str, Float]:
        """Metrics from sums.

        Parameters
        ----------
        sums : ndarray of float, shape (..., C)
            As :meth:`table` gives them.

        Returns
        -------
        dict of str to ndarray of float, shape (...)
        """
        from scipy.special import entr

        parts = np.split(sums, np.cumsum(self.sizes)[:-1], axis=-1)
        if self.outcomes.classes:
            return {"log_loss": ratio(parts[1][..., 0], parts[0][..., 0])}
        n, positives, loss, squares = (part[..., 0] for part in parts[:4])
        base_rate = ratio(positives, n)
        log_loss = ratio(loss, n)
        values = {
            "log_loss": log_loss,
            "log_loss_gain": entr(base_rate) + entr(1.0 - base_rate) - log_loss,
            "brier": ratio(squares, n),
            "ece": debiased_calibration_error(parts[4], parts[5], n),
        }
        for attribute, count, residual in zip(self.codes, parts[6::2], parts[7::2], strict=True):
            means = ratio(residual, count)
            if attribute in self.compared:
                means = means[..., self.compared[attribute]]
            values[f"calibration_gap.{attribute}"] = spread_of_defined(means)
        return values


def debiased_calibration_error(residuals: Float, variances: Float, n: Float) -> Float:
    r"""Expected calibration error without the part that chance alone would give.

    .. math:: \max\Bigl(0, \sum_b w_b \bigl(2 |d_b| - E|\mathcal N(d_b, s_b)|\bigr)\Bigr), \qquad
              E|\mathcal N(\mu, \sigma)| = \sigma \sqrt{2 / \pi} \, e^{-\mu^2 / 2 \sigma^2}
              + \mu (1 - 2 \Phi(-\mu / \sigma))

    with the share :math:`w_b` of rows in bin b, the mean probability minus the share of positives
    :math:`d_b`, and the standard error :math:`s_b` of that share under the probabilities. It is a
    debiased error as in Kumar, Liang and Ma, "Verified Uncertainty Calibration", NeurIPS 2019.

    Parameters
    ----------
    residuals : ndarray of float64, shape (..., B)
        Sums over a bin of :math:`p - y`, times the weights of rows if there are any.
    variances : ndarray of float64, shape (..., B)
        Sums over a bin of :math:`p (1 - p)`, times the weights.
    n : ndarray of float64, shape (...)
        Rows in all bins, or the sum of their weights.

    Returns
    -------
    ndarray of float64, shape (...)
        At least 0.

    References
    ----------
    .. [1] A. Kumar, P. Liang and T. Ma, "Verified Uncertainty Calibration", NeurIPS 2019.
    """
    from scipy.special import ndtr

    # both sides times the rows of a bin: w d = residual / n and w s = sqrt(variance) / n
    size = np.abs(residuals)
    sd = np.sqrt(variances)
    # beyond 40 standard errors the normal terms vanish; without the limit the square could overflow
    z = np.full(size.shape, 40.0)
    np.divide(size, sd, out=z, where=sd * 40.0 > size)
    expected = sd * np.sqrt(2.0 / np.pi) * np.exp(-(z**2) / 2.0) + size * (1.0 - 2.0 * ndtr(-z))
    return np.maximum(ratio((2.0 * size - expected).sum(axis=-1), n), 0.0)


FEW = 5
"""Fewer positives or negatives than these say too little of the variance of residuals."""

MOST_PRECISE = 4.0
"""Rows of a share, at most, that one row's residual is worth, however good the probabilities are.
"""


def calibration_gap_interval(
    outcomes: Outcomes,
    code: Int,
    size: int,
    compared: Int,
    sample_weight: Float | None,
    level: float,
) -> Estimates:
    r"""Interval of the largest difference between groups of mean probability minus share of
    positives.

    Each group's share of positives has the exact interval of as many rows as give it the variance
    of the mean residual :math:`p - y`, at most ``MOST_PRECISE`` times the group's; the mean
    residual has the same distances to its ends, turned round. The differences are those of
    :func:`evenhand.fairlib.evaluation.closed_intervals.largest_difference`.

    Parameters
    ----------
    outcomes : Outcomes
        Rows of two labels.
    code : int array, shape (n,)
        Group of every row.
    size : int
        Number of groups.
    compared : int array
        Positions of the groups that are compared.
    sample_weight : array, shape (n,), optional
        Weights of the rows.
    level : float
        Coverage, in (0, 1).

    Returns
    -------
    Estimates
        Of shape ().
    """
    label = outcomes.y_true.astype(np.float64)
    residuals = cell_means(code, size, outcomes.score - label, sample_weight, outcomes.people)
    positives = cell_means(code, size, label, sample_weight, outcomes.people)
    share = positives.mean
    precise = effective_number(residuals, share, level, most=MOST_PRECISE)
    rows = effective_number(positives, share, level)
    few = np.fmin(share, 1.0 - share) * rows < FEW
    varied = residuals.variance > 0
    rows = np.where(few | ~varied, np.minimum(precise, rows), precise)

    def _means(level: float) -> Estimates:
        exact = exact_interval(share * rows, rows, level)
        above = exact.value - exact.low
        below = exact.high - exact.value
        ends = Estimates(residuals.mean, residuals.mean - below, residuals.mean + above)
        return Estimates(*(column[compared] for column in ends))

    largest = largest_difference(
        _means(level), _means(corrected_level(level, pairs_of(len(compared))))
    )
    return Estimates(largest.value, largest.low, np.minimum(largest.high, 1.0))


def reliability(
    outcomes: Outcomes, *, bins: int = 10, min_cell: int = 5, level: float = 0.95
) -> dict[str, Any]:
    """Compare mean probability and share of positives in bins of about equal row count, as plain
    JSON types.

    Parameters
    ----------
    outcomes : Outcomes
        Rows of an evaluation.
    bins : int, default 10
        Most bins of the table and of every group; equal scores share a bin.
    min_cell : int, default 5
        Fewest people of a bin; a smaller one would show single people.
    level : float, default 0.95
        Coverage of the intervals, in (0, 1).

    Returns
    -------
    dict
        ``overall``: a list of bins by rising probability, each with ``mean`` (probability),
        ``share`` (of positives) with its exact interval ``low``, ``high``, and ``n``; and
        ``groups``: attribute to group to such a list, with bins of the group's own people. A list
        can be empty.

    Raises
    ------
    ValueError
        If `bins` is less than 1.
    """
    if bins < 1:
        raise ValueError(f"bins: got {bins}, expected at least 1")

    ranks = outcomes.ranks
    score = np.zeros(int(ranks.max(initial=-1)) + 1)
    score[ranks] = outcomes.score

    def _curve(rows: Bool) -> list[dict[str, Any]]:
        chosen = ranks[rows]
        if len(chosen) < min_cell or not len(chosen):
            return []
        code = np.zeros(len(score), dtype=np.int64)
        code[chosen] = score_bins(chosen, max(1, min(bins, len(chosen) // min_cell)))
        # by score, so that the order of the rows does not matter
        n_of = np.bincount(chosen, minlength=len(score))
        hits_of = np.bincount(chosen[outcomes.y_true[rows] == 1], minlength=len(score))
        del chosen  # there may be millions of scores
        counts = np.bincount(code, n_of)
        hits = np.bincount(code, hits_of)
        sums = np.bincount(code, n_of * score)
        points = []
        for n, total, positive in zip(counts, sums, hits, strict=True):
            if n < max(min_cell, 1):
                continue
            low, high = rate_interval(int(positive), int(n), level)
            points.append(
                {
                    "mean": float(total / n),
                    "share": float(positive / n),
                    "low": low,
                    "high": high,
                    "n": int(n),
                }
            )
        return points

    groups: dict[str, Mapping[str, Any]] = {}
    for attribute, column in outcomes.sensitive.items():
        names, codes = encode_groups(column, outcomes.groups.get(attribute, ()))
        groups[attribute] = {name: _curve(codes == k) for k, name in enumerate(names)}
    return {"overall": _curve(np.ones(outcomes.n, dtype=bool)), "groups": groups}
