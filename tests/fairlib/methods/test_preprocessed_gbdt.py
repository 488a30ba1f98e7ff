"""Reweighing by hand and against AIF360; trees on projected features."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from evenhand.fairlib.distances import LearnedDirection, SensitiveSubspace
from evenhand.fairlib.methods.gbdt import GBDTClassifier
from evenhand.fairlib.methods.preprocessed_gbdt import (
    ProjectedGBDTClassifier,
    ReweighedGBDTClassifier,
    kamiran_calders_weights,
)

People = Callable[..., tuple[NDArray[Any], NDArray[Any], NDArray[Any]]]


# --- reweighing ---


def test_kamiran_calders_by_hand() -> None:
    # P(a) = P(b) = 1/2, P(1) = 3/8; cells a0 3, a1 1, b0 2, b1 2 of 8
    groups = np.repeat(["a", "a", "b", "b"], [3, 1, 2, 2])
    labels = np.repeat([0, 1, 0, 1], [3, 1, 2, 2])
    expected = np.repeat([2.5 / 3, 1.5 / 1, 2.5 / 2, 1.5 / 2], [3, 1, 2, 2])
    np.testing.assert_allclose(kamiran_calders_weights(groups, labels), expected, rtol=1e-15)


def test_kamiran_calders_equalises_label_rates_of_all_groups() -> None:
    rng = np.random.default_rng(0)
    groups = rng.choice(4, 300, p=[0.5, 0.3, 0.15, 0.05])
    labels = (rng.random(300) < 0.2 + 0.15 * groups).astype(int)
    weights = kamiran_calders_weights(groups, labels)
    assert weights.sum() == pytest.approx(300)
    for group in range(4):
        rows = groups == group
        assert np.average(labels[rows], weights=weights[rows]) == pytest.approx(labels.mean())
        assert weights[rows].sum() == pytest.approx(rows.sum())


def test_kamiran_calders_agrees_with_aif360() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its optional parts that are not installed
        pandas = pytest.importorskip("pandas")
        datasets = pytest.importorskip("aif360.datasets")
        preprocessing = pytest.importorskip("aif360.algorithms.preprocessing")
    rng = np.random.default_rng(1)
    frame = pandas.DataFrame({"g": rng.integers(0, 2, 90) * 1.0, "y": rng.integers(0, 2, 90) * 1.0})
    table = datasets.BinaryLabelDataset(
        df=frame, label_names=["y"], protected_attribute_names=["g"]
    )
    theirs = preprocessing.Reweighing([{"g": 0}], [{"g": 1}]).fit_transform(table).instance_weights
    np.testing.assert_allclose(kamiran_calders_weights(frame["g"], frame["y"]), theirs, rtol=1e-12)


def test_groups_are_the_intersection_of_the_attributes(people: People) -> None:
    X, y, group = people(200)
    age = np.where(X[:, 3] > 0, "old", "young")
    both = np.char.add(group, age)
    arguments = {"n_steps": 5, "max_depth": 2}
    joint, marginals, one = (
        ReweighedGBDTClassifier(**arguments, attributes=attributes).fit(
            X, y, sensitive_features=features
        )
        for attributes, features in (
            (None, {"both": both}),
            (None, {"group": group, "age": age}),
            (["group"], {"group": group, "age": age}),
        )
    )
    np.testing.assert_array_equal(joint.predict_proba(X), marginals.predict_proba(X))
    assert not np.array_equal(one.predict_proba(X), marginals.predict_proba(X))


def test_reweighing_narrows_the_gap_between_groups(people: People) -> None:
    X, y, group = people(2000)
    arguments = {"n_steps": 30, "max_depth": 3, "eta": 0.3, "n_iter_no_change": None}
    plain = GBDTClassifier(**arguments).fit(X, y).predict(X)
    weighed = (
        ReweighedGBDTClassifier(**arguments).fit(X, y, sensitive_features={"g": group}).predict(X)
    )
    violet = group == "violet"
    gaps = [abs(p[violet].mean() - p[~violet].mean()) for p in (weighed, plain)]
    assert gaps[0] < gaps[1] - 0.05


@pytest.mark.parametrize(
    ("attributes", "features", "message"),
    [
        (None, None, "sensitive_features are needed"),
        (None, {}, "sensitive_features are needed"),
        (["height"], {"g": np.zeros(40)}, "'height' is not in sensitive_features"),
        ([], {"g": np.zeros(40)}, "attributes is empty"),
        (None, {"g": np.zeros(1)}, "'g' must have one value per row"),
    ],
)
def test_reweighing_errors(attributes: Any, features: Any, message: str, people: People) -> None:
    X, y, _ = people(40)
    with pytest.raises(ValueError, match=message):
        ReweighedGBDTClassifier(attributes=attributes).fit(X, y, sensitive_features=features)


# --- projecting ---


def test_projected_model_is_blind_inside_the_subspace(people: People) -> None:
    X, y, group = people(300)
    metric = SensitiveSubspace(indicators=[0], learned=[LearnedDirection("g", (0,))]).fit(
        X, sensitive_features={"g": group}
    )
    model = ProjectedGBDTClassifier(metric, n_steps=20, max_depth=3).fit(X, y)
    rng = np.random.default_rng(0)
    flipped = X.copy()
    flipped[:, 0] = 1 - flipped[:, 0]
    np.testing.assert_array_equal(model.predict_proba(flipped), model.predict_proba(X))
    moved = X + rng.normal(size=(300, 2)) @ metric.basis_.T
    # moving along a dense direction changes the float32 features in their last digit
    assert (model.predict(moved) == model.predict(X)).mean() > 0.98
    # the same move matters to a model that is not blind to it
    blunt = GBDTClassifier(n_steps=20, max_depth=3).fit(X, y)
    assert (blunt.predict(moved) == blunt.predict(X)).mean() < 0.95


def test_projecting_is_boosting_on_projected_features(people: People) -> None:
    X, y, group = people(200)
    metric = SensitiveSubspace().fit(X, sensitive_features={"g": group})
    given = ProjectedGBDTClassifier(metric, n_steps=5).fit(X, y)
    learned = ProjectedGBDTClassifier(n_steps=5).fit(X, y, sensitive_features={"g": group})
    projected = metric.project(X).astype(np.float32)
    expected = GBDTClassifier(n_steps=5).fit(projected, y).predict_proba(projected)
    np.testing.assert_array_equal(given.predict_proba(X), expected)
    np.testing.assert_array_equal(learned.predict_proba(X), expected)


def test_projecting_needs_something_to_project() -> None:
    with pytest.raises(ValueError, match="give a fair metric, or sensitive_features"):
        ProjectedGBDTClassifier().fit(np.eye(4), [0, 1, 0, 1])
    metric = SensitiveSubspace(indicators=[0]).fit(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="X has 4 features, but the metric was fitted on 3"):
        ProjectedGBDTClassifier(metric).fit(np.eye(4), [0, 1, 0, 1])


def test_a_metric_by_which_nobody_is_comparable_is_refused() -> None:
    X = np.random.default_rng(0).normal(size=(40, 2))
    with pytest.raises(ValueError, match=r"no people are comparable by SensitiveSubspace\(\)"):
        ProjectedGBDTClassifier(SensitiveSubspace()).fit(X, np.tile([0, 1], 20))


def test_projecting_fits_an_unfitted_metric(
    people: People,
) -> None:
    """It leaves the given one alone."""
    X, y, _ = people(60)
    given = SensitiveSubspace(indicators=[0])
    model = ProjectedGBDTClassifier(given, n_steps=2).fit(X, y)
    # the span of the first axis, whatever its sign
    np.testing.assert_allclose(np.abs(model.metric_.basis_), np.eye(5)[:, :1], atol=1e-12)
    assert not hasattr(given, "basis_")
    fitted = SensitiveSubspace(indicators=[0]).fit(X)
    assert ProjectedGBDTClassifier(fitted, n_steps=2).fit(X, y).metric_ is fitted


def test_the_plain_method_has_the_shared_arguments() -> None:
    model = ProjectedGBDTClassifier(n_steps=7, eta=0.2, random_state=3)
    plain = model.plain(100)
    shared = model.get_params(deep=False)
    del shared["metric"]
    del shared["strength"]
    del shared["blur"]
    assert plain.get_params() == shared
