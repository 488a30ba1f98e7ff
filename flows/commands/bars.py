"""The bars of :func:`flows.commands.terminal.progress_bars`: apart, for most commands need no rich."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

__all__ = ["DELAY_S", "Bars"]

DELAY_S = 2.0


class Bars:
    """
    Listener to steps: what lasts gets a bar, which only moves to and fro until the step counts something.

    Parameters
    ----------
    console : rich.console.Console, optional
        Where to; stderr unless given.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._shown = _SlowSteps(
            TextColumn("{task.description:10}"),
            BarColumn(),
            _Count(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console or Console(stderr=True),
            transient=True,
            redirect_stdout=False,  # else what is printed meanwhile would go where the bars go
        )
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Self:
        self._shown.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._shown.stop()

    def __call__(self, step: str, done: int, total: int, values: Mapping[str, float]) -> None:
        """Show how far a step is."""
        if step not in self._tasks:
            self._tasks[step] = self._shown.add_task(step, total=total)
        self._shown.update(self._tasks[step], completed=done, total=total)

    @contextmanager
    def working(self, step: str) -> Iterator[None]:
        """Show a step as long as it is under way."""
        if step not in self._tasks:
            self._tasks[step] = self._shown.add_task(step, total=None)
        try:
            yield
        finally:
            self._shown.remove_task(self._tasks.pop(step))


class _SlowSteps(Progress):
    """Bars of what has lasted for a while: most steps are over before anyone could read their names."""

    def make_tasks_table(self, tasks: Iterable[Task]) -> Table:
        """All rows."""
        return super().make_tasks_table([task for task in tasks if (task.elapsed or 0.0) >= DELAY_S])


class _Count(ProgressColumn):
    """How many of how many, where there is something to count."""

    def render(self, task: Task) -> Text:
        """One row's text."""
        counted = "" if task.total is None else f"{int(task.completed)}/{int(task.total)}"
        return Text(counted, style="progress.download")
