"""The first screen of the app: the models of a registry by pages, and a search of their names."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from evenhand.flows.app.registry_views import (
    CHAMPION,
    Screen,
    model_address,
    version_address,
    when_cell,
)
from evenhand.tasks.pages import formats
from evenhand.tasks.pages.page_model import Cell, Section, Table, Value
from evenhand.tasks.pages.texts import lack
from evenhand.tasks.registry.client import registry_client
from evenhand.tasks.registry.ledger import CHAIN
from evenhand.tasks.registry.policy import WAITING

MODELS_OF_A_PAGE = 100
ASKED_AT_ONCE = 1000
# With fewer models nobody needs to search.
SEARCHED_FROM = 12
LONGEST_SEARCH = 200


@dataclass(frozen=True)
class ModelsScreen:
    """One page of the models, and how to get to the others.

    - `find`: words that the names shown have; empty for all
    - `is_searched`: whether the screen offers to search
    - `pages`: addresses of the pages before and after, with their words
    """

    screen: Screen
    find: str = ""
    is_searched: bool = False
    pages: Sequence[tuple[str, str]] = ()


def models_screen(uri: str, find: str = "", page: int = 1) -> ModelsScreen:
    """The models of a registry whose names have some words, with the versions in use.

    A page that there is not is the last one, or the first.
    """
    registered = _registered(uri)
    models = [model for model in registered if not model.name.startswith(CHAIN)]
    models.sort(key=lambda model: model.name)
    if not models:
        return ModelsScreen(_nothing_published())
    # the records of a model are versions of its chain, so that each of them is a change of it
    changed = {model.name: model.last_updated_timestamp or 0 for model in registered}
    find = " ".join(find.split())[:LONGEST_SEARCH]
    words = find.lower().split()
    matching = [model for model in models if all(word in model.name.lower() for word in words)]
    last_page = max(1, -(-len(matching) // MODELS_OF_A_PAGE))
    page = min(max(1, page), last_page)
    first = (page - 1) * MODELS_OF_A_PAGE
    models_of_page = matching[first : first + MODELS_OF_A_PAGE]
    sections = []
    if models_of_page:
        rows = [_row(model, changed) for model in models_of_page]
        table = Table(
            "Models of this registry, and their versions in use",
            ["Model", "Champion", "Challenger", "Last change (UTC)"],
            rows,
        )
        title = "Models found" if find else "All models"
        sections.append(Section("models", title, [table]))
    lead = [_lead(len(matching), len(models), find)]
    if last_page > 1:
        lead.append(
            f"Page {page} of {last_page}: {models_of_page[0].name} to {models_of_page[-1].name}."
        )
    return ModelsScreen(
        Screen("Models", lead, sections),
        find=find,
        is_searched=len(models) >= SEARCHED_FROM or bool(find),
        pages=_neighbours(find, page, last_page),
    )


def _registered(uri: str) -> list[Any]:
    """All models of a registry and their chains."""
    models: list[Any] = []
    token: str | None = None
    with registry_client(uri) as client:
        while True:
            page = client.search_registered_models(max_results=ASKED_AT_ONCE, page_token=token)
            models += page
            token = page.token
            if not token:
                return models


def _nothing_published() -> Screen:
    text = (
        "No model is published yet. `evenhand run JOB`, or a run of a job here, publishes one that "
        "passes its gates."
    )
    return Screen("Models", [text], [])


def _lead(found: int, models: int, find: str) -> str:
    if find and not found:
        return f"None of {formats.plural(models, 'model')} has “{find}” in its name."
    counted = formats.plural(found, "model")
    if find:
        counted = f"{found:,} of {formats.plural(models, 'model')}, with “{find}” in the name"
    return f"{counted}. The champion is the version in use; a challenger waits for a decision."


def _neighbours(find: str, page: int, last_page: int) -> list[tuple[str, str]]:
    pages = []
    if page > 1:
        pages.append((_address(find, page - 1), "Models before these"))
    if page < last_page:
        pages.append((_address(find, page + 1), "More models"))
    return pages


def _address(find: str, page: int) -> str:
    query = {"find": find} if find else {}
    return f"/?{urlencode({**query, 'page': page})}"


def _row(model: Any, changed: Mapping[str, int]) -> list[Value]:
    aliases = {alias: str(version) for alias, version in dict(model.aliases).items()}
    row: list[Value] = [Cell(model.name, href=model_address(model.name))]
    for alias in (CHAMPION, WAITING):
        row.append(_version_cell(model.name, aliases.get(alias), f"no {alias}"))
    newest = max(changed[model.name], changed.get(f"{CHAIN}{model.name}", 0))
    row.append(_newest_change(newest))
    return row


def _version_cell(name: str, version: str | None, otherwise: str) -> Cell:
    if version is None:
        return lack(otherwise)
    return Cell(f"version {version}", href=version_address(name, version))


def _newest_change(timestamp: int) -> Value:
    if not timestamp:
        return None
    moment = datetime.datetime.fromtimestamp(timestamp / 1000, datetime.UTC)
    return when_cell(moment.isoformat(timespec="seconds"))
