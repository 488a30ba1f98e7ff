"""How often a model errs about each group, and in which direction."""

from __future__ import annotations

from typing import Any

from evenhand.fairlib.catalogue import is_intersection, spoken
from evenhand.fairlib.evaluation.closed_intervals import rate_interval
from evenhand.fairlib.evaluation.outcomes import Rate
from evenhand.tasks.pages import formats, texts
from evenhand.tasks.pages.group_outcomes import (
    MOST_GROUPS,
    GroupOutcomes,
    everybody,
    outcomes_by_attribute,
    rate_cell,
    shown_groups,
)
from evenhand.tasks.pages.page_model import Block, Documents, Json, Section, Table

PAGES = {"run": 2, "evaluation": 2}
FIRST = ("run", "evaluation")
NEEDS = ("metrics",)


def build(documents: Documents) -> Section | None:
    """A table of the groups; nothing without labels or groups."""
    metrics = documents["metrics"]
    settings = metrics["settings"]
    if not settings.get("labelled", True):
        return None
    if "classes" in settings:
        return _of_labels(metrics)
    by_attribute = outcomes_by_attribute(metrics)
    if not by_attribute:
        return None
    groups, _ = shown_groups(by_attribute)
    adverse = texts.adverse_value(settings)
    favourable = texts.outcome_value(settings)
    columns = [
        "Group",
        "Wrong, of all",
        f"Predicted {adverse}, of those with {favourable}",
        f"Predicted {favourable}, of those with {adverse}",
    ]
    caption = f"Shares that are predicted wrongly, with their {texts.interval_name(settings)}s"
    rows = [_row(group) for group in groups]
    total = everybody(metrics)
    if total is not None:
        rows.append(_row(total))
    blocks: list[Block] = _widest(by_attribute, settings)
    return Section("errors", "Errors by group", [*blocks, Table(caption, columns, rows)])


def _row(group: GroupOutcomes) -> list[Any]:
    return [
        group.label,
        rate_cell(group.wrong),
        rate_cell(group.wrongly_adverse),
        rate_cell(group.wrongly_favourable),
    ]


def _widest(by_attribute: dict[str, list[GroupOutcomes]], settings: Json) -> list[Block]:
    """Say between which groups the share wrongly given the unfavourable outcome differs most."""
    widest: list[GroupOutcomes] = []
    for groups in by_attribute.values():
        ends = _ends(groups)
        if ends and (not widest or _spread(ends) > _spread(widest)):
            widest = ends
    if not widest:
        return []
    low, high = widest
    return [
        f"Of those with {texts.outcome_value(settings)}, "
        f"**{formats.percent(high.wrongly_adverse.value)} of “{high.label}” and "
        f"{formats.percent(low.wrongly_adverse.value)} of “{low.label}”** are predicted "
        f"{texts.adverse_value(settings)}."
    ]


def _share(group: GroupOutcomes) -> float:
    return group.wrongly_adverse.value or 0.0


def _spread(ends: list[GroupOutcomes]) -> float:
    low, high = ends
    return _share(high) - _share(low)


def _ends(groups: list[GroupOutcomes]) -> list[GroupOutcomes]:
    """The groups with the lowest and the highest share; empty with fewer than two."""
    measured = []
    for group in groups:
        if group.wrongly_adverse.value is not None and not group.is_missing:
            measured.append(group)
    if len(measured) < 2:
        return []
    return [min(measured, key=_share), max(measured, key=_share)]


def _of_labels(metrics: Json) -> Section | None:
    """Of more than two labels: the share of each group that is predicted wrongly."""
    settings = metrics["settings"]
    rows = _label_rows(metrics)
    if not rows:
        return None
    caption = f"Shares that are predicted wrongly, with their {texts.interval_name(settings)}s"
    table = Table(caption, ["Group", "Rows", "Wrong"], rows[:MOST_GROUPS])
    text = "Each label’s share that is predicted right is in “Label by label” below"
    if len(rows) > MOST_GROUPS:
        text += f", with {formats.plural(len(rows) - MOST_GROUPS, 'further group')}"
    return Section("errors", "Errors by group", [table, f"{text}."])


def _label_rows(metrics: Json) -> list[list[Any]]:
    """A row a group of each attribute: its size, and the share predicted wrongly."""
    counts = metrics["counts"]
    attributes = [name for name in counts if not is_intersection(name, counts)]
    rows: list[list[Any]] = []
    for name in attributes:
        prefix = f"{spoken(name)}: " if len(attributes) > 1 else ""
        for group in dict.fromkeys(cell["group"] for cell in counts[name]):
            cells = [cell for cell in counts[name] if cell["group"] == group]
            rate = _wrong(cells, metrics["settings"])
            rows.append([f"{prefix}{group}", rate.n, rate_cell(rate)])
    return rows


def _wrong(cells: list[Json], settings: Json) -> Rate:
    """The share of a group's rows, of all labels, that is predicted wrongly."""
    n = sum(cell["n"] for cell in cells)
    wrong = n - sum(cell["right"] for cell in cells)
    if n < max(settings["min_cell"], 1):
        return Rate(wrong, n)
    return Rate(wrong, n, wrong / n, *rate_interval(wrong, n, settings["level"]))
