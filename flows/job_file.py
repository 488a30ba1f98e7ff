"""Reading a job: the shipped ones and files, overrides of single keys, and errors in one line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import ValidationError

from evenhand.fairlib.evaluation.gates import GATE_KEYS
from evenhand.flows.job import DEFAULT_KIND, METRIC_KINDS, NAME, Job, Section
from evenhand.tasks.errors import InputError, input_errors
from evenhand.tasks.written_input import as_number, nearest, parse_yaml, refuse_credentials

# The shipped jobs; a file whose name begins with an underscore is a base only.
JOBS = Path(__file__).resolve().with_name("jobs")
# What a base says of itself alone.
NOT_INHERITED = ("name", "description", "tuned")
# A section that gives another value of this key replaces the base's.
IDENTITY = {"method": "name", "table": "name", "fair_metric": "kind"}


def shipped_jobs() -> dict[str, str]:
    """Return the names and descriptions of the jobs that come with the package."""
    return {
        path.stem: yaml.safe_load(path.read_text(encoding="utf-8")).get("description", "")
        for path in sorted(JOBS.glob("[!_]*.yaml"))
    }


def load_job(name_or_path: str, overrides: Sequence[str] = ()) -> tuple[Job, str]:
    """Read a shipped job or a job file over its bases, and apply ``KEY=VALUE`` overrides.

    Also returns the folder that its relative paths refer to. Raises `InputError` for no such job or
    base, a job that is its own base, unreadable YAML, an unknown key or value.
    """
    path = job_path(name_or_path)
    content = _read(path or _shipped(name_or_path), name_or_path)
    for override in overrides:
        _apply(content, override)
    return _validate(content, name_or_path), str(path.resolve().parent if path else Path.cwd())


def job_path(name_or_path: str) -> Path | None:
    """Return the path of a job file; None for the name of a shipped job."""
    path = Path(name_or_path)
    return path if path.suffix in (".yaml", ".yml") or path.is_file() else None


def _shipped(name: str) -> Path:
    path = JOBS / f"{name}.yaml"
    if not NAME.fullmatch(name) or not path.is_file():
        raise InputError(
            f"there is no job {name!r}{nearest(name, list(shipped_jobs()))}; "
            "`evenhand jobs` lists the shipped ones, or give a path."
        )
    return path


def _read(path: Path, name: str, above: Sequence[Path] = ()) -> dict[str, Any]:
    """Return a job's keys over those of its bases; the files `above` have it as a base."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise InputError(f"the job file {name} cannot be read: check its path.") from None
    content = parse_yaml(text, f"the job {name}")
    if not isinstance(content, dict):
        raise InputError(f"the job {name} must be a mapping of keys to values.")
    if path.resolve().parent == JOBS:  # a shipped job is called as its file
        content.setdefault("name", path.stem)
    bases = content.pop("base", None)
    inherited: dict[str, Any] = {}
    for base in bases if isinstance(bases, list) else [bases] if bases is not None else []:
        with input_errors(f"job {name}: base: ", InputError):
            if not isinstance(base, str) or Path(base).name != base:
                raise InputError(
                    f"{base!r} is neither a shipped job nor the name of a file in the job's folder."
                )
            found = path.with_name(base) if base.endswith((".yaml", ".yml")) else _shipped(base)
            if found in (path, *above):
                raise InputError(f"{base} is its own base: remove one `base`.")
            inherited = _merged(inherited, _read(found, base, (path, *above)))
    return _merged(
        {key: value for key, value in inherited.items() if key not in NOT_INHERITED}, content
    )


def _merged(base: Mapping[str, Any], own: Mapping[str, Any], section: str = "") -> dict[str, Any]:
    """Return a job's own keys over those of its base: mappings key by key; null removes a key.

    Of a method's keys null is a value.
    """
    merged = dict(base)
    for key, value in own.items():
        place = f"{section}.{key}" if section else key
        old = _mapping(place, base.get(key))
        if isinstance(value, dict) and isinstance(old, dict) and _same_kind(place, value, old):
            merged[key] = _merged(old, value, place)
        elif value is None and section != "method":
            merged.pop(key, None)
        else:
            merged[key] = value
    return merged


def _same_kind(place: str, value: Mapping[str, Any], old: Mapping[str, Any]) -> bool:
    key = IDENTITY.get(place, "")
    kinds = value.get(key), old.get(key, DEFAULT_KIND if place == "fair_metric" else None)
    return None in kinds or kinds[0] == kinds[1]


def _mapping(section: str, value: Any) -> Any:
    """Return the mapping that the short form of a section stands for."""
    if section in ("method", "table") and isinstance(value, str):
        return {"name": value}
    if section == "decision" and value is not None and not isinstance(value, dict):
        return {"threshold": value}
    return value


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
        child = _mapping(parent, node.get(parent))
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
                f"{place!r} is a key of the kind {owner}; {kind} takes: {', '.join(known)}: remove "
                "it, or "
                f"set the whole section: fair_metric={{kind: {kind}}}."
            )
        return f"unknown key {place!r}{nearest(key, known)}; known: {', '.join(known)}."
    if problem["type"] == "union_tag_invalid":
        kind = problem["ctx"]["tag"]
        kinds = list(METRIC_KINDS)
        return (
            f"{place}.kind {kind!r} is not known{nearest(kind, kinds)}; known: {', '.join(kinds)}."
        )
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
        section = next(
            item for item in options if isinstance(item, type) and issubclass(item, Section)
        )
    return section
