"""The step that attacks a model: rows of the shadow models, and models that do and do not disclose
rows.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from evenhand.fairlib.methods.registry import method_class
from evenhand.fairlib.preprocessing.leaks import MIN_ROWS
from evenhand.tasks.classifier_training import Learner
from evenhand.tasks.execution.dataset import Dataset
from evenhand.tasks.steps.membership_step import inferred_attributes, membership, warning
from tests.tasks.steps_of_rows import context, encoded, write_dataset

OVERFITTED = {
    "n_steps": 150,
    "max_depth": 8,
    "reg_lambda": 0.0,
    "eta": 0.5,
    "n_iter_no_change": None,
}


def attack(folder: Path, method: str, arguments: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Content of ``membership.json`` for a method on 210 training rows, with 90 test rows between
    them.
    """
    whole = encoded(300)
    test = np.arange(300) % 10 < 3
    train, held = whole.take(np.flatnonzero(~test)), whole.take(np.flatnonzero(test))
    model = method_class(method)(**arguments).fit(train.X, train.y)
    model.save(folder / "model")
    write_dataset(folder / "test", held, {})
    parameters = {"method": method, "arguments": arguments, "seed": 0, "shadows": 8}
    parameters |= {"draws": 100, "level": 0.95, "min_cell": 5, **changes}
    given = context(folder, parameters, train, test=folder / "test", model=folder / "model")
    found: dict[str, Any] = json.loads(membership(given).outputs["membership"][0].read_text())
    return found


def test_trees_that_memorise_are_found_out_and_a_line_is_not(tmp_path: Path) -> None:
    trees = attack(tmp_path / "trees", "gbdt", OVERFITTED)
    online = trees["attacks"]["online"]["auc"]
    assert online["value"] > 0.7
    assert online["low"] <= online["value"] <= online["high"]
    assert (trees["members"], trees["trained_on"], trees["shadows"]) == (90, 210, 8)
    larger = max(trees["attacks"][name]["auc"]["value"] for name in ("online", "offline"))
    assert f"AUC of {larger:.3f}, above 0.55;" in str(warning(trees))
    line = attack(tmp_path / "line", "logistic", {})
    assert line["attacks"]["online"]["auc"]["value"] < 0.6


def test_the_same_seed_gives_the_same_figures_and_another_others(tmp_path: Path) -> None:
    found = [
        attack(tmp_path / str(k), "logistic", {}, seed=seed) for k, seed in enumerate((3, 3, 4))
    ]
    assert found[0] == found[1]
    assert found[0]["attacks"] != found[2]["attacks"]


def test_shadow_models_have_as_many_rows_and_half_of_the_pool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    fit = Learner.fit

    def spy(self: Learner, data: Dataset, rows: Any = None, **options: Any) -> Any:
        seen.append((self.build().random_state, data.rows[rows]))
        return fit(self, data, rows, **options)

    monkeypatch.setattr(Learner, "fit", spy)
    attack(tmp_path, "logistic", {})
    seeds, rows = zip(*seen, strict=True)
    assert len(set(seeds)) == 8
    counts = np.bincount(np.concatenate(rows), minlength=300)
    assert [len(np.unique(each)) for each in rows] == [210] * 8
    test = np.arange(300) % 10 < 3
    # each attacked row is in half of the models, each other training row in all
    assert_array_equal(counts[test], 4)
    assert_array_equal(np.bincount(counts[~test], minlength=9)[[4, 8]], [90, 120])


def test_a_warning_says_when_it_may_be_chance() -> None:
    def content(value: float | None, low: float | None = None) -> dict[str, Any]:
        found = {"auc": {"value": value, "low": low}}
        return {"attacks": {"online": {"auc": {"value": None}}, "offline": found}}

    assert [warning(content(value)) for value in (None, 0.55)] == [None, None]
    assert "chance" not in str(warning(content(0.6, 0.51)))
    assert "may be chance" in str(warning(content(0.6, 0.49)))


def test_groups_are_inferred_from_the_label_the_score_and_both() -> None:
    sex = np.where(np.arange(400) % 2 == 0, "F", "M")
    data = encoded(400, groups=sex)
    score = np.where(sex == "F", 0.9, 0.1)
    found = {item["source"]: item for item in inferred_attributes(data, score, 5)}
    assert list(found) == ["label", "score", "both"]
    assert found["score"] == {
        "attribute": "sex", "source": "score", "group": "F", "auc": 1.0, "base_rate": 0.5
    }  # fmt: skip
    assert found["label"]["auc"] == pytest.approx(0.5, abs=0.1)
    # neither tells the group alone, both together do
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400)
    other = Dataset(data.X, y, data.rows, data.names, data.groups, data.sensitive, {})
    mixed = np.where((sex == "F") == (y == 1), 0.6, 0.1) + rng.choice([0.0, 0.2], 400)
    found = {item["source"]: item["auc"] for item in inferred_attributes(other, mixed, 200)}
    assert found["both"] == 1.0
    assert max(found["label"], found["score"]) < 0.62


def test_small_groups_are_left_out() -> None:
    sex = np.where(np.arange(400) < MIN_ROWS - 1, "F", "M")
    assert inferred_attributes(encoded(400, groups=sex), np.zeros(400), 1) == []
    data = encoded(400)
    smaller = int(np.unique(data.sensitive["sex"], return_counts=True)[1].min())
    assert [
        len(inferred_attributes(data, np.zeros(400), least)) for least in (smaller, smaller + 1)
    ] == [
        3,
        0,
    ]


def test_rows_of_two_parts_are_in_the_order_of_the_table() -> None:
    whole = encoded(30)
    odd = np.arange(30) % 2 == 1
    again = whole.take(np.flatnonzero(odd)).with_rows_of(whole.take(np.flatnonzero(~odd)[::-1]))
    assert_array_equal(again.rows, whole.rows)
    assert_array_equal(again.X, whole.X)
    assert_array_equal(again.y, whole.y)
    assert_array_equal(again.sensitive["sex"], whole.sensitive["sex"])
