"""The commands of the release: what they build is whole, described well, and runs where it is
installed.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.test_wheel import FOLDERS, copy_sources

ROOT = Path(__file__).resolve().parents[2]
RELEASE: dict[str, Any] = yaml.safe_load((ROOT / ".github/workflows/release.yaml").read_text())[
    "jobs"
]
FILES = (".py", ".yaml", ".j2", ".css", ".typed")


def script(job: str, name: str) -> str:
    (step,) = [step for step in RELEASE[job]["steps"] if step.get("name") == name]
    return str(step["run"])


def run(script: str, folder: Path, path: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", script],
        cwd=folder,
        env={**os.environ, "PATH": os.pathsep.join([path, os.environ["PATH"]]), **more},
        capture_output=True,
        text=True,
    )


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources in which the step "Build" has run; it has its files in `dist`."""
    folder = tmp_path_factory.mktemp("release")
    source = folder / "source"
    copy_sources(source)
    (folder / "bin").mkdir()
    git = folder / "bin" / "git"  # the time of the commit
    git.write_text("#!/bin/sh\necho 1700000000\n")
    git.chmod(0o755)
    path = os.pathsep.join([str(folder / "bin"), str(Path(sys.executable).parent)])
    done = run(script("build", "Build"), source, path)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "warning" not in done.stdout.partition("Checking")[2].lower()  # of twine
    return source / "dist"


@pytest.mark.long  # builds twice, and installs into a fresh environment
def test_wheel_and_source_have_every_file(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    (source,) = built.glob("*.tar.gz")
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert wheel.name == f"evenhand-{version}-py3-none-any.whl"  # what the step "Release" looks for
    expected = {
        str(path.relative_to(ROOT))
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and path.suffix in FILES
    }
    with zipfile.ZipFile(wheel) as opened:
        names = set(opened.namelist())
    assert {f"evenhand/{name}" for name in expected} <= names
    public = {"evenhand/__init__.py", "evenhand/py.typed"}
    assert public <= names
    with tarfile.open(source) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    assert expected | public <= names
    for line in (built / "SHA256SUMS").read_text().splitlines():
        digest, name = line.split("  ")
        assert hashlib.sha256((built / name).read_bytes()).hexdigest() == digest


@pytest.mark.long  # as above
def test_the_installed_wheel_runs(built: Path, tmp_path: Path) -> None:
    """A fresh environment with the wheel alone; its libraries are those of this environment."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    (packages,) = (tmp_path / "venv/lib").glob("python*/site-packages")
    (packages / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")
    commands = script("build", "Does the wheel run?").replace("dist/*.whl", f"{built}/*.whl")
    assert str(built) in commands
    done = run(
        commands, tmp_path, str(tmp_path / "venv/bin"), RUNNER_TEMP=str(tmp_path), PYTHONPATH="",
        EVENHAND_STORE=str(tmp_path / "store"),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert re.search(r"\bloans-gbdt\b", done.stdout)
    assert re.search(r"\bsensei\b", done.stdout)
    probe = "import evenhand.flows.cli as found; print(found.__file__)"
    found = run(f"python -c '{probe}'", tmp_path, str(tmp_path / "venv/bin"), PYTHONPATH="")
    assert Path(found.stdout.strip()).is_relative_to(tmp_path / "venv"), found.stdout + found.stderr


@pytest.mark.parametrize(("tag", "code"), [("v0.2.0", 0), ("v9.9.9", 2)])
def test_a_release_has_the_built_files_and_the_tags_version(
    tag: str, code: int, tmp_path: Path
) -> None:
    """The steps "Fetch" and "Release", with a program in place of `gh` that notes its calls."""
    gh = tmp_path / "gh"
    gh.write_text(
        '#!/bin/sh\necho "$@" >> "$CALLS"\n[ "$1" = run ] || exit 0\nmkdir dist && cd dist\n'
        "touch evenhand-0.2.0-py3-none-any.whl evenhand-0.2.0.tar.gz\n"
        "touch evenhand-0.2.0.code.json evenhand-0.2.0.sbom.json\n"
        "sha256sum -- *.whl *.tar.gz *.json > SHA256SUMS\n"
    )
    gh.chmod(0o755)
    done = run(
        script("publish", "Fetch") + "cd ..\n" + script("publish", "Release"),
        tmp_path,
        str(tmp_path),
        TAG=tag,
        RUN="5",
        CALLS=str(tmp_path / "calls"),
    )
    assert done.returncode == code, done.stderr
    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls[0] == "run download 5 --name dist --dir dist"
    names = ("-py3-none-any.whl", ".tar.gz", ".code.json", ".sbom.json")
    files = " ".join([*(f"evenhand-0.2.0{name}" for name in names), "SHA256SUMS"])
    assert calls[1:] == (
        [] if code else [f"release create {tag} --verify-tag --generate-notes -- {files}"]
    )


def test_provenance_is_signed_before_a_release_is_made() -> None:
    steps = RELEASE["publish"]["steps"]
    (place,) = [k for k, step in enumerate(steps) if "attest-build" in step.get("uses", "")]
    assert steps[place]["with"] == {"subject-checksums": "dist/SHA256SUMS"}
    assert [step.get("name") for step in steps[place + 1 :]] == ["Release"]


@pytest.mark.long  # beside the test that builds the wheel
def test_the_digests_of_code_are_those_of_the_wheel(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    command = [sys.executable, str(ROOT / "deploy" / "code_digests.py"), str(wheel)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    digests = json.loads(done.stdout)
    assert digests["version"] == wheel.name.split("-")[1]
    place = "fairlib/file_digests.py"
    content = (ROOT / place).read_bytes()
    assert digests["files"][f"code/evenhand/{place}"] == hashlib.sha256(content).hexdigest()
    model_code = (ROOT / "tasks/serving/model_code.py").read_bytes()
    assert digests["files"]["model_code.py"] == hashlib.sha256(model_code).hexdigest()
    assert "code/evenhand/__init__.py" in digests["files"]
    assert not [path for path in digests["files"] if "/tasks/" in path]


def test_nothing_is_published_without_a_tag() -> None:
    assert RELEASE["publish"]["if"] == "startsWith(github.ref, 'refs/tags/v')"
    assert RELEASE["publish"]["needs"] == "build"
    assert "gh " not in str(RELEASE["build"])
    assert "upload" not in script("build", "Build")
