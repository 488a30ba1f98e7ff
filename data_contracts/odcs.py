"""The YAML form of a contract: Open Data Contract Standard v3, read strictly.

Every key must be known. Keys of the standard that only document (team, servers, tags, ...) are accepted
and carry no meaning here; keys that would promise a check which is not made (``unique``, ``pattern``)
are refused, so that nobody relies on them.
"""

from __future__ import annotations

import datetime as dt
import types
import typing
from collections.abc import Collection
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from evenhand.data_contracts.errors import ContractError, did_you_mean

# What each of our own `customProperties` means; the reference shows it.
COLUMN_PROPERTIES = {
    "role": "`label`, `sensitive`, `feature`, `id` or `ignore`; every column has one, and one is the label.",
    "use": "`feature`: a sensitive column that is a model input too.",
    "positive": "The label's value that becomes 1; with `encoding: binary` the value that becomes 1.",
    "encoding": "How a model input becomes numbers: `onehot`, `binary`, `standard` or `unit`.",
    "bins": "Cut points of a numeric sensitive column, such as `[25]`; they make its groups.",
}
CONTRACT_PROPERTIES = {
    "unseenCategories": "A category that no training row had: `error` (default), or `ignore`.",
    "onViolation": "`stop` (default): bad rows end the run; `quarantine`: they are set aside.",
    "quarantineShare": "Largest share of rows that may be set aside, 0 to 1; default: 0.05.",
    "missingSensitive": "A missing sensitive value: `error` (default), `own_group`, or `drop` the row.",
}

Scalar = bool | int | float | str | dt.date


class _Strict(BaseModel):
    # the reference is made from the lines below the keys; a key without one only documents
    model_config = ConfigDict(
        extra="forbid", strict=True, populate_by_name=False, use_attribute_docstrings=True
    )


class CustomProperty(_Strict):
    """One ``{property, value}`` pair, the standard's place for extensions."""

    property: str
    """Its name."""
    value: Any
    """Its value."""
    description: str | None = None


class TypeOptions(_Strict):
    """Inclusive range of a numeric or date column."""

    minimum: int | float | dt.date | None = None
    """Smallest value allowed."""
    maximum: int | float | dt.date | None = None
    """Largest value allowed."""


class ValidValues(_Strict):
    """Quality rule of a column: the values it may hold."""

    type: Literal["library"] = "library"
    """Kind of rule."""
    rule: Literal["validValues"]
    """Which rule."""
    validValues: list[Scalar]
    """All values that the column may hold."""
    name: str | None = None
    description: str | None = None


class RowCount(_Strict):
    """Quality rule of the table: inclusive bounds on its number of rows."""

    type: Literal["library"] = "library"
    """Kind of rule."""
    rule: Literal["rowCount"]
    """Which rule."""
    mustBeBetween: list[int] = Field(min_length=2, max_length=2)
    """Smallest and largest number of rows."""
    name: str | None = None
    description: str | None = None


class PropertyDocument(_Strict):
    """One column."""

    name: str
    """As in the table."""
    logicalType: Literal["string", "integer", "number", "boolean", "date"]
    """What the values are."""
    required: bool = False
    """A missing value breaks the contract."""
    description: str = ""
    """One sentence for people; `evenhand ask` shows it."""
    logicalTypeOptions: TypeOptions = TypeOptions()
    """Range of a numeric or date column."""
    quality: list[ValidValues] = []
    """At most one rule: the values that the column may hold."""
    customProperties: list[CustomProperty] = []
    """What the column is for; see below."""
    id: str | None = None
    businessName: str | None = None
    physicalType: str | None = None
    classification: str | None = None
    tags: list[str] | None = None
    authoritativeDefinitions: list[Any] | None = None


class TableDocument(_Strict):
    """The one table that a contract describes."""

    name: str
    """Name of the table."""
    logicalType: Literal["object"] = "object"
    """What the standard calls a table."""
    properties: list[PropertyDocument]
    """The columns."""
    quality: list[RowCount] = []
    """At most one rule: how many rows there must be."""
    id: str | None = None
    description: str | None = None
    businessName: str | None = None
    physicalName: str | None = None
    physicalType: str | None = None
    tags: list[str] | None = None
    authoritativeDefinitions: list[Any] | None = None


class Description(_Strict):
    """What the table is for, and what it is not for."""

    purpose: str = ""
    """What the table is for."""
    limitations: str | None = None
    """What it is not fit for."""
    usage: str | None = None
    """How to use it."""


class ContractDocument(_Strict):
    """A whole contract file."""

    apiVersion: str = Field(pattern=r"^v3\.\d+\.\d+$")
    """Version of the standard."""
    kind: Literal["DataContract"]
    """What the standard calls a contract."""
    id: str
    """Identifier of the contract."""
    name: str
    """Name of the contract."""
    version: str
    """Its version: raise it when a promise changes."""
    status: str
    """Such as `active`."""
    description: Description = Description()
    """What the table is for."""
    tables: list[TableDocument] = Field(alias="schema", min_length=1, max_length=1)
    """The one table."""
    customProperties: list[CustomProperty] = []
    """What to do with bad rows; see below."""
    domain: str | None = None
    dataProduct: str | None = None
    tenant: str | None = None
    tags: list[str] | None = None
    authoritativeDefinitions: list[Any] | None = None
    team: Any = None
    support: Any = None
    servers: Any = None
    price: Any = None
    roles: Any = None
    slaProperties: Any = None
    contractCreatedTs: Any = None


class _Loader(yaml.SafeLoader):
    """YAML without silent overwriting: a key given twice is an error."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key_node, _ in node.value:
            if key_node.value in seen:
                line = key_node.start_mark.line + 1
                raise ContractError(f"key '{key_node.value}' stands twice (line {line}): keep one of them")
            if isinstance(key_node, yaml.ScalarNode):
                seen.add(key_node.value)
        return super().construct_mapping(node, deep=deep)


def parse_document(text: str, source: str) -> ContractDocument:
    """Read a contract file's text.

    Parameters
    ----------
    text : str
        YAML.
    source : str
        Name of the file, for messages.

    Returns
    -------
    ContractDocument
        The file as written; rules between columns are checked when the contract is made from it.

    Raises
    ------
    ContractError
        On YAML that cannot be read, a missing or unknown key, or a value of the wrong kind.
    """
    try:
        data = yaml.load(text, Loader=_Loader)  # noqa: S506 (a SafeLoader)
    except ContractError as error:
        raise ContractError(f"contract {source}: {error}") from None
    except (yaml.YAMLError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f" at line {mark.line + 1}" if mark is not None else ""
        problem = getattr(error, "problem", None) or "a value cannot be read"
        raise ContractError(f"contract {source}: not valid YAML{line}: {problem}") from None
    if not isinstance(data, dict):
        raise ContractError(
            f"contract {source}: expected keys such as apiVersion and schema, got "
            f"{'an empty file' if data is None else type(data).__name__}"
        )
    _refuse_bad_keys(data, source)
    try:
        return ContractDocument.model_validate(data)
    except ValidationError as error:
        raise ContractError(f"contract {source}: {_first_problem(error, data)}") from None


def custom_properties(entries: list[CustomProperty], known: Collection[str], where: str) -> dict[str, Any]:
    """Turn a list of ``{property, value}`` into a mapping, refusing unknown and repeated names."""
    found: dict[str, Any] = {}
    for entry in entries:
        if entry.property not in known:
            raise ContractError(
                f"{where}: unknown customProperties entry '{entry.property}'"
                f"{did_you_mean(entry.property, known)}"
            )
        if entry.property in found:
            raise ContractError(f"{where}: customProperties entry '{entry.property}' stands twice")
        found[entry.property] = entry.value
    return found


def _refuse_bad_keys(data: Any, source: str) -> None:
    """Name keys that YAML did not read as text (an unquoted ``yes``), which pydantic reports unclearly."""
    if isinstance(data, dict):
        for key, value in data.items():
            if not isinstance(key, str):
                raise ContractError(f"contract {source}: key {key!r} is not text: put it in quotes")
            _refuse_bad_keys(value, source)
    elif isinstance(data, list):
        for value in data:
            _refuse_bad_keys(value, source)


def _first_problem(error: ValidationError, data: dict[str, Any]) -> str:
    """One line about the first problem, unknown keys first: they are the likeliest cause of the rest."""
    problems = sorted(error.errors(), key=lambda item: item["type"] != "extra_forbidden")
    first = problems[0]
    location = tuple(part for part in first["loc"])
    where = _where(location[:-1] if first["type"] in ("extra_forbidden", "missing") else location, data)
    prefix = f"{where}: " if where else ""
    key = location[-1] if location else ""
    if first["type"] == "extra_forbidden":
        return f"{prefix}unknown key '{key}'{did_you_mean(str(key), _known_keys(location[:-1]))}"
    if first["type"] == "missing":
        return f"{prefix}key '{key}' is missing: add it"
    if "validValues" in location and isinstance(first["input"], bool):
        return f"{prefix}{_UNQUOTED}"
    if first["type"] == "literal_error":
        expected = first.get("ctx", {}).get("expected", "")
        return f"{prefix}got {first['input']!r}, expected {expected}"
    if first["type"] == "string_type" and isinstance(first["input"], (bool, int, float)):
        return f"{prefix}got {first['input']!r}, expected text: put it in quotes"
    return f"{prefix}got {_short(first['input'])}: {first['msg'].lower()}"


_UNQUOTED = (
    "a true/false value stands among text (YAML reads an unquoted yes, no, on or off as true/false): "
    "put it in quotes"
)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _where(location: tuple[int | str, ...], data: Any) -> str:
    """Path to a key, with the name of the column where there is one."""
    path = ""
    node: Any = data
    for part in location:
        if isinstance(part, int):
            path += f"[{part}]"
            node = node[part] if isinstance(node, list) and part < len(node) else None
            if isinstance(node, dict) and isinstance(node.get("name"), str):
                path += f" ('{node['name']}')"
        elif isinstance(node, dict) and part in node:
            path += f".{part}" if path else part
            node = node[part]
    return path


def _known_keys(location: tuple[int | str, ...]) -> list[str]:
    """Return the keys that the model at ``location`` knows."""
    model: type[BaseModel] = ContractDocument
    for part in location:
        if isinstance(part, int):
            continue
        for name, field in model.model_fields.items():
            if part in (name, field.alias):
                inner = _model_in(field.annotation)
                if inner is not None:
                    model = inner
                break
    return [field.alias or name for name, field in model.model_fields.items()]


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
        return annotation if issubclass(annotation, BaseModel) else None
    for inner in typing.get_args(annotation):
        found = _model_in(inner)
        if found is not None:
            return found
    return None
