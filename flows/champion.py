"""The version that was champion before a run: what it scored and what it was made from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evenhand.flows.resolved_job import ResolvedJob
from evenhand.tasks.errors import NotCarriedOut
from evenhand.tasks.registry import published, read_card, tracking_uri
from evenhand.tasks.store import Store

__all__ = ["champion_now"]

SQLITE = "sqlite:///"


def champion_now(resolved: ResolvedJob, store: Store) -> dict[str, Any] | None:
    """
    Look up the version that has the job's alias, for the report of a run that may take its place.

    Returns
    -------
    dict or None
        The keys of :class:`tasks.reporting.context.Champion`; without a card that can be read, only which
        version it is. None if no version has the alias, or the registry is out of reach: that is no fault of
        a run, unless it publishes, and then it says so itself.
    """
    name, alias = resolved.model_name, resolved.job.publish.alias
    uri = tracking_uri(store)
    if uri.startswith(SQLITE) and not Path(uri.removeprefix(SQLITE)).is_file():
        return None  # asking would create the database
    try:
        found = published(uri, name, alias)
    except NotCarriedOut:
        return None
    if found is None:
        return None
    champion = {"version": found.version, "uri": f"models:/{name}/{found.version}", "alias": alias}
    card = read_card(uri, name, found.version)
    return champion if card is None else champion | _told(card)


def _told(card: Mapping[str, Any]) -> dict[str, Any]:
    """What the card tells, as far as it can be read: other releases wrote other cards."""
    metrics, parameters, contract = (_mapping(card.get(key)) for key in ("metrics", "parameters", "contract"))
    return {
        "metrics": {
            name: {end: _number(_mapping(entry).get(end)) for end in ("value", "low", "high")}
            for name, entry in metrics.items()
        },
        "parameters": dict(parameters),
        "data_fingerprint": _text(card.get("data_fingerprint")),
        "method": _text(card.get("method")),
        "contract_version": _text(contract.get("version")),
        "seed": seed if isinstance(seed := card.get("seed"), int) else None,
    }


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
