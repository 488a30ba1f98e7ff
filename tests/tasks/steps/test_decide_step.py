"""The step that calibrates and decides, and the held-out rows that it learns from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import expit, logit

from evenhand.fairlib.methods.calibration import fit_calibration
from evenhand.fairlib.methods.decided import DecidedModel, GroupRule, ThresholdRule
from evenhand.fairlib.methods.registry import METHODS, load_model, method_class
from evenhand.tasks.classifier_training import HELD_OUT, HeldOut, Learner
from evenhand.tasks.errors import InputError
from evenhand.tasks.steps.decide_step import decide, decided_rule
from evenhand.tasks.steps.train_step import train
from tests.tasks.steps_of_rows import EQUAL, RULE, SEX, context, encoded

WANTED = {"calibration": "auto", "decision": RULE, "seed": 0}


def held_out(n: int = 400, shift: float = 0.0, seed: int = 0) -> HeldOut:
    rng = np.random.default_rng(seed)
    p = rng.beta(1, 2, n)
    label = (rng.random(n) < p).astype(np.int64)
    return HeldOut(np.arange(n), label, expit(logit(p) + shift), shift)


def learner(method: str = "logistic", **arguments: Any) -> Learner:
    return Learner(METHODS[method], lambda: method_class(method)(**arguments))


# held-out rows


def test_held_out_rows_are_written_and_read_bit_for_bit(tmp_path: Path) -> None:
    found = held_out(shift=float(np.log(3.7)))
    found.write(tmp_path / "one.parquet")
    found.write(tmp_path / "two.parquet")
    assert (tmp_path / "one.parquet").read_bytes() == (tmp_path / "two.parquet").read_bytes()
    again = HeldOut.read(tmp_path / "one.parquet")
    assert again.shift == found.shift
    for name in ("rows", "label", "probability"):
        assert np.array_equal(getattr(again, name), getattr(found, name))


def test_without_validation_rows_a_method_is_trained_once_more() -> None:
    """No share of the rows is left out."""
    data = encoded(400)
    one = learner()
    model = one.fit(data)
    assert model.validation_ is None
    found = one.held_out(model, data, seed=3)
    assert len(found.rows) == HELD_OUT * 400
    assert np.array_equal(found.rows, np.unique(found.rows))
    assert found.label.tolist() == data.y[found.rows].tolist()
    assert found.label.mean() == pytest.approx(data.y.mean(), abs=0.01)
    kept = np.setdiff1d(np.arange(400), found.rows)
    other = one.fit(data, kept)
    assert np.array_equal(found.probability, other.predict_proba(data.X[found.rows])[:, 1])
    assert found.shift == other.prior_shift_
    assert np.array_equal(one.held_out(model, data, seed=3).rows, found.rows)
    assert not np.array_equal(one.held_out(model, data, seed=4).rows, found.rows)


def test_validation_rows_of_early_stopping_are_used_as_they_are() -> None:
    data = encoded(400)
    one = learner("gbdt", n_steps=20, max_depth=2, n_jobs=1, n_iter_no_change=3, random_state=0)
    model: Any = one.fit(data)
    found = one.held_out(model, data, seed=0)
    assert np.array_equal(found.rows, model.validation_.rows)
    assert np.array_equal(found.probability, model.validation_.probability[:, 1])
    assert found.label.tolist() == data.y[found.rows].tolist()


@pytest.mark.parametrize("method", ["logistic", "gbdt"])
def test_with_folds_every_row_is_predicted_once(
    monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """The model learned from the other rows."""
    data = encoded(300)
    arguments = {"n_steps": 5, "max_depth": 2, "n_jobs": 1} if method == "gbdt" else {}
    one = learner(method, **arguments)
    model, trained, fit = one.fit(data), [], Learner.fit

    def recorded(self: Learner, data: Any, rows: Any = None, **options: Any) -> Any:
        trained.append(rows)
        return fit(self, data, rows, **options)

    monkeypatch.setattr(Learner, "fit", recorded)
    found = one.held_out(model, data, seed=3, folds=4)
    assert found.rows.tolist() == list(range(300))
    assert found.label.tolist() == data.y.tolist()
    assert [len(rows) for rows in trained] == [225] * 4
    for rows in trained:
        others = np.setdiff1d(np.arange(300), rows)
        expected = fit(one, data, rows).predict_proba(data.X[others])[:, 1]
        assert np.array_equal(found.probability[others], expected)
    again = one.held_out(model, data, seed=3, folds=4)
    assert np.array_equal(again.probability, found.probability)
    data.y[:] = np.arange(300) < 3
    with pytest.raises(InputError, match="too few people of a label for 4 folds"):
        one.held_out(model, data, seed=3, folds=4)


def test_trees_may_keep_the_model_of_the_other_rows() -> None:
    """These are the rows that were not held out."""
    data = encoded(400)
    given: dict[str, Any] = {
        "n_steps": 20,
        "max_depth": 2,
        "n_jobs": 1,
        "validation_fraction": 0.25,
    }
    once: Any = learner("gbdt", refit=False, **given).fit(data)
    kept = np.setdiff1d(np.arange(400), once.validation_.rows)
    assert len(kept) == 300
    share = float(data.y.mean())
    given |= {"n_steps": once.best_step_, "n_iter_no_change": None, "base_score": share}
    alone = learner("gbdt", **given).fit(data, kept)
    assert np.allclose(
        once.predict_proba(data.X[kept]), alone.predict_proba(data.X[kept]), rtol=1e-6
    )
    held = once.validation_
    assert np.allclose(once.predict_proba(data.X[held.rows]), held.probability, rtol=1e-5)
    # the number of steps of a cross-validation has no model of its own
    given = {"n_steps": 20, "max_depth": 2, "n_jobs": 1}
    both = [
        learner("gbdt", refit=refit, **given).fit(data).predict_proba(data.X)
        for refit in (True, False)
    ]
    assert np.array_equal(*both)


def test_too_few_rows_to_hold_out_are_one_line_with_the_keys() -> None:
    data = encoded(6)
    data.y[:] = [0, 0, 0, 0, 0, 1]
    one = learner()
    with pytest.raises(InputError, match="calibration: none and decision: own") as caught:
        one.held_out(one.fit(data), data, seed=0)
    assert "\n" not in str(caught.value)


def test_a_method_that_refuses_the_rows_is_an_input_error() -> None:
    with pytest.raises(InputError, match="method gbdt"):
        learner("gbdt", n_steps=0).fit(encoded(50))


# the rule


def test_the_description_is_what_was_chosen_without_rows() -> None:
    held = held_out()
    calibration, rule, content = decided_rule(WANTED, held)
    assert (calibration, content["losses"]) == fit_calibration(held.probability, held.label)
    assert isinstance(rule, ThresholdRule)
    assert rule.threshold == content["base_rate"] == held.label.mean()
    assert content["rule"] == rule.to_json()
    assert (content["rows"], content["shift"], content["calibration"]) == (
        400,
        0.0,
        calibration.kind,
    )
    assert set(content) == {"rows", "base_rate", "calibration", "losses", "shift", "rule", "curve"}
    counts = [round(400 * point["selected"]) for point in content["curve"]]
    assert all(step == 0 or step >= 5 for step in -np.diff(counts))
    json.dumps(content, allow_nan=False)


def test_class_weights_are_taken_out_before_the_calibration() -> None:
    plain = decided_rule({**WANTED, "calibration": "sigmoid"}, held_out())
    shifted = decided_rule({**WANTED, "calibration": "sigmoid"}, held_out(shift=2.0))
    p = held_out().probability
    assert shifted[0](expit(logit(p) + 2.0)) == pytest.approx(plain[0](p), abs=1e-9)
    assert shifted[2]["shift"] == 2.0


@pytest.mark.parametrize(
    ("decision", "threshold"),
    [
        ({"threshold": "own"}, None),
        ({"threshold": "max_accuracy"}, 0.5),
        ({"threshold": 0.3}, 0.3),
        ({"costs": {"false_positive": 1.0, "false_negative": 4.0}}, 0.2),
    ],
)
def test_every_way_to_decide(decision: dict[str, Any], threshold: float | None) -> None:
    _, rule, content = decided_rule({**WANTED, "decision": RULE | decision}, held_out())
    assert isinstance(rule, ThresholdRule)
    assert rule.threshold == threshold
    assert content["rule"]["threshold"] == threshold


def test_a_quota_that_ties_make_impossible_is_one_line() -> None:
    held = held_out(100)
    same = HeldOut(held.rows, held.label, np.full(100, 0.3), 0.0)
    wanted = {**WANTED, "decision": RULE | {"rate": 0.2}}
    with pytest.raises(InputError, match="decision: a share of 0.2 .* impossible") as caught:
        decided_rule(wanted, same)
    assert "\n" not in str(caught.value)


# the step


@pytest.fixture
def trained(tmp_path: Path) -> Path:
    """Outputs of a training with held-out rows."""
    parameters = {"method": "logistic", "arguments": {}, "seed": 0, "validate": True}
    found = train(context(tmp_path, parameters, encoded()))
    assert set(found.outputs) == {"model", "held_out"}
    return found.outputs["model"][0].parent


def run(folder: Path, trained: Path, **parameters: Any) -> Any:
    inputs = {"model": trained / "model", "held_out": trained / "held_out.parquet"}
    return decide(context(folder, {**WANTED, **parameters}, encoded(), **inputs))


def test_without_validate_nothing_is_held_out(tmp_path: Path) -> None:
    parameters = {"method": "logistic", "arguments": {}, "seed": 0}
    assert set(train(context(tmp_path, parameters, encoded())).outputs) == {"model"}


def test_the_step_adds_the_rule_to_the_model(tmp_path: Path, trained: Path) -> None:
    """It leaves the trained one."""
    before = {path.name: path.read_bytes() for path in (trained / "model").iterdir()}
    found = run(tmp_path, trained)
    model = load_model(found.outputs["model"][0])
    held = HeldOut.read(trained / "held_out.parquet")
    calibration, rule, content = decided_rule(WANTED, held)
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
        **WANTED,
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
