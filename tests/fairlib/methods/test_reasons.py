"""Reasons: contributions that add up to the log-odds, and a reference that is the training rows'
mean.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.special import logit
from torch import nn

from evenhand.fairlib.methods.calibration import Calibration
from evenhand.fairlib.methods.comparators.logistic import (
    LogisticClassifier,
    ReweighedLogisticClassifier,
)
from evenhand.fairlib.methods.comparators.reduction import ExponentiatedGradientClassifier
from evenhand.fairlib.methods.decided import DecidedModel, ThresholdRule
from evenhand.fairlib.methods.gbdt import GBDTClassifier
from evenhand.fairlib.methods.networks import NeuralNetworkClassifier
from evenhand.fairlib.methods.preprocessed_gbdt import ProjectedGBDTClassifier
from evenhand.fairlib.methods.reasons import contributions, mean_row, reasons_kept
from evenhand.fairlib.preprocessing.encoder import MISSING, ColumnSpec, TableEncoder

ROWS = 400


@pytest.fixture(scope="module")
def people() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "income": rng.normal(30.0, 10.0, ROWS),
            "job": rng.choice(["cook", "clerk", "smith"], ROWS, p=[0.6, 0.3, 0.1]),
            "member": rng.random(ROWS) < 0.3,
            "score": rng.uniform(1.0, 5.0, ROWS),
        }
    )
    frame.loc[:19, "income"] = np.nan
    specs = [
        ColumnSpec("income", "standard"),
        ColumnSpec("job", "onehot"),
        ColumnSpec("member", "binary", positive="true"),
        ColumnSpec("score", "unit", minimum=0.0, maximum=10.0),
    ]
    encoder = TableEncoder(specs).fit(frame)
    X = encoder.transform(frame)
    y = (X[:, 0] + 2.0 * (frame["job"] == "cook") + rng.normal(0, 0.5, ROWS) > 1.0).astype(int)
    counts = {
        "income": {"kind": "number", "counts": [380], "missing": 20},
        "member": {
            "kind": "category",
            **named(frame["member"].map({True: "true", False: "false"})),
        },
        "job": {"kind": "category", **named(frame["job"])},
        "score": {"kind": "number", "counts": [ROWS], "missing": 0},
    }
    sex = {"sex": np.where(rng.random(ROWS) < 0.5, "F", "M")}
    return {"encoder": encoder, "X": X, "y": y, "counts": counts, "sex": sex}


def named(values: pd.Series) -> dict[str, Any]:
    found = Counter(values)
    return {"names": list(found), "counts": list(found.values()), "other": 0, "missing": 0}


def log_odds(model: Any, X: np.ndarray) -> np.ndarray:
    return np.asarray(logit(model.predict_proba(X)[:, 1]))


def explained(
    model: Any, people: dict[str, Any], X: np.ndarray | None = None, **more: Any
) -> np.ndarray:
    encoder = people["encoder"]
    rows = people["X"] if X is None else X
    return contributions(model, rows, encoder, mean_row(encoder, people["counts"]), **more)


def test_the_reference_is_the_mean_of_the_encoded_rows(people: dict[str, Any]) -> None:
    # standardised income counts the rows that have one; a missing one is encoded as 0
    assert mean_row(people["encoder"], people["counts"]) == pytest.approx(
        people["X"].mean(axis=0), abs=1e-6
    )


def test_categories_counted_together_have_equal_shares(people: dict[str, Any]) -> None:
    counts = people["counts"] | {
        "job": {"names": ["cook"], "counts": [300], "other": 80, "missing": 20}
    }
    encoder = people["encoder"]
    row = mean_row(encoder, counts)[encoder.groups_["job"]]
    shares = dict(zip(encoder.categories_["job"], row, strict=True))
    assert shares == {"cook": 0.75, "clerk": 0.1, "smith": 0.1}
    frame = pd.DataFrame({"job": ["cook", None, "clerk"]})
    gaps = TableEncoder([ColumnSpec("job", "onehot")]).fit(frame)
    found = dict(zip(gaps.categories_["job"], mean_row(gaps, counts), strict=True))
    assert found[MISSING] == 0.05


@pytest.mark.parametrize("kind", [GBDTClassifier, ProjectedGBDTClassifier])
def test_contributions_of_trees_add_up_exactly(people: dict[str, Any], kind: Any) -> None:
    model = kind(n_steps=20, max_depth=3, n_jobs=1, random_state=0)
    model.fit(people["X"], people["y"], sensitive_features=people["sex"])
    found = explained(model, people)
    assert found.shape == (ROWS, 4)
    rest = log_odds(model, people["X"]) - found.sum(axis=1)
    assert rest == pytest.approx(rest[0], abs=1e-4)  # the mean, the same for every row
    assert np.abs(found[:, :2]).mean() > 10 * np.abs(found[:, 2:]).mean()
    assert np.corrcoef(found[:, 1], people["X"][:, people["encoder"].groups_["job"][1]])[0, 1] > 0.9


def test_integrated_gradients_are_complete(people: dict[str, Any]) -> None:
    model = NeuralNetworkClassifier(hidden=(16, 8), n_steps=300, random_state=0)
    model.fit(people["X"], people["y"])
    reference = mean_row(people["encoder"], people["counts"])[None].astype(np.float32)
    wanted = log_odds(model, people["X"]) - log_odds(model, reference)
    errors = [
        np.abs(explained(model, people, steps=steps).sum(axis=1) - wanted).max()
        for steps in (8, 64, 512)
    ]
    assert errors[0] > errors[1] > errors[2]
    assert errors[1] < 0.02 * np.abs(wanted).max()
    # a row is explained alike beside others and on its own
    alone = explained(model, people, people["X"][3:4])
    assert alone[0] == pytest.approx(explained(model, people)[3], abs=1e-9)


def test_the_midpoints_of_a_kink_by_hand() -> None:
    # f(x) = relu(x) from -1 to 1: the gradient is 0 at -1/2 and 1 at 1/2
    model = NeuralNetworkClassifier()
    model.network_ = nn.Sequential(nn.Linear(1, 1), nn.ReLU(), nn.Linear(1, 2))
    with torch.no_grad():
        for layer, weight in ((model.network_[0], [[1.0]]), (model.network_[2], [[0.0], [1.0]])):
            layer.weight.copy_(torch.tensor(weight))
            layer.bias.zero_()
    encoder = TableEncoder([ColumnSpec("x", "standard")]).fit(pd.DataFrame({"x": [0.0, 2.0]}))
    rows = np.array([[1.0], [-3.0]], dtype=np.float32)
    found = contributions(model, rows, encoder, np.array([-1.0]), steps=2)
    assert found.tolist() == [[1.0], [0.0]]


def test_a_linear_model_by_hand(people: dict[str, Any]) -> None:
    model = LogisticClassifier().fit(people["X"], people["y"])
    weights, X = model.linear_.coefficients, people["X"].astype(np.float64)
    away = X - X.mean(axis=0)
    by_hand = [away[:, [j]] @ weights[[j]] for j in range(len(weights))]
    groups = people["encoder"].groups_.values()
    wanted = np.stack([sum(by_hand[j] for j in columns) for columns in groups], axis=1)
    assert explained(model, people) == pytest.approx(wanted, abs=1e-5)


def test_a_calibration_leaves_reasons_as_they_are(people: dict[str, Any]) -> None:
    model = ReweighedLogisticClassifier(random_state=0)
    model.fit(people["X"], people["y"], sensitive_features=people["sex"])
    decided = DecidedModel(model, Calibration("sigmoid", 0.1, (2.0, 0.5)), ThresholdRule(0.3))
    assert np.array_equal(explained(decided, people), explained(model, people))


def test_a_method_without_reasons_names_those_that_have_them(people: dict[str, Any]) -> None:
    with pytest.raises(
        ValueError, match=r"exponentiated-gradient gives no reasons; these do: gbdt, nn"
    ):
        explained(ExponentiatedGradientClassifier(), people)


def test_reasons_kept_by_hand() -> None:
    before = np.array([[9.0, 3.0, -2.0, 1.0], [9.0, 0.0, 0.0, 0.0]])
    after = [
        np.array([[0.0, 3.0, -2.0, 1.0], [0.0, 5.0, 0.0, 0.0]]),
        np.array([[0.0, 0.5, -2.0, 1.0], [0.0, 0.0, 0.0, 0.0]]),
    ]
    # the first column changes: of the others the first row has 1 and 2, then 1 and 2, then 2 and 3
    np.testing.assert_array_equal(reasons_kept(before, after, [0], 2), [0.75, 1.0])
    np.testing.assert_array_equal(reasons_kept(before, [before], [], 3), [1.0, 1.0])
