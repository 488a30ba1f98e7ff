"""A batch as drift is measured on it: columns in the contract's types, and which rules its rows break."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from evenhand.data_contracts.arrow import coerce
from evenhand.data_contracts.checking import check_batch
from evenhand.data_contracts.errors import CheckCrashed, ContractViolation, Violation
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
        Model inputs, and those of the sensitive columns and the label that are there.
    broken : mapping of str to list of (str, int)
        By model input the contract's rules that rows break, each with how many do; no value is told.
    ignored : int
        Columns that are neither.
    """

    table: pa.Table
    broken: Mapping[str, list[tuple[str, int]]] = field(default_factory=dict)
    ignored: int = 0


def read_batch(path: Path, contract: Contract, features: Sequence[str]) -> Batch:
    """
    Read a batch and check what must hold to compare it: columns and types, but not values.

    A value outside its set or range, or one that is missing, is what drift is about, so that it is counted.

    Raises
    ------
    InputError
        No rows, a model input that is not there, a column twice or of another type.
    NotCarriedOut
        The check could not be carried out.
    """
    raw = pq.read_table(path)
    used = dict.fromkeys([*features, *(c.name for c in contract.sensitive), contract.label.name])
    known = [name for name in raw.column_names if name in used]
    # with a column missing, a stranger may be it under another name, which the check then tells
    whole = set(features) <= set(known)
    try:
        table = coerce(raw.select(_positions(raw, used)) if whole else raw, contract)
        result = check_batch(table, contract)
    except ContractViolation as error:
        raise InputError(str(error)) from None
    except CheckCrashed as error:
        raise NotCarriedOut(f"the batch could not be checked: {error}") from error
    wrong = [violation for violation in result.violations if violation.scope == "table"]
    if not whole:
        # among the columns of the contract: one that no model input needs may be absent or strange
        wrong = [violation for violation in wrong if violation.column in used] or wrong
    if wrong:
        raise InputError(str(ContractViolation(wrong, contract.name)))
    broken: dict[str, list[tuple[str, int]]] = {}
    for violation in result.violations:
        if violation.column in features:
            broken.setdefault(str(violation.column), []).append(_rule(violation))
    return Batch(table, broken, raw.num_columns - len(known))


def _positions(raw: pa.Table, used: Mapping[str, None]) -> list[int]:
    """Columns that count, by position: a name may stand twice."""
    return [i for i, name in enumerate(raw.column_names) if name in used]


def _rule(violation: Violation) -> tuple[str, int]:
    return violation.expectation, violation.count
