"""Public names: each is listed, imported when it is used, and known to type checkers."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import json
import subprocess
import sys
import warnings
from functools import partial
from pathlib import Path
from types import ModuleType

import pandas as pd
import pytest

import evenhand
from evenhand.fairlib import lazy_exports
from evenhand.fairlib.lazy_exports import RenamedModule
from evenhand.fairlib.methods.registry import METHODS, PROXIES
from evenhand.fairlib.version import __version__

ROOT = Path(__file__).resolve().parents[2]
IMPORTS_OF_INIT_FILES = [
    "from functools import partial",
    "from typing import TYPE_CHECKING",
    "from evenhand.fairlib.lazy_exports import list_names, load_name",
]
PACKAGES = [
    "evenhand",
    *(
        ".".join(("evenhand", *path.parent.relative_to(ROOT).parts))
        for path in sorted((ROOT / "fairlib").rglob("__init__.py"))
        if path.parent != ROOT / "fairlib"
    ),
]
# One that is removed here must have warned in a release before: docs/reference/python.md.
PUBLIC = {
    "AdversarialClassifier",
    "BudroClassifier",
    "CLPClassifier",
    "CatBoostTreesClassifier",
    "CLPRegressor",
    "ColumnSpec",
    "DADIClassifier",
    "EXPLORE",
    "ExponentiatedGradientClassifier",
    "FACE",
    "FAIASClassifier",
    "GBDTClassifier",
    "LearnedDirection",
    "LearnedMetric",
    "LightGBMTreesClassifier",
    "LogisticClassifier",
    "NeuralNetworkClassifier",
    "NeuralNetworkRegressor",
    "PredictedGroupProxy",
    "ProjectedGBDTClassifier",
    "ProxyTree",
    "ReweighedGBDTClassifier",
    "ReweighedLogisticClassifier",
    "SklearnBoostingClassifier",
    "SklearnForestClassifier",
    "SenSRClassifier",
    "SenSRRegressor",
    "SenSeIClassifier",
    "SenSeIRegressor",
    "SensitiveSubspace",
    "TableEncoder",
    "__version__",
    "audit",
    "audit_predictions",
    "load_metric",
    "load_model",
    "load_proxy",
    "transport_audit",
}
HEAVY = ("prefect", "mlflow", "great_expectations", "torch")


def source(package: str) -> Path:
    module = importlib.import_module(package)
    assert module.__file__ is not None
    return Path(module.__file__)


def for_type_checkers(package: str) -> dict[str, str]:
    """Names that a package imports for type checkers, with their modules."""
    tree = ast.parse(source(package).read_text())
    (block,) = [
        node
        for node in tree.body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    imported = {}
    for node in block.body:
        assert isinstance(node, ast.ImportFrom)
        for alias in node.names:
            assert alias.asname is None
            imported[alias.name] = node.module or ""
    return imported


def test_the_public_names() -> None:
    assert set(evenhand.__all__) == PUBLIC


def test_every_method_and_proxy_is_public() -> None:
    classes = {spec.class_name for spec in (*METHODS.values(), *PROXIES.values())}
    assert classes <= PUBLIC
    for spec in METHODS.values():
        assert getattr(evenhand, spec.class_name).__module__ == spec.module


def test_the_version_is_that_of_the_distribution() -> None:
    assert evenhand.__version__ == __version__
    assert __version__[0].isdigit()


@pytest.mark.parametrize("package", PACKAGES)
def test_every_listed_name_is_there(package: str) -> None:
    module = importlib.import_module(package)
    assert set(module.__all__) == set(module._MODULES)
    assert for_type_checkers(package) == module._MODULES
    assert set(module.__all__) <= set(dir(module))
    for name, place in module._MODULES.items():
        listed = getattr(module, name)
        # an earlier module of that name, which another test has imported, forwards calls
        if not isinstance(listed, RenamedModule):
            assert listed is getattr(importlib.import_module(place), name)
    with pytest.raises(AttributeError, match="has no attribute 'no_such_name'"):
        module.no_such_name  # noqa: B018


@pytest.mark.parametrize("package", PACKAGES)
def test_no_name_is_also_a_module(package: str) -> None:
    """Importing a module would put it in the name's place."""
    module = importlib.import_module(package)
    taken = [name for name in module.__all__ if importlib.util.find_spec(f"{package}.{name}")]
    # a module of that name forwards calls
    assert taken == (["audit"] if package == "evenhand.fairlib.evaluation" else [])


def test_init_files_only_list_names() -> None:
    """The digest of the code skips them."""
    folders = ("flows", "tasks", "fairlib", "data_contracts", "evenhand")
    for path in (file for folder in folders for file in (ROOT / folder).rglob("__init__.py")):
        body = ast.parse(path.read_text()).body
        texts = [ast.unparse(node) for node in body]
        assert isinstance(body[0], ast.Expr), path  # the docstring
        if len(body) == 1:
            continue
        assert texts[1:4] == IMPORTS_OF_INIT_FILES, path
        assert texts[4].startswith("if TYPE_CHECKING:"), path
        assert texts[5].startswith("__all__ = ["), path
        last = body[6]
        assert isinstance(last, ast.If), path
        assert len(body) == 7, path
        names = [ast.unparse(node).partition(" = ") for node in last.body]
        assert [name for name, _, _ in names] == ["_MODULES", "__getattr__", "__dir__"], path
        assert isinstance(ast.literal_eval(names[0][2]), dict), path


def test_our_modules_import_from_the_concrete_module() -> None:
    """Else the digest of the code would miss what they import."""
    wrong = []
    for folder in ("flows", "tasks", "fairlib", "data_contracts"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if path.name == "__init__.py" or not isinstance(node, ast.ImportFrom):
                    continue
                parts = (node.module or "").split(".")
                if parts[0] != "evenhand":
                    continue
                place = ROOT.joinpath(*parts[1:])
                if not place.is_dir():
                    continue
                for alias in node.names:
                    is_module = (place / f"{alias.name}.py").is_file()
                    is_package = (place / alias.name / "__init__.py").is_file()
                    if alias.name != "__file__" and not is_module and not is_package:
                        wrong.append(f"{path}: {alias.name}")
    assert wrong == []


def loaded_by(code: str) -> list[str]:
    """Libraries that a fresh process loads for the code."""
    script = f"import json, sys\n{code}\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd="/"
    )
    loaded: list[str] = json.loads(done.stdout)
    return loaded


def test_a_tree_method_loads_no_heavy_library() -> None:
    modules = loaded_by("from evenhand import BudroClassifier, SensitiveSubspace")
    assert not set(HEAVY) & set(modules)
    assert "evenhand.fairlib.methods.budro" in modules


def test_the_package_alone_loads_no_numeric_library() -> None:
    code = "import evenhand, evenhand.fairlib.methods, evenhand.fairlib.evaluation; dir(evenhand)"
    modules = loaded_by(code)
    assert not {*HEAVY, "numpy", "sklearn", "pandas"} & set(modules)


def test_a_network_loads_torch_when_it_is_used() -> None:
    modules = loaded_by("from evenhand import SenSeIClassifier; SenSeIClassifier()")
    assert not set(HEAVY[:3]) & set(modules)


# --- renamed modules ---


def test_the_earlier_place_of_the_transport_audit_warns() -> None:
    from evenhand.fairlib.evaluation import transport_adversary

    place = importlib.import_module("evenhand.fairlib.evaluation.audit")
    with pytest.warns(DeprecationWarning, match="use evenhand.*transport_adversary") as caught:
        from evenhand.fairlib.evaluation.audit import audit
    assert Path(caught[0].filename) == Path(__file__)
    assert audit is transport_adversary.transport_audit
    for old, (module, name) in place.moved.items():
        with pytest.warns(DeprecationWarning, match=f"audit.{old} is deprecated"):
            assert getattr(place, old) is getattr(importlib.import_module(module), name)
    with pytest.raises(AttributeError, match="no_such_name"):
        place.no_such_name  # noqa: B018


class Moved(lazy_exports.RenamedModule):
    """A module whose `pi` and `tau` are now in `math`."""

    moved = {"circle": ("math", "pi")}


def test_audit_is_a_function_whatever_was_imported_before() -> None:
    from evenhand.fairlib.evaluation import audit

    y_true, y_pred, sex = [1, 0, 1, 0], [1, 0, 1, 1], ["f", "f", "m", "m"]
    first = evenhand.audit(y_true, y_pred, sensitive_features=sex).to_frame()
    importlib.import_module("evenhand.fairlib.evaluation.audit")
    from evenhand.fairlib.evaluation import audit as again

    for function in (audit, again):
        frame = function(y_true, y_pred, sensitive_features=sex).to_frame()
        pd.testing.assert_frame_equal(frame, first)


def test_a_renamed_module_can_stand_for_a_function() -> None:
    module = Moved("old")
    with pytest.warns(DeprecationWarning, match=r"^old.circle is deprecated .* use math.pi\.$"):
        assert module.circle == pytest.approx(3.14159, abs=1e-5)
    with pytest.raises(TypeError, match="'old' cannot be called"):
        module()
    module.callee = ("math", "hypot")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert module(3.0, 4.0) == 5.0


def test_a_name_is_imported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    package = ModuleType("a_package")
    monkeypatch.setitem(sys.modules, "a_package", package)
    get = partial(lazy_exports.load_name, "a_package", {"pi": "math"})
    assert "pi" in lazy_exports.list_names("a_package", {"pi": "math"})
    assert get("pi") == package.pi
    with pytest.raises(AttributeError, match="module 'a_package' has no attribute 'tau'"):
        get("tau")
