"""Commands about aliases and their evidence: promote, approve, sign, history, verify and policy."""

from __future__ import annotations

import hashlib
import json
import secrets
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from evenhand.fairlib.file_digests import BYTECODE
from evenhand.flows.commands.terminal import print_table
from evenhand.flows.job import check_alias
from evenhand.flows.runtime import prepare_environment
from evenhand.tasks.credentials import redacted
from evenhand.tasks.errors import InputError, NotCarriedOut, waits_for_service
from evenhand.tasks.escaping import terminal_text
from evenhand.tasks.execution.store import Store
from evenhand.tasks.registry import ledger as audit
from evenhand.tasks.registry import policy, signatures
from evenhand.tasks.registry.bundle import ModelAddress, find_version, parse_address
from evenhand.tasks.registry.client import (
    SQLITE,
    damaged_files,
    place_of,
    registry_client,
    tracking_uri,
)
from evenhand.tasks.registry.ledger import Chain, Record
from evenhand.tasks.registry.policy_terms import (
    SETTINGS,
    judged_columns,
    judged_copies,
    names_intersections,
    older_policy,
    terms_of,
)
from evenhand.tasks.written_input import refuse_credentials

if TYPE_CHECKING:
    from evenhand.data_contracts.model import Contract
    from evenhand.fairlib.evaluation.gates import Gate

NOTHING_PINNED = (
    "the columns of whatever contract a version has: none is published yet; `--contract FILE` pins "
    "them now, and `evenhand policy set` after the first run those of its version"
)
INTERRUPTED = "interrupted: `evenhand history` shows whether the alias was moved."


def promote(model: str, alias: str, as_json: bool, store_url: str | None) -> None:
    """Give a version an alias if its recorded evaluations allow it, and print the change."""
    try:
        check_alias(alias)
    except ValueError as error:
        raise InputError(f"--alias {alias}: {error}.") from None
    try:
        registry, name, version = _version(model, store_url)
        in_force = audit.current_policy(registry, name)
        if in_force is not None and alias != policy.WAITING and terms_of(in_force).older:
            print(f"evenhand: {older_policy(name, terms_of(in_force))}", file=sys.stderr)
        change = policy.promote(registry, name, version, alias)
    except KeyboardInterrupt:
        raise NotCarriedOut(INTERRUPTED) from None
    if as_json:
        print(json.dumps({"name": name, "version": version, "change": change and _row(change)}))
    elif change is None:
        print(f"{name} version {version} is {alias} already: nothing was changed.")
    else:
        message = f"{name} version {version} is now {alias}"
        from_version = change.content["from_version"]
        if from_version:
            message += f", in place of version {from_version}"
        print(f"{message}.")
        print(f"record {change.number}: {change.when}, {change.who}, {_describe(change)}")


def approve(model: str, store_url: str | None, as_json: bool = False) -> None:
    """Record that the acting person approves a version."""
    registry, name, version = _version(model, store_url)
    made = policy.approve(registry, name, version)
    if as_json:
        print(json.dumps(redacted({"name": name, "record": _row(made)})))
        return
    print(f"record {made.number}: {made.who} approves {name} version {version}")


def sign(model: str, key: Path, store_url: str | None, as_json: bool = False) -> None:
    """Record a signature of a version's files."""
    registry, name, version = _version(model, store_url)
    made = policy.sign(registry, name, version, key)
    if as_json:
        print(json.dumps(redacted({"name": name, "record": _row(made)})))
        return
    print(f"record {made.number}: {made.who} signs {name} version {version}, {_describe(made)}")


def history(model: str, as_json: bool, anchor: Path | None, store_url: str | None) -> int:
    """Print every record of a model's chain; the exit code is 1 if it has faults."""
    address, registry = _address(model, store_url, reading=True)
    chain = audit.history(registry, address.name)
    if anchor is not None:
        if chain.faults:
            raise InputError(f"nothing was written to {anchor}: {chain.faults[0]}.")
        try:
            anchor.write_text(json.dumps(audit.anchor_of(chain), indent=1) + "\n")
        except OSError as error:
            raise InputError(f"--anchor {anchor} cannot be written ({error.strerror}).") from None
    if as_json:
        records = [_row(record) for record in chain.records]
        document = {"name": chain.name, "aliases": chain.aliases, "faults": chain.faults}
        moves = [row for row in records if row["kind"] == "move"]
        print(json.dumps(redacted({**document, "changes": moves, "records": records})))
    else:
        _print(chain)
    return int(bool(chain.faults))


@dataclass
class _CheckedVersions:
    """Result of comparing the files of a model's versions with their recorded lists."""

    checked: int = 0  # number of versions with a list
    without_list: list[str] = field(default_factory=list)
    with_bytecode: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


@waits_for_service
def verify(
    model: str,
    as_json: bool,
    anchor: Path | None,
    signed_by: list[Path] | None,
    store_url: str | None,
) -> int:
    """Check a model's chain, its beginning against an anchor, signatures, and the bytes of every
    version.
    """
    keys = signatures.read_public_keys(signed_by or ())
    address, registry = _address(model, store_url, reading=True)
    chain = audit.history(registry, address.name)
    faults = list(chain.faults)
    if anchor is not None:
        faults += audit.check_anchor(chain, _read_anchor(anchor))
    faults += signatures.false_signatures(chain)
    if chain.policy:
        keys += chain.policy.content.get("signed_by", ())
    for alias, number in sorted(chain.aliases.items()):
        if alias == policy.WAITING:
            continue
        objection = signatures.unsigned(chain, number, keys)
        if objection:
            faults.append(f"{alias} is version {number}, and {objection}")
    versions = _check_versions(registry, chain)
    faults += versions.faults
    if as_json:
        document = {
            "name": chain.name,
            "records": len(chain.records),
            "versions": versions.checked,
            "without_list": versions.without_list,
            "bytecode": versions.with_bytecode,
            "faults": faults,
        }
        print(json.dumps(document))
    else:
        _print_verification(chain, versions, faults)
    return int(bool(faults))


def _check_versions(registry: str, chain: Chain) -> _CheckedVersions:
    """Compare the files of every version with the list in its record."""
    result = _CheckedVersions()
    with registry_client(registry) as client:
        versions = client.search_model_versions(f"name = '{chain.name}'", max_results=10_000)
        numbers = {str(item.version) for item in versions}
    # the first record of a version: a later one may be of someone who changed its files
    recorded = {}
    for record in reversed(chain.of("version")):
        recorded[record.content["version"]] = record.content["files"]
    for number in sorted({*numbers, *recorded}, key=int):
        if number not in numbers:
            result.faults.append(f"version {number} was deleted")
            continue
        changed = damaged_files(registry, chain.name, number, recorded.get(number))
        place = place_of(registry, chain.name, number)
        if place is not None and any(place.rglob(BYTECODE)):
            result.with_bytecode.append(number)
        if changed is None:
            result.without_list.append(number)
        else:
            result.checked += 1
            result.faults += [f"version {number}: {fault}" for fault in changed]
    return result


def _print_verification(chain: Chain, versions: _CheckedVersions, faults: Sequence[str]) -> None:
    print(f"{chain.name}: {len(chain.records)} records, the files of {versions.checked} versions")
    if versions.without_list:
        print(f"without a list of files, by an older version: {', '.join(versions.without_list)}")
    if versions.with_bytecode:
        print(
            f"with bytecode that no list covers (delete the folders {BYTECODE}): "
            f"{', '.join(versions.with_bytecode)}"
        )
    for fault in faults:
        print(terminal_text(f"evenhand: {fault}"), file=sys.stderr)
    if faults:
        print("faults were found")
    else:
        print("nothing was changed")


def _read_anchor(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise InputError(f"--anchor {path} cannot be read ({type(error).__name__}).") from None
    if not isinstance(content, dict):
        raise InputError(
            f"--anchor {path} holds no anchor: `evenhand history --anchor FILE` writes one."
        )
    return content


@waits_for_service
def set_policy(
    model: str,
    gates: str,
    holdout: str | None,
    overrides: Sequence[str] | None,
    contract: str | None,
    signed_by: Sequence[Path] | None,
    store_url: str | None,
    as_json: bool = False,
    **rules: Any,
) -> None:
    """Check a policy, read its holdout, pin how it measures, add it to the model's chain, and print
    that.

    `rules` are the options named like keys of the policy. Raises `InputError` for a metric that
    does not exist, or a gate that no value satisfies.
    """
    from evenhand.tasks.evaluating.limits import read_limits

    address, registry = _address(model, store_url)
    chosen, limits = read_limits(gates, baseline=False)
    for name in ("required", "promoters"):
        rules[name] = list(rules[name] or ())
    _check_metrics(rules["required"], limits)
    rules |= {
        "gates": chosen,
        "signed_by": signatures.read_public_keys(signed_by or ()),
        "holdout": None,
    }
    rules["measure"] = _measure(rules, overrides or (), holdout)
    pinned = _judged(Store(store_url), registry, address.name, contract, list(chosen or {}))
    rules |= {"judged": pinned.judged, "copies": pinned.copies}
    if holdout is not None:
        of_table = [override for override in overrides or () if override.startswith("table.")]
        rules["holdout"] = _holdout(Store(store_url), holdout, of_table)
    # keys that verify signatures are public
    without_keys = {key: value for key, value in rules.items() if key != "signed_by"}
    refuse_credentials(without_keys, "the policy")
    with registry_client(registry) as client:
        made = audit.append(client, address.name, "policy", rules)
    if as_json:
        print(json.dumps(redacted({"name": address.name, "record": _row(made)})))
        return
    print(f"record {made.number}: {made.who} sets the policy of {address.name}")
    print(f"measures  {terms_of(rules).described()}")
    print(f"judges    {pinned.source}")


def _check_metrics(required: Sequence[str], limits: Sequence[Gate]) -> None:
    """Raise `InputError` for a name that is no metric, or a gate that cannot be satisfied."""
    for metric in (*required, *[gate.metric for gate in limits]):
        _check_metric(metric)
    for gate in limits:
        _check_limit(gate)


def _check_metric(name: str) -> None:
    """Raise `InputError` for a name of a policy that is no metric."""
    from evenhand.fairlib.catalogue import describe, names_of
    from evenhand.tasks.written_input import nearest

    try:
        describe(name)
    except KeyError:
        similar = nearest(name, names_of("classifier"))
        raise InputError(f"the policy names {name!r}, which is no metric{similar}.") from None


def _check_limit(gate: Gate) -> None:
    """Raise `InputError` for a gate that no value of its metric satisfies."""
    from evenhand.fairlib.catalogue import describe

    low, high = describe(gate.metric)[0].domain
    if gate.min is not None and high is not None and gate.min > high:
        impossible = gate.min
    elif gate.max is not None and low is not None and gate.max < low:
        impossible = gate.max
    else:
        return
    raise InputError(
        f"the policy's gate {gate.metric!r} asks for {impossible:g}, and the metric lies from "
        f"{low} to {high}: no model can satisfy it."
    )


def _measure(
    rules: dict[str, Any], overrides: Sequence[str], holdout: str | None
) -> dict[str, Any]:
    """Return the settings that a policy pins: those that are given, else the defaults of an
    evaluation.
    """
    from evenhand.flows.data_source import parse_measurement

    settings = parse_measurement(overrides)
    of_table = next((override for override in overrides if override.startswith("table.")), None)
    if of_table is not None and holdout is None:
        raise InputError(
            f"--set {of_table.partition('=')[0]} is about the table of --holdout: give one."
        )
    needed = names_intersections(rules)
    if needed and settings.get("intersections") is False:
        raise InputError(
            "--set evaluate.intersections: the policy's gates name intersections: leave it out."
        )
    return {**SETTINGS, "intersections": needed, **settings}


class Judged(NamedTuple):
    """Columns and copies that a policy pins, and where they are from, in words."""

    judged: dict[str, Any] | None
    copies: dict[str, Any]
    source: str


def _judged(
    store: Store, registry: str, name: str, contract: str | None, metrics: list[str]
) -> Judged:
    """Return the columns that a policy pins: of the contract that is given, else of a published
    version.
    """
    from evenhand.data_contracts.errors import ContractError
    from evenhand.data_contracts.odcs import load_contract
    from evenhand.tasks.errors import input_errors
    from evenhand.tasks.registry.bundle import open_bundle

    chosen = None
    if contract is not None:
        with input_errors("--contract: ", ContractError):
            chosen = load_contract(contract)
    number = _version_to_pin(registry, name)
    if number is None:
        if chosen is None:
            return Judged(None, {}, NOTHING_PINNED)
        return Judged(judged_columns(chosen), {}, _source_of(chosen, "the file"))
    try:
        with store.workdir() as scratch:
            bundle = open_bundle(f"models:/{name}/{number}", store, scratch)
    except InputError as error:
        if chosen is None:
            raise InputError(
                f"no contract can be pinned, so give --contract FILE: {error}"
            ) from None
        return Judged(judged_columns(chosen), {}, _source_of(chosen, "the file"))
    copies = judged_copies(metrics, bundle.evaluation["evaluate"])
    if chosen is None:
        source = _source_of(bundle.contract, f"version {number}")
        return Judged(judged_columns(bundle.contract), copies, source)
    return Judged(judged_columns(chosen), copies, _source_of(chosen, "the file"))


def _source_of(contract: Contract, origin: str) -> str:
    columns = [contract.label.name, *sorted(column.name for column in contract.sensitive)]
    return f"{', '.join(columns)} by the contract {contract.name} {contract.version} of {origin}"


def _version_to_pin(registry: str, name: str) -> str | None:
    """Return the champion's number, else that of the newest version; None if nothing is
    published.
    """
    path = registry.removeprefix(SQLITE)
    if path != registry and not Path(path).is_file():
        return None  # a query would create the database
    with registry_client(registry) as client:
        champion = audit.read_chain(client, name).aliases.get("champion")
        versions = client.search_model_versions(f"name = '{name}'", max_results=10_000)
    if champion:
        return champion
    numbers = [int(item.version) for item in versions]
    if not numbers:
        return None
    return str(max(numbers))


def _holdout(store: Store, address: str, overrides: list[str]) -> dict[str, Any]:
    """Read the rows of a holdout, and return its address and their salted digest."""
    import pyarrow.parquet as pq

    from evenhand.flows.data_source import parse_data
    from evenhand.flows.engine import DirectEngine, Steps
    from evenhand.flows.run import ingest
    from evenhand.tasks.registry.row_digests import digest_of_rows

    # nobody can guess the salt before it is used
    data = parse_data(address, overrides)
    salt = secrets.token_hex(16)
    with store.lease():
        steps = Steps(store, DirectEngine(store))
        ingest(data.source, data.seed or 0, steps)
        table = pq.read_table(store.fetch(steps.output("ingest", "raw")))
    path = data.source["path"]
    if path is not None and "://" not in path:
        address = path  # an evaluation in another folder must find the same file
    return {
        "data": address,
        "overrides": overrides,
        "rows": table.num_rows,
        "salt": salt,
        "digest": digest_of_rows(table, salt),
    }


def show_policy(model: str, store_url: str | None, as_json: bool = False) -> None:
    """Print the policy of a model as JSON, on one line for programs."""
    address, registry = _address(model, store_url, reading=True)
    in_force = audit.current_policy(registry, address.name)
    if in_force is None:
        raise InputError(
            f"{address.name} has no policy: `evenhand policy set {address.name} --gates FILE`."
        )
    terms = terms_of(in_force)
    if terms.older:
        print(f"evenhand: {older_policy(address.name, terms)}", file=sys.stderr)
    # an older version of this program has stored addresses with tokens
    indent = None
    if not as_json:
        indent = 1
    print(json.dumps(redacted(in_force), indent=indent))


def _row(record: Record) -> dict[str, Any]:
    """A record as one mapping, its content next to its other fields."""
    fields = asdict(record)
    return {**fields.pop("content"), **fields}


def _describe(record: Record) -> str:
    """Describe a record's content in a few words."""
    content = record.content
    if record.kind == "version":
        return f"files {hashlib.sha256(content['files'].encode()).hexdigest()[:12]}"
    if record.kind == "policy":
        if not content.get("gates"):
            return "removed"
        return f"gates on {', '.join(content['gates'])}"
    if record.kind == "approval":
        return ""
    if record.kind == "signature":
        return f"with the key {content['key'][: signatures.SHOWN]}"
    if record.kind == "move":
        return _describe_evaluation(content["evaluation"])
    return _describe_evaluation(content)


def _describe_evaluation(evaluation: Mapping[str, Any]) -> str:
    origin = evaluation.get("run_id") or "the gates of its own run"
    verdict = str(evaluation.get("verdict", "not recorded")).replace("_", " ")
    text = f"{verdict} by {origin}"
    fingerprint = evaluation.get("data_fingerprint")
    if fingerprint:
        text += f" on data {str(fingerprint)[:12]}"
    return text


def _address(
    model: str, store_url: str | None, *, reading: bool = False
) -> tuple[ModelAddress, str]:
    address = parse_address(model)
    if address.folder is not None:
        raise InputError(f"{model} is a folder, and only versions of the registry have aliases.")
    prepare_environment(store_url)
    return address, tracking_uri(Store(store_url, reading=reading))


def _version(model: str, store_url: str | None) -> tuple[str, str, str]:
    """Registry, name and number of the version that a person names."""
    address, registry = _address(model, store_url)
    return registry, address.name, find_version(registry, address).version


def _print(chain: Chain) -> None:
    rows = [("no", "when", "what", "version", "who", "why")]
    for record in chain.records:
        content = record.content
        what = record.kind
        version = content.get("version", "")
        reason = _describe(record)
        if record.kind == "move":
            what = content["alias"]
            version = f"{content['from_version'] or '-'} to {content['to_version']}"
            reason = f"{content['reason']}, {reason}"
        rows.append((str(record.number), record.when, what, version, record.who, reason))
    print_table(rows)
    aliases = [f"{alias} is version {version}" for alias, version in sorted(chain.aliases.items())]
    print(f"\n{chain.name}: {', '.join(aliases) or 'no alias is set'}")
    for fault in chain.faults:
        print(terminal_text(f"evenhand: {fault}"), file=sys.stderr)
