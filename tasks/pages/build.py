"""Build a page: its front, and every section that applies to it and has its documents."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from functools import cache
from types import ModuleType
from typing import Any

from evenhand.tasks.pages import sections
from evenhand.tasks.pages.model import Documents, Page, Section
from evenhand.tasks.pages.render import render
from evenhand.tasks.store import Store

__all__ = ["build", "write_page"]


def write_page(kind: str, documents: Documents, store: Store | None = None) -> str:
    """
    Write a page as HTML.

    Parameters
    ----------
    kind : str
        ``run``, ``evaluation``, ``drift``, ``filter``, ``sweep``, ``index`` or ``contract``: a module of
        :mod:`tasks.pages.fronts`.
    documents : mapping
        Plain JSON by name: what the steps wrote, and ``run`` with facts about this run.
    store : Store, optional
        Keeps the pictures of charts.
    """
    return render(build(kind, documents), store)


def build(kind: str, documents: Documents) -> Page:
    """Build a page from its documents."""
    front = importlib.import_module(f"evenhand.tasks.pages.fronts.{kind}").front(documents)
    return Page(front, list(_sections(kind, documents)))


def _sections(kind: str, documents: Documents) -> Iterator[Section]:
    for module in _modules(kind):
        if all(documents.get(name) is not None for name in module.NEEDS):
            found: Any = module.build(documents)
            yield from [found] if isinstance(found, Section) else found or []


@cache
def _modules(kind: str) -> list[ModuleType]:
    """
    Modules of :mod:`tasks.pages.sections` that this kind of page has, in order.

    Each has ``PAGES`` (kind of page to place in its order), ``NEEDS`` (documents without which it does not
    apply) and ``build(documents)``, which gives a section, several, or None.
    """
    names = [item.name for item in pkgutil.iter_modules(sections.__path__)]
    modules = [importlib.import_module(f"evenhand.tasks.pages.sections.{name}") for name in names]
    own = [module for module in modules if kind in module.PAGES]
    return sorted(own, key=lambda module: module.PAGES[kind])
