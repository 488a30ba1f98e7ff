"""The hash of :mod:`evenhand.fairlib.proxies.hash_uniform` for rows of bytes of one length.

It needs no compiled code, whose loading takes most of a second.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from evenhand.fairlib.arrays import Float

GOLDEN = 0x9E3779B97F4A7C15
MASK = 2**64 - 1
VERSION = 1
TEXT = 5
CHUNK = 8
# A text of no more bytes may be the decimal form of an integer, which has another word.
LONGEST_INTEGER = 20

Words = NDArray[np.uint64]


def byte_uniforms(rows: NDArray[np.uint8], name: str, seed: int) -> Float:
    """Return one number per row, that of a column of this name with these bytes.

    Parameters
    ----------
    rows : ndarray of uint8, shape (n, w)
        Bytes of each row, more than 20.
    name : str
        Name of the column.
    seed : int
        Taken modulo 2**64.

    Returns
    -------
    ndarray of float64, shape (n,)
        In [0, 1).

    Raises
    ------
    ValueError
        If rows are so short that they may be numbers.

    Examples
    --------
    >>> byte_uniforms(np.zeros((2, 24), dtype=np.uint8), "row", seed=0).round(4).tolist()
    [0.1477, 0.1477]
    """
    if rows.shape[1] <= LONGEST_INTEGER:
        raise ValueError(f"rows: got {rows.shape[1]} bytes, expected more than {LONGEST_INTEGER}")
    text = np.frombuffer(name.encode(), dtype=np.uint8)[None, :]
    words = _mixed(_hashes(rows) + np.uint64(TEXT * GOLDEN & MASK))
    totals = _mixed(words + _hashes(text))
    seeded = _mixed(np.array([seed & MASK], dtype=np.uint64))
    key = _mixed(seeded + np.uint64(GOLDEN * VERSION & MASK))
    hashes = _mixed(_mixed(totals ^ key) + key)
    return np.asarray((hashes >> np.uint64(11)).astype(np.float64) * 2.0**-53)


def _hashes(rows: NDArray[np.uint8]) -> Words:
    """Hash of the bytes of each row: h_0 = wG, h_k = m(h_{k-1} xor c_k)."""
    count, width = rows.shape
    # the chunks of eight bytes, little-endian, filled up with zeros
    padded = np.zeros((count, -(-width // CHUNK) * CHUNK), dtype=np.uint8)
    padded[:, :width] = rows
    chunks = padded.view("<u8")
    h = np.full(count, width * GOLDEN & MASK, dtype=np.uint64)
    for number in range(chunks.shape[1]):
        h = _mixed(h ^ chunks[:, number])
    return h


def _mixed(x: Words) -> Words:
    """Finaliser of splitmix64."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
