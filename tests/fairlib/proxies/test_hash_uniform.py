"""The coin: the same number for the same key, whatever carries it; and a fair one."""

from __future__ import annotations

import datetime as dt
import decimal
import hashlib
import math
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from evenhand.fairlib.proxies.byte_hash import byte_uniforms
from evenhand.fairlib.proxies.hash_uniform import hash_uniforms, sha256_uniforms

G, MASK = 0x9E3779B97F4A7C15, 2**64 - 1

# an independent rendering of the documented hash, one value at a time


def finalise(x: int) -> int:
    x &= MASK
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & MASK
    return x ^ (x >> 31)


def of_bytes(content: bytes) -> int:
    h = len(content) * G
    for chunk in [content[i : i + 8] for i in range(0, len(content), 8)]:
        h = finalise(h ^ sum(byte << 8 * place for place, byte in enumerate(chunk)))
    return h & MASK


def word(value: Any) -> int:
    if value is None:
        return finalise(G)
    if isinstance(value, bool):
        return finalise(of_bytes(str(value).lower().encode()) + 5 * G)
    if isinstance(value, dt.datetime):
        since = value.replace(tzinfo=value.tzinfo or dt.UTC) - dt.datetime(
            1970, 1, 1, tzinfo=dt.UTC
        )
        if since % dt.timedelta(days=1):
            return finalise(since // dt.timedelta(microseconds=1) * 1000 + 6 * G)
        return word(since.days)
    if isinstance(value, dt.date):
        return word((value - dt.date(1970, 1, 1)).days)
    if isinstance(value, float) and not (value.is_integer() and -(2.0**63) <= value < 2.0**64):
        bits = (
            0x7FF8000000000000
            if math.isnan(value)
            else struct.unpack("<Q", struct.pack("<d", value))[0]
        )
        return finalise(bits + 4 * G)
    if isinstance(value, int | float):
        return finalise(int(value) + (2 if value < 2**63 else 3) * G)
    try:
        whole = int(value)
    except ValueError:
        whole = None
    if whole is not None and str(whole) == value and -(2**63) <= whole < 2**64:
        return word(whole)
    return finalise(of_bytes(value.encode()) + 5 * G)


def coin(row: dict[str, Any], seed: int) -> float:
    total = sum(finalise(word(value) + of_bytes(name.encode())) for name, value in row.items())
    key = finalise(finalise(seed & MASK) + G)
    return (finalise(finalise((total & MASK) ^ key) + key) >> 11) * 2.0**-53


def drawn(values: list[Any], kind: pa.DataType | None = None, seed: int = 0) -> list[float]:
    return hash_uniforms(pa.table({"key": pa.array(values, kind)}), ["key"], seed).tolist()


VALUES: list[tuple[list[Any], pa.DataType | None]] = [
    ([0, 1, -1, 2**63 - 1, -(2**63), None], pa.int64()),
    ([0, 2**63 - 1, 2**63, 2**64 - 1, None], pa.uint64()),
    ([0, 127, -128, None], pa.int8()),
    ([0.0, -0.0, 1.0, 0.1, -2.5, 1e300, math.inf, -math.inf, math.nan, None], pa.float64()),
    ([2.0**63, 2.0**64, -(2.0**63), -(2.0**64), 2.0**53 + 2], pa.float64()),
    (["", "a", "abcdefgh", "abcdefghi", "müller", "x" * 100, "\0", None], pa.string()),
    (["0", "-0", "007", "7", "-7", "+7", "7 ", "1e3", "18446744073709551615"], pa.large_string()),
    (["18446744073709551616", "9223372036854775808", "-9223372036854775808", "-"], pa.string()),
    (["-9223372036854775809", "99999999999999999999", "123456789012345678901", "1_0"], pa.string()),
    ([True, False, None], pa.bool_()),
    ([dt.date(1970, 1, 1), dt.date(1969, 12, 31), dt.date(2024, 2, 29), None], pa.date32()),
    ([dt.datetime(2024, 2, 29), dt.datetime(2024, 2, 29, 1, 2, 3, 4), None], pa.timestamp("us")),
    (
        [dt.datetime(1969, 12, 31, 23, 59, 59), dt.datetime(1960, 1, 1)],
        pa.timestamp("ns", "Europe/Paris"),
    ),
]


@pytest.mark.parametrize(("values", "kind"), VALUES, ids=lambda item: str(item)[:30])
def test_it_is_the_documented_hash(values: list[Any], kind: pa.DataType) -> None:
    for seed in (0, 1, -1, 2**63 + 5):
        expected = [coin({"key": value}, seed) for value in pa.array(values, kind).to_pylist()]
        assert drawn(values, kind, seed) == expected


def test_numbers_that_were_written_down() -> None:
    # from the rendering above, so that neither side can change unnoticed
    assert drawn([0, 1, None]) == [0.7586944645277867, 0.2718395056966705, 0.7991138757580156]
    assert drawn(["a", "müller"], seed=7) == [0.27405827414396, 0.04298362243936138]


def test_several_columns_are_the_documented_hash_in_any_order() -> None:
    rows = pa.table(
        {"b": [1, 2, 1], "a": ["x", None, "x"], "c": [0.5, 0.25, 0.5], "unused": [1, 2, 3]}
    )
    expected = [
        coin({"a": r["a"], "b": r["b"], "c": r["c"]}, 3)
        for r in rows.drop_columns("unused").to_pylist()
    ]
    assert hash_uniforms(rows, ["a", "b", "c"], 3).tolist() == expected
    assert hash_uniforms(rows.select(["c", "b", "a"]), ["c", "a", "b"], 3).tolist() == expected
    assert expected[0] == expected[2] != expected[1]
    swapped = rows.rename_columns(["c", "a", "b", "unused"])
    assert not set(hash_uniforms(swapped, ["a", "b", "c"], 3)) & set(expected), (
        "a value belongs to its column"
    )


@pytest.mark.parametrize(
    "kind",
    [
        pa.int8(),
        pa.int16(),
        pa.int32(),
        pa.uint8(),
        pa.uint64(),
        pa.float32(),
        pa.float64(),
        pa.string(),
    ],
)
def test_the_width_of_a_number_does_not_matter(kind: pa.DataType) -> None:
    whole = pa.array([0, 1, 5, None, 120], pa.int64())
    expected = hash_uniforms(pa.table({"key": whole}), ["key"], 5)
    np.testing.assert_array_equal(
        hash_uniforms(pa.table({"key": whole.cast(kind)}), ["key"], 5), expected
    )


def test_other_carriers_of_a_value_do_not_matter() -> None:
    days = [dt.date(2020, 5, 17), None]
    midnights = [dt.datetime(2020, 5, 17), None]
    assert (
        drawn(days, pa.date32()) == drawn(days, pa.date64()) == drawn(midnights, pa.timestamp("s"))
    )
    moments = [dt.datetime(2020, 5, 17, 3), None]
    assert drawn(moments, pa.timestamp("s")) == drawn(moments, pa.timestamp("ns", "UTC"))
    assert drawn([decimal.Decimal(7), None], pa.decimal128(10, 0)) == drawn([7, None])
    assert drawn([decimal.Decimal("2.50")], pa.decimal128(10, 2)) == drawn([2.5])
    assert drawn([b"abc", None], pa.binary()) == drawn(["abc", None])
    assert drawn([b"0123456789abcdef"], pa.binary(16)) == drawn(["0123456789abcdef"])
    assert drawn(["abc", "a much longer text", None], pa.string_view()) == drawn(
        ["abc", "a much longer text", None]
    )
    assert drawn([None, None], pa.null()) == drawn([None, None], pa.string())


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.one_of(st.none(), st.text(max_size=30)), min_size=1, max_size=40),
    st.integers(0, 40),
    st.integers(-(2**70), 2**70),
)
def test_chunks_slices_and_dictionaries_do_not_matter(
    texts: list[str | None], cut: int, seed: int
) -> None:
    whole = pa.table({"key": pa.array(texts, pa.string())})
    expected = [coin({"key": text}, seed) for text in texts]
    assert hash_uniforms(whole, ["key"], seed).tolist() == expected
    chunked = pa.concat_tables([whole.slice(0, cut), whole.slice(cut)])
    assert hash_uniforms(chunked, ["key"], seed).tolist() == expected
    assert hash_uniforms(whole.slice(cut), ["key"], seed).tolist() == expected[cut:]
    encoded = pa.table({"key": whole["key"].combine_chunks().dictionary_encode()})
    assert hash_uniforms(encoded, ["key"], seed).tolist() == expected
    assert hash_uniforms(encoded.slice(cut), ["key"], seed).tolist() == expected[cut:]


def neighbours(count: int, seed: int) -> np.ndarray:
    return hash_uniforms(pa.table({"id": pa.array(np.arange(count))}), ["id"], seed)


def test_a_million_running_ids_are_uniform() -> None:
    u = neighbours(1_000_000, 11)
    assert u.min() >= 0.0
    assert u.max() < 1.0
    assert stats.kstest(u, "uniform").pvalue > 1e-3
    counts = np.bincount((u * 1000).astype(int), minlength=1000)
    assert stats.chisquare(counts).pvalue > 1e-3
    assert len(np.unique(u)) > 999_990


def test_neighbouring_ids_are_independent() -> None:
    u = neighbours(1_000_001, 12)
    # overlapping pairs: the even and the odd ones are each independent
    for start in (0, 1):
        pairs = np.histogram2d(u[start:-1:2], u[start + 1 :: 2], bins=32, range=[[0, 1], [0, 1]])[0]
        assert stats.chisquare(pairs.ravel()).pvalue > 1e-3
    for lag in (1, 2, 64, 1024):
        assert abs(np.corrcoef(u[:-lag], u[lag:])[0, 1]) < 4.5e-3


def test_two_seeds_are_independent() -> None:
    first, second = neighbours(200_000, 1), neighbours(200_000, 2)
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.01
    pairs = np.histogram2d(first, second, bins=16, range=[[0, 1], [0, 1]])[0]
    assert stats.chisquare(pairs.ravel()).pvalue > 1e-3


@pytest.mark.parametrize("where", ["seed", "key"])
def test_every_bit_moves_half_of_the_bits(where: str) -> None:
    keys = np.random.default_rng(0).integers(0, 2**62, 2000)

    def bits(seed: int, values: np.ndarray) -> np.ndarray:
        u = hash_uniforms(pa.table({"id": pa.array(values)}), ["id"], seed)
        words = (u * 2.0**53).astype(np.uint64)
        return (words[:, None] >> np.arange(53, dtype=np.uint64)) & np.uint64(1)

    before = bits(5, keys)
    for bit in range(0, 62, 3):
        after = bits(5 ^ (1 << bit), keys) if where == "seed" else bits(5, keys ^ (1 << bit))
        moved = (before != after).mean(axis=0)
        # 2,000 fair coins a bit: 6 standard deviations
        assert np.abs(moved - 0.5).max() < 6 * 0.5 / np.sqrt(2000)


def test_a_missing_value_has_a_fate_of_its_own() -> None:
    found = drawn([None, "", "null", "0"], pa.string())
    assert len(set(found)) == 4


def test_what_cannot_be_a_key_is_refused() -> None:
    rows = pa.table({"a": [[1]], "b": [1]})
    with pytest.raises(ValueError, match=r"'a' of type list<.*cannot be part of the key"):
        hash_uniforms(rows, ["a"], 0)
    with pytest.raises(ValueError, match="at least one column"):
        hash_uniforms(rows, [], 0)
    with pytest.raises(ValueError, match="only once"):
        hash_uniforms(rows, ["b", "b"], 0)
    with pytest.raises(ValueError, match="'c' is missing"):
        hash_uniforms(rows, ["c"], 0)


def test_no_rows_have_no_coins() -> None:
    for kind in (
        pa.int64(),
        pa.string(),
        pa.dictionary(pa.int32(), pa.string()),
        pa.bool_(),
        pa.date32(),
    ):
        assert drawn([], kind) == []


def test_numbers_of_the_sha256_are_those_of_its_digits() -> None:
    rows = pa.table({"b": [7, None], "a": ["x", "y"]})
    texts = ["3|a=x|b=7", "3|a=y|b=(missing)"]
    expected = [int(hashlib.sha256(text.encode()).hexdigest()[:13], 16) / 2**52 for text in texts]
    assert sha256_uniforms(rows, ["b", "a"], 3).tolist() == expected


@pytest.mark.parametrize("width", [21, 24, 40, 399])
def test_rows_of_bytes_have_the_same_numbers(width: int) -> None:
    rows = np.random.default_rng(width).integers(0, 256, (50, width), dtype=np.uint8)
    column = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(width), len(rows), [None, pa.py_buffer(rows.tobytes())]
    )
    expected = hash_uniforms(pa.table({"row": column}), ["row"], 2**64 + 7)
    assert byte_uniforms(rows, "row", 2**64 + 7).tolist() == expected.tolist()


def test_short_rows_may_be_numbers() -> None:
    with pytest.raises(ValueError, match="expected more than 20"):
        byte_uniforms(np.zeros((1, 20), dtype=np.uint8), "row", 0)
