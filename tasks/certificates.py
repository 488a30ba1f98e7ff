"""Certificates of an evaluation, as plain JSON types: of the loss (audit) and of a network's outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from evenhand.tasks.dataset import Dataset

if TYPE_CHECKING:
    from evenhand.fairlib.evaluation.audit import Audit
    from evenhand.fairlib.evaluation.certificates import Certificate

__all__ = ["audit_content", "audit_pairs", "certificate_budgets", "certificate_content", "visible_counts"]

# Pairs in pairs.parquet, those with the largest revealed loss first, and in the report.
MOST_PAIRS = 1000
SHOWN_PAIRS = 10
DISTANCE_BINS = 12
# The curve of the certificate shows these multiples of the job's budget, the budget itself first.
MULTIPLES = (1.0, 0.0, 0.01, 0.03, 0.1, 0.3, 3.0, 10.0, 30.0, 100.0)
# The budgets of the curve where the job's budget is 0.
BUDGETS = (0.0, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
ODDS = (1.25, 1.5, 2.0, 4.0)


def audit_pairs(found: Audit, data: Dataset) -> dict[str, NDArray[Any]]:
    """Pairs of row numbers with their distance and losses: no feature and no sensitive value of a person."""
    pairs = found.most_unfair(MOST_PAIRS)
    return {
        "row": data.rows[pairs],
        "treated_as": data.rows[found.target[pairs]],
        "distance": found.distance[pairs],
        "loss": found.own_loss[pairs],
        "loss_treated_as": found.target_loss[pairs],
        "revealed_loss": found.target_loss[pairs] - found.own_loss[pairs],
    }


def audit_content(found: Audit, data: Dataset, min_cell: int) -> dict[str, Any]:
    """
    Sums over people, and the pairs that the report shows.

    Counts of fewer than `min_cell` people of a group are left out.
    """
    shown = {name: values[:SHOWN_PAIRS].tolist() for name, values in audit_pairs(found, data).items()}
    return {
        "budget": found.budget,
        "loss": found.loss,
        "adversarial_loss": found.adversarial_loss,
        "gap": {"value": found.gap, "low": found.low, "high": found.high},
        "multiplier": found.multiplier,
        "spent": found.spent,
        "people": len(found.target),
        "moved": int((found.distance > 0).sum()),
        "distances": _histogram(found.distance, min_cell),
        "flows": {
            name: _flow(values.astype(str), found.target, min_cell) for name, values in data.sensitive.items()
        },
        "pairs": [dict(zip(shown, row, strict=True)) for row in zip(*shown.values(), strict=True)],
    }


def _histogram(distance: NDArray[np.float64], min_cell: int) -> dict[str, Any] | None:
    """Histogram of the distances of the people who are moved; None if they are too few to show."""
    moved = distance[distance > 0]
    if len(moved) < min_cell:
        return None
    counts, edges = np.histogram(moved, bins=DISTANCE_BINS, range=(0.0, float(moved.max())))
    return {"edges": edges.tolist(), "counts": counts.tolist()}


def _flow(group: NDArray[Any], target: NDArray[np.int64], min_cell: int) -> dict[str, Any]:
    """How many people of each group are treated as one of each other group; None where it is hidden."""
    names, code = np.unique(group, return_inverse=True)
    counts = np.zeros((len(names), len(names)), dtype=np.int64)
    np.add.at(counts, (code, code[target]), 1)
    return {"groups": names.tolist(), "counts": [visible_counts(row.tolist(), min_cell) for row in counts]}


def visible_counts(counts: Sequence[int], min_cell: int) -> list[int | None]:
    """
    Counts of one group without those that are too small to be shown.

    The sizes of groups are public. They would reveal a single hidden cell, and two hidden cells if both are
    1. So where one count is hidden, the smallest other count is hidden too, or the zeros if there is none:
    then no hidden count follows from the others, even for a reader who knows this rule.
    """
    small = [0 < n < min_cell for n in counts]
    if not any(small):
        return list(counts)
    smallest = min((n for n, hidden in zip(counts, small, strict=True) if n and not hidden), default=0)
    return [None if hidden or n == smallest else n for n, hidden in zip(counts, small, strict=True)]


def certificate_budgets(budget: float) -> list[float]:
    """Budgets of a certificate: the job's first, then others around it."""
    return [multiple * budget for multiple in MULTIPLES] if budget > 0 else list(BUDGETS)


def certificate_content(found: Certificate) -> dict[str, Any]:
    """Give the curve in the order of budgets, and bounds on the share of people whose odds can change."""
    order = np.argsort(found.budgets)
    return {
        "people": found.people,
        "budget": float(found.budgets[0]),
        "value": float(found.values[0]),
        "multiplier": float(found.multipliers[0]),
        "curve": {
            "budgets": found.budgets[order].tolist(),
            "values": found.values[order].tolist(),
            "low": None if found.low is None else found.low[order].tolist(),
            "high": None if found.high is None else found.high[order].tolist(),
        },
        "shares": [{"odds": factor, "share": found.share_bound_of_odds(factor)} for factor in ODDS],
    }
