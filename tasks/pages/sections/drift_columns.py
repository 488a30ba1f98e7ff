"""Column by column: how far each model input has moved, and the shares of those that moved most."""

from __future__ import annotations

from typing import Any

from evenhand.tasks.pages import formats
from evenhand.tasks.pages.model import Block, Cell, Chart, Documents, Heading, Json, Section, Table
from evenhand.tasks.pages.texts import estimate_cell, interval_name, lack, largest, left_out

PAGES = {"drift": 10}
NEEDS = ("drift",)

MOST_DRAWN = 6
MOST_BINS = 12


def build(documents: Documents) -> list[Section]:
    """The table of all columns, and charts of those that changed most."""
    drift = documents["drift"]
    level = interval_name(drift["settings"])
    lead = (
        "The population stability index (PSI) adds up how far the shares of a column’s bins have moved; by a "
        "common rule of thumb 0.1 is a small change and 0.2 a large one. “Without drift” is what chance "
        "alone gives at these numbers of rows. The p-value is that of a chi-square test, corrected for the "
        "number of columns (Holm)."
    )
    head = ["Column", "PSI", "Without drift", "P-value", "New categories", "Missing values", "Rules broken"]
    rows = [_row(name, column) for name, column in by_change(drift["columns"])]
    table = Table(f"Every column with its {level}, those that changed most first", head, rows)
    found = [Section("columns", "Column by column", [lead, table])]
    blocks = _charts(drift)
    return [*found, Section("shares", "What changed most", blocks)] if blocks else found


def by_change(columns: Json) -> list[tuple[str, Json]]:
    """Columns by decreasing index, those without one last."""
    known = [(name, c) for name, c in columns.items() if c["psi"]["value"] is not None]
    lacking = [(name, c) for name, c in columns.items() if c["psi"]["value"] is None]
    return sorted(known, key=lambda item: -item[1]["psi"]["value"]) + lacking


def _row(name: str, column: Json) -> list[Any]:
    unseen, missing = column["unseen"], column["missing"]
    broken = tuple(f"{rule['rule']}: {formats.plural(rule['rows'], 'row')}" for rule in column["broken"])
    measured: list[Any] = [estimate_cell(column["psi"], span=3)]
    if column["psi"]["value"] is not None:
        bins = formats.plural(column["bins_compared"], "bin")
        expected = Cell(formats.number(column["expected_psi"]), (bins,))
        measured = [estimate_cell(column["psi"]), expected, formats.p_value(column["p_value"])]
    then_and_now = f"{formats.percent(missing['then'])} \u2192 {formats.percent(missing['now'])}"
    return [
        Cell(name, ("sensitive",) if column["sensitive"] else ()),
        *measured,
        lack("a number") if unseen is None else estimate_cell(unseen, formats.percent),
        lack("too few rows") if missing["now"] is None else then_and_now,
        Cell("some" if broken else "none", broken),
    ]


def _charts(drift: Json) -> list[Block]:
    blocks: list[Block] = []
    for name, column in by_change(drift["columns"])[:MOST_DRAWN]:
        bins = column["bins"]
        if not bins:
            continue
        drawn = largest(bins, MOST_BINS, lambda b: abs(b["now"] - b["then"]))
        said = "; ".join(
            f"{b['name']} from {formats.percent(b['then'])} to {formats.percent(b['now'])}" for b in drawn
        )
        rows = [{"group": b["name"], "before": b["then"], "after": b["now"]} for b in drawn]
        data = {"rows": rows, "before": "training rows", "after": "new rows"}
        caption = left_out(drawn, bins, "The bins that moved most")
        shares = [[b["name"], formats.percent(b["then"]), formats.percent(b["now"])] for b in bins]
        table = Table(f"Shares of {name}", ["Bin", "Training rows", "New rows"], shares, folded=True)
        psi, title = formats.number(column["psi"]["value"]), f"Shares of {name}, then and now"
        chart = Chart("groups.group_shares", data, title, said, caption, table)
        blocks += [Heading(f"{name} (PSI {psi})"), chart]
    return blocks
