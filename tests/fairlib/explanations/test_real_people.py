"""Real people within a fair distance, compared with all people of small tables."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest

from evenhand.fairlib.certificates.networks import NotProvedError
from evenhand.fairlib.distances.sensitive_subspace import LearnedDirection, SensitiveSubspace
from evenhand.fairlib.evaluation.group_thresholds import GroupThresholds
from evenhand.fairlib.explanations import real_people
from evenhand.fairlib.explanations.choices import Changeable
from evenhand.fairlib.explanations.comparables import ComparablePeople
from evenhand.fairlib.explanations.real_people import RealPeopleSearch, RealValues
from evenhand.fairlib.explanations.recourse import smallest_change
from evenhand.fairlib.methods.calibration import Calibration
from evenhand.fairlib.methods.decided import DecidedModel, GroupRule, predictions_of
from evenhand.fairlib.methods.gbdt import GBDTClassifier
from evenhand.fairlib.methods.networks.plain import NeuralNetworkClassifier
from evenhand.fairlib.methods.preprocessed_gbdt import ProjectedGBDTClassifier
from evenhand.fairlib.preprocessing.encoder import ColumnSpec, TableEncoder

YEARS = range(20)
LEVELS = range(6)
CITIES = ("Bonn", "Oslo", "Rome")
SEXES = ("f", "m")
VALUES = {
    "years": RealValues("years", whole=True, minimum=0, maximum=19),
    "level": RealValues("level", values=list(LEVELS)),
    "city": RealValues("city", values=CITIES),
    "sex": RealValues("sex", values=SEXES),
}


@pytest.fixture(scope="module")
def fitted() -> dict[str, Any]:
    """Models of four columns that favour men, and a metric whose free direction is oblique."""
    random = np.random.default_rng(1)
    size = 400
    frame = pd.DataFrame(
        {
            "years": random.integers(0, 20, size),
            "level": random.integers(0, 6, size),
            "city": random.choice(CITIES, size),
            "sex": random.choice(SEXES, size),
        }
    )
    frame["years"] = np.minimum(19, frame["years"] + 4 * (frame["sex"] == "m"))
    specs = [
        ColumnSpec("years", "standard"),
        ColumnSpec("level", "unit", minimum=0, maximum=5),
        ColumnSpec("city", "onehot"),
        ColumnSpec("sex", "binary", positive="m"),
    ]
    encoder = TableEncoder(specs)
    X = encoder.fit(frame).transform(frame)
    merit = frame["years"] + 2 * frame["level"] + 3 * (frame["city"] == "Rome")
    y = (merit + 3 * (frame["sex"] == "m") > 17).to_numpy()
    metric = SensitiveSubspace(indicators=[5], learned=[LearnedDirection("sex", (5,))])
    return {
        "encoder": encoder,
        "metric": metric.fit(X, sensitive_features={"sex": frame["sex"].to_numpy()}),
        "trees": GBDTClassifier(n_steps=30, max_depth=3, random_state=0).fit(X, y),
        "project": ProjectedGBDTClassifier(metric, n_steps=30, max_depth=3, random_state=0).fit(
            X, y
        ),
        "network": NeuralNetworkClassifier(hidden=(8,), n_steps=200, random_state=0).fit(X, y),
    }


def everybody() -> pd.DataFrame:
    """Every person that the contract allows."""
    people = itertools.product(YEARS, LEVELS, CITIES, SEXES)
    return pd.DataFrame(people, columns=["years", "level", "city", "sex"])


@pytest.mark.parametrize("kind", ["trees", "network", "project"])
@pytest.mark.parametrize("radius", [0.05, 0.25, 0.9])
def test_the_search_finds_who_is_among_all_people(
    fitted: dict[str, Any], kind: str, radius: float
) -> None:
    """Somebody is found exactly if one of all 720 people is near and decided otherwise."""
    model = fitted[kind]
    people = everybody()
    encoded = fitted["encoder"].transform(people)
    decisions = model.predict(encoded) == 1
    search = RealPeopleSearch(model, fitted["encoder"], fitted["metric"], radius, VALUES)
    statuses = set()
    for place in range(0, len(people), 61):
        row = people.iloc[place].to_dict()
        own = np.repeat(encoded[place][None], len(people), axis=0)
        near = fitted["metric"].distance(own, encoded) <= radius
        exists = bool((near & (decisions != decisions[place])).any())
        result = search.search(row, encoded[place], is_positive=bool(decisions[place]))
        assert result.status == ("found" if exists else "none"), (row, result)
        statuses.add(result.status)
        if exists:
            other = pd.DataFrame([{**row, **result.differs}])
            other_row = fitted["encoder"].transform(other)
            assert bool(model.predict(other_row)[0]) != decisions[place]
            assert fitted["metric"].distance(own[:1], other_row)[0] <= radius + 1e-6
    assert radius != 0.25 or statuses == {"found", "none"}


def test_whole_numbers_between_splits_may_be_read_together(
    fitted: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing that all people contradict is claimed, and most answers are known."""
    monkeypatch.setattr(real_people, "MOST_SINGLE", 2)
    model = fitted["trees"]
    people = everybody()
    encoded = fitted["encoder"].transform(people)
    decisions = model.predict(encoded) == 1
    search = RealPeopleSearch(model, fitted["encoder"], fitted["metric"], 0.5, VALUES)
    answers = []
    for place in range(0, len(people), 61):
        own = np.repeat(encoded[place][None], len(people), axis=0)
        near = fitted["metric"].distance(own, encoded) <= 0.5
        exists = bool((near & (decisions != decisions[place])).any())
        row = people.iloc[place].to_dict()
        result = search.search(row, encoded[place], is_positive=bool(decisions[place]))
        assert result.status in ("unknown", "found" if exists else "none")
        answers.append(result.status)
    assert answers.count("unknown") < len(answers) / 2
    assert {"found", "none"} <= set(answers)


def test_recourse_of_projected_trees_is_that_of_all_changes(fitted: dict[str, Any]) -> None:
    """A change is proved smallest exactly where one of all people with more years exists."""
    model = fitted["project"]
    people = everybody()
    decisions = model.predict(fitted["encoder"].transform(people)) == 1
    up = [Changeable("years", "up", maximum=8, whole=True), Changeable("city", values=CITIES)]
    statuses = set()
    for place in range(0, len(people), 71):
        row = people.iloc[place].to_dict()
        recourse = smallest_change(model, fitted["encoder"], row, up)
        after = people["years"].between(row["years"], max(8, row["years"]))
        same = (people["level"] == row["level"]) & (people["sex"] == row["sex"])
        if not decisions[place]:
            exists = bool((decisions & after & same).any())
            assert recourse.status == ("found" if exists else "none")
            assert recourse.is_smallest
            statuses.add(recourse.status)
    assert statuses == {"found", "none"}


def test_thresholds_by_group_are_those_of_each_person(fitted: dict[str, Any]) -> None:
    """Men and women have other thresholds, and those of women are mixed: all people agree, and the
    smallest change is that of all changes.
    """
    by_sex = {"f": ((0.8, 0.5), (0.4, 0.5)), "m": ((0.6, 1.0),)}
    thresholds = GroupThresholds("sex", "equalized_odds", 0.0, 1.0, 1.0, by_sex, {}, 0.0, 0.0)
    model = DecidedModel(fitted["trees"], Calibration("none"), GroupRule("sex", thresholds, "-"))
    people = everybody()
    encoded = fitted["encoder"].transform(people)
    groups = people["sex"].to_numpy()
    decisions, _, _ = predictions_of(model, encoded, groups)
    search = RealPeopleSearch(
        model,
        fitted["encoder"],
        fitted["metric"],
        0.5,
        VALUES,
        groups_of=lambda rows: np.array([row["sex"] for row in rows]),
    )
    up = [Changeable("years", "up", maximum=19, whole=True), Changeable("level", "up", whole=True)]
    for place in range(0, len(people), 71):
        row = people.iloc[place].to_dict()
        own = np.repeat(encoded[place][None], len(people), axis=0)
        near = fitted["metric"].distance(own, encoded) <= 0.5
        exists = bool((near & (decisions != decisions[place])).any())
        result = search.search(row, encoded[place], is_positive=bool(decisions[place]))
        assert result.status == ("found" if exists else "none"), row
        recourse = smallest_change(model, fitted["encoder"], row, up, groups=row["sex"])
        after = (people["years"] >= row["years"]) & (people["level"] >= row["level"])
        same = (people["city"] == row["city"]) & (people["sex"] == row["sex"])
        is_better = bool((decisions & after & same).any())
        expected = "found" if is_better else "none"
        assert recourse.status == ("not needed" if decisions[place] else expected)
        assert decisions[place] or recourse.is_smallest


def test_numbers_between_splits_are_real_people(fitted: dict[str, Any]) -> None:
    """Years may be fractions: somebody is found who has one, and a small radius is a proof."""
    model = fitted["trees"]
    values = {**VALUES, "years": RealValues("years", minimum=0, maximum=19)}
    row = {"years": 9.2, "level": 3, "city": "Oslo", "sex": "f"}
    encoded = fitted["encoder"].transform(pd.DataFrame([row]))
    is_positive = bool(model.predict(encoded)[0])
    statuses = []
    for radius in (1e-4, 1.0):
        search = RealPeopleSearch(model, fitted["encoder"], fitted["metric"], radius, values)
        result = search.search(row, encoded[0], is_positive=is_positive)
        statuses.append(result.status)
    assert statuses == ["none", "found"]
    years = result.differs["years"]
    assert 0.0 <= years <= 19.0
    assert years == float(f"{years:.3g}")  # not 9.4172381562
    assert float(result.distance or 0.0) <= 1.0


def test_few_parts_and_fractions_of_networks_are_not_known(fitted: dict[str, Any]) -> None:
    row = {"years": 9, "level": 3, "city": "Oslo", "sex": "f"}
    encoded = fitted["encoder"].transform(pd.DataFrame([row]))
    arguments = (fitted["network"], fitted["encoder"], fitted["metric"], 0.9)
    is_positive = bool(fitted["network"].predict(encoded)[0])
    ended = RealPeopleSearch(*arguments, VALUES, most_parts=0)
    result = ended.search(row, encoded[0], is_positive=is_positive)
    assert (result.status, result.reason) == ("unknown", "the search ended after 0 parts")
    fractions = {**VALUES, "years": RealValues("years")}
    result = RealPeopleSearch(*arguments, fractions).search(
        row, encoded[0], is_positive=is_positive
    )
    assert result.status == "unknown"
    assert "not whole" in result.reason


def test_models_without_bounds_are_refused(fitted: dict[str, Any]) -> None:
    class Opaque:
        def predict_proba(self, rows: Any) -> Any:
            return fitted["trees"].predict_proba(rows)

    with pytest.raises(NotProvedError, match="no bounds"):
        RealPeopleSearch(Opaque(), fitted["encoder"], fitted["metric"], 0.1, VALUES)


def test_missing_values_are_people_too() -> None:
    """A model that refuses who gives no income finds that person near."""
    random = np.random.default_rng(2)
    income = random.normal(size=300)
    income[:60] = np.nan
    frame = pd.DataFrame({"income": income, "sex": random.choice(SEXES, 300)})
    encoder = TableEncoder(
        [ColumnSpec("income", "standard"), ColumnSpec("sex", "binary", positive="m")]
    )
    X = encoder.fit(frame).transform(frame)
    model = GBDTClassifier(n_steps=20, max_depth=2, random_state=0).fit(X, ~np.isnan(income))
    metric = SensitiveSubspace(indicators=[2], learned=[]).fit(X)
    row = {"income": 0.0, "sex": "f"}
    for optional, status in ((True, "found"), (False, "none")):
        values = {"income": RealValues("income", optional=optional)}
        people = ComparablePeople(model, encoder, {"sex": SEXES}, metric, 1.5, values)
        comparables = people.find(row)
        assert comparables.status == status
        if optional:
            assert comparables.differs["income"] is None
            assert comparables.distance == pytest.approx(1.0, abs=0.3)
