"""Calibrations and decision rules that are chosen on held-out rows."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from scipy.special import expit, logit

from evenhand.fairlib.methods.calibration import Calibration, fit_calibration
from evenhand.fairlib.methods.decided import ThresholdRule
from evenhand.tasks.classifier_training import HeldOut
from evenhand.tasks.decision_rules import (
    calibration_for_share,
    decided_rule,
    missed_share,
    share_warning,
)
from evenhand.tasks.errors import InputError
from tests.tasks.steps_of_rows import DECIDING, RULE, held_out


def test_the_description_is_what_was_chosen_without_rows() -> None:
    held = held_out()
    calibration, rule, content = decided_rule(DECIDING, held)
    assert (calibration, content["losses"]) == fit_calibration(held.probability, held.label)
    assert isinstance(rule, ThresholdRule)
    assert rule.threshold == content["base_rate"] == held.label.mean()
    assert content["rule"] == rule.to_json()
    assert (content["rows"], content["shift"], content["calibration"]) == (
        400,
        0.0,
        calibration.kind,
    )
    names = {"rows", "base_rate", "calibration", "losses", "shift", "rule", "missed_share", "curve"}
    assert set(content) == names
    counts = [round(400 * point["selected"]) for point in content["curve"]]
    assert all(step == 0 or step >= 5 for step in -np.diff(counts))
    json.dumps(content, allow_nan=False)


def test_an_isotonic_regression_of_wide_steps_decides_no_share() -> None:
    """Two kinds of people: a regression of two steps ties half of them."""
    rng = np.random.default_rng(0)
    n = 2000
    chance = np.where(np.arange(n) < n // 2, 0.4, 0.8)
    label = (rng.random(n) < chance).astype(np.int64)
    probability = np.clip(chance + rng.normal(0, 0.01, n), 0.01, 0.99)
    held = HeldOut(np.arange(n), label, probability, 0.0)
    steps = Calibration("isotonic", knots=(0.0, 0.6, 0.61, 1.0), values=(0.4, 0.4, 0.8, 0.8))
    wanted = {**DECIDING, "decision": RULE | {"threshold": "observed"}}
    assert missed_share(wanted, held, steps) == {"wanted": label.mean(), "nearest": 0.5}
    increasing = calibration_for_share(wanted, held, steps)
    assert increasing.kind != "isotonic"
    assert missed_share(wanted, held, increasing) is None
    # it decides as before where it was asked for, and where no share is wanted
    asked = {**wanted, "calibration": "isotonic"}
    assert calibration_for_share(asked, held, steps) == steps
    assert calibration_for_share(DECIDING, held, steps) == steps


def test_a_share_that_ties_of_the_model_make_impossible_is_said() -> None:
    label = np.tile([0, 1, 1], 100)
    held = HeldOut(np.arange(300), label, np.where(np.arange(300) < 150, 0.3, 0.8), 0.0)
    wanted = {**DECIDING, "decision": RULE | {"threshold": "observed"}}
    content = decided_rule(wanted, held)[2]
    assert content["missed_share"] == {"wanted": pytest.approx(2 / 3), "nearest": 0.5}
    assert "66.7% positive decisions" in share_warning(content["missed_share"])


def test_class_weights_are_taken_out_before_the_calibration() -> None:
    plain = decided_rule({**DECIDING, "calibration": "sigmoid"}, held_out())
    shifted = decided_rule({**DECIDING, "calibration": "sigmoid"}, held_out(shift=2.0))
    p = held_out().probability
    assert shifted[0](expit(logit(p) + 2.0)) == pytest.approx(plain[0](p), abs=1e-9)
    assert shifted[2]["shift"] == 2.0


@pytest.mark.parametrize(
    ("decision", "threshold"),
    [
        ({"threshold": "own"}, None),
        ({"threshold": "max_accuracy"}, 0.5),
        ({"threshold": 0.3}, 0.3),
        ({"costs": {"false_positive": 1.0, "false_negative": 4.0}}, 0.2),
    ],
)
def test_every_way_to_decide(decision: dict[str, Any], threshold: float | None) -> None:
    _, rule, content = decided_rule({**DECIDING, "decision": RULE | decision}, held_out())
    assert isinstance(rule, ThresholdRule)
    assert rule.threshold == threshold
    assert content["rule"]["threshold"] == threshold


def test_a_quota_that_ties_make_impossible_is_one_line() -> None:
    held = held_out(100)
    same = HeldOut(held.rows, held.label, np.full(100, 0.3), 0.0)
    wanted = {**DECIDING, "decision": RULE | {"rate": 0.2}}
    with pytest.raises(InputError, match="decision: a share of 0.2 .* impossible") as caught:
        decided_rule(wanted, same)
    assert "\n" not in str(caught.value)
