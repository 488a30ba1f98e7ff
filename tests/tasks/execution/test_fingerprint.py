"""Fingerprints of code, libraries and checkout, computed by hand on a few small files."""

from __future__ import annotations

import datetime
import hashlib
import re
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from evenhand.tasks.execution import fingerprint


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with four modules and a template, which the fingerprint takes for ours."""
    files = {
        "tasks/__init__.py": "",
        "tasks/pages/__init__.py": "",
        "tasks/pages/build.py": "from evenhand.fairlib import (\n    texts,  # a remark, with a comma\n)\n",
        "tasks/pages/templates/page.html": "<p>",
        "tasks/pages/templates/deep/part.html": "<b>",
        "tasks/templates": "a file of that name",
        "fairlib/texts.py": "import json\n\n\ndef late():\n    import evenhand.tasks.late\n",
        "tasks/late.py": "",
    }
    for name, content in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    monkeypatch.setattr(fingerprint, "ROOT", tmp_path)
    return tmp_path


def line(tree: Path, module: str, file: str) -> str:
    return f"{module}\0{hashlib.sha256((tree / file).read_bytes()).hexdigest()}\n"


def test_the_closure_follows_imports_and_names_packages(tree: Path) -> None:
    assert fingerprint.source_closure(["evenhand.tasks.pages.build", "numpy"]) == {
        "evenhand.fairlib.texts": tree / "fairlib/texts.py",
        "evenhand.tasks": tree / "tasks/__init__.py",
        "evenhand.tasks.late": tree / "tasks/late.py",
        "evenhand.tasks.pages": tree / "tasks/pages/__init__.py",
        "evenhand.tasks.pages.build": tree / "tasks/pages/build.py",
    }


def test_the_digest_is_of_names_digests_and_templates(tree: Path) -> None:
    """The templates are those of the package."""
    listed = [
        line(tree, "evenhand.fairlib.texts", "fairlib/texts.py"),
        line(tree, "evenhand.tasks.late", "tasks/late.py"),
        line(tree, "evenhand.tasks.pages", "tasks/pages/templates/page.html"),
        line(tree, "evenhand.tasks.pages.build", "tasks/pages/build.py"),
    ]
    expected = hashlib.sha256("".join(listed).encode()).hexdigest()
    assert fingerprint.code_digest(["evenhand.tasks.pages.build"]) == expected
    (tree / "tasks/pages/templates/page.html").write_text("<p></p>")
    assert fingerprint.code_digest(["evenhand.tasks.pages.build"]) != expected


def test_the_names_that_a_package_lists_do_not_count(tree: Path) -> None:
    before = fingerprint.code_digest(["evenhand.tasks.pages.build"])
    closure = fingerprint.source_closure(["evenhand.tasks.pages.build"])
    listed = "import evenhand.tasks.other\nNAMES = ['evenhand.tasks.other']\n"
    (tree / "tasks/other.py").write_text("")
    (tree / "tasks/pages/__init__.py").write_text(listed)
    # a wheel has the package above the others in the folder that a checkout has as its root
    (tree / "__init__.py").write_text(listed)
    assert fingerprint.code_digest(["evenhand.tasks.pages.build"]) == before
    later = fingerprint.source_closure(["evenhand.tasks.pages.build"])
    assert "evenhand.tasks.other" not in later
    assert set(later) - {"evenhand"} == set(closure)


def test_a_file_is_read_once_until_it_changes(tree: Path) -> None:
    found = fingerprint.source_closure(["evenhand.tasks.pages.build"])
    before = fingerprint._read_once.cache_info()
    assert fingerprint.source_closure(["evenhand.tasks.pages.build"]) == found
    after = fingerprint._read_once.cache_info()
    assert (after.misses, after.hits) == (before.misses, before.hits + 3)
    (tree / "fairlib/texts.py").write_text("import json\n")
    left = fingerprint.source_closure(["evenhand.tasks.pages.build"])
    assert set(found) - set(left) == {"evenhand.tasks.late"}
    (tree / "tasks/pages/build.py").unlink()
    assert fingerprint.source_closure(["evenhand.tasks.pages.build"]) == {}


def test_versions_are_those_of_installed_packages_alone() -> None:
    found = fingerprint.library_versions(["no-such-package-of-ours", "numpy", "pandas"])
    assert found == {"numpy": metadata.version("numpy"), "pandas": metadata.version("pandas")}


def git(folder: Path, *arguments: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    command = ["git", "-C", str(folder), *who, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_the_commit_and_whether_anything_changed_since(tree: Path) -> None:
    assert fingerprint.git_state() == (None, None)
    git(tree, "init", "-q")
    # a repository without a commit has no state
    assert fingerprint.git_state() == (None, None)
    git(tree, "add", ".")
    git(tree, "commit", "-qm", "all")
    commit = git(tree, "rev-parse", "HEAD")
    assert re.fullmatch("[0-9a-f]{40}", commit)
    assert fingerprint.git_state() == (commit, False)
    (tree / "tasks/late.py").write_text("x = 1\n")
    assert fingerprint.git_state() == (commit, True)


@pytest.mark.parametrize("error", [FileNotFoundError("git"), subprocess.TimeoutExpired("git", 10)])
def test_without_a_working_git_there_is_no_state(
    tree: Path, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, timeout: float, **__: Any) -> None:
        assert timeout == 10  # seconds, in a large checkout on a slow disk too
        raise error

    (tree / ".git").mkdir()
    monkeypatch.setattr(subprocess, "run", fail)
    assert fingerprint.git_state() == (None, None)


def test_the_environment_names_commit_packages_and_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fingerprint, "git_state", lambda: ("abc", True))
    found = fingerprint.environment()
    assert (found["git_commit"], found["git_dirty"]) == ("abc", True)
    assert set(found) == {"python", "packages", "git_commit", "git_dirty", "machine"}
    assert found["packages"]["numpy"] == metadata.version("numpy")
    assert {"prefect", "mlflow-skinny", "torch"} <= set(found["packages"])
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*", found["python"])
    assert re.fullmatch(r"\S+ \S+, \d+ cores", found["machine"])


def test_the_time_is_utc_to_the_second() -> None:
    text = fingerprint.now()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", text)
    age = datetime.datetime.now(datetime.UTC) - datetime.datetime.fromisoformat(text)
    assert datetime.timedelta(0) <= age < datetime.timedelta(minutes=5)
