"""Cases in the app: who reads them, what a page says, and how a review is recorded."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import pyarrow.csv
import pytest
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from evenhand.flows.app.people import Person
from evenhand.flows.app.server import build_app
from evenhand.flows.app.sessions import Sessions
from evenhand.flows.app.web import AppSettings
from evenhand.tasks.cases.case_store import CaseStore
from evenhand.tasks.execution.store import Store
from tests.flows.people import Done, make_people

HOST = "127.0.0.1:8000"


def readable(page: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", page)).split())


class Office:
    """A store with cases, and browsers of people with several roles."""

    def __init__(self, store: Path) -> None:
        from evenhand.flows.cli import app

        table = store.parent / "new.csv"
        pyarrow.csv.write_csv(make_people(12, seed=5), table)
        command = ["case", "people-gbdt", "--rows", str(table), "--store", str(store), "--json"]
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 0, done.output
        self.store = store
        self.listed: list[str] = json.loads(done.stdout)["cases"]
        self.cases = CaseStore(Path(Store(str(store)).path("cases")))

    def browser(self, role: str, *, allow_changes: bool = True) -> TestClient:
        sessions = Sessions({}, Person("ana", role))
        settings = AppSettings(
            registry=f"sqlite:///{self.store.resolve()}/mlflow.db",
            store=Store(str(self.store)),
            sessions=sessions,
            hosts=frozenset({HOST}),
            cases=self.cases,
            allow_changes=allow_changes,
        )
        client = TestClient(build_app(settings), base_url=f"http://{HOST}", follow_redirects=False)
        client.get("/sign-in", params={"token": sessions.one_time_token})
        return client


@pytest.fixture
def office(bench: Any, published: Done) -> Office:
    published.copied_to(bench.store)
    return Office(bench.store)


def review(client: TestClient, case: str, **fields: str) -> Any:
    page = client.get("/cases").text
    match = re.search(r'name="form_token" value="([^"]+)"', page)
    assert match is not None
    return client.post(f"/cases/{case}/review", data={"form_token": match.group(1), **fields})


def test_a_case_is_read_and_reviewed(office: Office) -> None:
    client = office.browser("case worker")
    assert f"{len(office.listed)} cases." in readable(client.get("/cases").text)
    case = office.listed[0]
    text = readable(client.get(f"/cases/{case}").text)
    assert "Principal reasons" in text
    assert "No person has reviewed this decision yet" in text
    whole = client.get(f"/cases/{case}/file")
    file = (office.cases.place(case) / "case.html").read_text()
    assert file.partition("<body>")[2] in whole.text
    assert f'<a href="/cases/{case}">Back to the case</a>' in whole.text
    letter = client.get(f"/cases/{case}/letter")
    assert f"give the number {case}" in readable(letter.text)
    assert "style-src 'unsafe-inline'" in letter.headers["content-security-policy"]
    made = review(client, case, outcome="upheld", reason="the papers  agree")
    assert (made.status_code, made.headers["location"]) == (303, f"/cases/{case}?done=review")
    (entry,) = office.cases.read(case)["reviews"]
    assert entry["who"] == "ana"
    assert (entry["outcome"], entry["reason"]) == ("upheld", "the papers agree")
    after = readable(client.get(f"/cases/{case}?done=review").text)
    assert "Your review is recorded." in after
    assert "The decision was upheld by ana." in after
    assert office.cases.faults() == []


def test_a_case_is_decided_again_with_a_corrected_value(office: Office) -> None:
    client = office.browser("case worker")
    case = office.listed[0]
    page = client.get(f"/cases/{case}").text
    assert '<option value="income">Income, now ' in page
    match = re.search(r'name="form_token" value="([^"]+)"', page)
    assert match is not None
    form = {"form_token": match.group(1)}
    place = f"/cases/{case}/replay"
    assert client.post(place, data={}).status_code == 403
    assert client.post(place, data=form).headers["location"] == f"/cases/{case}?done=replay"
    corrected = form | {"column": "income", "value": "99999"}
    assert client.post(place, data=corrected).status_code == 303
    first, second = office.cases.read(case)["replays"]
    assert (first["who"], first["is_identical"], first["corrected"]) == ("ana", True, {})
    assert second["corrected"] == {"income": "99999"}
    after = readable(client.get(f"/cases/{case}?done=replay").text)
    assert "ana had it decided again with income = 99999: " in after
    for wrong, words in (
        ({"column": "income"}, "Give the corrected value"),
        ({"value": "5"}, "Choose what the value corrects."),
        ({"column": "income", "value": "<b>"}, "Expected a number, got '<b>'."),
        ({"column": "sex", "value": "F"}, "The model has no such input"),
    ):
        answer = client.post(place, data=form | wrong)
        assert answer.status_code == 400
        assert words in readable(answer.text)
        assert "--" not in readable(answer.text).partition("Nothing was changed")[2]
        if wrong.get("column") == "income":
            assert '<option value="income" selected>' in answer.text
    assert (
        'value="&lt;b&gt;"'
        in client.post(place, data=form | {"column": "income", "value": "<b>"}).text
    )
    assert len(office.cases.read(case)["replays"]) == 2
    only_shows = office.browser("case worker", allow_changes=False)
    assert "Decide again" not in only_shows.get(f"/cases/{case}").text


@pytest.mark.parametrize("role", ["viewer", "approver"])
def test_other_roles_read_no_case(office: Office, role: str) -> None:
    client = office.browser(role)
    case = office.listed[0]
    for part in ("", f"/{case}", f"/{case}/file", f"/{case}/letter"):
        answer = client.get(f"/cases{part}")
        assert answer.status_code == 403
        assert case not in readable(answer.text)
    assert ">Cases<" not in client.get("/").text


def test_a_review_needs_outcome_and_reason(office: Office) -> None:
    client = office.browser("case worker")
    case = office.listed[0]
    for fields in ({}, {"outcome": "upheld"}, {"outcome": "deleted", "reason": "x"}):
        answer = review(client, case, **fields)
        assert answer.status_code == 400
        words = "Give a reason" if "reason" not in fields else "Choose one of both."
        assert words in readable(answer.text)
        if fields.get("outcome") == "upheld":
            assert 'value="upheld" checked' in answer.text
    assert client.post(f"/cases/{case}/review", data={"outcome": "upheld"}).status_code == 403
    only_shows = office.browser("case worker", allow_changes=False)
    refused = review(only_shows, case, outcome="upheld", reason="x")
    assert refused.status_code == 403
    assert office.cases.read(case)["reviews"] == []


@pytest.mark.parametrize("name", ["0" * 16, "%2e%2e", "%2e%2e%2flog.jsonl", "x"])
def test_no_other_file_is_a_case(office: Office, name: str) -> None:
    client = office.browser("case worker")
    for part in ("", "/file", "/letter"):
        answer = client.get(f"/cases/{name}{part}", follow_redirects=True)
        assert answer.status_code == 404, part


def test_a_changed_case_is_refused(office: Office) -> None:
    client = office.browser("case worker")
    case = office.listed[0]
    file = office.cases.place(case) / "case.json"
    file.write_text(file.read_text().replace("income", "incame"))
    assert "changed since it was recorded" in readable(client.get("/cases").text)
    answer = client.get(f"/cases/{case}")
    assert answer.status_code == 404
    assert "is not what was recorded" in readable(answer.text)
