"""How a person names a model: by a version of the registry, or by a folder that holds its bundle."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from evenhand.tasks.errors import InputError
from evenhand.tasks.registry import Published, published, published_version

__all__ = ["ModelAddress", "find_version", "parse_address"]

NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}"
ADDRESS = re.compile(rf"(?:models:/)?(?P<name>{NAME})(?:@(?P<alias>[\w-]+)|/(?P<version>\d+))?")


@dataclass(frozen=True)
class ModelAddress:
    """
    A model as it was named.

    Of a model of the registry `name` and one of `alias` and `version` are given; of a folder only `folder`.
    """

    text: str
    name: str = ""
    alias: str | None = None
    version: str | None = None
    folder: Path | None = None

    @property
    def run_name(self) -> str:
        """Name of the model for a run's id, as far as its address says."""
        name = self.name or (self.folder.resolve().name if self.folder else "")
        return re.sub(r"[^A-Za-z0-9._-]", "-", name).strip("-.") or "model"


def parse_address(text: str, *, default_alias: str = "champion") -> ModelAddress:
    """
    Read ``NAME``, ``NAME@ALIAS``, ``NAME/VERSION``, each also behind ``models:/``, or an existing folder.

    Raises
    ------
    InputError
        It is none of these.
    """
    place = Path(text).expanduser()
    if place.is_dir():
        return ModelAddress(text, folder=place)
    found = ADDRESS.fullmatch(text)
    if found is None:
        raise InputError(
            f"there is no model {text!r}: give models:/NAME@ALIAS, models:/NAME/VERSION, a name, or the "
            "folder of a published bundle."
        )
    version = found["version"]
    alias = None if version else found["alias"] or default_alias
    return ModelAddress(text, found["name"], alias, version)


def find_version(registry: str, address: ModelAddress) -> Published:
    """
    Look a model of the registry up.

    Raises
    ------
    InputError
        No such model, version or alias.
    NotCarriedOut
        The registry does not answer.
    """
    if address.version is not None:
        found = published_version(registry, address.name, address.version)
        lacking = f"version {address.version}"
    else:
        assert address.alias is not None
        found = published(registry, address.name, address.alias)
        lacking = f"a version with the alias {address.alias!r}"
    if found is None:
        raise InputError(
            f"the model {address.name!r} is not published in this store ({lacking} is not there): "
            "`evenhand run JOB` publishes one."
        )
    return found
