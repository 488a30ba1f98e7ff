"""One model input of a batch beside the counts of the training rows."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from evenhand.data_contracts.model import Column as ContractColumn
from evenhand.fairlib.evaluation.binning import count_bins
from evenhand.fairlib.evaluation.drift import LEAST_ROWS, ColumnDrift, column_drift, share, share_change
from evenhand.fairlib.evaluation.evaluate import MetricValue
from evenhand.fairlib.randomness import generator
from evenhand.tasks.monitoring.columns import category_counts, numbers_of
from evenhand.tasks.monitoring.reading import Batch

__all__ = ["Column", "Settings", "ShareThenNow", "bin_labels", "compare_column", "then_and_now"]

MISSING, UNSEEN, OTHER = "missing", "never seen in training", "other"


@dataclass(frozen=True)
class Settings:
    """Bootstrap draws, level of the intervals, fewest people of a group that is told, and seed."""

    draws: int
    level: float
    min_cell: int
    seed: int


@dataclass(frozen=True)
class ShareThenNow:
    """A share in the reference and in the batch, None where it is not known, and the size of its change."""

    then: float | None
    now: float | None
    metric: MetricValue

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {"then": self.then, "now": self.now, "change": asdict(self.metric)}


def then_and_now(count: int, n: int, count_then: int, m: int, level: float) -> ShareThenNow:
    """Compare two shares; insufficient where either is one of fewer than 20 rows."""
    if min(n, m) < LEAST_ROWS:
        reason = f"{min(n, m):,} rows are fewer than {LEAST_ROWS}"
        return ShareThenNow(count_then / m if m else None, None, MetricValue.insufficient(reason))
    found = share_change(count, n, count_then, m, level=level)
    return ShareThenNow(found.then, found.now, found.size)


@dataclass(frozen=True)
class Column:
    """
    What became of a model input.

    `bins` are names with the shares then and now; `unseen` is None of a number; `broken` are the contract's
    rules that rows break, with how many do.
    """

    kind: str
    sensitive: bool
    drift: ColumnDrift
    bins: Sequence[tuple[str, float, float]]
    missing: ShareThenNow
    unseen: MetricValue | None
    outside: MetricValue
    broken: Sequence[tuple[str, int]]

    def to_json(self, adjusted: float | None) -> dict[str, Any]:
        """Plain JSON, with the p-value corrected for the number of columns."""
        return {
            "kind": self.kind,
            "sensitive": self.sensitive,
            "psi": asdict(self.drift.psi),
            "expected_psi": self.drift.expected,
            "p_value": adjusted,
            "bins_compared": self.drift.bins,
            "bins": [{"name": name, "then": then, "now": now} for name, then, now in self.bins],
            "missing": self.missing.to_json(),
            "unseen": None if self.unseen is None else asdict(self.unseen),
            "outside_contract": asdict(self.outside),
            "broken": [{"rule": rule, "rows": rows} for rule, rows in self.broken],
        }


def compare_column(
    batch: Batch,
    column: ContractColumn,
    told: Mapping[str, Any],
    categories: Collection[str] | None,
    settings: Settings,
) -> Column:
    """
    Compare one model input.

    Parameters
    ----------
    batch : Batch
    column : evenhand.data_contracts.model.Column
    told : mapping
        Its entry of ``reference.json``.
    categories : collection of str or None
        Those that the encoder knows; None of a number.
    settings : Settings
    """
    values, rows = batch.table[column.name], batch.table.num_rows
    new = 0
    if told["kind"] == "category":
        names, now, then, new = _categories(values, told, categories or ())
        ordered = 0
    else:
        names, now, then = _numbers(values, column, told)
        ordered = len(told["counts"])
    random = generator(settings.seed, "drift", column.name)
    drift = column_drift(
        now, then, draws=settings.draws, level=settings.level, random=random, ordered=ordered
    )
    broken = batch.broken.get(column.name, [])
    sensitive = column.role == "sensitive"
    if sensitive:  # how many, if they are few, is nobody's business
        new = _told(new, settings)
        broken = [(rule, _told(count, settings)) for rule, count in broken]
    # a row that breaks two rules counts twice: too many rather than too few
    outside = min(sum(count for _, count in broken), rows)
    return Column(
        kind=told["kind"],
        sensitive=sensitive,
        drift=drift,
        bins=_shares(names, now, then, settings.min_cell if sensitive else 0),
        # missing values of a sensitive attribute are a group, as in the reference
        missing=then_and_now(
            0 if sensitive and now[-1] < settings.min_cell else now[-1],
            rows,
            then[-1],
            sum(then),
            settings.level,
        ),
        unseen=share(new, rows, level=settings.level) if told["kind"] == "category" else None,
        outside=share(outside, rows, level=settings.level),
        broken=broken,
    )


def _told(count: int, settings: Settings) -> int:
    """A count that tells of nobody alone: a small one becomes the most it can be, `min_cell` less one."""
    return settings.min_cell - 1 if 0 < count < settings.min_cell else count


def _numbers(
    values: pa.ChunkedArray, column: ContractColumn, told: Mapping[str, Any]
) -> tuple[list[str], list[int], list[int]]:
    """Names of the bins and counts of both samples, missing values last."""
    numbers = numbers_of(values, column)
    now = [*count_bins(numbers, told["edges"]).tolist(), int(np.isnan(numbers).sum())]
    return [*bin_labels(told["edges"], told["kind"]), MISSING], now, [*told["counts"], told["missing"]]


def _categories(
    values: pa.ChunkedArray, told: Mapping[str, Any], categories: Collection[str]
) -> tuple[list[str], list[int], list[int], int]:
    """Names and counts of both samples, missing values last; and rows with a category that is new."""
    counts, missing = category_counts(values)
    known = {*categories, *told["names"]}
    new = sum(count for name, count in counts.items() if name not in known)
    rare = sum(count for name, count in counts.items() if name in known and name not in told["names"])
    now = [*(counts.get(name, 0) for name in told["names"]), rare, new, missing]
    then = [*told["counts"], told["other"], 0, told["missing"]]
    return [*told["names"], OTHER, UNSEEN, MISSING], now, then, new


def _shares(
    names: Sequence[str], now: Sequence[int], then: Sequence[int], least: int
) -> list[tuple[str, float, float]]:
    """Shares by name where there are any; bins that fewer than `least` rows have now are told as one."""
    n, m = max(sum(now), 1), max(sum(then), 1)
    shown, few = [], [0, 0]
    for name, a, b in zip(names, now, then, strict=True):
        if 0 < a < least:
            few = [few[0] + a, few[1] + b]
        elif a or b:
            shown.append((name, b / m, a / n))
    if 0 < few[0] < least:
        # what is left of the whole would tell how few they are
        return [(name, b, a * n / max(n - few[0], 1)) for name, b, a in shown]
    if not few[0]:
        return shown
    told = {name: (then_, now_) for name, then_, now_ in shown}
    then_, now_ = told.get(OTHER, (0.0, 0.0))
    told[OTHER] = (then_ + few[1] / m, now_ + few[0] / n)
    return [(name, *shares) for name, shares in told.items()]


def bin_labels(edges: Sequence[float], kind: str) -> list[str]:
    """Name the bins between edges, each of which belongs to the bin above it."""
    if not edges:
        return ["any value"]
    if len(edges) == 2 and edges[1] == np.nextafter(edges[0], np.inf):
        value = _edge(edges[0], kind)
        return [f"below {value}", value, f"above {value}"]
    texts = [_edge(edge, kind) for edge in edges]
    middle = [f"{low} to below {high}" for low, high in zip(texts, texts[1:], strict=False)]
    return [f"below {texts[0]}", *middle, f"{texts[-1]} and above"]


def _edge(edge: float, kind: str) -> str:
    if kind == "date":
        day = dt.date(1970, 1, 1).toordinal() + int(np.ceil(edge))
        return dt.date.fromordinal(day).isoformat() if 0 < day <= dt.date.max.toordinal() else f"day {edge:g}"
    return f"{edge:.12g}"
