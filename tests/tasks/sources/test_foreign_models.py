"""Answers of a model that decides by itself: which threshold gives its decisions."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from evenhand.tasks.sources.foreign_models import Decided
from evenhand.tasks.steps.measure_predictions_step import RememberedModel


def answers(score: list[float], decided: list[bool]) -> Decided:
    positive = np.array(score)
    return Decided(np.stack([1.0 - positive, positive], axis=1), np.array(decided))


@pytest.mark.parametrize(
    ("score", "decided", "threshold"),
    [
        ([0.1, 0.37, 0.42, 0.9], [False, False, True, True], 0.4),
        ([0.1, 0.391, 0.394, 0.9], [False, False, True, True], 0.394),
        ([0.2, 0.7], [True, True], 0.2),
        # groups have thresholds of their own
        ([0.3, 0.4, 0.5], [True, False, True], None),
    ],
)
def test_the_threshold_of_decisions_by_hand(
    score: list[float], decided: list[bool], threshold: float | None
) -> None:
    assert answers(score, decided).threshold() == threshold


def test_nobody_decided_positive_stays_nobody() -> None:
    threshold = answers([0.2, 0.7], [False, False]).threshold()
    assert threshold is not None
    assert threshold > 0.7


def test_a_model_without_one_threshold_answers_with_decisions() -> None:
    rows = pd.DataFrame({"a": [1, 2, 3]})
    model = RememberedModel(lambda _: answers([0.3, 0.4, 0.5], [True, False, True]), rows)
    assert model(rows).tolist() == [1, 0, 1]
    model = RememberedModel(lambda _: answers([0.3, 0.4, 0.5], [False, True, True]), rows)
    assert model.threshold == 0.4
    assert model(rows)[:, 1].tolist() == [0.3, 0.4, 0.5]
    foreign = RememberedModel(lambda _: np.array([0, 1, 1]), rows)
    assert not foreign.decides
