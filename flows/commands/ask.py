"""``evenhand ask``: one question at a time in the terminal, and a prediction from the answers."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TextIO

from evenhand.flows.commands.terminal import one_line_errors
from evenhand.tasks.errors import InputError, NotCarriedOut

if TYPE_CHECKING:
    from evenhand.fairlib.methods.dadi.questionnaire import Questionnaire
    from evenhand.tasks.addresses import ModelAddress

__all__ = ["ask_model"]

INTERRUPTED = "interrupted: no answer was kept."
ENDED = "the input ended before the questions did: no answer was kept."
HOW = "Press Enter at what you would rather not say; ? shows what is known so far."


@dataclass
class _Interview:
    """Answers so far, by feature; what was asked in order; what the person would rather not tell."""

    known: dict[str, Any] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    declined: list[str] = field(default_factory=list)


def ask_model(model: str, given: Sequence[str], *, as_json: bool, store_url: str | None) -> int:
    """Ask until the agent stops, print what it predicts, and return the exit code. No answer is kept."""
    interview, out = _Interview(), sys.stderr if as_json else sys.stdout
    with one_line_errors(interrupted=INTERRUPTED) as caught:
        questionnaire = _load(model, store_url)
        interview.known |= _given(questionnaire, given)
        _ask_all(questionnaire, interview, out)
        outcome = _outcome(questionnaire, interview)
    if caught.error is not None:
        if as_json:
            print(json.dumps({"error": str(caught.error)}))
        print(f"evenhand: {caught.error}", file=sys.stderr)
        return caught.error.exit_code
    if as_json:
        print(json.dumps(outcome))
    else:
        _print(questionnaire, outcome)
    return 0


def _load(model: str, store_url: str | None) -> Questionnaire:
    """Read a bundle's folder, or a version from the registry."""
    from evenhand.fairlib.methods.dadi.questionnaire import Questionnaire
    from evenhand.tasks.addresses import parse_address

    try:
        address = parse_address(model)
        if address.folder is not None:
            return Questionnaire.load(address.folder)
        return _published(address, store_url)
    except InputError:
        raise
    except ValueError as error:
        raise InputError(str(error)) from None


def _published(address: ModelAddress, store_url: str | None) -> Questionnaire:
    """Fetch a version from the registry; its files are read and gone."""
    from evenhand.fairlib.methods.dadi.questionnaire import Questionnaire
    from evenhand.flows.runtime import prepare_environment
    from evenhand.tasks.addresses import find_version
    from evenhand.tasks.registry import fetch_bundle, tracking_uri
    from evenhand.tasks.store import Store

    prepare_environment(store_url)
    store = Store(store_url)
    registry = tracking_uri(store)
    found = find_version(registry, address)
    with store.workdir() as scratch:
        folder = fetch_bundle(registry, address.name, found.version, scratch)
        try:
            return Questionnaire.load(folder)
        except ValueError:
            raise InputError(
                f"the model {address.name!r} asks nothing: only those of the method dadi do."
            ) from None


def _given(questionnaire: Questionnaire, pairs: Sequence[str]) -> dict[str, Any]:
    """Answers from the command line."""
    known = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise InputError("--known wants NAME=VALUE, and one of them has no equals sign.")
        try:
            known[name] = _read(questionnaire, name, text)
        except ValueError as error:
            raise InputError(f"--known: {error}") from None
    return known


def _read(questionnaire: Questionnaire, name: str, text: str) -> Any:
    """An answer as the table's column would hold it; ValueError if it is none."""
    from evenhand.fairlib.methods.dadi.questionnaire import MISSING

    value = None if text == MISSING else text
    questionnaire.check(name, value)
    return value


def _ask_all(questionnaire: Questionnaire, interview: _Interview, out: TextIO) -> None:
    """Put question after question, until the agent stops."""
    first = True
    while True:
        name = questionnaire.next_feature(interview.known, excluded=interview.declined)
        if name is None:
            return
        if first:
            print(HOW, file=out)
            first = False
        interview.asked.append(name)
        _ask(questionnaire, name, interview, out)


def _ask(questionnaire: Questionnaire, name: str, interview: _Interview, out: TextIO) -> None:
    """Put one question until there is an answer, or the person passes it by."""
    choices = questionnaire.choices(name) or []
    # where the values are numbers themselves, a number would be read in two ways
    numbered = not any(choice.lstrip("-").replace(".", "", 1).isdigit() for choice in choices)
    print(f"\n{name}: {questionnaire.questions[name].description}", file=out)
    for place, choice in enumerate(choices, 1):
        print(f"  {f'{place:>2}  ' if numbered else ''}{choice}", file=out)
    if not choices:
        print(f"  {questionnaire.expected(name)}", file=out)
    while True:
        text = _line(out)
        if not text:
            interview.declined.append(name)
            return
        if text == "?":
            _show(interview.known, out)
            continue
        if numbered and text.isdecimal() and 1 <= int(text) <= len(choices):
            text = choices[int(text) - 1]
        try:
            interview.known[name] = _read(questionnaire, name, text)
        except ValueError as error:
            print(f"  {error}", file=out)
            continue
        return


def _line(out: TextIO) -> str:
    """One line from the person, or from a pipe."""
    print("> ", end="", file=out, flush=True)
    line = sys.stdin.readline()
    if not line:
        print(file=out)
        raise NotCarriedOut(ENDED)
    return line.strip()


def _show(known: Mapping[str, Any], out: TextIO) -> None:
    for name, value in known.items():
        print(f"  {name} = {'(missing)' if value is None else value}", file=out)
    if not known:
        print("  nothing yet", file=out)


def _outcome(questionnaire: Questionnaire, interview: _Interview) -> dict[str, Any]:
    """What is printed in the end: names, never answers."""
    touched = {*interview.known, *interview.declined}
    return questionnaire.predict(interview.known) | {
        "asked": interview.asked,
        "declined": interview.declined,
        "known": list(interview.known),
        "never_asked": [name for name in questionnaire.model.groups_ if name not in touched],
    }


def _print(questionnaire: Questionnaire, outcome: Mapping[str, Any]) -> None:
    positive = questionnaire.label_values[1]
    print(f"\nprediction   {outcome['prediction']}")
    print(f"probability  {outcome['probability']:.3f} of {positive}")
    for key, words in (("asked", "asked"), ("declined", "not told"), ("never_asked", "never asked")):
        if outcome[key]:
            print(f"{words:11}  {', '.join(outcome[key])}")
