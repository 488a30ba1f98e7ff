"""A page's section on who gets which of more than two labels: observed and predicted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evenhand.fairlib.catalogue import is_intersection, spoken
from evenhand.fairlib.numerics import wilson_interval
from evenhand.tasks.pages import formats, texts
from evenhand.tasks.pages.label_shares import GroupLabels, labels_of_groups
from evenhand.tasks.pages.page_model import Block, Cell, Heading, Json, Section, Table

# Labels that have a column; of more the most frequent ones.
MOST_LABELS = 6


def labels_section(metrics: Json) -> Section | None:
    """A table by attribute of the share of each group that gets each label; None without groups."""
    counts = metrics["counts"]
    settings = metrics["settings"]
    attributes = []
    for name, cells in counts.items():
        if not is_intersection(name, counts) and labels_of_groups(cells):
            attributes.append(name)
    if not attributes:
        return None
    blocks: list[Block] = [
        "The share of each group for which a label is predicted, its "
        f"{texts.interval_name(settings)}, and below it the share for which it was observed. No "
        "label is taken to be better than another."
    ]
    for name in attributes:
        if len(attributes) > 1:
            blocks.append(Heading(f"By {spoken(name)}"))
        blocks.append(_table(name, labels_of_groups(counts[name]), settings))
    return Section("who", "Who gets which label", blocks)


def _table(name: str, groups: Sequence[GroupLabels], settings: Json) -> Table:
    frequency: dict[str, int] = {}
    for group in groups:
        for label, count in group.observed.items():
            frequency[label] = frequency.get(label, 0) + count
    labels = list(frequency)
    if len(labels) > MOST_LABELS:
        labels = sorted(labels, key=lambda label: -frequency[label])[:MOST_LABELS]
    rows: list[list[Any]] = []
    for group in groups:
        cells = [_share(group, label, settings) for label in labels]
        rows.append([group.group, group.n, *cells])
    caption = f"Labels by {spoken(name)}: predicted and observed shares"
    if len(labels) < len(frequency):
        caption += f"; the {len(labels)} most frequent of {len(frequency)} labels"
    unit = "People" if settings.get("unit") == "people" else "Rows"
    return Table(caption, ["Group", unit, *map(spoken, labels)], rows)


def _share(group: GroupLabels, label: str, settings: Json) -> Cell:
    if group.n < settings.get("min_cell", 5):
        return texts.lack("too few rows")
    predicted = group.predicted[label]
    low, high = wilson_interval(predicted, group.n, settings.get("level", 0.95))
    observed = formats.percent(group.observed[label] / group.n)
    return Cell(
        formats.percent(predicted / group.n),
        (formats.interval(low, high, formats.percent), f"observed {observed}"),
    )
