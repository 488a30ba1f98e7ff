"""Addresses of models: what is read as a folder, and what is of the registry."""

from __future__ import annotations

from pathlib import Path

import pytest

from evenhand.tasks.errors import InputError
from evenhand.tasks.registry.bundle import parse_address
from evenhand.tasks.registry.client import named


def test_an_address_of_the_registry_is_never_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever may write in the working folder could put another model in the place of one."""
    monkeypatch.chdir(tmp_path)
    for name in ("people@champion", "people/2", "people"):
        (tmp_path / "models:" / name).mkdir(parents=True, exist_ok=True)
        address = parse_address(f"models:/{name}")
        assert (address.folder, address.name) == (None, "people")
    (tmp_path / "people").mkdir()
    assert parse_address("people").folder == Path("people")


@pytest.mark.parametrize(
    "text",
    ["x" * 5000, "~nobody-of-this-name/model", "people\0", "a" * 300, "people/\uff12"]
    + [f"people/{'9' * digits}" for digits in (19, 5000)],
)
def test_a_text_that_can_be_no_path_or_version_names_no_model(text: str) -> None:
    with pytest.raises(InputError, match="there is no model"):
        parse_address(text)


@pytest.mark.parametrize("name", ["a' AND name = 'b", "a'", 'a"', "a\\", "a%", "a\n", "a`"])
def test_no_name_ends_a_filter(name: str) -> None:
    """Else a name would lead to the records of another model, or to an error of the registry."""
    with pytest.raises(InputError, match="is not in the registry"):
        named(name)
    assert named("people of Ulm") == "name = 'people of Ulm'"
