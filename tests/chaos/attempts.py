"""The folder in which bad input is tried, and one command tried in it."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path
from typing import Any

import yaml
from typer.testing import CliRunner

from tests.flows.people import CONTRACT, JOB, clean_environment, make_people


def make_folder(folder: Path) -> None:
    """A job, a contract and a table that are right, and links that lead back to themselves."""
    import pyarrow.csv

    folder.mkdir(parents=True, exist_ok=True)
    pyarrow.csv.write_csv(make_people(120), folder / "people.csv")
    (folder / "people.contract.yaml").write_text(yaml.safe_dump(CONTRACT))
    (folder / "people.yaml").write_text(yaml.safe_dump(JOB, sort_keys=False))
    for name in ("loop.csv", "loop.yaml"):
        (folder / name).symlink_to(name)


def attempt(folder: Path, case: dict[str, Any]) -> tuple[int, str, str]:
    """Exit code and both outputs of a case's command; its files, and its folder, are written first
    and removed afterwards.
    """
    from evenhand.flows.cli import app

    arguments = list(case["command"])
    made = [folder / name for name in case.get("files", {})]
    for name, content in case.get("files", {}).items():
        data = content if isinstance(content, bytes) else content.encode()
        (folder / name).write_bytes(data)
    if "folder" in case:
        name, source, changed, content = case["folder"]
        made.append(folder / name)
        shutil.copytree(source, folder / name)
        (folder / name / changed).write_bytes(content)
    try:
        with clean_environment(), contextlib.chdir(folder):
            os.environ["EVENHAND_STORE"] = str(folder / "store")
            done = CliRunner().invoke(app, arguments)
    finally:
        for path in made:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
    return done.exit_code, done.stdout, done.stderr
