"""What a study found: its document, what must be said of it, and its page while it is being searched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from evenhand.fairlib.tuning.study import Aim, Limit, Trial, best, costs, front, nearest, settled, within
from evenhand.tasks.errors import InputError
from evenhand.tasks.fingerprint import environment, now
from evenhand.tasks.pages.build import write_page
from evenhand.tasks.pages.fronts.tune import holds, label_of, trial_of
from evenhand.tasks.store import Store
from evenhand.tasks.tuning.search import Study

STUDIES = "studies"


def tuning(
    identity: Mapping[str, Any], prefer: str | None, study: str, trials: Sequence[Trial]
) -> dict[str, Any]:
    """Return the content of ``tuning.json``: plain JSON, with all trials.

    `identity` is what the study was begun with; `prefer` a metric to choose the winner by.
    """
    given = identity["aim"]
    limits = tuple(Limit(**limit) for limit in given["limits"])
    asked = Aim(tuple(given["objectives"]), limits, given["bound"])
    aim = settled(asked, trials)
    first = prefer or aim.objectives[0]
    winner, close = best(aim, trials, prefer), nearest(aim, trials)
    shown = list(dict.fromkeys([*aim.metrics, first]))
    rows = []
    for trial in trials:
        row = vars(trial) | {"metrics": {name: trial.metrics.get(name, {}) for name in shown}}
        row |= {"number": trial.number, "label": label_of(row)}
        rows.append(row | {"miss": aim.miss(trial.metrics) if trial.metrics else None})
    return {
        **{key: identity[key] for key in ("job", "level", "methods", "decisions", "halving")},
        "study": study,
        "aim": str(aim),
        "objectives": list(aim.objectives),
        "prefer": first,
        "limits": [asdict(limit) | {"text": str(limit)} for limit in aim.limits],
        "bound": aim.bound,
        "bound_asked": asked.bound,
        "trials": rows,
        "front": [trial.number for trial in front(aim, trials)],
        "winner": None if winner is None else winner.number,
        "nearest": None if close is None else close.number,
        "costs": costs(aim, trials, first),
        "test": None,
        "test_rows": None,
        "test_controls": {},
        "repeats": [],
        "gates": None,
        "notes": [],
        "seconds": round(sum(trial.seconds for trial in trials if trial.rule == 0), 1),
    }


def no_winner(aim: Aim, trials: Sequence[Trial]) -> str:
    """Say in one line that no trial is within the limits, and which is nearest."""
    aim, close = settled(aim, trials), nearest(aim, trials)
    if close is None:
        errors = [trial.error for trial in trials if trial.error]
        return f"no trial could be judged: {errors[0] if errors else 'the time was too short'}"
    misses = []
    for limit in aim.limits:
        if missed := aim.shortfall(limit, close.metrics):
            value, end = close.metrics.get(limit.metric, {}).get("value"), aim.found(limit, close.metrics)
            ends = f" (value {value:.3g}, end of the interval {end:.3g})" if end != value else ""
            misses.append(f"{limit} by {missed:.3g}{ends}")
    advice = ""
    if aim.bound != "point" and within(replace(aim, bound="point"), trials):
        advice = "; with --bound point, limits hold on values alone, and some trials are within them"
    return (
        f"none of {len(trials)} trials is within the limits: the nearest, number {close.number}, misses "
        f"{' and '.join(misses)}{advice}."
    )


def notes_of(document: Mapping[str, Any]) -> list[str]:
    """Say what the reader must know of the winner: no mitigation is needed, or a limit is missed."""
    winner = trial_of(document, document["winner"])
    if winner is None:
        return []
    notes = []
    if winner["kind"] == "plain":
        notes.append("no mitigation is needed: the control without it is the best within the limits")
    if winner["kind"] == "blind":
        notes.append(
            "leaving out the sensitive columns is enough: no method does better within the limits, and the "
            "tuned job has them under leave_out"
        )
    if document["limits"] and (document["bound_asked"], document["bound"]) == ("auto", "interval"):
        notes.append(
            "no trial keeps the limits with the margin that the test rows call for: the winner keeps them on "
            "the interval of the validation rows, and the test rows may miss them"
        )
    if document["gates"] not in (None, "passed"):
        notes.append("the job’s gates do not pass on the test rows: `evenhand run` would not publish it")
    for limit in document["limits"]:
        found = (document["test"] or {}).get(limit["metric"], {}).get("value")
        if found is not None and not holds(limit, document["test"]):
            notes.append(f"on the test rows {limit['metric']} is {found:.3f}, which misses {limit['text']}")
    return notes


def write_study_page(store: Store, document: dict[str, Any]) -> None:
    """Write the page of a study as far as it is, and its address as ``report`` into the document."""
    name = document["study"]
    run = {"id": name, "created": now(), "environment": environment(), "files": [], "made": []}
    page = write_page("tune", {"tuning": document, "run": run}, store)
    document["report"] = store.write_text(page, STUDIES, name, "report.html")


def status(job: str, named: str | None, store: Store) -> dict[str, Any]:
    """Read the newest study of a job, or the named one, and write its page; `InputError` if there is none."""
    root = Path(store.local, STUDIES)
    found = sorted(root.glob("*/journal.log"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in found:
        study = Study(path.parent)
        identity = study.identity()
        if identity is None or identity["job"] != job or named not in (None, path.parent.name):
            continue
        # its own aim: the command may have been given another
        document = tuning(identity, None, path.parent.name, study.trials())
        write_study_page(store, document)
        return document
    raise InputError(f"there is no study of {job!r} in this store: run without --status first.")
