"""Checks of an estimator's parameters and of weights of rows, each with one clear message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

LARGEST_SEED = 2**32 - 1
WORDS = {"[0, inf)": "finite and not negative", "(0, inf)": "positive and finite"}


class ParameterChecks:
    """Base of the classes whose parameters are attributes.

    Every check takes names of parameters and raises ValueError with the name of the first wrong
    one, what is expected, and what was given.
    """

    def _refuse(self, name: str, expected: str, *, optional: bool = False) -> None:
        """Raise the error of one parameter."""
        if optional:
            expected += " or None"
        raise ValueError(f"{name} must be {expected}, got {getattr(self, name)!r}.")

    def _check_counts(self, *names: str, least: int = 1, optional: bool = False) -> None:
        """Whole numbers, at least `least`, or None if `optional`."""
        for name in names:
            value = getattr(self, name)
            if optional and value is None:
                continue
            if not _is_whole(value) or value < least:
                self._refuse(name, f"a whole number, at least {least}", optional=optional)

    def _check_whole_numbers(self, *names: str) -> None:
        """Whole numbers, also negative ones, or None: seeds and numbers of threads."""
        for name in names:
            value = getattr(self, name)
            if value is not None and not _is_whole(value):
                self._refuse(name, "a whole number", optional=True)

    def _check_seed(self, name: str) -> None:
        """A seed of numpy and scikit-learn: a whole number from 0 to 2^32 - 1, or None."""
        value = getattr(self, name)
        if value is None:
            return
        if not _is_whole(value) or not 0 <= value <= LARGEST_SEED:
            self._refuse(name, f"a whole number from 0 to {LARGEST_SEED}", optional=True)

    def _check_interval(self, interval: str, *names: str, optional: bool = False) -> None:
        """Numbers in an interval, or None if `optional`.

        `interval` is written as in ``"[0, 1)"``: a square bracket includes the bound, a round one
        does not.
        """
        for name in names:
            value = getattr(self, name)
            if optional and value is None:
                continue
            if not _is_number(value) or not _is_inside(float(value), interval):
                self._refuse(name, WORDS.get(interval, f"in {interval}"), optional=optional)

    def _check_widths(self, *names: str) -> None:
        """Sequences of the units of layers, each at least 1."""
        for name in names:
            value = getattr(self, name)
            if not _is_sequence(value) or any(not _is_whole(units) or units < 1 for units in value):
                raise ValueError(
                    f"{name} must list whole numbers of units, at least 1, got {value!r}."
                )

    def _check_columns_named(self, name: str) -> None:
        """A sequence of columns of X: their names, or positions, which count from 0."""
        value = getattr(self, name)
        if not _is_sequence(value) or not all(_is_column(item) for item in value):
            self._refuse(name, "a list of columns: names, or positions, which count from 0")

    def _check_choice(self, name: str, options: Sequence[str]) -> None:
        """One of the options."""
        value = getattr(self, name)
        if not isinstance(value, str) or value not in options:
            self._refuse(name, f"one of {', '.join(options)}")

    def _check_flags(self, *names: str) -> None:
        """True or False."""
        for name in names:
            if not isinstance(getattr(self, name), bool | np.bool_):
                self._refuse(name, "True or False")

    def _check_name(self, name: str) -> None:
        """A name, or None."""
        value = getattr(self, name)
        if value is not None and not isinstance(value, str):
            self._refuse(name, "a name", optional=True)

    def _check_names(self, *names: str) -> None:
        """Sequences of names, or None; a single name is none."""
        for name in names:
            value = getattr(self, name)
            if value is None:
                continue
            if not _is_sequence(value) or not all(isinstance(item, str) for item in value):
                self._refuse(name, "a list of names", optional=True)

    def _check_mapping(self, name: str) -> None:
        """A mapping, or None."""
        value = getattr(self, name)
        if value is not None and not isinstance(value, Mapping):
            self._refuse(name, "a mapping", optional=True)

    def _check_columns_of_names(self, name: str) -> None:
        """A mapping of names to sequences of columns of X, or None."""
        value = getattr(self, name)
        if value is None:
            return
        kind = "a mapping of names to lists of columns"
        if not isinstance(value, Mapping):
            self._refuse(name, kind, optional=True)
        for columns in value.values():
            if not _is_sequence(columns) or not all(_is_column(item) for item in columns):
                self._refuse(name, kind, optional=True)

    def _check_callable(self, *names: str) -> None:
        """Functions, or None."""
        for name in names:
            value = getattr(self, name)
            if value is not None and not callable(value):
                self._refuse(name, "a function", optional=True)

    def _check_has(self, name: str, method: str, kind: str) -> None:
        """An object with a method, described by `kind`, or None; a class is no object of it."""
        value = getattr(self, name)
        if value is None:
            return
        if isinstance(value, type) or not hasattr(value, method):
            self._refuse(name, f"{kind} (an object with {method}())", optional=True)


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_column(item: Any) -> bool:
    """Whether a value may be the name of a column, or its position."""
    return isinstance(item, str) or (_is_whole(item) and item >= 0)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _is_sequence(value: Any) -> bool:
    """Whether a value is a list, a tuple or an array, and no text."""
    return isinstance(value, Sequence | np.ndarray) and not isinstance(value, str | bytes)


def _is_inside(value: float, interval: str) -> bool:
    """Whether a number is in an interval such as ``"[0, 1)"``; NaN never is."""
    first, last = interval[1:-1].split(",")
    low = float(first)
    high = float(last)
    above = value > low if interval[0] == "(" else value >= low
    below = value < high if interval[-1] == ")" else value <= high
    return bool(above and below)


def check_sample_weight(sample_weight: ArrayLike | None, n: int) -> NDArray[np.float64] | None:
    """Check the weights of rows: a row of weight 2 counts as two equal rows, one of 0 as none.

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
