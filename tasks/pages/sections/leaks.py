"""Leaks and stand-ins: model inputs that tell the label too well, or a sensitive attribute."""

from __future__ import annotations

from evenhand.fairlib.catalogue import spoken
from evenhand.tasks.pages import formats
from evenhand.tasks.pages.model import Block, Documents, Heading, Section, Table

PAGES = {"run": 25}
NEEDS = ("leaks",)

KINDS = {
    "label": "determines the label",
    "alone": "tells the label almost perfectly",
    "joint": "tells the label almost perfectly together with the other columns of this kind",
    "sensitive": "is computed from the sensitive column {attribute}",
}
MOST = 12


def build(documents: Documents) -> Section:
    """Suspected leaks, then for each attribute the columns that tell it."""
    content = documents["leaks"]
    blocks: list[Block] = []
    suspected = content["columns"]
    if suspected:
        rows = []
        for item in suspected:
            why = KINDS.get(item["kind"], item["kind"]).format(attribute=item.get("attribute") or "")
            rows.append([item["name"], why, "" if item["auc"] is None else item["auc"]])
        blocks += [
            f"**{formats.plural(len(suspected), 'model input')} may leak the label or a sensitive column**: "
            "a model that uses what is only known after the decision is of no use before it. Give such a "
            "column `role: ignore` in the contract, or keep it if its value is known in time.",
            Table("Suspected columns", ["Column", "Why", "AUC"], rows),
        ]
    told = {name: items for name, items in content["stand_ins"].items() if items}
    if told:
        blocks.append(Heading("Columns that tell a sensitive attribute"))
        blocks.append(
            "A model can treat groups differently through these columns, even if it does not read the "
            "attribute. They are not removed. An AUC of 0.5 tells nothing of the group, 1 all "
            "(cross-validated, of each column alone)."
        )
        for attribute, items in told.items():
            rows = [[item["name"], f"“{item['group']}”", item["auc"]] for item in items[:MOST]]
            caption = f"Columns that tell {spoken(attribute)}"
            if len(items) > MOST:
                caption += f", the {MOST} that tell most of {len(items)}"
            blocks.append(Table(caption, ["Column", "Group told best", "AUC"], rows))
    return Section("leaks", "Leaks and stand-ins", blocks)
