"""Every classifier beside scikit-learn's tools: searches, pipelines, routing, tables, weights."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import sklearn
import xgboost as xgb
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.metrics import accuracy_score, make_scorer
from sklearn.model_selection import GridSearchCV, HalvingRandomSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from evenhand.fairlib.distances import FACE, SensitiveSubspace
from evenhand.fairlib.distances.metric_base import mean_squared_distance, sensitive_columns
from evenhand.fairlib.methods.budro import BudroClassifier
from evenhand.fairlib.methods.comparators.comparator_base import repeated_rows
from evenhand.fairlib.methods.gbdt import GBDTClassifier
from evenhand.fairlib.methods.preprocessed_gbdt import (
    ProjectedGBDTClassifier,
    ReweighedGBDTClassifier,
)
from evenhand.fairlib.methods.registry import METHODS, installed, method_class, spec_of_class

# Small budgets, by method.
BUDGETS: dict[str, dict[str, Any]] = {
    "dadi": {
        "hidden": (8, 8),
        "memory_size": 4,
        "agents": 8,
        "n_iterations": 2,
        "pretrain_iterations": 2,
    },
    "faias": {"hidden": (8, 8), "n_epochs": 2, "batch_size": 32},
    "adversarial-debiasing": {"hidden": (8,), "n_epochs": 2},
    "exponentiated-gradient": {"max_iter": 2},
}
# `fit` also needs an argument that is no table of one row per person
UNSLICED = ("clp", "faias")
ROUTED = [name for name in sorted(METHODS) if name not in UNSLICED and installed(METHODS[name])]


def small(name: str) -> Any:
    budget = BUDGETS.get(name, {"n_steps": 3} if hasattr(method_class(name)(), "n_steps") else {})
    if METHODS[name].needs_metric:
        budget = budget | {"metric": SensitiveSubspace()}
    return method_class(name)(**budget, random_state=0)


def table(n: int = 120) -> tuple[pd.DataFrame, pd.Series, pd.DataFrame]:
    rng = np.random.default_rng(3)
    X = pd.DataFrame(rng.standard_normal((n, 4)), columns=["age", "hours", "tenure", "score"])
    group = np.where(rng.random(n) < 0.5, "a", "b")
    X["score"] += group == "a"
    y = pd.Series(np.where(X["score"] + rng.standard_normal(n) > 0.5, "yes", "no"))
    return X, y, pd.DataFrame({"group": group})


def routed(name: str) -> Any:
    model = small(name)
    asked = dict.fromkeys(["sensitive_features", *weights_of(model)], True)
    return model.set_fit_request(**asked)


def weights_of(model: Any) -> list[str]:
    return ["sample_weight"] if "sample_weight" in inspect.signature(model.fit).parameters else []


@pytest.fixture
def routing() -> Any:
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.mark.long
@pytest.mark.usefixtures("routing")
@pytest.mark.parametrize("name", ROUTED)
def test_every_method_works_in_searches_and_pipelines(name: str) -> None:
    """Arguments are routed."""
    X, y, sensitive = table()
    if name == "dadi":
        # it asks an array for its next questions
        X = X.to_numpy()
    given: dict[str, Any] = {"sensitive_features": sensitive}
    given |= {name: np.ones(len(y)) for name in weights_of(small(name))}
    unweighted = make_scorer(accuracy_score).set_score_request(sample_weight=False)
    scored: dict[str, Any] = {"scoring": unweighted, "error_score": "raise"}
    pipeline = make_pipeline(StandardScaler(), routed(name))
    only = {"sensitive_features": sensitive}
    scores = cross_validate(pipeline, X, y, cv=2, params=only, **scored)
    assert np.isfinite(scores["test_score"]).all()
    search = GridSearchCV(routed(name), {"random_state": [0, 1]}, cv=2, **scored)
    search.fit(X, y, **given)
    assert set(search.predict(X)) <= {"yes", "no"}
    halving = HalvingRandomSearchCV(
        routed(name),
        {"random_state": [0, 1]},
        n_candidates=2,
        factor=2,
        min_resources=60,
        cv=2,
        random_state=0,
        **scored,
    )
    assert halving.fit(X, y, **given).best_estimator_.classes_.tolist() == ["no", "yes"]


@pytest.mark.parametrize("name", [name for name in sorted(METHODS) if installed(METHODS[name])])
def test_every_method_has_a_picture_and_clones(name: str) -> None:
    model = small(name)
    assert type(model).__name__ in model._repr_html_()
    again = clone(model)
    assert type(again) is type(model)
    assert again.get_params(deep=False).keys() == model.get_params(deep=False).keys()
    assert spec_of_class(type(model)) is METHODS[name]


@pytest.mark.parametrize("kind", ["arrow", "series", "array", "mapping"])
def test_rows_of_any_form_give_the_same_model(kind: str) -> None:
    """Sensitive features may have any form, too."""
    X, y, sensitive = table()
    forms: dict[str, Any] = {
        "arrow": pa.Table.from_pandas(sensitive),
        "series": sensitive["group"],
        "array": sensitive["group"].to_numpy(),
        "mapping": {"group": sensitive["group"].astype("category")},
    }
    expected = ReweighedGBDTClassifier(n_steps=5, random_state=0).fit(
        X, y, sensitive_features=sensitive
    )
    rows = pa.Table.from_pandas(X) if kind == "arrow" else X
    found = ReweighedGBDTClassifier(n_steps=5, random_state=0).fit(
        rows, y, sensitive_features=forms[kind]
    )
    np.testing.assert_array_equal(found.predict_proba(rows), expected.predict_proba(X))
    assert list(found.feature_names_in_) == list(X.columns)
    basis = SensitiveSubspace().fit(X, sensitive_features=forms[kind]).basis_
    np.testing.assert_array_equal(
        basis, SensitiveSubspace().fit(X, sensitive_features=sensitive).basis_
    )


def test_names_of_sensitive_columns() -> None:
    assert list(sensitive_columns(None)) == []
    assert list(sensitive_columns(np.zeros((3, 2)))) == ["group0", "group1"]
    assert list(sensitive_columns([1, 2, 3])) == ["group"]
    assert list(sensitive_columns(pd.Series([1, 2], name="sex"))) == ["sex"]


def test_a_clone_keeps_what_a_metric_learned() -> None:
    """A metric that learned nothing is fitted again."""
    X, y, sensitive = table()
    metric = SensitiveSubspace().fit(X.to_numpy(), sensitive_features=sensitive)
    copied = clone(BudroClassifier(metric, n_steps=2))
    assert copied.metric is not metric
    np.testing.assert_array_equal(copied.metric.basis_, metric.basis_)
    search = GridSearchCV(
        copied, {"metric": [metric], "eta": [0.1, 0.2]}, cv=2, error_score="raise"
    )
    search.fit(X.to_numpy(), y)
    np.testing.assert_array_equal(search.best_estimator_.metric_.basis_, metric.basis_)
    unfitted = SensitiveSubspace(strength=0.5)
    assert not hasattr(clone(unfitted), "basis_")
    model = BudroClassifier(unfitted, n_steps=2).fit(X.to_numpy(), y, sensitive_features=sensitive)
    assert not hasattr(unfitted, "basis_")
    assert model.metric_.basis_.shape == (4, 1)
    # a clone that is fitted again learns anew
    halves = clone(metric).fit(X.to_numpy()[:60], sensitive_features=sensitive[:60])
    assert not np.array_equal(halves.basis_, metric.basis_)


def test_mean_squared_distance_is_that_of_all_pairs() -> None:
    X = np.random.default_rng(0).standard_normal((30, 3))
    metric = SensitiveSubspace(indicators=[1]).fit(X)
    pairs = metric.pairwise(X, squared=True)
    assert mean_squared_distance(metric, X) == pytest.approx(pairs.mean(), rel=1e-12)
    assert mean_squared_distance(None, 3.0 * X) == pytest.approx(
        9.0 * mean_squared_distance(None, X)
    )


def test_trees_take_missing_numbers_and_categories(tmp_path: Any) -> None:
    rng = np.random.default_rng(5)
    town = rng.choice(list("abcdef"), 600)
    X = pd.DataFrame({"x": rng.standard_normal(600), "town": pd.Categorical(town)})
    X.loc[::7, "x"] = np.nan
    X.loc[::11, "town"] = np.nan
    y = np.isin(town, ["b", "e"]).astype(int)
    model = GBDTClassifier(random_state=0).fit(X, y)
    shown = X["town"].notna().to_numpy()
    assert (model.predict(X)[shown] == y[shown]).all()
    # categories count by their names, whatever codes they have in another table
    other = X.iloc[:50].assign(town=pd.Categorical(X["town"][:50], categories=list("fedcba")))
    np.testing.assert_array_equal(model.predict_proba(other), model.predict_proba(X.iloc[:50]))
    # one that was never seen counts as missing
    unseen = X.iloc[:2].assign(town=pd.Categorical(["z", None], categories=["z"]))
    unseen["x"] = 0.0
    assert len(np.unique(model.predict_proba(unseen)[:, 1])) == 1
    model.save(tmp_path)
    np.testing.assert_array_equal(
        GBDTClassifier.load(tmp_path).predict_proba(X), model.predict_proba(X)
    )


@pytest.mark.parametrize("name", ["project", "logistic"])
def test_missing_numbers_of_an_array_are_refused_in_one_line(name: str) -> None:
    X, y, sensitive = table()
    rows = X.to_numpy()
    rows[3, 1] = np.nan
    with pytest.raises(
        ValueError, match="contains NaN: .* takes no missing values. Fill them in"
    ) as caught:
        small(name).fit(rows, y, sensitive_features=sensitive)
    assert "\n" not in str(caught.value)


FIXED: dict[str, Any] = {"n_iter_no_change": None, "max_depth": 3, "random_state": 0}


@pytest.mark.parametrize(
    "model",
    [
        GBDTClassifier(n_steps=5, **FIXED),
        GBDTClassifier(n_steps=5, balance_classes=True, **FIXED),
        ReweighedGBDTClassifier(n_steps=5, **FIXED),
        ProjectedGBDTClassifier(SensitiveSubspace(), n_steps=5, **FIXED),
        BudroClassifier(n_steps=5, perturbation_budget=0.1, **FIXED),
        method_class("logistic")(),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_weight_of_two_is_a_row_twice(model: Any) -> None:
    # few distinct values: the bins of the trees do not depend on the weights
    rng = np.random.default_rng(8)
    X = rng.integers(0, 4, (200, 3)).astype(np.float32)
    y = (X[:, 0] + rng.standard_normal(200) > 1.5).astype(int)
    group = (X[:, 1] > 1).astype(str)
    weights = rng.integers(1, 3, 200)
    twice = np.repeat(np.arange(200), weights)
    metric = SensitiveSubspace().fit(X, sensitive_features={"g": group})
    if "metric" in model.get_params(deep=False):
        model.set_params(metric=metric)
    weighted = (
        clone(model).fit(X, y, sensitive_features=group, sample_weight=weights).predict_proba(X)
    )
    repeated = (
        clone(model).fit(X[twice], y[twice], sensitive_features=group[twice]).predict_proba(X)
    )
    np.testing.assert_allclose(weighted, repeated, atol=2e-5)
    plain = clone(model).fit(X, y, sensitive_features=group).predict_proba(X)
    assert np.abs(plain - weighted).max() > 1e-3


def test_rows_are_repeated_by_their_weights() -> None:
    rows = np.array([4, 2, 0])
    assert repeated_rows(None, rows).tolist() == [4, 2, 0]
    assert repeated_rows(np.ones(5), rows).tolist() == [4, 2, 0]
    assert repeated_rows(np.array([0.0, 9.0, 1.0, 9.0, 2.0]), rows).tolist() == [4, 4, 2]


# --- monotone constraints, devices ---


@pytest.mark.parametrize("cls", [GBDTClassifier, BudroClassifier])
@pytest.mark.parametrize("sign", [-1, 1])
def test_predictions_rise_or_fall_with_a_constrained_column(
    cls: Any, sign: int, tmp_path: Any
) -> None:
    rng = np.random.default_rng(11)
    X = pd.DataFrame(rng.standard_normal((500, 3)), columns=list("abc"))
    y = (sign * X["a"] + np.sin(4 * X["a"]) + 0.5 * rng.standard_normal(500) > 0).astype(int)
    options: dict[str, Any] = {"n_steps": 40, "eta": 0.3, "max_depth": 4, "n_iter_no_change": None}
    # the same people at 41 values of the column
    grid = pd.concat([X[:50].assign(a=value) for value in np.linspace(-3, 3, 41)])

    def falls(model: Any) -> float:
        shares = model.predict_proba(grid)[:, 1].reshape(41, 50)
        return float(np.max(-sign * np.diff(shares, axis=0)))

    model = cls(monotone_constraints={"a": sign}, **options).fit(X, y)
    assert falls(model) <= 0.0
    assert falls(cls(**options).fit(X, y)) > 0.05
    model.save(tmp_path)
    again = cls.load(tmp_path)
    assert again.monotone_constraints == {"a": sign}
    listed = clone(model).set_params(monotone_constraints=[sign, 0, 0]).fit(X.to_numpy(), y)
    np.testing.assert_array_equal(listed.predict_proba(X.to_numpy()), model.predict_proba(X))
    listed.set_params(monotone_constraints=np.array([sign, 0, 0])).fit(X.to_numpy(), y)
    np.testing.assert_array_equal(listed.predict_proba(X.to_numpy()), model.predict_proba(X))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"z": 1}, "names 'z', which is no column of X"),
        ([1, 0], "must be -1, 0 or 1 for each of 3 columns"),
        (np.array([[1, 0, 0]]), "must be -1, 0 or 1 for each of 3 columns"),
        (np.eye(3), "must be -1, 0 or 1 for each of 3 columns"),
        ({"0": 2}, "must be -1, 0 or 1 for each of 3 columns"),
    ],
)
def test_bad_constraints_are_refused(given: Any, message: str) -> None:
    X, y = np.eye(3).repeat(4, axis=0), np.array([0, 1] * 6)
    with pytest.raises(ValueError, match=message):
        GBDTClassifier(monotone_constraints=given).fit(X, y)


def test_projected_columns_are_not_those_of_a_constraint() -> None:
    X, y = np.eye(3).repeat(4, axis=0), np.array([0, 1] * 6)
    with pytest.raises(ValueError, match="would hold for projected columns only"):
        ProjectedGBDTClassifier(
            SensitiveSubspace(indicators=[0]), monotone_constraints=[0, 1, 0]
        ).fit(X, y)


def test_constraints_are_for_two_classes() -> None:
    X, y = np.eye(3).repeat(4, axis=0), np.arange(12) % 3
    with pytest.raises(ValueError, match="are for two classes"):
        GBDTClassifier(monotone_constraints=[1, 0, 0]).fit(X, y)


def test_a_device_that_is_not_there_is_refused() -> None:
    X, y = np.eye(3).repeat(4, axis=0), np.array([0, 1] * 6)
    auto, cpu = (GBDTClassifier(n_steps=2, device=device).fit(X, y) for device in ("auto", "cpu"))
    np.testing.assert_allclose(auto.predict_proba(X), cpu.predict_proba(X), atol=1e-5)
    with pytest.raises(ValueError, match="device must be one of auto, cpu, cuda"):
        GBDTClassifier(device="tpu").fit(X, y)
    if not xgb.build_info()["USE_CUDA"]:
        with pytest.raises(ValueError, match="needs a build of XGBoost with CUDA"):
            GBDTClassifier(device="cuda").fit(X, y)


# --- validation rows and the prior shift ---


def held_out(model: Any, X: NDArray[Any], y: NDArray[Any]) -> Any:
    found = model.fit(X, y).validation_
    assert found.rows.dtype == np.int64
    assert (np.diff(found.rows) > 0).all()
    assert found.probability.shape == (len(found.rows), 2)
    np.testing.assert_allclose(found.probability.sum(axis=1), 1.0)
    return found


@pytest.mark.parametrize("cls", [GBDTClassifier, BudroClassifier])
def test_validation_is_out_of_fold_on_a_small_table(cls: Any) -> None:
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((150, 4)), rng.integers(0, 2, 150)
    # noise: a model of these rows would know them
    found = held_out(
        cls(n_steps=40, min_child_weight=0.0, n_iter_no_change=40, random_state=0), X, y
    )
    assert found.rows.tolist() == list(range(150))
    assert abs((found.probability.argmax(axis=1) == y).mean() - 0.5) < 0.12


@pytest.mark.parametrize("cls", [GBDTClassifier, BudroClassifier])
def test_validation_holds_a_share_of_the_rows_out(cls: Any, tmp_path: Any) -> None:
    rng = np.random.default_rng(2)
    X = rng.standard_normal((400, 3))
    y = (X[:, 0] > rng.standard_normal(400)).astype(int)
    model = cls(n_steps=20, validation_fraction=0.25, random_state=0)
    found = held_out(model, X, y)
    assert len(found.rows) == 100
    assert model.best_step_ <= 20
    model.save(tmp_path)
    loaded = cls.load(tmp_path)
    assert loaded.validation_ is None
    assert held_out(clone(model), X, y).probability.tolist() == found.probability.tolist()
    assert clone(model).set_params(n_iter_no_change=None).fit(X, y).validation_ is None


@pytest.mark.parametrize("cls", [GBDTClassifier, BudroClassifier])
def test_the_prior_shift_is_that_of_the_class_weights(cls: Any, tmp_path: Any) -> None:
    rng = np.random.default_rng(4)
    X, y = rng.standard_normal((300, 3)), (rng.random(300) < 0.2).astype(int)
    model = cls(n_steps=3, n_iter_no_change=None).fit(X, y)
    assert model.prior_shift_ == 0.0
    assert clone(model).set_params(scale_pos_weight=3.0).fit(X, y).prior_shift_ == pytest.approx(
        np.log(3)
    )
    model.set_params(balance_classes=True).fit(X, y).save(tmp_path)
    expected = np.log((y == 0).sum() / (y == 1).sum())
    assert model.prior_shift_ == pytest.approx(expected)
    assert cls.load(tmp_path).prior_shift_ == pytest.approx(expected)


def test_class_weights_do_not_change_where_noise_stops() -> None:
    # the criterion is the log loss of corrected probabilities: on noise no step helps much
    rng = np.random.default_rng(6)
    X, y = rng.standard_normal((500, 3)), (rng.random(500) < 0.1).astype(int)
    model = GBDTClassifier(balance_classes=True, random_state=0).fit(X, y)
    margin = (
        np.log(model.predict_proba(X)[:, 1] / model.predict_proba(X)[:, 0]) - model.prior_shift_
    )
    assert abs((1 / (1 + np.exp(-margin))).mean() - 0.1) < 0.03


def test_the_budget_is_a_share_of_the_mean_squared_distance(tmp_path: Any) -> None:
    X, y, sensitive = table()
    metric = SensitiveSubspace().fit(X.to_numpy(), sensitive_features=sensitive)
    model = BudroClassifier(metric, budget_share=0.02, n_steps=2).fit(X.to_numpy(), y)
    expected = 0.02 * mean_squared_distance(metric, X)
    assert model.perturbation_budget_ == pytest.approx(expected, rel=1e-6)
    model.save(tmp_path)
    assert BudroClassifier.load(tmp_path).perturbation_budget_ == model.perturbation_budget_
    given = BudroClassifier(metric, perturbation_budget=0.3, budget_share=0.02, n_steps=2)
    assert given.fit(X.to_numpy(), y).perturbation_budget_ == 0.3


def test_scaled_or_repeated_rows_give_the_same_default_steps() -> None:
    X, y, _ = table(400)
    scaled = X.to_numpy() * 64.0
    options: dict[str, Any] = {"n_steps": 10, "n_iter_no_change": None, "random_state": 0}
    expected = BudroClassifier(**options).fit(X.to_numpy(), y).predict_proba(X.to_numpy())
    found = BudroClassifier(**options).fit(scaled, y).predict_proba(scaled)
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_face_is_cloned_with_its_directions_too() -> None:
    X = np.random.default_rng(0).standard_normal((20, 3))
    metric = FACE(n_directions=1).fit(X, groups=np.arange(20) // 2)
    np.testing.assert_array_equal(clone(metric).basis_, metric.basis_)
