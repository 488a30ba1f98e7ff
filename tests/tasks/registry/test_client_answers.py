"""Answers of a registry in a SQLite file are kept while the file is unchanged, and no longer."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evenhand.tasks.registry.client import ask_once


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "mlflow.db"
    with sqlite3.connect(path) as opened:
        opened.execute("create table versions (number integer)")
    opened.close()
    return path


@pytest.fixture
def ask(database: Path) -> Callable[..., tuple[Any, int]]:
    """The answer to a question, and how often the registry was asked for it."""

    def asked(
        answer: Any, question: str = "alias", uri: str = f"sqlite:///{database}"
    ) -> tuple[Any, int]:
        calls: list[None] = []

        def registry() -> Any:
            calls.append(None)
            return answer

        return ask_once(uri, question, registry), len(calls)

    return asked


def change(database: Path) -> None:
    with sqlite3.connect(database) as opened:
        opened.execute("insert into versions values (1)")
    opened.close()


def test_the_registry_is_asked_once_until_it_changes(
    database: Path, ask: Callable[..., Any]
) -> None:
    assert ask({"version": "1"}) == ({"version": "1"}, 1)
    assert ask({"version": "2"}) == ({"version": "1"}, 0)
    assert ask("other", "card") == ("other", 1)
    change(database)
    assert ask({"version": "2"}) == ({"version": "2"}, 1)
    # the answers about the earlier state are gone
    assert ask("new", "card") == ("new", 1)


def test_an_absent_version_is_asked_for_again(ask: Callable[..., Any]) -> None:
    assert ask(None) == (None, 1)
    assert ask({"version": "1"}) == ({"version": "1"}, 1)


def test_another_file_at_the_same_place_has_other_answers(
    database: Path, ask: Callable[..., Any]
) -> None:
    ask("first")
    copy = database.with_name("copy")
    shutil.copy2(database, copy)
    copy.replace(database)
    assert ask("second") == ("second", 1)


def test_what_changes_while_the_registry_is_asked_is_not_kept(database: Path) -> None:
    def registry() -> str:
        change(database)
        return "before"

    uri = f"sqlite:///{database}"
    assert ask_once(uri, "alias", registry) == "before"
    assert ask_once(uri, "alias", lambda: "after") == "after"


@pytest.mark.parametrize(
    "uri", ["https://registry.example", "postgresql://registry/x", "sqlite:////no/such/file"]
)
def test_a_registry_without_a_file_is_always_asked(uri: str, ask: Callable[..., Any]) -> None:
    assert [ask(number, uri=uri) for number in (1, 2)] == [(1, 1), (2, 1)]


def test_a_database_that_writes_ahead_is_always_asked(
    database: Path, ask: Callable[..., Any]
) -> None:
    opened = sqlite3.connect(database)
    opened.execute("pragma journal_mode = wal")
    opened.close()
    assert [ask(number) for number in (1, 2)] == [(1, 1), (2, 1)]


def test_a_change_under_way_is_waited_for(database: Path, ask: Callable[..., Any]) -> None:
    ask("kept")
    journal = Path(f"{database}-journal")
    journal.touch()
    assert ask("asked") == ("asked", 1)
    journal.unlink()
    assert ask("asked") == ("kept", 0)


@pytest.mark.parametrize("content", ["", "no json", "[]", '{"state": "x"}'])
def test_damaged_answers_are_made_anew(
    database: Path, ask: Callable[..., Any], content: str
) -> None:
    kept = Path(f"{database}.answers.json")
    kept.write_text(content)
    assert ask("answer") == ("answer", 1)
    assert json.loads(kept.read_text())["answers"] == {"alias": "answer"}
