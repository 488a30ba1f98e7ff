"""The study of a search: its first trials, kills at any moment, what is pruned, and who may hold
it.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evenhand.fairlib.tuning.budget import Budget
from evenhand.fairlib.tuning.space import Choice, Real, Whole
from evenhand.fairlib.tuning.study import Aim, Limit, Trial, answer, best, front
from evenhand.tasks.errors import InputError, NotCarriedOut, OutOfTime, ProcessLost
from evenhand.tasks.tuning import trial_search
from evenhand.tasks.tuning.trial_search import (
    DEFAULT,
    JOB,
    STARTUP,
    Candidate,
    Judgement,
    Plan,
    Rule,
    Study,
    drawn,
    optuna_quietly,
    parameters_of,
    random_candidate,
)

IDENTITY = {"table": "t", "contract": "c", "search": "s"}
SPACE = {"a": {"x": Real(0.0, 1.0, default=0.5), "size": Choice(((1,), (2, 3)), (1,))}, "b": {}}
CONTROLS = [Candidate(name) for name in ("majority", "plain", "blind")]
FIXED = [*CONTROLS, Candidate(DEFAULT, "a", {"x": 0.5, "size": (1,)})]


BY_SEX = "equalized_odds by sex"
BY_GROUP = [Rule(BY_SEX, tolerance) for tolerance in (0.0, 0.02, 0.05, 0.1)]
RULES = [Rule(), Rule("balanced"), *BY_GROUP]


def plan_of(
    *,
    aim: Aim | None = None,
    halving: bool = False,
    fixed: Any = FIXED,
    rules: Sequence[Rule] = (Rule(),),
    sampler: str = "tpe",
) -> Plan:
    limited = Aim(("accuracy",), (Limit("gap_max.sex", "<=", 0.5),))
    return Plan(aim or limited, SPACE, rules, fixed, 7, (3,) if halving else (), sampler)


def judge(candidate: Candidate, rules: Sequence[Rule], part: int) -> Judgement:
    """
    The nearer x is to 0.3, the better; the gap is x; method b is bad.

    The balanced rule costs something, thresholds by group cost more the smaller their tolerance,
    and have it as their gap."""
    x = candidate.arguments.get("x", 0.9)
    value = 0.9 - abs(x - 0.3) if candidate.method == "a" else 0.4
    found = []
    for rule in rules:
        if rule.tolerance is None:
            loss, gap = 0.01 * (rule.decision == "balanced"), x
        else:
            loss, gap = 0.2 * (0.3 - rule.tolerance), min(x, rule.tolerance)
        found.append({"metrics": {"accuracy": numbers(value - loss), "gap_max.sex": numbers(gap)}})
    return Judgement(found)


def numbers(value: float) -> dict[str, float]:
    ends = {"low": value - 0.01, "high": value + 0.01}
    return {"value": value, **ends, "below": ends["low"], "above": ends["high"]}


def searched(folder: Path, most: int, plan: Plan | None = None, **options: Any) -> list[Trial]:
    """Begin or go on with a study until it has so many models."""
    study, plan = Study(folder), plan or plan_of()
    with study.held():
        if study.exists and study.identity() is not None:
            study.open()
        else:
            study.clear()
            study.create(plan, IDENTITY)
        study.search(
            plan, options.pop("judge", judge), until=time.monotonic() + 60, most=most, **options
        )
        return study.trials()


def facts_of(trials: list[Trial]) -> list[dict[str, Any]]:
    """All of a trial but its time."""
    return [
        {key: value for key, value in asdict(trial).items() if key != "seconds"} for trial in trials
    ]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> list[Trial]:
    """A study of forty trials that nothing interrupted."""
    return searched(tmp_path_factory.mktemp("whole"), 40)


def test_controls_are_the_first_trials_and_defaults_follow(whole: list[Trial]) -> None:
    assert [trial.number for trial in whole] == [str(model) for model in range(40)]
    assert [trial.kind for trial in whole[:5]] == [
        "majority",
        "plain",
        "blind",
        "default",
        "search",
    ]
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
import test_trial_search as tests
from pathlib import Path
left = [int(sys.argv[2])]
def judge(candidate, rules, part):
    if left[0] == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    left[0] -= 1
    return tests.judge(candidate, rules, part)
tests.searched(Path(sys.argv[1]), 40, judge=judge)
"""


@pytest.mark.long
def test_a_study_killed_again_and_again_ends_as_one_that_was_not(
    tmp_path: Path, whole: list[Trial]
) -> None:
    folder = tmp_path / "study"
    for after in (0, 2, 5, 14):  # before any trial, among the controls, and in the search
        given = [str(folder), str(after), str(Path(__file__).parent)]
        done = subprocess.run(
            [sys.executable, "-c", KILLED, *given], check=False, capture_output=True, text=True
        )
        assert done.returncode == -signal.SIGKILL, done.stderr
        assert done.stderr == ""
    assert facts_of(searched(folder, 40)) == facts_of(whole)


def test_models_judged_at_a_time_are_not_the_same(tmp_path: Path) -> None:
    both_run = threading.Barrier(2, timeout=30)
    settings: list[Any] = []

    def together(candidate: Candidate, rules: Sequence[Rule], part: int) -> Judgement:
        settings.append(candidate.arguments.get("x"))
        both_run.wait()
        return judge(candidate, rules, part)

    plan = replace(plan_of(fixed=[]), methods={"a": SPACE["a"]})
    searched(tmp_path, 6, plan, judge=together, workers=2)
    assert len(set(settings)) == len(settings) == 6


def test_models_that_have_no_time_are_not_drawn_again(tmp_path: Path) -> None:
    settings: list[Any] = []

    def too_long(candidate: Candidate, rules: Sequence[Rule], part: int) -> Judgement:
        settings.append(candidate.arguments.get("x"))
        raise OutOfTime

    plan = replace(plan_of(fixed=[]), methods={"a": SPACE["a"]})
    searched(tmp_path, 4, plan, judge=too_long)
    assert len(set(settings)) == len(settings) == 4


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


# rules of decisions


def rules_of(trials: list[Trial]) -> dict[int, list[Rule]]:
    """Rules of each model that was judged on all folds, in their order, by the model's number."""
    found: dict[int, list[Rule]] = {}
    for trial in trials:
        if trial.state == "judged":
            found.setdefault(trial.model, []).append(Rule(trial.decision, trial.tolerance))
    return found


def test_each_model_has_a_trial_for_each_rule_and_trains_once(tmp_path: Path) -> None:
    calls: list[list[Rule]] = []

    def counted(candidate: Candidate, rules: Sequence[Rule], part: int) -> Judgement:
        calls.append(list(rules))
        return judge(candidate, rules, part)

    trials = searched(tmp_path, 12, plan_of(rules=RULES), judge=counted)
    expected = [[Rule()]] * 3 + [RULES] * 9  # controls have the job's rule alone
    assert calls == expected
    assert rules_of(trials) == dict(enumerate(expected))
    places = [
        str(model) if not place else f"{model}.{place}"
        for model in range(3, 12)
        for place in range(6)
    ]
    assert [trial.number for trial in trials] == ["0", "1", "2", *places]
    for trial in trials:
        own = next(other for other in trials if other.model == trial.model)
        same = ("kind", "method", "arguments", "seconds")
        assert [getattr(trial, name) for name in same] == [getattr(own, name) for name in same]
        candidate = Candidate(trial.kind, trial.method, trial.arguments)
        (found,) = judge(candidate, [Rule(trial.decision, trial.tolerance)], 1).results
        assert trial.metrics == {
            name: {key: pytest.approx(value, abs=1e-6) for key, value in metric.items()}
            for name, metric in found["metrics"].items()
        }


def test_the_parameters_of_a_trial_are_those_of_its_candidate(tmp_path: Path) -> None:
    plan = plan_of(rules=RULES)
    searched(tmp_path, 12, plan)
    optuna = optuna_quietly()
    found = [item for item in Study(tmp_path).finished() if item.params]
    assert len(found) == 9  # all but the controls
    for item in found:
        candidate = drawn(optuna.trial.FixedTrial(item.params), plan)
        assert json.loads(json.dumps(candidate.arguments)) == item.user_attrs["arguments"]
        assert parameters_of(candidate, plan) == item.params
    assert parameters_of(Candidate("plain"), plan) == {}


def test_optuna_is_told_the_best_result_of_a_model(tmp_path: Path) -> None:
    """The nearest one to the limit, and of those within it the most accurate one."""
    limit = Limit("gap_max.sex", "<=", 0.07)
    trials = searched(tmp_path, 12, plan_of(aim=Aim(("accuracy",), (limit,), 0.975), rules=RULES))
    finished = Study(tmp_path).finished()
    assert len(finished) > 3
    for item in finished:
        own = [trial.metrics for trial in trials if trial.model == item.number]
        order = [(max(0.0, m["gap_max.sex"]["high"] - 0.07), -m["accuracy"]["value"]) for m in own]  # type: ignore[operator]
        assert (item.constraints["gap_max.sex <= 0.07"], -item.value) == pytest.approx(
            min(order), abs=1e-6
        )


def test_optuna_gets_one_result_of_a_models_front(tmp_path: Path) -> None:
    """The search has several objectives."""
    aim = Aim(("accuracy", "gap_max.sex"))
    trials = searched(tmp_path, 30, plan_of(aim=aim, rules=RULES))
    places, most = [], 0
    for item in Study(tmp_path).finished():
        own = [trial for trial in trials if trial.model == item.number]
        if item.number > 2:  # the controls have one rule
            leading = front(aim, own)
            values = [
                [trial.metrics[name]["value"] for name in aim.objectives] for trial in leading
            ]
            places.append(leading[values.index(item.values)].rule)
            most = max(most, len(leading))
    assert most > 3
    assert len(set(places)) > 3  # not always the same rule


class Stop(BaseException):
    """The process ends here."""


@pytest.mark.long
@pytest.mark.parametrize("amid", [False, True])
@pytest.mark.parametrize("halving", [False, True])
@pytest.mark.parametrize("objectives", [("accuracy",), ("accuracy", "gap_max.sex")])
def test_a_search_that_ends_after_any_write_loses_no_trial(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    halving: bool,
    objectives: tuple[str, ...],
    amid: bool,
) -> None:
    """
    A process ends after each line of the journal once.

    Amid the random parameters of a proposal too, whose others are then drawn anew.
    """
    plan = plan_of(aim=Aim(objectives), rules=RULES, halving=halving)
    whole = searched(tmp_path / "whole", 9, plan)
    storage, seen = Study._storage, set[Any]()

    def ending(self: Study) -> Any:
        found = storage(self)
        append = found._backend.append_logs

        def append_logs(logs: list[dict[str, Any]]) -> None:
            for entry in logs:
                append([entry])
                names = [*entry.get("user_attr", ()), *entry.get("system_attr", ())]
                what = [entry.get(key) for key in ("op_code", "trial_id", "param_name", "state")]
                created = (self.folder / "journal.log").read_text().count('"op_code":4,')
                is_amid = "param_name" in entry and not amid
                if (line := (created, *what, *names)) not in seen and not is_amid:
                    seen.add(line)
                    raise Stop

        found._backend.append_logs = append_logs
        return found

    monkeypatch.setattr(Study, "_storage", ending)
    found = None
    while found is None:
        with contextlib.suppress(Stop):
            found = searched(tmp_path / "study", 9, plan)
    assert len(seen) > 60
    assert amid or facts_of(found) == facts_of(whole)
    assert [(trial.model, trial.rule) for trial in found] == [
        *((model, 0) for model in range(3)),
        *(
            (trial.model, place)
            for trial in found[3:]
            if trial.rule == 0
            for place in range(len(RULES))
        ),
    ]
    assert {trial.model for trial in found} == {*range(9)}


def test_a_model_that_ended_untold_is_judged_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process ended before the study had the result."""
    plan, calls = plan_of(rules=RULES), list[Candidate]()

    def counted(candidate: Candidate, rules: Sequence[Rule], part: int) -> Judgement:
        calls.append(candidate)
        return judge(candidate, rules, part)

    whole = searched(tmp_path / "whole", 6, plan)
    tell, ends = Study._tell, [True]

    def ending(self: Study, trial: Any, *given: Any, **options: Any) -> None:
        if trial.number > 3 and ends[0]:
            raise Stop
        tell(self, trial, *given, **options)

    monkeypatch.setattr(Study, "_tell", ending)
    for _ in range(2):
        with pytest.raises(Stop):
            searched(tmp_path / "study", 6, plan, judge=counted)
        assert {trial.model for trial in Study(tmp_path / "study").trials()} == {0, 1, 2, 3}
    ends[0] = False
    assert facts_of(searched(tmp_path / "study", 6, plan, judge=counted)) == facts_of(whole)
    assert len(calls) == 8
    assert calls[4] == calls[5] == calls[6]


def test_a_rule_that_fails_leaves_the_others_of_its_model(tmp_path: Path) -> None:
    def failing(candidate: Candidate, rules: Sequence[Rule], part: int) -> Judgement:
        found = judge(candidate, rules, part).results
        return Judgement(
            [
                {"error": "too few rows"} if rule.tolerance is not None else result
                for rule, result in zip(rules, found, strict=True)
            ]
        )

    rules = [*BY_GROUP, Rule(), Rule("balanced")]
    trials = searched(tmp_path, 20, plan_of(rules=rules, halving=True), judge=failing)
    by_group = [trial for trial in trials if trial.tolerance is not None]
    assert {(trial.state, trial.error) for trial in by_group} == {("failed", "too few rows")}
    others = [trial for trial in trials if trial.tolerance is None]
    assert {trial.error for trial in others} == {None}
    # the models whose first rule fails are judged under the others
    judged = rules_of(trials)
    assert {trial.model for trial in by_group if trial.rule == 0} == {*range(3, 20)}
    assert all(rules == [Rule(), Rule("balanced")] for model, rules in judged.items() if model > 2)
    assert len(judged) > 6
    assert not any(item.constraints.get("failed") for item in Study(tmp_path).finished())


def test_a_model_is_kept_by_its_best_rule(tmp_path: Path) -> None:
    """Under thresholds by group method b is best; under the others worst: none of it may be
    pruned.
    """

    def other(candidate: Candidate, rules: Sequence[Rule], part: int) -> Judgement:
        if candidate.method != "b":
            return judge(candidate, rules, part)
        values = [0.95 if rule.tolerance == 0.1 else 0.1 for rule in rules]
        return Judgement(
            [
                {"metrics": {"accuracy": numbers(value), "gap_max.sex": numbers(0.1)}}
                for value in values
            ]
        )

    trials = searched(tmp_path, 40, plan_of(rules=RULES, halving=True), judge=other)
    found = [trial for trial in trials if trial.kind == "search"]
    assert {trial.state for trial in found if trial.method == "b"} == {"judged"}
    assert "pruned" in {trial.state for trial in found if trial.method == "a"}


def test_several_objectives_are_searched_under_all_rules(tmp_path: Path) -> None:
    aim = Aim(("accuracy", "gap_max.sex"))
    trials = searched(tmp_path, 15, plan_of(aim=aim, rules=RULES, halving=True))
    on_front = {(trial.decision, trial.tolerance) for trial in front(aim, trials)}
    assert (BY_SEX, 0.0) in on_front  # the smallest gap
    assert (JOB, None) in on_front  # the best accuracy
    assert ("balanced", None) not in on_front  # no gap smaller than the job's, and less accuracy


def test_a_study_that_is_being_searched_is_not_searched_twice(tmp_path: Path) -> None:
    with (
        Study(tmp_path).held(),
        pytest.raises(NotCarriedOut, match="by another process"),
        Study(tmp_path).held(),
    ):
        pass


def test_a_trial_that_cannot_be_judged_fails_alone_and_says_why(tmp_path: Path) -> None:
    def failing(candidate: Candidate, rules: Sequence[Rule], part: int) -> Judgement:
        if candidate.method == "b":
            raise InputError("method b: too few rows")
        if candidate.kind == "plain":
            raise KeyError("somebody's value")
        if candidate.kind == "blind":
            return Judgement([{"metrics": {}}])
        return judge(candidate, rules, part)

    trials = searched(tmp_path, 40, judge=failing)
    errors = [trial.error for trial in trials]
    assert errors[0] is None
    assert "internal fault (KeyError" in str(errors[1])
    assert "somebody" not in str(errors[1])
    assert errors[2] == "not enough evidence for accuracy"
    failed = [trial for trial in trials if trial.method == "b"]
    assert failed
    assert {(trial.state, trial.error) for trial in failed} == {
        ("failed", "method b: too few rows")
    }
    assert sum(trial.method == "b" for trial in trials[20:]) <= 6  # the search avoids it


def test_the_search_avoids_failures_beyond_the_limits_too(
    tmp_path: Path,
) -> None:
    """Nothing is within the limits."""

    def failing(candidate: Candidate, rules: Sequence[Rule], part: int) -> Judgement:
        if candidate.method == "b":
            raise InputError("method b: too few rows")
        return judge(candidate, rules, part)

    impossible = Aim(("accuracy",), (Limit("accuracy", ">=", 0.99),))
    trials = searched(tmp_path, 40, plan_of(aim=impossible), judge=failing)
    assert sum(trial.method == "b" for trial in trials[20:]) <= 6


def test_bad_trials_are_pruned_on_the_first_rung_only(tmp_path: Path) -> None:
    """Fixed trials are never pruned."""
    calls: list[tuple[str, int]] = []

    def counted(candidate: Candidate, rules: Sequence[Rule], part: int) -> Judgement:
        calls.append((candidate.kind, part))
        return judge(candidate, rules, part)

    trials = searched(tmp_path, 60, plan_of(halving=True), judge=counted)
    assert all(part == 1 for kind, part in calls if kind != "search")
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


def test_threads_judge_side_by_side_and_each_model_once(tmp_path: Path) -> None:
    trials = searched(tmp_path, 12, plan_of(rules=RULES), workers=3)
    assert {trial.state for trial in trials} == {"judged"}
    assert rules_of(trials) == {model: [Rule()] if model < 3 else RULES for model in range(12)}
    assert len({trial.number for trial in trials}) == len(trials) == 3 + 9 * 6


def test_an_interrupt_ends_running_models_and_they_run_again(tmp_path: Path) -> None:
    """Two threads: one waits in its model when the other is interrupted."""
    waiting, ended = threading.Event(), threading.Event()

    def interrupted(candidate: Candidate, rules: Sequence[Rule], part: int) -> Judgement:
        if candidate.kind == "blind":
            assert waiting.wait(10)
            raise KeyboardInterrupt
        if candidate.kind == DEFAULT:
            waiting.set()
            assert ended.wait(10), "nobody has ended the call"
            raise NotCarriedOut("the work was stopped.")
        return judge(candidate, rules, part)

    study, plan, until = Study(tmp_path), plan_of(), time.monotonic() + 1000
    with study.held():
        study.create(plan, IDENTITY)
        with pytest.raises(KeyboardInterrupt):
            study.search(plan, interrupted, until=until, most=4, workers=2, interrupt=ended.set)
        assert [trial.kind for trial in study.trials()] == ["majority", "plain"]
    again = Study(tmp_path)
    with again.held():
        again.open()
        again.search(plan, judge, until=until, most=4)
        assert facts_of(again.trials()) == facts_of(searched(tmp_path / "other", 4))


def test_one_worker_computes_until_there_is_a_result(tmp_path: Path) -> None:
    """The start of another one takes CPU time from the first answer."""
    events: list[str] = []

    def noted(candidate: Candidate, rules: Sequence[Rule], part: int) -> Judgement:
        events.append("begin")
        # another thread would begin meanwhile
        time.sleep(0.05)
        events.append("end")
        return judge(candidate, rules, part)

    study, plan = Study(tmp_path), plan_of()
    with study.held():
        study.create(plan, IDENTITY)
        limits: dict[str, Any] = {"until": math.inf, "most": 6, "workers": 2}
        study.search(plan, noted, budget=Budget(1000.0, time.monotonic()), **limits)
    assert events[:2] == ["begin", "end"]
    # then both work
    assert "begin begin" in " ".join(events)


def test_no_time_is_left_for_a_search_but_the_controls_run(tmp_path: Path) -> None:
    study, plan = Study(tmp_path), plan_of()
    with study.held():
        study.create(plan, IDENTITY)
        study.search(plan, judge, until=time.monotonic() - 1, most=1000)
        assert [trial.kind for trial in study.trials()] == ["majority", "plain", "blind"]


def test_the_journal_has_no_more_than_parameters_and_metrics(tmp_path: Path) -> None:
    searched(tmp_path, 6, plan_of(halving=True, rules=RULES))
    found = [
        (name, value)
        for line in (tmp_path / "journal.log").read_text().splitlines()
        for key in ("user_attr", "user_attrs")  # of a trial that runs, and of one that waits
        for name, value in json.loads(line).get(key, {}).items()
    ]
    assert {name for name, _ in found} == {
        *("identity", "kind", "arguments", "state", "seconds", "results", "rung_3")
    }
    results = [result for name, value in found if name == "results" for result in value]
    assert {key for result in results for key in result} == {"decision", "tolerance", "metrics"}
    assert {key for result in results for key in result["metrics"]} == {"accuracy", "gap_max.sex"}


def test_optuna_prints_nothing(tmp_path: Path) -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[2]); import test_trial_search as tests; "
        "from pathlib import Path; tests.searched(Path(sys.argv[1]), 20)"
    )
    given = [
        sys.executable,
        "-W",
        "default",
        "-c",
        code,
        str(tmp_path / "study"),
        str(Path(__file__).parent),
    ]
    done = subprocess.run(given, check=False, capture_output=True, text=True, env=dict(os.environ))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


# a limit of time


class Timed:
    """A judge whose judgements take a time on a clock of their own; the time of each kind
    is set.
    """

    def __init__(self, seconds: float, **budget: float) -> None:
        self.now = 0.0
        self.seconds = seconds
        self.slow: dict[str | None, float] = {}
        self.calls: list[tuple[str, str | None, int]] = []
        self.budget = Budget(seconds, clock=lambda: self.now, **budget)

    def __call__(self, candidate: Candidate, rules: Sequence[Rule], part: int) -> Judgement:
        takes = self.slow.get(candidate.method, 5.0) / (10.0 if part > 1 else 1.0)
        if self.now + takes > self.seconds - self.budget.reserve:
            # as a process that is killed when the time is up
            self.now = self.seconds - self.budget.reserve
            raise OutOfTime("the time for this work is up.")
        self.now += takes
        self.calls.append((candidate.kind, candidate.method, part))
        return judge(candidate, rules, part)


def search_in(folder: Path, timed: Timed, plan: Plan, **options: Any) -> Study:
    """Begin a study, or go on with it, with a limit of time."""
    study = Study(folder)
    with study.held():
        if study.exists:
            study.open()
        else:
            study.create(plan, IDENTITY)
        study.search(plan, timed, until=math.inf, most=1000, budget=timed.budget, **options)
    return study


def test_a_search_ends_before_its_time_and_the_reserve_stays(tmp_path: Path) -> None:
    timed = Timed(100.0, reserve=20.0)
    study = search_in(tmp_path, timed, plan_of())
    assert timed.now <= 80.0
    # models take 5 s, so that the last one could start at 75 s
    assert timed.now > 70.0
    assert {trial.state for trial in study.trials()} == {"judged"}


def test_with_no_time_not_even_the_controls_run(tmp_path: Path) -> None:
    timed = Timed(100.0)
    timed.now = 100.0
    study = search_in(tmp_path, timed, plan_of())
    assert study.trials() == []
    assert timed.calls == []


def test_a_slow_model_is_postponed_for_a_quicker_one(
    tmp_path: Path,
) -> None:
    """The slow one would not end in time."""
    timed = Timed(60.0)
    timed.slow = {"b": 45.0}
    study = search_in(tmp_path, timed, plan_of())
    assert {method for _, method, _ in timed.calls} == {None, "a"}
    states = [item.state.name for item in study._items()]
    assert "RUNNING" in states  # open: the next search runs it
    count = len({trial.model for trial in study.trials()})
    more = Timed(500.0)
    again = search_in(tmp_path, more, plan_of())
    assert "b" in {method for _, method, _ in more.calls}
    assert len({trial.model for trial in again.trials()}) > count


def models_of(study: Study) -> int:
    return len({trial.model for trial in study.trials()})


def test_a_model_that_is_too_slow_does_not_block_a_study(tmp_path: Path) -> None:
    """One that was stopped runs again where it has more time, from the start of a call."""
    plan = plan_of(fixed=[FIXED[0], FIXED[3]])

    def methods_judged(seconds: float, a: float) -> set[str | None]:
        timed = Timed(seconds)
        timed.slow = {"a": a, "b": 3.0}
        search_in(tmp_path, timed, plan)
        return {method for _, method, part in timed.calls if part == 1}

    # its first look takes a tenth of the time: 40 s
    assert methods_judged(30.0, 400.0) == {None}
    assert methods_judged(30.0, 400.0) == set()
    assert methods_judged(30.0, 400.0) == {"b"}
    # still open: with more time it ends
    assert "a" in methods_judged(1000.0, 400.0)


def test_a_model_stopped_late_in_a_call_ends_in_the_next(tmp_path: Path) -> None:
    """It takes 45 s of a call's 60 s, and was begun after 20 s."""
    plan = plan_of(fixed=[FIXED[1], FIXED[2], Candidate("job"), FIXED[0], FIXED[3]])
    for call in range(2):
        timed = Timed(60.0)
        timed.slow = {"a": 45.0, "b": 1000.0}
        search_in(tmp_path, timed, plan)
        assert (("default", "a", 1) in timed.calls) == (call == 1)


def test_models_that_wait_for_a_compilation_end_no_search(tmp_path: Path) -> None:
    """Those that the sampler drew are dropped: there may be very many."""
    for call in range(2):
        timed = Timed(600.0)
        study = search_in(tmp_path, timed, plan_of(), once={"b": 5000.0})
        assert timed.now > 550.0, call
        assert "b" not in {method for _, method, _ in timed.calls}
    names = [item.state.name for item in study._items()]
    dropped = [item.user_attrs.get("state") for item in study._items()].count("dropped")
    assert dropped > 0
    assert names.count("RUNNING") <= 2
    assert study._begun() == len(names) - dropped


def test_a_part_of_the_rows_may_lack_what_all_folds_have(tmp_path: Path) -> None:
    """A guided model is then judged on all folds, and not a failure."""

    def lacking(candidate: Candidate, rules: Sequence[Rule], part: int) -> Judgement:
        if part > 1 and candidate.method == "a":
            raise InputError("a group has no positive label here")
        if part > 1:
            return Judgement([{"error": "no rows"} for _ in rules])
        return judge(candidate, rules, part)

    trials = searched(tmp_path, 12, plan_of(halving=True), judge=lacking)
    assert {trial.state for trial in trials} == {"judged"}
    assert {trial.method for trial in trials if trial.kind == "search"} == {"a", "b"}


def test_parts_that_fit_keep_no_search_going(tmp_path: Path) -> None:
    """Where no model fits on all rows, a part of them that does is no reason to go on."""
    timed = Timed(1500.0)

    def judge_slowly(candidate: Candidate, rules: Sequence[Rule], part: int) -> Judgement:
        timed.slow = dict.fromkeys("ab", 10.0 if part > 1 else 1000.0)
        return timed(candidate, rules, part)

    plan = plan_of(halving=True, fixed=[FIXED[0]])
    study = Study(tmp_path)
    with study.held():
        study.create(plan, IDENTITY)
        study.search(plan, judge_slowly, until=math.inf, most=1000, budget=timed.budget)
    assert 1000.0 < timed.now < 1300.0


def test_the_compilation_of_a_method_counts_once(tmp_path: Path) -> None:
    timed = Timed(60.0)
    search_in(tmp_path / "no", timed, plan_of(), once={"a": 1000.0, "b": 1000.0})
    assert {method for _, method, _ in timed.calls} == {None}
    later = Timed(60.0)
    search_in(tmp_path / "yes", later, plan_of(), once={"a": 10.0})
    assert [method for _, method, _ in later.calls].count("a") > 2


def test_a_model_out_of_time_stays_open_with_its_first_look(
    tmp_path: Path,
) -> None:
    """Its first look is an answer."""
    timed = Timed(20.0)
    timed.slow = {None: 50.0}
    plan = plan_of()
    study = search_in(tmp_path, timed, plan)
    # the majority-class baseline would take 50 s, as would the others: each is stopped
    assert study.trials() == []
    quick = Timed(20.0)
    quick.slow = {None: 1.0, "a": 60.0}
    fresh = search_in(tmp_path / "fresh", quick, replace(plan, fixed=[plan.fixed[3]]))
    (partial,) = fresh.answered(plan.aim)
    assert (partial.kind, partial.state) == ("default", "partial")
    assert fresh.trials() == []
    assert answer(plan.aim, [partial]) == partial
    # going on, it is judged on all folds, and is no answer any more
    more = Timed(1000.0)
    more.slow = {"a": 60.0}
    again = search_in(tmp_path / "fresh", more, replace(plan, fixed=[plan.fixed[3]]))
    assert "partial" not in {trial.state for trial in again.answered(plan.aim)}


class Growing(Timed):
    """Judgements take as long as there are rows."""

    def __call__(self, candidate: Candidate, rules: Sequence[Rule], part: int) -> Judgement:
        folds = 3 if part == 1 else 1
        seconds = folds * self.slow.get(candidate.method, 5.0) / part
        # a part of the rows takes a tenth there
        of_part = {candidate.method: seconds * (10.0 if part > 1 else 1.0)}
        slow, self.slow = self.slow, {**self.slow, **of_part}
        try:
            return super().__call__(candidate, rules, part)
        finally:
            self.slow = slow


def test_of_a_very_large_table_more_and_more_rows_are_looked_at(tmp_path: Path) -> None:
    """All folds would take 300 s: each of the first models is looked at on a third of the rows."""
    plan = replace(plan_of(fixed=FIXED[3:]), parts=[27, 9, 3], first_part=81)
    timed = Growing(100.0)
    timed.slow = dict.fromkeys("ab", 100.0)
    study = search_in(tmp_path, timed, plan)
    looked = [(method, part) for _, method, part in timed.calls]
    assert looked[:4] == [("a", 81), ("a", 27), ("a", 9), ("a", 3)]
    assert ("a", 1) not in looked
    # it is not begun in vain: its time goes to the next ones
    assert len(looked) > 4
    (partial, *_) = study.answered(plan.aim)
    assert partial.state == "partial"
    # with more time it is judged on all folds
    more = Growing(2000.0)
    more.slow = dict.fromkeys("ab", 100.0)
    again = search_in(tmp_path, more, plan)
    assert "judged" in {trial.state for trial in again.answered(plan.aim)}
    assert ("default", "a", 1) in more.calls
    # as soon as one was, no other one is looked at on parts, but in the guided search
    after = more.calls[more.calls.index(("default", "a", 1)) + 1 :]
    assert all(part == 1 or kind == "search" for kind, _, part in after)


def test_looks_at_far_fewer_rows_are_no_answers(tmp_path: Path) -> None:
    """They are too good by chance. Before there are other ones, they are."""
    slow = Candidate(DEFAULT, "b")
    plan = replace(plan_of(fixed=[slow, FIXED[3]]), parts=[27, 9, 3], first_part=81)
    methods = []
    for seconds in (200.0, 100.0):
        timed = Growing(seconds)
        timed.slow = {"a": 100.0, "b": 5000.0}
        study = search_in(tmp_path, timed, plan)
        methods.append({trial.method for trial in study.answered(plan.aim)})
    assert methods == [{"b"}, {"a"}]


def test_an_error_of_the_caller_at_a_first_look_ends_the_search(tmp_path: Path) -> None:
    """Such as a limit out of reach: it is no failure of the model."""
    timed = Timed(1000.0)
    plan = plan_of(aim=Aim(("accuracy",), (Limit("accuracy", ">=", 0.99),)))

    def refuse(trials: list[Trial]) -> bool:
        if any(trial.state == "partial" for trial in trials):
            raise InputError("out of reach")
        return False

    with pytest.raises(InputError, match="out of reach"):
        search_in(tmp_path, timed, plan, on_trial=refuse)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_search_ends_when_the_caller_has_enough(tmp_path: Path, workers: int) -> None:
    """No further model starts, and those that run are judged."""
    plan = plan_of()

    def has_six(trials: list[Trial]) -> bool:
        return len({trial.model for trial in trials}) >= 6

    timed = Timed(1000.0)
    study = search_in(tmp_path, timed, plan, on_trial=has_six, workers=workers)
    assert 6 <= len({trial.model for trial in study.trials()}) < 6 + workers
    assert {trial.state for trial in study.trials()} == {"judged"}


def test_long_looks_at_trials_take_a_part_of_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of many trials a second look comes only after twenty times the first, and one at the end."""
    looks: list[int] = []
    monkeypatch.setattr(trial_search, "MANY_TRIALS", 10)

    def look(trials: list[Trial]) -> bool:
        looks.append(len(trials))
        time.sleep(0.06)
        return False

    study = search_in(tmp_path, Timed(200.0), plan_of(), on_trial=look)
    assert models_of(study) > 20
    # one after each of the first models, those of the first looks included
    assert len([number for number in looks if number <= 10]) >= 10
    assert len([number for number in looks if number > 10]) < 5
    assert looks[-1] == len(study.trials())


def test_the_start_of_a_process_is_no_part_of_a_judgement(tmp_path: Path) -> None:
    """Other models are expected to take twice the longest judgement, not twice the start."""
    timed = Timed(100.0)

    def with_slow_start(candidate: Candidate, rules: Sequence[Rule], part: int) -> Judgement:
        if candidate.kind == "majority":
            timed.now += 50.0
            return replace(judge(candidate, rules, part), seconds=2.0, cpu_seconds=1.0)
        return timed(candidate, rules, part)

    study = Study(tmp_path)
    with study.held():
        study.create(plan_of(), IDENTITY)
        study.search(plan_of(), with_slow_start, until=math.inf, most=1000, budget=timed.budget)
    assert study.trials()[0].seconds == 2.0
    assert timed.budget.start_seconds == 48.0
    assert "a" in {method for _, method, _ in timed.calls}


def test_without_time_for_rung_two_only_the_first_is_judged(tmp_path: Path) -> None:
    timed = Timed(100.0)
    plan = plan_of(halving=True)
    study = search_in(tmp_path, timed, plan)
    assert timed.now <= 100.0
    assert {trial.state for trial in study.trials()} <= {"judged", "pruned"}


# the stream of independent random settings


def with_stream(plan: Plan | None = None) -> Plan:
    return replace(plan or plan_of(), has_stream=True)


def test_every_second_searched_model_is_a_random_one(tmp_path: Path) -> None:
    plan = with_stream()
    first = len(plan.fixed)
    trials = [trial for trial in searched(tmp_path, first + 10, plan) if trial.rule == 0]
    kinds = [trial.kind for trial in trials[first:]]
    assert kinds == ["random", "search"] * 5
    study = Study(tmp_path)
    assert study.stream() == [trial.model for trial in trials if trial.kind == "random"]
    # a setting follows from its place alone
    for place, model in enumerate(study.stream()):
        trial = trials[model]
        candidate = random_candidate(plan, place)
        assert trial.method == candidate.method
        assert trial.arguments.get("x") == candidate.arguments.get("x")


def test_the_stream_ends_at_its_first_unfinished_model(tmp_path: Path) -> None:
    plan = with_stream()
    first = len(plan.fixed)
    places = [place for place in range(1, 9) if random_candidate(plan, place).method == "a"]
    slow = random_candidate(plan, places[0])

    def with_a_slow_one(candidate: Candidate, rules: Sequence[Rule], part: int) -> Judgement:
        if candidate.kind == "random" and candidate.arguments.get("x") == slow.arguments["x"]:
            raise OutOfTime("the time for this work is up.")
        return judge(candidate, rules, part)

    trials = searched(tmp_path, first + 20, plan, judge=with_a_slow_one)
    assert sum(trial.kind == "random" for trial in trials if trial.rule == 0) == 9
    assert len(Study(tmp_path).stream()) == places[0]
    # the slow one is run again when the study goes on
    searched(tmp_path, first + 20, plan)
    assert len(Study(tmp_path).stream()) == 10


def killed_at(model: int, times: int) -> Any:
    """A judge whose process is killed so many times at the model that begins as this one."""
    begun: list[Candidate] = []
    kills: list[int] = []

    def killed(candidate: Candidate, rules: Sequence[Rule], part: int) -> Judgement:
        if candidate not in begun:
            begun.append(candidate)
        if candidate == begun[min(model, len(begun) - 1)] and len(begun) > model:
            kills.append(1)
            if len(kills) <= times:
                raise ProcessLost("the worker process died.")
        return judge(candidate, rules, part)

    return killed


@pytest.mark.parametrize(("times", "state"), [(1, "judged"), (2, "failed")])
def test_a_model_whose_process_was_killed_runs_again_once(
    tmp_path: Path, times: int, state: str
) -> None:
    trials = searched(tmp_path, 6, judge=killed_at(3, times))
    (default,) = [trial for trial in trials if trial.kind == "default"]
    assert default.state == state


def test_a_killed_random_setting_ends_the_stream(tmp_path: Path) -> None:
    """It is not known to be no better, unlike one that cannot be trained."""
    plan = with_stream()
    first = len(plan.fixed)
    trials = searched(tmp_path, first + 10, plan, judge=killed_at(first, 2))
    assert Study(tmp_path).stream() == []
    assert sum(trial.kind == "random" for trial in trials) == 4

    def untrainable(candidate: Candidate, rules: Sequence[Rule], part: int) -> Judgement:
        if candidate.kind == "random":
            # as a training raises it whose loss is no number
            raise NotCarriedOut("training failed: the loss is no number")
        return judge(candidate, rules, part)

    searched(tmp_path / "other", first + 10, plan, judge=untrainable)
    assert len(Study(tmp_path / "other").stream()) == 5


def test_a_machine_that_kills_every_process_ends_the_search(tmp_path: Path) -> None:
    def killed(candidate: Candidate, rules: Sequence[Rule], part: int) -> Judgement:
        if candidate.kind == "search":
            raise ProcessLost("the worker process died.")
        return judge(candidate, rules, part)

    with pytest.raises(ProcessLost, match="died"):
        searched(tmp_path, 1000, judge=killed)
    # what was judged before stays
    states = [trial.state for trial in Study(tmp_path).trials()]
    assert states.count("judged") == len(FIXED)


def test_random_values_cover_their_ranges() -> None:
    space = {
        "share": Real(0.0, 1.0),
        "rate": Real(0.01, 100.0, log=True),
        "depth": Whole(1, 4),
        "kind": Choice(("x", None)),
    }
    plan = replace(plan_of(), methods={"a": space})
    drawn_values = [random_candidate(plan, place).arguments for place in range(400)]
    assert 0.4 < np.mean([values["share"] for values in drawn_values]) < 0.6
    assert 0.5 < np.median([values["rate"] for values in drawn_values]) < 2.0
    depths = [values["depth"] for values in drawn_values]
    assert min(depths.count(depth) for depth in (1, 2, 3, 4)) > 70
    assert {values["kind"] for values in drawn_values} == {"x", None}
