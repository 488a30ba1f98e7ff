"""Pages as HTML documents that need nothing else: no script, no request, no font."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator
from functools import cache
from importlib import resources
from types import ModuleType
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from evenhand.fairlib.plots.palette import DARK, LIGHT
from evenhand.tasks.pages import formats, sections
from evenhand.tasks.pages.figures import BOTH, SMALL, Figures
from evenhand.tasks.pages.model import Cell, Chart, Charts, Documents, Page, Section, Table, Value
from evenhand.tasks.store import Store

__all__ = ["build", "render", "write_page"]

# Characters that an HTML reader refuses or shows as nothing.
UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufffe\uffff]")
MARKS = re.compile(r"\*\*(.+?)\*\*|`(.+?)`")
NUMERIC = re.compile(r"[+\u2212-]?[\d.]|below |no interval|–")


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
    """Build a page from its documents: its front, and every section that has its documents."""
    front = importlib.import_module(f"evenhand.tasks.pages.fronts.{kind}")
    own = [front] if hasattr(front, "build") else []
    return Page(front.front(documents), list(_sections([*own, *_modules(kind)], documents)))


def _sections(modules: list[ModuleType], documents: Documents) -> Iterator[Section]:
    for module in modules:
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


def render(page: Page, store: Store | None = None) -> str:
    """
    Write a page.

    Parameters
    ----------
    page : Page
    store : Store, optional
        Keeps the pictures of charts, so that a chart is drawn once; without it every chart is drawn.

    Returns
    -------
    str
        A whole HTML document. The same page gives the same text.
    """
    charts = [chart for section in page.sections for block in section.blocks for chart in _charts_of(block)]
    figures = Figures(store).draw(charts)
    text = _templates().get_template("page.html.j2").render(page=page, figures=figures)
    # a column's name or a category may hold bytes that are no text
    return UNPRINTABLE.sub("\ufffd", text).encode("utf-8", "replace").decode("utf-8")


def _charts_of(block: Any) -> list[tuple[Chart, tuple[str, ...]]]:
    if isinstance(block, Charts):
        return [(chart, SMALL) for chart in block.items]
    return [(block, BOTH)] if isinstance(block, Chart) else []


@cache
def _templates() -> Environment:
    templates = Environment(
        loader=PackageLoader("evenhand.tasks.pages", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {
        "inline": inline,
        "breakable": formats.breakable,
        "link": formats.relative_link,
        "cells": cells,
        "identity": id,
        "kind": lambda block: type(block).__name__,
    }
    style = resources.files("evenhand.tasks.pages").joinpath("templates", "style.css").read_text()
    templates.globals |= {"numeric": numeric_columns, "palette": LIGHT, "dark": DARK, "style": Markup(style)}
    return templates


def inline(text: str) -> Markup:
    """Mark ``**bold**`` and ```code``` up; all else is plain text."""
    parts, last = [], 0
    for mark in MARKS.finditer(text):
        bold, code = mark.groups()
        parts.append(escape(text[last : mark.start()]))
        parts.append(
            Markup("<strong>{}</strong>").format(bold) if bold else Markup("<code>{}</code>").format(code)
        )
        last = mark.end()
    return Markup("").join([*parts, escape(text[last:])])


def cells(row: list[Value]) -> list[Cell]:
    """All values of a row as cells."""
    return [value if isinstance(value, Cell) else Cell(shown(value)) for value in row]


def shown(value: str | int | float | bool | None) -> str:
    """Write one value of a table."""
    if value is None:
        return formats.MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return formats.count(value)
    return formats.number(value) if isinstance(value, float) else value


def numeric_columns(table: Table) -> list[bool]:
    """Whether each column holds numbers, which are aligned on the right; the first heads its row."""
    found = [False] * len(table.columns)
    for place in range(1, len(table.columns)):
        column = [cells(list(row))[place] for row in table.rows if len(row) > place and not _spans(row)]
        known = [cell for cell in column if cell.kind != "lack" and cell.text != formats.MISSING]
        found[place] = not table.pairs and bool(known) and all(NUMERIC.match(cell.text) for cell in known)
    return found


def _spans(row: Any) -> bool:
    return any(isinstance(cell, Cell) and cell.span > 1 for cell in row)
