"""Check a table against its contract: columns and types in Arrow, values in a Great Expectations
suite.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from evenhand.data_contracts.errors import ContractViolation, did_you_mean
from evenhand.data_contracts.model import Column, Contract
from evenhand.data_contracts.table_check import Batches, CheckResult, TableCheck

# by kind of column in an encoded matrix, the values that it may hold
_ENCODED: dict[str, dict[str, Any]] = {
    "standard": {"minimum": -1e6, "maximum": 1e6},
    "unit": {"minimum": 0, "maximum": 1},
    "onehot": {"allowed": (0, 1)},
    "binary": {"allowed": (0, 1)},
}


def raise_for(result: CheckResult) -> None:
    """Raise :class:`ContractViolation` unless the result is a success.

    Parameters
    ----------
    result : CheckResult

    Raises
    ------
    ContractViolation
        With all violations of the result.
    """
    if not result.success:
        raise ContractViolation(result.violations, result.contract["name"])


def check_table(
    table: pa.Table | Batches,
    contract: Contract,
    *,
    callback: Callable[[int, int], None] | None = None,
) -> CheckResult:
    """Check a raw, labelled table, in memory or in batches, of which one at a time is in memory.

    All batches are read once, columns with a wrong value a second time. The result does not depend
    on how the rows are divided.

    With ``on_violation: stop`` any violation fails the check. With ``quarantine`` rows that break a
    row-level expectation (a missing value, one outside its set or range, NaN or infinity) are left
    out of ``keep``, and the check fails only if they exceed ``quarantine_share`` of the rows or the
    table as a whole is wrong. ``missing_sensitive`` decides about missing sensitive values:
    ``error`` makes them a violation, ``own_group`` keeps them, ``drop`` drops their rows, which
    counts as no violation.

    Parameters
    ----------
    table : pyarrow.Table or Batches
        The table, usually one after :func:`evenhand.data_contracts.arrow.coerce`.
    contract : Contract
    callback : callable, default None
        ``callback(done, total)`` counts expectations of the suite; it is never called for a table
        without rows.

    Returns
    -------
    CheckResult
        Wrong data raises no error, see :func:`raise_for`.

    Raises
    ------
    CheckCrashed
        If a check could not be carried out.

    Examples
    --------
    >>> from evenhand.data_contracts.inference import infer_contract
    >>> hired = ["yes", "no", "no", "yes"] * 10
    >>> table = pa.table({"sex": ["f", "m"] * 20, "points": range(40), "hired": hired})
    >>> contract = infer_contract(table, "people", label="hired", sensitive=["sex"])
    >>> result = check_table(table, contract)
    >>> result.success, result.rows_kept
    (True, 40)
    """
    check = TableCheck(table, contract.columns, contract)
    check.run(contract.min_rows, contract.max_rows, callback)
    if check.rows:
        check.check_filled()
        check.check_classes(contract)
    return check.result(contract)


def check_batch(table: pa.Table, contract: Contract) -> CheckResult:
    """Check the model inputs of an unlabelled batch.

    Label, id, ignored and sensitive columns that are no model input may be absent; their values are
    not checked.

    Parameters
    ----------
    table : pyarrow.Table
        The batch.
    contract : Contract

    Returns
    -------
    CheckResult

    Raises
    ------
    CheckCrashed
        If a check could not be carried out.
    """
    check = TableCheck(table, contract.features, contract)
    check.run(1, None)
    return check.result(contract)


def check_encoded(
    table: pa.Table | Batches,
    kinds: Mapping[str, str],
    *,
    rows: int | None = None,
    contract: Contract | None = None,
) -> CheckResult:
    """Check an encoded matrix: finite, and by kind standardised within ±1e6, within [0, 1], or 0
    and 1.

    Parameters
    ----------
    table : pyarrow.Table or Batches, shape (n, d)
        Numeric columns.
    kinds : mapping of str to {"standard", "unit", "onehot", "binary"}
        The kind of every column by its name.
    rows : int or None, default None
        Number of rows that the table must have; by default at least one.
    contract : Contract or None, default None
        Contract of the table that was encoded, for the result's header.

    Returns
    -------
    CheckResult
        Without examples; any violation fails it.

    Raises
    ------
    ValueError
        On an unknown kind, or no columns at all.
    CheckCrashed
        If a check could not be carried out.
    """
    columns = encoded_columns(kinds)
    check = TableCheck(table, columns, None)
    check.run(1 if rows is None else rows, rows)
    return check.result(contract)


def encoded_columns(kinds: Mapping[str, str]) -> list[Column]:
    """Columns of an encoded matrix, see :func:`check_encoded`.

    Parameters
    ----------
    kinds : mapping of str to {"standard", "unit", "onehot", "binary"}
        The kind of every column by its name.

    Returns
    -------
    list of Column

    Raises
    ------
    ValueError
        On an unknown kind, or no columns at all.
    """
    if not kinds:
        raise ValueError("kinds is empty: name the kind of every encoded column")
    columns = []
    for name, kind in kinds.items():
        if kind not in _ENCODED:
            raise ValueError(f"kinds['{name}'] is '{kind}'{did_you_mean(str(kind), _ENCODED)}")
        columns.append(Column(name, "number", True, is_feature=True, **_ENCODED[kind]))
    return columns
