r"""Contributions of columns to the log-odds of any model, as sampled Shapley values.

Columns of a reference row take the person's values one after another, in random orders; a column's
contribution is the mean change of the log-odds when its turn comes (Castro, Gómez and Tejada,
"Polynomial calculation of the Shapley value based on sampling", Computers & Operations Research
2009). Every order is also taken backwards, which lowers the variance. Contributions add up to the
distance of the person's log-odds from those of the reference row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from evenhand.fairlib.arrays import Float, Float32, Index

ORDERS = 32
# Probabilities of 0 and 1 have no log-odds.
LEAST = 1e-6
SEED = 0


def sampled_contributions(
    probability: Callable[[Float32], Float],
    X: Float32,
    groups: Mapping[str, Sequence[int]],
    reference: Float,
    *,
    orders: int = ORDERS,
    seed: int = SEED,
) -> Float:
    """Contribution of every column of the table to the log-odds.

    Parameters
    ----------
    probability : callable
        Probability of the second label of encoded rows, shape (n,).
    X : ndarray of float32, shape (n, d)
        Encoded rows.
    groups : mapping of str to sequence of int
        Matrix columns of every column of the table.
    reference : ndarray of float, shape (d,)
        Row that the contributions start from.
    orders : int, default 32
        Random orders; each is also taken backwards.
    seed : int, default 0
        Seed of the orders.

    Returns
    -------
    ndarray of float64, shape (n, columns)
        In the order of `groups`.

    Examples
    --------
    >>> rows = np.array([[2.0, 1.0]], dtype=np.float32)
    >>> sampled_contributions(
    ...     lambda X: 1.0 / (1.0 + np.exp(-X.sum(axis=1))), rows, {"a": [0], "b": [1]}, np.zeros(2)
    ... ).round(3).tolist()
    [[2.0, 1.0]]
    """
    random = np.random.default_rng(seed)
    columns = [list(places) for places in groups.values()]
    sampled = [random.permutation(len(columns)) for _ in range(orders)]
    sampled += [order[::-1] for order in sampled]
    total = np.zeros((len(X), len(columns)))
    for place, row in enumerate(X):
        total[place] = _of_row(probability, row, columns, reference, sampled)
    return total


def _of_row(
    probability: Callable[[Float32], Float],
    row: Float32,
    columns: Sequence[Sequence[int]],
    reference: Float,
    orders: Sequence[Index],
) -> Float:
    """Contributions of one row."""
    start = reference.astype(np.float32)
    mixed = np.repeat(start[None], len(orders) * (len(columns) + 1), axis=0)
    steps = mixed.reshape(len(orders), len(columns) + 1, len(start))
    for number, order in enumerate(orders):
        for step, column in enumerate(order.tolist(), 1):
            steps[number, step:, columns[column]] = row[columns[column], None]
    chance = np.clip(np.asarray(probability(mixed), dtype=np.float64), LEAST, 1.0 - LEAST)
    log_odds = np.log(chance / (1.0 - chance)).reshape(len(orders), -1)
    changes = np.diff(log_odds, axis=1)
    total = np.zeros(len(columns))
    for number, order in enumerate(orders):
        total[order] += changes[number]
    return total / len(orders)
