"""Pages of the methods: two screens, the same parts on each, and examples that run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = (
    "budro",
    "clp",
    "comparators",
    "dadi",
    "faias",
    "fair-metric",
    "proxies",
    "sensei",
    "sensr",
)
TWO_SCREENS = 95


def example(text: str) -> str:
    """The Python example of a page: its indented block with a call of ``fit``."""
    blocks = re.findall(r"(?<=\n\n)((?: {4}.*\n|\n(?= {4}))+)", text)
    programs = [block for block in blocks if "import " in block and "fit(" in block]
    assert len(programs) == 1
    return re.sub(r"^ {4}", "", programs[0], flags=re.MULTILINE)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_its_parts_on_two_screens(name: str) -> None:
    text = (ROOT / f"docs/{name}.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= TWO_SCREENS
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    for part in ("When to use it", "Example", "Parameters", "Limits"):
        assert part in headings
    assert headings[0].startswith("What ")
    assert f"research/{name}.md" in text


@pytest.mark.parametrize("name", PAGES)
def test_the_example_of_a_page_runs(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / f"docs/{name}.md").read_text(encoding="utf-8")
    exec(compile(example(text), f"docs/{name}.md", "exec"), {"__name__": "example"})
    assert capsys.readouterr().out.strip()
