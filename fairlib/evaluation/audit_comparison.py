"""Two models of one audit on the same rows: the difference of every metric with its interval.

Metrics of groups that are means have paired intervals: shares Newcombe's for paired data, means of
numbers Student's of each row's difference. Others, such as the AUC, have those of two independent
samples, which are longer. What compares groups has the paired bootstrap of
:func:`evenhand.fairlib.evaluation.paired.compare`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from evenhand.fairlib.arrays import Bool, Float
from evenhand.fairlib.evaluation.audit_frames import control_columns
from evenhand.fairlib.evaluation.audit_metrics import ModelMetrics, Part
from evenhand.fairlib.evaluation.audit_target import Target
from evenhand.fairlib.evaluation.closed_intervals import (
    Estimates,
    paired_correlation,
    paired_difference,
    rate_interval,
    student_interval,
)
from evenhand.fairlib.evaluation.effective_rows import effective_number
from evenhand.fairlib.evaluation.group_metrics import CellMetric, Cells
from evenhand.fairlib.evaluation.group_tables import GroupTable, Settings
from evenhand.fairlib.evaluation.outcomes import Outcomes
from evenhand.fairlib.evaluation.paired import compare

OF_ROWS = ("count", "base_rate", "mean_target")
"""Metrics that do not depend on the model."""


class Side(NamedTuple):
    """One of two models."""

    name: str
    source: ModelMetrics
    table: GroupTable


def compared_groups(
    first: Side, second: Side, metrics: Sequence[tuple[str, Any]], attribute: str
) -> pd.DataFrame:
    """Difference of each metric in each group: the first model less the second.

    Parameters
    ----------
    first, second : Side
        The models, with their tables of one attribute.
    metrics : sequence of tuples
        Name in the results, and the catalogue's name or the function.
    attribute : str
        Name of the attribute.

    Returns
    -------
    DataFrame
        ``metric``, ``attribute``, control features, ``group``, ``difference``, ``lower``,
        ``upper``, ``n`` and ``status``.
    """
    parts = []
    table = first.table
    for name, metric in metrics:
        one = table.metrics[name]
        if one.value.dtype == object or metric in OF_ROWS:
            continue
        estimate = _difference(first, second, name, metric)
        status = table.status(name)
        second_status = second.table.status(name)
        agreed = [a if a != "ok" else b for a, b in zip(status, second_status, strict=True)]
        columns: dict[str, Any] = {"metric": name, "attribute": attribute}
        columns |= control_columns(table)
        columns["group"] = np.tile(np.array(table.grouping.texts, dtype=object), table.levels)
        columns |= {"difference": estimate.value, "lower": estimate.low, "upper": estimate.high}
        columns |= {"n": one.n.astype(np.int64), "status": agreed}
        parts.append(pd.DataFrame(columns)[table.rows > 0])
    return pd.concat(parts, ignore_index=True)


def _difference(first: Side, second: Side, name: str, metric: Any) -> Estimates:
    """Difference of one metric in every cell."""
    first_metric = first.table.metrics[name]
    second_metric = second.table.metrics[name]
    cells = first.table.cells
    parts: tuple[Part | None, Part | None] = (None, None)
    if isinstance(metric, str):
        parts = (first.source.part(metric), second.source.part(metric))
    level = first.table.settings.level
    part, of_other = parts
    if part is None or of_other is None or metric == "root_mean_squared_error":
        return _independent(first_metric, second_metric, level)
    if not _same_rows(part.rows, of_other.rows):
        return _independent(first_metric, second_metric, level)
    return _paired(cells, part, of_other, first_metric, second_metric, level)


def _same_rows(one: Bool | None, other: Bool | None) -> bool:
    """Whether both metrics are of the same rows."""
    if one is None or other is None:
        return one is other
    return bool(np.array_equal(one, other))


def _paired(
    cells: Cells, one: Part, other: Part, first: CellMetric, second: CellMetric, level: float
) -> Estimates:
    """Difference of two means of the same rows."""
    if not one.is_share:
        means = cells.means(one.value - other.value, one.rows)
        return student_interval(means.mean, means.variance, means.people, level, means.skewness)
    assert first.intervals is not None
    assert second.intervals is not None
    products = cells.means(one.value * other.value, one.rows)
    rows = products.rows
    if not cells.is_plain:
        differs = cells.means(one.value, one.rows)
        rows = effective_number(differs, differs.mean, level)
    correlation = paired_correlation(products.mean, first.value, second.value, rows)
    estimate = paired_difference(first.intervals(level), second.intervals(level), correlation)
    return _widened(estimate, rows, level)


def _widened(estimate: Estimates, rows: Float, level: float) -> Estimates:
    """Where all rows agree, some share of further rows may not."""
    low = estimate.low.copy()
    high = estimate.high.copy()
    for cell in np.flatnonzero((high - low < 1e-12) & (rows >= 1)).tolist():
        _, share = rate_interval(0, float(rows[cell]), level)
        low[cell] -= share
        high[cell] += share
    return Estimates(estimate.value, np.maximum(low, -1.0), np.minimum(high, 1.0))


def _independent(first: CellMetric, second: CellMetric, level: float) -> Estimates:
    """Difference of two estimates as if they were of different rows."""
    value = first.value - second.value
    nothing = np.full(len(value), np.nan)
    if first.intervals is None or second.intervals is None:
        return Estimates(value, nothing, nothing)
    return paired_difference(first.intervals(level), second.intervals(level), nothing)


def compared_gaps(
    sides: tuple[Outcomes, Outcomes],
    weights: Float | None,
    settings: Settings,
    *,
    intersections: bool,
    is_labelled: bool,
    has_scores: bool,
) -> pd.DataFrame:
    """Difference of the metrics that compare groups, and of the table as a whole.

    Parameters
    ----------
    sides : tuple of Outcomes
        Both models on the same rows.
    weights : array, shape (n,), optional
        Weights of the rows.
    settings : Settings
        How groups are compared.
    intersections : bool
        Whether to compare pairs of attributes too.
    is_labelled, has_scores : bool
        Whether the true labels, and probabilities, are known.

    Returns
    -------
    DataFrame
        ``metric``, ``attribute``, ``difference``, ``lower``, ``upper``, ``status`` and ``reason``.
    """
    from evenhand.fairlib.evaluation.predictions import measurable

    comparison = compare(
        *sides,
        sample_weight=weights,
        draws=max(settings.draws, 1000) if settings.draws else 0,
        level=settings.level,
        min_cell=settings.min_cell,
        seed=settings.seed,
        intersections=intersections,
    )
    measured = measurable(comparison.differences, is_labelled=is_labelled, is_scored=has_scores)
    rows = []
    for name, value in measured.items():
        stem, _, attribute = name.partition(".")
        rows.append(
            {
                "metric": stem,
                "attribute": attribute,
                "group": "",
                "difference": np.nan if value.value is None else value.value,
                "lower": np.nan if value.low is None else value.low,
                "upper": np.nan if value.high is None else value.high,
                "n": sides[0].n,
                "status": value.status,
                "reason": value.reason,
            }
        )
    return pd.DataFrame(rows)


def outcomes_of(target: Target, model: str, groups: dict[str, Any], people: Any) -> Outcomes:
    """Rows as :class:`Outcomes`; without labels these are 0, and only metrics of decisions count.

    Parameters
    ----------
    target : Target
        Labels and predictions, of two labels or more.
    model : str
        Name of the model.
    groups : dict
        Names of the rows' groups by attribute.
    people : array, optional
        Numbers of the people.

    Returns
    -------
    Outcomes
    """
    decided = target.y_pred[model].astype(np.int64)
    label = np.zeros(len(decided), dtype=np.int64)
    if target.y_true is not None:
        label = target.y_true.astype(np.int64)
    classes = target.classes if target.kind == "classes" else ()
    score = target.score.get(model)
    if score is None:
        score = decided.astype(np.float64)
        if classes:
            score = np.eye(len(classes))[decided]
    return Outcomes(
        label,
        decided,
        score,
        groups,
        classes=classes,
        people=people,
        favourable=1 if classes or target.favourable is None else target.favourable,
    )
