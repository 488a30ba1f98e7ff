"""Where the training rows of a metric lie, as bounds that are no person's own value."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["FeatureBounds"]

Float = NDArray[np.float64]
# Finer steps than this would need numbers that float64 lacks.
FINEST = -300


@dataclass(frozen=True)
class FeatureBounds:
    """
    Box around the training rows.

    A search for comparable people may move anywhere at no cost along the free directions: without bounds it
    would leave what any person looks like. The largest and the smallest value of a feature each belong to
    someone, though, and a metric is saved and published. So bounds are widened by a tenth to a hundredth of
    the range and more, outwards to a round number. A feature that only takes the values 0 and 1, and one that
    is constant, keep them: they tell nobody apart.

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
        """FeatureBounds of training rows, shape (n, d), and a basis, shape (d, k)."""
        return cls(*_bounds(rows), *_bounds(rows @ basis))


def _bounds(values: Float) -> tuple[Float, Float]:
    """Widened bounds of every column."""
    pairs = [
        (low, high) if low == high or two else _widened(low, high)
        for low, high, two in zip(
            values.min(axis=0).tolist(),
            values.max(axis=0).tolist(),
            ((values == 0.0) | (values == 1.0)).all(axis=0).tolist(),
            strict=True,
        )
    ]
    low, high = np.array(pairs, dtype=np.float64).reshape(-1, 2).T
    return np.ascontiguousarray(low), np.ascontiguousarray(high)


def _widened(low: float, high: float) -> tuple[float, float]:
    """Next multiples but one of 10^(floor(log10(range)) - 1) outwards."""
    spread = min(high - low, sys.float_info.max)
    exponent = max(math.floor(math.log10(spread)) - 1, FINEST)
    return 0.0 - _above(-low, exponent), _above(high, exponent)


def _above(value: float, exponent: int) -> float:
    """The multiple of 10^exponent after the next one to `value`, as the decimal number it should be."""
    step = 10.0**exponent
    quotient = value / step
    nearest = round(quotient)
    # 0.3 / 0.1 is not 3: a value that is a multiple up to rounding is one
    count = nearest if abs(quotient - nearest) < 1e-9 else math.ceil(quotient)
    return max(round((count + 1) * step, -exponent), value)
