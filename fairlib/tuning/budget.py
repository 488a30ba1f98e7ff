"""The wall-clock time of a search: what is left, what must stay for the end, and what may still
start.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

Clock = Callable[[], float]
# Of the measured durations of one kind of work, this quantile is what the next one is expected to
# take.
EXPECTED_QUANTILE = 0.75
# Work of a kind that was never measured is expected to take so many times the longest that was.
UNMEASURED_FACTOR = 2.0


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

    Parameters
    ----------
    seconds : float
        Wall-clock seconds of the whole command; infinite for no limit.
    started : float
        Time of the `clock` at which the command started.
    clock : callable
        Monotonic time in seconds.
    reserve : float
        Seconds at the end that are kept for what follows the search.
    writing : float
        Seconds at the end that are kept for writing the answer; a part of the reserve.

    Examples
    --------
    >>> budget = Budget(60.0, started=0.0, clock=lambda: 20.0, reserve=10.0)
    >>> budget.left, budget.search_left
    (40.0, 30.0)
    """

    seconds: float = math.inf
    started: float = 0.0
    clock: Clock = time.monotonic
    reserve: float = 0.0
    writing: float = 0.0
    _measured: dict[Work, list[float]] = field(default_factory=dict)

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit at all."""
        return math.isfinite(self.seconds)

    @property
    def spent(self) -> float:
        """Seconds since the command's start."""
        return self.clock() - self.started

    @property
    def left(self) -> float:
        """Seconds until the command has to end; negative after that."""
        return self.seconds - self.spent

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
