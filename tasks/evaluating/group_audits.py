"""Audits by group of a table's predictions: verdict, groups and gaps as plain JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from evenhand.fairlib.evaluation.group_audit import GroupAudit, audit

if TYPE_CHECKING:
    from evenhand.tasks.pages.page_model import Json

# Names under which an audit's own keys are in the settings of a step.
SETTINGS = ("level", "min_cell", "intersections")
OF_CLASSES = (
    "count",
    "accuracy",
    "balanced_accuracy",
    "gap_max",
    "gap_rms",
    "average_odds_difference",
    "balanced_accuracy_difference",
)
# Metrics of several predictions that are printed with their differences.
COMPARED = (
    "accuracy",
    "selection_rate",
    "true_positive_rate",
    "false_positive_rate",
    "mean_prediction",
    "mean_absolute_error",
)


def settings_of(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of an audit by group from those of the step."""
    chosen = {name: parameters["evaluate"][name] for name in SETTINGS}
    return {**chosen, "seed": parameters["seed"]}


def audit_decisions(
    decided: Mapping[str, NDArray[np.int64]],
    scores: Mapping[str, NDArray[np.float64]],
    label: NDArray[np.bool_] | None,
    outcome: Mapping[str, Any],
    **arguments: Any,
) -> GroupAudit:
    """Audit decisions of two labels, coded 1 and 0, by model.

    `outcome` is what the step says about the favourable outcome; `arguments` are those of `audit`.
    """
    column = outcome["column"]
    code = outcome["code"]
    names = dict(arguments.pop("value_names", {}))
    labels = {code: outcome["favourable"], 1 - code: outcome["adverse"]}
    names[column] = {value: text for value, text in labels.items() if text is not None}
    true = None
    if label is not None:
        true = pd.Series(np.asarray(label).astype(np.int64), name=column)
    return audit(
        true,
        {model: pd.Series(values, name=column) for model, values in decided.items()},
        y_score=dict(scores) or None,
        positive=1,
        favourable=code,
        value_names=names,
        **arguments,
    )


class Audits(NamedTuple):
    """An audit of all rows, and the same within the levels of control features."""

    whole: GroupAudit
    within: GroupAudit | None  # None without control features


def within_controls(people: Mapping[str, Any], audit_with: Callable[..., GroupAudit]) -> Audits:
    """Audit all rows, and again within the control features among the arguments `people`."""
    whole = {name: value for name, value in people.items() if name != "control_features"}
    within = None
    if "control_features" in people:
        within = audit_with(**people)
    return Audits(audit_with(**whole), within)


def document_of(audits: Audits, model: str) -> Json:
    """Verdict, groups, gaps and comparisons of one model as plain JSON types.

    Groups with too few people keep their counts and lose their values.
    """
    whole = audits.whole
    alone = whole[model]
    compared: list[dict[str, Any]] = []
    for other in whole.models:
        if other != model:
            frame = whole.compare(model, other)
            frame = frame[(frame["metric"].isin(COMPARED)) & (frame["status"] == "ok")]
            compared += records(frame)
    document = {
        "verdict": list(alone.verdict),
        "level": alone.level,
        "min_cell": alone.min_cell,
        "is_plain": alone.is_plain,
        "groups": _group_records(alone),
        "gaps": records(alone.gaps()),
        "comparisons": compared,
    }
    if audits.within is not None:
        within = audits.within[model]
        document |= {
            "verdict": list(within.verdict),
            "groups_within": _group_records(within),
            "gaps_within": records(within.gaps()),
        }
    return document


def _group_records(result: GroupAudit) -> list[dict[str, Any]]:
    """Metrics of all groups; without the values of those with too few people."""
    groups = result.to_frame()
    few = (groups["status"] == "too_few") | (groups["n"] < result.min_cell)
    groups.loc[few & (groups["metric"] != "count"), ["value", "lower", "upper"]] = np.nan
    return records(groups)


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows of a frame as plain JSON types, without NaN."""
    rows = []
    for row in frame.to_dict("records"):
        rows.append({str(name): _plain(value) for name, value in row.items()})
    return rows


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def metrics_of(result: GroupAudit, settings: Mapping[str, Any]) -> Json:
    """Metrics of an audit of classes or of numbers in the form of an evaluation's document."""
    metrics: dict[str, Json] = {}
    overall = result.to_frame()
    for row in records(overall[overall["attribute"] == ""]):
        if row["metric"] != "count":
            metrics[row["metric"]] = _metric(row)
    for row in records(result.gaps()):
        kind = row["kind"]
        if kind == "gap":
            metrics[f"{row['metric']}.{row['attribute']}"] = _metric(row)
        elif kind == "difference" and settings["kind"] == "numbers":
            metrics[f"{row['metric']}_difference.{row['attribute']}"] = _metric(row)
    n = int(overall["n"].max())
    return {"n": n, "settings": dict(settings), "metrics": metrics, "counts": {}, "groups": {}}


def _metric(row: Mapping[str, Any]) -> Json:
    status = "ok"
    if row["status"] != "ok" or row["value"] is None:
        status = "insufficient_evidence"
        reason = row.get("reason") or f"too few rows ({row.get('n', 0)})"
        return {"value": None, "low": None, "high": None, "status": status, "reason": reason}
    return {
        "value": row["value"],
        "low": row["lower"],
        "high": row["upper"],
        "status": status,
        "reason": "",
    }


def comparison_lines(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Say how far two predictions differ by metric and group, where the interval excludes 0."""
    lines = []
    for row in rows:
        low = row["lower"]
        high = row["upper"]
        if row["metric"] not in COMPARED or low is None or high is None or low <= 0.0 <= high:
            continue
        where = f" of {row['group']}" if row["group"] else ""
        by = f" ({row['attribute']})" if row["attribute"] else ""
        lines.append(
            f"{row['metric']}{where}{by}: {row['difference']:+.3f} [{low:+.3f}, {high:+.3f}]"
        )
    return lines
