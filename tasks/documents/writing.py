"""The documents of a version: templates filled from the registry, and gaps that a person's notes
fill.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
from collections.abc import Mapping
from functools import partial
from importlib import resources
from typing import Any

from jinja2 import ChainableUndefined, Environment, PackageLoader, UndefinedError
from markupsafe import Markup

from evenhand.data_contracts.favourable import favourable_in_words
from evenhand.data_contracts.suites import make_suite, rule_texts
from evenhand.fairlib.catalogue import title
from evenhand.fairlib.escaping import html_text, markdown_of_person, markdown_text
from evenhand.fairlib.methods.registry import METHODS
from evenhand.tasks.errors import InputError, input_errors, unusable, waits_for_service
from evenhand.tasks.pages import formats
from evenhand.tasks.pages.sections.metrics_section import glossary
from evenhand.tasks.pages.texts import summary_of
from evenhand.tasks.pages.value_names import label_name
from evenhand.tasks.registry.bundle import Bundle
from evenhand.tasks.registry.client import read_card, registry_client
from evenhand.tasks.registry.ledger import evaluations_of, read_chain
from evenhand.tasks.registry.policy import damage
from evenhand.tasks.registry.signatures import false_signatures
from evenhand.tasks.steps.publish_step import card_markdown
from evenhand.tasks.written_input import not_known

# Level, key and rest of a heading, and behind a bar what a person must write; values never hold a
# plain bar.
HEADING = re.compile(r"^(##+) (\S+)(.*?)(?: \| (.*))?\n", re.MULTILINE)


@waits_for_service
def read_facts(bundle: Bundle, registry: str) -> dict[str, Any]:
    """Read what the documents of a version say, by the names that the templates use.

    Raises `InputError` if its files or its model card are not what was published.
    """
    version = str(bundle.version)
    with registry_client(registry) as client:
        chain = read_chain(client, bundle.name)
        evaluations = evaluations_of(client, chain, version)
    fault = damage(registry, chain, version, required=False)
    if fault:
        raise InputError(f"{bundle.uri} cannot be documented: {fault}.")
    with unusable(f"the model card of {bundle.uri}"):
        card = read_card(registry, bundle.name, version) or {}
        values = {name: metric["value"] for name, metric in card["metrics"].items()}
        if values != next(
            (item["values"] for item in evaluations if item.get("kind") == "run"), values
        ):
            raise ValueError("its figures are not those of the record")
    reference, decision = (
        bundle.folder / name for name in ("reference.json", "model/decision.json")
    )
    return {
        "bundle": bundle,
        "version": version,
        "card": card,
        "reference": json.loads(reference.read_text()) if reference.is_file() else {},
        "rule": json.loads(decision.read_text())["rule"] if decision.is_file() else {},
        "chain": chain,
        "evaluations": evaluations,
        "faults": [*chain.faults, *false_signatures(chain)],
        "named": partial(label_name, bundle.value_names),
    }


def write_documents(
    facts: Mapping[str, Any], notes: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Return each document as Markdown, and of those with points what people must still write, by
    name.

    `notes` are texts by the key of a point. Raises `InputError` for a note of no point.
    """
    templates = Environment(
        loader=PackageLoader("evenhand.tasks.documents", "templates"),
        autoescape=True,
        undefined=ChainableUndefined,  # versions of other releases lack some facts
        finalize=_escape,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    template_functions = (
        favourable_in_words,
        formats,
        glossary,
        make_suite,
        rule_texts,
        summary_of,
        title,
    )
    templates.globals |= {item.__name__.rpartition(".")[2]: item for item in template_functions} | {
        "METHODS": METHODS
    }
    texts = {"model-card": card_markdown(facts["card"])}
    open_points = {}
    keys = []
    for name in ("data-sheet", "technical-file"):
        with input_errors(
            f"{facts['bundle'].uri} is of another release, publish it again: ", UndefinedError
        ):
            text = templates.get_template(f"{name}.md.j2").render(facts)
        text, open_points[name], gap_keys = _fill(text, notes)
        texts[name] = f"{text}\n\n## To be written by people\n\n{open_points[name]}\n"
        keys += gap_keys
    for key in notes:
        if key not in keys:
            raise not_known("the heading of a note", key, keys)
    return {name: formats.printable(text) for name, text in texts.items()}, open_points


def _fill(text: str, notes: Mapping[str, str]) -> tuple[str, str, list[str]]:
    """Put notes, or marks of what is lacking, below their headings.

    Returns the text, the list of gaps that are left, and the keys of all points.
    """
    head, *parts = HEADING.split(text)
    blocks = [head.strip()]
    keys = []
    gaps = []
    started = 0
    for level, first, heading_rest, gap, body in zip(*[iter(parts)] * 5, strict=True):
        key = first.strip(",").lower()
        filled_text = body.strip()
        blocks += filter(None, (f"{level} {first}{heading_rest}", filled_text))
        keys += [key] if gap or filled_text else []
        if key in notes:
            note = markdown_of_person(notes[key].strip())  # HTML in a note is shown, not obeyed
            blocks.append(f"*Written by a person:*\n\n{note}")
        elif gap:
            blocks.append(f"> **To be written** ({key}): {gap}")
            gaps.append(f"- {key}{heading_rest}: {gap}")
            started += bool(filled_text)
    filled = f"{len(keys) - len(gaps)} of {len(keys)} points are filled, {started} more in part."
    return "\n\n".join(blocks), "\n".join([filled, "", *gaps]).strip(), keys


def _escape(value: Any) -> Markup:
    """Write a value on one line, as plain text both in Markdown and in HTML."""
    if isinstance(value, Markup):
        return value
    return Markup(markdown_text(value))  # noqa: S704 (escaped)


def to_pdf(text: str) -> bytes:
    """Print Markdown as tagged PDF: nothing is fetched, and HTML is shown as text.

    Raises `InputError` with the cure if a library is missing.
    """
    try:
        from markdown_it import MarkdownIt
    except ImportError:
        raise _missing_printer() from None
    body = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image").render(text)
    style = (
        resources.files("evenhand.tasks.documents").joinpath("templates", "print.css").read_text()
    )
    name = html_text(text.partition("\n")[0].strip("# "))
    return html_to_pdf(f'<html lang="en"><title>{name}</title><style>{style}</style>{body}</html>')


def html_to_pdf(page: str) -> bytes:
    """Print a page as tagged PDF; nothing is fetched.

    Raises `InputError` with the cure if a library is missing.
    """
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # WeasyPrint's own advice
            from weasyprint import HTML
            from weasyprint.urls import URLFetcher
    except (ImportError, OSError):
        raise _missing_printer() from None
    printed = HTML(string=page, url_fetcher=URLFetcher(allowed_protocols=()))
    return bytes(printed.write_pdf(pdf_variant="pdf/ua-1"))


def _missing_printer() -> InputError:
    return InputError(
        "--pdf needs WeasyPrint and the system library Pango: pip install "
        "'evenhand[documents]', and apt install libpango-1.0-0 libpangoft2-1.0-0 or the like."
    )
