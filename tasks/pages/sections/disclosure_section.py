"""Disclosure: leaks and proxy features among the inputs, and what outputs disclose of training rows
and attributes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
    "alone": "predicts the label almost perfectly",
    "joint": "predicts the label almost perfectly together with the other columns of this kind",
    "combined": "predicts the label almost perfectly together with {partners}",
    "sensitive": "is computed from the sensitive column {attribute}",
    "sensitive_combined": "together with {partners} determines the sensitive column {attribute}",
}
MOST = 12
ATTACKS = {
    "online": "Likelihood ratio, shadow models with and without the row",
    "offline": "Likelihood ratio, shadow models without the row",
    "threshold": "The model's probability of the true label alone",
}
SOURCES = {"label": "The true label", "score": "The score", "both": "The score and the true label"}


def build(documents: Documents) -> Iterator[Section]:
    """Model inputs that predict the label or an attribute too well; attacks on the model's
    outputs.
    """
    if documents.get("leaks") is not None:
        yield _leaks(documents["leaks"])
    if documents.get("membership") is not None:
        yield _outputs(documents["membership"], documents["metrics"]["settings"])


def _leaks(content: Json) -> Section:
    """Suspected leaks, then for each attribute its proxy features."""
    blocks: list[Block] = []
    suspected = content["columns"]
    if suspected:
        rows = []
        for item in suspected:
            attribute = item.get("attribute") or ""
            partners = " and ".join(item.get("partners") or ())
            text = KINDS.get(item["kind"], item["kind"])
            reason = text.format(attribute=attribute, partners=partners)
            auc = "" if item["auc"] is None else item["auc"]
            rows.append([item["name"], reason, auc])
        blocks += [
            f"**{formats.plural(len(suspected), 'model input')} may leak the label or a sensitive "
            "column**: a model that uses what is only known after the decision is of no use "
            "before it. Give such a column `role: ignore` in the contract, or keep it if its "
            "value is known in time.",
            Table("Suspected columns", ["Column", "Why", "AUC"], rows),
        ]
    proxy_features = {name: items for name, items in content["stand_ins"].items() if items}
    if proxy_features:
        blocks.append(Heading("Proxy features of a sensitive attribute"))
        blocks.append(
            "A model can treat groups differently through these columns, even if it does not "
            "read the attribute. They are not removed. The AUC is cross-validated, of each column "
            "alone; 0.5 is chance, 1 is perfect."
        )
    for attribute, items in proxy_features.items():
        rows = [[item["name"], f"“{item['group']}”", item["auc"]] for item in items[:MOST]]
        caption = f"Proxy features of {spoken(attribute)}"
        if len(items) > MOST:
            caption += f", the {MOST} strongest of {len(items)}"
        blocks.append(Table(caption, ["Column", "Best-predicted group", "AUC"], rows))
    return Section("leaks", "Leaks and proxy features", blocks)


def _outputs(content: Json, settings: Json) -> Section:
    """The attacks' success with a warning above the limit, then what discloses the sensitive
    groups.
    """
    auc = stronger_attack(content["attacks"])["auc"]
    success = f"cannot be measured: {auc['reason']}."
    if auc["value"] is not None:
        ends = formats.interval(auc["low"], auc["high"])
        success = (
            f"can be guessed with an AUC of **{formats.number(auc['value'])}** "
            f"({interval_name(settings)}: {ends}); 0.5 is chance."
        )
    blocks: list[Block] = [f"Whether a person is in the training table {success}"]
    if auc["value"] is not None and auc["value"] > WARNED_AUC:
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
        blocks += _attributes(content["attributes"])
    return Section("membership", "What outputs disclose", blocks)


def _attributes(attributes: Sequence[Json]) -> list[Block]:
    """How well the groups of sensitive attributes are inferred from outputs."""
    rows: list[list[Any]] = []
    for item in attributes:
        rows.append(
            [
                spoken(item["attribute"]),
                SOURCES[item["source"]],
                Cell(f"“{item['group']}”"),
                item["auc"],
                formats.percent(item["base_rate"]),
            ]
        )
    columns = ["Attribute", "Inferred from", "Best-predicted group", "AUC", "Share of the group"]
    return [
        Heading("Sensitive attributes inferred from outputs"),
        "How well a test row's group is predicted by what was learned from other test rows "
        "(cross-validated AUC; 0.5 is chance). A score discloses a group as far as the "
        "groups' chances differ, whether or not the model reads the attribute.",
        Table("Attributes inferred from outputs", columns, rows),
    ]
