"""Tests lie where the module that they test lies, and their names are short.

The test file of `fairlib/evaluation/gates.py` is `tests/fairlib/evaluation/test_gates.py`; a further
file about it is `test_gates_ASPECT.py` in the same folder. Whole flows are in `tests/e2e`, by verb.
`tests/README.md` says where the tests of the other modules are.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests"
PRODUCT = ("flows", "tasks", "fairlib", "data_contracts")
VERBS = (
    "run",
    "predict",
    "filter",
    "evaluate",
    "audit",
    "monitor",
    "promote",
    "sweep",
    "tune",
    "init",
    "serve",
    "every_verb",
)
MOST_CHARACTERS = 60
# a smaller module needs no test file of its own
FEW_LINES = 60
ROW = re.compile(r"^\| `([a-z_/]+\.py)` \| (.+) \|$", re.MULTILINE)
# parsing all files would take seconds
TEST = re.compile(r"^\s*(?:async )?def (test_\w+)\(", re.MULTILINE)
PATH = re.compile(r"`(tests/[a-z0-9_/]+\.py)`")


def files_of_tests() -> list[Path]:
    return sorted(TESTS.rglob("test_*.py"))


def mirrored_files() -> list[Path]:
    return [path for path in files_of_tests() if path.relative_to(TESTS).parts[0] in PRODUCT]


def product_modules() -> list[Path]:
    return sorted(
        path
        for folder in PRODUCT
        for path in (ROOT / folder).rglob("*.py")
        if path.name != "__init__.py"
    )


def begins_with(name: str, module: str) -> bool:
    """Whether test_NAME is a test file of the module."""
    return name == module or name.startswith(module + "_")


def has_own_test(module: Path) -> bool:
    folder = TESTS / module.parent.relative_to(ROOT)
    public_name = module.stem.lstrip("_")
    names = [path.stem.removeprefix("test_") for path in folder.glob("test_*.py")]
    return any(begins_with(name, public_name) for name in names)


def docstring_lines(tree: ast.Module) -> Iterator[int]:
    """Numbers of the lines that docstrings take."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if ast.get_docstring(node, clean=False) is None:
            continue
        text = node.body[0]
        yield from range(text.lineno, (text.end_lineno or text.lineno) + 1)


def code_lines(path: Path) -> int:
    """How many lines are neither empty, nor a comment, nor a docstring."""
    source = path.read_text()
    skipped = set(docstring_lines(ast.parse(source)))
    count = 0
    for number, line in enumerate(source.splitlines(), start=1):
        text = line.strip()
        if text and not text.startswith("#") and number not in skipped:
            count += 1
    return count


def covered_elsewhere() -> dict[str, str]:
    """The table of tests/README.md: a module, and the tests that cover it."""
    return dict(ROW.findall((TESTS / "README.md").read_text()))


def test_every_mirrored_folder_is_a_folder_of_the_product() -> None:
    folders = {path.parent.relative_to(TESTS) for path in mirrored_files()}
    assert [str(folder) for folder in sorted(folders) if not (ROOT / folder).is_dir()] == []


def test_every_mirrored_file_is_named_after_a_module() -> None:
    strangers = []
    for path in mirrored_files():
        folder = ROOT / path.parent.relative_to(TESTS)
        modules = [module.stem.lstrip("_") for module in folder.glob("*.py")]
        name = path.stem.removeprefix("test_")
        if not any(begins_with(name, module) for module in modules):
            strangers.append(str(path.relative_to(ROOT)))
    assert strangers == []


def test_whole_flows_are_named_after_their_verb() -> None:
    names = [path.stem.removeprefix("test_") for path in (TESTS / "e2e").glob("test_*.py")]
    assert [name for name in names if not any(begins_with(name, verb) for verb in VERBS)] == []


def test_every_module_has_a_test_file_or_a_row_in_the_table() -> None:
    table = covered_elsewhere()
    missing = []
    superfluous = []
    for module in product_modules():
        name = str(module.relative_to(ROOT))
        if has_own_test(module):
            if name in table:
                superfluous.append(name)
        elif name not in table and code_lines(module) > FEW_LINES:
            missing.append(name)
    assert (missing, superfluous) == ([], [])


def test_the_table_names_modules_and_tests_that_exist() -> None:
    for module, tests in covered_elsewhere().items():
        assert (ROOT / module).is_file(), module
        named = PATH.findall(tests)
        assert named, module
        for path in named:
            assert (ROOT / path).is_file(), path


def test_names_of_tests_are_short() -> None:
    long_names = []
    for path in files_of_tests():
        for name in TEST.findall(path.read_text()):
            if len(name) > MOST_CHARACTERS:
                long_names.append(f"{path.relative_to(ROOT)}: {name}")
    assert long_names == []


def test_an_aspect_follows_an_underscore() -> None:
    assert begins_with("gates", "gates")
    assert begins_with("gates_of_proxies", "gates")
    assert not begins_with("gatesmith", "gates")


def test_code_lines_leave_out_comments_and_docstrings(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(
        '"""A module\nof two lines."""\n\n# a comment\nx = 1\n\n\ndef f():\n    """F."""\n    return x\n'
    )
    assert code_lines(path) == 3
