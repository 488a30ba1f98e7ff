"""What people write: YAML files, numbers in them, and names with a typing error."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from evenhand.tasks.errors import InputError

__all__ = ["YAML_ERRORS", "as_number", "nearest", "parse_yaml", "read_yaml"]

# ValueError: a date that no calendar has; RecursionError: very deep nesting.
YAML_ERRORS = (yaml.YAMLError, ValueError, RecursionError)


def read_yaml(path: Path, what: str) -> Any:
    """
    Read a YAML file.

    Raises
    ------
    InputError
        It cannot be read, or is not valid YAML; `what` names it.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise InputError(f"{what} {path} cannot be read ({reason}): check its path.") from None
    return parse_yaml(text, f"{what} {path}")


def parse_yaml(text: str, what: str) -> Any:
    """Parse YAML; InputError with the line of the fault."""
    try:
        return yaml.safe_load(text)
    except YAML_ERRORS as error:
        mark = getattr(error, "problem_mark", None)
        place = f" at line {mark.line + 1}" if mark else ""
        raise InputError(f"{what} is not valid YAML{place}.") from None


def as_number(value: Any) -> Any:
    """Make text such as 1e-4 the number that was meant: YAML 1.1 reads it as text. Lists and maps too."""
    if isinstance(value, list):
        return [as_number(item) for item in value]
    if isinstance(value, dict):
        return {key: as_number(item) for key, item in value.items()}
    if isinstance(value, str) and re.fullmatch(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+", value):
        return float(value)
    return value


def nearest(name: str, known: Sequence[str]) -> str:
    """Name the closest known name, for the end of a message; nothing if none is close."""
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f" (did you mean {close[0]!r}?)" if close else ""
