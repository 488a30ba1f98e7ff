"""Judging a batch of rows: the contract's rules in Arrow, and what a published model says about the
rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from evenhand.data_contracts.arrow import LARGEST, coerce, is_text
from evenhand.data_contracts.column import Column
from evenhand.data_contracts.errors import ContractViolation, Violation
from evenhand.data_contracts.model import Contract
from evenhand.data_contracts.suites import needs_value, rule_texts
from evenhand.fairlib.preprocessing.encoder import MISSING, TableEncoder, category_name
from evenhand.tasks.errors import input_errors
from evenhand.tasks.filtering.filter_bundle import (
    FileModel,
    FileSettings,
    FilterSettings,
    ProxyBundle,
    key_columns,
)
from evenhand.tasks.filtering.summary import FilterSummary, RunSummary, drift_of, expected_shares

PROBABILITY = "acceptance_probability"
# Rows that a message about a broken rule names at most.
NAMED_ROWS = 5
Mask = NDArray[np.bool_]
# Rows that break a rule, the expectation, the finding and the cure.
Failure = tuple[Mask | None, str, str, str]


@dataclass(frozen=True)
class Judged:
    """A judged batch."""

    accepted: pa.RecordBatch  # rows of the output, with the columns that it adds
    broken: pa.RecordBatch | None  # rows that break the contract; None: there are none
    dropped: int  # rows left out for a missing sensitive feature
    masses: NDArray[np.float64]  # sums of the rows' shares in the judge's groups
    outside: int = 0  # rows outside bounds that were only observed, used or set aside
    # how many of these are so in each column
    outside_columns: Mapping[str, int] = field(default_factory=dict)


class Judge(ABC):
    """Judges batches by a model; the result of a row depends on the row, the model and the settings
    alone.

    `key` are columns that files need in addition to the model's features, and `added` those that
    the output has behind the input's. `weights`, shape (groups,), make the number of expected rows
    from the masses.
    """

    key: tuple[str, ...] = ()
    added: Mapping[str, pa.DataType]
    weights: NDArray[np.float64]
    in_database = False  # whether the database of the input judges rows

    def __init__(self, model: FileModel, settings: FileSettings) -> None:
        self.model = model
        self.settings = settings
        declared = {column.name: column for column in model.contract.columns}
        names = dict.fromkeys((*model.features, *self.key))
        self._columns = [declared[name] for name in names if name in declared]

    @classmethod
    @abstractmethod
    def load(cls, folder: str | Path, settings: Any, version: str = "") -> Self:
        """Read a bundle's folder; an `InputError` if it does not fit the settings."""

    @abstractmethod
    def decide(self, batch: pa.RecordBatch, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, Any]:
        """Rows of the output, and the masses; `rows` has features and key in the contract's
        types.
        """

    def summarise(self, common: Mapping[str, Any]) -> RunSummary:
        """Give the result of a run; `common` has the fields of `RunSummary`."""
        return RunSummary(**common)

    def judge(self, batch: pa.RecordBatch, first_row: int) -> Judged:
        """Check every row and judge it; `first_row` of the file is the batch's first, for the
        message.

        Where the contract's rules were only observed, bad rows are set aside and not a reason to
        stop. Raises `ContractViolation` if the contract stops at a bad row or a column has another
        type, and `InputError` if the model refuses a row.
        """
        contract = self.model.contract
        values = self._typed_values(batch)
        check = check_features(values, self.model)
        sets_outside_aside = self.settings.outside == "set_aside"
        if check.violations and contract.on_violation == "stop" and not contract.rules_observed:
            raise ContractViolation(check.with_rows(first_row))
        broken = None
        set_aside = check.set_aside
        unusable = _either(check.bad, check.dropped)
        if sets_outside_aside:
            set_aside = _either(set_aside, check.outside_used)
            unusable = _either(unusable, check.outside_used)
        if set_aside is not None:
            broken = batch.filter(pa.array(set_aside))
        if unusable is not None:
            usable = pa.array(~unusable)
            batch = batch.filter(usable)
            values = {name: column.filter(usable) for name, column in values.items()}
        for name in self.key:
            values.setdefault(name, batch.column(name))
        rows = pa.RecordBatch.from_arrays(list(values.values()), names=list(values))
        if batch.num_rows:
            with input_errors():
                accepted, masses = self.decide(batch, rows)
        else:  # every row was set aside or dropped, and libraries refuse tables without rows
            accepted, masses = self._without_rows(batch)
        dropped = 0
        if check.dropped is not None:
            dropped = int(check.dropped.sum())
        outside = 0
        if check.outside_used is not None:
            outside = int(check.outside_used.sum())
        return Judged(accepted, broken, dropped, masses, outside, check.outside_columns)

    def _typed_values(self, batch: pa.RecordBatch) -> dict[str, pa.Array]:
        """Features and key columns in the contract's types, categories as dictionaries."""
        contract = self.model.contract
        categorical = self.model.categorical
        values = {}
        for column in self._columns:
            is_category = column.name in categorical
            values[column.name] = typed(
                batch.column(column.name), column, contract, category=is_category
            )
        return values

    def _without_rows(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Any]:
        for name, kind in self.added.items():
            batch = batch.append_column(name, pa.array([], kind))
        return batch, np.zeros(len(self.weights))


class RowFilter(Judge):
    """Keeps the rows whose uniform number is below their acceptance probability."""

    def __init__(self, bundle: ProxyBundle, settings: FilterSettings) -> None:
        self.bundle = bundle
        self.seed = settings.seed
        self.hash = settings.hash
        self.key = key_columns(bundle, settings)
        self.added = {}
        if settings.probability:
            self.added = {PROBABILITY: pa.float64()}
        self.weights = bundle.raw.acceptance
        self.max_drift = settings.max_drift
        super().__init__(bundle, settings)

    @classmethod
    def load(cls, folder: str | Path, settings: FilterSettings, version: str = "") -> Self:
        """Read a proxy's folder."""
        return cls(ProxyBundle.load(folder, version), settings)

    def decide(self, batch: pa.RecordBatch, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, Any]:
        """Rows that are kept, and the sums of all rows' shares in the proxy groups."""
        acceptance = self.bundle.raw.evaluate(rows)
        numbers = self.bundle.uniforms(rows, self.key, self.seed, self.hash)
        for name in self.added:
            batch = batch.append_column(name, pa.array(acceptance.probabilities))
        return batch.filter(pa.array(numbers < acceptance.probabilities)), acceptance.masses

    def summarise(self, common: Mapping[str, Any]) -> FilterSummary:
        """Add drift and the expected balance."""
        masses = np.array(common["masses"])
        balance = self.bundle.balance
        return FilterSummary(
            **common,
            expected_by_group=(masses * self.weights).tolist(),
            drift=drift_of(masses, self.bundle.masses, self.max_drift),
            balance=balance and expected_shares(masses, self.weights, balance, self.seed),
        )


def typed(values: pa.Array, column: Column, contract: Contract, *, category: bool) -> pa.Array:
    """Convert a column to its contract's type by `coerce`, and categories to a dictionary.

    A type with the same meaning is left alone: a dictionary of text, integers of any width. The
    contract's spellings of missing values become missing, and unlisted values its `other`. Raises
    `ContractViolation` for values that cannot be converted.
    """
    needs_reading = bool(column.missing) or column.other is not None
    if needs_reading or not _fits(values.type, column.logical_type):
        values = coerce(pa.table({column.name: values}), contract).column(0).combine_chunks()
    if category and not pa.types.is_dictionary(values.type):
        values = values.dictionary_encode()
    return values


def _fits(kind: pa.DataType, logical_type: str) -> bool:
    if logical_type == "string":
        if pa.types.is_dictionary(kind):
            return is_text(kind.value_type)
        return is_text(kind)
    if logical_type == "integer":
        return pa.types.is_integer(kind) and not pa.types.is_uint64(kind)
    if logical_type == "number":
        return pa.types.is_float64(kind)
    if logical_type == "boolean":
        return pa.types.is_boolean(kind)
    return pa.types.is_date32(kind)


def _either(mask: Mask | None, other: Mask | None) -> Mask | None:
    """Rows of either mask; None stands for no rows."""
    if mask is None:
        return other
    if other is None:
        return mask
    return mask | other


def _without(mask: Mask | None, excluded: Mask | None) -> Mask | None:
    """Rows of a mask that are not excluded; None stands for no rows."""
    if mask is None or excluded is None:
        return mask
    return mask & ~excluded


@dataclass
class BatchCheck:
    """Rows of a batch that break the contract; None stands for no rows."""

    bad: Mask | None = None  # rows that break a rule
    dropped: Mask | None = (
        None  # rows that lack a sensitive feature, where the contract leaves these out
    )
    violations: list[Violation] = field(default_factory=list)  # without example values
    places: list[list[int]] = field(default_factory=list)  # of each violation's first rows
    outside: Mask | None = None  # rows outside bounds that were only observed
    outside_columns: dict[str, int] = field(default_factory=dict)  # how many, by column

    @property
    def outside_used(self) -> Mask | None:
        """Rows outside observed bounds that are neither bad nor dropped."""
        return _without(_without(self.outside, self.bad), self.dropped)

    @property
    def set_aside(self) -> Mask | None:
        """Bad rows that are not dropped."""
        return _without(self.bad, self.dropped)

    def add(self, column: str, failure: Failure) -> None:
        """Add the rows that break a rule."""
        mask, expectation, remark, cure = failure
        if mask is None or not mask.any():
            return
        self.bad = _either(self.bad, mask)
        count = int(mask.sum())
        among = f"{count:,} of {len(mask):,} rows {remark}"
        self.violations.append(Violation(column, expectation, count, (), cure, "row", among))
        self.places.append(np.flatnonzero(mask)[:NAMED_ROWS].tolist())

    def with_rows(self, first_row: int) -> list[Violation]:
        """Return the violations with the numbers of their first rows in the file.

        `first_row` is the number of the file's rows before the batch. Row 1 follows the header.
        """
        descriptions = []
        for violation, places in zip(self.violations, self.places, strict=True):
            numbers = [str(first_row + place + 1) for place in places]
            more = violation.count - len(places)
            if more:
                numbers.append(f"{more:,} more")
            words = numbers[0]
            if len(numbers) > 1:
                words = f"{', '.join(numbers[:-1])} and {numbers[-1]}"
            noun = "row"
            if violation.count > 1:
                noun = "rows"
            place_text = f": {noun} {words} of the file, counted after its header"
            descriptions.append(replace(violation, found=violation.found + place_text))
        return descriptions


def check_features(values: Mapping[str, pa.Array], model: FileModel) -> BatchCheck:
    """Check the features of a batch, each in its contract's type, by the rules of `check_batch`.

    With `unseenCategories: error` a category that no training row had breaks the contract too.
    """
    contract = model.contract
    check = BatchCheck()
    for name in model.features:
        column = contract.column(name)
        missing = null_mask(values[name])
        if column.role == "sensitive" and contract.missing_sensitive == "drop":
            check.dropped = _either(check.dropped, missing)
        for failure in _failures(values[name], column, missing, contract):
            check.add(name, failure)
        beyond = _beyond_bounds(values[name], column)
        if contract.rules_observed:
            check.outside = _either(check.outside, beyond)
            if beyond is not None and beyond.any():
                check.outside_columns[name] = int(beyond.sum())
        else:
            check.add(name, (beyond, *rule_texts("between", column)))
        _check_categories(check, name, values[name], missing, model.encoder)
    return check


def _check_categories(
    check: BatchCheck, name: str, values: pa.Array, missing: Mask | None, encoder: TableEncoder
) -> None:
    """Add rows with a category that no training row had, unless they are reported already."""
    if name not in encoder.categories_ or encoder.unseen == "ignore":
        return
    unseen = _unseen(values, missing, encoder.accepted(name))
    unseen = _without(unseen, check.bad)
    unseen = _without(unseen, check.dropped)
    cure = "correct the values, or set unseenCategories: ignore and publish the model again"
    check.add(name, (unseen, "categories that training rows had", "with another", cure))


def _failures(
    values: pa.Array, column: Column, missing: Mask | None, contract: Contract
) -> Iterator[Failure]:
    """Rows that break each rule of a column but its bounds."""
    if needs_value(column, contract):
        yield missing, *rule_texts("not_null", column)
    nonfinite = _nonfinite(values, column)
    if column.logical_type == "number":
        cure = "write missing numbers as empty (null) and correct the rest"
        yield (
            nonfinite,
            "finite numbers",
            f"with NaN or infinity, or a size above {LARGEST:g}",
            cure,
        )
    if column.allowed is not None:
        allowed = pa.array(column.allowed)
        # the column's own type may be too narrow for some of the allowed values
        mask = _where(
            values, lambda items: pc.invert(pc.is_in(items.cast(allowed.type), allowed)), nonfinite
        )
        yield mask, *rule_texts("in_set", column)


def _beyond_bounds(values: pa.Array, column: Column) -> Mask | None:
    """Rows with a finite value outside the bounds of a column."""
    bounds = (pc.less, column.minimum), (pc.greater, column.maximum)
    if column.minimum is None and column.maximum is None:
        return None
    nonfinite = _nonfinite(values, column)

    def outside(items: pa.Array) -> pa.Array:
        beyond = [
            is_beyond(items, pa.scalar(bound)) for is_beyond, bound in bounds if bound is not None
        ]
        return reduce(pc.or_kleene, beyond)

    if not pa.types.is_dictionary(values.type) and nonfinite is None:
        extremes = pa.array(list(pc.min_max(values).values()), values.type)
        if not outside(extremes).fill_null(False).true_count:
            return None
    return _where(values, outside, nonfinite)


def _nonfinite(values: pa.Array, column: Column) -> Mask | None:
    """Rows of a column of numbers with NaN or infinity, or a size that models cannot read."""
    if column.logical_type != "number":
        return None
    return _where(values, lambda items: pc.invert(pc.less_equal(pc.abs(items), LARGEST)))


def _unseen(values: pa.Array, missing: Mask | None, accepted: tuple[str, ...]) -> Mask | None:
    """Rows with a category that training rows lacked; a missing value is a category too."""

    def is_unseen(items: pa.Array) -> pa.Array:
        return pa.array(
            [
                value is not None and category_name(value) not in accepted
                for value in items.to_pylist()
            ],
            pa.bool_(),
        )

    unseen = _where(values, is_unseen)
    if MISSING in accepted:
        return unseen
    return _either(unseen, missing)


def null_mask(values: pa.Array) -> Mask | None:
    """Where values are missing; None: nowhere."""
    if values.null_count == 0 and not pa.types.is_dictionary(values.type):
        return None
    mask = np.asarray(values.is_null().to_numpy(zero_copy_only=False), dtype=bool)
    if not mask.any():
        return None
    return mask


def _where(
    values: pa.Array, breaks: Callable[[pa.Array], pa.Array], excluded: Mask | None = None
) -> Mask | None:
    """Rows, except `excluded`, whose value breaks a rule; of a dictionary each entry is
    checked once.
    """
    coded = pa.types.is_dictionary(values.type)
    items = values.dictionary if coded else values
    broken = breaks(items).fill_null(False)
    if items.null_count:
        broken = pc.and_(broken, items.is_valid())
    if not broken.true_count:
        return None
    if coded:
        broken = broken.take(values.indices).fill_null(False)
    mask = np.asarray(broken.to_numpy(zero_copy_only=False), dtype=bool)
    return _without(mask, excluded)
