"""Gates: what each asked and found, and what was compared."""

from __future__ import annotations

from evenhand.tasks.pages import formats, texts
from evenhand.tasks.pages.page_model import Cell, Documents, Section, Table, Value

PAGES = {"run": 10, "evaluation": 10, "drift": 50}
FIRST = ("drift",)
NEEDS = ("decision",)

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
    rows: list[list[Value]] = []
    for result in sorted(decision["results"], key=lambda result: result["passed"]):
        kind = texts.gate_kind(result)
        symbol, verdict = texts.GATE_STATUS[kind]
        text = formats.sentence(result["text"].removeprefix(f"{result['metric']} "))
        cell = Cell(verdict, kind=kind, symbol=symbol)
        rows.append([texts.metric_cell(result["metric"]), cell, text])
    lead = (
        "A gate is a limit set before the run. A model passes if every gate passes; "
        f"{ENDS[decision['verdict']]}."
    )
    caption = "Every gate, what it asked and what it found"
    table = Table(
        caption, ["Gate", "Result", "Found and asked"], rows, folded=len(rows) > MOST_OPEN
    )
    return Section("gates", "Gates", [lead, table])
