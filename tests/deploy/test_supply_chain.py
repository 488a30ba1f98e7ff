"""What is installed and run is named by a digest, and may do only what it needs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
OUR_WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yaml"))
WORKFLOWS = [DEPLOY / "ci/github.yaml", *OUR_WORKFLOWS]
MORE_PERMISSIONS = {
    ("github.yaml", "evaluate"): {"contents": "read", "pull-requests": "write"},
    ("release.yaml", "publish"): {
        "actions": "read",
        "contents": "write",
        "id-token": "write",
        "attestations": "write",
    },
}
CI_FILES = [
    *sorted((DEPLOY / "ci").glob("*.yaml")),
    *OUR_WORKFLOWS,
    DEPLOY / "ci/action/action.yml",
    DEPLOY / "ci/train/action.yml",
]
HASHED = "pip install --require-hashes --no-deps --no-build-isolation"
OURS = "pip install --no-index --no-deps --no-build-isolation"


def pins(path: Path) -> dict[str, list[str]]:
    """SHA-256 digests of each pin of a file."""
    found = {}
    for line in path.read_text().splitlines():
        if not line.startswith(("#", "-r ")):
            pin, *digests = line.split(" --hash=sha256:")
            assert re.fullmatch(r"[\w.-]+==[\w.!]+", pin), line
            assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in digests), line
            assert pin not in found, line
            found[pin] = digests
    return found


def test_every_pin_has_a_digest() -> None:
    image, more = pins(DEPLOY / "hashes.txt"), pins(DEPLOY / "hashes-dev.txt")
    assert "-r hashes.txt" in (DEPLOY / "hashes-dev.txt").read_text().splitlines()
    assert not set(image) & set(more)
    assert set(image) | set(more) == set(pins(ROOT / "constraints.txt"))
    assert all(len(digests) == 1 for digests in (image | more).values())
    names = {pin.partition("==")[0] for pin in image}
    assert {"prefect", "mlflow", "torch", "s3fs", "setuptools"} <= names
    assert not {"pytest", "pip_audit"} & names


def test_the_digest_of_torch_is_that_of_the_cpu_build() -> None:
    """As the index of PyTorch lists it for CPython 3.11 on linux x86_64."""
    assert pins(DEPLOY / "hashes.txt")["torch==2.13.0"] == [
        "6746dbcbeb526eb61330b76b41ff1b4eb848951103a892eeb080dfa2b264667b"
    ]


@pytest.mark.long
def test_the_hashed_install_works_and_refuses_other_bytes(tmp_path: Path) -> None:
    """The commands of deploy/Dockerfile in a fresh environment; needs the package index."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    python = tmp_path / "venv/bin/python"
    pip = [python, "-m", *HASHED.split(), "--quiet"]
    other = tmp_path / "other.txt"
    other.write_text(f"six==1.17.0 --hash=sha256:{'0' * 64}\n")
    done = subprocess.run([*pip, "-r", other], capture_output=True, text=True)
    assert done.returncode == 1
    assert "DO NOT MATCH THE HASHES" in done.stderr
    for command in (
        [*pip, "-r", DEPLOY / "hashes.txt"],
        [python, "-m", *OURS.split(), ROOT],
        [python, "-m", "pip", "check"],
        [tmp_path / "venv/bin/evenhand", "--help"],
    ):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-2000:]


def images() -> list[tuple[str, str]]:
    """Every image of others that a file of deploy/ runs, with the file's name."""
    found = [
        (path.name, image)
        for path in sorted(DEPLOY.rglob("*.yaml"))
        for image in re.findall(r"^[ #]*image: (\S+)", path.read_text(), re.MULTILINE)
    ]
    bases = re.findall(r"^FROM (\S+)", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    return found + [("Dockerfile", base) for base in bases]


def test_every_image_of_others_has_a_digest() -> None:
    found = [(file, image) for file, image in images() if image != "evenhand:latest"]
    assert {file for file, _ in found} >= {
        "Dockerfile",
        "compose.yaml",
        "gitlab.yaml",
        "gitlab-tests.yaml",
    }
    for file, image in found:
        # a variable or a placeholder that its file explains
        variables = (
            "$EVENHAND_IMAGE",
            '"{{',
            "{{",
        )  # of GitLab, prefect.yaml, and the chart's values.yaml
        given = image in (*variables, "registry.example.org/evenhand@sha256:DIGEST")
        assert given or re.search("@sha256:[0-9a-f]{64}$", image), (file, image)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_reads_only_and_names_actions_by_commit(path: Path) -> None:
    content: dict[str, Any] = yaml.safe_load(path.read_text())
    assert content["permissions"] == {"contents": "read"}
    for name, job in content["jobs"].items():
        assert job.get("permissions") == MORE_PERMISSIONS.get((path.name, name))
        for step in job["steps"]:
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False
    used = re.findall(r"uses: (.*)", path.read_text())
    assert used
    for line in used:
        # the action of this repository is that of the commit that runs
        assert line in ("./deploy/ci/action", "./deploy/ci/train") or re.fullmatch(
            r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line
        ), line


def texts(value: Any) -> list[str]:
    """All texts of a document."""
    if isinstance(value, dict):
        return [text for item in value.values() for text in texts(item)]
    return (
        [text for item in value for text in texts(item)]
        if isinstance(value, list)
        else [str(value)]
    )


def test_the_action_pins_the_commits_of_the_workflows() -> None:
    text = (DEPLOY / "ci/action/action.yml").read_text()
    known = {line for path in WORKFLOWS for line in re.findall(r"uses: (.*)", path.read_text())}
    used = re.findall(r"^\s+- uses: (.*)", text, re.MULTILINE)
    assert used
    # the workflows here keep no packages between runs, and so have no pin of it
    (cache,) = [line for line in used if line.startswith("actions/cache@")]
    assert cache in (DEPLOY / "ci/train/action.yml").read_text()
    assert {*used} - {cache} <= known


@pytest.mark.parametrize("path", CI_FILES, ids=lambda path: path.name)
def test_a_workflow_installs_by_digest_only(path: Path) -> None:
    lines = "\n".join(texts(yaml.safe_load(path.read_text()))).replace("\\\n", "")
    for command in re.findall(r"pip install.*", lines):
        assert " ".join(command.split()).startswith((HASHED, OURS)), command


def test_advisories_are_looked_up_every_night() -> None:
    """No advisory is skipped."""
    content = yaml.safe_load((ROOT / ".github/workflows/nightly.yaml").read_text())
    commands = [step.get("run", "") for step in content["jobs"]["advisories"]["steps"]]
    (audit,) = [command for command in commands if command.startswith("pip-audit")]
    assert {"--strict", "--require-hashes", "deploy/hashes-dev.txt"} <= set(audit.split())
    assert not [command for command in commands if "||" in command]
    assert "continue-on-error" not in str(content)


def test_containers_have_a_read_only_root_and_no_capabilities() -> None:
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    assert all("no-new-privileges:true" in service["security_opt"] for service in services.values())
    assert not any(
        {"privileged", "user", "cap_add"} & set(service) for service in services.values()
    )
    ours = {name: item for name, item in services.items() if item["image"] == "evenhand:latest"}
    assert set(ours) == {"prefect", "mlflow", "deploy", "worker", "dask-scheduler", "dask-worker"}
    pools = yaml.safe_load((DEPLOY / "prefect.yaml").read_text())["definitions"]["pools"]
    container = pools["docker"]["job_variables"]["container_create_kwargs"]
    for item in (*ours.values(), container):
        assert item["read_only"] is True
        assert item["cap_drop"] == ["ALL"]
        assert list(item["tmpfs"]) == ["/tmp"]
    # what is written by default beside the package or in the home folder
    text = (DEPLOY / "Dockerfile").read_text()
    for name in ("PREFECT_HOME", "PREFECT_UI_STATIC_DIRECTORY", "NUMBA_CACHE_DIR", "MPLCONFIGDIR"):
        assert re.search(rf"\b{name}=/tmp/", text), name
    assert pools["docker"]["job_variables"]["env"]["XDG_CACHE_HOME"].startswith("/tmp/")
