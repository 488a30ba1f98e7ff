"""What the app shows about one person: the form of the model's inputs, and the decision explained.

Nothing of a person is kept: values are in the form that was sent and in the page that answers it.
"""

from __future__ import annotations

import math
import shutil
import tempfile
import threading
import weakref
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evenhand.data_contracts.column import Column, value_text
from evenhand.data_contracts.init_notes import people_description
from evenhand.flows.app.registry_views import Screen
from evenhand.flows.case import open_model
from evenhand.tasks.cases.case_page import explanation_sections, headline
from evenhand.tasks.cases.explained_model import ExplainedModel, Wanted
from evenhand.tasks.errors import InputError
from evenhand.tasks.execution.store import Store
from evenhand.tasks.pages import formats
from evenhand.tasks.pages.page_model import Section
from evenhand.tasks.registry.policy import require_version

MOST_OPEN_MODELS = 4
MOST_OPTIONS = 400


@dataclass(frozen=True)
class InputField:
    """One field of the form, with what is wrong with its value."""

    name: str  # of the column
    label: str  # in words
    kind: str  # choice, number, date or text
    value: str = ""
    options: Sequence[tuple[str, str]] = ()  # value and what people read
    hint: str = ""
    step: str = "any"
    minimum: str = ""
    maximum: str = ""
    required: bool = False
    error: str = ""


@dataclass(frozen=True)
class PersonScreen:
    """The form, and below it the decision about the person, once there is one."""

    name: str
    version: str
    fields: Sequence[InputField]
    screen: Screen


@dataclass
class OpenModels:
    """Models that are loaded, the last ones that were asked for; one request uses one at a time.

    - `store`: store of the registry
    """

    store: Store
    _models: OrderedDict[tuple[str, str], ExplainedModel] = field(default_factory=OrderedDict)
    _scratch: dict[tuple[str, str], str] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def using(self, name: str, version: str) -> Iterator[ExplainedModel]:
        """Give the model of a version, whose content never changes.

        Raises `InputError` for a model that decides about no single person, such as a proxy.
        """
        require_version(name, version)
        with self._lock:
            model = self._models.pop((name, version), None)
            if model is None:
                model = self._opened(name, version)
            self._models[name, version] = model
            while len(self._models) > MOST_OPEN_MODELS:
                closed, _ = self._models.popitem(last=False)
                shutil.rmtree(self._scratch.pop(closed), ignore_errors=True)
            yield model

    def _opened(self, name: str, version: str) -> ExplainedModel:
        # files that a model reads later, such as the counts of its training rows, stay until it is
        # closed
        scratch = tempfile.mkdtemp(dir=self._folder)
        self._scratch[name, version] = scratch
        return open_model(f"models:/{name}/{version}", self.store, Path(scratch))

    def __post_init__(self) -> None:
        self._folder = tempfile.mkdtemp(prefix="evenhand-app-")
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)


def empty_form(models: OpenModels, name: str, version: str) -> PersonScreen:
    """The form for a person of whom nothing is known yet."""
    with models.using(name, version) as model:
        fields = [_field(model, column, "", "") for column in _columns(model)]
    return PersonScreen(name, version, fields, Screen(_title(name, version), [_lead()], []))


def _title(name: str, version: str) -> str:
    return f"One person, by {name} version {version}"


def _lead() -> str:
    return (
        "Enter a person as the table has them. Nothing that you enter is kept: the answer below "
        "the form is gone when you leave this page."
    )


def answered_form(
    models: OpenModels, name: str, version: str, answers: Mapping[str, str]
) -> tuple[PersonScreen, bool]:
    """The form with its values, and the decision about them, or what is wrong with each.

    Returns the screen, and whether there is a decision.
    """
    with models.using(name, version) as model:
        values, errors = _values(model, answers)
        sections: list[Section] = []
        lead = [_lead()]
        if not errors:
            try:
                person = model.person_of(values)
            except InputError as error:
                errors = _error_of_contract(model, error)
            else:
                (parts,) = model.explain([person], Wanted())
                case = {**parts, "reviews": [], "replays": []}
                lead = headline(case)
                sections = list(explanation_sections(case))
        if errors:
            lead = ["**Nothing was decided**: see the fields below that are marked."]
        fields = []
        for column in _columns(model):
            text = answers.get(column.name, "").strip()
            fields.append(_field(model, column, text, errors.get(column.name, "")))
    return PersonScreen(name, version, fields, Screen(_title(name, version), lead, sections)), (
        not errors
    )


def _columns(model: ExplainedModel) -> list[Column]:
    """The model's inputs, in the order of the contract."""
    return [model.words.column(name) for name in model.inputs_in_order]


def _field(model: ExplainedModel, column: Column, value: str, error: str) -> InputField:
    label = formats.sentence(model.spoken(column.name))
    if column.unit:
        label = f"{label} ({column.unit})"
    base: dict[str, Any] = {
        "name": column.name,
        "label": label,
        "value": value,
        "error": error,
        "required": column.required,
    }
    listed = column.allowed
    if column.logical_type == "boolean":
        listed = (False, True)
    if listed is not None and len(listed) <= MOST_OPTIONS:
        options = [(value_text(item), model.shown(column.name, item)) for item in listed]
        return InputField(kind="choice", options=options, hint=_described(column), **base)
    if column.is_numeric:
        return InputField(
            kind="number",
            hint=_number_hint(column),
            step="1" if column.logical_type == "integer" else "any",
            minimum=_bound(column.minimum),
            maximum=_bound(column.maximum),
            **base,
        )
    if column.logical_type == "date":
        hint = " ".join(text for text in (_described(column), _day_hint(column)) if text)
        return InputField(kind="date", hint=hint, **base)
    return InputField(kind="text", hint=_described(column), **base)


def _described(column: Column) -> str:
    """What the contract says about a column, if a person wrote it."""
    return people_description(column.description)


def _bound(value: Any) -> str:
    return "" if value is None else value_text(value)


def _number_hint(column: Column) -> str:
    """The description, and which numbers the contract allows: ``A whole number from 0 to 10.``"""
    kind = "A whole number" if column.logical_type == "integer" else "A number"
    return " ".join(text for text in (_described(column), _range(kind, column)) if text)


def _day_hint(column: Column) -> str:
    """Which days the contract allows; empty for all."""
    if column.minimum is None and column.maximum is None:
        return ""
    return _range("A day", column)


def _range(kind: str, column: Column) -> str:
    low = _written(column.minimum)
    high = _written(column.maximum)
    if low and high:
        return f"{kind} from {low} to {high}."
    if low:
        return f"{kind} of at least {low}." if column.is_numeric else f"{kind} not before {low}."
    if high:
        return f"{kind} of at most {high}." if column.is_numeric else f"{kind} not after {high}."
    return f"{kind}."


def _written(value: Any) -> str:
    """A bound as people read it: ``100,000``."""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return _bound(value)


def _values(
    model: ExplainedModel, answers: Mapping[str, str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Typed values of the answers, and by column what is wrong."""
    values: dict[str, Any] = {}
    errors = {}
    for column in _columns(model):
        text = answers.get(column.name, "").strip()
        if not text:
            values[column.name] = None
            if column.required:
                errors[column.name] = "Give a value."
            continue
        try:
            values[column.name] = _typed(column, text)
        except ValueError as error:
            errors[column.name] = str(error)
    return values, errors


def _typed(column: Column, text: str) -> Any:
    """The value of a text; a ValueError says in a sentence what was expected."""
    listed = column.allowed
    if column.logical_type == "boolean":
        listed = (False, True)
    if listed is not None:
        for item in listed:
            if value_text(item) == text:
                return item
        raise ValueError("Choose one of the values.")
    if not column.is_numeric:
        return text
    whole = column.logical_type == "integer"
    try:
        number = int(text) if whole else float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError("Give a whole number." if whole else "Give a number.")
    if column.minimum is not None and number < float(str(column.minimum)):
        raise ValueError(f"Give {_bound(column.minimum)} or more.")
    if column.maximum is not None and number > float(str(column.maximum)):
        raise ValueError(f"Give {_bound(column.maximum)} or less.")
    return number


def _error_of_contract(model: ExplainedModel, error: InputError) -> dict[str, str]:
    """The fault that the contract found, at the column that it names."""
    text = str(error)
    for name in model.features:
        if f"the value of {name} breaks" in text:
            return {name: text}
    raise error
