"""Benchmarks import only names that are there: they run rarely, and most of them are run by no
test.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULES = sorted((ROOT / "benchmarks").rglob("*.py"))


def file_of(module: str) -> Path | None:
    """The file of a module of this repository; None for another one."""
    parts = module.split(".")
    if parts[0] == "evenhand":
        parts = parts[1:]
    elif parts[0] not in ("benchmarks", "tests"):
        return None
    path = ROOT.joinpath(*parts)
    if path.is_dir():
        return path / "__init__.py"
    return path.with_suffix(".py")


@cache
def names_in(path: Path) -> frozenset[str]:
    """Names that a module binds anywhere outside of its functions and classes."""
    names: set[str] = set()
    waiting: list[ast.AST] = list(ast.parse(path.read_text(encoding="utf-8")).body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
            continue
        if isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                names.add((alias.asname or alias.name).partition(".")[0])
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        waiting += ast.iter_child_nodes(node)
    return frozenset(names)


def missing_from(path: Path) -> list[str]:
    """What a file imports from this repository that is not there."""
    missing = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.ImportFrom) or node.module is None:
            continue
        source = file_of(node.module)
        if source is None:
            continue
        if not source.is_file():
            missing.append(node.module)
            continue
        names = names_in(source)
        for alias in node.names:
            is_module = (file_of(f"{node.module}.{alias.name}") or source).is_file()
            is_bound = alias.name in names or "__getattr__" in names
            if not is_bound and not is_module:
                missing.append(f"{node.module}.{alias.name}")
    return missing


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_all_imported_names_are_there(path: Path) -> None:
    assert missing_from(path) == []


def test_a_name_that_is_gone_is_found(tmp_path: Path) -> None:
    path = tmp_path / "benchmark.py"
    path.write_text("from benchmarks.common import RESULTS, gone\nfrom benchmarks.gone import x\n")
    assert missing_from(path) == ["benchmarks.common.gone", "benchmarks.gone"]
