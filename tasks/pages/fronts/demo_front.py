"""The page of the demonstration: four models on one table, side by side."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from evenhand.fairlib.catalogue import title
from evenhand.tasks.pages import formats
from evenhand.tasks.pages.page_model import (
    Block,
    Cell,
    Chart,
    Documents,
    Front,
    Heading,
    Json,
    Section,
    Table,
)
from evenhand.tasks.pages.texts import ends, estimate_cell

NEEDS = ("models",)
CONSISTENCY = "consistency.gender"
GAP = "demographic_parity_difference.gender"


def depends(metrics: Json) -> dict[str, Any]:
    """Share of people whose decision is not the same on all copies: 1 less the consistency.

    A model that reads none of the changed columns has no such metric: none of its decisions
    changes, so there is nothing to estimate, and no interval.
    """
    same = metrics.get(CONSISTENCY)
    if same is None:
        return {"value": 0.0, "low": None, "high": None}
    exchanged = {"value": "value", "low": "high", "high": "low"}
    return {end: 1.0 - same[other_end] for end, other_end in exchanged.items()}


MEASURES: dict[str, Callable[[Json], Json]] = {
    title("accuracy"): lambda metrics: metrics["accuracy"],
    "Decisions that depend on gender or club": depends,
    title(GAP): lambda metrics: metrics[GAP],
}
"""What the models are compared by: a title, and the estimate from a model's metrics."""


def front(documents: Documents) -> Front:
    """Say what the four models do, and what fairness costs."""
    run = documents["run"]
    measured = [model["metrics"] for model in documents["models"]]
    shares = [depends(metrics)["value"] for metrics in measured]
    accuracy, gaps = (
        [metrics[name]["value"] for metrics in measured] for name in ("accuracy", GAP)
    )
    headline_texts = [
        f"{formats.count(run['rows'])} synthetic applicants were held out, whom no model had "
        "seen. Past recruiters preferred men to equally skilled women.",
        f"Plain trees decide differently about {formats.percent(shares[0])} of them if only "
        f"gender and club are changed; individually fair trees about {formats.percent(shares[3])}.",
        "Leaving the gender out is not enough: the club still decides about "
        f"{formats.percent(shares[1])}. Trees that see neither cannot depend on them; that works "
        "where every such column is known.",
        f"The selection rates of women and men are {formats.points(gaps[0])} apart with plain "
        f"trees, {formats.points(gaps[1])} without the gender, {formats.points(gaps[2])} without "
        f"gender and club, {formats.points(gaps[3])} with fair trees.",
        f"Fair trees cost {formats.points(accuracy[0] - accuracy[3])} of accuracy, leaving both "
        f"columns out {formats.points(accuracy[0] - accuracy[2])}. It is measured on past "
        "decisions, which were unfair.",
    ]
    meta = ["Four runs on the table hiring"]
    return Front(
        "demonstration", "Equal skill, equal decision?", meta, headline_texts, run["created"]
    )


def build(documents: Documents) -> list[Section]:
    """The numbers, a chart a number, and how the table is made."""
    models = documents["models"]
    rows = []
    for model in models:
        outcome_cells = []
        for measure in MEASURES.values():
            cell = estimate_cell(measure(model["metrics"]), formats.percent)
            if measure is depends and CONSISTENCY not in model["metrics"]:
                cell = replace(cell, below=("by construction: it reads neither column",))
            outcome_cells.append(cell)
        rows.append([Cell(model["label"], (model["name"],), href=model["href"]), *outcome_cells])
    blocks: list[Block] = [
        "Each value is measured on held-out applicants, with its 95% interval. A link leads to "
        "the model’s own report.",
        Table("Four models on the same table", ["Model", *MEASURES], rows),
    ]
    for text, measure in MEASURES.items():
        drawn = [{"label": model["label"], **ends(measure(model["metrics"]))} for model in models]
        floor = 0.5 if text == title("accuracy") else 0.0
        data = {"rows": drawn, "floor": floor, "percent": True}
        blocks.append(Heading(text))
        blocks.append(
            Chart("intervals.metric_intervals", data, text, "Each model with its interval.")
        )
    made = (
        "Women and men have the same skills, test scores and interviews. Past recruiters hired a "
        "woman as if she were one standard deviation less skilled. 40% of women and 10% of men "
        "name a choir, of football the reverse; the club has no effect of its own. Trees learn "
        "from the past decisions, so they learn the preference; without the gender they find "
        "part of it in the club. The fair trees (method budro) are trained against an adversary "
        "who may exchange people that differ only in gender and club."
    )
    return [
        Section("models", "Four models", blocks),
        Section("table", "How the table is made", [made]),
    ]
