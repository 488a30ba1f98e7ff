"""Arrow values of a contract's columns: their types, conversion to them, and sensitive groups."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from evenhand.data_contracts.column import value_text
from evenhand.data_contracts.errors import ContractViolation, Violation
from evenhand.data_contracts.model import Column, Contract

# by logical type: the Arrow type of its values, and the cure for values that cannot be converted to
# it
_TYPES = {
    "string": (pa.string(), "write the values as text"),
    "integer": (pa.int64(), "write whole numbers"),
    "number": (pa.float64(), "write plain decimal numbers and leave missing ones empty"),
    "boolean": (pa.bool_(), "write true and false"),
    "date": (pa.date32(), "write dates as YYYY-MM-DD"),
}
_INTEGER = r"^[+-]?\d+(\.0+)?$"
_NUMBER = r"^[+-]?((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|(?i:nan|inf|infinity))$"
_DATE = r"^\d{4}-\d{2}-\d{2}([T ][0-9:.]+(Z|[+-]\d{2}:?\d{2})?)?$"
# a number as people write it: $1,234.50, 12 %
_WRITTEN = r"^[+-]?[$€£]?\s*(\d{1,3}(,\d{3})+|\d+)(\.\d*)?\s*[%$€£]?$"
TRUE = ("true", "yes", "1", "y", "t", "on")
FALSE = ("false", "no", "0", "n", "f", "off")
_INT64 = 2**63
# found only where all text has the form of the type
_LATE = ("whole numbers too large for 64 bits", "dates that do not exist")
MISSING_GROUP = "missing"
Result = TypeVar("Result")
# Numbers above it in size count as infinite: models read single precision, which ends at 3.4e38.
LARGEST = 1e38


def is_text(kind: pa.DataType) -> bool:
    """Return whether an Arrow type holds text."""
    return (
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def logical_type_of(kind: pa.DataType) -> str | None:
    """Return the logical type of an Arrow type (of a dictionary: of its values), None if it has
    none.
    """
    if pa.types.is_dictionary(kind):
        return logical_type_of(kind.value_type)
    if is_text(kind):
        return "string"
    if pa.types.is_integer(kind):
        return "integer"
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "number"
    if pa.types.is_boolean(kind):
        return "boolean"
    return "date" if pa.types.is_date(kind) or pa.types.is_timestamp(kind) else None


def type_fits(kind: pa.DataType, logical_type: str) -> bool:
    """Return whether a column of an Arrow type is acceptable as ``logical_type``.

    A column without any value has Arrow's null type, which fits every logical type. Integers and
    decimals fit ``number``, timestamps fit ``date``.
    """
    found = logical_type_of(kind)
    if found is None:
        return bool(pa.types.is_null(kind.value_type if pa.types.is_dictionary(kind) else kind))
    return found == logical_type or (found == "integer" and logical_type == "number")


def decode(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Convert dictionaries to their values, all kinds of text to string, decimals and halves to
    doubles.
    """
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if is_text(values.type) and not pa.types.is_string(values.type):
        values = values.cast(pa.string())
    if pa.types.is_decimal(values.type) or pa.types.is_float16(values.type):
        values = values.cast(pa.float64())
    return values


def label_codes(values: pa.ChunkedArray, label: Column) -> NDArray[np.int64]:
    """Return 1 for the label's positive value and 0 for any other, or its class's position; shape
    (n,).
    """
    values = decode(values)
    if label.classes:
        codes = pc.index_in(values, value_set=pa.array(list(label.classes), type=values.type))
        return np.asarray(codes.to_numpy(), dtype=np.int64)
    positive = pc.equal(values, pa.scalar(label.positive, type=values.type)).fill_null(False)
    return np.asarray(positive.to_numpy(), dtype=np.int64)


def null_mask(values: pa.ChunkedArray) -> NDArray[np.bool_]:
    """Return where ``values`` is null, shape (n,); NaN is not null."""
    if not values.null_count:
        return np.zeros(len(values), dtype=bool)
    return np.asarray(pc.is_null(values).to_numpy(), dtype=bool)


def nonfinite_mask(values: pa.ChunkedArray) -> NDArray[np.bool_]:
    """Return where ``values`` is NaN, infinite or above `LARGEST` in size, shape (n,).

    All are False for types without such values.
    """
    if not pa.types.is_floating(values.type):
        return np.zeros(len(values), dtype=bool)
    if values.null_count:
        values = values.fill_null(0.0)
    # NaN is not at most anything
    usable: NDArray[np.bool_] = np.abs(values.to_numpy()) <= LARGEST
    return ~usable


def coerce(table: pa.Table, contract: Contract) -> pa.Table:
    """Order the columns of a table as its contract does, and convert them to the declared types;
    rows stay.

    Text that parses in full as the declared type (as read from CSV) becomes that type, integers
    become ``float64`` for a number, timestamps lose their time of day for a date, dictionaries
    become text. Numbers may have a currency sign, separators of thousands and a percent sign. A
    column's spellings of missing values become missing. Columns that the contract does not name
    stay, after the others, and missing columns stay missing: the check reports both.

    ContractViolation if values cannot be converted to the declared type. It lists every such column
    with the number of these values, without the values.
    """
    return next(fitting([coerce_batch(table, contract)], contract))


@dataclass
class Unfit:
    """Values of a batch that cannot be converted: their number by place and name of the column, and
    text.
    """

    rows: int  # of the batch
    counts: Counter[tuple[int, str, str]] = field(default_factory=Counter)


def coerce_batch(
    table: pa.Table, contract: Contract, unsigned: Collection[str] = ()
) -> tuple[pa.Table, Unfit]:
    """Coerce one batch of a table as :func:`coerce` does; columns that cannot be converted are left
    out.

    Columns of integers in `unsigned` keep the type uint64; without it those with a value that int64
    cannot hold do.
    """
    declared = {column.name: column for column in contract.columns}
    places = {name: place for place, name in enumerate(declared)}
    columns = zip(table.column_names, table.columns, strict=True)
    names = []
    arrays = []
    unfit = Unfit(table.num_rows)
    for place, (name, values) in enumerate(
        sorted(columns, key=lambda item: places.get(item[0], len(places)))
    ):
        try:
            arrays.append(
                _convert(values, declared[name], name in unsigned) if name in declared else values
            )
            names.append(name)
        except _UnfitError as error:
            unfit.counts[place, name, error.found] += error.count
    return pa.Table.from_arrays(arrays, names=names), unfit


def fitting(parts: Iterable[tuple[Result, Unfit]], contract: Contract) -> Iterator[Result]:
    """Give what was made of each batch until one does not fit; then, after the last,
    ContractViolation.
    """
    rows = 0
    unfit = Counter[tuple[int, str, str]]()
    for part, found in parts:
        rows += found.rows
        unfit.update(found.counts)
        if not unfit:
            yield part
    if not unfit:
        return
    kinds = {column.name: column.logical_type for column in contract.columns}
    violations: dict[int, Violation] = {}
    for (place, name, text), count in sorted(unfit.items(), key=lambda item: item[0][2] in _LATE):
        cure = f"{_TYPES[kinds[name]][1]}, or change logicalType in the contract"
        text = f"{count:,} of {rows:,} rows with {text}"
        violations.setdefault(
            place, Violation(name, f"type {kinds[name]}", count, (), cure, "table", text)
        )
    raise ContractViolation([violations[place] for place in sorted(violations)], contract.name)


class _UnfitError(Exception):
    """Values cannot be converted: their number and a description of them."""

    def __init__(self, count: int, found: str) -> None:
        self.count = count
        self.found = found


def _convert(values: pa.ChunkedArray, column: Column, unsigned: bool = False) -> pa.ChunkedArray:
    """Convert a column to its declared type; values that do not fit it raise _UnfitError."""
    values = decode(values)
    if column.missing is not None:
        values = without_spellings(values, column.missing)
    target, _ = _TYPES[column.logical_type]
    if (values.type == target and not column.is_text) or pa.types.is_null(values.type):
        return values.cast(target)
    source = logical_type_of(values.type)
    if column.is_text:
        if source != "string":
            found = "numbers" if source in ("integer", "number") else "values of another type"
            raise _UnfitError(
                len(values) - values.null_count, f"{found} where sentences are expected"
            )
        return without_blanks(values)
    match source, column.logical_type:
        case "number", "string":  # pandas turns integer codes with gaps into floats
            return _whole(values, 2.0**53, "decimal numbers where text is expected").cast(
                pa.string()
            )
        case "integer" | "date", "string":
            return values.cast(pa.string())
        case (
            "boolean",
            "string",
        ):  # CSV readers turn True and False into booleans: restore the spelling
            spelling = {str(item).lower(): str(item) for item in column.allowed or ()}
            return pc.if_else(values, spelling.get("true", "true"), spelling.get("false", "false"))
        case "integer" | "boolean", "integer":
            if unsigned:
                return values.cast(pa.uint64())
            try:
                return values.cast(pa.int64())
            except pa.ArrowInvalid:  # unsigned values above the range of int64 keep their type
                return values
        case "number", "integer":
            return _whole(values, float(_INT64), "values that are no whole number")
        case "integer" | "number", "number":
            return values.cast(
                pa.float64(), safe=False
            )  # integers beyond 2**53 lose digits, by design
        case "integer" | "number", "boolean":
            wide = values.cast(pa.float64(), safe=False)
            _require(pc.or_(pc.equal(wide, 0.0), pc.equal(wide, 1.0)), "numbers other than 0 and 1")
            return pc.equal(wide, 1.0)
        case "date", "date":
            return values.cast(pa.date32(), safe=False)
        case "string", _:
            return _parse(values, column.logical_type)
    raise _UnfitError(len(values) - values.null_count, f"Arrow type {values.type}")


def without_blanks(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Replace empty sentences by null."""
    blank = pc.equal(pc.utf8_trim_whitespace(values), "")
    return pc.if_else(blank, pa.scalar(None, pa.string()), values)


def _require(fits: pa.ChunkedArray, found: str) -> None:
    bad = pc.sum(pc.invert(fits.fill_null(True))).as_py()
    if bad:
        raise _UnfitError(bad, found)


def _whole(values: pa.ChunkedArray, limit: float, found: str) -> pa.ChunkedArray:
    """Convert floats to int64; each must be a whole number below ``limit`` in size."""
    wide = values.cast(pa.float64())
    whole = pc.and_(pc.is_finite(wide), pc.equal(wide, pc.trunc(wide)))
    _require(pc.and_(whole, pc.less(pc.abs(wide), limit)), found)
    return wide.cast(pa.int64())


def _parse(values: pa.ChunkedArray, logical_type: str) -> pa.ChunkedArray:
    """Parse text without its surrounding blanks; empty text is missing."""
    text = pc.utf8_trim_whitespace(values)
    text = pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.string()), text)
    match logical_type:
        case "integer":
            text = _plain_digits(text)
            _require(pc.match_substring_regex(text, _INTEGER), "text that is no whole number")
            digits = pc.replace_substring_regex(text, r"^\+|\.0+$", "")
            try:
                return digits.cast(pa.int64())
            except pa.ArrowInvalid:
                large = sum(abs(int(item)) >= _INT64 for item in digits.drop_null().to_pylist())
                raise _UnfitError(large, _LATE[0]) from None
        case "number":
            text = _plain_digits(text)
            _require(pc.match_substring_regex(text, _NUMBER), "text that is no number")
            return pc.replace_substring_regex(text, r"^\+", "").cast(pa.float64())
        case "boolean":
            lower = pc.utf8_lower(text)
            known = pc.is_in(lower, value_set=pa.array([*TRUE, *FALSE]))
            _require(pc.or_(known, pc.is_null(lower)), "text that is neither true nor false")
            truth = pc.is_in(lower, value_set=pa.array(TRUE))
            return pc.if_else(pc.is_null(lower), pa.scalar(None, pa.bool_()), truth)
        case _:
            _require(pc.match_substring_regex(text, _DATE), "text that is no date")
            days = pc.utf8_slice_codeunits(text, 0, 10)
            try:
                return days.cast(pa.date32())
            except pa.ArrowInvalid:
                wrong = sum(not _is_day(item) for item in days.drop_null().to_pylist())
                raise _UnfitError(wrong, _LATE[1]) from None


def _plain_digits(text: pa.ChunkedArray) -> pa.ChunkedArray:
    """Remove a currency sign, separators of thousands and a percent sign from numbers; other text
    stays.
    """
    plain = pc.replace_substring_regex(text, r"[$€£,%\s]", "")
    return pc.if_else(pc.match_substring_regex(text, _WRITTEN), plain, text)


def without_spellings(
    values: pa.ChunkedArray, missing: Sequence[str | int | float]
) -> pa.ChunkedArray:
    """Return decoded values, null where they are a spelling of a missing value, blanks aside."""
    if is_text(values.type):
        probe = pc.utf8_trim_whitespace(values)
        listed = pa.array([str(item) for item in missing])
    elif pa.types.is_integer(values.type) or pa.types.is_floating(values.type):
        probe = values.cast(pa.float64(), safe=False)
        listed = pa.array(
            [float(item) for item in missing if not isinstance(item, str)], pa.float64()
        )
    else:
        return values
    absent = pc.is_in(probe, value_set=listed)
    if "NaN" in missing and pa.types.is_floating(values.type):
        absent = pc.or_(absent, pc.is_nan(values).fill_null(False))
    return pc.if_else(absent, pa.scalar(None, values.type), values)


def convert(values: pa.ChunkedArray, logical_type: str) -> pa.ChunkedArray | None:
    """Return text as a logical type; None if some of it cannot be read so."""
    try:
        return _parse(values, logical_type)
    except _UnfitError:
        return None


def _is_day(text: str) -> bool:
    try:
        dt.date.fromisoformat(text)
    except ValueError:
        return False
    return True


def dates_in_text(values: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """Return a text column as dates; None unless each of its values is an ISO date or date and
    time.
    """
    present = values.drop_null()
    if not len(present) or pc.any(pc.equal(pc.utf8_trim_whitespace(present), "")).as_py():
        return None
    return convert(values, "date")


def bin_names(column: Column) -> tuple[str, ...]:
    """Return the names of the groups between a column's cut points.

    The column is numeric and sensitive. There is one name more than cut points: ``("<25", "25-59",
    ">=60")`` for whole numbers cut at 25 and 60, ``("<0.5", "0.5 to <1.5", ">=1.5")`` for others.
    ValueError if the column has no bins.
    """
    if column.bins is None:
        raise ValueError(
            f"column '{column.name}' has no bins, so no named groups: add bins to the contract"
        )
    if column.logical_type == "integer":
        cuts = [int(cut) for cut in column.bins]
        middle = [f"{a}-{b - 1}" if a < b - 1 else str(a) for a, b in pairwise(cuts)]
        return (f"<{cuts[0]}", *middle, f">={cuts[-1]}")
    texts = [value_text(cut) for cut in column.bins]
    return (f"<{texts[0]}", *(f"{a} to <{b}" for a, b in pairwise(texts)), f">={texts[-1]}")


def known_groups(column: Column) -> set[str]:
    """Return the groups that a contract names, by bins or allowed values; an empty set if it names
    none.
    """
    if column.bins is not None:
        return set(bin_names(column))
    if column.allowed is None:
        return set()
    return set(group_labels(pa.array(list(column.allowed)), column).tolist())


def group_labels(values: pa.ChunkedArray | pa.Array, column: Column) -> NDArray[np.object_]:
    """Return the group of every row of a sensitive column after :func:`coerce`, shape (n,).

    Groups are bin names for a column with bins, else the values as text; missing ones form the
    group ``missing``.
    """
    names, codes = group_codes(values, column)
    return np.array(names, dtype=object)[codes]


def group_codes(
    values: pa.ChunkedArray | pa.Array, column: Column
) -> tuple[list[str], NDArray[np.integer[Any]]]:
    """Return the names of :func:`group_labels`, sorted, and the position of each row's;
    shape (n,).
    """
    if isinstance(values, pa.Array):
        values = pa.chunked_array([values])
    values = decode(values)
    if column.bins is not None:
        known = [*bin_names(column), MISSING_GROUP]
        missing = null_mask(values)
        codes = np.full(len(values), len(known) - 1)
        codes[~missing] = np.searchsorted(column.bins, values.drop_null().to_numpy(), side="right")
        present, codes = np.unique(codes, return_inverse=True)
        names = [known[place] for place in present]
    else:
        found = values.dictionary_encode().combine_chunks()
        names = [value_text(value) for value in found.dictionary.to_pylist()]
        names += [MISSING_GROUP] if values.null_count else []
        codes = found.indices.fill_null(len(names) - 1).to_numpy()
    # values of one name are one group, such as 0.0 and -0.0
    distinct, places = np.unique(np.array(names, dtype=object), return_inverse=True)
    return distinct.tolist(), places.astype(np.int32)[codes]
