"""Models that are of no use, whatever their gates."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from evenhand.fairlib.evaluation.evaluate import MetricValue
from evenhand.fairlib.methods.registry import METHODS
from evenhand.tasks.steps.gate_step import degenerate


def measured(**changes: Any) -> dict[str, dict[str, Any]]:
    """Metrics of a model that tells people apart."""
    ends = {
        "probability_spread": (0.5, None, None),
        "auc": (0.8, 0.7, 0.9),
        "log_loss_gain": (0.1, 0.05, 0.15),
        **changes,
    }
    return {name: vars(MetricValue(*values)) for name, values in ends.items()}


@pytest.mark.parametrize("calibrated", [True, False])
def test_a_useful_model_is_not_degenerate(calibrated: bool) -> None:
    assert degenerate(measured(), "gbdt", calibrated=calibrated) is None
    # a rare label: most people are alike, and yet the model is surely better than the share of
    # positives
    rare = measured(probability_spread=(0.0, None, None), log_loss_gain=(0.004, 0.002, 0.006))
    assert degenerate(rare, "gbdt", calibrated=calibrated) is None
    without_draws = {"auc": (0.8, None, None), "log_loss_gain": (0.1, None, None)}
    assert degenerate(measured(**without_draws), "gbdt", calibrated=calibrated) is None


@pytest.mark.parametrize(
    ("changes", "calibrated", "words"),
    [
        (
            {"probability_spread": (0.0, None, None), "auc": (0.5, 0.5, 0.5)},
            False,
            "the same probability",
        ),
        (
            {"probability_spread": (0.009, None, None), "log_loss_gain": (1e-3, -1e-3, 2e-3)},
            True,
            "5th to the 95th",
        ),
        ({"auc": (0.229, 0.15, 0.31)}, False, "no better than chance .AUC 0.229"),
        (
            {"log_loss_gain": (-0.01, -0.05, 0.02)},
            True,
            "no better than that of the share of positives",
        ),
    ],
)
def test_a_degenerate_model_names_the_keys_of_its_learner(
    changes: dict[str, Any], calibrated: bool, words: str
) -> None:
    for method, key in (
        ("budro", "method.eta"),
        ("sensei", "method.learning_rate"),
        ("logistic", "inputs"),
    ):
        reason = degenerate(measured(**changes), method, calibrated=calibrated)
        assert reason is not None
        assert re.search(words, reason)
        assert key in reason


def test_a_new_learner_gets_the_general_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "new", replace(METHODS["logistic"], name="new", plain="new"))
    useless = measured(auc=(0.4, 0.35, 0.45))
    reason = degenerate(useless, "new", calibrated=False)
    assert reason == degenerate(useless, "logistic", calibrated=False)
    assert "give more rows" in str(reason)


def test_uncalibrated_probabilities_are_judged_by_their_order() -> None:
    shrunk = measured(probability_spread=(1e-6, None, None), log_loss_gain=(-0.3, -0.4, -0.2))
    assert degenerate(shrunk, "budro", calibrated=False) is None
    assert degenerate(shrunk, "budro", calibrated=True) is not None
