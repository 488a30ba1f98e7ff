"""Answers of a registry in a SQLite file, kept beside the file as long as it is unchanged.

A run whose steps are all cached only asks which version has the alias, and for its card. Importing MLflow and
opening its database would take as long as the rest of such a run.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

SQLITE = "sqlite:///"


def ask_once(uri: str, question: str, ask: Callable[[], Any]) -> Any:
    """Answer a question about the registry from the kept answers, or with `ask` if the registry has changed.

    Answers are kept of a registry in a SQLite file only. `question` names the answer among those about the
    same state of the registry. `ask` returns the answer in JSON types; None is not kept.
    """
    state = _state(uri)
    if state is None:
        return ask()
    file = Path(f"{uri.removeprefix(SQLITE)}.answers.json")
    try:
        kept = json.loads(file.read_text())
    except (OSError, ValueError):
        kept = None
    if not isinstance(kept, dict) or kept.get("state") != state:
        kept = {"state": state, "answers": {}}
    answers = kept["answers"]
    if question not in answers:
        answers[question] = ask()
        if answers[question] is not None and _state(uri) == state:
            part = file.with_name(f"{file.name}.{os.getpid()}.part")
            with contextlib.suppress(OSError):  # a registry that this process may only read
                part.write_text(json.dumps(kept))
                part.replace(file)
    return answers[question]


def _state(uri: str) -> str | None:
    """State of a SQLite file, which every change of its content changes; None for any other registry.

    The header counts the changes (bytes 24 to 27), unless the database writes ahead (bytes 18 and 19 are 2).
    A journal beside the file means that a change is under way or was interrupted.
    """
    path = Path(uri.removeprefix(SQLITE))
    if not uri.startswith(SQLITE) or Path(f"{path}-journal").exists():
        return None
    try:
        with path.open("rb") as file:
            header = file.read(28)
            status = os.fstat(file.fileno())
    except OSError:
        return None
    if len(header) < 28 or header[18:20] != b"\1\1":
        return None
    return f"{header[24:28].hex()} {status.st_ino} {status.st_size} {status.st_mtime_ns}"
