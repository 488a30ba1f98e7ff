"""Trees of LightGBM and CatBoost predict as their libraries do, and as trees of XGBoost."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evenhand.fairlib.methods.boosting_libraries import (
    CatBoostTreesClassifier,
    LightGBMTreesClassifier,
    TreeNodes,
    above,
    booster_of,
    catboost_trees,
)
from evenhand.fairlib.methods.registry import METHODS


def table(rows: int = 600, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows with a constant, a column of two values, and one of few, and labels."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 6)).astype(np.float32)
    X[:, 2] = 1.0
    X[:, 3] = rng.integers(0, 2, rows)
    X[:, 4] = np.round(2.0 * X[:, 4])
    y = X[:, 0] + X[:, 1] * X[:, 3] + X[:, 4] + rng.normal(size=rows) > 0
    return X, y.astype(np.int64)


def test_lightgbm_predicts_and_explains_as_the_library() -> None:
    lightgbm = pytest.importorskip("lightgbm")
    X, y = table()
    weights = np.linspace(0.5, 2.0, len(y))
    model = LightGBMTreesClassifier(n_estimators=20, num_leaves=12, random_state=3, n_jobs=1)
    model.fit(X, y, sample_weight=weights)
    options = {"objective": "binary", "num_leaves": 12, "lambda_l2": 1.0, "seed": 3}
    options |= {"deterministic": True, "force_row_wise": True, "num_threads": 1, "verbosity": -1}
    peer = lightgbm.train(options, lightgbm.Dataset(X, y, weight=weights), 20)
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], peer.predict(X), atol=2e-6)
    expected = peer.predict(X[:30], pred_contrib=True)
    np.testing.assert_allclose(model.log_odds_by_column(X[:30]), expected, atol=2e-5)
    # no threshold is a training row's value
    trees = peer.dump_model()["tree_info"]
    assert model.best_step_ == len(trees) == 20
    values = set(X[:, [0, 1, 4]].ravel().tolist())
    content = json.loads(model.booster_.save_raw("json"))
    splits = 0
    for tree in content["learner"]["gradient_booster"]["model"]["trees"]:
        for place, child in enumerate(tree["left_children"]):
            if child >= 0:
                splits += 1
                assert float(np.float32(tree["split_conditions"][place])) not in values
    assert splits > 100


def test_catboost_predicts_as_the_library() -> None:
    catboost = pytest.importorskip("catboost")
    X, y = table()
    model = CatBoostTreesClassifier(n_estimators=20, depth=5, random_state=3, n_jobs=1).fit(X, y)
    options = {"loss_function": "Logloss", "iterations": 20, "learning_rate": 0.1, "depth": 5}
    options |= {"l2_leaf_reg": 3.0, "random_seed": 3, "thread_count": 1}
    peer = catboost.CatBoost(options | {"logging_level": "Silent", "allow_writing_files": False})
    expected = peer.fit(X, y).predict(X, prediction_type="Probability")
    np.testing.assert_allclose(model.predict_proba(X), expected, atol=2e-6)


def test_an_oblivious_tree_by_hand() -> None:
    """Columns 2, 0 and 2 again, at borders .5, 2 and 1.5; two of eight leaves hold no value."""
    splits = [
        {"float_feature_index": 1, "border": 0.5},
        {"float_feature_index": 0, "border": 2.0},
        {"float_feature_index": 1, "border": 1.5},
    ]
    content: dict[str, Any] = {
        "features_info": {
            "float_features": [
                {"feature_index": 0, "flat_feature_index": 0},
                {"feature_index": 1, "flat_feature_index": 2},
            ]
        },
        "scale_and_bias": [0.1, [1.0]],
        "oblivious_trees": [
            {
                "splits": splits,
                "leaf_values": [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0],
                "leaf_weights": [1, 1, 1, 1, 0, 1, 0, 1],
            }
        ],
    }
    (tree,) = catboost_trees(content)
    # leaves 4 and 6 have a value above 1.5 and at most .5, which none has
    assert sum(child == -1 for child in tree.left) == 6
    booster = booster_of([tree], 3)
    rows = np.array([[2.0, 9, 0.5], [2.5, 9, 0.5], [2.0, 9, 1.5], [3.0, 9, 1.6]], np.float32)
    margins = np.log(1.0 / (1.0 / booster.inplace_predict(rows).astype(np.float64) - 1.0))
    np.testing.assert_allclose(margins, [1.0, 1.2, 1.1, 1.7], rtol=1e-5)


@pytest.mark.parametrize("limit", [0.1, -0.1, 1.0, 1e-35, 0.0, 3.0000001])
def test_a_threshold_separates_the_same_numbers(limit: float) -> None:
    near = np.float32(limit)
    numbers = [near, np.nextafter(near, np.float32(9)), np.nextafter(near, np.float32(-9))]
    for number in numbers:
        assert (float(number) <= limit) == (float(number) < above(limit))


def test_a_tree_of_one_leaf_is_a_constant() -> None:
    tree = TreeNodes()
    tree.set_leaf(0, 0.25, 4)
    found = booster_of([tree, tree], 2).inplace_predict(np.zeros((3, 2), np.float32))
    np.testing.assert_allclose(found, 1.0 / (1.0 + np.exp(-0.5)), rtol=1e-6)


def test_a_saved_model_needs_no_library(tmp_path: Path) -> None:
    pytest.importorskip("lightgbm")
    X, y = table(200)
    model = LightGBMTreesClassifier(n_estimators=3, random_state=0).fit(X, y)
    model.save(tmp_path / "model")
    np.save(tmp_path / "X.npy", X)
    code = (
        "import sys; sys.modules['lightgbm'] = None\n"
        "import numpy as np\n"
        "from evenhand.fairlib.methods.registry import load_model\n"
        f"model = load_model({str(tmp_path / 'model')!r})\n"
        f"print(model.predict_proba(np.load({str(tmp_path / 'X.npy')!r}))[:, 1].sum())\n"
        "model.fit(np.eye(4), [0, 1, 0, 1])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert float(done.stdout) == pytest.approx(model.predict_proba(X)[:, 1].sum(), rel=1e-6)
    assert "needs an optional extra: pip install 'evenhand[lightgbm]'" in done.stderr


def test_reasons_are_exact_contributions() -> None:
    pytest.importorskip("lightgbm")
    X, y = table(300)
    model = LightGBMTreesClassifier(n_estimators=5, random_state=0).fit(X, y)
    parts = model.log_odds_by_column(X[:20]).astype(np.float64)
    chance = model.predict_proba(X[:20])[:, 1]
    np.testing.assert_allclose(parts.sum(axis=1), np.log(chance / (1.0 - chance)), atol=1e-5)
    assert METHODS["lightgbm"].gives_reasons
    assert METHODS["catboost"].gives_reasons


@pytest.mark.parametrize(
    ("model", "wrong"),
    [
        (LightGBMTreesClassifier, {"num_leaves": 1}),
        (LightGBMTreesClassifier, {"colsample_bytree": 0.0}),
        (LightGBMTreesClassifier, {"learning_rate": 0.0}),
        (CatBoostTreesClassifier, {"depth": 11}),
        (CatBoostTreesClassifier, {"l2_leaf_reg": -1.0}),
    ],
)
def test_a_parameter_out_of_its_range_is_refused(model: Any, wrong: dict[str, Any]) -> None:
    X, y = table(60)
    with pytest.raises(ValueError, match=next(iter(wrong))):
        model(**wrong).fit(X, y)
