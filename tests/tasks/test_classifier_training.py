"""The mitigation's strength: what a model loses beside the plain control, and which strength is
kept.
"""

from __future__ import annotations

import inspect
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import balanced_accuracy_score

from evenhand.fairlib.methods.networks.sensei import CLPClassifier
from evenhand.fairlib.methods.registry import METHODS, method_class
from evenhand.tasks import classifier_training as training
from evenhand.tasks.classifier_training import (
    GivesUp,
    HeldOut,
    Learner,
    balanced_accuracy_lost,
    fit_useful,
)
from evenhand.tasks.steps.controls_step import controls
from tests.tasks.steps_of_rows import RULE, context, encoded

LABELS = np.array([0, 0, 0, 0, 1, 1])


def held(probability: list[float], rows: list[int] | None = None, label: Any = LABELS) -> HeldOut:
    positions = np.arange(len(probability)) if rows is None else np.array(rows)
    return HeldOut(positions, np.asarray(label), np.array(probability), 0.0)


def test_loss_and_standard_error_by_hand() -> None:
    perfect = held([0.1, 0.2, 0.3, 0.4, 0.8, 0.9])
    # the best threshold is .9: all negatives and one of two positives are right
    worse = held([0.1, 0.2, 0.3, 0.4, 0.2, 0.9])
    lost, error = balanced_accuracy_lost(worse, perfect)
    assert lost == pytest.approx(0.25)
    # differences 0, 0, 0, 0 and 1, 0: variances 0 and 1/4, means over 4 and 2 rows
    assert error == pytest.approx(np.sqrt(0.25 / 2) / 2)
    assert balanced_accuracy_lost(perfect, worse) == (pytest.approx(-0.25), error)


def test_the_loss_is_that_of_the_best_thresholds() -> None:
    rng = np.random.default_rng(3)
    labels = (rng.random(300) < 0.3).astype(np.int64)
    scores = [np.round(0.5 * labels + rng.random(300), 1) for _ in range(2)]
    best = [
        max(balanced_accuracy_score(labels, values >= cut) for cut in [*np.unique(values), 9.0])
        for values in scores
    ]
    own, plain = (held(list(values), label=labels) for values in scores)
    assert balanced_accuracy_lost(own, plain)[0] == pytest.approx(best[1] - best[0])


def test_only_common_rows_are_compared() -> None:
    own = held([0.9, 0.1, 0.8], rows=[5, 2, 9], label=[1, 0, 1])
    plain = held([0.2, 0.7, 0.1], rows=[2, 9, 11], label=[0, 1, 1])
    assert balanced_accuracy_lost(own, plain) == (0.0, 0.0)
    assert balanced_accuracy_lost(own, held([0.5], rows=[2], label=[0])) == (0.0, 0.0)


def searched(
    monkeypatch: pytest.MonkeyPatch, losses: list[float], error: float = 0.0
) -> dict[str, Any]:
    """Facts of a search in which the strengths cost these losses."""
    data = encoded(200)
    answers = iter([(loss, error) for loss in losses])
    monkeypatch.setattr(training, "balanced_accuracy_lost", lambda own, plain: next(answers))
    monkeypatch.setattr(GivesUp, "__call__", lambda *_: False)
    build = partial(CLPClassifier, n_steps=50, random_state=0)
    flipped = data.X.copy()
    flipped[:, 0] = 1.0 - flipped[:, 0]
    learner = Learner(METHODS["clp"], build, {}, [flipped])
    plain = held([0.5] * 6)
    model, _, facts = fit_useful(learner, data, plain, 0, progress=lambda *_: None, checkpoint=None)
    assert model.get_params()["rho"] == facts["used"]
    assert len(facts["tried"]) == len(losses)
    return facts


@pytest.mark.parametrize(
    ("losses", "error", "used", "allowed"),
    [
        ([0.01], 0.0, 5.0, True),
        ([0.04], 0.05, 5.0, True),  # no more than chance
        ([0.1, 0.02], 0.0, 0.5, True),
        ([0.1, 0.03, 0.0], 0.01, 0.05, True),
        ([0.11, 0.1, 0.109], 0.011, 5.0, False),  # lowering it buys nothing
        ([0.3, 0.2, 0.1], 0.01, 0.05, False),
    ],
)
def test_the_strongest_that_costs_little_is_kept(
    monkeypatch: pytest.MonkeyPatch, losses: list[float], error: float, used: float, allowed: bool
) -> None:
    facts = searched(monkeypatch, losses, error)
    assert facts["used"] == pytest.approx(used)
    assert facts["allowed"] is allowed


def given_up_at(losses: list[float], error: float = 0.0) -> int:
    """Step at which a training with these losses every 100 steps is given up; 0: never."""
    judge = GivesUp(held([0.5] * 6), LABELS)
    for number, loss in enumerate(losses, start=1):
        judge.losses.append([100.0 * number, loss])
        if judge.decide(error):
            return 100 * number
    return 0


def test_a_strength_is_given_up_where_its_loss_stays() -> None:
    # the fall of every 1,000 steps is two thirds of the one before: what remains is the limit
    for limit, step in ((0.021, 2000), (0.019, 0)):
        losses = [limit + 0.3 * (2 / 3) ** (number / 10) for number in range(100)]
        assert given_up_at(losses) == step
    # it falls by half every 1,000 steps, and then stays
    falling = [0.16 * 0.5 ** (number / 10) for number in range(30)]
    assert given_up_at(falling + [0.03] * 70) == 3500
    assert given_up_at(falling + [0.03] * 70, error=0.04) == 0
    assert given_up_at([0.019] * 90) == 0
    assert given_up_at([0.04] * 90) == 2000


def test_the_judge_sees_the_loss_at_every_evaluation() -> None:
    judge = GivesUp(held([0.1, 0.2, 0.3, 0.4, 0.8, 0.9]), LABELS)
    for step in (900, 2000):
        own = np.array([0.1, 0.2, 0.3, 0.4, 0.2, 0.9])
        gave_up = judge(step, np.arange(6), np.stack([1.0 - own, own], axis=1))
        # a loss of .25 and its standard error of .18, as above
        assert judge.losses[-1] == [step, pytest.approx(0.25)]
        assert gave_up is judge.gave_up


def test_a_loss_far_above_what_is_allowed_is_only_tried() -> None:
    own = np.array([0.1, 0.2, 0.3, 0.4, 0.2, 0.9] * 100)
    labels = np.tile(LABELS, 100)
    perfect = held([0.1, 0.2, 0.3, 0.4, 0.8, 0.9] * 100, label=labels)
    judge = GivesUp(perfect, labels)
    probability = np.stack([1.0 - own, own], axis=1)
    answers = [judge(step, np.arange(600), probability) for step in (500, 900, 1000)]
    # a loss of .25, and a standard error of .018
    assert answers == [False, False, True]
    assert judge.is_far
    assert not judge.gave_up
    # a quick trial is not tried again, and is judged by half as many steps
    quick = GivesUp(perfect, labels, pace=2.0)
    answers = [quick(step, np.arange(600), probability) for step in (500, 900, 1000)]
    assert answers == [False, False, True]
    assert quick.gave_up
    assert not quick.is_far


def test_the_latest_loss_is_known_where_evaluations_are_rare() -> None:
    judge = GivesUp(held([0.5] * 6), LABELS, pace=2.0)
    judge.losses = [[400.0, 0.3], [800.0, 0.2], [1200.0, 0.1]]
    # no evaluation within 250 steps before step 700
    assert judge._latest(1200.0) == pytest.approx(0.1)
    assert judge._latest(700.0) == pytest.approx(0.3)
    # it fell by .2 within 500 steps
    assert not judge.decide(0.0)
    judge.losses.append([1600.0, 0.1])
    judge.losses.append([2000.0, 0.1])
    assert judge.decide(0.0)


@pytest.mark.parametrize("lost", [0.1, 0.0])
def test_a_strength_tried_quickly_is_trained_at_its_rate(
    monkeypatch: pytest.MonkeyPatch, lost: float
) -> None:
    monkeypatch.setattr(training, "FAR_STEPS", 50)
    losses = iter([(0.5, 0.0)] + [(lost, 0.0)] * 100)
    monkeypatch.setattr(training, "balanced_accuracy_lost", lambda own, plain: next(losses))
    monkeypatch.setattr(training, "TRIED", (1.0, 0.1))
    fitted = []
    original = CLPClassifier.fit

    def fit(self: CLPClassifier, *arguments: Any, **options: Any) -> CLPClassifier:
        fitted.append(self)
        return original(self, *arguments, **options)

    monkeypatch.setattr(CLPClassifier, "fit", fit)
    data = encoded(200)
    build = partial(CLPClassifier, n_steps=100, random_state=0)
    learner = Learner(METHODS["clp"], build, {}, [1.0 - data.X])
    model, _, facts = fit_useful(
        learner, data, held([0.5] * 6), 0, progress=lambda *_: None, checkpoint=None
    )
    rates = [each.get_params()["learning_rate"] for each in fitted]
    strengths = [each.get_params()["rho"] for each in fitted]
    if lost:
        # the next strength begins where the trial ended; then the strongest is trained on
        assert strengths == pytest.approx([5.0, 5.0, 0.5, 5.0])
        assert rates == pytest.approx([0.001, 0.003, 0.001, 0.001])
        assert fitted[2].starts_from is fitted[1]
    else:
        assert strengths == pytest.approx([5.0, 5.0, 5.0])
        assert rates == pytest.approx([0.001, 0.003, 0.001])
    assert fitted[1].starts_from is fitted[0]
    assert fitted[-1].starts_from is fitted[1]
    assert model is fitted[-1]
    assert facts["used"] == 5.0
    assert facts["allowed"] is (lost == 0.0)


def test_trainings_begin_where_a_stronger_one_was_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "balanced_accuracy_lost", lambda own, plain: (0.1, 0.0))
    monkeypatch.setattr(GivesUp, "decide", lambda *_: True)
    fitted = []
    original = CLPClassifier.fit

    def fit(self: CLPClassifier, *arguments: Any, **options: Any) -> CLPClassifier:
        fitted.append(self)
        return original(self, *arguments, **options)

    monkeypatch.setattr(CLPClassifier, "fit", fit)
    data = encoded(200)
    build = partial(CLPClassifier, n_steps=200, random_state=0)
    flipped = data.X.copy()
    flipped[:, 0] = 1.0 - flipped[:, 0]
    learner = Learner(METHODS["clp"], build, {}, [flipped])
    plain = held([0.5] * 6)
    model, own, facts = fit_useful(
        learner, data, plain, 0, progress=lambda *_: None, checkpoint=None
    )
    # all cost the same: the strongest is kept, and trained to its end
    assert [each.get_params()["rho"] for each in fitted] == pytest.approx([5.0, 0.5, 0.05, 5.0])
    assert [each.history_["step"][-1] for each in fitted] == [50, 50, 200, 200]
    assert fitted[0].starts_from is None
    assert [each.starts_from for each in fitted[1:]] == [fitted[0], fitted[1], fitted[0]]
    assert model is fitted[3]
    assert facts["used"] == 5.0
    assert not facts["allowed"]
    np.testing.assert_array_equal(own.rows, model.validation_.rows)


def test_a_strength_of_the_job_is_not_searched() -> None:
    assert METHODS["sensei"].lacks_strength({"hidden": [8]})
    assert not METHODS["sensei"].lacks_strength({"rho": 5.0})
    assert not METHODS["budro"].lacks_strength({"perturbation_budget": 0.1})
    assert not METHODS["gbdt"].lacks_strength({})


def test_every_strength_is_an_argument_with_a_positive_default() -> None:
    found = {name: spec.strength for name, spec in METHODS.items() if spec.strength}
    assert {"sensei", "sensr", "clp", "budro"} <= set(found)
    for name, names in found.items():
        taken = inspect.signature(method_class(name).__init__).parameters
        assert set(names) <= set(taken)
        assert taken[names[0]].default > 0


def test_controls_give_the_plain_rows_on_request_only(tmp_path: Path) -> None:
    wanted = {"calibration": "none", "decision": RULE | {"threshold": "own"}, "seed": 0}
    wanted |= {"method": "reweigh-logistic", "arguments": {}}
    found = controls(context(tmp_path / "a", wanted, encoded())).outputs
    assert "plain_held_out" not in found
    found = controls(context(tmp_path / "b", {**wanted, "held_out": True}, encoded())).outputs
    rows = HeldOut.read(found["plain_held_out"][0])
    assert np.array_equal(rows.label, encoded().y[rows.rows])
