"""Names of coded values: pages show them in place of the codes, which metrics, keys and artifacts
keep.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

from evenhand.data_contracts.column import value_text
from evenhand.fairlib.evaluation.outcomes import PAIR_SEPARATOR
from evenhand.tasks.pages.page_model import Documents, Json

Names = Mapping[str, Mapping[str, str]]
"""Names by column and by value as text, as :attr:`Contract.value_names` has them."""


def with_names(documents: Documents) -> Documents:
    """Replace codes by the names that ``value_names`` of the document ``run`` has for them.

    This is the only place that knows where documents name a group or a value.
    """
    names: Names | None = documents.get("run", {}).get("value_names")
    if not names:
        return documents
    renamed = copy.deepcopy(dict(documents))
    _name_groups(names, renamed)
    _name_balance(names, renamed)
    _name_label(names, renamed)
    return renamed


def _part(documents: Documents, *keys: str) -> Any:
    """Part of a document, empty where there is none."""
    part: Any = documents
    for key in keys:
        part = part.get(key) or {}
    return part


def _name_groups(names: Names, documents: dict[str, Any]) -> None:
    """Name the groups of sensitive attributes, and the values of columns that drifted."""
    for name in ("metrics", "baseline"):
        for column, cells in _part(documents, name, "counts").items():
            _rename(names, column, cells, "group")
    for column, histogram in _part(documents, "histograms").items():
        histogram["groups"] = _keys(names, column, histogram["groups"])
    _name_keys(names, _part(documents, "reliability", "groups"))
    for entry in _part(documents, "drivers", "columns"):
        _name_keys(names, entry["groups"])
    for column, flow in _part(documents, "audit", "flows").items():
        flow["groups"] = list(shown_names(names, column, flow["groups"]).values())
    for column, items in _part(documents, "leaks", "stand_ins").items():
        _rename(names, column, items, "group")
    for column, moved in _part(documents, "drift", "groups").items():
        _rename(names, column, moved["rows"], "group")
    for column, moved in _part(documents, "drift", "columns").items():
        _rename(names, column, moved["bins"], "name")


def _name_keys(names: Names, by_column: dict[str, Any]) -> None:
    """Name the groups that are keys of a document, for every column."""
    for column, groups in by_column.items():
        by_column[column] = _keys(names, column, groups)


def _name_balance(names: Names, documents: dict[str, Any]) -> None:
    """Name the groups that a proxy balances."""
    balance = _part(documents, "balance")
    if not balance:
        return
    attributes = balance["attributes"]
    groups = []
    for column in attributes:
        attributes[column] = list(shown_names(names, column, attributes[column]).values())
        groups += [f"{column}={group}" for group in attributes[column]]
    balance["groups"] = groups


def _name_label(names: Names, documents: dict[str, Any]) -> None:
    """Name the label's values, wherever a document has them."""
    column = (
        _part(documents, "drift", "label").get("name")
        or _part(documents, "run", "data", "label").get("name")
        or _part(documents, "leaks").get("label")
    )
    for name in ("metrics", "baseline"):
        if column in names and _part(documents, name, "settings", "classes"):
            _name_classes(names, column, documents[name])
        _name_outcome(names, _part(documents, name, "settings", "outcome"))
    for name in ("label", "prediction"):
        _rename(names, column, _part(documents, "drift", name).get("classes", ()), "name")
    label = _part(documents, "run", "data").get("label")
    if label:
        for end in ("positive", "negative"):
            if end in label:
                label[end] = label_name(names, label["name"], label[end])


def _name_outcome(names: Names, outcome: dict[str, Any]) -> None:
    """Name the favourable and the adverse value of an evaluation's outcome, if it has any."""
    for end, name in (("favourable", "name"), ("adverse", "adverse_name")):
        value = outcome.get(end)
        if value is None:
            continue
        label = label_name(names, outcome["column"], value)
        if label != value:
            outcome[name] = label
        outcome[end] = label


def _name_classes(names: Names, column: str, metrics: dict[str, Any]) -> None:
    """Name more than two labels; a recall is also found under its label's name."""
    class_names = shown_names(names, column, metrics["settings"]["classes"])
    metrics["settings"]["classes"] = list(class_names.values())
    recalls = {new: metrics["metrics"][f"recall.{old}"] for old, new in class_names.items()}
    for new, recall in recalls.items():
        metrics["metrics"][f"recall.{new}"] = recall
    for cells in metrics["counts"].values():
        for cell in cells:
            cell["label"] = class_names[cell["label"]]
            cell["taken_for"] = [class_names[label] for label in cell["taken_for"]]


def label_name(names: Names, column: str, value: Any) -> Any:
    """Name of one of the label's two values; the value itself if it has none."""
    return names.get(column, {}).get(value_text(value), value)


def shown_names(names: Names, column: str, values: Iterable[str]) -> dict[str, str]:
    """Name of every distinct value of a column, or of the intersection ``a&b`` of two, in their
    order.
    """
    names_by_value = {value: _name(names, column, value) for value in values}
    texts = list(names_by_value.values())
    for value, text in names_by_value.items():
        # a name that is the code of another value would merge the two
        if text != value and texts.count(text) > 1:
            names_by_value[value] = f"{text} ({value})"
    return names_by_value


def _name(names: Names, column: str, value: str) -> str:
    parts = column.split(PAIR_SEPARATOR)
    values = value.split(f" {PAIR_SEPARATOR} ")
    if column not in names and len(parts) == len(values) == 2:
        return f" {PAIR_SEPARATOR} ".join(map(_name, (names, names), parts, values))
    return names.get(column, {}).get(value, value)


def _keys(names: Names, column: str, groups: Json) -> dict[str, Any]:
    group_names = shown_names(names, column, groups)
    return {group_names[group]: content for group, content in groups.items()}


def _rename(names: Names, column: str, items: Iterable[dict[str, Any]], key: str) -> None:
    item_names = shown_names(names, column, [item[key] for item in items])
    for item in items:
        item[key] = item_names[item[key]]
