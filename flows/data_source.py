"""The table of an evaluation or comparison: the options `--data` and `--set` as sections of
a job.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from evenhand.fairlib.datasets.generated import GENERATED
from evenhand.fairlib.datasets.recipes import RECIPES
from evenhand.flows.job import Evaluate, Section, TableSource
from evenhand.tasks.errors import InputError, without_secrets
from evenhand.tasks.sources.databases import is_database
from evenhand.tasks.written_input import (
    FORM_KEYS,
    as_number,
    explained,
    nearest,
    nearest_file,
    parse_yaml,
    refuse_credentials,
)

KNOWN_TABLES = (*RECIPES, *GENERATED)
TABLE_KEYS = (
    "delimiter",
    "sql",
    "connection",
    "format",
    "null_values",
    "rows",
    "sha256",
    "partition_by",
    "partitions",
    *FORM_KEYS,
)
EVALUATE_KEYS = ("draws", "level", "min_cell", "intersections")
KNOWN_KEYS = (
    *(f"table.{key}" for key in TABLE_KEYS),
    *(f"evaluate.{key}" for key in EVALUATE_KEYS),
    "seed",
)
MAX_SEED = 2**31
# one name for all files, so that the cache does not depend on a file's name
UNNAMED = "data"


@dataclass(frozen=True)
class DataSource:
    """A table to measure a model on."""

    source: dict[str, Any]  # the keys of a job's ``table``, its path absolute
    shown: str  # its address without secrets
    # the keys of ``evaluate`` that were given; they replace the model's own
    evaluate: dict[str, Any]
    seed: int | None  # None if it was not given


def parse_data(data: str, overrides: Sequence[str]) -> DataSource:
    """Read ``--data`` and the ``KEY=VALUE`` strings given with it.

    - `data`: name of a known table, a file, a folder, a URL, or ``URL#TABLE`` of a database; with
      ``table.sql`` only a name for the table. A known table takes precedence over a file of the
      same name: ``./adult`` is the file.
    - `overrides`: ``table.delimiter``, ``table.sql`` and so on as in a job, ``evaluate.draws``,
      ``evaluate.level``, ``evaluate.min_cell``, ``evaluate.intersections``, ``seed``; for
      ``URL#TABLE`` ``table.partition_by``, a column, and ``table.partitions``, its values ``A..B``

    Raises `InputError` for no such table, an unknown key, or a value that a job would refuse.
    """
    sections = read_overrides(overrides, KNOWN_KEYS)
    seed = sections.get("", {}).get("seed")
    _check_seed(seed)
    table = sections.get("table", {})
    evaluate = sections.get("evaluate", {})
    if not data.strip():
        raise InputError("--data is empty: give a known table, a file, a folder or a URL.")
    refuse_credentials(data, "--data")
    refuse_credentials(table, "--set table")
    name = data
    path = None
    partition_by = table.pop("partition_by", None)
    partitions = table.pop("partitions", None)
    if partitions is not None:
        partitions = str(partitions)
    if "sql" not in table and is_database(data):
        name = UNNAMED
        table["connection"] = data.rpartition("#")[0]
        # imported lazily: most tables are files
        from evenhand.tasks.filtering.table_inputs import partition_query

        table["sql"] = partition_query(data, partition_by, partitions, "--data")
    elif partition_by is not None or partitions is not None:
        raise InputError(
            "--partition, --since and table.partition_by choose rows of a database's table: write "
            "--data URL#TABLE, or leave them out."
        )
    elif "sql" not in table:
        name, path = _place(data)
    source = checked_section(TableSource, "table", {"name": name, "path": path, **table})
    checked = checked_section(Evaluate, "evaluate", evaluate)
    settings = {key: checked[key] for key in evaluate}
    address = path or name
    if is_database(data):
        address = data
    return DataSource(source, without_secrets(address), settings, seed)


def parse_measurement(overrides: Sequence[str]) -> dict[str, Any]:
    """Read the settings of a measurement among ``KEY=VALUE`` strings: those of `evaluate`, and the
    seed.

    Raises `InputError` for an unknown key or a value that a job would refuse.
    """
    sections = read_overrides(overrides, KNOWN_KEYS)
    seed = sections.get("", {}).get("seed")
    _check_seed(seed)
    evaluate = sections.get("evaluate", {})
    checked = checked_section(Evaluate, "evaluate", evaluate)
    settings = {key: checked[key] for key in evaluate}
    if seed is not None:
        settings["seed"] = seed
    return settings


def _check_seed(seed: Any) -> None:
    if seed is not None and (type(seed) is not int or not 0 <= seed < MAX_SEED):
        raise InputError(f"--set seed: expected a whole number from 0 to {MAX_SEED - 1}.")


def with_forms(source: Mapping[str, Any], evaluation: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table's keys, read as the table of a model was read wherever they say nothing else.

    `evaluation` is that of the model's bundle. Known tables have a form of their own.
    """
    if source["name"] in KNOWN_TABLES and not (source.get("path") or source.get("sql")):
        return dict(source)
    forms = evaluation.get("table_forms", {})
    return {**source, **{key: form for key, form in forms.items() if source.get(key) is None}}


def _place(data: str) -> tuple[str, str | None]:
    """Return the table's name, and its path if the table is not a known one."""
    if data in KNOWN_TABLES:
        return data, None
    if "://" in os.path.expandvars(data):
        return UNNAMED, data
    path = Path(data).expanduser()
    if not path.exists():
        raise InputError(
            f"there is no file or folder {data!r}, and no known table of this "
            f"name{nearest_file(path) or nearest(data, KNOWN_TABLES)}; `evenhand datasets` lists "
            "them."
        )
    return UNNAMED, str(path.resolve())


def read_overrides(overrides: Sequence[str], known: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Read ``KEY=VALUE`` strings by section; an `InputError` for another form or an unknown key.

    As in a job, an empty key counts as absent.
    """
    sections: dict[str, dict[str, Any]] = {}
    for override in overrides:
        key, equals, text = override.partition("=")
        if not equals or not key:
            # the text may hold a connection's password
            raise InputError(f"--set wants KEY=VALUE, got {without_secrets(override)!r}.")
        if key not in known:
            raise InputError(
                f"--set: unknown key {key!r}{nearest(key, known)}; known: {', '.join(known)}."
            )
        section, _, name = key.rpartition(".")
        keys = sections.setdefault(section, {})
        keys[name] = as_number(parse_yaml(text, f"--set {key}"))
    for section, keys in sections.items():
        sections[section] = {name: value for name, value in keys.items() if value is not None}
    return sections


def checked_section(
    section: type[Section], name: str, content: Mapping[str, Any]
) -> dict[str, Any]:
    """Validate a job's section, and return all its keys; an error is one line."""
    try:
        return section.model_validate(dict(content)).model_dump()
    except ValidationError as error:
        raise explained(error, "--set ", name) from None
