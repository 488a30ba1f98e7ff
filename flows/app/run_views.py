"""What the app shows of a store: its runs, and the report of each."""

from __future__ import annotations

import json
from urllib.parse import quote

from evenhand.flows.app.paired_versions import METRICS, digest_of_artifact
from evenhand.flows.app.registry_views import Screen, version_address, when_cell
from evenhand.flows.commands.report_command import indexed_runs
from evenhand.tasks.errors import InputError
from evenhand.tasks.execution.store import Store
from evenhand.tasks.pages import formats
from evenhand.tasks.pages.fronts.index_front import OUTCOMES, Entry, entries_of
from evenhand.tasks.pages.page_model import Cell, Section, Table, Value
from evenhand.tasks.pages.texts import lack
from evenhand.tasks.registry.ledger import Record

MOST_RUNS = 200


def runs_screen(store: Store) -> Screen:
    """The newest runs of a store, with their verdicts and reports."""
    entries = entries_of({"runs": indexed_runs(store)})
    if not entries:
        text = "This store has no run yet: `evenhand run JOB`, or a run of a job here, makes one."
        return Screen("Runs", [text], [])
    rows = [_row(entry) for entry in entries[:MOST_RUNS]]
    columns = ["Job or model", "Outcome", "Begun (UTC)", "Version", "Report"]
    table = Table("Runs, newest first", columns, rows)
    lead = formats.plural(len(entries), "run")
    if len(entries) > MOST_RUNS:
        lead = f"The newest {MOST_RUNS} of {len(entries):,} runs"
    return Screen("Runs", [f"{lead}."], [Section("runs", "All runs", [table])])


def _row(entry: Entry) -> list[Value]:
    _, symbol = OUTCOMES[entry.outcome]
    outcome = Cell(entry.text, (entry.detail,), kind=entry.outcome, symbol=symbol)
    when: Value = lack("not known")
    if entry.moment is not None:
        when = when_cell(entry.moment)
    version: Value = lack("none")
    model = entry.verdict.model
    if model is not None and model.version:
        name, number = model.name, str(model.version)
        version = Cell(f"{name} version {number}", href=version_address(name, number))
    report: Value = lack("none")
    if entry.report:
        report = Cell("report", href=_report_address(entry.run_id))
    return [Cell(entry.name, (entry.kind,)), outcome, when, version, report]


def _report_address(run_id: str) -> str:
    return f"/runs/{quote(run_id, safe='')}/report"


def report_address(store: Store, evaluation: Record | None) -> str:
    """The address of the report of the run that made an evaluation; empty if the store has none.

    A record names the run, or else the metrics that the run wrote.
    """
    if evaluation is None:
        return ""
    # only names that the store lists are taken: a record can name anything
    reports = sorted(store.runs_with("report.html"), reverse=True)
    run_id = evaluation.content.get("run_id")
    if run_id in reports:
        return _report_address(run_id)
    metrics = evaluation.content.get("metrics")
    for listed in reports[:MOST_RUNS]:
        if metrics and _metrics_of(store, listed) == metrics:
            return _report_address(listed)
    return ""


def _metrics_of(store: Store, run_id: str) -> str:
    """The digest of the metrics that a run wrote; empty if its verdict has none."""
    try:
        verdict = json.loads(store.read_text("runs", run_id, "verdict.json") or "")
        return digest_of_artifact(verdict["artifacts"], METRICS)
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError):
        return ""


def run_report(store: Store, run_id: str) -> str:
    """Return the report of a run as HTML; an `InputError` if there is none."""
    # only names that the store lists are read: no path of an address
    if run_id not in store.runs():
        raise InputError("the store has no such run.")
    text = store.read_text("runs", run_id, "report.html")
    if text is None:
        raise InputError("the run ended before it wrote a report.")
    return text
