"""A uniform number from a hash of a row's key: the same on every machine, in any order of rows."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from evenhand.fairlib.preprocessing.encoder import MISSING
from evenhand.fairlib.proxies import _splitting_kernels as kernels
from evenhand.fairlib.proxies.raw import Rows, one_array

VERSION = 1
# Hexadecimal digits of a SHA-256 that make a number: 52 bits, which a float64 holds exactly.
DIGITS = 13
UNHASHED = (
    "cannot be hashed by SHA-256: name whole numbers, text, truth values or dates in filter.key."
)
HASHABLE = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_null,
    pa.types.is_integer,
    pa.types.is_boolean,
    pa.types.is_date32,
)
Words = NDArray[np.uint64]
GOLDEN = 0x9E3779B97F4A7C15
MASK = 2**64 - 1
MISSING_WORD = np.uint64(0xE220A8397B1DCDAF)  # m(G)
NAN_BITS = np.uint64(0x7FF8000000000000)
INTEGER = 2
UNSIGNED = 3
REAL = 4
INSTANT = 6
DAY_NS = 86_400 * 10**9
NS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


def hash_uniforms(rows: Rows, columns: Sequence[str], seed: int) -> NDArray[np.float64]:
    r"""One number per row, uniform on [0, 1) over keys and seeds.

    Version 1, in 64-bit words: :math:`m` is the finaliser of splitmix64 (Steele, Lea and Flood
    2014, variant 13 of Stafford), G = ``0x9E3779B97F4A7C15`` and all sums are modulo 2**64. A
    value's word is
    :math:`m(p + tG)` with payload p and tag t:

    - missing: p = 0, t = 1;
    - an integer below 2**63: p its two's complement, t = 2; from 2**63 to 2**64 - 1: t = 3. A
      float without fraction is that integer (-0.0 is 0), a date is its days since 1970-01-01, and
      so is a timestamp at midnight UTC; a text that is an integer's plain decimal form is that
      integer;
    - any other float: p the bits of its float64, t = 4, all NaN alike;
    - text: p the hash of its UTF-8 bytes, t = 5, where :math:`h_0 = nG` for n bytes and
      :math:`h_k = m(h_{k-1} \oplus c_k)` over the chunks of eight bytes, little-endian and filled
      up with zeros; true and false are the texts of these names;
    - any other timestamp: p its nanoseconds since 1970-01-01 UTC, t = 6.

    A column of name a turns a word w into :math:`m(w + h(a))`, h again the hash of the bytes, and
    the sum S of these over the columns becomes :math:`m(m(S \oplus k) + k)` with :math:`k =
    m(m(seed) + G \cdot 1)` (the last factor is the version), whose 53 upper bits are the number.

    The number does not depend on the order of columns or rows, on chunks, dictionaries or the width
    of integers. The version must never change for a published proxy.

    Parameters
    ----------
    rows : pyarrow.Table or RecordBatch, n rows
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
        If there is no column, or one is missing, named twice or of another type.

    References
    ----------
    G. L. Steele, D. Lea, C. H. Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA
    2014.

    Examples
    --------
    >>> import pyarrow as pa
    >>> rows = pa.table({"id": [1, 2, 3]})
    >>> numbers = hash_uniforms(rows, ["id"], seed=0)
    >>> numbers.round(4).tolist()
    [0.5002, 0.8269, 0.927]
    """
    if not columns or len(set(columns)) < len(columns):
        raise ValueError("the key needs at least one column, and each only once.")
    totals = np.zeros(rows.num_rows, dtype=np.uint64)
    for name in columns:
        text = np.frombuffer(name.encode(), np.uint8)
        salt = np.uint64(kernels.bytes_hash(text, 0, len(text)))
        totals += kernels.mixed(_words(one_array(rows, name), name) + salt)
    seeded = int(kernels.mixed(np.uint64(seed & MASK)))
    key = np.uint64(kernels.mixed(np.uint64((seeded + GOLDEN * VERSION) & MASK)))
    hashes = kernels.mixed(kernels.mixed(totals ^ key) + key)
    return (hashes >> np.uint64(11)).astype(np.float64) * 2.0**-53


def sha256_uniforms(rows: Rows, columns: Sequence[str], seed: int) -> NDArray[np.float64]:
    """Numbers in [0, 1) that SQL can compute: the first 13 hexadecimal digits of a SHA-256, divided
    by 2**52.

    It is the SHA-256 of the seed and then, for each column in the order of names, of ``|``, the
    name, ``=`` and the value in UTF-8: a whole number in decimal digits, a date as YYYY-MM-DD,
    ``true`` or ``false``, a text as it is, and ``(missing)`` for no value.

    Parameters
    ----------
    rows : pyarrow.Table or RecordBatch, n rows
    columns : sequence of str
        The key: columns of whole numbers, text, truth values or dates.
    seed : int

    Returns
    -------
    ndarray of float64, shape (n,)

    Raises
    ------
    ValueError
        If there is no column, or one is missing, named twice or of another type.
    """
    if not columns or len(set(columns)) < len(columns):
        raise ValueError("the key needs at least one column, and each only once.")
    text = pa.large_string()
    parts: list[Any] = [pa.array([str(seed)] * rows.num_rows, text)]
    for name in sorted(columns):
        values = one_array(rows, name)
        kind = values.type
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
        if not any(fits(kind) for fits in HASHABLE):
            raise ValueError(f"the key column {name!r} of type {kind} {UNHASHED}")
        texts = pc.fill_null(values.cast(kind).cast(text), MISSING)
        parts += [pa.scalar(f"|{name}=", text), texts]
    joined = pc.binary_join_element_wise(*parts, pa.scalar("", text)).to_pylist()
    digits = [hashlib.sha256(key.encode()).hexdigest()[:DIGITS] for key in joined]
    integers = [int(text, 16) for text in digits]
    return np.array(integers, dtype=np.float64) / 16.0**DIGITS


def _words(values: pa.Array, name: str) -> Words:
    """Word of every value of a column."""
    if pa.types.is_null(values.type):
        return np.full(len(values), MISSING_WORD)
    if pa.types.is_boolean(values.type):
        values = pa.DictionaryArray.from_arrays(values.cast(pa.int8()), pa.array(["false", "true"]))
    if pa.types.is_dictionary(values.type):
        dictionary_words = np.append(_words(values.dictionary, name), MISSING_WORD)
        missing = len(dictionary_words) - 1
        return dictionary_words[values.indices.cast(pa.int64()).fill_null(missing).to_numpy()]
    if pa.types.is_date(values.type):
        values = values.cast(pa.date32()).cast(pa.int32())
    elif pa.types.is_decimal(values.type):
        is_whole = values.type.scale == 0 and values.type.precision <= 18
        values = values.cast(pa.int64() if is_whole else pa.float64())
    words = _present_words(values, name)
    if values.null_count:
        words[values.is_null().to_numpy(zero_copy_only=False)] = MISSING_WORD
    return words


def _present_words(values: pa.Array, name: str) -> Words:
    """Words of numbers, timestamps or texts; those of missing values have no meaning."""
    if pa.types.is_integer(values.type) or pa.types.is_floating(values.type):
        return _number_words(_without_nulls(values))
    if pa.types.is_timestamp(values.type):
        return _instant_words(_without_nulls(values.cast(pa.int64())), NS[values.type.unit])
    try:
        return _text_words(values.cast(pa.large_binary()))
    except pa.ArrowException:
        raise ValueError(
            f"column {name!r} of type {values.type} cannot be part of the key: use numbers, "
            "text or dates."
        ) from None


def _without_nulls(values: pa.Array) -> NDArray[np.generic]:
    """Numbers with 0 in place of missing values."""
    if values.null_count:
        values = values.fill_null(pa.scalar(0, values.type))
    return np.asarray(values.to_numpy(zero_copy_only=False))


def _number_words(numbers: NDArray[np.generic]) -> Words:
    if numbers.dtype.kind == "f":
        wide = numbers.astype(np.float64)
        # integers of 64 bits; a direct conversion of those from 2**63 on differs between processors
        whole = (wide == np.floor(wide)) & (wide >= -(2.0**63)) & (wide < 2.0**64)
        large = whole & (wide >= 2.0**63)
        integers = np.where(whole, np.where(large, wide - 2.0**63, wide), 0.0).astype(np.int64)
        bits = np.where(np.isnan(wide), NAN_BITS, wide.view(np.uint64))
        payloads = np.where(
            whole, integers.view(np.uint64) | np.where(large, kernels.TOP, np.uint64(0)), bits
        )
        return _mixed(payloads, np.where(whole, np.where(large, UNSIGNED, INTEGER), REAL))
    if numbers.dtype == np.uint64:
        return _tagged(numbers, UNSIGNED)
    return _tagged(numbers.astype(np.int64, copy=False), INTEGER)


def _instant_words(counts: NDArray[np.generic], scale: int) -> Words:
    """Words of timestamps in units of `scale` nanoseconds: days at midnight, else nanoseconds."""
    days, time_of_day = np.divmod(counts, DAY_NS // scale)
    out = _tagged(days, INTEGER)
    timed = time_of_day != 0
    out[timed] = _tagged(counts[timed].view(np.uint64) * np.uint64(scale), INSTANT, INSTANT)
    return out


def _tagged(payloads: NDArray[np.generic], high: int, low: int = INTEGER) -> Words:
    """Words of payloads of 64 bits, with the tag `high` from 2**63 on and `low` below."""
    bits = payloads.view(np.uint64)
    return _mixed(bits, np.where(bits < kernels.TOP, low, high))


def _mixed(payloads: Words, tags: NDArray[np.int64]) -> Words:
    """Words of payloads with their tags."""
    return np.asarray(kernels.mixed(payloads + tags.astype(np.uint64) * np.uint64(GOLDEN)))


def _text_words(values: pa.Array) -> Words:
    """Words of texts of type ``large_binary``."""
    out = np.empty(len(values), dtype=np.uint64)
    if len(values):
        _, places, content = values.buffers()
        offsets = np.frombuffer(places, dtype=np.int64)[
            values.offset : values.offset + len(values) + 1
        ]
        data = np.empty(0, np.uint8)
        if content is not None:
            data = np.frombuffer(content, dtype=np.uint8)
        kernels.text_words(data, offsets, out)
    return out
