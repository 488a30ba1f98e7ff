"""Controls: which are trained, that the blind one cannot see, and their measured differences."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evenhand.fairlib.evaluation.evaluate import MetricValue, evaluate
from evenhand.fairlib.evaluation.outcomes import Outcomes
from evenhand.fairlib.evaluation.paired import compare
from evenhand.fairlib.methods.decided import DecidedModel, GroupRule
from evenhand.fairlib.methods.registry import METHODS, load_model, method_class
from evenhand.tasks.evaluating.measured_controls import (
    Blind,
    Majority,
    MeasuredControl,
    compared_with,
    compared_with_itself,
    comparisons,
    controls_content,
)
from evenhand.tasks.execution.dataset import Dataset
from evenhand.tasks.steps.controls_step import controls
from tests.tasks.steps_of_rows import EQUAL, RULE, context, encoded

WANTED = {"calibration": "auto", "decision": RULE, "seed": 0, "method": "logistic", "arguments": {}}
TOKEN = "consistency.words"
TOKENS = {TOKEN: MetricValue(0.5)}
SETTINGS = {"draws": 50, "level": 0.95, "min_cell": 5, "seed": 0, "intersections": False}


def trained(folder: Path, data: Dataset | None = None, **parameters: Any) -> dict[str, Path]:
    given = context(folder, {**WANTED, **parameters}, encoded() if data is None else data)
    return {name: path for name, (path, _) in controls(given).outputs.items()}


def without_sensitive_input() -> Dataset:
    data = encoded()
    groups = {"skill": [0], "noise": [1]}
    return Dataset(data.X[:, 1:], data.y, data.rows, data.names[1:], groups, data.sensitive, {})


def test_a_method_without_mitigation_is_its_own_plain_control(tmp_path: Path) -> None:
    assert set(trained(tmp_path)) == {"blind", "majority"}


def test_one_with_mitigation_has_both(tmp_path: Path) -> None:
    assert set(trained(tmp_path, method="reweigh-logistic")) == {"plain", "blind", "majority"}


def test_thresholds_by_group_are_a_mitigation(tmp_path: Path) -> None:
    found = trained(tmp_path, decision=RULE | {"equal": EQUAL})
    assert set(found) == {"plain", "blind", "majority"}
    for name in ("plain", "blind"):
        assert not isinstance(load_model(found[name]).rule, GroupRule)


def test_without_a_sensitive_input_nothing_is_left_out(tmp_path: Path) -> None:
    data = without_sensitive_input()
    assert data.sensitive_positions() == []
    assert set(trained(tmp_path, data, method="reweigh-logistic")) == {"plain", "majority"}
    assert set(trained(tmp_path, data)) == {"majority"}


def test_the_commonest_answer_is_of_the_training_rows(tmp_path: Path) -> None:
    content = json.loads(trained(tmp_path)["majority"].read_text())
    share = encoded().y.mean()
    assert content == {"shares": [pytest.approx(1 - share), share]}


def test_plain_is_the_learner_of_the_method_on_all_columns(tmp_path: Path) -> None:
    data = encoded()
    found = load_model(trained(tmp_path, method="reweigh-logistic")["plain"])
    direct = method_class(METHODS["reweigh-logistic"].plain)().fit(data.X, data.y)
    assert isinstance(found, DecidedModel)
    assert np.array_equal(found.base.predict_proba(data.X), direct.predict_proba(data.X))


def test_blind_never_sees_the_sensitive_column(tmp_path: Path) -> None:
    """It sees it neither in training nor after."""
    data = encoded()
    found = load_model(trained(tmp_path)["blind"])
    hidden = method_class("logistic")().fit(data.with_zeros_in([0]).X, data.y)
    blind = Blind(found, data.sensitive_positions())
    assert np.array_equal(
        found.base.predict_proba(data.X * [0, 1, 1]), hidden.predict_proba(data.X * [0, 1, 1])
    )
    flipped = data.X.copy()
    flipped[:, 0] = 1 - flipped[:, 0]
    assert np.array_equal(blind.predict_proba(data.X), blind.predict_proba(flipped))
    assert np.array_equal(blind.predict(data.X), blind.predict(flipped))
    assert blind.classes_.tolist() == [0, 1]
    # the column tells most: who cannot see it is right less often
    seeing = method_class("logistic")().fit(data.X, data.y)
    assert (blind.predict(data.X) == data.y).mean() < (
        seeing.predict(data.X) == data.y
    ).mean() - 0.05


def test_a_job_without_decisions_has_controls_without_them(tmp_path: Path) -> None:
    own = {"calibration": "none", "decision": RULE | {"threshold": "own"}}
    assert not isinstance(load_model(trained(tmp_path, **own)["blind"]), DecidedModel)
    calibrated = {**own, "calibration": "sigmoid"}
    model = load_model(trained(tmp_path / "b", **calibrated)["blind"])
    assert model.calibration.kind == "sigmoid"
    assert model.rule.threshold is None


def test_reruns_give_the_same_bytes(tmp_path: Path) -> None:
    one, other = (
        trained(tmp_path, method="reweigh-logistic"),
        trained(tmp_path, method="reweigh-logistic"),
    )
    for name, path in one.items():
        files = [path] if path.is_file() else sorted(path.iterdir())
        for file in files:
            twin = other[name] if path.is_file() else other[name] / file.name
            assert file.read_bytes() == twin.read_bytes()


# measured


@pytest.mark.parametrize(("share", "label"), [(0.2, 0), (0.5, 0), (0.7, 1)])
def test_the_majority_by_hand(share: float, label: int) -> None:
    model, X = Majority((1 - share, share)), np.zeros((3, 2), np.float32)
    assert model.predict(X).tolist() == [label] * 3
    assert model.predict_proba(X).tolist() == [[1 - share, share]] * 3


def outcomes(seed: int, n: int = 300) -> Outcomes:
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    score = np.clip(0.25 + 0.5 * y + rng.normal(0, 0.2, n), 0.01, 0.99)
    group = np.where(np.arange(n) % 3 == 0, "a", "b")
    return Outcomes(y, (score > 0.5).astype(int), score, {"g": group})


@pytest.mark.parametrize("draws", [0, 50])
def test_a_comparison_with_itself_needs_no_draws(draws: int) -> None:
    model = outcomes(0)
    model.sensitive["few"] = np.where(np.arange(300) < 4, "c", "d")  # below min_cell
    settings = SETTINGS | {"draws": draws}
    found, own = compared_with_itself(evaluate(model, **settings))
    assert {name: MetricValue(**value) for name, value in found.items()} == dict(
        compare(model, model, **settings, identical=True).differences
    )
    assert own == compared_with(model, model, settings)[1]
    assert None in own.values()


def test_differences_are_paired_and_zero_against_itself() -> None:
    model, plain = outcomes(0), outcomes(1)
    own = {"certificate.drf": MetricValue(0.5, 0.4, 0.6), "certificate.dif": MetricValue(0.2)}
    measured = [
        MeasuredControl(
            "plain",
            plain,
            {"certificate.drf": MetricValue(0.75), **TOKENS},
            by_sentence={TOKEN: np.zeros(8)},
        ),
        MeasuredControl(
            "blind", plain, {"certificate.drf": MetricValue.insufficient("few")}, "plain"
        ),
        MeasuredControl("method", model, own, "method"),
    ]
    known = MeasuredControl(
        "method", model, own | TOKENS, by_sentence={TOKEN: np.repeat([0.0, 1.0], 4)}
    )
    content = json.loads(json.dumps(controls_content(known, measured, SETTINGS), allow_nan=False))
    assert (content["rows"], content["level"]) == (300, 0.95)
    plain_found = content["controls"]["plain"]
    expected = compare(model, plain, **SETTINGS).to_json()["differences"]
    assert {name: plain_found["differences"][name] for name in expected} == expected
    drf = plain_found["differences"]["certificate.drf"]
    assert (drf["value"], drf["low"]) == (-0.25, None)
    assert plain_found["metrics"]["certificate.drf"] == 0.75
    same = plain_found["differences"][TOKEN]
    assert same["value"] == 0.5
    assert 0.0 <= same["low"] < 0.5 < same["high"] <= 1.0
    assert plain_found["metrics"]["accuracy"] == (plain.y_pred == plain.y_true).mean()
    assert "certificate.dif" not in plain_found["differences"]
    assert "certificate.drf" not in content["controls"]["blind"]["differences"]
    assert content["controls"]["blind"]["same_as"] == "plain"
    for found in content["controls"]["method"]["differences"].values():
        assert found["value"] in (0.0, None)
    read = comparisons(content)
    assert read["plain"].differences["accuracy"].value == expected["accuracy"]["value"]
    assert read["plain"].n == 300
