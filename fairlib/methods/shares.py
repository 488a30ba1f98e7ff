"""Shares of rows, where several processes train one model: all run the same program at the same
time.

XGBoost connects them (``xgboost.collective.CommunicatorContext``), one thread in each.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from xgboost import collective


def share(rows: int) -> slice:
    """Rows of this process; all without others.

    Parameters
    ----------
    rows : int
        Number of rows of all processes.

    Returns
    -------
    slice
        Consecutive rows. The shares of all processes cover the rows, each once.
    """
    rank = collective.get_rank()
    count = collective.get_world_size()
    return slice(rows * rank // count, rows * (rank + 1) // count)


def of_all(values: NDArray[Any], rows: int) -> NDArray[Any]:
    """Values of all rows, from those of the share of each process.

    Parameters
    ----------
    values : ndarray, shape (own rows, ...)
        Of the rows of :func:`share`.
    rows : int
        Number of rows of all processes.

    Returns
    -------
    ndarray, shape (rows, ...)
        The same in every process.
    """
    if collective.get_world_size() == 1:
        return values
    sums = np.zeros((rows, *values.shape[1:]), dtype=values.dtype)
    sums[share(rows)] = values
    return collective.allreduce(sums, collective.Op.SUM).reshape(sums.shape)
