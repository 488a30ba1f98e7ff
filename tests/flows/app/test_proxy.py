"""People whom a proxy signs in: whose headers are believed, and forged ones that are not."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from fastapi.testclient import TestClient

from evenhand.flows.app.people import Person
from evenhand.flows.app.proxy import GROUPS_HEADER, NAME_HEADER, SECRET_HEADER, Proxy, read_proxy
from evenhand.flows.app.server import build_app
from evenhand.flows.app.sessions import COOKIE, Sessions
from evenhand.flows.app.web import AppSettings
from evenhand.tasks.errors import InputError
from evenhand.tasks.execution.store import Store
from tests.flows.app.test_server import readable

HOST = "models.example.org"
SECRET = "s" * 40
ROOT = Path(__file__).parents[3]


def written(folder: Path, **changes: Any) -> Path:
    """The file of a proxy, with some keys changed; None leaves one out."""
    content: dict[str, Any] = {
        "addresses": ["127.0.0.1", "10.1.0.0/16"],
        "secret_file": "proxy.secret",
        "groups": {"approvers": "approver", "staff": "viewer"},
        "people": {"ana@example.org": {"role": "owner"}},
    }
    content = {key: value for key, value in (content | changes).items() if value is not None}
    secret, path = folder / "proxy.secret", folder / "proxy.yaml"
    if not secret.exists():
        secret.write_text(f"{SECRET}\n")
        secret.chmod(0o600)
    path.write_text(yaml.safe_dump(content))
    path.chmod(0o600)
    return path


class Site:
    """An app behind a proxy, and requests as the proxy, or others, send them."""

    def __init__(self, proxy: Proxy, store: Path) -> None:
        self.sessions = Sessions({})
        settings = AppSettings(
            registry=f"sqlite:///{store}/mlflow.db",
            store=Store(str(store)),
            sessions=self.sessions,
            hosts=frozenset({HOST}),
            proxy=proxy,
            secure=True,
        )
        self.app = build_app(settings)
        self.client = self.at("127.0.0.1")

    def at(self, address: str) -> TestClient:
        return TestClient(
            self.app,
            base_url=f"https://{HOST}",
            client=(address, 40000),
            follow_redirects=False,
        )

    def get(self, place: str = "/runs", *headers: tuple[str, str], **more: Any) -> Any:
        client: TestClient = more.pop("client", self.client)
        return client.get(place, headers=list(headers), **more)


BELIEVED = (SECRET_HEADER, SECRET)
ANA = (NAME_HEADER, "ana@example.org")


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(read_proxy(written(tmp_path)), tmp_path / "store")


def test_a_person_of_the_proxy_has_a_session(site: Site) -> None:
    first = site.get("/runs", BELIEVED, ANA)
    assert (first.status_code, first.headers["location"]) == (303, "/runs?signed-in")
    cookie = first.headers["set-cookie"]
    assert all(part in cookie for part in ("HttpOnly", "Secure", "SameSite=lax"))
    page = site.get("/runs", BELIEVED, ANA)
    assert page.status_code == 200
    assert "ana@example.org, owner" in readable(page.text)


@pytest.mark.parametrize(
    ("name", "groups", "role"),
    [
        ("ben@example.org", "approvers", "approver"),
        ("ben@example.org", "staff,approvers", "approver"),
        ("ben@example.org", "staff", "viewer"),
        ("ana@example.org", "staff", "owner"),
        ("ben@example.org", "others", None),
        ("ben@example.org", "", None),
        ("", "approvers", None),
        ("x" * 300, "approvers", None),
        ("a\u202eb", "approvers", None),
    ],
)
def test_a_role_is_of_the_name_or_a_group(
    tmp_path: Path, name: str, groups: str, role: str | None
) -> None:
    person = read_proxy(written(tmp_path)).person([name], [groups])
    assert (person.role if person else None) == role


FORGED: dict[str, list[tuple[str, str]]] = {
    "no secret": [ANA],
    "an empty secret": [ANA, (SECRET_HEADER, "")],
    "a guess": [ANA, (SECRET_HEADER, "s" * 39)],
    "a longer guess": [ANA, (SECRET_HEADER, SECRET + "s")],
    "two secrets": [ANA, BELIEVED, BELIEVED],
    "a secret and a guess": [ANA, BELIEVED, (SECRET_HEADER, "guess")],
    "two secrets in one": [ANA, (SECRET_HEADER, f"{SECRET},{SECRET}")],
    "two names": [ANA, (NAME_HEADER, "ben@example.org"), BELIEVED],
    "no name": [BELIEVED],
    "two lists of groups": [
        (NAME_HEADER, "ben@example.org"),
        (GROUPS_HEADER, "staff"),
        (GROUPS_HEADER, "approvers"),
        BELIEVED,
    ],
    "another header of names": [("X-Forwarded-User", "ana@example.org"), BELIEVED],
    "a listed address in a header": [ANA, ("X-Forwarded-For", "127.0.0.1")],
}


@pytest.mark.parametrize("name", FORGED)
def test_forged_headers_sign_nobody_in(site: Site, name: str) -> None:
    answer = site.get("/runs", *FORGED[name])
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers
    assert "example.org" not in answer.text
    assert site.sessions._sessions == {}


@pytest.mark.parametrize(
    "address", ["10.2.0.1", "127.0.0.2", "::1", "::ffff:10.2.0.1", "proxy", ""]
)
def test_other_addresses_are_not_believed(site: Site, address: str) -> None:
    forwarded = ("X-Forwarded-For", "127.0.0.1")
    answer = site.get("/runs", BELIEVED, ANA, forwarded, client=site.at(address))
    assert answer.status_code == 403
    assert "through its proxy alone" in answer.text


@pytest.mark.parametrize("address", ["10.1.2.3", "::ffff:127.0.0.1"])
def test_listed_networks_are_believed(site: Site, address: str) -> None:
    assert site.get("/runs", BELIEVED, ANA, client=site.at(address)).status_code == 303


def test_a_cookie_is_of_one_person_and_role(site: Site) -> None:
    site.get("/runs", BELIEVED, ANA)
    cookie = site.client.cookies[COOKIE]
    # the cookie without the proxy's headers, and with those of somebody else
    assert site.get("/runs").status_code == 403
    ben = (NAME_HEADER, "ben@example.org"), (GROUPS_HEADER, "staff")
    other = site.get("/jobs", BELIEVED, *ben)
    assert other.status_code == 303
    assert site.client.cookies[COOKIE] != cookie
    assert site.get("/jobs", BELIEVED, *ben).status_code == 403
    # ana's session has ended
    assert site.sessions.of_cookie(cookie) is None


def test_a_browser_without_cookies_is_told_so(site: Site) -> None:
    place = site.get("/runs", BELIEVED, ANA).headers["location"]
    site.client.cookies.clear()
    answer = site.get(place, BELIEVED, ANA)
    assert answer.status_code == 403
    assert "keeps no cookie" in answer.text


def test_no_other_way_to_sign_in_is_open(site: Site) -> None:
    token = site.sessions.one_time_token
    assert "set-cookie" not in site.get(f"/sign-in?token={token}", BELIEVED, ANA).headers
    fields = {"name": "ana@example.org", "password": ""}
    answer = site.client.post("/sign-in", data=fields, headers=[BELIEVED, ANA])
    assert answer.status_code == 401


def test_the_address_after_signing_in_is_of_this_site(site: Site) -> None:
    for place in ("//evil.example/runs", "/%5Cevil.example", "/%2F%2Fevil.example"):
        answer = site.get(f"https://{HOST}{place}", BELIEVED, ANA)
        location = answer.headers.get("location", "/")
        assert location.startswith("/")
        assert not location.startswith(("//", "/\\"))


def test_signing_out_ends_the_session_of_the_proxy_too(tmp_path: Path) -> None:
    proxy = read_proxy(written(tmp_path, sign_out="/oauth2/sign_out"))
    site = Site(proxy, tmp_path / "store")
    site.get("/runs", BELIEVED, ANA)
    session = site.sessions.of_cookie(site.client.cookies[COOKIE])
    assert session is not None
    assert session.person == Person("ana@example.org", "owner")
    answer = site.client.post(
        "/sign-out", data={"form_token": session.form_token}, headers=[BELIEVED, ANA]
    )
    assert answer.headers["location"] == "/oauth2/sign_out"
    assert site.sessions._sessions == {}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"addresses": None}, "addresses is missing"),
        ({"addresses": ["proxy"]}, "'proxy' is no address"),
        ({"secret_file": None}, "give either secret_file or secret_variable"),
        ({"secret_variable": "X"}, "give either secret_file or secret_variable"),
        ({"secret_file": "none"}, "there is no file"),
        ({"secret_file": None, "secret_variable": "EVENHAND_NONE"}, "at least 32 printable"),
        ({"groups": {"staff": "root"}}, "group 'staff': the role must be one of viewer"),
        ({"groups": None, "people": None}, "nobody has a role"),
        ({"people": {"ana": {"role": "owner", "password": "x"}}}, "expected role, and perhaps key"),
        ({"sign_out": "//evil.example"}, "must be a path of this site"),
        ({"trust": True}, "the key 'trust' is unknown"),
        ({"addresses": "127.0.0.1"}, "addresses is of the wrong type"),
    ],
)
def test_a_fault_of_the_file_is_one_line(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        read_proxy(written(tmp_path, **changes))


def test_a_secret_of_the_environment_is_taken_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUR_SECRET", SECRET)
    proxy = read_proxy(written(tmp_path, secret_file=None, secret_variable="OUR_SECRET"))
    assert proxy.is_believed("127.0.0.1", [SECRET])
    assert "OUR_SECRET" not in os.environ


def test_files_that_others_reach_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path)
    (tmp_path / "proxy.secret").chmod(0o644)
    with pytest.raises(InputError, match="others may read it"):
        read_proxy(path)
    path.chmod(0o666)
    with pytest.raises(InputError, match="others may write it"):
        read_proxy(path)


def test_the_example_is_read(tmp_path: Path) -> None:
    text = (ROOT / "deploy" / "app" / "proxy.yaml").read_text()
    path = written(tmp_path)
    path.write_text(text)
    proxy = read_proxy(path)
    assert proxy.person(["ben@example.org"], ["staff,model-approvers"]) == Person(
        "ben@example.org", "approver"
    )
    assert SECRET not in repr(proxy)
    assert os.stat(path).st_mode & 0o022 == 0
