"""Metrics and their intervals on fixed rows are those that were written down."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from evenhand.fairlib.evaluation.evaluate import evaluate
from evenhand.fairlib.evaluation.outcomes import Outcomes
from evenhand.fairlib.evaluation.paired import compare
from tests.written_results import check_written

ROWS = 160


def binary(seed: int, **extra: Any) -> Outcomes:
    """Two attributes of two and four groups, one of them small, and two sets of copies."""
    rng = np.random.default_rng(7)  # the same people for every model
    sex = rng.choice(["F", "M"], ROWS)
    race = rng.choice(["A", "B", "C", "D"], ROWS, p=[0.5, 0.3, 0.17, 0.03])
    label = (rng.random(ROWS) < 0.35 + 0.2 * (sex == "M")).astype(int)
    rng = np.random.default_rng(seed)
    score = np.clip(0.5 * rng.random(ROWS) + 0.3 * label + 0.1 * (race == "A") + 0.05, 0, 1)
    return Outcomes(
        label,
        (score >= 0.5).astype(int),
        score.round(3),
        {"sex": sex, "race": race},
        {"spouse": rng.random(ROWS) < 0.9, "status": rng.random(ROWS) < 0.97},
        **extra,
    )


def classes(seed: int) -> Outcomes:
    """Three labels, predicted mostly right."""
    rng = np.random.default_rng(11)
    label = rng.choice(3, ROWS, p=[0.5, 0.3, 0.2])
    sex = rng.choice(["F", "M"], ROWS)
    rng = np.random.default_rng(seed)
    probability = rng.dirichlet(np.ones(3), ROWS)
    probability[np.arange(ROWS), label] += 0.6
    probability /= probability.sum(axis=1, keepdims=True)
    return Outcomes(
        label, probability.argmax(axis=1), probability, {"sex": sex}, classes=("x", "y", "z")
    )


@pytest.mark.parametrize("name", ["plain", "weighted", "people", "adverse", "intersections"])
def test_an_evaluation_is_the_one_written_down(name: str) -> None:
    extra: dict[str, Any] = {}
    arguments: dict[str, Any] = {}
    if name == "weighted":
        arguments["sample_weight"] = np.random.default_rng(0).uniform(0.2, 3.0, ROWS)
    if name == "people":
        extra["people"] = np.arange(ROWS) // 3
    if name == "adverse":
        extra["favourable"] = 0
    if name == "intersections":
        arguments["intersections"] = True
    result = evaluate(binary(1, **extra), draws=60, level=0.9, seed=3, **arguments)
    check_written(__file__, name, result.to_json())


def test_an_evaluation_of_classes_is_the_one_written_down() -> None:
    result = evaluate(classes(1), draws=60, level=0.9, seed=3)
    check_written(__file__, "classes", result.to_json())


@pytest.mark.parametrize("weighted", [False, True])
def test_a_comparison_is_the_one_written_down(weighted: bool) -> None:
    weights = None
    if weighted:
        weights = np.random.default_rng(0).uniform(0.2, 3.0, ROWS)
    result = compare(
        binary(1), binary(2), sample_weight=weights, draws=60, level=0.9, intersections=True
    )
    check_written(__file__, f"comparison, weighted: {weighted}", result.to_json())


def test_a_comparison_of_classes_is_the_one_written_down() -> None:
    result = compare(classes(1), classes(2), draws=60, level=0.9)
    check_written(__file__, "comparison of classes", result.to_json())
