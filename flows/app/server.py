"""The app's server: which address shows what, who may do it, and what every answer carries.

Everything is rendered here: there is no script, no request to another host, and nothing is kept in
the browser but one cookie. Every change is one POST with the token of the session's forms, and is
written to the model's chain in the name, and with the key, of the person who made it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any
from urllib.parse import parse_qs, quote

from fastapi import Depends, FastAPI, Request, Response
from fastapi.responses import HTMLResponse, PlainTextResponse, RedirectResponse
from jinja2 import Environment
from starlette.exceptions import HTTPException

from evenhand.fairlib.escaping import plain_text
from evenhand.flows.app import registry_views as views
from evenhand.flows.app.case_views import case_file, case_screen, cases_screen
from evenhand.flows.app.people import Person
from evenhand.flows.app.person_views import OpenModels, PersonScreen, answered_form, empty_form
from evenhand.flows.app.run_views import run_report, runs_screen
from evenhand.flows.app.sessions import COOKIE, LONGEST_S, Session, Sessions, TooManyAttempts
from evenhand.flows.case import review
from evenhand.tasks.cases.case_page import OUTCOMES
from evenhand.tasks.cases.case_store import CaseStore
from evenhand.tasks.errors import EvenhandError, GateRefused, InputError, without_secrets
from evenhand.tasks.execution.store import Store
from evenhand.tasks.pages.build import template_environment
from evenhand.tasks.registry import policy
from evenhand.tasks.registry.signed_records import KEY_VARIABLE, signing_with

ACTOR_VARIABLE = "EVENHAND_ACTOR"
MOST_BODY = 16 * 1024
MOST_FIELDS = 500
# Before the name of a column in the form for one person.
COLUMN = "column "
BODY_S = 10.0
# What a person reads after an action; the address names it, and nothing else of the address shows.
NOTICES = {
    "approve": "Your approval is recorded.",
    "refuse": "Your refusal is recorded.",
    "review": "Your review is recorded.",
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
    - `allow_changes`: whether approvers may change anything
    - `secure`: whether browsers reach it by HTTPS, and must send the cookie by nothing else
    """

    registry: str
    store: Store
    sessions: Sessions
    hosts: frozenset[str]
    cases: CaseStore | None = None  # None where the store is not on this machine
    allow_changes: bool = False
    secure: bool = False


class NotSignedIn(Exception):  # noqa: N818 - says what the visitor is
    """The visitor has no session."""


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


@cache
def _templates() -> Environment:
    return template_environment("evenhand.flows.app", "evenhand.tasks.pages")


def _render(template: str, settings: AppSettings, session: Session | None, **values: Any) -> str:
    everywhere: dict[str, Any] = {
        "person": session.person if session else None,
        "form_token": session.form_token if session else "",
        "with_password": settings.sessions.only is None,
        "figures": {},
        "notice": "",
    }
    # texts of people, and of whoever writes records, have no characters that reorder the page
    return plain_text(_templates().get_template(template).render({**everywhere, **values}))


def _message_page(
    settings: AppSettings, session: Session | None, status: int, title: str, text: str
) -> HTMLResponse:
    page = _render("message.html.j2", settings, session, title=title, text=text)
    return HTMLResponse(page, status)


def build_app(settings: AppSettings) -> FastAPI:
    """Return the app of one registry and one store."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    app.state.settings = settings
    app.state.models = OpenModels(settings.store)
    app.middleware("http")(_guard)
    app.exception_handler(NotSignedIn)(_to_sign_in)
    app.exception_handler(EvenhandError)(_show_error)
    app.exception_handler(HTTPException)(_show_http_error)
    app.exception_handler(Exception)(_show_fault)
    _add_sign_in(app)
    _add_screens(app)
    _add_person(app)
    _add_cases(app)
    _add_actions(app)
    return app


async def _guard(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
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
    if request.method not in ("GET", "HEAD", "POST"):
        return PlainTextResponse("This method does nothing here.\n", 405)
    if request.method != "POST":
        return None
    length = request.headers.get("content-length", "")
    if not length.isdecimal():
        return PlainTextResponse("A form must say its length.\n", 411)
    if int(length) > MOST_BODY:
        return PlainTextResponse("A form has at most 16 KiB.\n", 413)
    origin = request.headers.get("origin")
    if origin is not None and origin.partition("://")[2].lower() not in settings.hosts:
        return PlainTextResponse("This form is of another site.\n", 403)
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return PlainTextResponse("This form is of another site.\n", 403)
    return None


async def _form(request: Request) -> dict[str, str]:
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


def _settings(request: Request) -> AppSettings:
    settings: AppSettings = request.app.state.settings
    return settings


def _session(request: Request) -> Session:
    session = _settings(request).sessions.of_cookie(request.cookies.get(COOKIE, ""))
    if session is None:
        raise NotSignedIn
    return session


Fields = Annotated[dict[str, str], Depends(_form)]
InSession = Annotated[Session, Depends(_session)]
In = Annotated[AppSettings, Depends(_settings)]


def _to_sign_in(request: Request, error: Exception) -> Response:
    if request.method == "POST":
        text = "Your session has ended, and nothing was changed. Sign in, then do it again."
        return _message_page(_settings(request), None, 401, "Signed out", text)
    return RedirectResponse("/sign-in", 303)


def _show_error(request: Request, error: Exception) -> Response:
    """Show what is wrong with an address or an action, or what cannot be reached."""
    settings = _settings(request)
    session = settings.sessions.of_cookie(request.cookies.get(COOKIE, ""))
    status, title = 503, "It cannot be reached now"
    if isinstance(error, GateRefused):
        status, title = 409, "Refused"
    elif isinstance(error, InputError):
        status, title = 404, "Not here"
        if request.method == "POST":
            status, title = 400, "Nothing was changed"
    return _message_page(settings, session, status, title, without_secrets(str(error)))


def _show_http_error(request: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 500)
    settings = _settings(request)
    session = settings.sessions.of_cookie(request.cookies.get(COOKIE, ""))
    titles = {404: "There is no such page", 403: "You may not do this"}
    detail = str(getattr(error, "detail", ""))
    if status == 404:
        detail = "The address may be of an older version. Begin with the models."
    return _message_page(settings, session, status, titles.get(status, "Not done"), detail)


def _show_fault(request: Request, error: Exception) -> Response:
    # the class only: a message may hold anything
    text = f"This is a fault of evenhand ({type(error).__name__}). Nothing was changed by the page."
    return _message_page(_settings(request), None, 500, "A fault", text)


def _add_sign_in(app: FastAPI) -> None:
    @app.get("/sign-in")
    def sign_in(settings: In, token: str = "") -> Response:
        """Begin the session of a one-time token, or show how to sign in."""
        if token:
            cookie = settings.sessions.by_token(token)
            if cookie is not None:
                return _signed_in(settings, cookie)
        text = ""
        if token:
            text = "This link was used already, or is of another start of the app."
        page = _render("sign_in.html.j2", settings, None, text=text)
        return HTMLResponse(page, 403 if token else 200)

    @app.post("/sign-in")
    def by_password(request: Request, settings: In, fields: Fields) -> Response:
        """Begin the session of a name and a password."""
        name, password = fields.get("name", ""), fields.get("password", "")
        address = request.client.host if request.client else ""
        try:
            cookie = settings.sessions.by_password(name, password, address)
        except TooManyAttempts:
            text = "Too many attempts: try again in five minutes."
            return HTMLResponse(_render("sign_in.html.j2", settings, None, text=text), 429)
        if cookie is None:
            text = "The name or the password is wrong."
            return HTMLResponse(_render("sign_in.html.j2", settings, None, text=text), 401)
        return _signed_in(settings, cookie)

    @app.post("/sign-out")
    def sign_out(request: Request, settings: In, session: InSession, fields: Fields) -> Response:
        """End the session."""
        _require_own_form(session, fields)
        settings.sessions.end(request.cookies.get(COOKIE, ""))
        response = RedirectResponse("/sign-in", 303)
        response.delete_cookie(COOKIE)
        return response

    @app.get("/style.css")
    def style() -> Response:
        """The one style sheet; nothing in it is about anybody."""
        text = _templates().get_template("app.css.j2").render()
        return Response(text, media_type="text/css", headers={"Cache-Control": "max-age=3600"})


def _signed_in(settings: AppSettings, cookie: str) -> Response:
    response = RedirectResponse("/", 303)
    response.set_cookie(
        COOKIE,
        cookie,
        max_age=LONGEST_S,
        httponly=True,
        samesite="strict",
        secure=settings.secure,
    )
    return response


def _add_screens(app: FastAPI) -> None:
    @app.get("/")
    def models(settings: In, session: InSession) -> Response:
        """All models."""
        screen = views.models_screen(settings.registry)
        return HTMLResponse(_render("screen.html.j2", settings, session, screen=screen))

    @app.get("/models/{name}")
    def model(settings: In, session: InSession, name: str) -> Response:
        """One model."""
        screen = views.model_screen(settings.registry, name)
        page = _render("model.html.j2", settings, session, **_choice(screen, name))
        return HTMLResponse(page)

    @app.get("/models/{name}/compare")
    def compare(
        settings: In, session: InSession, name: str, first: str = "", second: str = ""
    ) -> Response:
        """Two versions of a model side by side."""
        screen = views.comparison_screen(settings.registry, name, first, second)
        page = _render("model.html.j2", settings, session, **_choice(screen, name, first, second))
        return HTMLResponse(page)

    @app.get("/models/{name}/versions/{version}")
    def version(
        settings: In, session: InSession, name: str, version: str, done: str = ""
    ) -> Response:
        """One version, with the forms of what the person may do."""
        only = settings.sessions.only is not None
        with acting_as(session.person, own_process=only):
            version_screen = views.version_screen(settings.registry, name, version)
        page = _render(
            "version.html.j2",
            settings,
            session,
            shown=version_screen,
            screen=version_screen.screen,
            may_change=settings.allow_changes and session.person.may("decide"),
            read_only=not settings.allow_changes,
            notice=NOTICES.get(done, ""),
            address=f"/{views.version_address(name, version)}",
            model_address=f"/{views.model_address(name)}",
        )
        return HTMLResponse(page)

    @app.get("/runs")
    def runs(settings: In, session: InSession) -> Response:
        """All runs of the store."""
        screen = runs_screen(settings.store)
        return HTMLResponse(_render("screen.html.j2", settings, session, screen=screen))

    @app.get("/runs/{run_id}/report")
    def report(settings: In, session: InSession, run_id: str) -> Response:
        """The report of a run, as it was written."""
        text = run_report(settings.store, run_id)
        return HTMLResponse(text, headers={"Content-Security-Policy": REPORT_POLICY})


def _add_person(app: FastAPI) -> None:
    place = "/models/{name}/versions/{version}/person"

    @app.get(place)
    def person(
        request: Request, settings: In, session: InSession, name: str, version: str
    ) -> Response:
        """The form for one person."""
        _require(session, "person")
        person_screen = empty_form(request.app.state.models, name, version)
        return _person_page(settings, session, person_screen, 200)

    @app.post(place)
    def decide(
        request: Request,
        settings: In,
        session: InSession,
        fields: Fields,
        name: str,
        version: str,
    ) -> Response:
        """The decision about one person, explained; nothing is kept."""
        _require(session, "person")
        _require_own_form(session, fields)
        answers = {}
        for key, text in fields.items():
            if key.startswith(COLUMN):
                answers[key.removeprefix(COLUMN)] = text
        person_screen, is_decided = answered_form(request.app.state.models, name, version, answers)
        return _person_page(settings, session, person_screen, 200 if is_decided else 422)


def _person_page(
    settings: AppSettings, session: Session, shown: PersonScreen, status: int
) -> Response:
    ids = {field.name: f"input-{number}" for number, field in enumerate(shown.fields)}
    version_address = f"/{views.version_address(shown.name, shown.version)}"
    page = _render(
        "person.html.j2",
        settings,
        session,
        shown=shown,
        screen=shown.screen,
        ids=ids,
        address=f"{version_address}/person",
        version_address=version_address,
        model_address=f"/{views.model_address(shown.name)}",
    )
    return HTMLResponse(page, status)


def _add_cases(app: FastAPI) -> None:
    @app.get("/cases")
    def cases(settings: In, session: InSession) -> Response:
        """The case files of people."""
        screen = cases_screen(_cases(settings, session))
        return HTMLResponse(_render("screen.html.j2", settings, session, screen=screen))

    @app.get("/cases/{case}")
    def case(settings: In, session: InSession, case: str, done: str = "") -> Response:
        """One case file, with the form of a review."""
        screen = case_screen(_cases(settings, session), case)
        page = _render(
            "case.html.j2",
            settings,
            session,
            screen=screen,
            case=case,
            may_change=settings.allow_changes,
            notice=NOTICES.get(done, ""),
        )
        return HTMLResponse(page)

    @app.get("/cases/{case}/file")
    def file(settings: In, session: InSession, case: str) -> Response:
        """The case file as it is printed."""
        text = case_file(_cases(settings, session), case)
        return HTMLResponse(text, headers={"Content-Security-Policy": REPORT_POLICY})

    @app.post("/cases/{case}/review")
    def add_review(settings: In, session: InSession, fields: Fields, case: str) -> Response:
        """Record what a person who looked at a case decided."""
        cases = _cases(settings, session)
        _require_own_form(session, fields)
        if not settings.allow_changes:
            raise HTTPException(403, "This server shows only: it was started without changes.")
        outcome, reason = fields.get("outcome", ""), " ".join(fields.get("reason", "").split())
        if outcome not in OUTCOMES or not reason or len(reason) > policy.LONGEST_REASON:
            raise InputError("a review needs an outcome and a reason of at most 2,000 characters.")
        with acting_as(session.person, own_process=settings.sessions.only is not None):
            review(cases, cases.find(case), outcome, reason)
        return RedirectResponse(f"/cases/{quote(case)}?done=review", 303)


def _cases(settings: AppSettings, session: Session) -> CaseStore:
    """The case files, for people whose role includes them."""
    _require(session, "cases")
    if settings.cases is None:
        raise InputError("the store is at a URL, and case files stay on one machine.")
    return settings.cases


def _choice(screen: views.Screen, name: str, first: str = "", second: str = "") -> dict[str, Any]:
    """A screen with the form that chooses two versions, which begins with the newest ones."""
    numbers = screen.versions
    if not first and len(numbers) > 1:
        first, second = numbers[1], numbers[0]
    return {
        "screen": screen,
        "numbers": numbers,
        "first": first,
        "second": second,
        "compare_address": f"/{views.model_address(name)}/compare",
        "model_name": name,
        "model_address": f"/{views.model_address(name)}",
    }


def _add_actions(app: FastAPI) -> None:
    @app.post("/models/{name}/versions/{version}/{action}")
    def act(
        settings: In, session: InSession, fields: Fields, name: str, version: str, action: str
    ) -> Response:
        """Approve, refuse or promote a version, with a reason."""
        _require_own_form(session, fields)
        if not settings.allow_changes:
            raise HTTPException(403, "This server shows only: it was started without changes.")
        if not session.person.may("decide"):
            raise HTTPException(403, f"Your role, {session.person.role}, decides about no version.")
        done = action
        # an action of the address that does not exist changes nothing
        if action not in ("approve", "refuse", "promote"):
            raise HTTPException(404)
        reason = fields.get("reason", "")
        only = settings.sessions.only is not None
        with acting_as(session.person, own_process=only):
            if action == "approve":
                policy.approve(settings.registry, name, version, note=reason)
            elif action == "refuse":
                policy.refuse(settings.registry, name, version, reason)
            elif not policy.promote(settings.registry, name, version, views.CHAMPION, note=reason):
                done = "unchanged"
        address = f"/{views.version_address(name, version)}"
        return RedirectResponse(f"{address}?done={quote(done)}", 303)


def _require(session: Session, right: str) -> None:
    """Refuse what the person's role may not do."""
    if not session.person.may(right):
        raise HTTPException(403, f"Your role, {session.person.role}, does not include this.")


def _require_own_form(session: Session, fields: dict[str, str]) -> None:
    if not session.owns_form(fields.get("form_token", "")):
        raise HTTPException(403, "This form is not of your session: open the page again.")
