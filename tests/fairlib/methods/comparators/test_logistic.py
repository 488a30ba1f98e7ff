"""Logistic regression is scikit-learn's; its weights are AIF360's."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
from comparator_samples import draw_people, fit_comparator
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from evenhand.fairlib.methods.preprocessed_gbdt import kamiran_calders_weights

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of its optional parts that are not installed
    from aif360.algorithms.preprocessing import Reweighing
    from aif360.datasets import BinaryLabelDataset


def table(group: NDArray[Any], labels: NDArray[Any]) -> BinaryLabelDataset:
    frame = pd.DataFrame({"group": group * 1.0, "label": labels * 1.0})
    return BinaryLabelDataset(df=frame, label_names=["label"], protected_attribute_names=["group"])


# --- logistic regression and reweighing ---


def test_logistic_is_scikit_learns() -> None:
    X, y, sensitive = draw_people()
    model = fit_comparator("logistic", X, y, sensitive, C=0.3)
    theirs = LogisticRegression(C=0.3, tol=1e-10, max_iter=10_000).fit(X.astype(np.float64), y)
    np.testing.assert_allclose(model.predict_proba(X), theirs.predict_proba(X), atol=1e-5)
    wider = LogisticRegression(C=3.0, tol=1e-10, max_iter=10_000).fit(X.astype(np.float64), y)
    assert np.abs(model.predict_proba(X) - wider.predict_proba(X)).max() > 1e-3


def test_reweighed_logistic_trains_with_aif360s_weights() -> None:
    X, y, sensitive = draw_people()
    group = (sensitive["sex"] == "male").astype(int)
    theirs = (
        Reweighing([{"group": 0}], [{"group": 1}]).fit_transform(table(group, y)).instance_weights
    )
    np.testing.assert_allclose(kamiran_calders_weights(group, y), theirs, rtol=1e-12)
    expected = LogisticRegression(tol=1e-10, max_iter=10_000).fit(X.astype(np.float64), y, theirs)
    model = fit_comparator("reweigh-logistic", X, y, sensitive, threshold=0.5)
    np.testing.assert_allclose(model.predict_proba(X), expected.predict_proba(X), atol=1e-5)
    plain = fit_comparator("logistic", X, y, sensitive)
    assert np.abs(model.predict_proba(X) - plain.predict_proba(X)).max() > 0.02
