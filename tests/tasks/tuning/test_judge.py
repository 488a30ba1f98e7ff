"""The step that judges a candidate: which rows train, which are judged, and under which rules."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from scipy.special import expit

from evenhand.fairlib.evaluation.metrics import balanced_accuracy
from evenhand.fairlib.evaluation.outcomes import Outcomes, groups_by
from evenhand.fairlib.execution import derive_seed
from evenhand.fairlib.methods.comparators.logistic import LogisticClassifier
from evenhand.fairlib.methods.gbdt import GBDTClassifier
from evenhand.fairlib.methods.row_groups import fold_of_rows
from evenhand.fairlib.preprocessing.encoder import ColumnSpec, TableEncoder
from evenhand.fairlib.preprocessing.terms import Terms
from evenhand.tasks.classifier_training import Learner
from evenhand.tasks.errors import InputError
from evenhand.tasks.evaluating.decisions import Decisions
from evenhand.tasks.evaluating.token_moves import moved_to
from evenhand.tasks.execution.dataset import Dataset
from evenhand.tasks.execution.step import StepContext
from evenhand.tasks.tuning.folds import cells_of, check_folds, fold_numbers
from evenhand.tasks.tuning.judge import (
    DIVISIONS,
    SCORES,
    Answers,
    Exchanges,
    Judged,
    Predictions,
    cross_decided,
    judge,
    measured,
    reach,
)
from evenhand.tasks.tuning.trial_search import rounded_metrics
from tests.tasks.steps_of_rows import write_dataset

ROWS, FOLDS = 300, 3


def rule(equal: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """A rule of decisions as the step gets it."""
    decision = {"threshold": None, "rate": None, "costs": None, "equal": equal, **changes}
    found: dict[str, Any] = {"decision": decision}
    return found | ({"attribute": {"name": "sex", "bins": None, "names": []}} if equal else {})


def by_sex(criterion: str, tolerance: float) -> dict[str, Any]:
    """Thresholds by group."""
    return rule(
        {"criterion": criterion, "tolerance": tolerance, "attribute": "sex"}, threshold="balanced"
    )


OWN, BALANCED = rule(threshold="own"), rule(threshold="balanced")
RULES = [
    OWN,
    BALANCED,
    rule(threshold=0.3),
    rule(rate=0.4),
    rule(costs={"false_positive": 1.0, "false_negative": 3.0}),
    by_sex("demographic_parity", 0.0),
    by_sex("demographic_parity", 0.3),
    by_sex("equalized_odds", 0.1),
]
PARAMETERS: dict[str, Any] = {
    "method": "logistic",
    "arguments": {},
    "seed": 0,
    "kind": "",
    "leave_out": [],
    "calibration": "none",
    "rules": [OWN],
    "min_cell": 5,
    "folds": FOLDS,
    "fold_seed": 0,
    "part": 1,
    "measure": {
        "counterfactuals": {},
        "terms": {},
        "draws": 50,
        "level": 0.9,
        "min_cell": 5,
        "intersections": False,
        "score_intervals": False,
        "test_share": 0.2,
        "predicted": [],
    },
}


def data_of(rows: int = ROWS) -> Dataset:
    """A label that follows the group, which is the first column, and a little the second column."""
    rng = np.random.default_rng(0)
    woman = rng.random(rows) < 0.5
    other = rng.normal(size=rows)
    y = (2.0 * woman + 0.5 * other + rng.normal(size=rows) > 1.0).astype(np.int64)
    X = np.column_stack([woman, other]).astype(np.float32)
    sex = np.where(woman, "F", "M").astype(object)
    return Dataset(
        X, y, np.arange(rows), ["sex=F", "other"], {"sex": [0], "other": [1]}, {"sex": sex}, {}
    )


def judged(folder: Path, data: Dataset | None = None, **changes: Any) -> dict[str, Any]:
    """What the step writes; of a single rule its metrics too."""
    if not (folder / "train").exists():
        write_dataset(folder / "train", data or data_of(), {"sex": "category", "other": "number"})
        frame = pd.DataFrame({"sex": ["F", "M"], "other": [0.0, 1.0]})
        columns = [ColumnSpec("sex", "binary", positive="F"), ColumnSpec("other", "standard")]
        TableEncoder(columns).fit(frame).save(folder / "encoder.json")
    inputs = {"train": folder / "train", "encoder": folder / "encoder.json"}
    context = StepContext({**PARAMETERS, **changes}, inputs, folder, lambda *_: None)
    (path, _) = judge(context).outputs["judged"]
    content: dict[str, Any] = json.loads(path.read_text())
    return content | (
        {"metrics": content["rules"][0].get("metrics")} if len(content["rules"]) == 1 else {}
    )


def measuring(**changes: Any) -> dict[str, Any]:
    """Settings of the evaluation."""
    found: dict[str, Any] = {**PARAMETERS["measure"], **changes}
    return found


COPIES = {"sex": {"sex": ["F", "M"]}, "both": {"sex": ["F", "M"], "other": [-1.0, 1.0]}}


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[np.ndarray[Any, Any]]:
    """Rows of each training, by their number in the table."""
    found: list[np.ndarray[Any, Any]] = []
    fit = Learner.fit

    def recorded(self: Learner, data: Dataset, rows: Any = None, **options: Any) -> Any:
        found.append(data.rows if rows is None else data.rows[rows])
        return fit(self, data, rows, **options)

    monkeypatch.setattr(Learner, "fit", recorded)
    return found


@pytest.mark.parametrize("kind", ["", "plain", "blind"])
def test_each_row_is_judged_once_by_a_model_of_the_other_folds(
    tmp_path: Path, trained: list[Any], kind: str
) -> None:
    content = judged(tmp_path, kind=kind)
    assert content["rows"] == ROWS
    held = [sorted(set(range(ROWS)) - set(rows.tolist())) for rows in trained]
    assert sorted(row for rows in held for row in rows) == list(range(ROWS))
    assert [len(rows) for rows in held] == [100, 100, 100]
    assert (
        content["metrics"]["balanced_accuracy"]["low"]
        < content["metrics"]["balanced_accuracy"]["value"]
    )


def test_the_first_rung_is_one_fold(tmp_path: Path, trained: list[Any]) -> None:
    """It is judged by a model of a third of the others."""
    content = judged(tmp_path, part=3)
    (rows,) = trained
    assert content["rows"] == 100
    assert len(rows) == 67  # of 200
    label = data_of().y
    assert label[rows].mean() == pytest.approx(label.mean(), abs=0.02)  # stratified
    assert content["metrics"]["balanced_accuracy"]["low"] is None


def test_answers_about_terms_keep_their_rows() -> None:
    """Two folds of two rows; the second row of each has a term, and so has the first row of the
    second.
    """
    first = exchanged([0.2, 0.6], rows=[1], own=[0], versions=[-1, 0], copies=[[0.6], [0.4]])
    second = exchanged(
        [0.9, 0.5], rows=[0, 1], own=[1, 1], versions=[1, 1], copies=[[0.8, 0.45], [0.65, 0.1]]
    )
    whole, data = Predictions.concatenate([first, second]), data_of().take(np.arange(4))
    parameters = {**PARAMETERS, "rules": [OWN, rule(threshold=0.3), rule(rate=0.5)], "min_cell": 1}
    found = cross_decided(parameters, data, whole, np.array([0, 0, 1, 1]))
    own, low, half = (one for one in found if isinstance(one, Judged))
    moves = own.moves["identity"]
    assert moves.rows.tolist() == [1, 2, 3]
    assert moves.versions.tolist() == [-1, 0, 1, 1]
    assert moves.probability.tolist() == [[0.6, 0.4], [0.8, 0.65], [0.45, 0.1]]
    assert moves.same.tolist() == [False, True, False]
    assert low.moves["identity"].same.tolist() == [True, True, False]
    # half the people of the other part are above .7, or above .4
    assert half.predicted.tolist() == [0, 0, 1, 1]
    assert half.moves["identity"].same.tolist() == [True, True, False]
    outcomes = Outcomes(data.y, own.predicted, own.score, {})
    settings = {"draws": 0, "level": 0.9, "min_cell": 1, "seed": 0}
    metrics, _ = moves.metrics("identity", Terms("comment", (("a", "b"),)), outcomes, settings)
    # |.4 - .6|, |.8 - .9| and |.45 - .5|: a copy with the own term does not count
    assert metrics["token_gap.identity"].value == pytest.approx((0.2 + 0.1 + 0.05) / 3)
    assert metrics["consistency.identity"].value == pytest.approx(1 / 3)


def test_each_of_three_labels_has_a_probability(
    tmp_path: Path,
) -> None:
    """The most probable is the answer."""
    data, names = data_of(), ["dj", "nurse", "poet"]
    data = dataclasses.replace(data, y=data.y + (data.X[:, 1] > 1.0))
    found = judged(
        tmp_path, data, method="gbdt", arguments={"n_steps": 5, "n_jobs": 1}, classes=names
    )
    fold = fold_of_rows(cells_of(data), FOLDS, derive_seed(0, "tune"))
    predicted = np.empty(ROWS, dtype=np.int64)
    for number in range(FOLDS):
        rows = np.flatnonzero(fold != number)
        model = GBDTClassifier(
            n_steps=5, n_jobs=1, refit=False, random_state=derive_seed(0, "train")
        )
        model.fit(data.X[rows], data.y[rows])
        predicted[fold == number] = model.predict(data.X[fold == number])
    rates = [float((predicted[data.y == k] == k).mean()) for k in range(3)]
    assert [found["metrics"][f"recall.{name}"]["value"] for name in names] == pytest.approx(rates)
    assert found["metrics"]["balanced_accuracy"]["value"] == pytest.approx(np.mean(rates))
    majority = judged(tmp_path, data, method="gbdt", kind="majority", classes=names)["metrics"]
    assert majority["balanced_accuracy"]["value"] == pytest.approx(1 / 3)


def test_the_move_among_three_labels_is_half_of_all_changes() -> None:
    assert moved_to(np.array([0.4]), np.array([0.9])).tolist() == [0.4]
    own, copies = (
        np.array([[0.5, 0.3, 0.2], [1.0, 0.0, 0.0]]),
        np.array([[0.1, 0.6, 0.3], [0.0, 0.0, 1.0]]),
    )
    assert moved_to(copies, own) == pytest.approx([0.4, 1.0])


def exchanged(score: Any, rows: Any, own: Any, versions: Any, copies: Any) -> Predictions:
    """Predictions about the rows of a fold, and about copies of those with a term."""

    def answers(values: Any) -> Answers:
        found = np.array(values)
        return Answers(found, (found >= 0.5).astype(np.int64), None)

    moved = Exchanges(np.array(rows), np.array(own), np.array(versions), answers(copies))
    return Predictions(answers([score]), {}, 0.0, None, {"identity": moved})


@pytest.mark.parametrize("calibration", ["none", "sigmoid"])
def test_a_rows_label_decides_nothing_about_its_part(calibration: str) -> None:
    """Calibration and rules are chosen on the other parts: there the label does count."""
    data, rng = data_of(), np.random.default_rng(1)
    score, uniform = rng.random((2, 1, ROWS))
    part = np.arange(ROWS) % FOLDS
    found = Predictions(Answers(score, (score > 0.5).astype(np.int64), uniform), {}, 0.0)
    parameters = {**PARAMETERS, "calibration": calibration, "rules": RULES[1:], "min_cell": 1}
    before = cross_decided(parameters, data, found, part)
    changed = np.where(part == 1, score[0] > 0.2, data.y).astype(np.int64)
    after = cross_decided(parameters, dataclasses.replace(data, y=changed), found, part)
    for place, (one, other) in enumerate(zip(before, after, strict=True)):
        assert isinstance(one, Decisions), one
        assert isinstance(other, Decisions), other
        same = one.predicted == other.predicted
        assert same[part == 1].all(), RULES[place + 1]
        assert np.array_equal(one.score[part == 1], other.score[part == 1])
        if RULES[place + 1]["decision"]["threshold"] == "balanced":
            assert not same[part != 1].all()


def test_thresholds_by_group_are_chosen_again_on_halves() -> None:
    data, rng = data_of(), np.random.default_rng(2)
    score, uniform = rng.random((2, 1, ROWS))
    found = Predictions(Answers(score, (score > 0.5).astype(np.int64), uniform), {}, 0.0)
    measure = {"predicted": ["gap_max.sex"], "draws": 10}
    parameters = {**PARAMETERS, "rules": RULES[1:], "min_cell": 1, "part": 1, "measure": measure}
    results = cross_decided(parameters, data, found, np.arange(ROWS) % FOLDS)
    for rule, decisions in zip(parameters["rules"], results, strict=True):
        assert not isinstance(decisions, str), decisions
        choices = decisions.half_choices
        assert len(choices) == (2 * DIVISIONS if rule["decision"]["equal"] else 0)
        for one, other in zip(choices[::2], choices[1::2], strict=True):
            # the two halves of a division
            assert np.array_equal(one.is_half, ~other.is_half)
        if choices:
            assert any(np.any(choice.y_pred != choices[0].y_pred) for choice in choices)
    for changed in ({"part": 3}, {"measure": {"predicted": [], "draws": 10}}):
        results = cross_decided({**parameters, **changed}, data, found, np.arange(ROWS) % FOLDS)
        assert not any(item.half_choices for item in results if not isinstance(item, str))


def test_a_group_of_one_person_spoils_half_of_the_halves() -> None:
    """All rows of a person are in one half: thresholds of the other one know no such group."""
    data, rng = data_of(), np.random.default_rng(3)
    data.sensitive["sex"][:20] = "X"
    people = np.arange(ROWS)
    people[:20] = 0
    data = dataclasses.replace(data, people=people)
    data.y[:20] = np.arange(20) % 2
    score, uniform = rng.random((2, 1, ROWS))
    found = Predictions(Answers(score, (score > 0.5).astype(np.int64), uniform), {}, 0.0)
    measure = {"predicted": ["gap_max.sex"], "draws": 10}
    rules = [by_sex("equalized_odds", 0.1)]
    parameters = {**PARAMETERS, "rules": rules, "min_cell": 5, "measure": measure}
    (decisions,) = cross_decided(parameters, data, found, np.arange(ROWS) % FOLDS)
    assert isinstance(decisions, Judged), decisions
    assert len(decisions.half_choices) == DIVISIONS
    assert all(choice.is_half[0] for choice in decisions.half_choices)


def test_halves_keep_small_groups_joined() -> None:
    data, rng = data_of(), np.random.default_rng(4)
    data.sensitive["sex"][:6] = "missing"
    score, uniform = rng.random((2, 1, ROWS))
    found = Predictions(Answers(score, (score > 0.5).astype(np.int64), uniform), {}, 0.0)
    measure = {"predicted": ["gap_max.sex"], "draws": 10}
    rules = [by_sex("equalized_odds", 0.1)]
    parameters = {**PARAMETERS, "rules": rules, "min_cell": 5, "measure": measure}
    (decisions,) = cross_decided(parameters, data, found, np.arange(ROWS) % FOLDS)
    assert isinstance(decisions, Judged), decisions
    assert len(decisions.half_choices) == 2 * DIVISIONS


def test_probabilities_of_another_calibration_are_measured_too() -> None:
    """A rule that keeps a share may get another one than the rule before it."""
    data = data_of()
    kinds = {"isotonic": 0.6, "sigmoid": 0.8}
    found = []
    for kind, confidence in kinds.items():
        score = np.where(data.y == 1, confidence, 1.0 - confidence)
        calibration = dataclasses.make_dataclass("Fitted", [("kind", str)])(kind)
        found.append(Judged(score, data.y, {}, None, chosen=[(calibration, None)] * FOLDS))
    rules = [BALANCED, rule(threshold="observed")]
    content = measured({**PARAMETERS, "calibration": "auto", "rules": rules}, data, found)
    losses = [one["metrics"]["log_loss"]["value"] for one in content]
    assert losses == pytest.approx([-np.log(confidence) for confidence in kinds.values()])


def test_trees_are_trained_once_a_fold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not again on the rows whose loss chose their number of steps."""
    found: list[tuple[int, int]] = []
    update = xgb.Booster.update
    monkeypatch.setattr(
        xgb.Booster,
        "update",
        lambda self, matrix, step: [
            found.append((matrix.num_row(), step)),
            update(self, matrix, step),
        ][1],
    )
    arguments = {"n_steps": 4, "max_depth": 2, "n_jobs": 1, "validation_fraction": 0.2}
    judged(tmp_path, method="gbdt", arguments=arguments, calibration="sigmoid", rules=RULES)
    assert found == [(160, step) for step in range(4)] * FOLDS


def test_blind_ignores_the_sensitive_column_and_majority_all(tmp_path: Path) -> None:
    found = {
        kind: judged(tmp_path, kind=kind)["metrics"] for kind in ("plain", "blind", "majority")
    }
    gap = "demographic_parity_difference.sex"
    assert found["plain"][gap]["value"] > 0.7
    assert found["blind"][gap]["value"] < 0.2
    accuracy = {kind: metrics["balanced_accuracy"]["value"] for kind, metrics in found.items()}
    # it was trained without the column too, and so uses the other one
    assert accuracy["plain"] > accuracy["blind"] + 0.1 > 0.66
    assert accuracy["majority"] == pytest.approx(0.5, abs=0.05)


def test_too_few_rows_of_a_label_are_refused(tmp_path: Path) -> None:
    data = data_of(40)
    scarce = data.take(
        np.concatenate([np.flatnonzero(data.y == 0), np.flatnonzero(data.y == 1)[:5]])
    )
    with pytest.raises(
        InputError, match="5 people of the rarer label, and 3 folds need at least 6"
    ):
        judged(tmp_path, scarce)


def of_people(people: list[int], labels: list[int]) -> Dataset:
    """Rows of people, each with ten."""
    data = data_of(10 * len(people))
    data.y[:] = np.repeat(labels, 10)
    return dataclasses.replace(data, people=np.repeat(people, 10))


def test_too_few_people_with_rows_of_their_own_are_refused() -> None:
    two_folds = of_people([0, 1, 2, 3], [0, 1, 0, 1])
    check_folds(two_folds, 4)
    with pytest.raises(InputError, match="have 4 values of split.by, and 5 folds need at least 5"):
        check_folds(two_folds, 5)
    with pytest.raises(InputError, match="all training rows of a label have one value of split.by"):
        check_folds(of_people([0, 1, 2, 3], [0, 1, 0, 0]), 2)


def test_all_people_with_a_label_in_one_fold_are_refused() -> None:
    """By the labels of first rows, folds are stratified; other rows may differ from these."""
    data = of_people([0, 1, 2, 3], [0, 1, 0, 1])
    fold = fold_numbers(data, 2, 0)
    assert [len(np.unique(data.y[fold == number])) for number in range(2)] == [2, 2]
    # two people have rows of a label after their first ones: both are in one fold with some seeds
    late = of_people([0, 1, 2, 3], [0, 0, 0, 0])
    late.y[[15, 25]] = 1
    in_one_fold = {}
    for seed in range(20):
        fold = fold_of_rows(cells_of(late), 2, derive_seed(seed, "tune"), late.people)
        in_one_fold[seed] = bool(fold[15] == fold[25])
    assert set(in_one_fold.values()) == {True, False}
    for seed, is_refused in in_one_fold.items():
        if is_refused:
            with pytest.raises(InputError, match="are in one of the 2 folds"):
                fold_numbers(late, 2, seed)
        else:
            assert len(fold_numbers(late, 2, seed)) == len(late.y)


# rules of decisions


def probabilities(metrics: dict[str, Any]) -> dict[str, Any]:
    """Metrics of the probabilities alone."""
    return {name: one for name, one in metrics.items() if name.partition(".")[0] in SCORES}


def test_every_rule_is_judged_as_if_it_were_the_only_one(tmp_path: Path) -> None:
    measure = measuring(counterfactuals=COPIES, score_intervals=True)
    settings: dict[str, Any] = {"calibration": "sigmoid", "min_cell": 1, "measure": measure}
    together = [one["metrics"] for one in judged(tmp_path, rules=RULES, **settings)["rules"]]
    assert together == [judged(tmp_path, rules=[one], **settings)["metrics"] for one in RULES]
    backwards = judged(tmp_path, rules=RULES[::-1], **settings)["rules"]
    assert [one["metrics"] for one in backwards[::-1]] == together
    # by the same probabilities they decide differently
    assert (
        len({(one["consistency.sex"]["value"], one["accuracy"]["value"]) for one in together}) > 5
    )
    assert all(probabilities(one) == probabilities(together[0]) for one in together)
    assert together[0]["auc"]["low"] is not None


def test_a_rule_with_a_calibration_of_its_own(tmp_path: Path) -> None:
    """It is judged as where the job had that calibration, whatever the others have."""
    fixed = rule(threshold=0.3)
    parity = by_sex("demographic_parity", 0.1)
    kinds = ("isotonic", "none", "sigmoid")
    rules = [OWN, *(one | {"calibration": kind} for kind in kinds for one in (fixed, parity))]
    settings: dict[str, Any] = {"min_cell": 1, "measure": measuring(draws=0)}
    found = judged(tmp_path, rules=rules, calibration="auto", **settings)["rules"][1:]
    expected = []
    for kind in kinds:
        expected += judged(tmp_path, rules=[fixed, parity], calibration=kind, **settings)["rules"]
    assert found == expected
    assert len({one["metrics"]["log_loss"]["value"] for one in found}) == len(kinds)


@pytest.mark.parametrize("rules", [[OWN, BALANCED], [BALANCED, OWN]])
def test_a_method_that_decides_itself_keeps_its_probabilities(
    tmp_path: Path, rules: list[Any]
) -> None:
    """Without calibration a run measures those of the model; under other rules without its class
    weights.
    """
    arguments = {"n_steps": 3, "max_depth": 2, "n_jobs": 1, "balance_classes": True}
    settings: dict[str, Any] = {"method": "gbdt", "arguments": arguments}
    settings["measure"] = measuring(draws=0)
    found = judged(tmp_path, rules=rules, **settings)["rules"]
    alone = [judged(tmp_path, rules=[one], **settings)["metrics"] for one in rules]
    assert [one["metrics"] for one in found] == alone
    assert alone[0]["log_loss"] != alone[1]["log_loss"]


def test_a_rule_by_hand(tmp_path: Path) -> None:
    """A threshold of 0.3 on the probabilities of a model of the other folds, for people and their
    copies.
    """
    measure = measuring(counterfactuals=COPIES)
    found = judged(tmp_path, rules=RULES[:3], measure=measure)["rules"][2]["metrics"]
    data = data_of()
    fold = fold_of_rows(cells_of(data), FOLDS, derive_seed(0, "tune"))
    positive = np.empty((4, ROWS), dtype=bool)
    low = (-1.0 - 0.5) / 0.5  # of -1, by the encoder's mean and deviation
    for number in range(FOLDS):
        model = LogisticClassifier(random_state=derive_seed(0, "train"))
        model.fit(data.X[fold != number], data.y[fold != number])
        for place, values in enumerate(([None, None], [1, None], [0, None], [1, low])):
            X = data.X[fold == number].copy()
            for column, value in enumerate(values):
                X[:, column] = X[:, column] if value is None else value
            positive[place, fold == number] = model.predict_proba(X)[:, 1] >= 0.3
    counts = np.bincount(2 * data.y + positive[0], minlength=4).reshape(2, 2)
    assert found["balanced_accuracy"]["value"] == pytest.approx(float(balanced_accuracy(counts)))
    assert found["consistency.sex"]["value"] == pytest.approx(np.mean(positive[1] == positive[2]))
    assert found["consistency.sex"]["value"] < 0.9
    # a woman with a high value always gets another decision than a man with a low one
    assert found["consistency.both"]["value"] == 0.0


def test_thresholds_by_group_keep_their_tolerance_elsewhere(
    tmp_path: Path,
) -> None:
    """They keep it on rows that they were not chosen on."""
    rules = [BALANCED, *(by_sex("demographic_parity", tolerance) for tolerance in (0.0, 0.1, 0.3))]
    data = data_of(3000)
    found = judged(tmp_path, data, calibration="sigmoid", rules=rules)["rules"]
    gaps = [one["metrics"]["demographic_parity_difference.sex"]["value"] for one in found]
    assert gaps[0] > 0.5
    for gap, tolerance in zip(gaps[1:], (0.0, 0.1, 0.3), strict=True):
        assert gap == pytest.approx(tolerance, abs=0.06)


def test_each_part_is_decided_by_its_own_crossed_groups() -> None:
    """The rule of one part joins a small group and the next larger one, that of another does not."""
    rng = np.random.default_rng(0)
    data = data_of(2000)
    data.sensitive["place"] = rng.choice(["n", "s"], 2000).astype(object)
    small = np.flatnonzero((data.sensitive["sex"] == "M") & (data.sensitive["place"] == "s"))
    # twelve people of the group stay
    data = data.take(np.setdiff1d(np.arange(2000), small[12:]))
    small = np.flatnonzero((data.sensitive["sex"] == "M") & (data.sensitive["place"] == "s"))
    data.y[small] = np.arange(len(small)) % 2
    part = rng.integers(0, 2, len(data.y))
    # what decides part 0 is chosen on the others, where the group has two people
    part[small] = 0
    part[small[:2]] = 1
    score = expit(data.X[:, 1] + data.X[:, 0] - (np.isin(np.arange(len(data.y)), small)))
    uniform = rng.random((1, len(data.y)))
    found = Predictions(Answers(score[np.newaxis], None, uniform), {}, 0.0)
    crossed = by_sex("equalized_odds", 0.02)
    parts = [{"name": name, "bins": None, "names": []} for name in ("sex", "place")]
    crossed["attribute"] = {"name": "sex&place", "bins": None, "names": [], "crossed": parts}
    (decisions,) = cross_decided({**PARAMETERS, "rules": [crossed]}, data, found, part)
    assert isinstance(decisions, Judged), decisions
    groups = groups_by(data.sensitive, "sex&place")
    rules = [rule for _, rule in decisions.chosen]
    assert [len(rule.thresholds.rates) for rule in rules] == [3, 4]
    for number, (calibration, by) in enumerate(decisions.chosen):
        here = part == number
        expected = by.decide(calibration(score[here]), groups[here], uniform[0, here])
        assert np.array_equal(decisions.predicted[here], expected.astype(int))


def test_crossed_thresholds_keep_both_gaps_small(tmp_path: Path) -> None:
    """Those of one attribute leave the other's as it was."""
    rng = np.random.default_rng(3)
    data = data_of(3000)
    old = rng.random(3000) < 0.4
    data.y[:] = (2.0 * data.X[:, 0] + 1.6 * old + rng.normal(size=3000) > 1.6).astype(np.int64)
    # the model sees the age by the second column
    data.X[:, 1] = old + 0.3 * rng.normal(size=3000)
    data.sensitive["age"] = np.where(old, "old", "young").astype(object)
    age = {"name": "age", "bins": None, "names": []}
    parts = [{"name": "sex", "bins": None, "names": []}, age]
    crossed = by_sex("demographic_parity", 0.05)
    crossed["attribute"] = {"name": "sex&age", "bins": None, "names": [], "crossed": parts}
    metrics = [f"demographic_parity_difference.{name}" for name in ("sex", "age")]
    found = judged(
        tmp_path,
        data,
        rules=[by_sex("demographic_parity", 0.05), crossed],
        measure=measuring(predicted=metrics),
    )
    of_sex, of_both = [
        [content["metrics"][name]["value"] for name in metrics] for content in found["rules"]
    ]
    assert of_sex[0] < 0.1 < 0.3 < of_sex[1]
    assert max(of_both) < 0.1
    # the chances follow from choosing them again on halves
    assert all(found["rules"][1]["metrics"][name]["unseen"] for name in metrics)


def test_a_rule_that_a_fold_does_not_allow_fails_alone(tmp_path: Path) -> None:
    """The other folds have too few people of a label in a group; the other rules are judged."""
    settings = {"calibration": "sigmoid", "measure": measuring(min_cell=1), "min_cell": 40}
    found = judged(tmp_path, rules=[BALANCED, by_sex("equalized_odds", 0.1), OWN], **settings)[
        "rules"
    ]
    assert [sorted(one) for one in found] == [["metrics"], ["error"], ["metrics"]]
    assert "fewer than 40 held-out rows of a label" in found[1]["error"]
    alone = judged(tmp_path, rules=[OWN], **settings)
    assert alone["rules"] == found[2:]
    # of no rule at all
    (failed,) = judged(tmp_path, rules=[by_sex("equalized_odds", 0.1)], **settings)["rules"]
    assert failed == found[1]


def test_the_first_rung_has_a_third_of_the_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from evenhand.fairlib.methods.gbdt import GBDTClassifier

    steps: list[int] = []

    def recording(fit: Any) -> Any:
        def recorded(self: Any, *given: Any, **options: Any) -> Any:
            steps.append(self.n_steps)
            return fit(self, *given, **options)

        return recorded

    monkeypatch.setattr(GBDTClassifier, "fit", recording(GBDTClassifier.fit))
    monkeypatch.setattr(GBDTClassifier, "fit_folds", recording(GBDTClassifier.fit_folds))
    settings: dict[str, Any] = {
        "method": "gbdt",
        "arguments": {"n_steps": 10, "max_depth": 2, "n_jobs": 1},
    }
    judged(tmp_path, part=3, **settings)
    judged(tmp_path, part=1, **settings)
    # the models of all folds are trained together
    assert steps == [4, 10]
    del settings["arguments"][
        "n_steps"
    ]  # the method's default, of which early stopping uses a part
    judged(tmp_path, part=3, **settings)
    assert steps[-1] == -(-GBDTClassifier.n_steps // 3) < GBDTClassifier.n_steps
    judged(tmp_path, part=3, **{**settings, "arguments": {"n_steps": 1, "n_jobs": 1}})
    assert steps[-1] == 1


# columns that are left out


def test_a_column_that_is_left_out_changes_nothing(tmp_path: Path) -> None:
    rules, measure = RULES[:2] + RULES[-1:], measuring(counterfactuals=COPIES, score_intervals=True)
    settings = {"rules": rules, "calibration": "sigmoid", "min_cell": 1, "measure": measure}
    found = judged(tmp_path, leave_out=["sex"], **settings)["rules"]
    whole = judged(tmp_path, **settings)["rules"]
    for one, other in zip(found, whole, strict=True):
        assert (
            one["metrics"]["consistency.sex"]["value"]
            == 1.0
            > other["metrics"]["consistency.sex"]["value"]
        )
        # copies that change the other column too are still compared
        assert one["metrics"]["consistency.both"]["value"] < 1.0
    assert found[0]["metrics"]["demographic_parity_difference.sex"]["value"] < 0.2
    # as the control: logistic is its own learner without mitigation
    blind = judged(tmp_path, kind="blind", **settings)["rules"]
    assert found == blind
    data = data_of()
    data.X[:, 0] = 0.0
    (tmp_path / "hidden").mkdir()
    assert judged(tmp_path / "hidden", data, leave_out=["sex"], **settings)["rules"] == found


def test_what_test_rows_may_show_is_wider_than_the_interval(tmp_path: Path) -> None:
    """Ends of a prediction by hand: of the rows, and of two choices of thresholds by group."""
    assert reach(0.2, None) == pytest.approx(5**0.5)
    assert reach(0.2, 3) == pytest.approx(7.5**0.5)
    name = "demographic_parity_difference.sex"
    settings = {"calibration": "sigmoid", "min_cell": 1, "measure": measuring(predicted=[name])}
    rules = [BALANCED, by_sex("demographic_parity", 0.3)]
    plain, by_group = (one["metrics"] for one in judged(tmp_path, rules=rules, **settings)["rules"])
    ratios = []
    for metrics in (plain, by_group):
        metric = metrics[name]
        ratios.append((metric["above"] - metric["value"]) / (metric["high"] - metric["value"]))
        assert (metric["value"] - metric["below"]) / (
            metric["value"] - metric["low"]
        ) == pytest.approx(ratios[-1])
        assert "above" not in metrics["accuracy"]
    assert ratios == pytest.approx([reach(0.2, None), reach(0.2, FOLDS)])


def test_groups_that_a_limit_does_not_compare_are_named(tmp_path: Path) -> None:
    """Only of the metrics that a search is about, as every trial has the text."""
    data = data_of()
    data.sensitive["sex"][:3] = "X"
    compared, other = "demographic_parity_difference.sex", "gap_max.sex"
    measure = measuring(predicted=[compared], compared=[compared])
    metrics = judged(tmp_path, data, measure=measure)["metrics"]
    assert metrics[compared]["left_out"] == "X (3 rows)"
    assert "left_out" not in metrics[other]
    assert rounded_metrics(metrics)[compared]["left_out"] == "X (3 rows)"


def test_a_prediction_has_the_gap_of_validation_and_test() -> None:
    """Of many drawn shares, so many test rows are below the upper end as the interval's
    level says.
    """
    rng, share, n, m = np.random.default_rng(0), 0.3, 8000, 2000
    validation, test = rng.binomial(n, share, 20_000) / n, rng.binomial(m, share, 20_000) / m
    half = 1.96 * np.sqrt(validation * (1 - validation) / n)
    assert (test <= validation + reach(m / (n + m), None) * half).mean() == pytest.approx(
        0.975, abs=0.005
    )
    assert (test <= validation + half).mean() < 0.85
