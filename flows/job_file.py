"""Reading a job: the shipped ones and files, overrides of single keys, and errors in one line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import ValidationError

from evenhand.fairlib.evaluation.gates import GATE_KEYS
from evenhand.flows.job import METRIC_KINDS, NAME, Job, Section
from evenhand.tasks.errors import InputError, input_errors
from evenhand.tasks.inputs import as_number, nearest, parse_yaml, refuse_credentials


def shipped_jobs() -> dict[str, str]:
    """Return the names and descriptions of the jobs that come with the package."""
    folder = resources.files("evenhand.flows") / "jobs"
    return {
        item.name.removesuffix(".yaml"): yaml.safe_load(item.read_text()).get("description", "")
        for item in sorted(folder.iterdir(), key=lambda item: item.name)
        if item.name.endswith(".yaml")
    }


def load_job(name_or_path: str, overrides: Sequence[str] = ()) -> tuple[Job, str]:
    """Read a shipped job or a job file and apply ``KEY=VALUE`` overrides.

    Also returns the folder that its relative paths refer to. Raises `InputError` for no such job, unreadable
    YAML, an unknown key or value.
    """
    content, folder = _read(name_or_path)
    for override in overrides:
        _apply(content, override)
    return _validate(content, name_or_path), folder


def _read(name_or_path: str) -> tuple[dict[str, Any], str]:
    path = Path(name_or_path)
    if path.suffix in (".yaml", ".yml") or path.is_file():
        try:
            text, folder = path.read_text(encoding="utf-8"), str(path.resolve().parent)
        except (OSError, UnicodeDecodeError):
            raise InputError(f"the job file {name_or_path} cannot be read: check its path.") from None
    else:
        item = resources.files("evenhand.flows") / "jobs" / f"{name_or_path}.yaml"
        if not NAME.fullmatch(name_or_path) or not item.is_file():
            names = list(shipped_jobs())
            raise InputError(
                f"there is no job {name_or_path!r}{nearest(name_or_path, names)}; "
                "`evenhand jobs` lists the shipped ones, or give a path."
            )
        text, folder = item.read_text(encoding="utf-8"), str(Path.cwd())
    content = parse_yaml(text, f"the job {name_or_path}")
    if not isinstance(content, dict):
        raise InputError(f"the job {name_or_path} must be a mapping of keys to values.")
    return content, folder


def _apply(content: dict[str, Any], override: str) -> None:
    """Set one dotted key; the value is parsed as YAML."""
    key, equals, text = override.partition("=")
    if not equals or not key:
        raise InputError(f"--set wants KEY=VALUE, got {override!r}.")
    value = parse_yaml(text, f"--set {key}")
    value = value if isinstance(value, list | dict) else as_number(value)
    *parents, last = _path_of(key)
    node = content
    for parent in parents:
        child = node.get(parent)
        if isinstance(child, str) and parent in ("method", "table"):
            child = {"name": child}
        if parent == "decision" and child is not None and not isinstance(child, dict):
            child = {"threshold": child}
        node[parent] = child = {} if child is None else child
        if not isinstance(child, dict):
            raise InputError(f"--set {key}: {parent} is not a section.")
        node = child
    node[last] = value


def _path_of(key: str) -> list[str]:
    """Split a dotted key; the dots within a metric's name do not separate keys."""
    first, *rest = key.split(".")
    if first != "gates" or not rest:
        return [first, *rest]
    if len(rest) > 1 and rest[-1] in GATE_KEYS:
        return [first, ".".join(rest[:-1]), rest[-1]]
    return [first, ".".join(rest)]


def _validate(content: Mapping[str, Any], name: str) -> Job:
    with input_errors(f"job {name}: "):
        refuse_credentials(dict(content), "")
    try:
        return Job.model_validate(_without_empty(content))
    except ValidationError as error:
        raise InputError(f"job {name}: {_explain(error)}") from None


def _without_empty(content: Mapping[str, Any]) -> dict[str, Any]:
    """Remove empty sections and keys, which result when everything below a key is commented out."""
    kept = {key: value for key, value in content.items() if value is not None}
    for key, value in kept.items():
        if key not in ("method", "gates") and isinstance(value, dict):
            kept[key] = {name: item for name, item in value.items() if item is not None}
    return kept


def _explain(error: ValidationError) -> str:
    """Describe the first problem in one line; for an unknown key also the nearest known one."""
    problem = error.errors(include_url=False)[0]
    keys = [str(part) for part in problem["loc"]]
    if keys[:1] == ["fair_metric"]:
        del keys[1:2]  # pydantic adds the metric's kind to the path
    place = ".".join(keys)
    if problem["type"] == "extra_forbidden":
        key = str(problem["loc"][-1])
        section = _section(problem["loc"][:-1])
        known = list(section.model_fields)
        others = METRIC_KINDS.items() if section in METRIC_KINDS.values() else ()
        owner = next((kind for kind, other in others if key in other.model_fields), None)
        if owner is not None:
            kind = problem["loc"][1]
            return (
                f"{place!r} is a key of the kind {owner}; {kind} takes: {', '.join(known)}: remove it, or "
                f"set the whole section: fair_metric={{kind: {kind}}}."
            )
        return f"unknown key {place!r}{nearest(key, known)}; known: {', '.join(known)}."
    if problem["type"] == "union_tag_invalid":
        kind, kinds = problem["ctx"]["tag"], list(METRIC_KINDS)
        return f"{place}.kind {kind!r} is not known{nearest(kind, kinds)}; known: {', '.join(kinds)}."
    if problem["type"] == "missing":
        return f"the key {place!r} is missing."
    message = problem["msg"].removeprefix("Value error, ")
    return f"{place}: {message}." if place else f"{message}."


def _section(place: Sequence[str | int]) -> type[Section]:
    """Return the section of a job at a path of keys."""
    if place[:1] == ("fair_metric",):
        return METRIC_KINDS[str(place[1])]
    section: type[Section] = Job
    for part in place:
        annotation = section.model_fields[str(part)].annotation
        options = [annotation, *get_args(annotation)]
        section = next(item for item in options if isinstance(item, type) and issubclass(item, Section))
    return section
