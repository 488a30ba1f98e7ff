"""Progress of steps: who is told, and a count over stages that are counted apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from evenhand.tasks.step import Stages, listen, report_progress, working


class Notes:
    """A listener that also wants to know which step runs."""

    def __init__(self) -> None:
        self.heard: list[object] = []

    def __call__(self, step: str, done: int, total: int, values: Mapping[str, float]) -> None:
        self.heard.append((step, done, total))

    @contextmanager
    def working(self, step: str) -> Iterator[None]:
        self.heard.append(f"{step} begins")
        try:
            yield
        finally:
            self.heard.append(f"{step} ends")


def test_a_listener_that_wants_to_hears_which_step_runs() -> None:
    notes = Notes()
    with listen(notes):
        with working("train"):
            report_progress("train")(1, 3, {})
        with pytest.raises(ValueError, match="by itself"), working("gate"):
            raise ValueError("by itself")
    with working("nobody listens"):
        pass
    assert notes.heard == ["train begins", ("train", 1, 3), "train ends", "gate begins", "gate ends"]


def test_a_plain_callback_hears_only_counts() -> None:
    heard: list[tuple[str, int, int]] = []
    with listen(lambda step, done, total, values: heard.append((step, done, total))), working("train"):
        report_progress("train")(2, 3, {})
    assert heard == [("train", 2, 3)]


def test_stages_make_one_count_that_never_falls_and_ends_at_its_total() -> None:
    heard: list[tuple[int, int]] = []
    stages = Stages(lambda done, total, values: heard.append((done, total)), 3)
    first = stages.next()
    first(1, 8)
    first(8, 8)
    stages.next()  # counts nothing itself
    stages.next()(1, 1)
    stages.finish()
    assert heard == [(done, 300) for done in (0, 12, 100, 100, 200, 300, 300)]
