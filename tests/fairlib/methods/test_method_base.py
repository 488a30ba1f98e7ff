from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from evenhand.fairlib.distances import SensitiveSubspace
from evenhand.fairlib.methods import METHODS, method_class
from evenhand.fairlib.methods.registry import TREE_LEARNERS, installed

People = Callable[..., tuple[NDArray[Any], NDArray[Any], NDArray[Any]]]


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


# --- common behaviour of all methods ---


def build(name: str, **arguments: Any) -> Any:
    if not installed(METHODS[name]):
        pytest.skip(f"{METHODS[name].install_command} installs what it is trained with")
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
        "sklearn:HistGradientBoostingClassifier": {"max_iter": 3},
        "sklearn:RandomForestClassifier": {"n_estimators": 3},
        "lightgbm": {"n_estimators": 3},
        "catboost": {"n_estimators": 3},
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
        each
        for each in ("n_step", "n_steps", "n_epochs", "max_iter", "n_estimators")
        if each in parameters
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
        "catboost",
        "clp",
        "dadi",
        "exponentiated-gradient",
        "faias",
        "gbdt",
        "lightgbm",
        "logistic",
        "nn",
        "project",
        "reweigh",
        "reweigh-logistic",
        "sensei",
        "sensr",
        "sklearn:HistGradientBoostingClassifier",
        "sklearn:RandomForestClassifier",
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


@pytest.mark.parametrize("name", sorted(METHODS))
def test_the_plain_method_is_one_without_mitigation(name: str) -> None:
    spec = METHODS[name]
    plain = method_class(name)().plain(100)
    learners = (*TREE_LEARNERS, "nn", "logistic")
    assert spec.plain in learners or spec.plain.startswith("sklearn:")
    assert type(plain).__name__ == METHODS[spec.plain].class_name
    assert METHODS[spec.plain].plain == spec.plain
