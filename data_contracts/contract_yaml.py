"""Contracts as YAML files, with comments for the person who reviews them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from evenhand.data_contracts.column import Column, Value
from evenhand.data_contracts.errors import ContractError
from evenhand.data_contracts.model import Contract
from evenhand.data_contracts.odcs import POLICIES
from evenhand.data_contracts.yaml_writer import PlainDumper, comment

_HEADER = """\
# Data contract in the form of the Open Data Contract Standard v3: the columns of the table and
# their values. A table that breaks it stops the run before a model is trained. Review every column
# once.
"""
_COMMENTS = {
    "schema:": """\
# favourable on the label: the value that is the good outcome for a person. Selection rates are of
# it.
# role of a column: label (predicted), sensitive (its groups are compared), feature (a model input),
# id or ignore. A sensitive column becomes a model input too with {property: use, value: feature}.
# required: true refuses missing values; validValues and logicalTypeOptions say which values are
# allowed. A number is standardised by the training rows; with a minimum and a maximum under
# logicalTypeOptions, {property: encoding, value: unit} scales it to [0, 1] by that range instead.
# validValues of {property: encoding, value: ordinal} are in their order; missing lists what stands
# for a missing value. {property: other, value: other} reads every value that validValues lacks as
# the one of them that it names.
# {property: valueNames, value: {1: male, 2: female}} gives codes the names that pages show.
# {property: legitimate, value: true}: a learned fair metric keeps the column's differences between
# groups, such as those of experience.
""",
    "customProperties:": """\
# unseenCategories: error | ignore   for a category that no training row had
# onViolation: stop | quarantine     end the run, or set bad rows aside up to quarantineShare of all
# missingSensitive: error | own_group | drop
# rules: observed | stated           `init` saw bounds and values in a table, so that `predict` goes
#                                    on after a row outside them; or you have checked them
""",
}


def to_yaml(contract: Contract, notes: Sequence[str] = ()) -> str:
    """Write a contract as an Open Data Contract Standard v3 file.

    :func:`evenhand.data_contracts.odcs.parse_contract` reads an equal contract from the text.

    Parameters
    ----------
    contract : Contract
        The contract to write.
    notes : sequence of str, default ()
        Lines of further comments, for the top of the file.

    Returns
    -------
    str
        YAML text.

    Raises
    ------
    ContractError
        If the contract has a least number of rows and no largest one, which the standard cannot
        say.
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
        raise ContractError(
            f"contract '{contract.name}': a row count needs an upper bound to be written"
        )
    policies = {policy: getattr(contract, name) for policy, name in POLICIES.items()}
    identifier = re.sub(r"[^a-z0-9]+", "-", contract.name.lower()).strip("-")
    document = {
        "apiVersion": "v3.0.2",
        "kind": "DataContract",
        "id": f"evenhand-{identifier or 'table'}",
        "name": contract.name,
        "version": contract.version,
        "status": "draft" if contract.version.startswith("0.") else "active",
        "description": {"purpose": contract.description},
        "schema": [table],
        "customProperties": _custom_properties(policies),
    }
    text = yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)
    lines = [_COMMENTS.get(line, "") + line for line in text.split("\n")]
    comments = "".join(map(comment, notes))
    return _HEADER + comments + "\n".join(lines)


def _custom_properties(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The standard's form of extensions; those without a value are left out."""
    return [{"property": key, "value": value} for key, value in values.items() if value is not None]


class _Dumper(PlainDumper):
    """YAML with short lists and mappings on one line, and without anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_list(dumper: yaml.SafeDumper, data: list[Any]) -> yaml.Node:
    flow = all(isinstance(item, Value) for item in data)
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
    stated_bounds = {key: value for key, value in bounds.items() if value is not None}
    if stated_bounds:
        item["logicalTypeOptions"] = stated_bounds
    if column.allowed is not None:
        item["quality"] = [
            {"type": "library", "rule": "validValues", "validValues": list(column.allowed)}
        ]
    extra: dict[str, Any] = {"role": column.role}
    if column.role == "sensitive" and column.is_feature:
        extra["use"] = "feature"
    extra["positive"] = column.positive
    extra["atLeast"] = column.at_least
    extra["favourable"] = column.favourable
    if column.encoding != column.default_encoding:
        extra["encoding"] = column.encoding
    extra["bins"] = _written_bins(column)
    extra["missing"] = column.missing and list(column.missing)
    extra["other"] = column.other
    extra["unit"] = column.unit
    extra["valueNames"] = column.value_names and dict(column.value_names)
    extra["legitimate"] = column.legitimate
    extra["changeable"] = column.changeable
    reasons: Any = column.adverse_reason
    extra["adverseReason"] = reasons and dict(reasons)
    item["customProperties"] = _custom_properties(extra)
    return item


def _written_bins(column: Column) -> list[int | float] | None:
    """The cut points of a column; whole numbers for integers."""
    if column.bins is None:
        return None
    if column.logical_type == "integer":
        return [int(cut) for cut in column.bins]
    return list(column.bins)
