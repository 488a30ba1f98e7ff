"""What a section says, as plain Python: its sentences, and its tables as rows of text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evenhand.tasks.pages.build import build, cells
from evenhand.tasks.pages.page_model import Chart, Charts, Heading, Section, Table

RUN: dict[str, Any] = {
    "id": "r",
    "created": "2026-01-01T00:00:00+00:00",
    "title": "people",
    "status": "published",
    "model": {"name": "people", "version": 1, "uri": "models:/people/1"},
    "job": {"name": "people", "method": "gbdt", "parameters": {}},
    "table": {
        "name": "people",
        "rows": 500,
        "train_rows": 300,
        "test_rows": 200,
        "features": 4,
        "fingerprint": "f",
        "contract_name": "people",
        "contract_version": "1",
    },
    "environment": {"python": "3"},
}


def page(kind: str, documents: Mapping[str, Any]) -> dict[str, Section]:
    """Sections of a page by their id, in order."""
    return {section.id: section for section in build(kind, documents).sections}


def sections(documents: Mapping[str, Any], *without: str) -> dict[str, Section]:
    """Sections of a run's page by their id, without those of every run's page."""
    found = page("run", {"run": RUN, **documents})
    return {
        name: section
        for name, section in found.items()
        if name not in ("metrics", "made", "missing", *without)
    }


def said(section: Section) -> str:
    """All paragraphs, without their markup."""
    return " ".join(block for block in section.blocks if isinstance(block, str)).replace("**", "")


def headings(section: Section) -> list[str]:
    return [block.text for block in section.blocks if isinstance(block, Heading)]


def charts(section: Section) -> list[Chart]:
    found = []
    for block in section.blocks:
        found += (
            list(block.items)
            if isinstance(block, Charts)
            else [block]
            if isinstance(block, Chart)
            else []
        )
    return found


def tables(section: Section) -> list[Table]:
    own = [block for block in section.blocks if isinstance(block, Table)]
    return own + [chart.table for chart in charts(section) if chart.table is not None]


def table(section: Section, caption: str) -> Table:
    (found,) = [item for item in tables(section) if caption in item.caption]
    return found


def rows(found: Table) -> dict[str, list[str]]:
    """Texts of each row by its head, the smaller lines after a bar."""
    texts = [
        [" | ".join((cell.text, *cell.below)) for cell in cells(list(row))] for row in found.rows
    ]
    return {row[0]: row[1:] for row in texts}


def by_metric(found: Table) -> dict[str, list[str]]:
    """Texts of each row by the name in code of its head."""
    texts = [cells(list(row)) for row in found.rows]
    return {
        row[0].code: [" | ".join((cell.text, *cell.below)) for cell in row[1:]] for row in texts
    }
