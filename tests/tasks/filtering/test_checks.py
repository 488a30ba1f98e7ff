"""The quick rules judge as the contract's own check does."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evenhand.data_contracts.arrow import coerce
from evenhand.data_contracts.checking import check_batch
from evenhand.data_contracts.errors import ContractViolation
from evenhand.data_contracts.model import Column, Contract
from evenhand.fairlib.proxies.raw import RawAcceptance
from evenhand.tasks.filtering.checks import BatchCheck, check_features, typed
from evenhand.tasks.filtering.filter_bundle import FilterSettings, ProxyBundle
from tests.tasks.filtering.judged import filter_files

Make = Callable[..., pa.Table]
WRONG: dict[str, list[Any]] = {
    "age": [17, 91, None],
    "income": [-1.0, float("nan"), float("inf"), None],
    "job": ["astronaut", None, ""],
    "member": [None],
    "since": [dt.date(1999, 12, 31), dt.date(2040, 1, 1), None],
    "region": ["moon", None],
}


def spoilt(table: pa.Table, seed: int) -> pa.Table:
    """Some values of some columns replaced by ones that may break the contract."""
    rng = np.random.default_rng(seed)
    for name in rng.choice(list(WRONG), rng.integers(0, 4), replace=False):
        column = table[name].to_pylist()
        for row in rng.choice(len(column), rng.integers(1, 6), replace=False):
            column[row] = WRONG[name][rng.integers(len(WRONG[name]))]
        table = table.set_column(
            table.column_names.index(name), name, pa.array(column, table[name].type)
        )
    return table


def verdict_on(table: pa.Table, bundle: ProxyBundle) -> BatchCheck:
    contract = bundle.contract
    values = {
        name: typed(
            table[name].combine_chunks(),
            contract.column(name),
            contract,
            category=name in bundle.raw.categorical,
        )
        for name in bundle.features
    }
    return check_features(values, bundle)


@pytest.mark.parametrize("seed", range(8))
def test_it_finds_the_rows_that_check_batch_finds(
    seed: int, people: Make, make_bundle: Callable[..., ProxyBundle]
) -> None:
    bundle = make_bundle(on_violation="quarantine", quarantine_share=1.0)
    table = spoilt(people(60, seed).select(list(bundle.features)), seed)
    slow = check_batch(coerce(table, bundle.contract), bundle.contract)
    quick = verdict_on(table, bundle)
    keep = np.ones(60, dtype=bool) if quick.bad is None else ~quick.bad
    np.testing.assert_array_equal(keep, slow.keep)
    assert {(v.column, v.count) for v in quick.violations} == {
        (v.column, v.count) for v in slow.violations
    }
    if seed == 0:
        dictionaries = table.set_column(
            table.column_names.index("job"),
            "job",
            table["job"].combine_chunks().dictionary_encode(),
        )
        again = verdict_on(dictionaries, bundle).bad
        np.testing.assert_array_equal(again, quick.bad)


def test_missing_sensitive_features_are_judged_as_check_batch(
    make_bundle: Callable[..., ProxyBundle], people: Make
) -> None:
    base = make_bundle(unseen_categories="error")
    for policy in ("error", "own_group", "drop"):
        columns = tuple(
            Column("region", "string", role="sensitive", is_feature=True)
            if c.name == "region"
            else c
            for c in base.contract.columns
        )
        contract = replace(
            base.contract,
            columns=columns,
            missing_sensitive=policy,
            on_violation="quarantine",
            quarantine_share=1.0,
        )
        bundle = replace(base, contract=contract)
        table = people(80, 5).select(list(bundle.features))
        slow = check_batch(coerce(table, contract), contract)
        quick = verdict_on(table, bundle)
        bad = np.zeros(80, dtype=bool) if quick.set_aside is None else quick.set_aside
        dropped = np.zeros(80, dtype=bool) if quick.dropped is None else quick.dropped
        assert (int(bad.sum()), int(dropped.sum())) == (slow.quarantined, slow.dropped)
        np.testing.assert_array_equal(~(bad | dropped), slow.keep)


def test_a_bound_beyond_a_narrow_type_is_no_fault(
    make_bundle: Callable[..., ProxyBundle], people: Make
) -> None:
    base = make_bundle()
    age = Column(
        "age", "integer", True, minimum=-1000, maximum=1000, allowed=(20, 30, 500), is_feature=True
    )
    columns = tuple(age if c.name == "age" else c for c in base.contract.columns)
    bundle = replace(base, contract=replace(base.contract, columns=columns))
    table = people(3).select(list(bundle.features))
    table = table.set_column(0, "age", pa.array([20, 30, 21], pa.int8()))
    verdict = verdict_on(table, bundle)
    assert verdict.bad is not None
    assert verdict.bad.tolist() == [False, False, True]


def test_a_missing_value_is_not_the_first_of_the_dictionary(
    make_bundle: Callable[..., ProxyBundle], people: Make
) -> None:
    base = make_bundle()
    columns = tuple(
        replace(c, required=False) if c.name == "job" else c for c in base.contract.columns
    )
    bundle = replace(base, contract=replace(base.contract, columns=columns))
    table = people(4).select(list(bundle.features))
    table = table.set_column(2, "job", pa.array(["astronaut", None, "smith", None]))
    found = verdict_on(table, bundle).bad
    assert found is not None
    assert found.tolist() == [True, False, False, False]


@pytest.mark.parametrize("value", ["moon", None])
def test_an_unseen_category_breaks_the_contract_unless_ignored(
    value: str | None, make_bundle: Callable[..., ProxyBundle], people: Make
) -> None:
    strict = make_bundle(unseen_categories="error")
    lenient = make_bundle(unseen_categories="ignore")
    table = people(40).select(list(strict.features))
    column = table["region"].fill_null("north").to_pylist()
    column[7] = value
    table = table.set_column(table.column_names.index("region"), "region", pa.array(column))
    # training rows lacked some regions, so a missing one is known
    assert verdict_on(table, lenient).bad is None
    found = verdict_on(table, strict).bad
    if value is None:
        assert found is None
    else:
        assert found is not None
        assert np.flatnonzero(found).tolist() == [7]


def test_a_missing_value_unseen_in_training_is_a_new_category(
    make_bundle: Callable[..., ProxyBundle], people: Make
) -> None:
    base = make_bundle(unseen_categories="error")
    columns = tuple(
        replace(c, required=False) if c.name in ("job", "member") else c
        for c in base.contract.columns
    )
    bundle = replace(base, contract=replace(base.contract, columns=columns))
    table = people(5).select(list(bundle.features))
    table = table.set_column(2, "job", pa.array(["smith", None, "clerk", "baker", "smith"]))
    table = table.set_column(3, "member", pa.array([True, False, True, None, False]))
    found = verdict_on(table, bundle).bad
    assert found is not None
    assert found.tolist() == [False, True, False, True, False]
    with pytest.raises(ValueError, match="unseen in training"):
        bundle.raw.evaluate(table)


def filtered(
    bundle: ProxyBundle, tables: dict[str, pa.Table], tmp_path: Path, **settings: Any
) -> Any:
    (tmp_path / "in").mkdir()
    for name, table in tables.items():
        pq.write_table(table, tmp_path / "in" / f"{name}.parquet", row_group_size=50)
    chosen = FilterSettings(**{"key": ("id",), "rows_per_unit": 100, **settings})
    return filter_files(bundle, str(tmp_path / "in"), str(tmp_path / "out"), chosen)


def with_bad_ages(table: pa.Table, rows: list[int]) -> pa.Table:
    ages = table["age"].to_pylist()
    for row in rows:
        ages[row] = 5
    return table.set_column(table.column_names.index("age"), "age", pa.array(ages, pa.int16()))


def test_a_bad_row_stops_its_file_and_no_other(
    make_bundle: Callable[..., ProxyBundle], people: Make, tmp_path: Path
) -> None:
    tables = {
        "a": people(300),
        "b": with_bad_ages(people(300, 1), [130, 131, 280]),
        "c": people(300, 2),
    }
    summary = filtered(make_bundle(), tables, tmp_path)
    assert [file.status for file in summary.files] == ["done", "failed", "done"]
    reason = str(summary.failed[0].reason)
    assert "column 'age': expected values from 18 to 90" in reason
    place = "rows 131 and 132 of the file, counted after its header"
    assert f"found 2 of 50 rows outside: {place}" in reason
    assert summary.rows_in == 600
    assert len({path.name[5:21] for path in (tmp_path / "out").glob("part-*")}) == 2


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ([280], "1 of 50 rows outside: row 281 of the file"),
        ([260, 261, 299], "3 of 50 rows outside: rows 261, 262 and 300 of the file"),
        ([*range(251, 258)], "7 of 50 rows outside: rows 252, 253, 254, 255, 256 and 2 more of"),
    ],
)
def test_the_message_has_the_numbers_of_the_first_bad_rows(
    make_bundle: Callable[..., ProxyBundle],
    people: Make,
    tmp_path: Path,
    bad: list[int],
    words: str,
) -> None:
    summary = filtered(make_bundle(), {"b": with_bad_ages(people(300), bad)}, tmp_path)
    assert words in str(summary.failed[0].reason)


def test_bad_rows_are_set_aside_up_to_the_share_of_the_contract(
    make_bundle: Callable[..., ProxyBundle], people: Make, tmp_path: Path
) -> None:
    bundle = make_bundle(on_violation="quarantine", quarantine_share=0.01)
    tables = {
        "a": with_bad_ages(people(300), [7, 8, 210]),
        "b": with_bad_ages(people(300), [1, 2, 3, 4]),
    }
    summary = filtered(bundle, tables, tmp_path)
    assert [(file.status, file.quarantined) for file in summary.files] == [
        ("done", 3),
        ("failed", 0),
    ]
    assert "4 of 300 rows break the contract, more than the 1.0%" in str(summary.failed[0].reason)
    assert summary.quarantined == 3
    parts = sorted((tmp_path / "out" / "_evenhand" / "quarantine").iterdir())
    rows = [pq.read_table(part) for part in parts]
    assert [table["id"].to_pylist() for table in rows] == [[7, 8], [210]]
    assert rows[0].schema.equals(tables["a"].drop_columns("sex").schema)
    # the verdict holds on the next run too
    again = filtered_again(bundle, tmp_path)
    assert [file.status for file in again.files] == ["skipped", "failed"]


def filtered_again(bundle: ProxyBundle, tmp_path: Path) -> Any:
    settings = FilterSettings(key=("id",), rows_per_unit=100)
    return filter_files(bundle, str(tmp_path / "in"), str(tmp_path / "out"), settings)


def test_set_aside_rows_do_not_change_the_fate_of_others(
    make_bundle: Callable[..., ProxyBundle],
    people: Make,
    tmp_path: Path,
    kept: Callable[[Path], pa.Table],
) -> None:
    bundle = make_bundle(on_violation="quarantine", quarantine_share=1.0)
    clean = people(200)
    filtered(bundle, {"a": clean}, tmp_path)
    expected = set(kept(tmp_path / "out")["id"].to_pylist()) - {3, 50, 51}
    (tmp_path / "again").mkdir()
    filtered(bundle, {"a": with_bad_ages(clean, [3, 50, 51])}, tmp_path / "again")
    assert set(kept(tmp_path / "again" / "out")["id"].to_pylist()) == expected


def test_values_of_a_wrong_type_fail_the_file_unquoted(
    bundle: ProxyBundle, people: Make, tmp_path: Path
) -> None:
    table = people(100)
    ages = ["seventeen" if i == 4 else str(v) for i, v in enumerate(table["age"].to_pylist())]
    texts = table.set_column(table.column_names.index("age"), "age", pa.array(ages))
    numbers = texts.set_column(texts.column_names.index("age"), "age", pa.array([str(20)] * 100))
    lists = table.set_column(table.column_names.index("age"), "age", pa.array([[1]] * 100))
    summary = filtered(bundle, {"a": texts, "b": numbers, "c": lists}, tmp_path)
    assert [file.status for file in summary.files] == ["failed", "done", "failed"]
    assert (
        "column 'age': expected type integer, found 1 of 50 rows with text that is no whole number"
        in str(summary.files[0].reason)
    )
    assert "seventeen" not in str(summary.files[0].reason)
    assert "Arrow type list" in str(summary.files[2].reason)


def test_a_verdict_names_no_value(bundle: ProxyBundle, people: Make) -> None:
    table = spoilt(people(60).select(list(bundle.features)), 3)
    violations = verdict_on(table, bundle).violations
    assert violations
    message = str(ContractViolation(violations))
    assert not any(str(wrong) in message for wrong in ("astronaut", "moon", "17", "-1.0"))
    assert all(violation.examples == () for violation in violations)


def test_the_proxy_and_the_contract_must_agree_on_columns(
    bundle: ProxyBundle, make_contract: Callable[..., Contract]
) -> None:
    with pytest.raises(ValueError, match="name different columns"):
        replace(bundle, features=("age",))
    assert isinstance(bundle.raw, RawAcceptance)
    assert make_contract().digest == bundle.contract.digest


@pytest.mark.parametrize("encoded", [False, True])
def test_the_contracts_spellings_of_missing_values_are_missing(
    encoded: bool, make_bundle: Callable[..., ProxyBundle]
) -> None:
    base = make_bundle().contract
    spelled = {"job": ("?",), "age": (-1,)}
    contract = replace(
        base,
        columns=tuple(replace(c, missing=spelled.get(c.name, c.missing)) for c in base.columns),
    )
    texts = pa.array(["clerk", "?", None])
    given = texts.dictionary_encode() if encoded else texts
    found = typed(given, contract.column("job"), contract, category=True)
    assert found.to_pylist() == ["clerk", None, None]
    found = typed(pa.array([30, -1]), contract.column("age"), contract, category=False)
    assert found.to_pylist() == [30, None]
