"""Checks of constructor parameters, made when ``fit`` begins."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

__all__ = ["check_choice", "check_counts", "check_interval", "check_widths"]

WORDS = {"[0, inf)": "finite and not negative", "(0, inf)": "positive and finite"}


def check_counts(estimator: Any, *names: str, least: int = 1, optional: bool = False) -> None:
    """ValueError unless the named parameters are whole numbers, at least `least`, or None if `optional`."""
    for name in names:
        value = getattr(estimator, name)
        if optional and value is None:
            continue
        if not isinstance(value, Integral) or value < least:
            words = " or None" if optional else ""
            raise ValueError(f"{name} must be a whole number, at least {least}{words}, got {value!r}.")


def check_interval(estimator: Any, interval: str, *names: str, optional: bool = False) -> None:
    """
    ValueError unless the named parameters lie in an interval, or are None if `optional`.

    Parameters
    ----------
    interval : str
        As in ``"[0, 1)"``: a square bracket includes the bound, a round one does not.
    """
    low, high = (float(bound) for bound in interval[1:-1].split(","))
    for name in names:
        value = getattr(estimator, name)
        if optional and value is None:
            continue
        inside = low <= value <= high  # False for NaN
        at_open_end = (value == low and interval[0] == "(") or (value == high and interval[-1] == ")")
        if not inside or at_open_end:
            words = WORDS.get(interval, f"in {interval}") + (" or None" if optional else "")
            raise ValueError(f"{name} must be {words}, got {value!r}.")


def check_widths(estimator: Any, *names: str) -> None:
    """ValueError unless the named parameters list the units of layers, each at least 1."""
    for name in names:
        value = getattr(estimator, name)
        if any(not isinstance(units, Integral) or units < 1 for units in value):
            raise ValueError(f"{name} must list whole numbers of units, at least 1, got {value!r}.")


def check_choice(estimator: Any, name: str, options: Sequence[str]) -> None:
    """ValueError unless the named parameter is one of the options."""
    value = getattr(estimator, name)
    if value not in options:
        raise ValueError(f"{name} must be one of {', '.join(options)}, got {value!r}.")
