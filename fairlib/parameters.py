"""Checks of an estimator's parameters and of weights of rows, each with one clear message."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral

import numpy as np
from numpy.typing import ArrayLike, NDArray

WORDS = {"[0, inf)": "finite and not negative", "(0, inf)": "positive and finite"}


class ParameterChecks:
    """Base of the classes whose parameters are attributes; a check raises ValueError."""

    def _check_counts(self, *names: str, least: int = 1, optional: bool = False) -> None:
        """ValueError unless parameters are whole numbers, at least `least`, or None if
        `optional`.
        """
        for name in names:
            value = getattr(self, name)
            if optional and value is None:
                continue
            if not isinstance(value, Integral) or value < least:
                words = " or None" if optional else ""
                raise ValueError(
                    f"{name} must be a whole number, at least {least}{words}, got {value!r}."
                )

    def _check_interval(self, interval: str, *names: str, optional: bool = False) -> None:
        """ValueError unless the named parameters lie in an interval, or are None if `optional`.

        `interval` is written as in ``"[0, 1)"``: a square bracket includes the bound, a round one
        does not.
        """
        condition = WORDS.get(interval, f"in {interval}")
        if optional:
            condition += " or None"
        for name in names:
            value = getattr(self, name)
            if optional and value is None:
                continue
            if not _is_inside(value, interval):
                raise ValueError(f"{name} must be {condition}, got {value!r}.")

    def _check_widths(self, *names: str) -> None:
        """ValueError unless the named parameters list the units of layers, each at least 1."""
        for name in names:
            value = getattr(self, name)
            if any(not isinstance(units, Integral) or units < 1 for units in value):
                raise ValueError(
                    f"{name} must list whole numbers of units, at least 1, got {value!r}."
                )

    def _check_choice(self, name: str, options: Sequence[str]) -> None:
        """ValueError unless the named parameter is one of the options."""
        value = getattr(self, name)
        if value not in options:
            raise ValueError(f"{name} must be one of {', '.join(options)}, got {value!r}.")


def _is_inside(value: float, interval: str) -> bool:
    """Whether a number is in an interval such as ``"[0, 1)"``; NaN never is."""
    first, last = interval[1:-1].split(",")
    low = float(first)
    high = float(last)
    above = value > low if interval[0] == "(" else value >= low
    below = value < high if interval[-1] == ")" else value <= high
    return bool(above and below)


def check_sample_weight(sample_weight: ArrayLike | None, n: int) -> NDArray[np.float64] | None:
    """Weights of n rows, shape (n,): a row of weight 2 counts as two equal rows, one of 0 as none.

    Parameters
    ----------
    sample_weight : array-like, shape (n,), optional
        Weights; None stays None.
    n : int
        Number of rows.

    Returns
    -------
    ndarray or None, shape (n,)
        Finite and not negative.

    Raises
    ------
    ValueError
        For another shape, a negative weight or one that is not finite, or no positive one.
    """
    if sample_weight is None:
        return None
    weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.shape != (n,):
        raise ValueError(
            f"sample_weight must have one weight per row, got shape {weights.shape} for {n} rows."
        )
    if not (np.isfinite(weights).all() and (weights >= 0).all() and (weights > 0).any()):
        raise ValueError("sample_weight must be finite, not negative, and not zero for all rows.")
    return weights
