"""The time that a search keeps for what follows it."""

from __future__ import annotations

import pytest

from evenhand.fairlib.tuning.budget import Budget
from evenhand.fairlib.tuning.study import Trial
from evenhand.flows.tune_search import finishing_seconds, writing_seconds


def test_the_reserve_follows_from_what_judgements_took() -> None:
    budget = Budget(100.0, clock=lambda: 0.0, writing=5.0)
    majority = Trial(1, "majority", "judged", seconds=2.0)
    quick = Trial(0, "default", "partial", seconds=1.0)
    judged = Trial(0, "default", "judged", seconds=8.0)
    slow = Trial(0, "default", "judged", seconds=800.0)
    assert finishing_seconds([], None, budget) < 0  # the first answer may be a little late
    assert finishing_seconds([quick], quick, budget) == 5.0
    assert finishing_seconds([majority, judged], judged, budget) == 5.0 + 8.0 + 12.0
    assert finishing_seconds([majority, slow], slow, budget) == 5.0 + 50.0


@pytest.mark.parametrize(("slowness", "seconds"), [(1.0, 4.0), (5.0, 10.0), (50.0, 25.0)])
def test_a_busy_machine_gets_more_time_for_writing(slowness: float, seconds: float) -> None:
    assert writing_seconds(slowness, Budget(100.0)) == seconds
