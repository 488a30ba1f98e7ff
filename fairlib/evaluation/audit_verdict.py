"""The verdict of an audit: what it shows, in sentences, the gravest first."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from evenhand.fairlib.evaluation.audit_target import NO, YES, Target
from evenhand.fairlib.evaluation.group_metrics import TITLES
from evenhand.fairlib.evaluation.group_selection import NAMED
from evenhand.fairlib.evaluation.group_tables import (
    Gap,
    GroupTable,
    ModelTables,
    left_out_words,
)
from evenhand.fairlib.outcome_words import is_participle, outcome_in_words

FOUR_FIFTHS = 0.8
"""A smaller impact ratio counts as evidence of adverse impact (29 CFR 1607.4 D)."""

MOST_NUMBERS = 30
"""Numbers of an attribute that may each be a group without a note."""

EQUAL = 0.0005
"""A smaller difference of rates is printed as none."""

AUXILIARY = re.compile(r"^(?:was|is|were|are|got|has been|have been) ", re.IGNORECASE)
"""Start of a column's name that "are" stands for: was hired, is approved."""

UNNAMED = re.compile(r"^sensitive_feature_0$")
"""Name of an attribute that was passed without one."""

PLURALS = {
    "woman": "women",
    "man": "men",
    "girl": "girls",
    "boy": "boys",
    "female": "females",
    "male": "males",
    "adult": "adults",
    "person": "people",
}
"""Names of groups that are one person; a sentence is about all of them."""

NOT_COMPARED = "Not compared by"
"""Start of the sentence that names the groups which are left out."""


NOTE = "Note: "
"""Start of the sentences that say what was assumed."""


class Finding(NamedTuple):
    """A sentence on an attribute, and how grave it is: 0 for equal groups, 1 at most."""

    gravity: float
    sentence: str


def percent(share: float) -> str:
    """Write a share as a percentage: ``45.0 %``.

    Parameters
    ----------
    share : float
        From 0 to 1.

    Returns
    -------
    str
    """
    return f"{100 * share:.1f} %"


def short(number: float, digits: int = 2) -> str:
    """Write a number without the 0 before its point: ``.54``.

    Parameters
    ----------
    number : float
        The number.
    digits : int
        Digits behind the point.

    Returns
    -------
    str
    """
    text = f"{number:.{digits}f}"
    if text.startswith("0."):
        return text[1:]
    return text.replace("-0.", "-.", 1) if text.startswith("-0.") else text


def plain_number(number: float) -> str:
    """Write a quantity with four digits.

    Parameters
    ----------
    number : float
        The number.

    Returns
    -------
    str
    """
    if abs(number) >= 10_000:
        return f"{number:,.0f}"
    return f"{number:.4g}"


def outcome_words(column: str, label: str) -> str:
    """Say that people get a label: "are approved", "get “granted”", "are not denied".

    Parameters
    ----------
    column : str
        Name of the label's column; "" for none.
    label : str
        Name of the label.

    Returns
    -------
    str
        A verb with its object.
    """
    word = label.strip().lower()
    spoken = column.replace("_", " ").strip()
    participle = AUXILIARY.sub("", spoken)
    if word in YES and is_participle(participle):
        return f"are {participle}"
    if word in NO and is_participle(participle):
        return f"are not {participle}"
    if word in YES + NO:
        return f"get “{spoken} = {label}”" if spoken else f"get the prediction {label}"
    if is_participle(word):
        return f"are {label}"
    return f"get “{label}”"


def group_words(table: GroupTable, group: str) -> str:
    """Name of a group within a sentence: in the plural, with its attribute where it is a code.

    Parameters
    ----------
    table : GroupTable
        Table of the attribute.
    group : str
        Name of the group.

    Returns
    -------
    str
    """
    if group.lower() in PLURALS:
        return PLURALS[group.lower()]
    if len(group) > 1 and any(letter.isalpha() for letter in group):
        return group
    return f"{_spoken(table)} {group}"


def sentences_of(
    tables: ModelTables, target: Target | None, metrics: Sequence[str]
) -> tuple[str, ...]:
    """Write what an audit of one model shows.

    Parameters
    ----------
    tables : ModelTables
        The model's metrics.
    target : Target, optional
        Labels and predictions; None where only functions were computed.
    metrics : sequence of str
        Metrics that were asked for.

    Returns
    -------
    tuple of str
    """
    singles = [table for table in tables.marginal.values() if len(table.grouping.columns) == 1]
    several = len(singles) > 1
    findings = []
    for table in singles:
        findings.append(_finding(table, target, metrics, several=several))
    findings.sort(key=lambda finding: -finding.gravity)  # stable
    sentences = [finding.sentence for finding in findings]
    sentences += _of_intersections(tables, target, findings)
    for table in singles:
        sentences += _of_errors(table, target, several=several)
    for table in tables.attributes.values():
        if table.controls is not None and len(table.grouping.columns) == 1:
            sentences += _of_controls(table, target)
    for table in singles:
        sentences += _of_unnamed(table, target)
    for table in singles:
        sentences += _of_left_out(table, target, metrics)
    for table in singles:
        sentences += _of_numbers(table)
    if target is not None:
        sentences += _notes(target)
    return tuple(sentences)


def _first_metric(table: GroupTable, target: Target | None, metrics: Sequence[str]) -> str:
    """Metric that an attribute's first sentence is about."""
    if target is None:
        compared_names = [name for name in metrics if name != "count"]
        return (compared_names or list(metrics))[0]
    if target.kind == "two labels":
        return "selection_rate"
    if target.kind == "numbers":
        return "mean_prediction"
    if target.favourable is not None:
        return f"selection_rate.{target.favourable_name}"
    if target.y_true is not None:
        return "accuracy"
    return f"selection_rate.{target.classes[0]}"


def _finding(
    table: GroupTable, target: Target | None, metrics: Sequence[str], *, several: bool
) -> Finding:
    """The first sentence on an attribute."""
    name = _first_metric(table, target, metrics)
    about = f"By {_spoken(table)}: " if several else ""
    if name not in table.metrics:
        return Finding(0.0, f"{about}nothing is compared.")
    gap = table.gap(name, "difference", smallest=NAMED)
    if gap.value is None:
        reason = gap.reason.removeprefix(f"{table.grouping.name}: ")
        return Finding(1.0, f"By {_spoken(table)}: not enough evidence: {reason}.")
    if target is not None and target.favourable is not None:
        gravity, text = _on_selection(table, target, gap)
    elif target is None or target.kind == "numbers":
        gravity = 0.0
        text = _on_difference(table, name, gap, plain_number)
    else:
        gravity = 0.0
        text = _on_shares(table, name, gap)
    return Finding(gravity, _started(about, text))


def _started(about: str, text: str) -> str:
    """A sentence with a capital letter, or after what it is about."""
    if about:
        return f"{about}{text}."
    return f"{text[:1].upper()}{text[1:]}."


def _spoken(table: GroupTable) -> str:
    """Names of an attribute's columns for readers; one without a name is a group."""
    names = [UNNAMED.sub("group", name) for name in table.grouping.columns]
    return " and ".join(names).replace("_", " ")


def _value(table: GroupTable, name: str, group: str) -> float:
    """Value of a group without control features."""
    return float(table.metrics[name].value[table.grouping.texts.index(group)])


def _on_selection(table: GroupTable, target: Target, difference: Gap) -> tuple[float, str]:
    """Say how much less often a group gets the favourable outcome."""
    verb = outcome_words(target.column, target.favourable_name)
    name = difference.metric
    least = _value(table, name, difference.least)
    most = _value(table, name, difference.most)
    worse = group_words(table, difference.least)
    better = group_words(table, difference.most)
    if most - least < EQUAL:
        return 0.0, f"all groups {verb} equally often ({percent(most)})"
    ratio = table.gap(name, "ratio", smallest=NAMED)
    assert ratio.value is not None
    shares = f"{percent(least)} against {percent(most)}"
    text = f"{worse} {verb} {round(100 * ratio.value)} % as often as {better} ({shares})"
    text += f": {_judged(ratio)}"
    if ratio.low is not None and ratio.high is not None:
        text += f"; interval {short(ratio.low)} to {short(ratio.high)}"
    return 1.0 - ratio.value, text


def _judged(ratio: Gap) -> str:
    """Say whether an impact ratio is below four fifths, and whether that is beyond chance."""
    assert ratio.value is not None
    low = ratio.value if ratio.low is None else ratio.low
    high = ratio.value if ratio.high is None else ratio.high
    if ratio.value < FOUR_FIFTHS <= high:
        return "below four fifths, though the interval reaches above"
    if ratio.value < FOUR_FIFTHS:
        return "below four fifths"
    if low < FOUR_FIFTHS:
        return "not below four fifths, though the interval reaches below"
    return "not below four fifths"


def _on_difference(table: GroupTable, name: str, gap: Gap, form: Callable[[float], str]) -> str:
    """Say which groups have the smallest and the largest value of a metric."""
    assert gap.value is not None
    title = TITLES.get(name, name.replace("_", " "))
    if name in TITLES:
        title = f"{title[:1].lower()}{title[1:]}"
    least = form(_value(table, name, gap.least))
    most = form(_value(table, name, gap.most))
    text = f"the {title} is {least} for {group_words(table, gap.least)} and {most} for "
    text += f"{group_words(table, gap.most)}: a difference of {form(gap.value)}"
    if gap.low is not None and gap.high is not None:
        text += f", interval {form(gap.low)} to {form(gap.high)}"
    return text


def _on_shares(table: GroupTable, name: str, gap: Gap) -> str:
    """The same of a share, in percent and points."""
    assert gap.value is not None
    title = TITLES.get(name, name.replace("_", " ").replace(".", " of "))
    least = percent(_value(table, name, gap.least))
    most = percent(_value(table, name, gap.most))
    text = f"the {title[:1].lower()}{title[1:]} is {least} for {group_words(table, gap.least)} "
    text += f"and {most} for {group_words(table, gap.most)}: {_points(gap)}"
    return text


def _points(gap: Gap) -> str:
    """A difference of shares in points, with its interval."""
    assert gap.value is not None
    text = f"a difference of {100 * gap.value:.1f} points"
    if gap.low is not None and gap.high is not None:
        text += f", interval {100 * gap.low:.1f} to {100 * gap.high:.1f}"
    return text


def _of_intersections(
    tables: ModelTables, target: Target | None, findings: Sequence[Finding]
) -> list[str]:
    """Name the pair of attributes with the smallest impact ratio, if it is below four fifths and
    smaller than that of each attribute alone.
    """
    if target is None or target.kind != "two labels":
        return []
    worst: Finding | None = None
    for table in tables.marginal.values():
        if len(table.grouping.columns) < 2:
            continue
        difference = table.gap("selection_rate", "difference", smallest=NAMED)
        if difference.value is None or difference.value < EQUAL:
            continue
        gravity, text = _on_selection(table, target, difference)
        if worst is None or gravity > worst.gravity:
            worst = Finding(gravity, f"By {_spoken(table)} together: {text}.")
    gravest = max((finding.gravity for finding in findings), default=0.0)
    if worst is None or worst.gravity <= max(gravest, 1.0 - FOUR_FIFTHS):
        return []
    return [worst.sentence]


def _of_errors(table: GroupTable, target: Target | None, *, several: bool) -> list[str]:
    """Say where the errors of an attribute's groups differ most."""
    if target is None or target.y_true is None or target.kind == "classes":
        return []
    about = f"By {_spoken(table)}: " if several else ""
    if target.kind == "numbers":
        gap = table.gap("mean_absolute_error", "difference", smallest=NAMED)
        if gap.value is None:
            return []
        return [_started(about, _on_difference(table, gap.metric, gap, plain_number))]
    gaps = []
    for name in ("true_positive_rate", "false_positive_rate"):
        gap = table.gap(name, "difference", smallest=NAMED)
        if gap.value is not None and gap.value >= EQUAL:
            gaps.append(gap)
    if not gaps:
        return []
    widest = max(gaps, key=lambda gap: gap.value or 0.0)
    positive = target.classes[1]
    of_label = target.classes[int(widest.metric == "true_positive_rate")]
    least = percent(_value(table, widest.metric, widest.least))
    most = percent(_value(table, widest.metric, widest.most))
    text = f"of those whose true label is {of_label}, {least} of {group_words(table, widest.least)}"
    text += f" and {most} of {group_words(table, widest.most)} are predicted {positive}: "
    text += _points(widest)
    return [_started(about, text)]


def _of_controls(table: GroupTable, target: Target | None) -> list[str]:
    """Say within which level of the control features groups differ most."""
    if target is None or target.kind != "two labels" or table.controls is None:
        return []
    ratios = []
    for control in range(table.levels):
        gap = table.gap("selection_rate", "ratio", control)
        if gap.value is not None:
            ratios.append(gap)
    about = f"By {_spoken(table)} within {' and '.join(table.controls.columns)}"
    if not ratios:
        return [f"{about}: not enough evidence in any level."]
    worst = min(ratios, key=lambda gap: gap.value or 0.0)
    assert worst.value is not None
    level = table.controls.texts[worst.control]
    text = f"{about}: the smallest impact ratio is {short(worst.value)} ({level}, "
    text += f"{group_words(table, worst.least)} against {group_words(table, worst.most)})"
    if worst.low is not None and worst.high is not None:
        text += f", interval {short(worst.low)} to {short(worst.high)}"
    few = table.levels - len(ratios)
    if few:
        text += f"; {few} of {table.levels} levels have too few people"
    return [f"{text}."]


def _of_unnamed(table: GroupTable, target: Target | None) -> list[str]:
    """Name the groups that are too small for the sentences, and the ratio with them."""
    if target is None or target.favourable is None:
        return []
    name = _first_metric(table, target, ())
    if name not in table.metrics:
        return []
    ratio = table.gap(name, "ratio")
    among_large = table.gap(name, "ratio", smallest=NAMED)
    if ratio.value is None or among_large.value is None or ratio.value == among_large.value:
        return []
    rows = table.metrics[name].n
    compared = table.compared(name)[0]
    small = []
    for place, group in enumerate(table.grouping.texts):
        if compared[place] and rows[place] < NAMED:
            small.append(f"{group} ({rows[place]:,.0f} {table.settings.unit})")
    text = f"By {_spoken(table)}, groups of fewer than {NAMED} {table.settings.unit} are not named "
    text += f"as extremes: {', '.join(small)}; with them the smallest impact ratio is "
    text += short(ratio.value)
    if ratio.low is not None and ratio.high is not None:
        text += f", interval {short(ratio.low)} to {short(ratio.high)}"
    return [f"{text}."]


def _of_left_out(table: GroupTable, target: Target | None, metrics: Sequence[str]) -> list[str]:
    """Name the groups of an attribute that are not compared."""
    name = _first_metric(table, target, metrics)
    if name not in table.metrics or not np.any(table.compared(name)):
        return []
    groups = table.left_out(name)
    if not groups:
        return []
    listed = left_out_words(groups, table.settings.unit)
    return [f"{NOT_COMPARED} {_spoken(table)}: {listed}."]


def _of_numbers(table: GroupTable) -> list[str]:
    """Advise ranges where every number of an attribute, such as an age, is a group of its own."""
    values = [group[0] for group in table.grouping.values]
    numbers = [value for value in values if isinstance(value, int | float | np.number)]
    if len(numbers) <= MOST_NUMBERS:
        return []
    return [
        f"{NOTE}each of the {len(numbers)} numbers of {_spoken(table)} is compared as a group: "
        "pass ranges of them, such as those of `pandas.cut`."
    ]


def _notes(target: Target) -> list[str]:
    """Say what was assumed."""
    notes = [f"{NOTE}{note}." for note in target.notes]
    if target.kind == "two labels" and not target.is_stated:
        outcome = target.favourable_name
        if target.column:
            outcome = outcome_in_words(target.column, outcome)
        why = f" ({target.reason})" if target.reason else ""
        notes.append(
            f"{NOTE}{outcome} is taken as the favourable outcome{why}; `favourable` states another."
        )
    return notes
