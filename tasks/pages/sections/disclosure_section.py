"""Disclosure: leaks and stand-ins among the inputs, and what outputs tell of training rows and
attributes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from evenhand.fairlib.catalogue import spoken
from evenhand.fairlib.evaluation.membership import WARNED_AUC, stronger_attack
from evenhand.tasks.pages import formats
from evenhand.tasks.pages.page_model import Block, Cell, Documents, Heading, Json, Section, Table
from evenhand.tasks.pages.texts import estimate_cell, interval_name

PAGES = {"run": 25}
NEEDS = ("metrics",)

KINDS = {
    "label": "determines the label",
    "alone": "tells the label almost perfectly",
    "joint": "tells the label almost perfectly together with the other columns of this kind",
    "sensitive": "is computed from the sensitive column {attribute}",
}
MOST = 12
ATTACKS = {
    "online": "Likelihood ratio, shadow models with and without the row",
    "offline": "Likelihood ratio, shadow models without the row",
    "threshold": "The model's probability of the true label alone",
}
SOURCES = {"label": "The true label", "score": "The score", "both": "The score and the true label"}


def build(documents: Documents) -> Iterator[Section]:
    """Model inputs that tell the label or an attribute too well; attacks on the model's outputs."""
    if documents.get("leaks") is not None:
        yield _leaks(documents["leaks"])
    if documents.get("membership") is not None:
        yield _outputs(documents["membership"], documents["metrics"]["settings"])


def _leaks(content: Json) -> Section:
    """Suspected leaks, then for each attribute the columns that tell it."""
    blocks: list[Block] = []
    suspected = content["columns"]
    if suspected:
        rows = []
        for item in suspected:
            why = KINDS.get(item["kind"], item["kind"]).format(
                attribute=item.get("attribute") or ""
            )
            rows.append([item["name"], why, "" if item["auc"] is None else item["auc"]])
        blocks += [
            f"**{formats.plural(len(suspected), 'model input')} may leak the label or a sensitive "
            "column**: a model that uses what is only known after the decision is of no use "
            "before it. Give such a column `role: ignore` in the contract, or keep it if its "
            "value is known in time.",
            Table("Suspected columns", ["Column", "Why", "AUC"], rows),
        ]
    told = {name: items for name, items in content["stand_ins"].items() if items}
    if told:
        blocks.append(Heading("Columns that tell a sensitive attribute"))
        blocks.append(
            "A model can treat groups differently through these columns, even if it does not "
            "read the attribute. They are not removed. An AUC of 0.5 tells nothing of the group, "
            "1 all (cross-validated, of each column alone)."
        )
        for attribute, items in told.items():
            rows = [[item["name"], f"“{item['group']}”", item["auc"]] for item in items[:MOST]]
            caption = f"Columns that tell {spoken(attribute)}"
            if len(items) > MOST:
                caption += f", the {MOST} that tell most of {len(items)}"
            blocks.append(Table(caption, ["Column", "Group told best", "AUC"], rows))
    return Section("leaks", "Leaks and stand-ins", blocks)


def _outputs(content: Json, settings: Json) -> Section:
    """The attacks' success with a warning above the limit, then what tells the sensitive groups."""
    found = stronger_attack(content["attacks"])["auc"]
    said = f"cannot be measured: {found['reason']}."
    if found["value"] is not None:
        ends = formats.interval(found["low"], found["high"])
        said = (
            f"can be guessed with an AUC of **{formats.number(found['value'])}** "
            f"({interval_name(settings)}: {ends}); 0.5 is chance."
        )
    blocks: list[Block] = [f"Whether a person is in the training table {said}"]
    if found["value"] is not None and found["value"] > WARNED_AUC:
        blocks.append(
            f"**This is above {WARNED_AUC}: outputs of the model disclose training rows.**"
        )
    rate = formats.percent(content["false_positive_rate"])
    rows: list[list[Any]] = []
    for name, title in ATTACKS.items():
        attack = content["attacks"][name]
        rows.append([title, estimate_cell(attack["auc"]), attack["true_positive_rate"]])
    people = formats.count(content["members"])
    blocks += [
        Table("Attacks", ["Attack", "AUC", f"Members found at {rate} false alarms"], rows),
        f"The attacker knows {people} training rows and {people} test rows with their labels, all "
        "other training rows, the job, and the model before calibration, and trains "
        f"{content['shadows']} shadow models. Other attackers may do better.",
    ]
    if content["attributes"]:
        told: list[list[Any]] = []
        for item in content["attributes"]:
            group = Cell(f"“{item['group']}”")
            share = formats.percent(item["base_rate"])
            told.append(
                [spoken(item["attribute"]), SOURCES[item["source"]], group, item["auc"], share]
            )
        columns = ["Attribute", "Inferred from", "Group told best", "AUC", "Share of the group"]
        blocks += [
            Heading("Sensitive attributes inferred from outputs"),
            "How well a test row's group is told by what was learned from other test rows "
            "(cross-validated AUC; 0.5 tells nothing). A score tells a group as far as the "
            "groups' chances differ, whether or not the model reads the attribute.",
            Table("Attributes inferred from outputs", columns, told),
        ]
    return Section("membership", "What outputs disclose", blocks)
