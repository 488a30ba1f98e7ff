"""Maximising a concave function of a positive semi-definite matrix."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from evenhand.fairlib.arrays import Float

# The step grows a little after every iteration, so that one bad region does not slow down the rest.
GROWTH = 1.25
SHRINKAGE = 0.5
# Steps below this share of the first change the matrix by rounding only.
SMALLEST = 1e-18
# Gains below this share of the value are lost in its rounding.
RESOLUTION = 1e-9


class Maximum(NamedTuple):
    """The matrix found, the iterations, and whether the projected gradient became small enough."""

    matrix: Float
    n_iter: int
    converged: bool


def nearest_psd(matrix: Float) -> Float:
    """Projection onto the positive semi-definite matrices: negative eigenvalues are cut."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    kept = values > 0
    return np.asarray((vectors[:, kept] * values[kept]) @ vectors[:, kept].T)


def maximise(
    value: Callable[[Float], float],
    gradient: Callable[[Float], Float],
    start: Float,
    *,
    step: float,
    max_iter: int,
    tol: float,
) -> Maximum:
    r"""Accelerated projected gradient ascent with backtracking and restarts.

    Beck and Teboulle 2009 (FISTA), restarted where the momentum points downhill (O'Donoghue and Candes 2015).

    `value` is a concave function of a symmetric matrix, ``-inf`` outside its domain, and `gradient` its
    gradient within. `start`, shape (d, d), is positive semi-definite and of finite value, and `step` the
    first step length. `tol` limits the Frobenius norm of the projected gradient :math:`\Pi(\Sigma + \nabla
    f(\Sigma)) - \Sigma`, which is 0 at a maximum and nowhere else.
    """
    current = ahead = start
    height, momentum, smallest = value(start), 1.0, SMALLEST * step
    for iteration in range(1, max_iter + 1):
        slope = gradient(ahead)
        # backtracking: shorten the step until the quadratic model is a lower bound
        while True:
            found = nearest_psd(ahead + step * slope)
            moved = found - ahead
            gain = float((slope * moved).sum() - (moved * moved).sum() / (2 * step))
            reached = value(found)
            if gain > RESOLUTION * abs(height):
                enough = reached >= height + gain
            else:  # near the maximum values are alike: the slopes show the curvature
                bend = ((slope - gradient(found)) * moved).sum() if np.isfinite(reached) else np.inf
                enough = bend <= (moved * moved).sum() / step
            if enough or step < smallest:
                break
            step *= SHRINKAGE
        # stop where the projected gradient is small
        small = np.linalg.norm(moved) <= tol * max(step, 1.0)
        if small and np.linalg.norm(nearest_psd(found + gradient(found)) - found) <= tol:
            return Maximum(found, iteration, converged=True)
        if step < smallest:
            break
        step *= GROWTH
        # FISTA's extrapolation; without it where the momentum points downhill or out of the domain
        onwards = found - current
        downhill = (moved * onwards).sum() < 0
        following = float(1 + np.sqrt(1 + 4 * momentum**2)) / 2
        ahead = found + (momentum - 1) / following * onwards
        current, momentum, height = found, following, value(ahead)
        if downhill or not np.isfinite(height):
            ahead, momentum, height = found, 1.0, reached
    return Maximum(found, iteration, converged=False)
