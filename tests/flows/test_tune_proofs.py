"""Limits of `tune` on proved certificates: which trial is proved, and what is said of it."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from evenhand.fairlib.tuning.study import Aim, Limit, Trial
from evenhand.flows import tune_proofs
from evenhand.flows.cli import app
from evenhand.flows.job_file import load_job
from evenhand.flows.resolved_job import resolve
from evenhand.flows.tune_plan import make_plan
from evenhand.flows.tune_proofs import Attempt, Proofs, candidates, proof_limit, proved_answer
from evenhand.tasks.errors import InputError, OutOfTime
from tests.flows.people import Bench

SCORE = Limit("certificate.score.proved", "<=", 0.2)
AIM = Aim(("accuracy",), (Limit("certificate.score.found", "<=", 0.2),), 0.5)


def judged(number: int, accuracy: float, found: float, method: str = "gbdt") -> Trial:
    """A trial with its accuracy and what a search found."""
    metrics = {
        "accuracy": {"value": accuracy},
        "certificate.score.found": {"value": found},
    }
    return Trial(number, "search", "judged", method=method, metrics=metrics)


# by accuracy: of the first the search found too much
TRIALS = [
    judged(0, 0.9, 0.3),
    judged(1, 0.8, 0.18),
    judged(2, 0.7, 0.16),
    judged(3, 0.6, 0.1),
    judged(4, 0.5, 0.17, "nn"),
]


def prove_by_table(monkeypatch: pytest.MonkeyPatch, proved: dict[int, float | None]) -> list[int]:
    """Let each trial have a proved end by its number, None for no time; return who was proved."""
    asked: list[int] = []

    def attempt(plan: Any, trial: Trial, *_: Any) -> Attempt:
        asked.append(trial.model)
        value = proved[trial.model]
        if value is None:
            raise OutOfTime("")
        return Attempt(trial, 50, {SCORE.metric: value}, max(0.0, SCORE.shortfall(value)))

    monkeypatch.setattr(tune_proofs, "_attempt", attempt)
    return asked


def answer(**more: Any) -> Proofs:
    """Prove the trials."""
    plan: Any = SimpleNamespace(aim=AIM, proofs=[SCORE], tune=SimpleNamespace(prefer=None))
    engine: Any = None
    return proved_answer(plan, TRIALS, 100, engine, engine, **more)


def test_the_next_best_is_proved_where_a_proof_misses(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = prove_by_table(monkeypatch, {1: 0.27, 3: 0.15})
    proofs = answer()
    # what was found of the third times 1.5, the ratio of the second, is above the limit
    assert asked == [1, 3]
    assert proofs.trial.model == 3
    assert proofs.is_kept
    assert "proved (0.15 for 50 people" in proofs.standings()[0]["text"]


def test_without_a_proof_the_nearest_is_a_compromise(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = prove_by_table(monkeypatch, {1: 0.27, 2: 0.21, 3: 0.25, 4: 0.3})
    proofs = answer()
    # another method's proofs may be nearer to what is found; the hopeless one comes last
    assert asked == [1, 3, 4, 2]
    assert proofs.trial.model == 2
    assert not proofs.is_kept
    assert proofs.standings()[0]["missed_by"] == pytest.approx(0.01)


def test_without_time_the_best_is_not_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    prove_by_table(monkeypatch, {1: None})
    proofs = answer()
    assert proofs.trial.model == 1
    assert not proofs.is_kept
    assert proofs.standings()[0]["text"].endswith("not proved: there was no time")
    asked = prove_by_table(monkeypatch, {})
    assert "interrupted" in answer(ended="command was interrupted").standings()[0]["text"]
    assert asked == []


def test_a_found_end_beyond_the_limit_needs_no_proof() -> None:
    assert [trial.model for trial in candidates(AIM, TRIALS, None, [])] == [1, 2, 3, 4]
    proofs = Proofs([SCORE], TRIALS[0])
    assert proofs.standings()[0]["missed_by"] == pytest.approx(0.1)
    assert "a search found 0.3" in proofs.standings()[0]["text"]


def test_the_nearest_proof_so_far_decides_what_is_hopeless() -> None:
    """Of two proofs of a method, 1.1 and 2 times what was found: .17 may still be proved."""
    attempts = [
        Attempt(judged(7, 0.9, 0.18), 50, {SCORE.metric: 0.36}, 0.16),
        Attempt(judged(8, 0.9, 0.2), 50, {SCORE.metric: 0.22}, 0.02),
    ]
    trials = [judged(1, 0.8, 0.19), judged(2, 0.7, 0.17)]
    # .19 times 1.1 is above the limit
    assert [trial.model for trial in candidates(AIM, trials, None, attempts)] == [2, 1]


REFUSED = {
    "without a budget": ({}, "certificate.score.proved", "<=", "add evaluate.certificate.budget"),
    "what was found": ({"budget": 0.1}, "certificate.score.found", "<=", "are on proved ends"),
    "the wrong way": ({"budget": 0.1}, "certificate.score.proved", ">=", "write <="),
}


@pytest.mark.parametrize("name", list(REFUSED))
def test_limits_without_a_proof_are_refused(name: str) -> None:
    certificate, metric, sign, reason = REFUSED[name]
    overrides = [f"evaluate.certificate={certificate}"] if certificate else []
    job = resolve(*load_job("german-gbdt", overrides))
    with pytest.raises(InputError, match=reason):
        proof_limit(job, Limit(metric, sign, 0.1))  # type: ignore[arg-type]


def test_only_provable_methods_and_rules_are_searched(tmp_path: Path) -> None:
    given = ["evaluate.certificate={budget: 0.01}", "tune.trials=1"]
    where = 'tune.where=["certificate.dif.proved <= 1", "gap_max.age <= 0.3"]'
    plan = make_plan("german-nn", [*given, where], force=True)
    # trees have no such certificate; logistic regression has none at all
    assert list(plan.methods) == ["nn"]
    assert "equalized_odds by age" in {rule.decision for rule in plan.rules}
    assert [str(limit) for limit in plan.aim.limits] == [
        "certificate.dif.found <= 1",
        "gap_max.age <= 0.3",
    ]
    # a change of scores depends on the calibration, and is not proved of thresholds by group
    score = where.replace("certificate.dif", "certificate.score")
    plan = make_plan("german-nn", [*given, score], force=True)
    assert list(plan.methods) == ["nn", "gbdt", "reweigh", "project"]
    assert "equalized_odds by age" not in {rule.decision for rule in plan.rules}
    with pytest.raises(InputError, match="logistic has no certificate"):
        make_plan("german-nn", [*given, where, "tune.methods=[logistic]"], force=True)


@pytest.mark.long
def test_the_tuned_job_demands_the_proof(publishing: Bench) -> None:
    """Kernels may have to be compiled first."""
    publishing.job["method"] = {"name": "gbdt", "n_steps": 4, "max_depth": 2, "n_jobs": 1}
    publishing.job["evaluate"] |= {"certificate": {"budget": 0.01}, "certified_people": 20}
    settings = {"trials": 4, "folds": 2, "workers": 1, "methods": ["gbdt"], "confidence": 0.5}
    publishing.job["tune"] = settings | {"where": ["certificate.score.proved <= 0.9"]}
    given = [
        "tune",
        str(publishing.write()),
        "--direct",
        "--store",
        str(publishing.store),
        "--json",
    ]
    done = CliRunner().invoke(app, given)
    assert done.exit_code == 0, done.stderr
    content = json.loads(done.stdout)
    study = content["tuning"]
    assert study["proofs"]["kept"]
    assert study["standings"][0]["kept_by"] == "proof"
    assert study["test"]["certificate.score.proved"]["value"] is not None
    tuned = yaml.safe_load(Path(content["artifacts"]["tuned"]).read_text())
    assert tuned["gates"]["certificate.score.proved"] == {"max": 0.9}
