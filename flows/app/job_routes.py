"""The addresses of jobs and of the runs that are started here, whose progress comes as events."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse, StreamingResponse
from starlette.exceptions import HTTPException

from evenhand.flows.app.job_runs import (
    OF_FOLDER,
    SHIPPED,
    JobRun,
    JobRunner,
    ListedJob,
    listed_jobs,
)
from evenhand.flows.app.registry_views import version_address
from evenhand.flows.app.sessions import Session
from evenhand.flows.app.web import (
    AppSettings,
    Fields,
    In,
    InSession,
    InWatchingSession,
    environment_of,
    render,
    require,
    require_own_form,
)
from evenhand.flows.engine import read_verdict

EVERY_S = 0.5
# The browser asks again after so long, so that no connection stays for ever.
LONGEST_STREAM_S = 300.0
MOST_STREAMS = 32
# The one page with a script, which is a file of the app's own.
PROGRESS_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'self'; frame-ancestors 'none'"
)
ENDINGS = {
    0: "It ended, and all gates passed.",
    1: "It ended, and the gates refused the model.",
    2: "It could not begin: something in the job is wrong.",
    3: "It ended without enough evidence for a gate.",
    4: "It could not be carried out.",
}


def add_jobs(app: FastAPI) -> None:
    """Add the addresses of jobs, runs in progress and their events to the app."""
    app.state.streams = 0

    @app.get("/jobs")
    def jobs(request: Request, settings: In, session: InSession) -> Response:
        """The jobs that can be started, and the runs in progress."""
        require(session, "run")
        runner: JobRunner = request.app.state.runner
        page = render(
            "jobs.html.j2",
            settings,
            session,
            **_by_table(listed_jobs(settings.jobs)),
            running=runner.running(),
            may_change=settings.allow_changes,
        )
        return HTMLResponse(page)

    @app.post("/jobs/{kind}/{name}/run")
    def start(
        request: Request, settings: In, session: InSession, fields: Fields, kind: str, name: str
    ) -> Response:
        """Start a run of a job."""
        require(session, "run")
        require_own_form(session, fields)
        if not settings.allow_changes:
            raise HTTPException(403, "This server shows only: it was started without changes.")
        job = _job(settings, kind, name)
        runner: JobRunner = request.app.state.runner
        environment = environment_of(settings, session.person)
        run = runner.start(job, session.person.name, environment)
        return RedirectResponse(f"/progress/{run.token}", 303)

    @app.get("/progress/{token}")
    def progress(request: Request, settings: In, session: InSession, token: str) -> Response:
        """A run in progress, or how it ended."""
        require(session, "run")
        run = request.app.state.runner.run(token)
        return _progress_page(settings, session, run)

    @app.post("/progress/{token}/stop")
    def stop(
        request: Request, settings: In, session: InSession, fields: Fields, token: str
    ) -> Response:
        """Stop a run; the finished steps are kept."""
        require(session, "run")
        require_own_form(session, fields)
        if not settings.allow_changes:
            raise HTTPException(403, "This server shows only: it was started without changes.")
        runner: JobRunner = request.app.state.runner
        runner.stop(runner.run(token))
        return RedirectResponse(f"/progress/{token}", 303)

    @app.get("/progress/{token}/events")
    async def events(request: Request, session: InWatchingSession, token: str) -> Response:
        """The states of a run, as server-sent events, until it ends."""
        require(session, "run")
        run = request.app.state.runner.run(token)
        if app.state.streams >= MOST_STREAMS:
            raise HTTPException(503, "Too many pages follow runs.")
        headers = {"X-Accel-Buffering": "no", "Cache-Control": "no-store"}
        stream = _events(app, request, session, run)
        return StreamingResponse(stream, media_type="text/event-stream", headers=headers)

    @app.get("/progress.js")
    def script() -> Response:
        """The script that shows a run's events."""
        text = render("progress.js.j2", app.state.settings, None)
        headers = {"Cache-Control": "max-age=3600"}
        return Response(text, media_type="text/javascript", headers=headers)


async def _events(
    app: FastAPI, request: Request, session: Session, run: JobRun
) -> AsyncIterator[str]:
    """A state whenever it has changed; signing out, or an end of the session, ends the events."""
    sessions = app.state.settings.sessions
    app.state.streams += 1
    try:
        until = time.monotonic() + LONGEST_STREAM_S
        last = ""
        while time.monotonic() < until and sessions.has(session):
            state = json.dumps(run.state())
            if state != last:
                yield f"data: {state}\n\n"
                last = state
            if not run.is_running or await request.is_disconnected():
                return
            await asyncio.sleep(EVERY_S)
    finally:
        app.state.streams -= 1


def _by_table(jobs: list[ListedJob]) -> dict[str, Any]:
    """The jobs of the folder, and the shipped ones by table, the demonstration's first."""
    shipped: dict[str, list[ListedJob]] = {"hiring": []}
    for job in jobs:
        if job.kind == SHIPPED:
            shipped.setdefault(job.name.partition("-")[0], []).append(job)
    return {"own": [job for job in jobs if job.kind == OF_FOLDER], "shipped": shipped}


def _job(settings: AppSettings, kind: str, name: str) -> ListedJob:
    for job in listed_jobs(settings.jobs):
        if (job.kind, job.name) == (kind, name):
            return job
    raise HTTPException(404)


def _progress_page(settings: AppSettings, session: Session, run: JobRun) -> Response:
    values: dict[str, Any] = {"run": run, "state": run.state(), "report": "", "version": ""}
    if not run.is_running:
        values["ending"] = ENDINGS.get(run.exit_code or 0, "It was ended.")
        if run.is_stopped and run.exit_code not in (0, 1, 3):
            values["ending"] = "It was stopped. Its finished steps are kept for the next run."
        values |= _links(settings, run)
    page = render(
        "progress.html.j2", settings, session, may_change=settings.allow_changes, **values
    )
    return HTMLResponse(page, headers={"Content-Security-Policy": PROGRESS_POLICY})


def _links(settings: AppSettings, run: JobRun) -> dict[str, Any]:
    """Addresses of the report and of the version that a run published."""
    verdict = read_verdict(settings.store, run.run_id) if run.run_id else None
    if verdict is None:
        return {}
    links: dict[str, Any] = {}
    if settings.store.read_text("runs", run.run_id, "report.html") is not None:
        links["report"] = f"/runs/{run.run_id}/report"
    model = verdict.model
    if model and model.get("version"):
        links["version"] = version_address(model["name"], str(model["version"]))
        links["version_name"] = f"{model['name']} version {model['version']}"
    return links
