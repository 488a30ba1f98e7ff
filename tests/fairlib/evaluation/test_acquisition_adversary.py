"""The adversary on what was asked: told groups, independent ones, and too few rows."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from evenhand.fairlib.evaluation.acquisition import adversary_auc, answers_matrix

SETTINGS = {"draws": 200, "level": 0.95, "min_cell": 10, "seed": 3}
RNG = np.random.default_rng(5)


def test_only_answers_are_seen_and_which_were_asked() -> None:
    X = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], dtype=np.float32)
    known = np.array([[True, False], [False, True]])
    seen = answers_matrix(X, known, [[0, 2], [1]])
    assert seen.tolist() == [[1, 0, 3, 1, 0], [0, 5, 0, 0, 1]]


def test_a_telling_column_gives_1_and_an_independent_one_chance() -> None:
    told = np.resize([0, 1], 400).astype(np.float32)
    group = np.where(told == 1, "F", "M")
    assert adversary_auc(told[:, None], group, **SETTINGS).value == 1.0
    noise = RNG.normal(size=(400, 2)).astype(np.float32)
    found = adversary_auc(noise, group, **SETTINGS)
    assert found.value == pytest.approx(0.5, abs=0.07)
    assert found.low < 0.5 < found.high
    # one answer for everybody ties all pairs
    assert adversary_auc(np.zeros((400, 1), np.float32), group, **SETTINGS).value == 0.5


def test_the_hand_computed_auc_of_one_binary_answer() -> None:
    # 30 of 40 say yes in one group and 10 of 40 in the other: .75 * .75 + (.75 * .25 + .25 * .75) /
    # 2 = .75
    answer = np.repeat([1, 0, 1, 0], [30, 10, 10, 30]).astype(np.float32)[:, None]
    group = np.repeat(["F", "M"], 40)
    # by fifths of different answers, the mean of five AUCs is near this, and equal to it on average
    assert adversary_auc(answer, group, **SETTINGS).value == pytest.approx(0.75, abs=0.01)


def test_the_strongest_is_taken_and_no_measured_row_is_learned() -> None:
    # which of two signs agree cannot be told by a line: trees or the network can
    X = RNG.normal(size=(600, 2)).astype(np.float32)
    group = np.where(X[:, 0] * X[:, 1] > 0, "F", "M")
    folds = StratifiedKFold(5, shuffle=True, random_state=3).split(X, group == "M")
    linear = []
    for rest, rows in folds:
        model = make_pipeline(StandardScaler(), LogisticRegression()).fit(
            X[rest], group[rest] == "M"
        )
        linear.append(roc_auc_score(group[rows] == "M", model.predict_proba(X[rows])[:, 1]))
    assert np.mean(linear) < 0.65
    assert adversary_auc(X, group, **SETTINGS).value > 0.9


def test_an_adversary_does_not_know_people_by_heart() -> None:
    rows = np.repeat(np.arange(120), 6)
    answers = np.random.default_rng(1).normal(size=(120, 2)).astype(np.float32)[rows]
    group = np.where(np.random.default_rng(2).random(120) < 0.5, "F", "M")[rows]
    assert adversary_auc(answers, group, **SETTINGS).value > 0.85
    found = adversary_auc(answers, group, people=rows + 7, **SETTINGS)
    assert found.value == pytest.approx(0.5, abs=0.13)
    # as wide as that of one row of each person
    once = adversary_auc(answers[::6], group[::6], **SETTINGS)
    assert found.high - found.low == pytest.approx(once.high - once.low, rel=0.25)
    few = adversary_auc(answers[:42], group[:42], people=rows[:42], **SETTINGS)
    assert few.reason == "fewer than two groups of 10 people to compare"


def test_one_group_is_told_from_all_small_ones() -> None:
    groups = np.array(["A"] * 100 + ["B"] * 9 + ["C"] * 9)
    told = (groups == "A").astype(np.float32)[:, None]
    assert adversary_auc(told, groups, **SETTINGS).value == 1.0


def test_more_groups_are_told_one_against_the_rest() -> None:
    # one of three is told, the others are not told apart: (1 + .75 + .75) / 3
    X = np.resize([0, 0, 1], 240).astype(np.float32)[:, None]
    group = np.resize(["A", "B", "C", "B", "A", "C"], 240)
    assert adversary_auc(X, group, **(SETTINGS | {"draws": 0})).value == pytest.approx(
        2.5 / 3, abs=1e-9
    )
    # a group of few people has no AUC of its own
    group[:3] = "rare"
    assert adversary_auc(X, group, **(SETTINGS | {"draws": 0})).value == pytest.approx(
        2.5 / 3, abs=0.01
    )


def test_too_few_people_are_no_evidence() -> None:
    X = np.zeros((50, 1), np.float32)
    for group in (np.repeat(["F", "M"], [45, 5]), np.repeat("F", 50)):
        found = adversary_auc(X, group, **SETTINGS)
        assert found.value is None
        assert found.reason
