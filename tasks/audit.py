"""The certificate of an evaluation: what an adversary finds that may treat people as comparable others."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from evenhand.fairlib.cores import available_cores
from evenhand.fairlib.distances.base import Metric
from evenhand.fairlib.evaluation.audit import Audit, audit
from evenhand.fairlib.methods.base import Method
from evenhand.fairlib.progress import Progress
from evenhand.tasks.dataset import Dataset

__all__ = ["audit_model", "shown_counts", "write_audit"]

# People listed in pairs.parquet, the worst treated first.
MOST_PAIRS = 1000
# Pairs that the report shows.
SHOWN_PAIRS = 10
DISTANCE_BINS = 12


def audit_model(
    model: Method,
    data: Dataset,
    metric: Metric,
    budget: float,
    *,
    draws: int,
    level: float,
    seed: int,
    callback: Progress | None = None,
) -> Audit:
    """Audit a model on encoded rows, with the fair metric of the run."""
    return audit(
        model,
        data.X,
        model.classes_[data.y],
        metric,
        budget,
        draws=draws,
        level=level,
        seed=seed,
        jobs=available_cores(),
        callback=callback,
    )


def write_audit(found: Audit, data: Dataset, min_cell: int, folder: Path) -> dict[str, tuple[Path, str]]:
    """
    Write ``audit.json`` (sums over people, and the pairs that the report shows) and ``pairs.parquet``.

    Of a pair there are row numbers, distance and losses; no feature and no sensitive value of a person is in
    either, and a group's cell below `min_cell` is left out.
    """
    pairs = found.most_unfair(MOST_PAIRS)
    table = {
        "row": data.rows[pairs],
        "treated_as": data.rows[found.target[pairs]],
        "distance": found.distance[pairs],
        "loss": found.own_loss[pairs],
        "loss_treated_as": found.target_loss[pairs],
        "revealed_loss": found.target_loss[pairs] - found.own_loss[pairs],
    }
    pq.write_table(pa.table(table), folder / "pairs.parquet")
    shown = {name: values[:SHOWN_PAIRS].tolist() for name, values in table.items()}
    content = {
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
    (folder / "audit.json").write_text(json.dumps(content, indent=1, allow_nan=False))
    return {"audit": (folder / "audit.json", "audit"), "pairs": (folder / "pairs.parquet", "pairs")}


def _histogram(distance: NDArray[np.float64], min_cell: int) -> dict[str, Any] | None:
    """How far those are moved who are; None if they are too few to show."""
    moved = distance[distance > 0]
    if len(moved) < min_cell:
        return None
    counts, edges = np.histogram(moved, bins=DISTANCE_BINS, range=(0.0, float(moved.max())))
    return {"edges": edges.tolist(), "counts": counts.tolist()}


def _flow(group: NDArray[Any], target: NDArray[np.int64], min_cell: int) -> dict[str, Any]:
    """How many people of each group are treated as one of each other group; None where it is not shown."""
    names, code = np.unique(group, return_inverse=True)
    counts = np.zeros((len(names), len(names)), dtype=np.int64)
    np.add.at(counts, (code, code[target]), 1)
    return {"groups": names.tolist(), "counts": [shown_counts(row.tolist(), min_cell) for row in counts]}


def shown_counts(counts: Sequence[int], min_cell: int) -> list[int | None]:
    """
    Counts of one group without those that are too small to be shown.

    The sizes of groups are no secret, and would give a single cell away, and two if they are 1 and 1. So
    where one is hidden, the smallest other number is hidden too, or the zeros if there is none: then the
    number of no hidden cell follows from the rest, not even for those who know this rule.
    """
    small = [0 < n < min_cell for n in counts]
    if not any(small):
        return list(counts)
    smallest = min((n for n, hidden in zip(counts, small, strict=True) if n and not hidden), default=0)
    return [None if hidden or n == smallest else n for n, hidden in zip(counts, small, strict=True)]
