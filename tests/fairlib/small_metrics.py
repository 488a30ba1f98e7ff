"""A small table, and fair metrics of each kind that are learned from it."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from evenhand.fairlib.distances import EXPLORE, FACE, Metric, SensitiveSubspace


def table(seed: int = 0, n: int = 60) -> NDArray[np.float64]:
    """Two standard columns, a group of three indicators, a sensitive indicator."""
    random = np.random.default_rng(seed)
    groups = np.eye(3)[random.integers(3, size=n)]
    return np.concatenate(
        [random.normal(size=(n, 2)), groups, random.integers(2, size=(n, 1))], axis=1
    )


def subspace() -> Metric:
    X = table()
    return SensitiveSubspace(indicators=(5,)).fit(X, sensitive_features=(X[:, 0] + X[:, 2] > 0.3))


def face() -> Metric:
    return FACE(n_directions=2).fit(table(), groups=np.arange(60) // 4)


def explore() -> Metric:
    return EXPLORE(strength=0.05).fit(table(), groups=np.arange(60) // 20)


METRICS = pytest.mark.parametrize(
    "metric", [subspace, face, explore], ids=lambda make: make.__name__
)
