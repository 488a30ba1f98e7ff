"""Groups, labels and predictions: their shares in the training rows and in the new rows, and cautions."""

from __future__ import annotations

from typing import Any

from evenhand.fairlib.catalogue import spoken
from evenhand.tasks.pages import formats
from evenhand.tasks.pages.model import Block, Cell, Documents, Json, Section, Table
from evenhand.tasks.pages.texts import estimate_cell, lack

PAGES = {"drift": 20}
NEEDS = ("drift",)

CAUTIONS = (
    "**Each column is compared alone.** Only counts of each column are kept of the training rows, so a "
    "change that shows only in several columns together is not seen.",
    "**Drift of the inputs is not an error of the model.** A change of the inputs does not say that the "
    "model is wrong about the new rows, and no change does not say that it is right: that takes new rows "
    "with labels, and `evenhand evaluate`.",
    "**Many rows make every difference significant.** The p-value is then small for differences that do not "
    "matter. The index measures how large a change is; the default gates judge the index.",
)


def build(documents: Documents) -> list[Section]:
    """A section on the groups, one on labels and predictions, one on what these do not say."""
    drift = documents["drift"]
    found = []
    if drift["groups"]:
        least = drift["settings"]["min_cell"]
        blocks: list[Block] = [
            "Shares of the sensitive groups, and of positive labels within each. Groups with few training "
            f"rows are together “other”; a group of fewer than {least} new rows counts as {least - 1}, the "
            "most it can be."
        ]
        for attribute, group in drift["groups"].items():
            blocks += _attribute(spoken(attribute), group)
        found.append(Section("groups", "The people", blocks))
    answers = Section("answers", "Labels and predictions", [_answers(drift)])
    return [*found, answers, Section("cautions", "What this does not say", CAUTIONS)]


def _attribute(about: str, found: Json) -> list[Block]:
    labelled = any(row["label_now"] is not None for row in found["rows"])
    head = ["Group", "Training rows", "New rows"]
    head += ["Positive labels then", "Positive labels now"] if labelled else []
    rows: list[list[Any]] = []
    for row in found["rows"]:
        now = lack("too few people") if row["few"] else _share(row["now"])
        labels = [_share(row[key]) for key in ("label_then", "label_now")] if labelled else []
        rows.append([row["group"], _share(row["then"]), now, *labels])
    change, rates = found["share_change"], found["label_rate_change"]
    said = f"Largest change of a group’s share by {about}: {_estimate(change)}."
    if labelled:
        said += f" Largest change of a group’s share of positive labels: {_estimate(rates)}."
    return [said, Table(f"Groups by {about}", head, rows)]


def _estimate(metric: Json) -> str:
    cell = estimate_cell(metric, formats.percent)
    return f"{cell.text} ({'; '.join(cell.below)})" if cell.below else cell.text


def _share(value: float | None) -> Cell:
    return lack("too few") if value is None else Cell(formats.percent(value))


def _answers(drift: Json) -> Table:
    label, predicted = drift["label"], drift["prediction"]
    rows = [("Positive labels", "training rows, and new rows that have one", label)]
    if predicted is not None:
        now = {**predicted, "now": predicted["rate"]["value"]}
        rows.append(("Positive predictions", "test rows of the training run, and new rows", now))
    table = []
    for name, remark, row in rows:
        change = estimate_cell(row["change"], formats.percent)
        table.append([Cell(name, (remark,)), _share(row["then"]), _share(row["now"]), change])
    caption = "Shares of positive labels and of positive predictions"
    return Table(caption, ["Share of", "Then", "Now", "Change"], table)
