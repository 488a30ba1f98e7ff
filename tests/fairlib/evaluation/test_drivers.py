"""What drives a model: contributions of trees, permutations of other models, by group; no small
cells.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import expit, logit

from evenhand.fairlib.distances import SensitiveSubspace
from evenhand.fairlib.evaluation.drivers import MAX_ROWS, _rows_for_trees, drivers
from evenhand.fairlib.mapped import new_matrix
from evenhand.fairlib.methods.calibration import Calibration
from evenhand.fairlib.methods.decided import DecidedModel, ThresholdRule
from evenhand.fairlib.methods.gbdt import GBDTClassifier
from evenhand.fairlib.methods.preprocessed_gbdt import ProjectedGBDTClassifier

COLUMNS = {"strong": [0], "pair": [1, 2], "idle": [3]}


class Linear:
    """A logistic model with given coefficients."""

    classes_ = np.array([0, 1])

    def __init__(self, *coefficients: float) -> None:
        self.coefficients = np.array(coefficients)

    def predict_proba(self, X: NDArray[Any]) -> NDArray[np.float64]:
        p = expit(X.astype(np.float64) @ self.coefficients)
        return np.stack([1 - p, p], axis=1)


def people(
    n: int = 600, seed: int = 0
) -> tuple[NDArray[np.float32], NDArray[np.int64], dict[str, Any]]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)).astype(np.float32)
    y = (rng.random(n) < expit(2 * X[:, 0] + X[:, 1])).astype(np.int64)
    group = np.array(["a", "b"])[(np.arange(n) % 3 == 0).astype(int)]
    return X, y, {"g": group}


def by_name(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {entry["name"]: entry for entry in found["columns"]}


@pytest.fixture(scope="module")
def trees() -> GBDTClassifier:
    X, y, _ = people()
    return GBDTClassifier(n_steps=15, max_depth=3, n_jobs=1, random_state=0).fit(X, y)


def test_contributions_of_all_columns_add_up_to_the_log_odds(trees: GBDTClassifier) -> None:
    import xgboost as xgb

    X, y, _ = people(50, seed=1)
    z = logit(trees.predict_proba(X)[:, 1])
    base = xgb.Booster.predict(trees.booster_, xgb.DMatrix(X), pred_contribs=True)[0, -1]
    # one table column of all matrix columns: the sum before the absolute value
    (whole,) = drivers(trees, X, y, {"all": [0, 1, 2, 3]}, {})["columns"]
    assert whole["value"] == pytest.approx(np.abs(z - base).mean(), rel=1e-4)


def test_trees_rank_columns_by_their_contribution(trees: GBDTClassifier) -> None:
    X, y, sensitive = people(seed=2)
    found = drivers(trees, X, y, COLUMNS, sensitive)
    assert (found["kind"], found["rows"]) == ("contribution", 600)
    assert [entry["name"] for entry in found["columns"]] == ["strong", "pair", "idle"]
    entry = found["columns"][0]
    n = {name: int((sensitive["g"] == name).sum()) for name in "ab"}
    mean = sum(n[name] * entry["groups"]["g"][name] for name in "ab") / 600
    assert mean == pytest.approx(entry["value"], rel=1e-12)


def test_a_calibrated_model_is_explained_as_its_trees(trees: GBDTClassifier) -> None:
    X, y, sensitive = people(seed=2)
    decided = DecidedModel(trees, Calibration("sigmoid", 0.0, (2.0, 1.0)), ThresholdRule(0.2))
    assert drivers(decided, X, y, COLUMNS, sensitive) == drivers(trees, X, y, COLUMNS, sensitive)


def test_projected_trees_are_explained_by_permutation() -> None:
    X, y, sensitive = people()
    metric = SensitiveSubspace(indicators=[3]).fit(X, sensitive_features={})
    model = ProjectedGBDTClassifier(metric, n_steps=5, max_depth=2, n_jobs=1).fit(X, y)
    found = drivers(model, X, y, COLUMNS, sensitive)
    assert found["kind"] == "permutation"
    assert by_name(found)["idle"]["value"] == 0.0


def test_permutation_importance_is_the_rise_of_the_loss() -> None:
    X, y, sensitive = people(4000, seed=3)
    X = X[:1500]
    y, sensitive = y[:1500], {"g": sensitive["g"][:1500]}
    model = Linear(2.0, 1.0, 0.0, 0.0)
    found = drivers(model, X, y, COLUMNS, sensitive)
    values = by_name(found)
    assert found["kind"] == "permutation"
    assert values["idle"]["value"] == 0.0
    assert values["strong"]["value"] > values["pair"]["value"] > 0

    def loss(data: NDArray[Any]) -> float:
        p = model.predict_proba(data)[np.arange(len(y)), y]
        return float(-np.log(p).mean())

    rng = np.random.default_rng(9)
    rises = []
    for _ in range(30):
        changed = X.copy()
        changed[:, 0] = X[rng.permutation(len(X)), 0]
        rises.append(loss(changed) - loss(X))
    assert values["strong"]["value"] == pytest.approx(np.mean(rises), abs=5 * np.std(rises))


def test_the_columns_of_one_table_column_move_together() -> None:
    """A model that sees only the sum of a pair of opposite columns sees no change."""
    X, y, _ = people(200, seed=4)
    X[:, 2] = -X[:, 1]
    model = Linear(0.0, 1.0, 1.0, 0.0)
    assert by_name(drivers(model, X, y, COLUMNS, {}))["pair"]["value"] == pytest.approx(
        0.0, abs=1e-6
    )
    apart = by_name(drivers(model, X, y, {"one": [1], "rest": [0, 2, 3]}, {}))
    assert apart["one"]["value"] > 0.1


def test_a_group_with_few_rows_has_no_number() -> None:
    X, y, _ = people(100)
    group = np.array(["few"] * 4 + ["five"] * 5 + ["many"] * 91)
    for min_cell, few in ((5, True), (4, False)):
        found = drivers(Linear(1, 0, 0, 0), X, y, COLUMNS, {"g": group}, min_cell=min_cell)
        for entry in found["columns"]:
            assert (entry["groups"]["g"]["few"] is None) is few
            assert entry["groups"]["g"]["five"] is not None


def test_large_tables_are_sampled_by_the_seed() -> None:
    """Reruns give the same sample."""
    X, y, sensitive = people(MAX_ROWS + 500)
    model = Linear(2.0, 1.0, 0.0, 0.0)
    one = drivers(model, X, y, COLUMNS, sensitive, seed=1)
    assert one["rows"] == MAX_ROWS
    assert drivers(model, X, y, COLUMNS, sensitive, seed=1) == one
    assert drivers(model, X, y, COLUMNS, sensitive, seed=2) != one


def test_the_rows_stay_as_they_were() -> None:
    X, y, sensitive = people(100)
    before = X.copy()
    drivers(Linear(2.0, 1.0, 0.0, 0.0), X, y, COLUMNS, sensitive)
    assert np.array_equal(X, before)


def test_rows_of_a_mapped_file_are_read_in_blocks(trees: GBDTClassifier, tmp_path: Path) -> None:
    X, y, groups = people(MAX_ROWS + 700, seed=3)
    mapped = new_matrix(X.shape, tmp_path)
    mapped[:] = X
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("evenhand.fairlib.mapped.BLOCK_ROWS", 97)
        assert drivers(trees, mapped, y, COLUMNS, groups) == drivers(trees, X, y, COLUMNS, groups)


def test_of_large_trees_fewer_rows_are_explained() -> None:
    """TreeSHAP's time grows faster than the trees."""
    small = SimpleNamespace(save_raw=lambda _: b"." * 500_000)
    large = SimpleNamespace(save_raw=lambda _: b"." * 4_000_000)
    assert len(_rows_for_trees(small, MAX_ROWS, 0)) == MAX_ROWS
    assert len(_rows_for_trees(large, MAX_ROWS, 0)) == 1250 // 8
    assert len(_rows_for_trees(SimpleNamespace(save_raw=lambda _: b"." * 10**8), 50, 0)) == 50
