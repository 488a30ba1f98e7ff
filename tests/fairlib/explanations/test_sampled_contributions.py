"""Sampled Shapley values, compared with those over all orders."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from evenhand.fairlib.explanations.sampled_contributions import sampled_contributions

GROUPS = {"a": [0], "b": [1, 2], "c": [3]}


def log_odds(rows: Any) -> Any:
    """A function with interactions."""
    rows = np.asarray(rows, dtype=np.float64)
    return rows[:, 0] * rows[:, 1] + 2.0 * rows[:, 2] - rows[:, 3] * rows[:, 0] + 0.5


def probability(rows: Any) -> Any:
    return 1.0 / (1.0 + np.exp(-log_odds(rows)))


def exact(row: Any, reference: Any) -> Any:
    """Mean change over all six orders of the columns."""
    total = dict.fromkeys(GROUPS, 0.0)
    for order in itertools.permutations(GROUPS):
        mixed = reference.copy()
        for name in order:
            before = log_odds(mixed[None])[0]
            mixed[GROUPS[name]] = row[GROUPS[name]]
            total[name] += (log_odds(mixed[None])[0] - before) / 6.0
    return np.array(list(total.values()))


def test_many_orders_approach_all_orders_and_add_up() -> None:
    random = np.random.default_rng(0)
    X = random.normal(size=(4, 4)).astype(np.float32)
    reference = random.normal(size=4).astype(np.float32).astype(np.float64)
    parts = sampled_contributions(probability, X, GROUPS, reference, orders=300)
    expected = np.array([exact(row.astype(np.float64), reference) for row in X])
    np.testing.assert_allclose(parts, expected, atol=0.25)
    ends = log_odds(X) - log_odds(reference[None])
    np.testing.assert_allclose(parts.sum(axis=1), ends, atol=1e-6)


def test_a_row_has_the_same_contributions_in_any_batch() -> None:
    X = np.random.default_rng(1).normal(size=(3, 4)).astype(np.float32)
    together = sampled_contributions(probability, X, GROUPS, np.zeros(4))
    alone = sampled_contributions(probability, X[1:2], GROUPS, np.zeros(4))
    np.testing.assert_array_equal(together[1:2], alone)


def test_certain_predictions_have_finite_contributions() -> None:
    X = np.ones((1, 4), dtype=np.float32)
    parts = sampled_contributions(
        lambda rows: (rows[:, 0] > 0).astype(np.float64), X, GROUPS, np.zeros(4)
    )
    assert parts[0].tolist() == pytest.approx([2.0 * np.log(999_999.0), 0.0, 0.0])
