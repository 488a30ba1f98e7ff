"""An audit by group: every metric of every group, gaps, and differences between predictions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evenhand.fairlib.evaluation.group_metrics import TITLES
from evenhand.tasks.pages import formats, texts
from evenhand.tasks.pages.page_model import Block, Cell, Documents, Json, Section, Table, Value

PAGES = {"group_audit": 40}
NEEDS = ("audit",)
# Groups of an attribute that a table lists.
MOST_GROUPS = 200
STATUS = {"too_few": "too few", "missing": "no group", "undefined": "undefined"}


def build(documents: Documents) -> list[Section]:
    """Tables of groups and of gaps, attribute by attribute."""
    audit = documents["audit"]
    groups = audit["groups"]
    blocks: list[Block] = [
        f"Values with their {100 * audit['level']:g}% intervals. Groups of fewer than "
        f"{audit['min_cell']} people are counted, and their values are not given."
    ]
    blocks += _tables(groups, audit["gaps"])
    sections = [Section("groups", "How do groups differ?", blocks)]
    within = audit.get("groups_within")
    if within:
        controls = " and ".join(_columns_between(within[0], "attribute", "group"))
        title = f"How do groups differ within {controls}?"
        sections.append(Section("within", title, _tables(within, audit["gaps_within"])))
    return sections


def _tables(groups: Sequence[Json], all_gaps: Sequence[Json]) -> list[Block]:
    """Two tables of each attribute."""
    attributes = list(dict.fromkeys(row["attribute"] for row in groups if row["attribute"]))
    overall = [row for row in groups if not row["attribute"]]
    tables: list[Block] = []
    for attribute in attributes:
        of_attribute = [row for row in groups if row["attribute"] == attribute]
        gaps = [row for row in all_gaps if row["attribute"] == attribute]
        tables.append(_groups(attribute, of_attribute, overall))
        if gaps:
            tables.append(_gaps(attribute, gaps))
    return tables


def _columns_between(row: Json, first: str, last: str) -> list[str]:
    """Names of the control features: keys between two others."""
    keys = list(row)
    return keys[keys.index(first) + 1 : keys.index(last)]


def _groups(attribute: str, rows: Sequence[Json], overall: Sequence[Json]) -> Table:
    """A row a group, a column a metric; last all rows."""
    controls = _columns_between(rows[0], "attribute", "group")
    metrics = list(dict.fromkeys(row["metric"] for row in rows))
    cells: dict[tuple[Any, ...], dict[str, Cell]] = {}
    for row in (*rows, *overall):
        key = (row["group"], *(row[name] for name in controls))
        cells.setdefault(key, {})[row["metric"]] = _value_cell(row)
    table_rows: list[list[Value]] = []
    for key in list(cells)[:MOST_GROUPS]:
        values = [cells[key].get(metric, Cell("")) for metric in metrics]
        table_rows.append([*map(str, key), *values])
    caption = f"Groups by {attribute_words(attribute)}"
    if len(cells) > MOST_GROUPS:
        caption += f"; {len(cells) - MOST_GROUPS:,} more are in audit.json"
    return Table(caption, ["Group", *controls, *map(_title, metrics)], table_rows)


def attribute_words(attribute: str) -> str:
    """An attribute, or two, for readers."""
    return attribute.replace("&", " and ").replace("_", " ")


def _title(metric: str) -> str:
    return TITLES.get(metric, metric.replace("_", " "))


def _value_cell(row: Json) -> Cell:
    """A value with its interval, or why there is none."""
    if row["metric"] == "count":
        return Cell(f"{row['n']:,}")
    if row["value"] is None:
        return texts.lack(STATUS.get(row["status"], "too few"))
    return Cell(formats.number(row["value"]), (formats.interval(row["lower"], row["upper"]),))


def _gaps(attribute: str, rows: Sequence[Json]) -> Table:
    """A row a metric and kind of gap."""
    controls = _columns_between(rows[0], "attribute", "kind")
    table_rows = []
    for row in rows:
        value = texts.lack("not enough evidence", row["reason"])
        if row["value"] is not None:
            ends = formats.interval(row["lower"], row["upper"])
            value = Cell(formats.number(row["value"]), (ends,))
        levels = [str(row[name]) for name in controls]
        table_rows.append(
            [_title(row["metric"]), row["kind"], *levels, value, row["lowest"], row["highest"]]
        )
    heads = ["Metric", "Kind", *controls, "Value", "Lowest", "Highest"]
    return Table(
        f"Differences and ratios by {attribute_words(attribute)}", heads, table_rows, folded=True
    )
