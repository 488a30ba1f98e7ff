"""Counts by group, as plain JSON types: of labels with predictions, and of scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.fairlib.evaluation.outcomes import Outcomes, encode_groups

__all__ = ["list_cells", "score_histograms"]


def list_cells(groups: Sequence[str], counts: NDArray[np.int64], min_cell: int) -> list[dict[str, Any]]:
    """List the counts of one sensitive attribute, two rows per group.

    Parameters
    ----------
    groups : sequence of str, length K
    counts : int array, shape (K, 2, 2)
        Rows per group, true label and predicted label.
    min_cell : int

    Returns
    -------
    list of dict
        ``group``, ``label`` (0 or 1), ``n``, ``predicted_positive``, ``rate`` = predicted_positive / n
        (None in an empty cell) and ``enough``: whether n is at least `min_cell`.
    """
    return [
        {
            "group": group,
            "label": label,
            "n": negative + positive,
            "predicted_positive": positive,
            "rate": positive / (negative + positive) if negative + positive else None,
            "enough": negative + positive >= min_cell,
        }
        for group, cells in zip(groups, counts.tolist(), strict=True)
        for label, (negative, positive) in enumerate(cells)
    ]


def score_histograms(outcomes: Outcomes, *, bins: int = 20, min_cell: int = 5) -> dict[str, dict[str, Any]]:
    """Count scores per sensitive attribute, group and bin.

    Parameters
    ----------
    outcomes : Outcomes
    bins : int
        Number of equal bins of [0, 1], at least 1.
    min_cell : int
        A group with fewer rows has None in place of its counts, because so few scores would show single
        people.

    Returns
    -------
    dict
        Per attribute ``{"edges": [bins + 1 floats], "groups": {group: [bins ints] or None}}``.
    """
    if bins < 1:
        raise ValueError(f"bins: got {bins}, expected at least 1")
    edges = np.linspace(0.0, 1.0, bins + 1)
    bin_of_row = np.clip(np.searchsorted(edges, outcomes.score, side="right") - 1, 0, bins - 1)
    result = {}
    for attribute, column in outcomes.sensitive.items():
        groups, codes = encode_groups(column, outcomes.groups.get(attribute, ()))
        table = np.bincount(codes * bins + bin_of_row, minlength=len(groups) * bins).reshape(-1, bins)
        counts = {
            group: row.tolist() if row.sum() >= min_cell else None
            for group, row in zip(groups, table, strict=True)
        }
        result[attribute] = {"edges": edges.tolist(), "groups": counts}
    return result
