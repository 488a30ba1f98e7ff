"""Sections on whom an agent asks what: by their other answers, by true outcome and by sensitive group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evenhand.tasks.reporting import formats, words
from evenhand.tasks.reporting.asked_words import DIFFERENT

__all__ = ["MOST_PARTS", "SPLIT", "depends", "of_whom", "parts"]

Json = Mapping[str, Any]

# Bars are split where shares differ by at least so much, into at most so many.
SPLIT, MOST_PARTS = 0.2, 4
TOO_FEW = "too few"


def parts(group: Json) -> tuple[tuple[str, float], ...]:
    """Shares by the answer that they vary with most, where they differ enough to be drawn."""
    found = group["varies_with"]
    if found is None or found["spread"] < SPLIT:
        return ()
    shares = list(found["shares"].items())
    if len(shares) <= MOST_PARTS:
        return tuple(shares)
    ranked = sorted(shares, key=lambda item: -item[1])
    return tuple(ranked[round(i * (len(ranked) - 1) / (MOST_PARTS - 1))] for i in range(MOST_PARTS))


def depends(acquisition: Json) -> list[dict[str, Any]]:
    """The categorical feature with which each share varies most, and the shares of its categories."""
    groups = [group for group in acquisition["groups"] if group["varies_with"] is not None]
    if not groups:
        return []
    groups.sort(key=lambda group: -float(group["varies_with"]["spread"]))
    section: dict[str, Any] = {
        "title": "What its questions depend on",
        "html_safe_paragraphs": [
            "For each feature, the categorical feature between whose categories the share who are asked for "
            "it differs most."
        ],
        "table": {
            "caption": "The answers on which questions depend most, by falling difference",
            "columns": ["Feature", "Depends most on", "Least often asked", "Most often asked"],
            "rows": [
                [group["name"], group["varies_with"]["feature"], *map(_category, _ends(group))]
                for group in groups
            ],
        },
    }
    rows = [
        [
            group["name"],
            group["varies_with"]["feature"],
            category,
            formats.percent(share),
            _bar(group, category),
        ]
        for group in groups
        if group["varies_with"]["spread"] >= DIFFERENT
        for category, share in group["varies_with"]["shares"].items()
    ]
    if rows:
        section["folded"] = {
            "caption": f"All categories, of shares {100 * DIFFERENT:g} percentage points or more apart",
            "columns": ["Feature", "Depends most on", "Category", "Share asked", "Bar, from the left"],
            "rows": rows,
        }
    return [section]


def _ends(group: Json) -> list[tuple[str, float]]:
    ranked = sorted(group["varies_with"]["shares"].items(), key=lambda item: item[1])
    return [ranked[0], ranked[-1]]


def _category(item: tuple[str, float]) -> str:
    return f"{item[0]}: {formats.percent(item[1])}"


def _bar(group: Json, category: str) -> str:
    """Place of a category's bar in the picture, from the left."""
    drawn = [name for name, _ in parts(group)]
    return str(drawn.index(category) + 1) if category in drawn else "not drawn"


def of_whom(acquisition: Json, least: int) -> list[dict[str, Any]]:
    """Shares by true outcome and by sensitive group."""
    groups = [group for group in acquisition["groups"] if group["allowed"]]
    if not groups:
        return []
    values = [(name, value) for name, found in groups[0]["by_group"].items() for value in found]
    section = {
        "title": "By outcome and group",
        "html_safe_paragraphs": [
            "Which share of the people with either true outcome, and of each group, is asked for each "
            "feature."
        ],
        "table": {
            "caption": "Share of people asked for each feature"
            + (f"; of fewer than {least} rows no share is shown" if values else ""),
            "columns": [
                "Feature",
                "Truly negative",
                "Truly positive",
                *(f"{words.attribute(name)}: {value}" for name, value in values),
            ],
            "rows": [
                [
                    group["name"],
                    *(formats.percent(group["by_label"][label]) for label in ("0", "1")),
                    *(_cell(group["by_group"][name][value]) for name, value in values),
                ]
                for group in groups
            ],
        },
    }
    return [section]


def _cell(found: Json | None) -> str:
    return TOO_FEW if found is None else formats.percent(found["share"])
