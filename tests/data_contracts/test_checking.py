from __future__ import annotations

import dataclasses
import datetime as dt
import json
import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from contract_samples import make_people, put

from evenhand.data_contracts.checking import check_batch, check_encoded, check_table, raise_for
from evenhand.data_contracts.errors import ContractViolation
from evenhand.data_contracts.model import Column, Contract


def only(result):
    assert not result.success
    assert len(result.violations) == 1, result.violations
    return result.violations[0]


def test_clean_table_passes(people, contract):
    result = check_table(people, contract)
    assert result.success
    assert result.violations == ()
    assert (result.rows, result.rows_kept, result.quarantined, result.dropped) == (20, 20, 0, 0)
    assert result.keep.all()
    assert result.contract["digest"] == contract.digest
    assert all(check["success"] for check in result.checks)
    # 7 types + names differ + 1 finite + columns + rows + 6 not null (all but since) + 2 sets + 3
    # ranges + both classes
    assert len(result.checks) == 7 + 1 + 1 + 2 + 6 + 2 + 3 + 1
    raise_for(result)


def test_missing_and_extra_columns(people, contract):
    found = only(check_table(people.drop_columns(["income"]), contract))
    assert (found.column, found.expectation, found.scope) == (
        "income",
        "the column to be there",
        "table",
    )
    found = only(check_table(people.append_column("note", [["x"] * 20]), contract))
    assert found.column == "note"
    assert "role ignore, or drop it" in found.cure
    renamed = people.rename_columns(["key", "Age", "sex", "income", "job", "since", "paid"])
    result = check_table(renamed, contract)
    assert [v.column for v in result.violations] == ["age", "Age"]
    assert "rename column 'Age'" in result.violations[0].cure
    other = people.rename_columns(["key", "age", "sex", "experience", "job", "since", "paid"])
    result = check_table(other, contract)
    assert "rename" not in result.violations[0].cure


def test_duplicate_column_names(people, contract):
    twice = people.append_column("job", people.column("job"))
    found = only(check_table(twice, contract))
    assert (found.column, found.expectation) == ("job", "a column name once")


@pytest.mark.parametrize(
    "wrong",
    [
        {
            "income": ["1"] * 20,
            "age": [1.5] * 20,
            "job": list(range(20)),
            "since": ["2001-01-01"] * 20,
        },
        {"job": [["a"]] * 20, "paid": [0, 1] * 10},
        {"job": [b"clerk"] * 20},
    ],
)
def test_wrong_types(people, contract, wrong):
    for name, values in wrong.items():
        people = people.set_column(people.column_names.index(name), name, pa.array(values))
    result = check_table(people, contract)
    assert not result.success
    assert {v.column: (v.expectation, v.examples) for v in result.violations} == {
        name: (f"type {contract.column(name).logical_type}", ()) for name in wrong
    }


@pytest.mark.parametrize(
    "kinds",
    [
        {
            "job": pa.large_string(),
            "sex": pa.dictionary(pa.int32(), pa.large_string()),
            "age": pa.uint8(),
            "income": pa.int32(),
            "since": pa.timestamp("us"),
        },
        {"job": pa.string_view(), "age": pa.int32(), "income": pa.float32(), "since": pa.date64()},
        {"job": pa.dictionary(pa.int8(), pa.string()), "income": pa.decimal128(10, 2)},
    ],
)
def test_right_types_of_other_widths(people, contract, kinds):
    for name, kind in kinds.items():
        values = people.column(name)
        values = (
            values.dictionary_encode().cast(kind)
            if pa.types.is_dictionary(kind)
            else values.cast(kind)
        )
        people = people.set_column(people.column_names.index(name), name, values)
    assert check_table(people, contract).violations == ()


def test_nulls_where_required(people, contract):
    found = only(check_table(put(people, "income", {3: None, 7: None}), contract))
    assert (found.column, found.expectation, found.count, found.scope) == (
        "income",
        "no missing values",
        2,
        "row",
    )
    assert check_table(put(people, "since", {3: None}), contract).success


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_nan_and_infinity(people, contract, value):
    result = check_table(put(people, "income", {3: value}), contract)
    found = only(result)
    assert (found.column, found.expectation, found.count) == ("income", "finite numbers", 1)
    assert found.examples == (str(value),)
    assert not result.keep[3]


def test_nan_and_null_are_told_apart(people, contract):
    result = check_table(put(people, "income", {3: math.nan, 4: None}), contract)
    assert [(v.expectation, v.count) for v in result.violations] == [
        ("finite numbers", 1),
        ("no missing values", 1),
    ]


def test_unknown_category_names_the_nearest(people, contract):
    found = only(check_table(put(people, "job", {0: "clerc", 5: "baker", 6: "baker"}), contract))
    assert (found.column, found.count, found.examples) == ("job", 3, ("'clerc'", "'baker'"))
    assert "did you mean 'clerk'?" in found.cure


def test_range(people, contract):
    found = only(check_table(put(people, "income", {0: -1.0}), contract))
    assert (found.expectation, found.examples) == ("values of at least 0", ("-1.0",))
    found = only(check_table(put(people, "since", {0: dt.date(1999, 12, 31)}), contract))
    assert (found.expectation, found.examples) == ("values of at least 2000-01-01", ("1999-12-31",))


def test_at_most_five_short_examples(people, contract):
    found = only(check_table(put(people, "job", {i: f"{i}" * 100 for i in range(9)}), contract))
    assert found.count == 9
    assert len(found.examples) == 5
    assert max(map(len, found.examples)) <= 40


@pytest.mark.parametrize("rows", [0, 3])
def test_too_few_rows(contract, rows):
    found = only(check_table(make_people(20).slice(0, rows), contract))
    assert (found.column, found.expectation, found.found) == (None, "4 to 1,000 rows", str(rows))


def test_too_many_rows(contract):
    found = only(check_table(make_people(1001), contract))
    assert (found.found, found.count) == ("1,001", 1)


@pytest.mark.parametrize("value", [True, False])
def test_one_class_only(people, contract, value):
    found = only(check_table(put(people, "paid", dict.fromkeys(range(20), value)), contract))
    assert (found.column, found.expectation, found.scope) == (
        "paid",
        "both classes of the label",
        "table",
    )


def test_label_with_three_values(contract):
    contract = dataclasses.replace(
        contract,
        columns=(*contract.columns[:-1], Column("paid", "integer", True, role="label", positive=1)),
    )
    people = make_people()
    table = people.set_column(6, "paid", pa.array([i % 3 for i in range(20)]))
    found = only(check_table(table, contract))
    assert (found.column, found.found) == ("paid", "3 distinct values")
    table = people.set_column(6, "paid", pa.array([2 * (i % 2) for i in range(20)]))
    assert only(check_table(table, contract)).expectation == "both classes of the label"
    assert check_table(
        people.set_column(6, "paid", pa.array([i % 2 for i in range(20)])), contract
    ).success


def test_column_without_any_value(people, contract):
    table = people.set_column(5, "since", pa.nulls(20))
    assert only(check_table(table, contract)).expectation == "at least one value"
    table = people.set_column(3, "income", pa.nulls(20))
    assert only(check_table(table, contract)).expectation == "no missing values"


def test_several_violations_are_reported_at_once(people, contract):
    table = put(put(people, "job", {0: "x"}), "age", {1: 5, 2: None}).drop_columns(["income"])
    result = check_table(table, contract)
    assert {(v.column, v.count) for v in result.violations} == {
        ("income", 1), ("job", 1), ("age", 1),
    }  # fmt: skip
    assert len(result.violations) == 4  # age: one missing, one out of range
    others = r"column 'income'.*\(and 3 more violations: .*column 'job' \(1 of 20 rows"
    with pytest.raises(ContractViolation, match=others):
        raise_for(result)


def test_nothing_of_sensitive_columns_or_ids_in_the_result(contract):
    people = make_people()
    table = put(people, "sex", {0: "Xyzzy", 1: None})
    table = put(table, "age", {2: 4711, 3: None})
    table = put(table, "key", {4: None})
    result = check_table(table, contract)
    assert {v.column for v in result.violations} == {"sex", "age", "key"}
    text = str(result.to_json()) + json.dumps(result.to_json())
    with pytest.raises(ContractViolation) as caught:
        raise_for(result)
    for leak in ("Xyzzy", "4711", "secret-", "Female", "'Male'"):
        assert leak not in text
        assert leak not in str(caught.value)


def test_missing_sensitive_error(people, contract):
    found = only(check_table(put(people, "sex", {3: None}), contract))
    assert (found.column, found.expectation, found.count) == ("sex", "no missing values", 1)
    assert "missingSensitive" in found.cure


def test_missing_sensitive_drop(people, contract):
    contract = dataclasses.replace(contract, missing_sensitive="drop")
    result = check_table(put(put(people, "sex", {3: None}), "age", {4: None}), contract)
    assert result.success
    assert result.violations == ()
    assert (result.rows_kept, result.dropped, result.quarantined) == (18, 2, 0)
    assert np.flatnonzero(~result.keep).tolist() == [3, 4]
    assert result.to_json()["dropped_missing_sensitive"] == 2


def test_missing_sensitive_own_group(people, contract):
    columns = tuple(
        dataclasses.replace(c, is_feature=False, encoding=None) if c.name == "age" else c
        for c in contract.columns
    )
    contract = dataclasses.replace(contract, columns=columns, missing_sensitive="own_group")
    result = check_table(put(put(people, "sex", {3: None}), "age", {4: None}), contract)
    assert result.success
    assert result.keep.all()


def test_all_rows_dropped(people, contract):
    contract = dataclasses.replace(contract, missing_sensitive="drop")
    table = put(people, "sex", dict.fromkeys(range(20)))
    result = check_table(table, contract)
    assert not result.success
    assert result.rows_kept == 0


def test_quarantine_up_to_its_share(contract):
    contract = dataclasses.replace(contract, on_violation="quarantine", quarantine_share=0.1)
    people = make_people(20)
    two = put(put(put(people, "job", {0: "x"}), "income", {0: math.nan}), "age", {5: 3})
    result = check_table(two, contract)
    assert result.success
    assert len(result.violations) == 3
    assert (result.rows_kept, result.quarantined) == (18, 2)
    assert np.flatnonzero(~result.keep).tolist() == [0, 5]
    three = put(two, "job", {9: "y"})
    result = check_table(three, contract)
    assert not result.success
    assert result.violations[-1].expectation == "at most 10.0% of the rows set aside"
    assert not check_table(two.drop_columns(["since"]), contract).success
    stop = dataclasses.replace(contract, on_violation="stop")
    assert not check_table(two, stop).success


def test_quarantine_may_not_eat_a_class(contract):
    contract = dataclasses.replace(contract, on_violation="quarantine", quarantine_share=0.5)
    people = make_people(20)
    table = put(people, "job", dict.fromkeys(range(0, 20, 4), "x"))  # every paid row
    result = check_table(table, contract)
    assert not result.success
    assert result.violations[-1].expectation == "both classes of the label"


def test_batch_needs_the_model_inputs_only(people, contract):
    inputs = people.select([c.name for c in contract.features])
    assert check_batch(inputs, contract).success
    assert check_batch(inputs.slice(0, 1), contract).success
    assert check_batch(people, contract).success
    assert only(check_batch(inputs.slice(0, 0), contract)).expectation == "at least 1 row"
    assert only(check_batch(inputs.drop_columns(["job"]), contract)).column == "job"
    assert only(check_batch(put(inputs, "job", {1: "x"}), contract)).column == "job"
    assert only(check_batch(inputs.append_column("z", [[1] * 20]), contract)).column == "z"


def test_encoded_matrix():
    kinds = {
        "age": "standard",
        "pay": "unit",
        "job=clerk": "onehot",
        "job=smith": "onehot",
        "flag": "binary",
    }
    good = pd.DataFrame(
        {
            "age": [-1.0, 0.5, 2.0],
            "pay": [0.0, 0.25, 1.0],
            "job=clerk": [1, 0, 0],
            "job=smith": [0, 1, 0],
            "flag": [0, 1, 1],
        },
        dtype=np.float32,
    )
    arrow = pa.Table.from_pandas(good, preserve_index=False)
    result = check_encoded(arrow, kinds, rows=3)
    assert result.success
    assert only(check_encoded(arrow, kinds, rows=4)).expectation == "4 rows"
    assert only(check_encoded(arrow.slice(0, 0), kinds)).expectation == "at least 1 row"
    for column, value, expectation in [
        ("age", np.inf, "finite numbers"),
        ("age", 2e6, "values from -1000000 to 1000000"),
        ("pay", 1.0001, "values from 0 to 1"),
        ("pay", -0.0001, "values from 0 to 1"),
        ("pay", np.inf, "finite numbers"),
        ("job=clerk", 0.5, "one of 2 allowed values"),
        ("flag", 2.0, "one of 2 allowed values"),
    ]:
        bad = good.copy()
        bad.loc[1, column] = np.float32(value)
        found = only(check_encoded(pa.Table.from_pandas(bad, preserve_index=False), kinds))
        assert (found.column, found.expectation, found.examples) == (column, expectation, ())
    nan = arrow.set_column(0, "age", pa.array([np.nan, 0, 0], pa.float32(), from_pandas=False))
    assert only(check_encoded(nan, kinds)).expectation == "finite numbers"
    null = arrow.set_column(0, "age", pa.array([None, 0, 0], pa.float32()))
    assert only(check_encoded(null, kinds)).expectation == "no missing values"
    assert only(check_encoded(arrow.drop_columns("flag"), kinds)).column == "flag"
    with pytest.raises(ValueError, match="'onehott'; did you mean 'onehot'"):
        check_encoded(arrow, {"age": "onehott"})
    with pytest.raises(ValueError, match="kinds is empty"):
        check_encoded(arrow, {})


@pytest.mark.long
@pytest.mark.parametrize("seed", range(12))
def test_counts_of_columns_with_equal_rules(seed):
    """Columns with equal rules and types are checked together; each has its own count all
    the same.
    """
    rng = np.random.default_rng(seed)
    n, day = 200, np.timedelta64(1, "D")
    numbers = {
        f"x{j}": rng.integers(0, 12 if rng.random() < 0.4 else 10, n).astype(float)
        for j in range(5)
    }
    places = {
        f"p{j}": rng.choice(list("abcz" if rng.random() < 0.4 else "abc"), n) for j in range(3)
    }
    dates = np.datetime64("2020-01-01") + rng.integers(0, 12, n) * day
    columns = [Column("y", "integer", True, role="label", positive=1)]
    columns += [
        Column(x, "number", True, minimum=0.0, maximum=9.0, is_feature=True) for x in numbers
    ]
    columns += [Column(p, "string", True, allowed=("a", "b", "c"), is_feature=True) for p in places]
    columns += [Column("day", "date", False, maximum=dt.date(2020, 1, 10), is_feature=True)]
    missing = {name: rng.random(n) < rng.choice([0.0, 0.02]) for name in [*numbers, *places]}
    data = {
        name: pa.array(values, mask=missing[name])
        for name, values in [*numbers.items(), *places.items()]
    }
    table = pa.table(
        {"y": np.arange(n) % 2, **data, "day": pa.array(dates.astype("datetime64[D]"))}
    )
    expected = {(name, "no missing values"): int(missing[name].sum()) for name in missing}
    expected |= {
        (x, "values from 0 to 9"): int((v[~missing[x]] > 9).sum()) for x, v in numbers.items()
    }
    expected |= {
        (p, "one of 3 allowed values"): int((v[~missing[p]] == "z").sum())
        for p, v in places.items()
    }
    late = int((dates > np.datetime64("2020-01-10")).sum())
    expected["day", "values of at most 2020-01-10"] = late
    result = check_table(table, Contract("t", "1", "", tuple(columns)))
    found = {(v.column, v.expectation): v.count for v in result.violations}
    assert found == {key: count for key, count in expected.items() if count}
    checked = {(c["column"], c["expectation"]): c["checked"] for c in result.checks}
    for x in numbers:
        assert checked[x, "values from 0 to 9"] == n - missing[x].sum()


def test_awkward_column_names():
    names = ["a b", "SELECT *", "é", "1", "x.y", '"q"', "index"]
    columns = [Column("y", "integer", True, role="label", positive=1)]
    columns += [
        Column(n, "number", True, minimum=0.0, role="feature", is_feature=True) for n in names
    ]
    contract = Contract("odd", "1", "", tuple(columns))
    table = pa.table({"y": [0, 1, 1], **{n: [1.0, 2.0, 3.0] for n in names}})
    assert check_table(table, contract).violations == ()
    bad = put(table, "SELECT *", {1: -1.0})
    assert only(check_table(bad, contract)).column == "SELECT *"


def test_label_values_outside_the_set_do_not_hide_a_class(contract):
    label = Column("paid", "integer", True, role="label", allowed=(0, 1), positive=1)
    contract = dataclasses.replace(contract, columns=(*contract.columns[:-1], label))
    table = make_people().set_column(6, "paid", pa.array([i % 2 for i in range(20)]))
    found = only(check_table(put(table, "paid", {0: 2, 1: 3}), contract))
    assert (found.expectation, found.count, found.examples) == (
        "one of 2 allowed values",
        2,
        ("2", "3"),
    )
    result = check_table(put(table, "paid", dict.fromkeys(range(1, 20, 2), 7)), contract)
    assert [v.expectation for v in result.violations] == [
        "one of 2 allowed values",
        "both classes of the label",
    ]


def test_bad_rows_that_stop_the_run_say_nothing_about_classes(people, contract):
    table = put(people, "job", dict.fromkeys(range(0, 20, 4), "x"))  # every paid row
    assert only(check_table(table, contract)).column == "job"


def test_label_without_any_value(people, contract):
    table = people.set_column(6, "paid", pa.nulls(20))
    assert only(check_table(table, contract)).expectation == "no missing values"
