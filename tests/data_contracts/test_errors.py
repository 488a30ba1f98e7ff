"""Errors of contracts: the nearest name, and one line for each violation."""

from __future__ import annotations

from evenhand.data_contracts.errors import ContractViolation, Violation, nearest


def test_nearest_minds_neither_case_nor_small_slips():
    assert nearest("AGE", ["age", "income"]) == "age"
    assert nearest("zzz", ["age"]) is None


def test_violation_message_is_one_line():
    first = Violation(
        "a", "no missing values", 2, ("'x\ny'",), "fill them", found="2 of 3 rows without a value"
    )
    error = ContractViolation([first, first, first], "people")
    assert str(error) == (
        "contract 'people': column 'a': expected no missing values, found 2 of 3 rows without a "
        "value "
        "(for example 'x y'); fill them (and 2 more violations)"
    )
    assert isinstance(error, ValueError)
    assert len(error.violations) == 3
