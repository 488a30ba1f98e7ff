"""What a stranger meets in the repository: one version everywhere, pins that agree, pages that exist."""

from __future__ import annotations

import re
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
VERSION = PROJECT["version"]
PAGES = ("CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md", "CHANGELOG.md", "README.md")
MOST_CHANGES = 40
# Python versions of which the classifiers speak and which CI tests
PYTHONS = ["3.11", "3.12", "3.13"]


def test_every_place_names_the_same_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    chart = yaml.safe_load((ROOT / "deploy/helm/Chart.yaml").read_text())
    newest_change = re.findall(r"^## (\d\S*)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert str(citation["version"]) == VERSION
    assert chart["appVersion"] == VERSION
    assert newest_change[0] == VERSION
    assert metadata.version("evenhand") == VERSION, "install again: pip install -e ."


def test_the_newest_changes_are_few_and_whole_sentences() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    newest = re.split(r"^## ", text, flags=re.MULTILINE)
    (section,) = [part for part in newest if part.startswith(VERSION)]
    entries = re.findall(r"^- (.*(?:\n  .*)*)", section, re.MULTILINE)
    assert 10 <= len(entries) <= MOST_CHANGES
    for entry in entries:
        assert entry.endswith("."), entry
        assert len(entry.split()) <= 45, entry


def test_hooks_run_the_pinned_ruff() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    revisions = {item["repo"].rpartition("/")[2]: item.get("rev") for item in hooks}
    (pin,) = [line for line in PROJECT["optional-dependencies"]["dev"] if line.startswith("ruff==")]
    assert revisions["ruff-pre-commit"] == "v" + pin.partition("==")[2]
    assert f"ruff=={pin.partition('==')[2]}" in (ROOT / "constraints.txt").read_text().split()


def test_ci_tests_every_python_that_the_package_names() -> None:
    prefix = "Programming Language :: Python :: 3."
    named = [item.rpartition(" ")[2] for item in PROJECT["classifiers"] if item.startswith(prefix)]
    workflow = yaml.safe_load((ROOT / ".github/workflows/tests.yaml").read_text())
    assert named == PYTHONS
    assert workflow["jobs"]["test"]["strategy"]["matrix"]["python"] == PYTHONS
    versions = (ROOT / "docs/reference/versions.md").read_text()
    assert "3.11, 3.12 and 3.13" in versions


def test_every_dependency_has_a_lowest_version() -> None:
    """`make test-lowest` installs these; without a bound the oldest release of all would come."""
    for line in PROJECT["dependencies"]:
        assert re.search(r">=|==", line.partition(";")[0]), line


def test_every_package_carries_its_types() -> None:
    for folder in ("flows", "tasks", "fairlib", "data_contracts"):
        assert (ROOT / folder / "py.typed").is_file()


@pytest.mark.parametrize("name", PAGES)
def test_links_of_the_pages_at_the_root_lead_to_files(name: str) -> None:
    for target in re.findall(r"\]\(([^)#]+)", (ROOT / name).read_text()):
        assert target.startswith("https://") or (ROOT / target).exists(), (name, target)
