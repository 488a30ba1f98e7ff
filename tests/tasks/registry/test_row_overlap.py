"""The share of rows that a model was trained on: copies count, coincidences do not."""

from __future__ import annotations

import base64
import hashlib
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from evenhand.tasks.registry.row_digests import (
    BITS,
    described_columns,
    join_views,
    record_of,
    row_digests,
    row_views,
)
from evenhand.tasks.registry.row_overlap import (
    CERTAIN_ERRORS,
    LEVEL_EXACT,
    WANTED,
    ViewOverlap,
    combined,
    overlap,
    overlap_of_digests,
)
from tests.tasks.registry.test_row_digests import CONTRACT, KEY, changed, people

ROWS = 2000
TABLE = people(ROWS)


@pytest.fixture(scope="module")
def record() -> dict[str, Any]:
    return record_of(join_views([row_views(TABLE, ROWS, CONTRACT)]), ROWS, KEY)


def share(table: pa.Table, record: dict[str, Any]) -> float:
    result = overlap(table, CONTRACT, record, KEY).share
    assert result is not None
    return result


def test_copied_rows_count_and_new_rows_do_not(record: dict[str, Any]) -> None:
    new = people(500, seed=1)
    assert share(TABLE, record) == pytest.approx(1.0)
    assert share(new, record) == 0.0
    mixed = pa.concat_tables([TABLE[:50], new[50:]])
    assert share(mixed, record) == pytest.approx(0.1, abs=0.02)


def test_repeated_rows_count_each_time(record: dict[str, Any]) -> None:
    new = people(400, seed=2)
    copied = TABLE[:100]
    twice = pa.concat_tables([copied, copied, new[200:]])
    assert share(twice, record) == pytest.approx(0.5, abs=0.03)
    assert share(pa.concat_tables([new, new]), record) == 0.0


@pytest.mark.parametrize("name", ["age", "job", "sex", "hired", "pay", "person"])
def test_a_changed_column_hides_no_row(name: str, record: dict[str, Any]) -> None:
    """A tenth of the rows is copied, with another value in one column."""
    new = people(500, seed=3)
    values = people(50, seed=4)[name].to_pylist()
    mixed = pa.concat_tables([changed(TABLE[100:150], name, values), new[50:]])
    assert share(mixed, record) > 0.07


def test_another_column_changed_in_each_row_hides_none(record: dict[str, Any]) -> None:
    copied = TABLE[:100].to_pylist()
    other = people(100, seed=5).to_pylist()
    names = ("age", "job", "pay", "town")
    for place, row in enumerate(copied):
        name = names[place % 4]
        row[name] = other[place][name]
    mixed = pa.concat_tables([pa.Table.from_pylist(copied, TABLE.schema), people(400, seed=6)])
    assert share(mixed, record) > 0.12


def test_noise_in_numbers_hides_no_row(record: dict[str, Any]) -> None:
    pay = [None if value is None else value * 1.0001 for value in TABLE["pay"].to_pylist()]
    assert share(changed(TABLE, "pay", pay)[:300], record) > 0.9


def test_the_share_needs_the_key_of_the_record(record: dict[str, Any]) -> None:
    for key in (None, bytes(32)):
        result = overlap(TABLE, CONTRACT, record, key)
        assert result.share is None
        assert "overlap.key" in result.note
    assert overlap(TABLE[:0], CONTRACT, record, KEY).share is None


def test_a_coarse_table_is_judged_with_a_note() -> None:
    """Eight kinds of people: every honest row is equal to a training row."""
    kinds = changed(changed(TABLE, "pay", [1] * ROWS), "age", [30] * ROWS)
    kinds = changed(changed(kinds, "job", ["a"] * ROWS), "town", ["Ulm"] * ROWS)
    kinds = changed(kinds, "person", ["x"] * ROWS)
    record = record_of(join_views([row_views(kinds[:1500], 1500, CONTRACT)]), 1500, KEY)
    result = overlap(kinds[1500:], CONTRACT, record, KEY)
    assert (result.share, result.noticed_from) == (None, 1.0)
    assert result.note.startswith("cannot tell whether the model was trained on rows of this table")
    assert "only if they are 100% of it or more" in result.note


def test_where_a_tenth_could_be_missed_nothing_is_claimed() -> None:
    """Of 60 coarse tables: a copied tenth is found wherever the formula says so, and an evaluation
    that finds nothing says that it cannot tell, wherever a tenth could be missed.
    """
    rng = np.random.default_rng(3)
    outcomes = {"noticed": 0, "cannot tell": 0}
    for table in range(60):
        kinds = int(rng.choice([60, 4_000, 10**9]))
        trained = np.sort(rng.integers(0, kinds, 2000).astype(np.uint64))
        held_out = rng.integers(0, kinds, 500).astype(np.uint64)
        held_out[:50] = rng.choice(trained, 50, replace=False)
        result = overlap_of_digests(trained, np.sort(held_out), rng)
        if CERTAIN_ERRORS * result.error <= WANTED:
            assert result.counted(LEVEL_EXACT) > 0.05, (table, kinds)
            outcomes["noticed"] += 1
        else:
            outcomes["cannot tell"] += 1
    assert min(outcomes.values()) > 10


def test_views_are_put_together_by_what_they_see() -> None:
    def view(share: float, p_value: float = 0.0001, error: float = 0.001) -> ViewOverlap:
        return ViewOverlap(share, error, p_value)

    assert combined({"all": view(0.2, 0.3)}) == 0.0
    assert combined({"all": view(0.2), "without 0": view(0.2)}) == 0.2
    # rows changed in one block or in another
    blocks = {"without 0": view(0.3), "without 1": view(0.25)}
    assert combined({"all": view(0.2), **blocks}) == pytest.approx(0.35)
    assert combined({"all": view(0.0, 1.0), "rounded": view(0.4)}) == 0.4
    assert combined({"all": view(0.9), "without 0": view(1.0), "without 1": view(1.0)}) == 1.0


def test_the_estimate_is_the_share_of_a_computed_case() -> None:
    """A hundred different training rows; ten of fifty held-out rows are among them."""
    trained = np.arange(0, 1000, 10, dtype=np.uint64)
    held_out = np.sort(np.concatenate([trained[:10], np.arange(1, 401, 10, dtype=np.uint64)]))
    result = overlap_of_digests(trained, held_out, np.random.default_rng(0))
    assert result.share == pytest.approx(0.2, abs=0.01)
    assert result.p_value < 0.001


def test_the_bits_of_an_older_version_are_read() -> None:
    """Its formula: about half of the bits are set, one of each row."""
    names = sorted(described_columns(CONTRACT))
    salt = hashlib.sha256("".join(names).encode()).hexdigest()[:16]
    size = math.ceil(ROWS / math.log(2))
    key = hashlib.sha256("\x1f".join([salt, *names]).encode()).digest()
    bits = np.zeros(size, dtype=bool)
    for row in TABLE.to_pylist():
        values = []
        for name in names:
            value = row[name]
            text = "\0" if value is None else str(value)
            values.append(text.removesuffix(".0") if name == "pay" else text)
        digest = hashlib.blake2b("\x1f".join(values).encode(), digest_size=16, key=key).digest()
        bits[int.from_bytes(digest[:8], "big") % size] = True
    packed = base64.b64encode(np.packbits(bits).tobytes()).decode()
    older = {"salt": salt, "size": size, "bits": packed}
    assert overlap(TABLE, CONTRACT, older).method == BITS
    assert overlap(TABLE, CONTRACT, older).share == pytest.approx(1.0, abs=0.01)
    assert overlap(people(ROWS, 9), CONTRACT, older).share == pytest.approx(0.0, abs=0.06)
    half = pa.concat_tables([TABLE[:500], TABLE[:500], people(1000, 8)])
    assert overlap(half, CONTRACT, older).share == pytest.approx(0.5, abs=0.06)
    assert row_digests(TABLE[:2], salt, names) == row_digests(TABLE[:2], salt, names[::-1])
