"""From contract to Great Expectations suite, and a guarded run of it.

Great Expectations reports success on zero expectations and on zero rows, can leave an expectation out of
its result, and files an exception inside an expectation as a mere failure, under changing keys. The run
here turns each of these into :class:`CheckCrashed`. Types are checked on the Arrow schema instead.
"""

from __future__ import annotations

import datetime as dt
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from evenhand.data_contracts.errors import CheckCrashed, did_you_mean
from evenhand.data_contracts.model import Column, Contract

if TYPE_CHECKING:
    import pandas as pd

ENCODED_KINDS = ("standard", "unit", "onehot", "binary")
ENCODED_BOUND = 1e6
COLUMNS_AT_A_TIME = 24
_EPOCH = dt.date(1970, 1, 1)


@dataclass(frozen=True)
class Rule:
    """One expectation, in our own words.

    Attributes
    ----------
    kind : {'not_null', 'in_set', 'between', 'row_count', 'columns'}
        What is expected.
    column : str or None
        Of which column; None for the table.
    options : dict
        ``values`` (in_set, columns), ``minimum`` and ``maximum`` (between, row_count), ``exact``
        (columns).
    """

    kind: str
    column: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Name of the rule within its suite."""
        return f"{self.kind}:{self.column if self.column is not None else ''}"


@dataclass(frozen=True, eq=False)
class RuleOutcome:
    """What Great Expectations found for one rule.

    Attributes
    ----------
    rule : Rule
        The rule.
    success : bool
        Whether it holds.
    rows : ndarray of int
        Positions of the rows that break it; empty for rules about the table.
    checked : int
        Values looked at: missing ones are not, save by ``not_null``.
    """

    rule: Rule
    success: bool
    rows: NDArray[np.int64]
    checked: int


def number_of(value: Any) -> Any:
    """Return a contract's bound or value as the suite sees it: dates as days since 1970-01-01."""
    return (value - _EPOCH).days if isinstance(value, dt.date) else value


def needs_value(column: Column, contract: Contract) -> bool:
    """Tell whether a missing value of ``column`` is a violation."""
    if column.role == "sensitive":
        return contract.missing_sensitive == "error"
    return column.required


def value_rules(columns: Iterable[Column], contract: Contract) -> list[Rule]:
    """Return the rules about single values of ``columns``."""
    rules: list[Rule] = []
    for column in columns:
        if needs_value(column, contract):
            rules.append(Rule("not_null", column.name))
        if column.allowed is not None:
            rules.append(Rule("in_set", column.name, {"values": [number_of(v) for v in column.allowed]}))
        if column.minimum is not None or column.maximum is not None:
            bounds = {"minimum": number_of(column.minimum), "maximum": number_of(column.maximum)}
            rules.append(Rule("between", column.name, bounds))
    return rules


def table_suite(contract: Contract) -> list[Rule]:
    """Return the suite of a raw, labelled table."""
    return [
        Rule("columns", None, {"values": [column.name for column in contract.columns], "exact": True}),
        Rule("row_count", None, {"minimum": contract.min_rows, "maximum": contract.max_rows}),
        *value_rules(contract.columns, contract),
    ]


def batch_suite(contract: Contract) -> list[Rule]:
    """Return the suite of an unlabelled batch: the model inputs only, and at least one row."""
    return [
        Rule("columns", None, {"values": [column.name for column in contract.features], "exact": False}),
        Rule("row_count", None, {"minimum": 1, "maximum": None}),
        *value_rules(contract.features, contract),
    ]


def encoded_suite(kinds: Mapping[str, str], rows: int | None = None) -> list[Rule]:
    """Return the suite of an encoded matrix.

    Parameters
    ----------
    kinds : mapping of str to {'standard', 'unit', 'onehot', 'binary'}
        Kind of every column.
    rows : int, optional
        Number of rows that the matrix must have; default at least one.
    """
    rules = [
        Rule("columns", None, {"values": list(kinds), "exact": True}),
        Rule("row_count", None, {"minimum": 1 if rows is None else rows, "maximum": rows}),
    ]
    for name, kind in kinds.items():
        if kind not in ENCODED_KINDS:
            raise ValueError(f"kinds['{name}'] is '{kind}'{did_you_mean(str(kind), ENCODED_KINDS)}")
        rules.append(Rule("not_null", name))
        if kind == "standard":
            rules.append(Rule("between", name, {"minimum": -ENCODED_BOUND, "maximum": ENCODED_BOUND}))
        elif kind == "unit":
            rules.append(Rule("between", name, {"minimum": 0, "maximum": 1}))
        else:
            rules.append(Rule("in_set", name, {"values": [0, 1]}))
    return rules


def run_suite(
    frame: pd.DataFrame,
    rules: Sequence[Rule],
    name: str = "contract",
    *,
    callback: Callable[[int, int], None] | None = None,
) -> list[RuleOutcome]:
    """Validate a frame in an ephemeral context and return one outcome per rule, in the rules' order.

    Parameters
    ----------
    frame : pandas.DataFrame
        With a row index 0, 1, 2, ...
    rules : sequence of Rule
        At least one.
    name : str
        Of the suite.
    callback : callable, optional
        ``callback(done, total)``, in rules.

    Returns
    -------
    list of RuleOutcome

    Raises
    ------
    CheckCrashed
        On an empty suite, an empty frame, an expectation missing from the result, or an exception
        inside one.
    """
    if not rules:
        raise CheckCrashed(f"suite '{name}' holds no expectation, so it would pass anything: add one")
    if not len(frame):
        raise CheckCrashed(
            f"suite '{name}' was given no rows, on which every expectation about values passes"
        )
    keys = [rule.key for rule in rules]
    if len(set(keys)) < len(keys):
        raise CheckCrashed(f"suite '{name}' holds an expectation twice")
    frame = frame.reset_index(drop=True)
    by_key = {}
    for entry in _validate(frame, rules, name, callback):
        meta = entry.expectation_config.meta or {}
        by_key[meta.get("rule")] = entry
    if set(by_key) != set(keys):
        lost = sorted(set(keys) - set(by_key))
        raise CheckCrashed(f"suite '{name}': {len(lost)} of {len(keys)} expectations gave no result")
    return [_outcome(rule, by_key[rule.key], len(frame), name) for rule in rules]


def _validate(
    frame: pd.DataFrame, rules: Sequence[Rule], name: str, callback: Callable[[int, int], None] | None
) -> list[Any]:
    """Results of all rules, a few columns at a time."""
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "False")  # read at import; a user may have said True
    with warnings.catch_warnings():  # deprecations inside the engine are not the user's to mend
        warnings.simplefilter("ignore")
        import great_expectations as gx
        from great_expectations.data_context.types.base import (
            DataContextConfig,
            InMemoryStoreBackendDefaults,
            ProgressBarsConfig,
        )

        config = DataContextConfig(  # in memory only: no folder for documentation pages
            store_backend_defaults=InMemoryStoreBackendDefaults(init_temp_docs_sites=False),
            progress_bars=ProgressBarsConfig(globally=False, metric_calculations=False),
        )
        context = gx.get_context(mode="ephemeral", project_config=config)
        source = context.data_sources.add_pandas("memory")
        definition = source.add_dataframe_asset("table").add_batch_definition_whole_dataframe("all")
        results: list[Any] = []
        for part, asked in _parts(frame, rules):
            batch = definition.get_batch({"dataframe": part})
            suite = gx.ExpectationSuite(name=name, expectations=[_expectation(rule) for rule in asked])
            results += batch.validate(
                suite,
                result_format={
                    "result_format": "COMPLETE",
                    "include_unexpected_rows": False,
                    "partial_unexpected_count": 0,
                },
            ).results
            if callback is not None:
                callback(len(results), len(rules))
    if len(results) != len(rules):
        raise CheckCrashed(f"suite '{name}': {len(results)} results for {len(rules)} expectations")
    return results


def _parts(frame: pd.DataFrame, rules: Sequence[Rule]) -> Iterator[tuple[pd.DataFrame, list[Rule]]]:
    """
    Rules with the columns that they are about; those of the table come first, with all columns.

    For every rule the engine copies all columns of the rows that it looks at: with one wide frame the time
    grows with the square of the number of columns.
    """
    by_column: dict[str, list[Rule]] = {}
    for rule in rules:
        if rule.column is not None:
            by_column.setdefault(rule.column, []).append(rule)
    names = list(by_column)
    if len(names) <= COLUMNS_AT_A_TIME or not set(names) <= set(frame.columns):
        yield frame, list(rules)
        return
    of_table = [rule for rule in rules if rule.column is None]
    if of_table:
        yield frame, of_table
    for start in range(0, len(names), COLUMNS_AT_A_TIME):
        some = names[start : start + COLUMNS_AT_A_TIME]
        yield frame[some], [rule for name in some for rule in by_column[name]]


def _expectation(rule: Rule) -> Any:
    import great_expectations.expectations as gxe

    meta = {"rule": rule.key}
    options = rule.options
    if rule.kind == "not_null":
        return gxe.ExpectColumnValuesToNotBeNull(column=rule.column, meta=meta)
    if rule.kind == "in_set":
        return gxe.ExpectColumnValuesToBeInSet(
            column=rule.column, value_set=list(options["values"]), meta=meta
        )
    if rule.kind == "between":
        return gxe.ExpectColumnValuesToBeBetween(
            column=rule.column, min_value=options["minimum"], max_value=options["maximum"], meta=meta
        )
    if rule.kind == "row_count":
        return gxe.ExpectTableRowCountToBeBetween(
            min_value=options["minimum"], max_value=options["maximum"], meta=meta
        )
    if rule.kind == "columns":
        return gxe.ExpectTableColumnsToMatchSet(
            column_set=list(options["values"]), exact_match=options["exact"], meta=meta
        )
    raise CheckCrashed(f"no expectation is known for rule kind '{rule.kind}'")


def _outcome(rule: Rule, entry: Any, rows: int, name: str) -> RuleOutcome:
    if _raised(entry.exception_info):
        # the engine's message may quote values of the data, so it is not passed on
        raise CheckCrashed(
            f"suite '{name}': the check '{rule.kind}' of column '{rule.column}' raised an exception"
        )
    found = entry.result or {}
    if rule.kind in ("row_count", "columns"):
        if "observed_value" not in found:
            raise CheckCrashed(f"suite '{name}': the check '{rule.kind}' of the table observed nothing")
        return RuleOutcome(rule, bool(entry.success), np.empty(0, dtype=np.int64), rows)
    if found.get("element_count") != rows:
        raise CheckCrashed(
            f"suite '{name}': the check '{rule.kind}' of column '{rule.column}' saw "
            f"{found.get('element_count')} of {rows} rows"
        )
    index = np.asarray(found.get("unexpected_index_list") or [], dtype=np.int64)
    if len(index) != found.get("unexpected_count") or bool(entry.success) != (len(index) == 0):
        raise CheckCrashed(
            f"suite '{name}': the check '{rule.kind}' of column '{rule.column}' contradicts itself"
        )
    return RuleOutcome(rule, bool(entry.success), index, rows - int(found.get("missing_count") or 0))


def _raised(info: Any) -> bool:
    """Whether an exception is filed: flat, or (as for a missing column) keyed by metric."""
    if not isinstance(info, Mapping):
        return False
    if info.get("raised_exception"):
        return True
    return any(isinstance(value, Mapping) and value.get("raised_exception") for value in info.values())
