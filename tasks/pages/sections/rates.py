"""Group by group: selection rate, true positive rate and true negative rate of every group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evenhand.fairlib.catalogue import spoken
from evenhand.tasks.pages import formats
from evenhand.tasks.pages.model import Block, Cell, Chart, Documents, Heading, Section, Table
from evenhand.tasks.pages.texts import GroupRates, Rate, group_rates, interval_name, is_intersection

PAGES = {"run": 40, "evaluation": 40}
NEEDS = ("metrics",)

# A chart with more groups cannot be read; the tables have every group.
MOST_GROUPS = 8
RATES = (
    ("selected", "Selection rate"),
    ("tpr", "True positive rate (TPR)"),
    ("tnr", "True negative rate (TNR)"),
)


def build(documents: Documents) -> Section | None:
    """The model's rates, and the baseline's where there is one."""
    metrics, baseline = documents["metrics"], documents.get("baseline")
    if not metrics["counts"]:
        return None
    settings = metrics["settings"]
    lead = (
        "The selection rate is the share of a group that is predicted positive; TPR and TNR are the shares "
        "of its true positives and of its true negatives that are predicted right. The shaded span reaches "
        f"from the lowest group to the highest. Whiskers are {interval_name(settings)}s (Wilson); a rate "
        f"over fewer than {settings.get('min_cell', 5)} rows is not shown."
    )
    blocks: list[Block] = [lead, *_of(metrics, "The model: " if baseline else "")]
    if baseline:
        blocks += _of(baseline, "The baseline: ")
    return Section("rates", "Group by group", blocks)


def _of(metrics: Mapping[str, Any], who: str) -> list[Block]:
    settings, counts = metrics["settings"], metrics["counts"]
    blocks: list[Block] = []
    for name, cells in counts.items():
        groups = group_rates(cells, settings.get("min_cell", 5), settings.get("level", 0.95))
        blocks.append(
            Heading(f"{who}by {spoken(name)}".capitalize() if not who else f"{who}by {spoken(name)}")
        )
        if not is_intersection(name, counts):
            blocks.append(_chart(spoken(name), groups))
        blocks.append(_table(f"{who}rates by {spoken(name)}", groups, interval_name(settings)))
    return blocks


def _chart(about: str, groups: Sequence[GroupRates]) -> Chart:
    largest = sorted(groups, key=lambda group: -group.n)[:MOST_GROUPS]
    shown = [group for group in groups if group in largest]
    rows, said = [], []
    for key, text in RATES:
        rates: list[Rate] = [getattr(group, key) for group in groups]
        known = [rate.value for rate in rates if rate.value is not None]
        apart = formats.points(max(known) - min(known)) if len(known) > 1 else "nothing to compare"
        said.append(f"{text}: groups {apart} apart" if len(known) > 1 else f"{text}: {apart}")
        for group in shown:
            rate = getattr(group, key)
            rows.append(
                {"rate": text, "group": group.group, "value": rate.value, "low": rate.low, "high": rate.high}
            )
    left = len(groups) - len(shown)
    caption = f"The largest groups; {left} more are in the table." if left else ""
    described = f"{'; '.join(said)}. The table below has every number."
    return Chart("groups.group_rates", {"rows": rows}, f"Rates by {about}", described, caption)


def _table(caption: str, groups: Sequence[GroupRates], interval: str) -> Table:
    rows: list[list[Any]] = [
        [f"{group.group}", group.n, *(_cell(getattr(group, key)) for key, _ in RATES)] for group in groups
    ]
    head = ["Group", "Rows", *(text for _, text in RATES)]
    return Table(f"{caption[0].upper()}{caption[1:]}, with counts and {interval}s", head, rows)


def _cell(rate: Rate) -> Cell:
    if rate.value is None:
        return Cell("too few rows", (formats.count(rate.n),), kind="lack")
    counts = f"{formats.count(rate.hits)} of {formats.count(rate.n)}"
    return Cell(
        formats.percent(rate.value), (counts, f"{formats.percent(rate.low)} to {formats.percent(rate.high)}")
    )
