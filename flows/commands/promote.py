"""``evenhand promote`` and ``evenhand history``: move an alias, and print the record of all moves."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

from evenhand.flows.commands.terminal import print_table
from evenhand.flows.job import check_alias
from evenhand.flows.runtime import prepare_environment
from evenhand.tasks import registry as model_registry
from evenhand.tasks.bundle import ModelAddress, find_version, parse_address
from evenhand.tasks.errors import InputError, NotCarriedOut
from evenhand.tasks.registry import AliasChange, History, alias_history, tracking_uri
from evenhand.tasks.store import Store

INTERRUPTED = "interrupted: `evenhand history` tells whether the alias was moved."


def promote(model: str, alias: str, as_json: bool, store_url: str | None) -> None:
    """Give a version an alias if its recorded evaluation passed, and print the change."""
    try:
        check_alias(alias)
    except ValueError as error:
        raise InputError(f"--to {alias}: {error}.") from None
    try:
        address, registry = _address(model, store_url)
        version = find_version(registry, address).version
        change = model_registry.promote(registry, address.name, version, alias)
    except KeyboardInterrupt:
        raise NotCarriedOut(INTERRUPTED) from None
    if as_json:
        print(json.dumps({"name": address.name, "version": version, "change": change and asdict(change)}))
    elif change is None:
        print(f"{address.name} version {version} is {alias} already: nothing was changed.")
    else:
        before = f", in place of version {change.from_version}" if change.from_version else ""
        print(f"{address.name} version {version} is now {alias}{before}.")
        print(f"record {change.number}: {change.when}, {change.who}, {describe_evaluation(change)}")


def history(model: str, as_json: bool, store_url: str | None) -> int:
    """Print every recorded move of a model's aliases; the exit code is 1 if the record has faults."""
    address, registry = _address(model, store_url)
    found = alias_history(registry, address.name)
    if as_json:
        changes = [{**asdict(change), "digest": change.digest} for change in found.changes]
        print(json.dumps({**asdict(found), "changes": changes}))
    else:
        _print(found)
    return 1 if found.faults else 0


def describe_evaluation(change: AliasChange) -> str:
    """Describe the evaluation that allowed a change."""
    evaluation = change.evaluation
    kind = evaluation.get("run_id") or "the gates of its own run"
    verdict = str(evaluation.get("verdict", "not recorded")).replace("_", " ")
    data = str(evaluation.get("data_fingerprint") or "")[:12]
    on = f" on data {data}" if data else ""
    return f"{verdict} by {kind}{on}"


def _address(model: str, store_url: str | None) -> tuple[ModelAddress, str]:
    address = parse_address(model)
    if address.folder is not None:
        raise InputError(f"{model} is a folder, and only versions of the registry have aliases.")
    prepare_environment(store_url)
    return address, tracking_uri(Store(store_url))


def _print(history: History) -> None:
    rows = [("no", "when", "alias", "from", "to", "who", "why", "evaluation")]
    for change in history.changes:
        rows.append(
            (
                str(change.number),
                change.when,
                change.alias,
                change.from_version or "-",
                change.to_version,
                change.who,
                change.reason,
                describe_evaluation(change),
            )
        )
    print_table(rows)
    now = ", ".join(f"{alias} is version {version}" for alias, version in sorted(history.aliases.items()))
    print(f"\n{history.name}: {now or 'no alias is set'}")
    for fault in history.faults:
        print(f"evenhand: {fault}", file=sys.stderr)
