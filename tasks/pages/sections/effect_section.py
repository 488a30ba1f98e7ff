"""Effect of the mitigation in short: the model against its controls, or against a baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evenhand.fairlib.catalogue import direction, without_intersections
from evenhand.tasks.pages import texts
from evenhand.tasks.pages.page_model import Block, Documents, Json, Section, Table
from evenhand.tasks.pages.sections.controls_section import (
    SIMPLE,
    answered,
    answers,
    compared_best,
    compared_cell,
    control_columns,
    majority_sentence,
)
from evenhand.tasks.pages.sections.metrics_section import difference_cell

PAGES = {"run": 3, "evaluation": 3}
FIRST = ("run", "evaluation")
NEEDS = ("metrics",)
NEEDS_ONE_OF = ("controls", "comparison")

# Rows that two printed pages have room for.
MOST_METRICS = 5
# Metrics by their first part in the order of what a reader decides by; at most so many of each.
DECIDING = {
    "accuracy": 1,
    "consistency": 1,
    "token_gap": 1,
    "demographic_parity_difference": 2,
    "gap_max": 2,
    "balanced_accuracy": 1,
}


def build(documents: Documents) -> Section | None:
    """The comparison in words, and the metrics that a reader decides by."""
    if documents.get("controls") is not None:
        return _of_controls(documents)
    return _of_baseline(documents)


def _of_controls(documents: Documents) -> Section:
    controls = documents["controls"]["controls"]
    metrics = documents["metrics"]
    blocks: list[Block] = [*answers(controls)]
    majority = majority_sentence(controls, metrics)
    if majority:
        blocks.append(majority)
    columns = _shown_columns(controls)
    names = deciding(answered(metrics["metrics"]), metrics["metrics"])
    if columns and names:
        blocks.append(_table(controls, metrics["metrics"], names, columns))
    return Section("effect", "Effect of the mitigation", blocks)


def _shown_columns(controls: Mapping[str, Json]) -> dict[str, str]:
    """The best control first, then the others, without the majority class."""
    heads = control_columns(controls)
    columns = {}
    for name in (compared_best(controls), "plain", "blind", *SIMPLE):
        if name is not None and name in heads:
            columns[name] = heads[name]
    return columns


def _table(
    controls: Mapping[str, Json],
    metrics: Mapping[str, Any],
    names: Sequence[str],
    columns: Mapping[str, str],
) -> Table:
    rows = []
    for name in names:
        row: list[Any] = [texts.metric_cell(name), texts.estimate_cell(texts.ends(metrics[name]))]
        for control in columns:
            row.append(compared_cell(name, controls[control]))
        rows.append(row)
    caption = "The model, and its differences from each control"
    return Table(caption, ["Metric", "This model", *columns.values()], rows)


def _of_baseline(documents: Documents) -> Section | None:
    """A table of the differences from another model."""
    differences = documents["comparison"]["differences"]
    baseline = documents.get("baseline")
    if not baseline or not differences:
        return None
    metrics = documents["metrics"]["metrics"]
    names = without_intersections(differences, documents["metrics"]["counts"])
    rows = []
    compared = [name for name in answered(metrics) if name in names]
    for name in deciding(compared, metrics):
        row = [texts.metric_cell(name), texts.estimate_cell(metrics.get(name))]
        row.append(texts.estimate_cell(baseline["metrics"].get(name)))
        row.append(difference_cell(name, differences[name]))
        rows.append(row)
    lead = (
        "Model less baseline on the same rows, with paired intervals. Every metric is in "
        "“Performance and fairness” below."
    )
    columns = ["Metric", "Model", "Baseline", "Model less baseline"]
    table = Table("The model and the baseline", columns, rows)
    return Section("effect", "The model and the baseline", [lead, table])


def deciding(names: Sequence[str], metrics: Mapping[str, Json]) -> list[str]:
    """The metrics that a reader decides by, the least favourable of each kind first."""
    selected: list[str] = []
    for kind, most in DECIDING.items():
        of_kind = [name for name in names if name.partition(".")[0] == kind]
        measured = [name for name in of_kind if metrics[name]["value"] is not None]
        measured.sort(key=lambda name: _rank(name, metrics[name]["value"]))
        selected += measured[:most]
    return selected[:MOST_METRICS]


def _rank(name: str, value: float) -> float:
    """Rank of a value: the least favourable has the lowest."""
    if direction(name) == "lower":
        return -value
    return value
