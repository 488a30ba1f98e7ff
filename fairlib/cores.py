"""How many cores this process may use, and when one is best."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["available_cores", "one_thread"]


def available_cores() -> int:
    """Cores that the operating system lets this process run on, at least 1."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


@contextmanager
def one_thread() -> Iterator[None]:
    """
    Run torch on one thread, and as before afterwards.

    Mini-batches are far too small to share out: two threads took ten times as long as one on two cores. The
    sums, and so the weights, then do not depend on the number of cores either.
    """
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
