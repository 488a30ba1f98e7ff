"""Estimators on tables in the tools of scikit-learn and others: one example each."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from skops import card

from evenhand import (
    BudroClassifier,
    GBDTClassifier,
    LogisticClassifier,
    ReweighedGBDTClassifier,
    SensitiveSubspace,
)

SMALL: dict[str, Any] = {"n_steps": 5, "random_state": 0}


@pytest.fixture
def routing() -> Iterator[None]:
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.fixture(scope="module")
def people() -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 80, 160).astype(float),
            "hours": rng.normal(40, 10, 160),
            "sex": rng.choice(["female", "male"], 160),
        }
    )
    label = np.where(frame["age"] + rng.normal(0, 10, 160) > 45, "yes", "no")
    return frame, label


def budro() -> BudroClassifier:
    return BudroClassifier(SensitiveSubspace(indicators=["sex"], learned=[]), **SMALL)


def test_a_grid_search_over_a_table(people: Any) -> None:
    frame, label = people
    search = GridSearchCV(budro(), {"eta": [0.1, 0.3]}, cv=2, error_score="raise")
    search.fit(pl.from_pandas(frame), label)
    assert set(search.predict(frame)) == {"no", "yes"}
    assert search.best_estimator_.metric_.encoder_ is search.best_estimator_.encoder_


@pytest.mark.usefixtures("routing")
def test_a_pipeline_passes_sensitive_features(people: Any) -> None:
    frame, label = people
    numbers = frame[["age", "hours"]]
    model = ReweighedGBDTClassifier(**SMALL).set_fit_request(sensitive_features=True)
    pipeline = make_pipeline(StandardScaler().set_output(transform="pandas"), model)
    pipeline.fit(numbers, label, sensitive_features=frame[["sex"]])
    assert pipeline.score(numbers, label) > 0.6
    assert list(pipeline[-1].feature_names_in_) == ["age", "hours"]


@pytest.mark.parametrize("sparse", [True, False])
def test_a_column_transformers_output(people: Any, sparse: bool) -> None:
    frame, label = people
    encode = make_column_transformer(
        (OneHotEncoder(sparse_output=sparse), ["sex"]),
        remainder="passthrough",
        sparse_threshold=1.0,
    )
    pipeline = make_pipeline(encode, LogisticClassifier()).fit(frame, label)
    assert pipeline.score(frame, label) > 0.6


@pytest.mark.usefixtures("routing")
def test_cross_validation_with_weights_and_groups(people: Any) -> None:
    frame, label = people
    model = ReweighedGBDTClassifier(**SMALL)
    model.set_fit_request(sensitive_features=True, sample_weight=True)
    model.set_score_request(sample_weight=True)
    params = {"sensitive_features": frame["sex"], "sample_weight": np.linspace(1, 2, len(frame))}
    scores = cross_validate(model, frame, label, cv=2, params=params, error_score="raise")
    assert (scores["test_score"] > 0.5).all()


def test_a_clone_learns_columns_anew(people: Any) -> None:
    frame, label = people
    model = budro().fit(frame, label)
    again = clone(model)
    assert again.encoder_ is None
    assert not hasattr(again, "feature_names_in_")
    again.fit(frame.drop(columns="hours"), label)
    assert list(again.feature_names_in_) == ["age", "sex"]
    assert list(model.feature_names_in_) == list(frame.columns)


def test_processes_of_joblib(people: Any) -> None:
    frame, label = people
    expected = budro().fit(frame, label).predict_proba(frame)

    def fitted(model: Any) -> Any:
        return model.fit(frame, label).predict_proba(frame)

    tasks = [joblib.delayed(fitted)(budro()) for _ in range(2)]
    for found in joblib.Parallel(n_jobs=2, backend="loky")(tasks):
        np.testing.assert_array_equal(found, expected)


def test_a_card_of_skops(people: Any) -> None:
    frame, label = people
    model = GBDTClassifier(**SMALL).fit(frame, label)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of skops, about its own dependencies
        text = card.Card(model).render()
    assert "n_steps" in text
    assert "GBDTClassifier" in text


def test_the_picture_of_a_fitted_pipeline(people: Any) -> None:
    frame, label = people
    pipeline = make_pipeline("passthrough", budro()).fit(frame, label)
    picture = pipeline._repr_html_()
    assert "BudroClassifier" in picture
    assert "SensitiveSubspace" in picture
