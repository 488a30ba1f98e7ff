"""docs/how-to/own-table.md: its scripts write the tables that it shows, and its messages are real."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evenhand.flows.cli import app

PAGE = Path(__file__).resolve().parents[2] / "docs/how-to/own-table.md"


def script(text: str, file: str) -> str:
    """The script of the page that writes a file."""
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    (code,) = [block for block in blocks if f'"{file}"' in block]
    return str(code)


def test_the_scripts_write_the_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text(encoding="utf-8")
    for file in ("people.csv", "pay.csv"):
        exec(compile(script(text, file), str(PAGE), "exec"), {"__name__": "example"})
    head = (tmp_path / "people.csv").read_text().splitlines()[:4]
    assert "\n".join(f"    {line}" for line in head) in text
    done = CliRunner().invoke(
        app, ["init", "pay.csv", "--label", "income", "--sensitive", "gender"]
    )
    assert done.exit_code == 2
    assert done.stderr.strip() in " ".join(text.split())
