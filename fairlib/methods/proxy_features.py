"""Which proxy features to leave out of a model: the threshold is chosen on folds of the training
rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenhand.fairlib.arrays import Bool, Float, Float32, Int
from evenhand.fairlib.distances.attribute_leak import TREES, TWO_SIDED, attribute_leak, auc_error
from evenhand.fairlib.evaluation.group_selection import MISSING, group_texts
from evenhand.fairlib.execution import generator, sample_rows
from evenhand.fairlib.methods.row_groups import fold_of_rows, joint_cells
from evenhand.fairlib.preprocessing.leaks import binned, told_groups

# Rows that are read at most, to find the AUC of columns and to choose the threshold.
MOST_ROWS = 6000
FOLDS = 3
# A column is no proxy feature below the first, whatever the number of rows.
THRESHOLDS = (0.52, 0.55, 0.6, 0.7, 0.8)
# Quantile bins of a number.
BINS = 32
LEAST_ROWS = 60
LEAST_PROBABILITY = 1e-6
# Inverse penalty of a recalibration's intercepts, of which there is one for every crossed group.
PENALTY = 100.0
MOST_STEPS = 300


class LeftOutColumns(NamedTuple):
    """Proxy features that are left out, and why these.

    `columns` are their names, without the sensitive columns. `threshold` is the AUC from which on a
    column is left out, None if none is. `aucs` has the cross-validated AUC of the group that each
    column predicts best, by column, the highest first.
    """

    columns: tuple[str, ...]
    threshold: float | None
    aucs: dict[str, float]


class _Rows(NamedTuple):
    """The rows by which the threshold is chosen."""

    X: Float32
    codes: Int  # labels
    groups: Float  # indicators of the crossed groups of all attributes
    folds: Int


def columns_to_leave_out(
    X: Float32,
    codes: Int,
    feature_groups: Mapping[str, Sequence[int]],
    groups: Mapping[str, NDArray[Any]],
    *,
    people: Int | None = None,
    seed: int = 0,
) -> LeftOutColumns:
    """Choose the proxy features that a model does without.

    A column is left out if its cross-validated AUC against some group of an attribute is at least a
    threshold. Each threshold is judged by the log loss within groups of small boosted trees, on
    folds of the training rows: their log-odds are recalibrated with an intercept for every crossed
    group. So what a column predicts by the group alone counts nothing, and a label that is biased
    against a group does not favour its proxy features. Of the thresholds whose loss is within a
    standard error of the least, the one is chosen that leaves out most columns. None leaves out
    all.

    Parameters
    ----------
    X : ndarray of float32, shape (n, d)
        Encoded rows; at most 6,000 are read.
    codes : ndarray of int, shape (n,)
        Labels, from 0.
    feature_groups : mapping of str to sequence of int
        Columns of X by column of the table.
    groups : mapping of str to ndarray, shape (n,)
        Group of every row, by sensitive attribute. A column of an attribute's name is left out
        anyway.
    people : ndarray of int, shape (n,), or None
        Person of every row: all rows of a person are in one fold.
    seed : int, default 0
        Of the rows that are drawn and of the folds.

    Returns
    -------
    LeftOutColumns

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> sex = np.repeat([0, 1], 500)
    >>> merit = rng.normal(size=1000)
    >>> proxy = sex + rng.normal(scale=0.5, size=1000)
    >>> X = np.column_stack([merit, proxy]).astype(np.float32)
    >>> y = (merit + sex + rng.normal(scale=0.5, size=1000) > 0.5).astype(int)
    >>> columns_to_leave_out(X, y, {"merit": [0], "proxy": [1]}, {"sex": sex}).columns
    ('proxy',)
    """
    inputs = {name: list(at) for name, at in feature_groups.items() if name not in groups}
    read = sample_rows(len(codes), MOST_ROWS, generator(seed, "proxy-features"))
    X = np.asarray(X[read], dtype=np.float32)
    codes = codes[read]
    attributes = {name: group_texts(np.asarray(values)[read]) for name, values in groups.items()}
    if people is not None:
        people = people[read]
    aucs = _aucs(X, inputs, attributes, seed)
    candidates = _candidates(aucs, attributes)
    if not candidates or len(codes) < LEAST_ROWS:
        return LeftOutColumns((), None, aucs)
    rows = _rows_of(X, codes, attributes, people, seed)
    losses = [_losses(rows, [j for at in inputs.values() for j in at])]
    for columns in candidates.values():
        remaining = [j for name, at in inputs.items() if name not in columns for j in at]
        losses.append(_losses(rows, remaining))
    best = min(losses, key=lambda loss: float(loss.mean()))
    # those that leave out most come first
    for number, (threshold, columns) in enumerate(candidates.items(), start=1):
        excess = losses[number] - best
        error = float(excess.std()) / np.sqrt(len(excess))
        if excess.mean() <= error:
            return LeftOutColumns(columns, threshold, aucs)
    return LeftOutColumns((), None, aucs)


def nested_proxy_features(
    X: Float32,
    feature_groups: Mapping[str, Sequence[int]],
    groups: Mapping[str, NDArray[Any]],
    *,
    most: int = 3,
    seed: int = 0,
) -> list[tuple[str, ...]]:
    """Sets of proxy features that a model may do without, each within the next one.

    A set has the columns whose cross-validated AUC against some group is at least a threshold, in
    the order of `feature_groups`. Which one is worth its loss of accuracy is left to who compares
    their models. A vector, such as that of a sentence, is in no set: its AUC takes long.

    Parameters
    ----------
    X : ndarray of float32, shape (n, d)
        Encoded rows; at most 6,000 are read.
    feature_groups : mapping of str to sequence of int
        Columns of X by column of the table.
    groups : mapping of str to ndarray, shape (n,)
        Group of every row, by sensitive attribute. A column of an attribute's name is in no set.
    most : int, default 3
        Number of sets at most: the smallest, the largest, and those between them.
    seed : int, default 0
        Of the rows that are drawn.

    Returns
    -------
    list of tuple of str
        The smallest first; empty where no column predicts a group. None has all columns.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> sex = np.repeat([0, 1], 500)
    >>> near, far = sex + rng.normal(scale=[[0.3], [1.0]], size=(2, 1000))
    >>> X = np.column_stack([near, far, rng.normal(size=1000)]).astype(np.float32)
    >>> nested_proxy_features(X, {"near": [0], "far": [1], "merit": [2]}, {"sex": sex})
    [('near',), ('near', 'far')]
    """
    inputs = {name: list(at) for name, at in feature_groups.items() if name not in groups}
    read = sample_rows(len(X), MOST_ROWS, generator(seed, "proxy-features"))
    if len(read) < LEAST_ROWS:
        return []
    attributes = {name: group_texts(np.asarray(values)[read]) for name, values in groups.items()}
    rows = np.asarray(X[read], dtype=np.float32)
    for name, positions in feature_groups.items():
        if name in inputs and len(positions) > 1 and not _is_category(rows[:, list(positions)]):
            del inputs[name]
    aucs = _aucs(rows, inputs, attributes, seed)
    sets = []
    for columns in reversed(_candidates(aucs, attributes).values()):
        sets.append(tuple(name for name in inputs if name in columns))
    if len(sets) <= most:
        return sets
    places = np.linspace(0, len(sets) - 1, most).round().astype(int)
    return [sets[place] for place in places]


def _aucs(
    X: Float32, inputs: Mapping[str, list[int]], attributes: Mapping[str, NDArray[Any]], seed: int
) -> dict[str, float]:
    """AUC of the best-predicted group of any attribute by each column, the highest first."""
    aucs = dict.fromkeys(inputs, 0.5)
    codes = {}
    for name, positions in inputs.items():
        values = X[:, positions]
        if _is_category(values):
            codes[name] = np.where(values.any(axis=1), values.argmax(axis=1), -1)
        elif len(positions) == 1:
            codes[name] = binned(values[:, 0].astype(np.float64), BINS)
        else:
            # a vector, such as that of a sentence
            aucs[name] = _auc_of_vector(values, attributes, seed)
    codes = {name: np.unique(column, return_inverse=True)[1] for name, column in codes.items()}
    for predicted in told_groups(codes, attributes).values():
        for item in predicted:
            aucs[item.name] = max(aucs[item.name], item.auc)
    return dict(sorted(aucs.items(), key=lambda item: (-item[1], item[0])))


def _is_category(values: Float32) -> bool:
    """Whether columns are the indicators of one category."""
    if values.shape[1] == 1:
        return False
    is_indicator = ((values == 0.0) | (values == 1.0)).all()
    return bool(is_indicator and (values.sum(axis=1) <= 1.0).all())


def _auc_of_vector(values: Float32, attributes: Mapping[str, NDArray[Any]], seed: int) -> float:
    aucs = [0.5]
    for groups in attributes.values():
        is_known = groups != MISSING
        sizes = np.unique(groups[is_known], return_counts=True)[1]
        if (sizes >= LEAST_ROWS).sum() >= 2:
            leak = attribute_leak(
                values[is_known], groups[is_known], predictors=("linear",), seed=seed
            )
            aucs.append(leak.auc)
    return max(aucs)


def _candidates(
    aucs: Mapping[str, float], attributes: Mapping[str, NDArray[Any]]
) -> dict[float, tuple[str, ...]]:
    """Different sets of columns to leave out by threshold, the largest set first."""
    least = 0.5 + TWO_SIDED * _error_at_chance(attributes)
    thresholds = sorted({max(threshold, least) for threshold in THRESHOLDS})
    candidates: dict[float, tuple[str, ...]] = {}
    for threshold in thresholds:
        columns = tuple(name for name, auc in aucs.items() if auc >= threshold)
        if 0 < len(columns) < len(aucs) and columns not in candidates.values():
            candidates[round(threshold, 3)] = columns
    return candidates


def _error_at_chance(attributes: Mapping[str, NDArray[Any]]) -> float:
    """Least standard error, over attributes, of the AUC of a column that predicts nothing."""
    errors = []
    for groups in attributes.values():
        sizes = np.unique(groups, return_counts=True)[1]
        largest = int(sizes.max())
        if largest < len(groups):
            errors.append(auc_error(0.5, largest, len(groups) - largest))
    return min(errors, default=0.5)


def _rows_of(
    X: Float32,
    codes: Int,
    attributes: Mapping[str, NDArray[Any]],
    people: Int | None,
    seed: int,
) -> _Rows:
    """Rows of the labels that every fold can have, with groups and folds."""
    counts = np.bincount(codes)
    chosen: Bool = counts[codes] >= FOLDS
    attributes = {name: values[chosen] for name, values in attributes.items()}
    if people is not None:
        people = people[chosen]
    labels = np.unique(codes[chosen], return_inverse=True)[1]
    cells = joint_cells(labels, attributes.values())
    crossed = joint_cells(np.zeros(len(labels)), attributes.values())
    indicators = (crossed[:, None] == np.arange(crossed.max() + 1)).astype(np.float64)
    return _Rows(X[chosen], labels, indicators, fold_of_rows(cells, FOLDS, seed, people))


def _losses(rows: _Rows, columns: list[int]) -> Float:
    """Log loss within groups of every row by small trees that were trained on the other folds."""
    from xgboost import XGBClassifier

    classes = int(rows.codes.max()) + 1
    predicted = np.full((len(rows.codes), classes), LEAST_PROBABILITY)
    X = rows.X[:, columns]
    for fold in range(FOLDS):
        held = rows.folds == fold
        model = XGBClassifier(**TREES, n_jobs=1, random_state=0)
        names, codes = np.unique(rows.codes[~held], return_inverse=True)
        if len(names) > 1:
            model.fit(X[~held], codes)
            predicted[np.ix_(held, names)] = model.predict_proba(X[held])
    losses = np.zeros(len(rows.codes))
    for code in range(1 if classes == 2 else 0, classes):
        losses += _losses_within_groups(predicted[:, code], rows.codes == code, rows.groups)
    return losses


def _losses_within_groups(probability: Float, is_member: Bool, groups: Float) -> Float:
    """Log losses after a logistic recalibration with an intercept for every group."""
    from sklearn.linear_model import LogisticRegression

    bounded = np.clip(probability, LEAST_PROBABILITY, 1.0 - LEAST_PROBABILITY)
    log_odds = np.log(bounded / (1.0 - bounded))
    inputs = np.column_stack([log_odds, groups])
    model = LogisticRegression(C=PENALTY, max_iter=MOST_STEPS).fit(inputs, is_member)
    calibrated = model.predict_proba(inputs)[np.arange(len(inputs)), is_member.astype(int)]
    losses: Float = -np.log(np.maximum(calibrated, LEAST_PROBABILITY))
    return losses
