"""The addresses of an audit: the form with the file, the result, and the report."""

from __future__ import annotations

import asyncio
import contextlib
import time
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import replace

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.exceptions import HTTPException

from evenhand.flows.app.audit_choices import (
    LONGEST_WAIT_S,
    MOST_WAITING,
    PENDING,
    SENSITIVE,
    PendingAudit,
    TableColumn,
    chosen_options,
    guesses,
    value_choice,
)
from evenhand.flows.app.audit_views import (
    AUDIT,
    ENDINGS,
    Audit,
    carry_out,
    file_errors,
    read_columns,
)
from evenhand.flows.app.sessions import Session
from evenhand.flows.app.uploads import Upload, parse_upload
from evenhand.flows.app.web import (
    REPORT_POLICY,
    AppSettings,
    Fields,
    In,
    InSession,
    read_form,
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
    app.state.waiting = weakref.WeakSet()

    @app.get("/audit")
    def form(settings: In, session: InSession) -> Response:
        """The form, and the result of the session's last audit."""
        require(session, "person")
        return _form_page(settings, session, {}, 200)

    @app.post("/audit")
    async def audit(request: Request, settings: In, session: InSession) -> Response:
        """Look at the file of the form, and go on to its columns."""
        require(session, "person")
        with one_at_a_time(app):
            upload = await _upload(request)
            require_own_form(session, upload.fields)
            _drop(session)
            errors = file_errors(upload)
            if not errors and len(_waiting(app)) >= MOST_WAITING:
                errors = {"": "Other tables wait for an audit: try again in some minutes."}
            if not errors:
                columns = await asyncio.to_thread(read_columns, upload)
                if not isinstance(columns, str):
                    _wait_for_choice(app, session, upload, columns)
                    return RedirectResponse("/audit/columns", 303)
                errors = {"file": columns}
        return _form_page(settings, session, errors, 422)

    _add_choice(app)
    _add_result(app)


def _add_choice(app: FastAPI) -> None:
    @app.get("/audit/columns")
    def columns(settings: In, session: InSession) -> Response:
        """The columns of the table that waits, as choices."""
        require(session, "person")
        pending = _pending(session)
        return _columns_page(settings, session, pending, guesses(pending.columns), {}, 200)

    @app.post("/audit/columns")
    async def choose(request: Request, settings: In, session: InSession) -> Response:
        """Audit the table that waits; it is deleted then."""
        require(session, "person")
        fields = await read_form(request)
        require_own_form(session, fields)
        pending = _pending(session)
        options, errors = chosen_options(fields, pending.columns)
        if errors:
            return _columns_page(settings, session, pending, fields, errors, 422)
        upload = replace(pending.upload, fields=options)
        with one_at_a_time(app):
            result = await asyncio.to_thread(carry_out, upload)
        if isinstance(result, str):
            return _columns_page(settings, session, pending, fields, {"": result}, 422)
        _drop(session)
        session.kept[AUDIT] = result
        return RedirectResponse("/audit/result", 303)


def _add_result(app: FastAPI) -> None:
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
        """Forget the session's audit, and the table that waits for one."""
        require_own_form(session, fields)
        _drop(session)
        if fields.get("what") != "table":
            session.kept.pop(AUDIT, None)
        return RedirectResponse("/audit", 303)


@contextlib.contextmanager
def one_at_a_time(app: FastAPI) -> Iterator[None]:
    """Refuse a second table while another one is read or audited."""
    if app.state.audits >= MOST_AUDITS:
        raise HTTPException(503, "Another audit is in progress: try again in a minute.")
    app.state.audits += 1
    try:
        yield
    finally:
        app.state.audits -= 1


def _waiting(app: FastAPI) -> list[PendingAudit]:
    """The tables in memory that wait for a choice; those of ended sessions are gone."""
    waiting: weakref.WeakSet[PendingAudit] = app.state.waiting
    now = time.monotonic()
    for pending in list(waiting):
        if now > pending.until:
            _forget(pending)
    return [pending for pending in waiting if pending.upload.content is not None]


def _wait_for_choice(
    app: FastAPI, session: Session, upload: Upload, columns: list[TableColumn]
) -> None:
    pending = PendingAudit(upload, columns, time.monotonic() + LONGEST_WAIT_S)
    session.kept[PENDING] = pending
    app.state.waiting.add(pending)
    # the reference is weak: a session that ends takes the table with it
    asyncio.get_running_loop().call_later(LONGEST_WAIT_S, _forget_weakly, weakref.ref(pending))


def _forget_weakly(pending: weakref.ref[PendingAudit]) -> None:
    table = pending()
    if table is not None:
        _forget(table)


def _forget(pending: PendingAudit) -> None:
    pending.upload.content = None


def _drop(session: Session) -> None:
    """Delete the table that waits in a session, if one does."""
    pending = session.kept.pop(PENDING, None)
    if isinstance(pending, PendingAudit):
        _forget(pending)


def _pending(session: Session) -> PendingAudit:
    pending = session.kept.get(PENDING)
    if isinstance(pending, PendingAudit) and time.monotonic() > pending.until:
        _forget(pending)
    if not isinstance(pending, PendingAudit) or pending.upload.content is None:
        session.kept.pop(PENDING, None)
        raise InputError("no table waits for an audit: it was deleted after ten minutes.")
    return pending


def _columns_page(
    settings: AppSettings,
    session: Session,
    pending: PendingAudit,
    values: Mapping[str, str],
    errors: Mapping[str, str],
    status: int,
) -> Response:
    groups = []
    for column in pending.columns:
        choices = [(value_choice(column.name, value), value) for value in column.values]
        groups.append((column.name, choices))
    page = render(
        "audit_columns.html.j2",
        settings,
        session,
        file_name=pending.shown_name,
        names=[column.name for column in pending.columns],
        # what has few values can be compared by groups; numbers are binned
        comparable=[column.name for column in pending.columns if column.values or column.is_number],
        groups=[group for group in groups if group[1]],
        sensitive=SENSITIVE,
        values=values,
        errors=errors,
    )
    return HTMLResponse(page, status)


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
    errors: Mapping[str, str],
    status: int,
) -> Response:
    page = render(
        "audit.html.j2",
        settings,
        session,
        errors=errors,
        endings=",".join(ENDINGS),
        has_result=AUDIT in session.kept,
    )
    return HTMLResponse(page, status)
