"""Counts of few people, rounded before a proxy is published."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def rounded_counts(
    counts: ArrayLike,
    compositions: Sequence[Any],
    base_rates: Sequence[Any],
    blocks: Sequence[int],
    least: int,
) -> tuple[NDArray[np.float64], list[Any]]:
    """Round the counts behind proxy groups' sizes and compositions to multiples of `least` people.

    `counts`, shape (l,), are people in each proxy group, and `compositions` l rows of K shares; a row, or a
    share in it, may be None and then stays so. `base_rates` take the place of a composition of which nobody
    is left. `blocks` are the numbers of groups of every attribute; they sum to K.
    """
    sizes, rounded = np.asarray(counts, dtype=np.float64), []
    for count, row in zip(sizes, compositions, strict=True):
        if row is not None and None not in row:
            parts = np.split(np.round(np.asarray(row) * count / least), np.cumsum(blocks)[:-1])
            wholes = np.split(np.array(base_rates, dtype=object), np.cumsum(blocks)[:-1])
            row = [
                share
                for part, whole in zip(parts, wholes, strict=True)
                for share in (list(part / part.sum()) if part.sum() else list(whole))
            ]
        rounded.append(row)
    return np.round(sizes / least) * least, rounded
