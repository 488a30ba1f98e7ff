"""The shipped jobs of trees train the models that they did before trees had other defaults."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import xgboost as xgb
from numpy.typing import NDArray

from evenhand.fairlib.distances import SensitiveSubspace
from evenhand.fairlib.methods import budro
from evenhand.fairlib.methods.preprocessed_gbdt import kamiran_calders_weights
from evenhand.fairlib.methods.registry import method_class
from evenhand.flows.job_file import load_job, shipped_jobs
from tests.fairlib.methods.paper_budro import paper_budro

METHODS = {
    name: method
    for name in shipped_jobs()
    for method in [load_job(name)[0].method]
    if method["name"] in ("gbdt", "project", "reweigh", "budro")
}
# What the trees were without a word in the job.
BEFORE: dict[str, Any] = {
    "n_steps": 100,
    "max_depth": 6,
    "eta": 0.3,
    "reg_lambda": 1.0,
    "min_child_weight": 1.0,
    "balance_classes": True,
    "scale_pos_weight": None,
}


def table(
    n: int = 240,
) -> tuple[NDArray[np.float32], NDArray[np.int64], dict[str, NDArray[np.str_]]]:
    """Rows, labels of which fewer are 1, and groups by the first column."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, 5)).astype(np.float32)
    X[:, 0] = rng.integers(0, 2, n)
    y = (X[:, 0] + X[:, 1] - X[:, 2] + rng.normal(size=n) > 1.5).astype(np.int64)
    group = np.where(X[:, 0] == 1, "a", "b")
    return X, y, {"sex": group, "race": group}


def as_the_job_says(method: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The method's name and its arguments, with few steps: those of BuDRO take longer."""
    arguments = {key: value for key, value in method.items() if key != "name"}
    most = 12 if method["name"] == "budro" else 60
    return method["name"], arguments | {"n_steps": min(arguments["n_steps"], most)}


def boosted(
    arguments: dict[str, Any], X: NDArray[Any], y: NDArray[Any], weights: Any
) -> NDArray[Any]:
    """Probabilities of label 1 of XGBoost itself, called as it was then."""
    given = BEFORE | arguments
    weight = given["scale_pos_weight"]
    if weight is None:
        weight = (y == 0).sum() / y.sum() if given["balance_classes"] else 1.0
    parameters = {
        "objective": "binary:logistic",
        "tree_method": "hist",
        "base_score": 0.5,
        "scale_pos_weight": weight,
        "seed": 3,
        "nthread": 1,
        **{name: given[name] for name in ("max_depth", "eta", "reg_lambda", "min_child_weight")},
    }
    found = xgb.train(parameters, xgb.QuantileDMatrix(X, label=y, weight=weights), given["n_steps"])
    return np.asarray(found.inplace_predict(X), dtype=np.float64)


@pytest.mark.parametrize(
    "job", [name for name, method in METHODS.items() if method["name"] != "budro"]
)
def test_boosted_trees_are_xgboosts_with_the_former_defaults(job: str) -> None:
    name, arguments = as_the_job_says(METHODS[job])
    X, y, sensitive = table()
    metric = SensitiveSubspace(indicators=[0]).fit(X)
    options = {"metric": metric} if name == "project" else {}
    model = method_class(name)(**options, **arguments, random_state=3, n_jobs=1)
    model.fit(X, y, sensitive_features=sensitive)
    rows = metric.project(X).astype(np.float32) if name == "project" else X
    weights = kamiran_calders_weights(sensitive["sex"], y) if name == "reweigh" else None
    # reweighting weighted no class
    former = {"balance_classes": False, **arguments} if name == "reweigh" else arguments
    np.testing.assert_array_equal(model.predict_proba(X)[:, 1], boosted(former, rows, y, weights))
    assert model.best_step_ == arguments["n_steps"]
    assert model.validation_ is None


@pytest.mark.parametrize(
    "job", [name for name, method in METHODS.items() if method["name"] == "budro"]
)
def test_budro_is_the_one_with_the_former_defaults(
    job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # as on a large table, where the default searches few neighbours
    monkeypatch.setattr(budro, "LISTED", range(101, 10_000))
    monkeypatch.setattr(budro, "NEIGHBOURS", 5)
    _, arguments = as_the_job_says(METHODS[job])
    X, y, _ = table()
    metric = SensitiveSubspace(indicators=[0]).fit(X)
    shipped = method_class("budro")(metric, **arguments, random_state=3).fit(X, y)
    former = paper_budro(metric, **arguments, random_state=3).fit(X, y)
    np.testing.assert_array_equal(shipped.predict_proba(X), former.predict_proba(X))
    # and the plain step
    assert shipped.best_step_ == arguments["n_steps"]
    assert shipped.validation_ is None


def test_jobs_of_all_four_methods_are_compared() -> None:
    assert {method["name"] for method in METHODS.values()} == {
        "gbdt",
        "project",
        "reweigh",
        "budro",
    }
    assert len(METHODS) >= 19
