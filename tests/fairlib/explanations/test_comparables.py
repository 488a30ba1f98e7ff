"""Comparable people: proved, found, or not known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from evenhand.fairlib.distances.sensitive_subspace import SensitiveSubspace
from evenhand.fairlib.evaluation.group_thresholds import GroupThresholds
from evenhand.fairlib.explanations.comparables import ComparablePeople, comparable_people
from evenhand.fairlib.explanations.margin_bounds import ModelMargins
from evenhand.fairlib.explanations.ranked_reasons import (
    favourable_contributions,
    principal_reasons,
    reason_method,
)
from evenhand.fairlib.methods.calibration import Calibration
from evenhand.fairlib.methods.decided import (
    OTHER_GROUPS,
    AttributeGroups,
    DecidedModel,
    GroupRule,
)
from evenhand.fairlib.methods.gbdt import GBDTClassifier
from evenhand.fairlib.methods.networks.plain import NeuralNetworkClassifier
from evenhand.fairlib.preprocessing.encoder import ColumnSpec, TableEncoder

VALUES = {"sex": ["f", "m"]}


@pytest.fixture(scope="module")
def fitted() -> dict[str, Any]:
    """Models that decide by years alone, and ones that favour men."""
    random = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"years": random.integers(0, 20, 300), "sex": random.choice(["f", "m"], 300)}
    )
    encoder = TableEncoder([ColumnSpec("years", "standard"), ColumnSpec("sex", "onehot")])
    X = encoder.fit(frame).transform(frame)
    by_merit = (frame["years"] >= 10).to_numpy()
    by_sex = (frame["years"] + 6 * (frame["sex"] == "m") >= 12).to_numpy()
    trees = {"n_steps": 20, "max_depth": 2, "n_iter_no_change": None, "random_state": 0}
    return {
        "encoder": encoder,
        "metric": SensitiveSubspace(indicators=[1, 2], learned=[]).fit(X),
        "even": GBDTClassifier(**trees).fit(X, by_merit),  # type: ignore[arg-type]
        "uneven": GBDTClassifier(**trees).fit(X, by_sex),  # type: ignore[arg-type]
        "network": NeuralNetworkClassifier(hidden=(8,), n_steps=200, random_state=0).fit(X, by_sex),
        "X": X,
        "rows": frame.to_dict("records"),
    }


def test_a_comparable_person_decided_otherwise_is_found(fitted: dict[str, Any]) -> None:
    row = {"years": 9, "sex": "f"}
    found = comparable_people(fitted["uneven"], fitted["encoder"], row, VALUES)
    assert (found.status, found.differs, found.tried) == ("found", {"sex": "m"}, 2)
    by_metric = comparable_people(
        fitted["uneven"], fitted["encoder"], row, VALUES, metric=fitted["metric"], radius=0.1
    )
    assert (by_metric.status, by_metric.differs) == ("found", {"sex": "m"})
    assert by_metric.distance == pytest.approx(0.0, abs=1e-6)


def test_nobody_comparable_is_proved_by_values_and_metric(fitted: dict[str, Any]) -> None:
    row = {"years": 3, "sex": "f"}
    by_values = comparable_people(fitted["even"], fitted["encoder"], row, VALUES)
    assert (by_values.status, by_values.proved_radius) == ("none", 0.0)
    for model in ("even", "network"):
        by_metric = comparable_people(
            fitted[model],
            fitted["encoder"],
            {"years": 0, "sex": "f"},
            VALUES,
            metric=fitted["metric"],
            radius=0.05,
        )
        assert (by_metric.status, by_metric.proved_radius) == ("none", 0.05)


def test_a_large_radius_has_a_real_person_with_other_years(fitted: dict[str, Any]) -> None:
    """Somebody within the radius is decided otherwise, and differs in more than the sex."""
    row = {"years": 3, "sex": "f"}
    arguments = (fitted["even"], fitted["encoder"], row, VALUES)
    comparables = comparable_people(*arguments, metric=fitted["metric"], radius=5.0)
    assert comparables.status == "found"
    assert comparables.differs["years"] >= 9.0
    assert 0.0 < float(comparables.distance or 0.0) <= 5.0


def test_what_is_neither_found_nor_proved_is_not_claimed(fitted: dict[str, Any]) -> None:
    """Years of a network may be fractions, of which there are too many to look at."""
    row = {"years": 3, "sex": "f"}
    arguments = (fitted["network"], fitted["encoder"], row, VALUES)
    comparables = comparable_people(*arguments, metric=fitted["metric"], radius=5.0)
    assert comparables.status == "unknown"
    assert "not whole" in comparables.reason
    assert 0.0 <= float(comparables.proved_radius or 0.0) < 5.0


def test_other_groups_have_the_thresholds_of_their_group(fitted: dict[str, Any]) -> None:
    """The trees decide by years alone, and the thresholds by sex: women need a higher
    probability. Nobody of a third sex, which has no threshold, is decided about.
    """
    by_sex = {"f": ((0.9, 1.0),), "m": ((0.1, 1.0),)}
    thresholds = GroupThresholds("sex", "equalized_odds", 0.0, 1.0, 1.0, by_sex, {}, 0.0, 0.0)
    rule = GroupRule("sex", thresholds, "by hand")
    model = DecidedModel(fitted["even"], Calibration("none"), rule)

    def groups_of(rows: Any) -> Any:
        return rule.groups_of(pd.DataFrame({"sex": [row["sex"] for row in rows]}))

    probability = fitted["even"].predict_proba(fitted["X"])[:, 1]
    between = int(np.flatnonzero((probability > 0.1) & (probability < 0.9))[0])
    row = {**fitted["rows"][between], "sex": "f"}
    for people, status in ((["f", "m"], "found"), (["f", "x"], "none")):
        arguments = (model, fitted["encoder"], {"sex": people})
        search = ComparablePeople(*arguments, groups_of=groups_of)
        assert search.find(row, "f").status == status
        by_metric = ComparablePeople(*arguments, fitted["metric"], 0.1, groups_of=groups_of)
        comparables = by_metric.find(row, "f")
        assert (comparables.status, comparables.differs) == ("found", {"sex": "m"})
    refused = ComparablePeople(model, fitted["encoder"], {"sex": ["f"]}).find(row, "f")
    assert refused.status == "refused"


def test_crossed_groups_that_share_thresholds_are_looked_at(fitted: dict[str, Any]) -> None:
    """A man differs from a woman by the thresholds that all other groups share."""
    probability = fitted["even"].predict_proba(fitted["X"])[:, 1]
    between = int(np.flatnonzero((probability > 0.1) & (probability < 0.9))[0])
    row = {**fitted["rows"][between], "sex": "f"}
    parts = (
        AttributeGroups("sex", known=("f", "m")),
        AttributeGroups("years", (1000.0,), ("few", "many"), known=("few", "many")),
    )
    by_group = {"f & few": ((0.9, 1.0),), OTHER_GROUPS: ((0.1, 1.0),)}
    thresholds = GroupThresholds("sex&years", "equalized_odds", 0.0, 1.0, 1.0, by_group, {}, 0, 0)
    rule = GroupRule("sex&years", thresholds, "by hand", crossed=parts)
    model = DecidedModel(fitted["even"], Calibration("none"), rule)

    def groups_of(rows: Any) -> Any:
        return rule.groups_of(pd.DataFrame(list(rows)))

    arguments = (model, fitted["encoder"], {"sex": ["f", "m"]})
    group = groups_of([row])[0]
    assert group == "f & few"
    for search in (
        ComparablePeople(*arguments, groups_of=groups_of),
        ComparablePeople(*arguments, fitted["metric"], 0.1, groups_of=groups_of),
    ):
        found = search.find(row, group)
        assert (found.status, found.differs) == ("found", {"sex": "m"})
    margins = ModelMargins.of(model)
    assert margins is not None
    assert margins.limit(1, "m & few") == margins.limit(1, OTHER_GROUPS) < margins.limit(1, group)


def test_models_that_read_no_sensitive_column_are_even(fitted: dict[str, Any]) -> None:
    known = comparable_people(fitted["uneven"], fitted["encoder"], {"years": 9, "sex": "f"}, {})
    assert (known.status, known.method) == ("none", "the model reads no sensitive column")


def test_contributions_add_up_and_change_sign_with_the_label(fitted: dict[str, Any]) -> None:
    X = fitted["X"][:5]
    reference = np.zeros(X.shape[1])
    rising = favourable_contributions(fitted["uneven"], X, fitted["encoder"], reference)
    falling = favourable_contributions(
        fitted["uneven"], X, fitted["encoder"], reference, favourable=0
    )
    assert rising.shape == (5, 2)
    np.testing.assert_array_equal(rising, -falling)
    assert "Shapley" in reason_method(fitted["uneven"])
    assert "integrated gradients" in reason_method(fitted["network"])


def test_ranked_reasons_are_at_most_four_and_strongest_first() -> None:
    by_column = {"a": -0.1, "b": 0.9, "c": -2.0, "d": -0.004, "e": -0.3, "f": -0.2, "g": -0.05}
    reasons = principal_reasons(by_column)
    assert [reason.column for reason in reasons] == ["c", "e", "f", "a"]
    assert principal_reasons({"a": 1.0}) == principal_reasons({"a": 0.0}) == []
    small = {"a": -0.001, "b": -0.00001, "c": 0.1}
    assert [reason.column for reason in principal_reasons(small)] == ["a"]
