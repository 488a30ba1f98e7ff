"""The wall-clock and CPU time of a search: what is left, what must stay for the end, and what may
still start.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

Clock = Callable[[], float]
# Of the measured durations of one kind of work, this quantile is what the next one is expected to
# take.
EXPECTED_QUANTILE = 0.75
# Work of a kind that was never measured is expected to take so many times the longest that was.
UNMEASURED_FACTOR = 2.0
# A worker is taken to get at least such a share of a core: a judgement from the cache computes
# nearly nothing.
LEAST_SHARE = 0.05


def cpu_seconds_of_processes() -> float:
    """Return the CPU seconds of this process, its children and theirs, ended ones included.

    Returns
    -------
    float
        Where running children cannot be asked (not on Linux), without theirs.
    """
    times = os.times()
    seconds = times.user + times.system + times.children_user + times.children_system
    waiting = _children(os.getpid())
    while waiting:
        process = waiting.pop()
        seconds += _cpu_seconds(process)
        waiting += _children(process)
    return seconds


def _children(process: int) -> list[int]:
    """Numbers of the running children of a process; none where they are not known."""
    numbers: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{process}/task"):
            children = Path(f"/proc/{process}/task/{thread}/children").read_text()
            numbers += map(int, children.split())
    except (OSError, ValueError):
        # the process has ended
        return numbers
    return numbers


def _cpu_seconds(process: int) -> float:
    """CPU seconds of a running process and of its ended children; 0 if it has ended."""
    try:
        content = Path(f"/proc/{process}/stat").read_text()
        # the name in brackets may hold spaces; the 14th to 17th field are times in clock ticks
        ticks = sum(map(int, content.rpartition(")")[2].split()[11:15]))
        return float(ticks / os.sysconf("SC_CLK_TCK"))
    except (OSError, ValueError, AttributeError):
        return 0.0


@dataclass(frozen=True)
class Work:
    """A kind of work whose durations are alike: the judgement of a method's models.

    Parameters
    ----------
    name : str
        The method, or the name of a control.
    part : int
        The rows are divided by it: only one fold is judged, by a model of such a part of the
        rows. 1 for all folds and rows.
    """

    name: str
    part: int = 1


@dataclass
class Budget:
    """The seconds of a command, counted from its start.

    The command ends at the first of two limits: one of wall-clock seconds, and one of CPU seconds.
    What is left of the CPU seconds is shared by all workers. Each limit is compared with durations
    in its own unit: on a busy machine work takes more wall-clock seconds than CPU seconds.

    Parameters
    ----------
    seconds : float
        Wall-clock seconds of the whole command; infinite for no limit.
    started : float
        Time of the `clock` at which the command started.
    clock : callable
        Monotonic time in seconds.
    cpu_seconds : float
        CPU seconds of the whole command with all its processes; infinite for no limit.
    cpu_clock : callable
        CPU seconds that the command has taken.
    workers : int
        Number of models that are judged at a time.
    reserve : float
        Wall-clock seconds at the end that are kept for what follows the search, in one process.
    writing : float
        Wall-clock seconds at the end that are kept for writing the answer; a part of the reserve.
    start_seconds : float
        Wall-clock seconds that the slowest start of a worker's process took.

    Examples
    --------
    >>> budget = Budget(60.0, started=0.0, clock=lambda: 20.0, reserve=10.0)
    >>> budget.left, budget.search_left
    (40.0, 30.0)
    >>> budget = Budget(cpu_seconds=30.0, cpu_clock=lambda: 10.0, workers=2)
    >>> budget.left
    10.0

    Where each worker gets a quarter of a core, the CPU seconds last four times as long:

    >>> budget.record(Work("gbdt"), 4.0, cpu_seconds=1.0)
    >>> budget.left
    40.0
    """

    seconds: float = math.inf
    started: float = 0.0
    clock: Clock = time.monotonic
    cpu_seconds: float = math.inf
    cpu_clock: Clock = cpu_seconds_of_processes
    workers: int = 1
    reserve: float = 0.0
    writing: float = 0.0
    start_seconds: float = 0.0
    _measured: dict[Work, list[float]] = field(default_factory=dict)
    _measured_cpu: dict[Work, list[float]] = field(default_factory=dict)
    # of all work whose CPU seconds are known
    _shared_seconds: float = 0.0
    _shared_cpu_seconds: float = 0.0

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit at all."""
        return math.isfinite(self.total)

    @property
    def total(self) -> float:
        """Wall-clock seconds of the whole command, if all workers compute all the time."""
        return min(self.seconds, self.cpu_seconds / self._cpu_rate)

    @property
    def spent(self) -> float:
        """Seconds since the command's start."""
        return self.clock() - self.started

    @property
    def cpu_spent(self) -> float:
        """CPU seconds of the command so far, of all its processes."""
        return self.cpu_clock()

    @property
    def share(self) -> float:
        """CPU seconds that a worker gets in one wall-clock second, by what was measured; 1 before
        that.
        """
        if self._shared_seconds <= 0.0:
            return 1.0
        return max(self._shared_cpu_seconds / self._shared_seconds, LEAST_SHARE)

    @property
    def _cpu_rate(self) -> float:
        """CPU seconds that all workers together take in one wall-clock second."""
        return self.workers * self.share

    @property
    def left(self) -> float:
        """Wall-clock seconds until the command has to end; negative after that."""
        return self._left_after(0.0)

    @property
    def search_left(self) -> float:
        """Wall-clock seconds until the search has to end, so that the reserve stays."""
        return self._left_after(self.reserve)

    def _left_after(self, kept: float) -> float:
        """Return the wall-clock seconds that are left if one process needs so many more."""
        wall_left = self.seconds - self.spent - kept
        if math.isinf(self.cpu_seconds):
            return wall_left
        return min(wall_left, self._cpu_left_after(kept) / self._cpu_rate)

    def _cpu_left_after(self, kept: float) -> float:
        """Return the CPU seconds that are left if one process needs so many wall-clock seconds."""
        return self.cpu_seconds - self.cpu_clock() - kept * self.share

    def record(self, work: Work, seconds: float, cpu_seconds: float | None = None) -> None:
        """Keep how long a piece of work took.

        Parameters
        ----------
        work : Work
            Its kind.
        seconds : float
            Its wall-clock seconds.
        cpu_seconds : float, optional
            Its CPU seconds; default: not known, and taken to be as many.
        """
        self._measured.setdefault(work, []).append(seconds)
        known_cpu_seconds = seconds
        if cpu_seconds is not None:
            known_cpu_seconds = cpu_seconds
            self._shared_seconds += seconds
            self._shared_cpu_seconds += cpu_seconds
        self._measured_cpu.setdefault(work, []).append(known_cpu_seconds)

    def expected(self, work: Work) -> float | None:
        """Return how many wall-clock seconds work of a kind will take, by what was measured.

        Parameters
        ----------
        work : Work
            Its kind.

        Returns
        -------
        float or None
            A high quantile of the measured durations of this kind; of a kind that was never
            measured, twice the longest of the same part of the rows; and at least as long as it
            took on a smaller part. None if nothing of the kind or of the part was measured.
        """
        return _expected(work, self._measured)

    def expected_cpu(self, work: Work) -> float | None:
        """Return how many CPU seconds work of a kind will take, as `expected` does.

        Parameters
        ----------
        work : Work
            Its kind.

        Returns
        -------
        float or None
        """
        return _expected(work, self._measured_cpu)

    def admits(self, work: Work, extra: float = 0.0) -> bool:
        """Return whether work of a kind would end before the search has to.

        Parameters
        ----------
        work : Work
            Its kind. Where nothing like it was measured, it is admitted while any time is left.
        extra : float
            CPU seconds that the work takes once in addition, such as for compiling.

        Returns
        -------
        bool
        """
        wall_left = self.seconds - self.spent - self.reserve
        if wall_left <= (self.expected(work) or 0.0) + extra:
            return False
        if math.isinf(self.cpu_seconds):
            return True
        # the other workers take as many CPU seconds meanwhile
        cpu_left = self._cpu_left_after(self.reserve) / self.workers
        return cpu_left > (self.expected_cpu(work) or 0.0) + extra


def _expected(work: Work, measured: Mapping[Work, Sequence[float]]) -> float | None:
    """Return what work of a kind will take, in the unit of what was measured."""
    durations = measured.get(work)
    if durations:
        ordered = sorted(durations)
        return ordered[math.floor(EXPECTED_QUANTILE * (len(ordered) - 1) + 0.5)]
    expected: list[float] = []
    # a copy: another thread may record meanwhile
    for kind, times in list(measured.items()):
        if kind.part == work.part:
            expected.append(UNMEASURED_FACTOR * max(times))
        if kind.name == work.name and kind.part > work.part:
            expected.append(min(times))
    return max(expected, default=None)
