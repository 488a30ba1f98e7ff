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
    *(
        "sex",
        "gender",
        "age",
        "race",
        "ethnicity",
        "ethnic",
        "religion",
        "disability",
        "nationality",
    ),
    *("marital", "orientation", "geschlecht", "herkunft", "sexe", "sexo", "agegroup"),
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
    predicted = _named(columns, PREDICTED)
    shares = [column for column in columns if column.is_share and len(column.values) != 2]
    prediction = next((column for column in predicted if column.is_share), None)
    prediction = prediction or next(iter(predicted or shares), None)
    taken: set[str] = set()
    if prediction is not None:
        values["prediction"] = prediction.name
        taken.add(prediction.name)
    for column in _named(columns, GROUPS):
        values[f"{SENSITIVE}{column.name}"] = "yes"
        taken.add(column.name)
    left = [column for column in columns if column.name not in taken and len(column.values) == 2]
    worded = [column for column in left if favourable_by_words(column.name, column.values)]
    label = next(iter([*_named(left, TRUE_OUTCOMES), *worded]), None)
    if label is not None:
        values["label"] = label.name
    judged = label or prediction
    if judged is not None:
        outcome = favourable_by_words(judged.name, judged.values)
        if outcome is not None:
            values["favourable"] = value_choice(judged.name, judged.values[outcome.place])
        if {str(value) for value in judged.values} == {"0", "1"}:
            values["positive"] = value_choice(judged.name, "1")
        elif outcome is not None:
            values["positive"] = values["favourable"]
    return values


def _named(columns: Sequence[TableColumn], words: Sequence[str]) -> list[TableColumn]:
    """Columns with one of some words in their name, in the order of the words."""
    found = []
    for word in words:
        found += [column for column in columns if word in column.words() and column not in found]
    return found


def value_choice(column: str, value: str) -> str:
    """The value of a column as a choice of the form."""
    return json.dumps([column, value])


def chosen_options(
    fields: Mapping[str, str], columns: Sequence[TableColumn]
) -> tuple[dict[str, str], dict[str, str]]:
    """The options of the audit that a form chooses, and by field what is wrong with it."""
    names = [column.name for column in columns]
    errors = {}
    options = {"threshold": fields.get("threshold", "").strip()}
    prediction = fields.get("prediction", "")
    if prediction not in names:
        errors["prediction"] = "Choose the column that has the predictions."
    options["prediction"] = prediction
    sensitive = [name for name in names if fields.get(f"{SENSITIVE}{name}")]
    if not sensitive:
        errors["sensitive"] = "Choose at least one column whose groups are compared."
    if any("," in name for name in sensitive):
        errors["sensitive"] = "A column with a comma in its name cannot be compared: rename it."
    options["sensitive"] = ",".join(sensitive)
    label = fields.get("label", "")
    if label and label not in names:
        errors["label"] = "Choose one of the columns."
    options["label"] = label
    judged = label or prediction
    for name in ("positive", "favourable"):
        choice = fields.get(name, "")
        if choice:
            options[name], error = _chosen_value(choice, judged)
            if error:
                errors[name] = error
    twice = [name for name in sensitive if name in (prediction, label)]
    if twice:
        errors["sensitive"] = f"{twice[0]} is chosen twice: choose other columns."
    if label and label == prediction:
        errors["label"] = "This column has the predictions: choose another one, or none."
    return {name: text for name, text in options.items() if text}, errors


def _chosen_value(choice: str, judged: str) -> tuple[str, str]:
    """The value of a choice, and what is wrong with it."""
    try:
        column, value = json.loads(choice)
    except (TypeError, ValueError):
        return "", "Choose one of the values."
    if column != judged:
        return str(value), f"This is a value of {column}: choose one of {judged}."
    return str(value), ""
