"""``evenhand repair``: mend what killed commands left in a store and in its registry."""

from __future__ import annotations

import json
import sqlite3

from evenhand.flows.runtime import prepare_environment
from evenhand.tasks.errors import NotCarriedOut
from evenhand.tasks.execution.store import Store
from evenhand.tasks.registry.client import tracking_uri
from evenhand.tasks.registry.registry_file import prepare_registry_file, registry_state, sqlite_file


def repair(store_url: str | None, as_json: bool = False) -> None:
    """Mend a store: its registry's SQLite file, and what killed commands left; print what was done.

    Raises `NotCarriedOut` if the registry's file cannot be mended, or is of a newer MLflow.
    """
    prepare_environment(store_url)
    store = Store(store_url)
    done = {"registry": _mend_registry(tracking_uri(store))}
    leftovers = store.remove_leftovers()
    damaged = store.remove_damaged_records()
    if as_json:
        print(json.dumps({**done, "leftovers_removed": leftovers, "records_removed": damaged}))
        return
    print(f"registry   {done['registry']}")
    print(f"leftovers  {leftovers} folders and leases of killed commands removed")
    print(f"steps      {damaged} damaged records removed; their steps run again when needed")


def _mend_registry(uri: str) -> str:
    """Create, migrate or mend the registry's file; return what its state was and is."""
    path = sqlite_file(uri)
    if path is None:
        return "is a server or another database: its own tools repair it"
    try:
        before = registry_state(path)
        if before == "newer":
            raise NotCarriedOut(
                f"the model registry at {path} was written by a newer MLflow: install the "
                "evenhand that wrote it."
            )
        prepare_registry_file(uri, mend=before == "unfinished")
    except sqlite3.Error as error:
        raise NotCarriedOut(
            f"the model registry's file {path} is damaged ({type(error).__name__}): put a backup "
            "in its place."
        ) from None
    if before == "current":
        return "is whole"
    return f"was {before}, and is whole now"
