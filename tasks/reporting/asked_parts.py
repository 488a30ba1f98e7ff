"""Sections on how much an agent asks, in which order, and what asking everything would change."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping
from typing import Any

from evenhand.tasks.reporting import formats, words
from evenhand.tasks.reporting.asked_plots import count_plot

__all__ = ["both", "compared", "how_many", "in_which_order"]

Json = Mapping[str, Any]


def both(plot: Callable[..., str], uid: str, **arguments: Any) -> dict[str, str]:
    """Draw a plot for a wide and for a narrow page."""
    return {
        "svg": plot(uid=f"{uid}-w", **arguments),
        "svg_narrow": plot(uid=f"{uid}-n", compact=True, **arguments),
    }


def how_many(acquisition: Json) -> dict[str, Any]:
    """Write the section on the number of features asked per person."""
    counts = acquisition["asked"]["histogram"]
    people = sum(counts)
    most = max(range(len(counts)), key=counts.__getitem__)
    shares = [count / max(people, 1) for count in counts]
    said = f"Most often {formats.plural(most, 'feature')}: of {formats.percent(shares[most])} of people."
    return {
        "title": "How much it asks",
        "html_safe_paragraphs": [f"How many features a person is asked for before the answer. {said}"],
        "folded": {
            "caption": "People by the number of features that they are asked for",
            "columns": ["Features asked", "People", "Share"],
            "rows": [
                [str(i), count, formats.percent(share)]
                for i, (count, share) in enumerate(zip(counts, shares, strict=True))
            ],
        },
        **both(
            count_plot,
            "asked-counts",
            counts=counts,
            axis="features asked of a person",
            title="Features asked per person",
            description=f"{said} The table below has every number.",
        ),
    }


def in_which_order(acquisition: Json) -> dict[str, Any]:
    """Write the section on the most common orders of questions."""
    sequences = acquisition["sequences"]
    section: dict[str, Any] = {"title": "In which order it asks"}
    if not sequences:
        return section | {
            "html_safe_paragraphs": ["No one order of questions is common enough to be shown: they vary."]
        }
    together = sum(item["share"] for item in sequences)
    return section | {
        "html_safe_paragraphs": [
            f"The orders of questions that are most common; {formats.percent(together)} of people are asked "
            "in one of these."
        ],
        "table": {
            "caption": "The most common orders of questions",
            "columns": ["Asked, in this order", "Share of people", "People"],
            "rows": [
                [
                    ", ".join(item["groups"]) or "nothing",
                    formats.percent(item["share"]),
                    item["rows"],
                ]
                for item in sequences
            ],
        },
    }


def compared(acquisition: Json, evaluation: Json, interval: str) -> list[dict[str, Any]]:
    """All metrics that are known both of what is asked and of all features; no intersections."""
    full, own = acquisition["full_information"], evaluation["metrics"]
    rows = []
    for name, value in full.items():
        found = own.get(name)
        if "&" in name or value is None or found is None or found["value"] is None:
            continue
        difference = found["value"] - value
        sign = "+" if difference >= 0 else "\u2212"
        rows.append(
            [
                words.metric_phrase(name),
                found["value"],
                formats.interval(found["low"], found["high"]),
                value,
                sign + formats.number(abs(difference)),
                words.metric(name).better or "not stated",
            ]
        )
    if not rows:
        return []
    return [
        {
            "title": "Compared with asking everything",
            "html_safe_paragraphs": [
                "The same model on the same rows, once from what it asks and once from all features that it "
                f"may ask for.{_instead(acquisition, own)}"
            ],
            "table": {
                "caption": "From what is asked, and from all features",
                "columns": ["Metric", "What is asked", interval, "All features", "Difference", "Better"],
                "rows": rows,
            },
        }
    ]


def _instead(acquisition: Json, own: Json) -> str:
    """What all features would change in the ranking and in the first attribute's gap."""
    names = ("auc", f"demographic_parity_difference.{acquisition['attributes'][0]}")
    full = acquisition["full_information"]
    if any(full.get(name) is None or own.get(name, {}).get("value") is None for name in names):
        return ""
    changes = [
        f"{html.escape(words.metric_phrase(name), quote=False)} {formats.number(full[name])} instead of "
        f"{formats.number(own[name]['value'])}"
        for name in names
    ]
    return f" From all of them: {formats.join(changes)}."
