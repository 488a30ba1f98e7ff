"""Pages as HTML documents that need nothing else: no script, no request, no font."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from evenhand.fairlib.plots.palette import DARK, LIGHT
from evenhand.tasks.pages import formats
from evenhand.tasks.pages.figures import BOTH, SMALL, Figures
from evenhand.tasks.pages.model import Cell, Chart, Charts, Page, Table, Value
from evenhand.tasks.store import Store

__all__ = ["render"]

# Characters that an HTML reader refuses or shows as nothing.
UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufffe\uffff]")
MARKS = re.compile(r"\*\*(.+?)\*\*|`(.+?)`")
NUMERIC = re.compile(r"[+\u2212-]?[\d.]|below |no interval|–")


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
    templates.globals |= {"numeric": numeric_columns, "palette": LIGHT, "dark": DARK}
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
