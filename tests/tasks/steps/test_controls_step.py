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
from evenhand.fairlib.methods.preprocessed_gbdt import kamiran_calders_weights
from evenhand.fairlib.methods.registry import METHODS, load_model, method_class
from evenhand.tasks.classifier_training import control_learner
from evenhand.tasks.evaluating.measured_controls import (
    Blind,
    Majority,
    MeasuredControl,
    compared_with,
    compared_with_itself,
    comparisons,
    controls_content,
)
from evenhand.tasks.evaluating.simple_mitigations import attributes_of, reweighing
from evenhand.tasks.execution.dataset import Dataset
from evenhand.tasks.steps.controls_step import controls, own_settings
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
    outputs = set(trained(tmp_path, method="reweigh-logistic"))
    assert outputs == {"plain", "blind", "majority", "simple_mitigations"}


def test_settings_that_a_job_of_the_learner_has_not_are_named() -> None:
    arguments = {"method": "budro", "arguments": {"max_depth": 3}, "seed": 0}
    settings = own_settings(control_learner(arguments, 100))
    assert settings["eta"] == {"value": 0.1, "default": 0.05}
    assert settings["max_depth"]["value"] == 3
    assert "random_state" not in settings
    assert (
        own_settings(control_learner({**arguments, "method": "reweigh", "arguments": {}}, 1)) == {}
    )


def test_thresholds_by_group_are_a_mitigation(tmp_path: Path) -> None:
    outputs = trained(tmp_path, with_proxy(), decision=RULE | {"equal": EQUAL})
    names = {"plain", "blind", "reweigh", "leave_out"}
    assert set(outputs) == names | {"majority", "simple_mitigations"}
    for name in names:
        assert not isinstance(load_model(outputs[name]).rule, GroupRule)


# with a simple mitigation


def with_proxy(n: int = 600) -> Dataset:
    """Rows whose third column follows the sensitive one, which alone decides beside skill."""
    data = encoded(n)
    data.X[:, 2] = data.X[:, 0] + 0.1 * data.X[:, 2]
    return data


def choices_of(outputs: dict[str, Path]) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(outputs["simple_mitigations"].read_text())
    return content


def test_leave_out_reads_no_proxy_feature(tmp_path: Path) -> None:
    data = with_proxy()
    outputs = trained(tmp_path, data, method="exponentiated-gradient")
    choice = choices_of(outputs)["leave_out"]
    assert choice["columns"] == ["noise"]
    assert choice["aucs"]["noise"] > 0.95 > 0.6 > choice["aucs"]["skill"]
    assert 0.5 < choice["threshold"] <= choice["aucs"]["noise"]
    direct = method_class("logistic")().fit(data.with_zeros_in([0, 2]).X, data.y)
    model = load_model(outputs["leave_out"])
    rows = data.X * [0, 1, 0]
    assert np.array_equal(model.base.predict_proba(rows), direct.predict_proba(rows))


def test_reweigh_is_the_learner_on_weighted_rows(tmp_path: Path) -> None:
    data = encoded()
    outputs = trained(tmp_path, method="exponentiated-gradient")
    weights = kamiran_calders_weights(data.sensitive["sex"], data.y)
    direct = method_class("logistic")().fit(data.X, data.y, sample_weight=weights)
    model = load_model(outputs["reweigh"])
    assert np.array_equal(model.base.predict_proba(data.X), direct.predict_proba(data.X))
    unweighted = method_class("logistic")().fit(data.X, data.y)
    assert not np.allclose(unweighted.predict_proba(data.X), direct.predict_proba(data.X))


def test_weights_are_of_the_crossed_groups(tmp_path: Path) -> None:
    data = encoded()
    age = np.where(np.arange(600) % 3 == 0, "old", "young")
    data.sensitive["age"] = age
    crossed = np.char.add(data.sensitive["sex"].astype(str), age)
    expected = kamiran_calders_weights(crossed, data.y)
    assert np.allclose(reweighing(data, ["sex", "age"]), expected)
    assert np.allclose(
        reweighing(data, ["sex"]), kamiran_calders_weights(data.sensitive["sex"], data.y)
    )


def test_a_method_that_reweighs_is_its_own_reweigh(tmp_path: Path) -> None:
    parameters = {"method": "reweigh-logistic"}
    choices = choices_of(trained(tmp_path, with_proxy(), **parameters))
    assert (choices["reweigh"]["is_trained"], choices["reweigh"]["same_as"]) == (False, "method")
    assert choices["leave_out"]["is_trained"]
    equal = {**parameters, "decision": RULE | {"equal": EQUAL}}
    assert choices_of(trained(tmp_path / "b", with_proxy(), **equal))["reweigh"]["is_trained"]


def test_without_a_proxy_feature_leave_out_is_blind(tmp_path: Path) -> None:
    choice = choices_of(trained(tmp_path, method="reweigh-logistic"))["leave_out"]
    assert (choice["is_trained"], choice["same_as"], choice["columns"]) == (False, "blind", [])


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"groups": np.repeat("F", 600)}, "no sensitive attribute"),
        ({"on_disk": "rows"}, "do not fit into memory"),
    ],
)
def test_a_missing_control_has_a_reason(
    tmp_path: Path, changed: dict[str, Any], reason: str
) -> None:
    data = encoded()
    if "groups" in changed:
        data.sensitive["sex"] = changed["groups"]
    on_disk = {name: value for name, value in changed.items() if name == "on_disk"}
    outputs = trained(tmp_path, data, method="reweigh", **on_disk, arguments={"n_steps": 3})
    for choice in choices_of(outputs).values():
        assert not choice["is_trained"]
        assert choice["same_as"] is None
        assert reason in choice["reason"]


def test_only_the_attributes_of_the_job_count() -> None:
    data = encoded()
    data.sensitive["age"] = np.where(np.arange(600) % 3 == 0, "old", "young")
    data.sensitive["one"] = np.repeat("same", 600)
    assert attributes_of(data, {}) == ["sex", "age"]
    assert attributes_of(data, {"sensitive": ["age"]}) == ["age"]


def test_a_missing_control_is_insufficient_evidence() -> None:
    model = outcomes(0)
    plain = MeasuredControl("plain", outcomes(1), {})
    content = controls_content(MeasuredControl("method", model, {}), [plain], SETTINGS)
    content["missing"] = {"reweigh": "no room"}
    compared = comparisons(content)
    value = compared["reweigh"].differences["accuracy"]
    assert (value.value, value.status, value.reason) == (None, "insufficient_evidence", "no room")
    assert set(compared["reweigh"].differences) == set(compared["plain"].differences)


def test_without_a_sensitive_input_nothing_is_left_out(tmp_path: Path) -> None:
    data = without_sensitive_input()
    assert data.sensitive_positions() == []
    outputs = set(trained(tmp_path, data, method="reweigh-logistic"))
    assert outputs == {"plain", "majority", "simple_mitigations"}
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
