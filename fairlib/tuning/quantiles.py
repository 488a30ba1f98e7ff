"""The quantiles that are kept of a metric on unseen rows, and the chances that follow from them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

LEVELS = (0.01, 0.025, *(round(0.05 * step, 2) for step in range(1, 20)), 0.975, 0.99)
"""Levels of the quantiles."""
CHANCE_STEPS = 200
"""Values of one metric at which the chance that another is smaller is computed."""


def chance_below(quantiles: Sequence[float], value: float) -> float:
    """Return the chance that a metric with these quantiles is at most a value.

    Parameters
    ----------
    quantiles : sequence of float
        Of ``LEVELS``.
    value : float

    Returns
    -------
    float
        From 0 to 1, linear between the quantiles.

    Examples
    --------
    >>> round(chance_below([level for level in LEVELS], 0.6), 3)
    0.6
    """
    if value < quantiles[0]:
        return 0.0
    if value >= quantiles[-1]:
        return 1.0
    place = int(np.searchsorted(quantiles, value, side="right")) - 1
    low = quantiles[place]
    high = quantiles[place + 1]
    share = (value - low) / (high - low)
    return float(LEVELS[place] + share * (LEVELS[place + 1] - LEVELS[place]))


def chance_above(quantiles: Sequence[float], value: float) -> float:
    """Return the chance that a metric with these quantiles is at least a value.

    It is not one less :func:`chance_below`: of few rows a share may well be the value itself.

    Parameters
    ----------
    quantiles : sequence of float
        Of ``LEVELS``.
    value : float

    Returns
    -------
    float
        From 0 to 1, linear between the quantiles.

    Examples
    --------
    >>> round(chance_above([level for level in LEVELS], 0.6), 3)
    0.4
    >>> chance_above([1.0 for level in LEVELS], 1.0)
    1.0
    """
    # levels are symmetric about a half
    mirrored = [-quantile for quantile in reversed(quantiles)]
    return chance_below(mirrored, -value)


def chance_smaller(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the chance that a metric with the quantiles `one` is smaller than an independent one
    with the quantiles `other`; equal values count half.

    Parameters
    ----------
    one, other : sequence of float
        Quantiles of ``LEVELS``.

    Returns
    -------
    float
        From 0 to 1.

    Examples
    --------
    >>> levels = list(LEVELS)
    >>> round(chance_smaller(levels, levels), 2), chance_smaller([0.0] * len(levels), levels)
    (0.5, 1.0)
    """
    total = 0.0
    for step in range(CHANCE_STEPS):
        value = quantile_of(other, (step + 0.5) / CHANCE_STEPS)
        total += (chance_below(one, value) + 1.0 - chance_above(one, value)) / 2
    return total / CHANCE_STEPS


def quantile_of(quantiles: Sequence[float], level: float) -> float:
    """Return the quantile of another level, linear between those that are kept.

    Parameters
    ----------
    quantiles : sequence of float
        Of ``LEVELS``.
    level : float
        From 0 to 1.

    Returns
    -------
    float
    """
    return float(np.interp(level, LEVELS, quantiles))
