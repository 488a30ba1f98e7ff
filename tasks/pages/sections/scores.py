"""Scores: how the predicted probabilities are distributed in each group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evenhand.fairlib.catalogue import spoken
from evenhand.tasks.pages import formats
from evenhand.tasks.pages.model import Block, Cell, Chart, Charts, Documents, Heading, Section, Table
from evenhand.tasks.pages.texts import is_intersection

PAGES = {"run": 50, "evaluation": 50}
NEEDS = ("histograms",)

MOST_GROUPS = 8


def build(documents: Documents) -> Section | None:
    """A small chart a group, and a table with the numbers of rows."""
    histograms = documents["histograms"]
    if not histograms:
        return None
    blocks: list[Block] = [
        "The distribution of the predicted probability within each group; the dashed outline is that of all "
        "shown groups together. Groups of different sizes have the same area."
    ]
    for name, histogram in histograms.items():
        blocks += _attribute(spoken(name), histogram, is_intersection(name, histograms))
    return Section("scores", "Scores", blocks)


def _shares(counts: list[int]) -> list[float]:
    total = sum(counts)
    return [n / total if total else 0.0 for n in counts]


def _attribute(about: str, histogram: Mapping[str, Any], crossed: bool) -> list[Block]:
    edges = histogram["edges"]
    kept = {
        group: counts for group, counts in histogram["groups"].items() if counts is not None and any(counts)
    }
    hidden = [group for group in histogram["groups"] if group not in kept]
    blocks: list[Block] = [Heading(f"Scores by {about}")]
    if hidden:
        blocks.append(f"Not shown because there are too few rows: {', '.join(hidden)}.")
    if not kept:
        return blocks
    summed = [sum(column) for column in zip(*kept.values(), strict=True)]
    reference, shares = _shares(summed), {group: _shares(counts) for group, counts in kept.items()}
    top = max(max(values) for values in [*shares.values(), reference]) or 1.0
    largest = sorted(kept, key=lambda group: -sum(kept[group]))[:MOST_GROUPS]
    charts = []
    for group in (g for g in kept if g in largest and not crossed):
        peak = max(range(len(shares[group])), key=shares[group].__getitem__)
        described = (
            f"The fullest range is {edges[peak]:.3g} to {edges[peak + 1]:.3g}, with "
            f"{formats.percent(shares[group][peak])}. The table below has every number."
        )
        data = {"edges": edges, "shares": shares[group], "reference": reference, "top": top}
        caption = f"{group}: {formats.plural(sum(kept[group]), 'row')}"
        charts.append(Chart("groups.score_distribution", data, f"Scores of {group}", described, caption))
    if charts:
        blocks.append(Charts(charts))
        left = len(kept) - len(charts)
        if left:
            blocks.append(f"The charts show the largest groups; {left} more are in the table.")
    decimals = 2 if edges[-1] - edges[0] >= 0.5 else 4
    rows: list[list[Any]] = []
    for place, (low, high) in enumerate(zip(edges, edges[1:], strict=False)):
        found = [(shares[group][place], kept[group][place]) for group in kept]
        rows.append(
            [
                f"{low:.{decimals}f} to {high:.{decimals}f}",
                *(Cell(formats.percent(share), (formats.count(n),)) for share, n in found),
                Cell(formats.percent(reference[place]), (formats.count(summed[place]),)),
            ]
        )
    caption = f"Scores by {about}: part of each group in each range, with the number of rows"
    blocks.append(Table(caption, ["Score", *kept, "All shown groups"], rows, folded=True))
    return blocks
