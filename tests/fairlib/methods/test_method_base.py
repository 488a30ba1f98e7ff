from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from evenhand.fairlib.distances import LearnedDirection, SensitiveSubspace
from evenhand.fairlib.methods import METHODS, method_class
from evenhand.fairlib.methods.gbdt import LEAVES, GBDTClassifier
from evenhand.fairlib.methods.networks import NeuralNetworkClassifier
from evenhand.fairlib.methods.networks import network_training as training_module
from evenhand.fairlib.methods.preprocessed_gbdt import (
    ProjectedGBDTClassifier,
    ReweighedGBDTClassifier,
    kamiran_calders_weights,
)

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


@pytest.mark.parametrize("patience", [None, 30])
@pytest.mark.parametrize("name", ["gbdt", "reweigh", "budro"])
def test_a_callback_ends_trees_at_its_step(name: str, patience: int | None, people: People) -> None:
    X, y, group = people(60)
    seen: list[int] = []

    def enough(step: int, *_: object) -> bool:
        seen.append(step)
        return step == 2

    given = {"sensitive_features": {"group": group}} if name == "reweigh" else {}
    options: dict[str, Any] = {
        "max_depth": 2,
        "eta": 0.3,
        "n_iter_no_change": patience,
        "random_state": 0,
    }
    model = method_class(name)(n_steps=6, **options).fit(X, y, callback=enough, **given)
    assert seen == [1, 2]
    assert model.best_step_ == 2
    short = method_class(name)(n_steps=2, **options).fit(X, y, **given)
    np.testing.assert_array_equal(model.predict_proba(X), short.predict_proba(X))
    assert (model.validation_ is None) == (patience is None)


def test_a_callback_ends_the_choice_of_trees(people: People) -> None:
    X, y, _ = people(60)
    # three steps of the first growth, and none of the second, which would have the better
    # validation
    stopped = GBDTClassifier(n_steps=6).fit(X, y, callback=lambda step, *_: step == 3)
    trees = stopped.booster_.get_dump()
    assert len(trees) == stopped.best_step_ <= 3
    assert max(tree.count("leaf=") for tree in trees) <= min(LEAVES)


# --- common behaviour of all methods ---


def build(name: str, **arguments: Any) -> Any:
    if METHODS[name].needs_metric:
        metric = SensitiveSubspace(indicators=[0]).fit(np.zeros((2, 5)))
        arguments = {"metric": metric} | arguments
    return method_class(name)(**small_parameters(name) | arguments)


def small_parameters(name: str) -> dict[str, Any]:
    """Parameters that make a method's training short."""
    own: dict[str, dict[str, Any]] = {
        "dadi": {
            "hidden": (8, 8),
            "memory_size": 4,
            "agents": 8,
            "n_iterations": 3,
            "pretrain_iterations": 3,
        },
        "faias": {"hidden": (8, 8), "n_epochs": 3, "batch_size": 32},
        "adversarial-debiasing": {"hidden": (8,), "n_epochs": 3},
        "exponentiated-gradient": {"max_iter": 3},
    }
    return own.get(name, {"n_steps": 3} if "n_steps" in method_class(name)().get_params() else {})


def fit(model: Any, X: NDArray[Any], y: NDArray[Any], group: NDArray[Any]) -> Any:
    """Fit with everything that any method may ask for."""
    extra: dict[str, Any] = {}
    if "counterfactuals" in inspect.signature(model.fit).parameters:
        copy = X.copy()
        copy[:, 0] = 1 - copy[:, 0]
        extra["counterfactuals"] = [copy]
    if "feature_groups" in inspect.signature(model.fit).parameters and not hasattr(
        model, "acquire"
    ):
        # these want to know which column states the group; the one that asks would never ask for it
        extra["feature_groups"] = {"group": [0], **{f"x{j}": [j] for j in range(1, X.shape[1])}}
    return model.fit(X, y, sensitive_features={"group": group}, **extra)


@pytest.mark.parametrize("name", sorted(METHODS))
def test_every_method_refuses_one_label_and_no_steps(name: str, people: People) -> None:
    X, y, group = people(40)
    with pytest.raises(ValueError, match="one class only"):
        fit(build(name), X, np.zeros(40), group)
    parameters = build(name).get_params(deep=False)
    steps = next(
        each for each in ("n_step", "n_steps", "n_epochs", "max_iter") if each in parameters
    )
    with pytest.raises(ValueError, match=f"{steps} .*at least 1"):
        fit(build(name).set_params(**{steps: 0}), X, y, group)


@pytest.mark.parametrize("name", sorted(METHODS))
def test_three_labels_are_taken_or_refused_as_the_registry_says(name: str, people: People) -> None:
    X, _, group = people(60)
    labels = np.array(["low", "middle", "high"])[np.arange(60) % 3]
    model = build(name)
    if "multiclass" not in METHODS[name].tasks:
        with pytest.raises(ValueError, match="3 classes"):
            fit(model, X, labels, group)
        return
    fit(model, X, labels, group)
    assert list(model.classes_) == ["high", "low", "middle"]
    found = model.predict_proba(X)
    assert found.shape == (60, 3)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, atol=1e-6)
    assert set(model.predict(X)) <= set(labels)


def test_a_tie_goes_to_the_first_class(monkeypatch: pytest.MonkeyPatch) -> None:
    model = GBDTClassifier(n_steps=1).fit([[0.0], [1.0], [2.0], [3.0]], ["no", "no", "yes", "yes"])
    positive = np.array([0.499, 0.5, 0.501])
    monkeypatch.setattr(
        model, "_probabilities", lambda _: np.stack([1 - positive, positive], axis=1)
    )
    assert list(model.predict(np.zeros((3, 1)))) == ["no", "no", "yes"]
    np.testing.assert_allclose(model.predict_proba(np.zeros((3, 1)))[:, 0], [0.501, 0.5, 0.499])


@pytest.mark.parametrize("name", sorted(METHODS))
def test_every_method_takes_rows_that_cannot_be_written_to(name: str, people: People) -> None:
    X, y, group = people(40)
    X.setflags(write=False)
    model = fit(build(name), X, y, group)
    before = X.copy()
    assert model.predict(X).shape == (40,)
    np.testing.assert_array_equal(X, before)


@pytest.mark.parametrize("name", sorted(METHODS))
def test_same_seed_same_model(name: str, people: People) -> None:
    X, y, group = people(80)
    first, again = (
        fit(build(name, random_state=3), X, y, group).predict_proba(X) for _ in range(2)
    )
    np.testing.assert_array_equal(first, again)


def test_registry_names_real_classes() -> None:
    assert sorted(METHODS) == [
        "adversarial-debiasing",
        "budro",
        "clp",
        "dadi",
        "exponentiated-gradient",
        "faias",
        "gbdt",
        "logistic",
        "nn",
        "project",
        "reweigh",
        "reweigh-logistic",
        "sensei",
        "sensr",
    ]
    for name, spec in METHODS.items():
        assert method_class(name).__name__ == spec.class_name


@pytest.mark.parametrize("name", sorted(METHODS))
def test_the_registry_says_what_the_classes_take(name: str) -> None:
    spec, cls = METHODS[name], method_class(name)
    constructed, fitted = cls().get_params(deep=False), inspect.signature(cls.fit).parameters
    assert ("metric" in constructed) == spec.needs_metric
    assert ("network" in constructed) == spec.differentiable
    # networks have one fit, whose counterfactuals those that pair use
    pairs = spec.needs_counterfactuals or spec.pairs_by is not None or spec.differentiable
    assert ("counterfactuals" in fitted) == pairs
    assert ("feature_groups" in fitted) == spec.needs_feature_groups
    assert ("checkpoint" in fitted) == spec.resumable
    assert hasattr(cls, "acquire") == spec.asks
    assert hasattr(cls, "selection_probabilities") == spec.selects
    assert (spec.extra is None) == (not spec.requires)
    assert ("multiclass" in spec.tasks) == cls.multiclass


# --- reweighing ---


def test_kamiran_calders_by_hand() -> None:
    # P(a) = P(b) = 1/2, P(1) = 3/8; cells a0 3, a1 1, b0 2, b1 2 of 8
    groups = np.repeat(["a", "a", "b", "b"], [3, 1, 2, 2])
    labels = np.repeat([0, 1, 0, 1], [3, 1, 2, 2])
    expected = np.repeat([2.5 / 3, 1.5 / 1, 2.5 / 2, 1.5 / 2], [3, 1, 2, 2])
    np.testing.assert_allclose(kamiran_calders_weights(groups, labels), expected, rtol=1e-15)


def test_kamiran_calders_makes_labels_equally_frequent_in_all_groups() -> None:
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


def test_projecting_fits_a_metric_that_is_not_fitted_and_leaves_the_given_one_alone(
    people: People,
) -> None:
    X, y, _ = people(60)
    given = SensitiveSubspace(indicators=[0])
    model = ProjectedGBDTClassifier(given, n_steps=2).fit(X, y)
    # the span of the first axis, whatever its sign
    np.testing.assert_allclose(np.abs(model.metric_.basis_), np.eye(5)[:, :1], atol=1e-12)
    assert not hasattr(given, "basis_")
    fitted = SensitiveSubspace(indicators=[0]).fit(X)
    assert ProjectedGBDTClassifier(fitted, n_steps=2).fit(X, y).metric_ is fitted


# --- neural network ---


def test_mini_batches_carry_both_labels_equally(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    y = (rng.random(300) < 0.05).astype(int)
    X = np.column_stack([y, rng.normal(size=300)])
    batches: list[torch.Tensor] = []

    class Recorder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(2, 2)

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            batches.append(rows[:, 0].clone())
            return self.layer(rows)

    monkeypatch.setattr(training_module, "build_network", lambda *_: Recorder())
    NeuralNetworkClassifier(
        n_steps=20, batch_size=16, class_balance=1.0, n_iter_no_change=None
    ).fit(X, y)
    assert len(batches) == 20
    for batch in batches:
        assert (len(batch), float(batch.sum())) == (16, 8.0)


def test_network_learns_what_no_line_can_tell(people: People) -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (600, 2))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    model = NeuralNetworkClassifier(n_steps=800, learning_rate=0.01, random_state=0).fit(X, y)
    assert (model.predict(X) == y).mean() > 0.95


def test_network_follows_its_seed_and_not_the_global_one(people: People) -> None:
    X, y, _ = people(60)
    state = torch.get_rng_state()
    first = NeuralNetworkClassifier(n_steps=20, random_state=1).fit(X, y).predict_proba(X)
    assert torch.equal(torch.get_rng_state(), state)
    torch.rand(3)
    again = NeuralNetworkClassifier(n_steps=20, random_state=1).fit(X, y).predict_proba(X)
    other = NeuralNetworkClassifier(n_steps=20, random_state=2).fit(X, y).predict_proba(X)
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_network_trains_on_one_thread_and_gives_the_others_back(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    monkeypatch.setattr(torch, "get_num_threads", lambda: 5)
    monkeypatch.setattr(torch, "set_num_threads", calls.append)
    X, y, _ = people(60)
    NeuralNetworkClassifier(n_steps=2).fit(X, y)
    with pytest.raises(FloatingPointError):
        NeuralNetworkClassifier(n_steps=50, learning_rate=1e30, random_state=0).fit(X, y)
    assert calls == [1, 5, 1, 5]


def test_network_reports_the_mean_loss_of_the_last_steps(people: People) -> None:
    X, y, _ = people(60)
    seen: list[tuple[int, int, float]] = []
    NeuralNetworkClassifier(n_steps=120, random_state=0).fit(
        X, y, callback=lambda step, steps, progress: seen.append((step, steps, progress["loss"]))
    )
    assert [entry[:2] for entry in seen] == [(50, 120), (100, 120), (120, 120)]
    assert seen[2][2] < seen[0][2] < 1.0
    # without learning, the mean is the same over 50 steps and over the last 20
    frozen: list[float] = []
    NeuralNetworkClassifier(n_steps=120, learning_rate=1e-12, random_state=0).fit(
        X, y, callback=lambda step, steps, progress: frozen.append(progress["loss"])
    )
    np.testing.assert_allclose(frozen, frozen[0], rtol=0.1)
    model = NeuralNetworkClassifier(n_steps=1, learning_rate=1e-12, random_state=0).fit(X, y)
    positive = model.predict_proba(X)[:, 1]
    balanced = -(np.log(positive[y == 1]).mean() + np.log1p(-positive[y == 0]).mean()) / 2
    assert frozen[0] == pytest.approx(balanced, rel=0.1)


def test_network_stops_at_a_loss_that_is_not_finite(people: People) -> None:
    X, y, _ = people(60)
    with pytest.raises(FloatingPointError, match=r"step 50: lower learning_rate \(now 1e\+30\)"):
        NeuralNetworkClassifier(n_steps=200, learning_rate=1e30, random_state=0).fit(X, y)


def test_network_probabilities_survive_extreme_logits(people: People) -> None:
    X, y, _ = people(60)
    model = NeuralNetworkClassifier(n_steps=50, random_state=0).fit(X, y)
    got = model.predict_proba(np.vstack([X * 1e6, -X * 1e6]))
    assert np.isfinite(got).all()
    np.testing.assert_allclose(got.sum(axis=1), 1.0, rtol=1e-12)


def test_network_refuses_a_batch_of_one(people: People) -> None:
    X, y, _ = people(60)
    with pytest.raises(ValueError, match=r"at least the number of classes \(2\), got 1"):
        NeuralNetworkClassifier(batch_size=1).fit(X, y)


@pytest.mark.parametrize("name", sorted(METHODS))
def test_the_plain_method_is_one_without_mitigation(name: str) -> None:
    spec = METHODS[name]
    plain = method_class(name)().plain(100)
    assert spec.plain in ("gbdt", "nn", "logistic")
    assert type(plain).__name__ == METHODS[spec.plain].class_name
    assert METHODS[spec.plain].plain == spec.plain


def test_the_plain_method_has_the_shared_arguments() -> None:
    model = ProjectedGBDTClassifier(n_steps=7, eta=0.2, random_state=3)
    plain = model.plain(100)
    shared = {
        name: value for name, value in model.get_params(deep=False).items() if name != "metric"
    }
    assert plain.get_params() == shared
