"""What is written of a selector: its probabilities by feature, and no row."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from evenhand.fairlib.methods.registry import METHODS
from evenhand.tasks.steps.evaluate_step import has_trait, selection_content


@dataclass
class Selector:
    """Leaves sex out, selects the job seldom, and savings by what they are."""

    data_dependent: bool = False
    attributes_: list[str] = field(default_factory=lambda: ["sex"])
    groups_: dict[str, list[int]] = field(
        default_factory=lambda: {"sex": [0], "job": [1, 2], "savings": [3]}
    )

    def selection_probabilities(self, X: np.ndarray) -> np.ndarray:
        savings = X[:, 3] if self.data_dependent else np.full(len(X), 0.75)
        return np.column_stack([np.zeros(len(X)), np.full(len(X), 0.125), savings])


def written(model: Any, n: int = 40) -> dict[str, Any]:
    X = np.tile(np.linspace(0, 1, n, dtype=np.float32)[:, None], 4)
    content: dict[str, Any] = json.loads(
        json.dumps(selection_content(model, X, 5), allow_nan=False)
    )
    return content


def test_the_whole() -> None:
    found = written(Selector())
    assert (found["attributes"], found["data_dependent"], found["rows"]) == (["sex"], False, 40)
    assert [(entry["name"], entry["mean"]) for entry in found["groups"]] == [
        ("sex", 0.0),
        ("job", 0.125),
        ("savings", 0.75),
    ]


def test_a_data_dependent_selector_has_quartiles() -> None:
    """They are given of enough people only."""
    many, few = (written(Selector(data_dependent=True), n)["groups"][2] for n in (41, 10))
    assert [many[key] for key in ("q1", "median", "q3")] == pytest.approx([0.25, 0.5, 0.75])
    assert [few[key] for key in ("sd", "q1", "median", "q3")] == [None] * 4
    assert few["mean"] == pytest.approx(0.5)


def test_models_with_a_selector_are_known_by_the_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not has_trait(Selector(), "selects")
    flagged = replace(METHODS["gbdt"], class_name="Selector", selects=True)
    monkeypatch.setitem(METHODS, "selector", flagged)
    assert has_trait(Selector(), "selects")
    monkeypatch.setitem(METHODS, "selector", replace(flagged, selects=False))
    assert not has_trait(Selector(), "selects")
