"""The bits of training rows are published: another version of the package must find the
same ones.
"""

from __future__ import annotations

import base64
import hashlib
import math

import numpy as np
import pyarrow as pa
import pytest

from evenhand.data_contracts.model import Column, Contract
from evenhand.tasks.registry.row_digests import bits_of, membership, overlap

CONTRACT = Contract(
    "people",
    "1",
    "",
    (
        Column("pay", "number", False, "", role="feature", is_feature=True),
        Column("sex", "string", True, "", role="sensitive"),
        Column("hired", "string", True, "", role="label", allowed=("no", "yes"), positive="yes"),
    ),
)


def people(n: int, first: int = 0) -> pa.Table:
    pay = [None, 0.5, *(float(k) for k in range(first + 2, first + n))]
    sex = ["f" if k % 3 else "m" for k in range(n)]
    return pa.table({"pay": pay[:n], "hired": ["no"] * n, "sex": sex})


def test_a_bit_is_that_of_the_published_formula() -> None:
    table, names = people(40), ["hired", "pay", "sex"]
    salt = hashlib.sha256(b"hiredpaysex").hexdigest()[:16]
    size = math.ceil(40 / math.log(2))
    key = hashlib.sha256("\x1f".join([salt, *names]).encode()).digest()
    expected = np.zeros(size, dtype=bool)
    for row in table.to_pylist():
        pay = "\0" if row["pay"] is None else f"{row['pay']:g}"
        text = "\x1f".join([row["hired"], pay, row["sex"]])
        digest = hashlib.blake2b(text.encode(), digest_size=16, key=key).digest()
        expected[int.from_bytes(digest[:8], "big") % size] = True
    # in parts as in one
    parts = [bits_of(table[:25], 40, CONTRACT), bits_of(table[25:], 40, CONTRACT)]
    found = membership(parts, 40, CONTRACT)
    bits = np.unpackbits(np.frombuffer(base64.b64decode(found["bits"]), np.uint8))[:size].astype(
        bool
    )
    assert (found["salt"], found["size"]) == (salt, size)
    assert np.array_equal(bits, expected)


def test_the_overlap_is_the_share_of_known_rows() -> None:
    table = people(4000)
    known = membership([bits_of(table, 4000, CONTRACT)], 4000, CONTRACT)
    assert overlap(table, CONTRACT, known) == pytest.approx(1.0)
    assert overlap(people(4000, 9000)[2:], CONTRACT, known) == pytest.approx(0.0, abs=0.05)
    half = pa.concat_tables([table[2:2000], people(2000, 9000)[2:]])
    assert overlap(half, CONTRACT, known) == pytest.approx(0.5, abs=0.05)
    assert overlap(table[:0], CONTRACT, known) is None


def test_repeated_training_rows_count_as_seen() -> None:
    """Each row given twice, or many times, is as seen as given once."""
    table = people(4000)
    known = membership([bits_of(table, 4000, CONTRACT)], 4000, CONTRACT)
    assert overlap(pa.concat_tables([table, table]), CONTRACT, known) == pytest.approx(1.0)
    new = people(2000, 9000)[2:]
    twice = pa.concat_tables([table[2:1000], table[2:1000], new])
    assert overlap(twice, CONTRACT, known) == pytest.approx(0.5, abs=0.05)
    assert overlap(pa.concat_tables([new, new]), CONTRACT, known) == pytest.approx(0.0, abs=0.08)
