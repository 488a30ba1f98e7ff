"""The choice of settings and thresholds at one operating point, and what is measured of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.studies.judged_methods import (
    CASES,
    Predicted,
    complete,
    joined,
    measure,
    rules,
    shortfall,
)
from evenhand.tasks.execution.dataset import Dataset

GOAL = {"balanced_accuracy": 0.8, "consistency.a": 0.9, "gap_max.sex": 0.1}


def people(
    rows: list[int], y: list[int], sex: list[str], own: list[float], copies: Any
) -> Predicted:
    data = Dataset(
        np.zeros((len(y), 1), np.float32),
        np.array(y),
        np.array(rows),
        [],
        {},
        {"sex": np.array(sex)},
        {},
    )
    group = data.sensitive["sex"]
    return Predicted(
        data, group, np.array(own), {"a": [(np.array(copy), group) for copy in copies]}
    )


def test_the_worst_column_counts_once_the_performance_is_reached() -> None:
    values = {"balanced_accuracy": 0.8, "consistency.a": 0.85, "gap_max.sex": 0.12}
    assert shortfall(values, GOAL) == (False, pytest.approx(0.05))
    assert shortfall(values | {"consistency.a": 1.0}, GOAL) == (False, pytest.approx(0.02))
    missed = shortfall(
        values | {"balanced_accuracy": 0.79, "consistency.a": 1.0, "gap_max.sex": 0.0}, GOAL
    )
    assert missed == (True, pytest.approx(0.01))
    # without the performance nothing is as good as any candidate that reaches it
    assert shortfall(values, GOAL) < missed


def test_decisions_are_measured_by_hand() -> None:
    found = people(
        *([0, 1, 2, 3], [1, 1, 0, 0], ["f", "m", "f", "m"], [0.9, 0.4, 0.6, 0.1]),
        [[0.9, 0.4, 0.6, 0.1], [0.9, 0.6, 0.6, 0.4]],
    )
    values, decided = measure(found, 0.5, seed=0)
    assert decided.tolist() == [1, 0, 1, 0]
    assert values["accuracy"] == values["balanced_accuracy"] == 0.5
    assert values["consistency.a"] == 0.75
    # women: both labels get 1; men: both get 0
    assert values["gap_max.sex"] == values["gap_rms.sex"] == 1.0
    assert measure(found, 0.35, seed=0)[0]["consistency.a"] == 0.75
    assert measure(found, 0.05, seed=0)[0]["consistency.a"] == 1.0


def test_folds_are_joined_in_the_order_of_the_table() -> None:
    first = people([5, 1], [1, 0], ["f", "m"], [0.5, 0.1], [[0.55, 0.15]])
    second = people([3], [1], ["m"], [0.3], [[0.35]])
    found = joined([first, second])
    assert found.data.rows.tolist() == [1, 3, 5]
    assert found.own.tolist() == [0.1, 0.3, 0.5]
    assert found.copies["a"][0][0].tolist() == [0.15, 0.35, 0.55]
    assert found.group.tolist() == found.data.sensitive["sex"].tolist() == ["m", "m", "f"]


def test_thresholds_of_groups_equal_their_error_rates() -> None:
    rng = np.random.default_rng(0)
    y, sex = rng.integers(0, 2, 4000), rng.integers(0, 2, 4000)
    score = np.clip(0.3 + 0.25 * y + 0.15 * sex + 0.1 * rng.normal(size=4000), 0.0, 1.0)
    found = people(list(range(4000)), y, np.where(sex, "m", "f"), score, [score])  # type: ignore[arg-type]
    one = min(measure(found, rule, 0)[0]["gap_max.sex"] for rule in [0.5])
    own = [rule for rule in rules("thresholds by group", found, "sex") if rule.tolerance == 0.0]  # type: ignore[union-attr]
    assert one > 0.3
    assert max(measure(found, rule, 0)[0]["gap_max.sex"] for rule in own) < 0.05


def test_only_seeds_with_every_family_are_shown() -> None:
    case = {"seeds": {"0": {"plain": {}, "blind": {}}, "1": {"plain": {}}}}
    assert complete(case) == [{"plain": {}, "blind": {}}]


def test_every_case_has_the_controls_first() -> None:
    for case in CASES.values():
        assert list(case.families)[:3] == ["plain", "blind", "thresholds by group"]
