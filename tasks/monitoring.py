"""Drift of model inputs, sensitive groups and labels: counts in a batch compared with those of the
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
from numpy.typing import NDArray

from evenhand.data_contracts.arrow import decode, group_codes, numbers_of, reaches
from evenhand.data_contracts.model import Column, Contract
from evenhand.fairlib.arrays import Bool, Int
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
from evenhand.fairlib.preprocessing.encoder import category_counts

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
    if categorical:
        bins = _category_bins(values, reference, categories)
        ordered = 0
    else:
        bins = _number_bins(values, column, reference)
        ordered = len(reference["counts"])
    drift = column_drift(
        bins.now,
        bins.then,
        draws=settings.draws,
        level=settings.level,
        random=generator(settings.seed, "drift", column.name),
        ordered=ordered,
    )
    sensitive = column.role == "sensitive"
    least = 0
    if sensitive:
        least = settings.min_cell
    unseen = None
    if categorical:
        unseen = share(_hidden(bins.unseen, least), rows, level=settings.level)
    broken_counts = [_hidden(count, least) for _, count in broken]
    broken_rules: list[dict[str, Any]] = []
    for (rule, _), count in zip(broken, broken_counts, strict=True):
        broken_rules.append({"rule": rule, "rows": count})
    # A row that breaks two rules counts twice: the share is an upper bound.
    outside = min(sum(broken_counts), rows)
    # Missing values of a sensitive attribute are a group, as in the reference.
    missing = bins.now[-1]
    if missing < least:
        missing = 0
    return InputDrift(
        **vars(drift),
        kind=reference["kind"],
        sensitive=sensitive,
        bins=_shares(bins.names, bins.now, bins.then, least),
        missing=share_change(
            missing,
            rows,
            bins.then[-1],
            sum(bins.then),
            level=settings.level,
            least=LEAST_ROWS,
        ),
        unseen=unseen,
        outside_contract=share(outside, rows, level=settings.level),
        broken=broken_rules,
    )


@dataclass(frozen=True)
class _Bins:
    """Counts of a column's values by bin, now and in training, missing values last."""

    names: list[str]
    now: list[int]
    then: list[int]
    unseen: int = 0  # rows with a category that training did not have


def _category_bins(
    values: pa.ChunkedArray, reference: Mapping[str, Any], categories: Collection[str]
) -> _Bins:
    """Counts by category; small categories of the training rows are together ``other``."""
    counts, missing = category_counts(decode(values))
    names = list(reference["names"])
    trained = {*categories, *names}
    rare = 0
    unseen = 0
    for name, count in counts.items():
        if name not in trained:
            unseen += count
        elif name not in names:
            rare += count
    return _Bins(
        names=[*names, OTHER, UNSEEN, MISSING],
        now=[*(counts.get(name, 0) for name in names), rare, unseen, missing],
        then=[*reference["counts"], reference["other"], 0, reference["missing"]],
        unseen=unseen,
    )


def _number_bins(values: pa.ChunkedArray, column: Column, reference: Mapping[str, Any]) -> _Bins:
    """Counts by the bins of the training rows."""
    numbers = numbers_of(values, column)
    edges = reference["edges"]
    missing = int(np.isnan(numbers).sum())
    return _Bins(
        names=[*bin_labels(edges, reference["kind"]), MISSING],
        now=[*count_bins(numbers, edges).tolist(), missing],
        then=[*reference["counts"], reference["missing"]],
    )


def _hidden(count: int, least: int) -> int:
    """Replace a count below `least`, but for 0, by the largest such count."""
    if 0 < count < least:
        return least - 1
    return count


def _shares(
    names: Sequence[str], now: Sequence[int], then: Sequence[int], least: int
) -> list[dict[str, Any]]:
    """Shares by name where there are any; bins that fewer than `least` rows have now are shown as
    one.
    """
    n = max(sum(now), 1)
    m = max(sum(then), 1)
    shares: list[tuple[str, float, float]] = []  # name, then and now
    few_now = 0
    few_then = 0
    for name, count_now, count_then in zip(names, now, then, strict=True):
        if 0 < count_now < least:
            few_now += count_now
            few_then += count_then
        elif count_now or count_then:
            shares.append((name, count_then / m, count_now / n))
    if 0 < few_now < least:
        # Else the shares would add up to less than 1, and so reveal the number of rows left out.
        visible = max(n - few_now, 1)
        shares = [(name, before, after * n / visible) for name, before, after in shares]
    elif few_now:
        pooled = {name: (before, after) for name, before, after in shares}
        before, after = pooled.get(OTHER, (0.0, 0.0))
        pooled[OTHER] = (before + few_then / m, after + few_now / n)
        shares = [(name, *pair) for name, pair in pooled.items()]
    return [{"name": name, "then": before, "now": after} for name, before, after in shares]


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
        if 0 < day <= dt.date.max.toordinal():
            return dt.date.fromordinal(day).isoformat()
        return f"day {edge:g}"
    return f"{edge:.12g}"


# sensitive groups and labels

NO_LABEL = MetricValue.insufficient("the batch has no label")
NO_ATTRIBUTE = "the batch has no values of this attribute"


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
        classes = pa.array(list(label.classes), type=values.type)
        codes = pc.index_in(values, value_set=classes).fill_null(-1)
        return np.asarray(codes.to_numpy(), dtype=np.int64)
    if label.at_least is not None:
        codes = reaches(values, label.at_least).cast(pa.int64()).fill_null(-1)
        return np.asarray(codes.to_numpy(), dtype=np.int64)
    allowed = label.allowed or inputs.get("label_values")
    is_label = pc.is_valid(values)
    if allowed is not None:
        allowed_values = pa.array(list(allowed), type=values.type)
        is_label = pc.and_(is_label, pc.is_in(values, value_set=allowed_values))
    positive = pc.equal(values, pa.scalar(label.positive, type=values.type)).fill_null(False)
    return np.where(is_label.to_numpy(), positive.to_numpy().astype(np.int64), -1)


def compare_label(
    labels: Int | None, classes: Sequence[str], reference: Mapping[str, Any], settings: Settings
) -> Change:
    """Change of the share of positive labels, or of more than two labels, `classes`, the largest
    change.
    """
    if classes:
        now: list[int] | None = None
        if labels is not None:
            now = np.bincount(labels[labels >= 0], minlength=len(classes)).tolist()
        then = reference["label"]["classes"], reference["rows"]
        return compare_classes(now, classes, then, settings, NO_LABEL)
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
    other_now = n - sum(row[1] for row in rows)
    other_then = m - sum(before.values())
    if other_now or other_then:
        rows.append((OTHER, other_now, other_then))
    shares: list[dict[str, Any]] = []
    for name, count_now, count_then in rows:
        share_now = None
        if n:
            share_now = count_now / n
        shares.append({"name": name, "then": count_then / m, "now": share_now})
    if min(n, m) < LEAST_ROWS:
        short = MetricValue.insufficient(f"{min(n, m):,} rows are fewer than {LEAST_ROWS}")
        return ClassChange(None, None, short, shares)
    pairs_now = [(count_now, n) for _, count_now, _ in rows]
    pairs_then = [(count_then, m) for _, _, count_then in rows]
    change = largest_change(pairs_now, pairs_then, level=settings.level)
    return ClassChange(None, None, change, shares)


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
    counts = _GroupCounts.of(table, column, reference, labels, settings.min_cell)
    return GroupDrift(
        _group_share_change(counts, settings),
        _label_rate_change(counts, settings),
        _group_rows(counts, settings.min_cell),
    )


@dataclass(frozen=True)
class _GroupCounts:
    """Counts of people by group, now and in training; the last group is ``other``."""

    names: list[str]
    then: list[int]
    positives_then: list[int]
    now: NDArray[np.int64]  # small counts are replaced by the largest such count
    few: Bool  # whether they are replaced
    labelled: NDArray[np.int64]  # people with a label
    positives: NDArray[Any]  # of these those with the positive one
    has_column: bool  # whether the batch has the attribute
    has_positives: bool  # whether the reference counts labels by group
    has_labels: bool  # whether the batch's labels are counted by group

    @classmethod
    def of(
        cls,
        table: pa.Table,
        column: Column,
        reference: Mapping[str, Any],
        labels: Int | None,
        least: int,
    ) -> _GroupCounts:
        """Count the rows of a batch."""
        names = [*reference["names"], OTHER]
        then = [*reference["counts"], reference["other"]]
        has_positives = "positives" in reference
        positives_then = [0] * len(then)
        if has_positives:
            positives_then = [*reference["positives"], reference["other_positives"]]
        counts = np.zeros(len(names), dtype=np.int64)
        labelled = np.zeros(len(names), dtype=np.int64)
        positives: NDArray[Any] = np.zeros(len(names), dtype=np.int64)
        has_column = column.name in table.column_names
        has_labels = has_column and labels is not None and has_positives
        if has_column:
            group = _group_positions(table, column, reference["names"])
            counts = np.bincount(group, minlength=len(names))
            if labels is not None and has_positives:
                is_labelled = labels >= 0
                group = group[is_labelled]
                labelled = np.bincount(group, minlength=len(names))
                positives = np.bincount(group, weights=labels[is_labelled], minlength=len(names))
        few = (counts > 0) & (counts < least)
        return cls(
            names=names,
            then=then,
            positives_then=positives_then,
            now=np.where(few, least - 1, counts),
            few=few,
            labelled=labelled,
            positives=positives,
            has_column=has_column,
            has_positives=has_positives,
            has_labels=has_labels,
        )


def _group_positions(table: pa.Table, column: Column, names: Sequence[str]) -> Int:
    """Per row the position of its group in `names`, or their number for any other group."""
    batch_names, codes = group_codes(table[column.name], column)
    place = {name: i for i, name in enumerate(names)}
    positions = [place.get(name, len(place)) for name in batch_names]
    return np.array(positions, dtype=np.int64)[codes]


def _group_share_change(counts: _GroupCounts, settings: Settings) -> MetricValue:
    """Largest change of a group's share."""
    if not counts.has_column:
        return MetricValue.insufficient(NO_ATTRIBUTE)
    n = int(counts.now.sum())
    m = sum(counts.then)
    if min(n, m) < LEAST_ROWS:
        return MetricValue.insufficient(f"the groups have fewer than {LEAST_ROWS} rows")
    now = []
    then = []
    for count_now, count_then in zip(counts.now, counts.then, strict=True):
        if count_now or count_then:
            now.append((int(count_now), n))
            then.append((count_then, m))
    return largest_change(now, then, level=settings.level)


def _label_rate_change(counts: _GroupCounts, settings: Settings) -> MetricValue:
    """Largest change of a group's share of positive labels."""
    if not counts.has_column:
        return MetricValue.insufficient(NO_ATTRIBUTE)
    if not counts.has_positives:
        return MetricValue.insufficient("there are no counts of labels by group")
    if not counts.has_labels:
        return NO_LABEL
    least = settings.min_cell
    now = []
    then = []
    # The groups that the reference names and that have enough rows; missing values are no group.
    for i, name in enumerate(counts.names[:-1]):
        if not is_missing(name) and min(counts.labelled[i], counts.then[i]) >= least:
            now.append((int(counts.positives[i]), int(counts.labelled[i])))
            then.append((counts.positives_then[i], counts.then[i]))
    if not now:
        return MetricValue.insufficient(f"no group has {least} labelled rows, now and then")
    return largest_change(now, then, level=settings.level)


def _group_rows(counts: _GroupCounts, least: int) -> list[dict[str, Any]]:
    """Shares and base rates of every group, then and now."""
    m = max(sum(counts.then), 1)
    # Shares are of the rows of shown groups: shares of all rows would reveal the small groups'
    # sizes.
    n = max(int(counts.now[~counts.few].sum()), 1)
    rows = []
    for i, name in enumerate(counts.names):
        if i == len(counts.names) - 1 and not (counts.then[i] or counts.now[i]):
            continue
        row: dict[str, Any] = {
            "group": name,
            "then": counts.then[i] / m,
            "now": None,
            "few": bool(counts.few[i]),
            "label_then": None,
            "label_now": None,
        }
        if counts.has_column and not counts.few[i]:
            row["now"] = int(counts.now[i]) / n
        if counts.then[i] and counts.has_positives:
            row["label_then"] = counts.positives_then[i] / counts.then[i]
        if counts.labelled[i] >= max(least, 1):
            row["label_now"] = float(counts.positives[i] / counts.labelled[i])
        rows.append(row)
    return rows
