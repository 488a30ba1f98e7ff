"""Each value of a sweep beside its control without mitigation and without the sensitive columns."""

from __future__ import annotations

from evenhand.fairlib.catalogue import better_or_worse, direction
from evenhand.tasks.pages import formats
from evenhand.tasks.pages.model import Cell, Documents, Json, Section, Table
from evenhand.tasks.pages.sections.controls import answered
from evenhand.tasks.pages.texts import lack, metric_cell

PAGES = {"sweep": 15}
NEEDS = ("tradeoff",)
MOST = 12


def build(documents: Documents) -> Section | None:
    """A table of mean differences, a column a value."""
    values = documents["tradeoff"]["values"]
    known = {name for value in values for name in value.get("over_blind", {})}
    names = [name for name in answered(dict.fromkeys(sorted(known))) if direction(name) is not None]
    if not names:
        return None
    shown = values[:MOST]
    rows = [
        [metric_cell(name), *(_cell(name, value["over_blind"].get(name)) for value in shown)]
        for name in names
    ]
    left = f" The first {MOST} of {len(values)} values are shown." if len(values) > MOST else ""
    text = (
        "Each run also trained the same learner without mitigation and without the sensitive columns "
        "(blind) on the same rows. The table has the mean difference from it over the seeds, with the "
        f"interval of the mean where there are several. What is no better than blind buys nothing.{left}"
    )
    table = Table("Differences from the blind control", ["Metric", *(v["label"] for v in shown)], rows)
    return Section("over-blind", "Beside the blind control", [text, table])


def _cell(name: str, found: Json | None) -> Cell:
    if found is None or found["mean"] is None:
        return lack("not measured")
    low, high = found["low"], found["high"]
    clear = low is not None and (low > 0.0 or high < 0.0)
    word = better_or_worse(name, found["mean"]) if clear else "no difference can be told"
    interval = "" if low is None else formats.interval(low, high)
    return Cell(formats.signed(found["mean"]), (interval, word if low is not None else ""))
