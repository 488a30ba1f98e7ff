"""What works where Fairlearn is not installed."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from comparator_samples import NAMES, draw_people, fitted

from evenhand.fairlib.methods.registry import METHODS, MethodSpec, installed, needed_extra

WITHOUT = """
import json
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "fairlearn":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())

import numpy as np
from evenhand.fairlib.methods.registry import METHODS, installed, load_model, method_class

folder, found = sys.argv[1], {}
found["missing"] = sorted(name for name, spec in METHODS.items() if not installed(spec))
X, predictions = np.load(f"{folder}/X.npy"), {}
for name in sys.argv[2:]:
    method_class(name)()
    model = load_model(f"{folder}/{name}")
    predictions[name] = [model.predict_proba(X)[:, 1].tolist(), model.predict(X).tolist()]
found["predictions"] = predictions
found["imported"] = [name for name in ("torch", "xgboost", "matplotlib") if name in sys.modules]
X = np.random.default_rng(0).normal(size=(80, 2)).astype(np.float32)
X[:, 0] = np.arange(80) % 2
y = np.arange(80) // 2 % 2
errors = []
for name, spec in METHODS.items():
    if spec.extra == "comparators":
        try:
            method_class(name)().fit(X, y, sensitive_features={"x0": X[:, 0]})
        except ImportError as error:
            errors.append(str(error))
print(json.dumps(found | {"errors": errors}))
"""


@pytest.fixture(scope="module")
def without(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a process without the libraries finds."""
    folder = tmp_path_factory.mktemp("comparators")
    np.save(folder / "X.npy", draw_people()[0])
    for name in NAMES:
        fitted(name).save(folder / name)
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, str(folder), *NAMES],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_saved_comparator_predicts_without_the_libraries(without: dict[str, Any]) -> None:
    X = draw_people()[0]
    expected = {
        name: [fitted(name).predict_proba(X)[:, 1].tolist(), fitted(name).predict(X).tolist()]
        for name in NAMES
    }
    assert without["predictions"] == expected


def test_predicting_imports_no_heavy_library(without: dict[str, Any]) -> None:
    assert without["imported"] == []


def test_the_registry_knows_what_is_not_installed(without: dict[str, Any]) -> None:
    assert without["missing"] == sorted(
        name for name, spec in METHODS.items() if spec.extra == "comparators" or not installed(spec)
    )
    # CatBoost is large, and needs to be installed for no other test
    assert all(installed(spec) for name, spec in METHODS.items() if name != "catboost")
    lacking = MethodSpec(
        "m", "module", "Class", "", extra="more", requires=("json", "no_such_module")
    )
    assert not installed(lacking)
    assert needed_extra(lacking) == "method m needs an optional extra: pip install 'evenhand[more]'"
    assert METHODS["gbdt"].install_command is None


def test_to_fit_says_what_to_install(without: dict[str, Any]) -> None:
    assert len(without["errors"]) == 2
    for line in without["errors"]:
        assert (
            " needs an optional extra: pip install 'evenhand[comparators]' (No module named" in line
        )
