"""An audit of an uploaded table of predictions, in a folder that is deleted, by a process with
limits: nothing of the table is kept.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenhand.flows.app.audit_choices import TableColumn, columns_of
from evenhand.flows.app.registry_views import Screen
from evenhand.flows.app.uploads import Upload
from evenhand.tasks.pages import formats
from evenhand.tasks.pages.page_model import Section, Table, Value
from evenhand.tasks.pages.texts import lack, metric_cell

AUDIT = "audit"
MOST_BYTES = 20 * 1024 * 1024
LONGEST_S = 120.0
FOUR_FIFTHS = 0.8
ENDINGS = (".csv", ".tsv", ".parquet")
COMMAND = (sys.executable, "-m", "evenhand.flows.app.audit_process")
COLUMNS_COMMAND = (sys.executable, "-m", "evenhand.flows.app.columns_process")
# Options of `evenhand audit` by the form's field, and the field's name for people.
OPTIONS = {
    "prediction": ("--prediction", "Predictions"),
    "sensitive": ("--sensitive", "Groups to compare"),
    "label": ("--label", "True outcome"),
    "positive": ("--positive", "Outcome that is predicted"),
    "favourable": ("--favourable", "Good outcome for a person"),
    "threshold": ("--threshold", "Threshold"),
}
# Variables that the process needs; it gets no key, no address and no password.
PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "PYTHONPATH", "VIRTUAL_ENV", "SYSTEMROOT")


@dataclass(frozen=True)
class Audit:
    """What a session keeps of an audit: its report as HTML, and a screen; no row of the table."""

    report: str
    screen: Screen


def file_errors(upload: Upload) -> dict[str, str]:
    """What is wrong with the file of the form, before anything is read."""
    if not upload.content:
        return {"file": "Choose a file that is not empty."}
    if _ending(upload) not in ENDINGS:
        return {"file": f"Choose a file that ends with {formats.join(list(ENDINGS), 'or')}."}
    return {}


def _ending(upload: Upload) -> str:
    return Path(upload.file_name.lower()).suffix


def carry_out(upload: Upload) -> Audit | str:
    """Audit an uploaded table; return the result, or in a sentence why there is none."""
    with tempfile.TemporaryDirectory(prefix="evenhand-audit-") as place:
        folder = Path(place)
        # the name that the browser gave is no path of ours
        table = _written(upload, folder)
        store = folder / "store"
        arguments = [*COMMAND, "audit", str(table), "--store", str(store), "--json"]
        for name, (option, _) in OPTIONS.items():
            text = upload.fields.get(name, "").strip()
            if text:
                arguments.append(f"{option}={text}")
        try:
            output = _output_of(arguments, folder)
        except subprocess.TimeoutExpired:
            return (
                "The audit took longer than two minutes and was ended: `evenhand audit` on your "
                "machine has no such limit."
            )
        return _result(output, store)


def read_columns(upload: Upload) -> list[TableColumn] | str:
    """The columns of an uploaded table, or in a sentence why they cannot be read."""
    with tempfile.TemporaryDirectory(prefix="evenhand-audit-") as place:
        folder = Path(place)
        arguments = [*COLUMNS_COMMAND, str(_written(upload, folder))]
        try:
            document = json.loads(_output_of(arguments, folder))
        except (subprocess.TimeoutExpired, ValueError):
            return "The table cannot be read: it may need more memory or time than it may use."
        if document.get("error"):
            return _in_words_of_the_form(str(document["error"]))
        return columns_of(document)


def _written(upload: Upload, folder: Path) -> Path:
    """The file of a form, in a folder that is deleted."""
    table = folder / f"predictions{_ending(upload)}"
    table.write_bytes(upload.content or b"")
    return table


def _output_of(arguments: Sequence[str], folder: Path) -> bytes:
    """What a process with few variables writes to stdout."""
    environment = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    done = subprocess.run(
        arguments,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=LONGEST_S,
        cwd=folder,
        env={**environment, "TMPDIR": str(folder)},
        check=False,
    )
    return done.stdout


def _result(output: bytes, store: Path) -> Audit | str:
    try:
        verdict = json.loads(output)
    except ValueError:
        verdict = {}
    reports = sorted(store.glob("runs/*/report.html"))
    if verdict.get("error"):
        return _in_words_of_the_form(str(verdict["error"]))
    if not reports:
        return "The audit could not be carried out: the table may need more memory than it may use."
    return Audit(reports[-1].read_text(encoding="utf-8"), _screen(verdict))


def _in_words_of_the_form(error: str) -> str:
    """An error of the command in the names of the form's fields."""
    for option, title in OPTIONS.values():
        error = error.replace(option, f"“{title}”")
    return formats.sentence(error)


def _screen(verdict: Mapping[str, Any]) -> Screen:
    metrics: Mapping[str, Any] = verdict["metrics"]
    names = [name for name in metrics if not name.endswith((".low", ".high"))]
    first = [name for name in names if name.startswith("impact_ratio.")]
    rows: list[list[Value]] = []
    for name in [*first, *[name for name in names if name not in first]]:
        interval = formats.interval(metrics.get(f"{name}.low"), metrics.get(f"{name}.high"))
        value: Value = lack("not enough people")
        if metrics[name] is not None:
            value = formats.number(metrics[name])
        rows.append([metric_cell(name), value, interval])
    lead = [_impact(name, metrics) for name in first if metrics[name] is not None]
    lead += [formats.sentence(f"{note}.") for note in _notes(verdict)]
    table = Table("Values of the audit", ["Metric", "Value", "95 % interval"], rows)
    return Screen("The audit", lead, [Section("values", "Values", [table])])


def _notes(verdict: Mapping[str, Any]) -> Sequence[str]:
    notes = [str(note).rstrip(".") for note in verdict.get("notes") or []]
    # the form has no gates
    return [note for note in notes if not note.lower().startswith("no gates")]


def _impact(name: str, metrics: Mapping[str, Any]) -> str:
    """The impact ratio of an attribute in a sentence."""
    interval = formats.interval(metrics.get(f"{name}.low"), metrics.get(f"{name}.high"))
    attribute = name.removeprefix("impact_ratio.")
    compared = "below" if metrics[name] < FOUR_FIFTHS else "not below"
    return (
        f"By {attribute}, the lowest rate of favourable decisions is "
        f"{formats.number(metrics[name])} times the highest (95 % interval {interval}): {compared} "
        "four fifths."
    )
