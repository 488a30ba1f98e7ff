"""The part of docs/cases.md with measured figures."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

HEADING = "## Measured\n"
METRIC = "the fair metric of the job"
VALUES = "sensitive columns alone"


def write(result: Mapping[str, Any], page: Path) -> None:
    """Replace the section of the page, if there is a result."""
    if result:
        page.write_text(with_section(page.read_text(), section(result)))


def with_section(text: str, new: str) -> str:
    """The text with the section in place of the one under its heading."""
    return with_section_under(HEADING, text, new)


def with_section_under(title: str, text: str, new: str) -> str:
    """The text with a section in place of the one under a heading."""
    before, _, rest = text.partition(title)
    _, heading, after = rest.partition("\n## ")
    return f"{before}{new}{heading}{after}"


def section(result: Mapping[str, Any]) -> str:
    """Markdown of the section."""
    settings = result["settings"]
    lines = [
        HEADING,
        f"By `{result['command']}`: up to {settings['people']} adverse decisions a job, drawn at "
        "random;",
        "seconds of the processor, from the row to the written files, as median and 95 % quantile.",
        f"A comparable person is within a fair distance of {settings['radius']:g}. Brute force asks "
        "the model about",
        "every combination of coarse values of three columns.",
        "",
        *_table(result["jobs"]),
        "",
    ]
    return "\n".join(lines)


def _table(jobs: Mapping[str, Any]) -> list[str]:
    rows = [["", *[f"`{job}`" for job in jobs]]]
    rows.append(["---"] * len(rows[0]))
    labels = {
        "a case without proofs, s": lambda job: _seconds(job["seconds_without_proof"]),
        "a case with proofs, s": lambda job: _seconds(job["seconds_with_proof"]),
        "all adverse decisions of 10,000 rows without proofs, min": lambda job: (
            f"{job['minutes_of_10000_rows']:.1f}"
        ),
        "replays, bit for bit": lambda job: (
            f"{job['replays']['identical']:,} of {job['replays']['replays']:,}"
        ),
        "by sensitive columns: none proved, found, not known": lambda job: _answers(job, VALUES),
        "by the metric: none proved, found, not known": lambda job: _answers(job, METRIC),
        "recourse: smallest, none proved, smaller not excluded, not known": _recourse,
        "recourse where brute force has one": _found,
        "of these of the same cost": lambda job: f"{job['brute_force'].get('of the same cost', 0)}",
        "of these verified by the model": lambda job: (
            f"{job['brute_force'].get('verified by the model', 0)}"
        ),
    }
    for label, text_of in labels.items():
        rows.append([label, *[text_of(job) for job in jobs.values()]])
    return [f"| {' | '.join(row)} |" for row in rows]


def _seconds(summary: Mapping[str, float]) -> str:
    return f"{summary['median']:.2f}, {summary['p95']:.2f}"


def _answers(job: Mapping[str, Any], compared_by: str) -> str:
    counts = job["comparables"].get(compared_by, {})
    open_answers = counts.get("unknown", 0) + counts.get("refused", 0)
    return f"{counts.get('none', 0)}, {counts.get('found', 0)}, {open_answers}"


def _recourse(job: Mapping[str, Any]) -> str:
    kinds = ("found, proved smallest", "none, proved", "found", "unknown")
    return ", ".join(str(job["recourse"].get(kind, 0)) for kind in kinds)


def _found(job: Mapping[str, Any]) -> str:
    counts = job["brute_force"]
    return f"{counts.get('found too', 0)} of {counts.get('brute force finds one', 0)}"
