"""Shares of rows, where several processes train one model: all run the same program at the same time.

XGBoost connects them (``xgboost.collective.CommunicatorContext``), a thread in each.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from xgboost import collective

Result = TypeVar("Result")


def processes() -> int:
    """Processes that train this model."""
    return int(collective.get_world_size())


def share(rows: int) -> slice:
    """This process's share of so many rows; all without others."""
    rank, count = collective.get_rank(), processes()
    return slice(rows * rank // count, rows * (rank + 1) // count)


def of_all(values: NDArray[Any], rows: int) -> NDArray[Any]:
    """Values of so many rows, shape (rows, ...), from those of the share of each process."""
    if processes() == 1:
        return values
    found = np.zeros((rows, *values.shape[1:]), dtype=values.dtype)
    found[share(rows)] = values
    return collective.allreduce(found, collective.Op.SUM).reshape(found.shape)


def unconnected(function: Callable[[], Result]) -> Result:
    """Call a function in another thread, whose XGBoost knows no other process."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(function).result()
