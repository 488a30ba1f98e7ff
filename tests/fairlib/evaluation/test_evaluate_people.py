"""Intervals where people have several rows: a draw takes people, each with all rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import log_loss, roc_auc_score

from evenhand.fairlib.evaluation import bootstrap
from evenhand.fairlib.evaluation.evaluate import encode_sensitive, evaluate
from evenhand.fairlib.evaluation.measuring import measure
from evenhand.fairlib.evaluation.outcomes import Outcomes
from evenhand.fairlib.evaluation.paired import compare
from evenhand.fairlib.execution import generator
from tests.fairlib.evaluation.test_paired import take

Build = Callable[..., Outcomes]


def rows_of(outcomes: Outcomes, rows: Any, people: Any = None) -> Outcomes:
    """Some rows of an evaluation, also several times."""
    return replace(take(outcomes, rows), people=people)


def test_each_draw_is_that_of_its_people(random_outcomes: Build) -> None:
    random, draws = np.random.default_rng(0), 20
    people = random.integers(0, 60, 300) * 7 - 100
    outcomes = replace(random_outcomes(300, 1), people=people)
    names, codes = encode_sensitive(outcomes.sensitive, {}, False)
    found = measure(
        [outcomes], codes, draws=draws, min_cell=1, random=partial(generator, 5)
    ).resampled[0]
    known, person = np.unique(people, return_inverse=True)
    for kind in ("cells", "auc", "probabilities"):
        drawn = next(
            bootstrap.multinomial_chunks(np.ones(len(known), int), draws, generator(5, kind))
        )
        for k, weight in enumerate(drawn[:, person]):
            own, y = outcomes.y_pred, outcomes.y_true
            if kind == "cells":
                assert found["accuracy"][k] == pytest.approx(np.average(own == y, weights=weight))
                rates = [
                    np.average(own, weights=weight * (codes["sex"][0] == group))
                    for group in range(2)
                ]
                gap = found["demographic_parity_difference.sex"][k]
                assert gap == pytest.approx(abs(rates[0] - rates[1]))
            elif kind == "auc":
                area = roc_auc_score(y, outcomes.score, sample_weight=weight)
                assert found["auc"][k] == pytest.approx(area)
            else:
                loss = log_loss(y, outcomes.score, sample_weight=weight)
                assert found["log_loss"][k] == pytest.approx(loss)
    assert names["sex"] == ("F", "M")


def test_copies_of_a_row_are_no_further_evidence(random_outcomes: Build) -> None:
    single = random_outcomes(400, 2)
    rows = np.repeat(np.arange(400), 9)
    whole, apart = rows_of(single, rows, people=rows), rows_of(single, rows)
    once, together, singly = (
        evaluate(found, draws=800).metrics for found in (single, whole, apart)
    )
    for name in ("accuracy", "auc", "log_loss", "brier", "demographic_parity_difference.sex"):
        widths = [found[name].high - found[name].low for found in (once, together, singly)]  # type: ignore[operator]
        assert together[name].value == pytest.approx(once[name].value)
        assert widths[1] == pytest.approx(widths[0], rel=0.15)
        # a third: the root of nine
        assert widths[2] == pytest.approx(widths[0] / 3, rel=0.2)


def test_differences_of_two_models_draw_people_too(random_outcomes: Build) -> None:
    single, other = random_outcomes(300, 3), random_outcomes(300, 3)
    other = replace(other, y_pred=np.roll(other.y_pred, 1))
    rows = np.repeat(np.arange(300), 4)
    found = []
    for people in (rows, None):
        sides = [rows_of(side, rows, people=people) for side in (single, other)]
        accuracy = compare(*sides, draws=400).differences["accuracy"]
        found.append(accuracy.high - accuracy.low)  # type: ignore[operator]
    assert found[0] == pytest.approx(2 * found[1], rel=0.2)


def test_the_order_of_rows_does_not_matter(random_outcomes: Build) -> None:
    random = np.random.default_rng(4)
    people = random.integers(0, 50, 200)
    outcomes = random_outcomes(200, 5)
    order = random.permutation(200)
    given = {"draws": 50, "min_cell": 1}
    first = evaluate(rows_of(outcomes, np.arange(200), people), **given)
    assert evaluate(rows_of(outcomes, order, people[order]), **given).to_json() == first.to_json()


def test_many_people_are_dealt_into_blocks_of_whole_people(monkeypatch: pytest.MonkeyPatch) -> None:
    people = np.random.default_rng(6).integers(0, 997, 5000)
    block, n_blocks = bootstrap.dealt(people, np.random.default_rng(7), max_blocks=40)
    assert n_blocks == 40
    for person in np.unique(people):
        assert len(np.unique(block[people == person])) == 1
    sizes = [len(np.unique(people[block == one])) for one in range(40)]
    assert sum(sizes) == len(np.unique(people))
    assert max(sizes) - min(sizes) <= 1


def test_blocks_of_people_give_the_spread_of_people(
    random_outcomes: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = np.repeat(np.arange(1500), 2)
    outcomes = rows_of(random_outcomes(1500, 8), rows, people=rows)
    widths = []
    for blocks in (5000, 300):
        monkeypatch.setattr(bootstrap.dealt, "__defaults__", (blocks,))
        accuracy = evaluate(outcomes, draws=1500, score_intervals=False).metrics["accuracy"]
        widths.append(accuracy.high - accuracy.low)  # type: ignore[operator]
    assert all(second == pytest.approx(first, rel=0.15) for first, second in pairwise(widths))


def test_people_that_are_no_numbers_of_all_rows_are_refused(random_outcomes: Build) -> None:
    outcomes = random_outcomes(20, 0)
    with pytest.raises(ValueError, match="people: got 3 rows, expected 20"):
        replace(outcomes, people=np.arange(3))
    with pytest.raises(ValueError, match="people: got dtype <U1, expected whole numbers"):
        replace(outcomes, people=np.array(["a"] * 20))
    numbered, others = (
        replace(outcomes, people=people) for people in (np.arange(20), np.ones(20, int))
    )
    with pytest.raises(ValueError, match="one side has people and the other has not"):
        compare(numbered, outcomes, draws=20)
    with pytest.raises(ValueError, match="19 of 20 people differ"):
        compare(numbered, others, draws=20)


def test_many_rows_of_few_people_are_no_evidence() -> None:
    # 3 women in 60 rows each, with both labels; 40 men in 6 rows each
    people = np.append(np.repeat(np.arange(3), 60), np.repeat(np.arange(3, 43), 6))
    sex = np.where(people < 3, "F", "M")
    y = np.arange(len(people)) % 2
    outcomes = Outcomes(y, y[::-1].copy(), np.full(len(y), 0.5), {"sex": sex}, people=people)
    found = evaluate(outcomes, draws=50).metrics["demographic_parity_difference.sex"]
    assert (
        found.reason
        == "sex: 1 of 2 cells (group) have fewer than 5 people, the smallest has 3; left out: F (3 people)"
    )
    assert (
        evaluate(outcomes, draws=50, min_cell=3).metrics["demographic_parity_difference.sex"].status
        == "ok"
    )
    alone = replace(outcomes, people=np.zeros(len(y), int))
    assert evaluate(alone, draws=50).metrics["accuracy"].status == "insufficient_evidence"
