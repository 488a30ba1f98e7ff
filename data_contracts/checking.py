"""Check a table against its contract: columns and types in Arrow, values in a Great Expectations
suite.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from evenhand.data_contracts.arrow import LARGEST, decode, nonfinite_mask, null_mask
from evenhand.data_contracts.errors import (
    CheckCrashed,
    ContractViolation,
    Violation,
    did_you_mean,
    nearest,
    shorten,
)
from evenhand.data_contracts.model import Column, Contract
from evenhand.data_contracts.scanning import Scan, add_examples, first_examples, scan
from evenhand.data_contracts.suites import Rule, RuleOutcome, make_suite, needs_value, run_suite

if TYPE_CHECKING:
    import pandas as pd

MAX_EXAMPLE_LENGTH = 40
# Distinct values of a label that are counted.
MAX_LABELS = 1000
# by kind of column in an encoded matrix, the values that it may hold
_ENCODED: dict[str, dict[str, Any]] = {
    "standard": {"minimum": -1e6, "maximum": 1e6},
    "unit": {"minimum": 0, "maximum": 1},
    "onehot": {"allowed": (0, 1)},
    "binary": {"allowed": (0, 1)},
}
_ENCODING_FAULT = "values lie far from those of the training rows: correct them, or give the column bounds in the contract"


@dataclass(frozen=True, eq=False)
class CheckResult:
    """Result of checking one table."""

    success: bool  # whether the run may go on with the kept rows
    # rows in the table, and rows that may be used
    rows: int
    rows_kept: int
    # empty on a clean table. With ``on_violation: quarantine`` a success can have row violations.
    violations: tuple[Violation, ...]
    # one entry per expectation: column, expectation, success, unexpected_count, checked
    checks: list[dict[str, Any]]
    contract: dict[str, str]  # its name, version and digest
    keep: NDArray[
        np.bool_
    ]  # shape (rows,): False for rows that break a row-level expectation or are dropped
    quarantined: int = 0  # rows set aside for breaking an expectation
    dropped: int = 0  # rows dropped by ``missing_sensitive: drop``; these are no violation

    def to_json(self) -> dict[str, Any]:
        """Return everything but the row mask as plain JSON types; it holds no value of a sensitive
        column.
        """
        return {
            "success": self.success,
            "rows": self.rows,
            "rows_kept": self.rows_kept,
            "quarantined": self.quarantined,
            "dropped_missing_sensitive": self.dropped,
            "contract": self.contract,
            "violations": [violation.to_dict() for violation in self.violations],
            "checks": self.checks,
        }


def raise_for(result: CheckResult) -> None:
    """Raise :class:`ContractViolation` unless the result is a success."""
    if not result.success:
        raise ContractViolation(result.violations, result.contract["name"])


Batches = Callable[[Sequence[str] | None], Iterable[Any]]
"""Gives the batches of a table in their order, at least one: with all columns, or with some, as
often as it is called. It is first called for all columns, once; then it may give the :func:`scan`
of a batch instead of the batch.
"""


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

    The table is usually one after :func:`evenhand.data_contracts.arrow.coerce`. ``callback(done,
    total)`` counts expectations of the suite, and is never called for a table without rows. Wrong
    data raises no error, see :func:`raise_for`; CheckCrashed if a check could not be carried out.
    """
    check = _Check(table, contract.columns, contract)
    check.run(contract.min_rows, contract.max_rows, callback)
    if check.rows:
        check.check_filled()
        check.check_classes(contract)
    return check.result(contract)


def check_batch(table: pa.Table, contract: Contract) -> CheckResult:
    """Check the model inputs of an unlabelled batch.

    Label, id, ignored and sensitive columns that are no model input may be absent; their values are
    not checked. Parameters, result and errors are those of :func:`check_table`.
    """
    check = _Check(table, contract.features, contract)
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

    The table of numeric columns, whole or in batches, has the shape (n, d), and `kinds` says by
    name which kind every column has: standard, unit, onehot or binary. `rows` is the number of rows
    that it must have; by default at least one. The contract of the table that was encoded is for
    the result's header. The result has no examples; any violation fails it. ValueError on an
    unknown kind, or no columns at all; CheckCrashed if a check could not be carried out.
    """
    columns = encoded_columns(kinds)
    check = _Check(table, columns, None)
    check.run(1 if rows is None else rows, rows)
    return check.result(contract)


def encoded_columns(kinds: Mapping[str, str]) -> list[Column]:
    """Columns of an encoded matrix, see :func:`check_encoded`."""
    if not kinds:
        raise ValueError("kinds is empty: name the kind of every encoded column")
    for name, kind in kinds.items():
        if kind not in _ENCODED:
            raise ValueError(f"kinds['{name}'] is '{kind}'{did_you_mean(str(kind), _ENCODED)}")
    return [
        Column(name, "number", True, is_feature=True, **_ENCODED[kinds[name]]) for name in kinds
    ]


@dataclass
class _Tally:
    """Rows that break a rule, in all batches."""

    count: int = 0
    checked: int = 0
    examples: list[Any] = field(default_factory=list)


class _Check:
    """The checks of one table: each is noted as it is made, and all of them decide the result.

    `columns` must be there. The contract declares which other columns may be there, and decides
    about bad rows. It is None for an encoded matrix: there are no others, any violation is a
    failure, and no value is shown.
    """

    def __init__(
        self, table: pa.Table | Batches, columns: Sequence[Column], contract: Contract | None
    ) -> None:
        self.read = (
            table if callable(table) else lambda names: [table.select(names) if names else table]
        )
        self.required = columns
        self.contract = contract
        self.checks: list[dict[str, Any]] = []
        self.violations: list[Violation] = []
        self._read()
        self.names_fit = self._check_names()
        # values are checked of columns of the right type only
        self.columns = {c.name: c for c in columns if self._check_type(c)}

    def _read(self) -> None:
        """Read all batches once: rows, bad and dropped ones, and the facts of each column."""
        scans: list[Scan] = []
        for item in self.read(None):
            scans.append(
                item if isinstance(item, Scan) else scan(item, self.required, self.contract)
            )
            for name, facts in scans[-1].facts.items():
                if len(scans) > 1:
                    scans[0].facts[name].add(facts)
        self.schema = scans[0].schema
        self.facts = scans[0].facts
        self.bad = np.concatenate([part.bad for part in scans])
        self.dropped = np.concatenate([part.dropped for part in scans])
        self.rows = len(self.bad)

    def _rows_of(self, names: Sequence[str]) -> Iterator[tuple[slice, dict[str, pa.ChunkedArray]]]:
        """Columns of each batch with rows, and its place in the table."""
        start = 0
        for table in self.read(names):
            if table.num_rows:
                yield (
                    slice(start, start + table.num_rows),
                    {name: decode(table.column(name)) for name in names},
                )
            start += table.num_rows

    def _record(
        self,
        column: str | None,
        expectation: str,
        checked: int,
        *,
        count: int = 0,
        found: str = "",
        cure: str = "",
        failed: bool | None = None,
        by_row: bool = False,
        examples: tuple[str, ...] = (),
    ) -> None:
        """Record a check: it fails if ``count`` items or rows do; `by_row`: single rows that can
        go.
        """
        failed = count > 0 if failed is None else failed
        self.checks.append(
            {
                "column": column,
                "expectation": expectation,
                "success": not failed,
                "unexpected_count": count,
                "checked": checked,
            }
        )
        if failed:
            scope = "row" if by_row else "table"
            self.violations.append(
                Violation(column, expectation, count, examples, cure, scope, found)
            )

    def _check_names(self) -> bool:
        """Check the names of the columns; return whether all are there and no others."""
        names = self.schema.names
        declared = {
            column.name for column in (self.contract.columns if self.contract else self.required)
        }
        missing = [column.name for column in self.required if column.name not in names]
        extra = [name for name in dict.fromkeys(names) if name not in declared]
        twice = sorted({name for name in names if names.count(name) > 1})
        n = len(names)
        for name in twice:
            count = names.count(name)
            cure = "rename or drop all but one of them at the source"
            found = f"{count} columns of that name"
            self._record(name, "a column name once", n, count=count, found=found, cure=cure)
        if not twice:
            self._record(None, "column names that differ", n)
        for name in missing:
            cure = "add the column, or take it out of the contract"
            if close := nearest(name, extra):
                cure = f"rename column '{close}' to it"
            self._record(name, "the column to be there", n, count=1, found="none", cure=cure)
        for name in extra:
            cure = "add the column to the contract with role ignore, or drop it"
            cure = cure if self.contract else "encode the table again"
            found = "a column that the contract does not know"
            self._record(name, "only columns of the contract", n, count=1, found=found, cure=cure)
        return not missing and not extra

    def _check_type(self, column: Column) -> bool:
        """Check a column's type; return whether it is there, once, and of the right type."""
        name = column.name
        declared = column.logical_type
        if self.schema.names.count(name) != 1:
            return False
        kind = self.schema.field(name).type
        fits = name in self.facts
        self._record(
            name,
            f"type {declared}",
            self.rows,
            count=0 if fits else self.rows,
            found=f"Arrow type {kind}",
            cure=f"write the column as {declared}, or change logicalType in the contract",
            failed=not fits,
        )
        return fits

    def run(
        self,
        min_rows: int,
        max_rows: int | None,
        callback: Callable[[int, int], None] | None = None,
    ) -> None:
        """Check the number of rows and the values."""
        if not self.rows:
            self._check_row_count(min_rows, max_rows)
            return
        for column in self.columns.values():
            if column.logical_type == "number":
                self._check_finite(column)
        known = {
            "column": None,
            "expectation": "the columns of the contract",
            "success": self.names_fit,
        }
        self.checks.append({**known, "unexpected_count": 0, "checked": len(self.required)})
        self._check_row_count(min_rows, max_rows)
        if rules := make_suite(self.columns.values(), self.contract):
            for rule, tally in self._outcomes(rules, callback):
                self._note_values(rule, tally)

    def _outcomes(
        self, rules: Sequence[Rule], callback: Callable[[int, int], None] | None
    ) -> list[tuple[Rule, _Tally]]:
        """Outcomes of all rules, in their order; rows that break one are bad.

        Whether a rule holds depends on a column's distinct values only, and without a set of
        allowed values on the least, the largest and a missing one. So the suite sees these first,
        once for all columns with equal rules and types, and then all rows of the columns for which
        a rule failed.
        """
        name = self.contract.name if self.contract else "encoded"
        by_column: dict[str, list[Rule]] = {}
        for rule in rules:
            by_column.setdefault(rule.column, []).append(rule)
        alike: dict[str, list[str]] = {}
        for column, own in by_column.items():
            kind = self.facts[column].decisive.type  # type: ignore[union-attr]
            alike.setdefault(repr((kind, [(rule.kind, rule.options) for rule in own])), []).append(
                column
            )
        decisive = {
            names[0]: pc.unique(pa.chunked_array([self.facts[column].decisive for column in names]))
            for names in alike.values()
        }
        longest = max(map(len, decisive.values()))
        for column, values in decisive.items():
            again = np.minimum(np.arange(longest), len(values) - 1)
            decisive[column] = values.take(pa.array(again))
        first = [rule for column in decisive for rule in by_column[column]]
        failed = {
            outcome.rule.column
            for outcome in run_suite(_frame(decisive), first, name, callback=callback)
            if outcome.rows.size
        }
        suspects = {column for names in alike.values() if names[0] in failed for column in names}
        suspects |= {column for column in by_column if self.facts[column].nonfinite}
        # no row breaks the others
        kept = {
            r.key: self.rows - self.facts[r.column].missing * (r.kind != "not_null") for r in rules
        }
        found = {
            rule.key: _Tally(checked=0 if rule.column in suspects else kept[rule.key])
            for rule in rules
        }
        if suspects:
            asked = [rule for rule in rules if rule.column in suspects]
            for place, columns in self._rows_of(
                [column for column in by_column if column in suspects]
            ):
                for outcome in run_suite(_frame(columns), asked, name):
                    self._count(
                        outcome, columns[outcome.rule.column], place, found[outcome.rule.key]
                    )
        return [(rule, found[rule.key]) for rule in rules]

    def _count(
        self, outcome: RuleOutcome, values: pa.ChunkedArray, place: slice, tally: _Tally
    ) -> None:
        """Add the outcome of a rule on a batch."""
        mask = np.zeros(len(values), dtype=bool)
        mask[outcome.rows] = True
        mask &= ~nonfinite_mask(
            values
        )  # pandas takes NaN for missing, and both are reported already
        if outcome.rule.kind == "not_null":
            missing = null_mask(values)
            if not np.array_equal(mask, missing):
                raise CheckCrashed(
                    f"column '{outcome.rule.column}': the suite found {int(mask.sum())} missing "
                    "values where "
                    f"Arrow has {int(missing.sum())}: the two disagree"
                )
        tally.count += int(mask.sum())
        tally.checked += outcome.checked
        add_examples(tally.examples, first_examples(values, mask))
        self.bad[place] |= mask

    def _check_finite(self, column: Column) -> None:
        facts = self.facts[column.name]
        self._record(
            column.name,
            "finite numbers",
            self.rows,
            count=facts.nonfinite,
            found=(
                f"{facts.nonfinite:,} of {self.rows:,} rows with NaN or infinity, or a size above "
                f"{LARGEST:g}"
            ),
            cure="write missing numbers as empty (null) and correct the rest",
            by_row=True,
            examples=self._examples(column, facts.examples),
        )

    def _check_row_count(self, low: int, high: int | None) -> None:
        rows = self.rows
        if low <= rows and (high is None or rows <= high):
            self._record(None, "a number of rows within bounds", rows)
            return
        if high is None:
            expected = f"at least {low:,} row{'s' if low > 1 else ''}"
        else:
            expected = f"{low:,} rows" if low == high else f"{low:,} to {high:,} rows"
        cure = (
            "check that the file is whole and not empty"
            if rows < low
            else "check for duplicate rows"
        )
        cure += ", or change rowCount in the contract" if rows else ""
        count = max(low - rows, rows - (high or rows))
        self._record(None, expected, rows, count=count, found=f"{rows:,}", cure=cure)

    def _note_values(self, rule: Rule, tally: _Tally) -> None:
        kind = rule.kind
        column = self.columns[rule.column]
        count = tally.count
        expectation, found, cure = rule_texts(kind, column)
        examples = () if kind == "not_null" else self._examples(column, tally.examples)
        if examples and kind == "in_set" and column.logical_type == "string":
            close = nearest(examples[0].strip("'"), column.allowed or ())
            cure = f"did you mean '{close}'? {cure}" if close else cure
        self._record(
            column.name,
            expectation,
            tally.checked,
            count=count,
            found=f"{count:,} of {self.rows:,} rows {found}",
            cure=cure if self.contract else _ENCODING_FAULT,
            by_row=True,
            examples=examples,
        )

    def _examples(self, column: Column, found: Sequence[Any]) -> tuple[str, ...]:
        """Return distinct offending values as text; none of a sensitive or id column."""
        if not column.shows_values or self.contract is None:
            return ()
        texts = [repr(value) if isinstance(value, str) else str(value) for value in found]
        return tuple(shorten(text, MAX_EXAMPLE_LENGTH) for text in texts)

    def check_filled(self) -> None:
        """Check that every column has a value: expectations about values hold on a column without
        any.
        """
        for name, column in self.columns.items():
            if column.role in ("id", "ignore") or needs_value(column, self.contract):
                continue
            if self.facts[name].missing == self.rows:
                cure = "check the export, or give the column the role ignore in the contract"
                self._record(
                    name, "at least one value", self.rows, count=self.rows, found="none", cure=cure
                )

    def check_classes(self, contract: Contract) -> None:
        """Check that the label has two values, of which ``positive`` is one, or two classes or
        more.
        """
        label = contract.label
        if label.name not in self.columns:
            return
        # rows that will be set aside do not count; if any of them stops the run, all rows do
        kept = ~self.dropped if contract.on_violation == "stop" else self._keep()
        rows = 0
        seen = pa.chunked_array([], decode(self.schema.empty_table()[label.name]).type)
        for place, columns in self._rows_of([label.name]):
            values = columns[label.name].filter(pa.array(kept[place])).drop_null()
            rows += len(values)
            if len(seen) <= MAX_LABELS:
                seen = pa.chunked_array(
                    [pc.unique(pa.chunked_array([*seen.chunks, *values.chunks], seen.type))]
                )
        if not rows:
            return  # every row is bad already, for reasons that are reported
        distinct = seen.to_pylist() if len(seen) <= MAX_LABELS else []
        if label.allowed is not None:  # other values are reported already
            distinct = [value for value in distinct if value in label.allowed]
        elif len(distinct) > 2 or not distinct:
            found = f"{len(distinct) or f'over {MAX_LABELS:,}'} distinct values"
            cure = "list its two values under validValues, or choose another label"
            self._record(label.name, "two values", rows, count=rows, found=found, cure=cure)
            return
        found = ""
        cure = ""
        if not label.classes and label.positive not in distinct:
            found = "no row with the positive value"
            cure = "check the extract, or correct positive in the contract"
        elif len(distinct) < 2:
            found = "one class in every row" if label.classes else "the positive value in every row"
            cure = "check the extract: with one outcome only there is nothing to learn"
        count = rows if found else 0
        wanted = "two classes of the label" if label.classes else "both classes of the label"
        self._record(label.name, wanted, rows, count=count, found=found, cure=cure)

    def _keep(self) -> NDArray[np.bool_]:
        """Return the rows that pass all checks so far, shape (n,)."""
        return ~(self.bad | self.dropped)

    def result(self, contract: Contract | None) -> CheckResult:
        """Decide, by the policies of the contract that the table was checked against."""
        rows = self.rows
        policy = self.contract
        quarantined = int((self.bad & ~self.dropped).sum())
        if policy is not None and rows and not self._keep().any() and not self.violations:
            cure = "fill the sensitive columns, or set missingSensitive: own_group"
            count = int(self.dropped.sum())
            self._record(None, "at least one row left", rows, count=count, found="none", cure=cure)
        stops_at_rows = policy is None or policy.on_violation == "stop"
        if policy is not None and rows and not stops_at_rows:
            above = quarantined > policy.quarantine_share * rows + 1e-9
            self._record(
                None,
                f"at most {policy.quarantine_share:.1%} of the rows set aside",
                rows,
                count=quarantined if above else 0,
                found=f"{quarantined:,} of {rows:,} rows that break the contract",
                cure="correct the rows at their source, or raise quarantineShare in the contract",
            )
        keep = self._keep()
        header = (
            (contract.name, contract.version, contract.digest)
            if contract
            else ("encoded matrix", "", "")
        )
        return CheckResult(
            success=not any(stops_at_rows or v.scope == "table" for v in self.violations),
            rows=rows,
            rows_kept=int(keep.sum()),
            violations=tuple(self.violations),
            checks=self.checks,
            contract=dict(zip(("name", "version", "digest"), header, strict=True)),
            keep=keep,
            quarantined=quarantined,
            dropped=int(self.dropped.sum()),
        )


def _frame(columns: Mapping[str, pa.Array]) -> pd.DataFrame:
    """Return columns for the suite: integers with gaps stay integers, dates are days since 1970."""
    import pandas as pd

    def exact(kind: pa.DataType) -> pd.ArrowDtype | None:  # pandas' own integers have no gaps
        return (
            pd.ArrowDtype(kind) if pa.types.is_integer(kind) or pa.types.is_boolean(kind) else None
        )

    data = {}
    for name, values in columns.items():
        if pa.types.is_date(values.type) or pa.types.is_timestamp(values.type):
            values = values.cast(pa.date32(), safe=False).cast(pa.int32())
        data[name] = values.to_pandas(types_mapper=exact if values.null_count else None)
    return pd.DataFrame(data, copy=False)


def rule_texts(kind: str, column: Column) -> tuple[str, str, str]:
    """Return expectation, finding and cure of a rule about values, without values of the data."""
    if kind == "not_null":
        cure = "fill the values, drop the rows, or set required: false in the contract"
        if column.role == "sensitive":
            cure = "fill the values, or set missingSensitive to own_group or drop in the contract"
        elif column.role == "label":
            cure = "fill the values or drop the rows: a row without its outcome cannot be used"
        return "no missing values", "without a value", cure
    if kind == "in_set":
        cure = "correct the values, or add them to validValues in the contract"
        return f"one of {len(column.allowed or ())} allowed values", "with another value", cure
    low, high = (
        f"{bound:.15g}" if isinstance(bound, float) else str(bound)
        for bound in (column.minimum, column.maximum)
    )
    expectation = f"values from {low} to {high}"
    if column.maximum is None:
        expectation = f"values of at least {low}"
    elif column.minimum is None:
        expectation = f"values of at most {high}"
    return expectation, "outside", "correct the values, or widen logicalTypeOptions in the contract"
