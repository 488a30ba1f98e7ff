"""The README's lines of Python run, and print what it says."""

from __future__ import annotations

import contextlib
import io
import re
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SECTION = re.compile(r"^## From Python\n(.*?)^## ", re.DOTALL | re.MULTILINE)
BLOCK = re.compile(r"(?:^(?: {4}.*)?\n)+", re.MULTILINE)
MOST_LINKS = 10


def blocks() -> list[str]:
    """Return the indented blocks of the section: the code, and what it prints."""
    section = SECTION.search(README)
    assert section is not None
    indented = [textwrap.dedent(block).strip() for block in BLOCK.findall(section[1])]
    return [block for block in indented if block]


# trains three models, some ten seconds of a core: these lines are the first that a reader tries
def test_the_lines_of_python_print_what_the_readme_says() -> None:
    code, printed = blocks()
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(code, "README.md", "exec"), {"__name__": "readme"})
    for line in printed.splitlines():
        assert line.partition(" …")[0] in output.getvalue()


def test_the_readme_has_few_links() -> None:
    assert len(re.findall(r"\]\(", README)) <= MOST_LINKS
