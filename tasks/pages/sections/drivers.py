"""What drives the model: the importance of each table column, overall and by group."""

from __future__ import annotations

from evenhand.fairlib.catalogue import spoken
from evenhand.tasks.pages import formats, texts
from evenhand.tasks.pages.model import Block, Chart, Documents, Section, Table

PAGES = {"run": 55}
NEEDS = ("drivers",)

MOST = 15
KINDS = {
    "contribution": (
        "mean absolute contribution to the log-odds",
        "A column's contribution for a person is how far its value moves the log-odds (TreeSHAP). The mean "
        "of its size over {rows} test rows is shown. A column can matter although leaving it out changes "
        "little, because others tell the same.",
    ),
    "permutation": (
        "rise of the log loss",
        "The values of one column are exchanged between people at random, and the mean rise of the log "
        "loss (nats) over {rows} test rows is shown. A column whose information others have too seems less "
        "important than it is.",
    ),
}


def build(documents: Documents) -> Section:
    """A bar a column, and a table with the groups."""
    content = documents["drivers"]
    unit, text = KINDS[content["kind"]]
    columns = content["columns"]
    shown = columns[:MOST]
    top = max([entry["value"] for entry in shown], default=0.0)
    rows = [
        {"label": entry["name"], "value": max(entry["value"], 0.0), "text": formats.number(entry["value"])}
        for entry in shown
    ]
    data = {"rows": rows, "x_title": unit, "domain": [0.0, top or 1.0]}
    first = formats.join([f"{entry['name']} ({formats.number(entry['value'])})" for entry in shown[:3]])
    described = f"From the most important column down: {formats.join([entry['name'] for entry in shown])}."
    left = texts.left_out(shown, columns, "The most important columns")
    blocks: list[Block] = [
        f"Most important: {first}. {text.format(rows=formats.count(content['rows']))}",
        Chart("bars.ranked_bars", data, "What drives the model", described, left),
    ]
    for attribute in columns[0]["groups"] if columns else ():
        groups = list(columns[0]["groups"][attribute])
        table = [
            [entry["name"], entry["value"], *(texts.known(entry["groups"][attribute][g]) for g in groups)]
            for entry in columns
        ]
        caption = f"{formats.sentence(unit)}, by {spoken(attribute)}"
        blocks.append(Table(caption, ["Column", "Everybody", *groups], table, folded=True))
    return Section("drivers", "What drives the model", blocks)
