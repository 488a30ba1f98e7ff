"""All runs of a store as one HTML page: what ran when, what came of it, and which version is champion."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from evenhand.tasks.reporting import formats, words
from evenhand.tasks.reporting.context import Part, parse
from evenhand.tasks.reporting.page import environment

__all__ = ["RUN_ID", "IndexContext", "render_index"]

Kind = Literal["run", "sweep", "filter", "evaluation", "monitor"]
Outcome = Literal["passed", "refused", "insufficient_evidence", "failed", "unknown"]

RUN_ID = re.compile(r"(\d{8}-\d{6})-(.+)-[0-9a-f]{6}")
SUFFIXES: dict[str, Kind] = {
    "sweep": "sweep",
    "filter": "filter",
    "evaluate": "evaluation",
    "monitor": "monitor",
}
# what only one kind of run can have come to, however it is named
KIND_OF_STATUS: dict[str, Kind] = {
    "published": "run",
    "gated": "run",
    "up_to_date": "run",
    "filtered": "filter",
    "monitored": "monitor",
}
# of one run, and of several
OUTCOMES: dict[Outcome, tuple[str, str]] = {
    "passed": ("did what was asked", "did what was asked"),
    "refused": ("was refused", "were refused"),
    "insufficient_evidence": ("lacked evidence", "lacked evidence"),
    "failed": ("failed", "failed"),
    "unknown": ("left no verdict that can be read", "left no verdict that can be read"),
}
FILTERS: dict[Outcome, str] = {
    "passed": "Passed",
    "refused": "Refused",
    "insufficient_evidence": "Not enough evidence",
    "failed": "Failed",
    "unknown": "No verdict",
}
KINDS: dict[Kind, str] = {
    "run": "Runs of jobs",
    "sweep": "Sweeps",
    "filter": "Filters",
    "evaluation": "Evaluations",
    "monitor": "Monitors",
}
SYMBOLS: dict[Outcome, str] = {
    "passed": "\u2713",
    "refused": "\u2715",
    "insufficient_evidence": "?",
    "failed": "!",
    "unknown": "!",
}
# The first of each line that a run has is shown; what its gates are about comes before.
LEADING = (
    ("balanced_accuracy", "auc", "accuracy", "imbalance", "psi_max", "kept"),
    ("gap_max", "demographic_parity_difference", "disclosivity", "unseen_max", "rows_out"),
    ("consistency", "equal_opportunity_difference", "psi_mean", "rows_in"),
)
MOST_METRICS = 3
LABELS = {
    "rows_in": "Rows read",
    "rows_out": "Rows kept",
    "kept": "Share kept",
    "psi_max": "Largest shift (PSI)",
    "psi_mean": "Mean shift (PSI)",
    "unseen_max": "Unseen values, at most",
}


class IndexedRun(Part):
    """
    One run's folder: the content of its verdict, or why there is none.

    ``modified`` is when the verdict was written; ``report`` a link from the index, relative.
    """

    run_id: str
    verdict: Any = None
    damage: Literal["missing", "damaged"] | None = None
    modified: str | None = None
    report: str | None = None


class IndexContext(Part):
    """Everything on the page; ``aliases`` are those of each model, null if the registry was not asked."""

    store: str
    created: str
    runs: list[IndexedRun] = []
    aliases: dict[str, dict[str, str]] | None = None


class _Gate(BaseModel):
    model_config = ConfigDict(extra="ignore")
    metric: str


class _Gates(BaseModel):
    model_config = ConfigDict(extra="ignore")
    results: list[_Gate] = []


class _Version(BaseModel):
    model_config = ConfigDict(extra="ignore")
    name: str
    version: str | int | None = None
    alias: str | None = None


class _Verdict(BaseModel):
    """What the index reads of a verdict; newer fields are no fault of it."""

    model_config = ConfigDict(extra="ignore")
    status: str
    exit_code: int
    error: str | None = None
    metrics: dict[str, Annotated[float, Field(allow_inf_nan=False)] | None] = {}
    gates: _Gates = _Gates()
    model: _Version | None = None
    seconds: dict[str, float] = {}


@dataclass(frozen=True)
class Entry:
    """A run as its row shows it."""

    run_id: str
    name: str
    kind: Kind
    when: datetime | None
    outcome: Outcome
    verdict: str
    detail: str
    metrics: list[tuple[str, str]]
    model: _Version | None
    seconds: float | None
    report: str | None
    status: str | None

    @property
    def symbol(self) -> str:
        """A mark beside the verdict's words."""
        return SYMBOLS[self.outcome]

    @property
    def moment(self) -> str | None:
        """The time of its start as ISO text."""
        return None if self.when is None else self.when.isoformat()


def render_index(context: Mapping[str, Any]) -> str:
    """
    Write the index of a store's runs.

    Parameters
    ----------
    context : mapping
        Plain JSON with the keys of :class:`IndexContext`. A verdict that does not read as one is shown as
        damaged.

    Returns
    -------
    str
        A whole HTML document. The same context gives the same text.

    Raises
    ------
    ValueError
        If the context does not fit the model: its first fault in one line.
    """
    checked = parse(IndexContext, context)
    entries = sorted(map(_entry, checked.runs), key=_age, reverse=True)
    names = list(dict.fromkeys(entry.name for entry in entries))
    return (
        environment()
        .get_template("index.html.j2")
        .render(
            c=checked,
            entries=entries,
            headline=_headline(entries, names),
            champions=_champions(entries, checked.aliases),
            asked=checked.aliases is not None,
            jobs=[_job(name, [e for e in entries if e.name == name]) for name in names],
            number_of={name: i for i, name in enumerate(names)},
            outcomes=[(key, text) for key, text in FILTERS.items() if any(e.outcome == key for e in entries)],
            kinds=[(key, text) for key, text in KINDS.items() if any(e.kind == key for e in entries)],
        )
    )


def _age(entry: Entry) -> tuple[datetime, str]:
    # a run of unknown time comes last
    return entry.when or datetime.min.replace(tzinfo=UTC), entry.run_id


def _entry(run: IndexedRun) -> Entry:
    verdict, damage = None, run.damage
    if damage is None:
        try:
            verdict = _Verdict.model_validate(run.verdict)
        except ValidationError:
            damage = "damaged"
    named = RUN_ID.fullmatch(run.run_id)
    name, kind = named[2] if named else run.run_id, _kind(named, verdict)
    for suffix, of in SUFFIXES.items():
        if kind == of:
            name = name.removesuffix(f"-{suffix}")
    if verdict is None:
        text, detail = {
            "missing": ("No verdict", "it still runs, or was stopped before its end"),
            "damaged": ("Damaged verdict", "its verdict.json cannot be read"),
        }[damage or "damaged"]
        return Entry(
            run.run_id,
            name,
            kind,
            _when(named, run),
            "unknown",
            text,
            detail,
            [],
            None,
            None,
            run.report,
            None,
        )
    outcome, text = _outcome(kind, verdict)
    seconds = sum(verdict.seconds.values()) if verdict.seconds else None
    return Entry(
        run.run_id,
        name,
        kind,
        _when(named, run),
        outcome,
        text,
        verdict.error or "",
        _metrics(verdict),
        verdict.model,
        seconds,
        run.report,
        verdict.status,
    )


def _kind(named: re.Match[str] | None, verdict: _Verdict | None) -> Kind:
    if verdict is not None and verdict.status in KIND_OF_STATUS:
        return KIND_OF_STATUS[verdict.status]
    suffix = named[2].rpartition("-")[2] if named else ""
    return SUFFIXES.get(suffix, "run")


def _when(named: re.Match[str] | None, run: IndexedRun) -> datetime | None:
    try:
        if named:
            return datetime.strptime(named[1], "%Y%m%d-%H%M%S").replace(tzinfo=UTC)
        found = datetime.fromisoformat(run.modified) if run.modified else None
    except ValueError:
        return None
    return found if found is None or found.tzinfo else found.replace(tzinfo=UTC)


def _outcome(kind: Kind, verdict: _Verdict) -> tuple[Outcome, str]:
    """What came of a run, and how to say so."""
    code = verdict.exit_code
    if verdict.status == "published":
        return "passed", "Published"
    if verdict.status == "up_to_date":
        return "passed", "Up to date: nothing to do"
    if verdict.status == "failed":
        return "failed", "Failed"
    if kind == "filter":
        return ("passed", "Filtered") if code == 0 else ("failed", "Some files failed")
    if kind == "sweep":
        return {
            0: ("passed", "All runs finished"),
            1: ("refused", "No value is good enough"),
        }.get(code, ("failed", "Some runs failed"))  # type: ignore[return-value]
    if code == 3:
        return "insufficient_evidence", "Not enough evidence"
    if code == 1:
        return "refused", "Refused: drift" if kind == "monitor" else "Refused by a gate"
    if code:
        return "failed", "Failed"
    if kind == "monitor":
        return "passed", "Within its limits"
    return "passed", "Passes its gates" if verdict.gates.results else "Judged without gates"


def _metrics(verdict: _Verdict) -> list[tuple[str, str]]:
    """Two or three numbers that say most: what the gates are about, then how good and how even."""
    known = {
        name: value
        for name, value in verdict.metrics.items()
        if value is not None and name.rpartition(".")[2] not in ("low", "high")
    }
    chosen = list(dict.fromkeys(gate.metric for gate in verdict.gates.results if gate.metric in known))
    taken = {name.partition(".")[0] for name in chosen}
    for line in LEADING:
        if not taken.isdisjoint(line):
            continue
        stems = (next((name for name in known if name.partition(".")[0] == stem), None) for stem in line)
        found = next((name for name in stems if name is not None), None)
        if found is not None:
            chosen.append(found)
    return [(LABELS.get(n) or words.metric_phrase(n), _shown(n, known[n])) for n in chosen[:MOST_METRICS]]


def _shown(name: str, value: float) -> str:
    if name in ("rows_in", "rows_out"):
        return formats.count(round(value))
    return formats.percent(value) if name == "kept" else formats.number(value)


def _headline(entries: list[Entry], names: list[str]) -> list[str]:
    if not entries:
        return ["There is no run in this store yet.", "The command evenhand run JOB makes one."]
    latest = entries[0]
    newest = f", the newest on {formats.moment(latest.moment)}" if latest.moment else ""
    of = formats.plural(len(names), "job or model", "jobs and models")
    counted = [
        formats.plural(n, *texts)
        for key, texts in OUTCOMES.items()
        if (n := sum(e.outcome == key for e in entries))
    ]
    return [f"{formats.plural(len(entries), 'run')} of {of}{newest}.", f"{formats.join(counted)}."]


def _champions(
    entries: list[Entry], aliases: dict[str, dict[str, str]] | None
) -> list[tuple[str, str, str, Entry | None]]:
    """
    Model, alias, version and the run that published it.

    As the registry says; or if it was not asked, as the newest run of each model and alias left it.
    """
    telling = [
        (entry, entry.model)
        for entry in entries
        if entry.status in ("published", "up_to_date") and entry.model is not None
    ]
    if aliases is not None:
        runs = {
            (model.name, str(model.version)): entry
            for entry, model in reversed(telling)
            if entry.status == "published"
        }
        return [
            (name, alias, version, runs.get((name, version)))
            for name, of in sorted(aliases.items())
            for alias, version in sorted(of.items())
        ]
    found: dict[tuple[str, str], tuple[str, Entry]] = {}
    for entry, model in telling:
        if model.alias:
            found.setdefault((model.name, model.alias), (str(model.version), entry))
    return [(name, alias, *told) for (name, alias), told in sorted(found.items(), key=lambda pair: pair[0])]


def _job(name: str, entries: list[Entry]) -> dict[str, Any]:
    """One job's line of the overview."""
    return {
        "name": name,
        "runs": len(entries),
        "counts": [sum(e.outcome == key for e in entries) for key in FILTERS],
        "latest": entries[0],
    }
