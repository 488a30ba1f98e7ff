"""What happens to a batch: contract, acceptance, coin."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from evenhand.data_contracts.errors import ContractViolation, Violation
from evenhand.fairlib.proxies.hash_uniform import uniforms
from evenhand.tasks.errors import InputError
from evenhand.tasks.filtering.bundle import ProxyBundle
from evenhand.tasks.filtering.checks import Verdict, check_features
from evenhand.tasks.filtering.columns import PROBABILITY, coin_key, typed
from evenhand.tasks.filtering.settings import FilterSettings

__all__ = ["Judged", "RowFilter"]


@dataclass(frozen=True)
class Judged:
    """Accepted rows, rows that break the contract (None: none), how many were dropped, sums of shares."""

    accepted: pa.RecordBatch
    broken: pa.RecordBatch | None
    dropped: int
    masses: NDArray[np.float64]


class RowFilter:
    """Judges batches; a row's fate depends on its features, its key and the seed, on no other row."""

    def __init__(self, bundle: ProxyBundle, settings: FilterSettings) -> None:
        self.bundle, self.settings = bundle, settings
        self.key = coin_key(bundle, settings)
        self._declared = {column.name: column for column in bundle.contract.columns}
        self._typed = [
            name for name in dict.fromkeys((*bundle.features, *self.key)) if name in self._declared
        ]

    def judge(self, batch: pa.RecordBatch, first_row: int) -> Judged:
        """
        Check, accept or reject every row.

        Parameters
        ----------
        batch : RecordBatch
        first_row : int
            Rows of the file before it, for the message.

        Raises
        ------
        ContractViolation
            The contract stops at a bad row, or a column has another type.
        InputError
            The key cannot be hashed.
        """
        values = {
            name: typed(
                batch.column(name),
                self._declared[name],
                self.bundle.contract,
                category=name in self.bundle.categorical,
            )
            for name in self._typed
        }
        verdict = check_features(values, self.bundle)
        if verdict.violations and self.bundle.contract.on_violation == "stop":
            raise ContractViolation([_placed(item, first_row) for item in verdict.violations])
        broken = batch.filter(pa.array(verdict.set_aside)) if verdict.set_aside is not None else None
        usable = _usable(verdict)
        if usable is not None:
            batch = batch.filter(usable)
            values = {name: column.filter(usable) for name, column in values.items()}
        for name in self.key:
            values.setdefault(name, batch.column(name))
        rows = pa.RecordBatch.from_arrays(list(values.values()), names=list(values))
        acceptance = self.bundle.raw.evaluate(rows)
        try:
            coins = uniforms(rows, self.key, self.settings.seed)
        except ValueError as error:
            raise InputError(str(error)) from None
        if self.settings.probability:
            batch = batch.append_column(PROBABILITY, pa.array(acceptance.probabilities))
        accepted = batch.filter(pa.array(coins < acceptance.probabilities))
        dropped = int(verdict.dropped.sum()) if verdict.dropped is not None else 0
        return Judged(accepted, broken, dropped, acceptance.masses)


def _usable(verdict: Verdict) -> pa.Array | None:
    out = [mask for mask in (verdict.bad, verdict.dropped) if mask is not None]
    return pa.array(~np.logical_or.reduce(out)) if out else None


def _placed(violation: Violation, first_row: int) -> Violation:
    """The violation with the place in the file."""
    return Violation(
        violation.column,
        violation.expectation,
        violation.count,
        (),
        violation.cure,
        "row",
        f"{violation.found}, from row {first_row + 1:,} of the file on",
    )
