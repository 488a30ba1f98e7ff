"""What the app shows of two versions side by side: who measured them, what is asked of them, and
their differences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evenhand.fairlib.catalogue import describe
from evenhand.fairlib.evaluation.evaluate import MetricValue
from evenhand.flows.app.paired_versions import NotPaired, Paired, PairedDifferences
from evenhand.flows.app.registry_views import (
    CHAMPION,
    Screen,
    limits_in_words,
    newest_evaluation,
    ordered,
    require_version,
    verdict_cell,
    version_address,
    versions_of,
)
from evenhand.tasks.errors import InputError
from evenhand.tasks.pages import formats
from evenhand.tasks.pages.page_model import Cell, Section, Table, Value
from evenhand.tasks.pages.texts import lack, metric_cell
from evenhand.tasks.registry.ledger import Chain, Record, history
from evenhand.tasks.registry.policy import judgements_of

# A smaller difference of two versions is shown as none.
SMALLEST_SHOWN = 0.0005
# Metrics of fairness that are of no single attribute.
OF_FAIRNESS = ("theil_index", "certificate", "consistency", "token_gap")


@dataclass(frozen=True)
class Compared:
    """A difference of two versions: its row, and the place of the better version, if one is."""

    row: Sequence[Value]
    better: int | None


def comparison_screen(
    uri: str, pairs: PairedDifferences, name: str, first: str, second: str
) -> Screen:
    """Two versions side by side, by the newest evaluation of each.

    Raises `InputError` if the model lacks one of them, or both are the same.
    """
    chain = history(uri, name)
    for version in (first, second):
        require_version(chain, version)
    if first == second:
        raise InputError(f"version {first} is compared with itself: choose another one.")
    one = _evaluation(chain, first)
    second_evaluation = _evaluation(chain, second)
    versions = (first, second)
    paired: Paired | None = None
    try:
        of_both = pairs.of(one.content, second_evaluation.content)
        lead = [_on_same_rows(of_both)]
        paired = of_both
    except NotPaired as reason:
        lead = [_not_paired(str(reason), name, versions)]
    tables = _tables(chain, one.content, second_evaluation.content, paired, versions)
    lead += [sentence for sentence, _ in tables.values() if sentence]
    sections = [_versions(uri, chain, (one, second_evaluation), versions)]
    for title, (_, section) in tables.items():
        sections.append(Section(title.lower(), title, [section]))
    terms = _differing_terms(one.content, second_evaluation.content, versions)
    if terms is not None:
        sections.append(terms)
    title = f"{name}: version {first} and version {second}"
    return Screen(title, lead, sections, versions_of(chain))


def _evaluation(chain: Chain, version: str) -> Record:
    evaluation = newest_evaluation(chain, version)
    if evaluation is None:
        raise InputError(
            f"version {version} was never evaluated: `evenhand evaluate {chain.name}/{version} "
            "--data TABLE` does that."
        )
    return evaluation


def _on_same_rows(paired: Paired) -> str:
    text = (
        f"Both were measured on the same {paired.rows:,} held-out rows, so the differences are "
        f"paired; each has a {_level(paired)} interval."
    )
    if paired.left_out:
        text += (
            f" {formats.plural(paired.left_out, 'row')} of one of them alone "
            f"{'is' if paired.left_out == 1 else 'are'} in the values, and not in the differences."
        )
    return text


def _level(paired: Paired) -> str:
    return f"{100 * paired.level:g}%"


def _not_paired(reason: str, name: str, versions: Sequence[str]) -> str:
    first, second = versions
    return (
        f"**No intervals of the differences**: {reason}. A small difference may be chance. "
        f"`evenhand evaluate models:/{name}/{second} --baseline models:/{name}/{first} --data "
        "TABLE` measures both on the same rows, with intervals."
    )


def _versions(
    uri: str, chain: Chain, evaluations: Sequence[Record], versions: Sequence[str]
) -> Section:
    """Which version is in use, who measured it, and whether it may become champion."""
    rows: list[list[Value]] = [["In use as"], ["Newest evaluation"], ["Measured by"]]
    rows += [["Approvals"], ["May become champion"], ["Reports and decisions"]]
    judgements = judgements_of(uri, chain, versions, CHAMPION)
    for evaluation, version, judgement in zip(evaluations, versions, judgements, strict=True):
        aliases = sorted(alias for alias, number in chain.aliases.items() if number == version)
        may = Cell("yes", kind="passed")
        if judgement.objection is not None:
            may = Cell("no", (judgement.objection,), kind="refused")
        elif chain.aliases.get(CHAMPION) == version:
            may = Cell("it is the champion", kind="passed")
        address = version_address(chain.name, version)
        values: list[Value] = [
            formats.join(aliases) or lack("nothing"),
            verdict_cell(evaluation),
            evaluation.who,
            str(len(chain.of("approval", version))),
            may,
            Cell(f"version {version}", href=address),
        ]
        for row, value in zip(rows, values, strict=True):
            row.append(value)
    columns = ["Question", *(f"Version {version}" for version in versions)]
    table = Table("How each is used, measured and approved", columns, rows)
    return Section("versions", "The two versions", [table])


def _tables(
    chain: Chain,
    one: Mapping[str, Any],
    other: Mapping[str, Any],
    paired: Paired | None,
    versions: Sequence[str],
) -> dict[str, tuple[str, Table]]:
    """The metrics of performance and of fairness, each as a sentence and a table."""
    names = [metric for metric in ordered(one.get("values") or {}) if _both(one, other, metric)]
    limits: Mapping[str, Any] = {}
    if chain.policy is not None:
        limits = chain.policy.content.get("gates") or {}
    columns = ["Metric", *(f"Version {version}" for version in versions), "Difference", "Better"]
    if limits:
        columns.append("Asked by the policy")
    tables = {}
    for title in ("Performance", "Fairness"):
        chosen = [metric for metric in names if _is_of_fairness(metric) == (title == "Fairness")]
        compared = []
        for metric in chosen:
            values = (one["values"][metric], other["values"][metric])
            difference = None
            if paired is not None:
                difference = paired.differences.get(metric)
            compared.append(_compared(metric, values, difference, versions))
        if not compared:
            continue
        rows = [list(comparison.row) for comparison in compared]
        if limits:
            for metric, row in zip(chosen, rows, strict=True):
                row.append(limits_in_words(limits[metric]) if metric in limits else lack("nothing"))
        sentence = ""
        if paired is not None:
            sentence = _count(title, compared, versions)
        tables[title] = (sentence, Table(f"{title} by the newest evaluations", columns, rows))
    return tables


def _is_of_fairness(metric: str) -> bool:
    return bool(describe(metric)[1]) or metric.startswith(OF_FAIRNESS)


def _both(one: Mapping[str, Any], other: Mapping[str, Any], metric: str) -> bool:
    values = (one.get("values") or {}).get(metric), (other.get("values") or {}).get(metric)
    return all(isinstance(value, int | float) for value in values)


def _count(title: str, compared: Sequence[Compared], versions: Sequence[str]) -> str:
    """In how many metrics each version is better, beyond chance."""
    parts = []
    for place, version in enumerate(versions):
        count = sum(comparison.better == place for comparison in compared)
        if count:
            parts.append(f"version {version} is better in {count}")
    text = formats.join(parts) or "no difference is significant"
    metrics = formats.plural(len(compared), "metric")
    if not parts:
        return f"{title}: {text}."
    return f"{title}: beyond chance, {text} of {metrics}."


def _compared(
    metric: str, values: Sequence[float], paired: MetricValue | None, versions: Sequence[str]
) -> Compared:
    """One metric of both versions, with the interval of the difference if there is one."""
    first, second = values
    difference = second - first
    below = ""
    is_apart = abs(difference) >= SMALLEST_SHOWN
    if paired is not None and paired.value is not None and paired.low is not None:
        difference = paired.value
        below = formats.interval(paired.low, paired.high, formats.change)
        is_apart = paired.low > 0 or (paired.high or 0.0) < 0
    direction = describe(metric)[0].direction
    better: Value = lack("no significant difference" if below else "equal")
    place = None
    if direction is None:
        better = lack("has no better side")
    elif is_apart:
        side = int((difference > 0) == (direction == "higher"))
        better = f"version {versions[side]}"
        # what may be chance is not counted
        if below:
            place = side
    row: list[Value] = [
        metric_cell(metric),
        formats.number(first),
        formats.number(second),
        Cell(formats.change(difference), (below,)),
        better,
    ]
    return Compared(row, place)


def _differing_terms(
    one: Mapping[str, Any], other: Mapping[str, Any], versions: Sequence[str]
) -> Section | None:
    """Settings of two evaluations that are not the same; None if all are."""
    rows: list[list[Value]] = []
    for key in ("settings", "gates", "evenhand", "judged_digest"):
        if one.get(key) != other.get(key):
            rows.append([key, _short(one.get(key)), _short(other.get(key))])
    if not rows:
        return None
    columns = ["Setting", *(f"Version {version}" for version in versions)]
    table = Table("Settings in which the evaluations differ", columns, rows)
    return Section("settings", "Measured otherwise", [table])


def _short(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {limits_in_words(item)}" for key, item in value.items())
    return str(value)[:40]
