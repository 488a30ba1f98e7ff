"""Who gets the unfavourable outcome, and how often: observed and predicted, group by group."""

from __future__ import annotations

from typing import Any

from evenhand.tasks.pages import formats, texts
from evenhand.tasks.pages.group_outcomes import (
    GroupOutcomes,
    everybody,
    outcomes_by_attribute,
    rate_cell,
    shown_groups,
)
from evenhand.tasks.pages.label_outcomes import labels_section
from evenhand.tasks.pages.page_model import Block, Chart, Documents, Json, Section, Table

PAGES = {"run": 1, "evaluation": 1}
FIRST = ("run", "evaluation")
NEEDS = ("metrics",)


def build(documents: Documents) -> Section | None:
    """A chart and a table of the groups; of more than two labels a table; nothing without
    groups.
    """
    metrics = documents["metrics"]
    if "classes" in metrics["settings"]:
        return labels_section(metrics)
    by_attribute = outcomes_by_attribute(metrics)
    if not by_attribute:
        return None
    settings = metrics["settings"]
    groups, hidden = shown_groups(by_attribute)
    total = everybody(metrics)
    blocks: list[Block] = [_lead(total, settings), _chart(groups, settings)]
    blocks.append(_table([*groups, total], settings))
    if hidden:
        further = formats.plural(hidden, "further group")
        verb = "is" if hidden == 1 else "are"
        blocks.append(f"{further} {verb} in “Group by group” below.")
    return Section("who", "Who gets the unfavourable outcome", blocks)


def _lead(total: GroupOutcomes | None, settings: Json) -> str:
    """Name the unfavourable outcome, and say how often it is predicted and was observed."""
    text = f"The unfavourable outcome is {texts.adverse_value(settings)}"
    outcome = settings.get("outcome")
    if outcome and not outcome["stated"]:
        text += " (inferred from the words of the label)"
    if total is not None and total.predicted.value is not None:
        text += f": it is predicted for **{formats.percent(total.predicted.value)}** of all"
        if settings.get("labelled", True):
            text += f", and was observed for {formats.percent(total.observed.value)}"
    return f"{text}. Below each share is its {texts.interval_name(settings)}."


def _chart(groups: list[GroupOutcomes], settings: Json) -> Chart:
    """Predicted and observed shares of each group with their intervals."""
    rows = []
    described = []
    for group in groups:
        observed = _ends(group.observed, settings)
        row = {
            "label": group.label,
            "value": group.predicted.value,
            "low": group.predicted.low,
            "high": group.predicted.high,
            "baseline": observed[0],
            "baseline_low": observed[1],
            "baseline_high": observed[2],
        }
        rows.append(row)
        text = f"{group.label}: predicted {formats.percent(group.predicted.value)}"
        if observed[0] is not None:
            text += f", observed {formats.percent(observed[0])}"
        described.append(text)
    data = {
        "rows": rows,
        "interval": texts.interval_name(settings),
        "floor": 0.0,
        "percent": True,
        "names": {"value": "predicted", "baseline": "observed"},
    }
    title = f"Share of each group with {texts.adverse_value(settings)}"
    return Chart("intervals.metric_intervals", data, title, f"{'; '.join(described)}.")


def _ends(rate: Any, settings: Json) -> tuple[float | None, float | None, float | None]:
    """A share and its interval; nothing where the rows have no labels."""
    if not settings.get("labelled", True):
        return None, None, None
    return rate.value, rate.low, rate.high


def _table(groups: list[GroupOutcomes | None], settings: Json) -> Table:
    labelled = settings.get("labelled", True)
    columns = ["Group", "People" if settings.get("unit") == "people" else "Rows"]
    if labelled:
        columns.append("Observed")
    columns.append("Predicted")
    if labelled:
        columns.append("Difference in points")
    rows: list[list[Any]] = []
    for group in groups:
        if group is None:
            continue
        row: list[Any] = [group.label, group.n]
        if labelled:
            row.append(rate_cell(group.observed))
        row.append(rate_cell(group.predicted))
        if labelled:
            row.append(_less(group))
        rows.append(row)
    caption = f"Shares with {texts.adverse_value(settings)}, the unfavourable outcome"
    return Table(caption, columns, rows)


def _less(group: GroupOutcomes) -> Any:
    """The predicted share less the observed one, in percentage points."""
    if group.predicted.value is None or group.observed.value is None:
        return texts.lack("too few rows")
    difference = 100.0 * (group.predicted.value - group.observed.value)
    return f"{difference:+.1f}".replace("-", "\u2212")
