"""Lines of progress where stderr is not a terminal, such as the log of a scheduled run."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Self, TextIO

EVERY_S = 20.0


@dataclass
class _Count:
    """Count of a running step: where and when it began, and the last report; the total is 0 without one."""

    begun: float
    first: tuple[int, float] = (0, 0.0)
    done: int = 0
    total: int = 0
    values: Mapping[str, float] = field(default_factory=dict)


class ProgressLines:
    """
    Listener that writes the progress of the running steps every 20 seconds, as one line.

    A daemon thread writes the lines, because a step may report nothing for minutes.

    `out` is a text stream, `clock` gives monotonic time in seconds.
    """

    def __init__(self, out: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._out, self._clock = out, clock
        self._run = _Count(clock())
        self._steps: dict[str, _Count] = {}
        self._ended = threading.Event()
        self._writer = threading.Thread(target=self._write, name="evenhand-progress", daemon=True)

    def __enter__(self) -> Self:
        self._writer.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._writer.join(1.0)  # a reader that has stopped reading must not keep the command from ending

    def __call__(self, step: str, done: int, total: int, values: Mapping[str, float]) -> None:
        """Keep a step's progress and its latest values."""
        now = self._clock()
        count = self._steps.setdefault(step, _Count(now))
        if not count.total:  # a step that resumes from a checkpoint begins above 0
            count.first = (done, now)
        count.done, count.total, count.values = done, total, values

    @contextmanager
    def working(self, step: str) -> Iterator[None]:
        """Name a step in the lines while the block runs."""
        self._steps[step] = _Count(self._clock())
        try:
            yield
        finally:
            self._steps.pop(step, None)

    def line(self) -> str:
        """Return the present line: each running step with its share, and the time left or spent."""
        counts = list(self._steps.items()) or [("evenhand", self._run)]
        return "; ".join(f"{step.removesuffix(' kB')}  {self._progress(count)}" for step, count in counts)

    def _progress(self, count: _Count) -> str:
        now = self._clock()
        (first, since), share = count.first, f"{100 * count.done // count.total} %, " if count.total else ""
        shown = "".join(f", {name} {value:.4g}" for name, value in count.values.items())
        if first < count.done < count.total:
            left = (count.total - count.done) * (now - since) / (count.done - first)
            return f"{share}about {_duration(left)} left{shown}"
        return f"{share}running for {_duration(now - count.begun)}{shown}"

    def _write(self) -> None:
        with contextlib.suppress(OSError, ValueError):  # a closed stream or pipe ends the lines, not the run
            while not self._ended.wait(EVERY_S):
                print(self.line(), file=self._out, flush=True)


def _duration(seconds: float) -> str:
    """Return seconds in the two largest units, such as ``1 min 10 s``."""
    minutes, rest = divmod(max(1, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
