"""The values that a person's changeable columns could have, and what each change costs.

The cost of a change is the distance in standard deviations of the training rows, for numbers and
positions in an order, and 1 for another category; every
changed column costs a tenth more. A number changes in whole steps, so that there
are finitely many values, and the smallest change can be proved to be the smallest.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from evenhand.fairlib.arrays import Bool, Float, Float32, Index
from evenhand.fairlib.preprocessing.encoder import FittedColumn, TableEncoder, category_name

if TYPE_CHECKING:
    import pandas as pd

Direction = Literal["up", "down", "free"]
DIRECTIONS = ("up", "down", "free")
# Kinds of encodings whose columns can change.
NUMBERS = ("standard", "unit")
CATEGORIES = ("onehot", "binary", "ordinal")
# Cost of another category, in standard deviations.
CATEGORY_COST = 1.0
# Every changed column costs so much more: a change of fewer columns is easier to make.
COLUMN_COST = 0.1
# A number without bounds changes by at most so many standard deviations from the mean.
FARTHEST = 4.0
# Most values of a number that a network tries; trees need only one between two splits.
MOST_VALUES = 400
# Uniform numbers on [0, 1] have this standard deviation.
UNIT_DEVIATION = 1.0 / math.sqrt(12.0)


@dataclass(frozen=True)
class Changeable:
    """A column that a person can change.

    Parameters
    ----------
    column : str
        Name of the column.
    direction : {"up", "down", "free"}, default "free"
        Whether a number, or a position in an order, may only rise, only fall, or both. Categories
        without an order are ``"free"``.
    values : sequence or None, default None
        Of categories: those that a person can have; None: all that the model knows.
    minimum, maximum : float or None, default None
        Of numbers: inclusive bounds; None: four standard deviations from the mean.
    whole : bool, default False
        Whether a number is a whole one.
    step : float or None, default None
        Of numbers: the smallest change; None: 1 for whole numbers, else a round number of about a
        hundredth of the standard deviation.
    """

    column: str
    direction: Direction = "free"
    values: Sequence[Any] | None = None
    minimum: float | None = None
    maximum: float | None = None
    whole: bool = False
    step: float | None = None

    def __post_init__(self) -> None:
        """Check the direction and the step."""
        if self.direction not in DIRECTIONS:
            raise ValueError(
                f"column {self.column!r}: direction is {self.direction!r}, expected up, down or "
                "free."
            )
        if self.step is not None and not self.step > 0:
            raise ValueError(f"column {self.column!r}: step is {self.step!r}, expected above 0.")


@dataclass(frozen=True)
class Choices:
    """The values of one column, the person's own one first, then by rising cost."""

    column: str
    places: Index  # columns of the matrix
    values: list[Any]  # as in the table; the first is the person's own
    encoded: Float32  # shape (values, places)
    costs: Float  # shape (values,)
    step: float | None = None  # of numbers

    def __len__(self) -> int:
        return len(self.values)


def choices_of(
    encoder: TableEncoder,
    row: Mapping[str, Any],
    encoded: Float32,
    changeable: Sequence[Changeable],
    cuts: Mapping[int, Float] | None = None,
) -> list[Choices]:
    """List the values of each changeable column of one person.

    Parameters
    ----------
    encoder : TableEncoder
        Fitted encoder.
    row : mapping of str to value
        The person's values as in the table; None where one is missing.
    encoded : ndarray of float32, shape (d,)
        The same, encoded.
    changeable : sequence of Changeable
        Columns that the person can change.
    cuts : mapping of int to ndarray of float64, or None
        For trees, by matrix column, the rising numbers between which nothing changes: then one
        value is enough between two of them, the nearest one.

    Returns
    -------
    list of Choices
        Columns with no other value than the own one are left out.

    Raises
    ------
    ValueError
        For a column that the encoder lacks, or whose encoding has no values to choose from.
    """
    fitted = {item.name: item for item in encoder.fitted_}
    listed = []
    for change in changeable:
        item = fitted.get(change.column)
        if item is None:
            raise ValueError(f"the model does not read the column {change.column!r}.")
        places = np.array(encoder.groups_[item.name])
        if item.kind in NUMBERS:
            choices = _numbers(item, places, change, row[item.name], encoded, cuts)
        elif item.kind in CATEGORIES:
            choices = _categories(item, places, change, row[item.name], encoded)
        else:
            raise ValueError(
                f"the column {item.name!r} has the encoding {item.kind}, whose values cannot be "
                "listed: it must be fixed."
            )
        if len(choices) > 1:
            listed.append(choices)
    return listed


def frame_of(rows: Sequence[Mapping[str, Any]], encoder: TableEncoder) -> pd.DataFrame:
    """A table of rows with the columns that an encoder reads.

    Parameters
    ----------
    rows : sequence of mapping of str to value
        Values by column; None where one is missing.
    encoder : TableEncoder
        Fitted encoder.

    Returns
    -------
    DataFrame
    """
    import pandas as pd

    columns = {}
    for name in encoder.groups_:
        columns[name] = [row[name] for row in rows]
    return pd.DataFrame(columns)


def round_step(size: float) -> float:
    """Largest number of 1, 2 or 5 times a power of ten that is at most `size`.

    Parameters
    ----------
    size : float
        Above 0.

    Returns
    -------
    float

    Examples
    --------
    >>> round_step(0.07), round_step(234.0)
    (0.05, 200.0)
    """
    power = 10.0 ** math.floor(math.log10(size))
    for factor in (5.0, 2.0):
        if factor * power <= size:
            return float(f"{factor * power:.12g}")
    return float(f"{power:.12g}")


def deviation_of(item: FittedColumn) -> float:
    """Standard deviation of a column's training rows; of the kind ``unit`` that of uniform numbers.

    Parameters
    ----------
    item : FittedColumn
        A column of numbers, or of categories with an order.

    Returns
    -------
    float
        Above 0.
    """
    if item.kind == "unit":
        return abs(item.scale) * UNIT_DEVIATION
    return abs(item.scale)


def _categories(
    item: FittedColumn, places: Index, change: Changeable, own: Any, encoded: Float32
) -> Choices:
    """Values of a column of categories."""
    names = list(item.categories)
    allowed: list[Any] = names
    if change.values is not None:
        allowed = list(change.values)
    own_name = None if own is None else category_name(own)
    own_position = None
    if own_name in names:
        own_position = names.index(own_name)
    values = [own]
    rows = [encoded[places]]
    costs = [0.0]
    for value in allowed:
        name = category_name(value)
        if name == own_name or name not in names:
            continue
        position = names.index(name)
        cost = CATEGORY_COST
        if item.kind == "ordinal":
            if own_position is None:
                continue
            moved = position - own_position
            if change.direction == "up" and moved < 0:
                continue
            if change.direction == "down" and moved > 0:
                continue
            cost = abs(moved) / deviation_of(item)
        values.append(value)
        rows.append(_encoded_category(item, position, len(places)))
        costs.append(cost + COLUMN_COST)
    return _sorted(change.column, places, values, np.array(rows), np.array(costs), None)


def _encoded_category(item: FittedColumn, position: int, width: int) -> Float32:
    """Numbers of a category at a position of the list."""
    numbers = np.zeros(width, dtype=np.float32)
    if item.kind == "onehot":
        numbers[position] = 1.0
    elif item.kind == "binary":
        numbers[0] = position
    else:
        numbers[0] = (position - item.centre) / item.scale
    return numbers


def _numbers(
    item: FittedColumn,
    places: Index,
    change: Changeable,
    own: Any,
    encoded: Float32,
    cuts: Mapping[int, Float] | None,
) -> Choices:
    """Values of a column of numbers: whole steps within its bounds and in its direction."""
    values = [own]
    rows = [encoded[places]]
    costs = [0.0]
    step = None
    if own is not None:
        low, high = _range(item, change, float(own))
        step = _step(item, change)
        numbers: Float
        if cuts is None:
            numbers, step = _grid(low, high, step)
        else:
            numbers = _beside_cuts(
                item, float(own), (low, high), step, cuts.get(int(places[0]), np.empty(0))
            )
        numbers = numbers[numbers != float(own)]
        for number in numbers.tolist():
            numbers_of_row = np.zeros(len(places), dtype=np.float32)
            numbers_of_row[0] = (number - item.centre) / item.scale
            value: Any = number
            if change.whole:
                value = int(number)
            values.append(value)
            rows.append(numbers_of_row)
            costs.append(abs(number - float(own)) / deviation_of(item) + COLUMN_COST)
    return _sorted(change.column, places, values, np.array(rows), np.array(costs), step)


def _range(item: FittedColumn, change: Changeable, own: float) -> tuple[float, float]:
    """Smallest and largest value that the person can have."""
    low = change.minimum
    high = change.maximum
    if low is None:
        low = item.mean - FARTHEST * deviation_of(item)
    if high is None:
        high = item.mean + FARTHEST * deviation_of(item)
    if change.direction == "up":
        low = own
    elif change.direction == "down":
        high = own
    return min(float(low), own), max(float(high), own)


def _step(item: FittedColumn, change: Changeable) -> float:
    if change.step is not None:
        return change.step
    if change.whole:
        return 1.0
    return round_step(deviation_of(item) / 100.0)


def _grid(low: float, high: float, step: float) -> tuple[Float, float]:
    """Multiples of the step between two numbers, and the step; a larger one if there are too
    many.
    """
    if (high - low) / step > MOST_VALUES:
        coarse = 10.0 * round_step((high - low) / MOST_VALUES / 5.0)
        step = max(step, coarse)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return _multiples(np.arange(first, last + 1), step), step


def _multiples(counts: Any, step: float) -> Float:
    """So many times a step, without the rounding of the product: 0.3 for three times 0.1."""
    products = np.asarray(counts, dtype=np.float64) * step
    digits = max(0, 12 - math.floor(math.log10(max(float(np.abs(products).max(initial=1.0)), 1.0))))
    return np.round(products, min(digits, 12))


def _beside_cuts(
    item: FittedColumn, own: float, ends: tuple[float, float], step: float, cuts: Float
) -> Float:
    """For each interval between two cuts the multiple of the step in it that is nearest to the
    person's own value.
    """
    low, high = ends
    if not len(cuts):
        return np.empty(0)
    counts = np.floor((cuts * item.scale + item.centre) / step)
    numbers = _multiples(counts[:, None] + np.arange(-2, 3), step)
    sides = np.broadcast_to(cuts[:, None], numbers.shape)
    # the step before it, which is on the other side of the cut if it is the nearest of its interval
    neighbours = np.where(
        numbers > own, np.maximum(numbers - step, own), np.minimum(numbers + step, own)
    )

    def reaches(values: Float) -> Bool:
        # a tree goes left below its cut
        return ((values - item.centre) / item.scale).astype(np.float32) >= sides

    crosses = reaches(numbers) != reaches(neighbours)
    is_allowed = (numbers >= low) & (numbers <= high) & (numbers != own)
    return np.unique(numbers[crosses & is_allowed])


def _sorted(
    column: str,
    places: Index,
    values: list[Any],
    encoded: Float32,
    costs: Float,
    step: float | None,
) -> Choices:
    """Order values by rising cost; the own one, which costs nothing, stays first."""
    order = np.argsort(costs, kind="stable")
    return Choices(
        column=column,
        places=places,
        values=[values[place] for place in order.tolist()],
        encoded=np.asarray(encoded[order], dtype=np.float32),
        costs=costs[order],
        step=step,
    )
