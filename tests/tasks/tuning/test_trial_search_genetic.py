"""Genetic proposals: they go on after an interruption, and their parents are good trials."""

from __future__ import annotations

from pathlib import Path

import pytest

from evenhand.fairlib.tuning.study import Aim, Limit
from tests.tasks.tuning.test_trial_search import RULES, facts_of, plan_of, rules_of, searched


@pytest.mark.parametrize("sampler", ["nsga2", "nsga3"])
def test_a_genetic_search_continues_as_if_uninterrupted(tmp_path: Path, sampler: str) -> None:
    aim = Aim(("accuracy", "gap_max.sex"))
    plan = plan_of(aim=aim, rules=RULES, sampler=sampler)
    whole = searched(tmp_path / "whole", 25, plan)
    for most in (2, 9, 10, 25):
        found = searched(tmp_path / "study", most, plan)
        assert len(rules_of(found)) == most
    assert facts_of(found) == facts_of(whole)


@pytest.mark.parametrize("sampler", ["nsga2", "nsga3"])
def test_a_genetic_search_learns_where_the_best_trials_are(tmp_path: Path, sampler: str) -> None:
    """Though the controls have no parameters, and method b not those of a."""
    trials = searched(tmp_path, 200, plan_of(rules=RULES, sampler=sampler))
    later = [trial for trial in trials if trial.rule == 0][150:]
    found = sorted(abs(trial.arguments["x"] - 0.3) for trial in later if trial.method == "a")
    assert len(found) > 35  # of uniform ones: 25
    assert found[len(found) // 2] < 0.15  # of uniform ones: 0.29


@pytest.mark.parametrize("sampler", ["nsga2", "nsga3"])
def test_parents_of_a_genetic_search_are_near_the_limits(tmp_path: Path, sampler: str) -> None:
    """In the second generation, whose parents are chosen from all of the first."""
    aim = Aim(("accuracy",), (Limit("gap_max.sex", "<=", 0.2),), 0.975)
    trials = searched(tmp_path, 104, plan_of(aim=aim, sampler=sampler))
    within = [trial for trial in trials[54:] if trial.arguments.get("x", 0.9) <= 0.19]
    assert len(within) > 9  # of random ones: 5
