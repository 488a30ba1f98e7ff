"""The addresses of case files: the list, one case with its forms, and what is printed."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

from fastapi import FastAPI, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.exceptions import HTTPException

from evenhand.flows.app.case_views import case_file, case_letter, case_screen, cases_screen
from evenhand.flows.app.sessions import Session
from evenhand.flows.app.web import (
    REPORT_POLICY,
    AppSettings,
    Fields,
    In,
    InSession,
    acting_as,
    notice_of,
    render,
    require,
    require_own_form,
    with_way_back,
)
from evenhand.flows.case import replay, review
from evenhand.tasks.cases.case_page import OUTCOMES
from evenhand.tasks.cases.case_store import CaseStore
from evenhand.tasks.errors import InputError
from evenhand.tasks.pages import formats
from evenhand.tasks.registry import policy

PRINT = "Back to the case. To print this page, use the menu of your browser."


def add_cases(app: FastAPI) -> None:
    """Add the addresses of case files to the app."""

    @app.get("/cases")
    def cases(settings: In, session: InSession) -> Response:
        """The case files of people."""
        screen = cases_screen(_cases(settings, session))
        return HTMLResponse(render("screen.html.j2", settings, session, screen=screen))

    @app.get("/cases/{case}")
    def case(settings: In, session: InSession, case: str, done: str = "") -> Response:
        """One case file, with the forms of a review and of a correction."""
        return _case_page(settings, session, case, notice=notice_of(done))

    @app.get("/cases/{case}/file")
    def file(settings: In, session: InSession, case: str) -> Response:
        """The case file as it is printed."""
        text = case_file(_cases(settings, session), case)
        return _printed(text, case)

    @app.get("/cases/{case}/letter")
    def letter(settings: In, session: InSession, case: str) -> Response:
        """The letter to the person, as it is printed."""
        text = case_letter(_cases(settings, session), case)
        return _printed(text, case)

    _add_forms(app)


def _add_forms(app: FastAPI) -> None:
    @app.post("/cases/{case}/review")
    def add_review(settings: In, session: InSession, fields: Fields, case: str) -> Response:
        """Record what a person who looked at a case decided."""
        cases = _cases(settings, session)
        _check_change(settings, session, fields)
        outcome = fields.get("outcome", "")
        reason = " ".join(fields.get("reason", "").split())
        errors = _faults_of_review(outcome, reason)
        if errors:
            return _case_page(settings, session, case, errors=errors, values=fields)
        with acting_as(session.person, own_process=settings.sessions.only is not None):
            review(cases, cases.find(case), outcome, reason)
        return RedirectResponse(f"/cases/{quote(case)}?done=review", 303)

    @app.post("/cases/{case}/replay")
    def decide_again(settings: In, session: InSession, fields: Fields, case: str) -> Response:
        """Decide a case again on the version that decided it, perhaps with a corrected value."""
        cases = _cases(settings, session)
        _check_change(settings, session, fields)
        name = cases.find(case)
        column = fields.get("column", "")
        value = fields.get("value", "").strip()
        errors = _faults_of_correction(column, value)
        if errors:
            return _case_page(settings, session, case, errors=errors, values=fields)
        corrected = {column: value} if column else {}
        try:
            with acting_as(session.person, own_process=settings.sessions.only is not None):
                replay(cases, name, settings.store, corrected=corrected)
        except InputError as error:
            if not column:
                raise
            errors["value"] = formats.sentence(str(error).removeprefix(f"--correct {column}: "))
            return _case_page(settings, session, case, errors=errors, values=fields)
        return RedirectResponse(f"/cases/{quote(case)}?done=replay", 303)


def _faults_of_review(outcome: str, reason: str) -> dict[str, str]:
    """What is wrong with a review, by field."""
    errors = {}
    if outcome not in OUTCOMES:
        errors["outcome"] = "Choose one of both."
    if not reason:
        errors["reason"] = "Give a reason: it is written to the case."
    elif len(reason) > policy.LONGEST_REASON:
        errors["reason"] = f"Give at most {policy.LONGEST_REASON:,} characters."
    return errors


def _faults_of_correction(column: str, value: str) -> dict[str, str]:
    """What is wrong with a correction, by field, before the model is asked."""
    if column and not value:
        return {"value": "Give the corrected value, or choose to correct nothing."}
    if value and not column:
        return {"column": "Choose what the value corrects."}
    return {}


def _check_change(settings: AppSettings, session: Session, fields: dict[str, str]) -> None:
    require_own_form(session, fields)
    if not settings.allow_changes:
        raise HTTPException(403, "This server shows only: it was started without changes.")


def _case_page(
    settings: AppSettings,
    session: Session,
    case: str,
    *,
    notice: str = "",
    errors: Mapping[str, str] | None = None,
    values: Mapping[str, str] | None = None,
) -> Response:
    """The page of a case, perhaps with what is wrong with a form that was sent."""
    screen = case_screen(_cases(settings, session), case)
    page = render(
        "case.html.j2",
        settings,
        session,
        screen=screen.screen,
        details=screen.details,
        inputs=screen.inputs,
        case=case,
        may_change=settings.allow_changes,
        notice=notice,
        errors=errors or {},
        values=values or {},
    )
    return HTMLResponse(page, 400 if errors else 200)


def _printed(text: str, case: str) -> Response:
    page = with_way_back(text, f"/cases/{quote(case)}", PRINT)
    return HTMLResponse(page, headers={"Content-Security-Policy": REPORT_POLICY})


def _cases(settings: AppSettings, session: Session) -> CaseStore:
    """The case files, for people whose role includes them."""
    require(session, "cases")
    if settings.cases is None:
        raise InputError("the store is at a URL, and case files stay on one machine.")
    return settings.cases
