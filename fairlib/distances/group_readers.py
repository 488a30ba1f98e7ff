"""Groups of sensitive attributes: their codes, and how they are read from the columns of X."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from evenhand.fairlib.arrays import Float, Index
from evenhand.fairlib.distances.adaptation import LEAST_GROUP, Adaptation, is_binary, levels_of
from evenhand.fairlib.evaluation.group_selection import MISSING, group_texts

# Least training rows of a group: each half of the rows from which evidence is taken needs enough.
LEAST_TRAINING = 2 * LEAST_GROUP + 10
# Least share of training rows whose group must follow from the columns of X.
READABLE = 0.999


@dataclass
class GroupReader:
    """How the group of an attribute is read from the columns of X.

    Parameters
    ----------
    positions : list of int
        Columns of the matrix.
    level_groups : list of int
        Group of each level of a category; empty for a number.
    cuts : list of float
        Of a number: the limits between neighbouring groups.
    cut_groups : list of int
        Of a number: the group of each interval.
    values : list of list of float
        The columns' values in each group: those of its most frequent level, or its mean.
    """

    positions: list[int]
    level_groups: list[int]
    cuts: list[float]
    cut_groups: list[int]
    values: list[list[float]]

    def read(self, rows: Float) -> Index:
        """Group of every row, -1 where it is unknown.

        Parameters
        ----------
        rows : ndarray of float, shape (n, d)

        Returns
        -------
        ndarray of int, shape (n,)
        """
        if self.level_groups:
            return np.array(self.level_groups)[levels_of(rows, self.positions)]
        interval = np.searchsorted(np.array(self.cuts), rows[:, self.positions[0]])
        return np.array(self.cut_groups)[interval]


@dataclass
class Stage:
    """The adaptation to one attribute, or to all combinations of several.

    Parameters
    ----------
    attributes : list of str
    groups : list of list of str
        Names of each attribute's groups.
    readers : list of GroupReader or None
        One for each attribute; None where its group cannot be read from X.
    adaptation : Adaptation
    """

    attributes: list[str]
    groups: list[list[str]]
    readers: list[GroupReader | None]
    adaptation: Adaptation

    @property
    def readable(self) -> bool:
        """Whether the groups can be read from X."""
        return all(reader is not None for reader in self.readers)

    def read(self, rows: Float) -> Index:
        """Combined group of every row, -1 where an attribute's group is unknown.

        Parameters
        ----------
        rows : ndarray of float, shape (n, d)

        Returns
        -------
        ndarray of int, shape (n,)
        """
        codes = [reader.read(rows) for reader in self.readers if reader is not None]
        return combined_codes(codes, [len(names) for names in self.groups])

    def codes_of(self, attributes: Mapping[str, ArrayLike]) -> Index:
        """Combined group of every row whose groups are known, -1 for one without a name here.

        Parameters
        ----------
        attributes : mapping of str to array-like, shape (n,)
            Groups by attribute.

        Returns
        -------
        ndarray of int, shape (n,)

        Raises
        ------
        ValueError
            If an attribute is missing.
        """
        codes = []
        for name, groups in zip(self.attributes, self.groups, strict=True):
            if name not in attributes:
                raise ValueError(
                    f"sensitive_features lacks {name!r}, by which the counterparts were learned."
                )
            places = {group: number for number, group in enumerate(groups)}
            texts = group_texts(attributes[name]).tolist()
            codes.append(np.array([places.get(text, -1) for text in texts], dtype=np.int64))
        return combined_codes(codes, [len(groups) for groups in self.groups])

    def write(self, rows: Float, target: int) -> None:
        """Write a combined group into the columns of its attributes, in place.

        Parameters
        ----------
        rows : ndarray of float, shape (n, d)
        target : int
        """
        code = target
        for names, reader in zip(reversed(self.groups), reversed(self.readers), strict=True):
            group = code % len(names)
            code //= len(names)
            if reader is not None:
                rows[:, reader.positions] = reader.values[group]


def combined_codes(codes: Sequence[Index], sizes: Sequence[int]) -> Index:
    """Codes of the combinations of groups; -1 where one is unknown.

    Parameters
    ----------
    codes : sequence of ndarray of int, shape (n,)
    sizes : sequence of int
        Number of groups of each attribute.

    Returns
    -------
    ndarray of int, shape (n,)
    """
    total = np.zeros_like(codes[0])
    unknown = np.zeros(len(codes[0]), dtype=bool)
    for attribute_codes, size in zip(codes, sizes, strict=True):
        total = total * size + attribute_codes
        unknown |= attribute_codes < 0
    return np.where(unknown, -1, total)


def least_training(min_cell: int) -> int:
    """Least training rows of a group, of whom each half of the evidence has enough.

    Parameters
    ----------
    min_cell : int

    Returns
    -------
    int
        At least 70.
    """
    return max(LEAST_TRAINING, 2 * min_cell + 10)


def group_codes_of(
    name: str, values: ArrayLike, least: int = LEAST_TRAINING
) -> tuple[list[str], Index]:
    """Names of an attribute's groups, and the group of every row; -1 for a missing value.

    Parameters
    ----------
    name : str
        Name of the attribute, for messages.
    values : array-like, shape (n,)
    least : int
        Least rows of a group.

    Returns
    -------
    tuple of list of str and ndarray of int, shape (n,)

    Raises
    ------
    ValueError
        If there is one group, or a group has fewer than `least` rows.
    """
    texts = group_texts(values)
    groups, codes, counts = np.unique(texts, return_inverse=True, return_counts=True)
    names: list[str] = []
    numbers = np.full(len(groups), -1)
    for number, group in enumerate(groups.tolist()):
        if group == MISSING:  # they have no counterparts
            continue
        if counts[number] < least:
            raise ValueError(
                f"the group {group!r} of {name!r} has {int(counts[number])} training rows: a "
                f"learned metric needs at least {least}. Merge it with another group."
            )
        numbers[number] = len(names)
        names.append(group)
    if len(names) < 2:
        raise ValueError(f"the attribute {name!r} has one group: nothing can be learned from it.")
    return names, numbers[codes]


def group_reader(
    rows: Float, positions: Sequence[int], names: list[str], codes: Index
) -> GroupReader | None:
    """How groups are read from columns of X; None if they do not follow from them.

    Parameters
    ----------
    rows : ndarray of float, shape (n, d)
    positions : sequence of int
        Columns of the attribute; there may be none.
    names : list of str
        Names of the groups.
    codes : ndarray of int, shape (n,)
        Group of every row, -1 for unknown.

    Returns
    -------
    GroupReader or None
    """
    if not len(positions):
        return None
    columns = list(positions)
    has_group = codes >= 0
    values = [rows[codes == group][:, columns].mean(axis=0).tolist() for group in range(len(names))]
    if all(is_binary(rows[:, j]) for j in columns):
        levels = levels_of(rows, columns)
        counts = np.zeros((len(columns) + 1, len(names)))
        np.add.at(counts, (levels[has_group], codes[has_group]), 1)
        level_groups = np.where(counts.sum(axis=1) > 0, counts.argmax(axis=1), -1)
        reader = GroupReader(columns, level_groups.tolist(), [], [], values)
        encodings = np.concatenate([np.eye(len(columns)), np.zeros((1, len(columns)))])
        for group in range(len(names)):
            reader.values[group] = encodings[counts[:, group].argmax()].tolist()
    else:
        first = rows[has_group, columns[0]]
        order = np.argsort([value[0] for value in values])
        cuts = []
        for lower, upper in zip(order[:-1], order[1:], strict=True):
            below = first[codes[has_group] == lower].max()
            above = first[codes[has_group] == upper].min()
            cuts.append(roundest_between(float(below), float(above)))
        reader = GroupReader(columns, [], sorted(cuts), order.tolist(), values)
    if np.mean(reader.read(rows)[has_group] == codes[has_group]) < READABLE:
        return None
    return reader


def roundest_between(low: float, high: float) -> float:
    """The number with the fewest decimals from one to below another, the next to their middle.

    Unlike the middle of two people's values, it shows neither.

    Parameters
    ----------
    low, high : float

    Returns
    -------
    float
        The middle, if `low` is not below `high`.

    Examples
    --------
    >>> roundest_between(0.2371, 0.2584)
    0.25
    """
    middle = (low + high) / 2
    if not low < high:
        return middle
    for decimals in range(16):
        rounded = round(middle, decimals)
        if low <= rounded < high:
            return rounded
    return middle
