"""The app: what each screen shows, what is changed and recorded, and what is refused."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from evenhand.flows.app.models_views import models_screen
from evenhand.flows.app.people import Person
from evenhand.flows.app.registry_views import version_screen
from evenhand.flows.app.run_views import report_address
from evenhand.flows.app.server import build_app
from evenhand.flows.app.sessions import COOKIE, Sessions
from evenhand.flows.app.web import AppSettings
from evenhand.tasks.execution.store import Store
from evenhand.tasks.registry.client import registry_client
from evenhand.tasks.registry.ledger import append, history
from tests.flows.people import Done

MODEL = "people-gbdt"
HOST = "127.0.0.1:8000"
ANA = Person("ana", "approver")
VERSION_2 = f"/models/{MODEL}/versions/2"


class Visitor:
    """A browser, as far as the tests need one."""

    def __init__(self, settings: AppSettings) -> None:
        self.settings = settings
        self.client = TestClient(
            build_app(settings),
            base_url=f"http://{HOST}",
            follow_redirects=False,
            raise_server_exceptions=False,
        )

    def sign_in(self) -> None:
        answer = self.client.get(
            "/sign-in", params={"token": self.settings.sessions.one_time_token}
        )
        assert answer.status_code == 303

    def text(self, address: str, status: int = 200) -> str:
        """What a person reads at an address."""
        answer = self.client.get(address)
        assert answer.status_code == status, answer.text
        return readable(answer.text)

    def form_token(self, address: str) -> str:
        match = re.search(r'name="form_token" value="([^"]+)"', self.client.get(address).text)
        assert match is not None
        return match.group(1)

    def act(self, action: str, reason: str = "", version: str = "2", **headers: str) -> Any:
        address = f"/models/{MODEL}/versions/{version}"
        fields = {"form_token": self.form_token(address), "reason": reason}
        return self.client.post(f"{address}/{action}", data=fields, headers=headers)


def readable(page: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", page)).split())


@pytest.fixture(scope="module")
def shown(two_versions: Done) -> AppSettings:
    """What is only read: a champion, version 1, and a challenger, version 2."""
    return settings_of(two_versions.store)


def settings_of(place: Any, **others: Any) -> AppSettings:
    return AppSettings(
        registry=f"sqlite:///{place.resolve()}/mlflow.db",
        store=Store(str(place)),
        sessions=Sessions({}, ANA),
        hosts=frozenset({HOST}),
        **others,
    )


@pytest.fixture
def visitor(shown: AppSettings) -> Visitor:
    """Somebody who has signed in to a server that only shows."""
    visitor = Visitor(replace(shown, sessions=Sessions({}, ANA)))
    visitor.sign_in()
    return visitor


@pytest.fixture
def approver(bench: Any, two_versions: Done) -> Visitor:
    """Somebody who has signed in to a server of the test's own that changes."""
    two_versions.copied_to(bench.store)
    visitor = Visitor(settings_of(bench.store, allow_changes=True))
    visitor.sign_in()
    return visitor


def chain_of(visitor: Visitor) -> Any:
    return history(visitor.settings.registry, MODEL)


def test_a_lost_store_or_registry_is_named(shown: AppSettings, tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "registry.db").touch()
    registry = f"sqlite:///{tmp_path}/registry.db"
    store = Store(str(tmp_path / "store"))
    visitor = Visitor(replace(shown, store=store, registry=registry, sessions=Sessions({}, ANA)))
    visitor.sign_in()
    assert "This store has no run yet" in visitor.text("/runs")
    (tmp_path / "registry.db").unlink()
    assert f"The registry {tmp_path}/registry.db is not there any more" in visitor.text("/", 503)
    assert not (tmp_path / "registry.db").exists()
    (tmp_path / "registry.db").touch()
    shutil.rmtree(tmp_path / "store")
    assert f"The store {tmp_path}/store is not there any more" in visitor.text("/runs", 503)


def test_models_and_their_versions_in_use_are_listed(visitor: Visitor) -> None:
    text = visitor.text("/")
    assert "1 model." in text
    assert f"{MODEL} version 1 version 2" in text
    assert "evenhand.audit" not in text


def test_a_model_has_versions_policy_and_record(visitor: Visitor) -> None:
    text = visitor.text(f"/models/{MODEL}")
    assert "Version 1 is the champion, the version in use; version 2 is the challenger" in text
    assert "No policy is set" in text
    assert "publication of version 2" in text
    assert "Compare version" in text


def test_two_versions_are_compared(visitor: Visitor) -> None:
    text = visitor.text(f"/models/{MODEL}/compare?first=1&second=2")
    assert re.search(r"Both were measured on the same \d+ held-out rows", text)
    assert "Accuracy accuracy" in text
    assert "Read about version 2" in text
    assert (
        f'href="{VERSION_2}"'
        in visitor.client.get(f"/models/{MODEL}/compare?first=1&second=2").text
    )
    refused = visitor.text(f"/models/{MODEL}/compare?first=1&second=1", 404)
    assert "is compared with itself" in refused
    assert "it has 1, 2" in visitor.text(f"/models/{MODEL}/compare?first=1&second=9", 404)


def test_a_version_says_whether_it_may_become_champion(visitor: Visitor) -> None:
    text = visitor.text(VERSION_2)
    assert "This version is the challenger. It may become champion." in text
    assert "Compare it with the champion, version 1" in text
    assert "This server only shows." in text
    page = visitor.client.get(VERSION_2).text
    assert '<form class="act"' not in page
    report = re.search(r'href="(/runs/[^"]+/report)"', page)
    assert report is not None
    assert report.group(1).split("/")[2] in visitor.settings.store.runs()
    assert "Back to the runs" in visitor.text(report.group(1))


def test_a_report_is_named_only_where_the_store_has_it(shown: AppSettings) -> None:
    first, second = shown.store.runs()
    (evaluation,) = history(shown.registry, MODEL).of("evaluation", "2")
    assert report_address(shown.store, evaluation) == f"/runs/{second}/report"
    for content, address in (
        ({"run_id": first}, f"/runs/{first}/report"),
        ({"run_id": "../mlflow.db"}, ""),
        ({"metrics": "0" * 64}, ""),
        ({"run_id": ["a"]}, ""),
    ):
        assert report_address(shown.store, replace(evaluation, content=content)) == address
    assert report_address(shown.store, None) == ""


def test_runs_and_reports_are_those_of_the_store(visitor: Visitor) -> None:
    text = visitor.text("/runs")
    assert "2 runs." in text
    assert text.count("Published") == 2
    assert "None" not in text
    run_id = visitor.settings.store.runs()[0]
    answer = visitor.client.get(f"/runs/{run_id}/report")
    assert answer.status_code == 200
    written = visitor.settings.store.read_text("runs", run_id, "report.html")
    assert written is not None
    assert written.partition("<body>")[2] in answer.text
    assert '<a href="/runs">Back to the runs</a>' in answer.text
    assert "style-src 'unsafe-inline'" in answer.headers["content-security-policy"]
    for place in ("..", "%2e%2e", "..%2f..%2fmlflow.db", "none"):
        assert visitor.client.get(f"/runs/{place}/report").status_code == 404


@pytest.mark.parametrize(
    "address", ["/", f"/models/{MODEL}", VERSION_2, "/runs", f"/models/{MODEL}/compare"]
)
def test_nothing_is_shown_without_a_session(shown: AppSettings, address: str) -> None:
    visitor = Visitor(shown)
    answer = visitor.client.get(address)
    assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in")
    assert MODEL not in answer.text
    visitor.client.cookies.set(COOKIE, "guess")
    assert visitor.client.get(address).status_code == 303


def test_every_answer_has_the_headers_that_protect_it(visitor: Visitor) -> None:
    for address in ("/", "/style.css", "/nowhere", "/sign-in"):
        headers = visitor.client.get(address).headers
        assert headers["content-security-policy"].startswith("default-src 'none'; style-src 'self'")
        assert headers["x-frame-options"] == "DENY"
        assert headers["referrer-policy"] == "same-origin"
        assert "server" not in headers
    assert "<script" not in visitor.client.get("/").text


def test_a_cookie_is_for_this_site_and_for_no_script(shown: AppSettings) -> None:
    sessions = Sessions({}, ANA)
    visitor = Visitor(replace(shown, sessions=sessions, secure=True))
    answer = visitor.client.get("/sign-in", params={"token": sessions.one_time_token})
    cookie = answer.headers["set-cookie"]
    for part in ("HttpOnly", "SameSite=strict", "Secure", "Path=/"):
        assert part in cookie
    assert "max-age=31536000" in answer.headers["strict-transport-security"]


def test_a_link_signs_in_once(visitor: Visitor) -> None:
    token = visitor.settings.sessions.one_time_token
    answer = visitor.client.get("/sign-in", params={"token": token})
    assert answer.status_code == 403
    assert "was used already" in answer.text


def test_another_name_of_this_address_is_not_served(visitor: Visitor) -> None:
    for host in ("evil.example", "127.0.0.1:9000", "localhost"):
        assert visitor.client.get("/", headers={"host": host}).status_code == 421


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS"])
def test_other_methods_do_nothing(visitor: Visitor, method: str) -> None:
    assert visitor.client.request(method, VERSION_2).status_code == 405


def test_approve_and_make_champion(approver: Visitor) -> None:
    answer = approver.act("approve", "reviewed  the report")
    assert answer.headers["location"] == f"{VERSION_2}?done=approve"
    assert "Your approval is recorded." in approver.text(answer.headers["location"])
    assert "Make it champion" in approver.text(VERSION_2)
    assert approver.act("promote", "better for women").status_code == 303
    chain = chain_of(approver)
    assert chain.aliases["champion"] == "2"
    approval, move = chain.records[-2:]
    assert (approval.who, approval.content["note"]) == ("ana", "reviewed the report")
    assert (move.who, move.content["note"]) == ("ana", "better for women")
    assert "reason: better for women" in approver.text(VERSION_2)
    # the way back
    assert "Roll back to it" in approver.text(f"/models/{MODEL}/versions/1")
    assert approver.act("promote", version="1").status_code == 303
    assert chain_of(approver).aliases["champion"] == "1"
    again = approver.act("promote", version="1")
    assert again.headers["location"].endswith("?done=unchanged")


def test_a_refused_version_becomes_no_champion(approver: Visitor) -> None:
    assert approver.act("refuse", "the gap of women grew").status_code == 303
    text = approver.text(VERSION_2)
    assert "It cannot become champion: ana refused it" in text
    assert "the gap of women grew" in text
    assert "Make it champion" not in text
    answer = approver.act("promote")
    assert answer.status_code == 409
    assert "ana refused it" in readable(answer.text)
    assert f"evenhand approve {MODEL}/2 by the same person" in readable(answer.text)
    assert f'<a href="{VERSION_2}">Back to the screen before</a>' in answer.text
    assert "evenhand evaluate" not in readable(answer.text)
    assert chain_of(approver).aliases["champion"] == "1"
    # the same person's approval withdraws it
    approver.act("approve")
    assert "It may become champion." in approver.text(VERSION_2)


def test_every_kind_of_refusal_has_its_own_name(approver: Visitor) -> None:
    registry = approver.settings.registry
    for action in ("review", "promote", "approve"):
        content = {"action": action, "reason": "too little", "version": "2"}
        with registry_client(registry) as client:
            newest = append(client, MODEL, "refusal", content)
    (_, records) = version_screen(registry, MODEL, "2").screen.sections
    subjects = [row[0] for row in records.blocks[0].rows]
    assert subjects[:3] == [
        "failed approval of version 2",
        "failed promotion of version 2",
        "a person's refusal of version 2",
    ]
    # every record of a model is a change of it
    (models,) = models_screen(registry).screen.sections
    assert models.blocks[0].rows[0][-1].time[:13] == newest.when[:13]


def test_a_refusal_needs_a_reason(approver: Visitor) -> None:
    before = len(chain_of(approver).records)
    for reason in ("", "   ", "x" * 2001):
        answer = approver.act("refuse", reason)
        assert answer.status_code == 400
        assert "the reason" in readable(answer.text)
    assert len(chain_of(approver).records) == before


def test_a_viewer_and_a_server_that_shows_change_nothing(approver: Visitor) -> None:
    viewer = Sessions({}, Person("vera", "viewer"))
    only_shows = replace(approver.settings, sessions=Sessions({}, ANA), allow_changes=False)
    for settings in (replace(approver.settings, sessions=viewer), only_shows):
        visitor = Visitor(settings)
        visitor.sign_in()
        assert 'class="act"' not in visitor.client.get(VERSION_2).text
        assert visitor.act("promote").status_code == 403
    assert chain_of(approver).aliases["champion"] == "1"


@pytest.mark.parametrize(
    "text", ["<script>alert(1)</script>", "{{ 7 * 7 }}", "a\r\nSet-Cookie: x=1"]
)
def test_texts_of_people_are_only_text(approver: Visitor, text: str) -> None:
    assert approver.act("refuse", text).status_code == 303
    answer = approver.client.get(VERSION_2)
    assert "<script" not in answer.text
    assert " ".join(text.split()) in readable(answer.text)
    assert "x" not in answer.cookies
    done = approver.client.get(f"{VERSION_2}?done=%3Cscript%3E")
    assert "<script" not in done.text


def test_a_fault_of_ours_shows_no_values(visitor: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("a value of somebody")

    monkeypatch.setattr("evenhand.flows.app.models_views.models_screen", fail)
    text = visitor.text("/", 500)
    assert "This is a fault of evenhand (RuntimeError)." in text
    assert "somebody" not in text


def test_people_of_a_file_sign_in_by_password(
    shown: AppSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "evenhand.flows.app.sessions.is_password", lambda password, stored: password == "right"
    )
    visitor = Visitor(replace(shown, sessions=Sessions({"ana": ANA})))
    assert "Password" in visitor.text("/sign-in")
    wrong = visitor.client.post("/sign-in", data={"name": "ana", "password": "wrong"})
    assert wrong.status_code == 401
    right = visitor.client.post("/sign-in", data={"name": "ana", "password": "right"})
    assert right.status_code == 303
    assert "ana, approver" in visitor.text("/")
    token = visitor.form_token("/")
    assert visitor.client.post("/sign-out", data={"form_token": token}).status_code == 303
    assert visitor.client.get("/").status_code == 303


PERSON = f"/models/{MODEL}/versions/1/person"


def sent(visitor: Visitor, **values: str) -> Any:
    """Send the form of one person."""
    fields = {"form_token": visitor.form_token(PERSON)}
    fields |= {f"column {name}": value for name, value in values.items()}
    return visitor.client.post(PERSON, data=fields)


INPUTS = {"income": "30", "job": "clerk", "owner": "true", "since": "2020-05-01"}


def test_one_person_is_decided_about_and_explained(visitor: Visitor) -> None:
    before = sorted(Path(visitor.settings.store.url).rglob("*"))
    answer = sent(visitor, **INPUTS)
    assert answer.status_code == 200, readable(answer.text)
    text = readable(answer.text)
    assert "The decision is" in text
    assert "Principal reasons" in text
    assert "Comparable people" in text
    assert 'value="30"' in answer.text
    assert sorted(Path(visitor.settings.store.url).rglob("*")) == before


@pytest.mark.parametrize(
    ("value", "words"),
    [("", "Give a value."), ("x", "Give a"), ("nan", "Give a"), ("1e999", "Give")],
)
def test_a_wrong_value_is_named_at_its_field(visitor: Visitor, value: str, words: str) -> None:
    values = INPUTS | {"income": value}
    answer = sent(visitor, **values)
    assert answer.status_code == 422
    assert "Nothing was decided" in answer.text
    assert words in readable(answer.text)
    for name, other in values.items():
        if name != "income":
            assert f'value="{other}"' in answer.text, name
    assert INPUTS.keys() == set(re.findall(r'name="column ([^"]+)"', answer.text))


def test_a_choice_that_is_none_is_refused(visitor: Visitor) -> None:
    values = INPUTS | {"job": "<script>"}
    answer = sent(visitor, **values)
    assert answer.status_code == 422
    assert "Choose one of the values." in readable(answer.text)
    assert "<script" not in answer.text


def test_a_person_needs_the_form_of_the_session(visitor: Visitor) -> None:
    assert visitor.client.post(PERSON, data={"column income": "30"}).status_code == 403
