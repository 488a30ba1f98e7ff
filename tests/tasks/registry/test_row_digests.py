"""Keyed digests of training rows: without the key they have no relation to a row."""

from __future__ import annotations

import base64
import json
import os
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from evenhand.data_contracts.model import Column, Contract
from evenhand.tasks.errors import InputError
from evenhand.tasks.execution.store import Store
from evenhand.tasks.registry.row_digests import (
    DISCRETE,
    EXACT,
    IDENTIFIED,
    RECORDED_ROWS,
    ROUNDED,
    digest_of_rows,
    join_views,
    key_file,
    key_name,
    keyed,
    opened_views,
    read_key,
    record_of,
    recorded_digests,
    row_views,
    table_of_views,
    views_of_table,
)

CONTRACT = Contract(
    "people",
    "1",
    "",
    (
        Column("person", "string", True, "", role="id"),
        Column("pay", "number", False, "", role="feature", is_feature=True),
        Column("town", "string", False, "", role="feature", is_feature=True),
        Column("age", "integer", False, "", role="feature", is_feature=True),
        Column("job", "string", False, "", role="feature", is_feature=True),
        Column("sex", "string", True, "", role="sensitive"),
        Column("hired", "string", True, "", role="label", allowed=("no", "yes"), positive="yes"),
    ),
)
KEY = bytes(range(32))


def people(n: int, seed: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)
    pay = rng.normal(3000, 500, n).round(2)
    return pa.table(
        {
            "person": [f"{seed}-{k}" for k in range(n)],
            "pay": pa.array([None, *pay[1:].tolist()]),
            "town": rng.choice(["Bonn", "Ulm", "Kiel"], n).tolist(),
            "age": rng.integers(18, 70, n),
            "job": rng.choice([f"job {k}" for k in range(30)], n).tolist(),
            "sex": rng.choice(["f", "m"], n).tolist(),
            "hired": rng.choice(["no", "yes"], n).tolist(),
        }
    )


def changed(table: pa.Table, name: str, values: list[object]) -> pa.Table:
    place = table.column_names.index(name)
    return table.set_column(place, name, pa.array(values, table[name].type))


def test_parts_have_the_digests_of_the_whole() -> None:
    table = people(50)
    whole = join_views([row_views(table, 50, CONTRACT)])
    # columns in another order, categories as codes
    other = table.select(table.column_names[::-1])
    town = other["town"].combine_chunks().dictionary_encode()
    other = other.set_column(other.column_names.index("town"), "town", town)
    parts = join_views([row_views(other[:20], 50, CONTRACT), row_views(other[20:], 50, CONTRACT)])
    assert set(whole) == {EXACT, IDENTIFIED, ROUNDED, DISCRETE, *(f"without {k}" for k in range(4))}
    for view, digests in whole.items():
        assert np.array_equal(digests, parts[view]), view


def test_each_view_sees_through_its_kind_of_change() -> None:
    table = people(40)
    before = row_views(table, 40, CONTRACT)
    other_names = row_views(changed(table, "person", ["x"] * 40), 40, CONTRACT)
    assert np.array_equal(other_names[EXACT], before[EXACT])
    assert not np.isin(other_names[IDENTIFIED], before[IDENTIFIED]).any()
    older = row_views(changed(table, "age", [80] * 40), 40, CONTRACT)
    equal = [view for view in before if np.array_equal(older[view], before[view])]
    # age is the first of the sorted columns
    assert equal == ["without 0", DISCRETE]
    pay = [None if value is None else value * 1.00001 for value in table["pay"].to_pylist()]
    nearly = row_views(changed(table, "pay", pay), 40, CONTRACT)
    assert not np.isin(nearly[EXACT][1:], before[EXACT]).any()
    assert np.isin(nearly[ROUNDED], before[ROUNDED]).mean() > 0.9


def test_a_record_has_the_keyed_digests_and_nothing_else() -> None:
    views = join_views([row_views(people(300), 300, CONTRACT)])
    record = json.loads(json.dumps(record_of(views, 300, KEY)))
    assert (record["key_name"], record["rows"]) == (key_name(KEY), 300)
    assert list(record) == ["format", "key_name", "rows", "sealed"]
    texts, bits = opened_views(record, KEY)
    assert bits == 9 + 8
    for view, digests in views.items():
        expected = keyed(digests, view, KEY, 17)
        assert np.array_equal(recorded_digests(texts[view]), expected)
        assert expected.max() < 1 << 17
        assert (np.diff(expected.astype(np.int64)) >= 0).all()
    other = record_of(views, 300, bytes(32))
    others, _ = opened_views(other, bytes(32))
    shared = np.isin(recorded_digests(texts[EXACT]), recorded_digests(others[EXACT]))
    assert shared.mean() < 0.05
    assert KEY.hex() not in json.dumps(record)
    # small: about ten bits a row and view
    packed = zlib.decompress(base64.b64decode(texts[EXACT]))
    assert len(packed) == 8 * 300


def test_a_record_tells_nobody_how_often_a_row_is_in_the_table() -> None:
    """Somebody who gets copies of a person's row into the table, with ids of their own, reads the
    next version's record: six equal digests instead of five would say that the person was in it.
    """
    table = people(400)
    sizes = set()
    sealed = []
    for target in (table[5:6], people(2, seed=9)[1:]):
        copies = [changed(target, "person", [f"mine {copy}"]) for copy in range(5)]
        grown = pa.concat_tables([table, *copies])
        record = record_of(join_views([row_views(grown, 405, CONTRACT)]), 405, KEY)
        data = base64.b64decode(record["sealed"])
        sizes.add(len(data))
        sealed.append(np.frombuffer(data[: len(data) // 8 * 8], np.uint64))
        texts, _ = opened_views(record, KEY)
        assert np.unique(recorded_digests(texts[EXACT]), return_counts=True)[1].max() >= 5
    assert len(sizes) == 1
    assert not np.isin(sealed[0], sealed[1]).any()


def test_a_record_that_was_changed_is_refused() -> None:
    record = record_of(join_views([row_views(people(50), 50, CONTRACT)]), 50, KEY)
    assert record == record_of(join_views([row_views(people(50), 50, CONTRACT)]), 50, KEY)
    other_text = record["sealed"][:-8] + "AAAAAAA="
    changes: list[dict[str, object]] = [{"rows": 51}, {"sealed": other_text}, {"sealed": 5}]
    for change in changes:
        with pytest.raises(InputError, match="was changed: publish the model again"):
            opened_views({**record, **change}, KEY)
    with pytest.raises(InputError, match="was changed"):
        opened_views(record, bytes(32))


def test_a_large_table_is_sampled_by_digest() -> None:
    table = people(500)
    views = row_views(table, 10 * RECORDED_ROWS, CONTRACT)
    everything = row_views(table, 500, CONTRACT)
    for view, digests in views.items():
        smallest = np.sort(everything[view])[: len(digests)]
        assert np.array_equal(np.sort(digests), smallest)
        assert 20 <= len(digests) <= 90


def test_a_store_has_one_key_for_its_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EVENHAND_OVERLAP_KEY", raising=False)
    store = Store(str(tmp_path / "store"))
    path = key_file(store)
    key = read_key(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_key(key_file(store)) == key
    assert read_key(key_file(Store(str(tmp_path / "other")))) != key
    named = tmp_path / "named.key"
    named.write_text(f"{'ab' * 32}\n")
    monkeypatch.setenv("EVENHAND_OVERLAP_KEY", os.fspath(named))
    assert read_key(key_file(store)) == b"\xab" * 32
    named.write_text("a password")
    with pytest.raises(InputError, match="holds no key of 64"):
        key_file(store)


def test_a_store_at_a_url_shares_its_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EVENHAND_OVERLAP_KEY", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    store = Store("memory://overlap-key")
    key = read_key(key_file(store))
    key_file(store).unlink()
    assert read_key(key_file(store)) == key


def test_views_come_back_from_their_table() -> None:
    views = {
        "all": np.array([5, 2**64 - 1, 0], dtype=np.uint64),
        "none": np.empty(0, dtype=np.uint64),
        "rounded": np.array([7], dtype=np.uint64),
    }
    returned = views_of_table(table_of_views(views))
    assert {view: digests.tolist() for view, digests in returned.items()} == {
        "all": [5, 2**64 - 1, 0],
        "rounded": [7],
    }
    assert returned["all"].dtype == np.uint64


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (["a\x1fb", "c"], ["a", "b\x1fc"]),
        ([None, "c"], ["\x00", "c"]),
        (["a\x1e1b", "c"], ["a\x1fb", "c"]),
        (["\x1e2", "c"], ["\x00", "c"]),
    ],
)
def test_texts_with_separators_give_other_digests(one: list[str], other: list[str]) -> None:
    """Rows of a holdout that were moved between columns are other rows."""
    rows = [pa.table({"job": [job], "sex": [sex]}) for job, sex in (one, other)]
    first, second = [digest_of_rows(row, "salt") for row in rows]
    assert first != second


def test_ordinary_rows_keep_their_digest() -> None:
    """The holdouts of policies that were set before are still theirs."""
    table = pa.table({"job": ["clerk", None], "age": [20, 21]})
    digest = "e802d4df5be0"
    assert digest_of_rows(table, "salt").startswith(digest)
