"""Which parameters of our functions can only be given by their position."""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import Any


def modules_below(package: ModuleType) -> Iterator[ModuleType]:
    """Modules of a package."""
    for entry in pkgutil.iter_modules(package.__path__):
        yield import_module(f"{package.__name__}.{entry.name}")


def positional_only(module: ModuleType) -> list[str]:
    """Parameters of a module's functions and methods that cannot be given by their name."""
    places = []
    for name, function in functions_of(module, module.__name__):
        for parameter in inspect.signature(function).parameters.values():
            is_private = parameter.name.startswith("__")
            if parameter.kind is inspect.Parameter.POSITIONAL_ONLY and not is_private:
                places.append(f"{name}: {parameter.name}")
    return places


def functions_of(holder: Any, module_name: str) -> Iterator[tuple[str, Any]]:
    """Functions that a module or class of ours defines, and those of its classes."""
    for name, member in vars(holder).items():
        # the function itself of a class method, a property, a decorated or compiled function
        function = inspect.unwrap(getattr(member, "py_func", getattr(member, "__func__", member)))
        if getattr(function, "__module__", None) != module_name:
            continue
        if inspect.isfunction(function):
            yield f"{holder.__name__}.{name}", function
        elif inspect.isclass(function) and function is not holder:
            yield from functions_of(function, module_name)
