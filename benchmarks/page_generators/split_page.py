"""Divide the text of all benchmarks into an index and a page for each method or topic."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.page_generators.markdown_lines import shorten

__all__ = ["TOPICS", "Topic", "divide", "write"]

LINK = re.compile(r"(?<=\]\()(?![a-z]+:)([^)\s#]*)(#[\w-]+)?(?=[)\s])")


@dataclass(frozen=True)
class Topic:
    """One page: the sections of the text that it holds."""

    file: str  # name of the page without its ending
    title: str
    summary: str  # what was measured, in one sentence
    sections: tuple[str, ...]  # titles of sections, without the signs of a heading


TOPICS = (
    Topic(
        "printed-tables",
        "Printed tables",
        "The rows of the papers' tables on German credit, Adult and COMPAS, next to the same rows by this project.",
        ("Printed tables",),
    ),
    Topic(
        "operating-point",
        "Each method at the same operating point",
        "Every method at equal balanced accuracy and as a front, with settings chosen on other people.",
        (
            "Each method at equal balanced accuracy, and as fronts",
            "Each method at the same operating point",
        ),
    ),
    Topic(
        "speed", "Speed", "Times of a boosting step, of whole commands and of trees.", ("Speed",)
    ),
    Topic(
        "budro",
        "BuDRO at full scale",
        "Exactness against a linear program, differences from the printed setting, and the time of a step.",
        ("BuDRO at full scale",),
    ),
    Topic(
        "sensei",
        "SenSeI",
        "Speed compared with inFairness, and the number of auditor steps in training.",
        ("SenSeI",),
    ),
    Topic(
        "proxies",
        "Balanced filtering",
        "Imbalance, disclosivity and kept rows of the proxies and their comparators; the batch filter.",
        ("Balanced filtering",),
    ),
    Topic("dadi", "DADI", "Agents that acquire features, and fixed sets of features.", ("DADI",)),
    Topic(
        "group-fairness",
        "FAIAS and the comparators of group fairness",
        "FAIAS, its variants and methods of other libraries on three tables and on generated ones.",
        ("FAIAS and the comparators of group fairness",),
    ),
    Topic(
        "untuned",
        "Untuned tables",
        "What `evenhand init` infers from a table, and every method with its defaults.",
        ("How `init` understands a table", "Untuned: every method by `init` and `run`"),
    ),
    Topic(
        "membership",
        "Membership inference",
        "How well an attack distinguishes training rows of the shipped jobs from test rows.",
        ("Membership inference",),
    ),
    Topic(
        "tuning",
        "Tuning",
        "`evenhand tune` compared with searches by other tools, and with the shipped jobs.",
        (
            "Tuning compared with other tools",
            "Thirty seconds beside other tools",
            "Thirty seconds of the wall clock",
            "Two minutes beside other tools",
            "Thresholds by group on few rows",
            "Shipped jobs of BuDRO, SenSeI and FAIAS compared with tuned ones",
            "Limits on unseen rows",
            "Limits on two attributes",
            "The first answer",
            "Time kept on a busy machine",
            "Interrupted at random moments",
            "Bounds on what a longer search could gain",
            "A long search on Adult",
        ),
    ),
    Topic(
        "operations",
        "Run for real",
        "Times of Prefect, MLflow and PostgreSQL, and of evaluations of large tables.",
        ("Run for real",),
    ),
)
"""All pages, in the order of the index."""


def divide(text: str) -> dict[str, str]:
    """Return the index and the pages by their paths below docs/.

    Parameters
    ----------
    text
        The whole text: a head, then sections of the second level.

    Raises
    ------
    ValueError
        If a section belongs to no topic.
    """
    head, sections = _sections(text)
    unknown = set(sections) - {title for topic in TOPICS for title in topic.sections}
    if unknown:
        raise ValueError(f"sections without a topic in {__name__}.TOPICS: {sorted(unknown)}")
    bodies: dict[str, str] = {}
    for topic in TOPICS:
        present = [title for title in topic.sections if title in sections]
        if not present:
            continue
        if present == [topic.title]:
            body = sections[topic.title]
        else:
            body = "\n".join(f"## {title}\n{sections[title]}" for title in present)
        bodies[topic.file] = f"# {topic.title}\n{body}"
    places = _places(bodies)
    pages = {"benchmarks.md": _index(head, bodies)}
    for file, body in bodies.items():
        pages[f"benchmarks/{file}.md"] = f"{shorten(_relinked(body, file, places)).rstrip()}\n"
    return pages


def write(text: str, docs: Path) -> None:
    """Write the index and the pages.

    Parameters
    ----------
    text
        As of :func:`divide`.
    docs
        The folder of the documentation.
    """
    (docs / "benchmarks").mkdir(exist_ok=True)
    for name, page in divide(text).items():
        (docs / name).write_text(page, encoding="utf-8")


def _sections(text: str) -> tuple[str, dict[str, str]]:
    """The text before the first section, and the body of each section by its title."""
    head, *parts = re.split(r"^## ", text, flags=re.MULTILINE)
    sections = {}
    for part in parts:
        title, _, body = part.partition("\n")
        sections[title] = body
    return head, sections


def _index(head: str, bodies: Mapping[str, str]) -> str:
    lines = [head.rstrip(), ""]
    for topic in TOPICS:
        if topic.file in bodies:
            lines += [f"## {topic.title}", "", topic.summary]
            lines += [f"[All figures](benchmarks/{topic.file}.md).", ""]
    return "\n".join(lines).rstrip() + "\n"


def _places(bodies: Mapping[str, str]) -> dict[str, str]:
    """The page of each heading, by its anchor."""
    places: dict[str, str] = {}
    for file, body in bodies.items():
        for heading in re.findall(r"^#+ (.+)$", body, re.MULTILINE):
            anchor = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
            places.setdefault(anchor, file)
    return places


def _relinked(body: str, file: str, places: Mapping[str, str]) -> str:
    """The body of a page one folder deeper, with links that lead where they led."""

    def moved(link: re.Match[str]) -> str:
        target, anchor = link[1], link[2] or ""
        if target:
            return f"../{target}{anchor}"
        page = places.get(anchor[1:], file)
        return anchor if page == file else f"{page}.md{anchor}"

    return LINK.sub(moved, body)
