"""The study of a search: its first trials, kills at any moment, what is pruned, and who may hold it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from evenhand.fairlib.evaluation.tradeoff import Limit
from evenhand.fairlib.tuning.space import Choice, Real
from evenhand.fairlib.tuning.study import Aim, Trial, best
from evenhand.tasks.errors import InputError, NotCarriedOut
from evenhand.tasks.tuning.search import DEFAULT, JOB, STARTUP, Candidate, Plan, Study

IDENTITY = {"table": "t", "contract": "c", "search": "s"}
SPACE = {"a": {"x": Real(0.0, 1.0, default=0.5), "size": Choice(((1,), (2, 3)), (1,))}, "b": {}}
CONTROLS = [Candidate(name) for name in ("majority", "plain", "blind")]
FIXED = [*CONTROLS, Candidate(DEFAULT, "a", {"x": 0.5, "size": (1,)})]


def plan_of(*, aim: Aim | None = None, halving: bool = False, fixed: Any = FIXED) -> Plan:
    limited = Aim(("accuracy",), (Limit("gap_max.sex", "<=", 0.5),))
    return Plan(aim or limited, SPACE, [JOB], Real(0.0, 0.2, default=0.05), fixed, 7, halving)


def judge(candidate: Candidate, first: bool) -> Mapping[str, Any]:
    """The nearer x is to 0.3, the better; the gap is x; method b is bad."""
    x = candidate.arguments.get("x", 0.9)
    value = 0.9 - abs(x - 0.3) if candidate.method == "a" else 0.4
    return {"accuracy": numbers(value), "gap_max.sex": numbers(x)}


def numbers(value: float) -> dict[str, float]:
    return {"value": value, "low": value - 0.01, "high": value + 0.01}


def searched(folder: Path, most: int, plan: Plan | None = None, **options: Any) -> list[Trial]:
    """Begin or go on with a study until it has so many trials."""
    study, plan = Study(folder), plan or plan_of()
    with study.held():
        if study.exists and study.identity() is not None:
            study.open()
        else:
            study.clear()
            study.create(plan, IDENTITY)
        study.search(plan, options.pop("judge", judge), until=time.monotonic() + 60, most=most, **options)
        return study.trials()


def facts_of(trials: list[Trial]) -> list[dict[str, Any]]:
    """All of a trial but its time."""
    return [{key: value for key, value in asdict(trial).items() if key != "seconds"} for trial in trials]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> list[Trial]:
    """A study of forty trials that nothing interrupted."""
    return searched(tmp_path_factory.mktemp("whole"), 40)


def test_the_controls_are_the_first_trials_and_the_defaults_follow(whole: list[Trial]) -> None:
    assert [trial.number for trial in whole] == list(range(40))
    assert [trial.kind for trial in whole[:5]] == ["majority", "plain", "blind", "default", "search"]
    assert whole[3].method == "a"
    assert whole[3].arguments == {"x": 0.5, "size": [1]}


def test_the_search_learns_where_the_best_trials_are(whole: list[Trial]) -> None:
    found = [trial.arguments["x"] for trial in whole[STARTUP:] if trial.method == "a"]
    assert len(found) > 15  # method b is left alone
    assert sorted(abs(x - 0.3) for x in found)[len(found) // 2] < 0.2  # uniform numbers: 0.29
    winner = best(plan_of().aim, whole)
    assert winner is not None
    assert winner.metrics["accuracy"]["value"] > 0.88


KILLED = """
import os, signal, sys, time
sys.path.insert(0, sys.argv[3])
import test_tuning_search as tests
from pathlib import Path
left = [int(sys.argv[2])]
def judge(candidate, first):
    if left[0] == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    left[0] -= 1
    return tests.judge(candidate, first)
tests.searched(Path(sys.argv[1]), 40, judge=judge)
"""


def test_a_study_killed_again_and_again_ends_as_one_that_was_not(tmp_path: Path, whole: list[Trial]) -> None:
    folder = tmp_path / "study"
    for after in (0, 2, 5, 14):  # before any trial, among the controls, and in the search
        given = [str(folder), str(after), str(Path(__file__).parent)]
        done = subprocess.run(
            [sys.executable, "-c", KILLED, *given], check=False, capture_output=True, text=True
        )
        assert done.returncode == -signal.SIGKILL, done.stderr
        assert done.stderr == ""
    assert facts_of(searched(folder, 40)) == facts_of(whole)


def test_a_line_that_a_killed_process_did_not_finish_is_dropped(tmp_path: Path) -> None:
    before = searched(tmp_path, 6)
    journal = tmp_path / "journal.log"
    with journal.open("ab") as stream:
        stream.write(b'{"op_code":5,"worker')
    after = searched(tmp_path, 8)
    assert facts_of(after[:6]) == facts_of(before)
    assert len(after) == 8


def test_a_study_killed_while_it_began_begins_again(tmp_path: Path) -> None:
    study = Study(tmp_path)
    with study.held():
        study.create(plan_of(), IDENTITY)
    lines = (tmp_path / "journal.log").read_text().splitlines(keepends=True)
    for kept in range(len(lines)):
        (tmp_path / "journal.log").write_text("".join(lines[:kept]))
        assert Study(tmp_path).identity() is None
    assert [trial.kind for trial in searched(tmp_path, 3)][:3] == ["majority", "plain", "blind"]


def test_a_study_that_is_being_searched_is_not_searched_twice(tmp_path: Path) -> None:
    with (
        Study(tmp_path).held(),
        pytest.raises(NotCarriedOut, match="by another process"),
        Study(tmp_path).held(),
    ):
        pass


def test_a_trial_that_cannot_be_judged_fails_alone_and_says_why(tmp_path: Path) -> None:
    def failing(candidate: Candidate, first: bool) -> Mapping[str, Any]:
        if candidate.method == "b":
            raise InputError("method b: too few rows")
        if candidate.kind == "plain":
            raise KeyError("somebody's value")
        return {} if candidate.kind == "blind" else judge(candidate, first)

    trials = searched(tmp_path, 40, judge=failing)
    errors = [trial.error for trial in trials]
    assert errors[0] is None
    assert "internal fault (KeyError" in str(errors[1])
    assert "somebody" not in str(errors[1])
    assert errors[2] == "not enough evidence for accuracy"
    failed = [trial for trial in trials if trial.method == "b"]
    assert failed
    assert {(trial.state, trial.error) for trial in failed} == {("failed", "method b: too few rows")}
    assert sum(trial.method == "b" for trial in trials[20:]) <= 6  # the search avoids it


def test_the_search_avoids_what_fails_also_where_nothing_is_within_the_limits(tmp_path: Path) -> None:
    def failing(candidate: Candidate, first: bool) -> Mapping[str, Any]:
        if candidate.method == "b":
            raise InputError("method b: too few rows")
        return judge(candidate, first)

    impossible = Aim(("accuracy",), (Limit("accuracy", ">=", 0.99),))
    trials = searched(tmp_path, 40, plan_of(aim=impossible), judge=failing)
    assert sum(trial.method == "b" for trial in trials[20:]) <= 6


def test_bad_trials_are_pruned_on_the_first_rung_and_fixed_ones_never(tmp_path: Path) -> None:
    calls: list[tuple[str, bool]] = []

    def counted(candidate: Candidate, first: bool) -> Mapping[str, Any]:
        calls.append((candidate.kind, first))
        return judge(candidate, first)

    trials = searched(tmp_path, 60, plan_of(halving=True), judge=counted)
    assert all(not first for kind, first in calls if kind != "search")
    pruned = [trial for trial in trials if trial.state == "pruned"]
    kept = [trial for trial in trials if trial.state == "judged" and trial.kind == "search"]
    assert len(pruned) + len(kept) == 56
    assert len(pruned) > len(kept)
    assert len(calls) == 4 + 56 + len(kept)
    mean = {
        name: sum(t.metrics["accuracy"]["value"] or 0.0 for t in found) / len(found)
        for name, found in (("kept", kept), ("pruned", pruned))
    }
    assert mean["kept"] > mean["pruned"]


def test_several_objectives_are_searched_together(tmp_path: Path) -> None:
    aim = Aim(("accuracy", "gap_max.sex"))
    trials = searched(tmp_path, 30, plan_of(aim=aim, halving=True))
    assert {trial.state for trial in trials} == {"judged", "pruned"}
    values = [trial.arguments["x"] for trial in trials if trial.method == "a"]
    assert min(values) < 0.1  # the smallest gap is at 0, the best accuracy at 0.3
    assert any(abs(x - 0.3) < 0.1 for x in values)


def test_threads_judge_side_by_side_and_each_trial_once(tmp_path: Path) -> None:
    trials = searched(tmp_path, 12, workers=3)
    assert [trial.number for trial in trials] == list(range(12))
    assert {trial.state for trial in trials} == {"judged"}


def test_no_time_is_left_for_a_search_but_the_controls_run(tmp_path: Path) -> None:
    study, plan = Study(tmp_path), plan_of()
    with study.held():
        study.create(plan, IDENTITY)
        study.search(plan, judge, until=time.monotonic() - 1, most=1000)
        assert [trial.kind for trial in study.trials()] == ["majority", "plain", "blind"]


def test_the_journal_has_no_more_than_parameters_and_metrics(tmp_path: Path) -> None:
    searched(tmp_path, 6)
    attributes = [
        name
        for line in (tmp_path / "journal.log").read_text().splitlines()
        for name in json.loads(line).get("user_attr", {})
    ]
    assert set(attributes) == {"identity", "arguments", "tolerance", "seconds", "metrics"}


def test_optuna_prints_nothing(tmp_path: Path) -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[2]); import test_tuning_search as tests; "
        "from pathlib import Path; tests.searched(Path(sys.argv[1]), 20)"
    )
    given = [sys.executable, "-W", "default", "-c", code, str(tmp_path / "study"), str(Path(__file__).parent)]
    done = subprocess.run(given, check=False, capture_output=True, text=True, env=dict(os.environ))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
