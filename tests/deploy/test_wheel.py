"""The wheel has all that the program needs, and its core dependencies are enough for every shipped
job.
"""

from __future__ import annotations

import ast
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import PackageNotFoundError, distribution, requires
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("flows", "tasks", "fairlib", "data_contracts")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# libraries of an extra, and the only modules that may import them
COMPARATORS = "fairlib/methods/comparators"
OPTIONAL = {
    "catboost": {"fairlib/methods/boosting_libraries.py"},
    "deltalake": {"tasks/sources/lakes.py"},
    "distributed": {"flows/workers.py"},
    "fairlearn": {f"{COMPARATORS}/{name}.py" for name in ("adversarial", "reduction")},
    "lightgbm": {"fairlib/methods/boosting_libraries.py"},
    "onnx": {"tasks/exporting/onnx_graph.py"},
    "onnxruntime": {"tasks/sources/foreign_models.py"},
    "pyiceberg": {"tasks/filtering/lake_inputs.py", "tasks/sources/lakes.py"},
    "sentence_transformers": {
        f"fairlib/preprocessing/{name}.py" for name in ("sentences", "tuned_encoder")
    },
    "skops": {f"{COMPARATORS}/sklearn_estimators.py"},
    "transformers": {"fairlib/preprocessing/sentences.py"},
    "weasyprint": {"tasks/documents/writing.py"},
}
# resolves every shipped job, runs its first step, and prints rows or the error's text
FIRST_STEPS = """
import json, sys, tempfile
import evenhand.flows
from evenhand.flows.engine import DirectEngine, Steps
from evenhand.flows.job_file import load_job, shipped_jobs
from evenhand.flows.resolved_job import resolve
from evenhand.flows.run import ingest
from evenhand.tasks.errors import EvenhandError
from evenhand.tasks.execution.store import Store

found = {}
for name in shipped_jobs():
    few = ["table.rows=1500"] if name.startswith(("bios", "hiring", "loans")) else []
    resolved = resolve(*load_job(name, few))
    store = Store(sys.argv[1])
    steps = Steps(store, DirectEngine(store))
    try:
        ingest(resolved.source(), resolved.job.seed, steps)
        found[name] = steps.facts("ingest")["rows"]
    except EvenhandError as error:
        found[name] = str(error)
print(json.dumps({"file": evenhand.flows.__file__, "jobs": found}))
"""
# the digest of the code of every step, and whether the public names are there
CODE_DIGESTS = """
import json
import evenhand
from evenhand import BudroClassifier, SensitiveSubspace
from evenhand.tasks.execution.fingerprint import code_digest
from evenhand.tasks.execution.step import STEPS

modules = [BudroClassifier.__module__]
digests = {name: code_digest([step.module, *step.modules, *modules]) for name, step in STEPS.items()}
print(json.dumps({"digests": digests, "file": evenhand.__file__, "names": sorted(evenhand.__all__)}))
"""
COMMANDS = """
import typer
from evenhand.flows.cli import app

def walk(group, words):
    print(*words)
    for name, command in getattr(group, "commands", {}).items():
        walk(command, [*words, name])

walk(typer.main.get_command(app), [])
"""
# every address but this machine's own is unknown
OFFLINE = """
import socket
resolve = socket.getaddrinfo

def getaddrinfo(host, *more, **options):
    if host not in (None, "localhost", "127.0.0.1", "::1"):
        raise socket.gaierror(socket.EAI_NONAME, "no network in this test")
    return resolve(host, *more, **options)

socket.getaddrinfo = getaddrinfo
"""


def copy_sources(source: Path) -> None:
    """Copy what is built: setuptools leaves files beside the sources."""
    ignored = shutil.ignore_patterns("__pycache__", "*.nbi", "*.nbc")
    for name in (*FOLDERS, "evenhand"):
        shutil.copytree(ROOT / name, source / name, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)


def build_wheel(folder: Path) -> Path:
    """Build the wheel from a copy of the sources."""
    source = folder / "source"
    copy_sources(source)
    code = (
        "import sys; from setuptools import build_meta; print(build_meta.build_wheel(sys.argv[1]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder)], cwd=source, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return folder / done.stdout.splitlines()[-1]


def offline(folder: Path, *more: str) -> dict[str, str]:
    """Environment without the network, the raw tables, and anything of this checkout."""
    (folder / "offline").mkdir(exist_ok=True)
    (folder / "offline" / "sitecustomize.py").write_text(OFFLINE)
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("EVENHAND", "PYTEST"))
    }
    return kept | {
        "PYTHONPATH": os.pathsep.join([str(folder / "offline"), *more]),
        "EVENHAND_DATA": str(folder / "no-data"),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "EVENHAND_STORE": str(folder / "store"),
    }


def check_first_steps(answer: dict[str, Any]) -> None:
    """Generated tables are read; for every other one there is one line that says what is
    missing.
    """
    jobs = answer["jobs"]
    assert sorted(jobs) == sorted(path.stem for path in (ROOT / "flows/jobs").glob("[!_]*.yaml"))
    for name, found in jobs.items():
        if name.startswith(("bios", "hiring", "loans")):
            assert isinstance(found, int), f"{name}: {found}"
            assert found > 1000
        else:
            assert re.match(r"https://\S+ cannot be reached", found), f"{name}: {found}"
            assert "\n" not in found


def top_level(name: str) -> set[str]:
    """Names that a distribution installs to import; none if it is not installed."""
    try:
        files = distribution(name).files or []
    except PackageNotFoundError:
        return set()
    return {file.parts[0].partition(".")[0] for file in files}


def imported(path: Path) -> set[str]:
    """Top-level names of all imports in a file, those within functions included."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            found.add(node.module.partition(".")[0])
    return found


def test_all_imports_are_core_dependencies() -> None:
    """What a module imports, even late, is installed with it; only modules of an extra are
    excepted.
    """
    plain = {canonicalize_name(Requirement(item).name) for item in PROJECT["dependencies"]}
    # what core dependencies bring along, without extras of their own
    for name in sorted(plain):
        with contextlib.suppress(PackageNotFoundError):
            found = [Requirement(item) for item in requires(name) or []]
            plain |= {
                canonicalize_name(item.name)
                for item in found
                if item.marker is None or item.marker.evaluate({"extra": ""})
            }
    importable = set().union(*map(top_level, plain))
    lacking: dict[str, set[str]] = {}
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*.py"):
            for name in imported(path) - {*sys.stdlib_module_names, "evenhand"} - importable:
                lacking.setdefault(name, set()).add(str(path.relative_to(ROOT)))
    assert lacking == OPTIONAL


def test_what_tune_searches_with_is_installed_with_the_core() -> None:
    """`evenhand tune` works after `make demo`; the extra of earlier releases still installs, and is
    empty.
    """
    core = {Requirement(item).name for item in PROJECT["dependencies"]}
    assert "optuna" in core
    assert PROJECT["optional-dependencies"]["tune"] == []
    pinned = (ROOT / "deploy/hashes.txt").read_text()
    assert "\noptuna==" in pinned


def test_the_wheel_has_its_files_and_runs_without_the_checkout(tmp_path: Path) -> None:
    """The unpacked wheel, with this environment's libraries: its files, and every job's
    first step.
    """
    with zipfile.ZipFile(build_wheel(tmp_path)) as wheel:
        names = set(wheel.namelist())
        wheel.extractall(tmp_path / "wheel")
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and path.suffix in (".py", ".yaml", ".j2", ".css", ".typed"):
                assert f"evenhand/{path.relative_to(ROOT)}" in names
    assert {"evenhand/__init__.py", "evenhand/py.typed"} <= names
    assert not [
        name for name in names if name.split("/")[0] in (*FOLDERS, "tests", "benchmarks", "docs")
    ]
    (entry,) = (tmp_path / "wheel").glob("*.dist-info/entry_points.txt")
    assert "evenhand = evenhand.flows.cli:main" in entry.read_text()
    done = subprocess.run(
        [sys.executable, "-c", FIRST_STEPS, str(tmp_path / "store")],
        cwd=tmp_path,
        env=offline(tmp_path, str(tmp_path / "wheel")),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    answer = json.loads(done.stdout)
    assert Path(answer["file"]).is_relative_to(tmp_path / "wheel")
    check_first_steps(answer)
    check_names_and_keys(tmp_path)


def check_names_and_keys(folder: Path) -> None:
    """A public name more in the unpacked wheel changes the code of no step."""

    def answer() -> dict[str, Any]:
        done = subprocess.run(
            [sys.executable, "-c", CODE_DIGESTS],
            cwd=folder,
            env=offline(folder, str(folder / "wheel")),
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        content: dict[str, Any] = json.loads(done.stdout)
        return content

    before = answer()
    names = folder / "wheel/evenhand/__init__.py"
    assert before["file"] == str(names)
    names.write_text(names.read_text().replace("__all__ = [", "__all__ = ['one_more',"))
    inner = folder / "wheel/evenhand/fairlib/methods/__init__.py"
    inner.write_text(
        inner.read_text() + "\nfrom evenhand.fairlib.methods.registry import METHODS\n"
    )
    after = answer()
    assert set(after["names"]) - set(before["names"]) == {"one_more"}
    assert after["digests"] == before["digests"]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with a fresh environment `venv` that has the wheel and its core dependencies."""
    folder = tmp_path_factory.mktemp("installed")
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    pip = [folder / "venv/bin/python", "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
    wheel = build_wheel(folder)
    for what in (["pip>=25.1"], ["-c", ROOT / "constraints.txt", wheel]):
        done = subprocess.run([*pip, *what], cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-2000:]
    return folder


def run(installed: Path, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program of the fresh environment, outside the checkout and without the network."""
    return subprocess.run(
        [installed / "venv/bin" / program, *arguments],
        cwd=installed,
        env=offline(installed),
        capture_output=True,
        text=True,
        timeout=600,
    )


@pytest.mark.long
def test_first_steps_of_shipped_jobs_need_core_dependencies_only(installed: Path) -> None:
    done = run(installed, "python", "-c", FIRST_STEPS, str(installed / "store"))
    assert done.returncode == 0, done.stderr[-2000:]
    answer = json.loads(done.stdout)
    assert Path(answer["file"]).is_relative_to(installed / "venv")
    check_first_steps(answer)


@pytest.mark.long
def test_every_help_with_core_dependencies_only(installed: Path) -> None:
    done = run(installed, "python", "-c", COMMANDS)
    assert done.returncode == 0, done.stderr[-2000:]
    commands = done.stdout.splitlines()
    assert {"", "run", "demo", "cache gc"} <= set(commands)
    for words in commands:
        shown = run(installed, "evenhand", *words.split(), "--help")
        assert (shown.returncode, shown.stderr) == (0, ""), words
        assert f"evenhand {words}".strip() in " ".join(shown.stdout.split())


@pytest.mark.long
def test_absent_data_is_one_line_with_core_dependencies_only(installed: Path) -> None:
    done = run(installed, "evenhand", "run", "adult-gbdt", "--direct")
    assert done.returncode == 2
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("evenhand:")]
    assert "adult.data cannot be reached" in line
    assert "Traceback" not in done.stderr


@pytest.mark.long
def test_a_job_runs_with_core_dependencies_only(installed: Path) -> None:
    small = ("table.rows=2000", "method.n_steps=20", "evaluate.draws=50", "gates={}")
    for more in (
        ["--direct"],
        [],
    ):  # the second run finds the steps of the first and starts Prefect
        done = run(
            installed, "evenhand", "run", "loans-budro", *more, *(f"--set={item}" for item in small)
        )
        assert done.returncode == 0, done.stderr[-2000:]
        assert "published loans-budro version 1" in done.stdout
