"""Names of a package that are imported from its modules when they are first used.

The ``__init__`` files of the packages only list names, as text. So importing a package loads no
numeric library, and the keys of steps, which follow import statements, do not depend on the list.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Mapping
from types import ModuleType
from typing import Any


def load_name(package: str, modules: Mapping[str, str], name: str) -> Any:
    """Import a public name of a package, and keep the object in the package.

    A package's ``__getattr__`` (PEP 562) is this function with the first two arguments given.

    Parameters
    ----------
    package : str
        Name of the package.
    modules : mapping of str to str
        For each public name, the module that has it.
    name : str
        Name that is wanted.

    Returns
    -------
    object

    Raises
    ------
    AttributeError
        For a name that is not listed.
    """
    if name not in modules:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(modules[name]), name)
    vars(sys.modules[package])[name] = value
    return value


def list_names(package: str, modules: Mapping[str, str]) -> list[str]:
    """List a package's names, also those that are not imported yet, for completion.

    A package's ``__dir__`` is this function with both arguments given.

    Parameters
    ----------
    package : str
        Name of the package.
    modules : mapping of str to str
        As for :func:`load_name`.

    Returns
    -------
    list of str
    """
    return sorted({*vars(sys.modules[package]), *modules})


class RenamedModule(ModuleType):
    """A module whose names have moved: using one of them works, with a DeprecationWarning.

    Attributes
    ----------
    moved : mapping of str to (str, str)
        For each old name, the module that has it now, and its name there.
    callee : (str, str) or None
        Module and name of a function of the package that has the same name as this module. Calling
        the module calls it: importing a module sets the package's attribute of that name.
    """

    moved: Mapping[str, tuple[str, str]]
    callee: tuple[str, str] | None = None

    def __getattr__(self, name: str) -> Any:
        if name not in self.moved:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        module, new_name = self.moved[name]
        warnings.warn(
            f"{self.__name__}.{name} is deprecated and will be removed in the next minor version: "
            f"use {module}.{new_name}.",
            DeprecationWarning,
            stacklevel=2,
        )
        return getattr(importlib.import_module(module), new_name)

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Call the function of the package that has this module's name."""
        if self.callee is None:
            raise TypeError(f"module {self.__name__!r} cannot be called")
        module, name = self.callee
        return getattr(importlib.import_module(module), name)(*arguments, **options)
