"""The step that judges a candidate: which rows train, which are judged, on the first rung and on folds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evenhand.tasks.dataset import Dataset, write_dataset
from evenhand.tasks.errors import InputError
from evenhand.tasks.step import StepContext
from evenhand.tasks.training import Learner
from evenhand.tasks.tuning.judge import judge

ROWS, FOLDS = 300, 3
PARAMETERS: dict[str, Any] = {
    "method": "logistic",
    "arguments": {},
    "seed": 0,
    "kind": "",
    "calibration": "none",
    "decision": {"threshold": "own", "rate": None, "costs": None, "equal": None},
    "min_cell": 5,
    "folds": FOLDS,
    "fold_seed": 0,
    "first": False,
    "measure": {
        "counterfactuals": {},
        "draws": 50,
        "level": 0.9,
        "min_cell": 5,
        "intersections": False,
        "score_intervals": False,
    },
}


def data_of(rows: int = ROWS) -> Dataset:
    """A label that follows the group, which is the first column, and a little the second column."""
    rng = np.random.default_rng(0)
    woman = rng.random(rows) < 0.5
    other = rng.normal(size=rows)
    y = (2.0 * woman + 0.5 * other + rng.normal(size=rows) > 1.0).astype(np.int64)
    X = np.column_stack([woman, other]).astype(np.float32)
    sex = np.where(woman, "F", "M").astype(object)
    return Dataset(X, y, np.arange(rows), ["sex=F", "other"], {"sex": [0], "other": [1]}, {"sex": sex}, {})


def judged(folder: Path, data: Dataset | None = None, **changes: Any) -> dict[str, Any]:
    """What the step writes."""
    if not (folder / "train").exists():
        write_dataset(folder / "train", data or data_of(), {"sex": "category", "other": "number"})
    context = StepContext({**PARAMETERS, **changes}, {"train": folder / "train"}, folder, lambda *_: None)
    (path, _) = judge(context).outputs["judged"]
    content: dict[str, Any] = json.loads(path.read_text())
    return content


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[np.ndarray[Any, Any]]:
    """Rows of each training, by their number in the table."""
    found: list[np.ndarray[Any, Any]] = []
    fit = Learner.fit

    def recorded(self: Learner, data: Dataset, rows: Any = None, **options: Any) -> Any:
        found.append(data.rows if rows is None else data.rows[rows])
        return fit(self, data, rows, **options)

    monkeypatch.setattr(Learner, "fit", recorded)
    return found


@pytest.mark.parametrize("kind", ["", "plain", "blind"])
def test_each_row_is_judged_once_by_a_model_of_the_other_folds(
    tmp_path: Path, trained: list[Any], kind: str
) -> None:
    content = judged(tmp_path, kind=kind)
    assert content["rows"] == ROWS
    held = [sorted(set(range(ROWS)) - set(rows.tolist())) for rows in trained]
    assert sorted(row for rows in held for row in rows) == list(range(ROWS))
    assert [len(rows) for rows in held] == [100, 100, 100]
    assert content["metrics"]["balanced_accuracy"]["low"] < content["metrics"]["balanced_accuracy"]["value"]


def test_the_first_rung_is_one_fold_judged_by_a_model_of_a_third_of_the_others(
    tmp_path: Path, trained: list[Any]
) -> None:
    content = judged(tmp_path, first=True)
    (rows,) = trained
    assert content["rows"] == 100
    assert len(rows) == 67  # of 200
    label = data_of().y
    assert label[rows].mean() == pytest.approx(label.mean(), abs=0.02)  # stratified
    assert content["metrics"]["balanced_accuracy"]["low"] is None


def test_a_calibration_is_learned_without_the_judged_rows(tmp_path: Path, trained: list[Any]) -> None:
    """A model that holds no rows out is trained twice a fold, the second time on a part of the same rows."""
    decision = {**PARAMETERS["decision"], "threshold": "balanced"}
    judged(tmp_path, calibration="sigmoid", decision=decision)
    assert len(trained) == 2 * FOLDS
    for whole, part in zip(trained[::2], trained[1::2], strict=True):
        assert set(part.tolist()) < set(whole.tolist())


def test_blind_does_not_use_the_sensitive_column_and_majority_nothing(tmp_path: Path) -> None:
    found = {kind: judged(tmp_path, kind=kind)["metrics"] for kind in ("plain", "blind", "majority")}
    gap = "demographic_parity_difference.sex"
    assert found["plain"][gap]["value"] > 0.7
    assert found["blind"][gap]["value"] < 0.2
    accuracy = {kind: metrics["balanced_accuracy"]["value"] for kind, metrics in found.items()}
    # it was trained without the column too, and so uses the other one
    assert accuracy["plain"] > accuracy["blind"] + 0.1 > 0.66
    assert accuracy["majority"] == pytest.approx(0.5, abs=0.05)


def test_too_few_rows_of_a_label_are_refused(tmp_path: Path) -> None:
    data = data_of(40)
    scarce = data.take(np.concatenate([np.flatnonzero(data.y == 0), np.flatnonzero(data.y == 1)[:5]]))
    with pytest.raises(InputError, match="5 people of the rarer label, and 3 folds need at least 6"):
        judged(tmp_path, scarce)
