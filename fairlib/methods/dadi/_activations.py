"""The exponential of a whole buffer, in a form that compilers turn into vector instructions."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

__all__ = ["exponential"]

# ln 2 in two parts, so that x - k ln 2 is exact (Cody and Waite)
LN2_HIGH = np.float32(0.693359375)
LN2_LOW = np.float32(-2.12194440e-4)
INVERSE_LN2 = np.float32(1.44269504)
# beyond these, exp leaves the normal float32 numbers
LOWEST = np.float32(-87.3)
HIGHEST = np.float32(88.3)
# minimax polynomial of (exp(f) - 1 - f) / f^2 on |f| <= ln 2 / 2
C5, C4, C3, C2, C1, C0 = (
    np.float32(c)
    for c in (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 0.5)
)
ONE, HALF = np.float32(1.0), np.float32(0.5)


@numba.njit(nogil=True, cache=True, fastmath={"contract", "nsz"})  # type: ignore[misc]
def exponential(values: Any, powers: Any) -> None:
    """
    Replace a buffer by its exponential, to about 1e-7 of each value.

    Parameters
    ----------
    values : float32, shape (n,)
        Clipped to where the result is a normal number.
    powers : int32, shape (>= n,)
        Scratch.
    """
    n = values.shape[0]
    for i in range(n):
        x = min(max(values[i], LOWEST), HIGHEST)
        k = np.floor(x * INVERSE_LN2 + HALF)
        f = (x - k * LN2_HIGH) - k * LN2_LOW
        p = ((((C5 * f + C4) * f + C3) * f + C2) * f + C1) * f + C0
        values[i] = (p * f) * f + f + ONE
        powers[i] = (np.int32(k) + np.int32(127)) << np.int32(23)
    scale = powers[:n].view(np.float32)
    for i in range(n):
        values[i] *= scale[i]
