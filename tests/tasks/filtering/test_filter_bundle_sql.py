"""The filter as SQL, and the hash that SQL can compute."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import hashlib
import io
import json
import shutil
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from evenhand.fairlib.proxies.hash_uniform import sha256_uniforms
from evenhand.tasks.errors import InputError
from evenhand.tasks.exporting.sql import DIALECTS, filter_query
from evenhand.tasks.filtering.checks import RowFilter
from evenhand.tasks.filtering.filter_bundle import FilterSettings, ProxyBundle
from evenhand.tasks.registry.bundle import Bundle

ROWS = 50_000
SETTINGS = FilterSettings(seed=5, hash="sha256", key=("id",), probability=True)


def bundle_of(folder: Any) -> Bundle:
    inputs = json.loads((folder / "inputs.json").read_text())
    contract = ProxyBundle.load(folder).contract
    return Bundle(
        folder, "people", "7", "models:/people/7", "", inputs, {"method": "proxy"}, contract
    )


def spoiled(table: pa.Table) -> pa.Table:
    """Rows that break each rule of the contract: bounds, allowed values, required ones, finite
    numbers.
    """
    changes: dict[str, Any] = {
        "age": [17, 91], "income": [-1.0, float("inf")], "job": ["pilot", None], "member": [None, None],
        "since": [dt.date(1999, 12, 31), dt.date(1800, 1, 1)], "region": ["east", "it's"],
    }  # fmt: skip
    for place, (name, values) in enumerate(changes.items()):
        column = table[name].to_pylist()
        column[10 * place : 10 * place + 2] = values
        index = table.column_names.index(name)
        table = table.set_column(index, name, pa.array(column, table.schema.field(name).type))
    return table


def kept_by_filter(folder: Any, table: pa.Table, settings: FilterSettings) -> Any:
    proxy = ProxyBundle.load(folder)
    contract = dataclasses.replace(proxy.contract, on_violation="quarantine")
    judge = RowFilter(dataclasses.replace(proxy, contract=contract), settings).judge
    accepted = judge(table.combine_chunks().to_batches()[0], 0).accepted
    return accepted["id"].to_pylist(), np.array(accepted["acceptance_probability"].to_pylist())


@pytest.mark.long
@pytest.mark.parametrize(
    "key", [("id",), ("id", "job", "member", "since", "age"), ("region", "job", "id")]
)
def test_duckdb_keeps_the_rows_that_the_filter_keeps(
    people: Any, bundle_folder: Any, key: Any
) -> None:
    table, settings = spoiled(people(ROWS, 3)), dataclasses.replace(SETTINGS, key=key)
    expected, probability = kept_by_filter(bundle_folder, table, settings)
    query = filter_query(bundle_of(bundle_folder), settings, "duckdb", "people")
    with duckdb.connect() as database:
        database.register("people", table)
        found = database.execute(query).fetchnumpy()
    assert found["id"].tolist() == expected
    assert 0.2 < len(expected) / ROWS < 0.8
    np.testing.assert_array_equal(found["acceptance_probability"], probability)


def test_rows_without_a_sensitive_input_are_dropped(
    people: Any, bundle_folder: Any, tmp_path: Any
) -> None:
    """Region becomes sensitive, and a category unseen in training breaks the contract."""
    folder = tmp_path / "proxy"
    shutil.copytree(bundle_folder, folder)
    contract = ProxyBundle.load(folder).contract
    columns = tuple(
        dataclasses.replace(column, role="sensitive") if column.name == "region" else column
        for column in contract.columns
    )
    contract = dataclasses.replace(
        contract, columns=columns, missing_sensitive="drop", unseen_categories="error"
    )
    inputs = json.loads((folder / "inputs.json").read_text()) | {"contract": contract.to_dict()}
    (folder / "inputs.json").write_text(json.dumps(inputs))
    encoder = json.loads((folder / "encoder.json").read_text()) | {"unseen": "error"}
    (folder / "encoder.json").write_text(json.dumps(encoder))
    table = spoiled(people(3000, 3))
    expected, _ = kept_by_filter(folder, table, SETTINGS)
    with duckdb.connect() as database:
        database.register("people", table)
        found = database.execute(
            filter_query(bundle_of(folder), SETTINGS, "duckdb", "people")
        ).fetchnumpy()
    assert found["id"].tolist() == expected
    assert not np.ma.getmaskarray(found["region"]).any()
    assert set(found["region"]) == {"north", "south", "west"}


def test_postgresql_keeps_them_too(people: Any, bundle_folder: Any, postgres: str) -> None:
    import psycopg2

    table = spoiled(people(5000, 3))
    settings = dataclasses.replace(SETTINGS, key=("id", "job", "member", "since", "region"))
    expected, probability = kept_by_filter(bundle_folder, table, settings)
    query = filter_query(bundle_of(bundle_folder), settings, "postgres", "people")
    text = io.BytesIO()
    pyarrow.csv.write_csv(table, text)
    text.seek(0)
    types = (
        "bigint",
        "smallint",
        "text",
        "double precision",
        "text",
        "boolean",
        "date",
        "text",
        "text",
    )
    columns = ", ".join(
        f"{name} {kind}" for name, kind in zip(table.column_names, types, strict=True)
    )
    with (
        contextlib.closing(psycopg2.connect(postgres)) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute(f"create table people ({columns})")
        cursor.copy_expert("copy people from stdin (format csv, header)", text)
        cursor.execute(query)
        names = [column.name for column in cursor.description or ()]
        rows = sorted(cursor.fetchall())
    assert names == [*table.column_names, "acceptance_probability"]
    assert [row[0] for row in rows] == expected
    np.testing.assert_array_equal([row[-1] for row in rows], probability)


@pytest.mark.parametrize("dialect", [*DIALECTS])
def test_every_dialect_hashes_in_hexadecimal_digits(bundle_folder: Any, dialect: str) -> None:
    query = filter_query(bundle_of(bundle_folder), SETTINGS, dialect, "people")
    words = {"bigquery": "TO_HEX(SHA256(", "postgres": "ENCODE(SHA256(CONVERT_TO("}
    assert words.get(dialect, "SHA2") in query


def test_settings_that_sql_cannot_follow(bundle_folder: Any) -> None:
    bundle = bundle_of(bundle_folder)
    for changed, cause in (
        ({"hash": "splitmix"}, "set filter.hash: sha256"),
        ({"key": ("income",)}, "'income' of numbers with fractions cannot be hashed"),
        ({"key": ("sex",)}, "sensitive column 'sex'"),
    ):
        with pytest.raises(InputError, match=cause):
            filter_query(bundle, dataclasses.replace(SETTINGS, **changed), "duckdb", "people")


# the hash


def test_the_number_is_that_of_the_digits() -> None:
    days, rows = (
        pa.array([dt.date(2020, 2, 29)]),
        {"b": pa.array(["é"]), "a": pa.array([7], pa.int8())},
    )
    table = pa.table({**rows, "c": pa.array([True]), "d": days, "e": pa.array([None], pa.string())})
    digits = hashlib.sha256("3|a=7|b=é|c=true|d=2020-02-29|e=(missing)".encode()).hexdigest()
    expected = int(digits[:13], 16) / 2**52
    for columns in (["a", "b", "c", "d", "e"], ["e", "c", "a", "d", "b"]):
        assert sha256_uniforms(table, columns, 3).tolist() == [expected]
    coded = table.set_column(0, "b", table["b"].dictionary_encode())
    assert sha256_uniforms(coded, ["a", "b", "c", "d", "e"], 3).tolist() == [expected]


def test_the_numbers_are_uniform_and_depend_on_the_seed() -> None:
    table = pa.table({"id": np.arange(20_000)})
    one, other = (sha256_uniforms(table, ["id"], seed) for seed in (1, 2))
    assert np.abs(np.histogram(one, 20, (0, 1))[0] - 1000).max() < 150
    assert abs(np.corrcoef(one, other)[0, 1]) < 0.03


@pytest.mark.parametrize(
    ("columns", "cause"),
    [
        ([], "at least one column"),
        (["id", "id"], "only once"),
        (["x"], "missing"),
        (["f"], "filter.key"),
    ],
)
def test_keys_without_a_hash(columns: list[str], cause: str) -> None:
    with pytest.raises(ValueError, match=cause):
        sha256_uniforms(pa.table({"id": [1], "f": [0.5]}), columns, 0)


def test_the_records_of_earlier_outputs_hold() -> None:
    """Digest of the settings as version 0.1 computed it, so that such an output is continued."""
    plain = {"seed": 0, "key": None, "probability": False, "sensitive": "drop", "format": None}
    plain |= {
        "delimiter": None,
        "null_values": None,
        "compression": "snappy",
        "rows_per_unit": 1_000_000,
    }
    text = json.dumps(plain, sort_keys=True)
    assert FilterSettings().digest == hashlib.sha256(text.encode()).hexdigest()
    assert FilterSettings(hash="sha256").digest != FilterSettings().digest
