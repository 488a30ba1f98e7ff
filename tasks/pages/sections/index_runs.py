"""All runs of a store, newest first, and the outcomes of each job or model."""

from __future__ import annotations

from typing import Any

from evenhand.tasks.pages import formats
from evenhand.tasks.pages.fronts.index import KINDS, OUTCOMES, Entry, entries_of
from evenhand.tasks.pages.model import Block, Cell, Choice, Documents, Section, Table

PAGES = {"index": 10}
NEEDS = ("runs",)

LONGEST_ERROR = 200


def build(documents: Documents) -> list[Section]:
    """The table of runs with radio buttons that hide rows, and the table of jobs."""
    entries = entries_of(documents)
    if not entries:
        return []
    names = list(dict.fromkeys(entry.name for entry in entries))
    outcomes = [(key, text) for key, (text, _) in OUTCOMES.items() if any(e.outcome == key for e in entries)]
    kinds = [(key, text) for key, text in KINDS.items() if any(e.kind == key for e in entries)]
    jobs = [(str(place), name) for place, name in enumerate(names)]
    choices: list[Block] = [
        Choice(name, title, options)
        for name, title, options in (
            ("outcome", "Verdict", outcomes),
            ("kind", "Kind", kinds),
            ("job", "Job", jobs),
        )
        if len(options) > 1
    ]
    attributes = [
        {"outcome": entry.outcome, "kind": entry.kind, "job": str(names.index(entry.name))}
        for entry in entries
    ]
    head = ["When", "Job or model", "Verdict", "Main metrics", "Time"]
    table = Table("Every run, newest first", head, [_row(entry) for entry in entries], attributes=attributes)
    own = {name: [entry for entry in entries if entry.name == name] for name in names}
    rows: list[list[Any]] = [
        [
            name,
            len(of),
            *(sum(entry.outcome == key for entry in of) for key in OUTCOMES),
            _verdict(of[0]),
        ]
        for name, of in own.items()
    ]
    head = ["Job or model", "Runs", *(text for text, _ in OUTCOMES.values()), "Last run"]
    overview = Table("Jobs and models, the one that ran last first", head, rows)
    return [Section("runs", "Run by run", [*choices, table]), Section("jobs", "Job by job", [overview])]


def _row(entry: Entry) -> list[Cell]:
    model = entry.model
    about = entry.kind
    if model is not None and model.version is not None:
        about += f", version {model.version}" + (f" of {model.name}" if model.name != entry.name else "")
    seconds = sum(entry.verdict.seconds.values()) if entry.verdict and entry.verdict.seconds else None
    when = formats.moment(entry.moment) if entry.moment else entry.run_id
    below = () if entry.report else ("no report",)
    metrics = tuple(f"{name} {value}" for name, value in entry.metrics())
    return [
        Cell(when, below, href=entry.report, time=entry.moment),
        Cell(entry.name, (about,)),
        _verdict(entry, entry.detail[:LONGEST_ERROR]),
        Cell("", metrics) if metrics else Cell("none", kind="lack"),
        Cell("unknown", kind="lack") if seconds is None else Cell(formats.seconds(seconds)),
    ]


def _verdict(entry: Entry, *below: str) -> Cell:
    symbol = OUTCOMES[entry.outcome][1]
    return Cell(entry.text, tuple(text for text in below if text), kind=entry.outcome, symbol=symbol)
