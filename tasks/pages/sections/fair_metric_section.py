"""What a learned fair metric does with each column, and what it takes of attribute and label."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evenhand.fairlib.catalogue import spoken
from evenhand.tasks.pages import formats
from evenhand.tasks.pages.page_model import Block, Documents, Json, Section, Table

PAGES = {"run": 27}
NEEDS = ("metric_report",)

VERDICTS = {
    "removed": "removed",
    "shift": "adapted: shifted",
    "scale": "adapted: shifted and scaled",
    "quantiles": "adapted: by quantiles",
    "steps": "adapted: by quantiles, drawn among equal values",
    "levels": "adapted: moved with probabilities",
    "kept": "kept",
    "legitimate": "legitimate: differences between groups stay",
    "sensitive": "sensitive: ignored",
}
ADAPTED = ("shift", "scale", "quantiles", "steps", "levels")
# What a metric does with the same columns where the attribute is no model input.
DIRECTION = "differences between groups removed"
# Columns of each kind that a sentence names.
MOST_NAMED = 6


def build(documents: Documents) -> Section:
    """The answer in a line, and a table of all columns."""
    report = documents["metric_report"]
    rows = []
    for item in sorted(report["columns"], key=lambda item: -item["auc"]):
        if item["verdict"] == "sensitive":
            continue
        verdict = VERDICTS.get(item["verdict"], item["verdict"])
        if item["verdict"] in ADAPTED and not _adapts(report):
            verdict = DIRECTION
        rows.append([item["column"], verdict, item["auc"], item["signal"]])
    head = ["Column", "What the metric does", "AUC of the attribute", "Label signal"]
    caption = "What the learned metric does with every column, the clearest proxy feature first"
    reading = (
        "The AUC is that of the best-predicted group from the column alone; 0.5 is chance. The "
        "label signal is the rise of the label’s log loss without the column (nats); it is "
        "measured for columns that differ between groups. A column without such a signal is "
        "removed. All is measured on training rows by cross-validation."
    )
    blocks: list[Block] = [summary(report), Table(caption, head, rows, folded=True), reading]
    return Section("fair_metric", "What the fair metric neutralises", blocks)


def summary(report: Json) -> str:
    """Say which columns are neutralised, by how much, and what share of the label's signal is
    taken.
    """
    sentences = [_columns_sentence(report["columns"], adapts=_adapts(report))]
    origin = "With counterparts from half of the training rows, what is left of the other half"
    if not _adapts(report):
        origin = "What is left of half of the training rows"
    legitimate = _legitimate(report["columns"])
    condition = f" given {formats.join(legitimate)}" if legitimate else ""
    for name, leak in report["leaks"].items():
        sentences.append(
            f"{origin} predicts {spoken(name)}{condition} with an AUC of {leak['after']:.2f} "
            f"[{leak['low']:.2f}, {leak['high']:.2f}]; all columns but the sensitive ones with "
            f"{leak['before']:.2f} (0.5 is chance)."
        )
    if report["label_auc"] is not None:
        before, after = report["label_auc"]
        share = taken_share(report)
        loss = f"{share:.0%} of the label’s signal is taken"
        if share < 0.005:
            loss = "nothing of the label’s signal is taken"
        sentences.append(
            f"The AUC of the label from the columns goes from {before:.2f} to {after:.2f}: {loss}."
        )
    return " ".join(sentences)


def taken_share(report: Json) -> float:
    """Share of the label's signal that the metric takes, in [0, 1]: of what its AUC has beyond
    chance.
    """
    before, after = report["label_auc"]
    if before <= 0.5:
        return 0.0
    return float(min(max((before - after) / (before - 0.5), 0.0), 1.0))


def _adapts(report: Json) -> bool:
    """Whether models read adapted columns; reports of earlier versions do not say."""
    return bool(report.get("adapts", True))


def _columns_sentence(columns: Sequence[Mapping[str, str | float]], *, adapts: bool) -> str:
    """Name the columns that the metric removes, adapts and keeps as legitimate."""
    removed = [item for item in columns if item["verdict"] == "removed"]
    adapted = [item for item in columns if item["verdict"] in ADAPTED]
    legitimate = _legitimate(columns)
    parts = []
    change = "adapts" if adapts else "removes the directions in which groups differ in"
    for verb, items in (("removes", removed), (change, adapted)):
        if items:
            parts.append(f"{verb} {_named(items)}")
    if not parts:
        parts.append("found no proxy feature")
    if legitimate:
        parts.append(f"keeps {formats.join(legitimate)}")
    return f"The learned metric {'; '.join(parts)}."


def _legitimate(columns: Sequence[Mapping[str, str | float]]) -> list[str]:
    return [str(item["column"]) for item in columns if item["verdict"] == "legitimate"]


def _named(items: Sequence[Mapping[str, str | float]]) -> str:
    """Columns with the AUC of the attribute from each alone, the highest first."""
    ranked = sorted(items, key=lambda item: -float(item["auc"]))
    names = [f"{item['column']} ({item['auc']:.2f})" for item in ranked[:MOST_NAMED]]
    names[0] = f"{ranked[0]['column']} (AUC {ranked[0]['auc']:.2f} alone)"
    if len(ranked) > MOST_NAMED:
        names.append(f"{len(ranked) - MOST_NAMED} more")
    return formats.join(names)
