"""Several rows of one person: they are held out together, or not at all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand.fairlib.evaluation.evaluate import evaluate
from evenhand.fairlib.evaluation.outcomes import Outcomes
from evenhand.fairlib.methods.comparators.logistic import ReweighedLogisticClassifier
from evenhand.fairlib.methods.gbdt import GBDTClassifier
from evenhand.fairlib.methods.networks import NeuralNetworkClassifier
from evenhand.fairlib.methods.row_groups import fold_of_rows
from evenhand.fairlib.splits import hold_out, set_aside, with_every_group

N, ROWS = 120, 6


@given(st.lists(st.integers(0, 40), min_size=60, max_size=120), st.integers(0, 99))
def test_people_are_drawn_whole(numbers: list[int], seed: int) -> None:
    people = np.array(numbers)
    labels = people % 2
    folds = fold_of_rows(labels, 4, seed, people)
    for person in set(numbers):
        assert len(set(folds[people == person].tolist())) == 1
    counts = np.bincount([folds[people == person][0] for person in set(numbers)], minlength=4)
    assert counts.max() - counts.min() <= 1
    for draw in (hold_out, set_aside):
        try:
            kept, held = draw(labels, 0.3, seed, people)
        except ValueError:
            assert min(len(set(people[labels == label])) for label in (0, 1)) < 4
            continue
        assert sorted([*kept, *held]) == list(range(len(numbers)))
        assert not {*people[kept]} & {*people[held]}


def panel() -> tuple[Any, Any, Any]:
    """People whose label is chance, and features by which only those in several rows can be
    told.
    """
    rng = np.random.default_rng(4)
    who, label = rng.normal(size=(N, 3)), rng.integers(0, 2, N)
    people = np.repeat(np.arange(N), ROWS)[rng.permutation(N * ROWS)]
    X = (who[people] + 0.01 * rng.normal(size=(N * ROWS, 3))).astype(np.float32)
    return X, label[people], people * 7


@pytest.mark.parametrize("rows", ["folds", "share"])
def test_trees_do_not_learn_people_by_heart(rows: str) -> None:
    X, y, people = panel()
    more = {} if rows == "folds" else {"validation_fraction": 0.3}
    steps = {}
    for known in (None, people):
        model = GBDTClassifier(
            n_steps=60, eta=0.1, min_child_weight=1, random_state=0, n_jobs=1, **more
        )
        model.people = known
        steps[known is None] = model.fit(X, y).best_step_
    # the label of a person is chance, and rows of the same person tell it
    assert steps[False] < 25 < 50 < steps[True]


def test_networks_and_thresholds_are_judged_by_other_people() -> None:
    X, y, people = panel()
    network = NeuralNetworkClassifier(hidden=(4,), n_steps=50, random_state=0)
    network.people = people
    validation = network.fit(X, y).validation_
    assert validation is not None
    others = np.setdiff1d(np.arange(len(y)), validation.rows)
    assert not {*people[validation.rows]} & {*people[others]}
    linear = ReweighedLogisticClassifier(random_state=0)
    linear.people = people
    kept, held = set_aside(y, linear.validation_share, 0, people)
    linear.fit(X, y, sensitive_features={"g": y})
    alone = ReweighedLogisticClassifier(random_state=0, threshold=0.5)
    alone.fit(X[kept], y[kept], sensitive_features={"g": y[kept]})
    assert np.array_equal(linear.predict_proba(X), alone.predict_proba(X))
    assert 0 < len(held) < len(y)


def words(counts_people: bool) -> Outcomes:
    """Rows of three words of each label."""
    word = np.repeat(np.arange(6), 30)
    label = word % 2
    decided = np.where(np.arange(180) % 10 == 0, 1 - label, label)
    groups = {"g": np.where(word % 3 == 0, "a", "b").astype(object)}
    return Outcomes(label, decided, decided * 0.5, groups, people=word, counts_people=counts_people)


def test_groups_of_rows_are_no_people() -> None:
    """Five people are needed in every cell: three words are no three people, but 90 rows."""
    people = evaluate(words(True), draws=50).metrics
    assert people["balanced_accuracy"].value is None
    assert "have fewer than 5 people" in str(people["balanced_accuracy"].reason)
    groups = evaluate(words(False), draws=50).metrics
    assert groups["balanced_accuracy"].value == pytest.approx(0.9)
    # a word is drawn with all its rows, whatever is counted
    assert people["accuracy"] == groups["accuracy"]
    few = Outcomes(
        [0, 1, 1, 0],
        [0, 1, 1, 0],
        [0.1, 0.9, 0.8, 0.2],
        {},
        people=[0, 1, 2, 3],
        counts_people=False,
    )
    assert "have fewer than 5 rows" in str(
        evaluate(few, draws=0).metrics["balanced_accuracy"].reason
    )


def test_a_group_of_nine_is_in_both_parts_of_a_split() -> None:
    groups = {"sex": np.array(["d"] * 9 + ["f"] * 91), "race": np.array(["a", "b"] * 50)}
    second = np.zeros(100, dtype=bool)
    second[80:] = True
    moved = with_every_group(second, groups, seed=3)
    assert (moved != second).sum() == 1
    assert set(groups["sex"][moved]) == {"d", "f"}
    assert set(groups["sex"][~moved]) == {"d", "f"}
    assert np.array_equal(with_every_group(moved, groups, seed=3), moved)


def test_the_only_row_of_a_group_stays_where_it_is() -> None:
    groups = {"sex": np.array(["d", "f", "f", "f"])}
    second = np.array([False, False, True, True])
    assert np.array_equal(with_every_group(second, groups, seed=0), second)
