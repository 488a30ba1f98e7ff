"""Compiled loops of proxies: shares of rows in the proxy groups, and the hash of a row's key.

They are all in this file because a compiled function is cached next to its file and renewed only
when that file changes. All of them release the interpreter's lock. None may reorder or fuse
floating-point operations: the results are promised to the last bit.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from evenhand.fairlib.arrays import Float, Int

# Constants of the hash, documented in `hash_uniform`: G, and the tags t times G modulo 2**64.
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
INTEGER = np.uint64((2 * 0x9E3779B97F4A7C15) % 2**64)
UNSIGNED = np.uint64((3 * 0x9E3779B97F4A7C15) % 2**64)
TEXT = np.uint64((5 * 0x9E3779B97F4A7C15) % 2**64)
TOP = np.uint64(1 << 63)
TEN = np.uint64(10)
LARGEST = np.uint64(2**64 - 1)


@numba.njit(nogil=True, cache=True)
def carry(
    numbers: Float,
    codes: NDArray[np.int32],
    means: Float,
    scales: Float,
    plan: Int,
    weights: Float,
    intercepts: Float,
    mixture: Float,
    starts: Int,
    one: Int,
    zero: Int,
    found: Float,
) -> None:
    """Write the shares of rows in the proxy groups to `found`.

    All halfspaces of a row are scored at once with vector instructions. That costs less than
    scoring only the nodes that the row reaches.

    Parameters
    ----------
    numbers : ndarray of float64, shape (numeric columns, n)
        NaN where missing.
    codes : ndarray of int32, shape (other columns, n)
        Lines of `weights`, the last of which is zero.
    means, scales : ndarray of float64, shape (numeric columns,)
    plan : ndarray of int64, shape (columns, 4)
        A line per table column in the order of the matrix: whether it is numeric, its line in
        `numbers` or `codes`, its line in `weights`, and that of its missing indicator or -1.
    weights : ndarray of float64, shape (d + 1, lanes)
    intercepts, mixture : ndarray of float64, shape (lanes,)
        Normals, intercepts and weights p of the halfspaces.
    starts : ndarray of int64, shape (nodes + 1,)
    one, zero : ndarray of int64, shape (nodes,)
        As of :class:`.graph.SplittingGraph`.
    found : ndarray of float64, shape (n, groups)
        Written.
    """
    items = plan.shape[0]
    width = weights.shape[1]
    nothing = weights.shape[0] - 1
    nodes = one.shape[0]
    # all in one function: across a call the compiler must assume that scores and weights overlap
    lines = np.empty(items, dtype=np.int64)
    factors = np.empty(items)
    scores = np.empty(width)
    reached = np.empty(nodes + 1)
    for i in range(found.shape[0]):
        # each column's term of the scores: a line of the weights, and the factor to multiply it by
        for item in range(items):
            line = plan[item, 2]
            factor = 1.0
            if plan[item, 0] == 0:
                line = codes[plan[item, 1], i]
            else:
                k = plan[item, 1]
                value = numbers[k, i]
                if np.isnan(value):
                    line = plan[item, 3] if plan[item, 3] >= 0 else nothing
                else:
                    # the encoder's matrix is float32
                    factor = np.float64(np.float32((value - means[k]) / scales[k]))
            lines[item] = line
            factors[item] = factor
        scores[:] = 0.0
        item = 0
        # scores v x of all halfspaces, summed from the first column to the last; four lines per
        # pass save memory traffic
        while item + 3 < items:
            a = weights[lines[item]]
            b = weights[lines[item + 1]]
            c = weights[lines[item + 2]]
            d = weights[lines[item + 3]]
            p = factors[item]
            q = factors[item + 1]
            r = factors[item + 2]
            s = factors[item + 3]
            for h in range(width):
                scores[h] = (((scores[h] + p * a[h]) + q * b[h]) + r * c[h]) + s * d[h]
            item += 4
        while item < items:
            a = weights[lines[item]]
            p = factors[item]
            for h in range(width):
                scores[h] += p * a[h]
            item += 1
        # p of the halfspaces with v x + b > 0, 0 for the others (definition 9)
        for h in range(width):
            scores[h] = mixture[h] if scores[h] + intercepts[h] > 0.0 else 0.0
        # carry the row's weight through the graph to the proxy groups
        shares = found[i]
        shares[:] = 0.0
        reached[:] = 0.0
        if nodes == 0:
            shares[0] = 1.0
        reached[0] = 1.0
        for node in range(nodes):
            weight = reached[node]
            if weight == 0.0:
                continue
            share = 0.0
            for h in range(starts[node], starts[node + 1]):
                share += scores[h]
            # to nodes, or to proxy groups
            sent = weight * min(share, 1.0)
            for child, part in ((one[node], sent), (zero[node], weight - sent)):
                if child >= 0:
                    reached[child] += part
                else:
                    shares[-1 - child] += part


@numba.njit(nogil=True, cache=True, inline="always")
def mixed(x: Any) -> Any:
    """Finaliser of splitmix64: a bijection in which every input bit changes every output bit.

    Parameters
    ----------
    x : uint64, or ndarray of uint64

    Returns
    -------
    uint64, or ndarray of uint64
    """
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@numba.njit(nogil=True, cache=True)
def text_words(data: NDArray[np.uint8], offsets: Int, out: NDArray[np.uint64]) -> None:
    """Words of texts that lie end to end in `data`; the plain decimal form of an integer counts as
    it.

    Parameters
    ----------
    data : ndarray of uint8
        UTF-8 bytes of all texts.
    offsets : ndarray of int64, shape (n + 1,)
        Where each text begins, and where the last one ends.
    out : ndarray of uint64, shape (n,)
        Written.
    """
    for i in range(len(out)):
        start = offsets[i]
        stop = offsets[i + 1]
        kind, payload = _integer_of(data, start, stop)
        if kind == np.uint64(0):
            kind = TEXT
            payload = bytes_hash(data, start, stop)
        out[i] = mixed(payload + kind)


@numba.njit(nogil=True, cache=True)
def bytes_hash(data: NDArray[np.uint8], start: int, stop: int) -> np.uint64:
    """Hash of the bytes from `start` to before `stop`: h_0 = nG, h_k = m(h_{k-1} xor c_k).

    Parameters
    ----------
    data : ndarray of uint8
    start, stop : int

    Returns
    -------
    uint64
    """
    h = np.uint64(stop - start) * GOLDEN
    position = start
    while position < stop:
        # the next eight bytes, little-endian
        chunk = np.uint64(0)
        for k in range(min(8, stop - position)):
            chunk |= np.uint64(data[position + k]) << np.uint64(8 * k)
        h = mixed(h ^ chunk)
        position += 8
    return h


@numba.njit(nogil=True, cache=True)
def _integer_of(data: NDArray[np.uint8], start: int, stop: int) -> tuple[np.uint64, np.uint64]:
    """Kind and payload of the integer that a text is the plain decimal form of; kind 0 if it is
    none.
    """
    none = (np.uint64(0), np.uint64(0))
    first = start
    # 45 is the minus sign, 48 to 57 are the digits
    negative = first < stop and data[first] == 45
    if negative:
        first += 1
    if first == stop or stop - first > 20:
        return none
    # no leading zero, and no minus zero
    if data[first] == 48 and (negative or stop - first > 1):
        return none
    value = np.uint64(0)
    for k in range(first, stop):
        if data[k] < 48 or data[k] > 57:
            return none
        digit = np.uint64(data[k] - 48)
        if value > (LARGEST - digit) // TEN:
            return none
        value = value * TEN + digit
    # two's complement
    if negative:
        if value > TOP:
            return none
        return INTEGER, np.uint64(0) - value
    return (INTEGER if value < TOP else UNSIGNED), value
