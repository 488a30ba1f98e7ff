"""What a policy pins of a measurement: settings, judged columns, the favourable outcome, copies of
people, kept share of rows, sizes of groups, the measure of overlap, and the version of the code.

The author of a job chooses these for the job's own evaluation. Under a policy the author's choices
count for nothing: a policy that does not say has the defaults below.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from evenhand.data_contracts.arrow import MISSING_GROUP, coerce, group_labels
from evenhand.data_contracts.column import Column
from evenhand.data_contracts.favourable import describe_outcome
from evenhand.data_contracts.model import Contract
from evenhand.fairlib.outcome_words import outcome_in_words
from evenhand.tasks.execution.fingerprint import library_versions
from evenhand.tasks.registry.row_digests import BITS, KEYED
from evenhand.tasks.written_input import as_number, parse_yaml

# Defaults of a job's section `evaluate` and of its seed.
SETTINGS: dict[str, Any] = {
    "level": 0.95,
    "draws": 1000,
    "min_cell": 5,
    "intersections": False,
    "seed": 0,
}
# Smallest share of the rows, and of each group's rows, that must have been measured.
MIN_KEPT = 0.95
# The measure of an evaluation's overlap with the training rows: that of `row_overlap`.
OVERLAP_METHOD = KEYED
# Largest share of copied rows that may go unnoticed.
MAX_UNNOTICED = 0.1
# Parts of a column that do not change who is measured, or what as.
NOT_JUDGED = (
    "name",
    "description",
    "unit",
    "value_names",
    "changeable",
    "adverse_reason",
    "role",
    "required",
    "is_feature",
    "encoding",
)
OLDER = (
    "the policy of {name} was set by an older version: it is read with {settings} and at least "
    "{kept:.0%} of "
    "the rows of each group, and pins no contract; `evenhand policy set` pins them"
)
OLDER_TERMS = (
    "the policy of {name} was set by an older version: it is read with the overlap method "
    "{overlap} and a named version of the evaluating code; `evenhand policy set` pins them"
)


@dataclass(frozen=True)
class Terms:
    """The terms of a policy: how and on whom a version must have been measured."""

    settings: Mapping[str, Any]  # the keys of `SETTINGS`
    min_kept: float
    judged: Mapping[str, Any] | None  # as of `judged_columns`; None if no contract is pinned
    copies: Mapping[str, Any] = field(default_factory=dict)  # as of `judged_copies`
    older: bool = False  # set by a version that pinned none of these
    favourable: Mapping[str, Any] | None = None  # as of `favourable_outcome`
    # smallest size of each named group, by attribute and group
    group_sizes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    # a policy that pins none takes that of models by older versions too
    overlap_methods: tuple[str, ...] = (OVERLAP_METHOD,)
    # largest share of copied rows that may go unnoticed; None if the policy does not say
    max_unnoticed: float | None = None
    # lowest version of the evaluating code; empty for any that its evaluation names
    min_version: str = ""

    def overrides(self) -> list[str]:
        """Return the settings as ``KEY=VALUE`` strings of an evaluation."""
        texts = []
        for key, value in self.settings.items():
            text = str(value).lower() if isinstance(value, bool) else str(value)
            texts.append(f"seed={text}" if key == "seed" else f"evaluate.{key}={text}")
        return texts

    def described(self) -> str:
        """Describe the settings in a few words."""
        settings = self.settings
        crossed = "with" if settings["intersections"] else "without"
        return (
            f"level {settings['level']:g}, {settings['draws']} draws, groups of "
            f"{settings['min_cell']} people or more, {crossed} intersections, seed "
            f"{settings['seed']}"
        )


def terms_of(policy: Mapping[str, Any]) -> Terms:
    """Read the terms of a policy; one of an older version gets the defaults."""
    settings = dict(SETTINGS)
    settings["intersections"] = names_intersections(policy)
    pinned = policy.get("measure")
    if pinned is None:
        settings |= _settings_in(policy.get("holdout") or {})
    else:
        settings |= {key: pinned[key] for key in SETTINGS if key in pinned}
    return Terms(
        settings=settings,
        min_kept=float(policy.get("min_kept", MIN_KEPT)),
        judged=policy.get("judged"),
        copies=policy.get("copies") or {},
        older=pinned is None or "min_version" not in policy,
        favourable=policy.get("favourable"),
        group_sizes=policy.get("group_sizes") or {},
        overlap_methods=_overlap_methods(policy),
        max_unnoticed=policy.get("max_unnoticed"),
        min_version=policy.get("min_version", ""),
    )


def _overlap_methods(policy: Mapping[str, Any]) -> tuple[str, ...]:
    pinned = policy.get("overlap_method")
    if pinned is None:
        return (KEYED, BITS)
    return (str(pinned),)


def older_policy(name: str, policy: Mapping[str, Any]) -> str:
    """Say in one line by which defaults an older policy is read."""
    terms = terms_of(policy)
    if policy.get("measure") is None:
        return OLDER.format(name=name, settings=terms.described(), kept=terms.min_kept)
    return OLDER_TERMS.format(name=name, overlap=" or ".join(terms.overlap_methods))


def evaluating_version() -> str:
    """Return the version of the installed package, which an evaluation records."""
    return library_versions(("evenhand",)).get("evenhand", "unknown")


def favourable_outcome(contract: Contract) -> dict[str, Any] | None:
    """Return which outcome of the label counts as favourable; None for more than two labels."""
    if contract.label.classes:
        return None
    outcome = describe_outcome(contract.label)
    return {key: outcome[key] for key in ("column", "code", "favourable", "adverse")}


def digest_of_judged(judged: Mapping[str, Any] | None) -> str | None:
    """Return the sha256 of what :func:`judged_columns` returns, for people who compare it."""
    if judged is None:
        return None
    return hashlib.sha256(json.dumps(judged, sort_keys=True, default=str).encode()).hexdigest()


def is_older_than(version: str, lowest: str) -> bool:
    """Whether a version of the package, such as 0.10.1, comes before another.

    Examples
    --------
    >>> is_older_than("0.9.2", "0.10.0")
    True
    >>> is_older_than("0.10", "0.10.0")
    False
    """
    return _numbers_in(version) < _numbers_in(lowest)


def _numbers_in(version: str) -> list[int]:
    leading = re.match(r"\d+(\.\d+)*", version)
    numbers = []
    if leading is not None:
        numbers = [int(part) for part in leading[0].split(".")]
    return [*numbers, 0, 0, 0][: max(3, len(numbers))]


def names_intersections(policy: Mapping[str, Any]) -> bool:
    """Whether a gate or a required metric is one of intersections of attributes."""
    metrics = [*(policy.get("gates") or {}), *(policy.get("required") or ())]
    return any("&" in metric for metric in metrics)


def _settings_in(holdout: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that an older policy has among the options of its holdout."""
    settings = {}
    for override in holdout.get("overrides") or ():
        key, _, text = override.partition("=")
        name = key.removeprefix("evaluate.")
        if name in SETTINGS:
            settings[name] = as_number(parse_yaml(text, f"--set {key}"))
    return settings


def judged_columns(contract: Contract) -> dict[str, Any]:
    """Return what a contract says of the label and the sensitive columns, in JSON types."""
    sensitive = {}
    for column in sorted(contract.sensitive, key=lambda column: column.name):
        # as a model input it may also have a value that becomes 1
        sensitive[column.name] = {**_judged(column), "positive": None}
    return {
        "label": {"name": contract.label.name, **_judged(contract.label)},
        "sensitive": sensitive,
        "missing_sensitive": contract.missing_sensitive,
    }


def _judged(column: Column) -> dict[str, Any]:
    content = {key: value for key, value in column.to_dict().items() if key not in NOT_JUDGED}
    # a column without such words lacks the key
    content["missing"] = sorted(map(repr, column.missing or ()))
    return content


def judged_copies(metrics: Sequence[str], evaluate: Mapping[str, Any]) -> dict[str, Any]:
    """Return the copies of people, and the terms, that metrics such as ``consistency.NAME`` are
    about.
    """
    defined = {**evaluate.get("counterfactuals", {}), **evaluate.get("terms", {})}
    defined |= dict.fromkeys(evaluate.get("adapted", ()), "adapted")
    return {
        name: definition
        for name, definition in defined.items()
        if any(metric.partition(".")[2] == name for metric in metrics)
    }


def kept_shares(
    raw: pa.Table, checked: pa.Table, contract: Contract, min_cell: int
) -> dict[str, Any]:
    """Return the share of a table's rows that was measured, and the smallest of a group of
    `min_cell` people.

    Groups are those of the sensitive columns before any row was set aside, without people whose
    value is missing by the contract.
    """
    table = coerce(raw.select(_columns_of(raw, contract)), contract)
    rows = table.num_rows
    shares = {"rows": checked.num_rows / rows if rows else 0.0}
    least = 1.0
    group_of_least = None
    for column in contract.sensitive:
        before = _counts(table, column)
        after = _counts(checked, column)
        for group, count in before.items():
            share = after.get(group, 0) / count
            if group != MISSING_GROUP and count >= min_cell and share < least:
                least = share
                group_of_least = f"{column.name} = {group}"
    return {**shares, "least": least, "group": group_of_least}


def _columns_of(table: pa.Table, contract: Contract) -> list[str]:
    sensitive = {column.name for column in contract.sensitive}
    return [name for name in table.column_names if name in sensitive]


def group_sizes(
    checked: pa.Table, contract: Contract, least_sizes: Mapping[str, Mapping[str, int]]
) -> dict[str, dict[str, int]]:
    """Count the measured rows of the groups that a policy names, by attribute and group."""
    sizes: dict[str, dict[str, int]] = {}
    for column in contract.sensitive:
        if column.name not in least_sizes:
            continue
        counts = _counts(checked, column)
        sizes[column.name] = {group: counts.get(group, 0) for group in least_sizes[column.name]}
    return sizes


def _counts(table: pa.Table, column: Column) -> dict[str, int]:
    groups, counts = np.unique(
        group_labels(table[column.name], column).astype(str), return_counts=True
    )
    return dict(zip(groups.tolist(), counts.tolist(), strict=True))


def measured_otherwise(terms: Terms, evaluation: Mapping[str, Any]) -> str | None:
    """Say why an evaluation was not measured by a policy's settings; None if it was.

    The run that trained a model has a seed of its own, and may have measured more strictly.
    """
    settings = evaluation.get("settings") or {}
    missing_keys = [key for key in SETTINGS if key not in settings]
    if missing_keys:
        return f"its record does not say with which {missing_keys[0]} it was measured"
    trained = evaluation.get("kind") == "run"
    for key, pinned in terms.settings.items():
        value = settings[key]
        if trained and (key == "seed" or _as_strict(key, value, pinned)):
            continue
        if value != pinned:
            return (
                f"it was measured with {key} {_plain(value)}, and the policy pins {_plain(pinned)}"
            )
    return _by_other_code(terms, evaluation)


def _by_other_code(terms: Terms, evaluation: Mapping[str, Any]) -> str | None:
    """Say why an evaluation is not by code that a policy accepts; None if it is."""
    version = evaluation.get("evenhand")
    if not isinstance(version, str):
        return "its record does not say which version of evenhand measured it"
    if is_older_than(version, terms.min_version):
        return (
            f"evenhand {version} measured it, and the policy pins min_version {terms.min_version}"
        )
    method = evaluation.get("overlap_method")
    if evaluation.get("overlap") is not None and method not in terms.overlap_methods:
        pinned = " or ".join(terms.overlap_methods)
        return (
            f"its overlap_method is {method or 'not recorded'}, and the policy pins {pinned}: an "
            "older version published it, so publish it again"
        )
    return None


def _plain(value: Any) -> str:
    return str(value).lower()


def _as_strict(key: str, value: Any, pinned: Any) -> bool:
    """Whether a setting makes a gate no easier to pass than the pinned one."""
    return bool(value <= pinned) if key == "min_cell" else bool(value >= pinned)


def judged_otherwise(terms: Terms, evaluation: Mapping[str, Any]) -> str | None:
    """Say why an evaluation judged other people, or as something else, than a policy pins."""
    judged = evaluation.get("judged")
    if judged is None:
        return "its evaluation does not say by which contract people were judged"
    difference = _first_difference(terms.judged, judged) or _other_outcome(terms, evaluation)
    if difference is not None:
        return difference
    copies = evaluation.get("copies") or {}
    for name, definition in terms.copies.items():
        if copies.get(name) != definition:
            return (
                f"its evaluation changed other values of people for {name!r} than the policy pins"
            )
    return _kept_too_few(terms.min_kept, evaluation.get("kept") or {}) or _too_small(
        terms.group_sizes, evaluation.get("sizes") or {}
    )


def _other_outcome(terms: Terms, evaluation: Mapping[str, Any]) -> str | None:
    """Say that another outcome counted as favourable than a policy pins; None if not."""
    pinned = terms.favourable
    if pinned is None or evaluation.get("favourable") == pinned:
        return None
    favourable = outcome_in_words(pinned["column"], pinned["favourable"])
    if pinned["favourable"] is None:
        favourable = f"any value of {pinned['column']} but {pinned['adverse']}"
    return f"another outcome counts as favourable in it than the policy pins ({favourable})"


def _too_small(
    least_sizes: Mapping[str, Mapping[str, int]], sizes: Mapping[str, Mapping[str, int]]
) -> str | None:
    """Name the first group that is smaller in an evaluation than a policy asks for."""
    for attribute, groups in least_sizes.items():
        for group, least in groups.items():
            size = (sizes.get(attribute) or {}).get(group)
            if size is None:
                return f"its evaluation does not count the people with {attribute} = {group}"
            if size < least:
                return (
                    f"its evaluation measured {size:,} people with {attribute} = {group}, and the "
                    f"policy asks for {least:,}"
                )
    return None


def _first_difference(pinned: Mapping[str, Any] | None, judged: Mapping[str, Any]) -> str | None:
    columns = {judged["label"]["name"]: judged["label"], **judged["sensitive"]}
    if pinned is None:
        for name, column in columns.items():
            if column["missing"]:
                return (
                    f"its contract reads values of {name!r} as missing, and the policy pins no "
                    "contract: `evenhand policy set --contract FILE` pins one"
                )
        return None
    pinned_columns = {pinned["label"]["name"]: pinned["label"], **pinned["sensitive"]}
    different = sorted(set(pinned_columns) ^ set(columns))
    if different:
        verb = "has"
        if different[0] in pinned_columns:
            verb = "lacks"
        return (
            f"its contract {verb} the label or sensitive column {different[0]!r}, unlike the "
            "policy's"
        )
    for name, column in pinned_columns.items():
        for key in sorted({*column, *columns[name]}):
            if column.get(key) != columns[name].get(key):
                return f"its contract differs from the policy's in {key!r} of the column {name!r}"
    if pinned["missing_sensitive"] != judged["missing_sensitive"]:
        return "its contract differs from the policy's in missingSensitive"
    return None


def _kept_too_few(limit: float, kept: Mapping[str, Any]) -> str | None:
    share = kept.get("rows")
    if share is None:
        return "its evaluation does not say how many rows it measured"
    if share < limit:
        return (
            f"its evaluation measured {share:.1%} of the rows, and the policy asks for {limit:.0%}"
        )
    least = kept.get("least", 1.0)
    if least < limit:
        return (
            f"its evaluation measured {least:.1%} of the people with {kept['group']}, and the "
            f"policy asks for {limit:.0%}"
        )
    return None
