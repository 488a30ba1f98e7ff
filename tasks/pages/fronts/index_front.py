"""The page over all runs: their number and outcomes, which versions are champions, every run, every
job.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, ValidationError

from evenhand.fairlib.catalogue import title
from evenhand.tasks.pages import formats
from evenhand.tasks.pages.page_model import Cell, Documents, Front, Json, Section, Table
from evenhand.tasks.pages.texts import lack

Outcome = Literal["passed", "refused", "insufficient_evidence", "failed", "unknown"]

RUN_ID = re.compile(r"(\d{8}-\d{6})-(.+)-[0-9a-f]{6}")
# Suffix of a run's name, and the kind of run that has it.
SUFFIXES = {
    "evaluate": "evaluation",
    "sweep": "sweep",
    "tune": "tune",
    "filter": "filter",
    "predict": "predict",
    "monitor": "monitor",
}
# Statuses of one kind of run only, however it is named.
KIND_OF_STATUS = dict.fromkeys(("published", "gated", "up_to_date"), "run")
KIND_OF_STATUS |= {"filtered": "filter", "predicted": "predict", "monitored": "monitor"}
# Short name and symbol of each outcome.
OUTCOMES: dict[Outcome, tuple[str, str]] = {
    "passed": ("Passed", "\u2713"),
    "refused": ("Refused", "\u2715"),
    "insufficient_evidence": ("Not enough evidence", "?"),
    "failed": ("Failed", "!"),
    "unknown": ("No verdict", "!"),
}
# Outcome and words by status, and by (kind, exit code); "*" stands for any kind but filters.
STATUSES: dict[str, tuple[Outcome, str]] = {
    "published": ("passed", "Published"),
    "up_to_date": ("passed", "Up to date: nothing to do"),
    "failed": ("failed", "Failed"),
}
VERDICTS: dict[tuple[str, int], tuple[Outcome, str]] = {
    ("filter", 0): ("passed", "Filtered"),
    ("predict", 0): ("passed", "Predicted"),
    ("sweep", 0): ("passed", "All runs finished"),
    ("sweep", 1): ("refused", "No value is good enough"),  # of earlier versions
    ("sweep", 4): ("failed", "Some runs failed"),
    ("tune", 0): ("passed", "A model is within the limits"),
    ("tune", 3): ("refused", "Nothing is within the limits"),
    ("monitor", 0): ("passed", "Within its limits"),
    ("monitor", 1): ("refused", "Refused: drift"),
    ("*", 1): ("refused", "Refused by a gate"),
    ("*", 3): ("insufficient_evidence", "Not enough evidence"),
}
# The first metric of each line that a run has is shown, after those of its gates.
LEADING = (
    ("balanced_accuracy", "auc", "accuracy", "imbalance", "psi_max", "kept"),
    ("gap_max", "demographic_parity_difference", "disclosivity", "unseen_max", "rows_out"),
    ("consistency", "equal_opportunity_difference", "rows_in"),
)
NEEDS = ("runs",)
LONGEST_ERROR = 200
COUNTS = {"rows_in": "Rows read", "rows_out": "Rows in the output"}


class _Gates(BaseModel):
    results: list[dict[str, Any]] = []


class _Version(BaseModel):
    name: str
    version: str | int | None = None
    alias: str | None = None


class _Verdict(BaseModel):
    """A verdict of any release: unknown keys are ignored."""

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
    kind: str
    when: datetime | None
    outcome: Outcome
    text: str
    detail: str
    report: str | None
    verdict: _Verdict

    @property
    def moment(self) -> str | None:
        """The time of its start as ISO 8601."""
        if self.when is None:
            return None
        return self.when.isoformat()

    def metrics(self) -> list[str]:
        """Up to three numbers: those of the gates, then of performance and fairness."""
        values = {}
        for name, value in self.verdict.metrics.items():
            if value is not None and name.rpartition(".")[2] not in ("low", "high"):
                values[name] = value
        chosen: list[Any] = []
        for gate in self.verdict.gates.results:
            metric = gate.get("metric")
            if metric in values and metric not in chosen:
                chosen.append(metric)
        stems = {name.partition(".")[0] for name in chosen}
        for line in LEADING:
            if stems.isdisjoint(line):
                chosen += _first_of(line, values)
        texts = []
        for name in chosen[:3]:
            texts.append(f"{COUNTS.get(name) or title(name)} {_shown(name, values[name])}")
        return texts


def _shown(name: str, value: float) -> str:
    if name in COUNTS:
        return formats.count(round(value))
    if name == "kept":
        return formats.percent(value)
    return formats.number(value)


def _first_of(stems: Sequence[str], names: Iterable[str]) -> list[str]:
    """The first metric whose first part is among `stems`, in their order; none if there is none."""
    for stem in stems:
        for name in names:
            if name.partition(".")[0] == stem:
                return [name]
    return []


def front(documents: Documents) -> Front:
    """Build the front."""
    run = documents["run"]
    entries = entries_of(documents)
    champions = _champions(entries, documents.get("aliases"))
    note = ""
    if champions:
        source = "Aliases are those of the registry when this page was made"
        if documents.get("aliases") is None:
            source = (
                "Aliases are those that the newest runs left, as the registry was not asked: "
                "`evenhand promote` moves an alias without a run"
            )
        note = f"{source}; `evenhand history MODEL` lists every move."
    return Front(
        "all runs",
        "All runs",
        [f"Store {run['store']}"],
        _headline(entries),
        run["created"],
        facts=champions,
        note=note,
        footer="Written by `evenhand report --all`, which updates it. This page loads nothing.",
    )


def entries_of(documents: Documents) -> list[Entry]:
    """All runs, newest first."""
    entries = [_entry(run) for run in documents["runs"]]
    oldest = datetime.min.replace(tzinfo=UTC)
    return sorted(entries, key=lambda entry: (entry.when or oldest, entry.run_id), reverse=True)


def _entry(run: Json) -> Entry:
    verdict = _Verdict(status="", exit_code=0)
    damage = run["damage"]
    if not damage:
        try:
            verdict = _Verdict.model_validate(run["verdict"])
        except ValidationError:
            damage = "damaged"
    parts = RUN_ID.fullmatch(run["run_id"])
    name = run["run_id"]
    suffix = ""
    if parts:
        name = parts[2]
        suffix = name.rpartition("-")[2]
    kind = KIND_OF_STATUS.get(verdict.status) or SUFFIXES.get(suffix, "run")
    if SUFFIXES.get(suffix) == kind:
        name = name.removesuffix(f"-{suffix}")
    outcome, text = _outcome(kind, verdict)
    detail = verdict.error or ""
    if damage:
        outcome = "unknown"
        text = "Damaged verdict"
        detail = "its verdict.json cannot be read"
    if damage == "missing":
        text = "No verdict"
        detail = "it is still running, or was stopped"
    return Entry(
        run["run_id"], name, kind, _when(parts), outcome, text, detail, run["report"], verdict
    )


def _when(parts: re.Match[str] | None) -> datetime | None:
    if parts is None:
        return None
    try:
        return datetime.strptime(parts[1], "%Y%m%d-%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        return None


def _outcome(kind: str, verdict: _Verdict) -> tuple[Outcome, str]:
    code = verdict.exit_code
    outcome = STATUSES.get(verdict.status) or VERDICTS.get((kind, code))
    if outcome is not None:
        return outcome
    if kind in ("filter", "predict"):
        return "failed", "Some files failed"
    outcome = VERDICTS.get(("*", code))
    if outcome is not None:
        return outcome
    if code:
        return "failed", "Failed"
    if verdict.gates.results:
        return "passed", "Passes its gates"
    return "passed", "Evaluated without gates"


def _headline(entries: Sequence[Entry]) -> list[str]:
    if not entries:
        return ["There is no run in this store yet.", "The command evenhand run JOB makes one."]
    newest = ""
    if entries[0].moment:
        newest = f", the newest on {formats.moment(entries[0].moment)}"
    names = {entry.name for entry in entries}
    jobs = formats.plural(len(names), "job or model", "jobs and models")
    counts = []
    for key, (text, _) in OUTCOMES.items():
        number = sum(entry.outcome == key for entry in entries)
        if number:
            counts.append(f"{number:,} {text.lower()}")
    return [
        f"{formats.plural(len(entries), 'run')} of {jobs}{newest}.",
        f"Outcomes: {formats.join(counts)}.",
    ]


def _champions(
    entries: Sequence[Entry], aliases: Mapping[str, Mapping[str, str]] | None
) -> list[tuple[str, Cell]]:
    """Model, alias, version and the run that published it.

    As the registry says; if it was not asked, as the newest run of each model and alias left it.
    """
    runs: dict[tuple[str, str], Entry] = {}
    newest: dict[str, dict[str, str]] = {}
    for entry in entries:
        model = entry.verdict.model
        status = entry.verdict.status
        if model is None or status not in ("published", "up_to_date"):
            continue
        if model.alias:
            newest.setdefault(model.name, {}).setdefault(model.alias, str(model.version))
        if status == "published" or aliases is None:
            runs.setdefault((model.name, str(model.version)), entry)
    current = newest if aliases is None else aliases
    champions = []
    for name, versions in sorted(current.items()):
        for alias, version in sorted(versions.items()):
            cell = _champion_cell(alias, version, runs.get((name, version)))
            champions.append((name, cell))
    return champions


def _champion_cell(alias: str, version: str, run: Entry | None) -> Cell:
    """Which version has an alias, with a link to the run that published it."""
    text = f"version {version} is {alias}"
    if run is None:
        return Cell(text)
    return Cell(f"{text}, published on {formats.moment(run.moment or run.run_id)}", href=run.report)


def build(documents: Documents) -> list[Section]:
    """The table of runs, and the outcomes of each job or model."""
    entries = entries_of(documents)
    if not entries:
        return []
    by_name: dict[str, list[Entry]] = {}
    for entry in entries:
        by_name.setdefault(entry.name, []).append(entry)
    head = ["When", "Job or model", "Verdict", "Main metrics", "Time"]
    rows = [_row(entry) for entry in entries]
    every = Table("Every run, newest first", head, rows)
    jobs: list[list[Any]] = []
    for name, runs in by_name.items():
        counts = [sum(entry.outcome == key for entry in runs) for key in OUTCOMES]
        jobs.append([name, len(runs), *counts, _verdict(runs[0])])
    outcomes = [text for text, _ in OUTCOMES.values()]
    head = ["Job or model", "Runs", *outcomes, "Last run"]
    overview = Table("Jobs and models, the one that ran last first", head, jobs)
    return [Section("runs", "Run by run", [every]), Section("jobs", "Job by job", [overview])]


def _row(entry: Entry) -> list[Cell]:
    when = entry.run_id
    if entry.moment:
        when = formats.moment(entry.moment)
    remark = () if entry.report else ("no report",)
    about = entry.kind
    model = entry.verdict.model
    if model is not None and model.version is not None:
        about += f", version {model.version}"
        if model.name != entry.name:
            about += f" of {model.name}"
    metrics = lack("none")
    numbers = entry.metrics()
    if numbers:
        metrics = Cell("", tuple(numbers))
    time = lack("unknown")
    seconds = entry.verdict.seconds.values()
    if seconds:
        time = Cell(formats.seconds(sum(seconds)))
    return [
        Cell(when, remark, href=entry.report, time=entry.moment),
        Cell(entry.name, (about,)),
        _verdict(entry, entry.detail[:LONGEST_ERROR]),
        metrics,
        time,
    ]


def _verdict(entry: Entry, *below: str) -> Cell:
    symbol = OUTCOMES[entry.outcome][1]
    return Cell(entry.text, below, kind=entry.outcome, symbol=symbol)
