"""Percentile bootstrap over joint cells: its cost does not grow with the number of rows.

Rows that agree in everything a metric looks at are one *atom*. Resampling n rows with replacement
is one multinomial draw over the atoms, and every count is a sum of atoms, so all metrics come from
the same draws. Where people have several rows, people are drawn, each with all rows: rows of one
person are alike, and drawn singly they would make intervals too narrow (Davison and Hinkley,
"Bootstrap Methods and their Application", 1997, section 3.8). Efron and Tibshirani, "An
Introduction to the Bootstrap" (1993), chapter 13, gives the percentile interval.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.fairlib.arrays import Bool, Float, Int
from evenhand.fairlib.evaluation.metrics import Array, auc
from evenhand.fairlib.execution import Progress

CHUNK_BYTES = 32 * 2**20
"""Largest size of one chunk of draws; a few such arrays exist at a time."""

MAX_SCORE_BINS = 10_000
"""Distinct scores kept in the bootstrap of the AUC; two labels make at most 20,000 atoms of them.
"""

MAX_ATOMS = 5_000
"""Atoms of several scores that are resampled together."""

MAX_BLOCKS = 5_000
"""More rows or people than these are dealt at random into so many blocks, which are resampled."""

MIN_DEFINED = 0.5
"""Share of draws in which a metric must be defined for its interval to be given."""

Column = tuple[NDArray[np.signedinteger[Any]], int]
Codes = Mapping[str, Column]
"""Per sensitive attribute the group of every row, shape (n,), and the number of groups."""
Flags = Mapping[str, Bool]


@dataclass(frozen=True, eq=False)
class CellCounts:
    """Counts of one draw or of many; leading axes are draws."""

    overall: Array  # shape (..., L, L): rows, or the sum of their weights, per label and prediction
    # shape (..., K, L, L): the same per group, label and prediction, per sensitive attribute
    groups: Mapping[str, Array]
    # shape (...): the same of rows whose counterfactual copies agree, per set of copies
    agreeing: Mapping[str, Array]
    classes: tuple[str, ...] = ()  # names of the L labels where there are more than two
    favourable: int = 1  # label of two, 1 or 0, that is the good outcome for a person

    def with_favourable_last(self) -> CellCounts:
        """Exchange both labels where label 0 is the favourable one, so that selection is predicting
        label 1.

        Metrics that treat both labels alike, such as accuracy and the gaps of error rates, do not
        change.
        """
        if self.favourable == 1:
            return self
        return replace(
            self,
            overall=self.overall[..., ::-1, ::-1],
            groups={name: cells[..., ::-1, ::-1] for name, cells in self.groups.items()},
            favourable=1,
        )


PSEUDO_ROWS = 6
"""Random answers that a smoothed draw adds to each label of each cell."""


def smoothed_counts(counts: CellCounts, weight: float, rng: np.random.Generator) -> CellCounts:
    """Add to every label of every cell some rows with random answers.

    Where two models agree in all rows of a cell, so do they in every draw, and the percentiles of
    their difference are both 0. With ``PSEUDO_ROWS`` rows of random answers a draw shows how much
    of a difference the cell could hide: as Agresti and Coull, "Approximate is Better than 'Exact'
    for Interval Estimation of Binomial Proportions", The American Statistician 52 (1998), add two
    rows with and two without a hit. In cells of many rows they change nothing.

    Parameters
    ----------
    counts : CellCounts
        Counts of draws, of one model.
    weight : float
        Weight of a row with a random answer.
    rng : numpy.random.Generator
        Generator of the answers.

    Returns
    -------
    CellCounts
        New counts.

    References
    ----------
    .. [1] A. Agresti and B. A. Coull, "Approximate is Better than 'Exact' for Interval Estimation
       of Binomial Proportions", The American Statistician 52 (1998).
    """
    labels = counts.overall.shape[-1]
    equal = np.full(labels, 1.0 / labels)

    def _more(cells: Array) -> Array:
        return cells + weight * rng.multinomial(PSEUDO_ROWS, equal, size=cells.shape[:-1])

    agreeing = {}
    for name, rows in counts.agreeing.items():
        agreeing[name] = rows + weight * rng.binomial(PSEUDO_ROWS * labels, 0.5, size=rows.shape)
    groups = {name: _more(cells) for name, cells in counts.groups.items()}
    return CellCounts(_more(counts.overall), groups, agreeing, counts.classes, counts.favourable)


class CellSum:
    """Sum atoms into cells along the last axis, given each atom's cell; a cell without an atom is
    zero.

    Parameters
    ----------
    cell_of_atom : ndarray of int64, shape (A,)
        Cell of every atom.
    n_cells : int
        Number of cells.
    """

    def __init__(self, cell_of_atom: Int, n_cells: int) -> None:
        self.n_cells = n_cells
        self.order = np.argsort(cell_of_atom, kind="stable")
        self.cells, self.starts = np.unique(cell_of_atom[self.order], return_index=True)

    def __call__(self, weights: Array) -> Array:
        """Turn weights of atoms, shape (..., A), into those of cells, shape (..., n_cells).

        Parameters
        ----------
        weights : ndarray, shape (..., A)
            Weights of atoms.

        Returns
        -------
        ndarray, shape (..., n_cells)
            Weights of cells.
        """
        result = np.zeros((*weights.shape[:-1], self.n_cells), dtype=weights.dtype)
        result[..., self.cells] = np.add.reduceat(weights[..., self.order], self.starts, axis=-1)
        return result


class _Counter:
    """Turn weights of atoms into the counts of one model; every column is per atom."""

    def __init__(
        self,
        label: Int,
        prediction: Int,
        codes: Codes,
        consistent: Flags,
        classes: tuple[str, ...],
        favourable: int,
    ) -> None:
        self._classes = classes
        self._labels = len(classes) or 2
        self._favourable = favourable
        cell = label * self._labels + prediction
        size = self._labels**2
        self._overall = CellSum(cell, size)
        self._groups = {
            name: CellSum(code * size + cell, size * count) for name, (code, count) in codes.items()
        }
        self._agreeing = {
            name: CellSum(flags.astype(np.int64), 2) for name, flags in consistent.items()
        }

    def __call__(self, weights: Array) -> CellCounts:
        lead = weights.shape[:-1]
        square = (self._labels, self._labels)
        return CellCounts(
            self._overall(weights).reshape(*lead, *square),
            {
                name: total(weights).reshape(*lead, -1, *square)
                for name, total in self._groups.items()
            },
            {name: total(weights)[..., 1] for name, total in self._agreeing.items()},
            self._classes,
            self._favourable,
        )


class JointTable:
    """The rows compressed to atoms, so that one draw resamples the answers of all models alike.

    Atoms are distinct combinations of label, groups, and every model's prediction and agreement.
    Their order does not depend on that of the rows.

    Parameters
    ----------
    y_true : ndarray of int64, shape (n,)
        True labels: 0 or 1, or positions in `classes`.
    predictions : sequence of ndarray of int64
        Predicted labels of each model, shape (n,).
    codes : mapping
        Per sensitive attribute, the group number of every row and the number of groups.
    consistent : sequence of mapping
        Per model, by set of counterfactual copies, in which rows the copies agree, shape (n,).
    sample_weight : ndarray of float64, shape (n,), optional
        Weights of the rows; the rows of an atom have equal weights.
    classes : sequence of str, default ()
        Names of the labels where there are more than two.
    people : ndarray of int64, shape (n,), optional
        Numbers of the people whose rows are drawn together.
    favourable : int, default 1
        Label, 1 or 0, that is the good outcome for a person.

    Attributes
    ----------
    weights : ndarray of int64, shape (A,)
        Rows per atom.
    """

    def __init__(
        self,
        y_true: Int,
        predictions: Sequence[Int],
        codes: Codes,
        consistent: Sequence[Flags],
        *,
        sample_weight: Float | None = None,
        classes: tuple[str, ...] = (),
        people: Int | None = None,
        favourable: int = 1,
    ) -> None:
        self.n = len(y_true)
        labels = len(classes) or 2
        columns = [(y_true, labels), *((y_pred, labels) for y_pred in predictions), *codes.values()]
        for flags in consistent:
            columns += [(column.astype(np.int64), 2) for column in flags.values()]
        columns += weight_column(sample_weight)
        # All rows of an atom agree in every column, so its first row stands for it.
        row_of_atom, self.weights = distinct_rows(columns)
        self._people = None
        if people is not None:
            self._people = (people, atoms_of(columns, row_of_atom))
        self._scale = None
        if sample_weight is not None:
            self._scale = sample_weight[row_of_atom]
        groups = {name: (code[row_of_atom], n_groups) for name, (code, n_groups) in codes.items()}
        self.counters = []
        for y_pred, flags in zip(predictions, consistent, strict=True):
            counter = _Counter(
                label=y_true[row_of_atom],
                prediction=y_pred[row_of_atom],
                codes=groups,
                consistent={name: column[row_of_atom] for name, column in flags.items()},
                classes=classes,
                favourable=favourable,
            )
            self.counters.append(counter)

    def counts(self, weights: Int) -> list[CellCounts]:
        """Turn rows of atoms, shape (..., A), into counts, per model, with the rows' weights.

        Parameters
        ----------
        weights : ndarray of int64, shape (..., A)
            Rows of each atom.

        Returns
        -------
        list of CellCounts
            One per model.
        """
        scaled = weights if self._scale is None else weights * self._scale
        return [counter(scaled) for counter in self.counters]

    def people(self) -> CellCounts:
        """Numbers of rows of the first model, whatever their weights; rows of weight 0 are left
        out.
        """
        rows = self.weights
        if self._scale is not None:
            rows = rows * (self._scale > 0)
        return self.counters[0](rows)

    def draws(
        self, draws: int, rng: np.random.Generator, *, callback: Progress | None = None
    ) -> Iterator[list[CellCounts]]:
        """Yield each chunk of :func:`multinomial_chunks` as counts per model, with one axis of
        draws.

        Parameters
        ----------
        draws : int
            Number of draws.
        rng : np.random.Generator
            Generator of the draws.
        callback : callable, optional
            ``callback(done, total)``, in draws.
        """
        for weights in atom_chunks(self.weights, self._people, draws, rng, callback=callback):
            yield self.counts(weights)


def weight_column(sample_weight: Float | None) -> list[Column]:
    """Give the codes of weights as a column of :func:`distinct_rows`; none without weights.

    Parameters
    ----------
    sample_weight : ndarray of float64, shape (n,), optional
        Weights of the rows; default: 1.

    Returns
    -------
    list
        One column, or none.
    """
    if sample_weight is None:
        return []
    values, code = np.unique(sample_weight, return_inverse=True)
    return [(code.astype(np.int64), len(values))]


def distinct_rows(columns: Sequence[Column]) -> tuple[Int, Int]:
    """Find each distinct combination of codes, given with the number of values that each column can
    have.

    Parameters
    ----------
    columns : sequence of Column
        Codes of shape (n,), each with the number of values that it can have.

    Returns
    -------
    tuple of two ndarrays of int64
        The first row of each combination and its number of rows, both of shape (A,), in the order
        of codes.
    """
    code = joint_code(columns)
    if math.prod(size for _, size in columns) > len(code):
        _, first, weights = np.unique(code, return_index=True, return_counts=True)
        return first.astype(np.int64), weights.astype(np.int64)
    # few combinations are counted: sorting millions of rows takes several times the memory
    weights = np.bincount(code)
    first = np.empty(len(weights), dtype=np.int64)
    first[code[::-1]] = np.arange(len(code) - 1, -1, -1)
    present = np.flatnonzero(weights)
    return first[present], weights[present]


def atoms_of(columns: Sequence[Column], first: Int) -> Int:
    """Number of every row's combination, shape (n,), by the first rows that :func:`distinct_rows`
    gives.

    Parameters
    ----------
    columns : sequence of Column
        Codes of shape (n,), each with the number of values that it can have.
    first : ndarray of int64, shape (A,)
        First row of each combination, as :func:`distinct_rows` gives it.

    Returns
    -------
    ndarray of int64, shape (n,)
        Positions among the combinations.
    """
    code = joint_code(columns)
    return np.searchsorted(code[first], code)


def joint_code(columns: Sequence[Column]) -> Int:
    """Give equal rows one number, shape (n,), that sorts as the columns of :func:`distinct_rows`
    do.

    Parameters
    ----------
    columns : sequence of Column
        Codes of shape (n,), each with the number of values that it can have.

    Returns
    -------
    ndarray of int64, shape (n,)
        One number a row.
    """
    code, size = columns[0]
    for values, n_values in columns[1:]:
        if size * n_values >= 2**62:  # number anew, so that the mixed-radix code fits 64 bits
            distinct, code = np.unique(code, return_inverse=True)
            size = len(distinct)
        code = np.multiply(code, n_values, dtype=np.int64)
        code += values
        size *= n_values
    return code


def multinomial_chunks(
    weights: Int,
    draws: int,
    rng: np.random.Generator,
    *,
    width: int = 0,
    callback: Progress | None = None,
) -> Iterator[Int]:
    """Yield bootstrap weights of atoms, shape (chunk, A), a chunk of draws at a time.

    Parameters
    ----------
    weights : ndarray of int64, shape (A,)
        Rows per atom; every draw has as many rows in all.
    draws : int
        Number of draws.
    rng : np.random.Generator
        Generator of the draws.
    width : int, default 0
        A chunk has room for arrays of so many columns; the draws do not depend on it.
    callback : callable, optional
        ``callback(done, total)`` counts draws; it is called as the next chunk is requested.
    """
    n = int(weights.sum())
    chunk = max(1, CHUNK_BYTES // (8 * max(len(weights), width)))
    for start in range(0, draws, chunk):
        yield rng.multinomial(n, weights / n, size=min(chunk, draws - start))
        if callback is not None:
            callback(min(start + chunk, draws), draws)


def atom_chunks(
    rows: Int,
    people: tuple[Int, Int] | None,
    draws: int,
    rng: np.random.Generator,
    *,
    callback: Progress | None = None,
) -> Iterator[Int]:
    """Yield weights of atoms as :func:`multinomial_chunks`; with people, of these with all their
    rows.

    Parameters
    ----------
    rows : ndarray of int64, shape (A,)
        Rows per atom.
    people : tuple, optional
        Numbers of every row's person and of its atom, each of shape (n,). A draw then has as many
        people, and not always as many rows, in all.
    draws : int
        Number of draws.
    rng : np.random.Generator
        Generator of the draws.
    callback : callable, optional
        ``callback(done, total)``, in draws.

    References
    ----------
    .. [1] A. C. Davison and D. V. Hinkley, "Bootstrap Methods and their Application" (1997),
       section 3.8.
    """
    if people is None:
        yield from multinomial_chunks(rows, draws, rng, callback=callback)
        return
    from scipy.sparse import csr_array

    block, n_blocks = dealt(people[0], rng)
    table = csr_array(
        (np.ones(len(block), np.int64), (people[1], block)), shape=(len(rows), n_blocks)
    )
    ones = np.ones(n_blocks, dtype=np.int64)
    for weights in multinomial_chunks(ones, draws, rng, width=len(rows), callback=callback):
        yield (table @ weights.T).T


def dealt(people: Int, rng: np.random.Generator, max_blocks: int = MAX_BLOCKS) -> tuple[Int, int]:
    """Block of every row, shape (n,), of all rows of a person the same, and the number of
    blocks.

    Parameters
    ----------
    people : ndarray of int64, shape (n,)
        Number of every row's person.
    rng : np.random.Generator
        Generator of the draws.
    max_blocks : int, default MAX_BLOCKS
        More people are dealt at random into so many blocks.

    Returns
    -------
    tuple of ndarray of int64 and int
        Blocks, and their number.
    """
    names, person = np.unique(people, return_inverse=True)
    if len(names) <= max_blocks:
        return person.astype(np.int64), len(names)
    return (rng.permutation(len(names)) % max_blocks)[person], max_blocks


def score_table(
    y_true: Int, score: Array, sample_weight: Float | None = None
) -> tuple[Array, Array]:
    """Count positive and negative rows, or add their weights, by distinct score, ascending, shape
    (S,).

    Parameters
    ----------
    y_true : ndarray of int64, shape (n,)
        Labels 0 and 1.
    score : ndarray, shape (n,)
        Scores, or their ranks.
    sample_weight : ndarray of float64, shape (n,), optional
        Weights of the rows; default: 1.

    Returns
    -------
    tuple of two ndarrays, shape (S,)
        Of label 1, and of label 0.
    """
    bins = score_bins(score, None, sample_weight)
    n_bins = int(bins.max()) + 1
    code = joint_code([(bins, n_bins), (y_true, 2)])
    table = _sums(code, sample_weight, 2 * n_bins).reshape(n_bins, 2)
    return table[:, 1], table[:, 0]


def score_bins(
    score: Array, max_bins: int | None = None, sample_weight: Float | None = None
) -> Int:
    """Bin of every row, shape (n,), numbered from 0 by rising score; integers are ranks already.

    Parameters
    ----------
    score : ndarray, shape (n,)
        Scores; integers are ranks already.
    max_bins : int, optional
        More distinct scores are merged with their neighbours into at most so many bins of about
        equal row count (or weight).
    sample_weight : ndarray of float64, shape (n,), optional
        Weights of the rows; default: 1.

    Returns
    -------
    ndarray of int64, shape (n,)
        Equal scores share a bin; with weights, one may hold rows of weight 0 alone.
    """
    bins = score
    if score.dtype.kind != "i":
        _, bins = np.unique(score, return_inverse=True)
    per_value = _sums(bins, sample_weight)
    if max_bins is not None and np.count_nonzero(per_value) > max_bins:
        # in place, because there may be millions of scores
        merged = np.cumsum(per_value)
        merged -= per_value
        merged *= max_bins
        merged //= per_value.sum()
        # numbered without gaps; they rise already, so nothing needs to be sorted
        rises = np.concatenate([[False], merged[1:] != merged[:-1]])
        del merged, per_value
        bins = np.cumsum(rises)[bins]
    return bins.astype(np.int64, copy=False)


def _sums(code: Int, sample_weight: Float | None, size: int = 0) -> Array:
    """Rows per code, or sums of their weights, which do not depend on the order of the rows."""
    if sample_weight is None:
        return np.bincount(code, minlength=size)
    order = np.argsort(sample_weight)
    return np.bincount(code[order], sample_weight[order], size)


def auc_draws(
    y_true: Int,
    scores: Sequence[Array],
    draws: int,
    rng: np.random.Generator,
    *,
    sample_weight: Float | None = None,
    people: Int | None = None,
    max_bins: int = MAX_SCORE_BINS,
    max_atoms: int = MAX_ATOMS,
    callback: Progress | None = None,
) -> list[Float]:
    """Bootstrap the AUC of one or more scores by resampling atoms of label, scores and weights
    alike.

    With more than ``max_bins`` distinct values of a score, the draws (never the point estimate) use
    scores merged by rank into that many bins, inside which rows count as tied; several scores are
    merged further, until they have at most ``max_atoms`` atoms. This moves an AUC by at most half
    the share of (positive, negative) pairs that fall in one bin, by which the draws are moved back.
    `people`, shape (n,), as in
    :class:`JointTable`.

    Parameters
    ----------
    y_true : ndarray of int64, shape (n,)
        Labels 0 and 1.
    scores : sequence of ndarray
        One or more scores, each of shape (n,).
    draws : int
        Number of draws.
    rng : np.random.Generator
        Generator of the draws.
    sample_weight : ndarray of float64, shape (n,), optional
        Weights of the rows; default: 1.
    people : ndarray of int64, shape (n,), optional
        Numbers of the people whose rows are drawn together, as in :class:`JointTable`.
    max_bins : int, default MAX_SCORE_BINS
        Most distinct scores in the draws.
    max_atoms : int, default MAX_ATOMS
        Most atoms of several scores.
    callback : callable, optional
        ``callback(done, total)``, in draws.

    Returns
    -------
    list of ndarray, shape (draws,)
        Per score, with NaN in draws without a positive or without a negative row.
    """
    negative = 1 - y_true  # 0 for positives, which come first
    while True:
        bins = [score_bins(score, max_bins, sample_weight) for score in scores]
        sizes = [int(column.max()) + 1 for column in bins]
        columns = [(negative, 2), *zip(bins, sizes, strict=True), *weight_column(sample_weight)]
        first, rows = distinct_rows(columns)
        if len(scores) == 1 or len(rows) <= max_atoms:
            break
        max_bins //= 2
    areas = []
    for column, size in zip(bins, sizes, strict=True):
        total = CellSum(negative[first] * size + column[first], 2 * size)
        areas.append(_AreaOfAtoms(total, None if sample_weight is None else sample_weight[first]))
    person_and_atom = None
    if people is not None:
        person_and_atom = (people, atoms_of(columns, first))
    # a chunk is drawn once, for all scores
    parts: list[list[Float]] = [[np.empty(0)] for _ in scores]
    for weights in atom_chunks(rows, person_and_atom, draws, rng, callback=callback):
        for drawn, area in zip(parts, areas, strict=True):
            drawn.append(area(weights))
    result = []
    for score, area, drawn in zip(scores, areas, parts, strict=True):
        exact = float(auc(*score_table(y_true, score, sample_weight)))
        # merged bins move the AUC of the rows themselves by this much
        shift = exact - float(area(rows[None])[0])
        result.append(np.concatenate(drawn) + shift)
    return result


class _AreaOfAtoms:
    """AUC of one score from weights of atoms, which are first scaled by weights of rows, if any."""

    def __init__(self, total: CellSum, scale: Float | None) -> None:
        self._total = total
        self._scale = 1.0 if scale is None else scale

    def __call__(self, weights: Int) -> Float:
        """AUC of each draw, shape (draws,), from weights of atoms, shape (draws, A)."""
        table = self._total(weights * self._scale).reshape(len(weights), 2, -1)
        return auc(table[:, 0], table[:, 1])


def percentile_interval(
    values: Float, level: float, point: float | None = None
) -> tuple[float, float] | tuple[None, None]:
    """Percentile interval, low and high, of the draws in which the metric is defined.

    NaN among the draws, shape (draws,), are left out; with fewer than half of the draws, or with
    none, there is no interval. It is widened to contain the `point` estimate, because the resampled
    largest difference between groups is biased upwards: the percentiles of a difference near zero
    can all lie above its estimate.

    Parameters
    ----------
    values : ndarray of float64, shape (draws,)
        The metric in every draw; NaN are left out.
    level : float
        Coverage, in (0, 1).
    point : float, optional
        Estimate that the interval is widened to contain.

    Returns
    -------
    tuple of two floats
        Both None where fewer than half of the draws, or none, are defined.

    References
    ----------
    .. [1] B. Efron and R. Tibshirani, "An Introduction to the Bootstrap" (1993), chapter 13.

    Examples
    --------
    >>> low, high = percentile_interval(np.arange(101.0), 0.9)
    >>> round(low, 6), round(high, 6)
    (5.0, 95.0)
    """
    defined = values[~np.isnan(values)]
    if len(defined) == 0 or len(defined) < MIN_DEFINED * len(values):
        return None, None
    tail = (1.0 - level) / 2.0
    low, high = np.quantile(defined, [tail, 1.0 - tail]).tolist()
    if point is None:
        return low, high
    return min(low, point), max(high, point)
