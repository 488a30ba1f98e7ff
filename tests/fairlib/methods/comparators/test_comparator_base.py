"""What all comparators promise: determinism, errors, and what their files hold."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from comparator_samples import INPUTS, NAMES, draw_people, fit_comparator, fitted
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.metrics import balanced_accuracy_score

from evenhand.fairlib.methods import METHODS, load_model, method_class
from evenhand.fairlib.methods.comparators.logistic import (
    CANDIDATES,
    MOST_COLUMNS,
    Linear,
    LogisticClassifier,
    best_threshold,
)
from evenhand.fairlib.splits import set_aside

COMPARE = [name for name in NAMES if METHODS[name].needs_groups]


# --- prediction ---


@pytest.mark.parametrize("name", NAMES)
def test_a_prediction_depends_on_no_other_row(name: str) -> None:
    X, model = draw_people()[0], fitted(name)
    together, labels = model.predict_proba(X), model.predict(X)
    order = np.random.default_rng(1).permutation(len(X))
    # a network multiplies matrices, and these round otherwise in other company
    exact = 0.0 if name != "adversarial-debiasing" else 1e-12
    np.testing.assert_allclose(model.predict_proba(X[order]), together[order], rtol=0, atol=exact)
    np.testing.assert_array_equal(model.predict(X[order]), labels[order])
    alone = np.concatenate([model.predict_proba(row[None]) for row in X[:40]])
    np.testing.assert_allclose(alone, together[:40], rtol=0, atol=exact)
    np.testing.assert_array_equal(model.predict_proba(X), together)
    assert 0 < labels.mean() < 1


@pytest.mark.parametrize("name", NAMES)
def test_predicting_takes_the_inputs_and_nothing_else(name: str) -> None:
    cls = method_class(name)
    for method in (cls.predict, cls.predict_proba):
        assert list(inspect.signature(method).parameters) == ["self", "X"]


@pytest.mark.parametrize("name", NAMES)
def test_labels_of_any_kind_come_back(name: str) -> None:
    X, y, sensitive = draw_people()
    plain = fitted(name)
    named = fit_comparator(name, X, np.where(y == 1, "yes", "no"), sensitive)
    assert list(named.classes_) == ["no", "yes"]
    np.testing.assert_array_equal(named.predict(X) == "yes", plain.predict(X) == 1)


def test_a_threshold_decides_from_itself_on() -> None:
    X, y, sensitive = draw_people()
    name = "reweigh-logistic"
    chosen = fitted(name)
    assert chosen.threshold_ in CANDIDATES
    for model in (chosen, fit_comparator(name, X, y, sensitive, threshold=0.83)):
        positive = model.predict_proba(X)[:, 1] >= model.threshold_
        np.testing.assert_array_equal(model.predict(X), positive.astype(int))
    assert model.threshold_ == 0.83
    everyone = fit_comparator(name, X, y, sensitive, threshold=0.0).predict(X)
    assert everyone.all()


def test_a_score_at_the_threshold_is_positive() -> None:
    X, y, sensitive = draw_people()
    model = fit_comparator("reweigh-logistic", X, y, sensitive)
    model.threshold_ = float(model.predict_proba(X)[7, 1])
    assert model.predict(X)[7] == 1
    model.threshold_ = float(np.nextafter(model.threshold_, 1))
    assert model.predict(X)[7] == 0


def test_a_seed_matters_where_something_is_drawn() -> None:
    X, y, sensitive = draw_people()
    for name in ("adversarial-debiasing", "reweigh-logistic"):
        first, again, other = (
            fit_comparator(name, X, y, sensitive, random_state=seed).predict_proba(X)
            for seed in (1, 1, 2)
        )
        np.testing.assert_array_equal(first, again)
        assert not np.array_equal(first, other), name


def test_training_leaves_the_global_generators_alone() -> None:
    import torch

    X, y, sensitive = draw_people()
    torch_before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    for name in NAMES:
        fit_comparator(name, X, y, sensitive)
    assert torch.equal(torch.get_rng_state(), torch_before)
    np.testing.assert_array_equal(np.random.get_state()[1], numpy_before)  # noqa: NPY002


def test_a_callback_sees_the_end_and_can_stop() -> None:
    X, y, sensitive = draw_people()

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    for name in NAMES:
        model = clone(fitted(name))
        seen: list[tuple[int, int]] = []
        model.fit(
            X, y, sensitive_features=sensitive, callback=lambda i, n, _, s=seen: s.append((i, n))
        )
        assert [i for i, _ in seen] == list(range(1, seen[-1][1] + 1)), name
        with pytest.raises(KeyboardInterrupt):
            model.fit(X, y, sensitive_features=sensitive, callback=stop)


def test_a_callback_ends_adversarial_training() -> None:
    X, y, sensitive = draw_people()
    seen: list[int] = []

    def enough(epoch: int, *_: object) -> bool:
        seen.append(epoch)
        return epoch == 2

    options: dict[str, Any] = {"random_state": 0, "hidden": (8,)}
    stopped, short = (method_class("adversarial-debiasing")(n_epochs=n, **options) for n in (5, 2))
    stopped.fit(X, y, sensitive_features=sensitive, callback=enough)
    assert seen == [1, 2]
    short.fit(X, y, sensitive_features=sensitive)
    np.testing.assert_array_equal(stopped.predict_proba(X), short.predict_proba(X))


# --- what is saved ---


@pytest.mark.parametrize("name", NAMES)
def test_files_have_no_group_and_do_not_grow(name: str, tmp_path: Path) -> None:
    sizes = []
    for n in (300, 1500):
        X, y, sensitive = draw_people(n)
        fit_comparator(name, X, y, sensitive).save(tmp_path / str(n))
        paths = sorted((tmp_path / str(n)).iterdir())
        assert [path.name for path in paths] == ["model.json", "parameters.safetensors"]
        content = b"".join(path.read_bytes() for path in paths)
        sizes.append(len(content))
        for value in np.concatenate([np.unique(values) for values in sensitive.values()]):
            assert str(value).encode() not in content
    assert sizes[1] < 1.2 * sizes[0] + 200


@pytest.mark.parametrize("name", NAMES)
def test_what_is_loaded_keeps_what_was_learned(name: str, tmp_path: Path) -> None:
    X, model = draw_people()[0], fitted(name)
    model.save(tmp_path)
    loaded = load_model(tmp_path)
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    for learned in ("threshold_", "n_iter_"):
        assert getattr(loaded, learned, None) == getattr(model, learned, None)


# --- choosing ---


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_the_best_threshold_is_the_best(data: st.DataObject) -> None:
    labels = np.array(data.draw(st.lists(st.integers(0, 1), min_size=4, max_size=30)))
    labels[:2] = 0, 1
    scores = np.array(
        data.draw(st.lists(st.floats(0, 1), min_size=len(labels), max_size=len(labels)))
    )
    found = best_threshold(labels, scores)
    reached = {t: balanced_accuracy_score(labels, scores >= t) for t in CANDIDATES}
    equal = [t for t, value in reached.items() if value == max(reached.values())]
    assert found == min(equal, key=lambda t: (abs(t - 0.5), t))


@settings(max_examples=60, deadline=None)
@given(st.integers(8, 120), st.floats(0.05, 0.95), st.integers(0, 5))
def test_rows_set_aside_have_every_kind(n: int, share: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, n)
    labels[:8] = [0, 1] * 4
    train, held = set_aside(labels, share, seed)
    np.testing.assert_array_equal(np.sort(np.concatenate([train, held])), np.arange(n))
    for label in range(2):
        of_kind = labels == label
        assert of_kind[train].any()
        assert of_kind[held].any()
        assert abs(of_kind[held].sum() - share * of_kind.sum()) <= 1
    assert set_aside(labels, share, seed)[1].tolist() == held.tolist()


# --- rows ---


def test_a_row_is_scored_the_same_in_any_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    X, model = rng.normal(size=(97, 31)).astype(np.float32), Linear(rng.normal(size=31), 0.3)
    whole = model.logits(X)
    np.testing.assert_allclose(whole, X.astype(np.float64) @ model.coefficients + 0.3, rtol=1e-12)
    monkeypatch.setattr("evenhand.fairlib.methods.comparators.logistic.CHUNK_VALUES", 100)
    np.testing.assert_array_equal(model.logits(X), whole)
    assert model.logits(X[:0]).shape == (0,)


def test_wide_tables_find_the_same_optimum(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y, _ = draw_people(200)
    narrow = LogisticClassifier().fit(X, y).linear_
    monkeypatch.setattr("evenhand.fairlib.methods.comparators.logistic.MOST_COLUMNS", 3)
    assert MOST_COLUMNS > 3
    wide = LogisticClassifier().fit(X, y).linear_
    np.testing.assert_allclose(wide.coefficients, narrow.coefficients, atol=1e-4)


# --- degenerate input ---


@pytest.mark.parametrize("name", COMPARE)
def test_groups_that_cannot_be_compared(name: str) -> None:
    X, y, sensitive = draw_people(80)
    with pytest.raises(ValueError, match="sensitive_features are needed to fit"):
        fit_comparator(name, X, y, {})
    with pytest.raises(ValueError, match="the attribute 'height' is not in sensitive_features"):
        fit_comparator(name, X, y, sensitive, attribute="height")
    with pytest.raises(ValueError, match=r"sex has one group only \('all'\)"):
        fit_comparator(name, X, y, {"sex": np.full(80, "all")})
    with pytest.raises(ValueError, match="'sex' must have one value per row of X"):
        fit_comparator(name, X, y, {"sex": sensitive["sex"][:79]})


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("exponentiated-gradient", {"constraint": "equalized_odds"}),
        ("adversarial-debiasing", {"constraint": "equalized_odds"}),
    ],
)
def test_a_group_without_a_label(name: str, parameters: dict[str, Any]) -> None:
    X, y, sensitive = draw_people(200)
    y = np.where(sensitive["sex"] == "female", 0, y)
    with pytest.raises(
        ValueError, match="a group of sex has none of the training rows with the second"
    ):
        fit_comparator(name, X, y, sensitive, **parameters)


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("logistic", {"C": 0.0}, "C must be positive and finite, got 0.0"),
        ("logistic", {"max_iter": 0}, "max_iter must be a whole number, at least 1, got 0"),
        ("reweigh-logistic", {"threshold": 1.5}, r"threshold must be in \[0, 1\] or None, got 1.5"),
        ("reweigh-logistic", {"validation_share": 1.0}, r"validation_share must be in \(0, 1\)"),
        ("exponentiated-gradient", {"eps": 0.0}, r"eps must be in \(0, 1\]"),
        (
            "exponentiated-gradient",
            {"constraint": "parity"},
            "constraint must be one of demographic_parity",
        ),
        (
            "adversarial-debiasing",
            {"constraint": "parity"},
            "constraint must be one of demographic_parity",
        ),
        ("adversarial-debiasing", {"adversary_weight": -1.0}, "adversary_weight must be finite"),
        ("adversarial-debiasing", {"learning_rate": 0.0}, "learning_rate must be positive"),
        (
            "adversarial-debiasing",
            {"adversary_learning_rate": float("inf")},
            "adversary_learning_rate must be positive and finite",
        ),
        (
            "adversarial-debiasing",
            {"hidden": (0,)},
            r"hidden must list whole numbers of units, at least 1, got \(0,\)",
        ),
        (
            "adversarial-debiasing",
            {"batch_size": 0},
            "batch_size must be a whole number, at least 1",
        ),
    ],
)
def test_parameters_out_of_range(name: str, parameters: dict[str, Any], message: str) -> None:
    X, y, sensitive = draw_people(100)
    with pytest.raises(ValueError, match=message):
        fit_comparator(name, X, y, sensitive, **parameters)


def test_a_network_that_diverges_stops() -> None:
    X, y, sensitive = draw_people(200)
    with pytest.raises(FloatingPointError, match="no finite number: try a smaller learning_rate"):
        fit_comparator(
            "adversarial-debiasing", X, y, sensitive, adversary_weight=1e38, learning_rate=1e37
        )


def test_too_few_rows_to_set_some_aside() -> None:
    X, y, sensitive = draw_people(3)
    with pytest.raises(ValueError, match="too few to set some aside"):
        fit_comparator(
            "reweigh-logistic", X, np.array([0, 0, 1]), {"sex": np.array(["a", "b", "a"])}
        )


def test_inputs_of_the_samples_are_all_columns() -> None:
    assert sorted(j for columns in INPUTS.values() for j in columns) == list(
        range(draw_people(5)[0].shape[1])
    )
