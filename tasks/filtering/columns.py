"""Which columns of a file are read, judged, hashed and written; and their types under the contract."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from evenhand.data_contracts.arrow import coerce, is_text
from evenhand.data_contracts.errors import ContractViolation, Violation, did_you_mean
from evenhand.data_contracts.model import Column, Contract
from evenhand.tasks.errors import InputError
from evenhand.tasks.filtering.bundle import ProxyBundle
from evenhand.tasks.filtering.settings import FilterSettings

__all__ = ["PROBABILITY", "Selection", "coin_key", "decoded_schema", "select_columns", "typed", "typed_batch"]

PROBABILITY = "acceptance_probability"


@dataclass(frozen=True)
class Selection:
    """Columns that are read and written, in the file's order, and sensitive ones that are neither."""

    kept: list[str]
    left_out: list[str]


def coin_key(bundle: ProxyBundle, settings: FilterSettings) -> tuple[str, ...]:
    """
    Columns that the coin of a row depends on.

    Raises
    ------
    InputError
        A sensitive column is among them, or there is none.
    """
    if settings.key is None:
        key = tuple(sorted(set(bundle.features) - bundle.sensitive))
        if not key:
            raise InputError("every model input is sensitive: name the columns that identify a row in key.")
        return key
    for name in settings.key:
        if name in bundle.sensitive:
            raise InputError(f"the key may not hold the sensitive column {name!r}: choose another, or an id.")
    return settings.key


def select_columns(
    names: Sequence[str], bundle: ProxyBundle, settings: FilterSettings, file: str
) -> Selection:
    """
    Check a file's column names and choose among them.

    Raises
    ------
    InputError
        A name that stands twice, a missing key column, a sensitive column where that is refused.
    ContractViolation
        A missing feature.
    """
    twice = sorted({name for name in names if list(names).count(name) > 1})
    if twice:
        raise InputError(f"the column name {twice[0]!r} stands more than once in {file}: rename all but one.")
    lacking = [name for name in bundle.features if name not in names]
    if lacking:
        raise ContractViolation([_missing(name, names, bundle.contract) for name in lacking])
    left_out = [name for name in names if name in bundle.sensitive and name not in bundle.features]
    if left_out and settings.sensitive == "refuse":
        raise InputError(
            f"{file} holds the sensitive column {left_out[0]!r}: take it out, or set filter.sensitive: drop."
        )
    for name in coin_key(bundle, settings):
        if name not in names:
            raise InputError(
                f"{file} lacks the key column {name!r}: correct filter.key{did_you_mean(name, names)}"
            )
    if settings.probability and PROBABILITY in names:
        raise InputError(f"{file} has a column {PROBABILITY!r} already: rename it, or leave probability off.")
    return Selection([name for name in names if name not in left_out], left_out)


def _missing(name: str, names: Sequence[str], contract: Contract) -> Violation:
    known = {column.name for column in contract.columns}
    close = did_you_mean(name, [other for other in names if other not in known])
    cure = "add the column" + (close if "did you mean" in close else "")
    return Violation(name, "the column to be there", 1, (), cure, "table", "none")


def typed(values: pa.Array, column: Column, contract: Contract, *, category: bool) -> pa.Array:
    """
    Bring a column to its contract's type by :func:`data_contracts.arrow.coerce`, categories to a dictionary.

    A type that says the same is left alone: a dictionary of text, integers of any width.

    Raises
    ------
    ContractViolation
        Values that cannot become the type.
    """
    if not _fits(values.type, column.logical_type):
        table = coerce(pa.table({column.name: values}), contract)
        values = table.column(0).combine_chunks()
    if category and not pa.types.is_dictionary(values.type):
        values = values.dictionary_encode()
    return values


def typed_batch(batch: pa.RecordBatch, contract: Contract) -> pa.RecordBatch:
    """Give a CSV batch's columns the types of the contract; those that it does not know stay text."""
    known = {column.name: column for column in contract.columns}
    columns = [
        typed(values, known[name], contract, category=False) if name in known else values
        for name, values in zip(batch.schema.names, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def decoded_schema(schema: pa.Schema) -> pa.Schema:
    """The schema with text in place of dictionaries."""
    return pa.schema(
        [
            (field.name, field.type.value_type if pa.types.is_dictionary(field.type) else field.type)
            for field in schema
        ]
    )


def _fits(kind: pa.DataType, logical_type: str) -> bool:
    if logical_type == "string":
        return is_text(kind.value_type if pa.types.is_dictionary(kind) else kind)
    if logical_type == "integer":
        return pa.types.is_integer(kind) and not pa.types.is_uint64(kind)
    if logical_type == "number":
        return pa.types.is_float64(kind)
    return pa.types.is_boolean(kind) if logical_type == "boolean" else pa.types.is_date32(kind)
