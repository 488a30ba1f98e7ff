"""The default fair metric of a table whose directions span most of its inputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evenhand.fairlib.distances.metric_kinds import load_metric
from evenhand.tasks.errors import InputError
from evenhand.tasks.execution.dataset import Dataset
from evenhand.tasks.steps.fair_metric_step import fair_metric
from tests.tasks.steps_of_rows import context, encoded

N = 3000


def few_inputs(told: float) -> Dataset:
    """Three inputs; they tell the group by a shift of the first one, and the number not at all."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(N, 3)).astype(np.float32)
    group = rng.choice(["f", "m", "x"], N)
    X[:, 0] += told * (group == "m")
    age = rng.normal(40, 10, N)
    names = ["income", "debt", "years"]
    sensitive: dict[str, Any] = {"gender": group, "age": np.where(age > 40, "over 40", "up to 40")}
    groups = {name: [j] for j, name in enumerate(names)}
    return Dataset(
        X, (X[:, 1] > 0).astype(np.int64), np.arange(N), names, groups, sensitive, {"age": age}
    )


def learned(folder: Path, data: Dataset, **changed: Any) -> tuple[Any, dict[str, Any]]:
    section = {
        "kind": "sensitive-subspace",
        "indicators": None,
        "learned": None,
        "strength": 0.1,
    } | changed
    result = fair_metric(context(folder, {"fair_metric": section, "seed": 0}, data))
    return load_metric(result.outputs["metric"][0]), result.facts


def test_what_tells_a_group_is_ignored_and_the_rest_counts(tmp_path: Path) -> None:
    metric, facts = learned(tmp_path, few_inputs(told=1.5))
    assert (facts["rank"], facts["unlearned"]) == (1, ["age"])
    assert np.linalg.norm(metric.project([[1.0, 0.0, 0.0]])) < 0.1
    assert np.linalg.norm(metric.project([[0.0, 1.0, 0.0]])) > 0.99


def test_if_nothing_is_told_nothing_is_ignored(tmp_path: Path) -> None:
    metric, facts = learned(tmp_path, few_inputs(told=0.0))
    assert (facts["rank"], facts["unlearned"]) == (0, ["gender", "age"])
    assert metric.distance([[0.0, 0.0, 0.0]], [[1.0, 2.0, 2.0]]) == pytest.approx([3.0])


def test_what_the_job_names_is_kept(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="subspace is everything"):
        learned(tmp_path, few_inputs(told=0.0), learned=["gender", "age"])


def test_a_learned_metric_names_what_it_removes(tmp_path: Path) -> None:
    data = encoded(600)
    section = {"kind": "learned", "legitimate": [], "explained_variance": 0.99}
    result = fair_metric(context(tmp_path, {"fair_metric": section, "seed": 0}, data))
    metric = load_metric(result.outputs["metric"][0])
    facts = result.facts["learned"]
    verdicts = {item["column"]: item["verdict"] for item in facts["columns"]}
    assert verdicts == {"sex": "sensitive", "skill": "kept", "noise": "kept"}
    assert set(facts["leaks"]["sex"]) == {"before", "after", "low", "high"}
    assert metric.distance([[0.0, 1.0, 0.0]], [[1.0, 1.0, 0.0]]) == pytest.approx([0.0])


def test_a_learned_metric_refuses_a_small_group(tmp_path: Path) -> None:
    groups = np.array(["a"] * 590 + ["b"] * 10)
    data = encoded(600, groups=groups)
    section = {"kind": "learned", "legitimate": [], "explained_variance": 0.99}
    with pytest.raises(InputError, match="'b' of 'sex' has 10 training rows"):
        fair_metric(context(tmp_path, {"fair_metric": section, "seed": 0}, data))
