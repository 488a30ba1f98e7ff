"""Pages as HTML documents that need nothing else: no script, no request, no font."""

from __future__ import annotations

import hashlib
import importlib
import json
import pkgutil
import re
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from importlib import resources
from types import ModuleType
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from evenhand.fairlib.escaping import plain_texts
from evenhand.fairlib.execution import available_cores
from evenhand.fairlib.plots.palette import DARK, LIGHT
from evenhand.tasks.execution.fingerprint import code_digest, library_versions
from evenhand.tasks.execution.store import Store
from evenhand.tasks.pages import formats, sections
from evenhand.tasks.pages.page_model import (
    Cell,
    Chart,
    Charts,
    Documents,
    Page,
    Section,
    Table,
    Value,
)
from evenhand.tasks.pages.value_names import with_names

# Widths in CSS pixels. The page's style sheet shows the wide or the narrow form; small charts have
# one form.
WIDTHS = {"wide": 680, "narrow": 330, "small": 330}
ROOT = re.compile(r"<svg [^>]*?width=\"([\d.]+)\" height=\"([\d.]+)\" viewBox=\"([^\"]+)\"[^>]*>")
ROLES = re.compile(r" (?:role|aria-[a-z]+)=\"[^\"]*\"")
MARKS = re.compile(r"\*\*(.+?)\*\*|`(.+?)`")
NUMERIC = re.compile(r"[+\u2212-]?[\d.]|below |no interval|–")


def write_page(kind: str, documents: Documents, store: Store | None = None) -> str:
    """Write a page as HTML.

    `kind` names a module of :mod:`tasks.pages.fronts`. `documents` are plain JSON by name: what the
    steps wrote, and ``run`` with facts about this run. `store` keeps the pictures of charts.
    """
    return render(build(kind, documents), store)


def build(kind: str, documents: Documents) -> Page:
    """Build a page from its documents: its front, and every section that has its documents.

    On a page whose front has ``FOLDS``, the sections of modules that do not name the kind in their
    ``FIRST`` are folded, below all that are not.
    """
    documents = with_names(documents)
    front = importlib.import_module(f"evenhand.tasks.pages.fronts.{kind}_front")
    page_sections: list[Section] = []
    if hasattr(front, "build"):
        page_sections += _sections([front], documents)
    for module in _modules(kind):
        of_module: Iterable[Section] = _sections([module], documents)
        if getattr(front, "FOLDS", False) and kind not in getattr(module, "FIRST", ()):
            of_module = [replace(section, folded=True) for section in of_module]
        page_sections += of_module
    return Page(front.front(documents), page_sections)


def _sections(modules: list[ModuleType], documents: Documents) -> Iterator[Section]:
    for module in modules:
        if not _has_documents(module, documents):
            continue
        content: Any = module.build(documents)
        if isinstance(content, Section):
            content = [content]
        for section in content or ():
            if section.blocks:
                yield section


def _has_documents(module: ModuleType, documents: Documents) -> bool:
    """Whether all documents that a module needs are there, and one of those that it has content
    about.
    """
    if any(documents.get(name) is None for name in module.NEEDS):
        return False
    alternatives: tuple[str, ...] = getattr(module, "NEEDS_ONE_OF", ())
    is_there = [documents.get(name) is not None for name in alternatives]
    return any(is_there) or not alternatives


@cache
def _modules(kind: str) -> list[ModuleType]:
    """Modules of :mod:`tasks.pages.sections` that this kind of page has, in order.

    Each has ``PAGES`` (kind of page to place in its order), ``NEEDS`` (documents without which it
    does not apply) and ``build(documents)``, which gives a section, several, or None; one without
    blocks is left out. ``NEEDS_ONE_OF`` may name documents of which one suffices, and ``FIRST`` the
    kinds of pages on which its sections are not folded.
    """
    names = [item.name for item in pkgutil.iter_modules(sections.__path__)]
    modules = [importlib.import_module(f"evenhand.tasks.pages.sections.{name}") for name in names]
    of_kind = [module for module in modules if kind in module.PAGES]
    return sorted(of_kind, key=lambda module: module.PAGES[kind])


def render(page: Page, store: Store | None = None) -> str:
    """Write a page as a whole HTML document; the same page gives the same text.

    `store` keeps the pictures of charts, so that a chart is drawn once; without it every chart is
    drawn.
    """
    charts = []
    for section in page.sections:
        for block in section.blocks:
            if isinstance(block, Charts):
                charts += [(chart, "small") for chart in block.items]
            elif isinstance(block, Chart):
                charts += [(block, "wide"), (block, "narrow")]
    figures = _draw(charts, store)
    return formats.printable(
        _templates().get_template("page.html.j2").render(page=page, figures=figures)
    )


@cache
def _templates() -> Environment:
    return template_environment("evenhand.tasks.pages")


def template_environment(*packages: str) -> Environment:
    """Return an environment for the templates of some packages, for the macros of `page.html.j2`
    too.

    Each package has a folder `templates`; of two templates with one name, that of the first counts.
    """
    templates = Environment(
        loader=ChoiceLoader([PackageLoader(package, "templates") for package in packages]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {
        "inline": inline,
        "breakable": formats.breakable,
        "link": formats.relative_link,
        "moment": formats.moment,
        "cells": cells,
        "identity": id,
        "kind": lambda block: type(block).__name__,
    }
    style = resources.files("evenhand.tasks.pages").joinpath("templates", "style.css").read_text()
    templates.globals |= {
        "numeric": numeric_columns,
        "palette": LIGHT,
        "dark": DARK,
        "style": Markup(style),
    }
    return templates


def inline(text: str) -> Markup:
    """Mark ``**bold**`` and ```code``` up; all else is plain text."""
    parts = []
    last = 0
    for mark in MARKS.finditer(text):
        bold, code = mark.groups()
        parts.append(escape(text[last : mark.start()]))
        marked = Markup("<strong>{}</strong>" if bold else "<code>{}</code>")
        parts.append(marked.format(bold or code))
        last = mark.end()
    return Markup("").join([*parts, escape(text[last:])])


def cells(row: Sequence[Value]) -> list[Cell]:
    """All values of a row as cells."""
    row_cells = []
    for value in row:
        if not isinstance(value, Cell):
            value = Cell(shown(value))
        row_cells.append(value)
    return row_cells


def shown(value: str | int | float | bool | None) -> str:
    """Write one value of a table."""
    if value is None:
        return formats.MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return formats.count(value)
    if isinstance(value, float):
        return formats.number(value)
    return value


def numeric_columns(table: Table) -> list[bool]:
    """Whether each column holds numbers, which are aligned on the right; the first heads its row.

    A row with more or fewer cells than there are columns is a ``ValueError``.
    """
    rows = [cells(row) for row in table.rows]
    for row in rows:
        width = sum(cell.span for cell in row)
        if width != len(table.columns):
            raise ValueError(
                f"table {table.caption!r}: a row has {width} cells for {len(table.columns)} columns"
            )
    numeric = [False] * len(table.columns)
    if table.pairs:
        return numeric
    whole_rows = [row for row in rows if len(row) == len(table.columns)]
    for place in range(1, len(table.columns)):
        numeric[place] = _is_numeric([row[place] for row in whole_rows])
    return numeric


def _is_numeric(column: Sequence[Cell]) -> bool:
    """Whether a column has numbers, and nothing else but what says why one is missing."""
    texts = []
    for cell in column:
        if cell.time is not None:
            return False
        if cell.kind != "lack" and cell.text != formats.MISSING:
            texts.append(cell.text)
    return bool(texts) and all(NUMERIC.match(text) for text in texts)


def _draw(charts: Sequence[tuple[Chart, str]], store: Store | None) -> dict[int, Markup]:
    """Give each chart, by its ``id``, as an accessible inline image in each of its forms.

    The store keeps pictures below ``charts/`` by the digest of what they are drawn from; those that
    it does not have are drawn several at a time.
    """
    by_key = {_key(chart, form): (chart, form) for chart, form in charts}
    pictures: dict[str, str | None] = dict.fromkeys(by_key)
    if store is not None:
        pictures = {key: store.read_text("charts", f"{key}.svg") for key in by_key}
    missing = [key for key, text in pictures.items() if text is None]
    if missing:
        # imported here, before the threads: two threads must not import at once
        importlib.import_module("vl_convert")
        with ThreadPoolExecutor(available_cores()) as threads:
            drawn = threads.map(lambda key: _svg(*by_key[key]), missing)
            for key, text in zip(missing, drawn, strict=True):
                pictures[key] = text
                if store is not None:
                    store.write_text(text, "charts", f"{key}.svg")
    images: dict[int, Markup] = {}
    for place, (chart, form) in enumerate(charts):
        picture = str(pictures[_key(chart, form)])
        image = _accessible(picture, chart, form, f"figure-{place}")
        images[id(chart)] = images.get(id(chart), Markup("")) + image
    return images


@cache
def _code(module: str) -> str:
    """Digest of the code and libraries that draw the charts of a module."""
    versions = library_versions(("altair", "vl-convert-python"))
    return f"{code_digest([f'evenhand.fairlib.plots.{module}'])} {versions}"


def _key(chart: Chart, form: str) -> str:
    content = {"plot": chart.plot, "data": chart.data, "width": WIDTHS[form]}
    text = json.dumps(content, sort_keys=True, default=str) + _code(chart.plot.partition(".")[0])
    return hashlib.sha256(text.encode()).hexdigest()


def _svg(chart: Chart, form: str) -> str:
    import vl_convert

    module, _, name = chart.plot.partition(".")
    function = getattr(importlib.import_module(f"evenhand.fairlib.plots.{module}"), name)
    specification = function(**chart.data, width=WIDTHS[form]).to_dict()
    # a character that is none of XML ends the whole process
    svg: str = vl_convert.vegalite_to_svg(plain_texts(specification))
    return svg


def _accessible(svg: str, chart: Chart, form: str, uid: str) -> Markup:
    """The picture as an image with a title and a description; the hidden form is hidden from
    readers too.
    """
    root = ROOT.search(svg)
    if root is None:
        raise ValueError(f"the chart {chart.plot} is no SVG image")
    width, height, box = root.groups()
    # marks would be images of their own, some without a name; two images' definitions must not
    # share a name
    body = (
        ROLES.sub("", svg[root.end() :])
        .replace('id="', f'id="{uid}-')
        .replace("url(#", f"url(#{uid}-")
    )
    description = f"{escape(chart.description)} The tables of this page have every number."
    head = (
        f'<svg class="plot {form}" role="img" aria-labelledby="{uid}-t {uid}-d" viewBox="{box}" '
        f'width="{width}" height="{height}"><title id="{uid}-t">{escape(chart.title)}</title>'
        f'<desc id="{uid}-d">{description}</desc>'
    )
    return Markup(head + body)
