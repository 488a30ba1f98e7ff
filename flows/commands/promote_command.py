"""Commands about aliases and their evidence: promote, approve, refuse, sign, history, verify and
policy.
"""

from __future__ import annotations

import json
import secrets
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from evenhand.data_contracts.favourable import favourable_in_words
from evenhand.fairlib.file_digests import BYTECODE
from evenhand.flows.commands.terminal import print_note, print_table
from evenhand.flows.job import check_alias
from evenhand.flows.runtime import prepare_environment
from evenhand.tasks.credentials import redacted
from evenhand.tasks.errors import InputError, NotCarriedOut, waits_for_service
from evenhand.tasks.execution.store import Store
from evenhand.tasks.registry import ledger as audit
from evenhand.tasks.registry import policy, signatures
from evenhand.tasks.registry.bundle import ModelAddress, find_version, parse_address
from evenhand.tasks.registry.client import (
    DIGEST_TAG,
    FILES_TAG,
    SQLITE,
    damaged_files,
    fetch_files,
    named,
    place_of,
    registry_client,
    tracking_uri,
    without_kept_answers,
)
from evenhand.tasks.registry.ledger import Chain, Record
from evenhand.tasks.registry.policy_alternatives import alternative_in_words, alternative_rules
from evenhand.tasks.registry.policy_people import (
    ROLES,
    check_roles,
    false_records,
    shown,
    unsigned_moves,
)
from evenhand.tasks.registry.policy_terms import (
    OVERLAP_METHOD,
    SETTINGS,
    digest_of_judged,
    evaluating_version,
    favourable_outcome,
    is_older_than,
    judged_columns,
    judged_copies,
    names_intersections,
    older_policy,
    terms_of,
)
from evenhand.tasks.registry.policy_traces import (
    expecting_policy,
    faults_of_policy,
    refuse_without_policy,
)
from evenhand.tasks.registry.record_words import describe_record
from evenhand.tasks.registry.released_code import code_faults, released_lists
from evenhand.tasks.registry.signed_records import own_key, signing_with
from evenhand.tasks.written_input import nearest, refuse_credentials

if TYPE_CHECKING:
    from evenhand.data_contracts.model import Contract
    from evenhand.fairlib.evaluation.gates import Gate

NOTHING_PINNED = (
    "the columns of whatever contract a version has: none is published yet; `--contract FILE` pins "
    "them now, and `evenhand policy set` after the first run those of its version"
)
INTERRUPTED = "interrupted: `evenhand history` shows whether the alias was moved."


def promote(
    model: str,
    alias: str,
    as_json: bool,
    store_url: str | None,
    remeasured: bool = False,
    key: Path | None = None,
    policy_digest: str | None = None,
) -> None:
    """Give a version an alias if its recorded evaluations allow it, and print the change.

    With `remeasured` the version is first measured by its policy, and only that counts. With
    `policy_digest` nothing but that policy may be in force.
    """
    try:
        check_alias(alias)
    except ValueError as error:
        raise InputError(f"--alias {alias}: {error}.") from None
    try:
        with signing_with(key), expecting_policy(policy_digest):
            registry, name, version = _version(model, store_url)
            measured = None
            if remeasured:
                measured = _remeasure(registry, name, version, alias, store_url)
            elif alias != policy.WAITING:
                _say_older(name, audit.current_policy(registry, name))
            change = policy.promote(registry, name, version, alias, measured)
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
        print(f"record {change.number}: {change.when}, {change.who}, {describe_record(change)}")


def _say_older(name: str, rules: Mapping[str, Any] | None) -> None:
    """Print by which defaults a policy of an older version is read."""
    if rules is not None and terms_of(rules).older:
        print_note(f"evenhand: {older_policy(name, rules)}")


def _remeasure(registry: str, name: str, version: str, alias: str, store_url: str | None) -> str:
    """Measure a version by its policy in an empty store; return the digest of the record."""
    from evenhand.flows.remeasure import remeasure

    if alias == policy.WAITING:
        raise InputError(
            f"--remeasure: no policy decides about {alias}: leave it out, or give another --alias."
        )
    with without_kept_answers():
        rules = audit.current_policy(registry, name)
        refuse_without_policy(registry, name)
    _say_older(name, rules)
    verdict, record = remeasure(registry, name, version, rules, Store(store_url))
    outcome = str(record.content["verdict"]).replace("_", " ")
    print_note(f"measured again by {verdict.run_id}: {outcome}")
    return record.digest


def approve(
    model: str,
    store_url: str | None,
    as_json: bool = False,
    key: Path | None = None,
    policy_digest: str | None = None,
) -> None:
    """Record that the acting person approves a version."""
    with signing_with(key), expecting_policy(policy_digest):
        registry, name, version = _version(model, store_url)
        made = policy.approve(registry, name, version)
    if as_json:
        print(json.dumps(redacted({"name": name, "record": _row(made)})))
        return
    who = made.who
    if made.record_key:
        who = f"the key {made.record_key[: signatures.SHOWN]} ({who})"
    print(f"record {made.number}: {who} approves {name} version {version}")


def refuse(
    model: str,
    reason: str,
    store_url: str | None,
    as_json: bool = False,
    key: Path | None = None,
) -> None:
    """Record that the acting person refuses a version."""
    with signing_with(key):
        registry, name, version = _version(model, store_url)
        made = policy.refuse(registry, name, version, reason)
    aliases = _aliases_of(registry, name, version)
    if as_json:
        print(json.dumps(redacted({"name": name, "record": _row(made), "aliases": aliases})))
        return
    print(
        f"record {made.number}: {made.who} refuses {name} version {version}: "
        f"{made.content['reason']}"
    )
    for alias in aliases:
        print(
            f"it is still {alias}: a refusal keeps it from getting an alias and takes none away; "
            f"`evenhand promote {name}/VERSION --alias {alias}` replaces it"
        )


def _aliases_of(registry: str, name: str, version: str) -> list[str]:
    """Aliases that a version has at present."""
    aliases = audit.history(registry, name).aliases
    return sorted(alias for alias, holder in aliases.items() if holder == version)


def sign(model: str, key: Path, store_url: str | None, as_json: bool = False) -> None:
    """Record a signature of a version's files."""
    registry, name, version = _version(model, store_url)
    made = policy.sign(registry, name, version, key)
    if as_json:
        print(json.dumps(redacted({"name": name, "record": _row(made)})))
        return
    print(
        f"record {made.number}: {made.who} signs {name} version {version}, {describe_record(made)}"
    )


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
    of_release: list[str] = field(default_factory=list)  # code compared with that of a release
    tags: dict[str, dict[str, str]] = field(default_factory=dict)  # of each version, by number
    faults: list[str] = field(default_factory=list)


@waits_for_service
def verify(
    model: str,
    as_json: bool,
    anchor: Path | None,
    signed_by: list[Path] | None,
    store_url: str | None,
    code: Sequence[Path] | None = None,
) -> int:
    """Check a model's chain, its beginning against an anchor, signatures, the bytes of every
    version, and its code against that of the release.
    """
    released = released_lists(code or ())
    keys = signatures.read_public_keys(signed_by or ())
    address, registry = _address(model, store_url, reading=True)
    chain = audit.history(registry, address.name)
    faults = list(chain.faults)
    if anchor is not None:
        faults += audit.check_anchor(chain, _read_anchor(anchor))
    faults += signatures.false_signatures(chain)
    faults += [*false_records(chain), *unsigned_moves(chain)]
    if chain.policy:
        keys += chain.policy.content.get("signed_by", ())
    for alias, number in sorted(chain.aliases.items()):
        if alias == policy.WAITING:
            continue
        objection = signatures.unsigned(chain, number, keys)
        if objection:
            faults.append(f"{alias} is version {number}, and {objection}")
    versions = _check_versions(registry, chain, released)
    faults += faults_of_policy(chain, versions.tags)
    faults += versions.faults
    if as_json:
        document = {
            "name": chain.name,
            "records": len(chain.records),
            "versions": versions.checked,
            "without_list": versions.without_list,
            "bytecode": versions.with_bytecode,
            "code_of_release": versions.of_release,
            "odd_times": chain.odd_times(),
            "faults": faults,
        }
        print(json.dumps(document))
    else:
        _print_verification(chain, versions, faults)
    return int(bool(faults))


def _check_versions(
    registry: str, chain: Chain, released: Mapping[str, Mapping[str, str]]
) -> _CheckedVersions:
    """Compare the files of every version with the list in its record, and its code with that of the
    release.
    """
    result = _CheckedVersions()
    with registry_client(registry) as client:
        versions = client.search_model_versions(named(chain.name), max_results=10_000)
    created = {}
    for item in versions:
        result.tags[str(item.version)] = dict(item.tags)
        created[str(item.version)] = int(item.creation_timestamp or 0)
    numbers = set(result.tags)
    # the first record of a version: a later one may be of someone who changed its files
    recorded = {}
    published = {}
    for record in reversed(chain.of("version")):
        recorded[record.content["version"]] = record.content["files"]
        published[record.content["version"]] = record
    for number in sorted({*numbers, *recorded}, key=int):
        if number not in numbers:
            result.faults.append(f"version {number} was deleted")
            continue
        changed = damaged_files(registry, chain.name, number, recorded.get(number))
        place = place_of(registry, chain.name, number)
        if place is not None and any(place.rglob(BYTECODE)):
            result.with_bytecode.append(number)
        fault = policy.without_publication(chain, number, created[number], result.tags[number])
        if number in published:
            fault = _changed_tags(published[number], result.tags[number])
        if fault is not None:
            result.faults.append(f"version {number}: {fault}")
        if changed is None:
            result.without_list.append(number)
        else:
            result.checked += 1
            result.faults += [f"version {number}: {fault}" for fault in changed]
            if not changed:
                _check_code(result, registry, chain.name, number, released)
    return result


def _changed_tags(published: Record, tags: Mapping[str, str]) -> str | None:
    """Say which tag of a version differs from the record of its publication; None if none does."""
    for tag, key in ((FILES_TAG, "files"), (DIGEST_TAG, "content")):
        expected = published.content.get(key)
        if expected and tags.get(tag) != expected:
            verb = "was changed"
            if tag not in tags:
                verb = "was deleted"
            return f"its tag {tag} {verb}: record {published.number} has what it was"
    return None


def _check_code(
    result: _CheckedVersions,
    registry: str,
    name: str,
    number: str,
    released: Mapping[str, Mapping[str, str]],
) -> None:
    """Compare the code of a version, whose files are what was published, with the release's."""
    if not released:
        return
    place = place_of(registry, name, number)
    if place is not None:
        faults = code_faults(place, released)
    else:
        with tempfile.TemporaryDirectory() as scratch:
            place, _ = fetch_files(registry, name, number, Path(scratch))
            faults = code_faults(place, released)
    if faults is not None:
        result.of_release.append(number)
        result.faults += [f"version {number}: {fault}" for fault in faults]


def _print_verification(chain: Chain, versions: _CheckedVersions, faults: Sequence[str]) -> None:
    print(f"{chain.name}: {len(chain.records)} records, the files of {versions.checked} versions")
    if versions.without_list:
        print(f"without a list of files, by an older version: {', '.join(versions.without_list)}")
    if versions.with_bytecode:
        print(
            f"with bytecode that no list covers (delete the folders {BYTECODE}): "
            f"{', '.join(versions.with_bytecode)}"
        )
    if versions.of_release:
        print(f"code compared with that of the release: {', '.join(versions.of_release)}")
    for note in chain.odd_times():
        print_note(f"evenhand: no fault, but {note}")
    for fault in faults:
        print_note(f"evenhand: {fault}")
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
    groups: Sequence[str] | None = None,
    key: Path | None = None,
    alternative_gap: float | None = None,
    alternative_metric: str | None = None,
    alternative_models: int | None = None,
    alternative_no_worse: Sequence[str] | None = None,
    alternative_share: float | None = None,
    **rules: Any,
) -> None:
    """Check a policy, read its holdout, pin how it measures, add it to the model's chain, and print
    that.

    `rules` are the options named like keys of the policy, and for each of `ROLES` the files of
    public keys. Raises `InputError` for a metric that does not exist, or a gate that no value
    satisfies; `GateRefused` if a key is needed to replace the policy in force.
    """
    from evenhand.tasks.evaluating.limits import read_limits

    with signing_with(key):
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
        rules["alternative"] = alternative_rules(
            alternative_gap,
            alternative_metric,
            alternative_models,
            alternative_no_worse or (),
            alternative_share,
        )
        rules["keys"] = _keys({role: rules.pop(role, None) or () for role in ROLES})
        rules["approvals"] = _approvals(rules.get("approvals"), rules["keys"]["approved_by"])
        rules["measure"] = _measure(rules, overrides or (), holdout)
        rules["min_version"] = _lowest_version(rules.get("min_version"))
        rules["overlap_method"] = OVERLAP_METHOD
        pinned = _judged(Store(store_url), registry, address.name, contract, list(chosen or {}))
        rules |= {"judged": None, "favourable": None, "copies": pinned.copies}
        if pinned.contract is not None:
            _check_attributes([*(chosen or {}), *rules["required"]], pinned.contract)
            rules["judged"] = judged_columns(pinned.contract)
            rules["favourable"] = favourable_outcome(pinned.contract)
        rules["judged_digest"] = digest_of_judged(rules["judged"])
        rules["group_sizes"] = _group_sizes(groups or (), pinned.contract)
        if holdout is not None:
            of_table = [override for override in overrides or () if override.startswith("table.")]
            seed = rules["measure"]["seed"]
            rules["holdout"] = _holdout(Store(store_url), holdout, of_table, seed)
        # keys that verify signatures are public
        public = ("signed_by", "keys")
        not_public = {name: value for name, value in rules.items() if name not in public}
        refuse_credentials(not_public, "the policy")
        made = policy.set_policy(registry, address.name, rules)
        lapsed = policy.lapsed_refusals(audit.history(registry, address.name), made)
    if as_json:
        print(json.dumps(redacted({"name": address.name, "record": _row(made)})))
        return
    _print_policy(address.name, made, pinned)
    for refusal in lapsed:
        print(f"open      {refusal}: its key is none of --approved-by")


def _check_attributes(metrics: Sequence[str], contract: Contract) -> None:
    """Refuse gates on groups of a column that is not sensitive: no version could pass them."""
    from evenhand.fairlib.catalogue import group_metrics

    sensitive = [column.name for column in contract.sensitive]
    for metric in metrics:
        kind, _, subject = metric.partition(".")
        if kind not in group_metrics() or not subject:
            continue
        unknown = [name for name in subject.split("&") if name not in sensitive]
        if unknown:
            listed = ", ".join(sensitive) or "none"
            raise InputError(
                f"the gate {metric} could never be met: {unknown[0]!r} is no sensitive column of "
                f"the contract {contract.name} ({listed})."
            )


def _print_policy(name: str, made: Record, pinned: Judged) -> None:
    """Print what a policy pins, and what it leaves open."""
    rules = made.content
    print(f"record {made.number}: {made.who} sets the policy of {name}")
    print(f"digest    {made.digest} (EVENHAND_POLICY={name}=DIGEST demands it)")
    print(f"measures  {terms_of(rules).described()}, by evenhand {rules['min_version']} or later")
    print(f"judges    {pinned.source}")
    if pinned.contract is not None and rules["favourable"] is not None:
        print(f"favours   {favourable_in_words(pinned.contract.label)}")
    for attribute, sizes in rules["group_sizes"].items():
        for group, least in sizes.items():
            print(f"counts    {least:,} people or more with {attribute} = {group}")
    if rules["alternative"] is not None:
        print(f"searches  {alternative_in_words(rules['alternative'])}")
    for role, keys in rules["keys"].items():
        if keys:
            listed = ", ".join(shown(key) for key in keys)
            print(f"keys      {ROLES[role]}: {listed}")
    for text in _left_open(rules):
        print(f"open      {text}")


def _left_open(rules: Mapping[str, Any]) -> list[str]:
    """Return what a policy leaves to those who train, search, measure or approve."""
    texts = []
    if rules["keys"]["approved_by"] and not rules["keys"]["trained_by"]:
        texts.append("who trains: without --trained-by an approver may train with another key")
    if rules["approvals"] and not rules["keys"]["approved_by"]:
        texts.append("who approves: a name is no proof, --approved-by lists keys")
    if rules["alternative"] is not None and rules["alternative"]["metric"] is None:
        texts.append("which disparity: without --alternative-metric who searches chooses it")
    if rules["holdout"] is None:
        texts.append("which rows: without --holdout the person who measures chooses them")
    return texts


def _keys(files: Mapping[str, Sequence[Path]]) -> dict[str, list[str]]:
    """Read the public keys of every role; an `InputError` for one with two roles that exclude each
    other.
    """
    keys = {}
    for role, paths in files.items():
        keys[role] = signatures.read_public_keys(paths, f"--{role.replace('_', '-')}")
    conflict = check_roles(keys)
    if conflict is not None:
        raise InputError(f"--approved-by: {conflict}.")
    if keys["set_by"] and own_key() not in keys["set_by"]:
        raise InputError(
            "--set-by: sign this policy with one of these keys, so that they are known to work: "
            "--key FILE names the private key."
        )
    return keys


def _approvals(count: int | None, keys: Sequence[str]) -> int:
    """Return the number of approvals: by default one where keys of approvers are listed."""
    if count is None:
        return min(1, len(keys))
    if keys and count > len(keys):
        raise InputError(
            f"--approvals {count}: there are {len(keys)} keys in --approved-by, and each approves "
            "once."
        )
    if keys and not count:
        raise InputError("--approvals 0: --approved-by lists keys: ask for one approval or more.")
    return count


def _lowest_version(version: str | None) -> str:
    """Return the lowest version of the evaluating code: by default this one."""
    if version is None:
        return evaluating_version()
    if not version[:1].isdigit():
        raise InputError(f"--min-version {version} is no version: expected one such as 0.2.0.")
    if is_older_than(evaluating_version(), version):
        raise InputError(
            f"--min-version {version} is newer than this one, {evaluating_version()}: update "
            "evenhand first, then set the policy."
        )
    return version


def _group_sizes(texts: Sequence[str], contract: Contract | None) -> dict[str, dict[str, int]]:
    """Read the smallest sizes of groups, each as ATTRIBUTE:GROUP=SIZE.

    Raises `InputError` for another form, or a group that the contract does not have.
    """
    from evenhand.data_contracts.arrow import known_groups

    sizes: dict[str, dict[str, int]] = {}
    for text in texts:
        attribute, _, group_and_size = text.partition(":")
        group, _, size = group_and_size.rpartition("=")
        if not (attribute and group and size.isdecimal()):
            raise InputError(f"--group {text}: expected ATTRIBUTE:GROUP=SIZE, such as sex:F=100.")
        if contract is None:
            raise InputError(f"--group {text}: give --contract FILE, which names the attributes.")
        columns = {column.name: column for column in contract.sensitive}
        if attribute not in columns:
            raise InputError(
                f"--group {text}: {attribute!r} is no sensitive column of the contract"
                f"{nearest(attribute, list(columns))}; it has {', '.join(columns)}."
            )
        groups = sorted(known_groups(columns[attribute]))
        if groups and group not in groups:
            raise InputError(
                f"--group {text}: {attribute!r} has no group {group!r}{nearest(group, groups)}; it "
                f"has {', '.join(groups)}."
            )
        sizes.setdefault(attribute, {})[group] = int(size)
    return sizes


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

    contract: Contract | None
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
        return Judged(chosen, {}, _source_of(chosen, "the file"))
    try:
        with store.workdir() as scratch:
            bundle = open_bundle(f"models:/{name}/{number}", store, scratch)
    except InputError as error:
        if chosen is None:
            raise InputError(
                f"no contract can be pinned, so give --contract FILE: {error}"
            ) from None
        return Judged(chosen, {}, _source_of(chosen, "the file"))
    copies = judged_copies(metrics, bundle.evaluation["evaluate"])
    if chosen is None:
        source = _source_of(bundle.contract, f"version {number}")
        return Judged(bundle.contract, copies, source)
    return Judged(chosen, copies, _source_of(chosen, "the file"))


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
        versions = client.search_model_versions(named(name), max_results=10_000)
    if champion:
        return champion
    numbers = [int(item.version) for item in versions]
    if not numbers:
        return None
    return str(max(numbers))


def _holdout(store: Store, address: str, overrides: list[str], seed: int) -> dict[str, Any]:
    """Read the rows of a holdout, and return its address and their salted digest.

    A generated table has the seed of the policy, as in its evaluations.
    """
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
        ingest(data.source, seed, steps)
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
        refuse_without_policy(registry, address.name)
        raise InputError(
            f"{address.name} has no policy: `evenhand policy set {address.name} --gates FILE`."
        )
    _say_older(address.name, in_force)
    # an older version of this program has stored addresses with tokens
    indent = None
    if not as_json:
        indent = 1
    print(json.dumps(redacted(in_force), indent=indent))


def _row(record: Record) -> dict[str, Any]:
    """A record as one mapping, its content next to its other fields."""
    fields = asdict(record)
    return {**fields.pop("content"), **fields}


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
        reason = describe_record(record)
        if record.kind == "move":
            what = content["alias"]
            version = f"{content['from_version'] or '-'} to {content['to_version']}"
            reason = f"{content['reason']}, {reason}"
        rows.append((str(record.number), record.when, what, version, record.who, reason))
    print_table(rows)
    aliases = [f"{alias} is version {version}" for alias, version in sorted(chain.aliases.items())]
    print(f"\n{chain.name}: {', '.join(aliases) or 'no alias is set'}")
    for fault in chain.faults:
        print_note(f"evenhand: {fault}")
