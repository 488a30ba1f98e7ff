"""The smallest change: against brute force on small grids, and what is proved where none exists."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest

from evenhand.fairlib.explanations.choices import COLUMN_COST, Changeable, choices_of, round_step
from evenhand.fairlib.explanations.recourse import Recourse, RecourseSearch, smallest_change
from evenhand.fairlib.methods.gbdt import GBDTClassifier
from evenhand.fairlib.methods.networks.plain import NeuralNetworkClassifier
from evenhand.fairlib.preprocessing.encoder import ColumnSpec, TableEncoder

SPECS = [
    ColumnSpec("years", "standard"),
    ColumnSpec("rank", "ordinal", order=("low", "middle", "high")),
    ColumnSpec("city", "onehot"),
    ColumnSpec("score", "unit", minimum=0.0, maximum=10.0),
    ColumnSpec("own", "binary", positive="yes"),
]
CHANGEABLE = [
    Changeable("years", "up", minimum=0, maximum=12, whole=True),
    Changeable("rank", "up"),
    Changeable("city"),
    Changeable("score", "free", minimum=0.0, maximum=10.0, step=1.0),
    Changeable("own"),
]


def people(rows: int = 400, seed: int = 0) -> tuple[pd.DataFrame, Any]:
    random = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "years": random.integers(0, 13, rows),
            "rank": random.choice(["low", "middle", "high"], rows),
            "city": random.choice(["Oslo", "Rome", "Turin"], rows),
            "score": random.integers(0, 11, rows).astype(float),
            "own": random.choice(["yes", "no"], rows),
        }
    )
    merit = frame["years"] + frame["score"] + 3 * (frame["city"] == "Rome")
    merit += 4 * (frame["rank"] == "high") - 2 * (frame["own"] == "no")
    return frame, (merit + random.normal(0, 2, rows) > 17).astype(int).to_numpy()


@pytest.fixture(scope="module")
def fitted() -> dict[str, Any]:
    frame, labels = people()
    encoder = TableEncoder(SPECS).fit(frame)
    X = encoder.transform(frame)
    trees = GBDTClassifier(n_steps=30, max_depth=3, n_iter_no_change=None, random_state=0)
    network = NeuralNetworkClassifier(hidden=(12, 8), n_steps=150, random_state=0)
    return {
        "encoder": encoder,
        "frame": frame,
        "trees": trees.fit(X, labels),
        "network": network.fit(X, labels),
    }


def rows_of(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return frame.to_dict("records")


def brute_force(model: Any, encoder: TableEncoder, row: dict[str, Any], changeable: Any) -> float:
    """Least cost over every combination of values, each decided by the model itself; infinity
    without any.
    """
    encoded = encoder.transform(pd.DataFrame([row]))[0]
    choices = choices_of(encoder, row, encoded, changeable)
    names = [column.column for column in choices]
    rows = []
    costs = []
    for picks in itertools.product(*[range(len(column)) for column in choices]):
        values = [column.values[pick] for column, pick in zip(choices, picks, strict=True)]
        rows.append({**row, **dict(zip(names, values, strict=True))})
        costs.append(sum(c.costs[pick] for c, pick in zip(choices, picks, strict=True)))
    decided = model.predict(encoder.transform(pd.DataFrame(rows))) == 1
    return float(np.min(np.array(costs)[decided], initial=np.inf))


@pytest.mark.parametrize("kind", ["trees", "network"])
def test_smallest_change_equals_brute_force(fitted: dict[str, Any], kind: str) -> None:
    """Property: the same cost as brute force, and the model decides favourably about it."""
    encoder = fitted["encoder"]
    model = fitted[kind]
    search = RecourseSearch(model, encoder, CHANGEABLE[:4])
    compared = 0
    for row in rows_of(fitted["frame"])[:25]:
        recourse = search.find(row)
        if recourse.status == "not needed":
            continue
        least = brute_force(model, encoder, row, CHANGEABLE[:4])
        assert recourse.is_smallest
        assert recourse.status == ("found" if np.isfinite(least) else "none")
        if recourse.cost is not None:
            assert recourse.cost == pytest.approx(least)
            changed = {**row, **{item.column: item.after for item in recourse.changes}}
            assert model.predict(encoder.transform(pd.DataFrame([changed])))[0] == 1
        compared += 1
    assert compared > 8


def test_no_recourse_is_proved_where_none_exists(fitted: dict[str, Any]) -> None:
    row = {"years": 0, "rank": "low", "city": "Oslo", "score": 0.0, "own": "no"}
    only = [Changeable("own"), Changeable("rank", "up")]
    for kind in ("trees", "network"):
        recourse = smallest_change(fitted[kind], fitted["encoder"], row, only)
        assert (recourse.status, recourse.is_smallest) == ("none", True)
        assert brute_force(fitted[kind], fitted["encoder"], row, only) == np.inf


def test_a_favourable_decision_needs_no_change(fitted: dict[str, Any]) -> None:
    row = {"years": 12, "rank": "high", "city": "Rome", "score": 10.0, "own": "yes"}
    recourse = smallest_change(fitted["trees"], fitted["encoder"], row, CHANGEABLE)
    assert recourse == Recourse("not needed", "the decision is the favourable one")


def test_the_favourable_label_may_be_the_negative_one(fitted: dict[str, Any]) -> None:
    row = {"years": 12, "rank": "high", "city": "Rome", "score": 10.0, "own": "yes"}
    down = [Changeable("years", "down", minimum=0, whole=True), Changeable("score", "down")]
    recourse = smallest_change(fitted["trees"], fitted["encoder"], row, down, favourable=0)
    assert recourse.status == "found"
    assert all(change.after < change.before for change in recourse.changes)


def test_few_parts_give_a_change_that_is_not_proved(fitted: dict[str, Any]) -> None:
    row = {"years": 3, "rank": "low", "city": "Oslo", "score": 3.0, "own": "no"}
    exact = smallest_change(fitted["network"], fitted["encoder"], row, CHANGEABLE)
    quick = smallest_change(fitted["network"], fitted["encoder"], row, CHANGEABLE, most_parts=2)
    assert not quick.is_smallest
    assert quick.least_cost <= float(exact.cost or 0.0) <= float(quick.cost or np.inf)


def test_models_without_bounds_are_asked(fitted: dict[str, Any]) -> None:
    class Opaque:
        classes_ = np.array([0, 1])
        threshold_ = 0.5

        def predict_proba(self, X: Any) -> Any:
            return fitted["trees"].predict_proba(X)

        def predict(self, X: Any) -> Any:
            return fitted["trees"].predict(X)

    row = {"years": 3, "rank": "low", "city": "Oslo", "score": 3.0, "own": "no"}
    asked = smallest_change(Opaque(), fitted["encoder"], row, CHANGEABLE[:4])
    exact = smallest_change(fitted["trees"], fitted["encoder"], row, CHANGEABLE[:4])
    assert asked.method == "the model was asked about every combination"
    assert asked.cost == pytest.approx(exact.cost)


def test_a_missing_number_stays_and_columns_must_be_read(fitted: dict[str, Any]) -> None:
    row = {"years": None, "rank": "low", "city": "Oslo", "score": 3.0, "own": "no"}
    only = [Changeable("years", "up", whole=True)]
    recourse = smallest_change(fitted["trees"], fitted["encoder"], row, only)
    assert recourse.status == "none"
    with pytest.raises(ValueError, match="does not read the column 'income'"):
        smallest_change(fitted["trees"], fitted["encoder"], row, [Changeable("income")])
    with pytest.raises(ValueError, match="direction is 'sideways'"):
        Changeable("years", "sideways")  # type: ignore[arg-type]


def test_costs_are_standard_deviations_by_hand(fitted: dict[str, Any]) -> None:
    encoder = fitted["encoder"]
    row = {"years": 4, "rank": "low", "city": "Oslo", "score": 3.0, "own": "no"}
    encoded = encoder.transform(pd.DataFrame([row]))[0]
    years, city = choices_of(encoder, row, encoded, [CHANGEABLE[0], CHANGEABLE[2]])
    deviation = fitted["frame"]["years"].std(ddof=0)
    assert years.values[:3] == [4, 5, 6]
    assert years.costs[2] == pytest.approx(2 / deviation + COLUMN_COST)
    assert city.values == ["Oslo", "Rome", "Turin"]
    assert city.costs.tolist() == [0.0, 1.1, 1.1]
    assert [round_step(size) for size in (1.0, 0.3, 99.0)] == [1.0, 0.2, 50.0]
