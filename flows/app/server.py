"""The app's server: which address shows what, who may do it, and what every answer carries.

Everything is rendered here: there is no request to another host, no script but the one that shows
a run's progress, and nothing is kept in the browser but one cookie. Every change is one POST with
the token of the session's forms, and is written to the model's chain in the name, and with the key,
of the person who made it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.exceptions import HTTPException

from evenhand.flows.app import models_views
from evenhand.flows.app import registry_views as views
from evenhand.flows.app.ask_routes import add_ask
from evenhand.flows.app.ask_views import OpenAgents
from evenhand.flows.app.audit_routes import add_audit
from evenhand.flows.app.case_routes import add_cases
from evenhand.flows.app.comparison_views import comparison_screen
from evenhand.flows.app.job_routes import add_jobs
from evenhand.flows.app.job_runs import Busy, JobRunner
from evenhand.flows.app.paired_versions import PairedDifferences
from evenhand.flows.app.people import Person
from evenhand.flows.app.person_views import OpenModels, PersonScreen, answered_form, empty_form
from evenhand.flows.app.run_views import report_address, run_report, runs_screen
from evenhand.flows.app.sessions import COOKIE, LONGEST_S, Session, TooManyAttempts
from evenhand.flows.app.web import (
    REPORT_POLICY,
    AppSettings,
    Fields,
    In,
    InSession,
    ModelName,
    ModelVersion,
    NotSignedIn,
    acting_as,
    guard,
    message_page,
    notice_of,
    places_of,
    render,
    require,
    require_own_form,
    settings_of,
    templates,
    with_way_back,
)
from evenhand.tasks.errors import EvenhandError, GateRefused, InputError, without_secrets
from evenhand.tasks.pages import formats
from evenhand.tasks.registry import policy

# Before the name of a column in the form for one person.
COLUMN = "column "
# Screens with forms: what begins the address of a form.
FORMS = re.compile(r"/models/[^/]+/versions/[0-9]+|/cases/[^/]+|/jobs|/progress/[^/]+|/audit")
BEGINNINGS = ("the ", "no ", "there ", "this ", "give ", "version ", "a ")
# In the address after a session of a proxy has begun.
BEGUN = "signed-in"


def build_app(settings: AppSettings) -> FastAPI:
    """Return the app of one registry and one store."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    app.state.settings = settings
    app.state.places = places_of(settings)
    app.state.models = OpenModels(settings.store)
    app.state.agents = OpenAgents(settings.registry)
    app.state.runner = JobRunner(settings.store.url)
    app.state.pairs = PairedDifferences(settings.store)
    app.middleware("http")(guard)
    app.exception_handler(NotSignedIn)(_to_sign_in)
    app.exception_handler(EvenhandError)(_show_error)
    app.exception_handler(HTTPException)(_show_http_error)
    app.exception_handler(Exception)(_show_fault)
    _add_sign_in(app)
    _add_screens(app)
    _add_person(app)
    add_ask(app)
    add_jobs(app)
    add_audit(app)
    add_cases(app)
    _add_actions(app)
    return app


def _to_sign_in(request: Request, error: Exception) -> Response:
    if request.method == "POST":
        text = "Your session has ended, and nothing was changed. Sign in, then do it again."
        return message_page(settings_of(request), None, 401, "Signed out", text)
    person = getattr(error, "person", None)
    if person is not None:
        return _begin_of_proxy(request, person)
    return RedirectResponse("/sign-in", 303)


def _begin_of_proxy(request: Request, person: Person) -> Response:
    """Begin the session of a person whom the proxy named, and go on to the same screen."""
    settings = settings_of(request)
    if BEGUN in request.query_params:
        text = "This browser keeps no cookie of this site, so no session can begin."
        return message_page(settings, None, 403, "No session", text)
    cookie = settings.sessions.by_proxy(person)
    # the path alone: an address of another site is none
    return _signed_in(settings, cookie, f"/{request.url.path.lstrip('/')}?{BEGUN}")


def _show_error(request: Request, error: Exception) -> Response:
    """Show what is wrong with an address or an action, or what cannot be reached."""
    settings = settings_of(request)
    session = settings.sessions.of_cookie(request.cookies.get(COOKIE, ""))
    status = 503
    title = "It cannot be reached now"
    if isinstance(error, GateRefused):
        status = 409
        title = "Refused"
    elif isinstance(error, Busy):
        status = 409
        title = "Not now"
    elif isinstance(error, InputError):
        status = 404
        title = "Not here"
        if request.method == "POST":
            status = 400
            title = "Nothing was changed"
    text = without_secrets(str(error))
    # a message may begin with the name of a model or a job, which stays as it is
    if text.startswith(BEGINNINGS):
        text = formats.sentence(text)
    return message_page(settings, session, status, title, text, back=_way_back(request))


def _way_back(request: Request) -> str:
    """The screen of a form that was refused; empty if it is none that can be opened again."""
    match = FORMS.match(request.url.path)
    if request.method != "POST" or match is None:
        return ""
    return match.group(0)


def _show_http_error(request: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 500)
    settings = settings_of(request)
    session = settings.sessions.of_cookie(request.cookies.get(COOKIE, ""))
    titles = {404: "There is no such page", 403: "You may not do this"}
    detail = str(getattr(error, "detail", ""))
    if status == 404:
        detail = "The address may be of an older version. Begin with the models."
    return message_page(settings, session, status, titles.get(status, "Not done"), detail)


def _show_fault(request: Request, error: Exception) -> Response:
    # the class only: a message may hold anything
    text = f"This is a fault of evenhand ({type(error).__name__}). Nothing was changed by the page."
    return message_page(settings_of(request), None, 500, "A fault", text)


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
        page = render("sign_in.html.j2", settings, None, text=text)
        return HTMLResponse(page, 403 if token else 200)

    @app.post("/sign-in")
    def by_password(request: Request, settings: In, fields: Fields) -> Response:
        """Begin the session of a name and a password."""
        name = fields.get("name", "")
        password = fields.get("password", "")
        address = request.client.host if request.client else ""
        try:
            cookie = settings.sessions.by_password(name, password, address)
        except TooManyAttempts:
            text = "Too many attempts: try again in five minutes."
            return HTMLResponse(render("sign_in.html.j2", settings, None, text=text), 429)
        if cookie is None:
            text = "The name or the password is wrong."
            return HTMLResponse(render("sign_in.html.j2", settings, None, text=text), 401)
        return _signed_in(settings, cookie)

    @app.post("/sign-out")
    def sign_out(request: Request, settings: In, session: InSession, fields: Fields) -> Response:
        """End the session."""
        require_own_form(session, fields)
        settings.sessions.end(request.cookies.get(COOKIE, ""))
        proxy = settings.proxy
        address = proxy.sign_out if proxy is not None and proxy.sign_out else "/sign-in"
        response = RedirectResponse(address, 303)
        response.delete_cookie(COOKIE)
        return response

    @app.get("/style.css")
    def style() -> Response:
        """The one style sheet; nothing in it is about anybody."""
        text = templates().get_template("app.css.j2").render()
        return Response(text, media_type="text/css", headers={"Cache-Control": "max-age=3600"})


def _signed_in(settings: AppSettings, cookie: str, address: str = "/") -> Response:
    response = RedirectResponse(address, 303)
    response.set_cookie(
        COOKIE,
        cookie,
        max_age=LONGEST_S,
        httponly=True,
        # who comes back from the organisation's sign-in comes from another site: a strict cookie
        # would not be sent, and the session would begin again and again
        samesite="strict" if settings.proxy is None else "lax",
        secure=settings.secure,
    )
    return response


def _add_screens(app: FastAPI) -> None:
    @app.get("/")
    def models(settings: In, session: InSession, find: str = "", page: str = "1") -> Response:
        """All models, or those whose names have some words."""
        number = int(page) if page.isascii() and page.isdigit() and len(page) < 7 else 1
        screen = models_views.models_screen(settings.registry, find, number)
        text = render(
            "models.html.j2",
            settings,
            session,
            screen=screen.screen,
            find=screen.find,
            is_searched=screen.is_searched,
            pages=screen.pages,
        )
        return HTMLResponse(text)

    @app.get("/models/{name}")
    def model(settings: In, session: InSession, name: ModelName) -> Response:
        """One model."""
        screen = views.model_screen(settings.registry, name)
        page = render("model.html.j2", settings, session, decided=[], **_choice(screen, name))
        return HTMLResponse(page)

    @app.get("/models/{name}/compare")
    def compare(
        request: Request,
        settings: In,
        session: InSession,
        name: ModelName,
        first: str = "",
        second: str = "",
    ) -> Response:
        """Two versions of a model side by side."""
        pairs: PairedDifferences = request.app.state.pairs
        with acting_as(session.person, own_process=settings.sessions.only is not None):
            screen = comparison_screen(settings.registry, pairs, name, first, second)
        choice = _choice(screen, name, first, second)
        decided = [(second, views.version_address(name, second))]
        decided.append((first, views.version_address(name, first)))
        may_change = settings.allow_changes and session.person.may("decide")
        page = render(
            "model.html.j2", settings, session, decided=decided, may_change=may_change, **choice
        )
        return HTMLResponse(page)

    @app.get("/models/{name}/versions/{version}")
    def version(
        settings: In, session: InSession, name: ModelName, version: ModelVersion, done: str = ""
    ) -> Response:
        """One version, with the forms of what the person may do."""
        return _version_page(settings, session, name, version, notice=notice_of(done))

    @app.get("/runs")
    def runs(settings: In, session: InSession) -> Response:
        """All runs of the store."""
        screen = runs_screen(settings.store)
        return HTMLResponse(render("screen.html.j2", settings, session, screen=screen))

    @app.get("/runs/{run_id}/report")
    def report(settings: In, session: InSession, run_id: str) -> Response:
        """The report of a run, as it was written."""
        text = run_report(settings.store, run_id)
        text = with_way_back(text, "/runs", "Back to the runs")
        return HTMLResponse(text, headers={"Content-Security-Policy": REPORT_POLICY})


def _version_page(
    settings: AppSettings,
    session: Session,
    name: str,
    version: str,
    *,
    notice: str = "",
    errors: Mapping[str, str] | None = None,
    reason: str = "",
) -> Response:
    """The page of a version; `errors` has what is wrong with the reason of an action."""
    only = settings.sessions.only is not None
    with acting_as(session.person, own_process=only):
        version_screen = views.version_screen(settings.registry, name, version)
    page = render(
        "version.html.j2",
        settings,
        session,
        shown=version_screen,
        report=report_address(settings.store, version_screen.evaluation),
        screen=version_screen.screen,
        may_change=settings.allow_changes and session.person.may("decide"),
        read_only=not settings.allow_changes,
        notice=notice,
        errors=errors or {},
        reason=reason,
        address=views.version_address(name, version),
        model_address=views.model_address(name),
    )
    return HTMLResponse(page, 400 if errors else 200)


def _add_person(app: FastAPI) -> None:
    place = "/models/{name}/versions/{version}/person"

    @app.get(place)
    def person(
        request: Request, settings: In, session: InSession, name: ModelName, version: ModelVersion
    ) -> Response:
        """The form for one person."""
        require(session, "person")
        person_screen = empty_form(request.app.state.models, name, version)
        return _person_page(settings, session, person_screen, 200)

    @app.post(place)
    def decide(
        request: Request,
        settings: In,
        session: InSession,
        fields: Fields,
        name: ModelName,
        version: ModelVersion,
    ) -> Response:
        """The decision about one person, explained; nothing is kept."""
        require(session, "person")
        require_own_form(session, fields)
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
    version_address = views.version_address(shown.name, shown.version)
    page = render(
        "person.html.j2",
        settings,
        session,
        shown=shown,
        screen=shown.screen,
        ids=ids,
        address=f"{version_address}/person",
        version_address=version_address,
        model_address=views.model_address(shown.name),
    )
    return HTMLResponse(page, status)


def _choice(screen: views.Screen, name: str, first: str = "", second: str = "") -> dict[str, Any]:
    """A screen with the form that chooses two versions, which begins with the newest ones."""
    numbers = screen.versions
    if not first and len(numbers) > 1:
        first = numbers[1]
        second = numbers[0]
    return {
        "screen": screen,
        "numbers": numbers,
        "first": first,
        "second": second,
        "compare_address": f"{views.model_address(name)}/compare",
        "model_name": name,
        "model_address": views.model_address(name),
    }


def _add_actions(app: FastAPI) -> None:
    @app.post("/models/{name}/versions/{version}/{action}")
    def act(
        settings: In,
        session: InSession,
        fields: Fields,
        name: ModelName,
        version: ModelVersion,
        action: str,
    ) -> Response:
        """Approve, refuse or promote a version, with a reason."""
        require_own_form(session, fields)
        if not settings.allow_changes:
            raise HTTPException(403, "This server shows only: it was started without changes.")
        if not session.person.may("decide"):
            raise HTTPException(403, f"Your role, {session.person.role}, decides about no version.")
        done = action
        # an action of the address that does not exist changes nothing
        if action not in ("approve", "refuse", "promote"):
            raise HTTPException(404)
        reason = fields.get("reason", "")
        error = _fault_of_reason(action, reason)
        if error:
            return _version_page(
                settings, session, name, version, errors={action: error}, reason=reason
            )
        only = settings.sessions.only is not None
        with acting_as(session.person, own_process=only):
            if action == "approve":
                policy.approve(settings.registry, name, version, note=reason)
            elif action == "refuse":
                policy.refuse(settings.registry, name, version, reason)
            elif not policy.promote(settings.registry, name, version, views.CHAMPION, note=reason):
                done = "unchanged"
        address = views.version_address(name, version)
        return RedirectResponse(f"{address}?done={quote(done)}", 303)


def _fault_of_reason(action: str, reason: str) -> str:
    """What is wrong with the reason of an action; empty if nothing is."""
    text = " ".join(reason.split())
    if action == "refuse" and not text:
        return "Give the reason: it is written to the record."
    if len(text) > policy.LONGEST_REASON:
        return f"Shorten the reason to {policy.LONGEST_REASON:,} characters; it has {len(text):,}."
    return ""
