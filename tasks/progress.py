"""Progress of long steps: to whoever listens in this process, and to Prefect where a run is under way."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar

from evenhand.fairlib.progress import Progress

__all__ = ["Listener", "Stages", "listen", "report_progress", "working"]

Listener = Callable[[str, int, int, Mapping[str, float]], None]
_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)
ARTIFACT_EVERY_S = 3.0


@contextmanager
def listen(listener: Listener | None) -> Iterator[None]:
    """
    Send progress as (step, done, total, values) to `listener` within the block.

    Where it has a method `working`, a context manager, that is entered around each step by its name, whether
    the step counts anything or not.
    """
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


@contextmanager
def working(step: str) -> Iterator[None]:
    """Tell the listener, if it wants to know, that this step is under way within the block."""
    told = getattr(_listener.get(), "working", None)
    with told(step) if told is not None else nullcontext():
        yield


def report_progress(step: str, *, prefect: bool = False) -> Callable[[int, int, Mapping[str, float]], None]:
    """Build the callback of one step; with `prefect` it also keeps a progress artifact up to date."""
    listener = _listener.get()
    artifact = _PrefectProgress(step) if prefect else None

    def report(done: int, total: int, values: Mapping[str, float]) -> None:
        if listener is not None:
            listener(step, done, total, values)
        if artifact is not None:
            artifact(done, total, values)

    return report


class Stages:
    """
    One count over a step's stages, a hundred for each of them, whatever it counts itself.

    Parameters
    ----------
    report : callable
        ``(done, total, values)``, as of :class:`evenhand.tasks.step.StepContext`.
    count : int
        Number of stages; each begins with a call of :meth:`next`.
    """

    def __init__(self, report: Callable[[int, int, Mapping[str, float]], None], count: int) -> None:
        self.report, self.count, self.begun = report, count, 0

    def next(self) -> Progress:
        """Count the stage before as done, and give the callback of the next one."""
        before = 100 * self.begun
        self.begun += 1
        self.report(before, 100 * self.count, {})
        return lambda done, total: self.report(before + 100 * done // total, 100 * self.count, {})

    def finish(self) -> None:
        """Count all as done."""
        self.report(100 * self.count, 100 * self.count, {})


class _PrefectProgress:
    """A progress artifact that appears after some seconds, so that quick steps cost no calls."""

    def __init__(self, step: str) -> None:
        self.step = step
        self.last = time.monotonic()
        self.identifier: object = None

    def __call__(self, done: int, total: int, values: Mapping[str, float]) -> None:
        now = time.monotonic()
        if now - self.last < ARTIFACT_EVERY_S and not (done == total and self.identifier):
            return
        from prefect.artifacts import create_progress_artifact, update_progress_artifact

        self.last = now
        share = 100.0 * done / total
        words = ", ".join(f"{name} {value:.4g}" for name, value in values.items())
        description = f"{self.step}: {done} of {total}{f' ({words})' if words else ''}"
        if self.identifier is None:
            self.identifier = create_progress_artifact(
                progress=share,
                key=f"{re.sub('[^a-z0-9]+', '-', self.step.lower())}-progress",
                description=description,
            )
        else:
            update_progress_artifact(artifact_id=self.identifier, progress=share, description=description)  # type: ignore[arg-type]
