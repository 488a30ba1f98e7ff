"""What the app shows of an interview: its beginning, one question at a time, and the decision.

The answers are in the session of the person who enters them, in memory. They end with it, with the
next interview, or when the person deletes them; no address, log or file has one.
"""

from __future__ import annotations

import tempfile
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evenhand.data_contracts.init_notes import people_description
from evenhand.fairlib.catalogue import spoken
from evenhand.fairlib.methods.dadi.questionnaire import MISSING
from evenhand.flows.app.registry_views import Screen
from evenhand.flows.app.sessions import Session
from evenhand.flows.interview import Agent, Interview, agent_of_version, checked_agent
from evenhand.tasks.pages import formats
from evenhand.tasks.pages.page_model import Section, Table, Value

MOST_OPEN_AGENTS = 4
# More choices than this are a list that unfolds.
MOST_RADIOS = 12
INTERVIEW = "interview"


@dataclass
class OpenAgents:
    """Agents that are loaded, the last ones that were asked for.

    - `registry`: its address
    """

    registry: str
    lock: threading.RLock = field(default_factory=threading.RLock)
    _agents: OrderedDict[tuple[str, str], Agent] = field(default_factory=OrderedDict)

    def agent(self, name: str, version: str) -> Agent:
        """The agent of a version, whose content never changes; an `InputError` if it asks
        nothing.
        """
        with self.lock:
            agent = self._agents.pop((name, version), None)
            if agent is None:
                with tempfile.TemporaryDirectory(prefix="evenhand-app-") as scratch:
                    opened = agent_of_version(self.registry, name, version, Path(scratch))
                agent = checked_agent(opened)
            self._agents[name, version] = agent
            while len(self._agents) > MOST_OPEN_AGENTS:
                self._agents.popitem(last=False)
            return agent


@dataclass(frozen=True)
class Begun:
    """The interview of a session, and the version that asks."""

    name: str
    version: str
    interview: Interview


@dataclass(frozen=True)
class QuestionScreen:
    """One question.

    - `number`: how many were answered or skipped before it; a form for another number is an old one
    """

    feature: str
    title: str
    description: str
    number: int
    most: int
    kind: str  # radio, choice, number, date or text
    why: Sequence[str]
    options: Sequence[tuple[str, str]] = ()  # value and what people read
    unit: str = ""
    hint: str = ""
    value: str = ""
    error: str = ""


def interview_of(session: Session, name: str, version: str) -> Interview | None:
    """The session's interview by a version; None if there is none."""
    begun = session.kept.get(INTERVIEW)
    if isinstance(begun, Begun) and (begun.name, begun.version) == (name, version):
        return begun.interview
    return None


def begin_interview(agents: OpenAgents, session: Session, name: str, version: str) -> None:
    """Begin an interview in place of the one that the session had."""
    interview = Interview(agents.agent(name, version))
    session.kept[INTERVIEW] = Begun(name, version, interview)


def delete_interview(session: Session) -> None:
    """Forget the answers of a session."""
    session.kept.pop(INTERVIEW, None)


def begin_screen(agent: Agent, name: str, version: str) -> Screen:
    """What will be asked, and what becomes of the answers."""
    questions = agent.questionnaire.questions
    attributes = formats.join(
        [_spoken(attribute) for attribute in agent.questionnaire.model.attributes_]
    )
    lead = [
        f"The model asks at most {formats.plural(len(questions), 'question')}, one at a time, and "
        f"stops when another answer would reveal more about {attributes} than it would help.",
        "Any question can be skipped, and the person can stop at any time: the model then decides "
        "from the answers so far.",
        "Answers stay in the memory of this session. They are not written, logged or printed, and "
        "are gone when the interview is deleted, when you sign out, or after 30 minutes without "
        "use.",
    ]
    return Screen(f"Ask a person, by {name} version {version}", lead, [])


def question_screen(interview: Interview, text: str = "", error: str = "") -> QuestionScreen | None:
    """The question to ask now, perhaps with an answer that was none; None at the end."""
    name = interview.next_question()
    if name is None:
        return None
    agent = interview.agent
    question = agent.questionnaire.questions[name]
    choices = agent.questionnaire.choices(name)
    base: dict[str, Any] = {
        "feature": name,
        "title": _title(name),
        "description": people_description(question.description),
        "number": len(interview.questions),
        "most": len(agent.questionnaire.questions),
        "why": [interview.why(name), *interview.cost(name)],
        "value": text,
        "error": error,
    }
    if choices is not None:
        options = [(choice, _choice_words(agent, name, choice)) for choice in choices]
        kind = "radio" if len(options) <= MOST_RADIOS else "choice"
        return QuestionScreen(kind=kind, options=options, **base)
    kind = "date" if question.type == "date" else "number"
    hint = formats.sentence(f"{question.expected}.")
    meanings = agent.names.get(name, {})
    for code, meaning in meanings.items():
        hint += f" {code}: {meaning}."
    return QuestionScreen(kind=kind, hint=hint, unit=question.unit or "", **base)


def _spoken(name: str) -> str:
    return str(spoken(name.replace("-", " ")))


def _title(name: str) -> str:
    return formats.sentence(_spoken(name))


def _choice_words(agent: Agent, name: str, choice: str) -> str:
    if choice == MISSING:
        return "not known"
    return agent.names.get(name, {}).get(choice, choice)


def answer_question(interview: Interview, feature: str, text: str) -> str:
    """Keep an answer; return what is wrong with it, or nothing."""
    question = interview.agent.questionnaire.questions[feature]
    if not text:
        return "Give an answer, or choose “I would rather not say”."
    try:
        interview.answer(feature, text)
    except ValueError:
        # the message for the terminal begins with the column's name and may list many values
        if interview.agent.questionnaire.choices(feature) is not None:
            return "Choose one of the answers."
        return f"Give {question.expected}."
    return ""


def end_screen(interview: Interview) -> Screen:
    """The decision, what was answered, and which questions were not asked, with the reason."""
    agent = interview.agent
    result = interview.result()
    positive = agent.shown(agent.label, agent.questionnaire.label_values[1])
    decision = agent.shown(agent.label, result["prediction"])
    share = formats.percent(result["probability"])
    questions_asked = formats.plural(len(result["asked"]), "question")
    ended = f"The model stopped after {questions_asked}."
    if result["stopped"]:
        ended = (
            f"The interview was stopped after {questions_asked}, before the model would have "
            "stopped."
        )
    lead = [
        f"The decision is “{decision}” ({_spoken(agent.label)}); the model gives “{positive}” a "
        f"probability of {share}.",
        ended,
    ]
    sections = []
    rows: list[list[Value]] = []
    for name in result["asked"]:
        value = "not answered"
        if name in interview.answers:
            value = _answer_words(agent, name, interview.answers[name])
        rows.append([_title(name), value])
    if rows:
        table = Table("Answers, in the order of the questions", ["Question", "Answer"], rows)
        sections.append(Section("answers", "What was asked", [table]))
    reasons: list[list[Value]] = []
    for name, reason in result["reasons_not_asked"].items():
        reasons.append([_title(name), reason])
    if reasons:
        table = Table("Questions that were not asked", ["Question", "Why not"], reasons)
        note = (
            "A question is asked while its value is above that of deciding now. The value, in nats "
            "of the model's reward, is what the answer is expected to help, less what it would "
            "reveal."
        )
        sections.append(Section("not-asked", "What was not asked, and why", [note, table]))
    return Screen("The decision", lead, sections)


def _answer_words(agent: Agent, name: str, value: Any) -> str:
    if value is None:
        return _choice_words(agent, name, MISSING)
    words = _choice_words(agent, name, str(value))
    unit = agent.questionnaire.questions[name].unit
    return f"{words} {unit}" if unit else words
