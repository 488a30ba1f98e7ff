"""Steps: how long each took, and which came from the cache."""

from __future__ import annotations

from evenhand.tasks.pages import formats
from evenhand.tasks.pages.model import Cell, Documents, Section, Table

PAGES = {"run": 900, "evaluation": 900, "drift": 900}
NEEDS = ("run",)


def build(documents: Documents) -> Section | None:
    """A row a step, with a bar of its time."""
    taken = documents["run"].get("steps")
    if not taken:
        return None
    total, longest = sum(step["seconds"] for step in taken), max(step["seconds"] for step in taken)
    reused = any(step["cached"] for step in taken)
    cached = (
        "Steps whose inputs had not changed were reused from the cache."
        if reused
        else "Every step was computed."
    )
    rows = [
        [
            step["name"],
            Cell(formats.seconds(step["seconds"]), bar=step["seconds"] / longest if longest else 0.0),
            "reused from the cache" if step["cached"] else "computed",
        ]
        for step in taken
    ]
    lead = f"{formats.seconds(total)} in all. {cached}"
    return Section("steps", "Steps", [lead, Table("Time of each step", ["Step", "Time", "Result"], rows)])
