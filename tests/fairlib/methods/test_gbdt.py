"""Boosted trees: one stump by hand, labels of any kind, and callbacks."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from evenhand.fairlib.methods.budro import BudroClassifier
from evenhand.fairlib.methods.gbdt import LEAVES, GBDTClassifier
from evenhand.fairlib.methods.preprocessed_gbdt import ReweighedGBDTClassifier

People = Callable[..., tuple[NDArray[Any], NDArray[Any], NDArray[Any]]]
# Depth-wise growth from one half for a given number of steps, as in the papers.
FIXED: dict[str, Any] = {
    "max_depth": 1,
    "eta": 0.3,
    "min_child_weight": 0.0,
    "base_score": 0.5,
    "n_iter_no_change": None,
}

# --- gradient boosted trees ---


def test_one_stump_by_hand() -> None:
    # p = 1/2 everywhere. Right leaf: gradient 3 * (-1/2), hessian 3 * 1/4 (scale_pos_weight 3);
    # left: 3 * 1/2 and 3 * 1/4. Leaf value: -eta * G / (H + lambda) = 0.3 * 1.5 / 1.75.
    X, y = np.array([[0.0], [0.0], [0.0], [1.0]]), np.array([0, 0, 0, 1])
    model = GBDTClassifier(n_steps=1, reg_lambda=1.0, balance_classes=True, **FIXED).fit(X, y)
    value = 0.3 * 1.5 / 1.75
    expected = 1 / (1 + np.exp(-np.array([-value, value])))
    np.testing.assert_allclose(model.predict_proba([[0.0], [1.0]])[:, 1], expected, rtol=1e-6)
    np.testing.assert_array_equal(model.predict([[0.0], [1.0]]), [0, 1])


def test_balancing_is_the_ratio_of_the_labels() -> None:
    X, y = np.array([[0.0], [0.0], [0.0], [1.0]]), np.array([0, 0, 0, 1])
    plain = GBDTClassifier(n_steps=1, reg_lambda=1.0, **FIXED).fit(X, y)
    # right leaf alone: G = -1/2, H = 1/4
    assert plain.predict_proba([[1.0]])[0, 1] == pytest.approx(
        1 / (1 + np.exp(-0.3 * 0.5 / 1.25)), rel=1e-6
    )


def test_each_tree_sees_its_share_of_the_columns() -> None:
    """One of four columns, although the first one tells all."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 4))
    y = (X[:, 0] + 0.3 * X[:, 1:].sum(axis=1) > 0).astype(int)
    split_columns = []
    for share in (1.0, 0.25):
        model = GBDTClassifier(
            n_steps=12, max_depth=1, n_iter_no_change=None, colsample_bytree=share, random_state=0
        ).fit(X, y)
        trees = model.booster_.trees_to_dataframe()
        split_columns.append(set(trees.loc[trees["Feature"] != "Leaf", "Feature"]))
    assert len(split_columns[0]) < len(split_columns[1]) == 4
    with pytest.raises(ValueError, match="colsample_bytree"):
        GBDTClassifier(colsample_bytree=0.0).fit(X, y)


def test_labels_of_any_kind_come_back(people: People) -> None:
    X, y, _ = people(120)
    model = GBDTClassifier(n_steps=20, eta=0.3, min_child_weight=1.0).fit(
        X, np.where(y == 1, "bad", "good")
    )
    assert list(model.classes_) == ["bad", "good"]
    assert (model.predict(X) == np.where(y == 1, "bad", "good")).mean() > 0.9
    # "good" is the second class: the last column of predict_proba
    assert model.predict_proba(X)[y == 0, 1].mean() > 0.7


def test_callback_sees_every_step(people: People) -> None:
    X, y, _ = people(50)
    seen: list[tuple[int, int]] = []
    GBDTClassifier(n_steps=4).fit(X, y, callback=lambda step, steps, _: seen.append((step, steps)))
    # two numbers of leaves are tried
    assert seen == [(step, 8) for step in range(1, 9)]
    seen.clear()
    GBDTClassifier(n_steps=4, n_iter_no_change=None).fit(
        X, y, callback=lambda step, steps, _: seen.append((step, steps))
    )
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_a_callback_can_stop_training(people: People) -> None:
    X, y, _ = people(50)

    def stop(step: int, steps: int, progress: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        GBDTClassifier(n_steps=4).fit(X, y, callback=stop)


def test_a_callback_ends_the_choice_of_trees(people: People) -> None:
    X, y, _ = people(60)
    # three steps of the first growth, and none of the second, which would have the better
    # validation
    stopped = GBDTClassifier(n_steps=6).fit(X, y, callback=lambda step, *_: step == 3)
    trees = stopped.booster_.get_dump()
    assert len(trees) == stopped.best_step_ <= 3
    assert max(tree.count("leaf=") for tree in trees) <= min(LEAVES)


def test_a_tie_goes_to_the_first_class(monkeypatch: pytest.MonkeyPatch) -> None:
    model = GBDTClassifier(n_steps=1).fit([[0.0], [1.0], [2.0], [3.0]], ["no", "no", "yes", "yes"])
    positive = np.array([0.499, 0.5, 0.501])
    monkeypatch.setattr(
        model, "_probabilities", lambda _: np.stack([1 - positive, positive], axis=1)
    )
    assert list(model.predict(np.zeros((3, 1)))) == ["no", "no", "yes"]
    np.testing.assert_allclose(model.predict_proba(np.zeros((3, 1)))[:, 0], [0.501, 0.5, 0.499])


def test_folds_are_trained_as_in_the_choice_of_steps(people: People) -> None:
    X, y, _ = people(300)
    X = np.clip(np.round(X), -1, 1)  # every value is in every fold, so thresholds are the same
    model = GBDTClassifier(n_steps=40, random_state=0, n_jobs=1)
    fitted = copy.deepcopy(model).fit(X, y)
    fold = np.empty(len(y), dtype=int)
    for number, (_, held_out) in enumerate(model._cross_validation(y, 2)):
        fold[held_out] = number
    models = model.fit_folds(X, y, fold)
    assert {one.best_step_ for one in models} == {fitted.best_step_}
    assert not hasattr(model, "booster_")
    for number, one in enumerate(models):
        held_out = np.flatnonzero(fold == number)
        expected = fitted.validation_.probability[held_out]
        np.testing.assert_allclose(one.predict_proba(X[held_out]), expected, atol=1e-6)
    with pytest.raises(ValueError, match="n_iter_no_change"):
        GBDTClassifier(n_iter_no_change=None).fit_folds(X, y, fold)


def test_folds_are_for_methods_that_cross_validate() -> None:
    small = np.tile([0, 1], 200)
    large = np.tile([0, 1], 3000)
    assert GBDTClassifier().may_fit_folds(small)
    assert ReweighedGBDTClassifier().may_fit_folds(small)
    assert not GBDTClassifier().may_fit_folds(large)
    assert not GBDTClassifier(validation_fraction=0.2).may_fit_folds(small)
    assert not GBDTClassifier(n_iter_no_change=None).may_fit_folds(small)
    assert not BudroClassifier().may_fit_folds(small)
