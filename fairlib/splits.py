"""Rows drawn at random by stratum: to test, to validate, or to hold out."""

from __future__ import annotations

import numpy as np

from evenhand.fairlib.arrays import Bool, Int, Int8
from evenhand.fairlib.execution import derive_seed, generator

# Of more rows scikit-learn's split takes 76 bytes each, and ours 12.
LARGE = 1 << 22


def persons(people: Int) -> tuple[Int, Int]:
    """First row of each of m people, shape (m,), and the place of each row's person there, shape
    (n,).
    """
    _, first, own = np.unique(people, return_index=True, return_inverse=True)
    return first, own


def set_aside(
    labels: Int, share: float, seed: int | None, people: Int | None = None
) -> tuple[Int, Int]:
    """Split rows in two, with `share` of every label in the second part: positions, each sorted.

    `labels` have the shape (n,), and `share` is strictly between 0 and 1. Of two rows or more of a
    label, each part gets at least one; a single one stays in the first part. With `people`, numbers
    of shape (n,), whole persons are drawn, each with the label of its first row. ValueError if the
    second part lacks a label.
    """
    first, own = (slice(None), slice(None)) if people is None else persons(people)
    second = _drawn(labels[first], share, generator(seed, "validation"))[own]
    if len(np.unique(labels[second])) < 2:
        raise ValueError(
            f"{len(labels)} rows are too few to set some aside: each label needs two rows."
        )
    return np.flatnonzero(~second), np.flatnonzero(second)


def _drawn(labels: Int | Int8, share: float, random: np.random.Generator) -> Bool:
    """Whether each row is in the second part of :func:`set_aside`."""
    second = np.zeros(len(labels), dtype=bool)
    for label in np.flatnonzero(np.bincount(labels)):
        rows = random.permutation(np.flatnonzero(labels == label))
        second[rows[: min(max(1, round(share * len(rows))), len(rows) - 1)]] = True
    return second


def drawn_rows(n: int, strata: Int | Int8 | None, share: float, seed: int) -> Bool:
    """Whether each of n rows is in the second part, which has this share of every stratum; shape
    (n,).

    `strata` have the shape (n,), None for one. Up to ``LARGE`` rows it is scikit-learn's split.
    ValueError if it refuses the strata.
    """
    if n > LARGE:
        strata = np.zeros(n, dtype=np.int8) if strata is None else strata
        return _drawn(strata, share, generator(seed, "split"))
    from sklearn.model_selection import train_test_split

    found = np.zeros(n, dtype=bool)
    _, second = train_test_split(np.arange(n), test_size=share, stratify=strata, random_state=seed)
    found[second] = True
    return found


def hold_out(
    codes: Int, share: float, seed: int | None, people: Int | None = None
) -> tuple[Int, Int]:
    """Positions to train on and to validate on, each sorted; every class, shape (n,), in the same
    shares.

    `people` as in :func:`set_aside`. ValueError: not every class is on both sides.
    """
    first, own = (slice(None), slice(None)) if people is None else persons(people)
    strata = codes[first]
    held = drawn_rows(len(strata), strata, share, derive_seed(seed, "validation"))[own]
    counts = np.bincount(codes)
    second = np.bincount(codes[held], minlength=len(counts))
    if np.any((counts > 0) & ((second == 0) | (second == counts))):
        raise ValueError("a class is missing")
    return np.flatnonzero(~held), np.flatnonzero(held)
