"""What the app shows of a registry: one model, and one version."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import quote

from evenhand.fairlib.outcome_words import outcome_in_words
from evenhand.tasks.errors import InputError
from evenhand.tasks.pages import formats
from evenhand.tasks.pages.page_model import Block, Cell, Section, Table, Value
from evenhand.tasks.pages.texts import GATE_STATUS, lack, metric_cell
from evenhand.tasks.registry.ledger import Chain, Record, history
from evenhand.tasks.registry.policy import (
    REVIEW,
    WAITING,
    Judgement,
    judgement_of,
    refused_by_person,
)
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
# What a record of a refusal is about, by its action.
REFUSED_ACTS = {
    REVIEW: "a person's refusal",
    "promote": "failed promotion",
    "approve": "failed approval",
    "refuse": "failed refusal",
    "sign": "failed signature",
    "policy set": "failed change of the policy",
}
# Times as records have them.
ISO_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?\+00:00")
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
    compared_with: str = ""  # the version that it is compared with first; empty for none
    compared_as: str = ""  # that version in words
    aliases: Sequence[str] = field(default_factory=tuple)
    evaluation: Record | None = None  # the newest one


def model_address(name: str) -> str:
    """Return the address of a model's screen."""
    return f"/models/{quote(name, safe='')}"


def version_address(name: str, version: str) -> str:
    """Return the address of a version's screen."""
    return f"{model_address(name)}/versions/{version}"


def when_cell(iso: str, *below: str) -> Cell:
    """A time in a column whose head says that it is in UTC, such as '3 Nov 2026, 14:05'."""
    return Cell(short_date(formats.moment(iso).removesuffix(" UTC")), below, time=iso)


def short_date(text: str) -> str:
    """A date with three letters of its month."""
    return re.sub(r"[A-Z][a-z]{2,}", lambda month: month.group(0)[:3], text)


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
    aliases = dict(chain.aliases)
    champion = aliases.pop(CHAMPION, None)
    texts = ["no version is in use"]
    if champion is not None:
        texts = [f"version {champion} is the champion, the version in use"]
    waiting = aliases.pop(WAITING, None)
    if waiting is not None:
        texts.append(f"version {waiting} is the challenger, which waits for a decision")
    texts += [
        f"version {number} has the alias {alias}" for alias, number in sorted(aliases.items())
    ]
    return formats.sentence("; ".join(texts) + ".")


def _versions(chain: Chain) -> Section:
    rows: list[list[Value]] = []
    for number in versions_of(chain):
        published = chain.of("version", number)
        evaluation = newest_evaluation(chain, number)
        when: Value = None
        by: Value = None
        if published:
            when = when_cell(published[0].when)
            by = published[0].who
        aliases = [alias for alias, version in chain.aliases.items() if version == number]
        name = Cell(
            f"version {number}",
            tuple(sorted(aliases)),
            href=version_address(chain.name, number),
        )
        approvals = len(chain.of("approval", number))
        rows.append([name, verdict_cell(evaluation), approvals, when, by])
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


def newest_evaluation(chain: Chain, version: str) -> Record | None:
    """Return the newest evaluation of a version; None if it was never evaluated."""
    evaluations = chain.of("evaluation", version)
    return evaluations[-1] if evaluations else None


def verdict_cell(evaluation: Record | None) -> Cell:
    """The verdict of an evaluation's gates, and when it was measured."""
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
        rows.append([metric_cell(metric), limits_in_words(limits)])
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


def limits_in_words(limits: Any) -> str:
    """Limits of a gate, such as 'at least 0.7'."""
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
        when = when_cell(record.when)
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
    if record.kind == "refusal":
        action = str(content["action"])
        what = REFUSED_ACTS.get(action, f"failed {action}")
        if "version" not in content:
            return what
        return f"{what} of version {content['version']}"
    if "version" in content:
        return f"{record.kind} of version {content['version']}"
    return record.kind


def version_screen(uri: str, name: str, version: str) -> VersionScreen:
    """One version: whether it may become champion and why, its evaluations, and its records.

    Raises `InputError` if the model has no such version.
    """
    chain = history(uri, name)
    require_version(chain, version)
    judgement = judgement_of(uri, chain, version, CHAMPION)
    aliases = sorted(alias for alias, number in chain.aliases.items() if number == version)
    is_champion = chain.aliases.get(CHAMPION) == version
    was_champion = any(move.content["from_version"] == version for move in chain.moves(CHAMPION))
    lead = []
    if aliases:
        lead.append(f"This version is the {formats.join(aliases)}.")
    refused = refused_by_person(chain, version)
    if judgement.objection is not None and not is_champion:
        lead.append(_dated(f"it cannot become champion: {judgement.objection}."))
    elif judgement.objection is not None:
        lead.append(_dated(f"it could not become champion again: {judgement.objection}."))
    elif not is_champion:
        lead.append("It may become champion.")
    if refused is not None and judgement.objection is None:
        lead.append(_dated(f"{refused}."))
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
        **_first_comparison(chain, version),
        aliases=aliases,
        evaluation=newest_evaluation(chain, version),
    )


def _dated(text: str) -> str:
    """A sentence whose times are written as those of the tables are."""
    sentence = ISO_MOMENT.sub(lambda moment: short_date(formats.moment(moment.group(0))), text)
    return formats.sentence(sentence)


def _first_comparison(chain: Chain, version: str) -> dict[str, str]:
    """The version that a version is compared with first: the champion, or else the one before."""
    evaluated = [number for number in versions_of(chain) if chain.of("evaluation", number)]
    champion = chain.aliases.get(CHAMPION)
    other_versions = [number for number in evaluated if number != version]
    if version not in evaluated or not other_versions:
        return {}
    if champion in other_versions:
        return {"compared_with": champion, "compared_as": f"the champion, version {champion}"}
    waiting = chain.aliases.get(WAITING)
    if waiting in other_versions:
        return {"compared_with": waiting, "compared_as": f"the challenger, version {waiting}"}
    return {"compared_with": other_versions[0], "compared_as": f"version {other_versions[0]}"}


def _asks(chain: Chain, version: str) -> bool:
    """Whether a version asks a person for one feature after another."""
    evaluation = newest_evaluation(chain, version)
    if evaluation is None:
        return False
    return "features_asked" in (evaluation.content.get("values") or {})


def require_version(chain: Chain, version: str) -> None:
    """Raise an `InputError` if a model has no such version."""
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
            gate_rows.append([metric_cell(metric), limits_in_words(limits), _value(newest, metric)])
        blocks.append(
            Table("Gates of the newest evaluation", ["Gate", "Asked", "Found"], gate_rows)
        )
    rows: list[list[Value]] = []
    for metric in ordered(newest.get("values") or {}):
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
        favourable = outcome_in_words(outcome["column"], outcome["favourable"])
        if outcome["favourable"] is None:
            adverse = outcome_in_words(outcome["column"], outcome["adverse"])
            favourable = f"any but {adverse}"
        text += f"; favourable: {favourable}"
    return f"{text}."


def _value(content: Mapping[str, Any], metric: str) -> Value:
    value = (content.get("values") or {}).get(metric)
    if value is None:
        return lack("not measured")
    return formats.number(value)


def ordered(metrics: Iterable[str]) -> list[str]:
    """Metrics by name, behind those that a comparison begins with."""
    names = sorted(metrics)
    first = [name for name in FIRST_METRICS if name in names]
    return [*first, *[name for name in names if name not in first]]


def _of_version(chain: Chain, version: str) -> Section:
    records = [record for record in chain.records if _concerns(record, version)]
    rows: list[list[Value]] = []
    for record in reversed(records):
        when = when_cell(record.when)
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
