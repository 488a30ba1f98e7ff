"""The models of a registry of many: pages, and a search by name."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import Any

import pytest

from evenhand.flows.app import models_views
from evenhand.flows.app.models_views import MODELS_OF_A_PAGE, ModelsScreen, models_screen
from evenhand.tasks.registry.ledger import CHAIN

COUNT = 2 * MODELS_OF_A_PAGE + 30


class Pages(list[Any]):
    """What a registry answers, with the token of its next page."""

    token: str | None = None


class Registry:
    """Gives the models of a large registry, and their chains, a few at a time."""

    def __init__(self) -> None:
        names = [f"model-{number:04d}" for number in range(COUNT)]
        names += [f"{CHAIN}{name}" for name in names]
        self.models = [
            SimpleNamespace(name=name, aliases={"champion": 1}, last_updated_timestamp=1)
            for name in names
        ]

    def search_registered_models(self, max_results: int, page_token: str | None) -> Pages:
        first = int(page_token or 0)
        # fewer than were asked for, as a server may give
        page = Pages(self.models[first : first + max_results // 10])
        if first + len(page) < len(self.models):
            page.token = str(first + len(page))
        return page


@pytest.fixture(autouse=True)
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = Registry()
    monkeypatch.setattr(models_views, "registry_client", lambda _: contextlib.nullcontext(registry))


def names(shown: ModelsScreen) -> list[str]:
    return [row[0].text for section in shown.screen.sections for row in section.blocks[0].rows]


def test_pages_show_every_model_once() -> None:
    listed: list[str] = []
    for page in (1, 2, 3):
        listed += names(models_screen("registry", "", page))
    assert listed == [f"model-{number:04d}" for number in range(COUNT)]
    middle = models_screen("registry", "", 2)
    assert middle.pages == [("/?page=1", "Models before these"), ("/?page=3", "More models")]
    assert middle.screen.lead[1] == "Page 2 of 3: model-0100 to model-0199."


@pytest.mark.parametrize(("page", "shown"), [(-1, 1), (0, 1), (99, 3)])
def test_a_page_that_there_is_not_is_the_nearest(page: int, shown: int) -> None:
    assert names(models_screen("registry", "", page)) == names(models_screen("registry", "", shown))


def test_a_search_keeps_its_words_over_pages() -> None:
    found = models_screen("registry", "  MODEL 01 ", 1)
    expected = [f"model-{number:04d}" for number in range(COUNT) if "01" in f"{number:04d}"]
    assert names(found) == expected[:MODELS_OF_A_PAGE]
    assert found.find == "MODEL 01"
    assert found.pages == [("/?find=MODEL+01&page=2", "More models")]
    nothing = models_screen("registry", "<b>", 1)
    assert names(nothing) == []
    assert nothing.screen.lead == [f"None of {COUNT} models has “<b>” in its name."]
