"""The measured part of docs/how-to/app.md."""

from __future__ import annotations

from typing import Any

from benchmarks.common import DOCS, read_result
from benchmarks.page_generators.app_section import HEADING, section, with_section

RESULT: dict[str, Any] = {
    "versions": 20,
    "repeats": 3,
    "note": "beside other work",
    "machine": {"cores": 2, "cpu": "A"},
    "target": {"first_byte_ms": 200, "readers": 50},
    "first_byte_ms": {"cases": {"median": 53.6, "largest": 80.2}},
    "readers": {"asked": 200, "errors": 1, "median_ms": 4644.0},
}


def test_every_figure_of_the_app_is_stated() -> None:
    text = section(RESULT)
    assert "| cases | 54 | 80 |" in text.splitlines()
    assert "on 2 cores (A), beside other work." in text
    assert "1 request failed" in text
    assert "within 4.6 s" in text


def test_the_page_of_the_app_shows_the_committed_result() -> None:
    text = (DOCS / "how-to" / "app.md").read_text()
    new = with_section(text, section(read_result("app_speed")))
    assert new.startswith(text.partition(HEADING)[0])
    assert new == text
