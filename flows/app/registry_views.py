"""What the app shows of a registry: its models, one model, one version, and two side by side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import quote

from evenhand.fairlib.catalogue import describe
from evenhand.tasks.errors import InputError
from evenhand.tasks.pages import formats
from evenhand.tasks.pages.page_model import Block, Cell, Section, Table, Value
from evenhand.tasks.pages.texts import GATE_STATUS, lack, metric_cell
from evenhand.tasks.registry.client import registry_client
from evenhand.tasks.registry.ledger import CHAIN, Chain, Record, history
from evenhand.tasks.registry.policy import WAITING, Judgement, judgement_of, refused_by_person
from evenhand.tasks.registry.policy_alternatives import alternative_in_words
from evenhand.tasks.registry.policy_people import ROLES, shown
from evenhand.tasks.registry.policy_terms import terms_of
from evenhand.tasks.registry.record_words import describe_record
from evenhand.tasks.registry.signed_records import signer

CHAMPION = "champion"
# Results of an evaluation in words, and their marks.
VERDICTS = {
    "passed": ("passed", "passed"),
    "refused": ("refused", "refused by the gates"),
    "insufficient_evidence": ("insufficient_evidence", "not enough evidence"),
    "no_gates": ("no_gates", "no gates"),
}
# Metrics that a comparison begins with, where both versions have them.
FIRST_METRICS = ("accuracy", "balanced_accuracy", "auc", "brier")
# A smaller difference of two versions is shown as none.
SMALLEST_SHOWN = 0.0005
# Rows of a table on a screen that are not folded.
MOST_RECORDS = 40


class Screen(NamedTuple):
    """What one screen shows."""

    title: str
    lead: Sequence[str]  # sentences under the title
    sections: Sequence[Section]
    versions: Sequence[str] = ()  # of the model that it is about, newest first


@dataclass(frozen=True)
class VersionScreen:
    """One version of a model, and what a person can do with it."""

    name: str
    version: str
    judgement: Judgement
    screen: Screen
    is_champion: bool
    was_champion: bool
    asks: bool = False  # whether it asks a person for one feature after another
    aliases: Sequence[str] = field(default_factory=tuple)


def model_address(name: str) -> str:
    """Return the address of a model's screen, relative to the app's."""
    return f"models/{quote(name, safe='')}"


def version_address(name: str, version: str) -> str:
    """Return the address of a version's screen, relative to the app's."""
    return f"{model_address(name)}/versions/{version}"


def models_screen(uri: str) -> Screen:
    """All models of a registry, with the versions that their aliases name."""
    with registry_client(uri) as client:
        registered = client.search_registered_models(max_results=1000)
    models = [model for model in registered if not model.name.startswith(CHAIN)]
    rows: list[list[Value]] = []
    for model in sorted(models, key=lambda model: model.name):
        aliases = {alias: str(version) for alias, version in dict(model.aliases).items()}
        row: list[Value] = [Cell(model.name, href=model_address(model.name))]
        for alias in (CHAMPION, WAITING):
            row.append(_version_cell(model.name, aliases.get(alias), f"no {alias}"))
        row.append(_newest_change(model.last_updated_timestamp))
        rows.append(row)
    if not rows:
        return Screen(
            "Models",
            [
                "No model is published yet. `evenhand run JOB`, or a run of a job here, publishes "
                "one that passes its gates."
            ],
            [],
        )
    table = Table(
        "Models of this registry, and their versions in use",
        ["Model", "Champion", "Challenger", "Last change (UTC)"],
        rows,
    )
    lead = (
        f"{formats.plural(len(rows), 'model')}. The champion is the version in use; a challenger "
        "waits for a decision."
    )
    return Screen("Models", [lead], [Section("models", "All models", [table])])


def _version_cell(name: str, version: str | None, otherwise: str) -> Cell:
    if version is None:
        return lack(otherwise)
    return Cell(f"version {version}", href=version_address(name, version))


def _newest_change(timestamp: int | None) -> Value:
    if not timestamp:
        return None
    import datetime

    moment = datetime.datetime.fromtimestamp(timestamp / 1000, datetime.UTC)
    iso = moment.isoformat(timespec="seconds")
    return Cell(formats.moment(iso), time=iso)


def model_screen(uri: str, name: str) -> Screen:
    """One model: its versions, what its policy asks, and the records of its chain.

    Raises `InputError` if the registry has no such model.
    """
    chain = history(uri, name)
    sections = [_versions(chain), _policy(chain), _records(chain)]
    if chain.faults:
        sections.insert(0, Section("faults", "Faults of the record", list(chain.faults)))
    return Screen(name, [_in_use(chain)], sections, versions_of(chain))


def _in_use(chain: Chain) -> str:
    texts = [f"{alias} is version {number}" for alias, number in sorted(chain.aliases.items())]
    if not texts:
        return "No version is in use."
    return formats.sentence(formats.join(texts) + ".")


def _versions(chain: Chain) -> Section:
    rows: list[list[Value]] = []
    for number in versions_of(chain):
        published = chain.of("version", number)
        evaluation = _newest_evaluation(chain, number)
        when: Value = None
        by: Value = None
        if published:
            when = Cell(formats.moment(published[0].when), time=published[0].when)
            by = published[0].who
        aliases = [alias for alias, version in chain.aliases.items() if version == number]
        name = Cell(
            f"version {number}",
            tuple(sorted(aliases)),
            href=version_address(chain.name, number),
        )
        approvals = len(chain.of("approval", number))
        rows.append([name, _verdict_cell(evaluation), approvals, when, by])
    table = Table(
        "Versions, newest first",
        ["Version", "Newest evaluation", "Approvals", "Published (UTC)", "By"],
        rows,
    )
    return Section("versions", "Versions", [table])


def versions_of(chain: Chain) -> list[str]:
    """Numbers of the versions that the records of a chain name, newest first."""
    numbers = {str(record.content["version"]) for record in chain.of("version")}
    for record in chain.of("move"):
        numbers.add(str(record.content["to_version"]))
    return sorted(numbers, key=int, reverse=True)


def _newest_evaluation(chain: Chain, version: str) -> Record | None:
    evaluations = chain.of("evaluation", version)
    return evaluations[-1] if evaluations else None


def _verdict_cell(evaluation: Record | None) -> Cell:
    if evaluation is None:
        return lack("not evaluated")
    verdict = str(evaluation.content.get("verdict"))
    kind, text = VERDICTS.get(verdict, ("unknown", "unknown"))
    if evaluation.content.get("unmet"):
        kind = "unknown"
        text = "Not accepted by the policy"
    symbol = GATE_STATUS[kind][0] if kind in GATE_STATUS else ""
    return Cell(text, (formats.moment(evaluation.when),), kind=kind, symbol=symbol)


def _policy(chain: Chain) -> Section:
    policy = chain.policy
    if policy is None:
        text = (
            "No policy is set, so a version becomes champion by the gates of its own job. "
            f"`evenhand policy set {chain.name} --gates FILE` sets one."
        )
        return Section("policy", "Policy", [text])
    rules = policy.content
    terms = terms_of(rules)
    rows: list[list[Value]] = []
    for metric, limits in (rules.get("gates") or {}).items():
        rows.append([metric_cell(metric), _limits_in_words(limits)])
    rows.append(["Measured with", terms.described()])
    if rules.get("holdout"):
        rows.append(["Measured on", f"{rules['holdout']['rows']:,} agreed rows"])
    if rules.get("alternative"):
        rows.append(["Searched for", alternative_in_words(rules["alternative"])])
    if rules.get("approvals"):
        rows.append(["Approvals", int(rules["approvals"])])
    for role, keys in (rules.get("keys") or {}).items():
        if keys:
            listed = ", ".join(shown(key) for key in keys)
            rows.append([f"Keys that {ROLES[role]}", listed])
    lead = f"Record {policy.number}, set by {policy.who} on {formats.moment(policy.when)}."
    table = Table("What a version must have passed", ["Asked", "Value"], rows, pairs=True)
    return Section("policy", "Policy", [lead, table])


def _limits_in_words(limits: Any) -> str:
    if not isinstance(limits, Mapping):
        return str(limits)
    texts = []
    if limits.get("min") is not None:
        texts.append(f"at least {limits['min']:g}")
    if limits.get("max") is not None:
        texts.append(f"at most {limits['max']:g}")
    for key, value in limits.items():
        if key not in ("min", "max"):
            texts.append(f"{key} {value}")
    return ", ".join(texts)


def _records(chain: Chain) -> Section:
    rows: list[list[Value]] = []
    for record in reversed(chain.records):
        when = Cell(formats.moment(record.when), time=record.when)
        signed = "not signed"
        if record.record_key:
            signed = "signed" if signer(chain.name, record) else "its signature is false"
        who = Cell(record.who, (signed,))
        subject = Cell(_subject(record), (f"record {record.number}",))
        rows.append([subject, when, who, describe_record(record)])
    table = Table(
        "Records of the chain, newest first",
        ["What", "When (UTC)", "Who", "Content"],
        rows,
        folded=len(rows) > MOST_RECORDS,
    )
    lead = "Every record names the one before, so that none can be changed or taken out unseen."
    return Section("records", "Record", [lead, table])


def _subject(record: Record) -> str:
    content = record.content
    if record.kind == "move":
        before = content["from_version"]
        after = f"{content['alias']} is version {content['to_version']}"
        return f"{after}, after {before}" if before else after
    if record.kind == "version":
        return f"publication of version {content['version']}"
    if "version" in content:
        return f"{record.kind} of version {content['version']}"
    return record.kind


def version_screen(uri: str, name: str, version: str) -> VersionScreen:
    """One version: whether it may become champion and why, its evaluations, and its records.

    Raises `InputError` if the model has no such version.
    """
    chain = history(uri, name)
    _require_version(chain, version)
    judgement = judgement_of(uri, chain, version, CHAMPION)
    aliases = sorted(alias for alias, number in chain.aliases.items() if number == version)
    is_champion = chain.aliases.get(CHAMPION) == version
    was_champion = any(move.content["from_version"] == version for move in chain.moves(CHAMPION))
    lead = []
    if aliases:
        lead.append(f"This version is {formats.join(aliases)}.")
    refused = refused_by_person(chain, version)
    if judgement.objection is not None and not is_champion:
        lead.append(formats.sentence(f"it cannot become champion: {judgement.objection}."))
    elif judgement.objection is not None:
        lead.append(formats.sentence(f"it could not become champion again: {judgement.objection}."))
    elif not is_champion:
        lead.append("It may become champion.")
    if refused is not None and judgement.objection is None:
        lead.append(formats.sentence(f"{refused}."))
    sections = [_evaluations(chain, version), _of_version(chain, version)]
    screen = Screen(f"{name}, version {version}", lead, sections)
    return VersionScreen(
        name=name,
        version=version,
        judgement=judgement,
        screen=screen,
        is_champion=is_champion,
        was_champion=was_champion,
        asks=_asks(chain, version),
        aliases=aliases,
    )


def _asks(chain: Chain, version: str) -> bool:
    """Whether a version asks a person for one feature after another."""
    evaluation = _newest_evaluation(chain, version)
    if evaluation is None:
        return False
    return "features_asked" in (evaluation.content.get("values") or {})


def _require_version(chain: Chain, version: str) -> None:
    numbers = versions_of(chain)
    if version not in numbers:
        raise InputError(
            f"{chain.name} has no version {version}; it has {', '.join(reversed(numbers))}."
        )


def _evaluations(chain: Chain, version: str) -> Section:
    evaluations = chain.of("evaluation", version)
    if not evaluations:
        return Section("evaluations", "Evaluations", ["No evaluation of it is recorded."])
    newest = evaluations[-1].content
    blocks: list[Block] = [_how_measured(evaluations[-1])]
    gates = newest.get("gates") or {}
    if gates:
        gate_rows: list[list[Value]] = []
        for metric, limits in gates.items():
            gate_rows.append(
                [metric_cell(metric), _limits_in_words(limits), _value(newest, metric)]
            )
        blocks.append(
            Table("Gates of the newest evaluation", ["Gate", "Asked", "Found"], gate_rows)
        )
    rows: list[list[Value]] = []
    for metric in _ordered(newest.get("values") or {}):
        rows.append([metric_cell(metric), _value(newest, metric)])
    blocks.append(
        Table("All values of the newest evaluation", ["Metric", "Value"], rows, folded=True)
    )
    return Section("evaluations", "Newest evaluation", blocks)


def _how_measured(evaluation: Record) -> str:
    content = evaluation.content
    text = f"Measured by {evaluation.who} on {formats.moment(evaluation.when)}"
    if content.get("run_id"):
        text += f", run `{content['run_id']}`"
    fingerprint = content.get("data_fingerprint")
    if fingerprint:
        text += f", on the data `{str(fingerprint)[:12]}`"
    outcome = content.get("favourable") or {}
    if outcome:
        text += f"; favourable: {outcome['column']} = {outcome['favourable']}"
    return f"{text}."


def _value(content: Mapping[str, Any], metric: str) -> Value:
    value = (content.get("values") or {}).get(metric)
    if value is None:
        return lack("not measured")
    return formats.number(value)


def _ordered(metrics: Iterable[str]) -> list[str]:
    """Metrics by name, behind those that a comparison begins with."""
    names = sorted(metrics)
    first = [name for name in FIRST_METRICS if name in names]
    return [*first, *[name for name in names if name not in first]]


def _of_version(chain: Chain, version: str) -> Section:
    records = [record for record in chain.records if _concerns(record, version)]
    rows: list[list[Value]] = []
    for record in reversed(records):
        when = Cell(formats.moment(record.when), time=record.when)
        rows.append([_subject(record), when, record.who, describe_record(record)])
    table = Table(
        "Who did what with this version, newest first",
        ["What", "When (UTC)", "Who", "Content"],
        rows,
    )
    return Section("history", "History", [table])


def _concerns(record: Record, version: str) -> bool:
    content = record.content
    versions = (content.get("version"), content.get("from_version"), content.get("to_version"))
    return version in versions


def comparison_screen(uri: str, name: str, first: str, second: str) -> Screen:
    """Two versions side by side, by the newest evaluation of each.

    Raises `InputError` if the model lacks one of them, or both are the same.
    """
    chain = history(uri, name)
    for version in (first, second):
        _require_version(chain, version)
    if first == second:
        raise InputError(f"version {first} is compared with itself: choose another one.")
    evaluations = [_newest_evaluation(chain, version) for version in (first, second)]
    if evaluations[0] is None or evaluations[1] is None:
        missing = first if evaluations[0] is None else second
        raise InputError(
            f"version {missing} was never evaluated: `evenhand evaluate {name}/{missing} --data "
            "TABLE` does that."
        )
    one = evaluations[0].content
    other = evaluations[1].content
    title = f"{name}: version {first} and version {second}"
    lead = [_same_rows(one, other, name, first, second)]
    names = [metric for metric in _ordered(one.get("values") or {}) if _both(one, other, metric)]
    rows = []
    for metric in names:
        values = one["values"][metric], other["values"][metric]
        rows.append(_compared(metric, *values, (first, second)))
    columns = ["Metric", f"Version {first}", f"Version {second}", "Difference", "Better here"]
    table = Table("Values of the newest evaluations", columns, rows)
    sections = [Section("values", "Values", [table])]
    terms = _differing_terms(one, other, first, second)
    if terms is not None:
        sections.append(terms)
    return Screen(title, lead, sections, versions_of(chain))


def _both(one: Mapping[str, Any], other: Mapping[str, Any], metric: str) -> bool:
    values = (one.get("values") or {}).get(metric), (other.get("values") or {}).get(metric)
    return all(isinstance(value, int | float) for value in values)


def _same_rows(
    one: Mapping[str, Any], other: Mapping[str, Any], name: str, first: str, second: str
) -> str:
    fingerprints = {str(content.get("data_fingerprint")) for content in (one, other)}
    paired = (
        f"`evenhand evaluate models:/{name}/{second} --baseline models:/{name}/{first} --data "
        "TABLE` measures both on the same rows, with intervals of the differences."
    )
    if len(fingerprints) == 1 and "None" not in fingerprints:
        return (
            f"Both were measured on the same table, each on its own: a small difference may be "
            f"chance. {paired}"
        )
    return (
        "**They were measured on different tables**, so differences may be those of the people. "
        f"{paired}"
    )


def _compared(metric: str, first: float, second: float, versions: Sequence[str]) -> list[Value]:
    difference = second - first
    direction = describe(metric)[0].direction
    better = ""
    if direction is None:
        better = "neither"
    elif abs(difference) < SMALLEST_SHOWN:
        better = "equal"
    else:
        second_is_better = (difference > 0) == (direction == "higher")
        better = f"version {versions[int(second_is_better)]}"
    return [
        metric_cell(metric),
        formats.number(first),
        formats.number(second),
        f"{difference:+.3f}".replace("-", "\N{MINUS SIGN}"),
        better,
    ]


def _differing_terms(
    one: Mapping[str, Any], other: Mapping[str, Any], first: str, second: str
) -> Section | None:
    """Settings of two evaluations that are not the same; None if all are."""
    rows: list[list[Value]] = []
    for key in ("settings", "gates", "evenhand", "judged_digest"):
        if one.get(key) != other.get(key):
            rows.append([key, _short(one.get(key)), _short(other.get(key))])
    if not rows:
        return None
    columns = ["Setting", f"Version {first}", f"Version {second}"]
    table = Table("Settings in which the evaluations differ", columns, rows)
    return Section("settings", "Measured otherwise", [table])


def _short(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_limits_in_words(item)}" for key, item in value.items())
    return str(value)[:40]
