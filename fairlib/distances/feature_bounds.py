"""Bounds of a metric's training rows that equal no person's own value."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["FeatureBounds"]

Float = NDArray[np.float64]
# Smallest exponent of a step: finer steps need numbers that float64 lacks.
FINEST = -300


@dataclass(frozen=True)
class FeatureBounds:
    """
    Box around the training rows.

    A search for comparable people may move along the free directions at no cost: without bounds it would
    leave the range of real people. The largest and the smallest value of a feature belong to somebody,
    though, and a metric is saved and published. So bounds are widened by a tenth to a hundredth of the range
    and more, outwards to a round number. A feature that takes only the values 0 and 1, or only one value,
    keeps them: they identify nobody.

    Parameters
    ----------
    low, high : ndarray of float64, shape (d,)
        Bounds of each feature.
    free_low, free_high : ndarray of float64, shape (k,)
        Bounds of the rows' coordinates along the free directions.
    """

    low: Float
    high: Float
    free_low: Float
    free_high: Float

    @classmethod
    def of(cls, rows: Float, basis: Float) -> FeatureBounds:
        """Bounds of training rows, shape (n, d), and a basis, shape (d, k)."""
        return cls(*_bounds(rows), *_bounds(rows @ basis))


def _bounds(values: Float) -> tuple[Float, Float]:
    """Widened bounds of every column."""
    lows, highs = values.min(axis=0), values.max(axis=0)
    fixed = (lows == highs) | ((values == 0.0) | (values == 1.0)).all(axis=0)
    for j in np.flatnonzero(~fixed):
        lows[j], highs[j] = _widened(float(lows[j]), float(highs[j]))
    return lows, highs


def _widened(low: float, high: float) -> tuple[float, float]:
    """Outwards, the next multiple but one of 10^(floor(log10(range)) - 1)."""
    spread = min(high - low, sys.float_info.max)
    exponent = max(math.floor(math.log10(spread)) - 1, FINEST)
    return 0.0 - _above(-low, exponent), _above(high, exponent)


def _above(value: float, exponent: int) -> float:
    """The multiple of 10^exponent after the next one to `value`, rounded to its decimal number."""
    step = 10.0**exponent
    quotient = value / step
    nearest = round(quotient)
    # 0.3 / 0.1 is not 3: a value that is a multiple up to rounding counts as one
    count = nearest if abs(quotient - nearest) < 1e-9 else math.ceil(quotient)
    return max(round((count + 1) * step, -exponent), value)
