"""The traps of Great Expectations: each must end in a finding or a crash, never in a silent
pass.
"""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
from types import SimpleNamespace

import pandas as pd
import pyarrow as pa
import pytest
from contract_samples import make_people

from evenhand.data_contracts import suites, table_check
from evenhand.data_contracts.checking import check_batch, check_encoded, check_table
from evenhand.data_contracts.errors import CheckCrashed
from evenhand.data_contracts.model import Column, Contract
from evenhand.data_contracts.suites import Rule, make_suite, run_suite

TEXT = {
    "object": object,
    "str": "str",
    "string[pyarrow]": "string[pyarrow]",
    "category": "category",
}


@pytest.mark.parametrize("kind", list(TEXT))
def test_text_of_every_pandas_kind(kind):
    frame = pd.DataFrame({"c": pd.Series(["a", "b", None, "z"], dtype=TEXT[kind])})
    rules = [Rule("not_null", "c"), Rule("in_set", "c", {"value_set": ["a", "b"]})]
    found = run_suite(frame, rules)
    assert [outcome.rows.tolist() for outcome in found] == [[2], [3]]
    assert [outcome.checked for outcome in found] == [4, 3]
    label = Column("y", "integer", True, role="label", positive=1)
    feature = Column("c", "string", True, allowed=("a", "b"), role="feature", is_feature=True)
    table = pa.Table.from_pandas(frame.assign(y=[0, 1, 0, 1]), preserve_index=False)
    result = check_table(table, Contract("t", "1", "", (feature, label)))
    assert [(v.column, v.count) for v in result.violations] == [("c", 1), ("c", 1)]


@pytest.mark.parametrize("kind", ["int64", "Int64", "int8", "float64", "Float64", "int64[pyarrow]"])
def test_numbers_of_every_pandas_kind(kind):
    gaps = kind not in ("int64", "int8")
    frame = pd.DataFrame({"c": pd.Series([1, 5, None if gaps else 1, 99], dtype=kind)})
    rules = [Rule("not_null", "c"), Rule("between", "c", {"min_value": 0, "max_value": 5})]
    found = run_suite(frame, rules)
    assert [outcome.rows.tolist() for outcome in found] == [[2] if gaps else [], [3]]


def test_large_integers_with_gaps_keep_their_digits():
    big = 2**60
    feature = Column("c", "integer", False, maximum=big, role="feature", is_feature=True)
    label = Column("y", "integer", True, role="label", positive=1)
    contract = Contract("t", "1", "", (feature, label))
    table = pa.table({"c": [big, None, 3], "y": [0, 1, 1]})
    assert check_table(table, contract).success
    table = pa.table({"c": [big + 1, None, 3], "y": [0, 1, 1]})
    assert check_table(table, contract).violations[0].count == 1


def test_row_positions_do_not_depend_on_the_frames_index():
    frame = pd.DataFrame({"c": ["a", "z", "a"]}, index=[7, 7, 9])
    (found,) = run_suite(frame, [Rule("in_set", "c", {"value_set": ["a"]})])
    assert found.rows.tolist() == [1]


def test_zero_expectations():
    with pytest.raises(CheckCrashed, match="no expectation"):
        run_suite(pd.DataFrame({"c": [1]}), [])


def test_zero_rows():
    with pytest.raises(CheckCrashed, match="no rows"):
        run_suite(pd.DataFrame({"c": []}), [Rule("not_null", "c")])


def test_missing_column_is_a_crash_not_a_violation():
    with pytest.raises(CheckCrashed, match="'between' of column 'zz' raised"):
        run_suite(
            pd.DataFrame({"c": [1]}), [Rule("between", "zz", {"min_value": 0, "max_value": 1})]
        )


def test_an_exception_in_an_expectation_quotes_no_value():
    """The exception is a crash, not a failed check."""
    frame = pd.DataFrame({"c": ["hidden-value", 3]}, dtype=object)
    with pytest.raises(CheckCrashed) as caught:
        run_suite(frame, [Rule("between", "c", {"min_value": 0, "max_value": 1})])
    assert "hidden-value" not in str(caught.value)


def test_twice_the_same_expectation():
    with pytest.raises(CheckCrashed, match="twice"):
        run_suite(pd.DataFrame({"c": [1]}), [Rule("not_null", "c"), Rule("not_null", "c")])


def test_a_wide_frame_is_checked_in_parts_with_the_same_outcomes(monkeypatch):
    from evenhand.data_contracts import suites

    frame = pd.DataFrame({f"c{i}": [0.0, 1.0, 1.0] for i in range(7)})
    frame.loc[1, "c1"], frame.loc[2, "c6"] = 2.0, None
    rules = []
    for name in frame:
        rules += [Rule("in_set", name, {"value_set": [0, 1]}), Rule("not_null", name)]

    def found():
        return [
            (item.rule.key, item.rows.tolist(), item.checked) for item in run_suite(frame, rules)
        ]

    whole = found()
    monkeypatch.setattr(suites, "COLUMNS_AT_A_TIME", 2)
    assert [len(part.columns) for part, _ in suites._parts(frame, rules)] == [2, 2, 2, 1]
    assert found() == whole
    assert {key: rows for key, rows, _ in whole if rows} == {
        "in_set:c1": [1],
        "not_null:c6": [2],
    }


def test_result_left_out(monkeypatch):
    real = suites._validate

    def lossy(frame, rules, name, callback):
        return real(frame, rules, name, callback)[:-1]

    monkeypatch.setattr(suites, "_validate", lossy)
    with pytest.raises(CheckCrashed, match="1 of 2 expectations gave no result"):
        run_suite(
            pd.DataFrame({"c": [1]}),
            [Rule("not_null", "c"), Rule("in_set", "c", {"value_set": [1]})],
        )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"result": {"element_count": 1, "unexpected_count": 0}}, "saw 1 of 2 rows"),
        ({"success": False}, "contradicts itself"),
        ({"exception_info": {"raised_exception": True}}, "raised an exception"),
        ({"exception_info": {"metric": {"raised_exception": True}}}, "raised an exception"),
        ({"result": {}}, "saw None"),
    ],
)
def test_results_that_cannot_be_trusted(monkeypatch, change, message):
    entry = {
        "expectation_config": SimpleNamespace(meta={"rule": "not_null:c"}),
        "success": True,
        "result": {"element_count": 2, "unexpected_count": 0, "unexpected_index_list": []},
        "exception_info": {"raised_exception": False},
    }
    fake = [SimpleNamespace(**{**entry, **change})]
    monkeypatch.setattr(suites, "_validate", lambda frame, rules, name, callback: fake)
    with pytest.raises(CheckCrashed, match=message):
        run_suite(pd.DataFrame({"c": [1, 2]}), [Rule("not_null", "c")])


def test_all_missing_passes_no_set():
    """On nothing but gaps a set is met vacuously; the table check says so all the same."""
    frame = pd.DataFrame({"c": pd.Series([None, None], dtype="str")})
    (found,) = run_suite(frame, [Rule("in_set", "c", {"value_set": ["a"]})])
    assert not len(found.rows)
    assert found.checked == 0


def test_suites_of_a_contract(contract):
    raw = [rule.key for rule in make_suite(contract.columns, contract)]
    assert raw == [
        "not_null:key", "not_null:age", "between:age", "not_null:sex", "in_set:sex", "not_null:income",
        "between:income", "not_null:job", "in_set:job", "between:since", "not_null:paid",
    ]  # fmt: skip
    batch = [rule.key for rule in make_suite(contract.features, contract)]
    assert batch == [key for key in raw if key.split(":")[1] not in ("key", "sex", "paid")]


def test_rules_of_an_encoded_matrix(monkeypatch):
    asked = []

    def noted(*arguments):
        asked.extend(make_suite(*arguments))
        return asked

    monkeypatch.setattr(table_check, "make_suite", noted)
    table = pa.table({name: [0.0] for name in "abcd"})
    check_encoded(table, {"a": "onehot", "b": "standard", "c": "unit", "d": "binary"}, rows=1)
    assert {rule.key: list(rule.options.values()) for rule in asked} == {
        "not_null:a": [], "in_set:a": [[0, 1]], "not_null:b": [], "between:b": [-1e6, 1e6],
        "not_null:c": [], "between:c": [0, 1], "not_null:d": [], "in_set:d": [[0, 1]],
    }  # fmt: skip


def test_a_contract_without_rules_about_values_is_checked():
    label = Column("y", "integer", True, role="label", positive=1)
    contract = Contract("t", "1", "", (Column("x", "number", is_feature=True), label))
    assert check_batch(pa.table({"x": [1.0, None]}), contract).success
    assert not check_batch(pa.table({"x": ["a"]}), contract).success


def test_quiet_and_without_network(contract, capfd, caplog, monkeypatch):
    def refuse(*args: object) -> None:
        raise AssertionError("a check opened a connection")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    with caplog.at_level(logging.INFO):
        assert check_table(make_people(), contract).success
    assert capfd.readouterr() == ("", "")
    assert [record for record in caplog.records if record.levelno > logging.INFO] == []
    assert os.environ["GX_ANALYTICS_ENABLED"] == "False"


def test_models_load_without_the_engine():
    code = (
        "import sys; from evenhand.data_contracts.odcs import load_contract; "
        "load_contract('german');"
        "import evenhand.data_contracts.checking;"
        "sys.exit(any(m in sys.modules for m in ('great_expectations', 'pandas', 'torch')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
