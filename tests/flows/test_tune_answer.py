"""The job that a search leaves, by what it found before its time ended."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from evenhand.fairlib.tuning.study import Aim, Limit, Trial
from evenhand.flows import tune_answer
from evenhand.flows.tune_alternatives import Alternative, NoWorse
from evenhand.flows.tune_answer import left_unjudged, prepare_best, unjudged_answer

LIMIT = Limit("balanced_accuracy", ">=", 0.695)
GAP = "gap_max.sex"


def plan_of(target: Path, **fields: Any) -> Any:
    plan = {"alternative": None, "target": target, "time_limit": "1 minute", "overwrites": True}
    return SimpleNamespace(**(plan | {"proofs": ()} | fields))


def test_the_job_of_an_earlier_search_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have been judged; one with default settings was not."""
    monkeypatch.setattr(tune_answer, "unjudged_text", lambda plan: "defaults")
    target = tmp_path / "people.tuned.yaml"
    plan = plan_of(target)
    failed: Any = Trial(0, "default", "failed", error="too few rows.")
    command: Any = SimpleNamespace(deadline=None)
    assert unjudged_answer(plan).text == "defaults"
    line = left_unjudged(command, plan, [failed])
    assert line.endswith(
        f"{target} has default settings that were not judged, with the limits as gates"
    )
    assert target.read_text() == "defaults"
    target.write_text("judged")
    answer = unjudged_answer(plan)
    assert (answer.text, answer.exit_code) == (None, 4)
    assert f"{target} of an earlier search was kept" in answer.message
    line = left_unjudged(command, plan, [failed])
    assert line == f"no trial could be judged: too few rows; {target} of an earlier search was kept"
    assert target.read_text() == "judged"


def test_the_best_so_far_keeps_where_with_its_chance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the answer of a search for alternatives does that ends by itself."""
    where = Limit("impact_ratio.sex", ">=", 0.8)
    trials = []
    for number, (gap, below) in enumerate(((0.2, 0.9), (0.05, 0.6), (0.1, 0.9))):
        metrics = {
            "balanced_accuracy": {"value": 0.7},
            GAP: {"value": gap},
            where.metric: {"value": 0.95, "low": 0.9, "high": 1.0, "below": below, "above": 1.0},
        }
        trials.append(Trial(number, "random" if number else "job", "judged", metrics=metrics))
    aim = Aim((GAP,), (LIMIT, where), 0.5)
    alternative = Alternative("people", "people", (NoWorse("balanced_accuracy", 0.005),))
    identity = dict.fromkeys(("job", "methods", "decisions", "halving"))
    limits = [vars(LIMIT), vars(where)]
    identity |= {"level": 0.95, "no_worse": 1}
    identity |= {"aim": {"objectives": [GAP], "limits": limits, "confidence": 0.5}}  # type: ignore[dict-item]
    chosen: list[Any] = []

    def text_of(plan: Any, trial: Trial, rows: Any, document: Any) -> str:
        chosen.append((trial.number, document["caveat"], document["standings"][1]["kept_by"]))
        return "job"

    monkeypatch.setattr(tune_answer, "_job_text", text_of)
    rows: Any = SimpleNamespace(identity=identity)
    study: Any = SimpleNamespace(folder=tmp_path)
    deadline: Any = SimpleNamespace(prepare=lambda answer: None)
    for confidence in (None, 0.9):
        plan = plan_of(
            tmp_path / "job",
            aim=aim,
            alternative=alternative,
            confidence=confidence,
            tune=SimpleNamespace(prefer=None),
        )
        prepare_best(plan, rows, study, deadline, trials)
    unexamined = tune_answer.UNEXAMINED
    assert chosen == [("1", unexamined, "value"), ("2", unexamined, "chance")]
