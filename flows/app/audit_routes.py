"""The addresses of an audit: the form with the file, the result, and the report."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.exceptions import HTTPException

from evenhand.flows.app.audit_views import AUDIT, ENDINGS, Audit, carry_out, form_errors
from evenhand.flows.app.sessions import Session
from evenhand.flows.app.uploads import Upload, parse_upload
from evenhand.flows.app.web import (
    REPORT_POLICY,
    AppSettings,
    Fields,
    In,
    InSession,
    render,
    require,
    require_own_form,
)
from evenhand.tasks.errors import InputError

UPLOAD_S = 60.0
# Audits at once; each may use as much memory as `audit_process` allows.
MOST_AUDITS = 1


def add_audit(app: FastAPI) -> None:
    """Add the addresses of an audit to the app."""
    app.state.audits = 0

    @app.get("/audit")
    def form(settings: In, session: InSession) -> Response:
        """The form, and the result of the session's last audit."""
        require(session, "person")
        return _form_page(settings, session, {}, {}, 200)

    @app.post("/audit")
    async def audit(request: Request, settings: In, session: InSession) -> Response:
        """Audit the file of the form; nothing of it is kept."""
        require(session, "person")
        if app.state.audits >= MOST_AUDITS:
            raise HTTPException(503, "Another audit is in progress: try again in a minute.")
        app.state.audits += 1
        try:
            upload = await _upload(request)
            require_own_form(session, upload.fields)
            errors = form_errors(upload)
            if not errors:
                result = await asyncio.to_thread(carry_out, upload)
                if isinstance(result, Audit):
                    session.kept[AUDIT] = result
                    return RedirectResponse("/audit/result", 303)
                errors = {"": result}
        finally:
            app.state.audits -= 1
        return _form_page(settings, session, upload.fields, errors, 422)

    @app.get("/audit/result")
    def result(settings: In, session: InSession) -> Response:
        """The values of the session's audit."""
        screen = _audit(session).screen
        return HTMLResponse(render("audited.html.j2", settings, session, screen=screen))

    @app.get("/audit/report")
    def report(session: InSession) -> Response:
        """The report of the session's audit, as `evenhand audit` writes it."""
        headers = {"Content-Security-Policy": REPORT_POLICY}
        return HTMLResponse(_audit(session).report, headers=headers)

    @app.post("/audit/delete")
    def delete(session: InSession, fields: Fields) -> Response:
        """Forget the session's audit."""
        require_own_form(session, fields)
        session.kept.pop(AUDIT, None)
        return RedirectResponse("/audit", 303)


async def _upload(request: Request) -> Upload:
    try:
        async with asyncio.timeout(UPLOAD_S):
            body = await request.body()
        return parse_upload(body, request.headers.get("content-type", ""))
    except TimeoutError:
        raise HTTPException(408, "The file took too long.") from None
    except ValueError:
        raise HTTPException(400, "The form cannot be read.") from None


def _audit(session: Session) -> Audit:
    require(session, "person")
    audit = session.kept.get(AUDIT)
    if not isinstance(audit, Audit):
        raise InputError("this session has no audit: it was deleted, or ended with its session.")
    return audit


def _form_page(
    settings: AppSettings,
    session: Session,
    values: Mapping[str, str],
    errors: Mapping[str, str],
    status: int,
) -> Response:
    page = render(
        "audit.html.j2",
        settings,
        session,
        values=values,
        errors=errors,
        endings=",".join(ENDINGS),
        has_result=AUDIT in session.kept,
    )
    return HTMLResponse(page, status)
