"""The second step of an audit's form: the columns of the uploaded table as choices, with guesses
that a person can change.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evenhand.fairlib.outcome_words import favourable_by_words
from evenhand.flows.app.uploads import Upload

PENDING = "audit upload"
# Seconds that an uploaded table waits in memory for the choice of its columns, and how many may.
LONGEST_WAIT_S = 600.0
MOST_WAITING = 4
# Before the name of a column in the form.
SENSITIVE = "sensitive "
# Parts of names, between marks that are no letters.
PREDICTED = ("probability", "prob", "proba", "score", "prediction", "predicted", "pred", "decision")
TRUE_OUTCOMES = ("label", "true", "actual", "outcome", "target", "truth", "observed", "y")
GROUPS = (
    "sex",
    "gender",
    "age",
    "race",
    "ethnicity",
    "ethnic",
    "religion",
    "disability",
    "nationality",
    "marital",
    "orientation",
    "geschlecht",
    "herkunft",
    "sexe",
    "sexo",
    "agegroup",
)


@dataclass(frozen=True)
class TableColumn:
    """A column of an uploaded table; `values` are given where they are few."""

    name: str
    is_number: bool = False
    is_share: bool = False
    values: Sequence[str] = ()

    def words(self) -> list[str]:
        """The parts of its name."""
        parts = re.split(r"[^a-zA-ZÀ-ɏ]+|(?<=[a-zà-ɏ])(?=[A-Z])", self.name)
        return [part.lower() for part in parts if part]


# compared by identity, so that a set can hold it without its content
@dataclass(eq=False)
class PendingAudit:
    """A table that was uploaded, in memory until its columns are chosen."""

    upload: Upload = field(repr=False)
    columns: Sequence[TableColumn]
    until: float  # by the clock of `time.monotonic`

    @property
    def shown_name(self) -> str:
        """The name that the browser gave the file."""
        return Path(self.upload.file_name.replace("\\", "/")).name[:100]


def columns_of(document: Mapping[str, Any]) -> list[TableColumn]:
    """The columns that the process of a table described."""
    return [TableColumn(**entry) for entry in document["columns"]]


def guesses(columns: Sequence[TableColumn]) -> dict[str, str]:
    """What the fields of the form begin with."""
    values = {}
    columns_in_use: set[str] = set()
    prediction = _guessed_prediction(columns)
    if prediction is not None:
        values["prediction"] = prediction.name
        columns_in_use.add(prediction.name)
    for column in _named(columns, GROUPS):
        values[f"{SENSITIVE}{column.name}"] = "yes"
        columns_in_use.add(column.name)
    label = _guessed_label([column for column in columns if column.name not in columns_in_use])
    if label is not None:
        values["label"] = label.name
    judged = label or prediction
    if judged is not None:
        values |= _guessed_outcome(judged)
    return values


def _guessed_prediction(columns: Sequence[TableColumn]) -> TableColumn | None:
    """The column with the predictions: by its name, one of shares first; else by its numbers."""
    by_name = _named(columns, PREDICTED)
    for column in by_name:
        if column.is_share:
            return column
    if by_name:
        return by_name[0]
    for column in columns:
        if column.is_share and len(column.values) != 2:
            return column
    return None


def _guessed_label(columns: Sequence[TableColumn]) -> TableColumn | None:
    """The column of two values with the true outcomes: by its name, else by its values."""
    with_two_values = [column for column in columns if len(column.values) == 2]
    for column in _named(with_two_values, TRUE_OUTCOMES):
        return column
    for column in with_two_values:
        if favourable_by_words(column.name, column.values):
            return column
    return None


def _guessed_outcome(judged: TableColumn) -> dict[str, str]:
    """The favourable and the positive value of the column that is judged, where words or codes
    name them.
    """
    values = {}
    outcome = favourable_by_words(judged.name, judged.values)
    if outcome is not None:
        favourable = value_choice(judged.name, judged.values[outcome.place])
        values = {"favourable": favourable, "positive": favourable}
    if {str(value) for value in judged.values} == {"0", "1"}:
        values["positive"] = value_choice(judged.name, "1")
    return values


def _named(columns: Sequence[TableColumn], words: Sequence[str]) -> list[TableColumn]:
    """Columns with one of some words in their name, in the order of the words."""
    matching = []
    for word in words:
        matching += [
            column for column in columns if word in column.words() and column not in matching
        ]
    return matching


def value_choice(column: str, value: str) -> str:
    """The value of a column as a choice of the form."""
    return json.dumps([column, value])


def chosen_options(
    fields: Mapping[str, str], columns: Sequence[TableColumn]
) -> tuple[dict[str, str], dict[str, str]]:
    """The options of the audit that a form chooses, and by field what is wrong with it."""
    names = [column.name for column in columns]
    prediction = fields.get("prediction", "")
    label = fields.get("label", "")
    sensitive = [name for name in names if fields.get(f"{SENSITIVE}{name}")]
    options = {
        "threshold": fields.get("threshold", "").strip(),
        "prediction": prediction,
        "sensitive": ",".join(sensitive),
        "label": label,
    }
    problems = {
        "prediction": _problem_of_prediction(prediction, names),
        "sensitive": _problem_of_sensitive(sensitive, (prediction, label)),
        "label": _problem_of_label(label, prediction, names),
    }
    for name in ("positive", "favourable"):
        choice = fields.get(name, "")
        if choice:
            options[name], problems[name] = _chosen_value(choice, label or prediction)
    stated = {name: text for name, text in options.items() if text}
    return stated, {name: text for name, text in problems.items() if text}


def _problem_of_prediction(prediction: str, names: Sequence[str]) -> str:
    """What is wrong with the chosen column of predictions; empty if nothing is."""
    if prediction not in names:
        return "Choose the column that has the predictions."
    return ""


def _problem_of_sensitive(sensitive: Sequence[str], others: Sequence[str]) -> str:
    """What is wrong with the chosen columns of groups; empty if nothing is."""
    if not sensitive:
        return "Choose at least one column whose groups are compared."
    for name in sensitive:
        if name in others:
            return f"{name} is chosen twice: choose other columns."
    if any("," in name for name in sensitive):
        return "A column with a comma in its name cannot be compared: rename it."
    return ""


def _problem_of_label(label: str, prediction: str, names: Sequence[str]) -> str:
    """What is wrong with the chosen column of true outcomes; empty if nothing is, or none is
    chosen.
    """
    if label and label == prediction:
        return "This column has the predictions: choose another one, or none."
    if label and label not in names:
        return "Choose one of the columns."
    return ""


def _chosen_value(choice: str, judged: str) -> tuple[str, str]:
    """The value of a choice, and what is wrong with it."""
    try:
        column, value = json.loads(choice)
    except (TypeError, ValueError):
        return "", "Choose one of the values."
    if column != judged:
        return str(value), f"This is a value of {column}: choose one of {judged}."
    return str(value), ""
