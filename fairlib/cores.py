"""Number of cores for this process, work in threads, and training on one thread."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

__all__ = ["available_cores", "map_in_threads", "one_thread"]

Result = TypeVar("Result")


def available_cores() -> int:
    """Cores that the operating system gives this process, at least 1."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


def map_in_threads(jobs: int, function: Callable[..., Result], *arguments: Iterable[Any]) -> list[Result]:
    """Results of a function for several arguments, in their order; on one thread without a pool."""
    if jobs == 1:
        return list(map(function, *arguments))
    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(function, *arguments))


@contextmanager
def one_thread() -> Iterator[None]:
    """
    Run torch on one thread, and restore the number afterwards.

    Mini-batches are too small to divide: two threads took ten times as long as one on two cores. On one
    thread the sums, and so the weights, do not depend on the number of cores either.
    """
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
