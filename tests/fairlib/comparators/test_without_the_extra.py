"""What works where aif360 and Fairlearn are not installed."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from comparator_samples import NAMES, draw_people, fit_comparator

from evenhand.fairlib.methods import METHODS
from evenhand.fairlib.methods.comparators._libraries import optional_import
from evenhand.fairlib.methods.registry import MethodSpec, installed, needed_extra

BLOCK = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("aif360", "BlackBoxAuditing", "fairlearn"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
"""


def run_blocked(code: str, *arguments: str) -> str:
    """What a process without the libraries prints."""
    done = subprocess.run(
        [sys.executable, "-c", BLOCK + code, *arguments], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_saved_comparator_predicts_without_the_libraries(tmp_path: Path) -> None:
    X, y, sensitive = draw_people()
    np.save(tmp_path / "X.npy", X)
    expected = {}
    for name in NAMES:
        model = fit_comparator(name, X, y, sensitive)
        model.save(tmp_path / name)
        expected[name] = [model.predict_proba(X)[:, 1].tolist(), model.predict(X).tolist()]
    found = run_blocked(
        """
import json
import numpy as np
from evenhand.fairlib.methods import load_model
folder = sys.argv[1]
X, found = np.load(f"{folder}/X.npy"), {}
for name in sys.argv[2:]:
    model = load_model(f"{folder}/{name}")
    found[name] = [model.predict_proba(X)[:, 1].tolist(), model.predict(X).tolist()]
print(json.dumps(found))
""",
        str(tmp_path),
        *NAMES,
    )
    assert json.loads(found) == expected


def test_predicting_imports_none_of_them() -> None:
    # where they are installed too
    code = """
import sys
import evenhand.fairlib.methods.comparators
from evenhand.fairlib.methods import METHODS, method_class
for name in METHODS:
    if METHODS[name].module.startswith("evenhand.fairlib.methods.comparators"):
        method_class(name)()
heavy = {"aif360", "BlackBoxAuditing", "fairlearn", "torch", "matplotlib"} & set(sys.modules)
assert not heavy, heavy
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_the_registry_knows_what_is_not_installed() -> None:
    printed = run_blocked(
        """
from evenhand.fairlib.methods.registry import METHODS, installed
print(*sorted(name for name, spec in METHODS.items() if not installed(spec)))
"""
    )
    assert printed.split() == sorted(name for name, spec in METHODS.items() if spec.extra == "comparators")
    assert len(printed.split()) == 5
    assert all(installed(spec) for spec in METHODS.values())
    lacking = MethodSpec("m", "module", "Class", "", extra="more", requires=("json", "no_such_module"))
    assert not installed(lacking)
    assert needed_extra(lacking) == "method m needs an optional extra: pip install 'evenhand[more]'"
    assert METHODS["gbdt"].install_command is None


def test_to_fit_says_what_to_install() -> None:
    printed = run_blocked(
        """
import numpy as np
from evenhand.fairlib.methods import METHODS, method_class
rng = np.random.default_rng(0)
X = rng.normal(size=(80, 2)).astype(np.float32)
X[:, 0] = np.arange(80) % 2
y = np.arange(80) // 2 % 2
for name, spec in METHODS.items():
    if spec.requires:
        try:
            method_class(name)().fit(X, y, sensitive_features={"x0": X[:, 0]})
        except ImportError as error:
            print(error)
"""
    )
    lines = printed.splitlines()
    assert len(lines) == 5
    for line in lines:
        assert " needs an optional extra: pip install 'evenhand[comparators]' (No module named" in line


def test_importing_them_is_silent_and_leaves_logging_as_it_was() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            """
import logging
from evenhand.fairlib.methods.comparators._libraries import optional_import
root = logging.getLogger()
with optional_import("calibrated-equalized-odds"):
    import aif360.algorithms.postprocessing
assert root.handlers == [] and root.filters == [], (root.handlers, root.filters)
""",
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_others_may_log_meanwhile(caplog: pytest.LogCaptureFixture) -> None:
    with optional_import("logistic"):
        logging.getLogger("somebody").warning("heard")
        logging.getLogger().warning("not heard")
    logging.getLogger().warning("heard again")
    assert [record.getMessage() for record in caplog.records] == ["heard", "heard again"]
