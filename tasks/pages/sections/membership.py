"""What outputs tell of people: whether they are training rows, and their sensitive attributes."""

from __future__ import annotations

from evenhand.fairlib.catalogue import spoken
from evenhand.fairlib.evaluation.membership import WARNED_AUC
from evenhand.tasks.pages import formats
from evenhand.tasks.pages.model import Block, Cell, Documents, Heading, Section, Table
from evenhand.tasks.pages.texts import estimate_cell, interval_name

PAGES = {"run": 26}
NEEDS = ("membership", "metrics")

ATTACKS = {
    "online": "Likelihood ratio, shadow models with and without the row",
    "offline": "Likelihood ratio, shadow models without the row",
    "threshold": "The model's probability of the true label alone",
}
SOURCES = {"label": "The true label", "score": "The score", "both": "The score and the true label"}


def build(documents: Documents) -> Section:
    """The attacks' success with a warning above the limit, then what tells the sensitive groups."""
    content, settings = documents["membership"], documents["metrics"]["settings"]
    found = content["attacks"]["online"]["auc"]
    said = f"cannot be measured: {found['reason']}."
    if found["value"] is not None:
        ends = formats.interval(found["low"], found["high"])
        said = (
            f"can be guessed with an AUC of **{formats.number(found['value'])}** "
            f"({interval_name(settings)}: {ends}); 0.5 is chance."
        )
    blocks: list[Block] = [f"Whether a person is in the training table {said}"]
    if found["value"] is not None and found["value"] > WARNED_AUC:
        blocks.append(f"**This is above {WARNED_AUC}: outputs of the model disclose training rows.**")
    rate = formats.percent(content["false_positive_rate"])
    rows = [
        [
            title,
            estimate_cell(content["attacks"][name]["auc"]),
            content["attacks"][name]["true_positive_rate"],
        ]
        for name, title in ATTACKS.items()
    ]
    people = formats.count(content["members"])
    blocks += [
        Table("Attacks", ["Attack", "AUC", f"Members found at {rate} false alarms"], rows),
        f"The attacker knows {people} training rows and {people} test rows with their labels, all other "
        f"training rows, the job, and the model before calibration, and trains {content['shadows']} shadow "
        "models. Other attackers may do better.",
    ]
    if content["attributes"]:
        told = [
            [
                spoken(item["attribute"]),
                SOURCES[item["source"]],
                Cell(f"“{item['group']}”"),
                item["auc"],
                formats.percent(item["base_rate"]),
            ]
            for item in content["attributes"]
        ]
        columns = ["Attribute", "Inferred from", "Group told best", "AUC", "Share of the group"]
        blocks += [
            Heading("Sensitive attributes inferred from outputs"),
            "How well a test row's group is told by what was learned from other test rows (cross-validated "
            "AUC; 0.5 tells nothing). A score tells a group as far as the groups' chances differ, whether or "
            "not the model reads the attribute.",
            Table("Attributes inferred from outputs", columns, told),
        ]
    return Section("membership", "What outputs disclose", blocks)
