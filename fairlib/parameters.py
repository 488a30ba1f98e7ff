"""Checks of an estimator's parameters, each with one clear message."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral

WORDS = {"[0, inf)": "finite and not negative", "(0, inf)": "positive and finite"}


class ParameterChecks:
    """Base of the classes whose parameters are attributes; a check raises ValueError."""

    def _check_counts(self, *names: str, least: int = 1, optional: bool = False) -> None:
        """ValueError unless parameters are whole numbers, at least `least`, or None if `optional`."""
        for name in names:
            value = getattr(self, name)
            if optional and value is None:
                continue
            if not isinstance(value, Integral) or value < least:
                words = " or None" if optional else ""
                raise ValueError(f"{name} must be a whole number, at least {least}{words}, got {value!r}.")

    def _check_interval(self, interval: str, *names: str, optional: bool = False) -> None:
        """ValueError unless the named parameters lie in an interval, or are None if `optional`.

        `interval` is written as in ``"[0, 1)"``: a square bracket includes the bound, a round one does not.
        """
        low, high = (float(bound) for bound in interval[1:-1].split(","))
        for name in names:
            value = getattr(self, name)
            if optional and value is None:
                continue
            inside = low <= value <= high  # False for NaN
            at_open_end = (value == low and interval[0] == "(") or (value == high and interval[-1] == ")")
            if not inside or at_open_end:
                words = WORDS.get(interval, f"in {interval}") + (" or None" if optional else "")
                raise ValueError(f"{name} must be {words}, got {value!r}.")

    def _check_widths(self, *names: str) -> None:
        """ValueError unless the named parameters list the units of layers, each at least 1."""
        for name in names:
            value = getattr(self, name)
            if any(not isinstance(units, Integral) or units < 1 for units in value):
                raise ValueError(f"{name} must list whole numbers of units, at least 1, got {value!r}.")

    def _check_choice(self, name: str, options: Sequence[str]) -> None:
        """ValueError unless the named parameter is one of the options."""
        value = getattr(self, name)
        if value not in options:
            raise ValueError(f"{name} must be one of {', '.join(options)}, got {value!r}.")
