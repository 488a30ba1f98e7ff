"""Search spaces: which values of a method's parameters are worth trying, declared next to each
estimator.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Real:
    """A real number in [low, high].

    Parameters
    ----------
    low, high : float
        Ends of the range, which belong to it.
    log : bool, default False
        Whether the logarithm is searched.
    default : float or None, default None
        What is tried first; None: the default of the constructor.

    Raises
    ------
    ValueError
        If an end is no finite number, the range is empty, or a logarithm begins at 0 or less.
    """

    low: float
    high: float
    log: bool = False
    default: float | None = None

    def __post_init__(self) -> None:
        """Check the ends of the range."""
        low = self.low
        high = self.high
        if not (is_number(low) and is_number(high)):
            raise ValueError(f"the range {low!r} to {high!r} needs finite numbers as its ends")
        if low > high:
            raise ValueError(f"the range {low!r} to {high!r} is empty: give its lower end first")
        if self.log and low <= 0:
            raise ValueError(
                f"the range {low:g} to {high:g} has a logarithmic scale: it must begin above 0"
            )

    def holds(self, value: Any) -> bool:
        """Whether a value is in the range.

        Parameters
        ----------
        value : object

        Returns
        -------
        bool
        """
        return is_number(value) and self.low <= value <= self.high

    def __str__(self) -> str:
        return f"{self.low:g} to {self.high:g}"


@dataclass(frozen=True)
class Whole(Real):
    """A whole number in [low, high], whose ends are whole too; the rest as of :class:`Real`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (float(self.low).is_integer() and float(self.high).is_integer()):
            raise ValueError(f"the range {self} is of a whole number: give whole ends")

    def holds(self, value: Any) -> bool:
        """Whether a value is in the range.

        Parameters
        ----------
        value : object

        Returns
        -------
        bool
        """
        return super().holds(value) and float(value).is_integer()


@dataclass(frozen=True)
class Choice:
    """One of some values, without order.

    Parameters
    ----------
    values : tuple
        At least one.
    default : object, default None
        What is tried first; None: the default of the constructor.
    """

    values: tuple[Any, ...]
    default: Any = None

    def __post_init__(self) -> None:
        if not self.values:
            raise ValueError("a choice needs at least one value")

    def holds(self, value: Any) -> bool:
        """Whether a value is one of them.

        Parameters
        ----------
        value : object

        Returns
        -------
        bool
        """
        return any(same(value, item) for item in self.values)

    def __str__(self) -> str:
        return ", ".join(_or_null(value) for value in self.values)


Dimension = Real | Choice
Space = Mapping[str, Dimension]


def is_number(value: Any) -> bool:
    """Whether a value is a finite number, and no boolean.

    Parameters
    ----------
    value : object

    Returns
    -------
    bool
    """
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal; lists equal tuples, and a boolean equals no number.

    Parameters
    ----------
    one, other : object

    Returns
    -------
    bool
    """
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def shown(value: Any) -> str:
    """Write a value for readers.

    Parameters
    ----------
    value : object

    Returns
    -------
    str
        Booleans as in YAML, lists in brackets, and short floats.
    """
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(shown, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    return str(value)


def _or_null(value: Any) -> str:
    if value is None:
        return "null"
    return shown(value)


def space_of(cls: type) -> dict[str, Dimension]:
    """Search space of an estimator, each default filled in from its constructor.

    Parameters
    ----------
    cls : type
        An estimator; it may declare its ``space``.

    Returns
    -------
    dict of str to dimension
    """
    parameters = inspect.signature(cls).parameters
    declared: Space = getattr(cls, "space", {})
    return {name: with_default(item, parameters[name].default) for name, item in declared.items()}


def to_json(space: Space) -> list[Any]:
    """Write a space as plain JSON, if the values of its choices are.

    Parameters
    ----------
    space : mapping of str to dimension

    Returns
    -------
    list
        Of each dimension its name, its kind and its fields.
    """
    rows: list[Any] = []
    for name, dimension in space.items():
        fields = dict(vars(dimension))
        if isinstance(dimension, Choice):
            fields["values"] = list(dimension.values)
        rows.append([name, type(dimension).__name__, fields])
    return rows


def from_json(rows: Sequence[Any]) -> dict[str, Dimension]:
    """Read what :func:`to_json` wrote.

    Parameters
    ----------
    rows : list

    Returns
    -------
    dict of str to dimension

    Examples
    --------
    >>> from_json(to_json({"depth": Whole(2, 6, default=3)}))
    {'depth': Whole(low=2, high=6, log=False, default=3)}
    """
    kinds = {"Real": Real, "Whole": Whole, "Choice": Choice}
    space: dict[str, Dimension] = {}
    for name, kind, fields in rows:
        if kind == "Choice":
            space[name] = Choice(tuple(fields["values"]), fields["default"])
        else:
            space[name] = kinds[kind](**fields)
    return space


def with_default(dimension: Dimension, value: Any) -> Dimension:
    """Give a dimension the default `value` unless it declares its own.

    A range that does not hold the value is widened, so that what a job says can be found.

    Parameters
    ----------
    dimension : Real, Whole or Choice
    value : object
        If it is no number of the scale, a range begins in its middle.

    Returns
    -------
    Real, Whole or Choice
    """
    if dimension.default is not None:
        return dimension
    if isinstance(dimension, Choice):
        values = dimension.values
        if not dimension.holds(value):
            values = (*values, value)
        return Choice(values, value)
    if not is_number(value) or (dimension.log and value <= 0):
        return replace(dimension, default=_middle(dimension))
    low = min(dimension.low, value)
    high = max(dimension.high, value)
    return replace(dimension, low=low, high=high, default=value)


def _middle(dimension: Real) -> float:
    """Middle of a range on its scale; a whole number if its values are."""
    if dimension.log:
        middle = math.sqrt(dimension.low * dimension.high)
    else:
        middle = (dimension.low + dimension.high) / 2
    if isinstance(dimension, Whole):
        return round(middle)
    return middle


def restricted(dimension: Dimension | None, given: Any, default: Any = None) -> Dimension:
    """Replace a dimension by what a job says of it.

    One value fixes the parameter; two numbers are the ends of a range, unless the dimension is a
    choice; a list of other values is a choice; a mapping has ``low``, ``high`` and optionally
    ``log``.

    Parameters
    ----------
    dimension : Real, Whole, Choice or None
        None for a parameter that the method's space lacks.
    given : object
        What the job says.
    default : object, default None
        Default of the constructor, which decides about the kind of a parameter without dimension.

    Returns
    -------
    Real, Whole or Choice

    Raises
    ------
    ValueError
        If the range is empty, or the mapping has other keys.
    """
    if isinstance(given, Mapping):
        if not {"low", "high"} <= set(given) <= {"low", "high", "log"}:
            raise ValueError("a range has the keys low, high and optionally log")
        log = given.get("log", False)
        if not isinstance(log, bool):
            raise ValueError(f"log is {log!r}, expected true or false")
        return _range(dimension, given["low"], given["high"], log, default)
    if not isinstance(given, list | tuple):
        return Choice((given,), given)
    if not given:
        raise ValueError("the list is empty: give two ends of a range, or at least one value")
    are_ends = len(given) == 2 and all(map(is_number, given))
    if are_ends and not isinstance(dimension, Choice):
        log = getattr(dimension, "log", False)
        return _range(dimension, given[0], given[1], log, default)
    values = tuple(given)
    start = next((item for item in values if same(item, default)), values[0])
    return Choice(values, start)


def _range(dimension: Dimension | None, low: Any, high: Any, log: bool, default: Any) -> Real:
    """A range of a job, which begins at the default if it holds that, else in its middle."""
    is_whole = isinstance(dimension, Whole) or (dimension is None and type(default) is int)
    if isinstance(dimension, Choice):
        # such as null, 2 and 3
        numbers = [value for value in dimension.values if value is not None]
        is_whole = bool(numbers) and all(type(value) is int for value in numbers)
    kind = Whole if is_whole else Real
    limits = kind(low, high, log)
    start = default if dimension is None else dimension.default
    if not limits.holds(start):
        start = _middle(limits)
    return replace(limits, default=start)


def rows_of(space: Space) -> list[Sequence[str]]:
    """Name, range, scale and default of each parameter, as texts.

    Parameters
    ----------
    space : mapping of str to dimension

    Returns
    -------
    list of tuple of four str
    """
    return [
        (name, str(item), _scale_of(item), _or_null(item.default)) for name, item in space.items()
    ]


def _scale_of(dimension: Dimension) -> str:
    if isinstance(dimension, Choice):
        return "choice"
    kind = "whole number" if isinstance(dimension, Whole) else "number"
    scale = "logarithmic" if dimension.log else "linear"
    return f"{kind}, {scale}"
