"""Several columns of predictions on the same rows: their differences, with paired intervals."""

from __future__ import annotations

from evenhand.fairlib.evaluation.group_metrics import TITLES
from evenhand.tasks.pages import formats
from evenhand.tasks.pages.page_model import Cell, Documents, Section, Table

PAGES = {"group_audit": 50, "evaluation": 45}
NEEDS = ("audit",)


def build(documents: Documents) -> Section | None:
    """A table for each other column; nothing where there is none."""
    rows = documents["audit"]["comparisons"]
    tables = []
    for baseline in dict.fromkeys(row["baseline"] for row in rows):
        lines = []
        for row in rows:
            if row["baseline"] != baseline or row["difference"] is None:
                continue
            ends = formats.interval(row["lower"], row["upper"])
            title = TITLES.get(row["metric"], row["metric"].replace("_", " "))
            group = row["group"] or "all groups"
            difference = Cell(formats.number(row["difference"]), (ends,))
            lines.append([title, row["attribute"] or "all rows", group, difference])
        model = rows[0]["model"]
        caption = f"{model} less {baseline}"
        tables.append(Table(caption, ["Metric", "Attribute", "Group", "Difference"], lines))
    if not tables:
        return None
    intro = "Both columns predict the same people, so the intervals are of paired rows."
    return Section("compared", "How do the predictions differ?", [intro, *tables])
