"""A learned fair metric on test rows: its leak, and equal decisions on its adapted copies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.fairlib.arrays import Float32
from evenhand.fairlib.distances.attribute_leak import attribute_leak
from evenhand.fairlib.evaluation.evaluate import MetricValue
from evenhand.fairlib.methods.decided import DecidedModel
from evenhand.fairlib.numerics import wilson_interval
from evenhand.tasks.evaluating.decisions import CopyMaker, groups_argument
from evenhand.tasks.execution.dataset import Dataset

# Rows of a group from which an AUC is measured.
LEAST_ROWS = 30


def metric_leaks(metric: Any, model: Any, data: Dataset) -> dict[str, MetricValue]:
    """``metric_leak`` of every sensitive attribute.

    Groups of fewer than 30 test rows are left out.
    """
    base = model.base if isinstance(model, DecidedModel) else model
    rows = metric.what_is_left(data.X, adapted=getattr(base, "adapts_inputs", False))
    return {
        f"metric_leak.{name}": _leak(rows, groups.astype(str))
        for name, groups in data.sensitive.items()
    }


def adapted_copies(metric: Any) -> CopyMaker:
    """Return what makes the counterparts of rows in every group."""

    def make_copies(X: Float32, sensitive: Mapping[str, NDArray[Any]]) -> list[Float32]:
        copies: list[Float32] = metric.counterfactuals(X, sensitive_features=sensitive)
        return copies

    return make_copies


def adapted_consistency(
    metric: Any, model: Any, data: Dataset, level: float
) -> dict[str, MetricValue]:
    """``adapted_consistency``: the share of people with one decision on all their adapted copies.

    The groups are those of the rows, which need not be model inputs.
    """
    groups = groups_argument(model, data.sensitive)
    same = np.ones(len(data.X), dtype=bool)
    predicted = model.predict(data.X, **groups)
    for copy in metric.counterfactuals(data.X, sensitive_features=data.sensitive):
        same &= model.predict(copy, **groups) == predicted
    low, high = wilson_interval(int(same.sum()), len(same), level)
    return {"adapted_consistency": MetricValue(float(same.mean()), low, high)}


def _leak(rows: Any, groups: Any) -> MetricValue:
    names, codes, counts = np.unique(groups, return_inverse=True, return_counts=True)
    large = np.flatnonzero(counts >= LEAST_ROWS)
    if len(large) < 2:
        return MetricValue.insufficient(
            f"{len(large)} of {len(names)} groups have {LEAST_ROWS} test rows; two are needed"
        )
    kept = np.isin(codes, large)
    leak = attribute_leak(rows[kept], groups[kept])
    return MetricValue(leak.auc, leak.low, leak.high)
