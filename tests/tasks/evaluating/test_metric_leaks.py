"""Leaks of a learned metric, and decisions on adapted copies, of made-up test rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from evenhand.fairlib.distances.explore import EXPLORE
from evenhand.fairlib.distances.learned import LearnedMetric
from evenhand.fairlib.distances.metric_base import Metric
from evenhand.fairlib.distances.sensitive_subspace import SensitiveSubspace
from evenhand.tasks.evaluating.decisions import Decisions
from evenhand.tasks.evaluating.metric_leaks import (
    UNNAMED,
    adapted_consistency,
    copy_makers,
    measured_copies,
    metric_leaks,
)
from tests.tasks.steps_of_rows import encoded


class BySign:
    """Decides by the sign of one column."""

    def __init__(self, column: int) -> None:
        self.column = column

    def predict(self, X: Any) -> Any:
        return (X[:, self.column] > 0.5).astype(int)


@pytest.fixture(scope="module")
def metric() -> LearnedMetric:
    data = encoded(600)
    learned = LearnedMetric(sensitive={"sex": [0]}, feature_groups=data.groups)
    return learned.fit(data.X, data.y, sensitive_features=data.sensitive)


def test_a_metric_without_the_attribute_is_at_chance(metric: LearnedMetric) -> None:
    leaks = metric_leaks(metric, BySign(1), encoded(500, seed=1))
    assert set(leaks) == {"metric_leak.sex"}
    leak = leaks["metric_leak.sex"]
    assert leak.low is not None
    assert leak.low < 0.5


def test_a_metric_that_leaves_the_attribute_leaks(metric: LearnedMetric) -> None:
    data = encoded(500, seed=1)
    groups = np.where(data.X[:, 1] > 0, "M", "F")
    leak = metric_leaks(metric, BySign(1), replace(data, sensitive={"sex": groups}))
    value = leak["metric_leak.sex"].value
    assert value is not None
    assert value > 0.9


def test_small_groups_are_insufficient_evidence(metric: LearnedMetric) -> None:
    data = encoded(500, seed=1)
    groups = np.array(["a"] * 480 + ["b"] * 20)
    leak = metric_leaks(metric, BySign(1), replace(data, sensitive={"sex": groups}))
    assert leak["metric_leak.sex"].status == "insufficient_evidence"
    assert "1 of 2 groups" in leak["metric_leak.sex"].reason


def test_people_without_a_group_are_no_group(metric: LearnedMetric) -> None:
    data = encoded(500, seed=1)
    groups = np.array(["a"] * 300 + ["missing"] * 200)
    leak = metric_leaks(metric, BySign(1), replace(data, sensitive={"sex": groups}))
    assert "1 of 1 groups" in leak["metric_leak.sex"].reason


def test_decisions_by_the_attribute_change_on_every_copy(metric: LearnedMetric) -> None:
    data = encoded(500, seed=1)
    by_sex = adapted_consistency(metric, BySign(0), data, 0.95)["adapted_consistency"]
    assert by_sex.value == 0.0
    by_skill = adapted_consistency(metric, BySign(1), data, 0.95)["adapted_consistency"]
    assert by_skill.value == 1.0
    assert by_skill.low is not None
    assert 0.98 < by_skill.low < 1.0


def test_groups_that_are_no_inputs_are_those_of_the_rows() -> None:
    data = encoded(600)
    women = data.sensitive["sex"] == "F"
    rows = data.X[:, 1:].copy()
    # skill differs by two between the sexes, so that its counterparts cross the threshold
    rows[women, 0] += 2.0
    hidden = LearnedMetric().fit(rows, data.y, sensitive_features=data.sensitive)
    moved = replace(data, X=rows)
    consistency = adapted_consistency(hidden, BySign(0), moved, 0.95)["adapted_consistency"]
    in_women = BySign(0).predict(rows - 2.0 * ~women[:, None] * [-1.0, 0.0])
    in_men = BySign(0).predict(rows - 2.0 * women[:, None] * [1.0, 0.0])
    assert consistency.value == pytest.approx((in_women == in_men).mean(), abs=0.03)
    assert consistency.value < 0.7


class Adapting(BySign):
    """A model that contains a metric and reads adapted columns."""

    adapts_inputs = True

    def __init__(self, metric: LearnedMetric) -> None:
        super().__init__(1)
        self.metric_ = metric


def test_a_model_that_contains_its_metric_makes_copies(metric: LearnedMetric) -> None:
    data = encoded(50, seed=1)
    assert copy_makers(BySign(1), ["counterpart"]) == {}
    assert set(copy_makers(Adapting(metric), ["counterpart"])) == {"counterpart"}
    (make_copies,) = copy_makers(Adapting(metric), []).values()
    by_groups = make_copies(data.X, data.sensitive)
    # without the attribute's column its groups are read from the rows
    for copy, other in zip(by_groups, make_copies(data.X, {}), strict=True):
        np.testing.assert_array_equal(copy, other)


def test_unnamed_copies_are_measured_and_not_kept(metric: LearnedMetric) -> None:
    agree = np.array([True, True, True, False])
    decisions = Decisions(np.zeros(4), np.zeros(4, dtype=int), {UNNAMED: agree, "spouse": agree})
    kept, metrics = measured_copies(decisions, copy_makers(Adapting(metric), []), 0.95)
    assert set(kept.consistent) == {"spouse"}
    assert metrics["adapted_consistency"].value == 0.75
    same, nothing = measured_copies(decisions, {}, 0.95)
    assert same is decisions
    assert nothing == {}


def leak_of(metric: Metric, data: Any, legitimate: tuple[str, ...] = ()) -> float:
    value = metric_leaks(metric, BySign(0), data, legitimate)["metric_leak.sex"].value
    assert value is not None
    return value


def with_proxy(n: int) -> Any:
    """Rows whose skill differs by two between the sexes."""
    data = encoded(n)
    rows = data.X.copy()
    rows[:, 1] += 2.0 * rows[:, 0]
    return replace(data, X=rows)


def test_a_subspace_leaks_what_its_projection_leaves() -> None:
    data = with_proxy(800)
    sex_alone = SensitiveSubspace(indicators=[0], learned=[]).fit(data.X)
    assert leak_of(sex_alone, data) > 0.85
    both = SensitiveSubspace(indicators=[0, 1], learned=[]).fit(data.X)
    assert leak_of(both, data) < 0.6
    # what a legitimate column explains is no leak
    assert leak_of(sex_alone, data, ("skill",)) < 0.6


def test_trees_find_what_a_linear_predictor_misses() -> None:
    data = with_proxy(800)
    rows = data.X.copy()
    # in the middle, or at both ends
    rows[:, 1] = np.where(rows[:, 0] > 0, 0.1, 1.0) * rows[:, 2]
    metric = SensitiveSubspace(indicators=[0], learned=[]).fit(rows)
    assert leak_of(metric, replace(data, X=rows)) > 0.75


def test_near_people_show_what_explore_only_shrinks() -> None:
    data = with_proxy(800)
    rows = data.X.astype(np.float64)
    # comparable people differ in sex and skill, incomparable ones in the noise
    other = np.roll(rows, 1, axis=0)
    comparable = np.column_stack([other[:, :2], rows[:, 2]])
    incomparable = np.column_stack([rows[:, :2], other[:, 2]])
    metric = EXPLORE(0.001).fit(
        rows, comparable=(rows, comparable), incomparable=(rows, incomparable)
    )
    assert not metric.is_projection
    assert leak_of(metric, data) < 0.6
    assert leak_of(SensitiveSubspace(indicators=[2], learned=[]).fit(rows), data) > 0.95
