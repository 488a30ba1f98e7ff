"""A trained agent for one person, in the table's own values: the next question, and the
prediction.
"""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd

from evenhand.fairlib.arrays import Float, Float32
from evenhand.fairlib.methods.decided import labels_of
from evenhand.fairlib.methods.registry import load_model
from evenhand.fairlib.preprocessing.encoder import (
    DATE_KINDS,
    NUMERIC_KINDS,
    TRUTH,
    TableEncoder,
    category_name,
)

MISSING = "(missing)"
INPUTS_FILE = "inputs.json"


@dataclass(frozen=True)
class Question:
    """Description of a feature and of its valid values."""

    description: str  # one sentence
    type: str  # string, integer, number, boolean or date
    allowed: Sequence[Any] | None = None  # the valid values; None: any value of the type
    # inclusive bounds, of a date as text
    minimum: Any = None
    maximum: Any = None
    unit: str | None = None  # of a number

    @property
    def expected(self) -> str:
        """Description of a number or a date with its bounds."""
        kinds = {"integer": "a whole number", "date": "a date such as 2024-01-31"}
        kind = kinds.get(self.type, "a number")
        kind += f" of {self.unit}" if self.unit else ""
        bounds = self.minimum, self.maximum
        low, high = (None if bound is None else category_name(bound) for bound in bounds)
        if low is not None and high is not None:
            return f"{kind} from {low} to {high}"
        if low is not None:
            return f"{kind}, at least {low}"
        return kind if high is None else f"{kind}, at most {high}"


class Questionnaire:
    """Questions and predictions of a published agent for one person.

    The encoder is fitted with the columns of the model's matrix, and the model, a DADIClassifier or
    a DecidedModel of one, with one group for each column of the table, under its name. There is a
    question for every model input.

    Parameters
    ----------
    encoder : TableEncoder
    model : DADIClassifier or DecidedModel
    questions : mapping of str to Question
        By name of the feature.
    label_values : sequence
        The label's own values for 0 and 1.
    """

    def __init__(
        self,
        encoder: TableEncoder,
        model: Any,
        questions: Mapping[str, Question],
        label_values: Sequence[Any],
    ) -> None:
        self.encoder = encoder
        self.model = model
        self.label_values = tuple(label_values)
        self._fitted = {item.name: item for item in encoder.fitted_}
        self._position = {name: group for group, name in enumerate(model.groups_)}
        self.questions = {
            name: questions[name] for name, group in self._position.items() if model.allowed_[group]
        }

    @classmethod
    def load(cls, bundle: str | Path) -> Self:
        """Read a published bundle: ``encoder.json``, ``inputs.json`` and ``model/``.

        Parameters
        ----------
        bundle : str or Path
            Its folder.

        Returns
        -------
        Questionnaire

        Raises
        ------
        ValueError
            If the folder holds no model that asks for features.
        """
        folder = Path(bundle)
        if not (folder / INPUTS_FILE).is_file():
            raise ValueError(
                f"{folder} has no {INPUTS_FILE}: give the folder of a published model."
            )
        inputs = json.loads((folder / INPUTS_FILE).read_text())
        if "questions" not in inputs:
            raise ValueError(
                f"the model in {folder} asks no questions: give a model of the method dadi."
            )
        return cls(
            TableEncoder.load(folder / "encoder.json"),
            load_model(folder / "model"),
            {name: Question(**question) for name, question in inputs["questions"].items()},
            inputs["label_values"],
        )

    def choices(self, name: str) -> list[str] | None:
        """Names of a feature's valid values.

        Parameters
        ----------
        name : str

        Returns
        -------
        list of str, or None
            None for a number or a date.
        """
        item = self._fitted[name]
        allowed = self.questions[name].allowed
        if item.kind in NUMERIC_KINDS:
            if allowed is None:
                return None
            return [category_name(value) for value in allowed]
        if allowed is None:
            return list(item.categories)
        names = [category_name(value) for value in allowed]
        if self.encoder.unseen != "ignore":
            names = [value for value in names if value in item.categories]
        if MISSING in item.categories:
            names.append(MISSING)
        return names

    def next_feature(
        self, known: Mapping[str, Any], *, excluded: Collection[str] = ()
    ) -> str | None:
        """Feature of the highest value among those left to ask.

        Parameters
        ----------
        known : mapping of str to value
            The answers so far, as values of the table's columns.
        excluded : collection of str
            Features not to ask for, such as those that the person declined.

        Returns
        -------
        str or None
            None if stopping has at least this value.

        Raises
        ------
        ValueError
            As :meth:`check`.
        """
        values = self._values(known, excluded)
        best = int(values[:-1].argmax())
        if values[best] <= values[-1]:
            return None
        return list(self._position)[best]

    def worth(
        self, known: Mapping[str, Any], *, excluded: Collection[str] = ()
    ) -> dict[str, float]:
        """What each feature that is left is worth beyond stopping now.

        Parameters
        ----------
        known : mapping of str to value
            The answers so far, as values of the table's columns.
        excluded : collection of str
            Features not to ask for, such as those that the person declined.

        Returns
        -------
        dict of str to float
            In nats of the agent's reward: above 0 for features that the agent would ask for, the
            largest first. What is known, excluded or never asked for is left out.

        Raises
        ------
        ValueError
            As :meth:`check`.
        """
        values = self._values(known, excluded)
        beyond = values[:-1] - values[-1]
        worth = {}
        for position in np.argsort(-beyond, kind="stable"):
            if np.isfinite(beyond[position]):
                worth[list(self._position)[position]] = float(beyond[position])
        return worth

    def _values(self, known: Mapping[str, Any], excluded: Collection[str]) -> Float:
        """Value of asking for each feature, minus infinity where it is not to be asked for, and of
        stopping.
        """
        for name in excluded:
            self._require(name)
        values: Float = self.model.action_values(*self._state(known))[0]
        values[[self._position[name] for name in excluded]] = -np.inf
        return values

    def predict(self, known: Mapping[str, Any]) -> dict[str, Any]:
        """Predict from the known features.

        Parameters
        ----------
        known : mapping of str to value
            The answers so far, as values of the table's columns.

        Returns
        -------
        dict
            ``prediction``, one of the label's own values, and the ``probability`` of the positive
            one.

        Raises
        ------
        ValueError
            As :meth:`check`.
        """
        row, mask = self._state(known)
        probability = self.model.predict_proba_known(row, mask)[:, 1]
        decided = labels_of(self.model, probability, row)[0] == self.model.classes_[1]
        return {"prediction": self.label_values[int(decided)], "probability": float(probability[0])}

    def _require(self, name: str) -> None:
        if name in self.questions:
            return
        reason = "is never asked for" if name in self._position else "is no feature of this model"
        raise ValueError(f"{name!r} {reason}; there are {', '.join(self.questions)}.")

    def _state(
        self, known: Mapping[str, Any]
    ) -> tuple[Float32, np.ndarray[Any, np.dtype[np.bool_]]]:
        """One row of the matrix, and its known groups."""
        mask = np.zeros((1, len(self._position)), bool)
        row = {name: _placeholder(item) for name, item in self._fitted.items()}
        for name, value in known.items():
            row[name] = self.check(name, value)
            mask[0, self._position[name]] = True
        table = pd.DataFrame({name: [value] for name, value in row.items()})
        return self.encoder.transform(table), mask

    def check(self, name: str, value: Any) -> Any:
        """Check an answer.

        Parameters
        ----------
        name : str
        value : any
            None for a missing one.

        Returns
        -------
        any
            The answer as the encoder takes it.

        Raises
        ------
        ValueError
            For an unknown name, or an invalid value; the message does not quote the value.
        """
        self._require(name)
        item = self._fitted[name]
        question = self.questions[name]
        if _is_missing(value):
            if not (item.indicates_missing or MISSING in item.categories):
                raise ValueError(f"{name} needs a value: leave it out if it is unknown.")
            return None
        choices = self.choices(name)
        if question.type == "boolean":
            value = TRUTH.get(str(value).strip().lower(), value)
        if choices is not None and category_name(value) not in choices:
            raise ValueError(f"{name}: no such value; expected one of {', '.join(choices)}.")
        if item.kind in ("standard", "unit"):
            return _number(name, value, question)
        if item.kind in DATE_KINDS:
            return _date(name, value, question)
        return value


def _placeholder(item: Any) -> Any:
    """A valid value for an unknown feature; no output depends on it."""
    if item.kind in DATE_KINDS:
        return pd.Timestamp("1970-01-01")
    if item.kind in ("standard", "unit"):
        return item.mean
    return item.categories[0]


def _is_missing(value: Any) -> bool:
    return value is None or value is pd.NaT or (isinstance(value, float) and math.isnan(value))


def _number(name: str, value: Any, question: Question) -> float:
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    whole = question.type != "integer" or number.is_integer()
    if not (math.isfinite(number) and whole and _within(number, question, float)):
        raise ValueError(f"{name}: expected {question.expected}.")
    return number


def _date(name: str, value: Any, question: Question) -> datetime.date:
    try:
        day = value if isinstance(value, datetime.date) else datetime.date.fromisoformat(str(value))
    except ValueError:
        day = None
    if isinstance(day, datetime.datetime):
        day = day.date()
    if day is None or not _within(day, question, datetime.date.fromisoformat):
        raise ValueError(f"{name}: expected {question.expected}.")
    return day


def _within(value: Any, question: Question, read: Any) -> bool:
    low = question.minimum
    high = question.maximum
    return (low is None or value >= read(low)) and (high is None or value <= read(high))
