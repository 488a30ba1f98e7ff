"""Who is comparable with whom, as metrics are told: groups of rows, or counterfactual copies of every row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

__all__ = ["check_copies", "check_source", "group_codes"]

Float = NDArray[np.float64]


def check_source(title: str, **sources: Any) -> str:
    """Name of the one source that was given; ValueError if there is none or more than one."""
    given = [name for name, value in sources.items() if value is not None]
    if len(given) != 1:
        found = f"got {' and '.join(given)}" if given else "got none"
        raise ValueError(f"{title} learns from one of {', '.join(sources)}; {found}.")
    return given[0]


def group_codes(rows: Float, groups: ArrayLike) -> NDArray[np.intp]:
    """
    Integer group of every row, shape (n,).

    Raises
    ------
    ValueError
        Not one id a row, a missing id.
    """
    ids = np.asarray(groups)
    if ids.shape != (len(rows),):
        raise ValueError(f"groups must have one id per row of X, {len(rows)}, got shape {ids.shape}.")
    codes, _ = pd.factorize(ids)
    if (codes < 0).any():
        raise ValueError(f"groups lacks the ids of {int((codes < 0).sum())} rows: give each row one.")
    return codes


def check_copies(rows: Float, counterfactuals: Sequence[ArrayLike]) -> list[NDArray[Any]]:
    """
    Counterfactual copies as arrays, in their own precision.

    Raises
    ------
    ValueError
        No copy, one of another shape than X or not finite, copies that all equal the rows.
    """
    copies = [np.asarray(copy) for copy in counterfactuals]
    if not copies:
        raise ValueError("counterfactuals holds no copy of the rows: give at least one.")
    for copy in copies:
        if copy.shape != rows.shape:
            raise ValueError(
                f"counterfactuals must be copies of X, of shape {rows.shape}, got shape {copy.shape}."
            )
        if not np.isfinite(copy).all():
            raise ValueError("counterfactuals must be finite: a copy holds NaN or infinity.")
    if all(np.array_equal(copy, rows) for copy in copies):
        raise ValueError("the counterfactual changes nothing: every copy equals its row.")
    return copies
