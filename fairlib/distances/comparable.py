"""Who is comparable with whom, as metrics are told: groups of rows, or counterfactual copies of every row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

__all__ = ["check_source", "group_codes"]

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
