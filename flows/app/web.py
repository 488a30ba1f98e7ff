"""What all parts of the app's server share: its settings, who acts, pages, forms, and what every
answer carries.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import threading
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import parse_qs

from fastapi import Depends, Request, Response
from fastapi.responses import HTMLResponse, PlainTextResponse
from jinja2 import Environment
from markupsafe import escape
from starlette.exceptions import HTTPException

from evenhand.fairlib.escaping import plain_text
from evenhand.flows.app.audit_views import MOST_BYTES
from evenhand.flows.app.people import Person
from evenhand.flows.app.proxy import SECRET_HEADER, Proxy
from evenhand.flows.app.sessions import COOKIE, Session, Sessions
from evenhand.tasks.cases.case_store import CaseStore
from evenhand.tasks.errors import NotCarriedOut
from evenhand.tasks.execution.store import Store
from evenhand.tasks.pages.build import template_environment
from evenhand.tasks.registry.bundle import NAME
from evenhand.tasks.registry.signed_records import KEY_VARIABLE, signing_with

ACTOR_VARIABLE = "EVENHAND_ACTOR"
MOST_BODY = 16 * 1024
# Bodies of forms with a file, by address.
LARGEST_BODIES = {"/audit": MOST_BYTES + MOST_BODY}
MOST_FIELDS = 500
BODY_S = 10.0
SQLITE = "sqlite:///"
# What a person reads after an action; the address names it, and nothing else of the address shows.
NOTICES = {
    "approve": "Your approval is recorded.",
    "refuse": "Your refusal is recorded.",
    "review": "Your review is recorded.",
    "replay": "The case was decided again, and the result is recorded in it.",
    "promote": "This version is the champion now.",
    "unchanged": "This version was the champion already: nothing was changed.",
}
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'self'; "
        "frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # with "no-referrer", browsers say "null" in place of the origin of a form
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
# A report has its styles in itself, and nothing else: the same as its own policy says.
REPORT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"


@dataclass(frozen=True)
class AppSettings:
    """What one server shows, to whom.

    - `registry`: address of the registry
    - `store`: has the runs and their reports
    - `cases`: the case files of people
    - `hosts`: values of the Host header that it answers, such as ``127.0.0.1:8000``
    - `proxy`: the proxy that says who somebody is; None where people sign in here
    - `jobs`: folder of jobs that can be started here, besides the shipped ones
    - `allow_changes`: whether approvers may change anything
    - `secure`: whether browsers reach it by HTTPS, and must send the cookie by nothing else
    """

    registry: str
    store: Store
    sessions: Sessions
    hosts: frozenset[str]
    cases: CaseStore | None = None  # None where the store is not on this machine
    proxy: Proxy | None = None
    jobs: Path | None = None
    allow_changes: bool = False
    secure: bool = False


class NotSignedIn(Exception):  # noqa: N818 - says what the visitor is
    """The visitor has no session; `person` is who the proxy says it is, to begin one."""

    def __init__(self, person: Person | None = None) -> None:
        super().__init__("not signed in")
        self.person = person


# Records take the acting person and the key from the environment of the process.
_ACTING = threading.Lock()


@contextlib.contextmanager
def acting_as(person: Person, *, own_process: bool) -> Iterator[None]:
    """Act in the name, and with the key, of a person; one person at a time.

    Of the people of a file, one without a key signs nothing: the key of the process (`own_process`)
    is that of who started it.
    """
    with _ACTING:
        before = {name: os.environ.get(name) for name in (ACTOR_VARIABLE, KEY_VARIABLE)}
        os.environ[ACTOR_VARIABLE] = person.name
        if not own_process:
            os.environ.pop(KEY_VARIABLE, None)
        try:
            with signing_with(person.key):
                yield
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value


def environment_of(settings: AppSettings, person: Person) -> dict[str, str]:
    """The environment of a process that acts in the name, and with the key, of a person."""
    # nobody else acts now, so it has nobody else's name
    with _ACTING:
        environment = dict(os.environ)
    environment[ACTOR_VARIABLE] = person.name
    if settings.sessions.only is None:
        environment.pop(KEY_VARIABLE, None)
    if person.key is not None:
        environment[KEY_VARIABLE] = str(person.key)
    return environment


@cache
def templates() -> Environment:
    """The templates of the app and of pages."""
    return template_environment("evenhand.flows.app", "evenhand.tasks.pages")


def render(template: str, settings: AppSettings, session: Session | None, **values: Any) -> str:
    """Return a page as HTML; a value replaces what every page gets by the same name."""
    everywhere: dict[str, Any] = {
        "person": session.person if session else None,
        "form_token": session.form_token if session else "",
        "with_password": settings.sessions.only is None and settings.proxy is None,
        "with_proxy": settings.proxy is not None,
        "figures": {},
        "notice": "",
        # tables of more than two columns are cards on a phone
        "stacked": True,
    }
    # texts of people, and of authors of records, have no characters that reorder the page
    return plain_text(templates().get_template(template).render({**everywhere, **values}))


def message_page(
    settings: AppSettings,
    session: Session | None,
    status: int,
    title: str,
    text: str,
    *,
    back: str = "",
) -> HTMLResponse:
    """Return a page with one message; `back` is the address of the screen before it."""
    page = render("message.html.j2", settings, session, title=title, text=text, back=back)
    return HTMLResponse(page, status)


def notice_of(done: str) -> str:
    """What a person reads after an action that an address names; empty for any other text."""
    return NOTICES.get(done, "")


def with_way_back(page: str, address: str, words: str) -> str:
    """A page that is printed, with a link back on the screen alone."""
    style = (
        "<style>.way-back{font:1rem/1.5 system-ui,sans-serif;max-width:48.5rem;margin:0 auto;"
        "padding:1rem 1.5rem 0}@media print{.way-back{display:none}}</style></head>"
    )
    link, stop, more_text = words.partition(".")
    line = (
        f'<body>\n<p class="way-back"><a href="{escape(address)}">{link}</a>{stop}{more_text}</p>'
    )
    return page.replace("</head>", style, 1).replace("<body>", line, 1)


async def guard(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
    """Refuse other hosts, other methods and large bodies; add the headers of every answer."""
    settings: AppSettings = request.app.state.settings
    refused = _refused_request(request, settings)
    if refused is not None:
        response: Response = refused
    else:
        response = await call_next(request)
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    if settings.secure:
        response.headers.setdefault("Strict-Transport-Security", "max-age=31536000")
    return response


def _refused_request(request: Request, settings: AppSettings) -> PlainTextResponse | None:
    # a page of another site may give its own name to this address
    if request.headers.get("host", "").lower() not in settings.hosts:
        return PlainTextResponse("This server has another name.\n", 421)
    if settings.proxy is not None and not _is_of_proxy(request, settings.proxy):
        return PlainTextResponse("This server is reached through its proxy alone.\n", 403)
    if request.method not in ("GET", "HEAD", "POST"):
        return PlainTextResponse("This method does nothing here.\n", 405)
    if request.method != "POST":
        return None
    return _refused_form(request, settings)


def _refused_form(request: Request, settings: AppSettings) -> PlainTextResponse | None:
    length = request.headers.get("content-length", "")
    if not length.isdecimal():
        return PlainTextResponse("A form must say its length.\n", 411)
    if int(length) > LARGEST_BODIES.get(request.url.path, MOST_BODY):
        return PlainTextResponse("This is larger than a form here may be.\n", 413)
    origin = request.headers.get("origin")
    if origin is not None and origin.partition("://")[2].lower() not in settings.hosts:
        return PlainTextResponse("This form is of another site.\n", 403)
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return PlainTextResponse("This form is of another site.\n", 403)
    return None


def _is_of_proxy(request: Request, proxy: Proxy) -> bool:
    address = request.client.host if request.client else ""
    return proxy.is_believed(address, request.headers.getlist(SECRET_HEADER))


async def read_form(request: Request) -> dict[str, str]:
    """The fields of a form; the last of several with one name."""
    try:
        async with asyncio.timeout(BODY_S):
            body = await request.body()
        fields = parse_qs(body.decode("utf-8"), keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except TimeoutError:
        raise HTTPException(408, "The form took too long.") from None
    except ValueError:
        raise HTTPException(400, "The form cannot be read.") from None
    return {name: values[-1] for name, values in fields.items()}


def settings_of(request: Request) -> AppSettings:
    """The settings of the server that answers."""
    settings: AppSettings = request.app.state.settings
    return settings


def places_of(settings: AppSettings) -> dict[str, Path]:
    """The folder of the store and the file of the registry, as far as they are on this machine and
    exist.
    """
    places = {}
    if settings.store.is_local:
        places["store"] = settings.store.local
    if settings.registry.startswith(SQLITE):
        places["registry"] = Path(settings.registry.removeprefix(SQLITE))
    return {name: path for name, path in places.items() if path.exists()}


def _check_places(request: Request) -> None:
    """Raise `NotCarriedOut` if the store or the registry has gone: an open file would still be
    read, and a lost store would look like an empty one.
    """
    for name, path in request.app.state.places.items():
        if not path.exists():
            raise NotCarriedOut(
                f"the {name} {path} is not there any more: put it back, or start the app again "
                "with another one."
            )


def session_of(request: Request) -> Session:
    """The visitor's session, which goes on; raises `NotSignedIn` if there is none."""
    return _session_of(request, is_used=True)


def watching_session_of(request: Request) -> Session:
    """The visitor's session, whose time goes by: a page asks by itself, and nobody used it."""
    return _session_of(request, is_used=False)


def _session_of(request: Request, *, is_used: bool) -> Session:
    settings = settings_of(request)
    cookie = request.cookies.get(COOKIE, "")
    session = settings.sessions.of_cookie(cookie, is_used=is_used)
    person = None
    if settings.proxy is not None:
        person = _person_of_proxy(request, settings.proxy)
        # somebody else has signed in at the proxy, or the person's role has changed
        if session is not None and session.person != person:
            settings.sessions.end(cookie)
            session = None
    if session is None:
        raise NotSignedIn(person)
    _check_places(request)
    return session


def _person_of_proxy(request: Request, proxy: Proxy) -> Person:
    headers = request.headers
    names = headers.getlist(proxy.name_header)
    groups = headers.getlist(proxy.groups_header)
    person = proxy.person(names, groups)
    if person is None:
        raise HTTPException(403, "Nobody gave you a role here: ask who runs this server.")
    return person


def model_name(name: str) -> str:
    """The name of a model in an address: what can be no model's name is no part of a question to
    the registry.
    """
    if not re.fullmatch(NAME, name):
        raise HTTPException(404)
    return name


def model_version(version: str) -> str:
    """The number of a version in an address."""
    if not re.fullmatch(r"[0-9]{1,9}", version):
        raise HTTPException(404)
    return version


Fields = Annotated[dict[str, str], Depends(read_form)]
InSession = Annotated[Session, Depends(session_of)]
InWatchingSession = Annotated[Session, Depends(watching_session_of)]
In = Annotated[AppSettings, Depends(settings_of)]
ModelName = Annotated[str, Depends(model_name)]
ModelVersion = Annotated[str, Depends(model_version)]


def require(session: Session, right: str) -> None:
    """Refuse what the person's role may not do."""
    if not session.person.may(right):
        raise HTTPException(403, f"Your role, {session.person.role}, does not include this.")


def require_own_form(session: Session, fields: dict[str, str]) -> None:
    """Refuse a form that was not made in the session."""
    if not session.owns_form(fields.get("form_token", "")):
        raise HTTPException(403, "This form is not of your session: open the page again.")
