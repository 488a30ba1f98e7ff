"""Distribution of scores by group, as counts that a report can draw."""

from __future__ import annotations

from typing import Any

import numpy as np

from evenhand.fairlib.evaluation.outcomes import Outcomes, encode_groups


def score_histograms(outcomes: Outcomes, *, bins: int = 20, min_cell: int = 5) -> dict[str, dict[str, Any]]:
    """Count scores per bin, sensitive attribute and group, as plain JSON types.

    Parameters
    ----------
    outcomes : Outcomes
        The rows to show.
    bins : int
        Number of equal bins of [0, 1].
    min_cell : int
        A group with fewer rows is listed with None in place of its counts: so few scores would show single
        people.

    Returns
    -------
    dict
        Per attribute ``{"edges": [bins + 1 floats], "groups": {group: [bins ints] or None}}``.

    Raises
    ------
    ValueError
        If ``bins`` or ``min_cell`` is less than 1.
    """
    for argument, number in (("bins", bins), ("min_cell", min_cell)):
        if number < 1:
            raise ValueError(f"{argument}: got {number}, expected at least 1")
    edges = np.linspace(0.0, 1.0, bins + 1)
    bin_of_row = np.clip(np.searchsorted(edges, outcomes.score, side="right") - 1, 0, bins - 1)
    result = {}
    for attribute, column in outcomes.sensitive.items():
        groups, codes = encode_groups(column, outcomes.groups.get(attribute, ()))
        table = np.bincount(codes * bins + bin_of_row, minlength=len(groups) * bins).reshape(
            len(groups), bins
        )
        result[attribute] = {
            "edges": edges.tolist(),
            "groups": {
                group: row.tolist() if row.sum() >= min_cell else None
                for group, row in zip(groups, table, strict=True)
            },
        }
    return result
