"""The errors of a run, one class per exit code."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path
from typing import ParamSpec, TypeVar

from evenhand.tasks.credentials import without_credentials

MAX_MESSAGE = 1000
# Characters of a message in which secrets are looked for: the rest is cut off.
MAX_READ = 50 * MAX_MESSAGE
# The texts of SQLite and of the operating system, which libraries and servers quote.
FULL = (
    "database or disk is full",
    "No space left on device",
    "Disk quota exceeded",
    "FileStream.Write incomplete",  # XGBoost gives no reason, and there hardly is another one
)
# User and password of a URL. A password may hold a slash; its length is bounded, since a search
# would read a long text from each of its addresses to the end.
_PASSWORD = re.compile(r"(\w://)[^\s/:@]*:\S{0,2000}@")
ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("flows", "tasks", "fairlib", "data_contracts")


class EvenhandError(Exception):
    """Base of the errors that decide the exit code; the message is one line that names the cure."""

    exit_code = 4

    def __init__(self, message: str = "") -> None:
        # A column's name or a library's message may hold line breaks, and a list of names may be
        # long.
        line = without_passwords(" ".join(str(message)[:MAX_READ].split()))
        # a name from a file may hold codes that a terminal obeys
        line = "".join(character if character.isprintable() else "?" for character in line)
        if len(line) > MAX_MESSAGE:
            line = f"{line[: MAX_MESSAGE - 1]}…"
        super().__init__(line)


class InputError(EvenhandError, ValueError):
    """The job, the data or the contract is wrong (exit code 2)."""

    exit_code = 2


@contextlib.contextmanager
def input_errors(lead: str = "", *kinds: type[Exception], end: str = "") -> Iterator[None]:
    """Turn a ValueError, or an error of other `kinds`, into an `InputError` with its text after
    `lead`.
    """
    expected = kinds or (ValueError,)
    try:
        yield
    except expected as error:
        raise InputError(f"{lead}{error}{end}") from None


@contextlib.contextmanager
def unusable(what: str, cannot: str = "used") -> Iterator[None]:
    """Turn errors from reading a published model, which `what` names, into an `InputError`."""
    try:
        yield
    except (ValueError, KeyError, TypeError, OSError) as error:
        if isinstance(error, EvenhandError):
            raise
        kind = type(error).__name__
        raise InputError(f"{what} cannot be {cannot} ({kind}): publish it again.") from error


class NotCarriedOut(EvenhandError, RuntimeError):
    """The run could not be carried out: network, disk or registry failed (exit code 4)."""

    exit_code = 4


class NotPermitted(NotCarriedOut):
    """A service refuses this name and password (exit code 2): another try would not cure it."""

    exit_code = 2


class ProcessLost(NotCarriedOut):
    """The process that did the work was killed, or the work was cancelled where it ran."""


class OutOfTime(NotCarriedOut):
    """The work was stopped because the time that it was given is up."""


class GateRefused(EvenhandError):
    """The gates refused the model (exit code 1) or lack evidence (exit code 3)."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def disk_is_full(error: BaseException | None) -> bool:
    """Whether an error, or one that caused it, says that a disk or a user's share of it is full."""
    while error is not None:
        if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT):
            return True
        if any(text in str(error) for text in FULL):
            return True
        error = error.__cause__ or error.__context__
    return False


def without_passwords(text: str) -> str:
    """Remove user and password from the URLs of a text, and write ``***`` in place of its other
    secrets.
    """
    return without_credentials(_PASSWORD.sub(r"\1", text))


def without_secrets(url: str) -> str:
    """Remove user, password and query, which may be a token, from the URLs of a text."""
    masked = _PASSWORD.sub(r"\1", url)
    masked = re.sub(r"//[^/\s]*@", "//", masked)
    # Only URLs have queries: a question mark in a local path is a wildcard.
    masked = re.sub(r"(\w://[^\s'\")?]{0,2000})\?[^\s'\")]*", r"\1", masked)
    return without_credentials(masked)


def internal_fault(error: BaseException) -> EvenhandError:
    """Describe an unexpected error in one line: its type, and the line of our code that raised it.

    A loop of symbolic links is an error of the user, in every call that detects it.

    The error's message is left out, because libraries quote the offending value, which may be a
    person's.
    """
    if getattr(error, "errno", None) == errno.ELOOP or str(error).startswith("Symlink loop"):
        return InputError("a path is a symbolic link that leads back to itself: correct the link.")
    place = ""
    for frame in traceback.extract_tb(error.__traceback__):
        file = Path(frame.filename)
        if any(file.is_relative_to(ROOT / package) for package in PACKAGES):
            # the last of our lines raised it, or called what raised it
            place = f" at {file.relative_to(ROOT)}:{frame.lineno}"
    return NotCarriedOut(
        f"internal fault ({type(error).__name__}{place}): run again with EVENHAND_LOG=1 to see the "
        "traceback."
    )


WAIT_S = 300.0
PAUSE_S = 2.0

P = ParamSpec("P")
T = TypeVar("T")


class ServiceAway(NotCarriedOut):
    """A service does not answer now, which may pass; the message is a reason, a colon and a
    cure.
    """


def waits_for_service(work: Callable[P, T]) -> Callable[P, T]:
    """Repeat `work` while it raises `ServiceAway`, for at most five minutes or ``EVENHAND_WAIT``
    seconds.

    `work` must look at what the service has before it writes: an answer may have been lost. The
    first repetition is silent; then one line says that it waits. Raises `NotCarriedOut` after the
    limit.
    """

    @wraps(work)
    def repeated(*arguments: P.args, **options: P.kwargs) -> T:
        failures = 0
        since = 0.0
        limit = _limit()
        while True:
            try:
                return work(*arguments, **options)
            except ServiceAway as error:
                failures = failures + 1
                since = since or time.monotonic()
                if time.monotonic() - since >= limit:
                    raise NotCarriedOut(str(error)) from None
                if failures == 2:
                    reason = str(error).rpartition(": ")[0]
                    sys.stderr.write(f"evenhand: waiting, {limit:.0f} s at most: {reason}.\n")
                time.sleep(min(PAUSE_S, limit))

    return repeated


def _limit() -> float:
    setting = os.environ.get("EVENHAND_WAIT", "")
    try:
        return float(setting or WAIT_S)
    except ValueError:
        raise InputError(f"EVENHAND_WAIT is {setting!r}: write a number of seconds.") from None
