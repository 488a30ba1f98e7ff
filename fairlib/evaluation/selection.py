"""Selection probabilities of each feature under a selector, summarised over people."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

MIN_ROWS = 20
"""Fewest people for spread and quartiles: quartiles of fewer would be close to single rows."""

QUARTILES = {"q1": 0.25, "median": 0.5, "q3": 0.75}


def selection_report(
    probabilities: ArrayLike,
    names: Sequence[str],
    attributes: Collection[str],
    *,
    data_dependent: bool,
    min_cell: int,
) -> list[dict[str, Any]]:
    """Summarise selection probabilities over people, as plain JSON types.

    `probabilities`, shape (n, G), say how likely each named group of features is selected for each of n >= 1
    people. The groups of `attributes` are sensitive and never selected. If the probabilities are not
    `data_dependent`, all rows are equal and describe no single person.

    The list has for each group, in order, ``name``, ``sensitive``, ``mean``, ``sd`` (of all n, divided by n)
    and the quartiles ``q1``, ``median`` and ``q3`` (linear between ranks). Of a data-dependent selector the
    mean is None for fewer people than `min_cell`, spread and quartiles for fewer than ``MIN_ROWS``.

    ValueError if the shape is not (n, G) with n >= 1, a number is not in [0, 1], a sensitive group can be
    selected, or rows of a selector that does not depend on data differ.
    """
    table = np.asarray(probabilities, dtype=np.float64)
    if table.ndim != 2 or table.shape[1] != len(names) or not len(table):
        raise ValueError(f"probabilities: got shape {table.shape}, expected (n, {len(names)}) with n >= 1")
    if not ((table >= 0) & (table <= 1)).all():
        raise ValueError("probabilities: got a number outside [0, 1], or NaN")
    for name, column in zip(names, table.T, strict=True):
        if name in attributes and column.any():
            raise ValueError(
                f"probabilities: the sensitive group {name!r} can be selected, expected 0 in every row"
            )
    if not data_dependent:
        if (table != table[0]).any():
            raise ValueError("probabilities: rows differ, although the selector does not depend on data")
        table = table[:1]
    has_mean, has_spread = (not data_dependent or len(table) >= least for least in (min_cell, MIN_ROWS))
    quartiles = np.quantile(table, list(QUARTILES.values()), axis=0).T
    return [
        {
            "name": name,
            "sensitive": name in attributes,
            "mean": float(column.mean()) if has_mean else None,
            "sd": float(column.std()) if has_spread else None,
            **{key: float(q) if has_spread else None for key, q in zip(QUARTILES, found, strict=True)},
        }
        for name, column, found in zip(names, table.T, quartiles, strict=True)
    ]
