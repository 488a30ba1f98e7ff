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
from evenhand.tasks.written_input import (
    as_number,
    nearest,
    nearest_file,
    parse_yaml,
    refuse_credentials,
    required_by,
)

# Endings of tables, which are no jobs.
TABLES = (".csv", ".tsv", ".parquet", ".feather", ".arrow", ".xlsx", ".xls", ".ods")
# The shipped jobs; a file whose name begins with an underscore is a base only.
JOBS = Path(__file__).resolve().with_name("jobs")
# What a base says of itself alone.
NOT_INHERITED = ("name", "description", "tuned")
# A section that gives another value of this key replaces the base's.
IDENTITY = {"method": "name", "table": "name", "fair_metric": "kind"}


def shipped_jobs() -> dict[str, str]:
    """Return the names and descriptions of the jobs that come with the package."""
    descriptions = {}
    for path in sorted(JOBS.glob("[!_]*.yaml")):
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        descriptions[path.stem] = content.get("description", "")
    return descriptions


def load_job(name_or_path: str, overrides: Sequence[str] = ()) -> tuple[Job, str]:
    """Read a shipped job or a job file over its bases, and apply ``KEY=VALUE`` overrides.

    Also returns the folder that its relative paths refer to. Raises `InputError` for no such job or
    base, a job that is its own base, unreadable YAML, an unknown key or value.
    """
    path = job_path(name_or_path)
    content = _read(path or _shipped(name_or_path), name_or_path)
    for override in overrides:
        _apply(content, override)
    job = _validate(content, name_or_path)
    folder = Path.cwd()
    if path:
        folder = path.resolve().parent
    return job, str(folder)


def job_path(name_or_path: str) -> Path | None:
    """Return the path of a job file; None for the name of a shipped job."""
    path = Path(name_or_path)
    if path.suffix in (".yaml", ".yml") or path.is_file():
        return path
    return None


def _shipped(name: str) -> Path:
    path = JOBS / f"{name}.yaml"
    if not NAME.fullmatch(name) or not path.is_file():
        guess = nearest(name, list(shipped_jobs()))
        if NAME.fullmatch(name) and Path(f"{name}.yaml").is_file():
            guess = f" (did you mean the file '{name}.yaml'?)"
        raise InputError(
            f"there is no job {name!r}{guess}; "
            "`evenhand jobs` lists the shipped ones, or give a path."
        )
    return path


def _read(path: Path, name: str, above: Sequence[Path] = ()) -> dict[str, Any]:
    """Return a job's keys over those of its bases; the files `above` have it as a base."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise _unreadable(path, name) from None
    if path.suffix in TABLES:
        raise InputError(
            f"{name} is a table, and no job: `evenhand init {name} --label COLUMN` writes a job "
            "for it."
        )
    content = parse_yaml(text, f"the job {name}")
    if not isinstance(content, dict):
        raise InputError(f"the job {name} must be a mapping of keys to values.")
    if path.resolve().parent == JOBS:  # a shipped job is called as its file
        content.setdefault("name", path.stem)
    bases = content.pop("base", None)
    if bases is None:
        bases = []
    elif not isinstance(bases, list):
        bases = [bases]
    inherited: dict[str, Any] = {}
    for base in bases:
        with input_errors(f"job {name}: base: ", InputError):
            base_path = _base_path(path, base)
            if base_path in (path, *above):
                raise InputError(f"{base} is its own base: remove one `base`.")
            inherited = _merged(inherited, _read(base_path, base, (path, *above)))
    for key in NOT_INHERITED:
        inherited.pop(key, None)
    return _merged(inherited, content)


def _unreadable(path: Path, name: str) -> InputError:
    """Say why a job's file cannot be read: it is not there, a folder, a table, or no text."""
    if path.is_dir():
        return InputError(f"the job {name} is a folder: give the job's file.")
    if not path.exists():
        return InputError(
            f"there is no job file {name}{nearest_file(path)}: `evenhand init` writes one, "
            "`evenhand jobs` lists the shipped jobs."
        )
    if path.suffix in TABLES:
        return InputError(
            f"{name} is a table, and no job: `evenhand init {name} --label COLUMN` writes a job "
            "for it."
        )
    return InputError(f"the job file {name} cannot be read as UTF-8 text: check its path.")


def _base_path(path: Path, base: Any) -> Path:
    """Return the file of a job's base: in the job's folder, or a shipped job."""
    if not isinstance(base, str) or Path(base).name != base:
        raise InputError(
            f"{base!r} is neither a shipped job nor the name of a file in the job's folder."
        )
    if base.endswith((".yaml", ".yml")):
        return path.with_name(base)
    return _shipped(base)


def _merged(base: Mapping[str, Any], job: Mapping[str, Any], section: str = "") -> dict[str, Any]:
    """Return a job's keys over those of its base: mappings key by key; null removes a key.

    Of a method's keys null is a value.
    """
    merged = dict(base)
    for key, value in job.items():
        place = key
        if section:
            place = f"{section}.{key}"
        inherited = _mapping(place, base.get(key))
        are_sections = isinstance(value, dict) and isinstance(inherited, dict)
        if are_sections and _same_kind(place, value, inherited):
            merged[key] = _merged(inherited, value, place)
        elif value is None and section != "method":
            merged.pop(key, None)
        else:
            merged[key] = value
    return merged


def _same_kind(place: str, value: Mapping[str, Any], inherited: Mapping[str, Any]) -> bool:
    """Whether a section changes keys of the base's section, and does not replace it."""
    key = IDENTITY.get(place, "")
    default = None
    if place == "fair_metric":
        default = DEFAULT_KIND
    kind = value.get(key)
    inherited_kind = inherited.get(key, default)
    return kind is None or inherited_kind is None or kind == inherited_kind


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
    if not isinstance(value, list | dict):
        value = as_number(value)
    *parents, last = _path_of(key)
    node = content
    for parent in parents:
        child = _mapping(parent, node.get(parent))
        if child is None:
            child = {}
        node[parent] = child
        if not isinstance(child, dict):
            raise InputError(f"--set {key}: {parent} is not a section.")
        node = child
    node[last] = value


def _path_of(key: str) -> list[str]:
    """Split a dotted key; the dots within a metric's name do not separate keys."""
    parts = key.split(".")
    if parts[0] != "gates" or len(parts) == 1:
        return parts
    if len(parts) > 2 and parts[-1] in GATE_KEYS:
        return ["gates", ".".join(parts[1:-1]), parts[-1]]
    return ["gates", ".".join(parts[1:])]


def _validate(content: Mapping[str, Any], name: str) -> Job:
    with input_errors(f"job {name}: "):
        refuse_credentials(dict(content), "")
    try:
        return Job.model_validate(_without_empty(content))
    except ValidationError as error:
        raise InputError(f"job {name}: {_explain(error)}") from None


def _without_empty(content: Mapping[str, Any]) -> dict[str, Any]:
    """Remove empty sections and keys, which result when everything below a key is commented out."""
    filled = {}
    for key, value in content.items():
        if value is None:
            continue
        filled[key] = value
        if key not in ("method", "gates") and isinstance(value, dict):
            filled[key] = {name: item for name, item in value.items() if item is not None}
    return filled


def _explain(error: ValidationError) -> str:
    """Describe the first problem in one line; for an unknown key also the nearest one."""
    problem = error.errors(include_url=False)[0]
    keys = [str(part) for part in problem["loc"]]
    if keys[:1] == ["fair_metric"]:
        del keys[1:2]  # pydantic adds the metric's kind to the path
    place = ".".join(keys)
    if problem["type"] == "extra_forbidden":
        return _explain_unknown_key(problem["loc"], place)
    if problem["type"] == "union_tag_invalid":
        kind = problem["ctx"]["tag"]
        kinds = list(METRIC_KINDS)
        return (
            f"{place}.kind {kind!r} is not known{nearest(kind, kinds)}; known: {', '.join(kinds)}."
        )
    if problem["type"] == "missing":
        return f"the key {place!r} is missing."
    message = required_by(problem)
    if place:
        return f"{place}: {message}."
    return f"{message}."


def _explain_unknown_key(location: Sequence[str | int], place: str) -> str:
    """Describe an unknown key; of the fair metric perhaps a key of another kind."""
    key = str(location[-1])
    section = _section(location[:-1])
    accepted = list(section.model_fields)
    if section in METRIC_KINDS.values():
        for owner, other_section in METRIC_KINDS.items():
            if key in other_section.model_fields:
                kind = location[1]
                return (
                    f"{place!r} is a key of the kind {owner}; {kind} takes: "
                    f"{', '.join(accepted)}: remove it, or set the whole section: "
                    f"fair_metric={{kind: {kind}}}."
                )
    return f"unknown key {place!r}{nearest(key, accepted)}; known: {', '.join(accepted)}."


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
