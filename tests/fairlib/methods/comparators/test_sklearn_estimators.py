"""Estimators of scikit-learn predict as its own do, and are saved as a closed set of parts."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn
import skops.io
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.preprocessing import FunctionTransformer

from evenhand.fairlib.file_digests import ESTIMATOR, ESTIMATOR_FILE, is_allowed
from evenhand.fairlib.methods import (
    SklearnBoostingClassifier,
    SklearnForestClassifier,
    load_model,
)
from evenhand.fairlib.methods.comparators.sklearn_estimators import BOOSTING_PARTS, read_estimator
from evenhand.fairlib.methods.registry import METHODS
from tests.fairlib.methods.comparators.comparator_samples import draw_people

PAIRS: dict[str, tuple[Any, Any]] = {
    "boosting": (
        SklearnBoostingClassifier(max_iter=8, max_leaf_nodes=5, random_state=3),
        HistGradientBoostingClassifier(
            max_iter=8, max_leaf_nodes=5, early_stopping=False, random_state=3
        ),
    ),
    "forest": (
        SklearnForestClassifier(n_estimators=6, max_features=0.5, random_state=3),
        RandomForestClassifier(6, max_features=0.5, min_samples_leaf=10, random_state=3),
    ),
}


@pytest.mark.parametrize("name", list(PAIRS))
def test_it_predicts_as_scikit_learn_does_and_after_loading(name: str, tmp_path: Path) -> None:
    if name == "boosting" and sklearn.__version__.startswith("1.8."):
        pytest.skip("the extra `estimators` needs 1.9: skops cannot import the losses of 1.8")
    model, peer = PAIRS[name]
    X, y, _ = draw_people()
    weights = np.linspace(0.5, 2.0, len(y))
    expected = peer.fit(X, y, sample_weight=weights).predict_proba(X)
    np.testing.assert_array_equal(model.fit(X, y, sample_weight=weights).predict_proba(X), expected)
    model.save(tmp_path / "a")
    np.testing.assert_array_equal(load_model(tmp_path / "a").predict_proba(X), expected)
    # the same model has the same bytes, as a published version is found by them
    model.fit(X, y, sample_weight=weights).save(tmp_path / "b")
    first, second = ((tmp_path / part / ESTIMATOR_FILE).read_bytes() for part in "ab")
    assert first == second


def test_a_file_with_any_other_part_is_refused(tmp_path: Path) -> None:
    """Classes that skops itself would build, and a boosting's file with another class put in."""
    path = tmp_path / ESTIMATOR_FILE
    path.write_bytes(skops.io.dumps(FunctionTransformer(np.log)))
    with pytest.raises(ValueError, match=r"a part of the class .*FunctionTransformer"):
        read_estimator(path, BOOSTING_PARTS)
    model = PAIRS["forest"][0]
    X, y, _ = draw_people(100)
    model.fit(X, y)._write(tmp_path)
    with pytest.raises(ValueError, match="RandomForestClassifier, which no model may have"):
        read_estimator(path, BOOSTING_PARTS)
    assert read_estimator(path, model.parts).n_estimators == 6
    with zipfile.ZipFile(io.BytesIO(path.read_bytes())) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    schema = json.loads(members["schema.json"])
    schema["content"]["content"]["n_jobs"] = {
        "__class__": "system",
        "__module__": "os",
        "__loader__": "FunctionNode",
        "__id__": 9999,
    }
    members["schema.json"] = json.dumps(schema).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    with pytest.raises(ValueError, match=r"os\.system, which no model may have"):
        read_estimator(path, model.parts)


def test_a_model_may_have_exactly_this_file() -> None:
    assert is_allowed(ESTIMATOR)
    folder = ESTIMATOR.rpartition("/")[0]
    for other in (
        f"{folder}/other.skops",
        f"{folder}/trees/{ESTIMATOR_FILE}",
        f"artifacts/bundle/{ESTIMATOR_FILE}",
        f"code/evenhand/{ESTIMATOR_FILE}",
        ESTIMATOR_FILE,
    ):
        assert not is_allowed(other)


@pytest.mark.parametrize(
    "parameters",
    [
        {"max_iter": 0},
        {"learning_rate": 0.0},
        {"max_leaf_nodes": 1},
        {"l2_regularization": -1.0},
        {"min_samples_leaf": 0},
    ],
)
def test_a_parameter_out_of_its_range_is_refused(parameters: dict[str, Any]) -> None:
    X, y, _ = draw_people(50)
    with pytest.raises(ValueError, match=next(iter(parameters))):
        SklearnBoostingClassifier(**parameters).fit(X, y)


def test_only_these_methods_need_the_library_to_load() -> None:
    needing = {name for name, spec in METHODS.items() if spec.loads_with}
    assert needing == {
        "sklearn:HistGradientBoostingClassifier",
        "sklearn:RandomForestClassifier",
    }
