"""Thresholds of published trees are no values of training rows, and change no prediction
for them.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import xgboost as xgb

from evenhand.fairlib.methods.budro import BudroClassifier
from evenhand.fairlib.methods.gbdt import GBDTClassifier
from evenhand.fairlib.methods.thresholds import _gap, _moved, between_values


def thresholds(booster: xgb.Booster) -> list[tuple[int, float]]:
    """Feature and threshold of every numeric split."""
    trees = json.loads(booster.save_raw("json"))["learner"]["gradient_booster"]["model"]["trees"]
    return [
        (feature, value)
        for tree in trees
        for left, kind, feature, value in zip(
            tree["left_children"],
            tree["split_type"],
            tree["split_indices"],
            tree["split_conditions"],
            strict=True,
        )
        if left >= 0 and not kind
    ]


@pytest.fixture(scope="module")
def people() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 4)).astype(np.float32)
    X[:, 1] = rng.integers(0, 5, 600)
    X[:, 2] = rng.random(600) < 0.3
    X[rng.random(600) < 0.1, 3] = np.nan
    return X, (X[:, 0] + X[:, 1] / 3 - X[:, 2] + rng.normal(0, 0.5, 600) > 0.3).astype(int)


def test_the_shortest_decimal_of_the_gap_by_hand() -> None:
    known = np.array([0, 1, 1.25, 3, 3.0000002], dtype=np.float32)
    given = np.array([1, 1.25, 3, 2, 0, 9, 3.0000002], dtype=np.float32)
    # the gaps are (0, 1), (1, 1.25), (1.25, 3) twice, below 0, above 3.0000002, and one without a
    # number
    found = _moved(given, *_gap(given, known))
    assert found[:4] == [0.5, 1.1, 2.0, 2.0]
    assert found[4] < 0
    assert found[5] > 3.0000002
    assert np.float32(found[6]) == np.float32(3.0000002)


def test_no_threshold_is_a_value_of_a_training_row(people: Any) -> None:
    """Training rows still take the same way."""
    X, y = people
    matrix = xgb.QuantileDMatrix(X, label=y)
    trained = xgb.train({"objective": "binary:logistic", "max_depth": 6, "eta": 0.3}, matrix, 25)
    assert sum(np.float32(value) in X[:, feature] for feature, value in thresholds(trained)) > 50
    moved = between_values(trained, X)
    np.testing.assert_array_equal(moved.inplace_predict(X), trained.inplace_predict(X))
    assert len(thresholds(moved)) == len(thresholds(trained))
    assert not any(np.float32(value) in X[:, feature] for feature, value in thresholds(moved))
    np.testing.assert_array_equal(
        between_values(moved, X).inplace_predict(X), moved.inplace_predict(X)
    )


@pytest.mark.parametrize(
    "model",
    [
        GBDTClassifier(n_steps=20, n_jobs=1),
        BudroClassifier(n_steps=5, n_jobs=1, n_iter_no_change=None, perturbation_budget=0.01),
    ],
)
def test_a_fitted_method_has_no_value_of_a_row(model: Any, people: Any) -> None:
    X, y = people
    rows = np.nan_to_num(X)
    if isinstance(model, BudroClassifier):
        from evenhand.fairlib.distances.sensitive_subspace import SensitiveSubspace

        model.metric = SensitiveSubspace().fit(
            rows, sensitive_features={"s": (rows[:, 2] > 0).astype(str)}
        )
    model.fit(rows, y)
    assert thresholds(model.booster_)
    assert not any(
        np.float32(value) in rows[:, feature] for feature, value in thresholds(model.booster_)
    )


def test_categories_and_missing_values_keep_their_way(people: Any) -> None:
    import pandas as pd

    X, y = people
    table = pd.DataFrame(
        {"a": X[:, 0], "c": pd.Categorical(X[:, 1].astype(int).astype(str)), "m": X[:, 3]}
    )
    model = GBDTClassifier(n_steps=10, n_jobs=1, n_iter_no_change=None).fit(table, y)
    assert (model.predict(table) == y).mean() > 0.7
    assert "categories" in model.booster_.attributes()
