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
    """Return whether an Arrow type holds text.

    Parameters
    ----------
    kind : pyarrow.DataType

    Returns
    -------
    bool
    """
    return (
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def logical_type_of(kind: pa.DataType) -> str | None:
    """Return the logical type of an Arrow type (of a dictionary: of its values), None if it has
    none.

    Parameters
    ----------
    kind : pyarrow.DataType

    Returns
    -------
    str or None
        One of :data:`evenhand.data_contracts.column.LOGICAL_TYPES`.
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
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return "date"
    return None


def type_fits(kind: pa.DataType, logical_type: str) -> bool:
    """Return whether a column of an Arrow type is acceptable as ``logical_type``.

    A column without any value has Arrow's null type, which fits every logical type. Integers and
    decimals fit ``number``, timestamps fit ``date``.

    Parameters
    ----------
    kind : pyarrow.DataType
        Type of the column.
    logical_type : str
        Type that the contract declares.

    Returns
    -------
    bool
    """
    actual = logical_type_of(kind)
    if actual is not None:
        return actual == logical_type or (actual == "integer" and logical_type == "number")
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_null(kind))


def decode(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Convert dictionaries to their values, all kinds of text to string, decimals and halves to
    doubles.

    Parameters
    ----------
    values : pyarrow.ChunkedArray, length n

    Returns
    -------
    pyarrow.ChunkedArray, length n
    """
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if is_text(values.type) and not pa.types.is_string(values.type):
        values = values.cast(pa.string())
    if pa.types.is_decimal(values.type) or pa.types.is_float16(values.type):
        values = values.cast(pa.float64())
    return values


def numbers_of(values: pa.ChunkedArray, column: Column) -> NDArray[np.float64]:
    """Values of a column as numbers: of dates the days since 1970-01-01, of sentences the
    characters.

    Parameters
    ----------
    values : pyarrow.ChunkedArray, length n
        Numbers, dates, booleans or sentences.
    column : Column
        The column that they are of.

    Returns
    -------
    ndarray of float64, shape (n,)
        NaN where a value is missing.
    """
    values = decode(values)
    if column.is_text:
        values = pc.utf8_length(values)
    if column.logical_type == "date":
        values = values.cast(pa.date32(), safe=False).cast(pa.int32())
    return np.asarray(values.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)


def label_codes(values: pa.ChunkedArray, label: Column) -> NDArray[np.int64]:
    """Return 1 for the label's positive value, or numbers from its threshold on, and 0 for any
    other; of classes the position; shape (n,).

    Parameters
    ----------
    values : pyarrow.ChunkedArray, length n
        The label's column.
    label : Column
        The label, of two values, of numbers with a threshold, or of classes.

    Returns
    -------
    ndarray of int64, shape (n,)
    """
    values = decode(values)
    if label.classes:
        codes = pc.index_in(values, value_set=pa.array(list(label.classes), type=values.type))
        return np.asarray(codes.to_numpy(), dtype=np.int64)
    if label.at_least is not None:
        positive = reaches(values, label.at_least).fill_null(False)
    else:
        positive = pc.equal(values, pa.scalar(label.positive, type=values.type)).fill_null(False)
    return np.asarray(positive.to_numpy(), dtype=np.int64)


def reaches(values: pa.ChunkedArray, threshold: int | float) -> pa.ChunkedArray:
    """Return where numbers are at least a threshold; null where they are missing or NaN.

    Parameters
    ----------
    values : pyarrow.ChunkedArray, length n
        Numbers.
    threshold : int or float

    Returns
    -------
    pyarrow.ChunkedArray of bool, length n
    """
    numbers = values.cast(pa.float64(), safe=False)
    reached = pc.greater_equal(numbers, pa.scalar(float(threshold)))
    return pc.if_else(pc.is_nan(numbers), pa.scalar(None, pa.bool_()), reached)


def null_mask(values: pa.ChunkedArray) -> NDArray[np.bool_]:
    """Return where ``values`` is null, shape (n,); NaN is not null.

    Parameters
    ----------
    values : pyarrow.ChunkedArray, length n

    Returns
    -------
    ndarray of bool, shape (n,)
    """
    if not values.null_count:
        return np.zeros(len(values), dtype=bool)
    return np.asarray(pc.is_null(values).to_numpy(), dtype=bool)


def nonfinite_mask(values: pa.ChunkedArray) -> NDArray[np.bool_]:
    """Return where ``values`` is NaN, infinite or above `LARGEST` in size, shape (n,).

    All are False for types without such values.

    Parameters
    ----------
    values : pyarrow.ChunkedArray, length n

    Returns
    -------
    ndarray of bool, shape (n,)
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
    column's spellings of missing values become missing; where it has ``other``, values that are not
    allowed become that. Columns that the contract does not name
    stay, after the others, and missing columns stay missing: the check reports both.

    Parameters
    ----------
    table : pyarrow.Table, n rows
    contract : Contract

    Returns
    -------
    pyarrow.Table, n rows

    Raises
    ------
    ContractViolation
        If values cannot be converted to the declared type. It lists every such column with the
        number of these values, without the values.
    """
    return next(fitting([coerce_batch(table, contract)], contract))


@dataclass
class Unfit:
    """Values of a batch that cannot be converted.

    Parameters
    ----------
    rows : int
        Number of rows of the batch.
    counts : Counter
        Number of these values by place of the column, name of the column, and description.
    """

    rows: int
    counts: Counter[tuple[int, str, str]] = field(default_factory=Counter)


def coerce_batch(
    table: pa.Table, contract: Contract, unsigned: Collection[str] = ()
) -> tuple[pa.Table, Unfit]:
    """Coerce one batch of a table as :func:`coerce` does; columns that cannot be converted are left
    out.

    Parameters
    ----------
    table : pyarrow.Table, n rows
        The batch.
    contract : Contract
    unsigned : collection of str, default ()
        Columns of integers that keep the type uint64; without it those with a value that int64
        cannot hold do.

    Returns
    -------
    table : pyarrow.Table, n rows
        The columns that can be converted.
    unfit : Unfit
        The values of the others that cannot be converted.
    """
    declared = {column.name: column for column in contract.columns}
    places = {name: place for place, name in enumerate(declared)}
    columns = list(zip(table.column_names, table.columns, strict=True))
    columns.sort(key=lambda item: places.get(item[0], len(places)))
    names = []
    arrays = []
    unfit = Unfit(table.num_rows)
    for place, (name, values) in enumerate(columns):
        if name in declared:
            try:
                values = _convert(values, declared[name], name in unsigned)
            except _UnfitError as error:
                unfit.counts[place, name, error.found] += error.count
                continue
        names.append(name)
        arrays.append(values)
    return pa.Table.from_arrays(arrays, names=names), unfit


def fitting(parts: Iterable[tuple[Result, Unfit]], contract: Contract) -> Iterator[Result]:
    """Give what was made of each batch until one does not fit; then, after the last,
    ContractViolation.

    Parameters
    ----------
    parts : iterable of (object, Unfit)
        For each batch its result, and its values that cannot be converted.
    contract : Contract

    Yields
    ------
    object
        The result of each batch before the first one that does not fit.

    Raises
    ------
    ContractViolation
        If values of any batch cannot be converted, with their numbers in all batches.
    """
    rows = 0
    unfit = Counter[tuple[int, str, str]]()
    for part, part_unfit in parts:
        rows += part_unfit.rows
        unfit.update(part_unfit.counts)
        if not unfit:
            yield part
    if not unfit:
        return
    kinds = {column.name: column.logical_type for column in contract.columns}
    violations: dict[int, Violation] = {}
    for (place, name, text), count in sorted(unfit.items(), key=lambda item: item[0][2] in _LATE):
        kind = kinds[name]
        _, cure = _TYPES[kind]
        violation = Violation(
            column=name,
            expectation=f"type {kind}",
            count=count,
            examples=(),
            cure=f"{cure}, or change logicalType in the contract",
            scope="table",
            found=f"{count:,} of {rows:,} rows with {text}",
        )
        violations.setdefault(place, violation)
    raise ContractViolation([violations[place] for place in sorted(violations)], contract.name)


class _UnfitError(Exception):
    """Values cannot be converted: their number and a description of them."""

    def __init__(self, count: int, found: str) -> None:
        self.count = count
        self.found = found


def _convert(values: pa.ChunkedArray, column: Column, unsigned: bool = False) -> pa.ChunkedArray:
    """Convert a column to its declared type; values that do not fit it raise _UnfitError."""
    converted = _convert_values(values, column, unsigned)
    if column.other is None:
        return converted
    return pc.if_else(unlisted(converted, column), pa.scalar(column.other), converted)


def converted_text(values: pa.ChunkedArray, column: Column) -> pa.ChunkedArray:
    """Return a column of text as :func:`coerce` does, with the values that `column` does not list.

    Parameters
    ----------
    values : pyarrow.ChunkedArray, length n
    column : Column
        A column of text.

    Returns
    -------
    pyarrow.ChunkedArray of string, length n
    """
    return _convert_values(values, column, False)


def unlisted(values: pa.ChunkedArray, column: Column) -> pa.ChunkedArray:
    """Return where categories in text are none of the contract's; False where they are missing.

    Parameters
    ----------
    values : pyarrow.ChunkedArray of string, length n
    column : Column
        A column of text with allowed values.

    Returns
    -------
    pyarrow.ChunkedArray of bool, length n
    """
    listed = pc.is_in(values, value_set=pa.array(column.allowed or (), pa.string()))
    return pc.and_(pc.invert(listed), pc.is_valid(values))


def _convert_values(values: pa.ChunkedArray, column: Column, unsigned: bool) -> pa.ChunkedArray:
    """Convert a column to its declared type, with values that the contract does not list."""
    values = decode(values)
    if column.missing is not None:
        values = without_spellings(values, column.missing)
    target, _ = _TYPES[column.logical_type]
    if (values.type == target and not column.is_text) or pa.types.is_null(values.type):
        return values.cast(target)
    source = logical_type_of(values.type)
    if column.is_text:
        return _sentences(values, source)
    return _convert_type(values, source, column, unsigned)


def _convert_type(
    values: pa.ChunkedArray, source: str | None, column: Column, unsigned: bool
) -> pa.ChunkedArray:
    """Convert values of the logical type `source` to the column's, another one or a wider one."""
    match source, column.logical_type:
        case _, "string" if source is not None:
            return _as_text(values, source, column)
        case "integer" | "boolean", "integer":
            return _as_integers(values, unsigned)
        case "number", "integer":
            return _whole(values, float(_INT64), "values that are no whole number")
        case "integer" | "number", "number":
            # integers beyond 2**53 lose digits, by design
            return values.cast(pa.float64(), safe=False)
        case "integer" | "number", "boolean":
            wide = values.cast(pa.float64(), safe=False)
            _require(pc.or_(pc.equal(wide, 0.0), pc.equal(wide, 1.0)), "numbers other than 0 and 1")
            return pc.equal(wide, 1.0)
        case "date", "date":
            return values.cast(pa.date32(), safe=False)
        case "string", _:
            parsed = _parse(values, column.logical_type)
            if column.missing is not None:
                # 999.0 in text is the number 999
                parsed = without_spellings(parsed, column.missing)
            return parsed
    raise _UnfitError(len(values) - values.null_count, f"Arrow type {values.type}")


def _sentences(values: pa.ChunkedArray, source: str | None) -> pa.ChunkedArray:
    """Return sentences, empty ones as null; any other type does not fit."""
    if source == "string":
        return without_blanks(values)
    content = "numbers" if source in ("integer", "number") else "values of another type"
    raise _UnfitError(len(values) - values.null_count, f"{content} where sentences are expected")


def _as_text(values: pa.ChunkedArray, source: str, column: Column) -> pa.ChunkedArray:
    """Convert values of another logical type to text."""
    if source == "boolean":
        # CSV readers turn True and False into booleans: restore the spelling
        spelling = {str(item).lower(): str(item) for item in column.allowed or ()}
        return pc.if_else(values, spelling.get("true", "true"), spelling.get("false", "false"))
    if source == "number":
        # pandas turns integer codes with gaps into floats
        values = _whole(values, 2.0**53, "decimal numbers where text is expected")
    return values.cast(pa.string())


def _as_integers(values: pa.ChunkedArray, unsigned: bool) -> pa.ChunkedArray:
    if unsigned:
        return values.cast(pa.uint64())
    try:
        return values.cast(pa.int64())
    except pa.ArrowInvalid:  # unsigned values above the range of int64 keep their type
        return values


def without_blanks(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Replace empty sentences by null.

    Parameters
    ----------
    values : pyarrow.ChunkedArray of string, length n

    Returns
    -------
    pyarrow.ChunkedArray of string, length n
    """
    blank = pc.equal(pc.utf8_trim_whitespace(values), "")
    return pc.if_else(blank, pa.scalar(None, pa.string()), values)


def _require(fits: pa.ChunkedArray, description: str) -> None:
    bad = pc.sum(pc.invert(fits.fill_null(True))).as_py()
    if bad:
        raise _UnfitError(bad, description)


def _whole(values: pa.ChunkedArray, limit: float, description: str) -> pa.ChunkedArray:
    """Convert floats to int64; each must be a whole number below ``limit`` in size."""
    wide = values.cast(pa.float64())
    whole = pc.and_(pc.is_finite(wide), pc.equal(wide, pc.trunc(wide)))
    _require(pc.and_(whole, pc.less(pc.abs(wide), limit)), description)
    return wide.cast(pa.int64())


def _parse(values: pa.ChunkedArray, logical_type: str) -> pa.ChunkedArray:
    """Parse text without its surrounding blanks; empty text is missing."""
    text = pc.utf8_trim_whitespace(values)
    text = pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.string()), text)
    match logical_type:
        case "integer":
            return _parse_integers(text)
        case "number":
            text = _plain_digits(text)
            _require(pc.match_substring_regex(text, _NUMBER), "text that is no number")
            return pc.replace_substring_regex(text, r"^\+", "").cast(pa.float64())
        case "boolean":
            return _parse_booleans(text)
        case _:
            return _parse_dates(text)


def _parse_integers(text: pa.ChunkedArray) -> pa.ChunkedArray:
    text = _plain_digits(text)
    _require(pc.match_substring_regex(text, _INTEGER), "text that is no whole number")
    digits = pc.replace_substring_regex(text, r"^\+|\.0+$", "")
    try:
        return digits.cast(pa.int64())
    except pa.ArrowInvalid:
        large = sum(abs(int(item)) >= _INT64 for item in digits.drop_null().to_pylist())
        raise _UnfitError(large, _LATE[0]) from None


def _parse_booleans(text: pa.ChunkedArray) -> pa.ChunkedArray:
    lower = pc.utf8_lower(text)
    is_known = pc.is_in(lower, value_set=pa.array([*TRUE, *FALSE]))
    _require(pc.or_(is_known, pc.is_null(lower)), "text that is neither true nor false")
    is_true = pc.is_in(lower, value_set=pa.array(TRUE))
    return pc.if_else(pc.is_null(lower), pa.scalar(None, pa.bool_()), is_true)


def _parse_dates(text: pa.ChunkedArray) -> pa.ChunkedArray:
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
    """Return decoded values, null where they are a spelling of a missing value, blanks aside.

    Parameters
    ----------
    values : pyarrow.ChunkedArray, length n
        Decoded values, see :func:`decode`.
    missing : sequence of str, int or float
        The spellings; ``"NaN"`` stands for NaN among numbers.

    Returns
    -------
    pyarrow.ChunkedArray, length n
    """
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
    """Return text as a logical type; None if some of it cannot be read so.

    Parameters
    ----------
    values : pyarrow.ChunkedArray of string, length n
    logical_type : str
        One of :data:`evenhand.data_contracts.column.LOGICAL_TYPES`.

    Returns
    -------
    pyarrow.ChunkedArray or None
    """
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

    Parameters
    ----------
    values : pyarrow.ChunkedArray of string, length n

    Returns
    -------
    pyarrow.ChunkedArray of date32, length n, or None
    """
    present = values.drop_null()
    if not len(present) or pc.any(pc.equal(pc.utf8_trim_whitespace(present), "")).as_py():
        return None
    return convert(values, "date")


def bin_names(column: Column) -> tuple[str, ...]:
    """Return the names of the groups between a column's cut points.

    There is one name more than cut points: ``("<25", "25-59", ">=60")`` for whole numbers cut at 25
    and 60, ``("<0.5", "0.5 to <1.5", ">=1.5")`` for others.

    Parameters
    ----------
    column : Column
        A numeric sensitive column.

    Returns
    -------
    tuple of str

    Raises
    ------
    ValueError
        If the column has no bins.
    """
    if column.bins is None:
        raise ValueError(
            f"column '{column.name}' has no bins, so no named groups: add bins to the contract"
        )
    if column.logical_type == "integer":
        cuts = [int(cut) for cut in column.bins]
        middle = [_integer_range(low, high - 1) for low, high in pairwise(cuts)]
        return (f"<{cuts[0]}", *middle, f">={cuts[-1]}")
    texts = [value_text(cut) for cut in column.bins]
    middle = [f"{low} to <{high}" for low, high in pairwise(texts)]
    return (f"<{texts[0]}", *middle, f">={texts[-1]}")


def _integer_range(first: int, last: int) -> str:
    if first == last:
        return str(first)
    return f"{first}-{last}"


def known_groups(column: Column) -> set[str]:
    """Return the groups that a contract names, by bins or allowed values; an empty set if it names
    none.

    Parameters
    ----------
    column : Column
        A sensitive column.

    Returns
    -------
    set of str
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

    Parameters
    ----------
    values : pyarrow.ChunkedArray or Array, length n
        The column's values.
    column : Column
        A sensitive column.

    Returns
    -------
    ndarray of str objects, shape (n,)
    """
    names, codes = group_codes(values, column)
    return np.array(names, dtype=object)[codes]


def group_codes(
    values: pa.ChunkedArray | pa.Array, column: Column
) -> tuple[list[str], NDArray[np.integer[Any]]]:
    """Return the names of :func:`group_labels`, sorted, and the position of each row's.

    Parameters
    ----------
    values : pyarrow.ChunkedArray or Array, length n
        The column's values.
    column : Column
        A sensitive column.

    Returns
    -------
    names : list of str
        The groups that occur.
    codes : ndarray of int32, shape (n,)
    """
    if isinstance(values, pa.Array):
        values = pa.chunked_array([values])
    values = decode(values)
    if column.bins is not None:
        all_names = [*bin_names(column), MISSING_GROUP]
        is_missing = null_mask(values)
        codes = np.full(len(values), len(all_names) - 1)
        bins = np.searchsorted(column.bins, values.drop_null().to_numpy(), side="right")
        codes[~is_missing] = bins
        present, codes = np.unique(codes, return_inverse=True)
        names = [all_names[place] for place in present]
    else:
        encoded = values.dictionary_encode().combine_chunks()
        names = [value_text(value) for value in encoded.dictionary.to_pylist()]
        if values.null_count:
            names.append(MISSING_GROUP)
        codes = encoded.indices.fill_null(len(names) - 1).to_numpy()
    # values of one name are one group, such as 0.0 and -0.0
    distinct, places = np.unique(np.array(names, dtype=object), return_inverse=True)
    return distinct.tolist(), places.astype(np.int32)[codes]
