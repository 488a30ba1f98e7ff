"""Audits of predictions: with labels and without, scores and decisions, and models that are
called.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from fairlearn.metrics import MetricFrame, selection_rate

from evenhand.fairlib.distances.metric_base import mean_squared_distance
from evenhand.fairlib.evaluation import audit_predictions
from evenhand.fairlib.evaluation.evaluate import MetricValue, evaluate
from evenhand.fairlib.evaluation.flips import flips
from evenhand.fairlib.evaluation.outcomes import Outcomes
from evenhand.fairlib.evaluation.predictions import _copies, _DecisionRule
from evenhand.fairlib.evaluation.transport_adversary import audit_losses
from evenhand.fairlib.numerics import log_losses


def people(n: int = 400, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    sex, race = rng.choice(["F", "M"], n), rng.choice(["a", "b", "c"], n)
    score = rng.beta(2, 2, n) * np.where(sex == "F", 0.8, 1.0)
    return pd.DataFrame({"sex": sex, "race": race, "score": score, "hired": rng.random(n) < score})


def test_numbers_are_those_of_an_evaluation_of_the_same_rows() -> None:
    frame = people()
    found = audit_predictions(
        frame["score"], frame[["sex", "race"]], frame["hired"], positive=True, draws=50
    )
    outcomes = Outcomes(
        frame["hired"].to_numpy().astype(int),
        (frame["score"] >= 0.5).to_numpy().astype(int),
        frame["score"].to_numpy(),
        {name: frame[name].to_numpy(dtype=object) for name in ("sex", "race")},
    )
    assert found.evaluation.metrics == evaluate(outcomes, draws=50, intersections=True).metrics
    assert found.reliability is not None
    assert set(found.histograms) == {"sex", "race"}


def test_without_labels_only_selection_is_compared() -> None:
    frame = people()
    found = audit_predictions(frame["score"], frame[["sex"]], draws=0)
    frames = MetricFrame(
        metrics=selection_rate,
        y_true=frame["hired"],
        y_pred=frame["score"] >= 0.5,
        sensitive_features=frame["sex"],
    )
    assert {name: metric.value for name, metric in found.evaluation.metrics.items()} == {
        "demographic_parity_difference.sex": pytest.approx(frames.difference()),
        "impact_ratio.sex": pytest.approx(frames.ratio()),
    }
    assert found.reliability is None
    assert list(found.rates("sex")["selected"]) == pytest.approx(list(frames.by_group))
    assert "tpr" not in found.rates("sex")
    assert found.chart("sex").to_dict()["vconcat"]


def test_the_scoring_rate_is_the_share_above_the_median() -> None:
    score, sex = np.array([0.1, 0.2, 0.2, 0.3, 0.4, 0.6]), np.array(["F", "F", "F", "M", "M", "M"])
    found = audit_predictions(score, {"sex": sex}, threshold="median", draws=0, min_cell=1)
    assert list(found.rates("sex")["selected"]) == [0.0, 1.0]
    # with a tie at the median, a score equal to it is not above it
    tied = audit_predictions(
        [0.2, 0.2, 0.2, 0.9], {"sex": list("FMFM")}, threshold="median", draws=0, min_cell=1
    )
    assert list(tied.rates("sex")["selected"]) == [0.0, 0.5]


def test_decisions_alone_have_no_metric_of_probabilities() -> None:
    frame = people()
    found = audit_predictions(
        frame["score"] >= 0.6, frame[["sex"]], frame["hired"], positive=True, draws=50
    )
    names = {name.partition(".")[0] for name in found.evaluation.metrics}
    assert {"accuracy", "gap_max", "impact_ratio"} <= names
    assert not names & {"auc", "log_loss", "brier", "ece", "calibration_gap"}
    assert found.reliability is None
    assert not found.histograms


def test_a_model_that_is_called_is_asked_about_flipped_rows() -> None:
    rows = pd.DataFrame({"sex": ["F", "M"] * 50, "skill": np.linspace(0, 1, 100)})

    def model(features: pd.DataFrame) -> Any:
        # sex decides between .4 and .6 of skill alone
        score = np.clip(features["skill"] + np.where(features["sex"] == "M", 0.1, -0.1), 0, 1)
        return np.column_stack([1 - score, score])

    found = audit_predictions(model, rows[["sex"]], features=rows, draws=0)
    alike = np.mean((rows["skill"] - 0.1 >= 0.5) == (rows["skill"] + 0.1 >= 0.5))
    assert found.evaluation.metrics["consistency.sex"].value == pytest.approx(alike)
    blind = audit_predictions(lambda rows: rows["skill"], rows[["sex"]], features=rows, draws=0)
    assert blind.evaluation.metrics["consistency.sex"].value == 1.0


def test_missing_groups_are_a_group() -> None:
    found = audit_predictions(
        [0.1, 0.9, 0.9, 0.2], {"race": pd.Series(["a", None, "a", np.nan])}, draws=0, min_cell=1
    )
    assert list(found.rates("race").index) == ["a", "missing"]


def test_it_does_not_depend_on_the_order_of_the_rows() -> None:
    frame = people(300)
    mixed = frame.sample(frac=1, random_state=1)
    one, other = (
        audit_predictions(rows["score"], rows[["sex"]], rows["hired"], positive=True, draws=60)
        for rows in (frame, mixed)
    )
    assert one.evaluation == other.evaluation


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"prediction": [0.1, 1.2]}, "1 of 2 values are missing or outside"),
        ({"prediction": [0.1, float("nan")]}, "1 of 2 values are missing or outside"),
        ({"prediction": ["yes", "no"]}, "expected one number"),
        ({"prediction": [0.1, 0.2, 0.3]}, "rows"),
        ({"label": [0, 2]}, "one is the positive 1"),
        (
            {
                "label": [0, 1, 2],
                "prediction": [0.1, 0.9, 0.5],
                "sensitive_features": {"sex": ["F", "M", "F"]},
            },
            "got 3 values, expected two",
        ),
        ({"label": [0, None]}, "none missing"),
        ({"label": [1, None]}, "none missing"),
        ({"sensitive_features": {}}, "sensitive_features: got no column"),
        ({"prediction": lambda rows: rows}, "features: got none"),
    ],
)
def test_bad_input(changes: dict[str, Any], says: str) -> None:
    given: dict[str, Any] = {
        "prediction": [0.1, 0.9],
        "sensitive_features": {"sex": ["F", "M"]},
        "label": [0, 1],
    }
    with pytest.raises(ValueError, match=says):
        audit_predictions(**given | changes, draws=0)


def test_certificates_of_rows_in_the_coordinates_of_a_metric() -> None:
    rng = np.random.default_rng(3)
    points = rng.normal(size=(60, 2))
    label = rng.integers(0, 2, 60)
    score = rng.uniform(0.05, 0.95, 60)
    sensitive = pa.table({"group": rng.choice(["a", "b"], 60)})
    found = audit_predictions(score, sensitive, label, points=points, budget=0.02, draws=20)
    flipped = flips(points, (score >= 0.5).astype(int), 0.02, draws=20)
    both = log_losses(np.stack([1.0 - score, score], axis=1))
    risen = audit_losses(both, points, label, 0.02, draws=20)
    metrics = found.evaluation.metrics
    assert metrics["certificate.flips"] == MetricValue(flipped.share, flipped.low, flipped.high)
    assert metrics["certificate.drf"] == MetricValue(risen.gap, risen.low, risen.high)
    assert 0 < metrics["certificate.flips"].value < 1
    assert (found.evaluation.settings["budget"], found.evaluation.settings["compared"]) == (
        0.02,
        60,
    )
    # decisions alone have no losses; a callable gives the coordinates of the rows that are compared
    decided = audit_predictions(
        score >= 0.5, sensitive, label, points=lambda rows: points[rows], draws=0
    )
    assert "certificate.drf" not in decided.evaluation.metrics
    share = decided.evaluation.settings["budget"] / mean_squared_distance(None, points)
    assert share == pytest.approx(0.001)


def test_a_score_at_the_threshold_is_selected() -> None:
    score = np.array([0.2, 0.5, 0.5, 0.8])
    at_threshold = _DecisionRule.of(0.5, score)
    assert at_threshold(score).tolist() == [0, 1, 1, 1]
    above_median = _DecisionRule.of("median", score)
    assert above_median(score).tolist() == [0, 0, 0, 1]


@pytest.mark.parametrize("positive", [0, 1])
def test_the_favourable_label_may_be_either(positive: int) -> None:
    frame = people()
    label = frame["hired"].astype(int)

    def ratio(favourable: int | None) -> float | None:
        audited = audit_predictions(
            frame["score"],
            frame[["sex"]],
            label,
            positive=positive,
            favourable=favourable,
            draws=0,
        )
        return audited.evaluation.metrics["impact_ratio.sex"].value

    assert ratio(positive) == ratio(None)
    assert ratio(1 - positive) != ratio(None)


def test_an_attribute_of_one_value_has_no_copies() -> None:
    features = pd.DataFrame({"sex": ["F", "F"], "race": ["a", "b"], "age": [30, 40]})
    copies = _copies(features, {"sex": features["sex"], "race": features["race"]})
    assert list(copies) == ["race"]
    assert [copy["race"].tolist() for copy in copies["race"]] == [["a", "a"], ["b", "b"]]


def test_the_earlier_name_of_sensitive_features_still_works() -> None:
    with pytest.warns(DeprecationWarning, match="use sensitive_features"):
        earlier = audit_predictions([0.1, 0.9], sensitive={"sex": ["F", "M"]}, draws=0)
    now = audit_predictions([0.1, 0.9], sensitive_features={"sex": ["F", "M"]}, draws=0)
    assert earlier.evaluation == now.evaluation
    with pytest.raises(ValueError, match="give one of the two"):
        audit_predictions([0.1], {"sex": ["F"]}, sensitive={"sex": ["F"]})
