"""The addresses of an interview: one question a page, usable without a script, by keyboard and on a
phone.
"""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.exceptions import HTTPException

from evenhand.flows.app import registry_views as views
from evenhand.flows.app.ask_views import (
    OpenAgents,
    answer_question,
    begin_interview,
    begin_screen,
    delete_interview,
    end_screen,
    interview_of,
    question_screen,
)
from evenhand.flows.app.sessions import Session
from evenhand.flows.app.web import (
    AppSettings,
    Fields,
    In,
    InSession,
    ModelName,
    ModelVersion,
    render,
    require,
    require_own_form,
)
from evenhand.flows.interview import Interview

PLACE = "/models/{name}/versions/{version}/ask"


def add_ask(app: FastAPI) -> None:
    """Add the addresses of an interview to the app."""

    @app.get(PLACE)
    def interview(
        request: Request, settings: In, session: InSession, name: ModelName, version: ModelVersion
    ) -> Response:
        """The beginning, the question to answer now, or the decision."""
        require(session, "person")
        agents: OpenAgents = request.app.state.agents
        with agents.lock:
            begun = interview_of(session, name, version)
            if begun is None:
                screen = begin_screen(agents.agent(name, version), name, version)
                return _page("ask.html.j2", settings, session, name, version, screen=screen)
            return _of_interview(settings, session, name, version, begun)

    @app.post(PLACE)
    def go_on(
        request: Request,
        settings: In,
        session: InSession,
        fields: Fields,
        name: ModelName,
        version: ModelVersion,
    ) -> Response:
        """Begin, answer, skip, go back, stop, or delete the answers."""
        require(session, "person")
        require_own_form(session, fields)
        agents: OpenAgents = request.app.state.agents
        with agents.lock:
            act = fields.get("act", "answer")
            begun = interview_of(session, name, version)
            if act == "begin":
                begin_interview(agents, session, name, version)
            elif act == "delete":
                delete_interview(session)
            elif begun is not None and fields.get("number") == str(len(begun.questions)):
                error = _carry_out(act, begun, fields)
                if error:
                    text = fields.get("answer", "").strip()
                    return _of_interview(settings, session, name, version, begun, text, error)
        # a form of a question that was answered already shows the one to answer now
        return RedirectResponse(f"{views.version_address(name, version)}/ask", 303)


def _carry_out(act: str, interview: Interview, fields: dict[str, str]) -> str:
    """Change an interview as a form asks for; return what is wrong with the answer."""
    if act == "back":
        interview.go_back()
        return ""
    feature = interview.next_question()
    if feature is None:
        return ""
    if act == "answer":
        return answer_question(interview, feature, fields.get("answer", "").strip())
    if act == "skip":
        interview.decline(feature)
    elif act == "stop":
        interview.stop()
    else:
        raise HTTPException(404)
    return ""


def _of_interview(
    settings: AppSettings,
    session: Session,
    name: str,
    version: str,
    interview: Interview,
    text: str = "",
    error: str = "",
) -> Response:
    question = question_screen(interview, text, error)
    if question is None:
        screen = end_screen(interview)
        values: dict[str, Any] = {
            "screen": screen,
            "number": len(interview.questions),
            "is_stopped": interview.is_stopped,
        }
        return _page("decision.html.j2", settings, session, name, version, **values)
    status = 422 if error else 200
    return _page(
        "question.html.j2", settings, session, name, version, status=status, question=question
    )


def _page(
    template: str,
    settings: AppSettings,
    session: Session,
    name: str,
    version: str,
    *,
    status: int = 200,
    **values: Any,
) -> Response:
    version_address = views.version_address(name, version)
    page = render(
        template,
        settings,
        session,
        name=name,
        version=version,
        address=f"{version_address}/ask",
        version_address=version_address,
        model_address=views.model_address(name),
        **values,
    )
    return HTMLResponse(page, status)
