"""The YAML form of a contract: Open Data Contract Standard v3, read strictly.

Every key must be known. Keys of the standard that only document (team, servers, tags, ...) are
accepted and have no effect. Keys that would promise a check which is not made (``unique``,
``pattern``) are refused.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Collection, Mapping
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from evenhand.data_contracts.column import ROLES, Column, Value
from evenhand.data_contracts.errors import ContractError, did_you_mean, shorten
from evenhand.data_contracts.model import Contract
from evenhand.data_contracts.yaml_loader import StrictError, StrictLoader

# our `customProperties`; the reference page has their meaning
_INPUT_PROPERTIES = ("role", "use", "positive", "favourable", "atLeast", "encoding", "bins")
_CASE_PROPERTIES = ("changeable", "adverseReason")
COLUMN_PROPERTIES = (
    *_INPUT_PROPERTIES,
    *("missing", "other", "unit", "valueNames", "legitimate"),
    *_CASE_PROPERTIES,
)
# the attribute of a contract that each policy sets
POLICIES = {
    "unseenCategories": "unseen_categories",
    "onViolation": "on_violation",
    "quarantineShare": "quarantine_share",
    "missingSensitive": "missing_sensitive",
    "rules": "rules",
}
CONTRACT_PROPERTIES = ("extends", *POLICIES)
# the type that a value must have, and an example of it
_PROPERTY_TYPES = (
    ("bins", list, "a list such as [25]"),
    ("missing", list, "a list such as ['?', 999]"),
    ("other", str, "a text such as other"),
    ("valueNames", dict, "names such as {1: male, 2: female}"),
    ("adverseReason", (str, dict), "a text, or texts by language such as {en: Too few years}"),
)


class _Strict(BaseModel):
    # the reference is made from the lines below the keys; a key without one only documents
    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown_keys(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        keys = [field.alias or name for name, field in cls.model_fields.items()]
        for key in data:
            if key not in keys:
                hint = did_you_mean(key, keys)
                raise PydanticCustomError(
                    "unknown_key", "unknown key '{key}'{hint}", {"key": key, "hint": hint}
                )
        return data


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


class _Rule(_Strict):
    type: Literal["library"] = "library"
    """Kind of rule."""
    name: str | None = None
    description: str | None = None


class ValidValues(_Rule):
    """Quality rule of a column: the values it may hold."""

    rule: Literal["validValues"]
    """Which rule."""
    validValues: list[Value]
    """All values that the column may hold."""


class RowCount(_Rule):
    """Quality rule of the table: inclusive bounds on its number of rows."""

    rule: Literal["rowCount"]
    """Which rule."""
    mustBeBetween: list[int] = Field(min_length=2, max_length=2)
    """Smallest and largest number of rows."""


class _Documented(_Strict):
    id: str | None = None
    businessName: str | None = None
    physicalType: str | None = None
    tags: list[str] | None = None
    authoritativeDefinitions: list[Any] | None = None


class PropertyDocument(_Documented):
    """One column."""

    name: str
    """As in the table."""
    logicalType: Literal["string", "integer", "number", "boolean", "date"]
    """Type of the values."""
    required: bool = False
    """A missing value breaks the contract."""
    description: str = ""
    """One sentence for people; `evenhand ask` shows it."""
    logicalTypeOptions: TypeOptions = TypeOptions()
    """Range of a numeric or date column."""
    quality: list[ValidValues] = []
    """At most one rule: the values that the column may hold."""
    customProperties: list[CustomProperty] = []
    """Role and encoding of the column; see below."""
    classification: str | None = None


class TableDocument(_Documented):
    """The one table that a contract describes."""

    name: str
    """Name of the table."""
    logicalType: Literal["object"] = "object"
    """What the standard calls a table."""
    properties: list[PropertyDocument]
    """The columns."""
    quality: list[RowCount] = []
    """At most one rule: how many rows there must be."""
    description: str | None = None
    physicalName: str | None = None


class Description(_Strict):
    """Purpose of the table, and its limits."""

    purpose: str = ""
    """Purpose of the table."""
    limitations: str | None = None
    """Uses that it is not fit for."""
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
    """Purpose of the table."""
    tables: list[TableDocument] = Field(alias="schema", min_length=1, max_length=1)
    """The one table."""
    customProperties: list[CustomProperty] = []
    """Policies for bad rows; see below."""
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


class _Loader(StrictLoader):
    """YAML in which every key is text."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Build a mapping; StrictError if a key is no text.

        Parameters
        ----------
        node : yaml.MappingNode
            The mapping in the document.
        deep : bool, default False
            Whether nested values are built at once, as PyYAML has it.

        Returns
        -------
        dict
        """
        codes = _coded_values(node)
        if isinstance(codes, yaml.MappingNode):
            # codes are values of a column, so they need no quotes
            for code, _ in codes.value:
                if isinstance(code, yaml.ScalarNode):
                    code.tag = "tag:yaml.org,2002:str"
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                key = key_node.value
            else:
                key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                raise StrictError(f"key {key!r} is not text: put it in quotes")
        return super().construct_mapping(node, deep=deep)


def _coded_values(node: yaml.MappingNode) -> yaml.Node | None:
    """The value of a mapping ``{property: valueNames, value: ...}``; None for another mapping."""
    values = {key.value: value for key, value in node.value if isinstance(key, yaml.ScalarNode)}
    name = values.get("property")
    if getattr(name, "value", None) != "valueNames":
        return None
    return values.get("value")


def load_contract(name_or_path: str) -> Contract:
    """Load a contract that ships with the package, by its name, or one from a YAML file, by its
    path.

    It is checked, with everything that it takes from a contract that it extends.

    Parameters
    ----------
    name_or_path : str
        Name of a shipped contract, or path of a YAML file.

    Returns
    -------
    Contract

    Raises
    ------
    ContractError
        If there is no such contract (the message has the nearest shipped name), or it is not
        valid.

    Examples
    --------
    >>> contract = load_contract("german")
    >>> contract.label.name
    'credit'
    >>> [column.name for column in contract.sensitive]
    ['age']
    """
    name = str(name_or_path)
    if name in shipped_contracts():
        return parse_contract(_shipped_text(name), f"'{name}'")
    path = Path(name).expanduser()
    if path.suffix.lower() not in (".yaml", ".yml") and os.sep not in name and not path.is_file():
        raise ContractError(
            f"no shipped contract is called '{name}'{did_you_mean(name, shipped_contracts())} "
            "(or give the path of a .yaml file)"
        )
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ContractError(f"contract file '{name}' is not UTF-8 text: save it as UTF-8") from None
    except OSError as error:
        raise ContractError(f"contract file '{name}' cannot be read: {error.strerror}") from None
    return parse_contract(text, f"'{path.name}'")


def shipped_contracts() -> list[str]:
    """Return the names of the contracts that ship with the package, sorted.

    Examples
    --------
    >>> "german" in shipped_contracts()
    True
    """
    files = (entry.name for entry in resources.files("evenhand.data_contracts").iterdir())
    return sorted(name.removesuffix(".yaml") for name in files if name.endswith(".yaml"))


def _shipped_text(name: str) -> str:
    file = resources.files("evenhand.data_contracts").joinpath(f"{name}.yaml")
    return file.read_text(encoding="utf-8")


def parse_contract(text: str, source: str = "text") -> Contract:
    """Create a contract from YAML text in the form of the Open Data Contract Standard v3.

    It is checked, with everything that it takes from a contract that it extends.

    Parameters
    ----------
    text : str
        The YAML document.
    source : str, default "text"
        Names the file in messages.

    Returns
    -------
    Contract

    Raises
    ------
    ContractError
        On YAML that cannot be read, a missing or unknown key, or a value that is not valid.
    """
    try:
        data = _read_yaml(text)
    except ContractError as error:
        raise ContractError(f"contract {source}: {error}") from None
    try:
        return _contract(ContractDocument.model_validate(data))
    except ValidationError as error:
        raise ContractError(f"contract {source}: {_first_problem(error, data)}") from None
    except ContractError as error:
        message = str(error)
        if source not in message:
            message = f"contract {source}: {message}"
        raise ContractError(message) from None


def _read_yaml(text: str) -> dict[str, Any]:
    try:
        data = yaml.load(text, Loader=_Loader)  # noqa: S506 (a SafeLoader)
    except StrictError as error:
        raise ContractError(str(error)) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = ""
        if mark is not None:
            line = f" at line {mark.line + 1}"
        problem = getattr(error, "problem", None) or "a value cannot be read"
        raise ContractError(f"not valid YAML{line}: {problem}") from None
    if not isinstance(data, dict):
        content = "an empty file" if data is None else type(data).__name__
        raise ContractError(f"expected keys such as apiVersion and schema, got {content}")
    return _extended(data)


def _extended(data: dict[str, Any]) -> dict[str, Any]:
    """Fill in a contract from the shipped contract that it extends.

    It takes the keys that it leaves out (but not id, name and version), customProperties of other
    names, and for each column that it lists the keys that this column leaves out. Parts of the
    wrong type stay as they are: the validation reports them.
    """
    entries: Any = data.get("customProperties")
    properties = [str(entry.get("property")) for entry in _mappings(entries)]
    if "extends" not in properties:
        return data
    if properties.count("extends") > 1:
        raise ContractError("customProperties entry 'extends' is given twice")
    name = _mappings(entries)[properties.index("extends")].get("value")
    shipped = shipped_contracts()
    if name not in shipped:
        hint = did_you_mean(str(name), shipped)
        raise ContractError(f"extends is {name!r}, expected the name of a shipped contract{hint}")
    base = _read_yaml(_shipped_text(name))
    base_table = base["schema"][0]
    base_columns = {column["name"]: column for column in base_table["properties"]}
    for table in _mappings(data.get("schema")):
        table.update({**base_table, **table})
        for column in _mappings(table["properties"]):
            base_column = base_columns.get(str(column.get("name")), {})
            column.update({**base_column, **column})
    policies = base.get("customProperties", [])
    inherited = [entry for entry in policies if entry["property"] not in properties]
    base = {key: value for key, value in base.items() if key not in ("id", "name", "version")}
    return {**base, **data, "customProperties": [*entries, *inherited]}


def _mappings(items: Any) -> list[dict[str, Any]]:
    """The mappings in a list; none if it is no list."""
    if not isinstance(items, list):
        return []
    return [item for item in items if isinstance(item, dict)]


def _contract(document: ContractDocument) -> Contract:
    table = document.tables[0]
    where = f"contract '{document.name}'"
    extra = _custom_properties(document.customProperties, CONTRACT_PROPERTIES, where)
    if len(table.quality) > 1:
        raise ContractError(f"{where}: rowCount is given twice: keep one of them")
    min_rows = 1
    max_rows = None
    if table.quality:
        min_rows, max_rows = table.quality[0].mustBeBetween
    return Contract(
        name=document.name,
        version=document.version,
        description=document.description.purpose,
        columns=tuple(_column(item) for item in table.properties),
        min_rows=min_rows,
        max_rows=max_rows,
        **{POLICIES[key]: value for key, value in extra.items() if key in POLICIES},
    )


def _column(item: PropertyDocument) -> Column:
    where = f"column '{item.name}'"
    extra = _custom_properties(item.customProperties, COLUMN_PROPERTIES, where)
    if "role" not in extra:
        raise ContractError(f"{where}: customProperties lacks role: say one of {', '.join(ROLES)}")
    if len(item.quality) > 1:
        raise ContractError(f"{where}: validValues is given twice: keep one of them")
    if extra.get("use") not in (None, "feature"):
        raise ContractError(f"{where}: use is {extra['use']!r}, expected feature (or leave it out)")
    if "use" in extra and extra["role"] != "sensitive":
        raise ContractError(f"{where}: use: feature is for sensitive columns only: remove it")
    for key, kind, example in _PROPERTY_TYPES:
        if extra.get(key) is not None and not isinstance(extra[key], kind):
            raise ContractError(f"{where}: {key} is {extra[key]!r}, expected {example}")
    return Column(
        name=item.name,
        logical_type=item.logicalType,
        required=item.required,
        description=item.description,
        minimum=item.logicalTypeOptions.minimum,
        maximum=item.logicalTypeOptions.maximum,
        allowed=tuple(item.quality[0].validValues) if item.quality else None,
        role=extra["role"],
        is_feature=extra["role"] == "feature" or extra.get("use") == "feature",
        value_names=extra.get("valueNames"),
        favourable=extra.get("favourable"),
        at_least=extra.get("atLeast"),
        legitimate=extra.get("legitimate"),
        changeable=extra.get("changeable"),
        adverse_reason=extra.get("adverseReason"),
        other=extra.get("other"),
        **{key: extra.get(key) for key in ("positive", "encoding", "bins", "missing", "unit")},
    )


def _custom_properties(
    entries: list[CustomProperty], known: Collection[str], where: str
) -> dict[str, Any]:
    """Return the values of ``{property, value}`` pairs by name; refuse unknown and repeated
    names.
    """
    values: dict[str, Any] = {}
    for entry in entries:
        if entry.property not in known:
            raise ContractError(
                f"{where}: unknown customProperties entry '{entry.property}'"
                f"{did_you_mean(entry.property, known)}"
            )
        if entry.property in values:
            raise ContractError(
                f"{where}: customProperties entry '{entry.property}' is given twice"
            )
        values[entry.property] = entry.value
    return values


def _first_problem(error: ValidationError, data: dict[str, Any]) -> str:
    """Describe the first problem in one line; unknown keys come first, as they often cause the
    others.
    """
    first = min(error.errors(), key=lambda item: item["type"] != "unknown_key")
    location = first["loc"]
    kind = first["type"]
    # the place of a missing key is the mapping that lacks it
    place = location[:-1] if kind == "missing" else location
    where = _where(place, data)
    prefix = ""
    if where:
        prefix = f"{where}: "
    return prefix + _problem(kind, location, first)


def _problem(kind: str, location: tuple[int | str, ...], details: Mapping[str, Any]) -> str:
    """Describe a problem of a kind that pydantic names, without its place."""
    value = details["input"]
    if kind == "unknown_key":
        return str(details["msg"])
    if kind == "missing":
        return f"key '{location[-1]}' is missing: add it"
    if "validValues" in location and isinstance(value, bool):
        return (
            "a true/false value is among text values (YAML reads an unquoted yes, no, on or off as "
            "true/false): put it in quotes"
        )
    if kind == "literal_error":
        return f"got {value!r}, expected {details['ctx']['expected']}"
    if kind == "string_type" and isinstance(value, (bool, int, float)):
        return f"got {value!r}, expected text: put it in quotes"
    return f"got {shorten(repr(value), 60)}: {details['msg'].lower()}"


def _where(location: tuple[int | str, ...], data: Any) -> str:
    """Path to a key, with the name of the column where there is one."""
    path = ""
    node: Any = data
    for part in location:
        if isinstance(part, int):
            path += f"[{part}]"
            in_list = isinstance(node, list) and part < len(node)
            node = node[part] if in_list else None
            if isinstance(node, dict) and isinstance(node.get("name"), str):
                path += f" ('{node['name']}')"
        elif isinstance(node, dict) and part in node:
            path += f".{part}" if path else part
            node = node[part]
    return path
