"""``evenhand ask``: one question at a time in the terminal, and a prediction from the answers."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from evenhand.data_contracts.column import value_text
from evenhand.fairlib.escaping import PlainLines, terminal_text
from evenhand.tasks.errors import InputError, NotCarriedOut, input_errors

if TYPE_CHECKING:
    from evenhand.fairlib.methods.dadi.questionnaire import Questionnaire
    from evenhand.tasks.pages.value_names import Names
    from evenhand.tasks.registry.bundle import ModelAddress

    Loaded = tuple[Questionnaire, Names, Mapping[str, str]]

INTERRUPTED = "interrupted: no answer was kept."
INPUT_ENDED = "the input ended before the questions did: no answer was kept."
INSTRUCTIONS = "Press Enter to skip a question."


@dataclass
class _Interview:
    """Answers so far by feature, features asked in order, and features that the person declined to
    answer.
    """

    names: Names = field(default_factory=dict)  # of coded values
    answers: dict[str, Any] = field(default_factory=dict)
    questions: list[str] = field(default_factory=list)
    declined: list[str] = field(default_factory=list)


def ask(model: str, known: Sequence[str] | None, as_json: bool, store_url: str | None) -> None:
    """Ask until the agent stops, and print its prediction. No answer is kept."""
    interview = _Interview()
    out = sys.stdout
    if as_json:
        out = PlainLines(sys.stderr)  # type: ignore[assignment]
    try:
        questionnaire, interview.names, label_names = _load(model, store_url)
        interview.answers |= _given(questionnaire, known or ())
        _ask_all(questionnaire, interview, out)
        result = _result(questionnaire, interview)
    except KeyboardInterrupt:
        raise NotCarriedOut(INTERRUPTED) from None
    if as_json:
        print(json.dumps(result))
    else:
        _print(questionnaire, label_names, result)


def _load(model: str, store_url: str | None) -> Loaded:
    """Load the questionnaire of a bundle's folder, or of a version in the registry.

    Also returns the names of coded values by column, and of the label's, for display; a folder has
    none.
    """
    from evenhand.tasks.registry.bundle import parse_address

    with input_errors():
        address = parse_address(model)
        if address.folder is None:
            loaded = _published(address, store_url)
        else:
            loaded = (_of_folder(address.folder, address.digest), {}, {})
    attribute = getattr(loaded[0].model, "decides_by", None)
    if attribute is not None:
        raise InputError(
            f"the model's decisions depend on {attribute!r}, which nobody is asked for: give it "
            "whole rows, or train it without decision.equal."
        )
    return loaded


def _of_folder(folder: Path, digest: str | None) -> Questionnaire:
    """Load a model from a folder or archive whose files are compared with its list first."""
    from evenhand.fairlib.methods.dadi.questionnaire import Questionnaire
    from evenhand.tasks.registry.bundle import checked_folder, read_bundle

    with tempfile.TemporaryDirectory() as scratch:
        bundle, notes = checked_folder(folder, Path(scratch), digest)
        for note in notes:
            print(terminal_text(f"evenhand: {note}"), file=sys.stderr)
        if (bundle / "evaluation.json").is_file():
            # compares the labels with those of the contract
            read_bundle(bundle, None, None, str(folder))
        return Questionnaire.load(bundle)


def _published(address: ModelAddress, store_url: str | None) -> Loaded:
    """Load a version from the registry; its files are deleted after they were read."""
    from evenhand.fairlib.methods.dadi.questionnaire import Questionnaire
    from evenhand.flows.runtime import prepare_environment, store_for_reading
    from evenhand.tasks.execution.store import Store
    from evenhand.tasks.registry.bundle import find_version
    from evenhand.tasks.registry.client import fetch_bundle, tracking_uri, value_names

    store_url = store_for_reading(store_url)
    prepare_environment(store_url)
    store = Store(store_url)
    registry = tracking_uri(store)
    version = find_version(registry, address).version
    with store.workdir() as scratch:
        folder = fetch_bundle(registry, address.name, version, scratch)
        try:
            names = value_names(registry, address.name, version)
            columns = json.loads((folder / "evaluation.json").read_text())["contract"]["columns"]
            label = next(column["name"] for column in columns if column["role"] == "label")
            return Questionnaire.load(folder), names, names.get(label, {})
        except ValueError:
            raise InputError(
                f"the model {address.name!r} asks no questions: only models of the method dadi do."
            ) from None


def _given(questionnaire: Questionnaire, pairs: Sequence[str]) -> dict[str, Any]:
    """Read the answers of the command line."""
    answers = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise InputError("--known wants NAME=VALUE, and one of them has no equals sign.")
        with input_errors("--known: "):
            answers[name] = _read(questionnaire, name, text)
    return answers


def _read(questionnaire: Questionnaire, name: str, text: str) -> Any:
    """Convert an answer to a value of the table's column; ValueError if it is not one."""
    from evenhand.fairlib.methods.dadi.questionnaire import MISSING

    value: str | None = text
    if text == MISSING:
        value = None
    questionnaire.check(name, value)
    return value


def _ask_all(questionnaire: Questionnaire, interview: _Interview, out: TextIO) -> None:
    """Ask questions until the agent stops."""
    while True:
        name = questionnaire.next_feature(interview.answers, excluded=interview.declined)
        if name is None:
            return
        if not interview.questions:
            print(INSTRUCTIONS, file=out)
        interview.questions.append(name)
        _ask(questionnaire, name, interview, out)


def _ask(questionnaire: Questionnaire, name: str, interview: _Interview, out: TextIO) -> None:
    """Ask one question until there is a valid answer, or the person skips it."""
    choices = questionnaire.choices(name) or []
    # choices that are numbers are not numbered: an answer would be ambiguous
    numbered = not any(choice.lstrip("-").replace(".", "", 1).isdigit() for choice in choices)
    print(f"\n{name}: {questionnaire.questions[name].description}", file=out)
    meanings = interview.names.get(name, {})
    if choices:
        _print_choices(choices, meanings, numbered, out)
    else:
        print(f"  {questionnaire.questions[name].expected}", file=out)
        for code, meaning in meanings.items():
            print(f"  {code}: {meaning}", file=out)
    while True:
        text = _line(out)
        if not text:
            interview.declined.append(name)
            return
        if numbered and text.isdecimal() and 1 <= int(text) <= len(choices):
            text = choices[int(text) - 1]
        try:
            interview.answers[name] = _read(questionnaire, name, text)
        except ValueError as error:
            print(f"  {error}", file=out)
            continue
        return


def _print_choices(
    choices: Sequence[str], meanings: Mapping[str, str], numbered: bool, out: TextIO
) -> None:
    """Print the choices of a question, with what coded values mean."""
    for place, choice in enumerate(choices, 1):
        line = choice
        if numbered:
            line = f"{place:>2}  {line}"
        if choice in meanings:
            line += f": {meanings[choice]}"
        print(f"  {line}", file=out)


def _line(out: TextIO) -> str:
    """Read one line from the terminal or a pipe."""
    print("> ", end="", file=out, flush=True)
    line = sys.stdin.readline()
    if not line:
        print(file=out)
        raise NotCarriedOut(INPUT_ENDED)
    return line.strip()


def _result(questionnaire: Questionnaire, interview: _Interview) -> dict[str, Any]:
    """Return the prediction and the names of the features that were asked; never an answer."""
    settled = {*interview.answers, *interview.declined}
    return questionnaire.predict(interview.answers) | {
        "asked": interview.questions,
        "declined": interview.declined,
        "known": list(interview.answers),
        "never_asked": [name for name in questionnaire.model.groups_ if name not in settled],
    }


def _print(
    questionnaire: Questionnaire, names: Mapping[str, str], result: Mapping[str, Any]
) -> None:
    positive_value = questionnaire.label_values[1]
    positive = names.get(value_text(positive_value), positive_value)
    answer = names.get(value_text(result["prediction"]), result["prediction"])
    print(f"\nprediction   {answer}")
    print(f"probability  {result['probability']:.3f} of {positive}")
    for key in ("asked", "declined", "never_asked"):
        if result[key]:
            print(f"{key.replace('_', ' '):11}  {', '.join(result[key])}")
