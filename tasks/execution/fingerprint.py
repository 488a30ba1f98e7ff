"""Fingerprints of code and environment, for cache keys and provenance."""

from __future__ import annotations

import datetime
import functools
import hashlib
import os
import platform
import re
import subprocess
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

PACKAGE = "evenhand"
INIT = "__init__.py"
# All packages have one root.
ROOT = Path(__file__).resolve().parents[2]
# `from evenhand.a.b import c, d`, in brackets over several lines too; and `import evenhand.a.b`.
# Both begin with a word, which is found several times faster than the beginning of a line.
IMPORT = re.compile(rf"from ({PACKAGE}[\w.]*) import (\([^)]*\)|[^\n]*)")
PLAIN_IMPORT = re.compile(rf"import ({PACKAGE}[\w.]*)")
FOR_TYPES = re.compile(r"^([ \t]*)if TYPE_CHECKING:\n(\1[ \t]+.*\n|\n)+", re.MULTILINE)
COMMENT = re.compile(r"#[^\n]*")
VERSION = re.compile(r"^Version: (\S+)", re.MULTILINE)
NUMERIC_LIBRARIES = (
    "numpy",
    "scipy",
    "pandas",
    "pyarrow",
    "scikit-learn",
    "xgboost",
    "xgboost-cpu",
    "torch",
    "numba",
)
REPORTED_PACKAGES = ("prefect", "great-expectations", "mlflow-skinny", *NUMERIC_LIBRARIES)


def source_closure(modules: Iterable[str]) -> dict[str, Path]:
    """Return the source files of our modules that `modules` (dotted names) import, directly or
    indirectly.

    The keys are module names; the packages above each module are included, because a package may
    have templates. Imports count at every place of a file, but not those of an `__init__` file: it
    only lists the names that a package offers, and no module of ours imports one of them from it.
    """
    source_files: dict[str, Path] = {}
    visited: set[str] = set()
    waiting = list(modules)
    while waiting:
        name = waiting.pop()
        if name in visited or name.partition(".")[0] != PACKAGE:
            continue
        visited.add(name)
        path = _source(ROOT, name)
        # an upgrade below a process that stays may have removed it
        if path is None or not os.path.isfile(path):
            continue
        source_files[name] = path
        waiting.append(name.rpartition(".")[0])
        if path.name != INIT:
            waiting += _read(path)[1]
    source_files.pop("", None)
    return dict(sorted(source_files.items()))


@functools.cache
def _source(root: Path, name: str) -> Path | None:
    """Source file of one of our modules; None for a name that is no module, such as an
    attribute.
    """
    # A search by the import system would import the packages above a module. Texts in place of
    # paths: some 1,200 names take a quarter of the time.
    place = f"{root}{os.sep}{name.partition('.')[2].replace('.', os.sep)}"
    for file in (f"{place}.py", f"{place}{os.sep}{INIT}"):
        if os.path.isfile(file):
            return Path(file)
    return None


def _read(path: Path) -> tuple[str, list[str]]:
    """SHA-256 digest of a source file, and what it imports; a file that has changed is read
    again.
    """
    status = os.stat(path)
    return _read_once(path, status.st_mtime_ns, status.st_size)


@functools.cache
def _read_once(path: Path, changed_ns: int, size: int) -> tuple[str, list[str]]:
    content = path.read_bytes()
    return hashlib.sha256(content).hexdigest(), _imports(content.decode())


def _imports(content: str) -> list[str]:
    """Names in our packages that a file imports; each imported name is also listed as a possible
    submodule.

    Imports for type checkers are left out, because they are never executed.
    """
    # A regular expression takes a thirtieth of a parser's time, and every process needs this.
    if "if TYPE_CHECKING:" in content:
        content = FOR_TYPES.sub("", content)
    names = []
    for statement in PLAIN_IMPORT.finditer(content):
        if _begins_line(content, statement.start()):
            names.append(statement[1])
    for statement in IMPORT.finditer(content):
        if not _begins_line(content, statement.start()):
            continue
        module, imported = statement.groups()
        names.append(module)
        listed = COMMENT.sub("", imported).strip("()").split(",")
        names += [f"{module}.{item.split()[0]}" for item in listed if item.strip()]
    return names


def _begins_line(content: str, place: int) -> bool:
    """Whether only spaces stand before a place on its line."""
    line_start = content.rfind("\n", 0, place) + 1
    return not content[line_start:place].strip(" \t")


def code_digest(modules: Iterable[str]) -> str:
    """Digest of all source files that `modules` depend on, and of the templates in their
    packages; the lists of names in `__init__` files change no result, so they do not count.
    """
    digest = hashlib.sha256()
    for name, path in source_closure(modules).items():
        files = [path]
        if path.name == INIT:
            templates = (path.parent / "templates").glob("*")
            files = sorted(item for item in templates if item.is_file())
        for file in files:
            digest.update(f"{name}\0{_read(file)[0]}\n".encode())
    return digest.hexdigest()


def library_versions(names: Iterable[str] = NUMERIC_LIBRARIES) -> dict[str, str]:
    """Installed versions, from package metadata, without importing the packages."""
    versions = {}
    for name in names:
        try:
            distribution = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
        # Reading this line alone takes a fifth of the time of parsing all metadata, and each step
        # asks.
        line = VERSION.search(distribution.read_text("METADATA") or "")
        versions[name] = line[1] if line else distribution.version
    return versions


def now() -> str:
    """UTC time to the second, ISO 8601."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def environment() -> dict[str, Any]:
    """Commit, Python, packages and machine of a run, for its pages and files."""
    commit, dirty = git_state()
    return {
        "python": platform.python_version(),
        "packages": library_versions(REPORTED_PACKAGES),
        "git_commit": commit,
        "git_dirty": dirty,
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
    }


def git_state() -> tuple[str | None, bool | None]:
    """Commit of our source tree, and whether it has uncommitted changes; (None, None) outside a
    checkout.
    """
    if not (ROOT / ".git").exists():
        return None, None
    try:
        return _git("rev-parse", "HEAD"), bool(_git("status", "--porcelain"))
    except (OSError, subprocess.SubprocessError):
        return None, None


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=10
    ).stdout.strip()
