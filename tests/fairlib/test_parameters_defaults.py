"""Defaults in docstrings are those of the code: every public function and class of fairlib."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from typing import Any

import pytest

from evenhand import fairlib

# A parameter's line in numpydoc: "name : type, default VALUE".
PARAMETER = re.compile(r"^(?P<names>\w+(?:, \w+)*) : .*?\bdefault:? (?P<value>[^,]+)$")


def public_objects() -> Iterator[tuple[str, Any]]:
    """Functions and classes of fairlib by their full name, with a signature of their own."""
    for module in pkgutil.walk_packages(fairlib.__path__, "evenhand.fairlib."):
        if module.name.rpartition(".")[2].startswith("_"):
            continue
        imported = importlib.import_module(module.name)
        for name, item in vars(imported).items():
            is_ours = getattr(item, "__module__", None) == module.name
            if is_ours and not name.startswith("_") and callable(item) and item.__doc__:
                yield f"{module.name}.{name}", item
                if inspect.isclass(item):
                    yield from methods_of(f"{module.name}.{name}", item)


def methods_of(prefix: str, owner: type) -> Iterator[tuple[str, Any]]:
    """Public methods that a class defines itself."""
    for name, item in vars(owner).items():
        method = getattr(item, "__func__", item)
        if inspect.isfunction(method) and not name.startswith("_") and method.__doc__:
            yield f"{prefix}.{name}", method


def documented_defaults(docstring: str) -> Iterator[tuple[str, Any]]:
    """Names of parameters with the values that their lines state, where these are literals."""
    for line in inspect.cleandoc(docstring).splitlines():
        match = PARAMETER.match(line)
        if match is None:
            continue
        try:
            value = ast.literal_eval(match["value"].strip("`"))
        except (ValueError, SyntaxError):
            continue
        for name in match["names"].split(", "):
            yield name, value


def cases() -> list[Any]:
    """Each documented default with that of the signature."""
    listed = []
    for place, item in public_objects():
        try:
            parameters = inspect.signature(item).parameters
        except (TypeError, ValueError):
            continue
        for name, value in documented_defaults(item.__doc__):
            if name not in parameters:
                continue
            default = parameters[name].default
            # a dataclass makes lists and dicts anew
            if default is not inspect.Parameter.empty and repr(default) != "<factory>":
                listed.append(pytest.param(default, value, id=f"{place}-{name}"))
    return listed


def test_many_defaults_are_documented() -> None:
    assert len(cases()) > 200


def test_every_documented_default_is_the_codes() -> None:
    wrong = []
    for case in cases():
        default, documented = case.values
        if default != documented:
            wrong.append(f"{case.id}: {default!r}, documented {documented!r}")
    assert wrong == []
