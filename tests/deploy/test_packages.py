"""The distribution holds every package of the four folders, and no other."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("flows", "tasks", "fairlib", "data_contracts")
NAMES = "evenhand"  # the folder of the package above them, which lists the public names


def test_the_list_of_packages_is_that_of_the_folders() -> None:
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    assert tools["package-dir"] == {
        NAMES: NAMES,
        **{f"evenhand.{folder}": folder for folder in FOLDERS},
    }
    found = [NAMES]
    found += [
        ".".join(("evenhand", *path.parent.relative_to(ROOT).parts))
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("__init__.py")
    ]
    assert tools["packages"] == sorted(found)
    # a folder of modules without an __init__.py would be left out of the wheel
    lost = [
        path
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*.py")
        if not (path.parent / "__init__.py").is_file()
    ]
    assert lost == []
