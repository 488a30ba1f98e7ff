"""The time of a search, with a clock that the tests turn."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest

from evenhand.fairlib.execution import contention
from evenhand.fairlib.tuning.budget import Budget, Work, cpu_seconds_of_processes


class Clock:
    """A clock that shows what it was set to."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def test_time_counts_from_the_start_of_the_command() -> None:
    """The reserve stays."""
    clock = Clock(130.0)
    budget = Budget(60.0, started=100.0, clock=clock, reserve=10.0)
    assert (budget.spent, budget.left, budget.search_left) == (30.0, 30.0, 20.0)
    clock.now = 165.0
    assert (budget.left, budget.search_left) == (-5.0, -15.0)


def test_without_a_limit_everything_is_admitted() -> None:
    budget = Budget(clock=Clock(1e9))
    budget.record(Work("gbdt"), 1e6)
    assert not budget.is_limited
    assert budget.left == math.inf
    assert budget.admits(Work("gbdt"))


def test_nothing_starts_that_would_not_end_in_time() -> None:
    clock = Clock()
    budget = Budget(60.0, clock=clock, reserve=10.0)
    for seconds in (8.0, 2.0, 4.0, 6.0):
        budget.record(Work("gbdt"), seconds)
    assert budget.expected(Work("gbdt")) == 6.0
    clock.now = 43.9
    assert budget.admits(Work("gbdt"))
    assert not budget.admits(Work("gbdt"), extra=0.2)
    clock.now = 44.0
    assert not budget.admits(Work("gbdt"))


@pytest.mark.parametrize(
    ("name", "part", "expected"),
    # a model of all rows takes at least as long as one of a part of them
    [("project", 1, 12.0), ("project", 3, 2.0), ("slow", 1, 50.0), ("slow", 9, None)],
)
def test_unmeasured_work_takes_twice_the_longest_of_its_part(
    name: str, part: int, expected: float | None
) -> None:
    """This is the expected time."""
    budget = Budget(60.0, clock=Clock())
    budget.record(Work("plain"), 6.0)
    budget.record(Work("majority"), 2.0)
    budget.record(Work("plain", 3), 1.0)
    budget.record(Work("slow", 6), 50.0)
    assert budget.expected(Work(name, part)) == expected


def test_the_first_work_of_all_is_admitted_while_there_is_time() -> None:
    clock = Clock(59.0)
    budget = Budget(60.0, clock=clock)
    assert budget.expected(Work("gbdt")) is None
    assert budget.admits(Work("gbdt"))
    clock.now = 60.0
    assert not budget.admits(Work("gbdt"))


def test_contention_is_passed_time_by_computed_time() -> None:
    wall = iter([100.0, 100.4])
    cpu = iter([7.0, 7.04, 7.1])
    assert contention(0.05, lambda: next(wall), lambda: next(cpu)) == pytest.approx(4.0)


def test_cpu_seconds_are_shared_by_the_workers() -> None:
    clock = Clock()
    budget = Budget(60.0, 0.0, clock, cpu_seconds=30.0, cpu_clock=lambda: 10.0, workers=4)
    assert budget.is_limited
    assert budget.total == 7.5
    assert budget.left == 5.0
    clock.now = 58.0
    assert budget.left == 2.0
    alone = Budget(cpu_seconds=30.0, cpu_clock=lambda: 10.0)
    assert alone.is_limited
    assert alone.left == 20.0


def test_cpu_seconds_are_compared_with_cpu_seconds() -> None:
    """On a busy machine a work of 12 s takes 4 CPU seconds; 10 of them are left for a worker."""
    budget = Budget(cpu_seconds=40.0, cpu_clock=lambda: 20.0, workers=2)
    budget.record(Work("gbdt"), 12.0, cpu_seconds=4.0)
    assert (budget.expected(Work("gbdt")), budget.expected_cpu(Work("gbdt"))) == (12.0, 4.0)
    assert budget.admits(Work("gbdt"))
    # another kind takes twice as many
    assert budget.admits(Work("logistic"), extra=1.9)
    assert not budget.admits(Work("logistic"), extra=2.1)
    budget.record(Work("gbdt"), 12.0, cpu_seconds=12.0)
    assert not budget.admits(Work("gbdt"))


def test_seconds_are_compared_with_seconds() -> None:
    """There are enough CPU seconds, but on a busy machine they take too long."""
    clock = Clock()
    budget = Budget(60.0, 0.0, clock, cpu_seconds=100.0, cpu_clock=lambda: 20.0)
    budget.record(Work("gbdt"), 12.0, cpu_seconds=4.0)
    clock.now = 47.9
    assert budget.admits(Work("gbdt"))
    clock.now = 48.1
    assert not budget.admits(Work("gbdt"))


def test_cpu_seconds_last_longer_on_a_busy_machine() -> None:
    budget = Budget(cpu_seconds=40.0, cpu_clock=lambda: 20.0, workers=2)
    assert (budget.total, budget.left) == (20.0, 10.0)
    budget.record(Work("gbdt"), 12.0, cpu_seconds=3.0)
    assert (budget.total, budget.left) == (80.0, 40.0)
    # results of the cache take no CPU time
    cached = Budget(cpu_seconds=40.0, cpu_clock=lambda: 20.0)
    cached.record(Work("gbdt"), 1.0, cpu_seconds=0.0)
    assert cached.left == 400.0


def test_cpu_seconds_are_kept_for_one_process() -> None:
    """Many workers share the rest: what follows the search does not take all of them."""
    budget = Budget(cpu_seconds=120.0, cpu_clock=lambda: 20.0, workers=16, reserve=20.0)
    assert budget.search_left == 5.0
    budget.record(Work("gbdt"), 4.0, cpu_seconds=2.0)
    # in 20 s this process gets 10 CPU seconds
    assert budget.search_left == 90.0 / 16.0 / 0.5
    assert budget.admits(Work("gbdt"), extra=3.5)
    assert not budget.admits(Work("gbdt"), extra=3.7)


def test_cpu_seconds_are_those_of_all_processes() -> None:
    """A child that computes adds its seconds while it runs and after it has ended."""
    before = cpu_seconds_of_processes()
    program = "import time\nwhile time.process_time() < .3: pass\nprint(1, flush=True)\ninput()"
    child = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    child.stdout.readline()
    if sys.platform == "linux":
        assert cpu_seconds_of_processes() - before >= 0.28
    child.communicate(b"\n")
    assert cpu_seconds_of_processes() - before >= 0.28
