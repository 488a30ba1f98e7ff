"""The Python example of the page on audits runs, and shows what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs/how-to/audit.md"


def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"(?<=\n\n)((?: {4}.*\n|\n(?= {4}))+)", PAGE.read_text(encoding="utf-8"))
    (program,) = [block for block in blocks if "import numpy" in block]
    code = re.sub(r"^ {4}", "", program, flags=re.MULTILINE)
    exec(compile(code, "docs/how-to/audit.md", "exec"), {"__name__": "example"})
    output = capsys.readouterr().out
    assert "Women are approved " in output
    assert ": below four fifths; interval ." in output
