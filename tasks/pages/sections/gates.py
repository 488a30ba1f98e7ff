"""Gates: what each asked and found, and what was compared."""

from __future__ import annotations

from typing import Any

from evenhand.tasks.pages import texts
from evenhand.tasks.pages.model import Cell, Documents, Section, Table

PAGES = {"run": 10, "evaluation": 10, "drift": 50}
NEEDS = ("decision", "metrics")

# A table of more gates is folded; those that did not pass are in the headline.
MOST_OPEN = 12
ENDS = {
    "passed": "here all passed",
    "refused": "here at least one refused",
    "insufficient_evidence": "here the rows were too few to decide",
}


def build(documents: Documents) -> Section | None:
    """A row a gate, those that did not pass first."""
    decision = documents["decision"]
    if not decision["results"]:
        blocks = ["The job sets no gate, so the model was not held to any limit."]
        return Section("gates", "Gates", blocks) if "job" in documents["run"] else None
    interval = texts.interval_name(documents["metrics"]["settings"])
    rows: list[list[Any]] = []
    for result in sorted(decision["results"], key=lambda result: result["passed"]):
        kind = texts.gate_kind(result)
        symbol, verdict = texts.GATE_STATUS[kind]
        asked, found, compared = texts.compared_number(result, interval)
        head = texts.metric_cell(result["metric"], "" if result["passed"] else result["text"])
        shown = texts.lack("not enough evidence") if kind == "insufficient_evidence" else found
        told = Cell(verdict, kind=kind, symbol=symbol)
        rows.append([head, told, Cell(asked, (compared,)), shown])
    lead = (
        "A gate is a limit set before the run. A model passes if every gate passes; "
        f"{ENDS[decision['verdict']]}."
    )
    caption, columns = "Every gate, what it asked and what it found", ["Gate", "Result", "Asked", "Found"]
    table = Table(caption, columns, rows, folded=len(rows) > MOST_OPEN)
    return Section("gates", "Gates", [lead, table])
