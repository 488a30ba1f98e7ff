"""What is written to stderr, next to results: the log, and with ``EVENHAND_LOG_FORMAT=json`` every
line as a JSON object.
"""

from __future__ import annotations

import datetime
import io
import json
import logging
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from evenhand.fairlib.escaping import terminal_text
from evenhand.tasks.credentials import without_credentials
from evenhand.tasks.errors import InputError

OBJECT = '{"time": '
_lock = threading.RLock()
_run_id: str | None = None


class JsonLines(io.TextIOBase):
    """A stream that writes each line to `out` as an object: time, level, run_id, step, message.

    So do lines of libraries and tracebacks. Objects, from child processes, are left as they are.
    """

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._rest = ""

    def write(self, text: str) -> int:
        """Write the complete lines of the text, and keep the rest."""
        with _lock:
            *lines, self._rest = (self._rest + text).split("\n")
            for line in filter(str.strip, lines):
                message = line.removeprefix("evenhand: ")
                if message == line:
                    self.add("info", message)
                else:
                    self.add("error", message)
        return len(text)

    def add(self, level: str, message: str, step: str | None = None, **more: Any) -> None:
        """Write one object."""
        moment = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
        safe_message = without_credentials(message)
        line = {
            "time": moment,
            "level": level,
            "run_id": _run_id,
            "step": step,
            "message": safe_message,
            **more,
        }
        text = json.dumps(line)
        if safe_message.startswith(OBJECT):
            text = safe_message
        with _lock:
            self._out.write(f"{text}\n")
            self._out.flush()


class _ToStderr(logging.Handler):
    """Write records of our loggers to the stderr of now, as text or as JSON."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record; what it quotes of others has no credential."""
        message = without_credentials(record.getMessage())
        if isinstance(sys.stderr, JsonLines):
            sys.stderr.add(record.levelname.lower(), message, logger=record.name)
        else:
            line = f"{record.levelname.lower():7} {record.name}: {message}"
            sys.stderr.write(f"{terminal_text(line)}\n")


def show(level: int | None) -> None:
    """Show the log of our modules on stderr from a level on; None shows nothing."""
    ours = logging.getLogger("evenhand")
    for handler in list(ours.handlers):
        if isinstance(handler, _ToStderr):
            ours.removeHandler(handler)
    ours.setLevel(logging.NOTSET)
    if level is not None:
        ours.setLevel(level)
        ours.addHandler(_ToStderr())


def start() -> None:
    """Replace stderr if the environment asks for it; `InputError` for an unknown format."""
    log_format = os.environ.get("EVENHAND_LOG_FORMAT") or "text"
    if log_format not in ("text", "json"):
        raise InputError(f"EVENHAND_LOG_FORMAT is {log_format!r}: write text or json.")
    if log_format == "json" and not isinstance(sys.stderr, JsonLines):
        sys.stderr = JsonLines(sys.stderr)


def event(message: str, step: str | None = None, *, level: str = "info", **more: Any) -> None:
    """Write a line if the format is JSON."""
    if isinstance(sys.stderr, JsonLines):
        sys.stderr.add(level, message, step, **more)


@contextmanager
def of_run(run_id: str) -> Iterator[None]:
    """Give the lines within the block the id of a run."""
    global _run_id
    before = _run_id
    _run_id = run_id
    try:
        yield
    finally:
        _run_id = before
