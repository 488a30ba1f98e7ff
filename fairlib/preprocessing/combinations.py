"""Columns that only together determine a label or a sensitive attribute: sums, differences, ratios
and products of numbers, and pairs of categories.

No column of such a combination needs to say anything by itself: a date of repayment minus a due
date shows who was late, and neither date does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.fairlib.arrays import Bool, Float, Int
from evenhand.fairlib.execution import generator, sample_rows

MAX_ROWS = 4_000
MAX_COLUMNS = 40
"""Most columns of numbers, and of categories, that are combined; of more the first ones."""
MAX_CROSSED = 24
"""Most columns of which all pairs are compared as differences and ratios."""
LARGEST_COMBINATION = 3
LEAST_ROWS = 20
"""Fewest rows of each label."""
# How much larger the error without any one of its columns must be than that of a combination.
NEEDED = 3.0
LEAST_R2 = 0.998
ROWS_PER_CELL = 5
BINS = 16
MAX_STEPS = 64

Columns = Mapping[str, NDArray[Any]]
Score = Callable[[Sequence[str]], float]


@dataclass(frozen=True)
class Combination:
    """Columns that together determine a target, while none of them can be left out.

    Parameters
    ----------
    columns : tuple of str
        Two or three names; one where it determines numbers by itself.
    form : {"linear", "ratio", "pair"}
        ``linear``: a weighted sum or difference; ``ratio``: a ratio or a product; ``pair``: the
        pair of their categories.
    score : float
        AUC, or the share of the variance of numbers, on rows that were not learned from.
    """

    columns: tuple[str, ...]
    form: str
    score: float


def find_combination(
    columns: Columns, positive: Bool, least_auc: float, single_auc: Callable[[str], float]
) -> Combination | None:
    """Find two or three columns that together predict a label almost perfectly.

    Each of them must be needed: without it the error is at least ``NEEDED`` times as large, and the
    AUC below `least_auc`.

    Parameters
    ----------
    columns : Columns
        By name numbers as float64, NaN where missing, or codes of categories as int64, negative
        where missing; of shape (n,) each.
    positive : ndarray of bool, shape (n,)
        The label.
    least_auc : float
        Smallest AUC of a combination.
    single_auc : callable
        AUC of one column by its name.

    Returns
    -------
    Combination or None
        The one with the highest AUC; None if there is none.
    """
    rows = sample_rows(len(positive), MAX_ROWS, generator(0, "combinations"))
    label = positive[rows]
    if min(label.sum(), (~label).sum()) < LEAST_ROWS or len(columns) < 2:
        return None
    sampled = {name: values[rows] for name, values in columns.items()}
    halves = _halves(label)
    candidates = [
        _linear_combination(_numbers(sampled), label, halves, least_auc, "linear"),
        _linear_combination(_logarithms(sampled), label, halves, least_auc, "ratio"),
        _crossed_numbers(sampled, label, halves, least_auc),
        _crossed_codes(sampled, label, halves, least_auc),
    ]
    best = None
    for candidate in candidates:
        if candidate is None or not _needs_each(candidate, least_auc, single_auc):
            continue
        if best is None or candidate.score > best.score:
            best = candidate
    return best


def find_source(columns: Columns, target: Float) -> Combination | None:
    """Find one to three columns of numbers from which other numbers are computed.

    Parameters
    ----------
    columns : Columns
        As in :func:`find_combination`; categories are left out.
    target : ndarray of float64, shape (n,)
        The numbers, NaN where missing.

    Returns
    -------
    Combination or None
        Columns whose weighted sum, or product of powers, explains ``LEAST_R2`` of the variance.
    """
    rows = sample_rows(len(target), MAX_ROWS, generator(0, "combinations"))
    sampled_target = target[rows]
    sampled = {name: values[rows] for name, values in columns.items()}
    numbers = _numbers(sampled)
    source = _explaining(numbers, sampled_target, "linear")
    if source is None and np.nanmin(sampled_target, initial=np.inf) > 0:
        source = _explaining(_logarithms(sampled), np.log(sampled_target), "ratio")
    return source


def is_computed(values: NDArray[Any], sources: Columns) -> bool:
    """Whether a column is computed from two or more others together.

    Numbers are if a weighted sum of the others, in each pair of their categories another one,
    explains ``LEAST_R2`` of the variance. Categories are if each combination of the others'
    categories has one value, or, along the numbers of one of them, changes at few places.

    Parameters
    ----------
    values : ndarray of shape (n,)
        As in :func:`find_combination`.
    sources : Columns
        Two or more columns.

    Returns
    -------
    bool
    """
    rows = sample_rows(len(values), MAX_ROWS, generator(0, "combinations"))
    sampled = {name: column[rows] for name, column in sources.items()}
    target = values[rows]
    if len(np.unique(target)) < 2 or len(target) < LEAST_ROWS:
        return False
    cells = _cells([column for column in sampled.values() if column.dtype.kind != "f"], len(target))
    numbers = [column for column in sampled.values() if column.dtype.kind == "f"]
    if target.dtype.kind == "f" and len(np.unique(target)) > 2:
        return _is_explained(target, cells, numbers)
    codes = np.unique(target, return_inverse=True)[1]
    if not numbers:
        return _has_one_value(codes, cells)
    if len(numbers) > 1:
        return False
    return _is_step_function(codes, cells, numbers[0])


# ------------------------------------------------------------------------------------- numbers


def _numbers(columns: Columns) -> dict[str, Float]:
    """Columns of numbers that differ, standardised; missing ones become the median."""
    numbers: dict[str, Float] = {}
    for name, values in columns.items():
        if values.dtype.kind != "f" or len(numbers) >= MAX_COLUMNS:
            continue
        filled = _filled(values)
        if filled is not None:
            numbers[name] = filled
    return numbers


def _logarithms(columns: Columns) -> dict[str, Float]:
    """Logarithms of the columns of numbers that are all positive."""
    logarithms: dict[str, Float] = {}
    for name, values in columns.items():
        is_positive = values.dtype.kind == "f" and np.nanmin(values, initial=np.inf) > 0
        if is_positive and len(logarithms) < MAX_COLUMNS:
            filled = _filled(np.log(values))
            if filled is not None:
                logarithms[name] = filled
    return logarithms


def _filled(values: Float) -> Float | None:
    """Numbers without missing ones, with mean 0 and standard deviation 1; None of a constant."""
    present = values[np.isfinite(values)]
    if len(present) < LEAST_ROWS:
        return None
    filled = np.where(np.isfinite(values), values, np.median(present))
    spread = filled.std()
    if not spread > 0 or not np.isfinite(spread):
        return None
    standardised: Float = (filled - filled.mean()) / spread
    return standardised


def _halves(label: Bool) -> tuple[Int, Int]:
    """Positions of two halves of the rows, each with half of either label."""
    order = generator(0, "combination-halves").permutation(len(label))
    by_label = order[np.argsort(label[order], kind="stable")]
    return np.sort(by_label[::2]), np.sort(by_label[1::2])


def _linear_combination(
    numbers: Mapping[str, Float],
    label: Bool,
    halves: tuple[Int, Int],
    least_auc: float,
    form: str,
) -> Combination | None:
    """The fewest columns whose weighted sum separates the labels: of all columns the one with the
    smallest weight is left out again and again, as long as the AUC holds.
    """
    from sklearn.linear_model import LogisticRegression

    def _fit(names: Sequence[str]) -> tuple[float, Float]:
        X = np.stack([numbers[name] for name in names], axis=1)
        model = LogisticRegression(C=1e3, max_iter=200)
        learned, judged = halves
        model.fit(X[learned], label[learned])
        return _auc(X[judged] @ model.coef_[0], label[judged]), np.abs(model.coef_[0])

    if len(numbers) < 2:
        return None
    return _fewest(list(numbers), _fit, least_auc, form, smallest=2)


def _explaining(numbers: Mapping[str, Float], target: Float, form: str) -> Combination | None:
    """The fewest columns whose weighted sum explains numbers."""
    present = np.isfinite(target)
    if present.sum() < 2 * LEAST_ROWS or not numbers or len(np.unique(target[present])) < 5:
        return None
    positions = np.flatnonzero(present)
    learned = positions[::2]
    judged = positions[1::2]

    def _fit(names: Sequence[str]) -> tuple[float, Float]:
        X = np.stack([numbers[name] for name in names] + [np.ones(len(target))], axis=1)
        weights = np.linalg.lstsq(X[learned], target[learned], rcond=None)[0]
        return _r2(target[judged], X[judged] @ weights), np.abs(weights[:-1])

    return _fewest(list(numbers), _fit, LEAST_R2, form, smallest=1)


def _fewest(
    names: list[str],
    fit: Callable[[Sequence[str]], tuple[float, Float]],
    least: float,
    form: str,
    smallest: int,
) -> Combination | None:
    """Leave out columns as long as the score of the others is large enough.

    None where more than ``LARGEST_COMBINATION`` columns are needed for it.
    """
    score, weights = fit(names)
    if score < least:
        return None
    while len(names) > smallest:
        order = np.argsort(weights, kind="stable")
        for place in order[:2]:
            fewer = [name for k, name in enumerate(names) if k != place]
            fewer_score, fewer_weights = fit(fewer)
            if fewer_score >= least:
                break
        else:
            break
        names = fewer
        score = fewer_score
        weights = fewer_weights
    if len(names) > LARGEST_COMBINATION:
        return None
    for name in names:
        remaining = [column for column in names if column != name]
        if remaining and 1.0 - fit(remaining)[0] < NEEDED * (1.0 - score):
            return None
    return Combination(tuple(names), form, score)


def _crossed_numbers(
    columns: Columns, label: Bool, halves: tuple[Int, Int], least_auc: float
) -> Combination | None:
    """Two columns whose difference or sum predicts the label, whatever the shape of the relation:
    such as two numbers that are equal for one label.
    """
    standardised = _numbers(columns)
    names = list(standardised)[:MAX_CROSSED]
    best: Combination | None = None
    for first, second in combinations(names, 2):
        crossed = [
            columns[first] - columns[second],
            standardised[first] - standardised[second],
            standardised[first] + standardised[second],
        ]
        for values in crossed:
            auc = _binned_auc(values, label, halves)
            if auc >= least_auc and (best is None or auc > best.score):
                best = Combination((first, second), "linear", auc)
    return best


def _binned_auc(values: Float, label: Bool, halves: tuple[Int, Int]) -> float:
    """AUC of the share of positives of a value's bin, learned on one half of the rows."""
    learned, judged = halves
    present = np.sort(values[learned][np.isfinite(values[learned])])
    if not present.size:
        return 0.5
    places = np.linspace(0, present.size - 1, 4 * BINS + 1)[1:-1].astype(int)
    # both sides of a value that many rows have are edges
    edges = np.unique(np.concatenate([present[places], np.nextafter(present[places], np.inf)]))
    return _shares_auc(np.searchsorted(edges, values, side="right"), label, learned, judged)


def _shares_auc(codes: Int, label: Bool, learned: Int, judged: Int) -> float:
    size = int(codes.max()) + 1
    positives = np.bincount(codes[learned], weights=label[learned], minlength=size)
    counts = np.bincount(codes[learned], minlength=size)
    shares = (positives + label[learned].mean()) / (counts + 1.0)
    return _auc(shares[codes[judged]], label[judged])


def _auc(scores: Float, label: Bool) -> float:
    """AUC of scores, of which equal ones count half."""
    levels, place = np.unique(scores, return_inverse=True)
    negatives = np.bincount(place[~label], minlength=len(levels))
    positives = np.bincount(place[label], minlength=len(levels))
    below = np.cumsum(negatives) - negatives
    pairs = negatives.sum() * positives.sum()
    if not pairs:
        return 0.5
    return float((positives * (below + negatives / 2.0)).sum() / pairs)


def _r2(target: Float, fitted: Float) -> float:
    total = float(((target - target.mean()) ** 2).sum())
    if not total > 0:
        return 0.0
    return 1.0 - float(((target - fitted) ** 2).sum()) / total


# ---------------------------------------------------------------------------------- categories


def _crossed_codes(
    columns: Columns, label: Bool, halves: tuple[Int, Int], least_auc: float
) -> Combination | None:
    """Two columns, at least one of categories, whose pair of values predicts the label."""
    codes = {name: _coarse(values) for name, values in list(columns.items())[: 2 * MAX_COLUMNS]}
    best: Combination | None = None
    for first, second in combinations(codes, 2):
        are_numbers = columns[first].dtype.kind == columns[second].dtype.kind == "f"
        size = int(codes[second].max()) + 1
        cells = (int(codes[first].max()) + 1) * size
        if are_numbers or cells * ROWS_PER_CELL > len(label):
            continue
        auc = _shares_auc(codes[first] * size + codes[second], label, *halves)
        if auc >= least_auc and (best is None or auc > best.score):
            best = Combination((first, second), "pair", auc)
    return best


def _coarse(values: NDArray[Any]) -> Int:
    """Codes from 0: categories, or bins of numbers of as many rows; missing ones together."""
    if values.dtype.kind != "f":
        return np.unique(np.maximum(values, -1), return_inverse=True)[1].astype(np.int64)
    present = values[np.isfinite(values)]
    codes = np.zeros(len(values), dtype=np.int64)
    if present.size:
        edges = np.unique(np.quantile(present, np.linspace(0, 1, BINS + 1)[:-1]))
        is_present = np.isfinite(values)
        codes[is_present] = np.searchsorted(edges, values[is_present], side="right")
    return codes


def _needs_each(
    combination: Combination, least_auc: float, single_auc: Callable[[str], float]
) -> bool:
    """Whether no column of a combination predicts nearly as well by itself."""
    error = 1.0 - combination.score
    for name in combination.columns:
        alone = single_auc(name)
        if alone >= least_auc or 1.0 - alone < NEEDED * error:
            return False
    return True


def _cells(columns: Sequence[NDArray[Any]], n: int) -> Int:
    """Codes from 0 of the combinations of categories; all 0 without columns."""
    cells = np.zeros(n, dtype=np.int64)
    for values in columns:
        codes = np.unique(values, return_inverse=True)[1]
        cells = np.unique(cells * (int(codes.max()) + 1) + codes, return_inverse=True)[1]
    return cells.astype(np.int64)


def _has_one_value(codes: Int, cells: Int) -> bool:
    """Whether each cell, of five rows or more, has one code."""
    counts = np.bincount(cells)
    size = int(codes.max()) + 1
    has_one = len(np.unique(cells * size + codes)) == len(counts)
    rarer = len(codes) - int(np.bincount(codes).max())
    return has_one and int(counts.min()) >= ROWS_PER_CELL and rarer >= ROWS_PER_CELL


def _is_step_function(codes: Int, cells: Int, numbers: Float) -> bool:
    """Whether in each cell the code changes at few places along the numbers, and only there."""
    changes = 0
    for cell in range(int(cells.max()) + 1):
        within = np.flatnonzero(cells == cell)
        if len(within) < LEAST_ROWS:
            return False
        ranks = np.unique(numbers[within], return_inverse=True)[1]
        order = np.argsort(ranks, kind="stable")
        sorted_codes = codes[within][order]
        moves = np.diff(sorted_codes) != 0
        if (moves & (np.diff(ranks[order]) == 0)).any():
            return False
        if moves.sum() > min(MAX_STEPS, len(within) // (4 * ROWS_PER_CELL)):
            return False
        changes += int(moves.sum())
    rarer = len(codes) - int(np.bincount(codes).max())
    return changes > 0 and rarer >= ROWS_PER_CELL


def _is_explained(target: Float, cells: Int, numbers: Sequence[Float]) -> bool:
    """Whether weighted sums, one for each cell, explain numbers."""
    columns = [np.ones(len(target)), *numbers]
    finite = np.isfinite(target)
    for column in columns:
        finite &= np.isfinite(column)
    count = int(cells.max()) + 1
    if finite.sum() < 2 * LEAST_ROWS * count:
        return False
    fitted = np.zeros(len(target))
    judged = np.zeros(len(target), dtype=bool)
    for cell in range(count):
        positions = np.flatnonzero(finite & (cells == cell))
        if len(positions) < LEAST_ROWS:
            return False
        learned = positions[::2]
        tested = positions[1::2]
        X = np.stack(columns, axis=1)
        weights = np.linalg.lstsq(X[learned], target[learned], rcond=None)[0]
        fitted[tested] = X[tested] @ weights
        judged[tested] = True
    return _r2(target[judged], fitted[judged]) >= LEAST_R2
