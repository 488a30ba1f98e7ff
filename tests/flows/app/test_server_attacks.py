"""The standing table of attacks on the app: each is refused, and changes and discloses nothing.

All run in this process, against one store: after each the model's chain is as it was.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from evenhand.flows.app import web
from evenhand.flows.app.job_runs import JobRunner
from evenhand.flows.app.people import Person
from evenhand.flows.app.server import build_app
from evenhand.flows.app.sessions import ATTEMPTS, COOKIE, LONGEST_S, Session, Sessions
from evenhand.flows.app.web import MOST_BODY, AppSettings
from evenhand.tasks.cases.case_store import CaseStore
from evenhand.tasks.execution.store import Store
from evenhand.tasks.registry.ledger import history
from tests.flows.people import Done

MODEL = "people-gbdt"
HOST = "127.0.0.1:8000"
VERSION = f"/models/{MODEL}/versions/2"
PROMOTE = f"{VERSION}/promote"
CASE = "/cases/0123456789abcdef"
ROLES = ("viewer", "case worker", "approver", "owner")
SECRET = "a text of the store alone"


@dataclass
class Site:
    """An app with a person of each role, who has signed in."""

    settings: AppSettings
    app: Any
    cookies: dict[str, str] = field(default_factory=dict)

    def client(self, role: str | None = "approver") -> TestClient:
        client = TestClient(
            self.app,
            base_url=f"http://{HOST}",
            follow_redirects=False,
            raise_server_exceptions=False,
        )
        if role is not None:
            client.cookies.set(COOKIE, self.cookies[role])
        return client

    def session(self, role: str) -> Session:
        session = self.settings.sessions.of_cookie(self.cookies[role])
        assert session is not None
        return session

    def get(self, place: str, role: str | None = "owner", **more: Any) -> Any:
        return self.client(role).get(place, **more)

    def post(self, place: str, role: str | None = "approver", **more: Any) -> Any:
        """Send a form of the person's session, with something changed."""
        fields = {"form_token": self.session(role).form_token if role else ""}
        fields |= more.pop("fields", {})
        if "content" in more:
            return self.client(role).post(place, **more)
        return self.client(role).post(place, data=fields, **more)

    def promote(self, **headers: str) -> Any:
        return self.post(
            PROMOTE, headers={name.replace("_", "-"): text for name, text in headers.items()}
        )


@pytest.fixture(scope="module")
def site(two_versions: Done) -> Iterator[Site]:
    place = two_versions.store
    sessions = Sessions({role: Person(role, role, "a$b$c$d$e$f") for role in ROLES})
    settings = AppSettings(
        registry=f"sqlite:///{place.resolve()}/mlflow.db",
        store=Store(str(place)),
        sessions=sessions,
        hosts=frozenset({HOST}),
        cases=CaseStore(Path(Store(str(place)).path("cases"))),
        allow_changes=True,
    )
    app = build_app(settings)
    app.state.runner = JobRunner(
        str(place), (sys.executable, "-c", f"raise SystemExit({SECRET!r})")
    )
    site = Site(settings, app)
    for role in ROLES:
        site.cookies[role] = sessions.by_proxy(sessions.users[role])
    yield site
    assert app.state.runner._runs == {}, "an attack has started a run"


def forged(site: Site, role: str, token: str) -> Any:
    return site.post(PROMOTE, role, fields={"form_token": token})


def after_signing_out(site: Site) -> Any:
    cookie = site.settings.sessions.by_proxy(Person("eve", "approver"))
    session = site.settings.sessions.of_cookie(cookie)
    assert session is not None
    client = site.client(None)
    client.cookies.set(COOKIE, cookie)
    client.post("/sign-out", data={"form_token": session.form_token})
    client.cookies.set(COOKIE, cookie)
    return client.post(PROMOTE, data={"form_token": session.form_token})


def expired(site: Site) -> Any:
    cookie = site.settings.sessions.by_proxy(Person("eve", "approver"))
    session = site.settings.sessions.of_cookie(cookie)
    assert session is not None
    session.begun -= LONGEST_S + 1
    client = site.client(None)
    client.cookies.set(COOKIE, cookie)
    return client.post(PROMOTE, data={"form_token": session.form_token})


def fixed_cookie(site: Site) -> Any:
    """A cookie that somebody set before a person signs in is of no session afterwards."""
    sessions = Sessions({}, Person("ana", "owner"))
    settings = AppSettings("", site.settings.store, sessions, frozenset({HOST}))
    client = TestClient(build_app(settings), base_url=f"http://{HOST}", follow_redirects=False)
    client.cookies.set(COOKIE, "fixed")
    answer = client.get("/sign-in", params={"token": sessions.one_time_token})
    assert f"{COOKIE}=fixed" not in answer.headers["set-cookie"]
    client.cookies.clear()
    client.cookies.set(COOKIE, "fixed")
    return client.get("/runs")


def two_cookies(site: Site) -> Any:
    header = f"{COOKIE}={site.cookies['approver']}; {COOKIE}=other"
    return site.client(None).post(
        PROMOTE,
        data={"form_token": site.session("approver").form_token},
        headers={"cookie": header},
    )


def guessed_passwords(site: Site) -> Any:
    client = site.client(None)
    for _ in range(ATTEMPTS):
        client.post("/sign-in", data={"name": "owner", "password": "guess"})
    return client.post("/sign-in", data={"name": "owner", "password": "guess"})


def slow_body(site: Site) -> Any:
    """A body of which nothing comes after its head."""

    class Answer:
        status_code = 0
        text = ""
        headers: dict[str, str] = {}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            Answer.status_code = message["status"]

    async def receive() -> Any:
        await asyncio.sleep(60)

    head = {
        "host": HOST,
        "content-length": "100",
        "cookie": f"{COOKIE}={site.cookies['approver']}",
        "content-type": "application/x-www-form-urlencoded",
    }
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": PROMOTE,
        "raw_path": PROMOTE.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [(name.encode(), text.encode()) for name, text in head.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8000),
    }
    before, web.BODY_S = web.BODY_S, 0.05
    try:
        asyncio.run(site.app(scope, receive, send))
    finally:
        web.BODY_S = before
    return Answer


def review(site: Site, role: str) -> Any:
    return site.post(f"{CASE}/review", role, fields={"outcome": "upheld", "reason": "x"})


def refuse_with(site: Site, text: str, **changes: Any) -> Any:
    """A reason that is markup; the form lacks its token, so that no record is written."""
    return site.post(f"{VERSION}/refuse", fields={"reason": text, "form_token": "x"}, **changes)


FORM = {"content-type": "application/x-www-form-urlencoded"}
Attack = Callable[[Site], Any]
ATTACKS: dict[str, tuple[Attack, int]] = {
    # forms of others
    "no token": (lambda site: forged(site, "approver", ""), 403),
    "a guessed token": (lambda site: forged(site, "approver", "x" * 43), 403),
    "the token of another session": (
        lambda site: forged(site, "approver", site.session("viewer").form_token),
        403,
    ),
    "the token in the address": (
        lambda site: site.post(
            f"{PROMOTE}?form_token={site.session('approver').form_token}",
            fields={"form_token": ""},
        ),
        403,
    ),
    "the token in a header": (
        lambda site: site.post(
            PROMOTE,
            fields={"form_token": ""},
            headers={"x-csrf-token": site.session("approver").form_token},
        ),
        403,
    ),
    "a form as JSON": (
        lambda site: site.post(
            PROMOTE, content=f'{{"form_token": "{site.session("approver").form_token}"}}'
        ),
        403,
    ),
    "another origin": (lambda site: site.promote(origin="http://evil.example"), 403),
    "an origin that begins as ours": (lambda site: site.promote(origin=f"http://{HOST}.evil"), 403),
    "no origin": (lambda site: site.promote(origin="null"), 403),
    "another site": (lambda site: site.promote(sec_fetch_site="cross-site"), 403),
    "the same site": (lambda site: site.promote(sec_fetch_site="same-site"), 403),
    # sessions
    "no session": (lambda site: site.post(PROMOTE, None), 401),
    "a guessed cookie": (
        lambda site: site.client(None).get("/runs", headers={"cookie": f"{COOKIE}=guess"}),
        303,
    ),
    "a cookie that was set before": (fixed_cookie, 303),
    "a cookie after signing out": (after_signing_out, 401),
    "a session that is over": (expired, 401),
    "two cookies": (two_cookies, 401),
    "a guessed link": (lambda site: site.get("/sign-in?token=guess", None), 403),
    "an empty link": (lambda site: site.get("/sign-in?token=", None), 200),
    "no password": (
        lambda site: site.client(None).post("/sign-in", data={"name": "nobody", "password": ""}),
        401,
    ),
    "the hash as password": (
        lambda site: site.client(None).post(
            "/sign-in", data={"name": "viewer", "password": "a$b$c$d$e$f"}
        ),
        401,
    ),
    "guessed passwords": (guessed_passwords, 429),
    # actions of other roles
    "a viewer promotes": (lambda site: site.post(PROMOTE, "viewer"), 403),
    "a case worker approves": (lambda site: site.post(f"{VERSION}/approve", "case worker"), 403),
    "a viewer refuses": (
        lambda site: site.post(f"{VERSION}/refuse", "viewer", fields={"reason": "x"}),
        403,
    ),
    "a viewer runs a job": (lambda site: site.post("/jobs/shipped/hiring-gbdt/run", "viewer"), 403),
    "a case worker runs a job": (
        lambda site: site.post("/jobs/shipped/hiring-gbdt/run", "case worker"),
        403,
    ),
    "a viewer follows a run": (
        lambda site: site.get("/progress/0123456789abcdef/events", "viewer"),
        403,
    ),
    "a viewer decides about a person": (lambda site: site.post(f"{VERSION}/person", "viewer"), 403),
    "a viewer asks a person": (
        lambda site: site.post(f"{VERSION}/ask", "viewer", fields={"act": "begin"}),
        403,
    ),
    "a viewer audits": (lambda site: site.post("/audit", "viewer"), 403),
    "a viewer reads a case": (lambda site: site.get(CASE, "viewer"), 403),
    "an approver reads the cases": (lambda site: site.get("/cases", "approver"), 403),
    "an approver reads a case's file": (lambda site: site.get(f"{CASE}/file", "approver"), 403),
    "an approver reviews a case": (lambda site: review(site, "approver"), 403),
    # paths
    "a path of the store": (lambda site: site.get("/runs/..%2fmlflow.db/report"), 404),
    "a path with dots": (lambda site: site.get("/runs/%2e%2e/report"), 404),
    "a path that is encoded twice": (lambda site: site.get("/runs/%252e%252e%252fx/report"), 404),
    "a path with a NUL": (lambda site: site.get("/runs/x%00/report"), 404),
    "a path out of the cases": (lambda site: site.get("/cases/..%2f..%2fmlflow.db/file"), 404),
    "a job by its path": (
        lambda site: site.post("/jobs/own/..%2f..%2fetc%2fpasswd/run", "owner"),
        404,
    ),
    "a job that is an option": (lambda site: site.post("/jobs/shipped/--help/run", "owner"), 404),
    "a file of the templates": (lambda site: site.get("/templates/layout.html.j2"), 404),
    "the documentation of the interface": (lambda site: site.get("/openapi.json"), 404),
    # injection
    "a script as reason": (lambda site: refuse_with(site, "<script>alert(1)</script>"), 403),
    "a template as reason": (lambda site: refuse_with(site, "{{ 7 * 7 }}"), 403),
    "a script as notice": (lambda site: site.get(f"{VERSION}?done=<script>alert(1)</script>"), 200),
    "a header as notice": (lambda site: site.get(f"{VERSION}?done=x%0d%0aSet-Cookie:%20a=1"), 200),
    "a script as model": (
        lambda site: site.get("/models/%3Cscript%3Ealert(1)%3C%2Fscript%3E"),
        404,
    ),
    "a template as model": (lambda site: site.get("/models/%7B%7B7*7%7D%7D"), 404),
    "a query as model": (lambda site: site.get("/models/x'%20or%20'1'='1"), 404),
    "a header in an address": (lambda site: site.get("/models/x%0d%0aSet-Cookie:%20a=1"), 404),
    "a script as version": (
        lambda site: site.get(f"/models/{MODEL}/compare?first=<script>&second=2"),
        404,
    ),
    # bodies
    "a large body": (lambda site: site.post(PROMOTE, fields={"reason": "x" * MOST_BODY}), 413),
    "many fields": (
        lambda site: site.post(PROMOTE, fields={str(number): "" for number in range(600)}),
        400,
    ),
    "a body without a length": (
        lambda site: site.post(PROMOTE, content=iter([b"reason=x"]), headers=FORM),
        411,
    ),
    "a length that is none": (
        lambda site: site.post(PROMOTE, content=b"", headers=FORM | {"content-length": "-1"}),
        411,
    ),
    "a body that is no text": (
        lambda site: site.post(PROMOTE, content=b"\xff=1", headers=FORM),
        400,
    ),
    "a slow body": (slow_body, 408),
    # methods
    "a change by an address": (lambda site: site.get(PROMOTE), 405),
    "another method": (lambda site: site.client().put(PROMOTE), 405),
    "a method of tests": (lambda site: site.client().request("TRACE", "/"), 405),
    "a method in a header": (
        lambda site: site.client().get(PROMOTE, headers={"x-http-method-override": "POST"}),
        405,
    ),
    "a method in a field": (lambda site: site.client().get(f"{PROMOTE}?_method=POST"), 405),
    "an unknown action": (lambda site: site.post(f"{VERSION}/delete"), 404),
    # hosts and origins
    "another host": (lambda site: site.promote(host="evil.example"), 421),
    "a host behind ours": (lambda site: site.promote(host=f"{HOST}@evil.example"), 421),
    "a host of a proxy": (
        lambda site: site.get(
            f"http://{HOST}//evil.example/", headers={"x-forwarded-host": "evil.example"}
        ),
        404,
    ),
    "a question of another origin": (
        lambda site: site.client().request("OPTIONS", PROMOTE, headers={"origin": "http://evil"}),
        405,
    ),
    "an answer for another origin": (
        lambda site: site.get("/", headers={"origin": "http://evil.example"}),
        200,
    ),
    # redirects
    "a next address": (
        lambda site: site.get("/sign-in?token=x&next=//evil.example&rd=//evil.example", None),
        403,
    ),
    "an address of another site": (
        lambda site: site.get(f"http://{HOST}//evil.example/x", None),
        404,
    ),
    "a slash at the end": (lambda site: site.get("/runs/", None), 307),
}


def test_the_table_has_forty_attacks_and_more() -> None:
    assert len(ATTACKS) >= 70


@pytest.fixture(scope="module")
def before(site: Site) -> tuple[int, Any]:
    chain = history(site.settings.registry, MODEL)
    return len(chain.records), dict(chain.aliases)


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_changes_nothing(site: Site, before: tuple[int, Any], name: str) -> None:
    attack, status = ATTACKS[name]
    answer = attack(site)
    assert answer.status_code == status, answer.text
    assert "<script" not in answer.text
    if "template" in name:
        # a token is random, and may have the number
        shown = re.sub(r'name="form_token" value="[^"]+"', "", answer.text)
        assert "49" not in shown
    headers = {key.lower(): text for key, text in answer.headers.items()}
    assert "set-cookie" not in headers or status == 303
    assert not [key for key in headers if key.startswith("access-control")]
    location = headers.get("location", "/")
    assert location.startswith((f"http://{HOST}/", "/"))
    assert not location.startswith("//")
    chain = history(site.settings.registry, MODEL)
    assert (len(chain.records), dict(chain.aliases)) == before


@pytest.mark.parametrize(
    "place",
    ["/", "/runs", "/jobs", "/cases", "/audit", VERSION, "/nowhere", "/sign-in", "/progress/x"],
)
def test_no_page_is_framed_or_kept(site: Site, place: str) -> None:
    for role in ("owner", None):
        headers = site.get(place, role).headers
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers["x-frame-options"] == "DENY"
        assert headers["cache-control"] == "no-store"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cross-origin-resource-policy"] == "same-origin"


def test_a_report_is_framed_and_kept_nowhere(site: Site) -> None:
    run_id = site.settings.store.runs()[0]
    headers = site.get(f"/runs/{run_id}/report").headers
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert "script-src" not in headers["content-security-policy"]
    assert headers["cache-control"] == "no-store"
