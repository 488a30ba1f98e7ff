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
from evenhand.tasks.classifier_training import HeldOut, Learner, balanced_accuracy_lost, fit_useful
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
