"""An interview by a published agent: the answers so far, the next question and why it is asked,
the decision, and why the other questions were not asked.

`evenhand ask` has one in the terminal and `evenhand app` one in a browser. Answers are in memory
only: no function here writes or logs one.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenhand.data_contracts.column import value_text
from evenhand.fairlib.decision_words import decision_words
from evenhand.tasks.errors import InputError, input_errors

if TYPE_CHECKING:
    from evenhand.fairlib.methods.dadi.questionnaire import Questionnaire
    from evenhand.tasks.pages.value_names import Names
    from evenhand.tasks.registry.bundle import ModelAddress

# Differences of values are shown with so many digits.
SHOWN_DIGITS = 3


@dataclass(frozen=True)
class Agent:
    """A published agent, with the words of its contract.

    - `names`: names of coded values by column, of the label too
    - `label`: column of the label; empty for a folder
    - `notes`: warnings about the model's files
    """

    questionnaire: Questionnaire
    names: Names = field(default_factory=dict)
    label: str = ""
    notes: tuple[str, ...] = ()

    def shown(self, name: str, value: Any) -> str:
        """A value as people read it, by the contract's names of values; of the label 1 and 0 with
        its name.
        """
        text = value_text(value)
        value_name = self.names.get(name, {}).get(text)
        if value_name is None and name and name == self.label:
            return decision_words(name, text)
        return value_name or text


@dataclass
class Interview:
    """One person's interview; the answers end with it.

    - `answers`: by feature, as the table has them; from the start too
    - `questions`: features that were asked, in order
    - `declined`: features that the person declined to answer
    - `is_stopped`: whether the person asked for the decision before the agent stopped
    """

    agent: Agent
    answers: dict[str, Any] = field(default_factory=dict)
    questions: list[str] = field(default_factory=list)
    declined: list[str] = field(default_factory=list)
    is_stopped: bool = False

    def next_question(self) -> str | None:
        """The feature to ask for now; None where the interview has ended."""
        if self.is_stopped:
            return None
        return self.agent.questionnaire.next_feature(self.answers, excluded=self.declined)

    def answer(self, name: str, text: str) -> None:
        """Keep an answer; a ValueError says in a sentence what was expected."""
        self.answers[name] = read_value(self.agent.questionnaire, name, text)
        self.questions.append(name)

    def decline(self, name: str) -> None:
        """Ask for this feature no more."""
        self.declined.append(name)
        self.questions.append(name)

    def stop(self) -> None:
        """Decide from the answers so far."""
        self.is_stopped = True

    def go_back(self) -> None:
        """Ask the last question again, as if it had not been answered."""
        if self.is_stopped:
            self.is_stopped = False
            return
        if not self.questions:
            return
        name = self.questions.pop()
        self.answers.pop(name, None)
        if name in self.declined:
            self.declined.remove(name)

    def result(self) -> dict[str, Any]:
        """The prediction and the names of the features that were asked; never an answer."""
        questionnaire = self.agent.questionnaire
        reasons = self.reasons_not_asked()
        return questionnaire.predict(self.answers) | {
            "asked": self.questions,
            "declined": self.declined,
            "known": list(self.answers),
            "never_asked": [name for name in questionnaire.model.groups_ if name in reasons],
            "reasons_not_asked": reasons,
            "stopped": self.is_stopped,
        }

    # what a person reads

    def why(self, name: str) -> str:
        """Why this question is the next one."""
        worth = self.agent.questionnaire.worth(self.answers, excluded=self.declined)
        subject = "This is the only question left"
        if len(worth) > 1:
            subject = f"Of the {len(worth)} questions left, the model values this answer most"
        return (
            f"{subject}: it should help more than it reveals, by {_nats(worth[name])} of the "
            "model's reward."
        )

    def cost(self, name: str) -> list[str]:
        """What the answer costs the person: what it reveals, and the cost that the job sets."""
        model = self.agent.questionnaire.model
        sentences = []
        aucs = model.feature_report_["groups"].get(name, {})
        attributes = " and ".join(model.attributes_)
        reveals = aucs.get("adversary_auc")
        helps = aucs.get("classifier_auc")
        if reveals is not None:
            sentences.append(
                f"What it reveals: this answer alone predicts {attributes} with AUC {reveals:.2f}, "
                "where 0.50 is chance and 1 is perfect."
            )
        if helps is not None:
            sentences.append(f"What it helps: it alone predicts the outcome with AUC {helps:.2f}.")
        cost = (model.costs or {}).get(name, 0.0)
        if cost > 0:
            sentences.append(f"Cost of asking, set by the model's job: {_nats(cost)}.")
        if not sentences:
            sentences.append("What it reveals alone was not measured.")
        return sentences

    def reasons_not_asked(self) -> dict[str, str]:
        """Features that were neither asked nor known from the start, each with the reason."""
        questionnaire = self.agent.questionnaire
        model = questionnaire.model
        worth = questionnaire.worth(self.answers, excluded=self.declined)
        reasons = {}
        for name in model.groups_:
            if name in self.answers or name in self.declined:
                continue
            if name in model.attributes_:
                reasons[name] = "never asked: the model must not use it"
            elif name not in questionnaire.questions:
                reasons[name] = "never asked: everybody had the same value in training"
            elif worth[name] > 0:
                reasons[name] = "the interview was stopped before it"
            else:
                reasons[name] = f"worth {_nats(-worth[name])} less than to decide without it"
        return reasons


def _nats(value: float) -> str:
    smallest = 10.0**-SHOWN_DIGITS
    if abs(value) < smallest:
        return f"less than {smallest:g} nats"
    return f"{value:.{SHOWN_DIGITS}f} nats"


def read_value(questionnaire: Questionnaire, name: str, text: str) -> Any:
    """Convert an answer to a value of the table's column; ValueError if it is not one."""
    from evenhand.fairlib.methods.dadi.questionnaire import MISSING

    value: str | None = text
    if text == MISSING:
        value = None
    questionnaire.check(name, value)
    return value


def open_agent(model: str, store_url: str | None) -> Agent:
    """Open the agent of a bundle's folder, or of a version in the registry.

    Raises `InputError` for a model that asks no questions.
    """
    from evenhand.tasks.registry.bundle import parse_address

    with input_errors():
        address = parse_address(model)
        if address.folder is None:
            agent = _of_registry(address, store_url)
        else:
            agent = _of_folder(address.folder, address.digest)
    return checked_agent(agent)


def checked_agent(agent: Agent) -> Agent:
    """The agent; an `InputError` if its decisions need an attribute that nobody is asked for."""
    attribute = getattr(agent.questionnaire.model, "decides_by", None)
    if attribute is not None:
        raise InputError(
            f"the model's decisions depend on {attribute!r}, which nobody is asked for: give it "
            "whole rows, or train it without decision.equal."
        )
    return agent


def _of_folder(folder: Path, digest: str | None) -> Agent:
    """Open a model from a folder or archive whose files are compared with its list first."""
    from evenhand.fairlib.methods.dadi.questionnaire import Questionnaire
    from evenhand.tasks.registry.bundle import checked_folder, read_bundle

    with tempfile.TemporaryDirectory() as scratch:
        bundle, notes = checked_folder(folder, Path(scratch), digest)
        if (bundle / "evaluation.json").is_file():
            # compares the labels with those of the contract
            read_bundle(bundle, None, None, str(folder))
        return Agent(Questionnaire.load(bundle), notes=tuple(notes))


def _of_registry(address: ModelAddress, store_url: str | None) -> Agent:
    from evenhand.flows.runtime import prepare_environment, store_for_reading
    from evenhand.tasks.execution.store import Store
    from evenhand.tasks.registry.bundle import find_version
    from evenhand.tasks.registry.client import tracking_uri

    store_url = store_for_reading(store_url)
    prepare_environment(store_url)
    store = Store(store_url)
    registry = tracking_uri(store)
    version = find_version(registry, address).version
    with store.workdir() as scratch:
        return agent_of_version(registry, address.name, version, scratch)


def agent_of_version(registry: str, name: str, version: str, scratch: Path) -> Agent:
    """Open the agent of a version; its files are copied into `scratch` and read there.

    Raises `InputError` if the registry has no such version, or it asks no questions.
    """
    from evenhand.fairlib.methods.dadi.questionnaire import Questionnaire
    from evenhand.tasks.registry.client import fetch_bundle, value_names

    folder = fetch_bundle(registry, name, version, scratch)
    try:
        names = value_names(registry, name, version)
        columns = json.loads((folder / "evaluation.json").read_text())["contract"]["columns"]
        label = next(column["name"] for column in columns if column["role"] == "label")
        return Agent(Questionnaire.load(folder), names, label)
    except ValueError:
        raise InputError(
            f"the model {name!r} asks no questions: only models of the method dadi do."
        ) from None
