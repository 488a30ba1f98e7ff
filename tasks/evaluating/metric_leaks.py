"""A fair metric on test rows: its leak, and equal decisions on the copies that it adapts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.fairlib.arrays import Bool, Float, Float32
from evenhand.fairlib.distances.attribute_leak import Predictor, attribute_leak
from evenhand.fairlib.distances.learned import LearnedMetric
from evenhand.fairlib.distances.metric_base import Metric
from evenhand.fairlib.distances.metric_evidence import without_explained
from evenhand.fairlib.evaluation.evaluate import MetricValue
from evenhand.fairlib.evaluation.group_selection import MISSING
from evenhand.fairlib.methods.decided import DecidedModel
from evenhand.fairlib.numerics import wilson_interval
from evenhand.tasks.evaluating.decisions import CopyMaker, Decisions, groups_argument
from evenhand.tasks.execution.dataset import Dataset

# Rows of a group from which an AUC is measured.
LEAST_ROWS = 30
# Share of a column's standard deviation below which nothing is left of it.
EXPLAINED = 1e-6
# Name of adapted copies to which a job gives none.
UNNAMED = "adapted copies"


def metric_leaks(
    metric: Metric, model: Any, data: Dataset, legitimate: Sequence[str] = ()
) -> dict[str, MetricValue]:
    """``metric_leak`` of every sensitive attribute, given the legitimate columns.

    Directions that a projection removes are gone for every predictor. EXPLORE only scales them, so
    there the predictor is the nearest rows, which respects its scale. Groups of fewer than 30 test
    rows are left out.
    """
    rows = _what_is_left(metric, model, data, legitimate)
    predictors: tuple[Predictor, ...] = ("linear", "trees")
    if not metric.is_projection:
        predictors = ("neighbours",)
    leaks = {}
    for name, groups in data.sensitive.items():
        leaks[f"metric_leak.{name}"] = _leak(rows, groups.astype(str), predictors)
    return leaks


def _what_is_left(metric: Metric, model: Any, data: Dataset, legitimate: Sequence[str]) -> Float:
    """The input of a metric's leak, shape (n, r)."""
    if isinstance(metric, LearnedMetric):
        base = model.base if isinstance(model, DecidedModel) else model
        return metric.what_is_left(data.X, adapted=getattr(base, "adapts_inputs", False))
    rows = np.asarray(metric.project(data.X), dtype=np.float64)
    positions = [j for name in legitimate for j in data.groups.get(name, ())]
    if not positions:
        return rows
    inputs = data.X[:, positions].astype(np.float64)
    joined = np.concatenate([inputs, rows], axis=1)
    unexplained = without_explained(joined, list(range(len(positions))))
    # of an explained column rounding errors are left, from which trees read its values
    unexplained[:, unexplained.std(axis=0) <= EXPLAINED * rows.std(axis=0)] = 0.0
    return unexplained


def published_metric(model: Any) -> LearnedMetric | None:
    """The learned metric that a published model contains, because it reads adapted columns; None
    for every other model.
    """
    base = model.base if isinstance(model, DecidedModel) else model
    if not getattr(base, "adapts_inputs", False):
        return None
    metric: LearnedMetric = base.metric_
    return metric


def adapted_copies(metric: LearnedMetric) -> CopyMaker:
    """Return what makes the counterparts of rows in every group.

    Where a sensitive attribute is not given, all groups are read from the encoded rows.
    """
    attributes = {name for stage in metric.stages_ for name in stage.attributes}

    def make_copies(X: Float32, sensitive: Mapping[str, NDArray[Any]]) -> list[Float32]:
        groups = None
        if attributes <= sensitive.keys():
            groups = sensitive
        return metric.counterfactuals(X, sensitive_features=groups)

    return make_copies


def copy_makers(model: Any, names: Sequence[str]) -> dict[str, CopyMaker]:
    """By name what makes the adapted copies of a published model, under `UNNAMED` if there are no
    names; empty for a model that contains no learned metric.
    """
    metric = published_metric(model)
    if metric is None:
        return {}
    return dict.fromkeys(names or [UNNAMED], adapted_copies(metric))


def measured_copies(
    decisions: Decisions, makers: Mapping[str, CopyMaker], level: float
) -> tuple[Decisions, dict[str, MetricValue]]:
    """Decisions without those on unnamed copies, and ``adapted_consistency``; nothing for a model
    without adapted copies.
    """
    for name in makers:
        metrics = consistency_of(decisions.consistent[name], level)
        flags = {**decisions.consistent}
        flags.pop(UNNAMED, None)
        return replace(decisions, consistent=flags), metrics
    return decisions, {}


def adapted_consistency(
    metric: Any, model: Any, data: Dataset, level: float
) -> dict[str, MetricValue]:
    """``adapted_consistency``: the share of people with one decision on all their adapted copies;
    nothing for a metric that adapts none.

    The groups are those of the rows, which need not be model inputs.
    """
    if not isinstance(metric, LearnedMetric):
        return {}
    groups = groups_argument(model, data.sensitive)
    same = np.ones(len(data.X), dtype=bool)
    predicted = model.predict(data.X, **groups)
    for copy in metric.counterfactuals(data.X, sensitive_features=data.sensitive):
        same &= model.predict(copy, **groups) == predicted
    return consistency_of(same, level)


def consistency_of(same: Bool, level: float) -> dict[str, MetricValue]:
    """``adapted_consistency`` of people, for each of whom all adapted copies have one decision or
    not.
    """
    low, high = wilson_interval(int(same.sum()), len(same), level)
    return {"adapted_consistency": MetricValue(float(same.mean()), low, high)}


def _leak(rows: Float, groups: Any, predictors: tuple[Predictor, ...]) -> MetricValue:
    names, codes, counts = np.unique(groups, return_inverse=True, return_counts=True)
    is_group = names != MISSING
    large = np.flatnonzero(is_group & (counts >= LEAST_ROWS))
    if len(large) < 2:
        return MetricValue.insufficient(
            f"{len(large)} of {is_group.sum()} groups have {LEAST_ROWS} test rows; two are needed"
        )
    in_large_group = np.isin(codes, large)
    leak = attribute_leak(rows[in_large_group], groups[in_large_group], predictors=predictors)
    return MetricValue(leak.auc, leak.low, leak.high)
