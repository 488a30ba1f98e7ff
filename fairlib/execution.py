"""How a computation runs: its seeds, its threads, and the progress that it reports."""

from __future__ import annotations

import hashlib
import math
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import numpy as np

    from evenhand.fairlib.arrays import Int

Result = TypeVar("Result")
# Where a method may train.
DEVICES = ("auto", "cpu", "cuda")
Progress = Callable[[int, int], None]
"""``callback(done, total)``: `total` is the same in every call; `done` never falls, and ends at
`total`.
"""


def available_cores() -> int:
    """Cores that the operating system gives this process, at least 1."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


def free_memory() -> float:
    """Bytes that this process may still take: of the machine, its control group, and its own
    limits.
    """
    free = [math.inf]
    for line in _read("/proc/meminfo").splitlines():
        if line.startswith("MemAvailable"):
            free.append(1024.0 * int(line.split()[1]))
    free += _free_in_control_groups()
    free += _free_in_limits()
    return max(0.0, min(free))


def _free_in_control_groups() -> list[float]:
    """Bytes that the control groups of this process, if any, leave it (Linux)."""
    group = "/"
    for line in _read("/proc/self/cgroup").splitlines():
        if line.startswith("0::"):
            group = line.removeprefix("0::")
    free = []
    for folder in {f"/sys/fs/cgroup{group}", "/sys/fs/cgroup"}:
        limit = _read(f"{folder}/memory.max").strip()
        used = _read(f"{folder}/memory.current").strip()
        if limit.isdigit() and used.isdigit():
            # pages of files can be given back
            stat = dict(line.split() for line in _read(f"{folder}/memory.stat").splitlines())
            free.append(float(int(limit) - int(used) + int(stat.get("file", 0))))
    return free


def _free_in_limits() -> list[float]:
    """Bytes that this process's own limits, such as those of ``ulimit``, leave it (Linux)."""
    status = {}
    for line in _read("/proc/self/status").splitlines():
        if ":" in line:
            key, value = line.split(":", 1)
            status[key] = value
    if not status or sys.platform != "linux":
        return []
    import resource

    free = []
    for kind, key in ((resource.RLIMIT_AS, "VmSize"), (resource.RLIMIT_DATA, "VmData")):
        soft = resource.getrlimit(kind)[0]
        if soft != resource.RLIM_INFINITY and key in status:
            free.append(soft - 1024.0 * int(status[key].split()[0]))
    return free


def _read(path: str) -> str:
    """Content of a file; empty if it cannot be read."""
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def map_in_threads(
    jobs: int, function: Callable[..., Result], *arguments: Iterable[Any]
) -> list[Result]:
    """Results of a function for several arguments, in their order; on one thread without a pool.

    Parameters
    ----------
    jobs : int
        Threads; 1 for none but this one.
    function : callable
        Called with one element of each of the arguments.
    *arguments : iterable
        Elements of each argument.

    Returns
    -------
    list
        Results.
    """
    if jobs == 1:
        return list(map(function, *arguments))
    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(function, *arguments))


@contextmanager
def one_thread() -> Iterator[None]:
    """Run torch on one thread, and restore the number afterwards.

    Mini-batches are too small to divide: two threads took ten times as long as one on two cores. On
    one thread the sums, and so the weights, do not depend on the number of cores either.
    """
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def shifted(callback: Progress | None, before: int, total: int) -> Progress | None:
    """Callback for one part of a count of `total`, after earlier parts counted `before`.

    Parameters
    ----------
    callback : callable, optional
        Callback of the whole count, or None.
    before : int
        What earlier parts counted.
    total : int
        Total of the whole count.

    Returns
    -------
    callable or None
        ``callback(done, total)`` of the part.
    """
    if callback is None:
        return None
    return lambda done, _: callback(before + done, total)


def derive_seed(seed: int | None, *labels: str) -> int:
    """Seed for one purpose, a pure function of the job's seed and the purpose's names, such as
    ``"split"``.

    Different names give unrelated seeds: a new random choice in one step changes no other step. The
    seed is in ``[0, 2**31)``: every library accepts it. A job's seed of None counts as 0.

    Parameters
    ----------
    seed : int, optional
        Seed of the job; None counts as 0.
    *labels : str
        Names of the purpose.

    Returns
    -------
    int
        In ``[0, 2**31)``.
    """
    text = "\x1f".join([str(int(seed or 0)), *labels])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") >> 1


def sample_rows(n: int, most: int, rng: np.random.Generator) -> Int:
    """Positions in ascending order, shape (min(n, most),), of random rows of n; of all where n <=
    most.

    Parameters
    ----------
    n : int
        Number of rows.
    most : int
        Most rows that are drawn.
    rng : np.random.Generator
        Generator of the choice.

    Returns
    -------
    ndarray of int64, shape (min(n, most),)
        Ascending positions.
    """
    import numpy as np  # imported lazily: reporting progress needs none of it

    if n <= most:
        return np.arange(n)
    return np.sort(rng.choice(n, most, replace=False))


def generator(seed: int | None, *labels: str) -> np.random.Generator:
    """Explicit generator seeded by :func:`derive_seed`.

    Parameters
    ----------
    seed : int, optional
        Seed of the job; None counts as 0.
    *labels : str
        Names of the purpose.

    Returns
    -------
    np.random.Generator
        A generator of its own.
    """
    import numpy as np

    return np.random.default_rng(derive_seed(seed, *labels))


def contention(
    cpu_seconds: float = 0.05,
    wall: Callable[[], float] = time.perf_counter,
    cpu: Callable[[], float] = time.thread_time,
) -> float:
    """Measure how many seconds one second of computing takes on this machine now.

    Parameters
    ----------
    cpu_seconds : float
        For how long the measurement computes.
    wall, cpu : callable
        Clocks of the time that passes, and of what this thread computed, in seconds.

    Returns
    -------
    float
        1 on an idle machine; about n where n processes share each core.
    """
    begun = wall()
    computed_before = cpu()
    computed = 0.0
    while computed < cpu_seconds:
        computed = cpu() - computed_before
    return max(1.0, (wall() - begun) / computed)
