"""The step that calibrates a model and chooses its decision rule."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evenhand.fairlib.methods.decided import DecidedModel, GroupRule
from evenhand.fairlib.methods.registry import load_model
from evenhand.tasks.classifier_training import HeldOut
from evenhand.tasks.decision_rules import decided_rule
from evenhand.tasks.errors import InputError
from evenhand.tasks.steps.decide_step import decide
from evenhand.tasks.steps.train_step import train
from tests.tasks.steps_of_rows import DECIDING, EQUAL, RULE, SEX, context, encoded


@pytest.fixture
def trained(tmp_path: Path) -> Path:
    """Outputs of a training with held-out rows."""
    parameters = {"method": "logistic", "arguments": {}, "seed": 0, "validate": True}
    found = train(context(tmp_path, parameters, encoded()))
    assert set(found.outputs) == {"model", "held_out"}
    return found.outputs["model"][0].parent


def run(folder: Path, trained: Path, **parameters: Any) -> Any:
    inputs = {"model": trained / "model", "held_out": trained / "held_out.parquet"}
    return decide(context(folder, {**DECIDING, **parameters}, encoded(), **inputs))


def test_without_validate_nothing_is_held_out(tmp_path: Path) -> None:
    parameters = {"method": "logistic", "arguments": {}, "seed": 0}
    assert set(train(context(tmp_path, parameters, encoded())).outputs) == {"model"}


def test_the_step_adds_the_rule_to_the_model(tmp_path: Path, trained: Path) -> None:
    """It leaves the trained one."""
    before = {path.name: path.read_bytes() for path in (trained / "model").iterdir()}
    found = run(tmp_path, trained)
    model = load_model(found.outputs["model"][0])
    held = HeldOut.read(trained / "held_out.parquet")
    calibration, rule, content = decided_rule(DECIDING, held)
    assert isinstance(model, DecidedModel)
    assert (model.calibration, model.rule) == (calibration, rule)
    assert json.loads(found.outputs["rule"][0].read_text()) == json.loads(json.dumps(content))
    assert {path.name: path.read_bytes() for path in (trained / "model").iterdir()} == before
    again = run(tmp_path, trained)
    for one, other in zip(found.outputs.values(), again.outputs.values(), strict=True):
        files = [one[0]] if one[0].is_file() else sorted(one[0].iterdir())
        for path in files:
            twin = other[0] if one[0].is_file() else other[0] / path.name
            assert path.read_bytes() == twin.read_bytes()


def test_thresholds_by_group_keep_their_promise(tmp_path: Path, trained: Path) -> None:
    """They keep it on the held-out rows."""
    found = run(tmp_path, trained, decision=RULE | {"equal": EQUAL}, attribute=SEX)
    model = load_model(found.outputs["model"][0])
    assert isinstance(model.rule, GroupRule)
    assert model.decides_by == "sex"
    rates = model.rule.thresholds.rates
    assert set(rates) == {"F", "M"}
    for key in ("tpr", "fpr"):
        assert abs(rates["F"][key] - rates["M"][key]) <= 0.05 + 1e-9
    data = encoded()
    labels = model.predict(data.X, data.sensitive["sex"])
    assert set(labels.tolist()) == {0, 1}


@pytest.mark.parametrize("least", [5, 2])
def test_a_group_with_few_held_out_rows_is_refused_in_one_line(
    tmp_path: Path, trained: Path, least: int
) -> None:
    data = encoded()
    held = HeldOut.read(trained / "held_out.parquet")
    groups = data.sensitive["sex"].astype(object)
    # two positive and two negative held-out rows, and one group that no held-out row has
    for label in (0, 1):
        groups[held.rows[held.label == label][:2]] = "few"
    rest = np.setdiff1d(np.arange(len(data.y)), held.rows)
    if least == 5:
        groups[rest[:3]] = "none"
    changed = encoded(groups=groups)
    inputs = {"model": trained / "model", "held_out": trained / "held_out.parquet"}
    parameters = {
        **DECIDING,
        "decision": RULE | {"equal": EQUAL},
        "attribute": SEX,
        "min_cell": least,
    }
    given = context(tmp_path / "other", parameters, changed, **inputs)
    if least == 2:
        assert decide(given).outputs
        return
    with pytest.raises(InputError, match="decision.equal: 2 of 4 groups of 'sex'") as caught:
        decide(given)
    message = str(caught.value)
    assert "\n" not in message
    assert "few'" not in message
