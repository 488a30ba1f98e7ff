"""Search spaces: which values of a method's parameters are worth trying, declared beside each
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

    `log` searches its logarithm. `default` is what is tried first; None: that of the constructor.
    """

    low: float
    high: float
    log: bool = False
    default: float | None = None

    def __post_init__(self) -> None:
        """ValueError: no finite numbers as ends, an empty range, or a logarithm of 0 or less."""
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
        """Whether a value is in the range."""
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
        """Whether a value is in the range."""
        return super().holds(value) and float(value).is_integer()


@dataclass(frozen=True)
class Choice:
    """One of some values, without order; `default` as of :class:`Real`, by default the first."""

    values: tuple[Any, ...]
    default: Any = None

    def __post_init__(self) -> None:
        if not self.values:
            raise ValueError("a choice needs at least one value")

    def holds(self, value: Any) -> bool:
        """Whether a value is one of them."""
        return any(same(value, item) for item in self.values)

    def __str__(self) -> str:
        return ", ".join("null" if value is None else shown(value) for value in self.values)


Dimension = Real | Choice
Space = Mapping[str, Dimension]


def is_number(value: Any) -> bool:
    """Whether a value is a finite number, and no boolean."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal; lists equal tuples, and a boolean equals no number."""
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def shown(value: Any) -> str:
    """Write a value for readers."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(shown, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def space_of(cls: type) -> dict[str, Dimension]:
    """Search space of an estimator, each default filled in from its constructor."""
    parameters = inspect.signature(cls.__init__).parameters  # type: ignore[misc]
    declared: Space = getattr(cls, "space", {})
    return {name: with_default(item, parameters[name].default) for name, item in declared.items()}


def with_default(dimension: Dimension, value: Any) -> Dimension:
    """Give a dimension the default `value` unless it declares its own.

    A range that does not hold the value is widened, so that what a job says can be found.
    """
    if dimension.default is not None:
        return dimension
    if isinstance(dimension, Choice):
        values = dimension.values if dimension.holds(value) else (*dimension.values, value)
        return Choice(values, value)
    if not is_number(value) or (dimension.log and value <= 0):
        middle = math.sqrt(dimension.low * dimension.high) if dimension.log else None
        start = (dimension.low + dimension.high) / 2 if middle is None else middle
        return replace(dimension, default=round(start) if isinstance(dimension, Whole) else start)
    low = min(dimension.low, value)
    high = max(dimension.high, value)
    return replace(dimension, low=low, high=high, default=value)


def restricted(dimension: Dimension | None, given: Any, default: Any = None) -> Dimension:
    """Replace a dimension by what a job says of it.

    `dimension` is None for a parameter that the method's space lacks. Of what is `given` one value
    fixes the parameter; two numbers are the ends of a range, unless the dimension is a choice; a
    list of other values is a choice; a mapping has ``low``, ``high`` and optionally ``log``. By
    `default`, the constructor's, the kind of a parameter without dimension is told. ValueError: the
    range is empty, or the mapping has other keys.
    """
    is_range = isinstance(given, Mapping)
    if is_range:
        if not {"low", "high"} <= set(given) <= {"low", "high", "log"}:
            raise ValueError("a range has the keys low, high and optionally log")
        given, log = [given["low"], given["high"]], bool(given.get("log", False))
    else:
        log = getattr(dimension, "log", False)
    if not isinstance(given, list | tuple):
        return Choice((given,), given)
    if not given:
        raise ValueError("the list is empty: give two ends of a range, or at least one value")
    two_numbers = len(given) == 2 and all(map(is_number, given))
    if not is_range and (not two_numbers or isinstance(dimension, Choice)):
        values = tuple(given)
        kept = next((item for item in values if same(item, default)), values[0])
        return Choice(values, kept)
    whole = isinstance(dimension, Whole) or (dimension is None and type(default) is int)
    found = (Whole if whole else Real)(given[0], given[1], log)
    start = dimension.default if dimension is not None else default
    return replace(found, default=start) if found.holds(start) else with_default(found, None)


def rows_of(space: Space) -> list[Sequence[str]]:
    """Name, range, scale and default of each parameter, as texts."""
    rows: list[Sequence[str]] = []
    for name, item in space.items():
        scale = "choice" if isinstance(item, Choice) else "logarithmic" if item.log else "linear"
        kind = {Real: "number", Whole: "whole number", Choice: ""}[type(item)]
        default = "null" if item.default is None else shown(item.default)
        rows.append((name, str(item), f"{kind}, {scale}".removeprefix(", "), default))
    return rows
