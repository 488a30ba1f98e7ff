"""What drives a model: how much each column moves its answers, and how likely a selector selects
each.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenhand.fairlib.arrays import Float, Float32, Int
from evenhand.fairlib.execution import generator, sample_rows
from evenhand.fairlib.numerics import log_losses

# Rows that are explained: more make the mean more exact, and the explanation slower.
MAX_ROWS = 2000
# TreeSHAP's time for a row grows with the leaves and the square of the depth, and so faster than
# the trees' size: of trees of one megabyte so many rows are explained, of others as many in
# proportion to the size to the power of -1.5, and `LEAST_ROWS` at least.
ROWS_OF_MEGABYTE = 1250
LEAST_ROWS = 100


def drivers(
    model: Any,
    X: ArrayLike,
    y: ArrayLike,
    columns: Mapping[str, Sequence[int]],
    sensitive: Mapping[str, NDArray[Any]],
    *,
    seed: int = 0,
    min_cell: int = 5,
) -> dict[str, Any]:
    r"""Measure how much each table column drives a classifier.

    For trees and two labels, the mean absolute contribution to the log-odds (TreeSHAP; Lundberg et
    al., 2020; the matrix columns of a table column are added first). For other models, the mean
    rise of the log loss when the table column's values are exchanged between people at random
    (permutation importance; Breiman, 2001).

    Parameters
    ----------
    model : fitted classifier
        Fitted classifier with ``predict_proba`` and ``classes_``; trees are recognised by their
        ``booster_``.
    X : array-like, shape (n, d)
        Encoded rows; of more than 2,000, of large trees of more than 100, a random sample is used.
    y : array-like, shape (n,)
        True labels, as positions among the classes.
    columns : mapping
        Positions of the matrix columns of each table column.
    sensitive : mapping
        By attribute, the groups of the rows, shape (n,).
    seed : int, default 0
        Seed of the random choice of rows, and of the permutations.
    min_cell : int, default 5
        Fewest rows of a group with a number.

    Returns
    -------
    dict
        ``kind`` ("contribution" or "permutation"), ``rows``, and ``columns``, the most important
        first: each with ``name``, ``value``, and ``groups``, attribute to group to value or None.

    References
    ----------
    .. [1] S. M. Lundberg et al., "From Local Explanations to Global Understanding with Explainable
       AI for Trees", Nature Machine Intelligence 2 (2020).
    .. [2] L. Breiman, "Random Forests", Machine Learning 45 (2001).
    """
    data = np.asarray(X, dtype=np.float32)
    labels = np.asarray(y, dtype=np.int64)
    chosen = explained_rows(len(data), seed)
    data = data[chosen]
    labels = labels[chosen]
    booster = getattr(model, "booster_", None)
    # trees on projected features explain those, not the table's columns
    by_trees = (
        booster is not None and getattr(model, "metric_", None) is None and len(model.classes_) == 2
    )
    if by_trees:
        kind = "contribution"
        part = _rows_for_trees(booster, len(data), seed)
        chosen = chosen[part]
        data = data[part]
        values = _contributions(booster, data, columns)
    else:
        kind = "permutation"
        rng = generator(seed, "drivers", "permutations")
        values = _permutations(model, data, labels, columns, rng)
    groups = {name: np.asarray(column)[chosen].astype(str) for name, column in sensitive.items()}
    report: list[dict[str, Any]] = []
    for name, value in values.items():
        by_attribute = {}
        for attribute, column in groups.items():
            by_attribute[attribute] = _group_means(value, column, min_cell)
        report.append({"name": name, "value": float(value.mean()), "groups": by_attribute})
    report.sort(key=lambda entry: -entry["value"])
    return {"kind": kind, "rows": len(data), "columns": report}


def _rows_for_trees(booster: Any, n: int, seed: int) -> Int:
    """Positions of the rows of n that are explained of trees: fewer of large ones."""
    megabytes = len(booster.save_raw("ubj")) / 1e6
    most = max(LEAST_ROWS, int(ROWS_OF_MEGABYTE * max(megabytes, 1e-3) ** -1.5))
    return sample_rows(n, min(n, most), generator(seed, "drivers", "trees"))


def _group_means(value: Float, groups: NDArray[Any], min_cell: int) -> dict[str, float | None]:
    """Mean of a value in each group; None for a group of fewer rows than `min_cell`."""
    means: dict[str, float | None] = {}
    for group in np.unique(groups).tolist():
        rows = groups == group
        means[group] = None
        if rows.sum() >= min_cell:
            means[group] = float(value[rows].mean())
    return means


def explained_rows(n: int, seed: int) -> Int:
    """Positions of the rows of n that :func:`drivers` uses, in their order.

    Parameters
    ----------
    n : int
        Number of rows.
    seed : int
        Seed of the random choice of rows, and of the permutations.

    Returns
    -------
    ndarray of int64, shape (min(n, 2000),)
        Ascending positions.
    """
    return sample_rows(n, MAX_ROWS, generator(seed, "drivers", "rows"))


def _contributions(
    booster: Any, X: Float32, columns: Mapping[str, Sequence[int]]
) -> dict[str, Float]:
    """Absolute contribution of each table column to each row's log-odds, shape (n,)."""
    import xgboost as xgb

    shares = np.asarray(booster.predict(xgb.DMatrix(X), pred_contribs=True), dtype=np.float64)
    return {name: np.abs(shares[:, list(places)].sum(axis=1)) for name, places in columns.items()}


def _permutations(
    model: Any, X: Float32, y: Int, columns: Mapping[str, Sequence[int]], rng: np.random.Generator
) -> dict[str, Float]:
    """Rise of each row's loss when it gets another row's values of a table column, shape (n,)."""
    people = np.arange(len(y))
    loss = log_losses(model.predict_proba(X))[y, people]
    rises = {}
    for name, places in columns.items():
        changed = X.copy()
        changed[:, list(places)] = X[rng.permutation(len(X))][:, list(places)]
        rises[name] = log_losses(model.predict_proba(changed))[y, people] - loss
    return rises


MIN_ROWS = 20
"""Fewest people for spread and quartiles: quartiles of fewer would be close to single rows."""

QUARTILES = {"q1": 0.25, "median": 0.5, "q3": 0.75}


def selection_report(
    probabilities: ArrayLike,
    names: Sequence[str],
    attributes: Collection[str],
    *,
    data_dependent: bool,
    min_cell: int,
) -> list[dict[str, Any]]:
    """Summarise selection probabilities over people, as plain JSON types.

    Parameters
    ----------
    probabilities : array-like, shape (n, G)
        How likely each group of features is selected for each of n >= 1 people, in [0, 1].
    names : sequence of str
        Names of the G groups of features.
    attributes : sequence of str
        Groups that are sensitive, which are never selected.
    data_dependent : bool
        Whether the probabilities depend on a person's data; if not, all rows are equal and describe
        no single person.
    min_cell : int
        Fewest people with a mean of a data-dependent selector; spread and quartiles need
        ``MIN_ROWS``.

    Returns
    -------
    list of dict
        Per group, in order, ``name``, ``sensitive``, ``mean``, ``sd`` (of all n, divided by n) and
        the quartiles ``q1``, ``median`` and ``q3`` (linear between ranks); None where there are too
        few people.

    Raises
    ------
    ValueError
        If the shape is not (n, G) with n >= 1, a number is not in [0, 1], a sensitive group can be
        selected, or rows of a selector that does not depend on data differ.
    """
    table = _checked_probabilities(probabilities, names, attributes)
    if not data_dependent:
        if (table != table[0]).any():
            raise ValueError(
                "probabilities: rows differ, although the selector does not depend on data"
            )
        table = table[:1]
    has_mean = not data_dependent or len(table) >= min_cell
    has_spread = not data_dependent or len(table) >= MIN_ROWS
    quartiles = np.quantile(table, list(QUARTILES.values()), axis=0).T
    report: list[dict[str, Any]] = []
    for name, column, quartiles_of_group in zip(names, table.T, quartiles, strict=True):
        entry: dict[str, Any] = {"name": name, "sensitive": name in attributes}
        entry |= dict.fromkeys(("mean", "sd", *QUARTILES))
        if has_mean:
            entry["mean"] = float(column.mean())
        if has_spread:
            entry["sd"] = float(column.std())
            entry |= dict(zip(QUARTILES, quartiles_of_group.tolist(), strict=True))
        report.append(entry)
    return report


def _checked_probabilities(
    probabilities: ArrayLike, names: Sequence[str], attributes: Collection[str]
) -> Float:
    """Selection probabilities as an array; ValueError as :func:`selection_report` raises it."""
    table = np.asarray(probabilities, dtype=np.float64)
    if table.ndim != 2 or table.shape[1] != len(names) or not len(table):
        raise ValueError(
            f"probabilities: got shape {table.shape}, expected (n, {len(names)}) with n >= 1"
        )
    if not ((table >= 0) & (table <= 1)).all():
        raise ValueError("probabilities: got a number outside [0, 1], or NaN")
    for name, column in zip(names, table.T, strict=True):
        if name in attributes and column.any():
            raise ValueError(
                f"probabilities: the sensitive group {name!r} can be selected, expected 0 in every "
                "row"
            )
    return table
