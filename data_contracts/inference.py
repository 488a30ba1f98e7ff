"""A starter contract inferred from a table, and contracts as YAML."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import yaml

from evenhand.data_contracts.arrow import dates_in_text, decode, logical_type_of
from evenhand.data_contracts.errors import ContractError, did_you_mean
from evenhand.data_contracts.model import Column, Contract

MAX_CATEGORIES = 50
MAX_GROUPS = 10
_POSITIVE_WORDS = ("1", "true", "yes", "y", "t", "positive", "pos")
_DESCRIPTIONS = {
    "string": "Category.",
    "integer": "Whole number.",
    "number": "Number.",
    "boolean": "True or false.",
    "date": "Date.",
}
_ID_NAME = re.compile(r"(^|[_\-. ])(id|ids|key|uuid|guid|index|idx|nr|no|number)$", re.IGNORECASE)


def infer_contract(
    table: pa.Table,
    name: str,
    label: str,
    sensitive: Sequence[str],
    positive: Any = None,
    ids: Sequence[str] = (),
) -> Contract:
    """Infer a contract from a table, for a person to review and correct.

    Parameters
    ----------
    table : pyarrow.Table
        The table, with or without typed columns.
    name : str
        Name of the contract.
    label : str
        Column to predict; it must hold two values and none may be missing.
    sensitive : sequence of str
        Columns whose groups are compared. They do not become model inputs.
    positive : optional
        The label's value that becomes 1, as a value or as text. Default: 1, true, yes or a value such as
        ``>50K`` if the label has it, else the rarer value.
    ids : sequence of str, default=()
        Columns that identify rows.

    Returns
    -------
    Contract
        The table, after :func:`evenhand.data_contracts.arrow.coerce`, passes its check.

    Raises
    ------
    ContractError
        If a named column does not exist, the label does not have exactly two values, or a column has a type
        or values that no contract describes.
    """
    names = table.column_names
    if not table.num_rows:
        raise ContractError(f"table '{name}' has no rows: give one with rows to infer a contract from")
    twice = sorted({item for item in names if names.count(item) > 1})
    if twice:
        raise ContractError(f"table '{name}' has column '{twice[0]}' twice: rename one of them")
    roles: dict[str, str] = {}
    for role, wanted in (("label", [label]), ("sensitive", sensitive), ("id", ids)):
        for item in wanted:
            if item not in names:
                raise ContractError(f"{role} column '{item}' is not in the table{did_you_mean(item, names)}")
            if roles.setdefault(item, role) != role:
                raise ContractError(f"column '{item}' is named as {roles[item]} and as {role}: choose one")
    columns = [_infer(table.column(item), item, roles.get(item), positive) for item in names]
    rows = table.num_rows
    gaps = any(column.role == "sensitive" and not column.required for column in columns)
    return Contract(
        name=name,
        version="0.1.0",
        description=f"Inferred from a table of {rows:,} rows and {len(names)} columns; review before use.",
        columns=tuple(columns),
        min_rows=min(max(100, rows // 10), rows),
        max_rows=rows * 10,
        unseen_categories="ignore",
        missing_sensitive="own_group" if gaps else "error",
    )


def _infer(values: pa.ChunkedArray, name: str, role: str | None, positive: Any) -> Column:
    values = decode(values)
    kind = logical_type_of(values.type)
    if kind == "string" and (dates := dates_in_text(values)) is not None:
        kind, values = "date", dates
    if pa.types.is_null(values.type):
        kind, values = "string", values.cast(pa.string())
    if kind is None:
        raise ContractError(
            f"column '{name}' has type {values.type}, which no contract describes: drop or convert it first"
        )
    required = values.null_count == 0
    present = values.drop_null()
    if pa.types.is_floating(values.type):
        present = present.filter(pc.is_finite(present))
    if role == "label":
        return _label(present, name, kind, positive, len(values))
    if role == "sensitive":
        return _sensitive(present, name, kind, required)
    if role == "id":
        return Column(name, kind, required, "Identifies a row; never a model input.", role="id")
    return _feature(present, name, kind, required)


def _label(present: pa.ChunkedArray, name: str, kind: str, positive: Any, rows: int) -> Column:
    if len(present) < rows:
        raise ContractError(
            f"label column '{name}' has no usable value in {rows - len(present):,} of {rows:,} rows: "
            "fill them or drop these rows"
        )
    if kind == "date":
        raise ContractError(f"label column '{name}' holds dates; expected two values: choose another label")
    distinct = pc.count_distinct(present).as_py()
    if distinct != 2:
        raise ContractError(
            f"label column '{name}' has {distinct:,} distinct value{'s' if distinct != 1 else ''}, expected "
            "two: choose another column or reduce it to two values"
        )
    counts = {item["values"]: item["counts"] for item in pc.value_counts(present).to_pylist()}
    allowed = sorted(counts)
    if positive is None:
        chosen, why = _guess_positive(counts)
    else:
        chosen, why = _match_positive(positive, allowed, name), "as asked"
    description = f"Outcome to predict; {chosen!r} becomes 1 ({why})."
    return Column(name, kind, True, description, allowed=tuple(allowed), role="label", positive=chosen)


def _guess_positive(counts: dict[Any, int]) -> tuple[Any, str]:
    for value in sorted(counts, reverse=True):
        text = str(value).strip().lower()
        if value == 1 or text in _POSITIVE_WORDS or text.startswith(">"):
            return value, "it reads as the positive value"
    rarest = min(counts.values())
    return max(value for value in counts if counts[value] == rarest), "the rarer value"


def _match_positive(positive: Any, allowed: list[Any], name: str) -> Any:
    for value in allowed:
        if str(value).lower() == str(positive).strip().lower() or value == positive:
            return value
    shown = " and ".join(repr(value) for value in allowed)
    raise ContractError(
        f"positive is {positive!r}, but label column '{name}' holds {shown}: name one of them"
    )


def _sensitive(present: pa.ChunkedArray, name: str, kind: str, required: bool) -> Column:
    distinct = pc.count_distinct(present).as_py()
    where = f"sensitive column '{name}'"
    description = "Sensitive: its groups are compared; not a model input."
    if kind == "date":
        raise ContractError(f"{where} holds dates: derive a numeric column (age, year) and name that instead")
    if distinct < 2:
        raise ContractError(f"{where} holds {distinct} distinct values: there are no groups to compare")
    allowed: tuple[Any, ...] | None = None
    bins: tuple[float, ...] | None = None
    if kind in ("integer", "number") and distinct > MAX_GROUPS:
        bins = (_cut(present, kind),)
        description = "Sensitive: groups below and above the cut point are compared; not a model input."
    elif kind == "string" and distinct > MAX_CATEGORIES:
        raise ContractError(
            f"{where} holds {distinct:,} distinct values, too many groups to compare: derive a coarser column"
        )
    elif kind != "boolean":
        allowed = tuple(sorted(pc.unique(present).to_pylist()))
    return Column(name, kind, required, description, allowed=allowed, role="sensitive", bins=bins)


def _cut(present: pa.ChunkedArray, kind: str) -> float:
    """Return the rounded median, moved so that both groups have rows."""
    wide = present.cast(pa.float64(), safe=False)
    median = pc.quantile(wide, q=0.5)[0].as_py()
    low, high = (pc.min(wide).as_py(), pc.max(wide).as_py())
    if kind == "integer":
        return float(min(max(round(median), low + 1), high))
    digits = 2 - math.floor(math.log10(abs(median))) if median else 0
    for candidate in (round(median, digits), median):
        if low < candidate <= high:
            return float(candidate)
    return float(pc.min(wide.filter(pc.greater(wide, low))).as_py())


def _feature(present: pa.ChunkedArray, name: str, kind: str, required: bool) -> Column:
    rows = len(present)
    distinct = pc.count_distinct(present).as_py()
    useless = None
    if distinct < 2:
        useless = f"it holds {'one value only' if distinct else 'no value'}, nothing to learn from"
    elif kind == "integer" and distinct == rows and rows > MAX_GROUPS and _ID_NAME.search(name):
        useless = "differs in every row, like an id"
    elif kind == "string" and distinct == rows:
        useless = "differs in every row, like an identifier or free text"
    elif kind == "string" and (distinct > MAX_CATEGORIES or distinct * 2 >= rows):
        useless = f"{distinct:,} distinct values are too many categories; group them to use it"
    if useless is not None:
        return Column(name, kind, required and distinct > 1, f"Ignored: {useless}.", role="ignore")
    return Column(
        name,
        kind,
        required,
        _DESCRIPTIONS[kind],
        minimum=0 if kind in ("integer", "number") and pc.min(present).as_py() >= 0 else None,
        allowed=tuple(sorted(pc.unique(present).to_pylist())) if kind == "string" else None,
        role="feature",
        is_feature=True,
    )


_HEADER = """\
# Data contract in the form of the Open Data Contract Standard v3: the columns of the table and their values.
# A table that breaks it stops the run before a model is trained. Review every column once.
"""
_COMMENTS = {
    "schema:": """\
# role of a column: label (predicted), sensitive (its groups are compared), feature (a model input),
# id or ignore. A sensitive column becomes a model input too with {property: use, value: feature}.
# required: true refuses missing values; validValues and logicalTypeOptions say which values are allowed.
# A number is standardised by the training rows; with a minimum and a maximum under logicalTypeOptions,
# {property: encoding, value: unit} scales it to [0, 1] by that range instead.
""",
    "customProperties:": """\
# unseenCategories: error | ignore        for a category that no training row had
# onViolation: stop | quarantine          end the run, or set bad rows aside up to quarantineShare of all
# missingSensitive: error | own_group | drop
""",
}


def to_yaml(contract: Contract) -> str:
    """Write a contract as an Open Data Contract Standard v3 file.

    Parameters
    ----------
    contract : Contract
        The contract.

    Returns
    -------
    str
        YAML with comments; :func:`evenhand.data_contracts.odcs.parse_contract` returns an equal contract.
    """
    table: dict[str, Any] = {
        "name": contract.name,
        "logicalType": "object",
        "properties": [_property(column) for column in contract.columns],
    }
    if contract.max_rows is not None:
        bounds = [contract.min_rows, contract.max_rows]
        table["quality"] = [{"type": "library", "rule": "rowCount", "mustBeBetween": bounds}]
    elif contract.min_rows != 1:
        raise ContractError(f"contract '{contract.name}': a row count needs an upper bound to be written")
    document = {
        "apiVersion": "v3.0.2",
        "kind": "DataContract",
        "id": f"evenhand-{re.sub(r'[^a-z0-9]+', '-', contract.name.lower()).strip('-') or 'table'}",
        "name": contract.name,
        "version": contract.version,
        "status": "draft" if contract.version.startswith("0.") else "active",
        "description": {"purpose": contract.description},
        "schema": [table],
        "customProperties": [
            {"property": "unseenCategories", "value": contract.unseen_categories},
            {"property": "onViolation", "value": contract.on_violation},
            {"property": "quarantineShare", "value": contract.quarantine_share},
            {"property": "missingSensitive", "value": contract.missing_sensitive},
        ],
    }
    text = yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)
    lines = [_COMMENTS.get(line, "") + line for line in text.split("\n")]
    return _HEADER + "\n".join(lines)


class _Dumper(yaml.SafeDumper):
    """YAML with short lists and mappings on one line, and without anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_list(dumper: yaml.SafeDumper, data: list[Any]) -> yaml.Node:
    flow = all(isinstance(item, (str, int, float, bool, dt.date)) for item in data)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", data, flow_style=flow)


def _represent_dict(dumper: yaml.SafeDumper, data: dict[str, Any]) -> yaml.Node:
    small = set(data) in ({"property", "value"}, {"minimum"}, {"maximum"}, {"minimum", "maximum"})
    return dumper.represent_mapping("tag:yaml.org,2002:map", data.items(), flow_style=small)


def _represent_str(dumper: yaml.SafeDumper, data: str) -> yaml.Node:
    # only double quotes keep Unicode's line breaks
    style = '"' if re.search(r"[\n\r\x85\u2028\u2029]", data) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", data, style=style)


_Dumper.add_representer(str, _represent_str)
_Dumper.add_representer(list, _represent_list)
_Dumper.add_representer(dict, _represent_dict)


def _property(column: Column) -> dict[str, Any]:
    item: dict[str, Any] = {
        "name": column.name,
        "logicalType": column.logical_type,
        "required": column.required,
        "description": column.description,
    }
    bounds = {"minimum": column.minimum, "maximum": column.maximum}
    if bounds := {key: value for key, value in bounds.items() if value is not None}:
        item["logicalTypeOptions"] = bounds
    if column.allowed is not None:
        item["quality"] = [{"type": "library", "rule": "validValues", "validValues": list(column.allowed)}]
    extra = {
        "role": column.role,
        "use": "feature" if column.role == "sensitive" and column.is_feature else None,
        "positive": column.positive,
        "encoding": column.encoding if column.encoding != column.default_encoding else None,
        "bins": column.bins
        and [int(cut) if column.logical_type == "integer" else cut for cut in column.bins],
    }
    item["customProperties"] = [{"property": k, "value": v} for k, v in extra.items() if v is not None]
    return item
