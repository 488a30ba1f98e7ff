"""Drift of model inputs, sensitive groups and labels: counts in a batch beside those of the
training rows.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evenhand.data_contracts.arrow import decode, group_codes
from evenhand.data_contracts.model import Column, Contract
from evenhand.fairlib.arrays import Int
from evenhand.fairlib.evaluation.binning import count_bins
from evenhand.fairlib.evaluation.drift import (
    LEAST_ROWS,
    Change,
    ColumnDrift,
    column_drift,
    largest_change,
    share,
    share_change,
)
from evenhand.fairlib.evaluation.evaluate import MetricValue
from evenhand.fairlib.evaluation.group_selection import is_missing
from evenhand.fairlib.execution import generator
from evenhand.tasks.steps.profile_step import category_counts, numbers_of

MISSING = "missing"
UNSEEN = "never seen in training"
OTHER = "other"


@dataclass(frozen=True)
class Settings:
    """Settings of a comparison."""

    draws: int  # of the bootstrap
    level: float  # of the intervals
    min_cell: int  # smallest number of people of a group that is shown
    seed: int


@dataclass(frozen=True)
class InputDrift(ColumnDrift):
    """Drift of one model input, with the keys of ``drift.json``."""

    kind: str
    sensitive: bool
    bins: list[dict[str, Any]]  # each with a ``name`` and the shares ``then`` and ``now``
    missing: Change
    unseen: (
        MetricValue | None
    )  # share of rows with a category that training did not have; None for a number
    outside_contract: MetricValue  # share of rows that break a rule
    broken: list[dict[str, Any]]  # these rules with their number of rows


def compare_column(
    values: pa.ChunkedArray,
    column: Column,
    reference: Mapping[str, Any],
    settings: Settings,
    *,
    categories: Collection[str],
    broken: Sequence[tuple[str, int]],
) -> InputDrift:
    """Compare one model input with its entry of ``reference.json``.

    `categories` are those of the encoder; `broken` lists the rules of the contract that rows break,
    each with the number of rows.
    """
    rows = len(values)
    categorical = reference["kind"] == "category"
    new = 0
    # Counts of both samples by bin, missing values last.
    if categorical:
        counts, missing = category_counts(values)
        known = {*categories, *reference["names"]}
        new = sum(count for name, count in counts.items() if name not in known)
        rare = sum(
            counts[name] for name in counts if name in known and name not in reference["names"]
        )
        names = [*reference["names"], OTHER, UNSEEN, MISSING]
        now = [*(counts.get(name, 0) for name in reference["names"]), rare, new, missing]
        then = [*reference["counts"], reference["other"], 0, reference["missing"]]
    else:
        numbers = numbers_of(values, column)
        names = [*bin_labels(reference["edges"], reference["kind"]), MISSING]
        now = [*count_bins(numbers, reference["edges"]).tolist(), int(np.isnan(numbers).sum())]
        then = [*reference["counts"], reference["missing"]]
    drift = column_drift(
        now,
        then,
        draws=settings.draws,
        level=settings.level,
        random=generator(settings.seed, "drift", column.name),
        ordered=0 if categorical else len(reference["counts"]),
    )
    sensitive = column.role == "sensitive"
    least = settings.min_cell if sensitive else 0
    # A small count of a sensitive attribute is replaced by the largest small count, min_cell - 1.
    new, *failed = (
        least - 1 if 0 < count < least else count
        for count in (new, *(count for _, count in broken))
    )
    # Missing values of a sensitive attribute are a group, as in the reference.
    missing_counts = 0 if now[-1] < least else now[-1], rows, then[-1], sum(then)
    return InputDrift(
        **vars(drift),
        kind=reference["kind"],
        sensitive=sensitive,
        bins=_shares(names, now, then, least),
        missing=share_change(*missing_counts, level=settings.level, least=LEAST_ROWS),
        unseen=share(new, rows, level=settings.level) if categorical else None,
        # A row that breaks two rules counts twice: the share is an upper bound.
        outside_contract=share(min(sum(failed), rows), rows, level=settings.level),
        broken=[
            {"rule": rule, "rows": count} for (rule, _), count in zip(broken, failed, strict=True)
        ],
    )


def _shares(
    names: Sequence[str], now: Sequence[int], then: Sequence[int], least: int
) -> list[dict[str, Any]]:
    """Shares by name where there are any; bins that fewer than `least` rows have now are shown as
    one.
    """
    n = max(sum(now), 1)
    m = max(sum(then), 1)
    shown = []
    few_now = 0
    few_then = 0
    for name, a, b in zip(names, now, then, strict=True):
        if 0 < a < least:
            few_now = few_now + a
            few_then = few_then + b
        elif a or b:
            shown.append((name, b / m, a / n))
    if 0 < few_now < least:
        # Else the shares would add up to less than 1, and so reveal the number of rows left out.
        rest = max(n - few_now, 1)
        shown = [(name, share_then, share_now * n / rest) for name, share_then, share_now in shown]
    elif few_now:
        pooled = {name: (share_then, share_now) for name, share_then, share_now in shown}
        share_then, share_now = pooled.get(OTHER, (0.0, 0.0))
        pooled[OTHER] = (share_then + few_then / m, share_now + few_now / n)
        shown = [(name, *shares) for name, shares in pooled.items()]
    return [
        {"name": name, "then": share_then, "now": share_now}
        for name, share_then, share_now in shown
    ]


def bin_labels(edges: Sequence[float], kind: str) -> list[str]:
    """Names of the bins between edges; an edge belongs to the bin above it."""
    if not edges:
        return ["any value"]
    texts = [_edge(edge, kind) for edge in edges]
    if len(edges) == 2 and edges[1] == np.nextafter(edges[0], np.inf):
        return [f"below {texts[0]}", texts[0], f"above {texts[0]}"]
    middle = [f"{low} to below {high}" for low, high in zip(texts, texts[1:], strict=False)]
    return [f"below {texts[0]}", *middle, f"{texts[-1]} and above"]


def _edge(edge: float, kind: str) -> str:
    if kind == "date":
        day = dt.date(1970, 1, 1).toordinal() + int(np.ceil(edge))
        return (
            dt.date.fromordinal(day).isoformat()
            if 0 < day <= dt.date.max.toordinal()
            else f"day {edge:g}"
        )
    return f"{edge:.12g}"


# sensitive groups and labels

NO_LABEL = MetricValue.insufficient("the batch has no label")


@dataclass(frozen=True)
class ClassChange(Change):
    """Largest change of the share of one of more than two labels, and the shares of all by
    ``name``.
    """

    classes: list[dict[str, Any]]


@dataclass(frozen=True)
class GroupDrift:
    """Drift of a sensitive attribute's groups, with the keys of ``drift.json``."""

    share_change: MetricValue
    label_rate_change: MetricValue
    # Shares and base rates of every group, then and now; None of too few people, or of a column
    # that the batch does not have.
    rows: list[dict[str, Any]]


def labels_of(table: pa.Table, contract: Contract, inputs: Mapping[str, Any]) -> Int | None:
    """Per row the position of its label, 1 for the positive one of two; None without such a column.

    It is -1 for a missing label, or one that the model does not know; shape (n,).
    """
    label = contract.label
    if label.name not in table.column_names:
        return None
    values = decode(table[label.name])
    if label.classes:
        codes = pc.index_in(
            values, value_set=pa.array(list(label.classes), type=values.type)
        ).fill_null(-1)
        return np.asarray(codes.to_numpy(), dtype=np.int64)
    allowed = label.allowed or inputs.get("label_values")
    known = pc.is_valid(values)
    if allowed is not None:
        known = pc.and_(
            known, pc.is_in(values, value_set=pa.array(list(allowed), type=values.type))
        )
    positive = pc.equal(values, pa.scalar(label.positive, type=values.type)).fill_null(False)
    return np.where(known.to_numpy(), positive.to_numpy().astype(np.int64), -1)


def compare_label(
    labels: Int | None, classes: Sequence[str], reference: Mapping[str, Any], settings: Settings
) -> Change:
    """Change of the share of positive labels, or of more than two labels, `classes`, the largest
    change.
    """
    if classes:
        now = None if labels is None else np.bincount(labels[labels >= 0], minlength=len(classes))
        then = reference["label"]["classes"], reference["rows"]
        return compare_classes(
            None if now is None else now.tolist(), classes, then, settings, NO_LABEL
        )
    positive = reference["label"]["positive"]
    m = reference["rows"]
    if labels is None:
        return Change(positive / m, None, NO_LABEL)
    count = int((labels == 1).sum())
    n = int((labels >= 0).sum())
    return share_change(count, n, positive, m, level=settings.level, least=LEAST_ROWS)


def compare_classes(
    now: Sequence[int] | None,
    names: Sequence[str],
    then: tuple[Mapping[str, int], int] | None,
    settings: Settings,
    lack: MetricValue,
) -> ClassChange:
    """Largest change of a label's share; `lack` says why there is none where `now` or `then` is
    None.

    `now` has the rows of each of `names`; `then` those of some names, and all rows: the labels that
    it leaves out are together ``other``.
    """
    if now is None or then is None:
        return ClassChange(None, None, lack, [])
    before, m = then
    sizes = dict(zip(names, now, strict=True))
    rows = [(name, sizes[name], count) for name, count in before.items()]
    n = sum(now)
    rest = n - sum(row[1] for row in rows), m - sum(before.values())
    rows += [(OTHER, *rest)] if any(rest) else []
    shown = [{"name": name, "then": b / m, "now": a / n if n else None} for name, a, b in rows]
    if min(n, m) < LEAST_ROWS:
        short = MetricValue.insufficient(f"{min(n, m):,} rows are fewer than {LEAST_ROWS}")
        return ClassChange(None, None, short, shown)
    pairs = [(a, n) for _, a, _ in rows], [(b, m) for _, _, b in rows]
    return ClassChange(None, None, largest_change(*pairs, level=settings.level), shown)


def compare_groups(
    table: pa.Table,
    column: Column,
    reference: Mapping[str, Any],
    labels: Int | None,
    settings: Settings,
) -> GroupDrift:
    """Compare the groups of one attribute.

    A group of fewer than `min_cell` people in the batch counts as one less than that, the largest
    such number, so that its size stays hidden. Groups that were small in training, and new ones,
    are together ``other``. Of more than two labels the reference has no counts by group.
    """
    least = settings.min_cell
    level = settings.level
    names = [*reference["names"], OTHER]
    then = [*reference["counts"], reference["other"]]
    two_labels = "positives" in reference
    positives = (
        [*reference["positives"], reference["other_positives"]] if two_labels else [0] * len(then)
    )
    counts = rows = hits = np.zeros(len(names), dtype=np.int64)
    shares = rates = MetricValue.insufficient("the batch does not tell this attribute")
    known = column.name in table.column_names
    if known:
        found, codes = group_codes(table[column.name], column)
        place = {name: i for i, name in enumerate(reference["names"])}
        group = np.array([place.get(name, len(place)) for name in found], dtype=np.int64)[codes]
        counts = np.bincount(group, minlength=len(names))
    few = (counts > 0) & (counts < least)
    counts = np.where(few, least - 1, counts)
    n = int(counts.sum())
    m = sum(then)
    if known:
        shares = MetricValue.insufficient(f"the groups have fewer than {LEAST_ROWS} rows")
        if min(n, m) >= LEAST_ROWS:
            there = [i for i in range(len(names)) if counts[i] or then[i]]
            shares = largest_change(
                [(int(counts[i]), n) for i in there], [(then[i], m) for i in there], level=level
            )
        rates = (
            NO_LABEL
            if two_labels
            else MetricValue.insufficient("there are no counts of labels by group")
        )
    if known and labels is not None and two_labels:
        labelled = group[labels >= 0]
        rows = np.bincount(labelled, minlength=len(names))
        hits = np.bincount(labelled, weights=labels[labels >= 0], minlength=len(names))
        # The groups that the reference names and that have enough rows; missing values are no
        # group.
        named = [
            i
            for i in range(len(names) - 1)
            if not is_missing(names[i]) and min(rows[i], then[i]) >= least
        ]
        rates = MetricValue.insufficient(f"no group has {least} labelled rows, now and then")
        if named:
            rates = largest_change(
                [(int(hits[i]), int(rows[i])) for i in named],
                [(positives[i], then[i]) for i in named],
                level=level,
            )
    # Shares are of the rows of shown groups: shares of all rows would reveal the small groups'
    # sizes.
    shown = max(int(counts[~few].sum()), 1)
    return GroupDrift(
        shares,
        rates,
        [
            {
                "group": name,
                "then": then[i] / max(m, 1),
                "now": int(counts[i]) / shown if known and not few[i] else None,
                "few": bool(few[i]),
                "label_then": positives[i] / then[i] if then[i] and two_labels else None,
                "label_now": float(hits[i] / rows[i]) if rows[i] >= max(least, 1) else None,
            }
            for i, name in enumerate(names)
            if i < len(names) - 1 or then[i] or counts[i]
        ],
    )
