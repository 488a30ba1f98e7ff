"""The part of docs/how-to/app.md with measured figures."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.page_generators.cases_section import with_section_under

HEADING = "## How fast it is\n"
NAMES = {
    "models": "models",
    "model": "a model",
    "version": "a version",
    "comparison": "two versions",
    "runs": "runs",
    "person": "one person, the form",
    "jobs": "jobs",
    "audit": "audit",
    "cases": "cases",
    "case": "a case",
    "ask": "ask, the beginning",
    "question": "ask, a question",
    "answered": "ask, an answer and the next page",
}


def write(result: Mapping[str, Any], page: Path) -> None:
    """Replace the section of the page, if there is a result."""
    if result:
        page.write_text(with_section(page.read_text(), section(result)))


def with_section(text: str, new: str) -> str:
    """The text with the section in place of the one under its heading."""
    return with_section_under(HEADING, text, new)


def section(result: Mapping[str, Any]) -> str:
    """Markdown of the section."""
    readers = result["readers"]
    target = result["target"]
    lines = [
        HEADING,
        f"By `python -m benchmarks.speed.app_speed` on a model of {result['versions']} versions: "
        "milliseconds to the",
        f"first byte of a page, of {result['repeats']} requests; the target is "
        f"{target['first_byte_ms']}. {_measured(result)}",
        f"{target['readers']} readers at once asked for {readers['asked']} pages: "
        f"{_errors(readers['errors'])}, and half of the answers",
        f"began within {readers['median_ms'] / 1000:.1f} s.",
        "",
        "| screen | median | slowest |",
        "|---|---|---|",
    ]
    for screen, times in result["first_byte_ms"].items():
        name = NAMES.get(screen, screen)
        lines.append(f"| {name} | {times['median']:.0f} | {times['largest']:.0f} |")
    return "\n".join([*lines, ""])


def _measured(result: Mapping[str, Any]) -> str:
    machine = result["machine"]
    text = f"Measured on {machine['cores']} cores ({machine['cpu']})"
    if result["note"]:
        text += f", {result['note']}"
    return f"{text}."


def _errors(count: int) -> str:
    if count == 0:
        return "no request failed"
    requests = "request" if count == 1 else "requests"
    return f"{count} {requests} failed"
