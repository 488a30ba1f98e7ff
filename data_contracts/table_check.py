"""The checks of one table, each noted as it is made, and the result that they decide."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from evenhand.data_contracts.arrow import LARGEST, decode, nonfinite_mask, null_mask, reaches
from evenhand.data_contracts.errors import RENAMED, CheckCrashed, Violation, nearest, shorten
from evenhand.data_contracts.model import Column, Contract
from evenhand.data_contracts.scanning import Scan, add_examples, first_examples, scan
from evenhand.data_contracts.suites import (
    Rule,
    RuleOutcome,
    make_suite,
    needs_value,
    rule_texts,
    run_suite,
)

if TYPE_CHECKING:
    import pandas as pd

MAX_EXAMPLE_LENGTH = 40
# Distinct values of a label that are counted.
MAX_LABELS = 1000
_ENCODING_FAULT = (
    "values lie far from those of the training rows: correct them, or give the column bounds in "
    "the contract"
)


@dataclass(frozen=True, eq=False)
class CheckResult:
    """Result of checking one table.

    Parameters
    ----------
    success : bool
        Whether the run may go on with the kept rows.
    rows : int
        Number of rows in the table.
    rows_kept : int
        Number of rows that may be used.
    violations : tuple of Violation
        Empty on a clean table. With ``on_violation: quarantine`` a success can have row violations.
    checks : list of dict
        One entry per expectation: column, expectation, success, unexpected_count, checked.
    contract : dict of str
        Its name, version and digest.
    keep : ndarray of bool, shape (rows,)
        False for rows that break a row-level expectation or are dropped.
    quarantined : int, default 0
        Number of rows set aside for breaking an expectation.
    dropped : int, default 0
        Number of rows dropped by ``missing_sensitive: drop``; these are no violation.
    """

    success: bool
    rows: int
    rows_kept: int
    violations: tuple[Violation, ...]
    checks: list[dict[str, Any]]
    contract: dict[str, str]
    keep: NDArray[np.bool_]
    quarantined: int = 0
    dropped: int = 0

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


Batches = Callable[[Sequence[str] | None], Iterable[Any]]
"""Gives the batches of a table in their order, at least one: with all columns, or with some, as
often as it is called. It is first called for all columns, once; then it may give the :func:`scan`
of a batch instead of the batch.
"""


@dataclass
class _Tally:
    """Rows that break a rule, in all batches."""

    count: int = 0
    checked: int = 0
    examples: list[Any] = field(default_factory=list)


class TableCheck:
    """The checks of one table: each is noted as it is made, and all of them decide the result.

    `columns` must be there. The contract declares which other columns may be there, and decides
    about bad rows. It is None for an encoded matrix: there are no others, any violation is a
    failure, and no value is shown.
    """

    def __init__(
        self, table: pa.Table | Batches, columns: Sequence[Column], contract: Contract | None
    ) -> None:
        self.read: Batches = table if callable(table) else partial(_one_batch, table)
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
        for batch in self.read(None):
            is_scanned = isinstance(batch, Scan)
            part = batch if is_scanned else scan(batch, self.required, self.contract)
            scans.append(part)
            if len(scans) > 1:
                for name, facts in part.facts.items():
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
                place = slice(start, start + table.num_rows)
                yield place, {name: decode(table.column(name)) for name in names}
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
        if failed is None:
            failed = count > 0
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
        described = self.contract.columns if self.contract else self.required
        declared = {column.name for column in described}
        missing = [column.name for column in self.required if column.name not in names]
        extra = [name for name in dict.fromkeys(names) if name not in declared]
        self._check_repeated_names(names)
        for name in missing:
            cure = "add the column, or take it out of the contract"
            close = nearest(name, extra, likeness=RENAMED)
            if close:
                cure = f"rename column '{close}' to it"
            self._record(
                name, "the column to be there", len(names), count=1, found="none", cure=cure
            )
        cure = "encode the table again"
        if self.contract:
            cure = "add the column to the contract with role ignore, or drop it"
        for name in extra:
            self._record(
                name,
                "only columns of the contract",
                len(names),
                count=1,
                found="a column that the contract does not know",
                cure=cure,
            )
        return not missing and not extra

    def _check_repeated_names(self, names: Sequence[str]) -> None:
        repeated = sorted({name for name in names if names.count(name) > 1})
        if not repeated:
            self._record(None, "column names that differ", len(names))
        for name in repeated:
            count = names.count(name)
            self._record(
                name,
                "a column name once",
                len(names),
                count=count,
                found=f"{count} columns of that name",
                cure="rename or drop all but one of them at the source",
            )

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
        """Check the number of rows and the values.

        Parameters
        ----------
        min_rows : int
            Smallest number of rows.
        max_rows : int or None
            Largest number of rows; None for no bound.
        callback : callable, default None
            Called as ``callback(done, total)``, in rules.
        """
        if not self.rows:
            self._check_row_count(min_rows, max_rows)
            return
        for column in self.columns.values():
            if column.logical_type == "number":
                self._check_finite(column)
        self.checks.append(
            {
                "column": None,
                "expectation": "the columns of the contract",
                "success": self.names_fit,
                "unexpected_count": 0,
                "checked": len(self.required),
            }
        )
        self._check_row_count(min_rows, max_rows)
        rules = make_suite(self.columns.values(), self.contract)
        if rules:
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
        suite_name = self.contract.name if self.contract else "encoded"
        by_column: dict[str, list[Rule]] = {}
        for rule in rules:
            by_column.setdefault(rule.column, []).append(rule)
        suspects = self._suspects(by_column, suite_name, callback)
        tallies = {}
        for rule in rules:
            tally = _Tally()
            # no row breaks the rules of the other columns
            if rule.column not in suspects:
                tally.checked = self.rows
                if rule.kind != "not_null":
                    tally.checked -= self.facts[rule.column].missing
            tallies[rule.key] = tally
        if suspects:
            suspect_rules = [rule for rule in rules if rule.column in suspects]
            suspect_names = [column for column in by_column if column in suspects]
            for place, columns in self._rows_of(suspect_names):
                for outcome in run_suite(_frame(columns), suspect_rules, suite_name):
                    rule = outcome.rule
                    self._count(outcome, columns[rule.column], place, tallies[rule.key])
        return [(rule, tallies[rule.key]) for rule in rules]

    def _suspects(
        self,
        by_column: Mapping[str, list[Rule]],
        suite_name: str,
        callback: Callable[[int, int], None] | None,
    ) -> set[str]:
        """Columns of which all rows have to be checked, by a check of their decisive values."""
        alike = self._columns_alike(by_column)
        decisive = {names[0]: self._decisive_values(names) for names in alike}
        # the columns of one frame are equally long: the last value is repeated
        longest = max(map(len, decisive.values()))
        for column, values in decisive.items():
            places = np.minimum(np.arange(longest), len(values) - 1)
            decisive[column] = values.take(pa.array(places))
        first_rules = [rule for column in decisive for rule in by_column[column]]
        outcomes = run_suite(_frame(decisive), first_rules, suite_name, callback=callback)
        failed = {outcome.rule.column for outcome in outcomes if outcome.rows.size}
        suspects = {column for column in by_column if self.facts[column].nonfinite}
        for names in alike:
            if names[0] in failed:
                suspects.update(names)
        return suspects

    def _columns_alike(self, by_column: Mapping[str, list[Rule]]) -> list[list[str]]:
        """Names of columns with rules, those with equal rules and types in one list."""
        alike: dict[str, list[str]] = {}
        for column, rules in by_column.items():
            kind = self._decisive_of(column).type
            options = [(rule.kind, rule.options) for rule in rules]
            alike.setdefault(repr((kind, options)), []).append(column)
        return list(alike.values())

    def _decisive_values(self, names: Sequence[str]) -> pa.Array:
        """Distinct values of columns that decide whether their rules hold."""
        return pc.unique(pa.chunked_array([self._decisive_of(column) for column in names]))

    def _decisive_of(self, column: str) -> pa.Array:
        decisive = self.facts[column].decisive
        assert decisive is not None  # a table with rows has values that decide
        return decisive

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
                    f"values where Arrow has {int(missing.sum())}: the two disagree"
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
        elif low == high:
            expected = f"{low:,} rows"
        else:
            expected = f"{low:,} to {high:,} rows"
        cure = "check for duplicate rows"
        if rows < low:
            cure = "check that the file is whole and not empty"
        if rows:
            cure += ", or change rowCount in the contract"
        count = max(low - rows, rows - (high or rows))
        self._record(None, expected, rows, count=count, found=f"{rows:,}", cure=cure)

    def _note_values(self, rule: Rule, tally: _Tally) -> None:
        kind = rule.kind
        column = self.columns[rule.column]
        count = tally.count
        expectation, finding, cure = rule_texts(kind, column)
        examples = () if kind == "not_null" else self._examples(column, tally.examples)
        if examples and kind == "in_set" and column.logical_type == "string":
            close = nearest(examples[0].strip("'"), column.allowed or ())
            if close:
                cure = f"did you mean '{close}'? {cure}"
        self._record(
            column.name,
            expectation,
            tally.checked,
            count=count,
            found=f"{count:,} of {self.rows:,} rows {finding}",
            cure=cure if self.contract else _ENCODING_FAULT,
            by_row=True,
            examples=examples,
        )

    def _examples(self, column: Column, values: Sequence[Any]) -> tuple[str, ...]:
        """Return distinct offending values as text; none of a sensitive or id column."""
        if not column.shows_values or self.contract is None:
            return ()
        texts = []
        for value in values:
            text = repr(value) if isinstance(value, str) else str(value)
            texts.append(shorten(text, MAX_EXAMPLE_LENGTH))
        return tuple(texts)

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

        Parameters
        ----------
        contract : Contract
            The contract that has the label.
        """
        label = contract.label
        if label.name not in self.columns:
            return
        rows, distinct = self._distinct_labels(label, contract)
        if not rows:
            return  # every row is bad already, for reasons that are reported
        if label.allowed is not None:  # other values are reported already
            distinct = [value for value in distinct if value in label.allowed]
        elif len(distinct) > 2 or not distinct:
            number = str(len(distinct)) if distinct else f"over {MAX_LABELS:,}"
            finding = f"{number} distinct values"
            cure = "list its two values under validValues, or choose another label"
            self._record(label.name, "two values", rows, count=rows, found=finding, cure=cure)
            return
        finding = ""
        cure = ""
        if label.at_least is not None and True not in distinct:
            finding = f"no number of {label.outcome.positive}"
            cure = "check the extract, or correct atLeast in the contract"
        elif label.at_least is None and not label.classes and label.positive not in distinct:
            finding = "no row with the positive value"
            cure = "check the extract, or correct positive in the contract"
        elif len(distinct) < 2:
            finding = "the positive value in every row"
            if label.classes:
                finding = "one class in every row"
            cure = "check the extract: with one outcome only there is nothing to learn"
        count = rows if finding else 0
        expectation = "both classes of the label"
        if label.classes:
            expectation = "two classes of the label"
        self._record(label.name, expectation, rows, count=count, found=finding, cure=cure)

    def _distinct_labels(self, label: Column, contract: Contract) -> tuple[int, list[Any]]:
        """Number of usable rows, and the label's distinct values; none if these are too many."""
        # rows that will be set aside do not count; if any of them stops the run, all rows do
        usable = ~self.dropped if contract.on_violation == "stop" else self._keep()
        rows = 0
        kind = decode(self.schema.empty_table()[label.name]).type
        if label.at_least is not None:
            kind = pa.bool_()
        distinct = pa.chunked_array([], kind)
        for place, columns in self._rows_of([label.name]):
            values = columns[label.name].filter(pa.array(usable[place])).drop_null()
            if label.at_least is not None:
                values = reaches(values, label.at_least).drop_null()
            rows += len(values)
            if len(distinct) <= MAX_LABELS:
                merged = pa.chunked_array([*distinct.chunks, *values.chunks], distinct.type)
                distinct = pa.chunked_array([pc.unique(merged)])
        if len(distinct) > MAX_LABELS:
            return rows, []
        return rows, distinct.to_pylist()

    def _keep(self) -> NDArray[np.bool_]:
        """Return the rows that pass all checks so far, shape (n,)."""
        return ~(self.bad | self.dropped)

    def result(self, contract: Contract | None) -> CheckResult:
        """Decide, by the policies of the contract that the table was checked against.

        Parameters
        ----------
        contract : Contract or None
            For the result's header; None for an encoded matrix without one.

        Returns
        -------
        CheckResult
        """
        rows = self.rows
        policy = self.contract
        quarantined = int((self.bad & ~self.dropped).sum())
        if policy is not None and rows and not self._keep().any() and not self.violations:
            cure = "fill the sensitive columns, or set missingSensitive: own_group"
            count = int(self.dropped.sum())
            self._record(None, "at least one row left", rows, count=count, found="none", cure=cure)
        stops_at_rows = policy is None or policy.on_violation == "stop"
        if policy is not None and rows and not stops_at_rows:
            self._check_quarantine(quarantined, policy)
        keep = self._keep()
        header = {"name": "encoded matrix", "version": "", "digest": ""}
        if contract is not None:
            header = {
                "name": contract.name,
                "version": contract.version,
                "digest": contract.digest,
            }
        is_stopped = any(stops_at_rows or item.scope == "table" for item in self.violations)
        return CheckResult(
            success=not is_stopped,
            rows=rows,
            rows_kept=int(keep.sum()),
            violations=tuple(self.violations),
            checks=self.checks,
            contract=header,
            keep=keep,
            quarantined=quarantined,
            dropped=int(self.dropped.sum()),
        )

    def _check_quarantine(self, quarantined: int, policy: Contract) -> None:
        """Check that the rows set aside are not too many."""
        rows = self.rows
        is_above = quarantined > policy.quarantine_share * rows + 1e-9
        self._record(
            None,
            f"at most {policy.quarantine_share:.1%} of the rows set aside",
            rows,
            count=quarantined if is_above else 0,
            found=f"{quarantined:,} of {rows:,} rows that break the contract",
            cure="correct the rows at their source, or raise quarantineShare in the contract",
        )


def _frame(columns: Mapping[str, pa.Array]) -> pd.DataFrame:
    """Return columns for the suite: integers with gaps stay integers, dates are days since 1970."""
    import pandas as pd

    data = {}
    for name, values in columns.items():
        if pa.types.is_date(values.type) or pa.types.is_timestamp(values.type):
            values = values.cast(pa.date32(), safe=False).cast(pa.int32())
        mapper = _exact_type if values.null_count else None
        data[name] = values.to_pandas(types_mapper=mapper)
    return pd.DataFrame(data, copy=False)


def _exact_type(kind: pa.DataType) -> pd.ArrowDtype | None:
    """Type of pandas that keeps integers and booleans with gaps; None for other types."""
    import pandas as pd

    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return pd.ArrowDtype(kind)
    return None


def _one_batch(table: pa.Table, names: Sequence[str] | None) -> list[pa.Table]:
    """The table as its only batch, with all columns or with some."""
    return [table.select(names) if names else table]
