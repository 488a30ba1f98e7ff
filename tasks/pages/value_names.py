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
    found = copy.deepcopy(dict(documents))

    def has(name: str, *keys: str) -> Any:
        """Part of a document, empty where there is none."""
        part = found.get(name) or {}
        for key in keys:
            part = part.get(key) or {}
        return part

    for name in ("metrics", "baseline"):
        for column, cells in has(name, "counts").items():
            _rename(names, column, cells, "group")
    for column, histogram in has("histograms").items():
        histogram["groups"] = _keys(names, column, histogram["groups"])
    by_group = [
        has("reliability", "groups"),
        *(entry["groups"] for entry in has("drivers", "columns")),
    ]
    for groups in by_group:
        groups |= {column: _keys(names, column, values) for column, values in groups.items()}
    for column, flow in has("audit", "flows").items():
        flow["groups"] = list(shown_names(names, column, flow["groups"]).values())
    for column, items in has("leaks", "stand_ins").items():
        _rename(names, column, items, "group")
    if balance := has("balance"):
        listed = balance["attributes"]
        listed |= {name: list(shown_names(names, name, listed[name]).values()) for name in listed}
        balance["groups"] = [f"{name}={group}" for name in listed for group in listed[name]]
    for column, moved in has("drift", "groups").items():
        _rename(names, column, moved["rows"], "group")
    for column, moved in has("drift", "columns").items():
        _rename(names, column, moved["bins"], "name")
    column = has("drift", "label").get("name") or has("run", "data", "label").get("name")
    column = column or has("leaks").get("label")
    for name in ("metrics", "baseline"):
        if column in names and has(name, "settings", "classes"):
            _name_classes(names, column, found[name])
    for name in ("metrics", "baseline"):
        outcome = has(name, "settings", "outcome")
        for end in ("favourable", "adverse"):
            if outcome and outcome[end] is not None:
                outcome[end] = label_name(names, outcome["column"], outcome[end])
    for name in ("label", "prediction"):
        _rename(names, column, has("drift", name).get("classes", ()), "name")
    if label := has("run", "data").get("label"):
        ends = [end for end in ("positive", "negative") if end in label]
        label |= {end: label_name(names, label["name"], label[end]) for end in ends}
    return found


def _name_classes(names: Names, column: str, metrics: dict[str, Any]) -> None:
    """Name more than two labels; a recall is also found under its label's name."""
    shown = shown_names(names, column, metrics["settings"]["classes"])
    metrics["settings"]["classes"] = list(shown.values())
    metrics["metrics"] |= {
        f"recall.{new}": metrics["metrics"][f"recall.{old}"] for old, new in shown.items()
    }
    for cells in metrics["counts"].values():
        for cell in cells:
            cell["label"] = shown[cell["label"]]
            cell["taken_for"] = [shown[label] for label in cell["taken_for"]]


def label_name(names: Names, column: str, value: Any) -> Any:
    """Name of one of the label's two values; the value itself if it has none."""
    return names.get(column, {}).get(value_text(value), value)


def shown_names(names: Names, column: str, values: Iterable[str]) -> dict[str, str]:
    """Name of every distinct value of a column, or of the intersection ``a&b`` of two, in their
    order.
    """
    found = {value: _name(names, column, value) for value in values}
    texts = list(found.values())
    # a name that is the code of another value would merge the two
    return {
        value: f"{text} ({value})" if text != value and texts.count(text) > 1 else text
        for value, text in found.items()
    }


def _name(names: Names, column: str, value: str) -> str:
    parts = column.split(PAIR_SEPARATOR)
    values = value.split(f" {PAIR_SEPARATOR} ")
    if column not in names and len(parts) == len(values) == 2:
        return f" {PAIR_SEPARATOR} ".join(map(_name, (names, names), parts, values))
    return names.get(column, {}).get(value, value)


def _keys(names: Names, column: str, groups: Json) -> dict[str, Any]:
    shown = shown_names(names, column, groups)
    return {shown[group]: content for group, content in groups.items()}


def _rename(names: Names, column: str, items: Iterable[dict[str, Any]], key: str) -> None:
    shown = shown_names(names, column, [item[key] for item in items])
    for item in items:
        item[key] = shown[item[key]]
