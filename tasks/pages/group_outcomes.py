"""How often groups get the unfavourable outcome, and how often a model errs about them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from evenhand.fairlib.catalogue import is_intersection, spoken
from evenhand.fairlib.evaluation.group_selection import NAMED, is_missing
from evenhand.fairlib.evaluation.outcomes import GroupRates, Rate, group_rates
from evenhand.tasks.pages import formats, texts
from evenhand.tasks.pages.page_model import Cell, Json

# Groups of one attribute, and of all, in the first part of a page: two printed pages hold it.
MOST_OF_ATTRIBUTE = 5
MOST_GROUPS = 9
EVERYBODY = "Everybody"


class GroupOutcomes(NamedTuple):
    """One group: shares with the unfavourable outcome, and shares predicted wrongly."""

    label: str
    n: int
    observed: Rate  # share with the unfavourable outcome in the data
    predicted: Rate  # share predicted to have it
    wrongly_adverse: Rate  # of those observed favourable, the share predicted unfavourable
    wrongly_favourable: Rate  # of those observed unfavourable, the share predicted favourable
    wrong: Rate  # share predicted wrongly

    @property
    def is_missing(self) -> bool:
        """Whether these are the rows without a value of an attribute."""
        return is_missing(self.label.rpartition(": ")[2])


def outcomes_by_attribute(metrics: Json) -> dict[str, list[GroupOutcomes]]:
    """Outcomes of every group of each attribute, those of the widest differences first.

    Intersections are left out; more than two labels have no unfavourable outcome, so the result is
    empty.
    """
    if "classes" in metrics["settings"]:
        return {}
    counts = metrics["counts"]
    attributes = [name for name in counts if not is_intersection(name, counts)]
    by_attribute = {}
    for name in attributes:
        prefix = f"{spoken(name)}: " if len(attributes) > 1 else ""
        by_attribute[name] = _outcomes(counts[name], metrics["settings"], prefix)
    widest = sorted(by_attribute, key=lambda name: -_difference(by_attribute[name]))
    return {name: by_attribute[name] for name in widest}


def shown_groups(by_attribute: dict[str, list[GroupOutcomes]]) -> tuple[list[GroupOutcomes], int]:
    """Groups that the first part of a page has room for, and the number of all others."""
    groups: list[GroupOutcomes] = []
    every_group = 0
    for of_attribute in by_attribute.values():
        every_group += len(of_attribute)
        selected = _extremes(of_attribute)
        if not groups or len(groups) + len(selected) <= MOST_GROUPS:
            groups += selected
    return groups, every_group - len(groups)


def everybody(metrics: Json) -> GroupOutcomes | None:
    """Outcomes of all rows together; None without an attribute."""
    counts = metrics["counts"]
    if not counts or "classes" in metrics["settings"]:
        return None
    cells = [{**cell, "group": EVERYBODY} for cell in next(iter(counts.values()))]
    return _outcomes(cells, metrics["settings"], "")[0]


def rate_cell(rate: Rate) -> Cell:
    """A share with its interval; or that there are too few rows."""
    if rate.value is None:
        return texts.lack("too few rows", formats.count(rate.n))
    return Cell(
        formats.percent(rate.value), (formats.interval(rate.low, rate.high, formats.percent),)
    )


def _outcomes(cells: Sequence[Json], settings: Json, prefix: str) -> list[GroupOutcomes]:
    """Outcomes of the groups of one attribute."""
    min_cell = settings.get("min_cell", 5)
    level = settings.get("level", 0.95)
    favourable = texts.favourable_label(settings)
    errors = group_rates(_errors(cells), min_cell, level)
    groups = []
    for rates, wrong in zip(group_rates(cells, min_cell, level, favourable), errors, strict=True):
        wrongly_adverse, wrongly_favourable = _error_rates(rates, favourable)
        groups.append(
            GroupOutcomes(
                label=prefix + rates.group,
                n=rates.n,
                observed=_complement(rates.positive),
                predicted=_complement(rates.selected),
                wrongly_adverse=wrongly_adverse,
                wrongly_favourable=wrongly_favourable,
                wrong=wrong.selected,
            )
        )
    return groups


def _error_rates(rates: GroupRates, favourable: int) -> tuple[Rate, Rate]:
    """Shares of the wrong among those observed favourable, and among those observed
    unfavourable.
    """
    if favourable == 1:
        return _complement(rates.tpr), _complement(rates.tnr)
    return _complement(rates.tnr), _complement(rates.tpr)


def _errors(cells: Sequence[Json]) -> list[Json]:
    """The same cells, which count wrong predictions in place of positive ones."""
    wrong: list[Json] = []
    for cell in cells:
        count = cell["predicted_positive"]
        if cell["label"] == 1:
            count = cell["n"] - count
        wrong.append({**cell, "predicted_positive": count})
    return wrong


def _complement(rate: Rate) -> Rate:
    """The share of the others, with its interval."""
    hits = rate.n - rate.hits
    if rate.value is None or rate.low is None or rate.high is None:
        return Rate(hits, rate.n)
    return Rate(hits, rate.n, 1.0 - rate.value, 1.0 - rate.high, 1.0 - rate.low)


def _difference(groups: Sequence[GroupOutcomes]) -> float:
    """The widest difference of predicted shares between groups."""
    shares = []
    for group in groups:
        if group.predicted.value is not None and not group.is_missing:
            shares.append(group.predicted.value)
    if len(shares) < 2:
        return 0.0
    return max(shares) - min(shares)


def _extremes(groups: list[GroupOutcomes]) -> list[GroupOutcomes]:
    """All groups of an attribute; of many, the largest, and those with the highest and the lowest
    shares, tiny ones last.
    """
    if len(groups) <= MOST_OF_ATTRIBUTE:
        return groups
    measured = [group for group in groups if group.predicted.value is not None]
    large = [group for group in measured if group.n >= NAMED and not group.is_missing]
    if len(large) >= MOST_OF_ATTRIBUTE - 1:
        measured = large
    measured.sort(key=lambda group: group.predicted.value or 0.0)
    half = MOST_OF_ATTRIBUTE // 2
    chosen = [max(measured, key=lambda group: group.n, default=groups[0])]
    for group in [*measured[:half], *measured[-half:], *reversed(measured)]:
        if group not in chosen and len(chosen) < MOST_OF_ATTRIBUTE:
            chosen.append(group)
    return [group for group in groups if group in chosen]
