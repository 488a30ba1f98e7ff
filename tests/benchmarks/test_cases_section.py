"""The measured part of docs/cases.md."""

from __future__ import annotations

from typing import Any

from benchmarks.common import DOCS, read_result
from benchmarks.page_generators.cases_section import HEADING, section, with_section

JOB: dict[str, Any] = {
    "seconds_without_proof": {"median": 0.027, "p95": 0.034},
    "seconds_with_proof": {"median": 0.051, "p95": 0.067},
    "minutes_of_10000_rows": 1.75,
    "replays": {"replays": 1000, "identical": 999},
    "comparables": {"the fair metric of the job": {"none": 7, "found": 2, "unknown": 1}},
    "recourse": {"found, proved smallest": 8, "unknown": 2},
    "brute_force": {
        "brute force finds one": 5,
        "found too": 4,
        "of the same cost": 3,
        "verified by the model": 4,
    },
}
RESULT = {"settings": {"people": 10, "radius": 0.1}, "command": "python -m x", "jobs": {"j": JOB}}


def test_every_figure_is_in_its_row() -> None:
    lines = section(RESULT).splitlines()
    assert "| replays, bit for bit | 999 of 1,000 |" in lines
    assert "| by the metric: none proved, found, not known | 7, 2, 1 |" in lines
    assert "| a case with proofs, s | 0.05, 0.07 |" in lines
    assert "| recourse where brute force has one | 4 of 5 |" in lines
    assert any(line.endswith("not known | 8, 0, 0, 2 |") for line in lines)


def test_the_section_is_replaced_and_the_rest_kept() -> None:
    text = f"# A\n\n{HEADING}\nold\n\n## B\n\nkept\n"
    new = with_section(text, section(RESULT))
    assert new.startswith("# A\n\n## Measured\n")
    assert new.endswith("\n\n## B\n\nkept\n")
    assert "old" not in new
    assert with_section(new, section(RESULT)) == new


def test_the_page_shows_the_committed_result() -> None:
    text = (DOCS / "cases.md").read_text()
    assert with_section(text, section(read_result("case_files"))) == text
