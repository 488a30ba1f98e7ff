"""Comparable people: groups of rows, counterfactual copies, and the differences of pairs drawn from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenhand.fairlib.arrays import Float, Index

# Most rounds of random draws for incomparable pairs.
ROUNDS = 20


def check_source(title: str, **sources: Any) -> None:
    """ValueError unless exactly one source was given."""
    given = [name for name, value in sources.items() if value is not None]
    if len(given) != 1:
        found = f"got {' and '.join(given)}" if given else "got none"
        raise ValueError(f"{title} learns from one of {', '.join(sources)}; {found}.")


def group_codes(rows: Float, groups: ArrayLike) -> Index:
    """Integer group of every row, shape (n,).
    ValueError: not one id a row, a missing id.
    """
    import pandas as pd

    ids = np.asarray(groups)
    if ids.shape != (len(rows),):
        raise ValueError(f"groups must have one id per row of X, {len(rows)}, got shape {ids.shape}.")
    codes, _ = pd.factorize(ids)
    if (codes < 0).any():
        raise ValueError(f"groups lacks the ids of {int((codes < 0).sum())} rows: give each row one.")
    return codes


def given_pairs(name: str, pairs: Sequence[ArrayLike], width: int) -> Float:
    """Differences of the pairs that a user lists as two arrays of one shape.
    ValueError: other than two arrays, shapes that differ or do not fit X, no pair, numbers that are not
    finite.
    """
    arrays = [np.asarray(rows, dtype=np.float64) for rows in pairs]
    if len(arrays) != 2 or arrays[0].shape != arrays[1].shape:
        shapes = ", ".join(str(rows.shape) for rows in arrays)
        raise ValueError(f"{name} must be two arrays of one shape, got {shapes}.")
    first, second = arrays
    if first.ndim != 2 or first.shape[1] != width:
        raise ValueError(f"{name} must be pairs of rows with {width} features, got shape {first.shape}.")
    if len(first) == 0:
        raise ValueError(f"{name} holds no pair: give at least one.")
    if not (np.isfinite(first).all() and np.isfinite(second).all()):
        raise ValueError(f"{name} must be finite: a pair holds NaN or infinity.")
    return first - second


def pairs_of_copies(
    data: Float, copies: Sequence[NDArray[Any]], most: int, rng: np.random.Generator
) -> tuple[Float, Float]:
    """Differences of rows and changed copies, and of as many random pairs of rows, both at most `most`.

    Two people who differ only in columns that copies change are comparable too, and no incomparable pair;
    unless the copies change every column.
    """
    changed = np.stack([(copy != data).any(axis=1) for copy in copies])
    copy, row = (index[_sample(len(index), most, rng)] for index in np.nonzero(changed))
    comparable = np.empty((len(row), data.shape[1]))
    for number, rows in enumerate(copies):
        mine = copy == number
        comparable[mine] = rows[row[mine]] - data[row[mine]]
    unchanged = data[:, ~(comparable != 0).any(axis=0)]
    features = unchanged if unchanged.shape[1] else data
    return comparable, _random_pairs(data, features, np.arange(len(data)), len(comparable), rng)


def pairs_of_groups(data: Float, codes: Index, most: int, rng: np.random.Generator) -> tuple[Float, Float]:
    """Differences of rows and another member of their group, and of as many rows of different groups."""
    order = rng.permutation(len(data))
    order = order[np.argsort(codes[order], kind="stable")]
    # each member is paired with the next one of the group, the last with the first
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    following = np.arange(1, len(order) + 1)
    following[np.append(starts[1:], len(order)) - 1] = starts
    comparable = data[order] - data[order[following]]
    comparable = comparable[(comparable != 0).any(axis=1)]
    if len(comparable) == 0:
        raise ValueError("no two comparable rows differ: the groups tell nothing.")
    comparable = comparable[_sample(len(comparable), most, rng)]
    return comparable, _random_pairs(data, data, codes, len(comparable), rng)


def _sample(count: int, most: int, rng: np.random.Generator) -> Index:
    """Positions of at most `most` of `count` items, in order."""
    if count <= most:
        return np.arange(count)
    return np.sort(rng.choice(count, size=most, replace=False))


def _random_pairs(data: Float, features: Float, codes: Index, count: int, rng: np.random.Generator) -> Float:
    """Differences of up to `count` random pairs of rows that differ in group and features."""
    found: list[Float] = []
    missing = count
    for _ in range(ROUNDS):
        i, j = rng.integers(0, len(data), size=(2, missing))
        kept = np.flatnonzero((codes[i] != codes[j]) & (features[i] != features[j]).any(axis=1))
        found.append(data[i[kept]] - data[j[kept]])
        missing -= len(kept)
        if missing == 0:
            break
    if missing == count:
        raise ValueError("no two rows are incomparable: all differ only as comparable ones do.")
    return np.concatenate(found)
