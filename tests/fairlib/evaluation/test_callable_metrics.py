"""Metrics that are functions: failures of single groups, draws, and functions that are known."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from fairlearn.metrics import selection_rate
from sklearn.metrics import accuracy_score, fbeta_score

from evenhand.fairlib.evaluation.callable_metrics import (
    callable_metric,
    catalogued_name,
    check_takes_weights,
    name_of,
)
from evenhand.fairlib.evaluation.group_metrics import Cells


def share(y_true: Any, y_pred: Any) -> float:
    return float(np.mean(y_pred))


def picky(y_true: Any, y_pred: Any) -> float:
    if len(y_true) < 3:
        raise ValueError("too few rows")
    return share(y_true, y_pred)


def test_names() -> None:
    assert name_of(partial(fbeta_score, beta=2)) == "fbeta_score"
    assert catalogued_name(accuracy_score) == "accuracy"
    assert catalogued_name(selection_rate) == "selection_rate"
    assert catalogued_name(share) is None
    assert catalogued_name(partial(accuracy_score, normalize=False)) is None


def test_functions_without_weights_are_refused_with_weights() -> None:
    check_takes_weights("accuracy", accuracy_score)
    check_takes_weights("any", lambda y_true, y_pred, **more: 0.0)
    with pytest.raises(ValueError, match="share does not take sample_weight"):
        check_takes_weights("share", share)


def measured(function: Any, draws: int = 400, people: Any = None) -> Any:
    code = np.repeat([0, 1], [2, 400])
    picked = np.tile([1, 0, 0, 0], 101)[:402]
    cells = Cells(code, 2, people=people)
    rng = np.random.default_rng(0)
    return callable_metric(function, cells, picked, picked, draws=draws, rng=rng)


def test_a_group_that_a_function_refuses_voids_no_other() -> None:
    metric = measured(picky)
    assert np.isnan(metric.value[0])
    assert metric.value[1] == pytest.approx(0.25, abs=0.01)
    with pytest.raises(ZeroDivisionError):
        measured(lambda y_true, y_pred: 1 / 0)


def test_draws_have_the_spread_of_a_share() -> None:
    ends = measured(share).intervals(0.95)
    half = (ends.high[1] - ends.low[1]) / 2
    assert half == pytest.approx(1.96 * np.sqrt(0.25 * 0.75 / 400), rel=0.15)
    # far beyond the draws the ends go on to rise
    far = measured(share, draws=40).intervals(0.9999)
    assert far.low[1] < ends.low[1]
    assert measured(share, draws=0).intervals is None


def test_people_are_drawn_with_all_their_rows() -> None:
    people = np.concatenate([[0, 1], np.repeat(np.arange(2, 52), 8)])
    alone = measured(share).intervals(0.95)
    picked = np.concatenate([[1, 0], np.repeat(np.arange(50) % 4 == 0, 8).astype(int)])
    cells = Cells(np.repeat([0, 1], [2, 400]), 2, people=people)
    rng = np.random.default_rng(0)
    together = callable_metric(share, cells, picked, picked, draws=400, rng=rng).intervals(0.95)
    ratio = (together.high[1] - together.low[1]) / (alone.high[1] - alone.low[1])
    assert ratio == pytest.approx(np.sqrt(8), rel=0.25)
