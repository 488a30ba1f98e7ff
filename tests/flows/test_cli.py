"""What every command has in common: its group in the help, `--json`, `--version`, old names of options."""

from __future__ import annotations

import json
from importlib import metadata

import pytest
import typer
from typer.testing import CliRunner

from evenhand.flows.cli import PANELS, app

GROUP = typer.main.get_command(app)
LEAVES = [
    (name, *rest)
    for name, command in GROUP.commands.items()  # type: ignore[attr-defined]
    for rest in ([(sub,) for sub in command.commands] if hasattr(command, "commands") else [()])
]


def flags(*words: str) -> set[str]:
    command = GROUP
    for word in words:
        command = command.commands[word]  # type: ignore[attr-defined]
    return {flag for parameter in command.params for flag in parameter.opts}


def test_the_help_lists_every_command_in_one_group() -> None:
    listed = [name for names in PANELS.values() for name in names]
    assert sorted(listed) == sorted(GROUP.commands)  # type: ignore[attr-defined]
    shown = CliRunner().invoke(app, ["--help"]).stdout
    places = [shown.index(f" {panel} ") for panel in PANELS]
    assert places == sorted(places)


@pytest.mark.parametrize("words", LEAVES, ids=" ".join)
def test_every_command_prints_json_if_asked(words: tuple[str, ...]) -> None:
    assert "--json" in flags(*words)


def test_version_is_that_of_the_package() -> None:
    shown = CliRunner().invoke(app, ["--version"])
    assert shown.exit_code == 0
    assert shown.stdout == f"evenhand {metadata.version('evenhand')}\n"


@pytest.mark.parametrize(
    ("command", "old", "new"),
    [
        ("promote", "--to", "--alias"),
        ("export", "--to", "--format"),
        ("init", "--into", "--output"),
    ],
)
def test_older_names_of_options_still_work(command: str, old: str, new: str) -> None:
    assert {old, new} <= flags(command)


@pytest.mark.parametrize("name", ["jobs", "datasets", "methods", "metrics"])
def test_lists_are_json_with_the_names_of_the_text(name: str) -> None:
    shown = CliRunner().invoke(app, [name, "--json"])
    entries = json.loads(shown.stdout)[name]
    text = CliRunner().invoke(app, [name]).stdout
    assert len(entries) > 3
    for entry in entries:
        assert entry["name"] in text
