"""From contract to Great Expectations suite, and a guarded run of it.

Great Expectations reports success on zero expectations and on zero rows, can leave an expectation
out of its result, and files an exception inside an expectation as a mere failure, under changing
keys. The run here raises :class:`CheckCrashed` in each of these cases.
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

from evenhand.data_contracts.errors import CheckCrashed
from evenhand.data_contracts.model import Column, Contract

if TYPE_CHECKING:
    import pandas as pd

COLUMNS_AT_A_TIME = 24
_EPOCH = dt.date(1970, 1, 1)
_EXPECTATIONS = {
    "not_null": "ExpectColumnValuesToNotBeNull",
    "in_set": "ExpectColumnValuesToBeInSet",
    "between": "ExpectColumnValuesToBeBetween",
}


@dataclass(frozen=True)
class Rule:
    """One expectation about the values of a column.

    Parameters
    ----------
    kind : {"not_null", "in_set", "between"}
    column : str
        Name of the column.
    options : mapping, default {}
        Its other arguments under Great Expectations' names, such as ``value_set`` or ``min_value``.
    """

    kind: str
    column: str
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Name of the rule within its suite."""
        return f"{self.kind}:{self.column}"


@dataclass(frozen=True, eq=False)
class RuleOutcome:
    """Result of Great Expectations for one rule.

    Parameters
    ----------
    rule : Rule
    rows : ndarray of int64
        Positions of the rows that break it.
    checked : int
        Number of values checked: without the missing ones, except for ``not_null``.
    """

    rule: Rule
    rows: NDArray[np.int64]
    checked: int


def needs_value(column: Column, contract: Contract | None) -> bool:
    """Return whether a missing value of ``column`` is a violation.

    Parameters
    ----------
    column : Column
    contract : Contract or None
        Decides about sensitive columns; None for an encoded matrix.

    Returns
    -------
    bool
    """
    if column.role == "sensitive" and contract is not None:
        return contract.missing_sensitive == "error"
    return column.required


def make_suite(columns: Iterable[Column], contract: Contract | None) -> list[Rule]:
    """Return the rules for the values of ``columns``.

    Parameters
    ----------
    columns : iterable of Column
    contract : Contract or None
        Decides about missing sensitive values; None for an encoded matrix.

    Returns
    -------
    list of Rule
    """
    rules: list[Rule] = []
    for column in columns:
        if needs_value(column, contract):
            rules.append(Rule("not_null", column.name))
        if column.allowed is not None:
            value_set = [_checked_form(value) for value in column.allowed]
            rules.append(Rule("in_set", column.name, {"value_set": value_set}))
        if column.minimum is not None or column.maximum is not None:
            bounds = {
                "min_value": _checked_form(column.minimum),
                "max_value": _checked_form(column.maximum),
            }
            rules.append(Rule("between", column.name, bounds))
    return rules


def _checked_form(value: Any) -> Any:
    """The value as the frame that is checked holds it: a date is its days since 1970-01-01."""
    if isinstance(value, dt.date):
        return (value - _EPOCH).days
    return value


def run_suite(
    frame: pd.DataFrame,
    rules: Sequence[Rule],
    name: str = "contract",
    *,
    callback: Callable[[int, int], None] | None = None,
) -> list[RuleOutcome]:
    """Validate a frame in an ephemeral context and return one outcome per rule, in the rules'
    order.

    Parameters
    ----------
    frame : pandas.DataFrame
        The values to check; its index is ignored.
    rules : sequence of Rule
        At least one, each once.
    name : str, default "contract"
        Name of the suite, for messages.
    callback : callable, default None
        Called as ``callback(done, total)``, in rules.

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
        raise CheckCrashed(
            f"suite '{name}' holds no expectation, so it would pass anything: add one"
        )
    if not len(frame):
        raise CheckCrashed(
            f"suite '{name}' was given no rows, on which every expectation about values passes"
        )
    keys = [rule.key for rule in rules]
    if len(set(keys)) < len(keys):
        raise CheckCrashed(f"suite '{name}' holds an expectation twice")
    entries = _validate(frame.reset_index(drop=True), rules, name, callback)
    by_key = {(entry.expectation_config.meta or {}).get("rule"): entry for entry in entries}
    if len(entries) != len(rules) or set(by_key) != set(keys):
        lost = sorted(set(keys) - set(by_key))
        raise CheckCrashed(
            f"suite '{name}': {len(lost)} of {len(keys)} expectations gave no result"
        )
    return [_outcome(rule, by_key[rule.key], len(frame), name) for rule in rules]


def _validate(
    frame: pd.DataFrame,
    rules: Sequence[Rule],
    name: str,
    callback: Callable[[int, int], None] | None,
) -> list[Any]:
    """Return the engine's results of all rules, validated a few columns at a time."""
    # read at import; a user may have set True
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "False")
    with warnings.catch_warnings():  # users cannot act on deprecations inside the engine
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
        result_format = {
            "result_format": "COMPLETE",
            "include_unexpected_rows": False,
            "partial_unexpected_count": 0,
        }
        results: list[Any] = []
        for part, part_rules in _parts(frame, rules):
            batch = definition.get_batch({"dataframe": part})
            expectations = [
                getattr(gx.expectations, _EXPECTATIONS[rule.kind])(
                    column=rule.column, **rule.options, meta={"rule": rule.key}
                )
                for rule in part_rules
            ]
            suite = gx.ExpectationSuite(name=name, expectations=expectations)
            results += batch.validate(suite, result_format=result_format).results
            if callback is not None:
                callback(len(results), len(rules))
    return results


def _parts(frame: pd.DataFrame, rules: Sequence[Rule]) -> Iterator[tuple[pd.DataFrame, list[Rule]]]:
    """Split a wide frame and its rules by columns.

    For every rule the engine copies all columns of the rows that it checks: with one wide frame the
    time grows with the square of the number of columns.
    """
    names = list(dict.fromkeys(rule.column for rule in rules))
    for start in range(0, len(names), COLUMNS_AT_A_TIME):
        part = names[start : start + COLUMNS_AT_A_TIME]
        part_rules = [rule for rule in rules if rule.column in part]
        yield frame[frame.columns.intersection(part)], part_rules


def _outcome(rule: Rule, entry: Any, rows: int, name: str) -> RuleOutcome:
    """Return the outcome of one rule; raise CheckCrashed if the engine's result cannot be
    trusted.
    """
    result = entry.result or {}
    index = np.asarray(result.get("unexpected_index_list") or [], dtype=np.int64)
    problem = None
    if _raised(entry.exception_info):
        problem = "raised an exception"  # the engine's message may quote values of the data
    elif result.get("element_count") != rows:
        problem = f"saw {result.get('element_count')} of {rows} rows"
    elif len(index) != result.get("unexpected_count") or bool(entry.success) != (len(index) == 0):
        problem = "contradicts itself"
    if problem is not None:
        raise CheckCrashed(
            f"suite '{name}': the check '{rule.kind}' of column '{rule.column}' {problem}"
        )
    return RuleOutcome(rule, index, rows - int(result.get("missing_count") or 0))


def _raised(info: Any) -> bool:
    """Return whether an exception is on file: flat, or (as for a missing column) in a mapping by
    metric.
    """
    if not isinstance(info, Mapping):
        return False
    return bool(info.get("raised_exception")) or any(map(_raised, info.values()))


def rule_texts(kind: str, column: Column) -> tuple[str, str, str]:
    """Return expectation, finding and cure of a rule about values, without values of the data.

    Parameters
    ----------
    kind : {"not_null", "in_set", "between"}
        Kind of the rule.
    column : Column

    Returns
    -------
    expectation, finding, cure : str
        Parts of a message.
    """
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
    low = _bound_text(column.minimum)
    high = _bound_text(column.maximum)
    if column.maximum is None:
        expectation = f"values of at least {low}"
    elif column.minimum is None:
        expectation = f"values of at most {high}"
    else:
        expectation = f"values from {low} to {high}"
    return expectation, "outside", "correct the values, or widen logicalTypeOptions in the contract"


def _bound_text(bound: Any) -> str:
    if isinstance(bound, float):
        return f"{bound:.15g}"
    return str(bound)
