"""Check a table against its contract: fast Arrow checks first, then a Great Expectations suite."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from evenhand.data_contracts.arrow import coerce, decode, nonfinite_mask, null_mask, type_fits
from evenhand.data_contracts.errors import CheckCrashed, ContractViolation, Violation, nearest
from evenhand.data_contracts.model import Column, Contract
from evenhand.data_contracts.result import MAX_EXAMPLE_LENGTH, MAX_EXAMPLES, CheckResult, Findings, raise_for
from evenhand.data_contracts.suites import (
    Rule,
    RuleOutcome,
    batch_suite,
    encoded_suite,
    needs_value,
    run_suite,
    table_suite,
)

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "CheckCrashed",
    "CheckResult",
    "ContractViolation",
    "check_batch",
    "check_encoded",
    "check_table",
    "coerce",
    "raise_for",
]

_COLUMN_SET = "the columns of the contract"
_ROWS = "a number of rows within bounds"
_LABEL = "both classes of the label"


def check_table(
    table: pa.Table, contract: Contract, *, callback: Callable[[int, int], None] | None = None
) -> CheckResult:
    """Check a raw, labelled table.

    With ``on_violation: stop`` any violation fails the check. With ``quarantine`` rows that break a
    row-level expectation (a missing value, one outside its set or range, NaN or infinity) are left out
    of ``keep``, and the check fails only where they exceed ``quarantine_share`` of the rows or the table
    as a whole is wrong. ``missing_sensitive`` decides about missing sensitive values: ``error`` makes
    them a violation, ``own_group`` keeps them, ``drop`` drops their rows, which counts as no violation.

    Parameters
    ----------
    table : pyarrow.Table, n rows
        Usually after :func:`coerce`.
    contract : Contract
        What the table promises.
    callback : callable, optional
        ``callback(done, total)``, in expectations of the suite; a table without rows has none.

    Returns
    -------
    CheckResult
        Never raises for wrong data; see :func:`raise_for`.

    Raises
    ------
    CheckCrashed
        Where a check could not be carried out.
    """
    return _check(table, contract, contract.columns, table_suite(contract), labelled=True, callback=callback)


def check_batch(table: pa.Table, contract: Contract) -> CheckResult:
    """Check an unlabelled batch: the model inputs only.

    Label, id, ignored and sensitive columns that are no model input may be absent; where present they
    are not looked at. Parameters, result and errors are those of :func:`check_table`.
    """
    return _check(table, contract, contract.features, batch_suite(contract), labelled=False)


def check_encoded(
    table: pd.DataFrame | pa.Table,
    kinds: Mapping[str, str],
    *,
    rows: int | None = None,
    contract: Contract | None = None,
) -> CheckResult:
    """Check an encoded matrix: finite, 0/1 or within [0, 1] where it should be, standardised within ±1e6.

    Parameters
    ----------
    table : pandas.DataFrame or pyarrow.Table, shape (n, d)
        Numeric columns.
    kinds : mapping of str to {'standard', 'unit', 'onehot', 'binary'}
        Kind of every column, by name.
    rows : int, optional
        Number of rows that must be there.
    contract : Contract, optional
        What the matrix was made under, for the result's header.

    Returns
    -------
    CheckResult
        Without examples; any violation fails it.

    Raises
    ------
    ValueError
        On an unknown kind, or no columns at all.
    CheckCrashed
        Where a check could not be carried out.
    """
    if not kinds:
        raise ValueError("kinds is empty: name the kind of every encoded column")
    rules = encoded_suite(kinds, rows)
    if not isinstance(table, pa.Table):
        table = pa.Table.from_pandas(table, preserve_index=False)
    findings = Findings(table.num_rows)
    columns = [Column(name, "number", True, "", role="feature", is_feature=True) for name in kinds]
    usable = _structure(table, columns, [c.name for c in columns], findings, "encode the table again")
    if table.num_rows:
        masks = {name: nonfinite_mask(decode(table.column(name))) for name in usable}
        _finite(findings, {name: masks[name] for name in usable}, {}, {})
        _suite(findings, table, usable, rules, masks, {}, examples=False)
    else:
        _row_count(findings, rules, 0)
    name, version, digest = (
        (contract.name, contract.version, contract.digest) if contract else ("encoded matrix", "", "")
    )
    return findings.result(name, version, digest)


def _check(
    table: pa.Table,
    contract: Contract,
    columns: Sequence[Column],
    rules: list[Rule],
    *,
    labelled: bool,
    callback: Callable[[int, int], None] | None = None,
) -> CheckResult:
    findings = Findings(table.num_rows)
    declared = [column.name for column in contract.columns]
    usable = _structure(
        table, columns, declared, findings, "add the column to the contract with role ignore, or drop it"
    )
    if not table.num_rows:
        _row_count(findings, rules, 0)
        return findings.result_for(contract)
    values = {name: decode(table.column(name)) for name in usable}
    missing = {name: null_mask(values[name]) for name in usable}
    if contract.missing_sensitive == "drop":
        for name, column in usable.items():
            if column.role == "sensitive":
                findings.dropped |= missing[name]
    nonfinite = {name: nonfinite_mask(values[name]) for name in usable}
    _finite(findings, nonfinite, usable, values)
    _suite(
        findings,
        table,
        usable,
        rules,
        nonfinite,
        missing,
        examples=True,
        allow=contract,
        callback=callback,
    )
    if labelled:
        _all_missing(findings, usable, missing, contract)
        label = contract.label.name
        if label in usable:
            # rows that will be set aside cannot count; where any of them stops the run, all rows do
            kept = findings.keep if contract.on_violation == "quarantine" else ~findings.dropped
            _two_classes(findings, values[label], contract.label, kept)
    if not findings.keep.any() and not findings.violations:
        findings.failed(
            Violation(
                None,
                "at least one row left",
                int(findings.dropped.sum()),
                (),
                "fill the sensitive columns, or set missingSensitive: own_group",
                "table",
                "none",
            ),
            table.num_rows,
        )
    return findings.result_for(contract)


def _structure(
    table: pa.Table, columns: Sequence[Column], declared: Sequence[str], findings: Findings, extra_cure: str
) -> dict[str, Column]:
    """Check names and types; return the columns whose values can be looked at."""
    names = table.column_names
    twice = sorted({name for name in names if names.count(name) > 1})
    for name in twice:
        cure = "rename or drop all but one of them at the source"
        found = f"{names.count(name)} columns of that name"
        findings.failed(
            Violation(name, "a column name once", names.count(name), (), cure, "table", found), len(names)
        )
    if not twice:
        findings.passed(None, "column names that differ", len(names))
    wanted = [column.name for column in columns]
    extra = [name for name in dict.fromkeys(names) if name not in declared]
    missing = [name for name in wanted if name not in names]
    for name in missing:
        close = nearest(name, extra)
        cure = (
            f"rename column '{close[0]}' to it" if close else "add the column, or take it out of the contract"
        )
        findings.failed(Violation(name, "the column to be there", 1, (), cure, "table", "none"), len(names))
    for name in extra:
        found = "a column that the contract does not know"
        findings.failed(
            Violation(name, "only columns of the contract", 1, (), extra_cure, "table", found), len(names)
        )
    usable: dict[str, Column] = {}
    for column in columns:
        if column.name in missing or column.name in twice:
            continue
        kind = table.schema.field(column.name).type
        if type_fits(kind, column.logical_type):
            usable[column.name] = column
            findings.passed(column.name, f"type {column.logical_type}", table.num_rows)
            continue
        cure = f"write the column as {column.logical_type}, or change logicalType in the contract"
        findings.failed(
            Violation(
                column.name,
                f"type {column.logical_type}",
                table.num_rows,
                (),
                cure,
                "table",
                f"Arrow type {kind}",
            ),
            table.num_rows,
        )
    return usable


def _row_count(findings: Findings, rules: Sequence[Rule], rows: int) -> None:
    """Report the row count without the suite, which passes anything on no rows."""
    options = next(rule.options for rule in rules if rule.kind == "row_count")
    findings.failed(_rows_violation(options, rows), rows)


def _rows_violation(options: Mapping[str, Any], rows: int) -> Violation:
    low, high = options["minimum"], options["maximum"]
    if high is None:
        expected = f"at least {low:,} row{'s' if low > 1 else ''}"
    else:
        expected = f"{low:,} rows" if low == high else f"{low:,} to {high:,} rows"
    cure = "check that the file is whole and not empty" if rows < low else "check that no rows stand twice"
    cure += ", or change rowCount in the contract" if rows else ""
    return Violation(
        None, expected, abs(rows - (low if rows < low else high or low)), (), cure, "table", f"{rows:,}"
    )


def _finite(
    findings: Findings,
    masks: Mapping[str, NDArray[np.bool_]],
    columns: Mapping[str, Column],
    values: Mapping[str, pa.ChunkedArray],
) -> None:
    for name, mask in masks.items():
        column = columns.get(name)
        if column is not None and column.logical_type != "number":
            continue
        if not mask.any():
            findings.passed(name, "finite numbers", len(mask))
            continue
        count = int(mask.sum())
        shown = _examples(values[name], mask, column) if column is not None else ()
        cure = "write missing numbers as empty (null) and correct the rest"
        found = f"{count:,} of {len(mask):,} rows with NaN or infinity"
        findings.failed(Violation(name, "finite numbers", count, shown, cure, "row", found), len(mask), mask)


def _suite(
    findings: Findings,
    table: pa.Table,
    columns: Mapping[str, Column],
    rules: Sequence[Rule],
    nonfinite: Mapping[str, NDArray[np.bool_]],
    missing: Mapping[str, NDArray[np.bool_]],
    *,
    examples: bool,
    allow: Contract | None = None,
    callback: Callable[[int, int], None] | None = None,
) -> None:
    """Run the suite on what can be looked at and note its outcomes."""
    rows = table.num_rows
    able = [rule for rule in rules if rule.column is None or rule.column in columns]
    name = allow.name if allow else "encoded"
    for outcome in run_suite(_frame(table, columns), able, name, callback=callback):
        rule = outcome.rule
        if rule.column is None:
            _note_table_rule(findings, outcome, rows)
            continue
        column = columns[rule.column]
        mask = np.zeros(rows, dtype=bool)
        mask[outcome.rows] = True
        mask &= ~nonfinite[rule.column]  # pandas takes NaN for missing, and both are reported already
        if rule.kind == "not_null" and rule.column in missing:
            _must_agree(rule, mask, missing[rule.column])
        expectation, found, cure = _words(rule, column, int(mask.sum()), rows, examples)
        if not mask.any():
            findings.passed(column.name, expectation, outcome.checked)
            continue
        shown: tuple[str, ...] = ()
        if examples and rule.kind != "not_null":
            values = decode(table.column(rule.column))
            shown = _examples(values, mask, column)
            if shown and rule.kind == "in_set" and column.logical_type == "string":
                close = nearest(shown[0].strip("'"), column.allowed or ())
                cure = f"did you mean '{close[0]}'? {cure}" if close else cure
        count = int(mask.sum())
        findings.failed(
            Violation(column.name, expectation, count, shown, cure, "row", found), outcome.checked, mask
        )


def _note_table_rule(findings: Findings, outcome: RuleOutcome, rows: int) -> None:
    if outcome.rule.kind == "row_count":
        if outcome.success:
            findings.passed(None, _ROWS, rows)
        else:
            findings.failed(_rows_violation(outcome.rule.options, rows), rows)
        return
    known = any(v.scope == "table" and v.column is not None for v in findings.violations)
    if outcome.success or known:  # a missing or extra column is reported by name already
        findings.note(None, _COLUMN_SET, outcome.success, 0, len(outcome.rule.options["values"]))
        return
    raise CheckCrashed("the column set fails in the suite but not on the Arrow schema: the two disagree")


def _must_agree(rule: Rule, mask: NDArray[np.bool_], missing: NDArray[np.bool_]) -> None:
    if not np.array_equal(mask, missing):
        raise CheckCrashed(
            f"column '{rule.column}': the suite found {int(mask.sum())} missing values where Arrow has "
            f"{int(missing.sum())}: the two disagree"
        )


def _words(rule: Rule, column: Column, count: int, rows: int, raw: bool) -> tuple[str, str, str]:
    """Say what was expected, what was found and what to do, without values of the data."""
    among = f"{count:,} of {rows:,} rows"
    encoder = "this is a fault in the encoding: encode the table again"
    if rule.kind == "not_null":
        cure = "fill the values, drop the rows, or set required: false in the contract"
        if column.role == "sensitive":
            cure = "fill the values, or set missingSensitive to own_group or drop in the contract"
        elif column.role == "label":
            cure = "fill the values or drop the rows: a row without its outcome cannot be used"
        return "no missing values", f"{among} without a value", cure if raw else encoder
    if rule.kind == "in_set":
        values = rule.options["values"]
        cure = "correct the values, or add them to validValues in the contract"
        found = f"{among} with another value"
        return f"one of {len(values)} allowed values", found, cure if raw else encoder
    low, high = (
        (column.minimum, column.maximum) if raw else (rule.options["minimum"], rule.options["maximum"])
    )
    if low is not None and high is not None:
        expectation = f"values from {_plain(low)} to {_plain(high)}"
    else:
        expectation = (
            f"values of at least {_plain(low)}" if high is None else f"values of at most {_plain(high)}"
        )
    cure = "correct the values, or widen logicalTypeOptions in the contract"
    return expectation, f"{among} outside", cure if raw else encoder


def _plain(value: Any) -> str:
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def _examples(values: pa.ChunkedArray, mask: NDArray[np.bool_], column: Column) -> tuple[str, ...]:
    """Return up to five distinct offending values; none of a sensitive or id column."""
    if not column.shows_values:
        return ()
    found = pc.unique(values.filter(pa.array(mask)))
    shown = []
    for value in found[:MAX_EXAMPLES].to_pylist():
        text = repr(value) if isinstance(value, str) else str(value)
        shown.append(text if len(text) <= MAX_EXAMPLE_LENGTH else text[: MAX_EXAMPLE_LENGTH - 3] + "...")
    return tuple(shown)


def _all_missing(
    findings: Findings,
    columns: Mapping[str, Column],
    missing: Mapping[str, NDArray[np.bool_]],
    contract: Contract,
) -> None:
    """Refuse a column without any value: expectations about values pass on it."""
    for name, column in columns.items():
        if column.role in ("id", "ignore") or needs_value(column, contract) or not missing[name].all():
            continue
        cure = "check the export, or give the column the role ignore in the contract"
        rows = len(missing[name])
        findings.failed(Violation(name, "at least one value", rows, (), cure, "table", "none"), rows)


def _two_classes(findings: Findings, values: pa.ChunkedArray, label: Column, keep: NDArray[np.bool_]) -> None:
    """Check, on the rows marked by ``keep``, that the label has two values and positive is one of them."""
    kept = values.filter(pa.array(keep)).drop_null()
    rows = len(kept)
    if not rows:
        return  # every row is bad already, for reasons that are reported
    distinct = pc.unique(kept).to_pylist() if pc.count_distinct(kept).as_py() <= 1000 else []
    if label.allowed is not None:  # other values are reported already
        distinct = [value for value in distinct if value in label.allowed]
    elif len(distinct) > 2 or not distinct:
        found = f"{len(distinct) or 'over 1,000'} distinct values"
        cure = "list its two values under validValues, or choose another label"
        findings.failed(Violation(label.name, "two values", rows, (), cure, "table", found), rows)
        return
    if label.positive not in distinct:
        cure = "check the extract, or correct positive in the contract"
        found = "no row with the positive value"
        findings.failed(Violation(label.name, _LABEL, rows, (), cure, "table", found), rows)
    elif len(distinct) < 2:
        cure = "check the extract: with one outcome only there is nothing to learn"
        found = "the positive value in every row"
        findings.failed(Violation(label.name, _LABEL, rows, (), cure, "table", found), rows)
    else:
        findings.passed(label.name, _LABEL, rows)


def _frame(table: pa.Table, columns: Mapping[str, Column]) -> pd.DataFrame:
    """Return the table as the suite sees it.

    Integers with gaps stay integers, dates become days since 1970-01-01, and columns that cannot be
    looked at keep their name only.
    """
    import pandas as pd

    extension = {
        pa.int8(): pd.Int8Dtype(), pa.int16(): pd.Int16Dtype(), pa.int32(): pd.Int32Dtype(),
        pa.int64(): pd.Int64Dtype(), pa.uint8(): pd.UInt8Dtype(), pa.uint16(): pd.UInt16Dtype(),
        pa.uint32(): pd.UInt32Dtype(), pa.uint64(): pd.UInt64Dtype(), pa.bool_(): pd.BooleanDtype(),
    }  # fmt: skip
    unseen = np.broadcast_to(np.float32(0), table.num_rows)
    data: dict[str, Any] = {}
    for index, name in enumerate(table.column_names):
        if name not in columns:
            data[name] = unseen
            continue
        values = decode(table.column(index))
        kind = values.type
        if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
            values = values.cast(pa.date32(), safe=False).cast(pa.int32())
        mapper = extension.get if values.null_count else None
        data[name] = values.to_pandas(types_mapper=mapper)
    return pd.DataFrame(data, copy=False)
