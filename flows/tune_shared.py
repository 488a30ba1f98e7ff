"""What the parts of a `tune` command share: how it runs, and what its search has found."""

from __future__ import annotations

from dataclasses import dataclass

from evenhand.fairlib.tuning.budget import Budget
from evenhand.fairlib.tuning.study import Trial
from evenhand.flows.engine import Engine, Verdict
from evenhand.flows.tune_deadline import Deadline
from evenhand.flows.tune_ending import Ending
from evenhand.flows.tune_plan import TunePlan
from evenhand.flows.tune_search import Rows, SearchProgress
from evenhand.tasks.execution.store import Store
from evenhand.tasks.tuning.trial_search import Study


@dataclass(frozen=True)
class Command:
    """What the parts of a command share."""

    store: Store
    engine: Engine
    verdict: Verdict
    budget: Budget
    progress: SearchProgress
    ending: Ending
    deadline: Deadline | None


@dataclass(frozen=True)
class Searched:
    """A search that has ended: its rows, its study, the trials that the answer is chosen from, and
    the models of the stream of random settings that count.
    """

    plan: TunePlan  # with limits by the champion, where an alternative to one is searched
    rows: Rows
    study: Study
    trials: list[Trial]
    stream: list[int]
