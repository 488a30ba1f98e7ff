"""Input that people write: YAML files, numbers in them, and misspelt names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from evenhand.data_contracts.errors import nearest as nearest_name
from evenhand.tasks.errors import InputError

# ValueError: a date that does not exist; RecursionError: very deep nesting.
YAML_ERRORS = (yaml.YAMLError, ValueError, RecursionError)


def read_yaml(path: Path, what: str) -> Any:
    """Read a YAML file; an `InputError`, which names the file `what`, if it is unreadable or not valid."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise InputError(f"{what} {path} cannot be read ({reason}): check its path.") from None
    return parse_yaml(text, f"{what} {path}")


def parse_yaml(text: str, what: str) -> Any:
    """Parse YAML; an `InputError` with the number of the invalid line."""
    try:
        return yaml.safe_load(text)
    except YAML_ERRORS as error:
        mark = getattr(error, "problem_mark", None)
        place = f" at line {mark.line + 1}" if mark else ""
        raise InputError(f"{what} is not valid YAML{place}.") from None


def as_number(value: Any) -> Any:
    """Convert text such as 1e-4, also in lists and maps, to a number: YAML 1.1 reads it as text."""
    if isinstance(value, list):
        return [as_number(item) for item in value]
    if isinstance(value, dict):
        return {key: as_number(item) for key, item in value.items()}
    if isinstance(value, str) and re.fullmatch(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+", value):
        return float(value)
    return value


def nearest(name: str, known: Sequence[str]) -> str:
    """End of a message that suggests the closest known name; empty if none is close."""
    close = nearest_name(name, known)
    return f" (did you mean {close!r}?)" if close else ""
