"""The wall-clock and CPU time of a search: what is left, what must stay for the end, and what may
still start.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

Clock = Callable[[], float]
# Of the measured durations of one kind of work, this quantile is what the next one is expected to
# take.
EXPECTED_QUANTILE = 0.75
# Work of a kind that was never measured is expected to take so many times the longest that was.
UNMEASURED_FACTOR = 2.0


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
    What is left of the CPU seconds is shared by all workers.

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
        Seconds at the end that are kept for what follows the search.
    writing : float
        Seconds at the end that are kept for writing the answer; a part of the reserve.

    Examples
    --------
    >>> budget = Budget(60.0, started=0.0, clock=lambda: 20.0, reserve=10.0)
    >>> budget.left, budget.search_left
    (40.0, 30.0)
    >>> Budget(60.0, clock=lambda: 20.0, cpu_seconds=30.0, cpu_clock=lambda: 10.0, workers=2).left
    10.0
    """

    seconds: float = math.inf
    started: float = 0.0
    clock: Clock = time.monotonic
    cpu_seconds: float = math.inf
    cpu_clock: Clock = cpu_seconds_of_processes
    workers: int = 1
    reserve: float = 0.0
    writing: float = 0.0
    _measured: dict[Work, list[float]] = field(default_factory=dict)

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit at all."""
        return math.isfinite(self.total)

    @property
    def total(self) -> float:
        """Wall-clock seconds of the whole command, if all workers compute all the time."""
        return min(self.seconds, self.cpu_seconds / self.workers)

    @property
    def spent(self) -> float:
        """Seconds since the command's start."""
        return self.clock() - self.started

    @property
    def cpu_spent(self) -> float:
        """CPU seconds of the command so far, of all its processes."""
        return self.cpu_clock()

    @property
    def left(self) -> float:
        """Seconds until the command has to end; negative after that."""
        wall_left = self.seconds - self.spent
        if math.isinf(self.cpu_seconds):
            return wall_left
        return min(wall_left, (self.cpu_seconds - self.cpu_clock()) / self.workers)

    @property
    def search_left(self) -> float:
        """Seconds until the search has to end, so that the reserve stays."""
        return self.left - self.reserve

    def record(self, work: Work, seconds: float) -> None:
        """Keep how long a piece of work took.

        Parameters
        ----------
        work : Work
            Its kind.
        seconds : float
            Its duration.
        """
        self._measured.setdefault(work, []).append(seconds)

    def expected(self, work: Work) -> float | None:
        """Return how many seconds work of a kind will take, by what was measured.

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
        durations = self._measured.get(work)
        if durations:
            ordered = sorted(durations)
            return ordered[math.floor(EXPECTED_QUANTILE * (len(ordered) - 1) + 0.5)]
        expected: list[float] = []
        for kind, times in self._measured.items():
            if kind.part == work.part:
                expected.append(UNMEASURED_FACTOR * max(times))
            if kind.name == work.name and kind.part > work.part:
                expected.append(min(times))
        return max(expected, default=None)

    def admits(self, work: Work, extra: float = 0.0) -> bool:
        """Return whether work of a kind would end before the search has to.

        Parameters
        ----------
        work : Work
            Its kind. Where nothing like it was measured, it is admitted while any time is left.
        extra : float
            Seconds that the work takes once in addition, such as for compiling.

        Returns
        -------
        bool
        """
        expected = self.expected(work) or 0.0
        return self.search_left > expected + extra
