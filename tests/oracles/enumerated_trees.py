"""The reference of the trees' bounds: every combination of some columns' values is predicted."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from evenhand.fairlib.arrays import Float32
from evenhand.fairlib.certificates.trees import MarginBounds, TreeProver

MOST_COMBINATIONS = 4096


@dataclass(frozen=True)
class Choice:
    """Encodings, shape (v, c), that the given c matrix columns may have."""

    columns: Sequence[int]
    values: Float32


def over_values(prover: TreeProver, X: ArrayLike, choices: Sequence[Choice]) -> MarginBounds:
    """Smallest and largest margins over all combinations of some columns' values, exactly.

    The bounds are the margins found: every combination is predicted. `X` has the shape (n, d), and
    `choices` are the values of some columns. ValueError: more than
    :data:`MOST_COMBINATIONS` combinations.
    """
    rows = np.asarray(X, dtype=np.float32)
    count = math.prod(len(choice.values) for choice in choices)
    if count > MOST_COMBINATIONS:
        raise ValueError(
            f"the columns have {count} combinations of values: at most {MOST_COMBINATIONS} are "
            "tried."
        )
    margin = prover.sums(prover.read(rows)).astype(np.float64)
    low, high, lowest, highest = margin.copy(), margin.copy(), rows.copy(), rows.copy()
    for values in itertools.product(*(choice.values for choice in choices)):
        copy = rows.copy()
        for choice, value in zip(choices, values, strict=True):
            copy[:, choice.columns] = value
        margin = prover.sums(prover.read(copy)).astype(np.float64)
        for better, ends, points in ((margin < low, low, lowest), (margin > high, high, highest)):
            ends[better], points[better] = margin[better], copy[better]
    return MarginBounds(low, high, low, high, lowest, highest)
