"""A table in batches gets the report of the whole table, with the same rows to keep."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from contract_samples import make_people, put

from evenhand.data_contracts.arrow import coerce, coerce_batch, fitting
from evenhand.data_contracts.checking import check_encoded, check_table
from evenhand.data_contracts.errors import ContractViolation
from evenhand.data_contracts.model import Contract
from evenhand.data_contracts.scanning import Scan, scan
from evenhand.data_contracts.table_check import CheckResult

ROWS = 240


def cut(table: pa.Table, seed: int, empty: bool = True) -> list[pa.Table]:
    """The table in batches of random sizes, some without rows."""
    rng = np.random.default_rng(seed)
    ends = np.sort(rng.integers(0, table.num_rows + 1, 6)).tolist()
    parts = [
        table.slice(a, b - a) for a, b in zip([0, *ends], [*ends, table.num_rows], strict=True)
    ]
    return parts if empty else [part for part in parts if part.num_rows]


def coerced(
    batches: list[pa.Table], contract: Contract, unsigned: Sequence[str] = ()
) -> Iterator[pa.Table]:
    return fitting([coerce_batch(batch, contract, unsigned) for batch in batches], contract)


def in_batches(table: pa.Table, contract: Contract, seed: int) -> CheckResult:
    batches = cut(table, seed)

    def read(names: Sequence[str] | None) -> Iterator[pa.Table | Scan]:
        if names is None:  # some were read by another process
            for number, batch in enumerate(batches):
                found = scan(batch, contract.columns, contract)
                yield pickle.loads(pickle.dumps(found)) if number % 2 else batch  # noqa: S301 - own bytes
        else:
            yield from (batch.select(names) for batch in batches)

    return check_table(read, contract)


def broken(seed: int) -> pa.Table:
    """People of whom some break every kind of rule."""
    rng = np.random.default_rng(seed)
    table = make_people(ROWS)
    wrong: dict[str, list[Any]] = {
        "age": [None, 17, 120, 5],
        "sex": [None, "male", "x", "y", "z", "w", "v", "u"],
        "income": [None, -1.0, float("nan"), float("inf"), -7.5, -8.5, -9.5, -10.5, -11.5],
        "job": [None, "clark", "smit", "a", "b", "c", "d", "e"],
        "paid": [None],
    }
    for name, values in wrong.items():
        rows = rng.choice(ROWS, 12, replace=False).tolist()
        table = put(table, name, {row: values[k % len(values)] for k, row in enumerate(rows)})
    return table


@pytest.mark.parametrize(
    ("missing", "policy", "seeds"),
    [
        ("error", "quarantine", [0]),
        ("drop", "stop", [1]),
        pytest.param("error", "quarantine", [1], marks=pytest.mark.long),
        pytest.param("drop", "stop", [0], marks=pytest.mark.long),
        pytest.param("error", "stop", [0, 1], marks=pytest.mark.long),
        pytest.param("drop", "quarantine", [0, 1], marks=pytest.mark.long),
    ],
)
def test_the_report_does_not_depend_on_the_batches(
    contract: Contract, policy: str, missing: str, seeds: list[int]
) -> None:
    contract = replace(
        contract, on_violation=policy, missing_sensitive=missing, quarantine_share=0.9
    )  # type: ignore[arg-type]
    for seed in seeds:
        table = broken(seed)
        whole, parts = check_table(table, contract), in_batches(table, contract, seed)
        assert parts.to_json() == whole.to_json()
        assert np.array_equal(parts.keep, whole.keep)
        assert 0 < (~whole.keep).sum() < ROWS
        # by hand: rows with a wrong income
        income = table["income"].to_pylist()
        bad = [
            row
            for row, value in enumerate(income)
            if value is None or not 0 <= value < float("inf")
        ]
        assert not parts.keep[bad].any()


def test_a_table_without_rows_or_columns_has_the_same_report(
    contract: Contract, people: pa.Table
) -> None:
    for table in (people.slice(0, 0), people.drop_columns(["job"]), people.slice(0, 2)):
        assert in_batches(table, contract, 0).to_json() == check_table(table, contract).to_json()


def test_one_class_in_every_batch_is_no_violation(contract: Contract) -> None:
    table = make_people(40).sort_by("paid")
    batches = [table.slice(0, 30), table.slice(30)]
    found = check_table(
        lambda names: [b if names is None else b.select(names) for b in batches], contract
    )
    assert batches[1]["paid"].unique().to_pylist() == [True]
    assert found.success


def test_scans_add_up_by_hand(contract: Contract) -> None:
    incomes = ([1.0, float("nan"), None], [float("inf"), float("nan"), 9.0], [], [-2.0])
    people = [
        put(make_people(3), "income", dict(enumerate(part))).slice(0, len(part)) for part in incomes
    ]
    scans = [scan(table, contract.columns, contract) for table in people]
    first = scans[0].facts["income"]
    for later in scans[1:]:
        first.add(later.facts["income"])
    assert (first.missing, first.nonfinite) == (1, 3)
    assert [str(value) for value in first.examples] == ["nan", "inf"]
    low_high = [value for value in first.decisive.to_pylist() if value is not None]
    assert (min(low_high), max(low_high), first.decisive.null_count) == (-2.0, float("inf"), 1)
    assert [part.bad.tolist() for part in scans] == [
        [False, True, False],
        [True, True, False],
        [],
        [False],
    ]


def test_batches_are_coerced_as_the_table(contract: Contract) -> None:
    table = make_people(ROWS)
    texts = table.set_column(3, "income", table["income"].cast(pa.string()))
    whole = coerce(texts, contract)
    assert pa.concat_tables(coerced(cut(texts, 1), contract)).equals(whole)
    # two kinds of unfit values: the table's message is about the first kind, with its number
    ages = [str(age) for age in table["age"].to_pylist()]
    ages[3] = "9" * 30
    late = texts.set_column(1, "age", pa.array(ages))
    ages[200], ages[210] = "old", "young"
    both = texts.set_column(1, "age", pa.array(ages))
    for wrong in (late, both):
        with pytest.raises(ContractViolation) as whole_error:
            coerce(wrong, contract)
        with pytest.raises(ContractViolation) as parts_error:
            list(coerced(cut(wrong, 2, empty=False), contract))
        assert str(parts_error.value) == str(whole_error.value)
    assert "2 of 240 rows with text that is no whole number" in str(parts_error.value)


def test_an_unsigned_column_has_one_type_in_all_batches(contract: Contract) -> None:
    table = make_people(8)
    ages = pa.array([2**63 + 5, *range(20, 27)], pa.uint64())
    batches = cut(table.set_column(1, "age", ages), 3, empty=False)
    kinds = {batch["age"].type for batch in coerced(batches, contract, ["age"])}
    assert kinds == {pa.uint64()}


def test_an_encoded_matrix_in_batches() -> None:
    rng = np.random.default_rng(0)
    table = pa.table({"a": rng.normal(size=90), "b": rng.integers(0, 2, 90).astype(float)})
    kinds = {"a": "standard", "b": "onehot"}
    for wrong in (table, put(table, "b", {50: 0.5, 80: 2.0}), put(table, "a", {70: float("nan")})):
        batches = cut(wrong, 4)
        found = check_encoded(
            lambda names, given=batches: [b if names is None else b.select(names) for b in given],
            kinds,
            rows=90,
        )
        assert found.to_json() == check_encoded(wrong, kinds, rows=90).to_json()
        assert found.success is (wrong is table)
