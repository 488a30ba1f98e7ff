"""The coin of a row: a number in [0, 1) from a hash of its key, whoever asks and in whatever order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from evenhand.fairlib.proxies._kernels import (
    add_cells,
    integer_words,
    real_words,
    text_words,
    to_uniforms,
    unsigned_words,
)
from evenhand.fairlib.proxies.columns import Rows, null_mask, one_array

__all__ = ["VERSION", "uniforms"]

VERSION = 1
Words = NDArray[np.uint64]
GOLDEN = 0x9E3779B97F4A7C15
MASK = 2**64 - 1
DAY_NS = 86_400 * 10**9
NS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


def uniforms(rows: Rows, columns: Sequence[str], seed: int) -> NDArray[np.float64]:
    r"""
    One number per row, uniform on [0, 1) over keys and seeds.

    Version 1, in 64-bit words: :math:`m` is the finaliser of splitmix64 (Steele, Lea and Flood 2014, variant
    13 of Stafford), G = ``0x9E3779B97F4A7C15`` and all sums are modulo 2**64. A value's word is
    :math:`m(p + tG)` with payload p and tag t:

    - missing: p = 0, t = 1;
    - an integer below 2**63: p its two's complement, t = 2; from 2**63 to 2**64 - 1: t = 3. A float without
      fraction is that integer (-0.0 is 0), a date is its days since 1970-01-01, and so is a timestamp at
      midnight UTC; a text that is an integer's plain decimal form is that integer;
    - any other float: p the bits of its float64, t = 4, all NaN alike;
    - text: p the hash of its UTF-8 bytes, t = 5, where :math:`h_0 = nG` for n bytes and
      :math:`h_k = m(h_{k-1} \oplus c_k)` over the chunks of eight bytes, little-endian and filled up with
      zeros; true and false are the texts of these names;
    - any other timestamp: p its nanoseconds since 1970-01-01 UTC, t = 6.

    A column of name a turns a word w into :math:`m(w + h(a))`, h again the hash of the bytes, and the sum S
    of these over the columns becomes :math:`m(m(S \oplus k) + k)` with :math:`k = m(m(seed) + G \cdot 1)`
    (the last factor is the version), whose 53 upper bits are the number.

    So it does not depend on the order of columns or rows, on chunks, dictionaries or the width of integers.

    Parameters
    ----------
    rows : RecordBatch or Table, n rows
    columns : sequence of str
        The key: columns of numbers, text, truth values, dates or timestamps.
    seed : int
        Taken modulo 2**64.

    Returns
    -------
    ndarray of float64, shape (n,)

    Raises
    ------
    ValueError
        No column, one that is missing, named twice or of another type.
    """
    if not columns or len(set(columns)) < len(columns):
        raise ValueError("the key needs at least one column, and each only once.")
    totals = np.zeros(rows.num_rows, dtype=np.uint64)
    for name in columns:
        add_cells(_words(one_array(rows, name), name), _salt(name), totals)
    out = np.empty(rows.num_rows)
    key = _mixed(_mixed(seed & MASK) + GOLDEN * VERSION)
    to_uniforms(totals, np.uint64(key), out)
    return out


def _mixed(x: int) -> int:
    x &= MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


MISSING_WORD = np.uint64(_mixed(GOLDEN))


def _salt(name: str) -> np.uint64:
    content = name.encode()
    h = len(content) * GOLDEN & MASK
    for start in range(0, len(content), 8):
        h = _mixed(h ^ int.from_bytes(content[start : start + 8], "little"))
    return np.uint64(h)


def _words(values: pa.Array, name: str) -> Words:
    kind = values.type
    if pa.types.is_null(kind):
        return np.full(len(values), MISSING_WORD)
    if pa.types.is_dictionary(kind):
        known = np.append(_words(values.dictionary, name), MISSING_WORD)
        indices = values.indices.fill_null(0) if values.indices.null_count else values.indices
        found = known[indices.to_numpy(zero_copy_only=False).astype(np.intp, copy=False)]
    elif pa.types.is_boolean(kind):
        known = _text_words(pa.array(["false", "true"]))
        found = known[values.fill_null(False).to_numpy(zero_copy_only=False).astype(np.intp)]
    elif pa.types.is_date(kind):
        found = _number_words(values.cast(pa.date32()).cast(pa.int32()))
    elif pa.types.is_timestamp(kind):
        found = _instant_words(values)
    elif pa.types.is_decimal(kind):
        whole = kind.scale == 0 and kind.precision <= 18
        found = _number_words(values.cast(pa.int64() if whole else pa.float64()))
    elif pa.types.is_integer(kind) or pa.types.is_floating(kind):
        found = _number_words(values)
    elif pa.types.is_fixed_size_binary(kind) or pa.types.is_binary_view(kind):
        found = _text_words(values.cast(pa.binary()))
    elif pa.types.is_string_view(kind):
        found = _text_words(values.cast(pa.string()))
    elif any(
        check(kind)
        for check in (
            pa.types.is_string,
            pa.types.is_large_string,
            pa.types.is_binary,
            pa.types.is_large_binary,
        )
    ):
        found = _text_words(values)
    else:
        raise ValueError(
            f"column {name!r} of type {kind} cannot be part of the key: use numbers, text or dates."
        )
    missing = null_mask(values)
    if missing is not None:
        found[missing] = MISSING_WORD
    return found


def _number_words(values: pa.Array) -> Words:
    out = np.empty(len(values), dtype=np.uint64)
    if values.null_count:
        values = values.fill_null(pa.scalar(0, values.type))
    numbers = values.to_numpy(zero_copy_only=False)
    if numbers.dtype.kind == "f":
        wide = numbers.astype(np.float64, copy=False)
        real_words(wide, wide.view(np.uint64), out)
    elif numbers.dtype == np.uint64:
        unsigned_words(numbers, out)
    else:
        integer_words(numbers.astype(np.int64, copy=False), out)
    return out


def _instant_words(values: pa.Array) -> Words:
    """Words of timestamps: days where there is no time of day, and nanoseconds else."""
    if values.null_count:
        values = values.fill_null(pa.scalar(0, values.type))
    counts = values.cast(pa.int64()).to_numpy(zero_copy_only=False)
    scale = NS[values.type.unit]
    days, rest = np.divmod(counts, DAY_NS // scale)
    out = np.empty(len(values), dtype=np.uint64)
    integer_words(days, out)
    timed = rest != 0
    # the tag of instants instead of that of integers, which the kernel adds; sums are modulo 2**64
    shift = np.uint64((6 - 2) * GOLDEN & MASK)
    inner = counts[timed].view(np.uint64) * np.uint64(scale) + shift
    words = np.empty(len(inner), dtype=np.uint64)
    unsigned = inner.view(np.int64)
    integer_words(unsigned, words)
    out[timed] = words
    return out


def _text_words(values: pa.Array) -> Words:
    out = np.empty(len(values), dtype=np.uint64)
    if not len(values):
        return out
    _, places, content = values.buffers()
    large = pa.types.is_large_string(values.type) or pa.types.is_large_binary(values.type)
    offsets = np.frombuffer(places, dtype=np.int64 if large else np.int32)
    data = np.frombuffer(content, dtype=np.uint8) if content is not None else np.empty(0, np.uint8)
    text_words(data, offsets[values.offset : values.offset + len(values) + 1], out)
    return out
