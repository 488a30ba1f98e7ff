"""Where benchmarks stand, and who may import them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = {"reproductions", "peers", "speed", "studies", "page_generators", "mutation"}
SHARED = {"__init__", "common", "protocol", "summaries"}


def imported_packages(path: Path) -> set[str]:
    """First names of all modules that a file with the word benchmarks imports, at any depth."""
    packages: set[str] = set()
    text = path.read_text(encoding="utf-8")
    if "benchmarks" not in text:
        return packages  # parsing all files would take seconds
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            packages.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            packages.add(node.module.split(".")[0])
    return packages


def files_below(*folders: str) -> list[Path]:
    """Python files of some folders of the repository."""
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


def test_only_tests_of_benchmarks_import_benchmarks() -> None:
    importing = {
        str(path.relative_to(ROOT))
        for path in files_below("tests", "flows", "tasks", "fairlib", "data_contracts", "deploy")
        if "benchmarks" in imported_packages(path)
    }
    outside = {name for name in importing if not name.startswith("tests/benchmarks/")}
    assert importing
    assert outside == set()


@pytest.mark.parametrize(
    "code", ["import benchmarks.common", "def f():\n  from benchmarks import x"]
)
def test_an_import_is_seen_at_any_depth(tmp_path: Path, code: str) -> None:
    path = tmp_path / "module.py"
    path.write_text(code)
    assert imported_packages(path) == {"benchmarks"}


def test_every_benchmark_stands_in_a_folder() -> None:
    top = {path.stem for path in (ROOT / "benchmarks").glob("*.py")}
    assert top <= SHARED
    folders = {path.parent.name for path in (ROOT / "benchmarks").glob("*/*.py")}
    assert folders == FOLDERS


def test_benchmarks_import_only_helpers_from_tests() -> None:
    helpers = (
        *("tests.oracles.", "tests.e2e.real_services", "tests.workbooks"),
        *("tests.chaos.bombs", "tests.chaos.fuzzing"),
    )
    for path in files_below("benchmarks"):
        text = path.read_text(encoding="utf-8")
        for name in re.findall(r"^\s*(?:from|import) (tests[\w.]*)", text, re.MULTILINE):
            assert name.startswith(helpers), path


def test_commands_in_docs_and_code_name_modules_that_exist() -> None:
    pages = [ROOT / "README.md", ROOT / "Makefile", *sorted((ROOT / "docs").rglob("*.md"))]
    # the changes of earlier versions name what there was
    pages = [page for page in pages if not page.name.startswith("changes-")]
    named = set()
    for path in [*pages, *files_below("benchmarks")]:
        # a long command may go over two lines
        text = " ".join(path.read_text(encoding="utf-8").split())
        named.update(re.findall(r"-m (benchmarks[\w.]+\w)", text))
    lacking = {name for name in named if not (ROOT / f"{name.replace('.', '/')}.py").is_file()}
    assert len(named) > 30
    assert lacking <= {"benchmarks.peers"}  # the name goes on with a variable
