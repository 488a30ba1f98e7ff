"""The examples in docstrings run, and every estimator has one."""

from __future__ import annotations

import ast
import doctest
import importlib
from pathlib import Path

import pytest
from sklearn.base import BaseEstimator

ROOT = Path(__file__).parents[2]
LAYERS = ("fairlib", "data_contracts", "tasks", "flows")
# Functions and methods with an example, and the classes of examples that users look for first.
LEAST_EXAMPLES = 60


def modules_with_examples() -> list[str]:
    """Modules whose source has an example; the others need not be imported."""
    names = []
    for layer in LAYERS:
        for path in sorted((ROOT / layer).rglob("*.py")):
            if ">>> " in path.read_text(encoding="utf-8"):
                relative = path.relative_to(ROOT).with_suffix("")
                names.append(".".join(("evenhand", *relative.parts)))
    return names


def examples_of(name: str) -> list[doctest.DocTest]:
    """The docstrings of a module that have examples."""
    module = importlib.import_module(name)
    return [test for test in doctest.DocTestFinder().find(module) if test.examples]


@pytest.mark.parametrize("name", modules_with_examples())
def test_examples_run(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    runner = doctest.DocTestRunner(verbose=False)
    for test in examples_of(name):
        runner.run(test)
    failed, tried = runner.summarize(verbose=False)
    assert tried > 0
    assert failed == 0, capsys.readouterr().out


def test_there_are_examples_enough() -> None:
    documented = 0
    for name in modules_with_examples():
        documented += len(examples_of(name))
    assert documented >= LEAST_EXAMPLES


def estimator_classes() -> list[tuple[str, str]]:
    """Module and name of the dataclasses of fairlib that have a fit: the estimators."""
    classes = []
    for path in sorted((ROOT / "fairlib").rglob("*.py")):
        relative = path.relative_to(ROOT).with_suffix("")
        module = ".".join(("evenhand", *relative.parts))
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and node.decorator_list:
                classes.append((module, node.name))
    return classes


def test_every_estimator_has_an_example() -> None:
    missing = []
    for module, name in estimator_classes():
        estimator = getattr(importlib.import_module(module), name)
        if not issubclass(estimator, BaseEstimator) or name in BASES:
            continue
        if ">>> " not in (estimator.__doc__ or ""):
            missing.append(name)
    assert missing == []


# Not for use by themselves.
BASES = (
    "Comparator",
    "GroupComparator",
    "AuditedNetwork",
    "LibraryBoostingClassifier",
    "SklearnClassifier",
)
