"""Input that people write: YAML files, numbers in them, and misspelt names."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from evenhand.data_contracts.errors import nearest as nearest_name
from evenhand.data_contracts.yaml_loader import StrictError, load_strictly
from evenhand.tasks.credentials import holds_credential
from evenhand.tasks.errors import InputError

# ValueError: a date that does not exist; RecursionError: very deep nesting.
YAML_ERRORS = (yaml.YAMLError, ValueError, RecursionError)


# Keys of a job's `table`, and of the sections of runs over files, that say how text is read.
FORM_KEYS = ("encoding", "decimal", "dates", "sheet", "headers", "spellings")
MAX_WHOLE = 2**31
# Most recalls of a label's values that a message lists.
MOST_RECALLS = 5
MAX_NUMBER = 1e12


def read_yaml(path: Path, what: str) -> Any:
    """Read a YAML file; an `InputError`, which names the file `what`, if it is unreadable or not
    valid.
    """
    return parse_yaml(_text(path, what), f"{what} {path}")


def read_corpus(path: Path) -> list[str]:
    """Read the lines of a file of sentences; an `InputError` if it is unreadable or has none."""
    text = _text(path, "fair_metric.corpus").removeprefix("\ufeff")
    lines = [line.strip() for line in text.splitlines()]
    if not any(lines):
        raise InputError(f"fair_metric.corpus {path} is empty: write a sentence a line.")
    return lines


def _text(path: Path, what: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise InputError(f"{what} {path} cannot be read ({reason}): check its path.") from None


def parse_yaml(text: str, what: str) -> Any:
    """Parse YAML; an `InputError` with the number of the invalid line, or the lines of a repeated
    key.
    """
    try:
        return load_strictly(text)
    except StrictError as error:
        raise InputError(f"{what}: {error}.") from None
    except YAML_ERRORS as error:
        mark = getattr(error, "problem_mark", None)
        place = f" at line {mark.line + 1}" if mark else ""
        raise InputError(
            f"{what} is not valid YAML{place}: check its quotes, brackets and indentation."
        ) from None


def explained(error: ValidationError, lead: str, *above: str) -> InputError:
    """Describe pydantic's first problem in one line, by its key below the keys `above`, without the
    value.
    """
    problem = error.errors(include_url=False, include_input=False)[0]
    place = ".".join([*above, *map(str, problem["loc"])])
    return InputError(f"{lead}{place}: {required_by(problem)}.")


# What pydantic's kinds of problems ask for, with the bounds of their context.
REQUIRED = {
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "dataclass_type": "a mapping of keys to values",
    "dict_type": "a mapping of keys to values",
    "finite_number": "a finite number",
    "float_parsing": "a number",
    "float_type": "a number",
    "greater_than": "above {gt}",
    "greater_than_equal": "at least {ge}",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "int_parsing_size": "a smaller whole number",
    "int_type": "a whole number",
    "less_than": "below {lt}",
    "less_than_equal": "at most {le}",
    "list_type": "a list",
    "literal_error": "one of {expected}",
    "model_type": "a mapping of keys to values",
    "sequence_str": "a list",
    "sequence_type": "a list",
    "string_type": "text",
    "string_too_short": "text of {min_length} letters or more",
    "too_short": "a list of {min_length} or more",
    "tuple_type": "a list",
}
LONGEST_VALUE = 60


def required_by(problem: Mapping[str, Any]) -> str:
    """Say what one of pydantic's problems asks for, and what was written, if the problem has it."""
    message = str(problem["msg"]).removeprefix("Value error, ")
    words = REQUIRED.get(problem["type"])
    if words is None:
        return message
    context = problem.get("ctx", {})
    text = f"must be {words.format_map(context)}"
    if "input" not in problem:
        return text
    value = repr(problem["input"])
    if len(value) > LONGEST_VALUE:
        value = f"{value[:LONGEST_VALUE]}…"
    options = re.findall("'(.+?)'", context.get("expected", ""))
    return f"{text}, got {value}{nearest(str(problem['input']), options)}"


def check_bound(value: Any) -> Any:
    """Return the value; ValueError for a number so large that no key needs it and libraries
    fail.
    """
    if isinstance(value, int) and abs(value) >= MAX_WHOLE:
        raise ValueError(f"is {value}, and whole numbers must be below {MAX_WHOLE:,}")
    if isinstance(value, float) and MAX_NUMBER < abs(value) < math.inf:
        raise ValueError(f"is {value:g}, and numbers must be at most {MAX_NUMBER:g}")
    return value


def as_number(value: Any) -> Any:
    """Convert text such as 1e-4, also in lists and maps, to a number: YAML 1.1 reads it as text."""
    if isinstance(value, list):
        return [as_number(item) for item in value]
    if isinstance(value, dict):
        return {key: as_number(item) for key, item in value.items()}
    if isinstance(value, str) and re.fullmatch(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+", value):
        return float(value)
    return value


def refuse_credentials(value: Any, place: str) -> None:
    """Raise `InputError` if a text in `value`, of the key `place`, looks like a credential."""
    if isinstance(value, dict):
        for key, item in value.items():
            below = f"{place}.{key}" if place else str(key)
            refuse_credentials(item, below)
            if isinstance(item, str):
                refuse_credentials(f"{key}={item}", below)
    elif isinstance(value, list):
        for item in value:
            refuse_credentials(item, place)
    elif isinstance(value, str) and holds_credential(value):
        raise InputError(
            f"{place} looks like it holds a credential, which databases and logs would keep: put "
            "it into an environment variable and write $NAME in its place."
        )


def refuse_credentials_in_file(path: Path, what: str) -> None:
    """Raise `InputError`, with its line, if a line of a text file looks like it has a credential.

    A file that cannot be read is left to its reader.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeError):
        return
    for number, line in enumerate(lines, start=1):
        if holds_credential(line):
            raise InputError(
                f"{what}, line {number}, looks like it holds a credential, which models and pages "
                "would keep: remove it."
            )


def not_known(what: str, name: str, known: Sequence[str]) -> InputError:
    """Refuse a name, with the closest known one and all that are known."""
    return InputError(
        f"{what} {name!r} is not known{nearest(str(name), known)}; known: {', '.join(known)}."
    )


def nearest(name: str, known: Sequence[str]) -> str:
    """End of a message that suggests the closest known name; empty if none is close."""
    close = nearest_name(name, known)
    return f" (did you mean {close!r}?)" if close else ""


def listed_metrics(names: Sequence[str]) -> str:
    """Names of metrics for a message; of a label with many values two recalls stand for all."""
    recalls = [name for name in names if name.startswith("recall.")]
    hidden = set(recalls[2:]) if len(recalls) > MOST_RECALLS else set()
    texts = []
    for name in names:
        if name not in hidden:
            texts.append(name)
        elif name == recalls[2]:
            texts.append(f"recall of {len(hidden)} more labels")
    return ", ".join(texts)


def nearest_file(path: Path) -> str:
    """End of a message that suggests the file of a folder with the closest name."""
    try:
        entries = sorted(entry.name for entry in path.parent.iterdir() if entry.name != path.name)
    except OSError:
        return ""
    # the ending is no part of the name that is compared: it would make any two files alike
    names: dict[str, str] = {}
    for entry in entries:
        stem = Path(entry).stem
        if stem not in names or entry.endswith(path.suffix):
            names[stem] = entry
    close = nearest_name(path.stem, list(names))
    return f" (did you mean {names[close]!r}?)" if close else ""


def check_columns(names: Sequence[str], columns: Sequence[str]) -> None:
    """Raise `InputError` for a name that is no column of the table, with the nearest one."""
    for name in names:
        if name not in columns:
            raise InputError(
                f"the table has no column {name!r}{nearest(name, columns)}: it has "
                f"{', '.join(columns)}."
            )
