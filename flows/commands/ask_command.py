"""``evenhand ask``: one question at a time in the terminal, and a prediction from the answers."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from evenhand.data_contracts.init_notes import people_description
from evenhand.fairlib.escaping import PlainLines, terminal_text
from evenhand.flows.interview import Interview, open_agent, read_value
from evenhand.tasks.errors import InputError, NotCarriedOut, input_errors

if TYPE_CHECKING:
    from evenhand.fairlib.methods.dadi.questionnaire import Questionnaire

INTERRUPTED = "interrupted: no answer was kept."
INPUT_ENDED = "the input ended before the questions did: no answer was kept."
# Typed in place of an answer.
STOP = "."
INSTRUCTIONS = f'Press Enter to skip a question; type "{STOP}" to stop and decide.'


def ask(model: str, known: Sequence[str] | None, as_json: bool, store_url: str | None) -> None:
    """Ask until the agent or the person stops, and print the prediction. No answer is kept."""
    out = sys.stdout
    if as_json:
        out = PlainLines(sys.stderr)  # type: ignore[assignment]
    try:
        agent = open_agent(model, store_url)
        for note in agent.notes:
            print(terminal_text(f"evenhand: {note}"), file=sys.stderr)
        interview = Interview(agent)
        interview.answers |= _given(agent.questionnaire, known or ())
        _ask_all(interview, out)
        result = interview.result()
    except KeyboardInterrupt:
        raise NotCarriedOut(INTERRUPTED) from None
    if as_json:
        print(json.dumps(result))
    else:
        _print(interview, result)


def _given(questionnaire: Questionnaire, pairs: Sequence[str]) -> dict[str, Any]:
    """Read the answers of the command line."""
    answers = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise InputError("--known wants NAME=VALUE, and one of them has no equals sign.")
        with input_errors("--known: "):
            answers[name] = read_value(questionnaire, name, text)
    return answers


def _ask_all(interview: Interview, out: TextIO) -> None:
    """Ask questions until the agent or the person stops."""
    while True:
        name = interview.next_question()
        if name is None:
            return
        if not interview.questions:
            print(INSTRUCTIONS, file=out)
        _ask(name, interview, out)


def _ask(name: str, interview: Interview, out: TextIO) -> None:
    """Ask one question until there is a valid answer, or the person skips it or stops."""
    questionnaire = interview.agent.questionnaire
    choices = questionnaire.choices(name) or []
    # choices that are numbers are not numbered: an answer would be ambiguous
    numbered = not any(choice.lstrip("-").replace(".", "", 1).isdigit() for choice in choices)
    description = people_description(questionnaire.questions[name].description)
    print(f"\n{name}: {description}".rstrip(" "), file=out)
    meanings = interview.agent.names.get(name, {})
    if choices:
        _print_choices(choices, meanings, numbered, out)
    else:
        print(f"  {questionnaire.questions[name].expected}", file=out)
        for code, meaning in meanings.items():
            print(f"  {code}: {meaning}", file=out)
    print(f"  Why: {interview.why(name)}", file=out)
    for sentence in interview.cost(name):
        print(f"  {sentence}", file=out)
    while True:
        text = _line(out)
        if not text:
            interview.decline(name)
            return
        if text == STOP and STOP not in choices:
            interview.stop()
            return
        if numbered and text.isdecimal() and 1 <= int(text) <= len(choices):
            text = choices[int(text) - 1]
        try:
            interview.answer(name, text)
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


def _print(interview: Interview, result: Mapping[str, Any]) -> None:
    agent = interview.agent
    positive = agent.shown(agent.label, agent.questionnaire.label_values[1])
    print(f"\nprediction   {agent.shown(agent.label, result['prediction'])}")
    print(f"probability  {result['probability']:.1%} for “{positive}”")
    for key in ("asked", "declined", "never_asked"):
        if result[key]:
            print(f"{key.replace('_', ' '):11}  {', '.join(result[key])}")
    for name, reason in result["reasons_not_asked"].items():
        print(f"  {name}: {reason}")
