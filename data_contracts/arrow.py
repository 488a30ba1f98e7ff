"""Arrow side of a contract: which types fit, and how a table is brought to the declared ones."""

from __future__ import annotations

import datetime as dt
import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from evenhand.data_contracts.errors import ContractViolation, Violation
from evenhand.data_contracts.model import Column, Contract

_TARGETS = {
    "string": pa.string(),
    "integer": pa.int64(),
    "number": pa.float64(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
}
_INTEGER = r"^[+-]?\d+(\.0+)?$"
_NUMBER = r"^[+-]?((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|(?i:nan|inf|infinity))$"
_DATE = r"^\d{4}-\d{2}-\d{2}([T ][0-9:.]+(Z|[+-]\d{2}:?\d{2})?)?$"
_TRUE = ("true", "yes", "1")
_FALSE = ("false", "no", "0")
_INT64 = 2**63


def is_text(kind: pa.DataType) -> bool:
    """Tell whether an Arrow type holds text."""
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def type_fits(kind: pa.DataType, logical_type: str) -> bool:
    """Tell whether a column of Arrow type ``kind`` may stand for ``logical_type``.

    Parameters
    ----------
    kind : pyarrow.DataType
        Type found; dictionaries count as what they hold, an untyped all-missing column as anything.
    logical_type : str
        Type declared.

    Returns
    -------
    bool
        Integers and decimals are acceptable as ``number``, timestamps as ``date``.
    """
    if pa.types.is_dictionary(kind):
        return type_fits(kind.value_type, logical_type)
    if pa.types.is_null(kind):
        return True
    if logical_type == "string":
        return is_text(kind)
    if logical_type == "integer":
        return pa.types.is_integer(kind)
    if logical_type == "number":
        return pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind)
    if logical_type == "boolean":
        return pa.types.is_boolean(kind)
    return pa.types.is_date(kind) or pa.types.is_timestamp(kind)


def decode(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return ``values`` in plain types: no dictionaries, one kind of text, decimals and halves as doubles."""
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if is_text(values.type) and not pa.types.is_string(values.type):
        values = values.cast(pa.string())
    if pa.types.is_decimal(values.type) or pa.types.is_float16(values.type):
        values = values.cast(pa.float64())
    return values


def null_mask(values: pa.ChunkedArray) -> NDArray[np.bool_]:
    """Return where ``values`` is missing; a NaN is not missing but wrong."""
    return np.asarray(pc.is_null(values).to_numpy(), dtype=bool)


def nonfinite_mask(values: pa.ChunkedArray) -> NDArray[np.bool_]:
    """Return where ``values`` is NaN or infinite (all False for types that cannot be)."""
    if not pa.types.is_floating(values.type):
        return np.zeros(len(values), dtype=bool)
    finite = pc.is_finite(values).fill_null(True)
    return ~np.asarray(finite.to_numpy(), dtype=bool)


def coerce(table: pa.Table, contract: Contract) -> pa.Table:
    """Bring a table to the order and types that its contract declares.

    Text that parses in full as the declared type (as read from CSV) becomes that type, integers become
    ``float64`` for a number, timestamps lose their time of day for a date, dictionaries become text.
    Columns that the contract does not name are kept, after the others, for the check to report.
    Missing columns stay missing, for the same reason.

    Parameters
    ----------
    table : pyarrow.Table
        As read.
    contract : Contract
        What it should be.

    Returns
    -------
    pyarrow.Table
        Same rows, in the same order.

    Raises
    ------
    ContractViolation
        Where values cannot become the declared type; every such column is listed, with counts and
        without values.
    """
    names = table.column_names
    arrays: list[pa.ChunkedArray] = []
    kept: list[str] = []
    violations: list[Violation] = []
    for column in contract.columns:
        for index in [i for i, name in enumerate(names) if name == column.name]:
            values = table.column(index)
            try:
                values = _convert(values, column)
            except _Unfit as unfit:
                violations.append(unfit.violation(column, table.num_rows))
            arrays.append(values)
            kept.append(column.name)
    known = set(kept)
    for index, name in enumerate(names):
        if name not in known:
            arrays.append(table.column(index))
            kept.append(name)
    if violations:
        raise ContractViolation(violations, contract.name)
    return pa.Table.from_arrays(arrays, names=kept)


class _Unfit(Exception):  # noqa: N818 (internal signal, always caught)
    def __init__(self, count: int, found: str) -> None:
        super().__init__(found)
        self.count = count
        self.found = found

    def violation(self, column: Column, rows: int) -> Violation:
        cures = {
            "string": "write the values as text",
            "integer": "write whole numbers",
            "number": "write plain decimal numbers and leave missing ones empty",
            "boolean": "write true and false",
            "date": "write dates as YYYY-MM-DD",
        }
        return Violation(
            column.name,
            f"type {column.logical_type}",
            self.count,
            (),
            f"{cures[column.logical_type]}, or change logicalType in the contract",
            "table",
            f"{self.count:,} of {rows:,} rows with {self.found}",
        )


def _convert(values: pa.ChunkedArray, column: Column) -> pa.ChunkedArray:
    values = decode(values)
    target = _TARGETS[column.logical_type]
    if values.type == target:
        return values
    if pa.types.is_null(values.type):
        return values.cast(target)
    convert = {
        "string": _to_string,
        "integer": _to_integer,
        "number": _to_number,
        "boolean": _to_boolean,
        "date": _to_date,
    }[column.logical_type]
    return convert(values, column)


def _wrong_type(values: pa.ChunkedArray) -> _Unfit:
    return _Unfit(len(values) - values.null_count, f"Arrow type {values.type}")


def _count(mask: pa.ChunkedArray) -> int:
    return int(pc.sum(mask).as_py() or 0)


def _refuse_unless(fits: pa.ChunkedArray, found: str) -> None:
    bad = _count(pc.invert(fits.fill_null(True)))
    if bad:
        raise _Unfit(bad, found)


def _trimmed(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Text without surrounding blanks; empty text is missing."""
    text = pc.utf8_trim_whitespace(values)
    return pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.string()), text)


def _to_string(values: pa.ChunkedArray, column: Column) -> pa.ChunkedArray:
    kind = values.type
    if pa.types.is_floating(kind):  # integer codes that pandas made floats because some were missing
        wide = values.cast(pa.float64())
        whole = pc.and_(pc.is_finite(wide), pc.equal(wide, pc.trunc(wide)))
        _refuse_unless(
            pc.and_(whole, pc.less(pc.abs(wide), 2.0**53)), "decimal numbers where text is expected"
        )
        return wide.cast(pa.int64()).cast(pa.string())
    if pa.types.is_integer(kind) or pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return values.cast(pa.string())
    if pa.types.is_boolean(kind):  # CSV readers turn a column of True/False into booleans: undo it
        spelling = {str(item).lower(): str(item) for item in column.allowed or ()}
        yes, no = spelling.get("true", "true"), spelling.get("false", "false")
        return pc.if_else(values, yes, no)
    raise _wrong_type(values)


def _to_integer(values: pa.ChunkedArray, column: Column) -> pa.ChunkedArray:
    kind = values.type
    if pa.types.is_uint64(kind):  # beyond int64 there is nothing to gain from casting
        top = pc.max(values).as_py()
        return values if top is not None and top >= _INT64 else values.cast(pa.int64())
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return values.cast(pa.int64())
    if pa.types.is_floating(kind):
        wide = values.cast(pa.float64())
        whole = pc.and_(pc.is_finite(wide), pc.equal(wide, pc.trunc(wide)))
        _refuse_unless(
            pc.and_(whole, pc.less(pc.abs(wide), float(_INT64))), "values that are no whole number"
        )
        return wide.cast(pa.int64())
    if is_text(kind):
        text = _trimmed(values)
        _refuse_unless(pc.match_substring_regex(text, _INTEGER), "text that is no whole number")
        digits = pc.replace_substring_regex(text, r"^\+|\.0+$", "")
        try:
            return digits.cast(pa.int64())
        except pa.ArrowInvalid:
            big = sum(abs(int(item)) >= _INT64 for item in digits.to_pylist() if item is not None)
            raise _Unfit(big, "whole numbers too large for 64 bits") from None
    raise _wrong_type(values)


def _to_number(values: pa.ChunkedArray, column: Column) -> pa.ChunkedArray:
    kind = values.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return values.cast(pa.float64(), safe=False)  # integers beyond 2**53 lose digits, by design
    if is_text(kind):
        text = _trimmed(values)
        _refuse_unless(pc.match_substring_regex(text, _NUMBER), "text that is no number")
        return pc.replace_substring_regex(text, r"^\+", "").cast(pa.float64())
    raise _wrong_type(values)


def _to_boolean(values: pa.ChunkedArray, column: Column) -> pa.ChunkedArray:
    kind = values.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        wide = values.cast(pa.float64(), safe=False)
        _refuse_unless(pc.or_(pc.equal(wide, 0.0), pc.equal(wide, 1.0)), "numbers other than 0 and 1")
        return pc.equal(wide, 1.0)
    if is_text(kind):
        text = pc.utf8_lower(_trimmed(values))
        known = pc.is_in(text, value_set=pa.array([*_TRUE, *_FALSE]))
        _refuse_unless(pc.or_(known, pc.is_null(text)), "text that is neither true nor false")
        truth = pc.is_in(text, value_set=pa.array(_TRUE))
        return pc.if_else(pc.is_null(text), pa.scalar(None, pa.bool_()), truth)
    raise _wrong_type(values)


def _to_date(values: pa.ChunkedArray, column: Column) -> pa.ChunkedArray:
    kind = values.type
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return values.cast(pa.date32(), safe=False)
    if is_text(kind):
        text = _trimmed(values)
        _refuse_unless(pc.match_substring_regex(text, _DATE), "text that is no date")
        days = pc.utf8_slice_codeunits(text, 0, 10)
        try:
            return days.cast(pa.date32())
        except pa.ArrowInvalid:
            bad = sum(not _is_day(item) for item in days.to_pylist() if item is not None)
            raise _Unfit(bad, "dates that no calendar has") from None
    raise _wrong_type(values)


def _is_day(text: str) -> bool:
    try:
        dt.date.fromisoformat(text)
    except ValueError:
        return False
    return True


def looks_like_dates(values: pa.ChunkedArray) -> bool:
    """Tell whether every present value of a text column is an ISO date or date and time."""
    present = values.drop_null()
    if not len(present):
        return False
    distinct = pc.unique(present).to_pylist()
    pattern = re.compile(_DATE)
    return all(pattern.match(item.strip()) and _is_day(item.strip()[:10]) for item in distinct)
