"""Sessions of the app: who has signed in, for how long, and how often somebody may try."""

from __future__ import annotations

import hmac
import secrets
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from evenhand.flows.app.people import NOBODY, Person, is_password

COOKIE = "evenhand_session"
# Seconds after which a session ends: without a request, and in any case.
IDLE_S = 30 * 60
LONGEST_S = 12 * 60 * 60
# Failed attempts to sign in, of a name or an address, within so many seconds.
ATTEMPTS = 5
ATTEMPTS_S = 5 * 60
MOST_SESSIONS = 1000


@dataclass
class Session:
    """A person who has signed in; `form_token` is in each of the person's forms.

    `kept` is what screens keep for the person until the session ends, by the screen's name, such as
    the answers of an interview. It is in memory only.
    """

    person: Person
    begun: float  # by the clock of `time.monotonic`
    used: float
    form_token: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    kept: dict[str, Any] = field(default_factory=dict, repr=False)

    def is_over(self, now: float) -> bool:
        """Whether the session has ended by its age, or because nobody used it."""
        return now - self.used > IDLE_S or now - self.begun > LONGEST_S

    def owns_form(self, token: str) -> bool:
        """Whether a form was made in this session."""
        return hmac.compare_digest(self.form_token.encode(), token.encode())


class TooManyAttempts(Exception):  # noqa: N818 - says what happened
    """A name or an address has failed to sign in too often."""


class Sessions:
    """The sessions of one process; they end with it.

    - `users`: people who sign in by name and password; empty for one person of this machine, who
      signs in once by `one_time_token`
    - `only`: that one person
    """

    def __init__(self, users: Mapping[str, Person], only: Person | None = None) -> None:
        self.users = dict(users)
        self.only = only
        self.one_time_token = secrets.token_urlsafe(32)
        self._token_is_used = False
        self._sessions: dict[str, Session] = {}
        self._failures: dict[str, list[float]] = {}
        self._lock = threading.Lock()

    def by_token(self, token: str) -> str | None:
        """Begin the one session of the one-time token; return its cookie, None if it is not the
        token.
        """
        with self._lock:
            is_right = hmac.compare_digest(self.one_time_token.encode(), token.encode())
            if self.only is None or self._token_is_used or not is_right:
                return None
            self._token_is_used = True
            return self._begin(self.only)

    def by_password(self, name: str, password: str, address: str) -> str | None:
        """Begin a session by name and password; return its cookie, None if they are wrong.

        Raises `TooManyAttempts` where the name or the address has failed too often.
        """
        subjects = (f"name {name}", f"address {address}")
        with self._lock:
            self._check_attempts(subjects)
            # counted before it is judged: attempts at the same moment count too
            for subject in subjects:
                self._failures.setdefault(subject, []).append(time.monotonic())
        person = self.users.get(name)
        stored = NOBODY
        if person is not None:
            stored = person.password
        is_right = is_password(password, stored)
        if person is None or not is_right:
            return None
        with self._lock:
            for subject in subjects:
                self._failures.pop(subject, None)
            return self._begin(person)

    def by_proxy(self, person: Person) -> str:
        """Begin a session of a person whom a proxy named; return its cookie."""
        with self._lock:
            return self._begin(person)

    def _check_attempts(self, subjects: tuple[str, ...]) -> None:
        recently = time.monotonic() - ATTEMPTS_S
        for subject, times in list(self._failures.items()):
            self._failures[subject] = [moment for moment in times if moment > recently]
            if not self._failures[subject]:
                del self._failures[subject]
        if any(len(self._failures.get(subject, ())) >= ATTEMPTS for subject in subjects):
            raise TooManyAttempts

    def _begin(self, person: Person) -> str:
        now = time.monotonic()
        self._forget_ended(now)
        if len(self._sessions) >= MOST_SESSIONS:
            oldest = min(self._sessions, key=lambda cookie: self._sessions[cookie].used)
            del self._sessions[oldest]
        # a new secret at every beginning: nobody can fix a session's name before it begins
        cookie = secrets.token_urlsafe(32)
        self._sessions[cookie] = Session(person, now, now)
        return cookie

    def of_cookie(self, cookie: str, *, is_used: bool = True) -> Session | None:
        """Return the session of a cookie; None if there is none, or it is over.

        `is_used`: whether its person asks for something, so that the session goes on.
        """
        with self._lock:
            now = time.monotonic()
            self._forget_ended(now)
            session = self._sessions.get(cookie)
            if session is not None and is_used:
                session.used = now
            return session

    def has(self, session: Session) -> bool:
        """Whether a session goes on: its person has not signed out, and its time is not over."""
        with self._lock:
            self._forget_ended(time.monotonic())
            return any(open_session is session for open_session in self._sessions.values())

    def _forget_ended(self, now: float) -> None:
        """Delete the sessions that have ended, with what was kept in them."""
        for cookie, session in list(self._sessions.items()):
            if session.is_over(now):
                del self._sessions[cookie]

    def end(self, cookie: str) -> None:
        """End the session of a cookie."""
        with self._lock:
            self._sessions.pop(cookie, None)
