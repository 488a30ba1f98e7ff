from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest
from contract_samples import make_people

from evenhand.data_contracts.arrow import (
    bin_names,
    coerce,
    group_codes,
    group_labels,
    label_codes,
    numbers_of,
    reaches,
)
from evenhand.data_contracts.checking import check_table
from evenhand.data_contracts.errors import ContractViolation
from evenhand.data_contracts.model import Column, Contract


def one(kind: str, values: pa.Array, **options: object) -> list[object]:
    """Bring one column to ``kind``."""
    label = Column("y", "integer", True, role="label", positive=1)
    column = Column("c", kind, role="feature", is_feature=True, **options)  # type: ignore[arg-type]
    table = coerce(pa.table({"c": values}), Contract("t", "1", "", (column, label)))
    expected = {
        "string": pa.string(), "integer": pa.int64(), "number": pa.float64(),
        "boolean": pa.bool_(), "date": pa.date32(),
    }  # fmt: skip
    assert table.schema.field("c").type == expected[kind]
    return table.column("c").to_pylist()


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        ("integer", ["1", " 2 ", "", None, "-3", "+4", "5.0"], [1, 2, None, None, -3, 4, 5]),
        ("integer", [1.0, None, 3.0], [1, None, 3]),
        ("integer", [True, False], [1, 0]),
        ("number", ["1.5", "-.5", "1e3", "+2", "7"], [1.5, -0.5, 1000.0, 2.0, 7.0]),
        ("number", [1, None], [1.0, None]),
        ("number", [2**60 + 1], [float(2**60)]),
        ("boolean", ["true", "False", "YES", "0", None], [True, False, True, False, None]),
        ("boolean", [0, 1], [False, True]),
        ("date", ["2024-02-29", "2024-01-01 13:00:00"], [dt.date(2024, 2, 29), dt.date(2024, 1, 1)]),
        ("date", [dt.datetime(2024, 1, 1, 23)], [dt.date(2024, 1, 1)]),
        ("string", [0, 1, None], ["0", "1", None]),
        ("string", [1.0, None], ["1", None]),
        ("string", [" a "], [" a "]),
        ("string", [True, False], ["true", "false"]),
    ],
)  # fmt: skip
def test_values_that_fit(kind, values, expected):
    assert one(kind, pa.array(values)) == expected


def test_other_arrow_types():
    assert one("string", pa.array(["a", "b", "a"]).dictionary_encode()) == ["a", "b", "a"]
    assert one("string", pa.array(["a"], pa.large_string())) == ["a"]
    assert one("number", pa.array([1.5], pa.float32())) == [1.5]
    assert one("number", pa.array([1, 2], pa.decimal128(5, 1))) == [1.0, 2.0]
    assert one("integer", pa.array([7], pa.uint8())) == [7]
    assert one("integer", pa.nulls(2)) == [None, None]
    assert one("string", pa.array([True, None, False]), allowed=("True", "False")) == [
        "True",
        None,
        "False",
    ]


@pytest.mark.parametrize(
    ("kind", "values", "count"),
    [
        ("integer", ["1", "x9", "2.5"], 2),
        ("integer", [1.0, 1.5, float("inf")], 2),
        ("integer", ["99999999999999999999"], 1),
        ("integer", [dt.date(2024, 1, 1)], 1),
        ("number", ["1,5", "2"], 1),
        ("number", [True, None], 1),
        ("boolean", ["maybe", "yes"], 1),
        ("boolean", [0, 2, 3], 2),
        ("date", ["2024-02-30", "2024-01-01"], 1),
        ("date", ["01/02/2024"], 1),
        ("date", [3], 1),
        ("string", [1.5, 2.0], 1),
        ("string", [b"x"], 1),
        ("string", [["x"]], 1),
    ],
)
def test_values_that_do_not_fit(kind, values, count):
    with pytest.raises(ContractViolation) as caught:
        one(kind, pa.array(values))
    (found,) = caught.value.violations
    assert (found.column, found.expectation, found.count, found.examples) == (
        "c",
        f"type {kind}",
        count,
        (),
    )
    assert "x9" not in str(caught.value)


def test_several_columns_at_once(contract):
    people = make_people()
    table = people.set_column(3, "income", pa.array(["secret"] * 20)).set_column(
        1, "age", pa.array(["old"] * 20)
    )
    with pytest.raises(
        ContractViolation, match=r"'age'.*\(and 1 more violation: column 'in"
    ) as caught:
        coerce(table, contract)
    assert "old" not in str(caught.value)


def test_order_extras_and_csv_text(contract):
    people = make_people()
    text = pa.table({n: [None if v is None else str(v) for v in people.column(n).to_pylist()]
                     for n in reversed(people.column_names)})  # fmt: skip
    text = text.add_column(2, "extra", [list(range(20))])
    back = coerce(text, contract)
    assert back.column_names == [*people.column_names, "extra"]
    assert back.select(people.column_names).equals(people)
    assert coerce(back, contract).equals(back)
    missing = coerce(text.drop_columns(["job"]), contract)
    assert "job" not in missing.column_names
    twice = coerce(people.append_column("job", people.column("job")), contract)
    assert twice.column_names.count("job") == 2
    assert not check_table(twice, contract).success


def test_bins_name_groups():
    age = Column("age", "integer", role="sensitive", bins=(25, 60))
    assert bin_names(age) == ("<25", "25-59", ">=60")
    labels = group_labels(pa.array([24, 25, 59, 60, None]), age)
    assert labels.tolist() == ["<25", "25-59", "25-59", ">=60", "missing"]
    assert all(type(label) is str for label in labels.tolist())
    assert bin_names(Column("age", "integer", role="sensitive", bins=(25,))) == ("<25", ">=25")
    assert bin_names(Column("age", "integer", role="sensitive", bins=(25, 26))) == (
        "<25",
        "25",
        ">=26",
    )
    share = Column("share", "number", role="sensitive", bins=(0.5, 1.5))
    assert bin_names(share) == ("<0.5", "0.5 to <1.5", ">=1.5")
    assert group_labels(pa.array([0.4, 0.5, 2]), share).tolist() == ["<0.5", "0.5 to <1.5", ">=1.5"]
    with pytest.raises(ValueError, match="no bins"):
        bin_names(Column("sex", "string", role="sensitive"))


def test_values_of_one_name_are_one_group():
    number = Column("n", "number", role="sensitive", allowed=(0, 1, 2.5))
    names, codes = group_codes(pa.chunked_array([[0.0, None, 2.5], [-0.0, 1.0]]), number)
    assert (names, codes.tolist()) == (["0", "1", "2.5", "missing"], [0, 3, 2, 0, 1])
    text = Column("t", "string", role="sensitive")
    names, codes = group_codes(pa.array(["missing", "b", None, "a"]), text)
    assert (names, codes.tolist()) == (["a", "b", "missing"], [2, 1, 2, 0])
    age = Column("age", "integer", role="sensitive", bins=(25, 60))
    assert group_codes(pa.array([70, 20]), age)[0] == ["<25", ">=60"]
    assert group_codes(pa.array([], pa.string()), text)[0] == []


def test_groups_without_bins():
    sex = Column("sex", "string", role="sensitive")
    values = pa.array(["m", None, "f"]).dictionary_encode()
    assert group_labels(values, sex).tolist() == ["m", "missing", "f"]
    assert group_labels(
        pa.array([True, None]), Column("b", "boolean", role="sensitive")
    ).tolist() == [
        "true",
        "missing",
    ]
    coded = Column("n", "number", role="sensitive", allowed=(0, 1.5))
    assert group_labels(pa.array([0.0, 1.5]), coded).tolist() == ["0", "1.5"]
    assert np.array_equal(
        group_labels(pa.array([3]), Column("i", "integer", role="sensitive", allowed=(3,))), ["3"]
    )


def test_labels_from_a_threshold_by_hand():
    whole = Column("income", "integer", True, role="label", at_least=3)
    chunks = pa.chunked_array([[1, 2, 3], [4, None]])
    assert label_codes(chunks, whole).tolist() == [0, 0, 1, 1, 0]
    number = Column("income", "number", True, role="label", at_least=2.5)
    numbers = pa.chunked_array([[2.4999, 2.5, float("nan"), float("inf"), -1e300]])
    assert label_codes(numbers, number).tolist() == [0, 1, 0, 1, 0]
    assert reaches(numbers, 2.5).to_pylist() == [False, True, None, True, False]
    decimals = pa.chunked_array([pa.array([2, 3], pa.decimal128(5, 2))])
    assert label_codes(decimals, number).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        (pa.array([3, None, -1]), "integer", [3.0, np.nan, -1.0]),
        (pa.array([1.5, 2.0]).dictionary_encode(), "number", [1.5, 2.0]),
        (pa.array([dt.date(1970, 1, 2), None, dt.date(1969, 12, 31)]), "date", [1, np.nan, -1]),
        (pa.array([True, False, None]), "boolean", [1.0, 0.0, np.nan]),
    ],
)
def test_numbers_of_a_column(values: pa.Array, kind: str, expected: list[float]) -> None:
    column = Column("c", kind, role="feature", is_feature=True)
    numbers = numbers_of(pa.chunked_array([values]), column)
    assert numbers.dtype == np.float64
    np.testing.assert_array_equal(numbers, expected)


def test_unlisted_values_become_the_one_that_the_contract_names() -> None:
    values = pa.array(["Acme", "Moe", None, " Acme", "?", "other"])
    options = {"allowed": ("Acme", "other"), "other": "other", "missing": ("?",)}
    expected = ["Acme", "other", None, "other", None, "other"]
    assert one("string", values, **options) == expected
    assert one("string", values.dictionary_encode(), **options) == expected
    assert one("string", pa.nulls(2), **options) == [None, None]
    codes = pa.array([1, 2, None])
    assert one("string", codes, allowed=("1", "x"), other="x") == ["1", "x", None]
