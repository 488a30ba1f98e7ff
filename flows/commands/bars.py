"""Progress bars in the terminal, imported lazily: most commands do not use rich."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Self

from rich import progress
from rich.console import Console
from rich.table import Table
from rich.text import Text

from evenhand.flows.engine import WITHOUT_ESTIMATE

DELAY_S = 2.0


class Bars:
    """Listener that shows a bar for every slow step; the bar pulses until the step reports a count.

    `console` is stderr by default.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._shown = _SlowSteps(
            progress.TextColumn("{task.description:10}"),
            progress.BarColumn(),
            _Count(),
            progress.TimeElapsedColumn(),
            _TimeLeft(),
            console=console or Console(stderr=True),
            transient=True,
            redirect_stdout=False,  # else rich would print our stdout to its console
        )
        self._tasks: dict[str, progress.TaskID] = {}

    def __enter__(self) -> Self:
        self._shown.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._shown.stop()

    def __call__(self, step: str, done: int, total: int, values: Mapping[str, float]) -> None:
        """Show a step's progress."""
        if step not in self._tasks:
            self._tasks[step] = self._shown.add_task(step, total=total)
        self._shown.update(self._tasks[step], completed=done, total=total)

    @contextmanager
    def described(self, text: Callable[[], str]) -> Iterator[None]:
        """Show this text in a row of its own while the block runs."""
        task = self._shown.add_task("", total=None, text=text)
        try:
            yield
        finally:
            self._shown.remove_task(task)

    @contextmanager
    def working(self, step: str) -> Iterator[None]:
        """Show a step while the block runs."""
        if step not in self._tasks:
            self._tasks[step] = self._shown.add_task(step, total=None)
        try:
            yield
        finally:
            self._shown.remove_task(self._tasks.pop(step))


class _SlowSteps(progress.Progress):
    """Bars of the steps that have run for longer than the delay: most steps end before."""

    def make_tasks_table(self, tasks: Iterable[progress.Task]) -> Table:
        """Return the rows of the slow steps."""
        return super().make_tasks_table(
            [task for task in tasks if (task.elapsed or 0.0) >= DELAY_S]
        )


class _TimeLeft(progress.TimeRemainingColumn):
    """The time left, of steps whose end follows from their counts."""

    def render(self, task: progress.Task) -> Text:
        """Return the text of one row."""
        if task.description in WITHOUT_ESTIMATE:
            return Text("")
        return super().render(task)


class _Count(progress.ProgressColumn):
    """Column with the count and the total, if the step has reported them."""

    def render(self, task: progress.Task) -> Text:
        """Return the text of one row."""
        text = task.fields.get("text")
        if text is not None:
            return Text(text(), style="progress.download")
        count = ""
        if task.total is not None:
            count = f"{int(task.completed)}/{int(task.total)}"
        return Text(count, style="progress.download")
