"""The step that calibrates a model and chooses its decision rule."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from evenhand.fairlib.evaluation.outcomes import groups_by
from evenhand.fairlib.methods.decided import OTHER_GROUPS, DecidedModel, GroupRule
from evenhand.fairlib.methods.registry import load_model
from evenhand.tasks.classifier_training import HeldOut
from evenhand.tasks.decision_rules import decided_rule, held_out_groups
from evenhand.tasks.errors import InputError
from evenhand.tasks.evaluating.decisions import groups_argument
from evenhand.tasks.execution.dataset import Dataset
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


def with_quarters(few: int = 0) -> Dataset:
    """The rows with a second attribute: a quarter of the people each, but for `few` of the last."""
    data = encoded()
    rng = np.random.default_rng(5)
    quarters = rng.choice(["n", "s", "w"], len(data.y)).astype(object)
    if few:
        quarters[rng.permutation(len(data.y))[:few]] = "e"
    data.sensitive["place"] = quarters
    return data


PLACE = {"name": "place", "bins": None, "names": []}
CROSSED = {"name": "sex&place", "bins": None, "names": [], "crossed": [SEX, PLACE]}


def test_crossed_thresholds_keep_the_limit_for_each_attribute() -> None:
    """A group's rate is a mean of those of the crossed groups in it."""
    data = with_quarters()
    held = HeldOut(
        np.arange(len(data.y)), data.y, expit(3 * data.X[:, 0] + data.X[:, 1] - 1.5), 0.0
    )
    parameters = {
        **DECIDING,
        "decision": RULE | {"equal": {**EQUAL, "tolerance": 0.03}},
        "attribute": CROSSED,
    }
    groups = held_out_groups(parameters, data.sensitive, held)
    _, rule, _ = decided_rule(parameters, held, groups)
    assert isinstance(rule, GroupRule)
    rates = rule.thresholds.rates
    assert len(rates) == 6
    labels = {"tpr": 1, "fpr": 0}
    for attribute, (key, label) in itertools.product(("sex", "place"), labels.items()):
        own = data.sensitive[attribute].astype(str)
        means = []
        for group in np.unique(own):
            # the rate of a group, from those of its crossed groups and their numbers of people
            here = [name for name in rates if group in name.split(" & ")]
            people = [((groups == name) & (data.y == label)).sum() for name in here]
            means.append(np.average([rates[name][key] for name in here], weights=people))
        assert max(means) - min(means) <= 0.03 + 1e-9


def test_small_crossed_groups_are_joined() -> None:
    """The next larger ones join them until there are enough rows of either label."""
    everybody = np.array(["a & x"] * 40 + ["a & y"] * 20 + ["b & x"] * 12 + ["b & y"] * 3)
    sensitive = {
        "one": np.array([name[0] for name in everybody]),
        "two": np.array([name[-1] for name in everybody]),
    }
    label = np.arange(75) % 2
    label[72:] = 1  # b & y has no row of label 0
    held = HeldOut(np.arange(75), label, np.full(75, 0.5), 0.0)
    attribute = {"name": "one&two", "crossed": [{"name": "one"}, {"name": "two"}]}

    def names(least: int) -> dict[str, int]:
        parameters = {"attribute": attribute, "min_cell": least}
        found = held_out_groups(parameters, sensitive, held)
        return dict(zip(*np.unique(found, return_counts=True), strict=True))

    # three people of one label are too few, so the smallest of the others joins them
    assert names(1) == {"a & x": 40, "a & y": 20, OTHER_GROUPS: 15}
    assert names(7) == {"a & x": 40, OTHER_GROUPS: 35}
    # a group that no held-out row has is one of the others too
    held = HeldOut(np.arange(72), label[:72], np.full(72, 0.5), 0.0)
    assert names(5) == {"a & x": 40, "a & y": 20, OTHER_GROUPS: 12}
    # nothing is published about fewer rows
    with pytest.raises(InputError, match="no two crossed groups of 'one&two' have 40 held-out"):
        names(40)


def test_crossed_groups_with_one_label_are_refused() -> None:
    """Otherwise two groups would share thresholds without a word."""
    sensitive = {"one": np.array(["a & b", "a"] * 20), "two": np.array(["c", "b & c"] * 20)}
    held = HeldOut(np.arange(40), np.arange(40) % 2, np.full(40, 0.5), 0.0)
    attribute = {"name": "one&two", "crossed": [{"name": "one"}, {"name": "two"}]}
    with pytest.raises(InputError, match="share one label: rename the groups that contain ' & '"):
        held_out_groups({"attribute": attribute}, sensitive, held)


@pytest.mark.parametrize("few", [4, 0])
def test_a_model_decides_by_crossed_groups(tmp_path: Path, trained: Path, few: int) -> None:
    """Small groups share thresholds, and a combination that no training row has is decided too."""
    data = with_quarters(few)
    folder = tmp_path / "crossed"
    inputs = {"model": trained / "model", "held_out": trained / "held_out.parquet"}
    parameters = {**DECIDING, "decision": RULE | {"equal": EQUAL}, "attribute": CROSSED}
    found = decide(context(folder, parameters | {"min_cell": 1}, data, **inputs))
    model = load_model(found.outputs["model"][0])
    assert model.decides_by == "sex&place"
    assert (OTHER_GROUPS in model.rule.thresholds.rates) == (few > 0)
    assert ("of 8 crossed groups" in found.facts.get("warning", "")) == (few > 0)
    groups = groups_argument(model, data.sensitive)
    labels = model.predict(data.X, **groups)
    raw = pd.DataFrame(data.sensitive)
    assert model.predict(data.X, model.rule.groups_of(raw)).tolist() == labels.tolist()
    unseen = {"sex": np.array(["F", "M"]), "place": np.array(["s", "missing"])}
    assert model.rule.unknown_groups(groups_by(unseen, "sex&place")) == {"M & missing"}
    assert model.rule.decide([0.0, 1.0], ["F & s", "M & s"], [0.5, 0.5]).tolist() == [False, True]
    own = next(name for name in model.rule.thresholds.rates if name != OTHER_GROUPS)
    del model.rule.thresholds.thresholds[own]
    assert model.rule.decide([0.0], [own], [0.5]).tolist() == [False]
    with pytest.raises(InputError, match="must have these columns"):
        groups_argument(model, {"sex": data.sensitive["sex"]})


def few_people(held: HeldOut, names: list[str]) -> Any:
    """Groups of the rows: of each name two positive and two negative held-out rows."""
    groups = encoded().sensitive["sex"].astype(object)
    for label in (0, 1):
        chosen = held.rows[held.label == label]
        for number, name in enumerate(names):
            groups[chosen[2 * number : 2 * number + 2]] = name
    return groups


def decided_by_sex(folder: Path, trained: Path, data: Dataset, least: int) -> Any:
    """Outputs of the step, with thresholds by sex."""
    inputs = {"model": trained / "model", "held_out": trained / "held_out.parquet"}
    parameters = {**DECIDING, "decision": RULE | {"equal": EQUAL}, "attribute": SEX}
    return decide(context(folder, {**parameters, "min_cell": least}, data, **inputs))


def test_a_small_group_shares_the_thresholds_of_a_larger_one(tmp_path: Path, trained: Path) -> None:
    """So does one that no held-out row has, and no rate of few people is published."""
    held = HeldOut.read(trained / "held_out.parquet")
    groups = few_people(held, ["few"])
    rest = np.setdiff1d(np.arange(len(groups)), held.rows)
    groups[rest[:3]] = "none"
    data = encoded(groups=groups)
    found = decided_by_sex(tmp_path / "small", trained, data, 5)
    model = load_model(found.outputs["model"][0])
    rates = model.rule.thresholds.rates
    (own,) = set(rates) - {OTHER_GROUPS}
    assert own in {"F", "M"}
    # the larger group that they share with is named, a few people are not
    (larger,) = {"F", "M"} - {own}
    named = f"3 of 4 groups of 'sex', '{larger}' among them, share one set of thresholds"
    assert named in found.facts["warning"]
    assert "few'" not in found.facts["warning"]
    for key in ("tpr", "fpr"):
        assert abs(rates[own][key] - rates[OTHER_GROUPS][key]) <= 0.05 + 1e-9
    # a group that no training row has is refused as before
    assert model.rule.unknown_groups(["F", "M", "few", "none", "zz"]) == {"zz"}
    raw = pd.DataFrame(data.sensitive)
    labels = model.predict(data.X, **groups_argument(model, data.sensitive))
    assert model.predict(data.X, model.rule.groups_of(raw)).tolist() == labels.tolist()


def test_small_groups_that_suffice_together_are_one_more(tmp_path: Path, trained: Path) -> None:
    held = HeldOut.read(trained / "held_out.parquet")
    data = encoded(groups=few_people(held, ["a", "b", "c"]))
    model = load_model(decided_by_sex(tmp_path / "all", trained, data, 5).outputs["model"][0])
    rates = model.rule.thresholds.rates
    assert set(rates) == {"F", "M", OTHER_GROUPS}
    for key in ("tpr", "fpr"):
        values = [rate[key] for rate in rates.values()]
        assert max(values) - min(values) <= 0.05 + 1e-9
    # each is large enough
    found = decided_by_sex(tmp_path / "each", trained, data, 2)
    assert "warning" not in found.facts
    assert set(load_model(found.outputs["model"][0]).rule.thresholds.rates) == set("FMabc")


def test_one_large_group_alone_is_refused_in_one_line(tmp_path: Path, trained: Path) -> None:
    held = HeldOut.read(trained / "held_out.parquet")
    groups = few_people(held, ["few"])
    groups[groups == "M"] = "F"
    with pytest.raises(InputError, match="decision.equal: 1 of 2 groups of 'sex'") as caught:
        decided_by_sex(tmp_path / "one", trained, encoded(groups=groups), 5)
    message = str(caught.value)
    assert "\n" not in message
    assert "few'" not in message
