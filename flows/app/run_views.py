"""What the app shows of a store: its runs, and the report of each."""

from __future__ import annotations

from typing import Any

from evenhand.flows.app.registry_views import VERDICTS, Screen, version_address
from evenhand.flows.commands.report_command import indexed_runs
from evenhand.tasks.errors import InputError
from evenhand.tasks.execution.store import Store
from evenhand.tasks.pages import formats
from evenhand.tasks.pages.page_model import Cell, Section, Table, Value
from evenhand.tasks.pages.texts import GATE_STATUS, lack

MOST_RUNS = 200


def runs_screen(store: Store) -> Screen:
    """The newest runs of a store, with their verdicts and reports."""
    entries = list(reversed(indexed_runs(store)))
    if not entries:
        return Screen("Runs", ["This store has no run yet."], [])
    rows = [_row(entry) for entry in entries[:MOST_RUNS]]
    table = Table("Runs, newest first", ["Run", "Verdict", "Version", "Report"], rows)
    lead = formats.plural(len(entries), "run")
    if len(entries) > MOST_RUNS:
        lead = f"The newest {MOST_RUNS} of {len(entries):,} runs"
    return Screen("Runs", [f"{lead}."], [Section("runs", "All runs", [table])])


def _row(entry: dict[str, Any]) -> list[Value]:
    verdict = entry["verdict"]
    if not isinstance(verdict, dict):
        return [entry["run_id"], lack(f"verdict {entry['damage'] or 'damaged'}"), None, None]
    kind = str(verdict.get("verdict"))
    css, text = VERDICTS.get(kind, ("unknown", kind.replace("_", " ")))
    symbol = GATE_STATUS[css][0] if css in GATE_STATUS else ""
    version: Value = None
    model = verdict.get("model")
    if isinstance(model, dict) and model.get("version"):
        name = str(model["name"])
        number = str(model["version"])
        version = Cell(f"{name} version {number}", href=version_address(name, number))
    report: Value = lack("none")
    if entry["report"]:
        report = Cell("report", href=f"runs/{entry['run_id']}/report")
    return [entry["run_id"], Cell(text, kind=css, symbol=symbol), version, report]


def run_report(store: Store, run_id: str) -> str:
    """Return the report of a run as HTML; an `InputError` if there is none."""
    # only names that the store lists are read: no path of an address
    if run_id not in store.runs():
        raise InputError("the store has no such run.")
    text = store.read_text("runs", run_id, "report.html")
    if text is None:
        raise InputError("the run ended before it wrote a report.")
    return text
