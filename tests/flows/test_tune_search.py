"""The time that a search keeps for what follows it."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from evenhand.fairlib.tuning.budget import Budget
from evenhand.fairlib.tuning.study import Aim, Limit, Trial
from evenhand.flows import tune_search
from evenhand.flows.tune_search import (
    SearchProgress,
    finishing_seconds,
    judged,
    writing_seconds,
)
from evenhand.tasks.execution.store import Store


def reserve(trials: list[Trial], chosen: Trial | None, budget: Budget, **settings: bool) -> float:
    """The seconds that are kept, where a judgement has five folds."""
    return finishing_seconds(trials, chosen, budget, folds=5, **settings)


def test_the_reserve_follows_from_what_judgements_took() -> None:
    budget = Budget(100.0, clock=lambda: 0.0, writing=5.0)
    majority = Trial(1, "majority", "judged", seconds=2.0)
    quick = Trial(0, "default", "partial", seconds=1.0)
    judged = Trial(0, "default", "judged", seconds=8.0)
    slow = Trial(0, "default", "judged", seconds=800.0)
    assert reserve([], None, budget) < 0  # the first answer may be a little late
    assert reserve([quick], quick, budget) == 5.0
    # one training on all rows, and the measurement
    assert reserve([majority, judged], judged, budget) == 5.0 + 4.0 + 12.0
    # without a judged baseline half of the model's time stands for it
    assert reserve([judged], judged, budget) == 5.0 + 4.0 + 24.0
    # what would hardly end is not begun; a proof takes what there is
    assert reserve([majority, slow], slow, budget) == 5.0
    assert reserve([majority, slow], slow, budget, is_proved=True) == 5.0 + 50.0
    budget.start_seconds = 3.0
    assert reserve([majority, judged], judged, budget) == 5.0 + 4.0 + 12.0 + 3.0
    budget.start_seconds = 0.0
    # an evaluation takes some seconds, however quick a baseline was measured
    fast = replace(majority, seconds=0.04)
    assert reserve([fast, judged], judged, budget) == 5.0 + 4.0 + 3.0


def test_mitigation_takes_longer_at_the_end() -> None:
    """Four controls are trained, and for thresholds by group a model a fold."""
    budget = Budget(100.0, clock=lambda: 0.0, writing=5.0)
    majority = Trial(1, "majority", "judged", seconds=0.04)
    plain = Trial(2, "plain", "judged", seconds=4.0)
    judged = Trial(0, "default", "judged", seconds=8.0, method="gbdt")
    by_group = replace(judged, tolerance=0.05)
    reweighed = replace(judged, method="reweigh")
    controls = 1.75 * 4 * 4.0 / 5
    chosen = 2.5 * 8.0 / 5
    trials = [majority, plain]
    assert reserve(trials, by_group, budget) == pytest.approx(5 + chosen + 10 + controls + 6)
    assert reserve(trials, reweighed, budget) == pytest.approx(5 + chosen + controls + 6)
    # without a judged control the model itself stands for it
    assert reserve([majority], reweighed, budget) == pytest.approx(5 + chosen + 2 * controls + 6)
    own_rule = replace(reweighed, kind="job", method=None)
    assert reserve(trials, own_rule, budget, has_group_rule=True) == pytest.approx(
        5 + chosen + 10 + controls + 6
    )


@pytest.mark.parametrize(("slowness", "seconds"), [(1.0, 6.0), (5.0, 15.0), (50.0, 25.0)])
def test_a_busy_machine_gets_more_time_for_writing(slowness: float, seconds: float) -> None:
    assert writing_seconds(slowness, Budget(100.0)) == seconds


def test_a_judgement_says_how_long_it_took(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both in wall-clock seconds, and in CPU seconds, which waiting does not take."""
    store = Store(str(tmp_path / "store"))
    content: dict[str, Any] = {"rules": [{"metrics": {}}]}
    file = tmp_path / "judged.json"
    file.write_text(json.dumps(content))
    artifact = store.put(file, "judged")

    def slow_step(*_: Any) -> Any:
        time.sleep(0.2)
        return SimpleNamespace(outputs={"judged": artifact}, seconds=7.0), False

    monkeypatch.setattr(tune_search, "run_step", slow_step)
    judgement = judged(store.url, {}, {}, [])
    assert judgement.results == content["rules"]
    assert judgement.seconds is not None
    assert judgement.cpu_seconds is not None
    assert judgement.seconds >= 0.2
    assert judgement.cpu_seconds < 0.15


def test_a_known_judgement_has_the_duration_that_it_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The winner's training, for which time is kept, takes as long as that."""
    store = Store(str(tmp_path / "store"))
    file = tmp_path / "judged.json"
    file.write_text(json.dumps({"rules": []}))
    record = SimpleNamespace(outputs={"judged": store.put(file, "judged")}, seconds=7.0)
    monkeypatch.setattr(tune_search, "run_step", lambda *_: (record, True))
    judgement = judged(store.url, {}, {}, [])
    assert (judgement.seconds, judgement.cpu_seconds) == (7.0, 7.0)


def test_progress_says_that_a_limit_has_no_number_yet() -> None:
    limit = Limit("gap_max.sex", "<=", 0.1)
    progress = SearchProgress(Aim(("auc",), (limit,)), Budget(60.0), models=2)
    metrics: dict[str, Any] = {"auc": {"value": 0.7}, "gap_max.sex": {"value": None}}
    trials = [Trial(number, "default", "partial", metrics=metrics) for number in range(3)]
    progress.update(trials)
    assert progress.best_text == "best so far auc 0.7000, too few rows for gap_max.sex"
    # a study of more models goes on
    assert "3 models" in progress.line()
    assert "of 2 models" not in progress.line()


def test_the_first_answer_and_the_first_within_limits_are_timed() -> None:
    clock = iter([3.0, 8.0])
    cpu_clock = iter([4.0, 9.0])
    budget = Budget(60.0, clock=lambda: next(clock), cpu_clock=lambda: next(cpu_clock))
    limit = Limit("gap_max.sex", "<=", 0.1)
    progress = SearchProgress(Aim(("auc",), (limit,)), budget)
    trials = []
    for number, gap in enumerate((0.2, 0.05, 0.01)):
        metrics = {"auc": {"value": 0.7}, "gap_max.sex": {"value": gap}}
        trials.append(Trial(number, "default", "partial", metrics=metrics))
        progress.update(trials)
    assert progress.first_answers() == {
        "first_answer_seconds": 3.0,
        "first_answer_cpu_seconds": 4.0,
        "first_within_seconds": 8.0,
        "first_within_cpu_seconds": 9.0,
    }


def test_a_finished_study_keeps_time_for_the_end_too(tmp_path: Path) -> None:
    """Also where no further model is judged, the answer is prepared before what follows."""
    metrics = {"auc": {"value": 0.7}}
    known = [Trial(0, "default", "judged", metrics=metrics, method="gbdt", seconds=8.0)]
    plan = SimpleNamespace(
        aim=Aim(("auc",)),
        tune=SimpleNamespace(prefer=None, until_gain=None, trials=1),
        methods={},
        proofs=(),
        alternative=None,
        first="auc",
        resolved=SimpleNamespace(job=SimpleNamespace(decision=SimpleNamespace(equal=None))),
    )
    study = SimpleNamespace(answered=lambda aim: known, search=lambda *_, **__: None)
    budget = Budget(100.0, started=0.0, clock=lambda: 0.0, reserve=-0.5)
    prepared: list[Any] = []
    tune_search.search(
        plan,  # type: ignore[arg-type]
        SimpleNamespace(plan=SimpleNamespace(fixed=[]), folds=5),  # type: ignore[arg-type]
        study,  # type: ignore[arg-type]
        Store(str(tmp_path / "store")),
        lambda *_: None,
        budget=budget,
        on_best=prepared.append,
    )
    assert prepared == [known]
    # a training on all rows, and three judgements without a baseline's time to go by
    assert budget.reserve == budget.writing + 4.0 + 24.0
