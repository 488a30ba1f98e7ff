"""Sessions of the app: one-time tokens, expiry, and attempts to guess."""

from __future__ import annotations

from typing import Any

import pytest

from evenhand.flows.app import sessions as module
from evenhand.flows.app.people import Person, hashed
from evenhand.flows.app.sessions import (
    ATTEMPTS,
    ATTEMPTS_S,
    IDLE_S,
    LONGEST_S,
    Sessions,
    TooManyAttempts,
)

ANA = Person("ana", "approver")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A clock that a test sets."""

    class Clock:
        now = 1000.0

        def monotonic(self) -> float:
            return self.now

    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


def test_a_token_begins_one_session_only(clock: Any) -> None:
    sessions = Sessions({}, ANA)
    assert sessions.by_token("guess") is None
    cookie = sessions.by_token(sessions.one_time_token)
    assert cookie is not None
    session = sessions.of_cookie(cookie)
    assert session is not None
    assert session.person is ANA
    assert sessions.by_token(sessions.one_time_token) is None


def test_no_token_signs_in_where_people_have_passwords() -> None:
    sessions = Sessions({"ana": ANA})
    assert sessions.by_token(sessions.one_time_token) is None


def of_ana(sessions: Sessions) -> str:
    cookie = sessions.by_token(sessions.one_time_token)
    assert cookie is not None
    return cookie


def test_a_session_ends_when_nobody_uses_it(clock: Any) -> None:
    sessions = Sessions({}, ANA)
    cookie = of_ana(sessions)
    clock.now += IDLE_S - 1
    assert sessions.of_cookie(cookie) is not None
    clock.now += IDLE_S - 1
    assert sessions.of_cookie(cookie) is not None
    clock.now += IDLE_S + 1
    assert sessions.of_cookie(cookie) is None


def test_a_page_that_asks_by_itself_keeps_no_session(clock: Any) -> None:
    sessions = Sessions({}, ANA)
    cookie = of_ana(sessions)
    session = sessions.of_cookie(cookie)
    assert session is not None
    assert sessions.has(session)
    clock.now += IDLE_S - 1
    assert sessions.of_cookie(cookie, is_used=False) is session
    clock.now += 2
    assert not sessions.has(session)
    assert sessions.of_cookie(cookie, is_used=False) is None


def test_a_session_ends_by_its_age(clock: Any) -> None:
    sessions = Sessions({}, ANA)
    cookie = of_ana(sessions)
    while clock.now < 1000 + LONGEST_S:
        assert sessions.of_cookie(cookie) is not None
        clock.now += IDLE_S / 2
    clock.now += 1
    assert sessions.of_cookie(cookie) is None


def test_who_signs_out_has_no_session(clock: Any) -> None:
    sessions = Sessions({}, ANA)
    cookie = of_ana(sessions)
    sessions.end(cookie)
    assert sessions.of_cookie(cookie) is None
    sessions.end(cookie)


def test_guessing_is_stopped_by_name_and_by_address(
    clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "is_password", lambda password, stored: password == "right")
    sessions = Sessions({"ana": ANA, "ben": Person("ben", "viewer")})
    for number in range(ATTEMPTS):
        assert sessions.by_password("ana", "wrong", f"10.0.0.{number}") is None
    with pytest.raises(TooManyAttempts):
        sessions.by_password("ana", "right", "10.0.0.99")
    for number in range(ATTEMPTS):
        assert sessions.by_password(f"nobody {number}", "right", "10.1.1.1") is None
    with pytest.raises(TooManyAttempts):
        sessions.by_password("ben", "right", "10.1.1.1")
    clock.now += ATTEMPTS_S + 1
    assert sessions.by_password("ana", "right", "10.0.0.99") is not None


def test_a_right_password_forgets_the_attempts(clock: Any) -> None:
    password = "correct horse battery"
    sessions = Sessions({"ana": Person("ana", "viewer", hashed(password))})
    for _ in range(2):
        for _ in range(ATTEMPTS - 1):
            assert sessions.by_password("ana", "wrong", "10.0.0.1") is None
        assert sessions.by_password("ana", password, "10.0.0.1") is not None


def test_forms_of_one_session_are_of_no_other(clock: Any) -> None:
    first, second = module.Session(ANA, 0.0, 0.0), module.Session(ANA, 0.0, 0.0)
    assert first.owns_form(first.form_token)
    assert not first.owns_form(second.form_token)
    assert not first.owns_form("")


def test_the_oldest_of_too_many_sessions_ends(clock: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_SESSIONS", 2)
    monkeypatch.setattr(module, "is_password", lambda password, stored: True)
    sessions = Sessions({"ana": ANA})
    cookies = []
    for _ in range(3):
        clock.now += 1
        cookies.append(sessions.by_password("ana", "", "10.0.0.1") or "")
    assert [sessions.of_cookie(cookie) is not None for cookie in cookies] == [False, True, True]
