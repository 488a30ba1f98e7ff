"""FAIASClassifier as an estimator: what it finds, what it refuses, and what of it is saved."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import train_test_split
from torch import nn

from evenhand.fairlib.execution import derive_seed, one_thread
from evenhand.fairlib.methods.checkpoint import FILE, Checkpoint
from evenhand.fairlib.methods.faias import players as players_module
from evenhand.fairlib.methods.faias import trainer as trainer_module
from evenhand.fairlib.methods.faias.faias_classifier import FAIASClassifier
from evenhand.fairlib.methods.faias.trainer import class_weights
from evenhand.fairlib.methods.networks.network_training import build_network

TINY: dict[str, Any] = {
    "hidden": (16, 16),
    "selector_hidden": (8,),
    "n_epochs": 5,
    "batch_size": 32,
    "learning_rate": 5e-3,
    "initial_probability": 0.7,
    "averaging": 0.9,
    "random_state": 3,
}
# the order of the columns in a group is not that of the matrix
GROUPS = {"merit": [0], "kind": [4, 2, 3], "noise": [1], "fixed": [5], "sex": [6], "age": [7, 8]}
SENSITIVE = ["sex", "age"]
HIDDEN = [6, 7, 8]
NETWORK = "network.safetensors"


def _people(n: int = 200, seed: int = 0, classes: int = 2) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 9))
    X[:, 2:5] = np.eye(3)[rng.integers(0, 3, n)]
    X[:, 5] = 7.0
    X[:, 6] = rng.integers(0, 2, n)
    X[:, 7:9] = np.eye(2)[rng.integers(0, 2, n)]
    score = X[:, 0] + X[:, 2] + X[:, 6] + 0.5 * rng.normal(size=n)
    y = np.searchsorted(np.quantile(score, np.arange(1, classes) / classes), score)
    return X.astype(np.float32), y


def _fit(
    n: int = 200,
    *,
    classes: int = 2,
    features: Any = SENSITIVE,
    groups: Any = GROUPS,
    data: Any = None,
    given: dict[str, Any] | None = None,
    **options: Any,
) -> FAIASClassifier:
    X, y = _people(n, classes=classes) if data is None else data
    features = (
        {name: np.zeros(len(X)) for name in features} if isinstance(features, list) else features
    )
    model = FAIASClassifier(**TINY | options)
    return model.fit(X, y, sensitive_features=features, feature_groups=groups, **given or {})


def _parameters(model: FAIASClassifier) -> list[np.ndarray]:
    players = (*model.predictor_.parameters(), *model.selector_.parameters())
    return [value.detach().numpy() for value in players]


def _same(model: FAIASClassifier, other: FAIASClassifier) -> None:
    for mine, theirs in zip(_parameters(model), _parameters(other), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert (model.best_epoch_, model.history_) == (other.best_epoch_, other.history_)
    X = _people(seed=1)[0]
    np.testing.assert_array_equal(model.predict_proba(X), other.predict_proba(X))


@pytest.fixture(scope="module", params=[False, True], ids=["for all", "for each"])
def model(request: pytest.FixtureRequest) -> FAIASClassifier:
    return _fit(data_dependent=request.param)


# --- what it finds
# -------------------------------------------------------------------------------------


def _planted(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Column 0 is sensitive, 1 and 2 are copies of it with a tenth flipped, 3 to 5 are
    independent.
    """
    rng = np.random.default_rng(seed)
    s, X = rng.integers(0, 2, 2000), rng.random((2000, 6))
    X[:, 0] = s
    for j in (1, 2):
        X[:, j] = np.where(rng.random(2000) < 0.1, 1 - s, s)
    y = 1.5 * s + X[:, 3:].sum(axis=1) + rng.normal(0, 0.5, 2000) > 2.25
    return X.astype(np.float32), y.astype(int)


PLANTED = [
    (False, 0),
    (True, 2),
    *(pytest.param(False, seed, marks=pytest.mark.long) for seed in range(1, 10)),
    *(pytest.param(True, seed, marks=pytest.mark.long) for seed in (0, 1)),
]


@pytest.mark.parametrize(("dependent", "seed"), PLANTED)
def test_copies_of_the_sensitive_feature_are_selected_least(dependent: bool, seed: int) -> None:
    X, y = _planted(seed)
    model = FAIASClassifier(
        hidden=(64, 64),
        n_epochs=10,
        batch_size=64,
        learning_rate=2e-3,
        initial_probability=0.5,
        validation_share=0.0,
        data_dependent=dependent,
        random_state=seed,
    ).fit(X, y, sensitive_features={"x0": X[:, 0]})
    p = model.selection_probabilities(X).mean(axis=0)
    assert p[1:3].max() < p[3:].min()
    assert p[0] == 0.0
    assert (model.predict(X) == y).mean() > 0.6


def test_all_selected_is_plain_training_and_the_sensitivity_term() -> None:
    X, y = _people()
    model = _fit(
        initial_probability=1.0, averaging=0.0, validation_share=0.0, sensitivity_weight=0.7
    )
    assert (model.selection_probabilities(X)[:, :4] == 1.0).all()
    network = nn.Sequential(
        nn.Linear(9, 16), nn.SELU(), nn.Linear(16, 16), nn.SELU(), nn.Linear(16, 2)
    )
    seeds = torch.Generator().manual_seed(derive_seed(3, "network"))
    start = build_network(9, (16, 16), 2, seeds, nn.SELU)
    network.load_state_dict(start.state_dict())
    optimiser = torch.optim.Adam(network.parameters(), 5e-3, foreach=False)
    seeds = torch.Generator().manual_seed(derive_seed(3, "batches"))
    x, labels = torch.from_numpy(X), torch.from_numpy(y)
    with one_thread():
        for _ in range(5):
            for rows in torch.randperm(200, generator=seeds).split(32):
                torch.rand(len(rows), 6, generator=seeds)  # the selections, all certain
                shown = x[rows].clone()
                shown[:, HIDDEN] = 0.0
                logits = network(shown)
                change = torch.zeros(len(rows))
                for columns in ([6], [7, 8]):
                    added = shown.clone()
                    added[:, columns] = x[rows][:, columns]
                    change = change + (network(added).softmax(1) - logits.softmax(1)).norm(dim=1)
                loss = nn.functional.cross_entropy(logits, labels[rows]) + 0.7 * change.mean()
                optimiser.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimiser.step()
    with torch.no_grad():
        network[0].weight[:, HIDDEN] = 0.0
    for mine, theirs in zip(model.predictor_.parameters(), network.parameters(), strict=True):
        np.testing.assert_allclose(mine.detach(), theirs.detach(), atol=1e-6)
    shown = x.clone()
    shown[:, HIDDEN] = 0.0
    expected = network(shown).softmax(1).detach()
    np.testing.assert_allclose(model.predict_proba(X), expected, atol=1e-5)


def test_a_larger_weight_leaves_less_to_the_sensitive_feature() -> None:
    losses = [
        _fit(400, sensitivity_weight=weight, n_epochs=20, validation_share=0.0).history_[
            "sensitivity_loss"
        ][-1]
        for weight in (0.0, 1.0, 10.0)
    ]
    assert losses[0] > 1.5 * losses[1] > 1.5 * 1.5 * losses[2]


# --- predictions
# ---------------------------------------------------------------------------------------


def test_sensitive_columns_have_no_influence(model: FAIASClassifier) -> None:
    X, _ = _people(seed=1)
    other, moved = X.copy(), X.copy()
    other[:, HIDDEN] = np.random.default_rng(0).normal(scale=1e30, size=(200, 3))
    moved[:, 0] += 1
    np.testing.assert_array_equal(model.predict_proba(other), model.predict_proba(X))
    np.testing.assert_array_equal(
        model.selection_probabilities(other), model.selection_probabilities(X)
    )
    assert (model.predict_proba(moved) != model.predict_proba(X)).any(axis=1).all()


def test_predictions_do_not_depend_on_the_batch(
    model: FAIASClassifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, _ = _people(20, seed=1)
    together = model.predict_proba(X)
    np.testing.assert_array_equal(model.predict_proba(X), together)
    np.testing.assert_allclose(together.sum(axis=1), 1.0, atol=1e-12)
    alone = np.vstack([model.predict_proba(row[None]) for row in X])
    np.testing.assert_allclose(alone, together, atol=1e-6)
    order = np.random.default_rng(0).permutation(20)
    np.testing.assert_allclose(model.predict_proba(X[order]), together[order], atol=1e-6)
    monkeypatch.setattr("evenhand.fairlib.methods.faias.players.CHUNK_ROWS", 7)
    np.testing.assert_allclose(model.predict_proba(X), together, atol=1e-6)


def test_more_masks_come_nearer_the_expectation() -> None:
    X, _ = _people(40, seed=1)
    x = torch.from_numpy(X)
    errors = []
    for n_masks in (4, 500):
        model = _fit(n_masks=n_masks)
        p, exact = model.selection_probabilities(X)[0, :4], np.zeros((40, 2))
        assert ((p > 0.05) & (p < 0.95)).any()
        for s in itertools.product((0, 1), repeat=4):
            shown = model._players.features.masked(
                x, torch.tensor([[*s, 0, 0]], dtype=torch.float32)
            )
            chance = np.prod(np.where(s, p, 1 - p))
            exact += chance * model.predictor_(shown).detach().double().softmax(1).numpy()
        errors.append(np.abs(model.predict_proba(X) - exact).max())
    assert errors[1] < 0.01
    assert errors[1] < errors[0] / 4


def test_selection_probabilities_of_rows(model: FAIASClassifier) -> None:
    X, _ = _people(30, seed=1)
    X.setflags(write=False)
    found = model.selection_probabilities(X)
    assert found.shape == (30, 6)
    assert found.dtype == np.float64
    assert (found[:, 4:] == 0).all()
    assert ((found[:, :4] > 0) & (found[:, :4] < 1)).all()
    assert (np.ptp(found[:, :4], axis=0) > 0).all() == model.data_dependent
    found[:] = 0  # a copy, which may be written to
    with pytest.raises(ValueError, match="8 features"):
        model.selection_probabilities(X[:, :8])


def test_groups_are_shown_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every input of the predictor has the columns of a group all as in X, or all zero."""
    X, y = _people()
    X += np.float32(0.01)  # so that no value of a person is zero
    known = {tuple(row) for row in X[:, GROUPS["kind"]]}
    seen: list[np.ndarray] = []

    def spied(n_inputs: int, *given: Any) -> nn.Sequential:
        network = build_network(n_inputs, *given)
        network.register_forward_pre_hook(
            lambda _, given: seen.append(given[0].detach().numpy().copy())
        )
        return network

    monkeypatch.setattr(players_module, "build_network", spied)
    model = _fit(data=(X, y), n_epochs=2)
    training, sensitive_alone = np.concatenate(seen), set()
    for columns in GROUPS.values():
        shown = (training[:, columns] != 0).mean(axis=1)
        assert set(shown) == {0.0, 1.0}
    for row in training[(training[:, 2:5] != 0).all(axis=1)]:
        assert tuple(row[GROUPS["kind"]]) in known
    for row in training:
        sensitive_alone.add((bool(row[6]), bool(row[7])))
    assert sensitive_alone == {(False, False), (True, False), (False, True)}
    seen.clear()
    model.predict_proba(X)
    for rows in seen:
        assert (rows[:, HIDDEN] == 0).all()
        for columns in GROUPS.values():
            shown = (rows[:, columns] != 0).mean()
            assert shown in (0.0, 1.0)
            if shown:
                np.testing.assert_array_equal(rows[:, columns], X[:, columns])


# --- what is refused
# -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_epochs": 0}, "n_epochs must be a whole number, at least 1, got 0"),
        ({"n_epochs": 1.5}, "n_epochs must be a whole number, at least 1"),
        ({"batch_size": 0}, "batch_size must be a whole number, at least 1"),
        ({"n_masks": 0}, "n_masks must be a whole number, at least 1"),
        ({"patience": 0}, "patience must be a whole number, at least 1 or None, got 0"),
        ({"patience": 1.5}, "patience must be a whole number, at least 1 or None, got 1.5"),
        ({"learning_rate": 0.0}, "^learning_rate must be positive"),
        ({"learning_rate": float("nan")}, "^learning_rate must be positive"),
        ({"selector_learning_rate": float("inf")}, "selector_learning_rate must be positive"),
        ({"selector_learning_rate": -1.0}, "selector_learning_rate must be positive"),
        ({"sensitivity_weight": -0.1}, "sensitivity_weight must be finite and not negative"),
        ({"sensitivity_weight": float("nan")}, "sensitivity_weight must be finite"),
        ({"weight_decay": float("inf")}, "weight_decay must be finite"),
        ({"hidden": (8, 0)}, "hidden must list whole numbers"),
        ({"hidden": (8.5,)}, "hidden must list whole numbers"),
        ({"selector_hidden": (0,)}, "selector_hidden must list whole numbers"),
        ({"initial_probability": 0.0}, r"initial_probability must be in \(0, 1\], got 0.0"),
        ({"initial_probability": 1.1}, r"initial_probability must be in \(0, 1\]"),
        ({"initial_probability": float("nan")}, r"initial_probability must be in \(0, 1\]"),
        ({"class_balance": 1.1}, r"class_balance must be in \[0, 1\], got 1.1"),
        ({"class_balance": -0.1}, r"class_balance must be in \[0, 1\]"),
        ({"averaging": 1.0}, r"averaging must be in \[0, 1\), got 1.0"),
        ({"averaging": -0.1}, r"averaging must be in \[0, 1\)"),
        ({"validation_share": 1.0}, r"validation_share must be in \[0, 1\), got 1.0"),
        ({"validation_share": -0.1}, r"validation_share must be in \[0, 1\)"),
        (
            {"attributes": ["height"]},
            "attributes names 'height', and sensitive_features has sex, age",
        ),
        ({"attributes": []}, "attributes is empty"),
    ],
)
def test_a_parameter_out_of_its_range_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        _fit(**options)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ({"sex": [6], "a": [0, 1, 2, 3, 4, 5, 7]}, "feature_groups misses column 8"),
        ({"sex": [6], "a": [0, 1, 2, 3, 4, 5, 6, 7, 8]}, "feature_groups has column 6 twice"),
        (
            {"sex": [6], "a": [0, 1, 2, 3, 4, 5, 7, 8, 9]},
            "names column 9, and X has the columns 0 to 8",
        ),
        ({"sex": [6], "a": [-1, 0, 1, 2, 3, 4, 5, 7]}, "names column -1"),
        ({"sex": [6], "a": [0, 1, 2, 3, 4, 5, 7, 8], "b": []}, "the group 'b' has no column"),
        (
            {"gender": [6], "a": [0, 1, 2, 3, 4, 5, 7, 8]},
            "the sensitive feature 'sex' is no column of X",
        ),
        ({"sex": [5], "a": [0, 1, 2, 3, 4, 6, 7, 8]}, "the sensitive feature 'sex' is constant"),
        ({"sex": [6, 0, 1, 2, 3, 4, 7, 8], "a": [5]}, "no features are left to select"),
        ({"sex": [6, 0, 1, 2, 3, 4, 5, 7, 8]}, "no features are left to select"),
    ],
)
def test_groups_that_leave_nothing_to_train_are_refused(
    groups: dict[str, list[int]], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        _fit(groups=groups, features=["sex"])


def test_all_but_constants_sensitive_is_refused() -> None:
    with pytest.raises(ValueError, match="no features are left to select"):
        _fit(features=["merit", "kind", "noise", "sex", "age"])


@pytest.mark.parametrize("features", [None, {}, []])
def test_nothing_sensitive_is_refused(features: Any) -> None:
    with pytest.raises(ValueError, match="sensitive_features is missing"):
        _fit(features=features)


def test_labels_that_cannot_be_learned_or_validated_are_refused() -> None:
    X, y = _people()
    with pytest.raises(ValueError, match="one class only"):
        _fit(data=(X, np.zeros(200)))
    rare = np.where(np.arange(200) == 17, 1, 0)
    with pytest.raises(ValueError, match="of 200 rows too few are of one label"):
        _fit(data=(X, rare))
    few = np.where(np.arange(200) < 2, 1, 0)  # one to train on would leave none to judge
    with pytest.raises(ValueError, match="of 200 rows too few are of one label"):
        _fit(data=(X, few), validation_share=0.05)
    assert _fit(data=(X, rare), validation_share=0.0).classes_.tolist() == [0, 1]


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_values_that_are_no_numbers_are_refused(wrong: float, model: FAIASClassifier) -> None:
    X, y = _people()
    X[3, 1] = wrong
    with pytest.raises(ValueError, match="NaN|infinity"):
        _fit(data=(X, y))
    with pytest.raises(ValueError, match="NaN|infinity"):
        model.predict_proba(X)


def test_nothing_is_predicted_before_fit() -> None:
    X, _ = _people()
    with pytest.raises(NotFittedError):
        FAIASClassifier().predict(X)
    with pytest.raises(NotFittedError):
        FAIASClassifier().selection_probabilities(X)


@pytest.mark.parametrize("share", [0.0, 0.25])
def test_a_broken_training_names_the_epoch(share: float, tmp_path: Path) -> None:
    """It leaves no fitted model."""
    X, y = _people()
    model = _fit(validation_share=share)
    model.set_params(learning_rate=1e30)
    given: dict[str, Any] = {"sensitive_features": SENSITIVE, "feature_groups": GROUPS}
    with pytest.raises(
        FloatingPointError, match=r"no longer finite at epoch 1: lower learning_rate \(now 1e\+30\)"
    ):
        model.fit(X, y, **given)
    with pytest.raises(NotFittedError):
        model.predict(X)
    with pytest.raises(NotFittedError):
        model.save(tmp_path)


def test_a_break_in_the_last_step_is_noticed() -> None:
    with pytest.raises(
        FloatingPointError, match=r"epoch 1: .*selector_learning_rate \(now 1e\+39\)"
    ):
        _fit(selector_learning_rate=1e39, batch_size=200, n_epochs=1)


# --- training
# ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dependent", [False, True])
def test_three_classes_and_labels_of_any_kind(dependent: bool) -> None:
    X, y = _people(300, classes=3)
    options = {"n_epochs": 8, "data_dependent": dependent}
    words = np.array(["low", "middle", "top"])[y]
    model = _fit(data=(X.astype(np.float64), words), **options)
    assert model.classes_.tolist() == ["low", "middle", "top"]
    assert model.predict_proba(X).shape == (300, 3)
    assert (model.predict(X) == words).mean() > 0.5
    _same(model, _fit(data=(X, y), **options))


def test_several_attributes_count_unless_one_is_named() -> None:
    both = _fit(sensitivity_weight=0.0, initial_probability=1.0)
    assert both.attributes_ == ["sex", "age"]
    named = _fit(attributes=["age"])
    assert named.attributes_ == ["age"]
    _same(named, _fit(features=["age"], attributes=["age"]))
    _same(named, _fit(attributes=["age", "age"]))
    X, _ = _people(seed=1)
    other = X.copy()
    other[:, 6] = 1 - other[:, 6]
    assert (named.predict_proba(other) != named.predict_proba(X)).any()
    other[:, :6] = X[:, :6]
    np.testing.assert_array_equal(both.predict_proba(other), both.predict_proba(X))


def test_columns_without_groups_are_groups_of_their_own() -> None:
    model = _fit(groups=None, features=["x6"])
    assert model.groups_ == {f"x{j}": [j] for j in range(9)}
    found = model.selection_probabilities(_people()[0])[0]
    assert np.flatnonzero(found == 0).tolist() == [6]


def test_classes_are_weighed() -> None:
    X, y = _people(600)
    rare = np.where((y == 1) & (np.arange(600) % 5 == 0), 1, 0)
    options: dict[str, Any] = {"data": (X, rare), "validation_share": 0.0, "n_epochs": 10}
    shares = [
        _fit(class_balance=balance, **options).predict(X).mean() for balance in (0.0, 0.5, 1.0)
    ]
    assert shares[0] < shares[1] < shares[2]
    assert shares[2] > 0.3 > 0.15 > shares[0]


def test_the_weights_are_those_of_the_rows_trained_on(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[list[int], float]] = []

    def spied(counts: list[int], balance: float) -> torch.Tensor:
        seen.append((counts, balance))
        return class_weights(counts, balance)

    monkeypatch.setattr(trainer_module, "class_weights", spied)
    rare = np.repeat([0, 1], [160, 40])
    _fit(data=(_people()[0], rare), class_balance=0.5, validation_share=0.25)
    assert seen == [([120, 30], 0.5)]


def test_the_best_epoch_is_chosen_on_rows_not_trained_on() -> None:
    X, y = _people(400)
    rng = np.random.default_rng(0)
    y = np.where(rng.random(400) < 0.3, 1 - y, y)
    options: dict[str, Any] = {
        "data": (X, y),
        "learning_rate": 0.02,
        "averaging": 0.0,
        "sensitivity_weight": 0.1,
        "validation_criterion": "balanced_accuracy",
        "patience": None,
    }
    model = _fit(**options, n_epochs=25)
    scores = model.history_["validation_balanced_accuracy"]
    assert model.history_["epoch"] == [float(epoch) for epoch in range(1, 26)]
    assert {len(values) for values in model.history_.values()} == {25}
    assert model.best_epoch_ < 25
    assert scores[model.best_epoch_ - 1] == max(scores)
    train, held = train_test_split(
        np.arange(400), test_size=0.25, stratify=y, random_state=derive_seed(3, "validation")
    )
    found = balanced_accuracy_score(y[held], model.predict(X[held]))
    assert found == pytest.approx(scores[model.best_epoch_ - 1], abs=1e-12)
    # the same training, ended there, keeps the same
    shorter = _fit(**options, n_epochs=model.best_epoch_)
    assert shorter.best_epoch_ == model.best_epoch_
    np.testing.assert_array_equal(shorter.predict_proba(X), model.predict_proba(X))
    # without such rows it is the last, of a training on all
    last = _fit(**options, n_epochs=3, validation_share=0.0)
    assert last.best_epoch_ == 3
    assert set(last.history_) == {"epoch", "prediction_loss", "sensitivity_loss"}
    # what was held back has no part in the weights
    other = X.copy()
    other[held, 0] = 100.0
    with_other = _fit(**options | {"data": (other, y)}, n_epochs=2)
    without = _fit(**options, n_epochs=2)
    for name in ("prediction_loss", "sensitivity_loss"):
        assert with_other.history_[name] == without.history_[name]
    assert with_other.history_ != without.history_
    assert len(train) == 300


def test_patience_ends_the_training_early() -> None:
    X, y = _people()
    noise = np.random.default_rng(0).integers(0, 2, 200)
    for criterion, sign in (("balanced_accuracy", 1), ("log_loss", -1)):
        model = _fit(data=(X, noise), patience=2, n_epochs=60, validation_criterion=criterion)
        epochs = len(model.history_["epoch"])
        assert epochs == model.best_epoch_ + 2 < 60
        scores = sign * np.array(model.history_[f"validation_{criterion}"])
        assert max(scores[model.best_epoch_ :]) <= scores[model.best_epoch_ - 1]
    # without rows to judge by, every epoch is the best
    assert len(_fit(patience=1, validation_share=0.0).history_["epoch"]) == 5


def test_averages_are_what_is_kept() -> None:
    last, average = (_fit(averaging=averaging, validation_share=0.0) for averaging in (0.0, 0.999))
    assert last.history_ == average.history_
    assert any((a != b).any() for a, b in zip(_parameters(last), _parameters(average), strict=True))


def test_every_epoch_is_reported() -> None:
    seen: list[tuple[int, int, dict[str, float]]] = []
    model = _fit(given={"callback": lambda *given: seen.append((*given[:2], dict(given[2])))})
    assert [entry[:2] for entry in seen] == [(epoch, 5) for epoch in range(1, 6)]
    for name in ("prediction_loss", "sensitivity_loss", "validation_log_loss"):
        assert model.history_[name] == [entry[2][name] for entry in seen]


@pytest.mark.parametrize("options", [{}, {"validation_share": 0.0}])
def test_a_callback_ends_the_training(options: dict[str, Any]) -> None:
    # in the warm-up, of which no epoch is kept but the last one
    model = _fit(given={"callback": lambda epoch, *_: epoch == 2}, **options)
    assert model.best_epoch_ == 2
    _same(model, _fit(n_epochs=2, **options))


@pytest.mark.parametrize("dependent", [False, True])
def test_the_same_seed_gives_the_same_model(dependent: bool) -> None:
    state = torch.get_rng_state()
    model = _fit(data_dependent=dependent)
    assert torch.equal(torch.get_rng_state(), state)
    torch.rand(3)
    first = _fit(data_dependent=dependent)
    _same(first, model)
    other = _fit(data_dependent=dependent, random_state=4)
    X, _ = _people(seed=1)
    assert (other.predict_proba(X) != model.predict_proba(X)).any()


def test_a_model_may_be_trained_again_and_cloned(model: FAIASClassifier) -> None:
    again = clone(model)
    assert again.get_params() == model.get_params()
    with pytest.raises(NotFittedError):
        again.predict(_people()[0])
    X, y = _people(150, seed=5, classes=3)
    again.fit(X[:, :7], y, sensitive_features=["x6"])
    assert again.predict_proba(X[:, :7]).shape == (150, 3)
    X, y = _people()
    again.fit(X, y, sensitive_features=SENSITIVE, feature_groups=GROUPS)
    _same(again, model)


def test_training_reads_only_the_names_of_sensitive_features() -> None:
    X, y = _people()
    _same(_fit(features={"sex": X[:, 6], "age": np.where(X[:, 7], "old", "young")}), _fit())


# --- interrupted
# ---------------------------------------------------------------------------------------


class Interrupted(Exception):  # noqa: N818
    """As a kill would come."""


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpoints are written with every epoch."""
    monkeypatch.setattr(
        "evenhand.fairlib.methods.method_base.Checkpoint", partial(Checkpoint, every_s=0.0)
    )


def _stop_at(epoch: int, seen: list[int] | None = None) -> Callable[..., None]:
    def callback(now: int, epochs: int, progress: Any) -> None:
        if seen is not None:
            seen.append(now)
        if now == epoch:
            raise Interrupted

    return callback


def _kept(folder: Path, callback: Callable[..., None], **options: Any) -> FAIASClassifier:
    return _fit(given={"checkpoint": folder, "callback": callback}, **options)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize(
    ("stops", "options"),
    [
        ((1,), {}),
        ((4,), {"validation_share": 0.0, "averaging": 0.0, "weight_decay": 0.01}),
        ((2, 4), {"data_dependent": True}),
        ((2, 4), {"patience": 1, "learning_rate": 0.05}),
    ],
)
def test_an_interrupted_training_goes_on_to_the_same_model(
    tmp_path: Path, stops: tuple[int, ...], options: dict[str, Any]
) -> None:
    whole = _fit(**options)
    epochs = len(whole.history_["epoch"])
    reached = [stop for stop in stops if stop <= epochs]
    for stop in reached:
        with pytest.raises(Interrupted):
            _kept(tmp_path, _stop_at(stop), **options)
    seen: list[int] = []
    resumed = _kept(tmp_path, _stop_at(-1, seen), **options)
    # a report comes before its checkpoint: from the one before it
    assert seen == list(range(max([1, *reached]), epochs + 1))
    _same(resumed, whole)
    assert not list(tmp_path.iterdir())


@pytest.mark.long
@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize(
    "other",
    [
        {"random_state": 4},
        {"sensitivity_weight": 2.0},
        {"n_masks": 8},
        {"attributes": ["age"]},
        {"features": ["age", "sex"]},
        {"groups": dict(reversed(GROUPS.items()))},
        {"data": (_people(seed=9)[0], _people()[1])},
        {"data": (_people()[0], _people(seed=9)[1])},
    ],
)
def test_another_training_does_not_take_up_a_checkpoint(
    tmp_path: Path, other: dict[str, Any]
) -> None:
    with pytest.raises(Interrupted):
        _kept(tmp_path, _stop_at(4))
    assert (tmp_path / FILE).is_file()
    seen: list[int] = []
    _same(_kept(tmp_path, _stop_at(-1, seen), **other), _fit(**other))
    assert seen == [1, 2, 3, 4, 5]


@pytest.mark.usefixtures("eager")
def test_another_library_does_not_take_up_a_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Interrupted):
        _kept(tmp_path, _stop_at(4))
    seen: list[int] = []
    monkeypatch.setattr(torch, "__version__", "0.0.0")
    with pytest.raises(Interrupted):
        _kept(tmp_path, _stop_at(1, seen))
    assert seen == [1]


# --- what is saved
# -------------------------------------------------------------------------------------


def test_a_loaded_model_answers_the_same(model: FAIASClassifier, tmp_path: Path) -> None:
    model.save(tmp_path)
    loaded = FAIASClassifier.load(tmp_path)
    X, _ = _people(seed=1)
    for rows in (X, X[:1]):
        np.testing.assert_array_equal(loaded.predict_proba(rows), model.predict_proba(rows))
        np.testing.assert_array_equal(loaded.predict(rows), model.predict(rows))
        np.testing.assert_array_equal(
            loaded.selection_probabilities(rows), model.selection_probabilities(rows)
        )
    other = X.copy()
    other[:, HIDDEN] += 5
    np.testing.assert_array_equal(loaded.predict_proba(other), model.predict_proba(X))
    assert list(loaded.groups_.items()) == list(model.groups_.items())
    assert loaded.attributes_ == model.attributes_


def test_nothing_of_the_sensitive_columns_is_saved(tmp_path: Path) -> None:
    X, y = _people()
    rng = np.random.default_rng(1)
    X[:, HIDDEN] += rng.normal(scale=1e-2, size=(200, 3)).astype(
        np.float32
    )  # values unlike any other
    for dependent in (False, True):
        folder = tmp_path / str(dependent)
        model = _fit(data=(X, y), data_dependent=dependent)
        model.save(folder)
        assert sorted(path.name for path in folder.iterdir()) == ["model.json", NETWORK]
        content = b"\0".join(path.read_bytes() for path in folder.iterdir())
        for column in HIDDEN:
            for dtype in (np.float32, np.float64):
                assert not any(value.tobytes() in content for value in X[:, column].astype(dtype))
        tensors = load_file(folder / NETWORK)
        assert (tensors["predictor.0.weight"][:, HIDDEN] == 0).all()
        assert (tensors["predictor.0.weight"][:, [0, 1, 2, 3, 4]] != 0).all()
        layers = {"0", "2", "4"}
        assert {name.split(".")[1] for name in tensors if name.startswith("predictor")} == layers
        assert set(tensors) - {
            f"predictor.{layer}.{kind}" for layer in layers for kind in ("weight", "bias")
        } == (
            {f"selector.network.{layer}.{kind}" for layer in (0, 2) for kind in ("weight", "bias")}
            | {"levels"}
            if dependent
            else {"selector.theta", "levels"}
        )
        if dependent:
            # never read, so never moved from where the seed put them
            again = _fit(data=(X, y), data_dependent=True, n_epochs=1)
            mine, theirs = (each.selector_.network[0].weight[:, HIDDEN] for each in (model, again))
            assert torch.equal(mine, theirs)


def test_the_size_of_a_saved_model_does_not_grow_with_the_rows(tmp_path: Path) -> None:
    sizes = []
    for n in (100, 1600):
        _fit(n, data_dependent=True, n_epochs=2).save(tmp_path / str(n))
        sizes.append({path.name: path.stat().st_size for path in (tmp_path / str(n)).iterdir()})
    assert sizes[0] == sizes[1]
    assert json.loads((tmp_path / "100" / "model.json").read_text())["n_features_in"] == 9


def test_a_checkpoint_holds_no_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "evenhand.fairlib.methods.method_base.Checkpoint", partial(Checkpoint, every_s=0.0)
    )
    sizes = []
    for n in (100, 1600):
        with pytest.raises(Interrupted):
            _kept(tmp_path, _stop_at(3), n=n)
        sizes.append((tmp_path / FILE).stat().st_size)
    assert abs(sizes[0] - sizes[1]) < 100  # digits of the history
    content = (tmp_path / FILE).read_bytes()
    assert not any(row[:2].tobytes() in content for row in _people(1600)[0])
