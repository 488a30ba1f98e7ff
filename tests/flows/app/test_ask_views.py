"""An interview in the app: one question a page, what can be done at each, and what is kept."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from evenhand.fairlib.methods.dadi import DADIClassifier
from evenhand.flows.app.ask_views import INTERVIEW
from evenhand.flows.app.people import Person
from evenhand.flows.app.server import build_app
from evenhand.flows.app.sessions import COOKIE, Sessions
from evenhand.flows.app.web import AppSettings
from evenhand.tasks.execution.store import Store
from tests.flows.app.test_server import readable

HOST = "127.0.0.1:8000"
ASK = "/models/people-dadi/versions/1/ask"
# so does the agent of these tests ask, whatever its training came to
ORDER = ["job", "income", "since", "owner"]


@pytest.fixture(autouse=True)
def in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent asks for the first three of the order; the last is worth less than to stop."""

    def values(self: DADIClassifier, X: Any, known: Any) -> Any:
        worth = np.array([*(2.5 - ORDER.index(name) for name in self.groups_), 0.0])
        return np.where(np.append(known[0], False), -np.inf, worth)[None]

    monkeypatch.setattr(DADIClassifier, "action_values", values)


class Office:
    """A browser of a person with some role."""

    def __init__(self, store: Path, role: str = "case worker") -> None:
        self.sessions = Sessions({}, Person("ana", role))
        settings = AppSettings(
            registry=f"sqlite:///{store.resolve()}/mlflow.db",
            store=Store(str(store)),
            sessions=self.sessions,
            hosts=frozenset({HOST}),
        )
        self.client = TestClient(
            build_app(settings), base_url=f"http://{HOST}", follow_redirects=False
        )
        self.client.get("/sign-in", params={"token": self.sessions.one_time_token})

    @property
    def session(self) -> Any:
        return self.sessions.of_cookie(self.client.cookies[COOKIE])

    def act(self, act: str, **fields: str) -> Any:
        """Press a button of the page that is shown."""
        page = self.client.get(ASK).text
        sent = {"form_token": self.session.form_token, "act": act}
        number = re.search(r'name="number" value="(\d+)"', page)
        if number is not None:
            sent["number"] = number.group(1)
        return self.client.post(ASK, data=sent | fields)

    def text(self) -> str:
        return readable(self.client.get(ASK).text)


@pytest.fixture
def office(agent_store: Path) -> Office:
    return Office(agent_store)


def test_a_person_is_asked_to_the_end(office: Office, agent_store: Path) -> None:
    before = {path: path.stat().st_size for path in agent_store.rglob("*") if path.is_file()}
    text = office.text()
    assert "asks at most 4 questions, one at a time" in text
    assert "reveal more about sex than" in text
    assert office.act("begin").headers["location"] == ASK
    page = office.client.get(ASK).text
    assert "Question 1 of at most 4" in page
    assert page.count('type="radio"') == 3
    assert "Line of work." in page
    assert "Of the 4 questions left, the model values this answer most: it should help" in page
    assert "this answer alone predicts sex with AUC" in page
    assert office.act("answer", answer="cook").status_code == 303
    page = office.client.get(ASK).text
    assert "Question 2 of at most 4" in page
    assert "A number of euros, at least -1000." in page
    office.act("answer", answer="3100.5")
    assert 'type="date"' in office.client.get(ASK).text
    office.act("skip")
    text = office.text()
    assert "The decision is “" in text
    assert "The model stopped after 3 questions." in text
    assert "Job cook" in text
    assert "3100.5 euros" in text
    assert "Since not answered" in text
    assert "Owner worth 0.500 nats less than to decide without it" in text
    after = {path: path.stat().st_size for path in agent_store.rglob("*") if path.is_file()}
    assert {path for path in after if path not in before and "mlflow.db" not in path.name} == set()


def test_a_wrong_answer_is_said_at_the_question(office: Office) -> None:
    office.act("begin")
    for answer in ("", "<script>alert(1)</script>", "monk"):
        page = office.act("answer", answer=answer)
        assert page.status_code == 422
        assert 'role="alert"' in page.text
        assert "<script" not in page.text
    office.act("answer", answer="clerk")
    page = office.act("answer", answer="much")
    assert "Give a number of euros, at least -1000." in page.text
    assert 'value="much"' in page.text
    assert "Question 2" in office.text()


def test_a_person_stops_goes_back_and_deletes(office: Office) -> None:
    office.act("begin")
    office.act("answer", answer="clerk")
    office.act("stop")
    text = office.text()
    assert "was stopped after 1 question, before the model would have stopped" in text
    assert "Income the interview was stopped before it" in text
    office.act("back")
    assert "Question 2" in office.text()
    office.act("back")
    assert "Question 1" in office.text()
    assert office.session.kept[INTERVIEW].interview.answers == {}
    office.act("answer", answer="smith")
    office.act("delete")
    assert office.session.kept == {}
    assert "one at a time" in office.text()


def test_an_old_form_answers_no_other_question(office: Office) -> None:
    office.act("begin")
    office.act("answer", answer="clerk")
    # the browser's button back shows the first question again
    assert office.act("answer", answer="smith", number="0").status_code == 303
    assert office.session.kept[INTERVIEW].interview.answers == {"job": "clerk"}
    assert office.act("destroy").status_code == 404


@pytest.mark.parametrize("role", ["viewer"])
def test_other_roles_ask_nobody(agent_store: Path, role: str) -> None:
    office = Office(agent_store, role)
    assert office.client.get(ASK).status_code == 403
    assert office.act("begin").status_code == 403
    version = office.client.get(ASK.removesuffix("/ask")).text
    assert "one question at a time" not in version


def test_an_interview_is_of_its_session_alone(office: Office) -> None:
    assert office.client.post(ASK, data={"act": "begin"}).status_code == 403
    office.act("begin")
    office.act("answer", answer="clerk")
    version = office.client.get(ASK.removesuffix("/ask")).text
    assert "one question at a time" in version
    token = office.session.form_token
    office.client.post("/sign-out", data={"form_token": token})
    assert office.client.get(ASK).status_code == 303
    assert office.sessions._sessions == {}


def test_a_model_that_asks_nothing_says_so(office: Office) -> None:
    answer = office.client.get("/models/people-gbdt/versions/1/ask")
    assert answer.status_code == 404
    assert "asks no questions" in readable(answer.text)
    page = office.client.get("/models/people-gbdt/versions/1").text
    assert "one question at a time" not in page
