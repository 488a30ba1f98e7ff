"""A batch of new rows: columns in the contract's types, and the contract's rules that its rows break."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from evenhand.data_contracts.arrow import coerce
from evenhand.data_contracts.checking import check_batch
from evenhand.data_contracts.errors import CheckCrashed, ContractViolation
from evenhand.data_contracts.model import Contract
from evenhand.tasks.errors import InputError, NotCarriedOut

__all__ = ["Batch", "read_batch"]


@dataclass(frozen=True)
class Batch:
    """
    A batch that can be compared.

    Attributes
    ----------
    table : Table
        Model inputs, and the sensitive columns and the label as far as the batch has them.
    broken : mapping of str to list of (str, int)
        By model input, the contract's rules that rows break, each with the number of rows; no value.
    ignored : int
        Columns that are neither.
    """

    table: pa.Table
    broken: Mapping[str, list[tuple[str, int]]] = field(default_factory=dict)
    ignored: int = 0


def read_batch(path: Path, contract: Contract, features: Sequence[str]) -> Batch:
    """
    Read a batch and check its columns and types, but not its values.

    Drift counts values that are missing or outside their set or range, so they are no error here.

    Raises
    ------
    InputError
        No rows, a missing model input, a column twice or of another type.
    NotCarriedOut
        The check could not be carried out.
    """
    raw = pq.read_table(path)
    used = {*features, *(column.name for column in contract.sensitive), contract.label.name}
    # Positions, because a name may stand twice.
    known = [i for i, name in enumerate(raw.column_names) if name in used]
    # A missing column may be there under another name, so the check then sees every column.
    whole = set(features) <= set(raw.column_names)
    try:
        table = coerce(raw.select(known) if whole else raw, contract)
        result = check_batch(table, contract)
    except ContractViolation as error:
        raise InputError(str(error)) from None
    except CheckCrashed as error:
        raise NotCarriedOut(f"the batch could not be checked: {error}") from error
    wrong = [violation for violation in result.violations if violation.scope == "table"]
    if not whole:
        # Columns of the contract that are no model input may be missing or of another type.
        wrong = [violation for violation in wrong if violation.column in used] or wrong
    if wrong:
        raise InputError(str(ContractViolation(wrong, contract.name)))
    broken: dict[str, list[tuple[str, int]]] = {}
    for violation in result.violations:
        if violation.column in features:
            broken.setdefault(str(violation.column), []).append((violation.expectation, violation.count))
    return Batch(table, broken, raw.num_columns - len(known))
