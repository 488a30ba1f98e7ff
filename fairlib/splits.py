"""Rows drawn at random by stratum: to test, to validate, or to hold out."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from evenhand.fairlib.arrays import Bool, Int, Int8, Str
from evenhand.fairlib.execution import derive_seed, generator

# Of more rows scikit-learn's split takes 76 bytes each, and ours 12.
LARGE = 1 << 22


def persons(people: Int) -> tuple[Int, Int]:
    """First row of each of m people, shape (m,), and the place of each row's person there, shape
    (n,).

    Parameters
    ----------
    people : ndarray of int64, shape (n,)
        Number of every row's person.

    Returns
    -------
    tuple of two ndarrays of int64
        Shapes (m,) and (n,).
    """
    _, first_row, person = np.unique(people, return_index=True, return_inverse=True)
    return first_row, person


def _units(n: int, people: Int | None) -> tuple[Int, Int] | tuple[slice, slice]:
    """As :func:`persons`; without people each of n rows is a person of its own."""
    if people is None:
        return slice(n), slice(n)
    return persons(people)


def set_aside(
    labels: Int, share: float, seed: int | None, people: Int | None = None
) -> tuple[Int, Int]:
    """Split rows in two, with `share` of every label in the second part: positions, each sorted.

    Parameters
    ----------
    labels : ndarray of int64, shape (n,)
        Labels, from 0. Of two rows or more of a label, each part gets at least one; a single one
        stays in the first part.
    share : float
        Share of each label or stratum in the second part, in (0, 1).
    seed : int, optional
        Seed of the choice.
    people : ndarray of int64, shape (n,), optional
        Numbers of people, who are drawn whole, each with the label of its first row; default: each
        row is a person.

    Returns
    -------
    tuple of two ndarrays of int64
        Ascending positions of the first and of the second part.

    Raises
    ------
    ValueError
        If the second part lacks a label.

    Examples
    --------
    >>> train, held_out = set_aside(np.array([0, 0, 0, 0, 1, 1]), 0.5, seed=0)
    >>> len(train), len(held_out)
    (3, 3)
    """
    first_row, person = _units(len(labels), people)
    second = _drawn(labels[first_row], share, generator(seed, "validation"))[person]
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
        size = min(max(1, round(share * len(rows))), len(rows) - 1)
        second[rows[:size]] = True
    return second


def drawn_rows(n: int, strata: Int | Int8 | None, share: float, seed: int) -> Bool:
    """Whether each of n rows is in the second part, which has this share of every stratum; shape
    (n,).

    Parameters
    ----------
    n : int
        Number of rows. Up to ``LARGE`` rows the split is scikit-learn's.
    strata : ndarray of int64 or Int8, shape (n,), optional
        Stratum of every row; None for one stratum.
    share : float
        Share of each label or stratum in the second part, in (0, 1).
    seed : int
        Seed of the choice.

    Returns
    -------
    ndarray of bool, shape (n,)
        True for rows of the second part.

    Raises
    ------
    ValueError
        If scikit-learn refuses the strata.
    """
    if n > LARGE:
        if strata is None:
            strata = np.zeros(n, dtype=np.int8)
        return _drawn(strata, share, generator(seed, "split"))
    from sklearn.model_selection import train_test_split

    is_second = np.zeros(n, dtype=bool)
    _, second = train_test_split(np.arange(n), test_size=share, stratify=strata, random_state=seed)
    is_second[second] = True
    return is_second


def with_every_group(second: Bool, groups: Mapping[str, Str], seed: int) -> Bool:
    """Move single rows of a split, so that each part has a row of every group of two rows or more.

    A split that is stratified by the label alone can leave all rows of a small group in one part.
    Nothing changes where no part lacks a group.

    Parameters
    ----------
    second : ndarray of bool, shape (n,)
        Whether each row is in the second part.
    groups : mapping of str to ndarray of str, shape (n,)
        By attribute the group of each row.
    seed : int
        Seed of the choice among the rows of a group.

    Returns
    -------
    ndarray of bool, shape (n,)
        A part may still lack a group where no row can move without taking the last one of another
        group.

    Examples
    --------
    >>> second = np.array([False, False, False, True])
    >>> int(with_every_group(second, {"sex": np.array(["m", "d", "d", "m"])}, seed=0).sum())
    2
    """
    moved = second.copy()
    random = generator(seed, "groups of a split")
    for values in groups.values():
        everybody = set(values.tolist())
        for part in (False, True):
            absent = everybody - set(values[moved == part].tolist())
            for group in sorted(absent):
                for row in random.permutation(np.flatnonzero(values == group)):
                    if _can_move(row, moved, groups):
                        moved[row] = part
                        break
    return moved


def _can_move(row: int, second: Bool, groups: Mapping[str, Str]) -> bool:
    """Whether the part that a row is in keeps another row of each of the row's groups."""
    same_part = second == second[row]
    return all(np.sum(same_part & (values == values[row])) > 1 for values in groups.values())


def hold_out(
    codes: Int, share: float, seed: int | None, people: Int | None = None
) -> tuple[Int, Int]:
    """Positions to train on and to validate on, each sorted; every class, shape (n,), in the same
    shares.

    Parameters
    ----------
    codes : ndarray of int64, shape (n,)
        Class of every row, from 0.
    share : float
        Share of each label or stratum in the second part, in (0, 1).
    seed : int, optional
        Seed of the choice.
    people : ndarray of int64, shape (n,), optional
        Numbers of people, who are drawn whole, each with the label of its first row; default: each
        row is a person.

    Returns
    -------
    tuple of two ndarrays of int64
        Ascending positions to train on, and to validate on.

    Raises
    ------
    ValueError
        If not every class is on both sides.

    Examples
    --------
    >>> codes = np.repeat([0, 1], 10)
    >>> train, held_out = hold_out(codes, 0.2, seed=0)
    >>> np.bincount(codes[held_out]).tolist()
    [2, 2]
    """
    first_row, person = _units(len(codes), people)
    strata = codes[first_row]
    held = drawn_rows(len(strata), strata, share, derive_seed(seed, "validation"))[person]
    counts = np.bincount(codes)
    second = np.bincount(codes[held], minlength=len(counts))
    if np.any((counts > 0) & ((second == 0) | (second == counts))):
        raise ValueError("a class is missing")
    return np.flatnonzero(~held), np.flatnonzero(held)
